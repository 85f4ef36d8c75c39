"""A folder tree of pages: every page once per language, with the language code in its path."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from cr5.corpus.documents import Document
from cr5.corpus.file_names import is_language_name
from cr5.corpus.languages import canonical_code
from cr5.errors import CorpusError
from cr5.sources.accounting import EXTENSION, NO_TEXT, UNWANTED_LANGUAGE, Accounting, UnusableInputError
from cr5.sources.files import open_source
from cr5.sources.input_files import files_below
from cr5.sources.language_names import LanguageNames, NamedLanguages
from cr5.sources.markup import CONVERTERS, FORMATS, decode_page, extension
from cr5.sources.source import ParameterHelp, Source
from cr5.storage.compressed import split_suffix

MAX_PAGE_BYTES = 64 << 20
SAMPLE_PAGES = 400  # pages of a language that are read to find the lines that most pages repeat
MAX_FOLDERS = 8  # folders without a language that a message names
MIN_PAGES = 10  # with fewer pages, a line that half of them share may be a coincidence
NOT_IN_PATTERN = "path does not match the pattern"

_PLACEHOLDERS = re.compile(r"(\{[^{}]*\}|\*\*/|\*\*|\*)")
_PATTERN_OF = {"{concept}": "(?P<concept>.+)", "**/": "(?:[^/]+/)*?", "**": ".*", "*": "[^/]*"}
_CODE = re.compile(r"(?:[a-z]{2,3}|[A-Z]{2,3})(?:[-_][A-Za-z0-9]+)*(?:@[a-z]+)?(?:\.[A-Za-z0-9-]+)?")
_WORD_START = re.compile(r"(?<![A-Za-z0-9])(?=[A-Za-z0-9])")


def read_folder(
    root: Annotated[Path, ParameterHelp("The folder that contains the pages.", metavar="FOLDER")],
    *,
    pattern: Annotated[
        str, ParameterHelp("Pattern of a page's path; * matches within a name, ** any number of folders.")
    ] = "{lang}/{concept}",
    lang: NamedLanguages = None,
    read_as: Annotated[
        Sequence[str],
        ParameterHelp(
            "How to read files with one extension, e.g. --as adoc=text, or with any unknown extension, e.g. --as text: "
            "as html, markdown, rst or text; may be repeated.",
            metavar="[EXTENSION=]FORMAT",
            option="--as",
        ),
    ] = (),
    keep_repeated: Annotated[
        bool, ParameterHelp("Keep lines that most pages of a language have, such as menus.")
    ] = False,
    langs: Collection[str] | None = None,
    accounting: Accounting | None = None,
) -> Iterator[Document]:
    """Read the pages of a folder tree, language by language, sorted by path.

    The pattern describes paths below ``root``: {lang} matches a language code, which is a folder or a part of a name,
    {concept} anything, also over several folders, * a name or a part of one, ** any folders. {lang} also matches the
    names in ``lang``, {"english": "en"}. Paths that do not match are skipped, as are all extensions but those of HTML,
    Markdown, reStructuredText and text; ``read_as`` names the format of others, as ["adoc=text"] or for all of them
    as ["html"]. Pages may be compressed. The extension does not belong to the concept, so that a page may be HTML in
    one language and Markdown in another. Lines that more than half of a language's pages repeat (in a sample of
    ``SAMPLE_PAGES``), such as menus, are dropped unless ``keep_repeated``. ``langs`` keeps only these languages, in any
    spelling. Memory holds the paths and one page.
    """
    accounting = accounting or Accounting()
    layout = _Layout(pattern, LanguageNames(lang), _formats([read_as] if isinstance(read_as, str) else read_as))
    if not root.is_dir():
        problem = (
            "a file, not a folder; name the folder above it" if root.exists() else "no such folder; check the spelling"
        )
        raise CorpusError(f"{root}: {problem}")
    pages_of = _find_pages(root, layout, accounting)
    selected = sorted(pages_of)
    if langs is not None:
        wanted = {canonical_code(code) for code in langs}
        selected = [code for code in selected if canonical_code(code) in wanted]
        if not selected:
            available = ", ".join(sorted(pages_of))
            raise CorpusError(f"{root}: no page in {', '.join(langs)}, only in {available}; change `langs`")
        for code in pages_of.keys() - set(selected):
            for _, path in pages_of[code]:
                accounting.skip_file(root / path, UNWANTED_LANGUAGE)
    for code in selected:
        pages = sorted(pages_of.pop(code))
        repeated: frozenset[int] = frozenset()
        if not keep_repeated:
            repeated = _repeated_lines([root / path for _, path in pages], code, layout)
        for concept, path in pages:
            file = root / path
            with accounting.reading(file, langs=[code]):
                title, lines = _read(file, code, layout, accounting)
                text = "\n".join(line for line in lines if hash(line) not in repeated)
                why = "only lines that most pages repeat" if any(lines) else NO_TEXT
                yield from accounting.document(concept, code, text, title, place=str(file), why=why)


# Paths


class _Layout:
    """Where a path has the language and the concept, and the formats of extensions, "" for all others."""

    def __init__(self, pattern: str, names: LanguageNames, formats: Mapping[str, str]) -> None:
        self.pattern, self.names, self.formats = pattern, names, formats
        self.before, self.after = _compile(pattern)

    def format_of(self, path: Path) -> str:
        """The format of a file, "" for an extension that is not read."""
        return self.formats.get(extension(path.name)) or self.formats.get("", "")

    def convert(self, path: Path, page: str) -> tuple[str, str]:
        """The title and text of a page."""
        return CONVERTERS[self.format_of(path)](page)

    def match(self, path: str) -> tuple[str, str] | None:
        """The language and concept of a path, by the first language code for which it matches, the longest there."""
        for start in _WORD_START.finditer(path):
            names = list(self._languages_at(path, start.start()))
            left = self.before.fullmatch(path, 0, start.start()) if names else None
            if left is None:
                continue
            for name, lang in names:
                if right := self.after.fullmatch(path, start.start() + len(name)):
                    self.names.code(name)
                    concept = {**left.groupdict(), **right.groupdict()}["concept"]
                    return lang, self._without_extension(concept)
        return None

    def _languages_at(self, path: str, start: int) -> Iterator[tuple[str, str]]:
        """The names of languages that may begin at a place, with their codes, the longest first."""
        for name in sorted(self.names.codes, key=len, reverse=True):
            if path.startswith(name, start):
                yield name, self.names.codes[name]
        code = _CODE.match(path, start)
        name = code[0] if code else ""
        while name:
            if _is_language(name):
                yield name, name
            name = name[: max(map(name.rfind, "-_@."))] if re.search(r"[-_@.]", name) else ""

    def _without_extension(self, concept: str) -> str:
        suffix = extension(concept)
        is_page = suffix in self.formats or "" in self.formats
        return split_suffix(concept)[0][: -len(suffix)] if suffix and is_page else concept


_is_language = lru_cache(10_000)(is_language_name)


def _formats(read_as: Sequence[str]) -> dict[str, str]:
    formats: dict[str, str] = dict(FORMATS)
    for item in read_as:
        suffix, _, name = item.rpartition("=")
        if name not in CONVERTERS:
            raise CorpusError(f"`read_as={item}` names no format; choose {', '.join(CONVERTERS)}")
        formats[f".{suffix.lower().lstrip('.')}" if suffix else ""] = name
    return formats


def _compile(pattern: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What has to come before and after the language code."""
    pieces = [piece for piece in _PLACEHOLDERS.split(pattern.strip("/")) if piece]
    for placeholder in ("{lang}", "{concept}"):
        if pieces.count(placeholder) != 1:
            count = pieces.count(placeholder) or "no"
            raise CorpusError(
                f"`pattern={pattern}` has {count} {placeholder}; it needs one, as in {{lang}}/{{concept}}"
            )
    for piece in pieces:
        if piece[0] == "{" and piece not in ("{lang}", "{concept}"):
            raise CorpusError(f"`pattern={pattern}` has {piece}; only {{lang}}, {{concept}}, * and ** are placeholders")
    patterns = [_PATTERN_OF.get(piece) or re.escape(piece) for piece in pieces]
    index = pieces.index("{lang}")
    before, after = patterns[:index], patterns[index + 1 :]
    return re.compile("".join(before), re.DOTALL), re.compile("".join(after), re.DOTALL)


