"""The mathematics: reduced-rank ridge regression as a generalised eigenproblem. Arrays only.

X: documents x words, block-diagonal over languages; Y: documents x concepts, one-hot; C the
projector that centres documents (all together, or each language by itself). The best W of rank r in

    minimise  1/2 |Y - X W' - 1 b'|^2 + ridge/2 |W|^2

is spanned by the top r eigenvectors of  A z = theta B z,  A = X'C Y Y'C X,  B = X'C X + ridge I:
they are B^-1 X'C Y P for the eigenvectors P of the paper's concepts x concepts matrix, with the same
eigenvalues. Neither A nor B is ever formed, and no linear system is solved: LOBPCG with a
Jacobi preconditioner needs one product with X and one with X' a step.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
from scipy.linalg import eigh

from cr5._typing import Array, Ints, Mask, Sparse
from cr5.engine import Block, Engine
from cr5.errors import UserError
from cr5.progress import Progress, Report, silent

OVERSAMPLING = 50  # columns beyond the rank: the last wanted ones converge as fast as the first
REFRESH = 12  # steps between two restarts from fresh products: rounding drifts away from them
LOCKED = 0.3  # a column whose residual is below this part of its share rests
PANEL = 4096  # rows that are combined at a time

Intercept: TypeAlias = Literal["language", "shared"]


@dataclass(frozen=True)
class Fit:
    """A solution and how well it ended.

    maps: per language words x rank, float32; stacked over the languages, the columns are
    orthonormal. means: per language the mean document that centring subtracts. eigenvalues: of the
    returned maps, from fresh products; energy is their sum. eigenvectors: rank x rank, the
    coordinates in the maps of the B-orthonormal eigenvectors. residual: |A z - theta B z| over the
    rank columns, relative, in the norm of the preconditioner; above ``tol``, it was ``max_steps``
    or ``stop`` that ended the run. products: columns that X or X' was multiplied with.
    basis: what the iteration ended on, to start another one from.
    """

    maps: dict[str, Array]
    means: dict[str, Array]
    eigenvalues: Array
    eigenvectors: Array
    residual: float
    steps: int
    converged: bool
    products: int
    seconds: float
    basis: dict[str, Array] = field(repr=False)

    @property
    def energy(self) -> float:
        """The sum of the eigenvalues: how much of the concepts the maps explain."""
        return float(self.eigenvalues.sum())


def reduced_rank_ridge(
    blocks: Mapping[str, Sparse],
    concepts: Mapping[str, Ints],
    *,
    rank: int,
    ridge: float,
    intercept: Intercept = "language",
    tol: float = 0.05,
    max_steps: int = 100,
    seed: int = 0,
    progress: Report = silent,
    start: Mapping[str, Array] | None = None,
    keep: Callable[[int, dict[str, Array]], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
    engine: Engine | None = None,
) -> Fit:
    """Fit one map per language from documents x words and the concept number of every document.

    The arithmetic has the precision of the blocks. ``start`` takes the ``basis`` of an earlier fit,
    ``keep`` is handed the basis after every step, ``stop`` is asked before every step.
    """
    if engine is None:
        from cr5.engine.cpu import CpuEngine

        engine = CpuEngine()
    began = time.perf_counter()
    concept_count = 1 + max(int(ids.max(initial=-1)) for ids in concepts.values())
    for lang, X in blocks.items():
        engine.put(X, concepts[lang], concept_count)
    dtype = np.result_type(*(X.dtype for X in blocks.values()))
    problem = _Problem(engine, concept_count, ridge, intercept, dtype)
    width = min(rank + OVERSAMPLING, problem.word_count)
    if start is None:
        problem.begin(width, seed)
    else:
        problem.begin_with([start[lang] for lang in blocks])
    theta = problem.restart()
    steps, last, best = 0, np.inf, (np.inf, 0)
    while True:
        residual = problem.correct(theta, rank, tol)
        converged = residual <= tol
        total = _expected_steps(steps, residual, last, tol, max_steps)
        note = f"energy {theta[:rank].sum():.2f}, residual {residual:.3g}, {problem.products:,} products"
        progress(Progress("fit", steps, total, note))
        best = min(best, (residual, steps))
        exhausted = steps - best[1] >= REFRESH  # no better for long: the precision of the data is used up
        if converged or exhausted or steps >= max_steps or stop():
            break
        theta = problem.step(theta, width)
        steps += 1
        if steps % REFRESH == 0 or residual > 2 * last:
            theta = problem.restart()
        last = residual
        if keep:
            keep(steps, dict(zip(blocks, problem.basis(), strict=True)))
    basis = problem.basis()
    eigenvalues, eigenvectors = problem.finish(theta, rank)
    return Fit(
        maps=dict(zip(blocks, problem.maps(), strict=True)),
        means={lang: mean.astype(np.float32) for lang, mean in zip(blocks, problem.means, strict=True)},
        eigenvalues=eigenvalues,
        eigenvectors=eigenvectors,
        residual=residual,
        steps=steps,
        converged=converged,
        products=problem.products,
        seconds=time.perf_counter() - began,
        basis=dict(zip(blocks, basis, strict=True)),
    )


def _expected_steps(steps: int, residual: float, last: float, tol: float, max_steps: int) -> int | None:
    """How many steps it will take if residuals go on shrinking at the last rate; None while that is open."""
    if residual <= tol:
        return steps
    if not 0 < residual < last < np.inf or tol <= 0:
        return None if tol > 0 else max_steps
    return min(max_steps, steps + int(np.ceil(np.log(tol / residual) / np.log(residual / last))))


def memory(blocks: Mapping[str, Sparse], concept_count: int, rank: int) -> int:
    """The bytes that a fit will need at its peak, the blocks included."""
    width = rank + OVERSAMPLING
    documents, words = np.array([X.shape for X in blocks.values()], np.int64).T
    item = max(X.dtype.itemsize for X in blocks.values())
    sparse = sum(2 * X.nnz * (X.dtype.itemsize + X.indices.itemsize) for X in blocks.values())
    # Z, P, W and their images; three blocks of concept sums, one summand, one update; a language's scratch.
    held = 3 * (documents.sum() + words.sum()) + 5 * concept_count + words.sum()
    scratch = 2 * documents.max() + 2 * words.max()
    return int(sparse + (held + scratch) * width * item + 8 * 10 * (3 * width) ** 2)


class _Problem:
    """The operators A and B over an engine, and the steps of LOBPCG on them.

    Every language's store holds Z, P, W (words x m) and their images GZ, GP, GW = C X Z, ...
    (documents x m); here are their concept sums S = Y'G and the small Gram matrices of [Z, P].
    """

    def __init__(self, engine: Engine, concept_count: int, ridge: float, intercept: Intercept, dtype: np.dtype) -> None:
        self.engine, self.ridge, self.shared, self.dtype = engine, ridge, intercept == "shared", dtype
        self.products = 0
        documents, words = np.array(engine.map(lambda block: block.shape), np.int64).T
        self.word_count = int(words.sum())
        self.divisors = np.full(len(words), documents.sum()) if self.shared else np.maximum(documents, 1)
        counts = engine.map(lambda block: np.bincount(block.concepts, minlength=concept_count))
        self.concept_counts = np.array(counts, np.float64)  # languages x concepts
        sums = engine.map(lambda block: block.transposed_times(np.ones((block.shape[0], 1)))[:, 0])
        self.means: list[Array] = [s / n for s, n in zip(sums, self.divisors, strict=True)]
        engine.map(partial(_prepare, ridge=ridge), self.means, list(self.divisors))
        self.sums: dict[str, Array] = {}
        self.gram_A = self.gram_B = np.zeros((0, 0))

    def _centres(self, sums: Sequence[Array]) -> list[Array]:
        """Column means of a documents x m block, from the languages' column sums."""
        sums = [_total(sums)] * len(sums) if self.shared else sums
        return [s / n for s, n in zip(sums, self.divisors, strict=True)]

    def _image(self, name: str) -> Array:
        """G = C X V for a block V of every store, and its concept sums S = Y'G."""
        sums = self.engine.map(partial(_image, name=name))
        self.products += len(sums[0])
        self.sums[name] = _total(self.engine.map(partial(_centre, name=name), self._centres(sums)))
        return self.sums[name]

    def _gram(self, name: str, others: tuple[str, ...]) -> tuple[Array, Array]:
        """[others]'A V and [others]'B V for a block V."""
        A = np.vstack([_cross(self.sums[other], self.sums[name]) for other in others])
        return A, _total(self.engine.map(partial(_gram, name=name, others=others, ridge=self.ridge)))

    def _combine(self, from_Z: Array, from_rest: Array, change: Array) -> None:
        """P = [P, W] from_rest, Z = Z from_Z + P diag(change), for the blocks, their images and sums."""
        small = [part.astype(self.dtype) for part in (from_Z, from_rest, change)]
        self.engine.map(partial(_combine, small=small))
        _recombine(self.sums, "", small)

    def begin(self, width: int, seed: int) -> None:
        """Z = D^-1 X'C Y R for a random concepts x width block R: one step from nothing."""
        concepts = self.concept_counts.shape[1]
        self.sums["Z"] = np.random.default_rng(seed).standard_normal((concepts, width)).astype(self.dtype)
        self.correct(None, width, 0)
        self.engine.map(_take_correction)

    def begin_with(self, basis: list[Array]) -> None:
        """Z = an earlier basis."""
        self.engine.map(_put_basis, [Z.astype(self.dtype) for Z in basis])

    def restart(self) -> Array:
        """Rayleigh-Ritz on Z alone, from fresh products; P is forgotten. Returns the eigenvalues."""
        self._image("Z")
        A, B = self._gram("Z", ("Z",))
        theta, V = _rayleigh_ritz(A, B, self.dtype)
        empty = np.zeros((0, 0))
        self.engine.map(_forget_rest)
        self.sums["P"] = self.sums["W"] = self.sums["Z"][:, :0]
        self._combine(V, empty, np.zeros(0))
        self.gram_A, self.gram_B = np.diag(theta), np.eye(len(theta))
        return theta

    def correct(self, theta: Array | None, rank: int, tol: float) -> float:
        """W = D^-1 (A Z - B Z theta): one product with X'. Returns the relative residual.

        Columns that are well within their share of ``tol`` are left out of W.
        """
        S = self.sums["Z"]
        self.products += S.shape[1]
        centres = self._centres([counts @ S for counts in self.concept_counts])
        squares = _total(self.engine.map(partial(_correct, S=S, theta=theta, ridge=self.ridge), centres))
        if theta is None:
            return np.inf
        size = max(float(np.linalg.norm(theta[:rank])), np.finfo(float).tiny)
        active = squares > (LOCKED * tol * size) ** 2 / rank
        if not active.all():
            self.engine.map(partial(_choose, active=active))
        return float(np.sqrt(squares[:rank].sum()) / size)

    def step(self, theta: Array, width: int) -> Array:
        """Rayleigh-Ritz over [Z, P, W]: one product with X. Returns the eigenvalues."""
        self._image("W")
        border_A, border_B = self._gram("W", ("Z", "P", "W"))
        A, B = _bordered(self.gram_A, border_A), _bordered(self.gram_B, border_B)
        theta, V = _rayleigh_ritz(A, B, self.dtype)
        theta, V = theta[:width], V[:, :width]
        k = self.sums["Z"].shape[1]
        # P is what the step adds to Z, scaled: all its inner products are known already, but for
        # columns that cancelled out, which say nothing any more and are blanked.
        added = V.copy()
        added[:k] = 0
        length = np.sqrt(np.maximum(np.diag(B) @ added**2, np.finfo(float).tiny))
        added /= length
        both = np.hstack([V, added])
        self.gram_A, self.gram_B = both.T @ A @ both, both.T @ B @ both
        lost = np.diag(self.gram_B) < _CANCELLED[self.dtype.type]
        self.gram_B[lost, :] = self.gram_B[:, lost] = 0
        self._combine(V[:k], added[k:], length)
        return theta

    def finish(self, theta: Array, rank: int) -> tuple[Array, Array]:
        """Turn Z into the paper's maps, with orthonormal columns; their eigenvalues and eigenvectors."""
        # Phi* = P'Y'X B^-1 has the columns sqrt(theta) z; its singular vectors are the maps.
        if len(theta) < rank:
            raise UserError(f"rank {rank} exceeds the {len(theta)} dimensions that the documents span; lower the rank")
        root = np.sqrt(theta[:rank])
        inner = _total(self.engine.map(_inner))[:rank, :rank]
        size, Q = eigh(inner * np.outer(root, root))
        self.engine.map(partial(_rotate, V=(root[:, None] * Q / np.sqrt(size))[:, ::-1]))
        self._image("Z")
        A, B = self._gram("Z", ("Z",))
        eigenvalues, eigenvectors = eigh(A, B)
        return eigenvalues[::-1], eigenvectors[:, ::-1]

    def basis(self) -> list[Array]:
        """A copy of Z."""
        return self.engine.map(lambda block: block.store["Z"].copy())

    def maps(self) -> list[Array]:
        """Z after ``finish``."""
        return self.engine.map(lambda block: block.store["Z"].astype(np.float32))


