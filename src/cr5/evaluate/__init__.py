"""How good a model is. Knows the right answers."""
