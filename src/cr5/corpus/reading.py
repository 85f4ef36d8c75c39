"""Reading a corpus from files, folders, globs and standard input, as a stream of batches."""

import glob
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import pyarrow as pa

from cr5.corpus.documents import Batch, Document, ReadOptions, error_reporter
from cr5.corpus.encodings import langs_of_rows, western_as_utf8
from cr5.corpus.formats import DELIMITERS, FORMAT_NAMES, READERS, describe_unknown_suffix, split_format
from cr5.corpus.languages import canonical_code, no_such_language
from cr5.corpus.skipped import FILE_REASONS, OnError, Skipped
from cr5.corpus.tables import DEFAULT_LIMITS, ErrorReporter, ReadLimits
from cr5.corpus.texts import describe, is_table, one_or_several
from cr5.data import BUILTIN, FOLDER
from cr5.errors import CorpusError, Cr5TypeError, InputSkipped, warn
from cr5.message_parts import plural
from cr5.storage.compressed import READ_ERRORS, SUFFIXES, broken_link, describe_error, open_decompressed
from cr5.storage.json_files import read_json

MANIFEST = "manifest.json"  # says whether a folder that cr5 writes file by file is complete

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
    require_langs: bool = False,
) -> "CorpusReader":
    """Read files, folders, globs, standard input ("-") or the encyclopedia ("builtin") in batches of ``batch_rows``.

    A folder stands for all files below it with a known suffix, sorted, except hidden ones; others are counted in
    ``skipped`` or, without it, in a warning. ``langs`` keeps these
    languages only; codes may be in any spelling, and those of the documents become canonical (EN -> en). With
    ``require_langs``, it is an error at the end if one of them has no document. With ``on_error="skip"``, bad lines and
    unreadable files are left out and counted in ``skipped``.
    """
    several = isinstance(paths, Iterable) and not isinstance(paths, str | os.PathLike) and not is_table(paths)
    given: list[Any] = list(paths) if several else [paths]  # type: ignore[arg-type]
    for path in given:
        if not isinstance(path, str | os.PathLike):
            advice = "read takes paths; documents in memory are given to fit, add or write as they are"
            raise Cr5TypeError(f"`paths` has {describe(path)}; {advice}")
    ignored: list[str] = []
    sources = [source for path in given for source in _expand(str(path), ignored)]
    if not sources:
        raise CorpusError("no corpus given; name a file, a folder, a glob, or - for standard input")
    wanted = None if langs is None else frozenset(map(canonical_code, one_or_several(langs)))
    options = ReadOptions(wanted, on_error, batch_rows, limits, require_langs=require_langs)
    return CorpusReader(sources, options, skipped, ignored)


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
        self.sources, self.ignored, self._options = sources, ignored, options
        self.skipped, self._has_own_counter = Skipped() if skipped is None else skipped, skipped is None
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
        reader = CorpusReader(self.sources, replace(self._options, fields=True), self.skipped, self.ignored)
        reader._has_own_counter = self._has_own_counter
        return reader

    def shards(self) -> list["FileShard"]:
        """Parts of the files, for workers that can open them; together they hold every batch once."""
        if _STDIN in self.sources:
            raise CorpusError("standard input can be read only once and on this machine; write it to a file first")
        self._count_ignored()
        shards = []
        for source in self.sources:
            path = Path(source).resolve()
            size = self._options.limits.shard_bytes
            if path.suffix == ".parquet" or path.suffix in SUFFIXES:
                size //= 4  # compressed
            count = 1 + path.stat().st_size // size
            shards += [FileShard(str(path), source, i, count, self._options) for i in range(count)]
        return shards

    def note_encodings(self, guessed: Mapping[str, str]) -> None:
        """Note the encodings that workers have guessed, by file."""
        for source, encoding in guessed.items():
            self._options.note_encoding(source, encoding)

    def check_langs(self, found: Collection[str] = ()) -> None:
        """Raise an error if a required language is among neither those read so far nor the others ``found``."""
        present = self._options.found_langs.union(found)
        if self._options.require_langs and (missing := sorted((self._options.langs or frozenset()) - present)):
            raise CorpusError(no_such_language("the corpus", missing[0], sorted(present), "no document in language"))

    def _count_ignored(self) -> None:
        """Count the files that are not read, with a warning if nobody else has the counter."""
        if self.ignored:
            first, *_ = messages = [f"{path}; the formats are {FORMAT_NAMES}" for path in sorted(self.ignored)]
            for message in messages:
                self.skipped.add(FILE_REASONS[0], message)
            if self._has_own_counter:
                files = plural(len(self.ignored), "file")
                warn(f"{files} of another format not read, e.g. {first}", InputSkipped)

    def _read_sources(self) -> Iterator[Batch]:
        self._count_ignored()
        errors, any_valid = Skipped(), False
        for path in self.sources:
            name = "standard input" if path == _STDIN else path
            for batch in _read_file(path, name, self._options, errors, self.skipped):
                any_valid = True
                if batch.rows.num_rows:
                    yield batch
        if not any_valid:
            several = f"all {errors.total} lines or files have errors; the first: " if errors.total > 1 else ""
            raise CorpusError(f"no document can be used: {several}{errors.first}")
        self.check_langs()


