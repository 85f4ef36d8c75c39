"""A pages-articles dump: the pages of a wiki in XML, as MediaWiki writes them, and the articles among them.

No XML parser is at work: every < and > within a page's text is escaped, so a page is what lies
between its tags, found as fast as memory is read. Of a page that is no article, only the head is looked at.

A multistream file is many bz2 streams in a row: a head, a hundred pages each, an end. Any of them can
be unpacked without the others, so that several workers share a file, and a damaged one costs no other.
"""

import bz2
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Set
from pathlib import Path
from typing import IO, NamedTuple, cast

from cr5.corpus.documents import Document
from cr5.errors import CorpusError
from cr5.sources.files import ErrorHandler, opened, raise_error, reading
from cr5.sources.wikipedia.wiki import DISAMBIGUATION, EMPTY, NAMESPACE, NO_ITEM, PAGES, REDIRECT, Piece, Tally, Wiki
from cr5.sources.wikipedia.wikitext import HIDDEN, is_disambiguation, is_redirect, plain_text

LARGEST_PAGE = 64 << 20

_READ = 1 << 20  # bytes of text at a time
_READ_PACKED = 1 << 16  # and of bz2
_UNPACKED = 64 << 20  # from one call at most; no block has more, so none is handed on before its checksum is right
_LARGEST_HEAD = 1 << 20

_STREAM = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")  # how a stream begins; the second has nothing in it
_SHORTEST = 10  # bytes of such a beginning
_STREAM_END = 0x177245385090  # before its checksum, at any bit of a byte

_BEGIN, _CLOSE, _END = b"<page>", b"</page>", b"</mediawiki>"
_TITLE = re.compile(rb"<title[^<>]*+>([^<]++)</title>")
_NAMESPACE = re.compile(rb"<ns>\s*+(-?[0-9]{1,9})\s*+</ns>")
_ID = re.compile(rb"<id>\s*+([0-9]{1,18})\s*+</id>")
_REDIRECT = re.compile(rb"<redirect[\s/>]")
_MODEL = re.compile(rb"<model>([^<]*+)</model>")
_TEXT = re.compile(rb"<text(?:[\s/][^<>]*+)?+>")
_NAMESPACE_NAME = re.compile(r"""<namespace\s[^<>]*?\bkey=["'](?:6|14)["'][^<>]*+>([^<]*+)</namespace>""")
_ENTITY = re.compile(r"&(?:#([0-9]{1,7}|x[0-9a-fA-F]{1,6})|(lt|gt|quot|apos|amp));")
_MEANING = {"lt": "<", "gt": ">", "quot": '"', "apos": "'", "amp": "&"}


class Page(NamedTuple):
    """A page as its last revision left it: its text is in the markup that ``model`` names."""

    id: int
    namespace: int
    title: str
    redirect: bool
    model: str
    text: str


def pieces(path: Path, size: int = 64 << 20) -> list[Piece]:
    """Cut a multistream file into pieces of about ``size`` bytes; any other is one."""
    if not _is_multistream(path):
        return [Piece(str(path))]
    begins = range(0, path.stat().st_size, size)
    return [Piece(str(path), begin, begin + size) for begin in begins[:-1]] + [Piece(str(path), begins[-1])]


def hidden_names(path: Path) -> frozenset[str]:
    """``HIDDEN``, and what this wiki calls files and categories, which the file's head tells."""
    head = b""
    with opened(path) as stream:
        while b"</siteinfo>" not in head and len(head) < _LARGEST_HEAD:
            try:
                part = cast(io.BufferedIOBase, stream).read1(_READ_PACKED)
            except (EOFError, OSError, zlib.error, lzma.LZMAError):
                break  # whoever reads the pages will tell
            if not part:
                break
            head += part
    found = _NAMESPACE_NAME.findall(head.partition(b"</siteinfo>")[0].decode(errors="replace"))
    return HIDDEN | {_unescape(name).replace("_", " ").strip().casefold() for name in found}


def read_pages(piece: Piece, *, handle_error: ErrorHandler = raise_error) -> Iterator[Page]:
    """Every page of a piece, of any namespace."""
    for raw in _raw_pages(piece, handle_error):
        if (head := _head(raw, piece, handle_error)) and (content := _content(raw, head.title, piece, handle_error)):
            yield Page(*head, *content)