# What runs next to a language's block.


def _prepare(block: Block, mean: Array, documents: int, ridge: float) -> None:
    """D = diag(B), the Jacobi preconditioner."""
    block.store["D"] = np.maximum(block.column_squares() - documents * mean**2, 0) + ridge


def _image(block: Block, name: str) -> Array:
    block.store["G" + name] = block.times(block.store[name])
    return np.asarray(block.store["G" + name].sum(axis=0, dtype=np.float64))


def _centre(block: Block, centre: Array, name: str) -> Array:
    G = block.store["G" + name]
    G -= centre.astype(G.dtype)
    return block.concept_sums(G)


def _correct(block: Block, centre: Array, S: Array, theta: Array | None, ridge: float) -> Array:
    """W = D^-1 (X'C (Y S - G theta) - ridge Z theta) and the squared length of each column in D^-1."""
    U = S.take(block.concepts, axis=0)
    U -= centre.astype(U.dtype)
    if theta is not None:
        U -= block.store["GZ"] * theta.astype(U.dtype)
    R = block.transposed_times(U)
    if theta is not None:
        R -= block.store["Z"] * (ridge * theta).astype(U.dtype)
    block.store["W"] = R / block.store["D"].astype(R.dtype)[:, None]
    return np.asarray(np.einsum("ij,ij->j", R, block.store["W"]), np.float64)


