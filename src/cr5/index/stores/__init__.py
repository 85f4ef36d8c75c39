"""Where the rows of an index are kept: LanceDB or PostgreSQL."""
