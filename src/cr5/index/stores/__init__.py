"""Stores for the rows of an index: LanceDB in a folder, PostgreSQL on a server."""
