"""Cells: which rows of a large table may lie nearest to a vector, told from files of their own.

A row belongs to the cell whose centre has the largest inner product with its vector. A query is compared with the rows
of the cells whose centres are nearest to it, the nearest first, until it has met enough of them.

A vector is kept in two bytes a number, x = scale (coarse + fine / 254), both from -127 to 127. What a query meets is
compared by the coarse byte, the best of it by both: that is off by a few millionths.

Rows lie in pieces: files that never change, sorted by cell and language. ``cells.json`` names those that count and is
replaced in one step. Rows that come later make a further piece; pieces of like size are joined.
"""

import json
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from cr5._typing import Array, Ints, Mask
from cr5.index.stores.base import Floats, digests, matrix
from cr5.retrieval import top_k
from cr5.retrieval.kernels import multiply, multiply_codes
from cr5.retrieval.vectors import unit_rows
from cr5.storage.atomic import replacing

LIST = "cells.json"
KEPT = (
    "id",
    "concept",
    "lang",
    "title",
    "url",
    "slot",
    "row",
    "hubness",
)  # columns of a row that are as they were given
LARGEST = 2**20  # rows of a piece
STRIDE = 2**14  # more than there are languages
CELLS = 4  # times the square root of the number of rows
PER_CENTRE, ROUNDS = 20, 6  # vectors that a centre is found from, and how often it moves
MET, SHARE = 80_000, 100  # rows that a query meets, at least; of more than eight million one in a hundred
REFINED, AT_LEAST = 2, 200  # for each row that is wanted, and in all: those that are compared by both bytes
FINE = 254
SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")

Tables = Iterable[pa.Table]  # with those and the vector


class Codes(NamedTuple):
    """Vectors in two bytes a number: scale (coarse + fine / 254)."""

    scale: Floats
    coarse: Array
    fine: Array

    def take(self, rows: Ints) -> Floats:
        """The vectors of some rows."""
        numbers = self.coarse[rows].astype(np.float32) + self.fine[rows].astype(np.float32) / FINE
        return np.asarray(self.scale[rows, None] * numbers, np.float32)


def encode(vectors: Floats) -> Codes:
    """Vectors (rows x rank) as codes."""
    scale = np.maximum(np.abs(vectors).max(axis=1, initial=0), np.float32(1e-30)) / np.float32(127)
    scaled = vectors / scale[:, None]
    coarse = np.rint(scaled)
    fine = np.rint((scaled - coarse) * FINE)
    return Codes(scale, coarse.astype(np.int8), fine.astype(np.int8))


class Piece:
    """Rows in a file, sorted by cell and language."""

    def __init__(self, path: Path) -> None:
        with pa.memory_map(str(path)) as file:
            self.table = pa.ipc.open_file(file).read_all()
        self.rows = self.table.select(KEPT)
        self.codes = Codes(self.table["scale"].to_numpy(), *(_numbers(self.table[name]) for name in ("coarse", "fine")))

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def ranges(self, groups: Ints) -> list[Ints]:
        """Where the rows of groups begin and end."""
        return [np.searchsorted(self.table["group"].to_numpy(), groups, side) for side in SIDES]

    @cached_property
    def keys(self) -> tuple[Array, Ints]:
        """The digests of all ids, sorted, and the rows that they belong to."""
        keys = self.table["key"].to_numpy()
        order = np.argsort(keys, kind="stable")
        return keys[order], order


