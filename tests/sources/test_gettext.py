"""Catalogues: messages come back from PO and MO as gettext reads them."""

import gettext
import io
import re
from pathlib import Path

import pytest
from catalogues import GERMAN, HEADER, ITALIAN, filled, messages, mo, po, put, read, relaxed
from hypothesis import example, given
from hypothesis import strategies as st
from timing import seconds

from cr5.corpus.documents import Document
from cr5.sources.accounting import Accounting
from cr5.sources.catalogue_files import Message, read_mo, read_po
from cr5.sources.gettext import GettextUnit, plain, read_gettext

MESSAGES = [
    Message("menu", "_Open %s", "", ("%s ö_ffnen",), ("src/menu.c", "src/bar.c")),
    Message("", "one file", "%d files", ("eine Datei", "%d\tDateien"), ("src/menu.c",)),
    Message("", "Close", "", (), ("src/menu.c",)),
    Message("", "Quit", "", (), ("src/main.c",)),
    Message("", 'say "hi"\n', "", ('sag "äh"\nA',), ("src/main.c",)),
]
catalogues = st.lists(messages, max_size=6, unique_by=lambda message: (message.context, message.id))


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


@pytest.mark.parametrize(("by", "first"), [("reference", "app:src/menu.c"), ("catalogue", "app")])
def test_untranslated_and_fuzzy_messages_of_joined_ones_are_counted(
    tmp_path: Path, by: GettextUnit, first: str
) -> None:
    path = put(tmp_path, "locale/de/LC_MESSAGES/app.po", GERMAN)
    accounting = Accounting()
    list(read_gettext([tmp_path / "locale"], by=by, accounting=accounting))
    assert accounting.skipped_parts.counts == {"not translated, or marked as fuzzy": 2}
    assert accounting.skipped_parts.first == f"{path}: {first}"


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
        ("messages.po", "xx", "xx", "messages"),
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
