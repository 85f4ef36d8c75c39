"""Europarl: the sessions of the European Parliament, one file per session in a folder per language.

They are published as text, where a line is either markup or a paragraph, and as XML (OPUS), where sentences may be
split into words. Many files are not well-formed, so both are read leniently: markup that separates chapters, speakers
and paragraphs is used, all other markup is ignored.
"""

import html
import re
import zipfile
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import IO, Annotated, NamedTuple, TypeAlias

from cr5.corpus.documents import Document
from cr5.corpus.languages import normalise
from cr5.errors import CorpusError
from cr5.sources.files import ErrorHandler, lines, opened, raise_error, reading
from cr5.sources.source import Parameter, Source

MAX_SPEECH_CHARACTERS = 1 << 22  # the longest real ones have some 100,000
_MAX_TAG_CHARACTERS = 2000

_FILE_NAME = re.compile(r"ep-[^/.]+\.(?:xml|txt)(?:\.(?:gz|bz2|xz))?")
_LINE_TAG = re.compile(r"\s*<(?:(CHAPTER|SPEAKER)\b(.*)|/?[A-Za-z]\w*[^<>]*)>\s*", re.IGNORECASE)
_TAG = re.compile(r"""<(?:[!?][^<>]*>|(/?[A-Za-z][\w.:-]*+)((?:[^<>"']|"[^"<]*"|'[^'<]*')*+)>)""")
_OPEN_TAG = re.compile(r"<(?:[A-Za-z/!?][^<>]*)?\Z")
# Quotes may be missing, or occur within a value: a value extends to the next name or to the end.
_ATTRIBUTE = re.compile(r"(\w+)\s*=\s*([\"']?)(.*?)\2(?=\s+\w+\s*=|\s*\Z)")

_Event: TypeAlias = tuple[int, str, str]
"""A line number with CHAPTER or SPEAKER and its attributes, with P between paragraphs, or with "" and some text."""


class _SessionFile(NamedTuple):
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
    root: Annotated[Path, Parameter("A folder or .zip with a subfolder per language.", metavar="PATH")],
    *,
    langs: Collection[str] | None = None,
    handle_error: ErrorHandler = raise_error,
    max_speech_characters: int = MAX_SPEECH_CHARACTERS,
) -> Iterator[Document]:
    """Read the speeches of all sessions below a folder or in a .zip, one paragraph per line.

    The language of a file is the name of its folder; ``langs`` keeps only these languages, in any spelling. The concept
    of a speech is "session/chapter/speaker" with the ids of the file, that of a chapter's heading "session/chapter".
    The speaker's name is the title; in the text, it would make it trivial to match translations.
    """
    sessions = _find_files(root, handle_error)
    if not sessions:
        raise CorpusError(
            f"{root}: no session file; name a folder or a .zip with a folder per language, as in en/ep-00-01-17.xml"
        )
    codes = {file.lang: _code(file.lang) for file in sessions}
    wanted = {lang: normalise(lang) for lang in ([langs] if isinstance(langs, str) else langs or ())}
    if missing := sorted(lang for lang, code in wanted.items() if code not in codes.values()):
        raise CorpusError(f"{root}: no session in {', '.join(missing)}; its folders are {', '.join(sorted(codes))}")
    selected = (file for file in sessions if langs is None or codes[file.lang] in wanted.values())
    for archive, files in groupby(selected, key=lambda file: file.archive):
        if archive is None:
            for file in files:
                yield from _read_file(file, None, max_speech_characters, handle_error)
        else:
            with reading(str(archive)), zipfile.ZipFile(archive) as unpacked:
                for file in files:
                    yield from _read_file(file, unpacked, max_speech_characters, handle_error)


# Files


def _code(folder: str) -> str:
    """The BCP 47 code that a folder is named after; the name itself if it is not a code."""
    try:
        return normalise(folder)
    except CorpusError:
        return folder


def _find_files(root: Path, handle_error: ErrorHandler) -> list[_SessionFile]:
    if root.is_dir():
        paths = sorted(path for path in root.rglob("*") if path.is_file())
    elif root.suffix.lower() == ".zip" and root.is_file():
        paths = [root]
    else:
        raise CorpusError(f"{root}: no such folder or .zip; check the spelling")
    sessions = []
    for path in paths:
        if _FILE_NAME.fullmatch(path.name):
            sessions.append(_SessionFile(None, str(path), path.resolve().parent.name))
        elif path.suffix.lower() == ".zip":
            try:
                with reading(str(path)), zipfile.ZipFile(path) as archive:
                    names = sorted(archive.namelist())
            except CorpusError as error:
                handle_error("unreadable file", str(error))
                continue
            sessions += [
                _SessionFile(path, name, PurePosixPath(name).parent.name or path.stem)
                for name in names
                if _is_session(name)
            ]
    return sessions


def _is_session(name: str) -> bool:
    """Whether a member of an archive is a session; members are not compressed a second time."""
    path = PurePosixPath(name)
    return _FILE_NAME.fullmatch(path.name) is not None and path.suffix in (".xml", ".txt")


