"""Verse files: translations of the Bible with one verse per line.

The verse of a line is given by a list of references that all files share (the eBible corpus and its vref.txt), or at
the start of the line itself, before a tab.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, Annotated, Literal, TypeAlias, get_args

from cr5.corpus.documents import Document
from cr5.corpus.file_names import leading_language
from cr5.errors import CorpusError, one_of
from cr5.message_parts import quoted
from cr5.sources.accounting import NO_TEXT, Accounting, UnusableInputError
from cr5.sources.files import count_lines, lines, open_source, raise_error
from cr5.sources.input_files import matching_files
from cr5.sources.language_names import LanguageNames, NamedLanguages
from cr5.sources.source import ParameterHelp, Source

BibleUnit: TypeAlias = Literal["verse", "chapter", "book"]

_RANGE = "<range>"  # the text of this verse is part of the verse before
_REFERENCE = re.compile(r"(?P<chapter>(?P<book>\S.*) \d+):\S+")
_FILE_NAME = re.compile(r".+\.(?:txt|tsv)(?:\.(?:gz|bz2|xz))?")


def read_bible(
    paths: Annotated[Sequence[Path], ParameterHelp("Files or folders.", metavar="PATH")],
    *,
    references: Annotated[
        Path | None, ParameterHelp("File that names the verse of each line, e.g. vref.txt.", metavar="FILE")
    ] = None,
    by: Annotated[BibleUnit, ParameterHelp("Unit that becomes one document.")] = "chapter",
    lang: NamedLanguages = None,
    accounting: Accounting | None = None,
) -> Iterator[Document]:
    """Read the verses, chapters or books of every file; a folder stands for all its .txt and .tsv but the references.

    ``references`` has a line such as "GEN 1:1" for each line of every file; without it, lines are "GEN 1:1<TAB>text".
    The concept is "GEN 1:1", "GEN 1" or "GEN"; the language is the beginning of the file's name, as in eng-engBSB.txt,
    or what ``lang`` says that this means.
    Where verses are merged, the first of them has the text of all.
    """
    one_of("by", by, get_args(BibleUnit))
    accounting, names = accounting or Accounting(), LanguageNames(lang)
    concepts = None if references is None else _read_references(references, by)
    for path in _find_files(paths, references, accounting):
        code = names.start_of(path.name) or leading_language(path.name)
        with accounting.reading(path, langs=[code]):
            if concepts is None:
                verses = _verses_with_references(path, by, code, accounting)
            else:
                verses = _verses_by_reference_list(path, concepts, code, accounting)
            yield from _documents(path, verses, code, accounting)
    names.warn_of_unused("no file name")


def _documents(path: Path, verses: Iterable[tuple[str, str]], lang: str, accounting: Accounting) -> Iterator[Document]:
    """Join consecutive verses of a concept into a document.

    A concept without any text is counted, with the reason.
    """
    why: dict[str, str] = {}  # concept -> why it has no text

    def with_text() -> Iterator[tuple[str, str]]:
        for concept, text in verses:
            if text in ("", _RANGE):
                why.setdefault(concept, "part of the verse before" if text else NO_TEXT)
            else:
                yield concept, text

    found = set()
    for concept, group in groupby(with_text(), key=itemgetter(0)):
        found.add(concept)
        yield from accounting.document(concept, lang, "\n".join(text for _, text in group))
    for concept in [concept for concept in why if concept not in found]:
        yield from accounting.document(concept, lang, "", place=f"{path}: {concept}", why=why[concept])


def _find_files(paths: Sequence[Path], references: Path | None, accounting: Accounting) -> list[Path]:
    expected = "verse file in this folder; their names end in .txt or .tsv"
    files = [file for path in paths for file in matching_files(path, _FILE_NAME, expected, accounting)]
    for file in files.copy():
        if references is not None and file not in paths and file.samefile(references):
            files.remove(file)
            accounting.skip_file(file, "list of references")
    if not files:
        raise CorpusError(
            f"no verse file in {', '.join(map(str, paths)) or 'an empty list'}; name files such as eng-engBSB.txt, or "
            "their folder"
        )
    return files


def _concept(reference: str, by: BibleUnit) -> str | None:
    """The verse, chapter or book of a reference; None if it is not a reference."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        return None
    return reference if by == "verse" else match[by]


def _read_references(references: Path, by: BibleUnit) -> list[str]:
    concepts = []
    with open_source(references) as stream:
        for number, line in enumerate(lines(stream, str(references), raise_error), 1):
            concept = _concept((line or "").strip(), by)
            if concept is None:
                raise CorpusError(f"{references}:{number}: {quoted(line or '')} is not a verse; write it as GEN 1:1")
            concepts.append(concept)
    return concepts


def _lines(stream: IO[bytes], path: Path, lang: str, accounting: Accounting) -> Iterator[str | None]:
    return lines(stream, str(path), accounting.unusable_part, lang, accounting.guessed_encodings)


def _verses_by_reference_list(
    path: Path, concepts: list[str], lang: str, accounting: Accounting
) -> Iterator[tuple[str, str]]:
    """The concepts and texts of a file that has a line for every reference."""
    with open_source(path) as stream:  # counted first: a missing line would shift all lines after it
        count = count_lines(stream)
    if count != len(concepts):
        raise UnusableInputError(
            "wrong number of lines",
            f"{path}: {count} lines, but {len(concepts)} references; pass the list of references it was made with",
        )
    with open_source(path) as stream:
        for concept, line in zip(concepts, _lines(stream, path, lang, accounting), strict=True):
            yield concept, (line or "").strip()


def _verses_with_references(path: Path, by: BibleUnit, lang: str, accounting: Accounting) -> Iterator[tuple[str, str]]:
    """The concepts and texts of a file whose lines begin with their reference."""
    with open_source(path) as stream:
        for number, line in enumerate(_lines(stream, path, lang, accounting), 1):
            if not line or not line.strip():
                continue
            reference, tab, text = line.partition("\t")
            concept = _concept(reference.strip(), by)
            if concept is None or not tab:
                accounting.unusable_part(
                    "no reference",
                    f"{path}:{number}: {quoted(line)} does not start with a verse and a tab; "
                    "write GEN 1:1<TAB>text, or pass a list of `references`",
                )
            else:
                yield concept, text.strip()


BIBLE = Source(
    "bible",
    read_bible,
    help="""Bibles with a verse per line, and a list that names the verses.

    A file's name begins with its language: eng-web.txt. Without a list, every
    line must begin with its reference and a tab. Examples:

        cr5 corpus bible verses/ --references vref.txt -o corpus.parquet

        cr5 corpus bible eng-web.tsv dan-1931.tsv --by book -o corpus.parquet
    """,
    short_documents_advice="join verses with `by=chapter` or `by=book`",
)
