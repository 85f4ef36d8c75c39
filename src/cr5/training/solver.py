"""The solver: reduced-rank ridge regression as a generalised eigenproblem, on arrays only.

X: documents x words, block-diagonal over languages; Y: documents x concepts, one-hot; C the
projector that centres documents (all together, or each language by itself). The best F of rank r in

    minimise  1/2 |Y - X F' - 1 b'|^2 + ridge/2 |F|^2

is spanned by the top r eigenvectors of  A z = theta B z,  A = X'C Y Y'C X,  B = X'C X + ridge I:
they are B^-1 X'C Y Q for the eigenvectors Q of the paper's concepts x concepts matrix, with the same
eigenvalues. Neither A nor B is ever formed, and no linear system is solved: LOBPCG with a
Jacobi preconditioner needs one product with X and one with X' a step. Z are its present columns, P their
last change and W the preconditioned residual. The engine decides where rows are stored and products are computed.

A language may have subwords: columns X M, linear in the words, beside its words. X then stands for X E, E = [I, M],
in all of these formulas. The vectors that matter are combinations of the rows of X E, of the form E'Z with a row of Z
for every word: those of subwords, M'Z, are never stored. With K = E E' = I + M M', the image of E'Z is X K Z and inner
products are Z'K Z. The residual A E'Z - B E'Z theta is E'R, where R has a row for every word, and so is the correction
E'J R with the preconditioner J over words. K is applied to the new columns of a step, once.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from cr5._typing import Array, Intercept, Ints, Sparse
from cr5.corpus.texts import describe
from cr5.errors import Cr5Error, Cr5TypeError
from cr5.machine import one_blas_thread
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.training.engines import BlockInfo, Engine
from cr5.training.engines.cpu import engine_or_cpu
from cr5.training.lobpcg import PROBES, STALLED, Lobpcg

OVERSAMPLING = 20  # columns beyond the rank: without them, the last eigenvectors of the rank converge slowly
RESTART_STEPS = 12  # steps between two restarts from fresh products: updates accumulate rounding errors
MIN_STEPS = 2  # from a random start: a small corpus may meet ``tol`` after one, where a second costs little
MIN_TOL_ROUNDED = 0.01  # corrections whose numbers are off by up to 1 / 256 still reduce residuals of this size


@dataclass(frozen=True)
class Fit:
    """A solution with its convergence statistics.

    maps: per language words x rank, float32; those of its subwords are M'maps. Stacked over words, subwords and
    languages, the maps have orthonormal columns. folded_maps: (I + M M') maps, what a word contributes by itself and by
    its subwords; equal to the maps in a language without subwords. means: per language the mean document that centring
    subtracts. eigenvalues: of the returned maps; energy is their sum. ``regress`` returns the explained share of each
    column here. eigenvectors: rank x rank, the coordinates in the maps of the B-orthonormal eigenvectors. residual: |A
    z - theta B z| over the rank columns, relative, in the norm of 1 / diag(B); if it is above ``tol``, rounding errors,
    ``max_steps`` or ``should_stop`` ended the run. It is infinite if ``tol`` is 0: then all steps are taken, unless
    rounding errors leave nothing to gain, and the last residual is not computed. products: the columns that X or X' was
    multiplied with, in all. concept_sums: Y'C X maps, concepts x rank, if they were asked for. stopped: whether
    ``should_stop`` ended the run.
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
    stopped: bool = False

    @property
    def energy(self) -> float:
        """The sum of the eigenvalues, which the solver maximises."""
        return float(self.eigenvalues.sum())

    @property
    def convergence(self) -> dict[str, Any]:
        """How the run went, for the report of a model, where a residual that was not computed is None."""
        facts = {name: getattr(self, name) for name in ("residual", "steps", "products", "seconds", "converged")}
        return facts | {"residual": self.residual if np.isfinite(self.residual) else None}


class SolverState(NamedTuple):
    """How far a fit has come: the steps taken, the number of columns of Z, and the residual before the last step.

    ``min_steps`` is the minimum number of steps.
    """

    steps: int
    columns: int
    residual: float
    min_steps: int


SaveCheckpoint: TypeAlias = Callable[[Callable[[], dict[str, Array]], SolverState, bool], None]


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
    for name, given in (("blocks", blocks), ("concepts", concepts)):
        if not isinstance(given, Mapping):
            advice = "give a dict with an entry for each language, {'en': …, 'it': …}"
            raise Cr5TypeError(f"`{name}` is {describe(given)}; {advice}")
    if missing := blocks.keys() - concepts.keys():
        raise Cr5Error(f"`concepts` has nothing for {', '.join(sorted(missing))}; give the concepts of its documents")
    engine = engine_or_cpu(engine)
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
    position: SolverState | None = None,
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
        problem = Lobpcg(engine, ridge, intercept, may_round=tol >= MIN_TOL_ROUNDED)
        width = min(rank + oversampling, sum(problem.words))
        reached = position or SolverState(0, width, np.inf, 0 if start else MIN_STEPS)
        theta = _begin(problem, start, reached, seed, start_is_folded)
        steps, last, best = reached.steps, reached.residual, (np.inf, reached.steps)
        estimate = np.inf
        while True:
            is_last = steps >= max_steps
            is_early = steps < reached.min_steps
            residual = estimate
            if estimate > tol and not (is_last and tol == 0):
                residual = problem.compute_residual(theta, rank, 0.0 if is_early else tol)
            # A further step would follow rounding errors.
            is_exact = residual <= problem.rounding * (STALLED if residual > last else 1)
            converged = is_exact or (residual <= tol and (is_last or not is_early))
            expected = _expected_steps(steps, residual, last, tol, max_steps)
            note = f"energy {theta[:rank].sum():.2f}, residual {residual:.3g}, {problem.products:,} columns multiplied"
            progress(Progress("fit", steps, expected, note))
            best = min(best, (residual, steps))
            exhausted = steps - best[1] >= RESTART_STEPS  # no progress for long: the precision of the data is exhausted
            is_stopped = not (converged or exhausted or is_last) and should_stop()
            if is_stopped and save_checkpoint:
                save_checkpoint(problem.fetch_columns, reached._replace(columns=problem.columns), True)
            if converged or exhausted or is_last or is_stopped:
                break
            theta = problem.ritz_step(width)
            steps, before, last = steps + 1, last, residual
            estimate = np.inf
            if steps % RESTART_STEPS == 0 or residual > 2 * before:
                problem.update([engine.words])
                theta = problem.restart()
            else:
                if rank > PROBES and steps >= reached.min_steps and residual**2 <= tol * before:  # by the last rate
                    estimate = problem.estimate_residual(theta, min(rank, len(theta)))
                is_end = estimate <= tol or (steps >= max_steps and tol == 0)
                # Nothing but Z, over words, is needed in the end.
                ending = [engine.words, engine.concepts] if concept_sums else [engine.words]
                problem.update(ending if is_end else problem.partitions)
            reached = reached._replace(steps=steps, columns=problem.columns, residual=last)
            if save_checkpoint:
                save_checkpoint(problem.fetch_columns, reached, False)
        rank = min(rank, len(theta)) if lower_rank else rank
        eigenvalues, eigenvectors = problem.finish(theta, rank, concept_sums)
        sums = np.concatenate(engine.concepts.get("map")) if concept_sums else None
        return Fit(
            **problem.results(),
            eigenvalues=eigenvalues,
            eigenvectors=eigenvectors,
            residual=residual,
            steps=steps,
            converged=converged,
            products=problem.products,
            seconds=time.perf_counter() - began,
            concept_sums=sums,
            stopped=is_stopped,
        )


def _begin(
    problem: Lobpcg,
    start: Mapping[str, Array] | Literal["engine"] | None,
    reached: SolverState,
    seed: int,
    folded: bool,
) -> Array:
    """Give a problem its first Z, and the P of the fit that it continues, if any; returns the eigenvalues."""
    engine, columns = problem.engine, reached.columns
    if start is None:
        problem.start_randomly(columns, seed)
    elif start != "engine":
        arrays = [start[lang] for lang in engine.langs]
        problem.start_from([Z[:, :columns] for Z in arrays], columns, seed, folded=folded)
        if reached.steps and arrays[0].shape[1] > columns:  # P, of which there is none before the first step
            engine.words.set("P", [Z[:, columns:].astype(problem.dtype) for Z in arrays])
            return problem.resume()
    return problem.restart(may_round=start is None)


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
