"""Catalogues of gettext: the messages of programs and their translations, as PO text or compiled to MO."""

import codecs
import hashlib
import html
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Literal, NamedTuple, TypeAlias

from cr5.corpus.documents import Document
from cr5.corpus.languages import is_registered, primary_subtag
from cr5.errors import CorpusError
from cr5.sources.files import LONGEST_LINE, ErrorHandler, opened, raise_error

Unit: TypeAlias = Literal["message", "reference", "catalogue"]

LONGEST_MESSAGE = 1 << 22  # bytes as written
LONGEST_MO = 1 << 26  # bytes

_COMPILED = (".mo", ".gmo")
_CHARSET = re.compile(r"charset=\s*([\w.:-]+)")
# Those that gettext allows, and Python under the same names: ASCII stays ASCII in all of them.
_CHARSETS = re.compile(
    r"utf-?8|(?:us-)?ascii|iso[-_]?8859[-_]?\d+|koi8[-_][rut]|cp\d+|windows-\d+|gb\d+|gbk|euc[-_]\w+|big5(?:-hkscs)?"
    r"|shift[-_]jis|johab|tis-?620",
    re.IGNORECASE,
)


class Message(NamedTuple):
    """A message: ``texts`` are its translation, one for each form of the plural, none if it is missing or fuzzy.

    The header is the first, with the empty id. ``references`` are the source files, without lines.
    """

    context: str
    id: str
    plural: str
    texts: tuple[str, ...]
    references: tuple[str, ...] = ()


def read_gettext(
    paths: Sequence[Path], *, by: Unit = "message", source_lang: str = "en", handle_error: ErrorHandler = raise_error
) -> Iterator[Document]:
    """The messages of catalogues, or all that one source file or one catalogue has, joined.

    Folders give all their .po, and the .mo and .gmo that have no .po beside them. The language is the
    header's, else the path's (de.po, app-de.po, de/LC_MESSAGES/app.mo), else "". What has a translation
    is a document in ``source_lang`` too, once; pass "" if the ids are keys and not text. A concept is
    "app:digest", "app:path/file.c" or "app"; ``app`` is the catalogue's path below the folder, without
    the language. By reference or catalogue, one catalogue at a time is in memory.
    """
    if by not in ("message", "reference", "catalogue"):
        raise CorpusError(f"documents by {by!r} are unknown; choose message, reference or catalogue")
    seen: set[bytes] = set()
    for file in _files(paths):
        try:
            catalogue = _Catalogue(file, source_lang, seen, handle_error)
            yield from catalogue.messages() if by == "message" else catalogue.groups(by)
        except CorpusError as error:
            handle_error("unreadable file", str(error))


# Documents


class _Catalogue:
    def __init__(self, file: "_File", source_lang: str, seen: set[bytes], handle_error: ErrorHandler) -> None:
        self.file, self.source_lang, self.seen, self.handle_error = file, source_lang, seen, handle_error
        self.lang = self.domain = ""

    def messages(self) -> Iterator[Document]:
        for message in self.read():
            digest = hashlib.blake2b(f"{message.context}\4{message.id}".encode("utf-8", "replace"), digest_size=8)
            concept = f"{self.domain}:{digest.hexdigest()}"
            yield from self.documents(concept, _joined(message.texts), _joined((message.id, message.plural)))

    def groups(self, by: Unit) -> Iterator[Document]:
        found: dict[str, tuple[list[str], list[str]]] = {}
        translated = False
        for message in self.read():
            translated |= message.texts != ()
            concepts = [self.domain] if by == "catalogue" else [f"{self.domain}:{name}" for name in message.references]
            for concept in concepts:
                texts, sources = found.setdefault(concept, ([], []))
                texts.append(_joined(message.texts))
                sources.append(_joined((message.id, message.plural)))
        if translated and not found:
            self.handle_error(
                "no references",
                f"{self.file.path}: its messages name no source files; "
                f"pass a .po that was made with them, or choose message or catalogue",
            )
        for concept, (texts, sources) in found.items():
            yield from self.documents(concept, "\n".join(filter(None, texts)), "\n".join(filter(None, sources)))

    def read(self) -> Iterator[Message]:
        """Its messages but the header, which tells the language."""
        path = self.file.path
        with opened(path) as stream:
            found = (read_mo if path.suffix.lower() in _COMPILED else read_po)(stream, str(path), self.handle_error)
            first = next(found, None)
            if first is None:
                return
            is_header = not first.context and not first.id
            declared = _header("".join(first.texts)).get("language", "") if is_header else ""
            named, self.domain = self.file.names(declared if is_registered(declared) else "")
            self.lang = declared if is_registered(declared) or not named else named
            for message in found if is_header else chain([first], found):
                if message.id:
                    yield message

    def documents(self, concept: str, text: str, source: str) -> Iterator[Document]:
        if not text:
            return
        if self.source_lang and source:
            key = hashlib.blake2b(concept.encode("utf-8", "replace"), digest_size=8).digest()
            if key not in self.seen:
                self.seen.add(key)
                yield Document(concept, self.source_lang, source)
            if self.lang == self.source_lang and text == source:
                return
        yield Document(concept, self.lang, text)


