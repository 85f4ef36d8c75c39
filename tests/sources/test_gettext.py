"""Catalogues: messages come back from PO and MO as gettext reads them, and damage is reported with its line."""

import contextlib
import gettext
import io
import re
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from properties import up_to
from timing import seconds

from cr5.corpus.documents import Document
from cr5.corpus.skipped import Skipped
from cr5.errors import CorpusError
from cr5.sources import catalogue_files
from cr5.sources.accounting import Accounting
from cr5.sources.catalogue_files import Message, read_mo, read_po
from cr5.sources.files import raise_error
from cr5.sources.gettext import GettextUnit, plain, read_gettext

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
MESSAGES = [
    Message("menu", "_Open %s", "", ("%s ö_ffnen",), ("src/menu.c", "src/bar.c")),
    Message("", "one file", "%d files", ("eine Datei", "%d\tDateien"), ("src/menu.c",)),
    Message("", "Close", "", (), ("src/menu.c",)),
    Message("", "Quit", "", (), ("src/main.c",)),
    Message("", 'say "hi"\n', "", ('sag "äh"\nA',), ("src/main.c",)),
]
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
catalogues = st.lists(messages, max_size=6, unique_by=lambda message: (message.context, message.id))


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
    with pytest.raises(CorpusError) as caught:
        read(paths, by)
    return str(caught.value)


# What is written comes back


def test_obsolete_messages_are_left_out() -> None:
    for content in (GERMAN, GERMAN.replace("\n", "\r\n"), "\ufeff" + GERMAN):
        header, *found = read_po(io.BytesIO(content.encode()), "de.po")
        assert header.id == ""
        assert found == MESSAGES


@given(catalogues, st.sampled_from(["\n", "\r\n"]))
@example([Message("", "a", "", ("漢字 ソ 表",))], "\n")
@relaxed
def test_random_messages_come_back_equal_from_text(messages: list[Message], end: str) -> None:
    header, *found = read_po(io.BytesIO(po(messages, end=end)), "da.po")
    assert header == Message("", "", "", (HEADER.format("UTF-8"),))
    assert found == messages


@given(catalogues, st.sampled_from("<>"))
@relaxed
def test_random_messages_come_back_equal_from_either_byte_order(messages: list[Message], order: str) -> None:
    header, *found = read_mo(io.BytesIO(mo(messages, order=order)), "da.mo")
    assert header == Message("", "", "", (HEADER.format("UTF-8"),))
    assert sorted(found) == sorted(message._replace(references=()) for message in messages)


@given(st.lists(st.tuples(st.just("") | filled, filled, filled), max_size=6, unique_by=lambda row: row[:2]))
@relaxed
def test_compiled_catalogues_are_read_as_the_standard_library_does(rows: list[tuple[str, str, str]]) -> None:
    content = mo([Message(context, name, "", (text,)) for context, name, text in rows])
    oracle = gettext.GNUTranslations(io.BytesIO(content))
    for found in list(read_mo(io.BytesIO(content), "da.mo"))[1:]:
        assert found.texts[0] == (
            oracle.pgettext(found.context, found.id) if found.context else oracle.gettext(found.id)
        )


@pytest.mark.parametrize("charset", ["ISO-8859-1", "windows-1251", "SHIFT_JIS", "Big5", "GB18030", "EUC-JP", "KOI8-R"])
def test_the_charset_of_the_header_is_honoured(charset: str) -> None:
    text = {"I": "Ærø \\ ß", "w": "Файл", "S": "表示ソ", "B": "功許", "G": "𠀀表", "E": "表示", "K": "Файл"}[charset[0]]
    messages = [Message("", "a", "", (text, text)), Message("", "b", "", ("x",))]
    for found in (read_po(io.BytesIO(po(messages, charset)), "x"), read_mo(io.BytesIO(mo(messages, charset)), "x")):
        assert list(found)[1:] == messages


