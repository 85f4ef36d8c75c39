"""The solver: reduced-rank ridge regression as a generalised eigenproblem, on arrays only.

X: documents x words, block-diagonal over languages; Y: documents x concepts, one-hot; C the
projector that centres documents (all together, or each language by itself). The best W of rank r in

    minimise  1/2 |Y - X W' - 1 b'|^2 + ridge/2 |W|^2

is spanned by the top r eigenvectors of  A z = theta B z,  A = X'C Y Y'C X,  B = X'C X + ridge I:
they are B^-1 X'C Y P for the eigenvectors P of the paper's concepts x concepts matrix, with the same
eigenvalues. Neither A nor B is ever formed, and no linear system is solved: LOBPCG with a
Jacobi preconditioner needs one product with X and one with X' a step. The engine
decides where rows are stored and products are computed.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.linalg import eigh

from cr5._typing import Array, Intercept, Ints, Mask, Sparse
from cr5.errors import Cr5Error
from cr5.machine import one_blas_thread
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.training.engines import BlockInfo, Engine
from cr5.training.engines.cpu import CpuEngine

OVERSAMPLING = 20  # columns beyond the rank: without them, the last eigenvectors of the rank converge slowly
RESTART_STEPS = 12  # between two restarts from fresh products: updates accumulate rounding errors
LOCK_FRACTION = 0.3  # of a column's share of ``tol``; soft locking: a smaller residual is not corrected

NamedArrays: TypeAlias = dict[str, Array]


@dataclass(frozen=True)
class Fit:
    """A solution with its convergence statistics.

    maps: per language words x rank, float32; stacked over the languages, the columns are
    orthonormal. means: per language the mean document that centring subtracts. eigenvalues: of the
    returned maps, from fresh products; energy is their sum. eigenvectors: rank x rank, the
    coordinates in the maps of the B-orthonormal eigenvectors. residual: |A z - theta B z| over the
    rank columns, relative, in the norm of the preconditioner; if it is above ``tol``, ``max_steps``
    or ``should_stop`` ended the run. products: the columns that X or X' was multiplied with, in all.
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

    @property
    def energy(self) -> float:
        """The sum of the eigenvalues, which the solver maximises."""
        return float(self.eigenvalues.sum())


def reduced_rank_ridge(
    blocks: Mapping[str, Sparse], concepts: Mapping[str, Ints], *, engine: Engine | None = None, **options: Any
) -> Fit:
    """Fit one map per language from documents x words and the concept number of every document.

    The arithmetic has the precision of the blocks. ``options`` are those of ``solve``; ``engine``
    says where to compute, by default here.
    """
    engine = engine or CpuEngine()
    for lang, X in blocks.items():
        engine.put(lang, X, concepts[lang])
    return solve(engine, **options)


