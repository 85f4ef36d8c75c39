"""The server: an index over HTTP, for programs and, with the page in ``static``, for people."""
