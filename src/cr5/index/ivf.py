"""The inverted-file (IVF) index: an approximate nearest-neighbour index of the rows of a large table.

Vectors are clustered by k-means; the inverted list of a centroid holds the rows whose vectors have their largest inner
product with it. A query is compared with the rows in the lists of its nearest centroids, until it has been compared
with enough of them.

The rows in the lists are compared by their sign codes (``sign_codes``), and the best of them again by vectors that are
quantised to two bytes a number, x = scale (coarse + fine / 254), both from -127 to 127, with an error of a few
millionths.

A segment (``cr5.index.segments``) has rows, sorted by list and language, with the strings and the compressed texts that
a search shows. The manifest is ``cells.json``.
"""

import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from cr5._typing import Array, Ints, Mask
from cr5.hashing import hash_texts
from cr5.index import sign_codes
from cr5.index.segments import SegmentedIndex, slots_exist
from cr5.index.sign_codes import SignCodes
from cr5.index.stores.rows import Floats, to_matrix
from cr5.index.strings import Strings, compressed
from cr5.retrieval import top_k
from cr5.retrieval.clustering import kmeans, number_of_lists, sampling_step
from cr5.storage.array_files import write_array
from cr5.storage.atomic import atomic_write, discard
from cr5.storage.json_files import read_json

ROW_COLUMNS = ("id", "concept", "lang", "title", "url", "slot", "row", "hubness")  # stored unchanged beside the codes
TEXT_COLUMNS = ("text", "fields")  # shown in search results; missing in segments written by an earlier version
SIGN_COLUMNS = ("signs", "factor")  # also missing in segments written by an earlier version
COLUMNS = (*ROW_COLUMNS, *TEXT_COLUMNS, "vector")
STRINGS = ("id", "concept", "lang", "title", "url", "fields")
MAX_SEGMENT_ROWS = 2**20
LANGUAGE_STRIDE = 2**14  # group = list * LANGUAGE_STRIDE + language; more than there are languages
# A query is compared with at least the largest of these numbers of rows; a quarter is in the languages searched.
MIN_SCANNED_ROWS = 110_000
MIN_SCANNED_SHARE = 0.02  # share of all rows
SCANNED_ROWS_PER_HIT = 20
LANGUAGE_FRACTION = 4
REFINED_ROWS_PER_HIT, MIN_REFINED_ROWS = 5, 800  # rows that are compared by their quantised vectors
FINE_STEPS = 254
ROWS_AT_ONCE = 2**14  # rows decoded at a time
SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")

Tables = Iterable[pa.Table]  # with ROW_COLUMNS, "vector" and perhaps TEXT_COLUMNS


class Codes(NamedTuple):
    """Quantised vectors: scale (coarse + fine / 254)."""

    scale: Floats
    coarse: Array
    fine: Array

    def decode(self, rows: Ints) -> Floats:
        """The vectors of some rows (rows x rank)."""
        from cr5.retrieval.kernels import decode_codes

        vectors = np.empty((len(rows), self.coarse.shape[1]), np.float32)
        decode_codes(self.scale, self.coarse, self.fine, FINE_STEPS, rows, vectors)
        return vectors

    def products(self, rows: Ints, vector: Floats) -> Floats:
        """The inner products of some rows and a vector."""
        from cr5.retrieval.kernels import multiply_codes

        return np.asarray(multiply_codes(self.scale, self.coarse, self.fine, FINE_STEPS, rows, vector))


def quantise(vectors: Floats) -> Codes:
    """Quantise vectors (rows x rank)."""
    scale = np.maximum(np.abs(vectors).max(axis=1, initial=0), np.float32(1e-30)) / np.float32(127)
    scaled = vectors / scale[:, None]
    coarse = np.rint(scaled)
    fine = np.rint((scaled - coarse) * FINE_STEPS)
    return Codes(scale, coarse.astype(np.int8), fine.astype(np.int8))