def _read_file(
    file: _SessionFile, archive: zipfile.ZipFile | None, max_characters: int, handle_error: ErrorHandler
) -> Iterator[Document]:
    """The speeches of a file, up to the first error."""
    try:
        if archive is None:
            with opened(file.name) as stream:
                yield from _speeches(file, stream, max_characters, handle_error)
        elif archive.getinfo(file.name).flag_bits & 1:
            handle_error("unreadable file", f"{file.source}: encrypted; unpack it first")
        else:
            with reading(file.source), archive.open(file.name) as stream:
                yield from _speeches(file, stream, max_characters, handle_error)
    except CorpusError as error:
        handle_error("unreadable file", str(error))


# Speeches


def _speeches(
    file: _SessionFile, stream: IO[bytes], max_characters: int, handle_error: ErrorHandler
) -> Iterator[Document]:
    text = lines(stream, file.source, handle_error)
    events = _xml_events(text) if file.is_xml else _text_events(text)
    speech = _Speech(file, max_characters, handle_error)
    for number, tag, rest in events:
        if tag == "":
            speech.add(number, rest)
        elif tag == "P":
            speech.end_paragraph()
        else:
            yield from speech.document()
            speech.start(number, tag, _attributes(rest, escaped=file.is_xml))
    yield from speech.document()
    if not speech.started:
        handle_error(
            "no session", f"{file.source}: no CHAPTER and no SPEAKER; remove it, or give it a name without ep-"
        )


class _Speech:
    """The speech, or the heading of a chapter, that is being read."""

    def __init__(self, file: _SessionFile, max_characters: int, handle_error: ErrorHandler) -> None:
        self.file, self.max_characters, self.handle_error = file, max_characters, handle_error
        self.chapter, self.speaker, self.title = "", "", ""
        self.started = self.kept = False
        self.paragraphs: list[str] = []
        self.pieces: list[str] = []
        self.size = 0

    def start(self, number: int, tag: str, attributes: dict[str, str]) -> None:
        name = attributes.get("id", "")
        if tag == "CHAPTER":
            self.chapter, self.speaker, self.title = name, "", ""
        else:
            self.speaker, self.title = name, attributes.get("name", "")
        self.started, self.kept, self.size = True, name != "", 0
        self.paragraphs, self.pieces = [], []
        if not name:
            self.handle_error(
                "no id",
                f"{self.file.source}:{number}: a {tag} without an ID, which translations share; add one",
            )

    def add(self, number: int, text: str) -> None:
        if not self.kept:
            return
        self.size += len(text)
        if self.size > self.max_characters:
            self.kept = False
            self.handle_error(
                "speech too long",
                f"{self.file.source}:{number}: a speech of more than {self.max_characters:,} characters; "
                "check the file",
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


def _text_events(text: Iterable[str | None]) -> Iterator[_Event]:
    """Parse the text form, where markup is on lines of its own and nothing is escaped."""
    for number, line in enumerate(text, 1):
        if line is None:
            continue
        tag = _LINE_TAG.fullmatch(line) if len(line) <= _MAX_TAG_CHARACTERS else None
        if tag:
            yield number, (tag[1] or "P").upper(), tag[2] or ""
        elif line.strip():
            yield number, "", line
        else:
            yield number, "P", ""


def _xml_events(text: Iterable[str | None]) -> Iterator[_Event]:
    """Parse the XML form."""
    unfinished = ""  # a tag that continues on the next line
    for number, line in enumerate(text, 1):
        if line is None:
            continue
        line = f"{unfinished}\n{line}" if unfinished else line
        cut = _OPEN_TAG.search(line, max(0, len(line) - _MAX_TAG_CHARACTERS))
        line, unfinished = (line[: cut.start()], line[cut.start() :]) if cut else (line, "")
        position = 0
        for tag in _TAG.finditer(line):
            if tag.start() > position:
                yield number, "", html.unescape(line[position : tag.start()])
            position = tag.end()
            name = (tag[1] or "").upper()
            if name in ("CHAPTER", "SPEAKER", "P", "/P"):
                yield number, name.removeprefix("/"), tag[2].rstrip().removesuffix("/")
        if position < len(line):
            yield number, "", html.unescape(line[position:])


def _attributes(text: str, *, escaped: bool) -> dict[str, str]:
    attributes = {}
    for name, quote, value in _ATTRIBUTE.findall(text[:_MAX_TAG_CHARACTERS]):
        plain = value if quote else value.strip("\"'")
        attributes[name.lower()] = " ".join((html.unescape(plain) if escaped else plain).split())
    return attributes


EUROPARL = Source(
    "europarl",
    read_europarl,
    help="""Sessions of the European Parliament, XML or the older text form.

    Every speech is a document. Some files are damaged as they are published;
    --on-error skip leaves these out and counts them. Example:

        cr5 corpus europarl Europarl/raw -o corpus.parquet --on-error skip
    """,
)
