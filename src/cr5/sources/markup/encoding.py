"""The encoding of a page."""

import codecs
import re

from cr5.corpus.languages import canonical_code, primary_subtag
from cr5.storage.text_encodings import evident_encoding

_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"\s*<\?xml[^>]{0,100}?encoding\s*=\s*[\"']([\w.:-]+)", re.IGNORECASE)
WESTERN = "windows-1252"
"""A superset of Latin-1."""
_WESTERN_LANGUAGES = """
    af ast br ca co da de en es eu fi fo fr fur fy ga gd gl ia id is it lb li ms nb nds nl nn no oc pt rm sc scn sq sv
    sw tl vec wa
"""
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_UTF8_CHARACTER = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
# Control characters, and what other encodings put within words: symbols, and capitals between small letters.
_IMPLAUSIBLE = re.compile(
    r"[\0-\x08\x0e-\x1f\x7f]|[^\W\d_][^\w\0-\x7f\xa0\xad·–—’][^\W\d_]|[a-zß-ÿ][ŠŽŒŸÀ-ÖØ-Þ][a-zß-ÿ]"
)
_SEVEN_BIT = ("iso2022", "hz", "utf-7", "utf_7")  # encodings whose bytes are all ASCII
_SUPERSETS = {"iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932"}


def decode(data: bytes) -> str:
    """Decode a page by its byte order mark, as UTF-16 if evident, else as UTF-8, else in the encoding that it declares.

    A page that declares another encoding although it is UTF-8 has been converted. Raises ``UnicodeDecodeError``.
    """
    if encoding := evident_encoding(data):
        return data.decode(encoding)
    declared = _declared_encoding(data)
    if declared is not None and declared.startswith(_SEVEN_BIT):
        return data.decode(declared)
    try:
        return data.decode()
    except UnicodeDecodeError:
        if declared is None or declared == "utf-8":
            raise
    return data.decode(declared)


def decode_page(data: bytes, lang: str) -> tuple[str, str]:
    """A page in a language and "", or, if its encoding had to be guessed, the name of that."""
    try:
        return decode(data), ""
    except UnicodeDecodeError:
        if (page := decode_western(data, lang)) is None:
            raise
        return page, WESTERN


def decode_western(data: bytes, lang: str) -> str | None:
    """Decode a text as Windows-1252 if that is evident; None if it is not.

    It is evident if the language was usually written in this encoding, hardly anything could be UTF-8, and what is not
    ASCII are letters of words with more other letters, or punctuation around words.
    """
    if primary_subtag(canonical_code(lang)) not in _WESTERN_LANGUAGES.split():
        return None
    if 10 * sum(map(len, _UTF8_CHARACTER.findall(data))) > len(_NOT_ASCII.findall(data)):
        return None
    try:
        text = data.decode(WESTERN)
    except UnicodeDecodeError:
        return None
    letters = [character for character in text if character.isalpha()]
    other = sum(not character.isascii() for character in letters)
    return None if 2 * other > len(letters) or _IMPLAUSIBLE.search(text) else text


def _declared_encoding(data: bytes) -> str | None:
    """The declared encoding by its name in Python; like browsers, its superset where there is one."""
    match = _XML_ENCODING.match(data, 0, 300) or _CHARSET.search(data, 0, 2048)
    if match is None:
        return None
    try:
        name = codecs.lookup(match[1].decode("ascii", "replace")).name
        b"".decode(name)  # some codecs do not decode text
    except LookupError:
        return None
    return (
        None if name.startswith(("utf-16", "utf-32")) else _SUPERSETS.get(name, name)
    )  # the declaration itself was ASCII
