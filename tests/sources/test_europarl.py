"""Europarl: speeches come back from text and XML, and errors in a file are reported and skipped."""

import gzip
import tracemalloc
import zipfile
from html import escape
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from properties import up_to
from timing import seconds

from cr5.corpus.documents import Document
from cr5.errors import CorpusError
from cr5.sources import europarl
from cr5.sources.accounting import Accounting
from cr5.sources.europarl import read_europarl

TEXT = """<CHAPTER ID=1>
Resumption of the session
<SPEAKER ID=1 NAME="The President">
I declare the session resumed & wish you a good year.
<P>
Are there comments? (1 < 2)
<BRK>
There are none.

<SPEAKER ID=2 LANGUAGE="DE" NAME="Hagen "Bo" d'Or">
Thank you.
<P>
<CHAPTER ID="002">
Agenda
<SPEAKER ID="3" NAME="The President" AFFILIATION="">
The next item
is the agenda.
"""
XML = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE text SYSTEM "x.dtd">
<text>
<!-- made by hand -->
<CHAPTER ID="1">
 <P id="1">
  <s id="1">Wiederaufnahme der Sitzung</s>
 </P>
 <SPEAKER ID="1" NAME="Die &quot;Pr&#228;sidentin&quot;" LANGUAGE="FR">
  <P id="2">
   <s id="2">Ich erkl&#228;re sie
f&#xFC;r &lt;er&#246;ffnet&gt; &amp; neu.</s>
   <s id="3">Alles Gute.</s>
  </P>
  <P id="3"><s id="4">Noch etwas?</s></P>
 </SPEAKER>
 <SPEAKER
   ID="2" NAME="d'Or > Co"><P id="4"><s id="5"><w id="w1.1" pos="N">Vielen</w> <w>Dank</w><w>.</w></s></P></SPEAKER>
