"""LOBPCG over an engine: the columns Z, P and W, their images, and what a step does with them."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from scipy.linalg import eigh

from cr5._typing import Array, Intercept, Mask
from cr5.errors import Cr5Error, RankTooLargeError
from cr5.training import row_functions
from cr5.training.engines import Engine, Partition
from cr5.training.engines.dense import combination, elementwise, product
from cr5.training.operators import Operators, delete_work_arrays, fetch_Z
from cr5.training.rayleigh_ritz import known_gram, orthonormalising, rayleigh_ritz, ritz_step
from cr5.training.row_functions import NamedArrays, cross, total
from cr5.training.unfolding import unfold

POWER_STEPS = 3  # at the start: without Gram matrices over words and documents, and updates, they cost less than steps
# Added to diag(B), in ridges: up to scale, about the diagonal of theta B - A for theta = 1 + 1 / SHIFT.
SHIFT = 3
MAX_TRUSTED_UPDATES = 4  # eigenvalues equal those of fresh products, to about 1e-6, for this many steps
LOCK_FRACTION = 0.3  # soft locking: a residual below this part of its share of ``tol`` is not corrected
# Corrections of smaller relative residuals consist largely of rounding errors, by the precision of the data. Steps with
# such corrections find eigenvectors that do not exist, with eigenvalues of any size.
ROUNDING = {"float32": 1e-4, "float64": 1e-10}
STALLED = 10  # times as large a residual consists of rounding errors if it is larger than the one before
PROBES = 32  # random combinations of columns per estimate, whose standard error is then about 1 %


class Lobpcg(Operators):
    """The steps of LOBPCG on the operators A and B.

    The partitions hold the same columns Z, P and W three times: the vectors themselves (words), their
    images G = C X K V (documents), and the concept sums S = Y'G (concepts), so that
    V'A W = S_V'S_W and V'B W = G_V'G_W + ridge V'K W. This object holds the small Gram matrices of [Z, P].
    """

    def __init__(self, engine: Engine, ridge: float, intercept: Intercept, *, may_round: bool = False) -> None:
        super().__init__(engine, ridge, intercept)
        self.may_round = may_round  # the numbers that products multiply, to bfloat16
        self.columns = 0  # of Z
        self.updates = 0  # of the images since they were computed with products
        self.gram_A = self.gram_B = np.zeros((0, 0))
        self.active: Mask = np.zeros(0, bool)  # the columns that have not converged
        self.coefficients: dict[str, Array] = {}  # coefficients of the next Z over Z, P and W
        self.length = np.zeros(0)  # length of each column's change of Z

    @property
    def rounding(self) -> float:
        """The relative residual that rounding errors alone may cause."""
        return ROUNDING[self.dtype.name]

    @property
    def _may_round_columns(self) -> bool:
        """Whether columns may be rounded before their image is computed: not if it is K V that would be rounded."""
        return self.may_round and not self.has_subwords

    def _image(self, name: str, *, may_round: bool = False) -> str:
        """G = C X K V for the columns V of a name, and their concept sums S = Y'G. Returns the name of K V."""
        folded = self.project(name, may_round=may_round)
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
        """Z = J X'C Y S after power steps, from S = R, random signs, concepts x columns.

        In each step S = Y'C X K Z becomes orthonormal: otherwise rounding errors would make its columns alike.
        """
        columns, bits = np.arange(-(-width // 64), dtype=np.uint64), np.arange(64, dtype=np.uint64)
        columns += np.uint64(seed * 0xD1B54A32D192ED03 % 2**64)
        signs = partial(row_functions.random_signs, columns=columns, bits=bits, width=width, dtype=self.dtype.name)
        self.engine.concepts.map(signs)
        self._correction(None, "Z", "W")
        self.engine.words.map(_correction_as_Z)
        for _ in range(POWER_STEPS):
            self._image("Z", may_round=self.may_round)
            gram = total(self.engine.concepts.map(partial(cross, name="Z", others=("Z",))))
            V: Array = self.engine.compute(partial(orthonormalising, dtype=self.dtype.name), gram)
            self.engine.concepts.map(partial(_rotate, V=V.astype(self.dtype)))
            self._correction(None, "Z", "W")
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

    def restart(self, *, may_round: bool = False) -> Array:
        """Rayleigh-Ritz on Z alone, from fresh products; P is deleted. Returns the eigenvalues.

        With ``may_round``, Z may be rounded first.
        """
        folded = self._image("Z", may_round=may_round and self._may_round_columns)
        ritz = partial(rayleigh_ritz, dtype=self.dtype.name)
        theta: Array
        theta, V = self.engine.compute(ritz, *self._gram("Z", ("Z",), folded))
        for partition in self.partitions:
            partition.map(partial(_rotate, V=V.astype(self.dtype)))
        self.gram_A, self.gram_B, self.columns = np.diag(theta), np.eye(len(theta)), len(theta)
        self.updates = 0
        return theta

    def resume(self) -> Array:
        """Go on from the Z and P of a checkpoint, with fresh products. Returns the eigenvalues."""
        gram_A, gram_B = self._gram("Z", ("Z",), self._image("Z"))
        theta = np.asarray(np.diag(gram_A) / np.diag(gram_B))
        self.columns = len(theta)
        self.gram_A, self.gram_B = known_gram(theta, *self._gram("P", ("Z", "P"), self._image("P")), self.dtype.name)
        return theta

    def fetch_columns(self) -> dict[str, Array]:
        """Z and P side by side, in the form of ``start``."""
        names = ["Z", "P"] if len(self.gram_A) > self.columns else ["Z"]
        parts = [self.engine.words.get(name) for name in names]
        return {lang: np.hstack(of) for lang, *of in zip(self.engine.langs, *parts, strict=True)}

    def compute_residual(self, theta: Array, rank: int, tol: float) -> float:
        """W = J R, E'R = A E'Z - B E'Z theta: one product with X'. Returns the relative residual.

        Columns well within their share of ``tol``, or of what rounding errors allow, are left out of W (soft locking).
        """
        tol = max(tol, self.rounding)
        squares = self._correction(theta, "Z", "W", SHIFT * self.ridge)
        size = max(float(np.linalg.norm(theta[:rank])), np.finfo(float).tiny)
        self.active = squares > (LOCK_FRACTION * tol * size) ** 2 / rank
        return float(np.sqrt(squares[:rank].sum()) / size)

    def _correction(self, theta: Array | None, name: str, target: str, shift: float = 0.0) -> Array:
        """target = J R for the columns of a name: one product with X'. Returns the squared length of each column of R.

        Without ``theta``, R is A times the columns. J = 1 / (diag(B) + shift).
        """
        self.engine.broadcast_concepts(name, "U")
        centres = self.centres("U")
        self.engine.documents.map(partial(_residual, name=name, theta=theta), centres)
        self.engine.multiply_transposed("U", target, may_round=self.may_round)
        self.products += len(centres[0])
        return self.precondition(theta, name, target, shift)

    def estimate_residual(self, theta: Array, rank: int) -> float:
        """The relative residual that the next Z will have, before it is computed.

        The sum of squares of its columns is the mean square of their combinations with random signs. What is
        returned is two standard errors above that.
        """
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (rank, PROBES))
        for partition in self.partitions:
            scale = np.ones(rank) if partition is self.engine.concepts else theta[:rank]
            mix = {name: (V[:, :rank] * scale @ signs).astype(self.dtype) for name, V in self.coefficients.items()}
            partition.map(partial(_probe, **mix))
        squares = self._correction(np.ones(PROBES), "probe", "U")
        return float(np.sqrt(squares.mean() + 2 * squares.std() / np.sqrt(PROBES)) / np.linalg.norm(theta[:rank]))

    def ritz_step(self, width: int) -> Array:
        """Rayleigh-Ritz over [Z, P, W]: one product with X. Returns the eigenvalues of the next Z."""
        if not self.active.all():
            self.engine.words.map(partial(_choose, active=self.active))
        folded = self._image("W", may_round=self._may_round_columns)
        k, known = self.columns, len(self.gram_A)
        names = ("Z", "P", "W") if known > k else ("Z", "W")
        border_A, border_B = self._gram("W", names, folded)
        ritz = partial(ritz_step, columns=k, width=width, dtype=self.dtype.name)
        theta: Array
        theta, V, self.length, self.gram_A, self.gram_B = self.engine.compute(
            ritz, self.gram_A, border_A, self.gram_B, border_B
        )
        self.coefficients = dict(zip(names, np.split(V, [k, known] if known > k else [k]), strict=True))
        self.columns = len(theta)
        return theta

    def update(self, partitions: Sequence[Partition]) -> None:
        """The next Z, and P, what it adds to Z, in some of the partitions."""
        small = {name: V if name == "Z" else V / self.length for name, V in self.coefficients.items()}
        bound: dict[str, Array] = {name: V.astype(self.dtype) for name, V in small.items()}
        combine = partial(_combine, length=self.length.astype(self.dtype), **bound)
        for partition in partitions:
            partition.map(combine)
        self.updates += 1

    def finish(self, theta: Array, rank: int, concept_sums: bool) -> tuple[Array, Array]:
        """Turn Z into the paper's maps, with orthonormal columns; their eigenvalues and eigenvectors.

        They are known from the last step; after many updates of the images they are computed from fresh products.
        """
        # Phi* = Q'Y'C X B^-1 has the rows sqrt(theta) z'; its singular vectors are the maps.
        if len(theta) < rank:
            raise RankTooLargeError(
                f"`rank={rank}` is more than the {len(theta)} dimensions that the documents span; "
                + (f"use `rank<={len(theta)}`, or add documents" if len(theta) else "all documents have the same words")
            )
        for partition in (self.engine.documents, self.engine.concepts):
            partition.map(delete_work_arrays)
        root = np.sqrt(theta[:rank])
        of_Z = partial(cross, name=self.fold("Z"), others=("Z",))
        inner = total(self.engine.words.map(of_Z))[:rank, :rank]
        size, rotation = eigh(inner * np.outer(root, root))
        V = (root[:, None] * rotation / np.sqrt(size))[:, ::-1]
        self.engine.words.map(partial(_as_maps, V=V.astype(self.dtype)))
        if self.updates <= MAX_TRUSTED_UPDATES:
            self.fold("map")
            if concept_sums:
                self.engine.concepts.map(partial(_as_maps, V=V.astype(self.dtype)))
            return theta[:rank], (np.sqrt(size)[:, None] * rotation.T / root)[::-1]  # the inverse of V
        eigenvalues, eigenvectors = eigh(*self._gram("map", ("map",), self._image("map")))
        return eigenvalues[::-1], eigenvectors[:, ::-1]


# Functions that are mapped over the rows of a partition: they use operators only, row by row, and write into no array.


def _residual(rows: NamedArrays, centre: Array, name: str, theta: Array | None) -> None:
    """U = Y S - centre - G theta."""
    U, centre = rows["U"], centre.astype(rows["U"].dtype)
    rows["U"] = U - centre if theta is None else _difference(U, centre, rows[name], theta.astype(U.dtype))


@elementwise
def _difference(U: Array, centre: Array, G: Array, theta: Array) -> Array:
    result: Array = U - centre - G * theta
    return result


def _choose(rows: NamedArrays, active: Mask) -> None:
    rows["W"] = rows["W"][:, active]


def _probe(rows: NamedArrays, /, **coefficients: Array) -> None:
    """probe = [Z, P, W] coefficients."""
    rows["probe"] = combination([(rows[name], V) for name, V in coefficients.items()])


def _combine(rows: NamedArrays, /, length: Array, **coefficients: Array) -> None:
    """P = [P, W] coefficients, Z = Z coefficients + P diag(length)."""
    P = combination([(rows[name], V) for name, V in coefficients.items() if name != "Z"])
    delete_work_arrays(rows)
    rows["Z"], rows["P"] = _sum(product(rows["Z"], coefficients["Z"]), P, length), P


@elementwise
def _sum(Z: Array, P: Array, length: Array) -> Array:
    result: Array = Z + P * length
    return result


def _rotate(rows: NamedArrays, V: Array) -> None:
    rows["Z"] = product(rows["Z"], V)
    delete_work_arrays(rows)


def _as_maps(rows: NamedArrays, V: Array) -> None:
    """The maps, rounded to float32 as they are returned, so that the eigenvalues are those of the returned maps."""
    Z = product(rows["Z"][:, : len(V)], V)
    delete_work_arrays(rows)
    rows["map"] = Z.astype("float32").astype(Z.dtype)


def _correction_as_Z(rows: NamedArrays) -> None:
    rows["Z"] = rows.pop("W")
