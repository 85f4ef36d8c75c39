"""Verse files: translations of the Bible, one verse a line.

Which verse a line holds is told by a list of references that all files share (the eBible corpus and its
vref.txt), or by the line itself, before a tab.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from cr5.corpus.documents import Document
from cr5.errors import CorpusError
from cr5.sources.files import ErrorHandler, lines, opened, raise_error

Unit: TypeAlias = Literal["verse", "chapter", "book"]

_RANGE = "<range>"  # this verse is part of the text of the one before
_REFERENCE = re.compile(r"(?P<chapter>(?P<book>\S.*) \d+):\S+")
_FILE = re.compile(r".+\.(?:txt|tsv)(?:\.(?:gz|bz2|xz))?")
_LANG = re.compile(r"[A-Za-z]{2,3}(?=[-_.])")


class _Verse(NamedTuple):
    concept: str
    text: str


def read_bible(
    files: Sequence[Path],
    references: Path | None = None,
    *,
    by: Unit = "chapter",
    handle_error: ErrorHandler = raise_error,
) -> Iterator[Document]:
    """The verses, chapters or books of every file; a folder gives all its .txt and .tsv but the list.

    ``references`` has a line such as "GEN 1:1" for each line of every file; without it, lines are
    "GEN 1:1<TAB>text". The concept is "GEN 1:1", "GEN 1" or "GEN"; the language is what the file's name
    begins with, as in eng-engBSB.txt. Where verses are merged, the first of them has the text of all.
    """
    if by not in ("verse", "chapter", "book"):
        raise CorpusError(f"documents by {by!r} are unknown; choose verse, chapter or book")
    concepts = None if references is None else _concepts(references, by)
    for path in _files(files, references):
        try:
            verses = _numbered(path, by, handle_error) if concepts is None else _listed(path, concepts, handle_error)
            for concept, group in groupby(verses, key=lambda verse: verse.concept):
                yield Document(concept, _lang(path), "\n".join(verse.text for verse in group))
        except CorpusError as error:
            handle_error("unreadable file", str(error))


def _files(given: Sequence[Path], references: Path | None) -> list[Path]:
    found: list[Path] = []
    for path in given:
        if not path.is_dir():
            found.append(path)
            continue
        below = sorted(file for file in path.iterdir() if _FILE.fullmatch(file.name) and file.is_file())
        below = [file for file in below if references is None or not file.samefile(references)]
        if not below:
            raise CorpusError(f"{path}: no verse file in this folder; their names end in .txt or .tsv")
        found += below
    if not found:
        raise CorpusError("no verse file given; name files such as eng-engBSB.txt, or their folder")
    return found


def _lang(path: Path) -> str:
    found = _LANG.match(path.name)
    return found[0] if found else ""


def _concept(reference: str, by: Unit) -> str | None:
    """What a verse becomes a part of, or None if this names no verse."""
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        return None
    return reference if by == "verse" else found[by]


def _concepts(references: Path, by: Unit) -> list[str]:
    found = []
    with opened(references) as stream:
        for number, line in enumerate(lines(stream, str(references), raise_error), 1):
            concept = _concept((line or "").strip(), by)
            if concept is None:
                raise CorpusError(f"{references}:{number}: {line!r} names no verse; write it as GEN 1:1")
            found.append(concept)
    return found


def _listed(path: Path, concepts: list[str], handle_error: ErrorHandler) -> Iterator[_Verse]:
    with opened(path) as stream:  # counted first: one line too few, and all behind it would be wrong
        count = sum(1 for _ in lines(stream, str(path), lambda reason, message: None))
    if count != len(concepts):
        handle_error(
            "wrong number of lines",
            f"{path}: {count} lines, but the list of references has {len(concepts)}; pass the list it was made with",
        )
        return
    with opened(path) as stream:
        for concept, line in zip(concepts, lines(stream, str(path), handle_error), strict=True):
            text = (line or "").strip()
            if text and text != _RANGE:
                yield _Verse(concept, text)


def _numbered(path: Path, by: Unit, handle_error: ErrorHandler) -> Iterator[_Verse]:
    with opened(path) as stream:
        for number, line in enumerate(lines(stream, str(path), handle_error), 1):
            if not line or not line.strip():
                continue
            reference, tab, text = line.partition("\t")
            concept = _concept(reference.strip(), by)
            if concept is None or not tab:
                shown = line if len(line) <= 40 else f"{line[:40]}..."
                handle_error(
                    "no reference",
                    f"{path}:{number}: {shown!r} does not start with a verse and a tab; "
                    f"write GEN 1:1<TAB>text, or pass a list of references",
                )
            elif text.strip() not in ("", _RANGE):
                yield _Verse(concept, text.strip())
