"""Retrieval: the scores of queries x candidates, the best k, and explanations."""
