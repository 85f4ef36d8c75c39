"""Texts in Windows-1252, where that is evident, as UTF-8; other encodings are in ``storage.text_encodings``."""

import codecs
import csv
import re
from collections.abc import Callable, Collection, Iterator
from typing import IO

from cr5.corpus.languages import canonical_code, primary_subtag
from cr5.storage.text_encodings import evident_encoding, put_back, stream_of

SAMPLE_BYTES = 1 << 20
"""How much is read from the first byte on that is not ASCII, to recognise the encoding."""
_CHUNK_BYTES = 1 << 18
WESTERN = "windows-1252"
"""A superset of Latin-1."""
_WESTERN_LANGUAGES = """
    af ast br ca co da de en es eu fi fo fr fur fy ga gd gl ia id is it lb li ms nb nds nl nn no oc pt rm sc scn sq sv
    sw tl vec wa
"""
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_UTF8_CHARACTER = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
# Control characters, and what other encodings put within words: symbols, and capitals between small letters. « and »
# stand between letters in texts such as "<var«space»>", and are letters in no other encoding of these languages.
_IMPLAUSIBLE = re.compile(
    r"[\0-\x08\x0e-\x1f\x7f]|[^\W\d_][^\w\0-\x7f\xa0\xad«»·–—’][^\W\d_]|[a-zß-ÿ][ŠŽŒŸÀ-ÖØ-Þ][a-zß-ÿ]"
)


def decode_western(data: bytes, lang: str) -> str | None:
    """Decode a text as Windows-1252 if that is evident; None if it is not.

    It is evident if the language was usually written in this encoding, hardly anything could be UTF-8, and what is not
    ASCII are letters of words with more other letters, or punctuation around words.
    """
    if primary_subtag(canonical_code(lang)) not in _WESTERN_LANGUAGES.split():
        return None
    if _has_utf8(data):
        return None
    try:
        text = data.decode(WESTERN)
    except UnicodeDecodeError:
        return None
    letters = [character for character in text if character.isalpha()]
    other = sum(not character.isascii() for character in letters)
    return None if 2 * other > len(letters) or _IMPLAUSIBLE.search(text) else text


def western_as_utf8(
    stream: IO[bytes], langs_of: Callable[[str], Collection[str]], note: Callable[[str], None]
) -> IO[bytes]:
    """A text as it is or, if its encoding is evidently Windows-1252, as UTF-8; then ``note`` gets the encoding's name.

    The encoding is judged from the first bytes on that are not ASCII, with all languages of the text; ``langs_of``
    finds these in the first line and what follows those bytes.
    """

    def chunks() -> Iterator[bytes]:
        chunk, header = stream.read(_CHUNK_BYTES), b""
        is_marked = evident_encoding(chunk) is not None
        while chunk and chunk.isascii():
            yield chunk
            header = header or chunk[: chunk.find(b"\n") + 1]
            chunk = stream.read(_CHUNK_BYTES)
        sample = chunk + stream.read(SAMPLE_BYTES) if chunk else b""
        rest = put_back(stream, sample)
        if not is_marked and not _is_utf8(sample):
            langs = langs_of((header + sample).decode(WESTERN, "replace"))
            if langs and all(decode_western(sample, lang) is not None for lang in langs):
                note(WESTERN)
                rest = _reencoded(rest)
        while chunk := rest.read(_CHUNK_BYTES):
            yield chunk

    return stream_of(chunks())


def _reencoded(stream: IO[bytes]) -> IO[bytes]:
    """A text in Windows-1252 as UTF-8; parts that are UTF-8 already, or not valid, stay as they are."""

    def chunks() -> Iterator[bytes]:
        while chunk := stream.read(_CHUNK_BYTES) + stream.readline(_CHUNK_BYTES):
            try:
                yield chunk if _has_utf8(chunk) else chunk.decode(WESTERN).encode()
            except UnicodeDecodeError:
                yield chunk

    return stream_of(chunks())


def _has_utf8(data: bytes) -> bool:
    """Whether more than a tenth of the bytes that are not ASCII form characters of UTF-8."""
    return 10 * sum(map(len, _UTF8_CHARACTER.findall(data))) > len(_NOT_ASCII.findall(data))


def langs_of_rows(text: str, column: str, delimiter: str | None) -> set[str]:
    """The languages in a column of a CSV file, as far as a part of it shows them; of JSONL, without a delimiter."""
    lines = text.splitlines()
    if delimiter is None:
        pattern = re.compile(rf'"{re.escape(column)}":\s*"([^"]+)"')
        return {match[1] for line in lines for match in pattern.finditer(line)}
    if not lines or max(map(len, lines)) > csv.field_size_limit():
        return set()
    delimiter = max((delimiter, ",", ";", "\t", "|"), key=lines[0].count)
    rows = csv.DictReader(lines, delimiter=delimiter)
    return {row[column] for row in rows if row.get(column) and None not in row and None not in row.values()}


def _is_utf8(start: bytes) -> bool:
    """Whether the beginning of a text is UTF-8; its last character may be incomplete."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return False
    return True
