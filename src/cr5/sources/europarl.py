"""Sessions of the European Parliament: Europarl's files, one a session in a folder per language.

They are published as text, whose lines are either markup or a paragraph, and as XML (OPUS), whose
sentences may be cut into words. Neither is as clean as its name says, so both are read leniently:
what tells chapters, speakers and paragraphs apart is used, all other markup is passed over.
"""

import html
import re
import zipfile
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple, TypeAlias

from cr5.corpus.documents import Document
from cr5.corpus.languages import normalise
from cr5.errors import CorpusError
from cr5.sources.files import ErrorHandler, lines, opened, raise_error, reading

LONGEST_SPEECH = 1 << 22  # characters; the longest real ones have some 100,000
_LONGEST_TAG = 2000  # characters

_FILE = re.compile(r"ep-[^/.]+\.(?:xml|txt)(?:\.(?:gz|bz2|xz))?")
_LINE_TAG = re.compile(r"\s*<(?:(CHAPTER|SPEAKER)\b(.*)|/?[A-Za-z]\w*[^<>]*)>\s*", re.IGNORECASE)
_TAG = re.compile(r"""<(?:[!?][^<>]*>|(/?[A-Za-z][\w.:-]*+)((?:[^<>"']|"[^"<]*"|'[^'<]*')*+)>)""")
_OPEN_TAG = re.compile(r"<(?:[A-Za-z/!?][^<>]*)?\Z")
# Quotes may be missing, or stand within a value: it goes on to the next name or to the end.
_ATTRIBUTE = re.compile(r"(\w+)\s*=\s*([\"']?)(.*?)\2(?=\s+\w+\s*=|\s*\Z)")

_Mark: TypeAlias = tuple[int, str, str]
"""The number of a line; and CHAPTER or SPEAKER and its attributes, P between paragraphs, or "" and some text."""


class _File(NamedTuple):
    archive: Path | None
    name: str  # a path, or a member of the archive
    lang: str

    @property
    def source(self) -> str:
        return self.name if self.archive is None else f"{self.archive}: {self.name}"

    @property
    def session(self) -> str:
        return PurePosixPath(self.name).name.partition(".")[0]

    @property
    def is_xml(self) -> bool:
        return ".xml" in PurePosixPath(self.name).suffixes


def read_europarl(
    root: Path, *, langs: Collection[str] | None = None, handle_error: ErrorHandler = raise_error
) -> Iterator[Document]:
    """The speeches of all sessions below a folder or in a .zip, one paragraph a line.

    A file's language is the name of its folder; ``langs`` keeps these only, however they are spelled. A
    speech's concept is "session/chapter/speaker" by their ids as written, a chapter's heading has
    "session/chapter". The speaker's name is the title: in the text, it would give translations away.
    """
    found = _files(root, handle_error)
    if not found:
        raise CorpusError(
            f"{root}: no session in it; name a folder or a .zip with a folder per language, as in en/ep-00-01-17.xml"
        )
    codes = {file.lang: _code(file.lang) for file in found}
    asked = {lang: normalise(lang) for lang in ([langs] if isinstance(langs, str) else langs or ())}
    if missing := sorted(lang for lang, code in asked.items() if code not in codes.values()):
        raise CorpusError(f"{root}: no session in {', '.join(missing)}; its folders are {', '.join(sorted(codes))}")
    kept = (file for file in found if langs is None or codes[file.lang] in asked.values())
    for archive, files in groupby(kept, key=lambda file: file.archive):
        if archive is None:
            for file in files:
                yield from _guarded(file, None, handle_error)
        else:
            with reading(str(archive)), zipfile.ZipFile(archive) as unpacked:
                for file in files:
                    yield from _guarded(file, unpacked, handle_error)


# Files


def _code(folder: str) -> str:
    """What a folder's name says by BCP 47; the name itself where that is no code."""
    try:
        return normalise(folder)
    except CorpusError:
        return folder


def _files(root: Path, handle_error: ErrorHandler) -> list[_File]:
    if root.is_dir():
        paths = sorted(path for path in root.rglob("*") if path.is_file())
    elif root.suffix.lower() == ".zip" and root.is_file():
        paths = [root]
    else:
        raise CorpusError(f"{root}: no such folder or .zip; check the spelling")
    found = []
    for path in paths:
        if _FILE.fullmatch(path.name):
            found.append(_File(None, str(path), path.resolve().parent.name))
        elif path.suffix.lower() == ".zip":
            try:
                with reading(str(path)), zipfile.ZipFile(path) as archive:
                    names = sorted(archive.namelist())
            except CorpusError as error:
                handle_error("unreadable file", str(error))
                continue
            found += [
                _File(path, name, PurePosixPath(name).parent.name or path.stem) for name in names if _member(name)
            ]
    return found


def _member(name: str) -> bool:
    """Whether a member of an archive is a session; it is compressed already."""
    path = PurePosixPath(name)
    return _FILE.fullmatch(path.name) is not None and path.suffix in (".xml", ".txt")


