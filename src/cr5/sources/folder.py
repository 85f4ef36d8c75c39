"""A folder tree of pages: every page once per language, with the language code in its path."""

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from cr5.corpus.documents import Document
from cr5.corpus.languages import is_registered, normalise
from cr5.errors import CorpusError, reason
from cr5.sources.files import ErrorHandler, raise_error
from cr5.sources.markup import decode, html_text, markdown_text, rst_text
from cr5.sources.source import ParameterHelp, Source

MAX_PAGE_BYTES = 64 << 20
SAMPLE_PAGES = 400  # pages of a language that are read to find the lines that most pages repeat
MIN_PAGES = 10  # with fewer pages, a line that half of them share may be a coincidence


def _plain_text(data: str) -> tuple[str, str]:
    lines = (" ".join(line.split()) for line in data.splitlines())
    return "", "\n".join(line for line in lines if line)


_FORMATS: dict[str, Callable[[str], tuple[str, str]]] = {
    ".html": html_text,
    ".htm": html_text,
    ".xhtml": html_text,
    ".md": markdown_text,
    ".markdown": markdown_text,
    ".mdx": markdown_text,
    ".rst": rst_text,
    ".txt": _plain_text,
}
_PLACEHOLDERS = re.compile(r"(\{[^{}]*\}|\*\*/|\*\*|\*)")
_PATTERN_OF = {"{concept}": "(?P<concept>.+)", "**/": "(?:[^/]+/)*?", "**": ".*", "*": "[^/]*"}
_CODE = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z0-9]+)*(?:@[a-z]+)?(?:\.[A-Za-z0-9-]+)?")
_WORD_START = re.compile(r"(?<![A-Za-z0-9])(?=[A-Za-z0-9])")
# Three-letter names that are valid language codes but are much more often names of folders or suffixes.
_NOT_LANGUAGES = """
    all api app bak bin box bug cfg cli com con cpp css csv def dev dic dir doc dos env etc ext fun gem git gnu gui inc
    iso jar job key lab lib lng loc log man map mod msg mul new nix old opt org pkg png pot ppt pre pub raw rel res run
    sdk set src ssl std sub sys tab tar tex tip tmp top two txt und url var wav www xls xml xsd xsl yml zxx
"""


def read_folder(
    root: Annotated[Path, ParameterHelp("The folder.", metavar="FOLDER")],
    *,
    pattern: Annotated[
        str, ParameterHelp("The path of a page; * matches within a folder name, ** any folders.")
    ] = "{lang}/{concept}",
    keep_repeated: Annotated[
        bool, ParameterHelp("Keep lines that most pages of a language have, such as menus.")
    ] = False,
    langs: Collection[str] | None = None,
    handle_error: ErrorHandler = raise_error,
) -> Iterator[Document]:
    """Read the pages of a folder tree, language by language, sorted by path.

    The pattern describes paths below ``root``: {lang} matches a language code, which is a folder or a part of a name,
    {concept} anything, also over several folders, * a name or a part of one, ** any folders. Paths that do not match
    are ignored, as are all suffixes but those of HTML, Markdown, reStructuredText and text. The suffix does not belong
    to the concept, so that a page may be HTML in one language and Markdown in another. Lines that more than half of a
    language's pages repeat (in a sample of ``SAMPLE_PAGES``), such as menus, are dropped unless ``keep_repeated``.
    ``langs`` keeps only these languages, in any spelling. Memory holds the paths and one page.
    """
    before, after = _compile(pattern)
    if not root.is_dir():
        raise CorpusError(f"{root}: no such folder; check the spelling")
    pages_of: dict[str, list[tuple[str, str]]] = {}
    unmatched: list[str] = []
    for path in _find_pages(root, handle_error):
        if match := _match(path, before, after):
            lang, concept = match
            pages_of.setdefault(lang, []).append((concept, path))
        elif len(unmatched) < 3:
            unmatched.append(path)
    if not pages_of:
        seen = f"there are {', '.join(unmatched)}" if unmatched else f"and no file ends in {', '.join(_FORMATS)}"
        raise CorpusError(
            f"{root}: no page matches `pattern={pattern}`, {seen}; show in `pattern` where a path has the language "
            "code and the name of the page, as in docs/{lang}/{concept} or {concept}.{lang}.md"
        )
    selected = sorted(pages_of)
    if langs is not None:
        wanted = {normalise(lang) for lang in langs}
        selected = [lang for lang in selected if normalise(lang) in wanted]
        if not selected:
            available = ", ".join(sorted(pages_of))
            raise CorpusError(f"{root}: no page in {', '.join(langs)}, only in {available}; change `langs`")
    for lang in selected:
        pages = sorted(pages_of.pop(lang))
        repeated: frozenset[int] = frozenset() if keep_repeated else _repeated_lines([root / path for _, path in pages])
        for concept, path in pages:
            title, lines = _read(root / path, handle_error)
            if text := "\n".join(line for line in lines if hash(line) not in repeated):
                yield Document(concept, lang, text, title)


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
    return re.compile("".join(patterns[:index])), re.compile("".join(patterns[index + 1 :]))


