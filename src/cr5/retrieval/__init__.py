"""Search: queries x candidates -> scores, the best k, and explanations."""
