"""Rayleigh-Ritz: the small dense algebra of the solver, in double precision, for arrays of any device."""

import numpy as np
from scipy.linalg import eigh

from cr5._typing import Array

# Rounding errors, by the precision of the data, relative to 1:

_PRECISION = {"float32": 1e-5, "float64": 1e-10}  # of a direction of [Z, P, W]: smaller ones are dropped
_ZERO_EIGENVALUE = {"float32": 1e-4, "float64": 1e-6}  # relative to the largest
_CANCELLED = {"float32": 1e-2, "float64": 1e-6}  # of a column of P, relative to the parts that it is the sum of


def _bordered(corner: Array, border: Array) -> Array:
    """The symmetric matrix with ``corner`` at the top left and ``border`` as its last columns."""
    k = len(corner)
    return np.vstack([np.hstack([corner, border[:k]]), np.hstack([border[:k].T, (border[k:] + border[k:].T) / 2])])


def known_gram(corner_A: Array, corner_B: Array, border_A: Array, border_B: Array, dtype: str) -> tuple[Array, Array]:
    """The Gram matrices of [Z, P] from those of Z and what P adds; columns that cancelled out are zero."""
    return _bordered(corner_A, border_A), _without_cancelled(_bordered(corner_B, border_B), dtype)


def _without_cancelled(gram_B: Array, dtype: str) -> Array:
    present = np.diag(gram_B) >= _CANCELLED[dtype]
    return gram_B * np.outer(present, present)


def _gram_of_step(M: Array, V: Array, rest: Array, inner: Array) -> Array:
    """The Gram matrix of [V, R] in M, given inner = V'M V; R is zero except for its last rows, ``rest``."""
    image = M[:, len(M) - len(rest) :] @ rest
    return _bordered(inner, np.concatenate([V.T @ image, rest.T @ image[len(M) - len(rest) :]]))


def ritz_step(
    gram_A: Array, border_A: Array, gram_B: Array, border_B: Array, columns: int, width: int, dtype: str
) -> tuple[Array, ...]:
    """Rayleigh-Ritz over [Z, P, W]: theta, V, the length of what V adds to Z, and the next Gram matrices of [Z, P]."""
    A, B = _bordered(gram_A, border_A), _bordered(gram_B, border_B)
    known = len(gram_A)
    theta, V = rayleigh_ritz(A, B, [columns, known] if known > columns else [columns], width, dtype)
    # P is what the step adds to Z, scaled: all its inner products are known already, except for
    # columns that cancelled out, which hold only rounding errors and are set to zero.
    rest = V[columns:]
    length = np.sqrt(np.maximum(np.diag(B)[columns:] @ rest**2, np.finfo(float).tiny))
    rest = rest / length
    gram_A = _gram_of_step(A, V, rest, np.diag(theta))
    gram_B = _gram_of_step(B, V, rest, np.diag(np.ones_like(theta)))
    return theta, V, length, gram_A, _without_cancelled(gram_B, dtype)


def rayleigh_ritz(A: Array, B: Array, cuts: list[int], width: int | None, dtype: str) -> tuple[Array, Array]:
    """Eigenpairs of A v = theta B v, theta > 0, largest first, in directions that are numerically independent in B."""
    N = _orthonormal(B, cuts, _PRECISION[dtype])
    M = N.T @ A @ N
    theta, V = _eigh(M.astype(dtype))  # in the precision of the data, then made orthonormal in double precision
    # Eigenvectors in the null space of A are arbitrary.
    positive = theta > _ZERO_EIGENVALUE[dtype] * np.maximum(theta[-1:], 0)
    V = V[:, positive][:, ::-1][:, :width].astype("float64")
    V = 1.5 * V - V @ (V.T @ V) / 2
    return (V * (M @ V)).sum(axis=0), N @ V


def _eigh(M: Array) -> tuple[Array, Array]:
    """Eigenvalues, smallest first, and eigenvectors; on a CPU by SciPy, which takes half as long as NumPy."""
    values, vectors = eigh(M, driver="evd") if isinstance(M, np.ndarray) else np.linalg.eigh(M)
    return values, vectors


def _orthonormal(B: Array, cuts: list[int], precision: float) -> Array:
    """N with N'B N = I: block Gram-Schmidt over the columns between the cuts, without lost directions."""
    scale = np.diag(B)
    root = np.where(scale > 0, 1 / np.sqrt(np.where(scale > 0, scale, 1)), 0)
    B = B * np.outer(root, root)
    N = B[:, :0]
    for begin, end in zip([0, *cuts], [*cuts, len(B)], strict=True):
        C = N.T @ B[:, begin:end]
        size, Q = _eigh(B[begin:end, begin:end] - C.T @ C)
        independent = size > precision * np.maximum(size[-1:], 1)
        new = Q[:, independent] / np.sqrt(size[independent])
        more = -N @ (C @ new)
        more[begin:end] += new
        N = np.hstack([N, more])
    return root[:, None] * N
