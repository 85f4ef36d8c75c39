"""Verse files: translations of the Bible with one verse per line.

The verse of a line is given by a list of references that all files share (the eBible corpus and its vref.txt), or at
the start of the line itself, before a tab.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypeAlias

from cr5.corpus.documents import Document
from cr5.errors import CorpusError
from cr5.sources.files import ErrorHandler, lines, opened, raise_error
from cr5.sources.source import Parameter, Source

Unit: TypeAlias = Literal["verse", "chapter", "book"]

_RANGE = "<range>"  # the text of this verse is part of the verse before
_REFERENCE = re.compile(r"(?P<chapter>(?P<book>\S.*) \d+):\S+")
_FILE_NAME = re.compile(r".+\.(?:txt|tsv)(?:\.(?:gz|bz2|xz))?")
_LANG = re.compile(r"[A-Za-z]{2,3}(?=[-_.])")


class _Verse(NamedTuple):
    concept: str
    text: str


def read_bible(
    paths: Annotated[Sequence[Path], Parameter("Files or folders.", metavar="PATH")],
    *,
    references: Annotated[Path | None, Parameter("The verse of every line, e.g. vref.txt.", metavar="FILE")] = None,
    by: Annotated[Unit, Parameter("What a document is.")] = "chapter",
    handle_error: ErrorHandler = raise_error,
) -> Iterator[Document]:
    """Read the verses, chapters or books of every file; a folder stands for all its .txt and .tsv but the references.

    ``references`` has a line such as "GEN 1:1" for each line of every file; without it, lines are
    "GEN 1:1<TAB>text". The concept is "GEN 1:1", "GEN 1" or "GEN"; the language is the beginning of the file's name,
    as in eng-engBSB.txt. Where verses are merged, the first of them has the text of all.
    """
    if by not in ("verse", "chapter", "book"):
        raise CorpusError(f"`by={by!r}` is unknown; choose verse, chapter or book")
    concepts = None if references is None else _read_references(references, by)
    for path in _find_files(paths, references):
        try:
            verses = _numbered(path, by, handle_error) if concepts is None else _listed(path, concepts, handle_error)
            for concept, group in groupby(verses, key=lambda verse: verse.concept):
                yield Document(concept, _language(path), "\n".join(verse.text for verse in group))
        except CorpusError as error:
            handle_error("unreadable file", str(error))


def _find_files(paths: Sequence[Path], references: Path | None) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside = sorted(file for file in path.iterdir() if _FILE_NAME.fullmatch(file.name) and file.is_file())
        inside = [file for file in inside if references is None or not file.samefile(references)]
        if not inside:
            raise CorpusError(f"{path}: no verse file in this folder; their names end in .txt or .tsv")
        files += inside
    if not files:
        raise CorpusError("no verse file given; name files such as eng-engBSB.txt, or their folder")
    return files


def _language(path: Path) -> str:
    match = _LANG.match(path.name)
    return match[0] if match else ""


def _concept(reference: str, by: Unit) -> str | None:
    """The verse, chapter or book of a reference; None if it is not a reference."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        return None
    return reference if by == "verse" else match[by]


def _read_references(references: Path, by: Unit) -> list[str]:
    concepts = []
    with opened(references) as stream:
        for number, line in enumerate(lines(stream, str(references), raise_error), 1):
            concept = _concept((line or "").strip(), by)
            if concept is None:
                raise CorpusError(f"{references}:{number}: {line!r} is not a verse; write it as GEN 1:1")
            concepts.append(concept)
    return concepts


def _listed(path: Path, concepts: list[str], handle_error: ErrorHandler) -> Iterator[_Verse]:
    """The verses of a file that has a line for every reference."""
    with opened(path) as stream:  # counted first: a missing line would shift all lines after it
        count = sum(1 for _ in lines(stream, str(path), lambda reason, message: None))
    if count != len(concepts):
        handle_error(
            "wrong number of lines",
            f"{path}: {count} lines, but {len(concepts)} references; pass the list of references it was made with",
        )
        return
    with opened(path) as stream:
        for concept, line in zip(concepts, lines(stream, str(path), handle_error), strict=True):
            text = (line or "").strip()
            if text and text != _RANGE:
                yield _Verse(concept, text)


def _numbered(path: Path, by: Unit, handle_error: ErrorHandler) -> Iterator[_Verse]:
    """The verses of a file whose lines begin with their reference."""
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
                    "write GEN 1:1<TAB>text, or pass a list of `references`",
                )
            elif text.strip() not in ("", _RANGE):
                yield _Verse(concept, text.strip())


BIBLE = Source(
    "bible",
    read_bible,
    help="""Bibles with a verse per line, and a list that names the verses.

    A file's name begins with its language: eng-web.txt. Without a list every
    line begins with its reference and a tab. Examples:

        cr5 corpus bible verses/ --references vref.txt -o corpus.parquet

        cr5 corpus bible eng-web.tsv dan-1931.tsv --by book -o corpus.parquet
    """,
    longer_documents="join verses with `by=chapter` or `by=book`",
)