def solve(
    engine: Engine,
    *,
    rank: int,
    ridge: float,
    intercept: Intercept = "language",
    tol: float = 0.05,
    max_steps: int = 100,
    seed: int = 0,
    progress: ProgressCallback = no_progress,
    start: Mapping[str, Array] | Literal["engine"] | None = None,
    save_checkpoint: Callable[[Callable[[], dict[str, Array]]], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    oversampling: int = OVERSAMPLING,
    lower_rank: bool = False,
) -> Fit:
    """Fit one map per language from the documents that an engine holds.

    A rank beyond the dimensions that the documents span is refused, or lowered with ``lower_rank``.
    ``start`` gives the maps of an earlier fit, or "engine" to continue from the Z that the engine holds. After every
    step ``save_checkpoint`` is called with a function that fetches Z, and before every step ``should_stop``.
    """
    with one_blas_thread():
        began = time.perf_counter()
        problem = _Problem(engine, ridge, intercept)
        width = min(rank + oversampling, problem.word_count)
        if start is None:
            problem.start_randomly(width, seed)
        elif start != "engine":
            problem.start_from([start[lang] for lang in engine.langs], width, seed)
        theta = problem.restart()
        steps, last, best = 0, np.inf, (np.inf, 0)
        while True:
            residual = problem.compute_residual(theta, rank, tol)
            converged = residual <= tol
            total = _expected_steps(steps, residual, last, tol, max_steps)
            note = f"energy {theta[:rank].sum():.2f}, residual {residual:.3g}, {problem.products:,} columns multiplied"
            progress(Progress("fit", steps, total, note))
            best = min(best, (residual, steps))
            exhausted = steps - best[1] >= RESTART_STEPS  # no progress for long: the precision of the data is exhausted
            if converged or exhausted or steps >= max_steps or should_stop():
                break
            theta = problem.step(width)
            steps += 1
            if steps % RESTART_STEPS == 0 or residual > 2 * last:
                theta = problem.restart()
            last = residual
            if save_checkpoint:
                save_checkpoint(lambda: dict(zip(engine.langs, engine.words.get("Z"), strict=True)))
        eigenvalues, eigenvectors = problem.finish(theta, min(rank, len(theta)) if lower_rank else rank)
        return Fit(
            maps=dict(zip(engine.langs, problem.maps(), strict=True)),
            means={lang: mean.astype(np.float32) for lang, mean in zip(engine.langs, problem.means, strict=True)},
            eigenvalues=eigenvalues,
            eigenvectors=eigenvectors,
            residual=residual,
            steps=steps,
            converged=converged,
            products=problem.products,
            seconds=time.perf_counter() - began,
        )


def _expected_steps(steps: int, residual: float, last: float, tol: float, max_steps: int) -> int | None:
    """The number of steps in all if residuals keep shrinking at the last rate; None while that is unknown."""
    if residual <= tol:
        return steps
    if not 0 < residual < last < np.inf or tol <= 0:
        return None if tol > 0 else max_steps
    return min(max_steps, steps + int(np.ceil(np.log(tol / residual) / np.log(residual / last))))


def memory_needed(blocks: Sequence[BlockInfo], concept_count: int, rank: int) -> int:
    """The bytes that a fit needs at its peak, including the documents."""
    width = rank + OVERSAMPLING
    item = max(np.dtype(block.dtype).itemsize for block in blocks)
    documents = sum(block.documents for block in blocks)
    words = sum({block.language: block.words for block in blocks}.values())
    # Documents in both orientations, and once more without those that the ridge is selected on.
    sparse = sum(3 * block.nonzeros * (np.dtype(block.dtype).itemsize + 4) for block in blocks)
    # Z, P and W in every partition, the maps, a few temporary rows, and small matrices.
    rows = 3 * (documents + words + concept_count) + words
    return int(sparse + rows * width * item + 2**27 + 8 * 10 * (3 * width) ** 2)


class _Problem:
    """The operators A and B over an engine, and the steps of LOBPCG on them.

    The partitions hold the same columns Z, P and W three times: the vectors themselves (words), their
    images G = C X V (documents), and the concept sums S = Y'G (concepts), so that
    V'A W = S_V'S_W and V'B W = G_V'G_W + ridge V'W. This object holds the small Gram matrices of [Z, P].
    """

    def __init__(self, engine: Engine, ridge: float, intercept: Intercept) -> None:
        self.engine, self.ridge, self.shared_intercept = engine, ridge, intercept == "shared"
        self.partitions = engine.words, engine.documents, engine.concepts
        self.products = 0
        blocks = engine.block_info()
        self.language_of_block = [block.language for block in blocks]
        self.dtype = np.result_type(*(block.dtype for block in blocks))
        self.word_count = sum({block.language: block.words for block in blocks}.values())
        documents = self._by_language([np.array(block.documents) for block in blocks])
        self.divisors = [np.array(max(n, 1)) for n in documents]
        if self.shared_intercept:
            self.divisors = [_total(documents)] * len(documents)
        engine.column_sums("mean", 1)
        engine.column_sums("D", 2)
        self._map_words(_prepare, self.divisors, ridge=ridge)
        self.means: list[Array] = [mean[:, 0] for mean in engine.words.get("mean")]
        self.columns = 0  # of Z
        self.gram_A = self.gram_B = np.zeros((0, 0))

    def _map_words(self, function: Callable[..., Any], *arguments: Sequence[Any], **same: Any) -> list[Any]:
        return self.engine.words.map(partial(function, **same), *arguments)

    def _by_language(self, parts: Sequence[Array]) -> list[Array]:
        """The sum over the shards of each language."""
        return [
            _total([part for part, owner in zip(parts, self.language_of_block, strict=True) if owner == language])
            for language in range(len(self.engine.langs))
        ]

    def _centres(self, name: str) -> list[Array]:
        """Column means of a documents x m array, for every shard: its language's, or those of all documents."""
        sums = self._by_language(self.engine.documents.map(partial(_column_sums, name=name)))
        sums = [_total(sums)] * len(sums) if self.shared_intercept else sums
        return [sums[language] / self.divisors[language] for language in self.language_of_block]

    def _image(self, name: str) -> None:
        """G = C X V for the words' columns V of a name, and their concept sums S = Y'G."""
        self.engine.multiply(name)
        centres = self._centres(name)
        self.products += len(centres[0])
        self.engine.documents.map(partial(_subtract, name=name), centres)
        self.engine.concept_sums(name)

    def _gram(self, name: str, others: tuple[str, ...]) -> tuple[Array, Array]:
        """[others]'A V and [others]'B V for the columns V of a name."""
        V, G, S = (_total(partition.map(partial(_cross, name=name, others=others))) for partition in self.partitions)
        return S, G + self.ridge * V

    def start_randomly(self, width: int, seed: int) -> None:
        """Z = D^-1 A D^-1 X'C Y R, up to scale, with random signs R, concepts x columns; needs no small matrices."""
        columns, bits = np.arange(-(-width // 64), dtype=np.uint64), np.arange(64, dtype=np.uint64)
        columns += np.uint64(seed * 0xD1B54A32D192ED03 % 2**64)
        signs = partial(_random_signs, columns=columns, bits=bits, width=width, dtype=self.dtype.name)
        self.engine.concepts.map(signs)
        self.compute_residual(None, width, 0)
        self._map_words(_correction_as_Z)
        self._image("Z")
        scale = np.sqrt(_total(self.engine.concepts.map(_squares)))
        self.engine.concepts.map(partial(_divide, scale=np.where(scale > 0, scale, 1)))
        self.compute_residual(None, width, 0)
        self._map_words(_correction_as_Z)

    def start_from(self, Z: list[Array], width: int, seed: int) -> None:
        """Z = the columns of an earlier fit, and random ones up to ``width``."""
        more = width - Z[0].shape[1]
        if more > 0:
            self.start_randomly(more, seed)
            Z = [np.hstack([a, b]) for a, b in zip(Z, self.engine.words.get("Z"), strict=True)]
        self.engine.words.set("Z", [a.astype(self.dtype) for a in Z])

    def restart(self) -> Array:
        """Rayleigh-Ritz on Z alone, from fresh products; P is deleted. Returns the eigenvalues."""
        self._image("Z")
        ritz = partial(_rayleigh_ritz, cuts=[], width=None, dtype=self.dtype.name)
        theta: Array
        theta, V = self.engine.compute(ritz, *self._gram("Z", ("Z",)))
        for partition in self.partitions:
            partition.map(partial(_rotate, V=V.astype(self.dtype)))
        self.gram_A, self.gram_B, self.columns = np.diag(theta), np.eye(len(theta)), len(theta)
        return theta

    def compute_residual(self, theta: Array | None, rank: int, tol: float) -> float:
        """W = D^-1 (A Z - B Z theta): one product with X'. Returns the relative residual.

        Columns well within their share of ``tol`` are left out of W (soft locking).
        """
        engine = self.engine
        engine.broadcast_concepts("Z", "U")
        centres = self._centres("U")
        engine.documents.map(partial(_residual, theta=theta), centres)
        engine.multiply_transposed("U", "W")
        self.products += len(centres[0])
        squares = _total(self._map_words(_precondition, theta=theta, ridge=self.ridge))
        if theta is None:
            return np.inf
        size = max(float(np.linalg.norm(theta[:rank])), np.finfo(float).tiny)
        active = squares > (LOCK_FRACTION * tol * size) ** 2 / rank
        if not active.all():
            self._map_words(_choose, active=active)
        return float(np.sqrt(squares[:rank].sum()) / size)

    def step(self, width: int) -> Array:
        """Rayleigh-Ritz over [Z, P, W]: one product with X. Returns the eigenvalues."""
        self._image("W")
        k, known = self.columns, len(self.gram_A)
        names = ("Z", "P", "W") if known > k else ("Z", "W")
        border_A, border_B = self._gram("W", names)
        ritz = partial(_ritz_step, columns=k, width=width, dtype=self.dtype.name)
        theta: Array
        theta, V, length, self.gram_A, self.gram_B = self.engine.compute(
            ritz, self.gram_A, border_A, self.gram_B, border_B
        )
        rest = V[k:] / length
        small = {"from_Z": V[:k], "from_P": rest[: known - k], "from_W": rest[known - k :], "length": length}
        combine = partial(_combine, **{name: part.astype(self.dtype) for name, part in small.items()})
        for partition in self.partitions:
            partition.map(combine)
        self.columns = len(theta)
        return theta

    def finish(self, theta: Array, rank: int) -> tuple[Array, Array]:
        """Turn Z into the paper's maps, with orthonormal columns; their eigenvalues and eigenvectors."""
        # Phi* = P'Y'C X B^-1 has the rows sqrt(theta) z'; its singular vectors are the maps.
        if len(theta) < rank:
            raise Cr5Error(
                f"`rank={rank}` is more than the {len(theta)} dimensions that the documents span; "
                f"use `rank<={len(theta)}`, or add documents"
            )
        for partition in self.partitions[1:]:
            partition.map(_delete_work_arrays)
        root = np.sqrt(theta[:rank])
        inner = _total(self._map_words(_cross, name="Z", others=("Z",)))[:rank, :rank]
        size, Q = eigh(inner * np.outer(root, root))
        V = (root[:, None] * Q / np.sqrt(size))[:, ::-1]
        self._map_words(_as_maps, V=V.astype(self.dtype))
        self._image("map")
        eigenvalues, eigenvectors = eigh(*self._gram("map", ("map",)))
        return eigenvalues[::-1], eigenvectors[:, ::-1]

    def maps(self) -> list[Array]:
        """The maps after ``finish``, float32; the engine keeps Z and nothing else."""
        maps = [Z.astype(np.float32, copy=False) for Z in self.engine.words.get("map")]
        for partition in self.partitions:
            partition.map(_delete_work_arrays)
        return maps


# Functions that are mapped over the rows of a partition: they use operators only, row by row, and write into no array.


def _prepare(rows: NamedArrays, documents: Array, ridge: float) -> None:
    """The mean document, and D = diag(B), the Jacobi preconditioner."""
    mean, squares = rows["mean"] / documents, rows["D"]
    rows["mean"] = mean
    spread = squares - documents * mean**2
    rows["D"] = spread * (spread > 0) + ridge


def _random_signs(rows: NamedArrays, columns: Array, bits: Array, width: int, dtype: str) -> None:
    """Z = random signs: the bits of a hash of a concept's number, independent of its position and the engine."""
    hashed = rows["id"].astype("uint64") * 0x9E3779B97F4A7C15 + columns * 0xA0761D6478BD642F
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        hashed = (hashed ^ (hashed >> shift)) * factor
    hashed = hashed ^ (hashed >> 31)
    signs = (hashed[:, :, None] >> bits) & 1
    rows["Z"] = signs.reshape(len(hashed), -1)[:, :width].astype(dtype) * 2 - 1


def _sums(V: Array) -> Array:
    """1'V, as a product, which is the fastest way to sum columns on every device."""
    return (np.ones_like(V, shape=len(V)) @ V).astype("float64")


def _column_sums(rows: NamedArrays, name: str) -> Any:
    return _sums(rows[name])


def _squares(rows: NamedArrays) -> Any:
    return _sums(rows["Z"] ** 2)


def _divide(rows: NamedArrays, scale: Array) -> None:
    rows["Z"] = rows["Z"] / scale.astype(rows["Z"].dtype)


def _subtract(rows: NamedArrays, centre: Array, name: str) -> None:
    rows[name] = rows[name] - centre.astype(rows[name].dtype)


def _residual(rows: NamedArrays, centre: Array, theta: Array | None) -> None:
    """U = Y S - centre - G theta."""
    U = rows["U"] - centre.astype(rows["U"].dtype)
    rows["U"] = U if theta is None else U - rows["Z"] * theta.astype(U.dtype)


def _precondition(rows: NamedArrays, theta: Array | None, ridge: float) -> Any:
    """W = D^-1 R, R = X'U - ridge Z theta; the squared length of each column in D^-1."""
    R = rows["W"]
    if theta is not None:
        R = R - rows["Z"] * (ridge * theta).astype(R.dtype)
    rows["W"] = R / rows["D"].astype(R.dtype)
    return _sums(R * rows["W"])


def _choose(rows: NamedArrays, active: Mask) -> None:
    rows["W"] = rows["W"][:, active]


def _cross(rows: NamedArrays, name: str, others: tuple[str, ...]) -> Array:
    """[others]'V."""
    return np.concatenate([rows[other].T @ rows[name] for other in others]).astype("float64")


def _combine(rows: NamedArrays, from_Z: Array, from_P: Array, from_W: Array, length: Array) -> None:
    """P = P from_P + W from_W, Z = Z from_Z + P diag(length)."""
    P = rows["W"] @ from_W
    if len(from_P):
        P = P + rows["P"] @ from_P
    rows["Z"], rows["P"] = rows["Z"] @ from_Z + P * length, P
    del rows["W"]


def _rotate(rows: NamedArrays, V: Array) -> None:
    rows["Z"] = rows["Z"] @ V
    _delete_work_arrays(rows)


def _as_maps(rows: NamedArrays, V: Array) -> None:
    """The maps, rounded to float32 as they are returned, so that the eigenvalues are those of the returned maps."""
    Z = rows["Z"][:, : len(V)] @ V
    _delete_work_arrays(rows)
    rows["map"] = Z.astype("float32").astype(Z.dtype)


def _correction_as_Z(rows: NamedArrays) -> None:
    rows["Z"] = rows.pop("W")


def _delete_work_arrays(rows: NamedArrays) -> None:
    for name in {*rows} & {"P", "W", "map"}:
        del rows[name]


# Small dense algebra, in double precision, for arrays of any device.
# Rounding errors, by the precision of the data, relative to 1:

_PRECISION = {"float32": 1e-5, "float64": 1e-10}  # of a direction of [Z, P, W]: smaller ones are dropped
_ZERO_EIGENVALUE = {"float32": 1e-4, "float64": 1e-6}  # relative to the largest
_CANCELLED = {"float32": 1e-2, "float64": 1e-6}  # of a column of P, relative to the parts that it is the sum of


def _total(parts: Sequence[Array]) -> Array:
    """The sum over the blocks of a partition."""
    return np.asarray(sum(parts[1:], start=parts[0]))


def _bordered(corner: Array, border: Array) -> Array:
    """The symmetric matrix with ``corner`` at the top left and ``border`` as its last columns."""
    k = len(corner)
    return np.vstack([np.hstack([corner, border[:k]]), np.hstack([border[:k].T, (border[k:] + border[k:].T) / 2])])


def _gram_of_step(M: Array, V: Array, rest: Array, inner: Array) -> Array:
    """The Gram matrix of [V, R] in M, given inner = V'M V; R is zero except for its last rows, ``rest``."""
    image = M[:, len(M) - len(rest) :] @ rest
    return _bordered(inner, np.concatenate([V.T @ image, rest.T @ image[len(M) - len(rest) :]]))


def _ritz_step(
    gram_A: Array, border_A: Array, gram_B: Array, border_B: Array, columns: int, width: int, dtype: str
) -> tuple[Array, ...]:
    """Rayleigh-Ritz over [Z, P, W]: theta, V, the length of what V adds to Z, and the next Gram matrices of [Z, P]."""
    A, B = _bordered(gram_A, border_A), _bordered(gram_B, border_B)
    known = len(gram_A)
    theta, V = _rayleigh_ritz(A, B, [columns, known] if known > columns else [columns], width, dtype)
    # P is what the step adds to Z, scaled: all its inner products are known already, except for
    # columns that cancelled out, which hold only rounding errors and are set to zero.
    rest = V[columns:]
    length = np.sqrt(np.maximum(np.diag(B)[columns:] @ rest**2, np.finfo(float).tiny))
    rest = rest / length
    gram_A = _gram_of_step(A, V, rest, np.diag(theta))
    gram_B = _gram_of_step(B, V, rest, np.diag(np.ones_like(theta)))
    present = np.diag(gram_B) >= _CANCELLED[dtype]
    return theta, V, length, gram_A, gram_B * np.outer(present, present)


def _rayleigh_ritz(A: Array, B: Array, cuts: list[int], width: int | None, dtype: str) -> tuple[Array, Array]:
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
