"""Components for other libraries: LangChain, Haystack, LlamaIndex, scikit-learn, MTEB."""
