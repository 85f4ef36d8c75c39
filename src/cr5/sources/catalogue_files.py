"""Message catalogues of gettext: the messages of a PO or MO file."""

import codecs
import re
import struct
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

from cr5.errors import CorpusError
from cr5.message_parts import quoted
from cr5.sources.accounting import UnusableInputError
from cr5.sources.files import MAX_LINE_BYTES, ErrorHandler, raise_error

MAX_MESSAGE_BYTES = 1 << 22  # largest message in a PO file
MAX_MO_BYTES = 1 << 26

_CHARSET = re.compile(r"charset=\s*([\w.:-]+)")
# The encodings that gettext allows and Python knows under the same names. All of them are supersets of ASCII.
_CHARSETS = re.compile(
    r"utf-?8|(?:us-)?ascii|iso[-_]?8859[-_]?\d+|koi8[-_][rut]|cp\d+|windows-\d+|gb\d+|gbk|euc[-_]\w+|big5(?:-hkscs)?"
    r"|shift[-_]jis|johab|tis-?620",
    re.IGNORECASE,
)


class Message(NamedTuple):
    """A message and ``texts``, its translation: one for each plural form, none if it is missing or fuzzy.

    The header is the first message and has an empty id. ``references`` are source files, without line numbers.
    """

    context: str
    id: str
    plural: str
    texts: tuple[str, ...]
    references: tuple[str, ...] = ()


class _FormatError(Exception):
    """What is wrong, and in which line; None stands for the whole file."""

    def __init__(self, line: int | None, message: str) -> None:
        super().__init__(message)
        self.line = line


def _charset(header: str) -> str:
    match = _CHARSET.search(header)
    name = match[1] if match else "CHARSET"
    if name == "CHARSET":  # the placeholder of a template
        return "utf-8"
    try:
        if _CHARSETS.fullmatch(name):
            return codecs.lookup(name).name
    except LookupError:
        pass
    raise _FormatError(None, f"unknown charset {quoted(name)}; convert the file with msgconv -t UTF-8")


# PO

_KEYWORD = re.compile(rb"(?:(msgctxt|msgid_plural|msgid|msgstr)\b\s*(?:\[\s*\d+\s*\]\s*)?)?(\".*)?", re.DOTALL)
_PLAIN_STRING = re.compile(r'"([^"\\]*+)"')
_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_STRINGS = re.compile(r'(?:\s*+"(?:[^"\\]|\\.)*+")*+\s*+', re.DOTALL)
_ESCAPE = re.compile(r"((?:\\(?:[0-7]{1,3}|x[0-9A-Fa-f]{1,2}))+)|\\(.)", re.DOTALL)
_BYTE = re.compile(r"\\(?:x([0-9A-Fa-f]+)|([0-7]+))")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_REFERENCE = re.compile("\u2068([^\u2069]*)\u2069(?::\\d+)?|(\\S+)")  # isolates enclose names with spaces
_LINE_NUMBER = re.compile(r"(?::\d+(?:\([^()]*\))?)?,?\Z")  # xml2po adds the element: C/index.page:10(media)


class _Entry:
    """An entry of a PO file while it is read: every keyword with its strings and their line numbers."""

    def __init__(self) -> None:
        self.fields: list[tuple[str, list[tuple[int, bytes]]]] = []
        self.keywords: set[str] = set()
        self.references: list[bytes] = []
        self.fuzzy = self.bad = False
        self.size = 0

    @property
    def complete(self) -> bool:
        return self.bad or "msgstr" in self.keywords

    def starts_next_entry(self, keyword: str) -> bool:
        """Whether a line with this keyword starts the next entry."""
        if keyword == "msgctxt":
            return self.bad or bool(self.keywords)
        if keyword == "msgid":
            return bool({"msgid", "msgstr"} & self.keywords) or (self.bad and "msgctxt" not in self.keywords)
        return False

    def strings(self, keyword: str) -> list[list[tuple[int, bytes]]]:
        return [strings for name, strings in self.fields if name == keyword]


