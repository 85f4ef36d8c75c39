"""Documents in files: read, write, language codes, near-duplicates."""