def test_a_header_may_contain_a_name_in_another_encoding() -> None:
    content = b'# Jos\xe9\nmsgid ""\nmsgstr "Last-Translator: Jos\xe9\\n"\n"Language: es\\n"\nmsgid "a"\nmsgstr "b"\n'
    assert [found.id for found in read_po(io.BytesIO(content), "es.po")] == ["", "a"]


def test_templates_and_empty_catalogues_have_no_documents(tmp_path: Path) -> None:
    template = GERMAN.partition("#. a menu")[0].replace("UTF-8", "CHARSET") + 'msgid "Quit"\nmsgstr ""\n'
    assert [found.texts for found in read_po(io.BytesIO(template.encode()), "app.pot")][1:] == [()]
    assert read([put(tmp_path, "app.pot", template), put(tmp_path, "de.po", "# nothing\n")]) == []


def test_references_may_have_spaces_commas_and_no_lines() -> None:
    content = '#: \u2068my file.c\u2069:7 a.c:1, b.c\n#: C:\\x.c:3 a.c:9\nmsgid "a"\nmsgstr "b"\n'
    (found,) = read_po(io.BytesIO(content.encode()), "x.po")
    assert found.references == ("my file.c", "a.c", "b.c", "C:\\x.c")


def test_references_of_xml2po_lose_line_and_element(tmp_path: Path) -> None:
    content = '#: C/index.page:10(media)\nmsgid "a"\nmsgstr "b"\n\n#: C/index.page:12(title) C/b.page:3(p)\n'
    path = put(tmp_path, "help/it.po", content + 'msgid "c"\nmsgstr "d"\n')
    assert read([path], "reference", source_lang="") == [
        Document("help:C/index.page", "it", "b\nd"),
        Document("help:C/b.page", "it", "d"),
    ]


# Documents


def test_messages_are_documents_in_both_languages_and_sources_only_once(tmp_path: Path) -> None:
    german, italian = put(tmp_path, "app-de.po", GERMAN), put(tmp_path, "app-it.po", ITALIAN)
    found = read([german, italian])
    assert [(document.lang, document.text) for document in found] == [
        ("en", "Open"), ("de", "öffnen"), ("en", "one file\nfiles"), ("de", "eine Datei\nDateien"),
        ("en", 'say "hi"'), ("de", 'sag "äh"\nA'), ("en", "Quit"), ("it", "Esci"),
    ]  # fmt: skip
    assert [document.concept for document in found[::2]] == [document.concept for document in found[1::2]]
    assert len({document.concept for document in found}) == 4
    assert all(re.fullmatch("app:[0-9a-f]{16}", document.concept) for document in found)
    assert read([german, german])[6:] == [document for document in read([german]) if document.lang == "de"]
    assert [document.lang for document in read([german, italian], source_lang="")] == ["de", "de", "de", "it"]


def test_a_context_makes_another_concept(tmp_path: Path) -> None:
    path = put(tmp_path, "app.de.mo", mo([Message("", "Open", "", ("Offen",)), Message("menu", "Open", "", ("Auf",))]))
    assert len({document.concept for document in read([path])}) == 2


def test_a_translation_into_the_source_language_is_a_document_if_it_differs(tmp_path: Path) -> None:
    path = put(tmp_path, "en.po", 'msgid "a"\nmsgstr "a"\n\nmsgid "b"\nmsgstr "c"\n')
    assert [(document.lang, document.text) for document in read([path])] == [("en", "a"), ("en", "b"), ("en", "c")]


def test_messages_of_a_source_file_are_joined(tmp_path: Path) -> None:
    put(tmp_path, "locale/de/LC_MESSAGES/app.po", GERMAN)
    assert read([tmp_path / "locale"], "reference") == [
        Document("app:src/menu.c", "en", "Open\none file\nfiles\nClose"),
        Document("app:src/menu.c", "de", "öffnen\neine Datei\nDateien"),
        Document("app:src/bar.c", "en", "Open"),
        Document("app:src/bar.c", "de", "öffnen"),
        Document("app:src/main.c", "en", 'Quit\nsay "hi"'),
        Document("app:src/main.c", "de", 'sag "äh"\nA'),
    ]


