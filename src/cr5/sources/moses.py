"""Line-aligned files, one for each language: line 7 of one translates line 7 of the others.

OPUS calls this the Moses form: Europarl.en-it.en and Europarl.en-it.it, packed in en-it.txt.zip. Files of more
than two languages, train.de, train.en and train.fr, work the same.

One line too many in one file and every later pair is wrong without a sign of it. So the lines of all files are
counted before the first one is used, and files of unequal length are refused whole: this reads everything twice,
and costs little, as counting is much faster than all that comes after it.
"""

import hashlib
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple, TypeAlias, cast

from cr5.corpus.documents import Document
from cr5.corpus.languages import is_registered, normalise
from cr5.errors import CorpusError
from cr5.sources.files import ErrorHandler, lines, raise_error
from cr5.sources.input_files import InputFile, find_files, unique_names

_CHUNK = 1 << 20
_CODE = re.compile(r"[a-z]{2,3}(?:[-_][a-z0-9]{2,8})*", re.IGNORECASE)
# Languages to ISO 639-3, other things to everyone else.
_NO_LANGUAGE = {"bak", "bin", "bpe", "cfg", "csv", "doc", "ids", "log", "out", "src", "tgt", "tmp", "trg", "tsv", "xml"}


_Row: TypeAlias = tuple[str | None, ...]  # a line of each language; None where it could not be read


class _Group(NamedTuple):
    """Files that translate each other: the name they share, and for each language its file."""

    name: str
    files: dict[str, InputFile]


def read_moses(
    paths: Sequence[Path], *, join: int = 20, pivot: str | None = None, handle_error: ErrorHandler = raise_error
) -> Iterator[Document]:
    """Documents of files, folders and zips that hold files whose names differ in nothing but the language at the end.

    ``join`` consecutive lines are a document in each language, as a sentence alone teaches little; their concept is
    the files' name and the number of the first line, "Europarl.en-it:41". A line that is empty in one language is
    left out there; one that is empty in all ends the document. With ``pivot`` a line's concept is the digest of its
    text in that language instead, so that the pairs en-it and dan-eng meet in English: then ``join`` must be 1, and
    the pivot's text comes again with every pair and line that has it. Memory holds ``join`` lines of each language.
    """
    if join < 1:
        raise CorpusError(f"{join} lines cannot be joined to a document; pass 1 or more")
    if pivot is not None and join > 1:
        raise CorpusError(
            f"{join} joined lines of one pair are hardly ever those of another, so they cannot meet in '{pivot}'; "
            "join 1 line with a pivot"
        )
    groups = list(_groups(find_files(paths, handle_error), handle_error))
    if not groups:
        raise CorpusError(
            f"no two files of a name in two languages in {', '.join(map(str, paths)) or 'nothing'}; "
            "name them like train.en and train.fr"
        )
    return chain.from_iterable(_documents(group, join, pivot, handle_error) for group in groups)


# Lines


def _documents(group: _Group, join: int, pivot: str | None, handle_error: ErrorHandler) -> Iterator[Document]:
    langs = list(group.files)
    column_of_pivot = next((i for i, lang in enumerate(langs) if pivot and _same_language(lang, pivot)), None)
    if pivot is not None and column_of_pivot is None:
        handle_error("no pivot", f"{group.name}: only {', '.join(langs)}, not the pivot '{pivot}'; leave it out")
        return
    if not _same_length(group, handle_error):
        return
    with ExitStack() as stack:
        columns = []
        for file in group.files.values():
            stream = stack.enter_context(file.open())
            # The lines of a zip's or gzip's own stream are slow.
            buffered = stack.enter_context(io.BufferedReader(cast(io.RawIOBase, stream), _CHUNK))
            columns.append(lines(buffered, str(file), handle_error))
        for first, block in _blocks(zip(*columns, strict=True), join):
            if pivot is None or column_of_pivot is None:
                concept = f"{group.name}:{first}"
            else:
                concept = _meeting(pivot, block[0][column_of_pivot])
            for lang, column in zip(langs, zip(*block, strict=True), strict=True):
                text = "\n".join(filter(None, column))
                if text and concept:
                    yield Document(concept, lang, text)


