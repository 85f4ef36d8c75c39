"""Ridge regression onto given concept vectors: the map of a language, while those of all others stay.

X: documents x words of one language, T: the target of every document, which is that of its concept. The map Z in

    minimise  1/2 |T - X Z - 1 b'|^2 + ridge/2 |Z|^2

solves  B Z = X'C T,  B = X'C X + ridge I: a system for every column, solved by conjugate gradients with the Jacobi
preconditioner J of the solver, all columns at the same time. A step takes one product with X and one with X'. Subwords
are treated as in the solver: Z stands for E'Z, and inner products are Z'K Z. The preconditioner does not commute with
K, so that the usual formulas for the step do not hold: every column takes the best combination of its last step P and
its preconditioned residual W, from the inner products of both. Without subwords that is the same.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np

from cr5._typing import Array, Intercept
from cr5.machine import one_blas_thread
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.training.engines import Engine
from cr5.training.operators import Operators
from cr5.training.row_functions import NamedArrays, column_products, total
from cr5.training.solver import Fit

TARGET = "target"  # the name of the concepts' targets in an engine


def set_targets(engine: Engine, targets: Array) -> None:
    """Give an engine the target of every concept, concepts x rank, in the order of their numbers."""
    engine.concepts.set(TARGET, [targets[numbers[:, 0]] for numbers in engine.concepts.get("id")])


def regress(
    engine: Engine,
    *,
    ridge: float,
    intercept: Intercept = "language",
    tol: float = 0.01,
    max_steps: int = 100,
    progress: ProgressCallback = no_progress,
    start: Literal["engine"] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    **_: Any,
) -> Fit:
    """Fit the map of each language of an engine by itself, onto the targets that ``set_targets`` has set.

    With the shared intercept, nothing is centred: the targets have to be shifted by the intercept. ``start="engine"``
    continues from the Z that the engine holds. ``tol`` bounds the residual, relative to X'C T in the norm of the
    preconditioner; eigenvalues are the share of each column of C T that the map explains. Other options of ``solve``
    have no effect.
    """
    with one_blas_thread():
        began = time.perf_counter()
        problem = _Regression(engine, ridge, intercept)
        problem.begin(continued=start == "engine")
        steps, size = 0, 0.0
        while True:
            residual = problem.residual_length()
            size = size or residual or 1.0
            progress(Progress("fit", steps, None, f"residual {residual / size:.3g}, {problem.products:,} columns"))
            converged = residual <= tol * size
            if converged or steps >= max_steps or should_stop():
                break
            problem.take_step()
            steps += 1
        explained = problem.finish()
        return Fit(
            **problem.results(),
            eigenvalues=explained,
            eigenvectors=np.eye(len(explained)),
            residual=residual / size,
            steps=steps,
            converged=converged,
            products=problem.products,
            seconds=time.perf_counter() - began,
        )


class _Regression(Operators):
    """Words have Z, its last step P, K P and the residual W; documents have C X K P and "unexplained", C(T - X K Z)."""

    def begin(self, *, continued: bool) -> None:
        self.has_step = False
        self.engine.broadcast_concepts(TARGET, "unexplained")
        if not self.shared_intercept:
            self.centre("unexplained")
        squares = self.engine.documents.map(partial(column_products, pairs=(("unexplained", "unexplained"),)))
        self.targets_squared = total(squares)[0]
        if continued:
            self.project("Z")
            self.engine.documents.map(_subtract_image)
        else:
            width = len(self.targets_squared)
            self.engine.words.map(partial(_zeros, width=width, dtype=self.dtype.name))

    def image_means(self, name: str) -> list[Array]:
        """With the shared intercept nothing is centred."""
        nothing = [np.zeros(len(self.targets_squared))] * len(self.engine.langs)
        return nothing if self.shared_intercept else super().image_means(name)

    def residual_length(self) -> float:
        """W = J R, R = X'C(T - X K Z) - ridge Z: one product with X'. The length of R in the preconditioner's norm."""
        self.engine.documents.map(_copy_unexplained)
        self.engine.multiply_transposed("U", "W")
        self.products += len(self.targets_squared)
        ones = np.ones(len(self.targets_squared))
        return float(np.sqrt(self.precondition(ones).sum()))

    def take_step(self) -> None:
        """The best step of every column in the span of its P and W: one product with X."""
        folded = self.project("W")
        names = ("W", "P") if self.has_step else ("W",)
        in_words = tuple((folded_name, other) for folded_name in names for other in (*names, "Z"))
        folds = {"W": folded, "P": "folded_P" if self.has_subwords else "P"}
        pairs = tuple((folds[a], b) for a, b in in_words)
        words = total(self.engine.words.map(partial(column_products, pairs=pairs)))
        in_documents = tuple((a, "unexplained" if b == "Z" else b) for a, b in in_words)
        documents = total(self.engine.documents.map(partial(column_products, pairs=in_documents)))
        sums = {}
        for (a, b), word_product, document_product in zip(in_words, words, documents, strict=True):
            sign = -1 if b == "Z" else 1
            sums[a, b] = document_product + sign * self.ridge * word_product
        lengths = np.array([[sums[a, b] for b in names] for a in names])  # 1 or 2, squared, x columns
        slopes = np.array([sums[a, "Z"] for a in names])
        from_W, from_P = _best_step(lengths, slopes)
        for partition, name in ((self.engine.words, folded), (self.engine.documents, "")):
            partition.map(partial(_move, from_W=from_W, from_P=from_P, folded=name if self.has_subwords else ""))
        self.has_step = True

    def finish(self) -> Array:
        """Store Z as "map", delete the other arrays, and return the explained share of every column of the targets."""
        squares = self.engine.documents.map(partial(column_products, pairs=(("unexplained", "unexplained"),)))
        self.engine.documents.map(_delete_arrays)
        self.engine.words.map(_as_map)
        self.fold("map")
        return np.asarray(1 - total(squares)[0] / np.where(self.targets_squared > 0, self.targets_squared, 1))


