"""Line-aligned files, as OPUS publishes them for Moses, as documents."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated

from cr5.corpus.documents import Document
from cr5.corpus.file_names import partner
from cr5.corpus.languages import canonical_code, is_same_language
from cr5.errors import CorpusError, Cr5Warning, warn, whole_number
from cr5.hashing import digest
from cr5.sources.accounting import NO_TEXT, Accounting, UnusableInputError
from cr5.sources.input_files import find_files, unique_names
from cr5.sources.language_names import LanguageNames, NamedLanguages
from cr5.sources.line_aligned import LineAlignedFiles, Row, group_files, read_aligned_lines
from cr5.sources.source import ParameterHelp, Source

JOINED_LINES = 20


def read_moses(
    paths: Annotated[Sequence[Path], ParameterHelp("Files or folders.", metavar="PATH")],
    *,
    join: Annotated[
        int | None,
        ParameterHelp("Lines that make one document.", metavar="N", minimum=1, show_default="20; 1 with --pivot"),
    ] = None,
    pivot: Annotated[
        str | None, ParameterHelp("Link several language pairs through equal lines in this language.", metavar="CODE")
    ] = None,
    lang: NamedLanguages = None,
    accounting: Accounting | None = None,
) -> Iterator[Document]:
    """Read documents from files, folders and zips; aligned files differ only in the language at the end of the name.

    ``join`` consecutive lines (20 by default) make one document in each language. The concept is the name of the files
    and the number of the first line, "Europarl.en-it:41". A line that is empty in one language is left out there; one
    that is empty in all ends the document. With ``pivot``, the concept of a line is the digest of its text in that
    language, so that the pairs en-it and dan-eng share their English lines. ``join`` is then 1, and a pivot text that
    several pairs or lines contain is yielded each time. ``lang`` has names of languages at the end of file names that
    are no codes. Memory holds ``join`` lines of each language.
    """
    if join is None:
        join = JOINED_LINES if pivot is None else 1
    whole_number("join", join, 1)
    if pivot is not None and join > 1:
        raise CorpusError(
            f"`join={join}` does not work with `pivot={pivot}`, because two language pairs hardly ever share "
            f"{join} consecutive lines; use `join=1`"
        )
    accounting = accounting or Accounting()
    names = LanguageNames(lang)
    groups = _named_groups(paths, names, accounting)
    names.warn_of_unused("no end of a file name")
    if not groups:
        raise CorpusError(
            f"no aligned files in {', '.join(map(str, paths)) or 'an empty list'}; "
            "their names must differ only in the language at the end, like train.en and train.fr, train.en.txt and "
            "train.fr.txt, or train_en.txt and train_fr.txt"
        )
    if pivot is None:
        _warn_of_unlinked_pairs(groups.values())
    return chain.from_iterable(
        _documents(name, group, join, pivot, accounting) for name, group in sorted(groups.items())
    )


def _warn_of_unlinked_pairs(groups: Iterable[LineAlignedFiles]) -> None:
    """Warn if files whose names say different pairs, such as a.da-en and a.en-it, have a language in common."""
    pairs = [group.files for group in groups if any(partner(group.stem, lang) for lang in group.files)]
    languages = sorted({tuple(sorted(map(canonical_code, pair))) for pair in pairs})
    if len(languages) > 1 and (shared := set.intersection(*map(set, languages))):
        listed = ", ".join("-".join(langs) for langs in languages[:5])
        listed += f" and {len(languages) - 5:,} more" if len(languages) > 5 else ""
        message = f"no concept links {listed}; pass `pivot={min(shared)}` to link them by equal lines in that language"
        warn(message, Cr5Warning)


def _named_groups(paths: Sequence[Path], names: LanguageNames, accounting: Accounting) -> dict[str, LineAlignedFiles]:
    """Aligned files by their shared name, preceded by folders where that is not unique."""
    groups = []
    for group in group_files(find_files(paths, accounting), accounting, names):
        if len(group.files) > 1:
            groups.append(LineAlignedFiles(group.stem, dict(sorted(group.files.items()))))
            continue
        (file,) = group.files.values()
        missing = group.missing_language
        problem = f"{group.stem}.{missing} is missing" if missing else "no file of this name in another language"
        message = f"{file}: {problem}; add it or leave this one out"
        accounting.unusable_file(file, "missing translation", message, langs=list(group.files))
    texts = unique_names([(group.folder, group.stem) for group in groups])
    return dict(zip(texts, groups, strict=True))


def _documents(
    name: str, group: LineAlignedFiles, join: int, pivot: str | None, accounting: Accounting
) -> Iterator[Document]:
    langs, names = list(group.files), [str(file) for file in group.files.values()]
    pivot_column = next((i for i, lang in enumerate(langs) if pivot and is_same_language(lang, pivot)), None)
    with accounting.reading(*group.files.values(), langs=langs):
        if pivot is not None and pivot_column is None:
            message = f"{name}: has {', '.join(langs)}, not `pivot={pivot}`; leave these files out"
            raise UnusableInputError("no pivot", message)
        rows = read_aligned_lines(group, accounting.unusable_part, accounting.guessed_encodings)
        for first, block in _blocks(rows, join):
            concept, why = f"{name}:{first}", NO_TEXT
            if pivot is not None and pivot_column is not None:
                concept, why = _pivot_concept(pivot, block[0][pivot_column]), "no text in the pivot"
            for lang, file, column in zip(langs, names, zip(*block, strict=True), strict=True):
                text = "\n".join(filter(None, column))
                yield from accounting.document(concept, lang, text if concept else "", place=f"{file}:{first}", why=why)


def _blocks(rows: Iterable[Row], join: int) -> Iterator[tuple[int, list[Row]]]:
    """Up to ``join`` consecutive rows with the number of the first; a row that is empty in all languages ends one."""
    first, block = 0, list[Row]()
    for number, row in enumerate(rows, 1):
        is_empty = all(line == "" for line in row)  # None, an unreadable line, may not have been empty
        if not is_empty:
            first = first if block else number
            block.append(row)
        if block and (is_empty or len(block) == join):
            yield first, block
            block = []
    if block:
        yield first, block


def _pivot_concept(pivot: str, line: str | None) -> str:
    """The concept of all lines with this text in the pivot, whatever their spacing; "" if there is no text."""
    words = (line or "").split()
    return f"{pivot}:{digest(' '.join(words), 12).hex()}" if words else ""


MOSES = Source(
    "moses",
    read_moses,
    help="""Line-aligned files as OPUS publishes them for Moses: plain, .gz, or in a .zip.

    Files are aligned if their names differ only in the language at the end.
    20 lines are joined into a document. Examples:

        cr5 corpus moses Europarl.en-it.en Europarl.en-it.it -o corpus.parquet

        cr5 corpus moses en-it.txt.zip --join 50 -o corpus.parquet

        cr5 corpus moses da-en.txt.zip en-it.txt.zip --pivot en -o corpus.parquet
    """,
    short_documents_advice="join more lines with `join`, without a pivot",
)
