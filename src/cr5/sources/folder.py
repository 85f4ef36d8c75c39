"""A folder tree of pages: every page once in each language, told apart by a part of its path."""

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from pathlib import Path

from cr5.corpus.documents import Document
from cr5.corpus.languages import is_registered, normalise
from cr5.errors import CorpusError
from cr5.sources.files import ErrorHandler, raise_error
from cr5.sources.markup import decode, html_text, markdown_text, rst_text

__all__ = ["read_folder"]

LARGEST = 64 << 20  # bytes of a page
SAMPLE = 400  # pages of a language that tell which lines every page repeats
FEWEST = 10  # pages below which a line that half of them share may be chance


def _plain_text(data: str) -> tuple[str, str]:
    lines = (" ".join(line.split()) for line in data.splitlines())
    return "", "\n".join(line for line in lines if line)


_FORMS: dict[str, Callable[[str], tuple[str, str]]] = {
    ".html": html_text,
    ".htm": html_text,
    ".xhtml": html_text,
    ".md": markdown_text,
    ".markdown": markdown_text,
    ".mdx": markdown_text,
    ".rst": rst_text,
    ".txt": _plain_text,
}
_HOLES = re.compile(r"(\{[^{}]*\}|\*\*/|\*\*|\*)")
_MEANINGS = {"{concept}": "(?P<concept>.+)", "**/": "(?:[^/]+/)*?", "**": ".*", "*": "[^/]*"}
_CODE = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z0-9]+)*(?:@[a-z]+)?(?:\.[A-Za-z0-9-]+)?")
_EDGE = re.compile(r"(?<![A-Za-z0-9])(?=[A-Za-z0-9])")
# Names of three letters that are codes of languages, and of folders much more often.
_FOLDERS = """
    all api app bak bin box bug cfg cli com con cpp css csv def dev dic dir doc dos env etc ext fun gem git gnu gui inc
    iso jar job key lab lib lng loc log man map mod msg mul new nix old opt org pkg png pot ppt pre pub raw rel res run
    sdk set src ssl std sub sys tab tar tex tip tmp top two txt und url var wav www xls xml xsd xsl yml zxx
"""


def read_folder(
    root: Path,
    *,
    pattern: str = "{lang}/{concept}",
    keep_repeated: bool = False,
    langs: Collection[str] | None = None,
    handle_error: ErrorHandler = raise_error,
) -> Iterator[Document]:
    """The pages of a folder tree, language by language, each in the order of their paths.

    The pattern says how a path below ``root`` tells language and concept: {lang} is a code, as a folder's name or a
    piece of a name, {concept} the rest and may span folders, * any name or piece, ** any folders. A path that does
    not fit is passed over, as are other suffixes than those of HTML, Markdown, reStructuredText and text. The suffix
    is no part of the concept, so a page may be HTML in one language and Markdown in another. Lines that more than
    half of a language's pages repeat, such as menus, are dropped unless ``keep_repeated``; a sample of 400 pages tells.
    ``langs``, by BCP 47, keeps these languages only. Memory holds the paths and one page.
    """
    left, right = _compile(pattern)
    if not root.is_dir():
        raise CorpusError(f"{root}: no such folder; check the spelling")
    found: dict[str, list[tuple[str, str]]] = {}
    others: list[str] = []
    for path in _pages(root, handle_error):
        if place := _place(path, left, right):
            lang, concept = place
            found.setdefault(lang, []).append((concept, path))
        elif len(others) < 3:
            others.append(path)
    if not found:
        seen = f"there are {', '.join(others)}" if others else f"and no file ends in {', '.join(_FORMS)}"
        raise CorpusError(
            f"{root}: no page fits the pattern {pattern}, {seen}; say with --pattern where a path has the code of "
            "the language and the name of the page, as in docs/{lang}/{concept} or {concept}.{lang}.md"
        )
    wanted = sorted(found)
    if langs is not None:
        asked = {normalise(lang) for lang in langs}
        wanted = [lang for lang in wanted if normalise(lang) in asked]
        if not wanted:
            there = ", ".join(sorted(found))
            raise CorpusError(f"{root}: no page in {', '.join(langs)}, only in {there}; name one of these")
    for lang in wanted:
        pages = sorted(found.pop(lang))
        repeated: frozenset[int] = frozenset() if keep_repeated else _repeated([root / path for _, path in pages])
        for concept, path in pages:
            title, lines = _read(root / path, handle_error)
            if text := "\n".join(line for line in lines if hash(line) not in repeated):
                yield Document(concept, lang, text, title)


