"""A corpus: documents, each of one concept in one language, in files of many formats.

Reading streams: batches of Arrow rows go by, and each row knows its file and line, so that whoever
finds fault with it later can name both.
"""

import glob
import json
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cr5.corpus.formats import READERS, SCHEMA, WRITERS, Bad, gather
from cr5.errors import CorpusError
from cr5.storage import compressed
from cr5.storage.atomic import replacing

__all__ = [
    "SCHEMA", "Batch", "CorpusError", "Document", "Piece", "Reading", "Skipped",
    "batches", "documents", "in_batches", "place", "read", "read_batches", "write",
]  # fmt: skip

_STDIN = "standard input"
_OBJECTS = "documents"
_SUFFIXES = ".jsonl, .csv and .tsv, which .gz, .bz2 or .xz may follow, and .parquet"
MANIFEST = "manifest.json"  # in a folder that cr5 fills file by file: whether it is complete
PIECE = 2**26  # bytes of a file that are worth a reader of their own


@dataclass(frozen=True, slots=True)
class Document:
    """A text about a concept in a language. A language may have several about the same concept."""

    concept: str
    lang: str
    text: str
    title: str = ""
    url: str = ""


@dataclass
class Skipped:
    """What was left out: how often for each reason, and the message of its first case."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """How many lines, rows and files were left out."""
        return sum(self.counts.values())

    @property
    def first(self) -> str:
        """The message of the first case."""
        return next(iter(self.examples.values()))

    def add(self, reason: str, message: str, count: int = 1) -> None:
        """Count one more, or several."""
        self.counts[reason] = self.counts.get(reason, 0) + count
        self.examples.setdefault(reason, message)


class Batch(NamedTuple):
    """Some documents of one source: rows of ``SCHEMA`` without nulls, and the line of each, from 1."""

    rows: pa.RecordBatch
    source: str
    lines: NDArray[np.int64]

    def where(self, i: int) -> str:
        """The place of row i, as messages name it."""
        return place(self.source, int(self.lines[i]))


def place(source: str, line: int | None) -> str:
    """A line of a source, as messages name it."""
    if line is None:
        return source
    if source == _OBJECTS:
        return f"document {line}"
    return f"{source}: row {line}" if _format(source)[0] == ".parquet" else f"{source}:{line}"


def read_batches(
    paths: str | Path | Sequence[str | Path],
    *,
    langs: Collection[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    skipped: Skipped | None = None,
    batch_rows: int = 4000,
) -> "Reading":
    """Read files, folders, globs and standard input ("-") in batches of at most ``batch_rows``.

    Folders give all their files of a known suffix, sorted, but for hidden ones. ``langs`` keeps these languages only.
    With ``on_error="skip"``, bad lines and unreadable files are left out and counted in ``skipped``.
    """
    given = [paths] if isinstance(paths, str | Path) else paths
    sources = [source for path in given for source in _expand(str(path))]
    if not sources:
        raise CorpusError("no corpus given; name a file, a folder, a glob, or - for standard input")
    wanted = None if langs is None else frozenset([langs] if isinstance(langs, str) else langs)
    return Reading(sources, wanted, on_error, skipped, batch_rows)


class Reading(Iterator[Batch]):
    """Batches of files as they are read; ``pieces`` says how several readers can share them instead."""

    def __init__(
        self,
        sources: list[str],
        langs: frozenset[str] | None,
        on_error: Literal["raise", "skip"],
        skipped: Skipped | None,
        batch_rows: int,
    ) -> None:
        self.sources, self.langs, self.on_error, self.batch_rows = sources, langs, on_error, batch_rows
        self.skipped = skipped
        self._batches = _read_all(sources, langs, on_error, skipped, batch_rows)

    def __next__(self) -> Batch:
        return next(self._batches)

    def pieces(self) -> list["Piece"]:
        """What to read instead of this, each piece by whoever can see the files."""
        if "-" in self.sources:
            raise CorpusError("standard input can be read once and here only; write it to a file that all workers see")
        found = []
        for source in self.sources:
            path = Path(source).resolve()
            packed = path.suffix == ".parquet" or path.suffix in compressed.SUFFIXES
            count = 1 + path.stat().st_size // (PIECE // 4 if packed else PIECE)
            found += [
                Piece(str(path), source, i, count, self.langs, self.on_error, self.batch_rows) for i in range(count)
            ]
        return found


class Piece(NamedTuple):
    """Every ``step``-th batch of a file, from the ``first`` on."""

    path: str
    source: str
    first: int
    step: int
    langs: frozenset[str] | None
    on_error: Literal["raise", "skip"]
    batch_rows: int

    def read(self, skipped: Skipped) -> Iterator[Batch]:
        """Its batches; what is bad in the file is counted by the reader of its first piece."""
        here = skipped if self.first == 0 else Skipped()
        found = _read_each([self.path], [self.source], self.langs, self.on_error, here, self.batch_rows)
        return islice(found, self.first, None, self.step)


def read(
    paths: str | Path | Sequence[str | Path],
    *,
    langs: Collection[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    skipped: Skipped | None = None,
    batch_rows: int = 4000,
) -> Iterator[Document]:
    """The documents of ``read_batches``, one by one."""
    found = read_batches(paths, langs=langs, on_error=on_error, skipped=skipped, batch_rows=batch_rows)
    return chain.from_iterable(map(documents, found))


def documents(batch: Batch) -> Iterator[Document]:
    """A batch's documents, one by one."""
    return map(Document, *(column.to_pylist() for column in batch.rows.columns))