def read_po(
    stream: IO[bytes],
    source: str,
    handle_error: ErrorHandler = raise_error,
    *,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
) -> Iterator[Message]:
    """Read the messages of a PO file, without obsolete ones."""
    charset = "utf-8"
    for entry in _entries(stream, source, handle_error, max_message_bytes):
        try:
            if _is_header(entry):
                charset = _charset(_text(entry.strings("msgstr")[0], "latin-1"))
                # Nothing else in the header matters, so a translator's name in another encoding is not an error.
                yield Message("", "", "", (_text(entry.strings("msgstr")[0], charset, "replace"),))
                continue
            message = _message(entry, charset)
        except _FormatError as error:
            if error.line is None:
                raise UnusableInputError("unknown charset", f"{source}: {error}") from None
            handle_error("unreadable message", f"{source}:{error.line}: {error}")
        else:
            yield message


def _entries(stream: IO[bytes], source: str, handle_error: ErrorHandler, max_message_bytes: int) -> Iterator[_Entry]:
    entry = _Entry()

    def mark_bad(number: int, message: str) -> None:
        if not entry.bad:  # report each entry once
            entry.bad = True
            handle_error("unreadable message", f"{source}:{number}: {message}")

    number = 0
    while line := stream.readline(MAX_LINE_BYTES):
        number += 1
        line = (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).strip()
        match = None if line.startswith(b"#") else _KEYWORD.fullmatch(line)
        keyword = match[1].decode() if match and match[1] else ""
        if entry.starts_next_entry(keyword) or (entry.complete and line[:1] in (b"", b"#")):
            if not entry.bad:
                yield entry
            entry = _Entry()
        if line.startswith(b"#~"):
            entry = _Entry()
        elif line.startswith(b"#:"):
            entry.references.append(line[2:])
        elif line.startswith(b"#,"):
            entry.fuzzy |= b"fuzzy" in re.split(rb"[\s,]+", line)
        elif match and keyword:
            entry.fields.append((keyword, [(number, match[2] or b"")]))
            entry.keywords.add(keyword)
        elif match and match[2] and entry.fields:
            entry.fields[-1][1].append((number, match[2]))
        elif line and not line.startswith(b"#"):
            text = quoted(line.decode("utf-8", "replace"))
            mark_bad(number, f"{text} does not belong in a catalogue; check the file with msgfmt -c")
        entry.size += len(line)
        if entry.size > max_message_bytes:
            mark_bad(number, f"a message of more than {max_message_bytes:,} bytes; check the file with msgfmt -c")
            entry.fields, entry.references = [], []
    if entry.fields and not entry.bad:
        yield entry


def _is_header(entry: _Entry) -> bool:
    ids = entry.strings("msgid")
    empty = len(ids) == 1 and all(raw.strip() in (b"", b'""') for _, raw in ids[0])
    return empty and entry.keywords == {"msgid", "msgstr"}


def _message(entry: _Entry, charset: str) -> Message:
    number = entry.fields[0][1][0][0]
    for missing in {"msgid", "msgstr"} - entry.keywords:
        raise _FormatError(number, f"a message without {missing}; check the file with msgfmt -c")
    decoded = [(name, _text(strings, charset)) for name, strings in entry.fields]
    fields = dict(reversed(decoded))  # the first of several counts
    texts = tuple(text for name, text in decoded if name == "msgstr")
    lines = (line.decode(charset, "replace") for line in entry.references)
    names = (
        _LINE_NUMBER.sub("", isolated or word).strip() for line in lines for isolated, word in _REFERENCE.findall(line)
    )
    return Message(
        fields.get("msgctxt", ""),
        fields["msgid"],
        fields.get("msgid_plural", ""),
        texts if any(texts) and not entry.fuzzy else (),
        tuple(dict.fromkeys(filter(None, names))),
    )