class Cells:
    """An index that is open: ``until`` is the first slot that is not in it, ``built`` the rows it was built for.

    Rows are numbered through all pieces. Its files may vanish once another list counts; what is open stays.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.about: dict[str, Any] = json.loads((folder / LIST).read_text(encoding="utf-8"))
        self.langs, self.until, self.built = self.about["langs"], self.about["until"], self.about["built"]
        self.centres: Floats = np.load(folder / self.about["centres"])
        self.pieces = [Piece(folder / name) for name in self.about["pieces"]]
        self.firsts = np.cumsum([0, *map(len, self.pieces)])

    def __len__(self) -> int:
        return int(self.firsts[-1])

    @cached_property
    def ranges(self) -> list[list[Ints]]:
        """For every piece, where the rows of each cell and language begin and end: two arrays, cells x languages."""
        groups = STRIDE * np.arange(len(self.centres))[:, None] + np.arange(len(self.langs))
        return [piece.ranges(groups) for piece in self.pieces]

    @cached_property
    def sizes(self) -> Ints:
        """Cells x languages: how many rows there are."""
        return np.asarray(sum(ends - begins for begins, ends in self.ranges))

    @cached_property
    def slots(self) -> Ints:
        """The slot of every row."""
        return np.concatenate([piece.rows["slot"].to_numpy() for piece in self.pieces])

    def nearest(self, vector: Floats, k: int, langs: Collection[str] | None, alive: Mask) -> tuple[Ints, Floats]:
        """Rows that are likely the k nearest of those alive, best first, and their inner products with the vector."""
        chosen = np.array([i for i, lang in enumerate(self.langs) if langs is None or lang in langs], np.int64)
        order = np.argsort(-multiply(self.centres, vector), kind="stable")
        met = np.cumsum(self.sizes[:, chosen].sum(axis=1)[order])
        near = order[: 1 + int(np.searchsorted(met, max(MET, len(self) // SHARE, 20 * k)))]
        wanted, rows, products = max(AT_LEAST, REFINED * k), [np.empty(0, np.int64)], [np.empty(0, np.float32)]
        for piece, first, ranges in zip(self.pieces, self.firsts, self.ranges, strict=False):
            begins, ends = (some[near[:, None], chosen].ravel() for some in ranges)
            ends_met = np.cumsum(ends - begins)
            found = np.empty(ends_met[-1] if len(ends_met) else 0, np.float32)
            own = alive[first : first + len(piece)]
            multiply_codes(piece.codes.coarse, piece.codes.scale, own, begins, ends, vector, found)
            best = _largest(found, wanted)
            best = best[found[best] > -np.inf]
            part = np.searchsorted(ends_met, best, side="right")
            rows.append(first + ends[part] - (ends_met[part] - best))
            products.append(found[best])
        candidates = np.concatenate(rows)[_largest(np.concatenate(products), wanted)]
        exact = multiply(self.vectors(candidates), vector)
        best = np.lexsort((candidates, -exact))[:k]
        return candidates[best], exact[best]

    def vectors(self, rows: Ints) -> Floats:
        """The vectors of some rows."""
        found = np.empty((len(rows), self.centres.shape[1]), np.float32)
        for piece, here, own in self._shared_out(rows):
            found[here] = piece.codes.take(own)
        return found

    def take(self, rows: Ints, columns: Sequence[str] = KEPT) -> pa.Table:
        """Some rows, without their vectors."""
        parts = [(here, piece.rows.select(columns).take(own)) for piece, here, own in self._shared_out(rows)]
        if not parts:
            return self.pieces[0].rows.select(columns).slice(0, 0)
        if len(parts) == 1:
            return parts[0][1]
        places = np.concatenate([here for here, _ in parts])
        return pa.concat_tables(table for _, table in parts).take(np.argsort(places))

    def find(self, ids: Sequence[str]) -> Ints:
        """All rows that have one of the ids; a document that was renewed has several, of which one is alive."""
        keys, names, found = digests(ids), set(ids), [np.empty(0, np.int64)]
        for piece, first in zip(self.pieces, self.firsts, strict=False):
            ordered, rows = piece.keys
            begins, ends = (np.searchsorted(ordered, keys, side) for side in SIDES)
            own = np.concatenate([rows[a:b] for a, b in zip(begins, ends, strict=True)] or [np.empty(0, np.int64)])
            own = np.unique(own)
            right = [name in names for name in piece.rows["id"].take(own).to_pylist()]
            found.append(first + own[np.array(right, bool)])
        return np.concatenate(found)

    def _shared_out(self, rows: Ints) -> Iterator[tuple[Piece, Ints, Ints]]:
        """For every piece that has some of the rows: which of them, and their numbers there."""
        which = np.searchsorted(self.firsts, rows, side="right") - 1
        for i in np.unique(which).tolist():
            here = np.flatnonzero(which == i)
            yield self.pieces[i], here, rows[here] - self.firsts[i]


def _largest(values: Floats, number: int) -> Ints:
    """Where the largest values are, in any order."""
    return np.argpartition(-values, number)[:number] if len(values) > number else np.arange(len(values))


# Writing: one process at a time


def build(folder: Path, read: Callable[[], Tables], total: int, until: int) -> None:
    """Make the index anew of all rows, which ``read`` reads, twice; ``total`` is how many there are."""
    folder.mkdir(exist_ok=True)
    number = 2 ** round(np.log2(CELLS * total**0.5))
    step = max(1, total // (PER_CENTRE * number))
    centres = _centres(np.concatenate([matrix(rows["vector"])[::step] for rows in read()]), number)
    name = f"centres-{secrets.token_hex(4)}.npy"
    with replacing(folder / name) as file:
        np.save(file, centres)
    langs: list[str] = []
    pieces = [_write(folder, part) for part in _parts(read(), centres, langs)]
    _list(folder, {"centres": name, "langs": langs, "built": total, "until": until, "pieces": pieces})


def extend(folder: Path, rows: Tables, until: int) -> None:
    """Take in further rows, with all slots from the former ``until`` to the new one."""
    cells = Cells(folder)
    langs = list(cells.langs)
    pieces = [(name, piece.table) for name, piece in zip(cells.about["pieces"], cells.pieces, strict=True)]
    for part in _parts(rows, cells.centres, langs):
        pieces.append(("", part))
        while len(pieces) > 1 and pieces[-2][1].num_rows < 2 * pieces[-1][1].num_rows:
            (_, first), (_, second) = pieces[-2:]
            if first.num_rows + second.num_rows > LARGEST:
                break
            pieces[-2:] = [("", _in_order(pa.concat_tables([first, second])))]
    names = [name or _write(folder, table) for name, table in pieces]
    _list(folder, cells.about | {"langs": langs, "until": until, "pieces": names})


def _list(folder: Path, about: dict[str, Any]) -> None:
    """Let an index count, and clear away what belongs to no other."""
    with replacing(folder / LIST, via=folder / f"{LIST}.part") as file:
        file.write(json.dumps(about, indent=1).encode())
    for path in folder.iterdir():
        if path.name not in {LIST, about["centres"], *about["pieces"]}:
            path.unlink()


def _write(folder: Path, table: pa.Table) -> str:
    name = f"piece-{secrets.token_hex(4)}.arrow"
    with replacing(folder / name) as file, pa.ipc.new_file(file, table.schema) as written:
        written.write_table(table.combine_chunks())
    return name


def _centres(vectors: Floats, number: int) -> Floats:
    """Centres of like vectors, of length 1: each moves to the mean of those that are nearest to it, some times."""
    rng = np.random.default_rng(0)
    centres = vectors[rng.choice(len(vectors), number, replace=False)]
    for _ in range(ROUNDS):
        cell = top_k.nearest(vectors, centres, 1).indices[:, 0]
        order, used = np.argsort(cell, kind="stable"), np.unique(cell)
        sums = np.add.reduceat(vectors[order], np.searchsorted(cell[order], used), axis=0)
        centres = vectors[rng.choice(len(vectors), number, replace=False)]  # those without any begin elsewhere
        centres[used] = unit_rows(sums)
    return centres


def _parts(rows: Tables, centres: Floats, langs: list[str]) -> Iterator[pa.Table]:
    """Rows as pieces have them, as many at a time as one may hold; ``langs`` grows by languages that are new."""
    waiting: list[pa.Table] = []
    for table in rows:
        waiting.append(_coded(table, centres, langs))
        if sum(some.num_rows for some in waiting) + table.num_rows > LARGEST:
            yield _in_order(pa.concat_tables(waiting))
            waiting = []
    if waiting:
        yield _in_order(pa.concat_tables(waiting))


def _coded(rows: pa.Table, centres: Floats, langs: list[str]) -> pa.Table:
    vectors = matrix(rows["vector"])
    codes = encode(vectors)
    spoken = rows["lang"].to_pylist()
    langs += sorted(set(spoken) - set(langs))
    place = {lang: i for i, lang in enumerate(langs)}
    cell = top_k.nearest(vectors, centres, 1).indices[:, 0]
    columns = {name: rows[name] for name in KEPT} | {
        "key": pa.array(digests(rows["id"].to_pylist())),
        "group": pa.array(cell.astype(np.int64) * STRIDE + np.array([place[lang] for lang in spoken], np.int64)),
        "scale": pa.array(codes.scale),
        "coarse": _opaque(codes.coarse),
        "fine": _opaque(codes.fine),
    }
    return pa.table(columns)


def _in_order(table: pa.Table) -> pa.Table:
    return table.take(np.argsort(table["group"].to_numpy(), kind="stable"))


def _opaque(numbers: Array) -> pa.Array:
    """Rows x width of bytes as a column."""
    kind = pa.binary(numbers.shape[1])
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])


def _numbers(column: pa.ChunkedArray) -> Array:
    [chunk] = column.chunks
    return np.frombuffer(chunk.buffers()[1], np.int8).reshape(-1, column.type.byte_width)[chunk.offset :][: len(chunk)]
