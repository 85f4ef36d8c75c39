"""Stores for the rows of an index: LanceDB in a folder, PostgreSQL in a server."""