class VectorSegment:
    """A table of rows, sorted by list and language."""

    def __init__(self, table: pa.Table) -> None:
        self.table, self.rows = table, table.select(ROW_COLUMNS)
        self._signs: SignCodes | None = None

    @property
    def size(self) -> int:
        """The number of rows."""
        return int(self.table.num_rows)

    @cached_property
    def slots(self) -> Ints:
        """The slot of every row."""
        return np.asarray(self.table["slot"].to_numpy())

    @cached_property
    def codes(self) -> Codes:
        """The quantised vectors."""
        matrices = (_bytes_to_matrix(self.table[name]) for name in ("coarse", "fine"))
        return Codes(self.table["scale"].to_numpy(), *matrices)

    @cached_property
    def strings(self) -> dict[str, Strings]:
        """The columns of strings, and the compressed texts, that the segment has."""
        names = [name for name in (*STRINGS, "text") if name in self.table.column_names]
        return {name: Strings(chunk) for name in names for chunk in self.table[name].chunks}

    @property
    def has_signs(self) -> bool:
        """Whether the table has sign codes, which a segment written by an earlier version does not have."""
        return set(SIGN_COLUMNS) <= {*self.table.column_names}

    def signs(self, centroids: Floats) -> SignCodes:
        """The sign codes of the rows."""
        if self._signs is None:
            table = self.table if self.has_signs else _with_signs(self.table, centroids)
            self._signs = SignCodes(_bytes_to_matrix(table["signs"]).view("<u8"), table["factor"].to_numpy())
        return self._signs

    def ranges(self, groups: Ints) -> list[Ints]:
        """Where the rows of each group begin and end."""
        return [np.searchsorted(self.table["group"].to_numpy(), groups, side) for side in SIDES]

    @cached_property
    def langs(self) -> Ints:
        """The number of each row's language."""
        return np.asarray(self.table["group"].to_numpy() % LANGUAGE_STRIDE)

    @cached_property
    def hubness(self) -> Floats:
        """The hubness that was written with each row (rows x languages)."""
        [chunk] = self.table["hubness"].chunks
        return np.asarray(chunk.flatten()).reshape(len(chunk), -1)

    @cached_property
    def keys(self) -> tuple[Array, Ints]:
        """The hashes of all ids, sorted, and the rows that they belong to."""
        keys = self.table["key"].to_numpy()
        order = np.argsort(keys, kind="stable")
        return keys[order], order


