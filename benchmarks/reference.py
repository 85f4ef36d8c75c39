"""The paper's procedure beside cr5: seconds, products, energy and held-out P@1. Prints one JSON object.

python benchmarks/reference.py ../shared/data/europarl-speeches

The reference is plain SciPy: ARPACK over concepts, every application a solve by conjugate gradients,
one vector at a time, in double precision and with the paper's tolerances (0.1 and 0.01). Both get the
same matrices, rank and ridge in one process; cr5 is fitted twice before and twice after the reference, and its figure
is the median. ``seconds`` are those of a clock; ``cpu`` is processor time, of all threads, for busy machines. Energies
are computed by one function, exactly, from the maps that each returns. Without the folder the corpus
is made up. ``--check`` compares the reference at tight tolerances with the dense equations of
tests/oracle.py instead.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy.linalg import eigh, subspace_angles
from scipy.sparse import block_diag
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, cg, eigsh

from cr5 import __version__, reduced_rank_ridge
from cr5._typing import Array, Intercept, Ints, Sparse
from cr5.machine import available_cores
from cr5.retrieval.vectors import document_vectors
from cr5.settings import make_settings
from cr5.training.pipeline import max_documents_per_concept, metric_scale
from cr5.training.solver import Fit
from data import Data, europarl, first, hold_out, peak_gb, precision_at_1, say, synthetic

_T = TypeVar("_T")


class Operators:
    """X: all documents x all words, Y: documents x concepts, C: what centres documents; in double precision."""

    def __init__(self, blocks: Mapping[str, Sparse], concepts: Mapping[str, Ints], intercept: Intercept) -> None:
        self.X: Sparse = block_diag(list(blocks.values()), format="csr", dtype=np.float64)
        self.Xt: Sparse = self.X.T.tocsr()
        self.labels = np.concatenate([concepts[lang] for lang in blocks])
        self.concepts = 1 + int(self.labels.max())
        sizes = [X.shape[0] for X in blocks.values()]
        borders = np.cumsum([0, sum(sizes)] if intercept == "shared" else [0, *sizes])
        self.groups = [slice(a, b) for a, b in pairwise(borders) if a < b]
        self.products = 0  # columns that X or X' was multiplied with

    def centre(self, U: Array) -> Array:
        """C U"""
        U = U.copy()
        for rows in self.groups:
            U[rows] -= U[rows].mean(axis=0)
        return U

    def multiply(self, V: Array) -> Array:
        """C X V"""
        self.products += 1 if V.ndim == 1 else V.shape[1]
        return self.centre(self.X @ V)

    def multiply_transposed(self, U: Array) -> Array:
        """X'U"""
        self.products += 1 if U.ndim == 1 else U.shape[1]
        return self.Xt @ U

    def of_concepts(self, p: Array) -> Array:
        """Y p: concepts -> documents"""
        return p[self.labels]

    def concept_sums(self, u: Array) -> Array:
        """Y'u: documents -> concepts"""
        return np.bincount(self.labels, weights=u, minlength=self.concepts)


@dataclass(frozen=True)
class Reference:
    """Maps as in ``cr5.Fit``; ``eigenvalues`` as ARPACK gave them; ``solves`` by conjugate gradients."""

    maps: dict[str, Array]
    eigenvalues: Array
    products: int
    solves: int
    unsolved: int


