"""Downloads of large files over HTTP, resumable and polite."""
