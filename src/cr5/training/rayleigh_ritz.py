"""Rayleigh-Ritz: the small dense algebra of the solver, in double precision, for arrays of any device."""

import numpy as np
from scipy.linalg import eigh

from cr5._typing import Array
from cr5.training.engines.dense import inner_products, product

# Rounding errors, by the precision of the data, relative to 1:

_PRECISION = {"float32": 1e-4, "float64": 1e-10}  # relative size below which a direction of [Z, P, W] is dropped
_ZERO_EIGENVALUE = {"float32": 1e-4, "float64": 1e-6}  # counts as zero, relative to the largest eigenvalue
_CANCELLED = {"float32": 1e-2, "float64": 1e-6}  # relative size below which a column of P has cancelled out


def _bordered(corner: Array, border: Array) -> Array:
    """The symmetric matrix with ``corner`` at the top left and ``border`` as its last columns."""
    k = len(corner)
    return np.vstack([np.hstack([corner, border[:k]]), np.hstack([border[:k].T, (border[k:] + border[k:].T) / 2])])


def known_gram(theta: Array, border_A: Array, border_B: Array, dtype: str) -> tuple[Array, Array]:
    """The Gram matrices of [Z, P] from the eigenvalues of Z and what P adds; columns that cancelled out are zero."""
    corner_B = np.diag(np.ones_like(theta))
    return _bordered(np.diag(theta), border_A), _without_cancelled(_bordered(corner_B, border_B), dtype)


def _without_cancelled(gram_B: Array, dtype: str) -> Array:
    present = np.diag(gram_B) >= _CANCELLED[dtype]
    return gram_B * np.outer(present, present)


def _gram_of_step(M: Array, V: Array, rest: Array, inner: Array) -> Array:
    """The Gram matrix of [V, R] in M, given inner = V'M V; R is zero except for its last rows, ``rest``."""
    image = product(M[:, len(M) - len(rest) :], rest)
    return _bordered(inner, np.concatenate([inner_products(V, image), inner_products(rest, image[-len(rest) :])]))


def orthonormalising(gram: Array, dtype: str) -> Array:
    """V with V'gram V = I, except that directions which rounding errors dominate stay short."""
    size, V = _eigh(gram)
    size = np.maximum(size, _PRECISION[dtype] * size[-1:])
    return V / np.sqrt(np.where(size > 0, size, 1))


def rayleigh_ritz(A: Array, B: Array, dtype: str) -> tuple[Array, Array]:
    """Eigenpairs of A v = theta B v, theta > 0, largest first, in directions that are numerically independent in B."""
    N = _orthonormal(B, np.diag(B), [], dtype)
    theta, V = _largest_eigenpairs(inner_products(N, product(A, N)), None, dtype)
    return theta, product(N, V)


def ritz_step(
    gram_A: Array, border_A: Array, gram_B: Array, border_B: Array, columns: int, width: int, dtype: str
) -> tuple[Array, ...]:
    """Rayleigh-Ritz over [Z, R], R = [P, W]: theta, V, the length of what V adds to Z, and the next Gram matrices.

    Z has ``columns`` columns and consists of eigenvectors: Z'B Z = I, and Z'A Z has theta of Z on its diagonal. So
    only R is orthonormalised, after the part in the span of Z has been subtracted: R N - Z Y with Y = Z'B R N.
    """
    A, B = _bordered(gram_A, border_A), _bordered(gram_B, border_B)
    A_ZR, B_ZR, size = A[:columns, columns:], B[:columns, columns:], np.diag(B)[columns:]
    of_P = len(gram_A) - columns
    N = _orthonormal(B[columns:, columns:] - inner_products(B_ZR, B_ZR), size, [of_P] if of_P else [], dtype)
    # A in the basis [Z, R N - Z Y]
    Y, image = product(B_ZR, N), product(A_ZR, N)
    corner, border = A[:columns, :columns], image - np.diag(A)[:columns, None] * Y
    of_N = inner_products(N, product(A[columns:, columns:], N)) - inner_products(Y, border) - inner_products(image, Y)
    M = _bordered(corner, np.concatenate([border, of_N]))
    theta, V = _largest_eigenpairs(M, width, dtype)
    rest = product(N, V[columns:])
    V = np.concatenate([V[:columns] - product(Y, V[columns:]), rest])
    # P is what the step adds to Z, scaled: all its inner products are known already, except for
    # columns that cancelled out, which hold only rounding errors and are set to zero.
    length = np.sqrt(np.maximum(size @ rest**2, np.finfo(float).tiny))
    rest = rest / length
    gram_A = _gram_of_step(A, V, rest, np.diag(theta))
    gram_B = _gram_of_step(B, V, rest, np.diag(np.ones_like(theta)))
    return theta, V, length, gram_A, _without_cancelled(gram_B, dtype)


def _largest_eigenpairs(M: Array, width: int | None, dtype: str) -> tuple[Array, Array]:
    """The positive eigenvalues of M, largest first, at most ``width``, and their eigenvectors.

    They are computed in the precision of the data, then made orthonormal in double precision.
    """
    theta, V = _eigh(M.astype(dtype))
    # Eigenvectors in the null space are arbitrary.
    positive = theta > _ZERO_EIGENVALUE[dtype] * np.maximum(theta[-1:], 0)
    V = V[:, positive][:, ::-1][:, :width].astype("float64")
    V = 1.5 * V - product(V, inner_products(V, V)) / 2
    return (V * product(M, V)).sum(axis=0), V


def _eigh(M: Array) -> tuple[Array, Array]:
    """Eigenvalues, smallest first, and eigenvectors; on a CPU by SciPy, which takes half as long as NumPy."""
    values, vectors = eigh(M, driver="evd") if isinstance(M, np.ndarray) else np.linalg.eigh(M)
    return values, vectors


def _orthonormal(B: Array, scale: Array, cuts: list[int], dtype: str) -> Array:
    """N with N'B N = I: block Gram-Schmidt over the columns between the cuts, without lost directions.

    ``scale`` has the squared lengths of the columns before other parts were subtracted: what is left of them is
    compared with these.
    """
    root = np.where(scale > 0, 1 / np.sqrt(np.where(scale > 0, scale, 1)), 0)
    B = B * np.outer(root, root)
    N = B[:, :0]
    for begin, end in zip([0, *cuts], [*cuts, len(B)], strict=True):
        C = inner_products(N, B[:, begin:end])
        size, Q = _eigh(B[begin:end, begin:end] - inner_products(C, C))
        independent = size > _PRECISION[dtype] * np.maximum(size[-1:], 1)
        new = Q[:, independent] / np.sqrt(size[independent])
        more = -product(N, product(C, new))
        more[begin:end] += new
        N = np.hstack([N, more])
    return root[:, None] * N
