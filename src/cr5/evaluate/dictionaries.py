"""Bilingual dictionaries: pairs of words in text files whose names say which languages they are of."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow.compute as pc

from cr5.corpus.file_names import find_pair
from cr5.corpus.languages import canonical_code
from cr5.corpus.tables import describe_utf8_error
from cr5.errors import CorpusError, Cr5Error
from cr5.features.tokeniser import as_arrow, normalise_text
from cr5.message_parts import reason

WordPairs: TypeAlias = Sequence[tuple[str, str]]


def dictionary_languages(path: str | Path) -> tuple[str, str]:
    """The source and target language in a dictionary's file name: yacle.test.en-it.tsv -> ("en", "it")."""
    pair = find_pair(Path(path).name)
    if pair is None:
        _read_bytes(path)  # that it does not exist is said first
        raise Cr5Error(f"{path}: the file name does not contain a language pair; name the file like en-it.tsv")
    return canonical_code(pair[0]), canonical_code(pair[1])


def read_dictionaries(paths: Iterable[str | Path]) -> dict[tuple[str, str], WordPairs]:
    """Read several dictionaries, by the languages in their file names."""
    return {dictionary_languages(path): read_dictionary(path) for path in paths}


def read_dictionary(path: str | Path) -> list[tuple[str, str]]:
    """Read pairs of words, one a line: source, tab, target; or two words separated by white space.

    Words are lower-cased as the tokeniser does it. A word may be on several lines, with a translation on each.
    """
    content, pairs = _read_bytes(path), []
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise CorpusError(f"{path}, line {number}: {describe_utf8_error(error)}") from error
        if not text.strip():
            continue
        fields = [part.strip() for part in text.split("\t")] if "\t" in text.strip() else text.split()
        if len(fields) != 2:
            noun = "word" if all(fields) else "column"
            count = f"{len(fields)} {noun}" + ("" if len(fields) == 1 else "s")
            raise CorpusError(f"{path}, line {number}: {count} instead of 2; write a word, a tab and its translation")
        pairs.append(fields)
    if not pairs:
        raise CorpusError(f"{path}: no word pairs in this file; write a word, a tab and its translation on each line")
    sources, targets = (_lower(column) for column in zip(*pairs, strict=True))
    return list(zip(sources, targets, strict=True))


def _read_bytes(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read, {reason(error)}; check its name and permissions") from error


def _lower(words: Sequence[str]) -> list[str]:
    return list(pc.utf8_lower(as_arrow(list(map(normalise_text, words)))).to_pylist())