def _find_pages(root: Path, layout: _Layout, accounting: Accounting) -> dict[str, list[tuple[str, str]]]:
    """The concepts and paths of all pages by language; other files are skipped."""
    pages_of: dict[str, list[tuple[str, str]]] = {}
    unmatched: list[str] = []
    for file in files_below(root, accounting):
        path = file.relative_to(root).as_posix()
        if not layout.format_of(file):
            accounting.skip_extension(file, split_suffix(file.name)[0])
        elif match := layout.match(path):
            lang, concept = match
            pages_of.setdefault(lang, []).append((concept, path))
        else:
            unmatched.append(path)
    folders = Counter(path.split("/")[0] for path in unmatched if "/" in path)
    listed = ", ".join(f"{name} {count:,}" for name, count in folders.most_common(MAX_FOLDERS))
    for number, path in enumerate(unmatched):
        is_first = number == 0 and folders
        accounting.skip_file(root / path, NOT_IN_PATTERN, f"{root / path}; folders: {listed}" if is_first else "")
    if not pages_of:
        raise CorpusError(_why_no_page(root, layout, unmatched, accounting))
    layout.names.warn_of_unused(f"{root}: no path of a page")
    return pages_of


def _why_no_page(root: Path, layout: _Layout, unmatched: list[str], accounting: Accounting) -> str:
    if not unmatched:
        counts = accounting.extensions()
        first = next(iter(counts), ".adoc").removeprefix(".")
        return (
            f"{root}: no file ends in {', '.join(filter(None, layout.formats))}; there are "
            f"{', '.join(f'{name} ({count:,})' for name, count in counts.items()) or 'no files at all'}; "
            f"name the format of others, as in `read_as={'text' if first == 'none' else f'{first}=text'}`"
        )
    return (
        f"{root}: no page matches `pattern={layout.pattern}`, there are {', '.join(unmatched[:3])}; show in `pattern` "
        "where a path has the language code and the name of the page, as in docs/{lang}/{concept} or "
        "{concept}.{lang}.md, and give names that are not codes in `lang`, as in `lang=english=en`"
    )


