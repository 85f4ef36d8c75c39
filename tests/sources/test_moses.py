"""Documents of line-aligned files: lines of the same number share a concept, and misaligned files are rejected."""

import bz2
import gzip
import lzma
import tempfile
import tracemalloc
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import up_to

from cr5.corpus.documents import Document
from cr5.errors import CorpusError, Cr5Error, Cr5Warning
from cr5.sources import files
from cr5.sources.accounting import Accounting
from cr5.sources.moses import read_moses

EN = "Resumption of the session\nPlease rise.\n\n\nThank you.\n"
IT = "Ripresa della sessione\nIn piedi, prego.\n\nSolo in italiano\nGrazie.\n"

relaxed = settings(max_examples=up_to(60), deadline=None)
sentences = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\n\r\ufeff"), max_size=8)
rows = st.lists(st.tuples(sentences, sentences, sentences), max_size=12)


def put(folder: Path, **texts: str | bytes) -> Path:
    """Files whose names are written with __ for a dot and _0 for a hyphen: a__en_0it__en is a.en-it.en."""
    folder.mkdir(exist_ok=True, parents=True)
    for name, text in texts.items():
        path = folder / name.replace("__", ".").replace("_0", "-")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def pack(path: Path, **texts: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(name.replace("__", ".").replace("_0", "-"), text)
    return path


def plain(documents: Iterable[Document]) -> list[tuple[str, str, str]]:
    return [(document.concept, document.lang, document.text) for document in documents]


def message(*paths: Path, join: int = 1, pivot: str | None = None) -> str:
    with pytest.raises(Cr5Error) as caught:
        list(read_moses(paths, join=join, pivot=pivot))
    return str(caught.value)


# Published forms


@pytest.fixture
def opus(tmp_path: Path) -> Path:
    """A zip as OPUS packs them."""
    others = {"README": "Corpus", "LICENSE": "free", "Europarl__en_0it__ids": "en/a.xml.gz\tit/a.xml.gz\t1\t1\n" * 5}
    return pack(tmp_path / "en-it.txt.zip", Europarl__en_0it__en=EN, Europarl__en_0it__it=IT, **others)


def test_with_join_1_each_line_is_a_document(opus: Path) -> None:
    assert plain(read_moses([opus], join=1)) == [
        ("Europarl.en-it:1", "en", "Resumption of the session"),
        ("Europarl.en-it:1", "it", "Ripresa della sessione"),
        ("Europarl.en-it:2", "en", "Please rise."),
        ("Europarl.en-it:2", "it", "In piedi, prego."),
        ("Europarl.en-it:4", "it", "Solo in italiano"),
        ("Europarl.en-it:5", "en", "Thank you."),
        ("Europarl.en-it:5", "it", "Grazie."),
    ]


def test_joined_lines_do_not_cross_a_line_that_is_empty_everywhere(opus: Path) -> None:
    joined = [
        ("Europarl.en-it:1", "en", "Resumption of the session\nPlease rise."),
        ("Europarl.en-it:1", "it", "Ripresa della sessione\nIn piedi, prego."),
        ("Europarl.en-it:4", "en", "Thank you."),
        ("Europarl.en-it:4", "it", "Solo in italiano\nGrazie."),
    ]
    assert plain(read_moses([opus])) == plain(read_moses([opus], join=2)) == joined


@pytest.mark.parametrize(
    ("suffix", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), (".txt", bytes)]
)
def test_files_may_be_compressed_each_in_its_way(tmp_path: Path, opus: Path, suffix: str, compress: object) -> None:
    folder = put(tmp_path / "unpacked", Europarl__en_0it__en=EN, README="Corpus")
    assert callable(compress)
    (folder / f"Europarl.en-it.it{suffix}").write_bytes(compress(IT.encode()))
    assert plain(read_moses([folder])) == plain(read_moses([opus]))


def test_more_than_two_languages_share_lines(tmp_path: Path) -> None:
    folder = put(
        tmp_path / "a", train__de="eins\nzwei", train__en="one\ntwo", train__pt_BR="um\ndois\n", notes__txt="?"
    )
    assert plain(read_moses([folder / name for name in ("train.en", "train.pt_BR", "train.de", "notes.txt")])) == [
        ("train:1", "de", "eins\nzwei"),
        ("train:1", "en", "one\ntwo"),
        ("train:1", "pt_BR", "um\ndois"),
    ]


