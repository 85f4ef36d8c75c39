"""Europarl: the sessions of the European Parliament, one file per session in a folder per language.

They are published as text, where a line is either markup or a paragraph, and as XML (OPUS), where sentences may be
split into words. Many files are not well-formed, so both are read leniently: markup that separates chapters, speakers
and paragraphs is used, all other markup is ignored.
"""

import html
import re
import zipfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import nullcontext
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import IO, Annotated, NamedTuple

from cr5.corpus.documents import Document
from cr5.corpus.languages import canonical_code
from cr5.corpus.texts import one_or_several
from cr5.errors import CorpusError
from cr5.sources.accounting import UNWANTED_LANGUAGE, Accounting, UnusableInputError
from cr5.sources.files import corpus_errors, lines
from cr5.sources.input_files import InputFile, find_files
from cr5.sources.language_names import LanguageNames, NamedLanguages
from cr5.sources.source import ParameterHelp, Source

MAX_SPEECH_CHARACTERS = 1 << 22  # the longest real ones have some 100,000
_MAX_TAG_CHARACTERS = 2000

_FILE_NAME = re.compile(r"ep-[^/.]+\.(?:xml|txt)")
_LINE_TAG = re.compile(r"\s*<(?:(CHAPTER|SPEAKER)\b(.*)|/?[A-Za-z]\w*[^<>]*)>\s*", re.IGNORECASE)
_TAG = re.compile(r"""<(?:[!?][^<>]*>|(/?[A-Za-z][\w.:-]*+)((?:[^<>"']|"[^"<]*"|'[^'<]*')*+)>)""")
_OPEN_TAG = re.compile(r"<(?:[A-Za-z/!?][^<>]*)?\Z")
# Quotes may be missing, or occur within a value: a value extends to the next name or to the end.
_ATTRIBUTE = re.compile(r"(\w+)\s*=\s*([\"']?)(.*?)\2(?=\s+\w+\s*=|\s*\Z)")


class _Event(NamedTuple):
    """A part of a file: a CHAPTER or SPEAKER with its attributes as text, a paragraph break (P), or some text ("")."""

    line: int
    kind: str
    text: str


class _SessionFile(NamedTuple):
    file: InputFile
    lang: str

    @property
    def name(self) -> str:
        return self.file.name.partition(".")[0]

    @property
    def is_xml(self) -> bool:
        return self.file.name.endswith(".xml")


def read_europarl(
    root: Annotated[Path, ParameterHelp("A folder or .zip with a subfolder per language.", metavar="PATH")],
    *,
    lang: NamedLanguages = None,
    langs: Collection[str] | None = None,
    accounting: Accounting | None = None,
) -> Iterator[Document]:
    """Read the speeches of all sessions below a folder or in a .zip, one paragraph per line.

    The language of a file is the name of its folder, or what ``lang`` says that this means; ``langs`` keeps only these
    languages, in any spelling. The concept of a speech is "session/chapter/speaker" with the ids of the file, that of a
    chapter's heading "session/chapter". The speaker's name is the title; in the text, it would make it trivial to match
    translations.
    """
    accounting, names = accounting or Accounting(), LanguageNames(lang)
    sessions = []
    for file in find_files([root], accounting):
        if _FILE_NAME.fullmatch(file.name):
            sessions.append(_SessionFile(file, names.code(_folder_name(file))))
        else:
            accounting.skip_file(file, "not named like a session, ep-00-01-17.txt")
    if not sessions:
        raise CorpusError(
            f"{root}: no session file; name a folder or a .zip with a folder per language, as in en/ep-00-01-17.xml"
        )
    names.warn_of_unused(f"{root}: no folder")
    codes = {file.lang: canonical_code(file.lang) for file in sessions}
    wanted = {lang: canonical_code(lang) for lang in one_or_several(langs or ())}
    if missing := sorted(lang for lang, code in wanted.items() if code not in codes.values()):
        raise CorpusError(f"{root}: no session in {', '.join(missing)}; its folders are {', '.join(sorted(codes))}")
    selected = []
    for session in sessions:
        if langs is None or codes[session.lang] in wanted.values():
            selected.append(session)
        else:
            accounting.skip_file(session.file, UNWANTED_LANGUAGE)
    for path, group in groupby(selected, key=lambda session: session.file.path):
        # Opened once: reading the table of contents of a large zip for each of its members would take hours.
        is_zip = path.suffix.lower() == ".zip"
        with corpus_errors(str(path)), zipfile.ZipFile(path) if is_zip else nullcontext() as archive:
            for session in group:
                with accounting.reading(session.file), session.file.open(archive) as stream:
                    yield from _speeches(session, stream, accounting)


