"""What makes two texts similar: the contributions of their words."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cr5._typing import Array


class Contribution(NamedTuple):
    """A word and what it adds to the cosine of two vectors; all contributions and the rest add up to it."""

    word: str
    value: float


class WordPairContribution(NamedTuple):
    """A word of one text, a word of the other, and what their product adds to the similarity."""

    word_a: str
    word_b: str
    value: float


class CosineFall(NamedTuple):
    """A word, and by how much the cosine of a view drops if the word is removed from its text.

    Drops do not add up to the cosine: where two words say the same, it hardly drops without one of them.
    """

    word: str
    fall: float


class ViewContribution(NamedTuple):
    """What one view adds to the similarity of two texts: ``share`` x ``cosine``.

    ``words_a`` and ``words_b`` are the words without which its cosine drops most. A view's cosine is not a sum over
    words, as that of two vectors is (``Explanation.words_a``), so that they have drops and no contributions.
    """

    view: str
    share: float
    cosine: float
    words_a: list[CosineFall]
    words_b: list[CosineFall]


class Explanation(NamedTuple):
    """Why two texts are similar.

    ``similarity`` is the cosine of the vectors. The contributions of ``words_a`` and ``rest_a`` add up to it, and so do
    those of ``words_b`` and ``rest_b``; the rest is what centring subtracts, and the words that are not listed.
    ``pairs`` are the strongest products of one word of each text. ``views``, if they were asked for, add up to
    ``similarity_by_views``, which is what ``Cr5.similarity`` returns; their words have drops (see ``CosineFall``).
    """

    similarity: float
    words_a: list[Contribution]
    words_b: list[Contribution]
    pairs: list[WordPairContribution]
    rest_a: float
    rest_b: float
    views: Sequence[ViewContribution] = ()

    @property
    def similarity_by_views(self) -> float:
        """What the views add up to: the similarity that ``Cr5.similarity`` returns; 0 without views."""
        return float(sum(view.share * view.cosine for view in self.views))


class VectorParts(NamedTuple):
    """The unit vector of a text (rank) and its summands, words x rank: one for each different word."""

    words: Sequence[str]
    summands: Array
    vector: Array


def explain_vectors(a: VectorParts, b: VectorParts, k: int) -> Explanation:
    """The k largest contributions to a.vector ' b.vector of each text's words, and of pairs of words."""
    values_a, values_b, products = a.summands @ b.vector, b.summands @ a.vector, a.summands @ b.summands.T
    top_a, top_b = np.argsort(-values_a)[:k], np.argsort(-values_b)[:k]
    pairs = np.column_stack(np.unravel_index(np.argsort(-products, axis=None)[:k], products.shape))
    similarity = float(a.vector @ b.vector)
    return Explanation(
        similarity,
        [Contribution(a.words[i], float(values_a[i])) for i in top_a],
        [Contribution(b.words[i], float(values_b[i])) for i in top_b],
        [WordPairContribution(a.words[i], b.words[j], float(products[i, j])) for i, j in pairs],
        similarity - float(values_a[top_a].sum()),
        similarity - float(values_b[top_b].sum()),
    )
