"""Models in other places and formats than a folder of this machine."""