def _choose(block: Block, active: Mask) -> None:
    block.store["W"] = block.store["W"][:, active]


def _gram(block: Block, name: str, others: tuple[str, ...], ridge: float) -> Array:
    store = block.store
    return np.vstack(
        [_cross(store["G" + other], store["G" + name]) + ridge * _cross(store[other], store[name]) for other in others]
    )


def _inner(block: Block) -> Array:
    return _cross(block.store["Z"], block.store["Z"])


def _combine(block: Block, small: list[Array]) -> None:
    _recombine(block.store, "", small)
    _recombine(block.store, "G", small)


def _recombine(store: dict[str, Array], prefix: str, small: list[Array]) -> None:
    """P = [P, W] from_rest, Z = Z from_Z + P diag(change), panel by panel, in place where it fits."""
    from_Z, from_rest, change = small
    Z, P, W = (store[prefix + name] for name in "ZPW")
    new_Z = Z if from_Z.shape[1] == Z.shape[1] else np.empty((len(Z), from_Z.shape[1]), Z.dtype)
    new_P = W if from_rest.shape[1] == W.shape[1] else np.empty((len(Z), from_rest.shape[1]), Z.dtype)
    for i in range(0, len(Z), PANEL):
        rows = slice(i, i + PANEL)
        added = np.hstack([P[rows], W[rows]]) @ from_rest
        moved = Z[rows] @ from_Z
        if added.size:
            moved += added * change
        new_Z[rows], new_P[rows] = moved, added
    store[prefix + "Z"], store[prefix + "P"], store[prefix + "W"] = new_Z, new_P, W[:, :0]