def articles(
    piece: Piece,
    wiki: Wiki,
    find: Callable[[int, str], tuple[str, bool] | None],
    *,
    tally: Tally,
    skip: int = 0,
    hidden: Set[str] | None = None,
    handle_error: ErrorHandler = raise_error,
) -> Iterator[tuple[int, Document]]:
    """The articles of a piece, each with its page's number in the piece, from 1.

    ``find`` tells a page's item of Wikidata by its id and title, and whether that page is a
    disambiguation. The first ``skip`` pages are passed over with all that is wrong with them: whoever
    had the article of that number before goes on behind it. ``hidden`` is what ``hidden_names`` gives.
    """
    number = 0

    def complain_of_news(reason: str, message: str) -> None:
        if number >= skip:
            handle_error(reason, message)

    names = hidden_names(Path(piece.path)) if hidden is None else hidden
    for number, raw in enumerate(_raw_pages(piece, complain_of_news), 1):
        if number <= skip:
            continue
        tally[PAGES] += 1
        if not (head := _head(raw, piece, handle_error)):
            continue
        if head.namespace != 0:
            tally[NAMESPACE] += 1
            continue
        if head.redirect:
            tally[REDIRECT] += 1
            continue
        if not (content := _content(raw, head.title, piece, handle_error)):
            continue
        if is_redirect(content.text):
            tally[REDIRECT] += 1
            continue
        found = find(head.id, head.title)
        if (found and found[1]) or is_disambiguation(content.text):
            tally[DISAMBIGUATION] += 1
        elif not found:
            tally[NO_ITEM] += 1
        elif content.model == "wikitext" and (text := plain_text(content.text, names)):
            yield number, wiki.document(found[0], head.title, text)
        else:
            tally[EMPTY] += 1


# Pages


class _Head(NamedTuple):
    id: int
    namespace: int
    title: str
    redirect: bool


class _Content(NamedTuple):
    model: str
    text: str


def _head(raw: bytes, piece: Piece, handle_error: ErrorHandler) -> _Head | None:
    revision = raw.find(b"<revision>")
    limit = len(raw) if revision < 0 else revision
    title, namespace, number = (pattern.search(raw, 0, limit) for pattern in (_TITLE, _NAMESPACE, _ID))
    if not (title and namespace and number):
        named = f"the page {_title(raw)!r}" if title else "a page"
        missing = "title" if not title else "namespace" if not namespace else "id"
        handle_error("incomplete page", f"{piece.path}: {named} has no {missing}; download it again")
        return None
    if (name := _decoded(title[1], _title(raw), piece, handle_error)) is None:
        return None
    return _Head(int(number[1]), int(namespace[1]), name, _REDIRECT.search(raw, 0, limit) is not None)


def _content(raw: bytes, title: str, piece: Piece, handle_error: ErrorHandler) -> _Content | None:
    """The last revision's; without one, or where it is deleted, there is no text."""
    revision = max(raw.rfind(b"<revision>"), 0)
    tag = _TEXT.search(raw, revision)
    model = _MODEL.search(raw, revision, tag.start()) if tag else None
    end = -1 if tag is None or tag[0].endswith(b"/>") else raw.find(b"</text>", tag.end())
    text = _decoded(raw[tag.end() : end], title, piece, handle_error) if tag and end >= 0 else ""
    return None if text is None else _Content(model[1].decode(errors="replace") if model else "wikitext", text)


def _decoded(content: bytes, title: str, piece: Piece, handle_error: ErrorHandler) -> str | None:
    try:
        return _unescape(content.decode())
    except UnicodeDecodeError as error:
        byte = f"byte 0x{content[error.start]:02x}"
        handle_error("invalid UTF-8", f"{piece.path}: {byte} in the page {title!r} is no UTF-8; download it again")
        return None


def _title(raw: bytes) -> str:
    """A page's title for messages, "" where there is none."""
    found = _TITLE.search(raw, 0, 4096)
    return _unescape(found[1].decode(errors="replace")) if found else ""


def _unescape(text: str) -> str:
    if "&#" in text:  # rare: wikitext's own &#160; is written &amp;#160;
        return _ENTITY.sub(_meaning, text)
    if "&" in text:
        for name, sign in _MEANING.items():  # &amp; last, or what it protects would be taken for another
            text = text.replace(f"&{name};", sign)
    return text


def _meaning(match: re.Match[str]) -> str:
    if match[2]:
        return _MEANING[match[2]]
    code = int(match[1][1:], 16) if match[1][0] == "x" else int(match[1])
    return chr(code) if 0 < code < 0xD800 or 0xE000 <= code <= 0x10FFFF else "\ufffd"


def _raw_pages(piece: Piece, handle_error: ErrorHandler) -> Iterator[bytes]:
    """Every page from tag to tag."""
    buffer = last = b""
    is_dump, is_over, too_large = piece.begin > 0, False, False
    for part in _parts(piece, handle_error):
        if part is None:
            buffer, is_dump, is_over, too_large = b"", True, True, False
            continue
        searched = max(len(buffer) - len(_CLOSE), 0)  # a tag may be cut in two
        buffer += part
        is_dump = is_dump or b"<mediawiki" in buffer
        if not is_dump and len(buffer) > _LARGEST_HEAD:
            break
        here = 0
        while is_dump:
            begin = 0 if too_large else buffer.find(_BEGIN, here)
            if begin < 0:
                is_over = is_over or buffer.find(_END, here) >= 0
                here = max(here, len(buffer) - len(_END))
                break
            end, is_over = buffer.find(_CLOSE, max(begin, searched)), False
            if not too_large and (len(buffer) if end < 0 else end) - begin > LARGEST_PAGE:
                too_large, last = True, buffer[begin : begin + 4096]
                size = f"more than {LARGEST_PAGE >> 20} MB"
                handle_error("page too large", f"{piece.path}: the page {_title(last)!r} has {size}; download it again")
            if end < 0:
                here = max(begin, len(buffer) - len(_CLOSE)) if too_large else begin
                break
            here = end + len(_CLOSE)
            if too_large:
                too_large = False
            else:
                last = buffer[begin:here]
                yield last
        buffer = buffer[here:]
    if not is_dump and buffer:
        raise CorpusError(f"{piece.path}: not a pages-articles dump, there is no <mediawiki> in it; check the name")
    if not is_over:
        handle_error("cut short", f"{piece.path}: cut short {_whereabouts(buffer, last)}; download it again")