def paper(
    blocks: Mapping[str, Sparse],
    concepts: Mapping[str, Ints],
    *,
    rank: int,
    ridge: float,
    intercept: Intercept = "language",
    tol: float = 0.1,
    solve_tol: float = 0.01,
    max_restarts: int = 250,
    max_steps: int = 500,
    seed: int = 0,
) -> Reference:
    """P, the top eigenvectors of Y'C X B^-1 X'C Y with B = X'C X + ridge I; Phi = P'Y'C X B^-1; orthonormal rows."""
    on = Operators(blocks, concepts, intercept)
    words = on.X.shape[1]
    B = LinearOperator(
        (words, words), matvec=lambda z: on.multiply_transposed(on.multiply(z)) + ridge * z, dtype=np.float64
    )
    ended: list[int] = []

    def solve(p: Array) -> Array:
        """B^-1 X'C Y p"""
        z, info = cg(B, on.multiply_transposed(on.centre(on.of_concepts(p))), rtol=solve_tol, maxiter=max_steps)
        ended.append(info)
        if len(ended) % 100 == 0:
            say(f"reference: {len(ended)} solves, {on.products:,} products")
        return z

    shape = (on.concepts, on.concepts)
    M = LinearOperator(shape, matvec=lambda p: on.concept_sums(on.multiply(solve(p.ravel()))), dtype=np.float64)
    start = np.random.default_rng(seed).standard_normal(on.concepts)
    try:
        eigenvalues, P = eigsh(M, k=rank, which="LA", tol=tol, maxiter=max_restarts, v0=start)
    except ArpackNoConvergence as error:
        sys.exit(f"ARPACK found {len(error.eigenvalues)} of {rank} eigenvectors in {max_restarts} restarts; raise them")
    phi = np.column_stack([solve(p) for p in P.T])
    size, Q = eigh(phi.T @ phi)
    stacked = (phi @ (Q / np.sqrt(size)))[:, ::-1].astype(np.float32)
    return Reference(
        maps=dict(zip(blocks, _split(stacked, blocks), strict=True)),
        eigenvalues=eigenvalues[::-1],
        products=on.products,
        solves=len(ended),
        unsolved=int(np.count_nonzero(ended)),
    )


def _split(stacked: Array, blocks: Mapping[str, Sparse]) -> list[Array]:
    return np.split(stacked, np.cumsum([X.shape[1] for X in blocks.values()])[:-1])


def energy(
    blocks: Mapping[str, Sparse],
    concepts: Mapping[str, Ints],
    maps: Mapping[str, Array],
    *,
    ridge: float,
    intercept: Intercept = "language",
) -> float:
    """The sum of theta in Z'A Z v = theta Z'B Z v for the maps Z: exact, whatever they were computed with."""
    on = Operators(blocks, concepts, intercept)
    Z = np.vstack([maps[lang] for lang in blocks]).astype(np.float64)
    G = on.multiply(Z)
    S = np.column_stack([on.concept_sums(g) for g in G.T])
    return float(eigh(S.T @ S, G.T @ G + ridge * (Z.T @ Z), eigvals_only=True).sum())


def score(data: Data, maps: Mapping[str, Array], intercept: Intercept = "language") -> dict[str, float]:
    """P@1 of the test queries among all held-out documents, mean over directions, in percent."""
    vectors = {}
    for lang, X in data.candidates.items():
        mean = np.asarray(data.blocks[lang].mean(axis=0)) * (intercept == "language")
        vectors[lang] = document_vectors(X, maps[lang], (mean @ maps[lang]).astype(np.float32))
    return precision_at_1(vectors, data.answers, data.test)


def compare(
    data: Data, *, rank: int, ridge: float, intercept: Intercept, tolerances: Sequence[float]
) -> Iterator[dict[str, Any]]:
    """Both on the same matrices, cr5 at each of its tolerances, the reference at the paper's."""
    same: dict[str, Any] = {"rank": rank, "ridge": ridge, "intercept": intercept}
    exact = {"ridge": ridge, "intercept": intercept}
    reduced_rank_ridge(*first(data.blocks, data.concepts, 500), rank=20, ridge=ridge, intercept=intercept)
    fits: dict[float, list[tuple[Fit, float, float]]] = {tol: [] for tol in tolerances}

    def fit_twice() -> None:
        for tol, found in [*fits.items()] * 2:
            found.append(_timed(lambda tol=tol: reduced_rank_ridge(data.blocks, data.concepts, tol=tol, **same)))

    fit_twice()
    other, other_seconds, other_cpu = _timed(lambda: paper(data.blocks, data.concepts, **same))
    fit_twice()
    other_energy, other_score = (
        energy(data.blocks, data.concepts, other.maps, **exact),
        score(data, other.maps, intercept),
    )
    for tol, found in fits.items():
        fit, seconds, cpu = found[0][0], [each[1] for each in found], [each[2] for each in found]
        scale = metric_scale(fit, make_settings(intercept=intercept), max_documents_per_concept(data.concepts))
        own = {lang: Z if scale is None else np.asarray(Z @ scale) for lang, Z in fit.folded_maps.items()}
        yield {
            "tol": tol,
            "ratio": {"seconds": other_seconds / statistics.median(seconds), "cpu": other_cpu / statistics.median(cpu)},
            "seconds": {"cr5": statistics.median(seconds), "cr5_all": seconds, "reference": other_seconds},
            "cpu": {"cr5": statistics.median(cpu), "cr5_all": cpu, "reference": other_cpu},
            "products": {"cr5": fit.products, "reference": other.products},
            "energy": {
                "cr5": energy(data.blocks, data.concepts, fit.maps, **exact),
                "cr5_reported": fit.energy,
                "reference": other_energy,
            },
            "p_at_1": {
                "cr5": score(data, fit.maps, intercept),
                "cr5_signal": score(data, own, intercept),
                "reference": other_score,
            },
            "cr5": {"steps": fit.steps, "residual": fit.residual, "converged": fit.converged},
            "reference": {"solves": other.solves, "unsolved": other.unsolved},
        }


