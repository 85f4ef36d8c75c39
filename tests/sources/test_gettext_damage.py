"""Damaged catalogues: errors name the line, and the other messages are read."""

import contextlib
import gzip
import io
import struct
from pathlib import Path
from typing import Any

import pytest
from catalogues import GERMAN, ITALIAN, message, mo, po, put, relaxed
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import up_to
from timing import seconds

from cr5.corpus.skipped import Skipped
from cr5.errors import CorpusError
from cr5.sources.accounting import Accounting
from cr5.sources.catalogue_files import Message, read_mo, read_po
from cr5.sources.files import raise_error
from cr5.sources.gettext import read_gettext

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
            "5: not utf-8, which the header declares; correct the charset in the header, or the text",
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


def test_a_message_without_an_end_is_left_out() -> None:
    content = 'msgid "a"\nmsgstr ""\n' + '"word "\n' * 1000 + 'msgid "Quit"\nmsgstr "Esci"\n'
    skipped = Skipped()
    messages = list(read_po(io.BytesIO(content.encode()), "it.po", skipped.add, max_message_bytes=1000))
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


def mo_message(content: bytes, **options: Any) -> str:
    with pytest.raises(CorpusError) as caught:
        list(read_mo(io.BytesIO(content), "da.mo", **options))
    return str(caught.value)


def test_a_file_that_is_not_a_compiled_catalogue_is_an_error() -> None:
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
    assert mo_message(whole, max_bytes=50) == "da.mo: more than 0 MB; pass its .po instead"


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
    assert message([tmp_path]).startswith(f"{tmp_path}: no catalogue in this folder; their names end in .po, .mo or ")
    assert message([tmp_path], "page") == (  # type: ignore[arg-type]
        '`by=\'page\'` must be "message" or "reference" or "catalogue"'
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


def test_unreadable_messages_are_documents_that_were_read_and_skipped(tmp_path: Path) -> None:
    path = put(tmp_path, "it.po", 'msgid "Q"\nmsgstr "E"\n\nnonsense\n\nmsgid "a"\n')
    accounting = Accounting("skip")
    assert len(list(read_gettext([path], accounting=accounting))) == 2
    assert (accounting.documents_read, accounting.skipped_documents.counts) == (4, {"unreadable message": 2})
    assert accounting.skipped_parts.total == 0


def test_compressed_catalogues_in_a_folder_are_read(tmp_path: Path) -> None:
    (tmp_path / "root" / "de").mkdir(parents=True)
    content = 'msgid ""\nmsgstr "Language: de\\n"\n\nmsgid "Quit"\nmsgstr "Beenden"\n'
    (tmp_path / "root" / "de" / "app.po.gz").write_bytes(gzip.compress(content.encode()))
    (tmp_path / "root" / "de" / "app.mo").write_bytes(b"compiled")
    [document] = read_gettext([tmp_path / "root"], by="catalogue", source_lang="")
    assert (document.concept, document.lang, document.text) == ("app", "de", "Beenden")


def test_a_code_that_is_none_is_named_with_its_file(tmp_path: Path) -> None:
    path = put(tmp_path, "messages.po", 'msgid ""\nmsgstr "Language: klingonese\\n"\n\nmsgid "Quit"\nmsgstr "x"\n')
    assert message([path]).startswith(f"{path}: 'Quit': 'klingonese' is not a language code")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_a_catalogue_in_utf_16_is_refused_in_one_sentence(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "it.po"
    path.write_bytes('msgid "Quit"\nmsgstr "Esci"\n'.encode(encoding))
    assert message([path]) == (
        f"{path}: {encoding}, which catalogues cannot be in; convert it with iconv -f {encoding} -t utf-8, and write "
        "charset=UTF-8 in its header"
    )
