"""Aligned sentences: line i of one language says what line i of the other says."""

import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from cr5.corpus.languages import find_language, short_code
from cr5.errors import CorpusError
from cr5.sources.files import opened

_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
_NAMED = re.compile(r"(?:^|\.)([A-Za-z]{2,3})-([A-Za-z]{2,3})$")  # "ita-eng", "corpus.en-it"
_NO_LANGUAGES = frozenset({"csv", "gz", "ids", "log", "md", "pdf", "py", "rst", "tsv", "txt", "xml", "xz", "zip"})
_Keep: TypeAlias = Callable[[str, str], bool]
_FORMS = "name two files NAME.en and NAME.it, or give Parquet with a column for each language"


@dataclass(frozen=True)
class Aligned:
    """Sentences of two languages, the same number of each; ``empty`` pairs were left out, for lack of a side."""

    langs: tuple[str, str]
    texts: tuple[list[str], list[str]]
    source: str
    empty: int = 0

    def __len__(self) -> int:
        return len(self.texts[0])


class _File(NamedTuple):
    """A file of one language: "corpus.en-it.en.gz" has the name "corpus.en-it" and the ending "en"."""

    path: Path
    name: str
    ending: str

    @property
    def whole(self) -> Path:
        return self.path.with_name(self.name)


def read_aligned(paths: Sequence[str | Path], langs: Sequence[str] | None = None) -> list[Aligned]:
    """Read every pair of languages that files and folders hold; ``langs`` keeps pairs of these languages only.

    A Parquet file has one text column for each language, and may have an ``id``. Plain text is a sentence a
    line, in files NAME.xx and NAME.yy, each also .gz. Three languages that are aligned make three pairs.
    """
    if not paths:
        raise CorpusError(f"no sentences given; {_FORMS}")
    tables: list[Path] = []
    files: list[_File] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = _inside(path)
            tables += [file for file in inside if file.suffix == ".parquet"]
            files += _partners(path, inside)
        elif not path.exists():
            raise CorpusError(f"{path}: no such file or folder; check the spelling")
        elif path.suffix == ".parquet":
            tables.append(path)
        else:
            files.append(_file(path))
    wanted = None if langs is None else set(map(short_code, langs))
    seen: list[tuple[str, str]] = []

    def keep(a: str, b: str) -> bool:
        seen.append((a, b))
        return wanted is None or (find_language(a, wanted) is not None and find_language(b, wanted) is not None)

    found = [pair for path in dict.fromkeys(tables) for pair in _columns(path, keep)]
    found += [pair for group in _groups(files) for pair in _lines(group, keep)]
    if not found:
        there = ", ".join(dict.fromkeys("-".join(pair) for pair in seen))
        raise CorpusError(f"no pair of the languages {', '.join(langs or [])} in these files, but {there}; name others")
    return found


# Files


def _inside(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))


def _split(path: Path) -> _File:
    inner = Path(path.name.removesuffix(".gz"))
    return _File(path, inner.stem, inner.suffix.removeprefix("."))


def _is_language(file: _File) -> bool:
    """Whether an ending is the code of a language; where the name says which two, it has to be one of these."""
    if named := _NAMED.search(file.name):
        return file.ending in named.groups()
    return bool(_CODE.fullmatch(file.ending)) and file.ending.lower() not in _NO_LANGUAGES


def _file(path: Path) -> _File:
    file = _split(path)
    if not _is_language(file):
        raise CorpusError(f"{path}: the ending {file.ending!r} names no language of this file; {_FORMS}")
    return file


def _partners(folder: Path, inside: Sequence[Path]) -> list[_File]:
    """The files of a folder that have a partner; another one is no sentences at all, unless its name says so."""
    files = [file for file in map(_split, inside) if _is_language(file)]
    names = [file.name for file in files]
    kept = [file for file in files if names.count(file.name) > 1 or _NAMED.search(file.name)]
    if not kept and not any(path.suffix == ".parquet" for path in inside):
        raise CorpusError(f"{folder}: no aligned sentences in this folder; {_FORMS}")
    return kept