def _match(path: str, before: re.Pattern[str], after: re.Pattern[str]) -> tuple[str, str] | None:
    """The language and concept of a path that matches: the first language code that does, as long as possible."""
    for start in _WORD_START.finditer(path):
        code = _CODE.match(path, start.start())
        left = code and before.fullmatch(path, 0, start.start())
        if not code or not left:
            continue
        lang = code[0]
        while lang:
            right = after.fullmatch(path, start.start() + len(lang))
            if right and _is_language(lang):
                concept = {**left.groupdict(), **right.groupdict()}["concept"]
                stem, suffix = os.path.splitext(concept)  # noqa: PTH122 - a concept is not a path
                return lang, stem if suffix.lower() in _FORMATS else concept
            lang = lang[: max(map(lang.rfind, "-_@."))] if re.search(r"[-_@.]", lang) else ""
    return None


@lru_cache(10_000)
def _is_language(code: str) -> bool:
    """Whether a name is a language code: "pt_BR" and "sr@latin" are; "css" is one too, but excluded."""
    plain = re.split(r"[@.]", code)[0].replace("_", "-")
    return plain not in _NOT_LANGUAGES.split() and is_registered(plain)


def _find_pages(root: Path, handle_error: ErrorHandler) -> Iterator[str]:
    """Paths of pages relative to ``root``, sorted by folder; linked folders come last, and only once."""

    def fail(error: OSError) -> None:
        handle_error("unreadable folder", f"{error.filename}: cannot be read, {reason(error)}; check its permissions")

    entered: set[str] = set()
    for folder, subfolders, names in os.walk(root, onerror=fail, followlinks=True):
        current = Path(folder)
        if (real := str(current.resolve())) in entered:
            subfolders.clear()
            continue
        entered.add(real)
        subfolders.sort(key=lambda name: ((current / name).is_symlink(), name))
        for name in sorted(names):
            if Path(name).suffix.lower() in _FORMATS:
                yield (current / name).relative_to(root).as_posix()


def _repeated_lines(paths: list[Path]) -> frozenset[int]:
    """The hashes of lines that more than half of the pages have, in an evenly spread sample."""
    sample = paths
    if len(paths) > SAMPLE_PAGES:
        sample = [paths[i * len(paths) // SAMPLE_PAGES] for i in range(SAMPLE_PAGES)]
    seen: Counter[int] = Counter()
    pages = 0
    for path in sample:
        _, lines = _read(path, lambda reason, message: None)
        seen.update({hash(line) for line in lines})
        pages += bool(lines)
    return frozenset(line for line, times in seen.items() if 2 * times > pages >= MIN_PAGES)


def _read(path: Path, handle_error: ErrorHandler) -> tuple[str, list[str]]:
    """A page's title and lines; empty if it cannot be read."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):  # a pipe would block
            return "", []
        if about.st_size > MAX_PAGE_BYTES:
            handle_error(
                "page too large", f"{path}: a page of more than {MAX_PAGE_BYTES >> 20} MB; split it or remove it"
            )
            return "", []
        title, text = _FORMATS[path.suffix.lower()](decode(path.read_bytes()))
    except UnicodeDecodeError as error:
        handle_error(
            "invalid UTF-8",
            f"{path}: byte {error.start + 1} is not valid {error.encoding.upper()}; convert it with iconv",
        )
    except OSError as error:
        handle_error("unreadable file", f"{path}: cannot be read, {reason(error)}; check its permissions")
    else:
        return title, text.splitlines()
    return "", []


FOLDER = Source(
    "folder",
    read_folder,
    help="""A folder tree with one subfolder per language: HTML, Markdown or text.

    Pages of the same path are about the same: docs/en/install.html and
    docs/it/install.html. For other layouts, give a pattern. Examples:

        cr5 corpus folder docs/ -o corpus.parquet

        cr5 corpus folder pages/ --pattern "{concept}.{lang}.md" -o corpus.jsonl
    """,
)