def batches(documents: Iterable[Document], batch_rows: int = 4000) -> Iterator[Batch]:
    """Put documents into batches, as if they had been read."""

    def bad(line: int | None, reason: str, explanation: str) -> None:
        raise CorpusError(f"{place(_OBJECTS, line)}: {explanation}")

    records = ({name: getattr(document, name) for name in SCHEMA.names} for document in documents)
    for rows, lines in gather(enumerate(records, 1), bad, None, batch_rows, "document"):
        yield Batch(rows, _OBJECTS, lines)


def write(path: str | Path, items: Iterable[Batch] | Iterable[Document]) -> int:
    """Write a corpus in the format that the suffix names ("-": JSONL to standard output); return its size.

    The file appears under its name when it is complete and on disk, or not at all.
    """
    rows = (batch.rows for batch in in_batches(items))
    if str(path) == "-":
        count = WRITERS[".jsonl"](sys.stdout.buffer, rows)
        sys.stdout.buffer.flush()
        return count
    final = Path(path).resolve()  # a link stays a link
    if final.is_dir():
        raise CorpusError(f"{path}: this is a folder; name a file in it, such as corpus.parquet")
    kind, compression = _format(str(path))
    if kind not in WRITERS:
        raise CorpusError(_unknown_suffix(str(path)))
    if not final.parent.is_dir():
        raise CorpusError(f"{path}: the folder {Path(path).parent} does not exist; create it first")
    with replacing(final) as raw, compressed.compressing(raw, compression) as stream:
        return WRITERS[kind](stream, rows)


def in_batches(items: Iterable[Batch] | Iterable[Document]) -> Iterator[Batch]:
    """Batches as they are, documents in batches."""
    left = iter(items)
    for first in left:
        everything = chain([first], left)
        if isinstance(first, Batch):
            yield from cast(Iterator[Batch], everything)
        else:
            yield from batches(cast(Iterator[Document], everything))


# Paths


def _format(name: str) -> tuple[str, str]:
    """A file name's format and compression: "en.csv.gz" -> (".csv", ".gz")."""
    stem, compression = compressed.split_suffix(name.lower())
    if compression and Path(stem).suffix != ".parquet":
        return Path(stem).suffix, compression
    return Path(name.lower()).suffix, ""


def _unknown_suffix(name: str) -> str:
    endings = Path(name).suffixes[-2:] if Path(name).suffix in compressed.SUFFIXES else [Path(name).suffix]
    return f"{name}: unknown suffix '{''.join(endings)}'; the formats are {_SUFFIXES}"