def _groups(files: Sequence[_File]) -> Iterator[list[_File]]:
    """Files of the same name; where that names two languages, in its order."""
    for whole in dict.fromkeys(file.whole for file in files):
        group = list(dict.fromkeys(file for file in files if file.whole == whole))
        named = _NAMED.search(whole.name)
        if named:
            group.sort(key=lambda file: named.groups().index(file.ending))
        for a, b in combinations(group, 2):
            if short_code(a.ending) == short_code(b.ending):
                raise CorpusError(f"{a.path} and {b.path} are of the same language; give one of them")
        if len(group) == 1:
            other = next((code for code in named.groups() if code != group[0].ending), "xx") if named else "xx"
            raise CorpusError(
                f"{group[0].path}: its partner is missing; give {whole.with_name(f'{whole.name}.{other}')} as well"
            )
        yield group


def _lines(group: Sequence[_File], keep: _Keep) -> Iterator[Aligned]:
    read: dict[Path, list[str]] = {}
    for a, b in combinations(group, 2):
        langs = short_code(a.ending), short_code(b.ending)
        if not keep(*langs):
            continue
        for file in (a, b):
            if file.path not in read:
                read[file.path] = _read(file.path)
        left, right = read[a.path], read[b.path]
        if len(left) != len(right):
            raise CorpusError(
                f"{a.path} has {len(left):,} lines, and {b.path} has {len(right):,}; "
                "line i of one must be the translation of line i of the other"
            )
        yield _aligned(langs, left, right, str(a.whole))


def _read(path: Path) -> list[str]:
    """The lines of a file: what ends in a line feed, and nothing else that Unicode takes for a line's end."""
    with opened(path) as stream:
        content = stream.read()
    content = content.removeprefix(codecs.BOM_UTF8)
    if not content.strip():
        raise CorpusError(f"{path}: empty, without a sentence; remove it and its partner")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        raise CorpusError(f"{path}:{line}: byte 0x{byte:02x} is not UTF-8; convert it with iconv -t utf-8") from None
    return text.removesuffix("\n").split("\n")


# Parquet


def _columns(path: Path, keep: _Keep) -> Iterator[Aligned]:
    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowException):
        raise CorpusError(f"{path}: corrupt, or no Parquet file; copy or write it again") from None
    names = [name for name in schema.names if name != "id"]
    unknown = [name for name in names if not _CODE.fullmatch(name)]
    if unknown or len(names) < 2:
        told = f"the column {unknown[0]!r} names no language" if unknown else f"{len(names)} column of a language"
        raise CorpusError(f"{path}: {told}; write one text column for each of two languages or more, e.g. en and it")
    for name in names:
        kind = schema.field(name).type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise CorpusError(f"{path}: the column {name!r} holds {kind}, not text; write it as strings")
    for a, b in combinations(names, 2):
        langs = short_code(a), short_code(b)
        if langs[0] == langs[1]:
            raise CorpusError(f"{path}: the columns {a!r} and {b!r} are of the same language; keep one of them")
        if keep(*langs):
            table = pq.read_table(path, columns=[a, b])
            if not table.num_rows:
                raise CorpusError(f"{path}: empty, without a sentence; remove it")
            left, right = ([text or "" for text in table[name].to_pylist()] for name in (a, b))
            yield _aligned(langs, left, right, str(path))


def _aligned(langs: tuple[str, str], left: list[str], right: list[str], source: str) -> Aligned:
    pairs = [(a.strip(), b.strip()) for a, b in zip(left, right, strict=True)]
    kept = [pair for pair in pairs if all(pair)]
    if not kept:
        raise CorpusError(
            f"{source}: in each of its {len(pairs):,} lines {langs[0]} or {langs[1]} is empty; fill both sides"
        )
    return Aligned(langs, ([a for a, _ in kept], [b for _, b in kept]), source, len(pairs) - len(kept))
