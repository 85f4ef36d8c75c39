"""Adapters: a model where another library wants its embeddings from."""
