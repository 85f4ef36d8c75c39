"""Unfolding: from what words contribute to a text, K Z, back to the map Z, which a model does not store.

K and M are those of the solver, K = I + M M'. P is the direction of a step, and R is the residual.
"""

from functools import partial

import numpy as np

from cr5._typing import Array
from cr5.training.engines import Engine
from cr5.training.row_functions import NamedArrays, column_products, sums, total

STEPS = 5  # further ones change neither the first residual of a fit nor its steps


def unfold(engine: Engine, steps: int = STEPS) -> None:
    """Replace Z by K^-1 Z, roughly: a few steps of conjugate gradients, preconditioned with diag(K)."""
    words = engine.words
    words.map(_start)
    engine.fold("Z", "folded")
    slope = total(words.map(_first_direction))
    for _ in range(steps):
        engine.fold("P", "folded")
        [curvature] = total(words.map(partial(column_products, pairs=[("P", "folded")])))
        length = np.divide(slope, curvature, out=np.zeros_like(slope), where=curvature > 0)
        before, slope = slope, total(words.map(partial(_step, length=length)))
        share = np.divide(slope, before, out=np.zeros_like(slope), where=before > 0)
        words.map(partial(_next_direction, share=share))
    words.map(_delete_work_arrays)


def _start(rows: NamedArrays) -> None:
    """R = the columns to unfold, Z = diag(K)^-1 R."""
    rows["R"] = rows["Z"] + 0
    rows["Z"] = _divided(rows["Z"], rows)


def _first_direction(rows: NamedArrays) -> Array:
    """R = R - K Z, P = diag(K)^-1 R; R'P of every column."""
    R = rows["R"] - rows.pop("folded")
    rows["R"], rows["P"] = R, _divided(R, rows)
    return sums(R * rows["P"])


def _step(rows: NamedArrays, length: Array) -> Array:
    """Z = Z + P length, R = R - K P length; R'diag(K)^-1 R of every column."""
    P, steps = rows["P"], length.astype(rows["P"].dtype)
    rows["Z"] = rows["Z"] + P * steps
    rows["R"] = rows["R"] - rows.pop("folded") * steps
    return sums(rows["R"] * _divided(rows["R"], rows))


def _next_direction(rows: NamedArrays, share: Array) -> None:
    rows["P"] = _divided(rows["R"], rows) + rows["P"] * share.astype(rows["P"].dtype)


def _divided(columns: Array, rows: NamedArrays) -> Array:
    quotient: Array = columns / rows["diagonal"][:, 1:].astype(columns.dtype)  # the sums of squared weights, diag(K)
    return quotient


def _delete_work_arrays(rows: NamedArrays) -> None:
    del rows["R"], rows["P"]
