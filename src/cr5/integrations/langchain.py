"""Embeddings for LangChain: ``InMemoryVectorStore(Cr5Embeddings("model"))`` searches across languages."""

from pathlib import Path

from cr5.errors import Cr5Error
from cr5.model import Cr5

try:
    from langchain_core.embeddings import Embeddings
except ModuleNotFoundError as error:
    raise Cr5Error("Cr5Embeddings needs LangChain; install it with pip install 'cr5[langchain]'") from error


class Cr5Embeddings(Embeddings):
    """A model, or the folder of one, as LangChain knows embeddings.

    Every text is taken to be in ``lang``, or in the language that the model guesses where none is given.
    """

    def __init__(self, model: Cr5 | str | Path, lang: str | None = None) -> None:
        self.model = model if isinstance(model, Cr5) else Cr5.load(model)
        self.lang = lang

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Texts, of one language or several -> a vector of length 1 for each; zeros where no word is known."""
        vectors, _ = self.model.encode_mixed(texts, [self.lang] * len(texts))
        rows: list[list[float]] = vectors.tolist()
        return rows

    def embed_query(self, text: str) -> list[float]:
        """A text -> its vector, the same as that of a document."""
        return self.embed_documents([text])[0]