def _best_step(lengths: Array, slopes: Array) -> tuple[Array, Array]:
    """The minimum of 1/2 a'L a - a's for every column: its parts from W and from P."""
    w, nothing = lengths[0, 0], np.zeros_like(slopes[0])
    alone = np.divide(slopes[0], w, out=nothing.copy(), where=w > 0)
    if len(slopes) == 1:
        return alone, nothing
    p, wp = lengths[1, 1], lengths[0, 1]
    determinant = w * p - wp**2
    is_regular = determinant > 1e-9 * w * p  # otherwise P has the direction of W, or there is no step
    from_W = np.divide(p * slopes[0] - wp * slopes[1], determinant, out=alone, where=is_regular)
    from_P = np.divide(w * slopes[1] - wp * slopes[0], determinant, out=nothing, where=is_regular)
    return from_W, from_P


# Functions that are mapped over the rows of a partition, as in the solver.


def _zeros(rows: NamedArrays, width: int, dtype: str) -> None:
    rows["Z"] = np.zeros_like(rows["mean"], shape=(len(rows["mean"]), width), dtype=dtype)


def _subtract_image(rows: NamedArrays) -> None:
    rows["unexplained"] = rows["unexplained"] - rows.pop("Z")


def _copy_unexplained(rows: NamedArrays) -> None:
    rows["U"] = rows["unexplained"] + 0


def _move(rows: NamedArrays, from_W: Array, from_P: Array, folded: str) -> None:
    """P = P from_P + W from_W, Z = Z + P over words, unexplained = unexplained - C X K P over documents."""
    both = [("P", "W"), ("folded_P", folded)] if folded else [("P", "W")]
    for step, residual in both:
        W = rows.pop(residual)
        moved = W * from_W.astype(W.dtype)
        rows[step] = rows[step] * from_P.astype(W.dtype) + moved if step in rows else moved
    if "unexplained" in rows:
        rows["unexplained"] = rows["unexplained"] - rows["P"]
    else:
        rows["Z"] = rows["Z"] + rows["P"]


def _delete_arrays(rows: NamedArrays) -> None:
    for name in {*rows} & {"unexplained", "P", "W", "Z"}:
        del rows[name]


def _as_map(rows: NamedArrays) -> None:
    for name in {*rows} & {"P", "W", "folded_P", "folded"}:
        del rows[name]
    rows["map"] = rows["Z"] + 0