def test_a_pair_in_the_name_makes_unregistered_codes_valid(tmp_path: Path) -> None:
    folder = put(tmp_path / "a", S__src_0ze_en__src="a\n", S__src_0ze_en__ze_en="b\n", S__en_0pt_0br__en="c\n")
    put(folder, **{"S__en_0pt_0br__pt_0br": "d\n"})
    assert plain(read_moses([folder])) == [
        ("S.en-pt-br:1", "en", "c"),
        ("S.en-pt-br:1", "pt-br", "d"),
        ("S.src-ze_en:1", "src", "a"),
        ("S.src-ze_en:1", "ze_en", "b"),
    ]


def test_folders_and_zips_in_them_are_searched_once(tmp_path: Path) -> None:
    folder = put(tmp_path / "a" / "b", x__en="one\n", x__fr="un\n", **{"__hidden__en": "no"})
    pack(tmp_path / "a" / "z.zip", y__en="two\n", y__fr="deux\n")
    found = [("x:1", "en", "one"), ("x:1", "fr", "un"), ("y:1", "en", "two"), ("y:1", "fr", "deux")]
    assert plain(read_moses([tmp_path / "a", folder, folder / "x.en"])) == found


def test_files_of_the_same_name_get_their_folders_in_the_concept(tmp_path: Path) -> None:
    for name in ("v7/raw", "v8/raw"):
        put(tmp_path / name, x__en="one\n", x__fr="un\n")
    put(tmp_path / "v8", y__en="two\n", y__fr="deux\n")
    pack(tmp_path / "v8" / "z.zip", x__en="two\n", x__fr="deux\n")
    concepts = {document.concept for document in read_moses([tmp_path])}
    assert concepts == {"v7/raw/x:1", "v8/raw/x:1", "v8/z.zip/x:1", "y:1"}


def test_carriage_returns_and_byte_order_marks_are_removed(tmp_path: Path) -> None:
    folder = put(tmp_path / "a", x__en="\ufeffone\r\n\r\ntwo\r\n", x__fr="un\n\ndeux\n")
    assert [text for _, _, text in plain(read_moses([folder]))] == ["one", "un", "two", "deux"]


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    folder = put(tmp_path / "a", x__en="a\u2028b\x85c\x0bd\re\n", x__fr="f\n")
    assert plain(read_moses([folder])) == [("x:1", "en", "a\u2028b\x85c\x0bd\re"), ("x:1", "fr", "f")]


# A pivot


def test_pairs_share_the_concepts_of_equal_lines_in_the_pivot(tmp_path: Path) -> None:
    put(tmp_path / "a", E__en_0it__en="Yes.\nNo.\n\n", E__en_0it__it="Sì.\nNo.\nForse.\n")
    put(tmp_path / "a", E__da_0en__da="Nej.\nMåske.\n\n", E__da_0en__en="No. \nPerhaps.\nHi.\n")
    meeting: dict[str, set[tuple[str, str]]] = {}
    for concept, lang, text in plain(read_moses([tmp_path / "a"], join=1, pivot="en")):
        assert concept.startswith("en:")
        meeting.setdefault(concept, set()).add((lang, text))
    assert sorted(map(sorted, meeting.values())) == [
        [("da", "Måske."), ("en", "Perhaps.")],
        [("da", "Nej."), ("en", "No."), ("it", "No.")],
        [("en", "Hi.")],
        [("en", "Yes."), ("it", "Sì.")],
    ]


def test_pairs_that_a_pivot_could_link_are_named(tmp_path: Path) -> None:
    put(tmp_path / "a", E__en_0it__en="Yes.\n", E__en_0it__it="Sì.\n", E__da_0en__da="Ja.\n", E__da_0en__en="Yes.\n")
    with pytest.warns(Cr5Warning, match=r"no concept links da-en, en-it; pass `pivot=en`"):
        assert len(list(read_moses([tmp_path / "a"]))) == 4
    put(tmp_path / "b", E__en_0it__en="Yes.\n", E__en_0it__it="Sì.\n", F__en_0it__en="No.\n", F__en_0it__it="No.\n")
    assert len(list(read_moses([tmp_path / "b"]))) == 4


