"""The HTTP server of an index: an API for programs and, in ``static``, a search page for people."""
