"""Catalogues in PO and MO, as files."""

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from properties import up_to

from cr5.corpus.documents import Document
from cr5.errors import Cr5Error
from cr5.sources.catalogue_files import Message
from cr5.sources.gettext import GettextUnit, read_gettext

GERMAN = r"""# Ein Übersetzer <a@b.c>, 2026.
#, fuzzy
msgid ""
msgstr ""
"Project-Id-Version: app 1.0\n"
"Language: de\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#. a menu
#: src/menu.c:12 src/bar.c:3
#, c-format
msgctxt "menu"
msgid "_Open %s"
msgstr "%s ö_ffnen"

#: src/menu.c:20
msgid "one file"
msgid_plural ""
"%d "
"files"
msgstr[0] "eine Datei"
msgstr[1] "%d\tDateien"

#: src/menu.c:21
#, c-format, fuzzy
#| msgid "Cloze"
msgid "Close"
msgstr "Nähe"

#: src/main.c
msgid "Quit"
msgstr ""

#, fuzzy
#~ msgid "Old"
#~ msgstr "Alt"

#: src/main.c:99
msgid "say \"hi\"\n"
msgstr "sag \"\303\244h\"\n"
"\x41"
"""
HEADER = "Language: da\nContent-Type: text/plain; charset={}\n"
ITALIAN = 'msgid ""\nmsgstr "Language: it\\n"\n\nmsgid "Quit"\nmsgstr "Esci"\n'

relaxed = settings(max_examples=up_to(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\4"), max_size=12)
filled = anything.filter(bool)
files = st.text("abc/._-ü", min_size=1, max_size=9)
messages = st.builds(
    Message,
    st.just("") | anything,
    filled,
    st.just("") | filled,
    st.lists(anything, max_size=3).map(lambda texts: tuple(texts) if any(texts) else ()),
    st.lists(files, max_size=3, unique=True).map(tuple),
)


def quoted(text: str) -> str:
    signs = {"\\": "\\\\", '"': '\\"', "\n": '\\n"\n"', "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(signs.get(sign, sign) for sign in text) + '"'


def po(messages: list[Message], charset: str = "UTF-8", end: str = "\n") -> bytes:
    entries = [f'msgid ""\nmsgstr {quoted(HEADER.format(charset))}']
    for context, name, plural, texts, references in messages:
        lines = [f"#: {' '.join(f'{reference}:7' for reference in references)}"] if references else ["#  made by hand"]
        lines += [f"msgctxt {quoted(context)}"] if context else []
        lines += [f"msgid {quoted(name)}"]
        if plural or len(texts) > 1:
            lines += [f"msgid_plural {quoted(plural)}"]
            lines += [f"msgstr[{n}] {quoted(text)}" for n, text in enumerate(texts or ("",))]
        else:
            lines += [f"msgstr {quoted(''.join(texts))}"]
        entries.append("\n".join(lines))
    return "\n\n".join(entries).replace("\n", end).encode(charset)


def mo(messages: list[Message], charset: str = "UTF-8", order: str = "<") -> bytes:
    pairs = [("", HEADER.format(charset))]
    for context, name, plural, texts, _ in messages:
        key = (f"{context}\4" if context else "") + name + (f"\0{plural}" if plural else "")
        pairs.append((key, "\0".join(texts)))
    strings = sorted((key.encode(charset), text.encode(charset)) for key, text in pairs)
    size = len(strings)
    place, tables, body = 28 + 16 * size, [b"", b""], b""
    for pair in strings:
        for n, string in enumerate(pair):
            tables[n] += struct.pack(f"{order}2I", len(string), place + len(body))
            body += string + b"\0"
    return struct.pack(f"{order}7I", 0x950412DE, 0, size, 28, 28 + 8 * size, 0, 0) + tables[0] + tables[1] + body


def put(root: Path, name: str, content: str | bytes) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(paths: list[Path], by: GettextUnit = "message", source_lang: str = "en") -> list[Document]:
    return list(read_gettext(paths, by=by, source_lang=source_lang))


def message(paths: list[Path], by: GettextUnit = "message") -> str:
    with pytest.raises(Cr5Error) as caught:
        read(paths, by)
    return str(caught.value)