def test_messages_of_a_catalogue_are_joined(tmp_path: Path) -> None:
    put(tmp_path, "app/po/de.po", GERMAN)
    put(tmp_path, "app/po/it.po", ITALIAN)
    assert read([tmp_path / "app"], "catalogue") == [
        Document("po", "en", 'Open\none file\nfiles\nClose\nQuit\nsay "hi"'),
        Document("po", "de", 'öffnen\neine Datei\nDateien\nsag "äh"\nA'),
        Document("po", "it", "Esci"),
    ]


@given(catalogues)
@relaxed
def test_text_and_compiled_catalogues_give_the_same_documents(tmp_path: Path, messages: list[Message]) -> None:
    text, compiled = put(tmp_path, "a/app-da.po", po(messages)), put(tmp_path, "b/app-da.mo", mo(messages))
    found = read([text])
    assert {*found} == {*read([compiled])}
    assert read([tmp_path / "a"]) == found
    for document in found:
        assert document.text.strip()


# Languages and names


@pytest.mark.parametrize(
    ("path", "declared", "lang", "domain"),
    [
        ("po/de.po", "", "de", "po"),
        ("po/pt_BR.po", "", "pt_BR", "po"),
        ("po/ast.po", "", "ast", "po"),
        ("po/app-de.po", "", "de", "po/app"),
        ("my-app-zh_Hans.po", "", "zh_Hans", "my-app"),
        ("app.sr@latin.po", "", "sr@latin", "app"),
        ("de/LC_MESSAGES/app.po", "", "de", "app"),
        ("lib/locale/ko.UTF-8/LC_MESSAGES/app.po", "", "ko.UTF-8", "lib/locale/app"),
        ("de/kde/app.po", "", "de", "kde/app"),
        ("de/kde/app.po", "de_AT", "de_AT", "kde/app"),
        ("app.po", "de", "de", "app"),
        ("src/app.po", "ast", "ast", "src/app"),
        ("app/ast.po", "ast_ES", "ast_ES", "app"),
        ("app-ast.po", "ast", "ast", "app"),
        ("messages.po", "", "", "messages"),
        ("no.po", "nb", "nb", "root"),
        ("de.po", "LANGUAGE", "de", "root"),
        ("messages.po", "klingonese", "klingonese", "messages"),
        ("gedit/de/de.po", "de", "de", "gedit"),
        ("de/guide/how-to.po", "de", "de", "guide/how-to"),
        ("docs/de/LC_MESSAGES/guide/how-to.po", "", "de", "docs/guide/how-to"),
        ("gedit/pt_BR/pt_BR.po", "", "pt_BR", "gedit"),
        ("gedit/help/sr@latin/sr@latin.po", "sr", "sr@latin", "gedit/help"),
        ("app/de/app-de.po", "", "de", "app/app"),
        ("sr@latin.po", "sr", "sr@latin", "root"),
        ("sr@latin/LC_MESSAGES/app.po", "sr", "sr@latin", "app"),
        ("uz@cyrillic.po", "uz", "uz@cyrillic", "root"),
        ("ca@valencia.po", "ca", "ca@valencia", "root"),
        ("ca@valencia.po", "ca@valencia", "ca@valencia", "root"),
        ("de@euro.po", "de", "de", "root"),
        ("de_DE.po", "de", "de", "root"),
        ("sr@latin.po", "hr", "hr", "root"),
    ],
)
def test_language_and_name_come_from_header_and_path(
    tmp_path: Path, path: str, declared: str, lang: str, domain: str
) -> None:
    content = f'msgid ""\nmsgstr "Language: {declared}\\n"\n\nmsgid "Quit"\nmsgstr "x"\n'
    put(tmp_path / "root", path, content)
    assert read([tmp_path / "root"], "catalogue", source_lang="") == [Document(domain, lang, "x")]


