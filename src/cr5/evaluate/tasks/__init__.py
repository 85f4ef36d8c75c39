"""Evaluation tasks: held-out documents, aligned sentences, translations of words, and the table of the paper."""