</CHAPTER>
<CHAPTER ID="002"><SPEAKER ID="3"/><P id="5"/></CHAPTER>
</text>
"""
SPEECH = Document("ep-00-01-17/1/1", "en", "Thank you.", "A")
relaxed = settings(max_examples=up_to(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
names = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"], exclude_characters="\"'<>="), min_size=1
)
words = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"], exclude_characters="<>"), min_size=1)
paragraphs = st.lists(st.lists(words, min_size=1, max_size=4).map(" ".join), min_size=1, max_size=3)
sessions = st.lists(st.tuples(names, paragraphs, st.lists(st.tuples(names, names, paragraphs), max_size=3)), min_size=1)


def put(root: Path, name: str, content: str | bytes) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def speech(chapter: object = 1, speaker: object = 1, text: str = "Thank you.") -> str:
    return f'<CHAPTER ID={chapter}>\n<SPEAKER ID={speaker} NAME="A">\n{text}\n'


def message(root: Path, langs: list[str] | None = None) -> str:
    with pytest.raises(CorpusError) as caught:
        list(read_europarl(root, langs=langs))
    return str(caught.value)


# The two published forms


def test_sessions_in_text_are_headings_and_speeches(tmp_path: Path) -> None:
    put(tmp_path, "txt/en/ep-00-01-17.txt", TEXT)
    assert list(read_europarl(tmp_path)) == [
        Document("ep-00-01-17/1", "en", "Resumption of the session"),
        Document(
            "ep-00-01-17/1/1",
            "en",
            "I declare the session resumed & wish you a good year.\nAre there comments? (1 < 2)\nThere are none.",
            "The President",
        ),
        Document("ep-00-01-17/1/2", "en", "Thank you.", 'Hagen "Bo" d\'Or'),
        Document("ep-00-01-17/002", "en", "Agenda"),
        Document("ep-00-01-17/002/3", "en", "The next item is the agenda.", "The President"),
    ]


def test_sessions_in_xml_are_headings_and_speeches(tmp_path: Path) -> None:
    put(tmp_path, "Europarl/raw/de/ep-00-01-17.xml", XML)
    assert list(read_europarl(tmp_path)) == [
        Document("ep-00-01-17/1", "de", "Wiederaufnahme der Sitzung"),
        Document(
            "ep-00-01-17/1/1",
            "de",
            "Ich erkläre sie für <eröffnet> & neu. Alles Gute.\nNoch etwas?",
            'Die "Präsidentin"',
        ),
        Document("ep-00-01-17/1/2", "de", "Vielen Dank .", "d'Or > Co"),
    ]


def test_files_may_be_compressed_or_members_of_a_zip(tmp_path: Path) -> None:
    plain, packed, zipped = tmp_path / "plain", tmp_path / "packed", tmp_path / "zipped"
    put(plain, "de/ep-00-01-17.xml", XML)
    put(plain, "en/ep-00-01-17.txt", TEXT)
    put(packed, "raw/de/ep-00-01-17.xml.gz", gzip.compress(XML.encode()))
    put(packed, "raw/en/ep-00-01-17.txt.gz", gzip.compress(TEXT.encode()))
    zipped.mkdir()
    with zipfile.ZipFile(zipped / "de.zip", "w") as archive:
        archive.writestr("Europarl/README", "not a session")
        archive.writestr("./Europarl/raw/de/ep-00-01-17.xml", XML)
    with zipfile.ZipFile(zipped / "en.zip", "w") as archive:
        archive.writestr("ep-00-01-17.txt", TEXT)  # its language is the archive's name
    expected = list(read_europarl(plain))
    assert [document.lang for document in expected] == ["de"] * 3 + ["en"] * 5
    assert list(read_europarl(packed)) == list(read_europarl(zipped)) == expected
    assert list(read_europarl(zipped / "de.zip")) == list(read_europarl(packed / "raw" / "de")) == expected[:3]


def test_only_the_wanted_languages_are_read(tmp_path: Path) -> None:
    for lang in ("da", "en", "it"):
        put(tmp_path, f"{lang}/ep-00-01-17.txt", speech())
    put(tmp_path, "da/ep-99-01-17.txt", b"\xff")
    assert [document.lang for document in read_europarl(tmp_path, langs={"it", "en"})] == ["en", "it"]
    assert [document.lang for document in read_europarl(tmp_path, langs="en")] == ["en"]


@pytest.mark.parametrize(
    ("folder", "asked"), [("en", "eng"), ("en", "EN"), ("deu", "de"), ("pt_br", "pt-BR"), ("pt-BR", "por_br")]
)
def test_wanted_languages_may_be_spelled_differently_from_their_folders(
    tmp_path: Path, folder: str, asked: str
) -> None:
    for name in (folder, "it", "not a language"):
        put(tmp_path, f"{name}/ep-00-01-17.txt", speech())
    assert [document.lang for document in read_europarl(tmp_path, langs=[asked])] == [folder]
    assert [document.lang for document in read_europarl(tmp_path, langs=[asked, folder])] == [folder]
    assert message(tmp_path, [asked, "FRA"]) == (
        f"{tmp_path}: no session in FRA; its folders are {', '.join(sorted([folder, 'it', 'not a language']))}"
    )
    assert [document.lang for document in read_europarl(tmp_path, langs=["not a language"])] == ["not a language"]


def test_speeches_without_a_chapter_are_kept(tmp_path: Path) -> None:
    put(tmp_path, "en/ep-00-01-17.txt", "dropped: nobody says it\n<speaker id='7' name=A>\nHello\n")
    assert list(read_europarl(tmp_path)) == [Document("ep-00-01-17/7", "en", "Hello", "A")]


# What is written comes back


@pytest.mark.slow
@given(sessions)
@example([("/", ["&lt;"], [("&amp;", "&#65;/", ["a", "/"])])])
@relaxed
def test_random_sessions_come_back_equal_in_either_form(
    tmp_path: Path, chapters: list[tuple[str, list[str], list[tuple[str, str, list[str]]]]]
) -> None:
    text, xml, expected = [], ['<?xml version="1.0"?>\n<text>'], []

    def heard(paragraphs: list[str]) -> None:
        text.append("\n<P>\n".join(paragraphs))
        xml.extend(f'<P id="1"><s id="1">{escape(paragraph)}</s>\n</P>' for paragraph in paragraphs)

    for chapter, heading, speeches in chapters:
        expected.append(Document(f"ep-1/{chapter}", "en", "\n".join(heading)))
        text.append(f"<CHAPTER ID={chapter}>")
        xml.append(f'<CHAPTER ID="{escape(chapter)}">')
        heard(heading)
        for speaker, name, paragraphs in speeches:
            expected.append(Document(f"ep-1/{chapter}/{speaker}", "en", "\n".join(paragraphs), name))
            text.append(f'<SPEAKER ID={speaker} LANGUAGE="DE" NAME="{name}">')
            xml.append(f'<SPEAKER ID="{escape(speaker)}" NAME="{escape(name)}" LANGUAGE="DE">')
            heard(paragraphs)
            xml.append("</SPEAKER>")
        xml.append("</CHAPTER>")
    for form, content in {"txt": text, "xml": [*xml, "</text>"]}.items():
        put(tmp_path, f"{form}/en/ep-1.{form}", "\n".join(content))
        assert list(read_europarl(tmp_path / form)) == expected


# What is wrong with a file


def test_a_folder_without_sessions_is_an_error(tmp_path: Path) -> None:
    put(tmp_path, "en/other.xml", XML)
    assert message(tmp_path) == (
        f"{tmp_path}: no session file; name a folder or a .zip with a folder per language, as in en/ep-00-01-17.xml"
    )
    assert message(tmp_path / "txt") == f"{tmp_path}/txt: no such file or folder; check the spelling"


def test_a_wanted_language_without_sessions_is_an_error(tmp_path: Path) -> None:
    put(tmp_path, "en/ep-00-01-17.txt", TEXT)
    put(tmp_path, "da/ep-00-01-17.txt", TEXT)
    assert message(tmp_path, ["en", "nl", "fr"]) == f"{tmp_path}: no session in fr, nl; its folders are da, en"


@pytest.mark.parametrize(
    ("name", "content", "reason", "words"),
    [
        (
            "ep-1.txt",
            b"<CHAPTER ID=1>\nca\x81f\n",
            "invalid UTF-8",
            ":2: byte 0x81 at position 3 is not UTF-8; convert the file, e.g. with iconv -f windows-1252 -t utf-8",
        ),
        (
            "ep-1.txt",
            b"Nothing but text.\n",
            "no session",
            ": contains no <CHAPTER> or <SPEAKER>; remove it, or rename it without ep-",
        ),
        (
            "ep-1.xml",
            b'<text>\n<SPEAKER NAME="A">Lost</SPEAKER>',
            "no id",
            ":2: a SPEAKER without an ID, which translations share; add one",
        ),
        (
            "ep-1.txt",
            b'<CHAPTER>\nLost\n<SPEAKER ID="" NAME="A">',
            "no id",
            ":1: a CHAPTER without an ID, which translations share; add one",
        ),
        (
            "ep-1.xml.gz",
            gzip.compress(XML.encode(), mtime=0)[:-9],
            "unreadable file",
            ": truncated, the compressed data has no end; copy or download it again",
        ),
        (
            "ep-1.xml.gz",
            b"<text>",
            "unreadable file",
            ": corrupt, not a gzipped file (b'<t'); copy or download it again",
        ),
        ("en.zip", b"PK", "unreadable file", ": corrupt, file is not a zip file; copy or download it again"),
    ],
)
def test_a_bad_file_is_reported_and_the_others_are_read(
    tmp_path: Path, name: str, content: bytes, reason: str, words: str
) -> None:
    bad = put(tmp_path, f"en/{name}", content)
    put(tmp_path, "en/ep-00-01-17.txt", speech())
    accounting = Accounting("skip")
    found = list(read_europarl(tmp_path, accounting=accounting))
    assert SPEECH in found
    assert all("Lost" not in document.text for document in found)
    assert accounting.errors.examples[reason] == message(tmp_path) == f"{bad}{words}"


def test_an_encrypted_member_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "en.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ep-1.txt", TEXT)
    content = bytearray(path.read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    assert message(path) == f"{path}: ep-1.txt is encrypted; unpack it with its password and pass the files"


def test_a_speech_without_an_end_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(europarl, "MAX_SPEECH_CHARACTERS", 10_000)
    path = put(tmp_path, "en/ep-00-01-17.txt", speech(0) + "word word\n" * 20_000 + speech())
    accounting = Accounting("skip")
    tracemalloc.start()
    try:
        assert list(read_europarl(tmp_path, accounting=accounting)) == [SPEECH]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
    assert accounting.errors.examples == {
        "speech too long": f"{path}:1114: a speech of more than 10,000 characters; check the file"
    }


# Anything else


noise = st.lists(
    st.sampled_from(
        [*"<>/!?-='\" \n&;a", "<CHAPTER ID=1>\n", "<SPEAKER ID=", "<P>", "<!--", "-->", "&#x;", "&#99999999;", "\udcff"]
    ),
    max_size=40,
).map("".join)


@given(noise, st.sampled_from(["txt", "xml"]))
@settings(relaxed, max_examples=up_to(200))
def test_any_characters_give_speeches_or_reported_errors(tmp_path: Path, signs: str, form: str) -> None:
    put(tmp_path, f"{form}/en/ep-1.{form}", f"<SPEAKER ID=1>\n{signs}".encode("utf-8", "surrogateescape"))
    for document in read_europarl(tmp_path / form, accounting=Accounting("skip")):
        assert document.concept.startswith("ep-1/")
        assert document.text.strip()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["txt", "xml"])
@pytest.mark.parametrize("unit", ["<", "<a ", "<SPEAKER ", "<!--", '<a b="', "a=' ", "<a\n", "&", "\n<SPEAKER ID=1\n"])
def test_time_is_linear(tmp_path: Path, form: str, unit: str) -> None:
    def taken(repeats: int, enough: float = 0.0) -> float:
        put(tmp_path, f"en/ep-1.{form}", "<CHAPTER ID=1>\n" + unit * repeats)
        return seconds(lambda: list(read_europarl(tmp_path, accounting=Accounting("skip"))), enough)

    limit = 10 * taken(5_000) + 0.2  # 4 times would be exact, 16 quadratic
    assert taken(20_000, limit) < limit
