"""Unfolding: the map that folded rows come from."""

import numpy as np
from problems import problem, random_subwords

from cr5.training import unfolding
from cr5.training.engines.cpu import CpuEngine
from cr5.training.operators import Operators, fetch_Z


def test_folding_what_was_unfolded_gives_the_same_rows() -> None:
    blocks, concepts = problem(2)
    engine, subwords = CpuEngine(), random_subwords(blocks)
    for lang, X in blocks.items():
        engine.put(lang, X, concepts[lang], subwords.get(lang))
    Operators(engine, 1.0, "language")  # computes the preconditioner
    random = np.random.default_rng(0)
    folded = {lang: random.standard_normal((X.shape[1], 3)) for lang, X in blocks.items()}
    errors = []
    for steps in (0, unfolding.STEPS, 60):
        engine.words.set("Z", list(folded.values()))
        unfolding.unfold(engine, steps)
        Z = fetch_Z(engine)
        again = {
            lang: V + (subwords[lang] @ (subwords[lang].T @ V) if lang in subwords else 0) for lang, V in Z.items()
        }
        errors.append(sum(np.linalg.norm(again[lang] - V) for lang, V in folded.items()))
    assert errors[0] > 10 * errors[1] > 100 * errors[2]
