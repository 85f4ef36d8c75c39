"""The paper's equations, densely, in double precision: what every solver must agree with."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, eigh
from scipy.sparse import csr_array, hstack


def with_subwords(blocks: Mapping[str, csr_array], subwords: Mapping[str, csr_array]) -> dict[str, csr_array]:
    """[X, X M] for every language that has an M, X for the others."""
    return {lang: csr_array(hstack([X, X @ subwords[lang]])) if lang in subwords else X for lang, X in blocks.items()}


def dense_maps(
    blocks: Mapping[str, csr_array],
    concepts: Mapping[str, NDArray[np.int64]],
    *,
    rank: int,
    ridge: float,
    intercept: str = "shared",
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Phi (rank x words, orthonormal rows) and the top eigenvalues of Y'X (X'X + ridge I)^-1 X'Y."""
    X = block_diag(*(block.toarray().astype(np.float64) for block in blocks.values()))
    labels = np.concatenate([concepts[lang] for lang in blocks])
    Y = np.eye(labels.max() + 1)[labels]
    if intercept == "shared":
        centre = np.eye(len(X)) - 1 / len(X)
    else:
        sizes = [block.shape[0] for block in blocks.values()]
        centre = block_diag(*(np.eye(n) - np.ones((n, n)) / max(n, 1) for n in sizes))
    X, Y = centre @ X, centre @ Y
    B = X.T @ X + ridge * np.eye(X.shape[1])
    eigenvalues, P = eigh(Y.T @ X @ np.linalg.solve(B, X.T @ Y))
    P = P[:, ::-1][:, :rank]
    phi = np.linalg.solve(B, X.T @ Y @ P).T
    size, Q = eigh(phi @ phi.T)
    return (Q / np.sqrt(size)).T @ phi, eigenvalues[::-1][:rank]


def dense_regression(
    X: csr_array, T: NDArray[np.float64], M: csr_array | None, *, ridge: float, intercept: str
) -> NDArray[np.float64]:
    """(F'C F + ridge I)^-1 F'C T with F = [X, X M]; with the shared intercept, nothing is centred."""
    F = (X if M is None else csr_array(hstack([X, X @ M]))).toarray().astype(np.float64)
    centre = np.eye(len(F)) - (1 / len(F) if intercept == "language" else 0)
    B = F.T @ centre @ F + ridge * np.eye(F.shape[1])
    return np.linalg.solve(B, F.T @ centre @ T)