def _joined(texts: Sequence[str]) -> str:
    """All forms of a message, each once."""
    return "\n".join(dict.fromkeys(filter(None, map(plain, texts))))


def _header(text: str) -> dict[str, str]:
    fields = (line.partition(":") for line in text.splitlines())
    return {name.strip().lower(): value.strip() for name, _, value in fields}


# Plain text

_TAG = re.compile(r"</?([A-Za-z][\w:-]*+)(?:\s[^<>]*+|/)?>")
_BLOCKS = frozenset({"br", "dd", "div", "dt", "h1", "h2", "h3", "h4", "hr", "li", "p", "para", "td", "th", "tr"})
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9A-Fa-f]{1,6}|[A-Za-z]\w{1,31});")
_PLACEHOLDER = re.compile(
    r"%%"
    r"|%(?:\([^()\s]{1,60}\))?(?:\d{1,3}\$)?[-+#0']*+(?:\*(?:\d{1,3}\$)?|\d{1,5})?(?:\.(?:\*|\d{1,5})?)?"
    r"(?:hh|h|ll|l|L|q|j|z|t|I64)?[diouxXeEfFgGaAcCsSpnmr@]"  # printf's, with Python's and Objective-C's
    r"|%L?\d{1,2}"  # Qt's
    r"|\{%[^{}%]{0,200}%\}"
    r"|[$#]?\{\{?\s{0,9}[\w.!:<>=^,+*\[\]/%-]{0,60}\s{0,9}\}?\}"
    r"|\$(?:[A-Za-z_]\w{0,60}|\(\w{1,60}\))"
)
_KEY_BEHIND = re.compile(r"[ \t]?\([_&~]\w\)")  # where a script has no keys of its own
_KEYS = {mark: re.compile(rf"(?<![A-Z]){mark}(?=[^\W\d_])|{mark}(?=[^\W\d_A-Z])") for mark in "_&~"}  # not R&D


def plain(text: str) -> str:
    """What a message says: without tags, placeholders and the marks of keys to press, a paragraph a line."""
    text = _TAG.sub(lambda tag: " " if tag[1].lower() in _BLOCKS else "", text)
    text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    text = _PLACEHOLDER.sub(lambda found: "%" if found[0] == "%%" else " ", text)
    text = _KEY_BEHIND.sub("", text)
    for mark, pattern in _KEYS.items():
        if text.count(mark) == 1:  # more of them mean something else
            text = pattern.sub("", text)
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines())))


# Files