def _guarded(file: _File, archive: zipfile.ZipFile | None, handle_error: ErrorHandler) -> Iterator[Document]:
    """A file's speeches up to what is wrong with it."""
    try:
        if archive is None:
            with opened(file.name) as stream:
                yield from _speeches(file, stream, handle_error)
        elif archive.getinfo(file.name).flag_bits & 1:
            handle_error("unreadable file", f"{file.source}: encrypted; unpack it first")
        else:
            with reading(file.source), archive.open(file.name) as stream:
                yield from _speeches(file, stream, handle_error)
    except CorpusError as error:
        handle_error("unreadable file", str(error))


# Speeches


def _speeches(file: _File, stream: IO[bytes], handle_error: ErrorHandler) -> Iterator[Document]:
    text = lines(stream, file.source, handle_error)
    marks = _xml_marks(text) if file.is_xml else _text_marks(text)
    speech = _Speech(file, handle_error)
    for number, tag, rest in marks:
        if tag == "":
            speech.add(number, rest)
        elif tag == "P":
            speech.end_paragraph()
        else:
            yield from speech.document()
            speech.begin(number, tag, _attributes(rest, escaped=file.is_xml))
    yield from speech.document()
    if not speech.begun:
        handle_error(
            "no session", f"{file.source}: no CHAPTER and no SPEAKER in it; remove it, or give it a name without ep-"
        )


class _Speech:
    """A speech, or the heading of a chapter, as it is read."""

    def __init__(self, file: _File, handle_error: ErrorHandler) -> None:
        self.file, self.handle_error = file, handle_error
        self.chapter, self.speaker, self.title = "", "", ""
        self.begun = self.kept = False
        self.paragraphs: list[str] = []
        self.pieces: list[str] = []
        self.size = 0

    def begin(self, number: int, tag: str, attributes: dict[str, str]) -> None:
        name = attributes.get("id", "")
        if tag == "CHAPTER":
            self.chapter, self.speaker, self.title = name, "", ""
        else:
            self.speaker, self.title = name, attributes.get("name", "")
        self.begun, self.kept, self.size = True, name != "", 0
        self.paragraphs, self.pieces = [], []
        if not name:
            self.handle_error(
                "no id",
                f"{self.file.source}:{number}: a {tag} without an ID, so its translations cannot be found; add one",
            )

    def add(self, number: int, text: str) -> None:
        if not self.kept:
            return
        self.size += len(text)
        if self.size > LONGEST_SPEECH:
            self.kept = False
            self.handle_error(
                "speech too long",
                f"{self.file.source}:{number}: a speech of more than {LONGEST_SPEECH:,} characters; check the file",
            )
        else:
            self.pieces.append(text)

    def end_paragraph(self) -> None:
        if paragraph := " ".join(" ".join(self.pieces).split()):
            self.paragraphs.append(paragraph)
        self.pieces = []

    def document(self) -> Iterator[Document]:
        self.end_paragraph()
        if self.kept and self.paragraphs:
            concept = "/".join(filter(None, (self.file.session, self.chapter, self.speaker)))
            yield Document(concept, self.file.lang, "\n".join(self.paragraphs), self.title)


# Markup


def _text_marks(text: Iterable[str | None]) -> Iterator[_Mark]:
    """Markup stands on lines of its own here, and nothing is escaped."""
    for number, line in enumerate(text, 1):
        if line is None:
            continue
        tag = _LINE_TAG.fullmatch(line) if len(line) <= _LONGEST_TAG else None
        if tag:
            yield number, (tag[1] or "P").upper(), tag[2] or ""
        elif line.strip():
            yield number, "", line
        else:
            yield number, "P", ""


def _xml_marks(text: Iterable[str | None]) -> Iterator[_Mark]:
    waiting = ""  # a tag that goes on in the next line
    for number, line in enumerate(text, 1):
        if line is None:
            continue
        line = f"{waiting}\n{line}" if waiting else line
        cut = _OPEN_TAG.search(line, max(0, len(line) - _LONGEST_TAG))
        line, waiting = (line[: cut.start()], line[cut.start() :]) if cut else (line, "")
        here = 0
        for tag in _TAG.finditer(line):
            if tag.start() > here:
                yield number, "", html.unescape(line[here : tag.start()])
            here = tag.end()
            name = (tag[1] or "").upper()
            if name in ("CHAPTER", "SPEAKER", "P", "/P"):
                yield number, name.removeprefix("/"), tag[2].rstrip().removesuffix("/")
        if here < len(line):
            yield number, "", html.unescape(line[here:])


def _attributes(text: str, *, escaped: bool) -> dict[str, str]:
    found = {}
    for name, quote, value in _ATTRIBUTE.findall(text[:_LONGEST_TAG]):
        plain = value if quote else value.strip("\"'")
        found[name.lower()] = " ".join((html.unescape(plain) if escaped else plain).split())
    return found
