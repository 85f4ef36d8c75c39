"""Texts to sparse rows: tokens, vocabulary, TF-IDF weights."""
