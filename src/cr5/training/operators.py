"""What the solver and the regression of added languages compute with an engine: C X K V, the preconditioner, maps."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from cr5._typing import Array, Intercept
from cr5.training import row_functions
from cr5.training.engines import Engine
from cr5.training.engines.dense import elementwise
from cr5.training.row_functions import NamedArrays, sums, total


class Operators:
    """X, C, K and the preconditioner J over an engine, and the number of columns that X and X' were multiplied with."""

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
        engine.column_sums("diagonal", 2)
        engine.words.map(row_functions.means_and_diagonal, self.divisors)
        engine.inverse_diagonal("diagonal", "diagonal", ridge)
        self.means: list[Array] = [mean[:, 0] for mean in engine.words.get("mean")]

    def _by_language(self, parts: Sequence[Array]) -> list[Array]:
        """The sum over the shards of each language."""
        return [
            total([part for part, owner in zip(parts, self.language_of_block, strict=True) if owner == language])
            for language in range(len(self.engine.langs))
        ]

    def centres(self, name: str) -> list[Array]:
        """Column means of a documents x m array, for every shard: its language's, or those of all documents."""
        sums = self._by_language(self.engine.documents.map(partial(_column_sums, name=name)))
        sums = [total(sums)] * len(sums) if self.shared_intercept else sums
        return [sums[language] / self.divisors[language] for language in self.language_of_block]

    def centre(self, name: str) -> None:
        """Subtract its centres from a documents x m array."""
        self.engine.documents.map(partial(_subtract, name=name), self.centres(name))

    def fold(self, name: str) -> str:
        """Compute K V for the columns V of a name; returns its own name, that of V without subwords."""
        if not self.has_subwords:
            return name
        self.engine.fold(name, "folded")
        return "folded"

    def project(self, name: str, *, may_round: bool = False) -> str:
        """C X K V for the columns V of a name, in the documents under the same name; returns the name of K V.

        With ``may_round``, K V may be rounded before.
        """
        folded = self.fold(name)
        if may_round:
            self.engine.round_words(folded)
        means = self.image_means(folded)
        start = [-means[language] for language in self.language_of_block]
        self.engine.multiply(folded, name, start, may_round=may_round)
        self.products += len(means[0])
        return folded

    def image_means(self, name: str) -> list[Array]:
        """The column means of X V for the columns V of a name and every language: m'V for its mean document m."""
        means = [row for [row] in self.engine.words.map(partial(_mean_products, name=name))]
        return [total(means)] * len(means) if self.shared_intercept else means

    def precondition(self, theta: Array | None, name: str = "Z", target: str = "W", shift: float = 0.0) -> Array:
        """W = J R, R = W - ridge Z theta, J = 1 / (diag(B) + shift); the squared length of each column of R.

        Lengths are in the norm of 1 / diag(B), whatever the shift.
        """
        function = partial(_precondition, theta=theta, ridge=self.ridge, name=name, target=target, shift=shift)
        return total(self.engine.words.map(function))

    def results(self) -> dict[str, Any]:
        """The maps, folded maps and means of a ``Fit`` after ``finish``; the engine keeps Z and nothing else."""
        maps = self._by_name(self.engine.words.get("map"))
        folded_maps = self._by_name(self.engine.words.get("folded")) if self.has_subwords else maps
        for partition in self.partitions:
            partition.map(delete_work_arrays)
        return {"maps": maps, "folded_maps": folded_maps, "means": self._by_name(self.means)}

    def _by_name(self, arrays: list[Array]) -> dict[str, Array]:
        """An array for each language in float32, by its code."""
        return {lang: A.astype(np.float32, copy=False) for lang, A in zip(self.engine.langs, arrays, strict=True)}


def fetch_Z(engine: Engine) -> dict[str, Array]:
    """The Z that an engine holds, in the form of ``start``."""
    return dict(zip(engine.langs, engine.words.get("Z"), strict=True))


# Functions that are mapped over the rows of a partition.


def _mean_products(rows: NamedArrays, name: str) -> Array:
    """m'V for the mean document m."""
    return (rows["mean"].astype(rows[name].dtype).T @ rows[name]).astype("float64")


def _column_sums(rows: NamedArrays, name: str) -> Any:
    return sums(rows[name])


def _subtract(rows: NamedArrays, centre: Array, name: str) -> None:
    rows[name] = rows[name] - centre.astype(rows[name].dtype)


def _precondition(rows: NamedArrays, theta: Array | None, ridge: float, name: str, target: str, shift: float) -> Any:
    """W = J R, R = X'U - ridge Z theta; the squared length of each column of E'R in the Jacobi preconditioner.

    That is D, the diagonal of B, as if words occurred independently. J = 1 / (D + shift), with the harmonic mean of D
    over a word's features.
    """
    R, inverse, weight = rows[target], rows["diagonal"][:, :1], rows["diagonal"][:, 1:]
    J = (inverse / (weight + shift * inverse)).astype(R.dtype)
    if theta is None:
        rows[target], squares = _scaled(R, J, inverse.astype(R.dtype))
    else:
        of_Z = (ridge * theta).astype(R.dtype)
        rows[target], squares = _scaled_difference(R, rows[name], of_Z, J, inverse.astype(R.dtype))
    return sums(squares)


@elementwise
def _scaled(R: Array, J: Array, inverse: Array) -> tuple[Array, Array]:
    return R * J, R * R * inverse


@elementwise
def _scaled_difference(R: Array, Z: Array, of_Z: Array, J: Array, inverse: Array) -> tuple[Array, Array]:
    R = R - Z * of_Z
    return R * J, R * R * inverse


def delete_work_arrays(rows: NamedArrays) -> None:
    for name in {*rows} & {"P", "W", "map", "folded", "probe", "U"}:
        del rows[name]
