"""The encoding of a page."""

import codecs
import re

from cr5.corpus.encodings import WESTERN, decode_western
from cr5.storage.text_encodings import evident_encoding

_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"\s*<\?xml[^>]{0,100}?encoding\s*=\s*[\"']([\w.:-]+)", re.IGNORECASE)
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