def _rotate(block: Block, V: Array) -> None:
    """Z = Z V, as the float32 that is handed out, so that its eigenvalues are those of what people get."""
    Z = block.store["Z"][:, : len(V)] @ V.astype(block.store["Z"].dtype)
    block.store["Z"] = Z.astype(np.float32).astype(Z.dtype)


def _put_basis(block: Block, Z: Array) -> None:
    block.store["Z"] = Z


def _take_correction(block: Block) -> None:
    block.store["Z"] = block.store.pop("W")


def _forget_rest(block: Block) -> None:
    for prefix in ("", "G"):
        for name in "PW":
            block.store[prefix + name] = block.store[prefix + "Z"][:, :0]


# Small dense algebra, in double precision. What counts as rounding, by the precision of the blocks, relative to 1:

_PRECISION = {np.float32: 1e-5, np.float64: 1e-10}  # a direction of [Z, P, W] that is not there
_NOTHING = {np.float32: 1e-4, np.float64: 1e-6}  # an eigenvalue beside the largest
_CANCELLED = {np.float32: 1e-2, np.float64: 1e-6}  # a column of P that is the difference of its parts


def _total(parts: Sequence[Array]) -> Array:
    """The sum over the languages."""
    return np.asarray(sum(parts[1:], start=parts[0]))


def _cross(U: Array, V: Array) -> Array:
    return (U.T @ V).astype(np.float64)


def _bordered(corner: Array, border: Array) -> Array:
    """The symmetric matrix with ``corner`` at the top left and ``border`` as its last columns."""
    k = len(corner)
    return np.block([[corner, border[:k]], [border[:k].T, (border[k:] + border[k:].T) / 2]])


def _rayleigh_ritz(A: Array, B: Array, dtype: np.dtype) -> tuple[Array, Array]:
    """The eigenpairs of A v = theta B v with theta > 0, largest first, in the directions that B's precision carries."""
    scale = np.diag(B)
    root = np.where(scale > 0, 1 / np.sqrt(np.where(scale > 0, scale, 1)), 0)
    size, Q = eigh(B * np.outer(root, root), driver="evd")
    carried = size > _PRECISION[dtype.type] * size.max(initial=0)
    N = root[:, None] * Q[:, carried] / np.sqrt(size[carried])
    theta, V = eigh(N.T @ A @ N, driver="evd")
    positive = theta > _NOTHING[dtype.type] * theta.max(initial=0)  # the null space of A would turn at will
    return theta[positive][::-1], N @ V[:, positive][:, ::-1]