LAYOUTS = ["app/{}/{}.po", "{}/LC_MESSAGES/app.po", "po/{}.po", "app/{}.po", "app.{}.po", "app-{}.po", "{}/app.po"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_concepts_meet_in_every_layout(tmp_path: Path, layout: str) -> None:
    langs = ["de", "pt_BR", "ast", "sr@latin"]
    for lang in langs:
        content = ITALIAN.replace("Language: it", f"Language: {lang.partition('@')[0]}")
        put(tmp_path, layout.format(lang, lang), content)
    for by in ("message", "catalogue"):
        found = read([tmp_path], by, source_lang="")
        assert len({document.concept for document in found}) == 1
        assert sorted(document.lang for document in found) == sorted(langs)


def test_a_file_has_its_own_name_or_that_of_its_folder(tmp_path: Path) -> None:
    paths = [put(tmp_path, name, 'msgid "a"\nmsgstr "x"\n') for name in ("po/de.po", "it/LC_MESSAGES/app.po")]
    assert read(paths, "catalogue", source_lang="") == [Document("po", "de", "x"), Document("app", "it", "x")]


def test_a_folder_gives_compiled_catalogues_only_without_a_po_file_beside_them(tmp_path: Path) -> None:
    compiled = mo([Message("", "Quit", "", ("Slut",))])
    put(tmp_path, "it.po", ITALIAN)
    put(tmp_path, "it.mo", compiled)
    put(tmp_path, "da.gmo", compiled)
    put(tmp_path, "app.pot", ITALIAN)
    assert [document.lang for document in read([tmp_path])] == ["en", "da", "it"]


# Plain text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("_File", "File"),
        ("E_xit", "Exit"),
        ("&Datei", "Datei"),
        ("~Ændr...", "Ændr..."),
        ("ファイル(_F)", "ファイル"),
        ("文件 (&F)...", "文件..."),
        ("R&D", "R&D"),
        ("Q & A", "Q & A"),
        ("_one_ and _two_", "_one_ and _two_"),
        ("~/.config", "~/.config"),
        ("%s: %d of %(total)d", ": of"),
        ("%1$-10.2f and %2$s", "and"),
        ("%1 of %L2 and %n", "of and"),
        ("100% sure, 50%% off", "100% sure, 50% off"),
        ("{0} has {name!r:>10} in {{ place }}, ${HOME} $user {% trans %}", "has in ,"),
        ("{count, plural, one {# file}}", "{count, plural, one {# file}}"),
        ("<b>B</b>old<br/>and <a href='x'>more</a>", "Bold and more"),
        ("a &lt; b &amp;&nbsp;c &#228; &nonsense;", "a < b & c ä &nonsense;"),
        (" two\n\n  lines \t", "two\nlines"),
        ("%d", ""),
        ("%Id of %1$I5lu files, 100%Indeed", "of files, 100%Indeed"),  # glibc's, in the digits of the locale
        ("5 < 7 > 3 <user@example.org>", "5 < 7 > 3 <user@example.org>"),
    ],
)
def test_markup_placeholders_and_keys_are_removed(text: str, expected: str) -> None:
    assert plain(text) == expected


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["<a ", "<a", "%(", "{{", "{%", "$(", "&a", "%1$", "%-0", "${ ", "(_a", "&#1"])
def test_time_is_linear(unit: str) -> None:
    limit = 10 * seconds(lambda: plain(unit * 10_000)) + 0.1  # 4 times would be exact, 16 quadratic
    assert seconds(lambda: plain(unit * 40_000), limit) < limit


