"""Files: models, vectors and JSON, atomic writes, locks, compression, and scratch files for large arrays."""
