"""Corpora from elsewhere: one file per source, each yields documents."""