class _File(NamedTuple):
    """A catalogue's file, the folders above it that may tell its language, and from which on they tell its name."""

    path: Path
    folders: tuple[str, ...]
    first: int

    def names(self, declared: str) -> tuple[str, str]:
        """The language that the path tells, and the name of the catalogue, which is the path without it."""
        lang, taken, stem = self.language(declared)
        left = [folder for place, folder in enumerate(self.folders) if place not in taken]
        inner = [folder for place, folder in enumerate(self.folders) if place not in taken and place >= self.first]
        parts = [*inner, stem] if stem else inner or left[-1:]
        return lang, "/".join(parts) or "messages"

    def language(self, declared: str) -> tuple[str, set[int], str]:
        """The language, which folders tell it, and what is left of the file's name."""
        stem, last = self.path.stem, len(self.folders) - 1
        if last > 0 and self.folders[last].startswith("LC_"):
            return self.folders[last - 1], {last - 1, last}, stem
        ways: list[tuple[str, set[int], str]] = [(stem, set(), "")]
        ways += [(stem[sign.end() :], set(), stem[: sign.start()]) for sign in re.finditer(r"[-_.]", stem)]
        ways += [(self.folders[place], {place}, stem) for place in range(last, -1, -1)]
        for way in ways:
            if _is_code(way[0], 2):
                return way
        # Codes of three letters pass for words, and words for codes: "app" and "src" are languages.
        for way in ways if declared else ways[:1]:
            if _is_code(way[0], 3) and primary_subtag(way[0]) == primary_subtag(declared or stem):
                return way
        return "", set(), stem


def _files(paths: Sequence[Path]) -> list[_File]:
    found: list[_File] = []
    for path in paths:
        if not path.is_dir():
            folders = path.resolve().parts[1:-1][-2:]
            found.append(_File(path, folders, len(folders)))
            continue
        below = sorted(
            file for file in path.rglob("*") if file.suffix.lower() in (".po", *_COMPILED) and file.is_file()
        )
        names = {file.with_suffix("") for file in below if file.suffix.lower() == ".po"}
        kept = [file for file in below if file.suffix.lower() == ".po" or file.with_suffix("") not in names]
        if not kept:
            raise CorpusError(f"{path}: no catalogue in this folder; their names end in .po, .mo or .gmo")
        root = path.resolve().name
        found += [_File(file, (root, *file.relative_to(path).parts[:-1]), 1) for file in kept]
    if not found:
        raise CorpusError("no catalogue given; name .po and .mo files, or their folder")
    return found


def _is_code(name: str, letters: int) -> bool:
    return len(primary_subtag(name)) == letters and is_registered(name)


# PO

_KEYWORD = re.compile(rb"(?:(msgctxt|msgid_plural|msgid|msgstr)\b\s*(?:\[\s*\d+\s*\]\s*)?)?(\".*)?", re.DOTALL)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_STRINGS = re.compile(r'(?:\s*+"(?:[^"\\]|\\.)*+")*+\s*+', re.DOTALL)
_ESCAPE = re.compile(r"((?:\\(?:[0-7]{1,3}|x[0-9A-Fa-f]{1,2}))+)|\\(.)", re.DOTALL)
_CODE = re.compile(r"\\(?:x([0-9A-Fa-f]+)|([0-7]+))")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_REFERENCE = re.compile("\u2068([^\u2069]*)\u2069(?::\\d+)?|(\\S+)")  # names with spaces stand between these signs
_LINE = re.compile(r"(?::\d+)?,?\Z")


class _Entry:
    """An entry of a PO file as it is read: each keyword with its strings and their lines."""

    def __init__(self) -> None:
        self.fields: list[tuple[str, list[tuple[int, bytes]]]] = []
        self.keywords: set[str] = set()
        self.references: list[bytes] = []
        self.fuzzy = self.bad = False
        self.size = 0

    @property
    def complete(self) -> bool:
        return self.bad or "msgstr" in self.keywords

    def ends_before(self, keyword: str) -> bool:
        """Whether a line with this keyword is the next entry's."""
        if keyword == "msgctxt":
            return self.bad or bool(self.keywords)
        if keyword == "msgid":
            return bool({"msgid", "msgstr"} & self.keywords) or (self.bad and "msgctxt" not in self.keywords)
        return False

    def strings(self, keyword: str) -> list[list[tuple[int, bytes]]]:
        return [strings for name, strings in self.fields if name == keyword]


