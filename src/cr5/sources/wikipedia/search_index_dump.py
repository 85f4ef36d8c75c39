"""A CirrusSearch dump: what Wikipedia's search engine knows of every article, its plain text among it.

Either one file, ``dawiki-20251229-cirrussearch-content.json.gz``, or since 2025 several,
``index_name=dawiki_content/dawiki_content-20260816-00000.json.bz2`` and so on. A page takes two
lines of JSON: an action with its number, then its fields in any order.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from cr5.corpus.documents import Document
from cr5.errors import CorpusError
from cr5.sources.files import ErrorHandler, lines, opened, raise_error, reading
from cr5.sources.wikipedia import wikitext
from cr5.sources.wikipedia.wiki import DISAMBIGUATION, EMPTY, NAMESPACE, NO_ITEM, PAGES, Piece, Tally, Wiki
from cr5.sources.wikipedia.wikidata_items import Find

_ACTION = re.compile(r'\s*+\{\s*+"(index|create|update|delete)"\s*+:\s*+\{')
_ITEM = re.compile(r"Q[1-9][0-9]*+")
_PAGE = re.compile(r"[0-9]{1,18}")


class _Line(NamedTuple):
    number: int
    text: str


class _FaultError(Exception):
    """A reason, and what to say behind the place."""


class _Stream:
    """Lines up to where a file cannot be read any further; ``fault`` says why."""

    def __init__(self, stream: IO[bytes], path: str) -> None:
        self.stream, self.path, self.fault = stream, path, ""

    def readline(self, size: int) -> bytes:
        try:
            with reading(self.path):
                line = self.stream.readline(size)
                if not line and self.path.endswith(".gz") and Path(self.path).stat().st_size == 0:
                    raise EOFError  # gzip takes no bytes at all for a file of nothing
                return line
        except CorpusError as error:
            self.fault = str(error)
            return b""


def pieces(path: Path) -> list[Piece]:
    """The whole file: compressed as they are, none can be split."""
    return [Piece(str(path))]


def articles(
    piece: Piece,
    wiki: Wiki,
    find: Find | None = None,
    *,
    tally: Tally,
    skip: int = 0,
    handle_error: ErrorHandler = raise_error,
) -> Iterator[tuple[int, Document]]:
    """The articles of a file, each with the number of its record, from 1.

    ``find`` names the item of a page that does not do so itself, and tells disambiguations; without
    it their templates do. ``skip`` passes over so many records. When an article comes out, ``tally``
    and ``handle_error`` have heard of all records up to it, and of none behind it. A file that is cut
    short is complained of, behind its last whole record.
    """
    done = 0

    def complain_once(reason: str, message: str) -> None:
        if done >= skip:
            handle_error(reason, message)

    with opened(piece.path) as stream:
        for number, (action, source) in enumerate(_records(stream, piece.path, complain_once), 1):
            if number > skip and source and (fields := _fields(action, source, piece.path, handle_error)):
                tally[PAGES] += 1
                document = _document(fields, wiki, find, tally)
            else:
                document = None
            done = number
            if document:
                yield number, document


def _records(stream: IO[bytes], path: str, handle_error: ErrorHandler) -> Iterator[tuple[_Line, _Line | None]]:
    """Every action with the line behind it, or None where that is lost or not called for.

    An action is told by its first signs and never taken for a page's line, nor the other way round:
    whatever is lost between two actions, no page gets another's number.
    """
    action: _Line | None = None
    lost = False  # whether it is known that there is no action before this line

    def orphan(action: _Line) -> None:
        handle_error("missing line", f"{path}:{action.number}: the page has no line behind this; download it again")

    readable = _Stream(stream, path)
    for number, text in enumerate(lines(cast(IO[bytes], readable), path, handle_error), 1):
        if text is not None and (not text or text.isspace()):
            continue
        line = None if text is None else _Line(number, text)
        if line and (found := _ACTION.match(line.text)):
            if action:
                orphan(action)
                yield action, None
            action, lost = line, False
            if found[1] == "delete":
                yield action, None
                action = None
        elif action:
            yield action, line
            action, lost = None, line is None
        elif not lost:
            if line:
                message = f"{path}:{number}: neither an action nor the line behind one; download it again"
                handle_error("stray line", message)
            lost = True
    if readable.fault:
        handle_error("unreadable file", readable.fault)
    elif action:
        orphan(action)
        yield action, None


def _fields(action: _Line, source: _Line, path: str, handle_error: ErrorHandler) -> dict[str, Any] | None:
    """What is known of a page, its number among it as "_id", or None where it is broken."""
    here = action
    try:
        page = _page(action.text)
        here = source
        fields = _parsed(source.text)
        texts = {name: _string(fields, name) for name in ("title", "text")}
        if not texts["title"]:
            raise _FaultError("missing title", "the page has no title; download it again")
    except _FaultError as error:
        reason, words = error.args
        handle_error(reason, f"{path}:{here.number}: {words}")
        return None
    return fields | texts | {"_id": page}


def _document(fields: dict[str, Any], wiki: Wiki, find: Find | None, tally: Tally) -> Document | None:
    """A page's document, or None where it is no article; the reason is counted."""
    title, text, own = fields["title"], fields["text"], fields.get("wikibase_item")
    if find is None:
        item, ambiguous = "", _is_disambiguation(fields.get("template"))
    else:
        item, ambiguous = find(fields["_id"], title) or ("", False)
    if isinstance(own, str) and _ITEM.fullmatch(own):
        item = own
    if fields.get("namespace", 0) != 0:
        tally[NAMESPACE] += 1
    elif ambiguous:
        tally[DISAMBIGUATION] += 1
    elif not item:
        tally[NO_ITEM] += 1
    elif not text or text.isspace():
        tally[EMPTY] += 1
    else:
        return wiki.document(item, title, text)
    return None


def _page(action: str) -> int:
    about = next(iter(_parsed(action).values()))
    number = about.get("_id") if isinstance(about, dict) else None
    if not _PAGE.fullmatch(str(number)):
        raise _FaultError("no page id", f"{_shown(number)} is no page id; download it again")
    return int(str(number))


def _parsed(line: str) -> dict[str, Any]:
    # Measured: Arrow's parser, told to take five of the fields, is slower than making Python's objects of all.
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        words = f"broken JSON, {error.msg.lower().removesuffix(' at')} at column {error.colno}; download it again"
        raise _FaultError("broken JSON", words) from None
    except (ValueError, RecursionError):
        words = "broken JSON, nested too deeply or a number too long; download it again"
        raise _FaultError("broken JSON", words) from None
    if not isinstance(found, dict):
        raise _FaultError("broken JSON", f"{_shown(found)} is no JSON object; download it again")
    return found


def _string(fields: dict[str, Any], name: str) -> str:
    """A field, "" where there is none."""
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _FaultError("wrong type", f"the {name} is no string but {_shown(value)}; download it again")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        code = f"\\u{ord(value[error.start]):04x}"
        raise _FaultError("lone surrogate", f"the {name} holds half a character, {code}; remove it") from None
    return value


def _is_disambiguation(templates: object) -> bool:
    """By names such as "Skabelon:Flertydig"."""
    if not isinstance(templates, list):
        return False
    names = (name[name.find(":") + 1 :] for name in templates if isinstance(name, str))
    return wikitext.is_disambiguation("".join(f"{{{{{name}}}}}" for name in names))


def _shown(value: object) -> str:
    """A value in a message, however large it is."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    written = json.dumps(value)
    return written if len(written) <= 40 else f"{written[:37]}..."