class IvfIndex(SegmentedIndex[VectorSegment]):
    """An open index of rows with slots below ``next_slot``.

    Its centroids were trained when the table had ``rows_at_training`` rows.
    """

    # Names of format 1: cells, piece, pieces, until, built, centres.
    manifest_name, segments_key, file_name = "cells.json", "pieces", "piece-{}.arrow"

    def __init__(self, folder: Path, previous: "IvfIndex | None" = None) -> None:
        super().__init__(folder, previous)
        self.langs, self.next_slot = self.manifest["langs"], self.manifest["until"]
        self.rows_at_training = self.manifest["built"]
        self.centroids: Floats = np.load(folder / self.manifest["centres"])

    @classmethod
    def files(cls, manifest: Mapping[str, Any]) -> list[str]:
        return [manifest["centres"], *super().files(manifest)]

    @classmethod
    def load(cls, path: Path) -> VectorSegment:
        with pa.memory_map(str(path)) as file:
            return VectorSegment(pa.ipc.open_file(file).read_all())

    @classmethod
    def write(cls, segment: VectorSegment, path: Path) -> None:
        with atomic_write(path) as file, pa.ipc.new_file(file, segment.table.schema) as writer:
            writer.write_table(segment.table.combine_chunks())

    @classmethod
    def merge(cls, segments: Sequence[VectorSegment]) -> VectorSegment:
        tables = [segment.table for segment in segments]
        common = [name for name in tables[0].column_names if all(name in table.column_names for table in tables)]
        return _sort_by_group([table.select(common) for table in tables])  # earlier versions wrote fewer columns

    def __len__(self) -> int:
        return int(self.offsets[-1])

    @cached_property
    def ranges(self) -> list[list[Ints]]:
        """For each segment, where the rows of each list and language begin and end: two arrays, lists x languages."""
        groups = LANGUAGE_STRIDE * np.arange(len(self.centroids))[:, None] + np.arange(len(self.langs))
        return [segment.ranges(groups) for segment in self.segments]

    @cached_property
    def centroid_codes(self) -> Codes:
        """The centroids, quantised: lists are chosen by one byte a number, which is read in a quarter of the time."""
        return quantise(self.centroids)

    @cached_property
    def list_sizes(self) -> Ints:
        """The number of rows of each list and language (lists x languages)."""
        return np.asarray(sum(ends - begins for begins, ends in self.ranges))

    @cached_property
    def list_totals(self) -> Ints:
        """The number of rows of each list, of all languages."""
        return np.asarray(self.list_sizes.sum(axis=1))

    @cached_property
    def row_of_slot(self) -> Ints:
        """The row of every slot, -1 if there is none."""
        rows = np.full(self.next_slot, -1, np.int32)
        rows[self.slots] = np.arange(len(self), dtype=np.int32)
        return rows

    def nearest(
        self,
        vector: Floats,
        k: int,
        langs: Collection[str] | None,
        live: Mask,
        *,
        allowed: Mask | None = None,
        min_scanned_rows: int = MIN_SCANNED_ROWS,
    ) -> tuple[Ints, Floats]:
        """Approximately the k nearest of the ``live`` rows, best first, and their inner products with the vector.

        The lists of the nearest centroids are read until they have enough rows, of all languages and of those that are
        searched. With ``allowed``, only the rows whose slots are: more lists are read, so that as many of them are
        compared.
        """
        from cr5.retrieval.kernels import multiply_bytes

        columns = [i for i, lang in enumerate(self.langs) if langs is None or lang in langs]
        runs = _runs(columns)
        products = multiply_bytes(self.centroid_codes.scale, self.centroid_codes.coarse, vector)
        order = np.argsort(-products)
        enough = max(min_scanned_rows, int(MIN_SCANNED_SHARE * len(self)), SCANNED_ROWS_PER_HIT * k)
        if allowed is not None:
            live = live & slots_exist(allowed, self.slots)
            needed = [(self._count_live(live)[:, columns].sum(axis=1), enough)]
        else:
            needed = [(self.list_totals, enough)]
            if len(columns) < len(self.langs):
                needed.append((self.list_sizes[:, columns].sum(axis=1), enough // LANGUAGE_FRACTION))
        scanned = (np.searchsorted(np.cumsum(sizes[order]), rows) for sizes, rows in needed)
        lists = order[: 1 + int(max(scanned))]
        refined = max(MIN_REFINED_ROWS, REFINED_ROWS_PER_HIT * k)
        candidates, estimates = np.full(refined, -1, np.int64), np.full(refined, -np.inf, np.float32)
        query, bases = sign_codes.encode_query(vector), np.repeat(products[lists], len(runs[0]))
        for segment, offset, ranges in zip(self.segments, self.offsets, self.ranges, strict=False):
            begins, ends = (bounds[lists][:, run].ravel() for bounds, run in zip(ranges, runs, strict=True))
            signs, is_live = segment.signs(self.centroids), live[offset : offset + segment.size]
            sign_codes.keep_nearest(signs, is_live, begins, ends, bases, query, offset, estimates, candidates)
        candidates = candidates[candidates >= 0]
        exact = self.products(candidates, vector)
        best = np.lexsort((candidates, -exact))[:k]
        return candidates[best], exact[best]

    def count(self, live: Mask) -> dict[str, int]:
        """The number of live rows of each language."""
        sizes = self.list_sizes if live.all() else self._count_live(live)
        return dict(zip(self.langs, sizes.sum(axis=0).tolist(), strict=True))

    def _count_live(self, live: Mask) -> Ints:
        """The number of live rows of each list and language (lists x languages)."""
        sizes = np.zeros_like(self.list_sizes)
        for segment, offset, (begins, ends) in zip(self.segments, self.offsets, self.ranges, strict=False):
            before = np.concatenate([[0], np.cumsum(live[offset : offset + segment.size])])
            sizes += before[ends] - before[begins]
        return sizes

    def vectors(self, rows: Ints) -> Floats:
        """The vectors of some rows."""
        vectors = np.empty((len(rows), self.centroids.shape[1]), np.float32)
        for segment, positions, segment_rows in self.by_segment(rows):
            vectors[positions] = segment.codes.decode(segment_rows)
        return vectors

    def products(self, rows: Ints, vector: Floats) -> Floats:
        """The inner products of some rows and a vector."""
        products = np.empty(len(rows), np.float32)
        for segment, positions, segment_rows in self.by_segment(rows):
            products[positions] = segment.codes.products(segment_rows, vector)
        return products

    def row_langs(self, rows: Ints) -> list[str]:
        """The languages of some rows."""
        numbers = np.empty(len(rows), np.int64)
        for segment, positions, segment_rows in self.by_segment(rows):
            numbers[positions] = segment.langs[segment_rows]
        return [self.langs[number] for number in numbers.tolist()]

    def hubness(self, rows: Ints) -> Floats:
        """The hubness that was written with some rows (rows x languages)."""
        hubness = np.empty((len(rows), self.segments[0].hubness.shape[1]), np.float32)
        for segment, positions, segment_rows in self.by_segment(rows):
            hubness[positions] = segment.hubness[segment_rows]
        return hubness

    def take(self, rows: Ints, columns: Sequence[str] = ROW_COLUMNS) -> pa.Table:
        """Columns of some rows, without their vectors."""
        parts = [
            (positions, segment.rows.select(columns).take(segment_rows))
            for segment, positions, segment_rows in self.by_segment(rows)
        ]
        if not parts:
            return self.segments[0].rows.select(columns).slice(0, 0)
        if len(parts) == 1:
            return parts[0][1]
        positions = np.concatenate([positions for positions, _ in parts])
        return pa.concat_tables(table for _, table in parts).take(np.argsort(positions))

    def has(self, columns: Collection[str]) -> bool:
        """Whether all segments have these columns of strings or texts."""
        return all(name in segment.strings for segment in self.segments for name in columns)

    def strings(self, rows: Ints, column: str) -> list[str]:
        """A column of strings or texts of some rows."""
        found = [""] * len(rows)
        for segment, positions, segment_rows in self.by_segment(rows):
            strings = segment.strings[column]
            values = strings.take_texts(segment_rows) if column == "text" else strings.take(segment_rows)
            if len(positions) == len(rows):
                return values
            for position, value in zip(positions.tolist(), values, strict=True):
                found[position] = value
        return found

    def find(self, ids: Sequence[str]) -> Ints:
        """All rows with one of the ids; a document that was replaced has several, of which at most one is live."""
        keys, id_set, rows = hash_texts(ids), set(ids), [np.empty(0, np.int64)]
        for segment, offset in zip(self.segments, self.offsets, strict=False):
            sorted_keys, key_rows = segment.keys
            begins, ends = (np.searchsorted(sorted_keys, keys, side) for side in SIDES)
            counts = ends - begins
            key_positions = np.repeat(ends - np.cumsum(counts), counts) + np.arange(counts.sum())
            segment_rows = np.unique(key_rows[key_positions])
            same_id = [document_id in id_set for document_id in segment.strings["id"].take(segment_rows)]
            rows.append(offset + segment_rows[np.array(same_id, bool)])
        return np.concatenate(rows)


def _runs(numbers: Sequence[int]) -> tuple[list[int], list[int]]:
    """The first and the last numbers of runs of neighbouring ones."""
    known = set(numbers)
    return [i for i in numbers if i - 1 not in known], [i for i in numbers if i + 1 not in known]


# Writing, by one process at a time


def build(
    folder: Path,
    read: Callable[[Sequence[str]], Tables],
    total: int,
    next_slot: int,
    *,
    max_segment_rows: int = MAX_SEGMENT_ROWS,
) -> None:
    """Train and write an index of all ``total`` rows, whose slots are below ``next_slot``.

    ``read`` returns the rows with those of the given columns that exist; it is called twice.
    """
    folder.mkdir(exist_ok=True)
    number = number_of_lists(total)
    step = sampling_step(total, number)
    centroids = kmeans(np.concatenate([to_matrix(rows["vector"])[::step] for rows in read(("vector",))]), number)
    name = f"centres-{secrets.token_hex(4)}.npy"
    with atomic_write(folder / name) as file:
        write_array(file, centroids)
    langs: list[str] = []
    parts = _make_segments(read(COLUMNS), centroids, langs, max_segment_rows)
    segments = [IvfIndex.write_new(part, folder) for part in parts]
    IvfIndex.publish(folder, {"centres": name, "langs": langs, "built": total, "until": next_slot, "pieces": segments})


def extend(folder: Path, rows: Tables, next_slot: int, *, max_segment_rows: int = MAX_SEGMENT_ROWS) -> None:
    """Add all rows with slots from the index's ``next_slot`` up to the new one; the centroids stay."""
    index = IvfIndex(folder)
    langs, segments = list(index.langs), list(index.named_segments)
    for i, (_, segment) in enumerate(segments):
        if not segment.has_signs:
            segments[i] = "", VectorSegment(_with_signs(segment.table, index.centroids))
    for part in _make_segments(rows, index.centroids, langs, max_segment_rows):
        IvfIndex.add(segments, part, max_segment_rows)
    IvfIndex.activate(folder, index.manifest | {"langs": langs, "until": next_slot}, segments)


def install(folder: Path, built: Path) -> None:
    """Replace the index in a folder, if there is one, by one that was built in another folder on the same disk."""
    folder.mkdir(exist_ok=True)
    manifest = read_json(built / IvfIndex.manifest_name)
    for name in IvfIndex.files(manifest):
        (built / name).replace(folder / name)
    IvfIndex.publish(folder, manifest)
    discard(built)


def _make_segments(rows: Tables, centroids: Floats, langs: list[str], max_rows: int) -> Iterator[VectorSegment]:
    """Rows as segments, each as large as allowed; new languages are appended to ``langs``."""
    pending: list[pa.Table] = []
    for table in rows:
        pending.append(_quantise_rows(table, centroids, langs))
        if sum(part.num_rows for part in pending) + table.num_rows > max_rows:
            yield _sort_by_group(pending)
            pending = []
    if pending:
        yield _sort_by_group(pending)


def _quantise_rows(rows: pa.Table, centroids: Floats, langs: list[str]) -> pa.Table:
    vectors = to_matrix(rows["vector"])
    codes = quantise(vectors)
    row_langs = rows["lang"].to_pylist()
    langs += sorted(set(row_langs) - set(langs))
    number = {lang: i for i, lang in enumerate(langs)}
    lists = top_k.nearest(vectors, centroids, 1).indices[:, 0].astype(np.int64)
    groups = lists * LANGUAGE_STRIDE + np.array([number[lang] for lang in row_langs], np.int64)
    columns = {name: rows[name] for name in (*ROW_COLUMNS, "fields") if name in rows.column_names}
    if "text" in rows.column_names:
        columns["text"] = compressed(rows["text"].to_pylist())
    columns |= {
        "key": pa.array(hash_texts(rows["id"].to_pylist())),
        "group": pa.array(groups, pa.int32()),
        "scale": pa.array(codes.scale),
        "coarse": _matrix_to_bytes(codes.coarse),
        "fine": _matrix_to_bytes(codes.fine),
    }
    return _with_signs(pa.table(columns), centroids)


def _with_signs(table: pa.Table, centroids: Floats) -> pa.Table:
    """A table of a segment with the columns of sign codes."""
    codes, lists = VectorSegment(table).codes, table["group"].to_numpy() // LANGUAGE_STRIDE
    parts = [
        sign_codes.encode(codes.decode(rows) - centroids[lists[rows]])
        for rows in np.array_split(np.arange(len(table)), 1 + len(table) // ROWS_AT_ONCE)
    ]
    signs, factors = map(np.concatenate, zip(*parts, strict=True))
    columns = (_matrix_to_bytes(signs.view(np.int8)), pa.array(factors))
    return pa.table({name: table[name] for name in table.column_names} | dict(zip(SIGN_COLUMNS, columns, strict=True)))


def _sort_by_group(tables: Sequence[pa.Table]) -> VectorSegment:
    table = pa.concat_tables(tables, promote_options="permissive")  # earlier versions wrote groups as int64
    return VectorSegment(table.take(np.argsort(table["group"].to_numpy(), kind="stable")))


def _matrix_to_bytes(numbers: Array) -> pa.Array:
    """int8, rows x width -> a column of fixed-size binary values."""
    kind = pa.binary(numbers.shape[1])
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])


def _bytes_to_matrix(column: pa.ChunkedArray) -> Array:
    [chunk] = column.chunks
    return np.frombuffer(chunk.buffers()[1], np.int8).reshape(-1, column.type.byte_width)[chunk.offset :][: len(chunk)]