class FileShard(NamedTuple):
    """Every ``step``-th batch of a file, beginning with batch ``first``."""

    path: str
    source: str
    first: int
    step: int
    options: ReadOptions

    def read(self, skipped: Skipped) -> Iterator[Batch]:
        """Yield the batches of this shard.

        Each shard parses the whole file and sees all its errors, so only the first one counts them.
        """
        counter = skipped if self.first == 0 else Skipped()
        return islice(_read_file(self.path, self.source, self.options, counter), self.first, None, self.step)


def _read_file(path: str, source: str, options: ReadOptions, *counters: Skipped) -> Iterator[Batch]:
    """The batches of a file; an error is raised, or counted in all ``counters``."""
    report = error_reporter(source, options.on_error, *counters)
    errors_before, is_empty = counters[0].total, True
    for batch in _parse_file(path, source, report, options):
        is_empty = False
        yield batch
    if is_empty and counters[0].total == errors_before:
        advice = "check the command before the pipe" if path == _STDIN else 'remove it or pass `on_error="skip"`'
        report(None, "empty file", f"contains no documents; {advice}")


def _parse_file(path: str, source: str, report: ErrorReporter, options: ReadOptions) -> Iterator[Batch]:
    file_format, compression = (".jsonl", "") if path == _STDIN else split_format(path)
    try:
        if path != _STDIN and Path(path).stat().st_size == 0:
            return
        with _open(path, file_format, compression) as stream:
            if file_format in DELIMITERS:
                langs_of = partial(langs_of_rows, column="lang", delimiter=DELIMITERS[file_format])
                stream = western_as_utf8(stream, langs_of, partial(options.note_encoding, source))
            for rows, lines in READERS[file_format](stream, report, options):
                yield Batch(rows, source, lines)
    except READ_ERRORS as error:
        report(None, "unreadable file", broken_link(path) or describe_error(error))


def _open(path: str, file_format: str, compression: str) -> AbstractContextManager[Any]:
    if path == _STDIN:
        return nullcontext(sys.stdin.buffer)
    if file_format == ".parquet":
        return cast(AbstractContextManager[Any], pa.OSFile(path))
    return open_decompressed(path, compression)


# Paths


def _conversion_advice(path: str) -> str:
    """What to do with a file of another format."""
    if split_format(path)[0] == ".json":
        return "write one JSON object on every line, and name the file .jsonl"
    return "cr5 corpus makes a corpus of other files, see cr5 corpus --help"


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
            raise CorpusError(f"{describe_unknown_suffix(path)}; {_conversion_advice(path)}")
        return [path]
    if glob.has_magic(path):
        if matches := sorted(glob.glob(path, recursive=True)):  # noqa: PTH207 - a pattern may be absolute
            return [source for match in matches for source in _expand(match, ignored)]
        raise CorpusError(f"{path}: no file matches; put a pattern in quotes and check its folder")
    if re.match("[a-z]+://", path):
        raise CorpusError(f"{path}: an address, not a path; download the file first")
    meant = f"did you mean {BUILTIN}?" if get_close_matches(path, [BUILTIN]) else "check the spelling"
    raise MissingPathError(f"{path}: {broken_link(path) or f'no such file or folder; {meant}'}")


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
        for name, what in (("model.json", "a model"), ("index.json", "an index")):
            if Path(folder, name).is_file():
                raise CorpusError(
                    f"{folder}: this folder is {what}, and not a corpus; check the order of the arguments"
                )
        raise CorpusError(f"{folder}: no corpus file in this folder; the formats are {FORMAT_NAMES}")
    return sorted(files)


def _check_complete(folder: Path) -> None:
    manifest: dict[str, Any] = {}
    with suppress(OSError, ValueError):  # another program's manifest
        manifest = read_json(folder / MANIFEST)
    if manifest.get("complete") is False:
        raise CorpusError(f"{folder}: this corpus is not complete; repeat the command that writes it, which resumes")
