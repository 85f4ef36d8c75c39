"""Texts for models, and how good the vectors of a model are."""

from collections.abc import Sequence

import madeup
import numpy as np
from madeup import MEANINGS, texts
from ranks import counterpart_ranks

from cr5 import Cr5, Document


def precision(model: Cr5, held_out: Sequence[Document]) -> float:
    """P@1 on held-out concepts, in percent, mean over all pairs of languages."""
    vectors = {lang: model.encode(texts(held_out, lang), lang) for lang in model.langs}
    concepts = np.arange(madeup.HELD_OUT)
    ranks = [counterpart_ranks(vectors[a], concepts, vectors[b], concepts) for a in vectors for b in vectors if a != b]
    return 100 * float((np.array(ranks) == 1).mean())


def random_texts(lang: str, count: int, seed: int = 0) -> list[str]:
    """Texts of 0 to 60 words, among them unknown ones."""
    random = np.random.default_rng(seed)
    return [madeup.text(lang, random.integers(0, MEANINGS + 20, random.integers(0, 61)).tolist()) for _ in range(count)]