# What is damaged


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("nonsense", "4: 'nonsense' does not belong in a catalogue; check the file with msgfmt -c"),
        ("x" * 70, f"4: '{'x' * 60}…' does not belong in a catalogue; check the file with msgfmt -c"),
        ('"a"', "4: '\"a\"' does not belong in a catalogue; check the file with msgfmt -c"),
        ('msgid "a"', "4: a message without msgstr; check the file with msgfmt -c"),
        ('msgstr "a"', "4: a message without msgid; check the file with msgfmt -c"),
        ('msgid "a"\nmsgstr "b', "5: '\"b' is not a quoted string; check the file with msgfmt -c"),
        ('msgid "a"\nmsgstr "b\\"', "5: '\"b\\\\\"' is not a quoted string; check the file with msgfmt -c"),
        ('msgid "a"b"\nmsgstr "b"', '4: \'"a"b"\' is not a quoted string; check the file with msgfmt -c'),
        (
            'msgid "a"\nmsgstr "\udcff"',
            "5: not utf-8, which the header declares; convert the file with msgconv -t UTF-8",
        ),
    ],
)
def test_a_damaged_entry_is_reported_and_the_others_are_read(tmp_path: Path, entry: str, words: str) -> None:
    good = 'msgid "Quit"\nmsgstr "Esci"'
    path = put(tmp_path, "it.po", f'msgid "Q"\nmsgstr "E"\n\n{entry}\n\n{good}'.encode("utf-8", "surrogateescape"))
    assert message([path]) == f"{path}:{words}"
    accounting = Accounting("skip")
    found = list(read_gettext([path], accounting=accounting))
    assert [document.text for document in found] == ["Q", "E", "Quit", "Esci"]
    assert accounting.errors.examples == {"unreadable message": f"{path}:{words}"}


def test_a_message_without_an_end_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue_files, "MAX_MESSAGE_BYTES", 1000)
    content = 'msgid "a"\nmsgstr ""\n' + '"word "\n' * 1000 + 'msgid "Quit"\nmsgstr "Esci"\n'
    skipped = Skipped()
    messages = list(read_po(io.BytesIO(content.encode()), "it.po", skipped.add))
    assert messages == [Message("", "Quit", "", ("Esci",))]
    assert skipped.examples["unreadable message"].startswith("it.po:143: a message of more than 1,000 bytes")


@pytest.mark.parametrize("name", ["UTF-16", "rot13", "unicode_escape", "x-unknown", "cp0"])
def test_an_unknown_charset_is_an_error(tmp_path: Path, name: str) -> None:
    content = po([Message("", "a", "", ("b",))]).replace(b"UTF-8", name.encode())
    compiled = mo([Message("", "a", "", ("b",))]).replace(b"UTF-8", name.encode()[:5].ljust(5))
    path = put(tmp_path, "da.po", content)
    assert message([path]) == f"{path}: unknown charset {name!r}; convert the file with msgconv -t UTF-8"
    path = put(tmp_path, "da.mo", compiled)
    assert message([path]) == f"{path}: unknown charset {name[:5]!r}; convert the file with msgconv -t UTF-8"
    accounting = Accounting("skip")
    assert list(read_gettext([tmp_path / "da.po", path], accounting=accounting)) == []
    assert accounting.errors.counts == {"unknown charset": 2}


def mo_message(content: bytes) -> str:
    with pytest.raises(CorpusError) as caught:
        list(read_mo(io.BytesIO(content), "da.mo"))
    return str(caught.value)


def test_a_file_that_is_not_a_compiled_catalogue_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mo([Message("", "a", "", ("b",))])
    for content in (b"", b"msgid", whole[:19], whole[1:]):
        assert mo_message(content) == (
            "da.mo: not a compiled catalogue, which starts with 950412de; check the name or compile it again"
        )
    assert mo_message(whole[:40]) == "da.mo: 2 messages of revision 0 do not fit in its 40 bytes; compile it again"
    newer = whole[:4] + struct.pack("<I", 2 << 16) + whole[8:]
    assert (
        mo_message(newer) == f"da.mo: 2 messages of revision 2 do not fit in its {len(whole)} bytes; compile it again"
    )
    many = whole[:8] + struct.pack("<I", 2**32 - 1) + whole[12:]
    assert (
        mo_message(many)
        == f"da.mo: {2**32 - 1} messages of revision 0 do not fit in its {len(whole)} bytes; compile it again"
    )
    monkeypatch.setattr(catalogue_files, "MAX_MO_BYTES", 50)
    assert mo_message(whole) == "da.mo: more than 0 MB; pass its .po instead"


