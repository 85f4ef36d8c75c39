"""Reader of XML dumps (pages-articles): the pages of a wiki as MediaWiki exports them, and the articles among them.

No XML parser is needed: every < and > within a page's text is escaped, so that a page is all that is between its tags,
and searching for these is as fast as reading memory. Of a page that is not an article, only its header is looked at.

A multistream file is a sequence of bz2 streams: the header, groups of a hundred pages, the end. Each can be
decompressed without the others, so several workers can share a file, and a damaged stream costs no other.
"""

import bz2
import io
import lzma
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

from cr5.corpus.documents import Document
from cr5.errors import CorpusError
from cr5.sources.files import ErrorHandler, corpus_errors, open_source
from cr5.sources.wikipedia.dump_reader import NAMESPACE, PAGES, REDIRECT, FileRange, ReadingContext
from cr5.sources.wikipedia.wikitext import HIDDEN_PREFIXES, is_disambiguation, is_redirect, plain_text

RANGE_BYTES = 64 << 20
MAX_PAGE_BYTES = 64 << 20
TEXT_CHUNK_BYTES = 1 << 20
PACKED_CHUNK_BYTES = 1 << 16  # compressed bytes that are unpacked at a time
_MAX_BLOCK_BYTES = 64 << 20  # no bz2 block is larger, so none is returned before its checksum was verified
_MAX_HEADER_BYTES = 1 << 20

_STREAM_START = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")  # the second alternative is an empty stream
_STREAM_START_BYTES = 10
_STREAM_END = 0x177245385090  # before the stream's checksum, at any bit of a byte

_PAGE_BEGIN, _PAGE_END, _DUMP_END = b"<page>", b"</page>", b"</mediawiki>"
_TITLE = re.compile(rb"<title[^<>]*+>([^<]++)</title>")
_NAMESPACE = re.compile(rb"<ns>\s*+(-?[0-9]{1,9})\s*+</ns>")
_ID = re.compile(rb"<id>\s*+([0-9]{1,18})\s*+</id>")
_REDIRECT = re.compile(rb"<redirect[\s/>]")
_MODEL = re.compile(rb"<model>([^<]*+)</model>")
_TEXT = re.compile(rb"<text(?:[\s/][^<>]*+)?+>")
_NAMESPACE_NAME = re.compile(r"""<namespace\s[^<>]*?\bkey=["'](?:6|14)["'][^<>]*+>([^<]*+)</namespace>""")
_ENTITY = re.compile(r"&(?:#([0-9]{1,7}|x[0-9a-fA-F]{1,6})|(lt|gt|quot|apos|amp));")
_ENTITIES = {"lt": "<", "gt": ">", "quot": '"', "apos": "'", "amp": "&"}


def split(path: Path, range_bytes: int = RANGE_BYTES) -> list[FileRange]:
    """Split a multistream file into ranges of ``range_bytes``; any other file is one range.

    A range holds the streams that begin in it.
    """
    if not _is_multistream(path):
        return [FileRange(str(path))]
    begins = range(0, path.stat().st_size, range_bytes)
    ranges = [FileRange(str(path), begin, begin + range_bytes) for begin in begins[:-1]]
    return [*ranges, FileRange(str(path), begins[-1])]


def read_hidden_prefixes(path: Path) -> frozenset[str]:
    """Return ``HIDDEN_PREFIXES`` and this wiki's names of the file and category namespaces, from the file's header."""
    header = b""
    with open_source(path) as stream:
        while b"</siteinfo>" not in header and len(header) < _MAX_HEADER_BYTES:
            try:
                part = cast(io.BufferedIOBase, stream).read1(PACKED_CHUNK_BYTES)
            except (EOFError, OSError, zlib.error, lzma.LZMAError):
                break  # reported when the pages are read
            if not part:
                break
            header += part
    names = _NAMESPACE_NAME.findall(header.partition(b"</siteinfo>")[0].decode(errors="replace"))
    return HIDDEN_PREFIXES | {_unescape(name).replace("_", " ").strip().casefold() for name in names}


def articles(reading: ReadingContext) -> Iterator[tuple[int, Document]]:
    """Yield the articles of a range, each with the number of its page in the range, from 1; see ``DumpReader``."""
    file_range, counts, number = reading.file_range, reading.page_counts, 0

    def handle_new_error(reason: str, message: str) -> None:
        if number >= reading.skip:
            reading.handle_error(reason, message)

    prefixes = read_hidden_prefixes(Path(file_range.path))
    for number, raw in enumerate(_raw_pages(file_range, handle_new_error), 1):
        if number <= reading.skip:
            continue
        counts[PAGES] += 1
        if not (header := _page_header(raw, file_range, reading.handle_error)):
            continue
        if header.namespace != 0:
            counts[NAMESPACE] += 1
            continue
        if header.redirect:
            counts[REDIRECT] += 1
            continue
        if not (content := _page_content(raw, header.title, file_range, reading.handle_error)):
            continue
        if is_redirect(content.text):
            counts[REDIRECT] += 1
            continue
        item = reading.item(header.id, header.title, is_disambiguation=is_disambiguation(content.text))
        if item:
            text = plain_text(content.text, prefixes) if content.model == "wikitext" else ""
            if document := reading.document(item, header.title, text):
                yield number, document


