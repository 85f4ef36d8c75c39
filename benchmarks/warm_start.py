"""What does a warm start save when a corpus grows? Prints a JSON object per share of the corpus.

python benchmarks/warm_start.py ../shared/data --concepts 10000 --shares 0.5 0.9 0.99

A model trains on a share of comparable Europarl speeches, en and it. Then all of them are trained on, once from the
beginning (cold; once more with the ridge given and another seed) and once from that model (warm). "products" are the
columns that X or its transpose was multiplied with in the final fit, "cpu_seconds" those of the process for the whole
call, comparable within a line. Held-out speeches are searched in the other language: P@1 in percent by CSLS, and
"cosine", the mean cosine of their vectors with those by the cold model after the rotation that aligns both; that of the
other seed is what the tolerance leaves open.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import svd

from cr5 import Cr5
from cr5.corpus.documents import Document
from cr5.errors import Cr5Warning
from data import counterpart_ranks, say, speeches

LANGS = ("en", "it")
HELD_OUT = 1_000


def encoded(model: Cr5, texts: dict[str, list[str]]) -> dict[str, Any]:
    return {lang: model.encode(texts[lang], lang) for lang in LANGS}


def precision(vectors: dict[str, Any]) -> float:
    """P@1 in percent, mean of both directions."""
    a, b = (vectors[lang] for lang in LANGS)
    numbers = np.arange(len(a))
    ranks = [counterpart_ranks(x, numbers, y, numbers, measure="csls") for x, y in ((a, b), (b, a))]
    return round(100 * float((np.concatenate(ranks) == 1).mean()), 1)


def aligned_cosine(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The mean cosine of the same texts by two models, after the best rotation (Procrustes)."""
    a, b = (np.vstack(list(vectors.values())).astype(np.float64) for vectors in (one, other))
    U, _, V = svd(a.T @ b)
    return round(float(((a @ (U @ V)) * b).sum(axis=1).mean()), 4)


def timed(model: Cr5, method: str, documents: list[Document], test: dict[str, list[str]]) -> tuple[dict[str, Any], Any]:
    """Fit or update a model: facts, and the vectors of the held-out texts."""
    began = time.process_time()
    getattr(model, method)(documents)
    seconds, report = time.process_time() - began, model.report
    facts = {name: report[name] for name in ("ridge", "steps", "products", "energy", "residual")}
    vectors = encoded(model, test)
    say(f"{method}: {facts}")
    return facts | {"cpu_seconds": round(seconds, 1), "P@1": precision(vectors)}, vectors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with the corpora")
    parser.add_argument("--concepts", type=int, default=10_000)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.5, 0.9, 0.99])
    parser.add_argument("--tol", type=float, help="the setting tol, by default that of the preset")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore", Cr5Warning)
    names, texts = speeches(given.data / "europarl-speeches", LANGS)
    order = np.random.default_rng(given.seed).permutation(len(names))[: given.concepts + HELD_OUT]
    order = order[[all(texts[lang][i].strip() for lang in LANGS) for i in order]]
    test = {lang: [texts[lang][i] for i in order[:HELD_OUT]] for lang in LANGS}
    training = order[HELD_OUT:]

    def documents(share: float) -> list[Document]:
        chosen = training[: int(share * len(training))].tolist()
        return [Document(names[i], lang, texts[lang][i]) for lang in LANGS for i in chosen]

    cold, cold_vectors = timed(Cr5(tol=given.tol), "fit", documents(1.0), test)
    other_seed, vectors = timed(Cr5(tol=given.tol, ridge=cold["ridge"], seed=1), "fit", documents(1.0), test)
    other_seed["cosine"] = aligned_cosine(vectors, cold_vectors)
    for share in given.shares:
        model = Cr5(tol=given.tol)
        before, _ = timed(model, "fit", documents(share), test)
        warm, vectors = timed(model, "update", documents(1.0), test)
        warm["cosine"] = aligned_cosine(vectors, cold_vectors)
        result = {"benchmark": "warm start", "concepts": len(training), "tol": given.tol, "share": share}
        fits = {"before": before, "cold": cold, "cold, another seed": other_seed, "warm": warm}
        print(json.dumps(result | fits), flush=True)


if __name__ == "__main__":
    main()
