"""Alignment of two embedding spaces: orthogonal Procrustes, refined on mutual nearest neighbours by CSLS."""

from typing import NamedTuple

import numpy as np

from cr5._typing import Array, Ints
from cr5.retrieval.csls import csls, csls_penalty, neighbourhood_means
from cr5.retrieval.top_k import nearest
from cr5.retrieval.vectors import row_products

REFINEMENT_ROUNDS = 5


class Alignment(NamedTuple):
    """The rotation of one language onto another: W, dimensions x dimensions, orthogonal.

    ``csls`` is the mean CSLS of the dictionary that W induces, ``rounds`` the number of refinements that improved it.
    """

    W: Array
    csls: float
    rounds: int


def procrustes(X: Array, Y: Array) -> Array:
    """The orthogonal W that minimises |X W - Y|: W = U V', where X' Y = U S V'."""
    U, _, Vt = np.linalg.svd(X.astype(np.float64).T @ Y.astype(np.float64))
    return np.asarray(U @ Vt)


def refine(X: Array, Y: Array, W: Array, rounds: int = REFINEMENT_ROUNDS) -> Alignment:
    """Repeat Procrustes on the mutual nearest neighbours by CSLS = 2 x'y - r(x) - r(y).

    X, Y: unit vectors of frequent words. Stops after ``rounds``, or when the mean CSLS of these pairs no longer
    improves; the best W is returned.
    """
    rows, others, mean_csls = mutual_neighbours(X @ W.astype(X.dtype), Y)
    best = Alignment(W, mean_csls, 0)
    for i in range(1, rounds + 1):
        if not len(rows):
            break
        W = procrustes(X[rows], Y[others])
        rows, others, mean_csls = mutual_neighbours(X @ W.astype(X.dtype), Y)
        if mean_csls <= best.csls:
            break
        best = Alignment(W, mean_csls, i)
    return best


def mutual_neighbours(X: Array, Y: Array) -> tuple[Ints, Ints, float]:
    """The rows of X and of Y that are each other's nearest by CSLS, and the mean CSLS of these pairs."""
    x_means, y_means = neighbourhood_means(X, Y), neighbourhood_means(Y, X)
    nearest_y = nearest(X, Y, 1, penalty=csls_penalty(y_means)).indices[:, 0]
    nearest_x = nearest(Y, X, 1, penalty=csls_penalty(x_means)).indices[:, 0]
    rows = np.flatnonzero(nearest_x[nearest_y] == np.arange(len(X)))
    others = nearest_y[rows]
    scores = csls(row_products(X[rows], Y[others]), x_means[rows], y_means[others])
    return rows, others, float(scores.mean(dtype=np.float64)) if len(rows) else -np.inf
