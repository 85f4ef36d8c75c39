"""Models in other formats and places."""