# Pages


def _repeated_lines(paths: list[Path], lang: str, layout: _Layout) -> frozenset[int]:
    """The hashes of lines that more than half of the pages have, in an evenly spread sample."""
    sample = paths
    if len(paths) > SAMPLE_PAGES:
        sample = [paths[i * len(paths) // SAMPLE_PAGES] for i in range(SAMPLE_PAGES)]
    seen: Counter[int] = Counter()
    pages = 0
    for path in sample:
        try:
            _, lines = _read(path, lang, layout, Accounting())
        except CorpusError:  # reported when all pages are read
            continue
        seen.update({hash(line) for line in lines})
        pages += bool(lines)
    return frozenset(line for line, times in seen.items() if 2 * times > pages >= MIN_PAGES)


def _read(path: Path, lang: str, layout: _Layout, accounting: Accounting) -> tuple[str, list[str]]:
    """A page's title and lines."""
    data = b""
    with open_source(path) as stream:
        while chunk := stream.read(1 << 18):
            data += chunk
            if len(data) > MAX_PAGE_BYTES:
                message = f"{path}: a page of more than {MAX_PAGE_BYTES >> 20} MB; split it or remove it"
                raise UnusableInputError("page too large", message)
    try:
        page, guessed = decode_page(data, lang)
    except UnicodeDecodeError as error:
        raise UnusableInputError(
            "unknown encoding",
            f"{path}: byte {error.start + 1} (0x{data[error.start]:02x}) is not valid {error.encoding.upper()}, "
            "and no other encoding is evident; convert it with iconv",
        ) from None
    if guessed:
        accounting.guessed_encodings.add(guessed, str(path))
    title, text = layout.convert(path, page)
    return title, text.splitlines()


FOLDER = Source(
    "folder",
    read_folder,
    help="""A folder tree with one subfolder per language: HTML, Markdown or text.

    Pages with the same path have the same concept: docs/en/install.html and
    docs/it/install.html. For other layouts, give a pattern. Examples:

        cr5 corpus folder docs/ -o corpus.parquet

        cr5 corpus folder pages/ --pattern "{concept}.{lang}.md" -o corpus.jsonl

        cr5 corpus folder docs/ --lang english=en --as adoc=text -o corpus.csv
    """,
    skipped_advice={
        EXTENSION: "name the format of those that are pages with `read_as`, as in `read_as=adoc=text`",
        NOT_IN_PATTERN: "say with `pattern` where paths have their language, or with `lang=english=en` which "
        "language a folder such as english is in",
    },
)