def _compile(pattern: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What has to stand left and right of the language."""
    pieces = [piece for piece in _HOLES.split(pattern.strip("/")) if piece]
    for hole in ("{lang}", "{concept}"):
        if pieces.count(hole) != 1:
            count = pieces.count(hole) or "no"
            raise CorpusError(f"the pattern {pattern} has {count} {hole}; it needs one, as in {{lang}}/{{concept}}")
    for piece in pieces:
        if piece[0] == "{" and piece not in ("{lang}", "{concept}"):
            raise CorpusError(f"the pattern {pattern} has {piece}; only {{lang}}, {{concept}}, * and ** have a meaning")
    meanings = [_MEANINGS.get(piece) or re.escape(piece) for piece in pieces]
    here = pieces.index("{lang}")
    return re.compile("".join(meanings[:here])), re.compile("".join(meanings[here + 1 :]))


def _place(path: str, left: re.Pattern[str], right: re.Pattern[str]) -> tuple[str, str] | None:
    """The language and concept of a page, where its path fits: the first code in it that does, and the longest."""
    for edge in _EDGE.finditer(path):
        code = _CODE.match(path, edge.start())
        before = code and left.fullmatch(path, 0, edge.start())
        if not code or not before:
            continue
        lang = code[0]
        while lang:
            behind = right.fullmatch(path, edge.start() + len(lang))
            if behind and _is_language(lang):
                concept = {**before.groupdict(), **behind.groupdict()}["concept"]
                stem, suffix = os.path.splitext(concept)  # noqa: PTH122 - a concept is no path
                return lang, stem if suffix.lower() in _FORMS else concept
            lang = lang[: max(map(lang.rfind, "-_@."))] if re.search(r"[-_@.]", lang) else ""
    return None


@lru_cache(10_000)
def _is_language(code: str) -> bool:
    """Whether a name is a code that some language has: "pt_BR" and "sr@latin" are, "css" is but must not be."""
    plain = re.split(r"[@.]", code)[0].replace("_", "-")
    return plain not in _FOLDERS.split() and is_registered(plain)


def _pages(root: Path, handle_error: ErrorHandler) -> Iterator[str]:
    """Paths of pages below the root, relative to it and sorted by folder; what links lead to comes last, and once."""

    def fail(error: OSError) -> None:
        handle_error("unreadable folder", f"{error.filename}: cannot be read, {_why(error)}; check its permissions")

    entered: set[str] = set()
    for folder, below, names in os.walk(root, onerror=fail, followlinks=True):
        here = Path(folder)
        if (real := str(here.resolve())) in entered:
            below.clear()
            continue
        entered.add(real)
        below.sort(key=lambda name: ((here / name).is_symlink(), name))
        for name in sorted(names):
            if Path(name).suffix.lower() in _FORMS:
                yield (here / name).relative_to(root).as_posix()


def _repeated(paths: list[Path]) -> frozenset[int]:
    """The hashes of lines that more than half of the pages have, by a sample spread over all of them."""
    sample = [paths[i * len(paths) // SAMPLE] for i in range(SAMPLE)] if len(paths) > SAMPLE else paths
    seen: Counter[int] = Counter()
    pages = 0
    for path in sample:
        _, lines = _read(path, lambda reason, message: None)
        seen.update({hash(line) for line in lines})
        pages += bool(lines)
    return frozenset(line for line, times in seen.items() if 2 * times > pages >= FEWEST)


def _read(path: Path, handle_error: ErrorHandler) -> tuple[str, list[str]]:
    """A page's title and lines, none of them where it cannot be read."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):  # a pipe would wait for ever
            return "", []
        if about.st_size > LARGEST:
            handle_error("page too large", f"{path}: a page of more than {LARGEST >> 20} MB; break it up or remove it")
            return "", []
        title, text = _FORMS[path.suffix.lower()](decode(path.read_bytes()))
    except UnicodeDecodeError as error:
        handle_error(
            "invalid UTF-8", f"{path}: byte {error.start + 1} is no {error.encoding.upper()}; convert it with iconv"
        )
    except OSError as error:
        handle_error("unreadable file", f"{path}: cannot be read, {_why(error)}; check its permissions")
    else:
        return title, text.splitlines()
    return "", []


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