def _whereabouts(unfinished: bytes, last: bytes) -> str:
    if unfinished.startswith(_BEGIN) and (title := _title(unfinished)):
        return f"within the page {title!r}"
    return f"behind the page {_title(last)!r}" if last else "before the first page"


# Files


def _parts(piece: Piece, handle_error: ErrorHandler) -> Iterator[bytes | None]:
    """The text of a piece as it comes, and None where some is missing, which has been complained of.

    A file that is cut short just ends; its text shows that.
    """
    if Path(piece.path).suffix.lower() == ".bz2":
        with reading(piece.path), Path(piece.path).open("rb") as file:
            yield from _streams(file, piece, handle_error)
        return
    with opened(piece.path) as stream:
        try:
            while part := cast(io.BufferedIOBase, stream).read1(_READ):
                yield part
        except EOFError:
            return


def _streams(file: IO[bytes], piece: Piece, handle_error: ErrorHandler) -> Iterator[bytes | None]:
    """What the bz2 streams hold that begin in a piece."""
    size = file.seek(0, io.SEEK_END)
    end = size if piece.end is None else min(piece.end, size)
    at = _next_stream(file, piece.begin, size) if piece.begin else 0
    if at == 0 < size and not _begins(file, 0) and _next_stream(file, 0, size) == size:
        raise CorpusError(f"{piece.path}: not a pages-articles dump, nor any bz2 file; check the name")
    if at == size > 0:
        yield _END  # the streams before tell what is wrong with it
    while at < end:
        file.seek(at)
        stream = bz2.BZ2Decompressor()
        while not stream.eof:
            packed = file.read(_READ_PACKED) if stream.needs_input else b""
            if stream.needs_input and not packed:
                return
            try:
                part = stream.decompress(packed, _UNPACKED)
            except OSError:
                break
            yield part
        following = file.tell() - len(stream.unused_data)
        if stream.eof and (size - following < _SHORTEST or _begins(file, following)):
            at = following
            continue
        damaged = following if stream.eof else at
        handle_error("damaged stream", f"{piece.path}: damaged in the bz2 stream at byte {damaged}; download it again")
        yield None
        at = _next_stream(file, damaged + 1, size)
    if size - at >= _SHORTEST:
        yield _END  # of what is to be read here


def _next_stream(file: IO[bytes], at: int, size: int) -> int:
    """Where a stream begins at or behind a place, or the size of the file.

    What looks like a beginning may be chance. A true one is behind another's end, or can be unpacked:
    either will do, so that a damaged stream is not overlooked, nor one behind a damaged end.
    """
    while True:
        file.seek(at)
        window = file.read(_READ)
        for match in _STREAM.finditer(window):
            place = at + match.start()
            if _is_behind_an_end(file, place) or _unpacks(file, place):
                return place
        if at + len(window) >= size:
            return size
        at += len(window) - _SHORTEST + 1


def _begins(file: IO[bytes], at: int) -> bool:
    file.seek(at)
    return _STREAM.match(file.read(_SHORTEST)) is not None


def _is_behind_an_end(file: IO[bytes], at: int) -> bool:
    file.seek(max(at - 11, 0))
    bits = int.from_bytes(file.read(min(at, 11)), "big")
    return any(bits >> (32 + unused) & (2**48 - 1) == _STREAM_END for unused in range(8))


def _unpacks(file: IO[bytes], at: int) -> bool:
    """Whether a first block can be unpacked here."""
    file.seek(at)
    stream = bz2.BZ2Decompressor()
    try:
        while not stream.eof and (packed := file.read(_READ_PACKED)):
            if stream.decompress(packed, 1):
                return True
    except OSError:
        return False
    return stream.eof


def _is_multistream(path: Path) -> bool:
    """Whether the first stream is the head and no more, and another follows it.

    Packing in parallel makes many streams as well, but cuts them within pages.
    """
    if path.suffix.lower() != ".bz2":
        return False
    head, stream = b"", bz2.BZ2Decompressor()
    with reading(str(path)), path.open("rb") as file:
        while not stream.eof and len(head) < _LARGEST_HEAD and (packed := file.read(_READ_PACKED)):
            try:
                head += stream.decompress(packed, _LARGEST_HEAD)
            except OSError:
                return False
        is_head = stream.eof and head.rstrip().endswith(b"</siteinfo>")
        return is_head and _begins(file, file.tell() - len(stream.unused_data))