# Pages


class _Header(NamedTuple):
    id: int
    namespace: int
    title: str
    redirect: bool


class _Content(NamedTuple):
    model: str
    text: str


def _page_header(raw: bytes, file_range: FileRange, handle_error: ErrorHandler) -> _Header | None:
    revision = raw.find(b"<revision>")
    limit = len(raw) if revision < 0 else revision
    title, namespace, page_id = (pattern.search(raw, 0, limit) for pattern in (_TITLE, _NAMESPACE, _ID))
    if not (title and namespace and page_id):
        named = f"the page {_title(raw)!r}" if title else "a page"
        missing = "title" if not title else "namespace" if not namespace else "id"
        handle_error("incomplete page", f"{file_range.path}: {named} has no {missing}; download it again")
        return None
    if (name := _decoded(title[1], _title(raw), file_range, handle_error)) is None:
        return None
    return _Header(int(page_id[1]), int(namespace[1]), name, _REDIRECT.search(raw, 0, limit) is not None)


def _page_content(raw: bytes, title: str, file_range: FileRange, handle_error: ErrorHandler) -> _Content | None:
    """The text of the last revision; it is empty if there is none or if it was deleted."""
    revision = max(raw.rfind(b"<revision>"), 0)
    tag = _TEXT.search(raw, revision)
    model = _MODEL.search(raw, revision, tag.start()) if tag else None
    end = -1 if tag is None or tag[0].endswith(b"/>") else raw.find(b"</text>", tag.end())
    text = _decoded(raw[tag.end() : end], title, file_range, handle_error) if tag and end >= 0 else ""
    return None if text is None else _Content(model[1].decode(errors="replace") if model else "wikitext", text)


def _decoded(content: bytes, title: str, file_range: FileRange, handle_error: ErrorHandler) -> str | None:
    try:
        return _unescape(content.decode())
    except UnicodeDecodeError as error:
        byte = f"byte 0x{content[error.start]:02x}"
        handle_error(
            "invalid UTF-8", f"{file_range.path}: {byte} in the page {title!r} is not UTF-8; download it again"
        )
        return None


def _title(raw: bytes) -> str:
    """The title of a page for messages, or "" if it has none."""
    match = _TITLE.search(raw, 0, 4096)
    return _unescape(match[1].decode(errors="replace")) if match else ""


def _unescape(text: str) -> str:
    if "&#" in text:  # rare: &#160; in wikitext is written &amp;#160;
        return _ENTITY.sub(_character, text)
    if "&" in text:
        for name, character in _ENTITIES.items():  # &amp; last, because &amp;lt; means the text "&lt;"
            text = text.replace(f"&{name};", character)
    return text


def _character(match: re.Match[str]) -> str:
    if match[2]:
        return _ENTITIES[match[2]]
    code = int(match[1][1:], 16) if match[1][0] == "x" else int(match[1])
    return chr(code) if 0 < code < 0xD800 or 0xE000 <= code <= 0x10FFFF else "\ufffd"


def _raw_pages(file_range: FileRange, handle_error: ErrorHandler) -> Iterator[bytes]:
    """Every page from its opening to its closing tag."""
    buffer = last = b""
    is_dump, at_end, too_large = file_range.begin > 0, False, False
    for part in _text_parts(file_range, handle_error):
        if part is None:
            buffer, is_dump, at_end, too_large = b"", True, True, False
            continue
        searched = max(len(buffer) - len(_PAGE_END), 0)  # a tag may be cut in two
        buffer += part
        is_dump = is_dump or b"<mediawiki" in buffer
        if not is_dump and len(buffer) > _MAX_HEADER_BYTES:
            break
        position = 0
        while is_dump:
            begin = 0 if too_large else buffer.find(_PAGE_BEGIN, position)
            if begin < 0:
                at_end = at_end or buffer.find(_DUMP_END, position) >= 0
                position = max(position, len(buffer) - len(_DUMP_END))
                break
            end, at_end = buffer.find(_PAGE_END, max(begin, searched)), False
            if not too_large and (len(buffer) if end < 0 else end) - begin > MAX_PAGE_BYTES:
                too_large, last = True, buffer[begin : begin + 4096]
                size = f"more than {MAX_PAGE_BYTES >> 20} MB"
                message = f"{file_range.path}: the page {_title(last)!r} has {size}; download it again"
                handle_error("page too large", message)
            if end < 0:
                position = max(begin, len(buffer) - len(_PAGE_END)) if too_large else begin
                break
            position = end + len(_PAGE_END)
            if too_large:
                too_large = False
            else:
                last = buffer[begin:position]
                yield last
        buffer = buffer[position:]
    if not is_dump and buffer:
        raise CorpusError(
            f"{file_range.path}: not a pages-articles dump, because it contains no <mediawiki>; check the name"
        )
    if not at_end:
        handle_error("truncated", f"{file_range.path}: truncated {_cut_place(buffer, last)}; download it again")