def _folder_name(file: InputFile) -> str:
    """The name of the folder of a file; for a file at the top of a zip, the name of the zip."""
    if file.member is None:
        return file.folder[-1]
    return PurePosixPath(file.member).parent.name or file.path.stem


# Speeches


def _speeches(session: _SessionFile, stream: IO[bytes], accounting: Accounting) -> Iterator[Document]:
    """The speeches of a file, up to the first error."""
    text = lines(stream, str(session.file), accounting.unusable_part, session.lang, accounting.guessed_encodings)
    speech = _Speech(session, accounting)
    for event in _xml_events(text) if session.is_xml else _text_events(text):
        if event.kind == "":
            speech.add(event)
        elif event.kind == "P":
            speech.end_paragraph()
        else:
            yield from speech.document()
            speech.start(event)
    yield from speech.document()
    if not speech.started:
        raise UnusableInputError(
            "no session", f"{session.file}: contains no <CHAPTER> or <SPEAKER>; remove it, or rename it without ep-"
        )


class _Speech:
    """The speech, or the heading of a chapter, that is being read."""

    def __init__(self, session: _SessionFile, accounting: Accounting) -> None:
        self.session, self.accounting = session, accounting
        self.chapter, self.speaker, self.title = "", "", ""
        self.started = self.usable = False
        self.paragraphs: list[str] = []
        self.pieces: list[str] = []
        self.size = 0

    def start(self, event: _Event) -> None:
        attributes = _attributes(event.text, escaped=self.session.is_xml)
        name = attributes.get("id", "")
        if event.kind == "CHAPTER":
            self.chapter, self.speaker, self.title = name, "", ""
        else:
            self.speaker, self.title = name, attributes.get("name", "")
        self.started, self.usable, self.size = True, name != "", 0
        self.paragraphs, self.pieces = [], []
        if not name:
            place = f"{self.session.file}:{event.line}"
            message = f"{place}: a {event.kind} without an ID, which translations share; add one"
            self.accounting.unusable_document("no id", self.session.lang, message)

    def add(self, event: _Event) -> None:
        if not self.usable:
            return
        self.size += len(event.text)
        if self.size > MAX_SPEECH_CHARACTERS:
            self.usable = False
            limit = f"a speech of more than {MAX_SPEECH_CHARACTERS:,} characters"
            message = f"{self.session.file}:{event.line}: {limit}; check the file"
            self.accounting.unusable_document("speech too long", self.session.lang, message)
        else:
            self.pieces.append(event.text)

    def end_paragraph(self) -> None:
        if paragraph := " ".join(" ".join(self.pieces).split()):
            self.paragraphs.append(paragraph)
        self.pieces = []

    def document(self) -> Iterator[Document]:
        self.end_paragraph()
        if self.usable:
            concept = "/".join(filter(None, (self.session.name, self.chapter, self.speaker)))
            text = "\n".join(self.paragraphs)
            yield from self.accounting.document(
                concept, self.session.lang, text, self.title, place=f"{self.session.file}: {concept}"
            )


# Markup


def _text_events(text: Iterable[str | None]) -> Iterator[_Event]:
    """Parse the text form, where markup is on lines of its own and nothing is escaped."""
    for number, line in enumerate(text, 1):
        if line is None:
            continue
        tag = _LINE_TAG.fullmatch(line) if len(line) <= _MAX_TAG_CHARACTERS else None
        if tag:
            yield _Event(number, (tag[1] or "P").upper(), tag[2] or "")
        elif line.strip():
            yield _Event(number, "", line)
        else:
            yield _Event(number, "P", "")


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
                yield _Event(number, "", html.unescape(line[position : tag.start()]))
            position = tag.end()
            name = (tag[1] or "").upper()
            if name in ("CHAPTER", "SPEAKER", "P", "/P"):
                yield _Event(number, name.removeprefix("/"), tag[2].rstrip().removesuffix("/"))
        if position < len(line):
            yield _Event(number, "", html.unescape(line[position:]))


def _attributes(text: str, *, escaped: bool) -> dict[str, str]:
    attributes = {}
    for name, quote, value in _ATTRIBUTE.findall(text[:_MAX_TAG_CHARACTERS]):
        plain = value if quote else value.strip("\"'")
        attributes[name.lower()] = " ".join((html.unescape(plain) if escaped else plain).split())
    return attributes


EUROPARL = Source(
    "europarl",
    read_europarl,
    help="""Sessions of the European Parliament, in XML or the older text format.

    Every speech is a document. Some of the published files are damaged;
    --on-error skip leaves these out and counts them. Example:

        cr5 corpus europarl Europarl/raw -o corpus.parquet --on-error skip
    """,
)