def test_of_many_pairs_that_a_pivot_could_link_some_are_named(tmp_path: Path) -> None:
    for lang in ("da", "de", "es", "fr", "it", "nl", "sv"):
        for code in ("en", lang):
            (tmp_path / f"x.en-{lang}.{code}").write_text("Yes.\n")
    with pytest.warns(Cr5Warning, match="no concept links da-en, de-en, en-es, en-fr, en-it and 2 more; pass"):
        assert list(read_moses([tmp_path]))


def test_the_pivot_may_be_spelled_differently_in_every_pair(tmp_path: Path) -> None:
    put(tmp_path / "a", E__en="No.\n", E__it="No.\n", T__dan="Nej.\n", T__eng="No.\n")
    found = plain(read_moses([tmp_path / "a"], join=1, pivot="eng"))
    assert {lang for _, lang, _ in found} == {"dan", "en", "eng", "it"}
    assert len({concept for concept, _, _ in found}) == 1


def test_a_pivot_with_joined_lines_is_an_error(tmp_path: Path) -> None:
    assert message(tmp_path, join=20, pivot="en") == (
        "`join=20` does not work with `pivot=en`, because two language pairs hardly ever share 20 consecutive "
        "lines; use `join=1`"
    )


def test_files_without_the_pivot_are_an_error(tmp_path: Path) -> None:
    folder = put(tmp_path / "a", x__de="eins\n", x__fr="un\n")
    assert message(folder, pivot="en") == "x: has de, fr, not `pivot=en`; leave these files out"


# What is written comes back


