"""Exact search by CSLS: cr5 against FAISS's flat index, on the same threads, in turns. Prints one JSON object.

python benchmarks/search.py

Needs ``pip install faiss-cpu``. FAISS searches twice: the queries for every candidate, for its
neighbourhood r(c), and the candidates for every query, with -r(c)/2 as one more dimension, where the query
has a 1. Its indexes are filled before the clock starts, the last dimension excepted. ``seconds`` is what
``search_views`` takes for the same neighbours, ``retrieve_seconds`` what both measures and the ranks of all
counterparts take. A ratio is the median over the turns of our seconds by FAISS's: below 1, cr5 is faster.
"""

import argparse
import importlib.metadata
import json

import numpy as np

from cr5._typing import Array, Ints
from cr5.machine import available_cores
from cr5.retrieval.block_products import WeightedView
from cr5.retrieval.csls import NEIGHBOURS
from cr5.retrieval.top_k import search_views
from data import import_faiss, retrieve, seconds

faiss = import_faiss()


class Flat:
    """CSLS with two flat indexes."""

    def __init__(self, queries: Array, candidates: Array) -> None:
        self.candidates, size = candidates, candidates.shape[1]
        self.queries = np.pad(queries, ((0, 0), (0, 1)), constant_values=1)
        self.neighbours, self.index = faiss.IndexFlatIP(size), faiss.IndexFlatIP(size + 1)
        self.neighbours.add(queries)
        self.index.add(np.pad(candidates, ((0, 0), (0, 1))))
        self.rows = faiss.rev_swig_ptr(self.index.get_xb(), candidates.shape[0] * (size + 1)).reshape(-1, size + 1)

    def search(self, k: int) -> Ints:
        best, _ = self.neighbours.search(self.candidates, NEIGHBOURS)
        self.rows[:, -1] = -best.mean(axis=1) / 2
        return np.asarray(self.index.search(self.queries, k)[1])


def unit(rows: int, size: int, seed: int) -> Array:
    X = np.random.default_rng(seed).standard_normal((rows, size), np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--candidates", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=300)
    parser.add_argument("--neighbours", type=int, default=10)
    parser.add_argument("--turns", type=int, default=9)
    given = parser.parse_args()
    threads = available_cores()
    faiss.omp_set_num_threads(threads)
    queries, candidates = unit(given.queries, given.size, 0), unit(given.candidates, given.size, 1)
    concepts, k = np.arange(max(given.queries, given.candidates)), given.neighbours
    flat = Flat(queries, candidates)

    def rank() -> object:
        return retrieve(queries, concepts[: given.queries], candidates, concepts[: given.candidates], k=k)

    def search() -> Ints:
        return search_views([WeightedView(queries, candidates)], k, measure="csls").indices

    ours, theirs = search(), flat.search(k)
    rank()
    actions = [search, rank, lambda: flat.search(k)]
    turns = np.array([[seconds(action) for action in actions] for _ in range(given.turns)])
    searched, retrieved, faiss_seconds = np.median(turns, axis=0)
    print(
        json.dumps(
            {
                "benchmark": "search",
                "queries": given.queries,
                "candidates": given.candidates,
                "size": given.size,
                "neighbours": k,
                "threads": threads,
                "turns": given.turns,
                "faiss": importlib.metadata.version("faiss-cpu"),
                "seconds": searched,
                "retrieve_seconds": retrieved,
                "faiss_seconds": faiss_seconds,
                "ratio": float(np.median(turns[:, 0] / turns[:, 2])),
                "retrieve_ratio": float(np.median(turns[:, 1] / turns[:, 2])),
                "agreement": float((np.sort(ours, axis=1) == np.sort(theirs, axis=1)).all(axis=1).mean()),
            }
        )
    )


if __name__ == "__main__":
    main()
