"""Line-aligned files, one per language: line i of one file is the translation of line i of the others.

OPUS calls this the Moses format: Europarl.en-it.en and Europarl.en-it.it, packed in en-it.txt.zip. Files of more than
two languages, train.de, train.en and train.fr, work the same.

One missing line would misalign all lines after it, without any sign of it. The lines of all files are therefore
counted before the first one is used, and files of different length are rejected. Everything is read twice, which
costs little: counting is much faster than all later steps.
"""

import io
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import PurePosixPath
from typing import NamedTuple, TypeAlias, cast

from cr5.corpus.file_names import partner, split_ending, split_name
from cr5.corpus.skipped import Skipped
from cr5.errors import CorpusError
from cr5.sources.accounting import Accounting, UnusableInputError
from cr5.sources.files import ErrorHandler, count_lines, lines
from cr5.sources.input_files import InputFile, same_text_error
from cr5.sources.language_names import LanguageNames

Row: TypeAlias = tuple[str | None, ...]
"""Line i of every file, stripped; None if it cannot be read."""

_CHUNK_BYTES = 1 << 20


class LineAlignedFiles(NamedTuple):
    """The files of a text, by language code as in their names; ``stem`` is the name without the language."""

    stem: str
    files: dict[str, InputFile]

    @property
    def folder(self) -> tuple[str, ...]:
        """The folder or zip of the files."""
        return next(iter(self.files.values())).folder

    @property
    def source(self) -> str:
        """The path of the files without the language, for messages."""
        path, member = next(iter(self.files.values()))
        if member is None:
            return str(path.with_name(self.stem))
        return f"{path}: {PurePosixPath(member).with_name(self.stem)}"

    @property
    def missing_language(self) -> str:
        """The second language of a stem that names a pair, if only one is there: Europarl.en-it, en -> it."""
        return partner(self.stem, next(iter(self.files))) if len(self.files) == 1 else ""


def group_files(
    files: Iterable[InputFile],
    accounting: Accounting,
    names: LanguageNames | None = None,
    *,
    allow_unregistered: bool = False,
) -> list[LineAlignedFiles]:
    """Group files by folder and stem; files whose names do not have a language are left out.

    A group may have a single file, but not if the language follows a dash or underscore, as in sign-in.txt.
    ``names`` are further names of languages, and ``allow_unregistered`` accepts codes that are not registered.
    """
    groups: dict[tuple[tuple[str, ...], str], LineAlignedFiles] = {}
    uncertain: dict[tuple[tuple[str, ...], str], LineAlignedFiles] = {}
    for file in files:
        stem, lang = names.split_end(file.name) if names else ("", "")
        if not lang:
            stem, lang = split_name(file.name, allow_unregistered=allow_unregistered)
        found = groups
        if not lang:
            stem, lang = split_ending(file.name)
            found = uncertain
        if not lang:
            accounting.skip_file(file, "no language in its name")
            continue
        group = found.setdefault((file.folder, stem), LineAlignedFiles(stem, {}))
        other = group.files.setdefault(lang, file)
        if other != file:
            if file.name == other.name:
                raise same_text_error(file, other)
            raise CorpusError(f"{file} and {other} are both {stem} in {lang}; leave one of them out, or rename it")
    for key, group in uncertain.items():
        if len(group.files) > 1 and key not in groups:
            groups[key] = group
        else:
            for file in group.files.values():
                accounting.skip_file(file, "no language in its name")
    return list(groups.values())


def read_aligned_lines(
    group: LineAlignedFiles, handle_error: ErrorHandler, guessed: Skipped | None = None
) -> Iterator[Row]:
    """Yield the lines of all files side by side; an error if their lengths differ or one cannot be read.

    ``guessed`` is as for ``lines``.
    """
    _check_equal_length(group)
    with ExitStack() as stack:
        columns = []
        for lang, file in group.files.items():
            stream = stack.enter_context(file.open())
            # Reading lines from the stream of a zip or gzip file is slow without a buffer.
            buffered = stack.enter_context(io.BufferedReader(cast(io.RawIOBase, stream), _CHUNK_BYTES))
            columns.append(lines(buffered, str(file), handle_error, lang, guessed))
        for row in zip(*columns, strict=True):
            yield tuple(line and line.strip() for line in row)


def _check_equal_length(group: LineAlignedFiles) -> None:
    counts: dict[str, int] = {}
    for lang, file in group.files.items():
        with file.open() as stream:
            counts[lang] = count_lines(stream)
    shortest, longest = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
    if counts[shortest] != counts[longest]:
        raise UnusableInputError(
            "unequal files",
            f"{group.files[longest]}: {counts[longest]} lines, but {counts[shortest]} in {group.files[shortest]}, so "
            "their lines cannot be matched; copy or download both again",
        )
