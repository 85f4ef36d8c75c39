"""Aligned sentences in two languages: from line-aligned files, or from the columns of a Parquet file."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from cr5.corpus.file_names import split_name
from cr5.corpus.language_names import language_code
from cr5.corpus.languages import canonical_code, find_language
from cr5.errors import CorpusError
from cr5.sources.accounting import Accounting
from cr5.sources.files import raise_error
from cr5.sources.input_files import InputFile, find_files
from cr5.sources.line_aligned import LineAlignedFiles, group_files, read_aligned_lines

_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
_IsWanted: TypeAlias = Callable[[str, str], bool]
_FORMATS = "name two files NAME.en and NAME.it, or give Parquet with a column for each language"


@dataclass(frozen=True)
class AlignedSentences:
    """Sentences in two languages, as many of each; ``empty`` pairs were left out because one side was empty."""

    langs: tuple[str, str]
    texts: tuple[list[str], list[str]]
    source: str
    empty: int = 0

    def __len__(self) -> int:
        return len(self.texts[0])


def read_aligned(paths: Sequence[str | Path], langs: Sequence[str] | None = None) -> list[AlignedSentences]:
    """Read every pair of languages in files, folders and zips; ``langs`` keeps only pairs of these languages.

    A Parquet file has one text column for each language, and may have an ``id``. Text files have one sentence per
    line and are called NAME.xx and NAME.yy; they may be compressed. Three aligned languages make three pairs.
    """
    given = [Path(path) for path in paths]
    if not given:
        raise CorpusError(f"no sentences given; {_FORMATS}")
    tables, groups = _find_inputs(given)
    if not tables and not groups:
        raise CorpusError(f"{', '.join(map(str, given))}: no aligned sentences; {_FORMATS}")
    wanted = None if langs is None else set(map(canonical_code, langs))
    available: list[str] = []

    def is_wanted(a: str, b: str) -> bool:
        available.append(f"{a}-{b}")
        return wanted is None or (find_language(a, wanted) is not None and find_language(b, wanted) is not None)

    pairs = [pair for path in tables for pair in _read_columns(path, is_wanted)]
    pairs += [pair for group in groups for pair in _read_lines(group, is_wanted)]
    if not pairs:
        raise CorpusError(
            f"these files have no pair of the languages {', '.join(langs or [])}, only "
            f"{', '.join(dict.fromkeys(available))}; change `langs`"
        )
    return pairs


def _find_inputs(given: Sequence[Path]) -> tuple[list[Path], list[LineAlignedFiles]]:
    """The Parquet files and the groups of aligned files; a single file below a folder may be something else."""
    accounting = Accounting()
    files = list(find_files(given, accounting))
    tables = [file.path for file in files if file.path.suffix == ".parquet"]
    texts = [file for file in files if file.path.suffix != ".parquet"]
    for file in texts:
        if file.path in given and file.member is None and not split_name(file.name, allow_unregistered=True)[1]:
            raise CorpusError(f"{file}: the end of its name is not a language; {_FORMATS}")
    groups, alone, missing = [], list[InputFile](), ""
    for group in group_files(texts, accounting, allow_unregistered=True):
        (first, *others) = group.files.values()
        if others:
            groups.append(group)
        elif first.path in given or group.missing_language:
            alone.append(first)
            if len(alone) > 1:
                raise CorpusError(f"{alone[0]} and {first} have different names before the language; {_FORMATS}")
            partner = f"{group.source}.{group.missing_language or 'xx'}"
            missing = f"{first}: the translation file {partner} is missing; give it as well"
    if alone:
        raise CorpusError(missing)
    return tables, groups


def _read_lines(group: LineAlignedFiles, is_wanted: _IsWanted) -> Iterator[AlignedSentences]:
    wanted = []
    for (a, file_a), (b, file_b) in combinations(_in_order_of_name(group), 2):
        langs = canonical_code(a), canonical_code(b)
        if langs[0] == langs[1]:
            raise CorpusError(f"{file_a} and {file_b} are of the same language; give one of them")
        if is_wanted(*langs):
            wanted.append((langs, a, b))
    needed = {code: group.files[code] for _, a, b in wanted for code in (a, b)}
    rows = list(read_aligned_lines(LineAlignedFiles(group.stem, needed), raise_error)) if wanted else []
    columns = {code: [row[i] or "" for row in rows] for i, code in enumerate(needed)}
    for langs, a, b in wanted:
        yield _without_empty(langs, list(zip(columns[a], columns[b], strict=True)), group.source)


def _in_order_of_name(group: LineAlignedFiles) -> list[tuple[str, InputFile]]:
    """The files by language; if the name is that of a pair, like ita-eng, its first language comes first."""
    pair = group.stem.rpartition(".")[2]
    return sorted(group.files.items(), key=lambda item: not pair.startswith(f"{item[0]}-"))


def _read_columns(path: Path, is_wanted: _IsWanted) -> Iterator[AlignedSentences]:
    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowException):
        raise CorpusError(f"{path}: corrupt, or not a Parquet file; copy or write it again") from None
    names = [name for name in schema.names if name != "id"]
    unknown = [name for name in names if not (_CODE.fullmatch(name) or language_code(name))]
    if unknown or len(names) < 2:
        reason = f"the column {unknown[0]!r} is not a language" if unknown else f"{len(names)} language column"
        raise CorpusError(f"{path}: {reason}; write one text column for each of two languages or more, e.g. en and it")
    for name in names:
        kind = schema.field(name).type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise CorpusError(f"{path}: the column {name!r} has type {kind}, not text; write it as strings")
    for a, b in combinations(names, 2):
        langs = canonical_code(a), canonical_code(b)
        if langs[0] == langs[1]:
            raise CorpusError(f"{path}: the columns {a!r} and {b!r} are of the same language; keep one of them")
        if is_wanted(*langs):
            table = pq.read_table(path, columns=[a, b])
            left, right = ([(text or "").strip() for text in table[name].to_pylist()] for name in (a, b))
            yield _without_empty(langs, list(zip(left, right, strict=True)), str(path))


def _without_empty(langs: tuple[str, str], pairs: Sequence[tuple[str, str]], source: str) -> AlignedSentences:
    if not pairs:
        raise CorpusError(f"{source}: the file has no sentences; remove it")
    kept = [pair for pair in pairs if all(pair)]
    if not kept:
        raise CorpusError(f"{source}: in each of its {len(pairs):,} lines {langs[0]} or {langs[1]} is empty; fill both")
    return AlignedSentences(
        langs, ([left for left, _ in kept], [right for _, right in kept]), source, len(pairs) - len(kept)
    )