def _text(strings: list[tuple[int, bytes]], charset: str, errors: str = "strict") -> str:
    """Decode and join strings in the syntax of C."""
    parts = []
    for number, raw in strings:
        try:
            line = raw.decode(charset, errors)
        except UnicodeDecodeError:
            raise _FormatError(
                number, f"not {charset}, which the header declares; correct the charset in the header, or the text"
            ) from None
        if match := _PLAIN_STRING.fullmatch(line):
            parts.append(match[1])
            continue
        if not _STRINGS.fullmatch(line):
            raise _FormatError(number, f"{quoted(line)} is not a quoted string; check the file with msgfmt -c")
        unescape = _unescape(charset)
        parts += [_ESCAPE.sub(unescape, part) if "\\" in part else part for part in _STRING.findall(line)]
    return "".join(parts)


def _unescape(charset: str) -> Callable[[re.Match[str]], str]:
    def replacement(escape: re.Match[str]) -> str:
        if escape[1] is None:
            return _ESCAPED.get(escape[2], escape[2])
        codes = [int(hexadecimal, 16) if hexadecimal else int(octal, 8) & 255
                 for hexadecimal, octal in _BYTE.findall(escape[1])]  # fmt: skip
        return bytes(codes).decode(charset, "replace")

    return replacement


# MO

_MAGIC = 0x950412DE


def read_mo(
    stream: IO[bytes], source: str, handle_error: ErrorHandler = raise_error, *, max_bytes: int = MAX_MO_BYTES
) -> Iterator[Message]:
    """Read the messages of a compiled catalogue in either byte order."""
    data = stream.read(max_bytes + 1)
    order = next((order for order in "<>" if data[:4] == struct.pack(f"{order}I", _MAGIC)), None)
    if order is None or len(data) < 20:
        raise CorpusError(
            f"{source}: not a compiled catalogue, which starts with 950412de; check the name or compile it again"
        )
    if len(data) > max_bytes:
        raise CorpusError(f"{source}: more than {max_bytes >> 20} MB; pass its .po instead")
    revision, count, ids, texts = struct.unpack_from(f"{order}4I", data, 4)
    if revision >> 16 > 1 or max(ids, texts) + 8 * count > len(data):
        raise CorpusError(
            f"{source}: {count} messages of revision {revision >> 16} do not fit in its {len(data)} bytes; "
            "compile it again"
        )

    def sizes_and_offsets() -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        tables = [struct.iter_unpack(f"{order}2I", data[start : start + 8 * count]) for start in (ids, texts)]
        return zip(*tables, strict=True)

    charset = "utf-8"
    header = next((text for (size, _), text in sizes_and_offsets() if size == 0), None)
    if header is not None:
        raw = data[header[1] : header[1] + header[0]]
        try:
            charset = _charset(raw.decode("latin-1"))
        except _FormatError as error:
            raise UnusableInputError("unknown charset", f"{source}: {error}") from None
        yield Message("", "", "", (raw.decode(charset, "replace"),))
    bytes_left = 4 * len(data)  # strings may share bytes, but a small file must not expand without limit
    for number, ((size, start), (text_size, text_start)) in enumerate(sizes_and_offsets(), 1):
        if size == 0:
            continue
        if max(start + size, text_start + text_size) > len(data):
            handle_error("unreadable message", f"{source}: message {number} is outside the file; compile it again")
            continue
        bytes_left -= size + text_size
        if bytes_left < 0:
            raise CorpusError(f"{source}: messages overlap from number {number} on; compile it again")
        try:
            key = data[start : start + size].decode(charset)
            text = data[text_start : text_start + text_size].decode(charset)
        except UnicodeDecodeError:
            handle_error(
                "unreadable message",
                f"{source}: message {number} is not {charset}, which the header declares; compile it again",
            )
            continue
        message, _, plural = key.partition("\0")
        context, _, name = message.rpartition("\4")
        forms = tuple(text.split("\0"))
        yield Message(context, name, plural, forms if any(forms) else ())
