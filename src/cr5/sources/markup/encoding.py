"""The encoding of a page."""

import codecs
import re

_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"\s*<\?xml[^>]{0,100}?encoding\s*=\s*[\"']([\w.:-]+)", re.IGNORECASE)
# The longer ones first: the byte order mark of UTF-32 starts with that of UTF-16.
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_SEVEN_BIT = ("iso2022", "hz", "utf-7", "utf_7")  # encodings whose bytes are all ASCII
_SUPERSETS = {"iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932"}


def decode(data: bytes) -> str:
    """Decode a page by its byte order mark, else as UTF-8, else in the encoding that it declares.

    A page that declares another encoding although it is UTF-8 has been converted. Raises ``UnicodeDecodeError``.
    """
    for mark, name in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            return data.decode(name)
    declared = _declared_encoding(data)
    if declared is not None and declared.startswith(_SEVEN_BIT):
        return data.decode(declared)
    try:
        return data.decode()
    except UnicodeDecodeError:
        if declared is None or declared == "utf-8":
            raise
    return data.decode(declared)


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