@given(rows, st.integers(1, 5), st.booleans())
@relaxed
def test_random_lines_come_back_equal(table: list[tuple[str, str, str]], join: int, packed: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        texts = {f"x__{lang}": "".join(row[n] + "\n" for row in table) for n, lang in enumerate(["da", "en", "it"])}
        folder = put(Path(name), **texts) if not packed else pack(Path(name, "x.zip"), **texts)
        found = plain(read_moses([folder], join=join))
    lines: dict[str, list[str]] = {"da": [], "en": [], "it": []}
    blocks: dict[str, set[str]] = {}
    for concept, lang, text in found:
        lines[lang] += text.split("\n")
        assert text.count("\n") < join
        assert lang not in blocks.setdefault(concept, set())
        blocks[concept].add(lang)
        first = int(concept.removeprefix("x:")) - 1
        block = [row[["da", "en", "it"].index(lang)].strip() for row in table[first : first + join]]
        assert text.split("\n") == [line for line in block if line][: text.count("\n") + 1]
    for n, lang in enumerate(lines):
        assert lines[lang] == [row[n].strip() for row in table if row[n].strip()]


@given(rows)
@relaxed
def test_no_document_crosses_an_empty_row(table: list[tuple[str, str, str]]) -> None:
    marked = [tuple(f"{n}" if text.strip() else "" for text in row) for n, row in enumerate(table, 1)]
    empty = {n for n, row in enumerate(marked, 1) if not any(row)}
    with tempfile.TemporaryDirectory() as name:
        texts = {f"x__{lang}": "\n".join(row[n] for row in marked) + "\n" for n, lang in enumerate(["da", "en", "it"])}
        for _, _, text in plain(read_moses([put(Path(name), **texts)], join=100)):
            numbers = [int(line) for line in text.split("\n")]
            assert not empty & set(range(numbers[0], numbers[-1]))


# What is wrong


@pytest.mark.parametrize("suffix", ["", "__gz"])
def test_files_of_unequal_length_give_nothing_and_both_counts(tmp_path: Path, suffix: str) -> None:
    english = gzip.compress(b"one\ntwo") if suffix else b"one\ntwo"
    folder = put(tmp_path / "a", **{f"x__en{suffix}": english}, x__fr="un\ndeux\ntrois\n", y__en="a\n", y__fr="b\n")
    expected = (
        f"{folder}/x.fr: 3 lines, but 2 in {folder}/x.en{suffix.replace('__', '.')}, so "
        "their lines cannot be matched; copy or download both again"
    )
    assert message(folder) == expected
    accounting = Accounting("skip")
    assert plain(read_moses([folder], accounting=accounting)) == [("y:1", "en", "a"), ("y:1", "fr", "b")]
    assert accounting.errors.examples == {"unequal files": expected}


def test_an_unreadable_line_is_reported_and_the_others_keep_their_numbers(tmp_path: Path) -> None:
    folder = put(tmp_path / "a", x__en=b"one\n\x81\nthree\n", x__fr="un\n\ntrois\n")
    problem = "byte 0x81 at position 1 is not UTF-8; convert the file, e.g. with iconv -f windows-1252 -t utf-8"
    assert message(folder) == f"{folder}/x.en:2: {problem}"
    accounting = Accounting("skip")
    found = plain(read_moses([folder], join=1, accounting=accounting))
    assert found == [("x:1", "en", "one"), ("x:1", "fr", "un"), ("x:3", "en", "three"), ("x:3", "fr", "trois")]
    assert accounting.errors.counts == {"invalid UTF-8": 1}
    joined = plain(read_moses([folder], accounting=accounting))
    assert joined == [("x:1", "en", "one\nthree"), ("x:1", "fr", "un\ntrois")]


def test_a_file_that_is_evidently_in_windows_1252_is_read_and_counted(tmp_path: Path) -> None:
    folder = put(tmp_path / "a", x__en="why\ncity\n", x__it="perché\ncittà\n".encode("cp1252"))
    accounting = Accounting()
    found = plain(read_moses([folder], join=1, accounting=accounting))
    assert [text for _, lang, text in found if lang == "it"] == ["perché", "città"]
    assert accounting.guessed_encodings.examples == {"windows-1252": f"{folder}/x.it"}


def test_a_file_without_a_partner_is_an_error(tmp_path: Path) -> None:
    folder = put(tmp_path / "a", train__en="one\n", README__md="?", build__py="?", train__log="?")
    assert message(folder) == (
        f"{folder}/train.en: no file of this name in another language; add it or leave this one out"
    )
    path = pack(tmp_path / "en-it.txt.zip", E__en_0it__en="one\n")
    assert message(path) == f"{path}: E.en-it.en: E.en-it.it is missing; add it or leave this one out"
    accounting = Accounting("skip")
    put(folder, y__en="a\n", y__fr="b\n")
    assert len(list(read_moses([folder, path], accounting=accounting))) == 2
    assert accounting.errors.counts == {"missing translation": 2}


def test_no_pair_at_all_is_an_error(tmp_path: Path) -> None:
    path = pack(tmp_path / "x.zip", README="?", x__en__gz="?")
    folder = put(tmp_path / "empty")
    ending = (
        "their names must differ only in the language at the end, like train.en and train.fr, train.en.txt and "
        "train.fr.txt, or train_en.txt and train_fr.txt"
    )
    assert message(path, folder) == f"no aligned files in {path}, {folder}; {ending}"
    assert message() == f"no aligned files in an empty list; {ending}"


def test_a_language_after_a_dash_or_underscore_counts_where_two_names_differ_in_it(tmp_path: Path) -> None:
    names = ("corpus_en.txt", "corpus_pt_BR.txt", "dev-en.txt", "dev-it.txt", "sign-in.txt", "en-de", "en-it")
    for name in names:
        (tmp_path / name).write_text(f"{name}\n")
    accounting = Accounting()
    found = [(document.concept, document.lang) for document in read_moses([tmp_path], accounting=accounting)]
    assert found == [("corpus:1", "en"), ("corpus:1", "pt_BR"), ("dev:1", "en"), ("dev:1", "it")]
    assert accounting.skipped_files.counts == {"no language in its name": 3}


def test_two_files_of_a_language_are_an_error(tmp_path: Path) -> None:
    folder = put(tmp_path / "a", x__en="one\n", x__en__gz=gzip.compress(b"one\n"), x__fr="un\n")
    assert message(folder) == f"{folder}/x.en.gz: seems to be the same text as {folder}/x.en; keep one of them"
    folder = put(tmp_path / "b", news_0src__eng__txt="1\n", news_0ref__eng__txt="2\n", news_0ref__deu__txt="2\n")
    assert message(folder) == (
        f"{folder}/news-src.eng.txt and {folder}/news-ref.eng.txt are both news in eng; leave one of them out, or "
        "rename it"
    )


def test_a_missing_path_is_an_error(tmp_path: Path) -> None:
    assert message(tmp_path / "x.en") == f"{tmp_path}/x.en: no such file or folder; check the spelling"


def test_joining_less_than_one_line_is_an_error(tmp_path: Path) -> None:
    assert message(tmp_path, join=0) == "`join=0` must be a whole number of at least 1"


def test_an_encrypted_zip_is_an_error(tmp_path: Path) -> None:
    path = pack(tmp_path / "x.zip", x__en="one\n", x__fr="un\n")
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1  # as its directory tells it
    path.write_bytes(content)
    assert message(path) == f"{path}: x.en is encrypted; unpack it with its password and pass the files"


def test_damaged_files_are_reported_and_the_others_are_read(tmp_path: Path) -> None:
    text = "".join(f"{n * n}\n" for n in range(5000)).encode()
    folder = put(tmp_path / "a", x__en__gz=gzip.compress(text)[:-900], x__fr=text, y__en="a\n", y__fr="b\n")
    put(folder, z__zip=b"PK no zip")
    assert message(folder / "x.en.gz", folder / "x.fr") == (
        f"{folder}/x.en.gz: truncated, the compressed data has no end; copy or download it again"
    )
    assert message(folder / "z.zip") == f"{folder}/z.zip: corrupt, file is not a zip file; copy or download it again"
    accounting = Accounting("skip")
    assert plain(read_moses([folder], accounting=accounting)) == [("y:1", "en", "a"), ("y:1", "fr", "b")]
    assert accounting.errors.counts == {"unreadable file": 2}


def test_a_file_of_nothing_but_a_byte_order_mark_has_no_line(tmp_path: Path) -> None:
    accounting = Accounting("skip")
    folder = put(tmp_path, x__da=b"a", x__en=b"\xef\xbb\xbf")
    assert list(read_moses([folder], accounting=accounting)) == []
    assert accounting.errors.counts == {"unequal files": 1}


# Anything else


@given(st.lists(st.binary(max_size=30), min_size=2, max_size=3), st.integers(1, 3))
@relaxed
def test_any_bytes_give_documents_or_reported_errors(contents: list[bytes], join: int) -> None:
    accounting = Accounting("skip")
    with tempfile.TemporaryDirectory() as name:
        folder = put(Path(name), **{f"x__{lang}": c for lang, c in zip(["da", "en", "it"], contents, strict=False)})
        for document in read_moses([folder], join=join, accounting=accounting):
            assert document.text.strip()
    assert set(accounting.errors.counts) <= {"unequal files", "invalid UTF-8", "NUL character", "unreadable file"}


@given(st.data())
@relaxed
def test_any_damage_to_a_zip_gives_documents_or_an_error(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = pack(Path(name, "x.zip"), x__en="one two three\n" * 9, x__fr="un deux trois\n" * 9)
        content = bytearray(path.read_bytes())
        for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=3)):
            content[place] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        try:
            list(read_moses([path], accounting=Accounting("skip")))
        except CorpusError:
            return


@pytest.mark.slow
def test_memory_does_not_grow_with_what_a_zip_unpacks_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 1 << 20)
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for lang in ("en", "fr"):
            with archive.open(f"x.{lang}", "w") as member:
                for _ in range(20):
                    member.write(b"\0" * (1 << 20))
                member.write(b"\n" + b"word\n" * 40_000)
    assert path.stat().st_size < 200_000
    accounting = Accounting("skip")
    tracemalloc.start()
    try:
        found = sum(1 for _ in read_moses([path], accounting=accounting))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == 2 * 2001
    assert accounting.errors.counts == {"line too long": 2}
    assert peak < 12 << 20
