"""Embedders for other libraries: LangChain and Haystack."""
