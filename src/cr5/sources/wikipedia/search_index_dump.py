"""Reader of CirrusSearch dumps: what Wikipedia's search engine stores about every article, including its plain text.

A dump is one file, ``dawiki-20251229-cirrussearch-content.json.gz``, or since 2025 several,
``index_name=dawiki_content/dawiki_content-20260816-00000.json.bz2`` and so on. A page takes two lines of JSON: an
action with the page's id, then the fields of the page in any order.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from cr5.corpus.documents import Document
from cr5.corpus.tables import RecordError, check_unicode
from cr5.errors import CorpusError
from cr5.message_parts import json_value
from cr5.sources.files import ErrorHandler, corpus_errors, lines, open_source
from cr5.sources.wikipedia import wikitext
from cr5.sources.wikipedia.dump_reader import NAMESPACE, PAGES, FileRange, ReadingContext

_ACTION = re.compile(r'\s*+\{\s*+"(index|create|update|delete)"\s*+:\s*+\{')
_ITEM = re.compile(r"Q[1-9][0-9]*+")
_PAGE_ID = re.compile(r"[0-9]{1,18}")


class _Line(NamedTuple):
    number: int
    text: str


class _LinesUntilError:
    """A stream that ends where the file cannot be read any further; ``error`` then says why."""

    def __init__(self, stream: IO[bytes], path: str) -> None:
        self.stream, self.path, self.error = stream, path, ""

    def readline(self, size: int) -> bytes:
        return self._read(self.stream.readline, size)

    def read(self, size: int) -> bytes:
        return self._read(self.stream.read, size)

    def _read(self, read: Callable[[int], bytes], size: int) -> bytes:
        try:
            with corpus_errors(self.path):
                line = read(size)
                if not line and self.path.endswith(".gz") and Path(self.path).stat().st_size == 0:
                    raise EOFError  # gzip accepts a file of zero bytes
                return line
        except CorpusError as error:
            self.error = str(error)
            return b""


def split(path: Path) -> list[FileRange]:
    """One range, the whole file: its compression does not allow more."""
    return [FileRange(str(path))]


def articles(reading: ReadingContext) -> Iterator[tuple[int, Document]]:
    """Yield the articles of a file, each with the number of its record, from 1; see ``DumpReader``.

    Items are looked up for pages whose record names none, and to recognise disambiguation pages; where they cannot be
    looked up, their templates are used. A file that is truncated is reported after its last complete record.
    """
    path, records_done = reading.file_range.path, 0

    def handle_new_error(reason: str, message: str) -> None:
        if records_done >= reading.skip:
            reading.handle_error(reason, message)

    with open_source(path) as stream:
        for number, (action, source) in enumerate(_records(stream, path, handle_new_error), 1):
            document = None
            if number > reading.skip and source and (fields := _fields(action, source, path, reading.handle_error)):
                reading.page_counts[PAGES] += 1
                document = _document(fields, reading)
            records_done = number
            if document:
                yield number, document


def _records(stream: IO[bytes], path: str, handle_error: ErrorHandler) -> Iterator[tuple[_Line, _Line | None]]:
    """Every action with the line after it, or None if that line is lost or if the action takes none.

    An action is recognised by its first characters and never taken for the fields of a page, or the reverse: whatever
    is lost between two actions, no page gets the id of another.
    """
    action: _Line | None = None
    action_lost = False  # whether the missing action before this line has been reported

    def report_missing_fields(action: _Line) -> None:
        handle_error("missing line", f"{path}:{action.number}: the line with the page is missing; download it again")

    readable = _LinesUntilError(stream, path)
    for number, text in enumerate(lines(cast(IO[bytes], readable), path, handle_error), 1):
        if text is not None and (not text or text.isspace()):
            continue
        line = None if text is None else _Line(number, text)
        if line and (match := _ACTION.match(line.text)):
            if action:
                report_missing_fields(action)
                yield action, None
            action, action_lost = line, False
            if match[1] == "delete":
                yield action, None
                action = None
        elif action:
            yield action, line
            action, action_lost = None, line is None
        elif not action_lost:
            if line:
                message = f"{path}:{number}: neither an action nor the page after one; download it again"
                handle_error("stray line", message)
            action_lost = True
    if readable.error:
        handle_error("unreadable file", readable.error)
    elif action:
        report_missing_fields(action)
        yield action, None


def _fields(action: _Line, source: _Line, path: str, handle_error: ErrorHandler) -> dict[str, Any] | None:
    """The fields of a page, with its id as "_id", or None if the record is damaged."""
    line = action
    try:
        page_id = _page_id(action.text)
        line = source
        fields = _parsed(source.text)
        texts = {name: _string(fields, name) for name in ("title", "text")}
        if not texts["title"]:
            raise RecordError("missing title", "the page has no title; download it again")
    except RecordError as error:
        handle_error(error.reason, f"{path}:{line.number}: {error}")
        return None
    return fields | texts | {"_id": page_id}


def _document(fields: dict[str, Any], reading: ReadingContext) -> Document | None:
    """The document of a page, or None if it is not an article; the reason is counted."""
    if fields.get("namespace", 0) != 0:
        reading.page_counts[NAMESPACE] += 1
        return None
    title, item = fields["title"], fields.get("wikibase_item")
    item = item if isinstance(item, str) and _ITEM.fullmatch(item) else ""
    is_ambiguous = reading.find_item is None and _is_disambiguation(fields.get("template"))
    item = reading.item(fields["_id"], title, item, is_ambiguous)
    return reading.document(item, title, fields["text"]) if item else None


def _page_id(action: str) -> int:
    parameters = next(iter(_parsed(action).values()))
    page_id = parameters.get("_id") if isinstance(parameters, dict) else None
    if not _PAGE_ID.fullmatch(str(page_id)):
        raise RecordError("no page id", f"{json_value(page_id)} is not a page id; download it again")
    return int(str(page_id))


def _parsed(line: str) -> dict[str, Any]:
    # Measured: Arrow's JSON parser, restricted to five fields, is slower than parsing all of them into Python objects.
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        message = f"broken JSON, {error.msg.lower().removesuffix(' at')} at column {error.colno}; download it again"
        raise RecordError("broken JSON", message) from None
    except (ValueError, RecursionError):
        message = "broken JSON, nested too deeply or a number too long; download it again"
        raise RecordError("broken JSON", message) from None
    if not isinstance(value, dict):
        raise RecordError("broken JSON", f"{json_value(value)} is not a JSON object; download it again")
    return value


def _string(fields: dict[str, Any], name: str) -> str:
    """A field, or "" if there is none."""
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RecordError("wrong type", f"the {name} is not a string but {json_value(value)}; download it again")
    return check_unicode(value, f"the {name}")


def _is_disambiguation(templates: object) -> bool:
    """Whether one of the templates, such as "Skabelon:Flertydig", marks a disambiguation page."""
    if not isinstance(templates, list):
        return False
    names = (name[name.find(":") + 1 :] for name in templates if isinstance(name, str))
    return wikitext.is_disambiguation("".join(f"{{{{{name}}}}}" for name in names))
