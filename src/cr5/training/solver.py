"""The solver: reduced-rank ridge regression as a generalised eigenproblem, on arrays only.

X: documents x words, block-diagonal over languages; Y: documents x concepts, one-hot; C the
projector that centres documents (all together, or each language by itself). The best W of rank r in

    minimise  1/2 |Y - X W' - 1 b'|^2 + ridge/2 |W|^2

is spanned by the top r eigenvectors of  A z = theta B z,  A = X'C Y Y'C X,  B = X'C X + ridge I:
they are B^-1 X'C Y P for the eigenvectors P of the paper's concepts x concepts matrix, with the same
eigenvalues. Neither A nor B is ever formed, and no linear system is solved: LOBPCG with a
Jacobi preconditioner needs one product with X and one with X' a step. The engine
decides where rows are stored and products are computed.

A language may have subwords: columns X M, linear in the words, beside its words. X then stands for X E, E = [I, M],
in all of these formulas. The vectors that matter are combinations of the rows of X E, of the form E'Z with a row of Z
for every word: those of subwords, M'Z, are never stored. With K = E E' = I + M M', the image of E'Z is X K Z and inner
products are Z'K Z. The residual A E'Z - B E'Z theta is E'R, where R has a row for every word, and so is the correction
E'T R with a preconditioner T over words. K is applied to the new columns of a step, once.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.linalg import eigh

from cr5._typing import Array, Intercept, Ints, Mask, Sparse
from cr5.errors import Cr5Error, RankTooLargeError
from cr5.machine import one_blas_thread
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.training import row_functions
from cr5.training.engines import BlockInfo, Engine
from cr5.training.engines.cpu import CpuEngine
from cr5.training.rayleigh_ritz import known_gram, rayleigh_ritz, ritz_step
from cr5.training.row_functions import NamedArrays, column_products, cross, sums, total
from cr5.training.unfolding import unfold

OVERSAMPLING = 20  # columns beyond the rank: without them, the last eigenvectors of the rank converge slowly
RESTART_STEPS = 12  # between two restarts from fresh products: updates accumulate rounding errors
UPDATES_TRUSTED = 4  # steps after which eigenvalues are still those of fresh products, to about 1e-6
MIN_STEPS = 2  # from a random start: a small corpus may meet ``tol`` after one, where a second costs little
LOCK_FRACTION = 0.3  # of a column's share of ``tol``; soft locking: a smaller residual is not corrected


@dataclass(frozen=True)
class Fit:
    """A solution with its convergence statistics.

    maps: per language words x rank, float32; those of its subwords are M'maps, and stacked over both and the languages,
    the columns are orthonormal. folded_maps: (I + M M') maps, what a word contributes by itself and by its subwords;
    the maps themselves without any. means: per language the mean document that centring subtracts.
    eigenvalues: of the returned maps; energy is their sum. eigenvectors: rank x rank, the coordinates in the maps of
    the B-orthonormal eigenvectors. residual: |A z - theta B z| over the rank columns, relative, in the norm of the
    preconditioner; if it is above ``tol``, ``max_steps`` or ``should_stop`` ended the run. It is infinite if ``tol``
    is 0: then all steps are taken, and the last residual is not computed. products: the columns that X or X' was
    multiplied with, in all. concept_sums: Y'C X maps, concepts x rank, if they were asked for.
    """

    maps: dict[str, Array]
    folded_maps: dict[str, Array]
    means: dict[str, Array]
    eigenvalues: Array
    eigenvectors: Array
    residual: float
    steps: int
    converged: bool
    products: int
    seconds: float
    concept_sums: Array | None = None

    @property
    def energy(self) -> float:
        """The sum of the eigenvalues, which the solver maximises."""
        return float(self.eigenvalues.sum())


class Position(NamedTuple):
    """How far a fit has come: its steps, the columns of Z, the residual before the last step, and its fewest steps."""

    steps: int
    columns: int
    residual: float
    min_steps: int


SaveCheckpoint: TypeAlias = Callable[[Callable[[], dict[str, Array]], Position, bool], None]


def reduced_rank_ridge(
    blocks: Mapping[str, Sparse],
    concepts: Mapping[str, Ints],
    subwords: Mapping[str, Sparse] | None = None,
    *,
    engine: Engine | None = None,
    **options: Any,
) -> Fit:
    """Fit one map per language from documents x words and the concept number of every document.

    ``subwords`` has the words x subwords of those languages that have any. The arithmetic has the precision of the
    blocks. ``options`` are those of ``solve``; ``engine`` says where to compute, by default here.
    """
    engine = engine or CpuEngine()
    for lang, X in blocks.items():
        engine.put(lang, X, concepts[lang], (subwords or {}).get(lang))
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
    start_is_folded: bool = False,
    position: Position | None = None,
    save_checkpoint: SaveCheckpoint | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    oversampling: int = OVERSAMPLING,
    lower_rank: bool = False,
    concept_sums: bool = False,
) -> Fit:
    """Fit one map per language from the documents that an engine holds.

    A rank beyond the dimensions that the documents span is refused, or lowered with ``lower_rank``.
    ``start`` gives the maps of an earlier fit, or the folded ones with ``start_is_folded``, or "engine" to continue
    from the Z that the engine holds. After every step ``save_checkpoint`` is called with a function that fetches Z
    and P in the form of ``start``, with the position, and with whether ``should_stop``, which is called before every
    step, has ended the fit. From both, ``start`` and ``position``, a fit continues as if it had not been interrupted,
    but for rounding errors. ``concept_sums`` asks for those of the maps.
    """
    with one_blas_thread():
        began = time.perf_counter()
        problem = Problem(engine, ridge, intercept)
        width = min(rank + oversampling, sum(problem.words))
        here, arrays = position or Position(0, width, np.inf, 0 if start else MIN_STEPS), []
        if start is None:
            problem.start_randomly(width, seed)
        elif start != "engine":
            arrays = [start[lang] for lang in engine.langs]
            problem.start_from([Z[:, : here.columns] for Z in arrays], here.columns, seed, folded=start_is_folded)
        if position and arrays[0].shape[1] > here.columns:
            engine.words.set("P", [Z[:, here.columns :].astype(problem.dtype) for Z in arrays])
            theta = problem.resume()
        else:
            theta = problem.restart()
        steps, last, best = here.steps, here.residual, (np.inf, here.steps)
        while True:
            is_last = steps >= max_steps
            asked = tol if steps >= here.min_steps else 0.0
            residual = np.inf if is_last and tol == 0 else problem.compute_residual(theta, rank, asked)
            converged = residual <= tol and (is_last or steps >= here.min_steps)
            expected = _expected_steps(steps, residual, last, tol, max_steps)
            note = f"energy {theta[:rank].sum():.2f}, residual {residual:.3g}, {problem.products:,} columns multiplied"
            progress(Progress("fit", steps, expected, note))
            best = min(best, (residual, steps))
            exhausted = steps - best[1] >= RESTART_STEPS  # no progress for long: the precision of the data is exhausted
            is_stopped = not (converged or exhausted or is_last) and should_stop()
            if is_stopped and save_checkpoint:
                save_checkpoint(problem.fetch_columns, here._replace(columns=problem.columns), True)
            if converged or exhausted or is_last or is_stopped:
                break
            theta = problem.step(width)
            steps += 1
            if steps % RESTART_STEPS == 0 or residual > 2 * last:
                theta = problem.restart()
            last = residual
            here = here._replace(steps=steps, columns=problem.columns, residual=last)
            if save_checkpoint:
                save_checkpoint(problem.fetch_columns, here, False)
        rank = min(rank, len(theta)) if lower_rank else rank
        eigenvalues, eigenvectors = problem.finish(theta, rank, concept_sums)
        sums = np.concatenate(engine.concepts.get("map")) if concept_sums else None
        maps, folded_maps = problem.maps()
        return Fit(
            maps=dict(zip(engine.langs, maps, strict=True)),
            folded_maps=dict(zip(engine.langs, folded_maps, strict=True)),
            means={lang: mean.astype(np.float32) for lang, mean in zip(engine.langs, problem.means, strict=True)},
            eigenvalues=eigenvalues,
            eigenvectors=eigenvectors,
            residual=residual,
            steps=steps,
            converged=converged,
            products=problem.products,
            seconds=time.perf_counter() - began,
            concept_sums=sums,
        )


def fetch_Z(engine: Engine) -> dict[str, Array]:
    """The Z that an engine holds, in the form of ``start``."""
    return dict(zip(engine.langs, engine.words.get("Z"), strict=True))


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
    languages = {block.language: block for block in blocks}.values()
    words = sum(block.words for block in languages)
    subwords = sum(block.subwords for block in languages)
    # Documents in both orientations, and once more without those that the ridge is selected on; subwords in both.
    nonzeros = 3 * sum(block.nonzeros for block in blocks) + 2 * sum(block.subword_nonzeros for block in languages)
    # Z, P and W in every partition and the maps; with subwords, K W and M'W, which it is made from; small matrices.
    rows = 3 * (documents + words + concept_count) + words + (words + subwords if subwords else 0)
    kernels = 2**27 + 2**26  # the compiler, what it compiles, and the panels that V is copied to
    return int(nonzeros * (item + 4) + rows * width * item + kernels + 8 * 10 * (3 * width) ** 2)


class Problem:
    """The operators A and B over an engine, and the steps of LOBPCG on them.

    The partitions hold the same columns Z, P and W three times: the vectors themselves (words), their
    images G = C X K V (documents), and the concept sums S = Y'G (concepts), so that
    V'A W = S_V'S_W and V'B W = G_V'G_W + ridge V'K W. This object holds the small Gram matrices of [Z, P].
    """

    def __init__(self, engine: Engine, ridge: float, intercept: Intercept) -> None:
        self.engine, self.ridge, self.shared_intercept = engine, ridge, intercept == "shared"
        self.partitions = [engine.words, engine.documents, engine.concepts]
        self.products = 0
        blocks = engine.block_info()
        self.has_subwords = any(block.subwords for block in blocks)
        self.language_of_block = [block.language for block in blocks]
        self.dtype = np.result_type(*(block.dtype for block in blocks))
        self.words = list({block.language: block.words for block in blocks}.values())
        documents = self._by_language([np.array(block.documents) for block in blocks])
        self.divisors = [np.array(max(n, 1)) for n in documents]
        if self.shared_intercept:
            self.divisors = [total(documents)] * len(documents)
        engine.column_sums("mean", 1)
        engine.column_sums("D", 2)
        engine.words.map(row_functions.means_and_spread, self.divisors)
        engine.inverse_spread("D", "D", ridge)
        self.means: list[Array] = [mean[:, 0] for mean in engine.words.get("mean")]
        self.columns = 0  # of Z
        self.updates = 0  # of the images since they were computed with products
        self.gram_A = self.gram_B = np.zeros((0, 0))

    def _by_language(self, parts: Sequence[Array]) -> list[Array]:
        """The sum over the shards of each language."""
        return [
            total([part for part, owner in zip(parts, self.language_of_block, strict=True) if owner == language])
            for language in range(len(self.engine.langs))
        ]

    def _centres(self, name: str) -> list[Array]:
        """Column means of a documents x m array, for every shard: its language's, or those of all documents."""
        sums = self._by_language(self.engine.documents.map(partial(_column_sums, name=name)))
        sums = [total(sums)] * len(sums) if self.shared_intercept else sums
        return [sums[language] / self.divisors[language] for language in self.language_of_block]

    def _fold(self, name: str) -> str:
        """Compute K V for the columns V of a name; returns its own name, that of V without subwords."""
        if not self.has_subwords:
            return name
        self.engine.fold(name, "folded")
        return "folded"

    def _image(self, name: str) -> str:
        """G = C X K V for the columns V of a name, and their concept sums S = Y'G. Returns the name of K V."""
        folded = self._fold(name)
        self.engine.multiply(folded, name)
        centres = self._centres(name)
        self.products += len(centres[0])
        self.engine.documents.map(partial(subtract_rows, name=name), centres)
        self.engine.concept_sums(name)
        return folded

    def _gram(self, name: str, others: tuple[str, ...], folded: str) -> tuple[Array, Array]:
        """[others]'A V and [others]'B V for the columns V of a name."""
        V, G, S = (
            total(partition.map(partial(cross, name=of, others=others)))
            for partition, of in zip(self.partitions, (folded, name, name), strict=True)
        )
        return S, G + self.ridge * V

    def start_randomly(self, width: int, seed: int) -> None:
        """Z = T X'C Y Y'C X K T X'C Y R, up to scale, with random signs R, concepts x columns."""
        columns, bits = np.arange(-(-width // 64), dtype=np.uint64), np.arange(64, dtype=np.uint64)
        columns += np.uint64(seed * 0xD1B54A32D192ED03 % 2**64)
        signs = partial(row_functions.random_signs, columns=columns, bits=bits, width=width, dtype=self.dtype.name)
        self.engine.concepts.map(signs)
        self.compute_residual(None, width, 0)
        self.engine.words.map(_correction_as_Z)
        self._image("Z")
        scale = np.sqrt(total(self.engine.concepts.map(partial(column_products, pairs=[("Z", "Z")])))[0])
        self.engine.concepts.map(partial(row_functions.divide_Z, scale=np.where(scale > 0, scale, 1)))
        self.compute_residual(None, width, 0)
        self.engine.words.map(_correction_as_Z)

    def start_from(self, Z: list[Array], width: int, seed: int, *, folded: bool) -> None:
        """Z = the columns of an earlier fit, or of K Z if they are ``folded``, and random ones up to ``width``."""
        for lang, rows, words in zip(self.engine.langs, Z, self.words, strict=True):
            if len(rows) != words:
                raise Cr5Error(
                    f"`start` has {len(rows):,} rows for the {words:,} words of language {lang}; start without it, or "
                    "delete the checkpoint that it comes from"
                )
        Z = [rows[:, :width] for rows in Z]
        if folded and self.has_subwords:
            self.engine.words.set("Z", [rows.astype(self.dtype) for rows in Z])
            unfold(self.engine)
            Z = list(fetch_Z(self.engine).values())
        more = width - Z[0].shape[1]
        if more > 0:
            self.start_randomly(more, seed)
            Z = [np.hstack([a, b]) for a, b in zip(Z, fetch_Z(self.engine).values(), strict=True)]
        self.engine.words.set("Z", [a.astype(self.dtype) for a in Z])

    def restart(self) -> Array:
        """Rayleigh-Ritz on Z alone, from fresh products; P is deleted. Returns the eigenvalues."""
        folded = self._image("Z")
        ritz = partial(rayleigh_ritz, cuts=[], width=None, dtype=self.dtype.name)
        theta: Array
        theta, V = self.engine.compute(ritz, *self._gram("Z", ("Z",), folded))
        for partition in self.partitions:
            partition.map(partial(_rotate, V=V.astype(self.dtype)))
        self.gram_A, self.gram_B, self.columns = np.diag(theta), np.eye(len(theta)), len(theta)
        self.updates = 0
        return theta

    def resume(self) -> Array:
        """Go on from the Z and P of a checkpoint, with fresh products. Returns the eigenvalues."""
        corners = self._gram("Z", ("Z",), self._image("Z"))
        self.columns = corners[0].shape[1]
        borders = self._gram("P", ("Z", "P"), self._image("P"))
        self.gram_A, self.gram_B = known_gram(*corners, *borders, self.dtype.name)
        return np.asarray(np.diag(corners[0]) / np.diag(corners[1]))

    def fetch_columns(self) -> dict[str, Array]:
        """Z and P side by side, in the form of ``start``."""
        names = ["Z", "P"] if len(self.gram_A) > self.columns else ["Z"]
        parts = [self.engine.words.get(name) for name in names]
        return {lang: np.hstack(of) for lang, *of in zip(self.engine.langs, *parts, strict=True)}

    def compute_residual(self, theta: Array | None, rank: int, tol: float) -> float:
        """W = T R, E'R = A E'Z - B E'Z theta: one product with X'. Returns the relative residual.

        Columns well within their share of ``tol`` are left out of W (soft locking).
        """
        engine = self.engine
        engine.broadcast_concepts("Z", "U")
        centres = self._centres("U")
        engine.documents.map(partial(_residual, theta=theta), centres)
        engine.multiply_transposed("U", "W")
        self.products += len(centres[0])
        squares = self.precondition(theta)
        if theta is None:
            return np.inf
        size = max(float(np.linalg.norm(theta[:rank])), np.finfo(float).tiny)
        active = squares > (LOCK_FRACTION * tol * size) ** 2 / rank
        if not active.all():
            engine.words.map(partial(_choose, active=active))
        return float(np.sqrt(squares[:rank].sum()) / size)

    def precondition(self, theta: Array | None) -> Array:
        """W = T (W - ridge Z theta); the squared length of each column in the norm of the preconditioner."""
        return total(self.engine.words.map(partial(_precondition, theta=theta, ridge=self.ridge)))

    def step(self, width: int) -> Array:
        """Rayleigh-Ritz over [Z, P, W]: one product with X. Returns the eigenvalues."""
        folded = self._image("W")
        k, known = self.columns, len(self.gram_A)
        names = ("Z", "P", "W") if known > k else ("Z", "W")
        border_A, border_B = self._gram("W", names, folded)
        ritz = partial(ritz_step, columns=k, width=width, dtype=self.dtype.name)
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
        self.updates += 1
        return theta

    def finish(self, theta: Array, rank: int, concept_sums: bool) -> tuple[Array, Array]:
        """Turn Z into the paper's maps, with orthonormal columns; their eigenvalues and eigenvectors.

        They are known from the last step; after many updates of the images they are computed from fresh products.
        """
        # Phi* = P'Y'C X B^-1 has the rows sqrt(theta) z'; its singular vectors are the maps.
        if len(theta) < rank:
            raise RankTooLargeError(
                f"`rank={rank}` is more than the {len(theta)} dimensions that the documents span; "
                f"use `rank<={len(theta)}`, or add documents"
            )
        for partition in (self.engine.documents, self.engine.concepts):
            partition.map(_delete_work_arrays)
        root = np.sqrt(theta[:rank])
        of_Z = partial(cross, name=self._fold("Z"), others=("Z",))
        inner = total(self.engine.words.map(of_Z))[:rank, :rank]
        size, Q = eigh(inner * np.outer(root, root))
        V = (root[:, None] * Q / np.sqrt(size))[:, ::-1]
        self.engine.words.map(partial(_as_maps, V=V.astype(self.dtype)))
        if self.updates <= UPDATES_TRUSTED:
            self._fold("map")
            if concept_sums:
                self.engine.concepts.map(partial(_as_maps, V=V.astype(self.dtype)))
            return theta[:rank], (np.sqrt(size)[:, None] * Q.T / root)[::-1]  # the inverse of V
        eigenvalues, eigenvectors = eigh(*self._gram("map", ("map",), self._image("map")))
        return eigenvalues[::-1], eigenvectors[:, ::-1]

    def maps(self) -> tuple[list[Array], list[Array]]:
        """The maps and the folded maps after ``finish``, float32; the engine keeps Z and nothing else."""
        maps, *folded = [
            [Z.astype(np.float32, copy=False) for Z in self.engine.words.get(name)]
            for name in (["map", "folded"] if self.has_subwords else ["map"])
        ]
        for partition in self.partitions:
            partition.map(_delete_work_arrays)
        return maps, folded[0] if folded else maps


# Functions that are mapped over the rows of a partition: they use operators only, row by row, and write into no array.


def _column_sums(rows: NamedArrays, name: str) -> Any:
    return sums(rows[name])


def subtract_rows(rows: NamedArrays, centre: Array, name: str) -> None:
    rows[name] = rows[name] - centre.astype(rows[name].dtype)


def _residual(rows: NamedArrays, centre: Array, theta: Array | None) -> None:
    """U = Y S - centre - G theta."""
    U = rows["U"] - centre.astype(rows["U"].dtype)
    rows["U"] = U if theta is None else U - rows["Z"] * theta.astype(U.dtype)


def _precondition(rows: NamedArrays, theta: Array | None, ridge: float) -> Any:
    """W = T R, R = X'U - ridge Z theta; the squared length of each column of E'R in the Jacobi preconditioner.

    That is the diagonal of B, as if words occurred independently. T has the mean of its inverse over a word's features.
    """
    R, inverse, weight = rows["W"], rows["D"][:, :1], rows["D"][:, 1:]
    if theta is not None:
        R = R - rows["Z"] * (ridge * theta).astype(R.dtype)
    rows["W"] = R * (inverse / weight).astype(R.dtype)
    return sums(R * rows["W"] * weight.astype(R.dtype))


def _choose(rows: NamedArrays, active: Mask) -> None:
    rows["W"] = rows["W"][:, active]


def _combine(rows: NamedArrays, from_Z: Array, from_P: Array, from_W: Array, length: Array) -> None:
    """P = P from_P + W from_W, Z = Z from_Z + P diag(length)."""
    P = rows["W"] @ from_W
    if len(from_P):
        P = P + rows["P"] @ from_P
    _delete_work_arrays(rows)
    rows["Z"], rows["P"] = rows["Z"] @ from_Z + P * length, P


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
    for name in {*rows} & {"P", "W", "map", "folded"}:
        del rows[name]
