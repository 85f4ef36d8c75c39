"""The vectors that embedding components return: none is zero unless the caller allows it."""

from collections.abc import Sequence

import numpy as np

from cr5.corpus.texts import text_list
from cr5.errors import Cr5Error, quoted
from cr5.model import Cr5


def encode_texts(
    model: Cr5,
    texts: Sequence[str],
    langs: Sequence[str | None] | str | None,
    *,
    allow_zeros: bool,
    name: str = "texts",
) -> list[list[float]]:
    """Texts -> a vector of length 1 for each, in its language, or the one that the model guesses.

    A text without a word that the model knows raises an error that gives its position in the parameter ``name``. With
    ``allow_zeros`` its vector is zero: the cosine with such a vector is undefined, and some libraries fail on it.
    """
    texts = text_list(texts)
    vectors = model.encode(texts, langs)
    zero = np.flatnonzero(~vectors.any(axis=1)).tolist()
    if zero and not allow_zeros:
        first = zero[0]
        raise Cr5Error(
            f"`{name}[{first}]` is {quoted(texts[first])}, which has no word or n-gram that the model knows; leave it "
            "out, or create the component with `allow_zeros=True` for a vector of zeros"
        )
    return [vector.tolist() for vector in vectors]
