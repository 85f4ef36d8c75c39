"""Reading a corpus from files, folders, globs and standard input, as a stream of batches."""

import glob
import json
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import pyarrow as pa

from cr5.corpus.documents import Batch, Document, ReadOptions, location
from cr5.corpus.formats import FORMAT_NAMES, READERS, describe_unknown_suffix, split_format
from cr5.corpus.languages import canonical_code
from cr5.corpus.skipped import OnError, Skipped
from cr5.corpus.tables import DEFAULT_LIMITS, ErrorReporter, ReadLimits
from cr5.corpus.texts import one_or_several
from cr5.data import BUILTIN, FOLDER
from cr5.errors import CorpusError
from cr5.storage.compressed import READ_ERRORS, SUFFIXES, describe_error, open_decompressed

MANIFEST = "manifest.json"  # in a folder that cr5 writes file by file: says whether it is complete

_STDIN = "-"


class MissingPathError(CorpusError):
    """A path that does not exist."""


def read_batches(
    paths: str | Path | Sequence[str | Path],
    *,
    langs: Collection[str] | None = None,
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
    batch_rows: int = 4000,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> "CorpusReader":
    """Read files, folders, globs, standard input ("-") or the encyclopedia ("builtin") in batches of ``batch_rows``.

    A folder stands for all files below it with a known suffix, sorted, except hidden ones. ``langs`` keeps these
    languages only; codes may be in any spelling, and those of the documents become canonical (EN -> en). With
    ``on_error="skip"``, bad lines and unreadable files are left out and counted in ``skipped``.
    """
    paths = [paths] if isinstance(paths, str | Path) else paths
    ignored: list[str] = []
    sources = [source for path in paths for source in _expand(str(path), ignored)]
    if not sources:
        raise CorpusError("no corpus given; name a file, a folder, a glob, or - for standard input")
    wanted = None if langs is None else frozenset(map(canonical_code, one_or_several(langs)))
    return CorpusReader(sources, ReadOptions(wanted, on_error, batch_rows, limits), skipped, ignored)


def read(
    paths: str | Path | Sequence[str | Path],
    *,
    langs: Collection[str] | None = None,
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
    batch_rows: int = 4000,
) -> Iterator[Document]:
    """The documents of ``read_batches``, one by one, with their fields."""
    reader = read_batches(paths, langs=langs, on_error=on_error, skipped=skipped, batch_rows=batch_rows)
    return chain.from_iterable(batch.documents() for batch in reader.with_fields())


class CorpusReader(Iterator[Batch]):
    """The batches of files, as an iterator; ``shards`` divides the same files among several workers.

    ``ignored`` are files in the given folders that are not read, because their suffix is that of no format.
    """

    def __init__(
        self, sources: list[str], options: ReadOptions, skipped: Skipped | None, ignored: Sequence[str] = ()
    ) -> None:
        self.sources, self.skipped, self.ignored, self._options = sources, skipped, ignored, options
        self._batches, self._has_begun = self._read_sources(), False

    def __next__(self) -> Batch:
        self._has_begun = True
        return next(self._batches)

    def with_fields(self) -> "CorpusReader":
        """A reader of the same files whose batches have the fields of documents as well."""
        if self._options.fields:
            return self
        if self._has_begun:
            raise CorpusError(
                "some batches have been read already, without the fields of documents; read the files again"
            )
        return CorpusReader(self.sources, replace(self._options, fields=True), self.skipped, self.ignored)

    def shards(self) -> list["FileShard"]:
        """Parts of the files, for workers that can open them; together they hold every batch once."""
        if _STDIN in self.sources:
            raise CorpusError("standard input can be read only once and on this machine; write it to a file first")
        shards = []
        for source in self.sources:
            path = Path(source).resolve()
            size = self._options.limits.shard_bytes
            if path.suffix == ".parquet" or path.suffix in SUFFIXES:
                size //= 4  # compressed
            count = 1 + path.stat().st_size // size
            shards += [FileShard(str(path), source, i, count, self._options) for i in range(count)]
        return shards

    def _read_sources(self) -> Iterator[Batch]:
        errors, any_valid = Skipped(), False
        counters = [errors] if self.skipped is None else [errors, self.skipped]
        for path in self.sources:
            name = "standard input" if path == _STDIN else path
            for batch in _read_file(path, name, self._options, *counters):
                any_valid = True
                if batch.rows.num_rows:
                    yield batch
        if not any_valid:
            raise CorpusError(
                f"no document can be used: all {errors.total} lines or files have errors; the first: {errors.first}"
            )


class FileShard(NamedTuple):
    """Every ``step``-th batch of a file, beginning with batch ``first``."""

    path: str
    source: str
    first: int
    step: int
    options: ReadOptions

    def read(self, skipped: Skipped) -> Iterator[Batch]:
        """Its batches. Every shard meets the errors of the whole file; only the first one counts them."""
        counter = skipped if self.first == 0 else Skipped()
        return islice(_read_file(self.path, self.source, self.options, counter), self.first, None, self.step)


def _read_file(path: str, source: str, options: ReadOptions, *counters: Skipped) -> Iterator[Batch]:
    """The batches of a file; an error is raised, or counted in all ``counters``."""

    def report(line: int | None, reason: str, explanation: str) -> None:
        message = f"{location(source, line)}: {explanation}"
        if options.on_error != "skip":
            raise CorpusError(message)
        for counter in counters:
            counter.add(reason, message)

    errors_before, is_empty = counters[0].total, True
    for batch in _parse_file(path, source, report, options):
        is_empty = False
        yield batch
    if is_empty and counters[0].total == errors_before:
        report(None, "empty file", 'contains no documents; remove it or pass `on_error="skip"`')


def _parse_file(path: str, source: str, report: ErrorReporter, options: ReadOptions) -> Iterator[Batch]:
    file_format, compression = (".jsonl", "") if path == _STDIN else split_format(path)
    try:
        if path != _STDIN and Path(path).stat().st_size == 0:
            return
        with _open(path, file_format, compression) as stream:
            for rows, lines in READERS[file_format](stream, report, options):
                yield Batch(rows, source, lines)
    except (*READ_ERRORS, pa.ArrowException) as error:
        if file_format == ".parquet" and not (isinstance(error, OSError) and error.strerror):
            report(None, "unreadable file", "corrupt, or not a Parquet file; copy or download it again")
        else:
            report(None, "unreadable file", describe_error(error))


def _open(path: str, file_format: str, compression: str) -> AbstractContextManager[Any]:
    if path == _STDIN:
        return nullcontext(sys.stdin.buffer)
    if file_format == ".parquet":
        return cast(AbstractContextManager[Any], pa.OSFile(path))
    return open_decompressed(path, compression)


# Paths


def _expand(path: str, ignored: list[str]) -> list[str]:
    """The files that a path stands for; "-" stands for itself. Files of no format are appended to ``ignored``."""
    if path == _STDIN:
        return [path]
    if path == BUILTIN and not Path(path).exists():
        return _files_below(str(FOLDER), [])
    if Path(path).is_dir():
        return _files_below(path, ignored)
    if Path(path).exists():
        if split_format(path)[0] not in READERS:
            raise CorpusError(describe_unknown_suffix(path))
        return [path]
    if glob.has_magic(path):
        if matches := sorted(glob.glob(path, recursive=True)):  # noqa: PTH207 - a pattern may be absolute
            return [source for match in matches for source in _expand(match, ignored)]
        raise CorpusError(f"{path}: no file matches; put a pattern in quotes and check its folder")
    raise MissingPathError(f"{path}: no such file or folder; check the spelling")


def _files_below(folder: str, ignored: list[str]) -> list[str]:
    def fail(error: OSError) -> None:
        raise CorpusError(f"{error.filename}: {describe_error(error)}")

    files: list[str] = []
    visited: set[str] = set()
    for current, subfolders, names in os.walk(folder, onerror=fail, followlinks=True):
        if (resolved := str(Path(current).resolve())) in visited:
            subfolders.clear()  # a symbolic link to a parent
            continue
        visited.add(resolved)
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        if MANIFEST in names:
            _check_complete(Path(current))
        for name in names:
            if not name.startswith(".") and name != MANIFEST:
                is_corpus = split_format(name)[0] in READERS
                (files if is_corpus else ignored).append(os.path.join(current, name))  # noqa: PTH118
    if not files:
        raise CorpusError(f"{folder}: no corpus file in this folder; the formats are {FORMAT_NAMES}")
    return sorted(files)


def _check_complete(folder: Path) -> None:
    manifest = None
    with suppress(OSError, ValueError):  # another program's manifest
        manifest = json.loads((folder / MANIFEST).read_bytes())
    if isinstance(manifest, dict) and manifest.get("complete") is False:
        raise CorpusError(f"{folder}: this corpus is not complete; repeat the command that writes it, which resumes")
