"""The search index: documents with their vectors, kept in a store and found by meaning."""
