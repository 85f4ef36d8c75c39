"""What makes two texts similar: the contributions of their words."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from cr5._typing import Array


class Contribution(NamedTuple):
    """A word and what it adds to a similarity."""

    word: str
    value: float


class Pair(NamedTuple):
    """A word of one text, a word of the other, and what the two add to the similarity."""

    word_a: str
    word_b: str
    value: float


class Explanation(NamedTuple):
    """Why two texts are similar.

    The contributions of ``words_a`` and ``rest_a`` add up to ``similarity``, and so do those of
    ``words_b`` and ``rest_b``; rest is what centring subtracts and the words that are not listed.
    ``pairs`` are the strongest products of one word of each text.
    """

    similarity: float
    words_a: list[Contribution]
    words_b: list[Contribution]
    pairs: list[Pair]
    rest_a: float
    rest_b: float


class Explainer(Protocol):
    """A model that encodes texts and explains their similarity."""

    def encode(self, texts: Sequence[str], lang: str) -> Array:
        """Texts of one language -> texts x rank, unit rows."""
        ...

    def explain(self, text_a: str, lang_a: str, text_b: str, lang_b: str, k: int = 10) -> Explanation:
        """The words that make two texts similar, with their contributions to the cosine."""
        ...