def _expand(path: str) -> list[str]:
    """The files that a path names, "-" among them."""
    if path == "-":
        return [path]
    if Path(path).is_dir():
        return _files_below(path)
    if Path(path).exists():
        if _format(path)[0] not in READERS:
            raise CorpusError(_unknown_suffix(path))
        return [path]
    if glob.has_magic(path):
        if matches := sorted(glob.glob(path, recursive=True)):  # noqa: PTH207 - a pattern may be absolute
            return [source for match in matches for source in _expand(match)]
        raise CorpusError(f"{path}: no file matches; put a pattern in quotes and check its folder")
    raise CorpusError(f"{path}: no such file or folder; check the spelling")


def _files_below(folder: str) -> list[str]:
    def fail(error: OSError) -> None:
        raise CorpusError(f"{error.filename}: cannot be read, {_lower(error)}; check its permissions")

    found: list[str] = []
    entered: set[str] = set()
    for place, below, names in os.walk(folder, onerror=fail, followlinks=True):
        if (real := str(Path(place).resolve())) in entered:
            below.clear()  # a link back up
            continue
        entered.add(real)
        below[:] = sorted(name for name in below if not name.startswith("."))
        if MANIFEST in names:
            _check_complete(Path(place))
        found += [
            os.path.join(place, name)  # noqa: PTH118
            for name in names
            if _format(name)[0] in READERS and not name.startswith(".")
        ]
    if not found:
        raise CorpusError(f"{folder}: no corpus file in this folder; the formats are {_SUFFIXES}")
    return sorted(found)


def _check_complete(folder: Path) -> None:
    about = None
    with suppress(OSError, ValueError):  # somebody else's manifest
        about = json.loads((folder / MANIFEST).read_bytes())
    if isinstance(about, dict) and about.get("complete") is False:
        raise CorpusError(f"{folder}: this corpus is not complete; run the command that writes it again, it goes on")


# Sources


def _read_all(
    paths: list[str], langs: frozenset[str] | None, on_error: str, skipped: Skipped | None, batch_rows: int
) -> Iterator[Batch]:
    here, found = Skipped(), False
    names = [_STDIN if path == "-" else path for path in paths]
    for batch in _read_each(paths, names, langs, on_error, here, batch_rows, skipped):
        found = True
        if batch.rows.num_rows:
            yield batch
    if not found:
        raise CorpusError(f"nothing left to read, all {here.total} lines or files are bad; the first: {here.first}")


def _read_each(
    paths: list[str],
    names: list[str],
    langs: frozenset[str] | None,
    on_error: str,
    here: Skipped,
    batch_rows: int,
    also: Skipped | None = None,
) -> Iterator[Batch]:
    """The batches of every file; what is bad raises an error, or is counted ``here`` and where else it is wanted."""
    for path, source in zip(paths, names, strict=True):

        def bad(line: int | None, reason: str, explanation: str, source: str = source) -> None:
            message = f"{place(source, line)}: {explanation}"
            if on_error != "skip":
                raise CorpusError(message)
            here.add(reason, message)
            if also is not None:
                also.add(reason, message)

        before, read_any = here.total, False
        for batch in _read_one(path, source, bad, langs, batch_rows):
            read_any = True
            yield batch
        if not read_any and here.total == before:
            bad(None, "empty file", "empty, without a document; remove it or pass --on-error skip")


def _read_one(path: str, source: str, bad: Bad, langs: frozenset[str] | None, batch_rows: int) -> Iterator[Batch]:
    kind, compression = (".jsonl", "") if path == "-" else _format(path)
    try:
        if path != "-" and Path(path).stat().st_size == 0:
            return
        with _open(path, kind, compression) as stream:
            for rows, lines in READERS[kind](stream, bad, langs, batch_rows):
                yield Batch(rows, source, lines)
    except (*compressed.READ_ERRORS, pa.ArrowException) as error:
        if kind == ".parquet" and not (isinstance(error, OSError) and error.strerror):
            bad(None, "unreadable file", "corrupt, or not a Parquet file; copy or download it again")
        else:
            bad(None, "unreadable file", compressed.describe_error(error))


def _open(path: str, kind: str, compression: str) -> AbstractContextManager[Any]:
    if path == "-":
        return nullcontext(sys.stdin.buffer)
    if kind == ".parquet":
        return cast(AbstractContextManager[Any], pa.OSFile(path))
    return compressed.open_decompressed(path, compression)


def _lower(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