def test_offsets_outside_a_compiled_catalogue_are_errors() -> None:
    whole = mo([Message("", "a", "", ("b",)), Message("", "c", "", ("d",))])
    wild = whole[:36] + struct.pack("<2I", 1, 2**32 - 1) + whole[44:]
    assert mo_message(wild) == "da.mo: message 2 is outside the file; compile it again"
    found = list(read_mo(io.BytesIO(wild), "da.mo", Skipped().add))
    assert [message.id for message in found] == ["", "c"]
    broken = whole.replace(b"\0b\0", b"\0\xff\0")
    assert mo_message(broken) == "da.mo: message 2 is not utf-8, which the header declares; compile it again"


def test_a_small_compiled_file_does_not_expand_without_limit() -> None:
    count = 1000
    table = struct.pack("<2I", 8 * count, 28) * count
    content = struct.pack("<7I", 0x950412DE, 0, count, 28, 28, 0, 0) + table
    assert mo_message(content) == "da.mo: messages overlap from number 3 on; compile it again"
    found = read_mo(io.BytesIO(content), "da.mo")
    assert len([next(found), next(found)]) == 2


def test_an_unreadable_file_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    missing, good = tmp_path / "de.po", put(tmp_path, "it.po", ITALIAN)
    expected = f"{missing}: cannot be read, no such file or directory; check the name"
    assert message([missing]) == expected
    accounting = Accounting("skip")
    assert len(list(read_gettext([missing, good], accounting=accounting))) == 2
    assert accounting.errors.examples == {"unreadable file": expected}


def test_a_catalogue_without_references_cannot_be_read_by_reference(tmp_path: Path) -> None:
    path = put(tmp_path, "it.po", ITALIAN)
    assert message([path], "reference") == (
        f"{path}: its messages have no references to source files; pass a .po that has them, or choose `by=message` "
        "or `by=catalogue`"
    )


def test_wrong_arguments_are_errors_that_name_them(tmp_path: Path) -> None:
    assert message([]) == "no catalogue given; name .po and .mo files, or their folder"
    assert message([tmp_path]) == f"{tmp_path}: no catalogue in this folder; their names end in .po, .mo or .gmo"
    assert message([tmp_path], "page") == (  # type: ignore[arg-type]
        "`by='page'` is unknown; choose message, reference or catalogue"
    )


# Anything else


noise = st.lists(
    st.sampled_from(
        [
            "msgid ",
            "msgstr ",
            "msgstr[0]",
            "msgctxt ",
            "msgid_plural",
            '"',
            '"a"',
            "\\",
            "\n",
            "#",
            "~",
            ":",
            ",",
            "\xff",
            "\0",
        ]
    ),
    max_size=40,
).map("".join)


@given(noise, st.booleans())
@settings(relaxed, max_examples=up_to(200))
def test_any_characters_give_messages_or_reported_errors(signs: str, first: bool) -> None:
    content = signs.encode("latin-1")
    for found in read_po(io.BytesIO(content if first else GERMAN.encode() + content), "x.po", Skipped().add):
        found.id.encode()


@given(st.binary(max_size=200), st.integers(0, 120), st.binary(min_size=1, max_size=4))
@settings(relaxed, max_examples=up_to(300))
def test_any_bytes_of_a_compiled_catalogue_give_messages_or_reported_errors(
    content: bytes, place: int, change: bytes
) -> None:
    whole = mo([Message("", "a", "b", ("c", "d")), Message("e", "f", "", ("g",))])
    damaged = whole[:place] + change + whole[place + len(change) :]
    for data in (content, whole[:4] + content, damaged, whole[:place]):
        for handle_error in (Skipped().add, raise_error):
            with contextlib.suppress(CorpusError):
                list(read_mo(io.BytesIO(data), "x.mo", handle_error))


@pytest.mark.slow
def test_a_long_catalogue_takes_linear_time() -> None:
    def read_long(repeats: int) -> None:
        list(read_po(io.BytesIO(b'msgid "a"\n' + b'msgstr "b"\n' * repeats), "x.po"))

    limit = 10 * seconds(lambda: read_long(5_000)) + 0.1
    assert seconds(lambda: read_long(20_000), limit) < limit