def _cut_place(unfinished: bytes, last: bytes) -> str:
    if unfinished.startswith(_PAGE_BEGIN) and (title := _title(unfinished)):
        return f"within the page {title!r}"
    return f"after the page {_title(last)!r}" if last else "before the first page"


# Files


def _text_parts(file_range: FileRange, handle_error: ErrorHandler) -> Iterator[bytes | None]:
    """The text of a range in parts, and None where some is missing, which has been reported.

    A file that is truncated just ends; ``_raw_pages`` sees it by the text.
    """
    if Path(file_range.path).suffix.lower() == ".bz2":
        with corpus_errors(file_range.path), Path(file_range.path).open("rb") as file:
            yield from _decompressed(file, file_range, handle_error)
        return
    with open_source(file_range.path) as stream:
        try:
            while part := cast(io.BufferedIOBase, stream).read1(TEXT_CHUNK_BYTES):
                yield part
        except EOFError:
            return


def _decompressed(file: IO[bytes], file_range: FileRange, handle_error: ErrorHandler) -> Iterator[bytes | None]:
    """The text of the bz2 streams that begin in a range."""
    size = file.seek(0, io.SEEK_END)
    end = size if file_range.end is None else min(file_range.end, size)
    position = _next_stream(file, file_range.begin, size) if file_range.begin else 0
    if position == 0 < size and not _is_stream_start(file, 0) and _next_stream(file, 0, size) == size:
        raise CorpusError(f"{file_range.path}: neither a pages-articles dump nor any bz2 file; check the name")
    if position == size > 0:
        yield _DUMP_END  # no stream begins here; damage before it is reported with the range before
    while position < end:
        file.seek(position)
        stream = bz2.BZ2Decompressor()
        while not stream.eof:
            packed = file.read(PACKED_CHUNK_BYTES) if stream.needs_input else b""
            if stream.needs_input and not packed:
                return
            try:
                part = stream.decompress(packed, _MAX_BLOCK_BYTES)
            except OSError:
                break
            yield part
        following = file.tell() - len(stream.unused_data)
        if stream.eof and (size - following < _STREAM_START_BYTES or _is_stream_start(file, following)):
            position = following
            continue
        damaged = following if stream.eof else position
        message = f"{file_range.path}: damaged in the bz2 stream at byte {damaged}; download it again"
        handle_error("damaged stream", message)
        yield None
        position = _next_stream(file, damaged + 1, size)
    if size - position >= _STREAM_START_BYTES:
        yield _DUMP_END  # the end of this range


def _next_stream(file: IO[bytes], position: int, size: int) -> int:
    """The position of the next stream at or after ``position``, or the size of the file.

    The bytes of a stream's start may occur by chance. A true start follows the end of another stream, or can be
    decompressed. Either is enough, so that neither a damaged stream nor one after a damaged end is overlooked.
    """
    while True:
        file.seek(position)
        window = file.read(TEXT_CHUNK_BYTES)
        for match in _STREAM_START.finditer(window):
            candidate = position + match.start()
            if _follows_stream_end(file, candidate) or _can_decompress(file, candidate):
                return candidate
        if position + len(window) >= size:
            return size
        position += len(window) - _STREAM_START_BYTES + 1


def _is_stream_start(file: IO[bytes], position: int) -> bool:
    file.seek(position)
    return _STREAM_START.match(file.read(_STREAM_START_BYTES)) is not None


def _follows_stream_end(file: IO[bytes], position: int) -> bool:
    file.seek(max(position - 11, 0))
    bits = int.from_bytes(file.read(min(position, 11)), "big")
    return any(bits >> (32 + unused) & (2**48 - 1) == _STREAM_END for unused in range(8))


def _can_decompress(file: IO[bytes], position: int) -> bool:
    """Whether a first block can be decompressed from here."""
    file.seek(position)
    stream = bz2.BZ2Decompressor()
    try:
        while not stream.eof and (packed := file.read(PACKED_CHUNK_BYTES)):
            if stream.decompress(packed, 1):
                return True
    except OSError:
        return False
    return stream.eof


def _is_multistream(path: Path) -> bool:
    """Whether the first stream contains exactly the header, and another stream follows it.

    Parallel compressors also write many streams, but these begin in the middle of pages.
    """
    if path.suffix.lower() != ".bz2":
        return False
    header, stream = b"", bz2.BZ2Decompressor()
    with corpus_errors(str(path)), path.open("rb") as file:
        while not stream.eof and len(header) < _MAX_HEADER_BYTES and (packed := file.read(PACKED_CHUNK_BYTES)):
            try:
                header += stream.decompress(packed, _MAX_HEADER_BYTES)
            except OSError:
                return False
        is_header = stream.eof and header.rstrip().endswith(b"</siteinfo>")
        return is_header and _is_stream_start(file, file.tell() - len(stream.unused_data))