def _blocks(rows: Iterable[_Row], join: int) -> Iterator[tuple[int, list[_Row]]]:
    """Every ``join`` rows, and the number of the first; fewer where a row comes that is empty in all languages."""
    first, block = 0, list[_Row]()
    for number, row in enumerate(rows, 1):
        stripped = tuple(line and line.strip() for line in row)
        border = not any(line != "" for line in stripped)  # a None may have been anything
        if not border:
            first = first if block else number
            block.append(stripped)
        if block and (border or len(block) == join):
            yield first, block
            block = []
    if block:
        yield first, block


def _same_language(lang: str, other: str) -> bool:
    return lang == other or (is_registered(lang) and is_registered(other) and normalise(lang) == normalise(other))


def _meeting(pivot: str, line: str | None) -> str:
    """The concept of all lines that have this text in the pivot, however it is spaced; empty if it has none."""
    words = (line or "").split()
    return f"{pivot}:{hashlib.blake2b(' '.join(words).encode(), digest_size=12).hexdigest()}" if words else ""


def _same_length(group: _Group, handle_error: ErrorHandler) -> bool:
    heights: dict[str, int] = {}
    for lang, file in group.files.items():
        try:
            with file.open() as stream:
                heights[lang] = _height(stream)
        except CorpusError as error:
            handle_error("unreadable file", str(error))
            return False
    short, long = min(heights, key=heights.__getitem__), max(heights, key=heights.__getitem__)
    if heights[short] != heights[long]:
        handle_error(
            "unequal files",
            f"{group.files[long]}: {heights[long]} lines, but {heights[short]} in {group.files[short]}, so it is "
            "unknown which belong together; copy or download both again",
        )
    return heights[short] == heights[long]


def _height(stream: IO[bytes]) -> int:
    """How many lines there are, a last one without its end among them."""
    height, last = 0, b"\n"
    while chunk := stream.read(_CHUNK):
        height += chunk.count(b"\n")
        last = chunk[-1:]
    return height + (last != b"\n")


# Names


def _groups(files: Iterable[InputFile], handle_error: ErrorHandler) -> Iterator[_Group]:
    """Files that belong together, in the order of their names; those without a language in theirs are passed over."""
    found: dict[tuple[tuple[str, ...], str], dict[str, InputFile]] = defaultdict(dict)
    for file in files:
        stem, lang = _split(file.name.removesuffix(".txt"))
        if not lang:
            continue
        other = found[file.folder, stem].setdefault(lang, file)
        if other != file:
            raise CorpusError(f"{file}: the same text as {other}, it seems; keep one of them")
    for lone in [group for group in found if len(found[group]) == 1]:
        ((lang, file),) = found.pop(lone).items()
        missing = _partner(lone[1], lang)
        words = f"{lone[1]}.{missing} is not beside it" if missing else "no file of this name in another language"
        handle_error("language alone", f"{file}: {words}; add it or leave this one out")
    names = unique_names(list(found))
    for name, files_of in sorted(zip(names, found.values(), strict=True), key=lambda pair: pair[0]):
        yield _Group(name, dict(sorted(files_of.items())))


def _split(name: str) -> tuple[str, str]:
    """A file name's stem and language, which is empty if there is none: train.en -> train, en."""
    stem, _, last = name.rpartition(".")
    return (stem, last) if stem and (_partner(stem, last) or _is_language(last)) else (name, "")


def _is_language(code: str) -> bool:
    return bool(_CODE.fullmatch(code)) and code.lower() not in _NO_LANGUAGE and is_registered(code)


def _partner(stem: str, lang: str) -> str:
    """The other language of a stem that names a pair: Europarl.en-it, en -> it."""
    pair = stem.rpartition(".")[2]
    if pair.startswith(f"{lang}-"):
        return pair.removeprefix(f"{lang}-")
    return pair.removesuffix(f"-{lang}") if pair.endswith(f"-{lang}") else ""
