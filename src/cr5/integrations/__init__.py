"""Components for other libraries: LangChain, Haystack, scikit-learn."""
