"""From counted documents to the maps of a model."""
