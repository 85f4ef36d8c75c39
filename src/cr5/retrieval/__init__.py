"""Queries x candidates: scores, the best k, and why they match."""