def read_po(stream: IO[bytes], source: str, handle_error: ErrorHandler = raise_error) -> Iterator[Message]:
    """The messages of a PO file; those that are obsolete are left out."""
    charset = "utf-8"
    for entry in _entries(stream, source, handle_error):
        try:
            if _is_header(entry):
                charset = _charset(_text(entry.strings("msgstr")[0], "latin-1"))
                # Nothing else in it matters, so a name in other characters may not stop the reading.
                yield Message("", "", "", (_text(entry.strings("msgstr")[0], charset, "replace"),))
                continue
            message = _message(entry, charset)
        except _FormatError as error:
            if error.number == 0:
                handle_error("unknown charset", f"{source}: {error}")
                return
            handle_error("unreadable message", f"{source}:{error.number}: {error}")
        else:
            yield message


class _FormatError(Exception):
    """What is wrong, and in which line, or 0 where it is wrong with the file."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


def _entries(stream: IO[bytes], source: str, handle_error: ErrorHandler) -> Iterator[_Entry]:
    entry = _Entry()

    def bad(number: int, message: str) -> None:
        if not entry.bad:  # one word about each is enough
            entry.bad = True
            handle_error("unreadable message", f"{source}:{number}: {message}")

    number = 0
    while line := stream.readline(LONGEST_LINE):
        number += 1
        line = (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).strip()
        found = None if line.startswith(b"#") else _KEYWORD.fullmatch(line)
        keyword = found[1].decode() if found and found[1] else ""
        if entry.ends_before(keyword) or (entry.complete and line[:1] in (b"", b"#")):
            if not entry.bad:
                yield entry
            entry = _Entry()
        if line.startswith(b"#~"):
            entry = _Entry()
        elif line.startswith(b"#:"):
            entry.references.append(line[2:])
        elif line.startswith(b"#,"):
            entry.fuzzy |= b"fuzzy" in re.split(rb"[\s,]+", line)
        elif found and keyword:
            entry.fields.append((keyword, [(number, found[2] or b"")]))
            entry.keywords.add(keyword)
        elif found and found[2] and entry.fields:
            entry.fields[-1][1].append((number, found[2]))
        elif line and not line.startswith(b"#"):
            shown = line if len(line) <= 40 else line[:40] + b"..."
            bad(number, f"{shown.decode('utf-8', 'replace')!r} is no line of a catalogue; check it with msgfmt -c")
        entry.size += len(line)
        if entry.size > LONGEST_MESSAGE:
            bad(number, f"a message of more than {LONGEST_MESSAGE:,} bytes; check it with msgfmt -c")
            entry.fields, entry.references = [], []
    if entry.fields and not entry.bad:
        yield entry


def _is_header(entry: _Entry) -> bool:
    ids = entry.strings("msgid")
    empty = len(ids) == 1 and all(raw.strip() in (b"", b'""') for _, raw in ids[0])
    return empty and entry.keywords == {"msgid", "msgstr"}


def _charset(header: str) -> str:
    found = _CHARSET.search(header)
    name = found[1] if found else "CHARSET"
    if name == "CHARSET":  # as in a template that nobody has filled in
        return "utf-8"
    try:
        if _CHARSETS.fullmatch(name):
            return codecs.lookup(name).name
    except LookupError:
        pass
    raise _FormatError(0, f"its charset {name[:40]!r} is unknown; convert it with msgconv -t UTF-8")


def _message(entry: _Entry, charset: str) -> Message:
    number = entry.fields[0][1][0][0]
    for missing in {"msgid", "msgstr"} - entry.keywords:
        raise _FormatError(number, f"a message without its {missing}; check it with msgfmt -c")
    fields = {name: _text(strings, charset) for name, strings in reversed(entry.fields)}
    texts = tuple(_text(strings, charset) for strings in entry.strings("msgstr"))
    lines = (line.decode(charset, "replace") for line in entry.references)
    names = (_LINE.sub("", quoted or word).strip() for line in lines for quoted, word in _REFERENCE.findall(line))
    return Message(
        fields.get("msgctxt", ""),
        fields["msgid"],
        fields.get("msgid_plural", ""),
        texts if any(texts) and not entry.fuzzy else (),
        tuple(dict.fromkeys(filter(None, names))),
    )


def _text(strings: list[tuple[int, bytes]], charset: str, errors: str = "strict") -> str:
    """The text of strings as C writes them."""
    unescape = _unescape(charset)
    parts = []
    for number, raw in strings:
        try:
            line = raw.decode(charset, errors)
        except UnicodeDecodeError:
            raise _FormatError(
                number, f"not in {charset}, as the catalogue's header has it; convert it with msgconv -t UTF-8"
            ) from None
        if not _STRINGS.fullmatch(line):
            shown = line if len(line) <= 40 else f"{line[:40]}..."
            raise _FormatError(number, f"{shown!r} is no string in quotes; check it with msgfmt -c")
        parts += [_ESCAPE.sub(unescape, part) if "\\" in part else part for part in _STRING.findall(line)]
    return "".join(parts)


def _unescape(charset: str) -> Callable[[re.Match[str]], str]:
    def meaning(escape: re.Match[str]) -> str:
        if escape[1] is None:
            return _ESCAPED.get(escape[2], escape[2])
        codes = [int(x, 16) if x else int(octal, 8) & 255 for x, octal in _CODE.findall(escape[1])]
        return bytes(codes).decode(charset, "replace")

    return meaning


# MO

_MAGIC = 0x950412DE


def read_mo(stream: IO[bytes], source: str, handle_error: ErrorHandler = raise_error) -> Iterator[Message]:
    """The messages of a compiled catalogue, whichever byte comes first."""
    data = stream.read(LONGEST_MO + 1)
    order = next((order for order in "<>" if data[:4] == struct.pack(f"{order}I", _MAGIC)), None)
    if order is None or len(data) < 20:
        handle_error(
            "unreadable file",
            f"{source}: no compiled catalogue, which starts with 950412de; check the name or make it again",
        )
        return
    if len(data) > LONGEST_MO:
        handle_error("unreadable file", f"{source}: more than {LONGEST_MO >> 20} MB; pass its .po instead")
        return
    revision, count, ids, texts = struct.unpack_from(f"{order}4I", data, 4)
    if revision >> 16 > 1 or max(ids, texts) + 8 * count > len(data):
        handle_error(
            "unreadable file",
            f"{source}: {count} messages of revision {revision >> 16} do not fit its {len(data)} bytes; make it again",
        )
        return

    def places() -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        tables = [struct.iter_unpack(f"{order}2I", data[start : start + 8 * count]) for start in (ids, texts)]
        return zip(*tables, strict=True)

    charset = "utf-8"
    header = next((text for (size, _), text in places() if size == 0), None)
    if header is not None:
        written = data[header[1] : header[1] + header[0]]
        try:
            charset = _charset(written.decode("latin-1"))
        except _FormatError as error:
            handle_error("unknown charset", f"{source}: {error}")
            return
        yield Message("", "", "", (written.decode(charset, "replace"),))
    left = 4 * len(data)  # strings may share bytes, but a small file must not become an endless text
    for number, ((size, start), (text_size, text_start)) in enumerate(places(), 1):
        if size == 0:
            continue
        if max(start + size, text_start + text_size) > len(data):
            handle_error("unreadable message", f"{source}: message {number} lies outside of the file; make it again")
            continue
        left -= size + text_size
        if left < 0:
            handle_error(
                "unreadable file", f"{source}: its messages lie upon one another from {number} on; make it again"
            )
            return
        try:
            key = data[start : start + size].decode(charset)
            text = data[text_start : text_start + text_size].decode(charset)
        except UnicodeDecodeError:
            handle_error(
                "unreadable message",
                f"{source}: message {number} is not in {charset}, as its header has it; make it again",
            )
            continue
        message, _, plural = key.partition("\0")
        context, _, name = message.rpartition("\4")
        forms = tuple(text.split("\0"))
        yield Message(context, name, plural, forms if any(forms) else ())
