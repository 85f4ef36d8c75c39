"""Embeddings for LangChain: ``InMemoryVectorStore(Cr5Embeddings("model"))`` searches across languages."""

from pathlib import Path

from cr5.corpus.texts import text_list
from cr5.errors import MissingPackageError
from cr5.model import Cr5

try:
    from langchain_core.embeddings import Embeddings
except ModuleNotFoundError as error:
    raise MissingPackageError("Cr5Embeddings needs LangChain; install it with pip install 'cr5[langchain]'") from error


class Cr5Embeddings(Embeddings):
    """A model, or the folder of one, with the interface of LangChain's embeddings.

    All texts are in ``lang``; without it, the model guesses the language of each.
    """

    def __init__(self, model: Cr5 | str | Path, lang: str | None = None) -> None:
        self.model = model if isinstance(model, Cr5) else Cr5.load(model)
        self.lang = lang

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Texts -> a vector of length 1 for each, or all zeros if the model knows none of its words."""
        return [vector.tolist() for vector in self.model.encode(text_list(texts), self.lang)]

    def embed_query(self, text: str) -> list[float]:
        """A text -> its vector, which is the same for queries and documents."""
        return self.embed_documents([text])[0]