def _timed(function: Callable[[], _T]) -> tuple[_T, float, float]:
    """What a function returns, its seconds, and its processor time."""
    began, used = time.perf_counter(), time.process_time()
    result = function()
    return result, time.perf_counter() - began, time.process_time() - used


def check() -> dict[str, Any]:
    """The reference at tight tolerances against the dense equations, for both intercepts."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "helpers"))
    from oracle import dense_maps
    from problems import problem

    worst = {"eigenvalues": 0.0, "energy": 0.0, "angle": 0.0}
    for intercept in ("language", "shared"):
        for seed in range(3):
            blocks, concepts = problem(languages=3, seed=seed)
            same: dict[str, Any] = {"ridge": 0.5, "intercept": intercept}
            phi, eigenvalues = dense_maps(blocks, concepts, rank=6, **same)
            found = paper(blocks, concepts, rank=6, tol=1e-12, solve_tol=1e-12, **same)
            exact = energy(blocks, concepts, found.maps, **same)
            maps = np.vstack([found.maps[lang] for lang in blocks])
            off = {
                "eigenvalues": float(abs(found.eigenvalues / eigenvalues - 1).max()),
                "energy": abs(exact / float(eigenvalues.sum()) - 1),
                "angle": float(subspace_angles(maps.astype(np.float64), phi.T).max()),
            }
            assert abs(maps.T @ maps - np.eye(6)).max() < 1e-5, "the maps are not orthonormal"
            worst = {name: max(value, off[name]) for name, value in worst.items()}
    assert worst["eigenvalues"] < 1e-9, worst
    assert worst["energy"] < 1e-9, worst
    assert worst["angle"] < 1e-5, worst  # maps are handed out in single precision
    return {"benchmark": "reference", "check": "passed", "worst": worst}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="of europarl-speeches; without it the corpus is made up")
    parser.add_argument("--speeches", type=int, default=20_000, help="60 %% of them train")
    parser.add_argument("--rank", type=int, default=300)
    parser.add_argument("--ridge", type=float, default=3.0)
    parser.add_argument("--intercept", choices=["language", "shared"], default="language")
    parser.add_argument(
        "--tol", type=float, nargs="+", default=[0.05, 0.1], help="of cr5: its default, and the paper's"
    )
    parser.add_argument("--check", action="store_true", help="compare the reference with the dense equations")
    given = parser.parse_args()
    if given.check:
        print(json.dumps(check()))
        return
    if given.folder and given.folder.exists():
        source, data = "europarl-speeches en-it|comparable", europarl(given.folder, most=given.speeches)
    else:
        source, data = "made up", hold_out(*synthetic(2 * given.speeches, languages=2, words=30_000))
    say(f"{source}: {data.facts()}")
    facts = data.facts() | {
        "threads": available_cores(),
        "load": os.getloadavg()[0],
    }  # a busy machine says little
    for found in compare(data, rank=given.rank, ridge=given.ridge, intercept=given.intercept, tolerances=given.tol):
        result = {
            "benchmark": "reference",
            "signature": f"{source}|{given.speeches} speeches|{len(data.test)} test queries|rank {given.rank}|"
            f"ridge {given.ridge:g}|{given.intercept} intercept|tol {found['tol']:g}|cr5 {__version__}",
        }
        print(json.dumps(result | facts | found | {"peak_gb": peak_gb()}))


if __name__ == "__main__":
    main()
