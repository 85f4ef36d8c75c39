"""Search in an index, measured by known items: queries made out of its documents, or written by hand."""
