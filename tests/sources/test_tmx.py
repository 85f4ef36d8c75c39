"""Translation memories: segments come back in their languages without markup, and hostile files do no harm."""

import gzip
import io
import tempfile
import tracemalloc
import zipfile
from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import up_to
from timing import seconds

from cr5.corpus.documents import Document
from cr5.errors import CorpusError, Cr5Error
from cr5.sources import tmx
from cr5.sources.accounting import Accounting
from cr5.sources.tmx import read_tmx

HEADER = '<header creationtool="x" segtype="sentence" o-tmf="y" adminlang="en" srclang="en-US" datatype="plaintext"/>'
MEMORY = f"""<?xml version="1.0" encoding="UTF-8"?>
<!-- a memory -->
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4">
{HEADER}
<body>
<tu tuid="a7" datatype="html"><note>no text</note><prop type="x">nor this</prop>
  <tuv xml:lang="en-US" creationdate="20020413T153401Z"><prop type="y">nor that</prop>
    <seg>Press <bpt i="1" x="1">&lt;b&gt;</bpt>Save<ept i="1">&lt;/b&gt;</ept>
      &amp; <hi type="term">close</hi>.</seg></tuv>
  <tuv xml:lang="it"><seg>Premere Salva<ph>&lt;br/&gt;</ph>e chiudere<it pos="begin">&lt;i&gt;</it>.</seg></tuv>
</tu>
<tu>
  <tuv xml:lang="en-US"><seg>A dog<ph>&lt;img alt="<sub>a <bpt i="2">{{</bpt>pet</sub>"&gt;</ph>and cat</seg></tuv>
  <tuv xml:lang="da"><seg>En hund</seg></tuv>
  <tuv xml:lang="da"><seg>Hunden</seg></tuv>
  <tuv xml:lang="it"><seg> </seg></tuv>
</tu>
</body>
</tmx>
"""
UNITS = [
    ("m:1", "en-US", "Press Save & close."),
    ("m:1", "it", "Premere Salva e chiudere."),
    ("m:2", "en-US", "A dog a pet and cat"),
    ("m:2", "da", "En hund"),
    ("m:2", "da", "Hunden"),
]

relaxed = settings(max_examples=up_to(80), deadline=None)
letters = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")
segments = st.tuples(st.sampled_from(["da", "en-US", "zh_CN"]), st.text(letters, max_size=12))
memories = st.lists(st.lists(segments, max_size=4), max_size=6)
tags = [f"<{end}{name}>" for name in ("tu", "tuv", "seg", "ph", "sub", "hi", "body", "tmx") for end in ("", "/")]
signs = ["word", "é", "&amp;", "&nbsp;", "&x;", "&#0;", "<![CDATA[a<b]]>", "<?p?>", "<!--c-->", "<", "]]>", "\0"]
tags += ['<tuv xml:lang="en">', '<tuv lang="it">']
noise = st.lists(st.sampled_from(tags + signs), max_size=40).map("".join)


def wrap(*units: str, doctype: str = "") -> str:
    return f'{doctype}<tmx version="1.4">{HEADER}<body>{"".join(units)}</body></tmx>'


def unit(*pairs: tuple[str, str], attribute: str = "xml:lang") -> str:
    tuvs = [f"<tuv {attribute}={quoteattr(lang)}><seg>{escape(text)}</seg></tuv>" for lang, text in pairs]
    return f"<tu>{''.join(tuvs)}</tu>\n"


def put(folder: Path, content: str | bytes, name: str = "m.tmx") -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def plain(documents: Iterable[Document]) -> list[tuple[str, str, str]]:
    return [(document.concept, document.lang, document.text) for document in documents]


def message(*paths: Path, join: int = 1) -> str:
    with pytest.raises(Cr5Error) as caught:
        list(read_tmx(paths, join=join))
    return str(caught.value)


# Published forms


def test_segments_come_without_markup_of_the_original(tmp_path: Path) -> None:
    assert plain(read_tmx([put(tmp_path, MEMORY)], join=1)) == UNITS


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "iso-8859-1", "windows-1252"])
def test_the_usual_encodings_are_decoded(tmp_path: Path, encoding: str) -> None:
    name = encoding.removesuffix("-sig").removesuffix("-le").removesuffix("-be")
    content = MEMORY.replace("UTF-8", name).replace("hund<", "hønd<").encode(encoding)
    assert plain(read_tmx([put(tmp_path, content)], join=1))[3] == ("m:2", "da", "En hønd")


def test_older_versions_name_languages_by_lang(tmp_path: Path) -> None:
    old = '<!DOCTYPE tmx SYSTEM "tmx11.dtd">\n' + wrap(unit(("EN", "one"), ("FR", "un"), attribute="lang"))
    assert plain(read_tmx([put(tmp_path, old.replace("1.4", "1.1"))], join=1)) == [
        ("m:1", "EN", "one"),
        ("m:1", "FR", "un"),
    ]


def test_units_can_be_joined(tmp_path: Path) -> None:
    units = [unit(("en", f"one {n}"), ("it", f"uno {n}")) for n in range(1, 4)]
    path = put(tmp_path, wrap(*units, unit(), unit(("it", "solo"))))
    assert plain(read_tmx([path], join=2)) == [
        ("m:1", "en", "one 1\none 2"),
        ("m:1", "it", "uno 1\nuno 2"),
        ("m:3", "en", "one 3"),
        ("m:3", "it", "uno 3"),
        ("m:5", "it", "solo"),
    ]


def test_entities_of_html_are_decoded_if_the_file_has_an_external_dtd(tmp_path: Path) -> None:
    doctype = '<!DOCTYPE tmx SYSTEM "tmx14.dtd">'
    content = wrap('<tu><tuv xml:lang="fr"><seg>caf&eacute;&nbsp;noir</seg></tuv></tu>', doctype=doctype)
    assert plain(read_tmx([put(tmp_path, content)], join=1)) == [("m:1", "fr", "café noir")]


def test_files_may_be_compressed_or_in_folders_and_zips(tmp_path: Path) -> None:
    put(tmp_path / "a", gzip.compress(MEMORY.encode()), "m.tmx.gz")
    put(tmp_path / "a", "<html/>", "other.xml")
    put(tmp_path / "a", "<html/>", ".hidden.tmx")
    with zipfile.ZipFile(tmp_path / "a" / "z.zip", "w") as archive:
        archive.writestr("sub/m.TMX", MEMORY)
        archive.writestr("n.tmx", MEMORY)
        archive.writestr("README", "?")
    found = plain(read_tmx([tmp_path / "a", tmp_path / "a" / "m.tmx.gz"], join=1))
    expected = [[(c.replace("m", name), lang, text) for c, lang, text in UNITS] for name in ("a/m", "n", "sub/m")]
    assert found == [document for documents in expected for document in documents]


def test_a_file_that_is_named_itself_may_have_any_name(tmp_path: Path) -> None:
    assert plain(read_tmx([put(tmp_path, wrap(unit(("en", "one"))), "export.xml")], join=1)) == [
        ("export.xml:1", "en", "one")
    ]


# What is written comes back


@given(memories, st.sampled_from(["utf-8", "utf-16"]))
@relaxed
def test_random_units_come_back_equal(memory: list[list[tuple[str, str]]], encoding: str) -> None:
    content = f'<?xml version="1.0" encoding="{encoding}"?>' + wrap(*(unit(*pairs) for pairs in memory))
    with tempfile.TemporaryDirectory() as name:
        found = plain(read_tmx([put(Path(name), content.encode(encoding))], join=1))
    expected = [(f"m:{n}", lang, " ".join(text.split())) for n, pairs in enumerate(memory, 1) for lang, text in pairs]
    assert found == [document for document in expected if document[2]]


@given(memories, st.integers(1, 9))
@relaxed
def test_the_size_of_chunks_does_not_change_the_documents(memory: list[list[tuple[str, str]]], chunk: int) -> None:
    content = wrap(*(unit(*pairs) for pairs in memory)).encode()
    with tempfile.TemporaryDirectory() as name:
        path = put(Path(name), content)
        whole = plain(read_tmx([path], join=1))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tmx, "CHUNK_BYTES", chunk)
            assert plain(read_tmx([path], join=1)) == whole


# What is wrong


def test_malformed_xml_is_reported_after_all_units_before_it(tmp_path: Path) -> None:
    path = put(tmp_path, MEMORY.replace("<seg>Hunden</seg>", "<seg>Hunden</sag>"))
    got: list[Document] = []
    with pytest.raises(CorpusError) as caught:
        got.extend(read_tmx([path], join=1))
    assert plain(got) == UNITS[:2]
    assert str(caught.value) == f"{path}:16:35: mismatched tag; correct it there or export it again"
    accounting = Accounting("skip")
    other = put(tmp_path, wrap(unit(("en", "one"))), "n.tmx")
    assert plain(read_tmx([path, other], join=1, accounting=accounting)) == [*UNITS[:2], ("n:1", "en", "one")]
    assert accounting.errors.examples == {"unreadable file": str(caught.value)}


def test_a_memory_cut_anywhere_gives_whole_units_and_an_error(tmp_path: Path) -> None:
    content = wrap(*(unit(("en", f"one {n}"), ("it", f"uno {n}")) for n in range(2))).encode()
    whole = plain(read_tmx([put(tmp_path, content)], join=1))
    for cut in range(len(content)):
        accounting = Accounting("skip")
        found = plain(read_tmx([put(tmp_path, content[:cut])], join=1, accounting=accounting))
        assert found == whole[: len(found)]
        assert len(found) == 2 * content[:cut].count(b"</tu>")
        assert accounting.errors.counts == {"unreadable file": 1}
    cut = content.index(b"</tu>") + 5
    assert message(put(tmp_path, content[:cut])) == (
        f"{tmp_path}/m.tmx:1:{cut + 1}: truncated, no element found; correct it there or export it again"
    )
    assert message(put(tmp_path, b"")) == (
        f"{tmp_path}/m.tmx:1:1: truncated, no element found; correct it there or export it again"
    )


def test_a_compressed_file_that_is_cut_gives_the_units_before(tmp_path: Path) -> None:
    content = wrap(*(unit(("en", str(n**5))) for n in range(20_000))).encode()
    path = put(tmp_path, gzip.compress(content)[:-20_000], "m.tmx.gz")
    accounting = Accounting("skip")
    found = plain(read_tmx([path], join=1, accounting=accounting))
    assert 1000 < len(found) < 20_000
    assert accounting.errors.examples == {
        "unreadable file": f"{path}: truncated, the compressed data has no end; copy or download it again"
    }


def test_a_segment_without_a_language_is_an_error(tmp_path: Path) -> None:
    path = put(tmp_path, wrap('\n<tu><tuv><seg>who?</seg></tuv><tuv xml:lang="it"><seg>io</seg></tuv></tu>'))
    assert message(path) == f"{path}:2: a <tuv> without xml:lang; add its language there"
    accounting = Accounting("skip")
    assert plain(read_tmx([path], join=1, accounting=accounting)) == [("m:1", "it", "io")]
    assert accounting.errors.counts == {"no language": 1}


def test_an_unknown_entity_is_an_error(tmp_path: Path) -> None:
    units = '<tu><tuv xml:lang="it"><seg>io&xyz;tu</seg></tuv></tu>'
    path = put(tmp_path, wrap(units, doctype='<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'))
    assert message(path) == f"{path}:2: the entity 'xyz' is unknown; write its text instead"
    accounting = Accounting("skip")
    assert plain(read_tmx([path], join=1, accounting=accounting)) == [("m:1", "it", "io tu")]
    assert message(put(tmp_path, wrap(units))) == (
        f"{path}:1:{wrap(units).index('&xyz') + 1}: undefined entity; correct it there or export it again"
    )


@pytest.mark.parametrize(
    ("declaration", "column"),
    [('<!ENTITY lol "ha">', 14), ('<!ENTITY % lol "ha">', 16), ('<!ENTITY lol SYSTEM "file:///etc/passwd">', 41)],
)
def test_a_declared_entity_is_an_error(tmp_path: Path, declaration: str, column: int) -> None:
    units = '<tu><tuv xml:lang="en"><seg>&lol;</seg></tuv></tu>'
    path = put(tmp_path, wrap(units, doctype=f"<!DOCTYPE tmx [\n{declaration}\n]>\n"))
    assert message(path) == (
        f"{path}:2:{column}: declares the entity 'lol', which may expand without limit; write its text instead"
    )


def test_an_exponential_entity_expansion_is_rejected_at_once(tmp_path: Path) -> None:
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    doctype = f'<!DOCTYPE tmx [<!ENTITY l0 "ha">{laughs}]>'
    path = put(tmp_path, wrap('<tu><tuv xml:lang="en"><seg>&l9;</seg></tuv></tu>', doctype=doctype))
    assert message(path) == (
        f"{path}:1:28: declares the entity 'l0', which may expand without limit; write its text instead"
    )
    assert seconds(lambda: message(path), 1) < 1


def test_the_five_entities_may_be_declared(tmp_path: Path) -> None:
    doctype = '<!DOCTYPE tmx [<!ELEMENT tmx ANY><!ENTITY lt "&#38;#60;"><!ENTITY gt "&#62;">]>'
    assert plain(read_tmx([put(tmp_path, wrap(unit(("en", "a < b")), doctype=doctype))], join=1)) == [
        ("m:1", "en", "a < b")
    ]


def test_a_file_that_is_not_tmx_is_an_error(tmp_path: Path) -> None:
    path = put(tmp_path, "<?xml version='1.0'?>\n<html><body/></html>")
    assert message(path) == f"{path}:2:1: the first element is <html>, not <tmx>; pass a TMX file"


def test_encodings_that_expat_does_not_know_are_errors(tmp_path: Path) -> None:
    path = put(tmp_path, '<?xml version="1.0" encoding="GBK"?>' + wrap())
    assert message(path) == f"{path}:1:31: multi-byte encodings are not supported; convert it to UTF-8"
    path = put(tmp_path, '<?xml version="1.0" encoding="klingon"?>' + wrap())
    assert message(path) == f"{path}:1:31: unknown encoding: klingon; convert it to UTF-8"


def test_paths_without_a_tmx_file_are_an_error(tmp_path: Path) -> None:
    put(tmp_path / "a", "?", "README")
    assert message(tmp_path / "a") == f"no TMX file in {tmp_path}/a; its name must end in .tmx"
    assert message() == "no TMX file in an empty list; its name must end in .tmx"
    assert message(tmp_path / "b.tmx") == f"{tmp_path}/b.tmx: no such file or folder; check the spelling"
    assert message(tmp_path, join=0) == "`join=0` must be a whole number of at least 1"


def test_the_same_memory_twice_is_an_error(tmp_path: Path) -> None:
    put(tmp_path, MEMORY)
    put(tmp_path, gzip.compress(MEMORY.encode()), "m.tmx.gz")
    assert message(tmp_path) == f"{tmp_path}/m.tmx.gz: seems to be the same text as {tmp_path}/m.tmx; keep one of them"


def test_damaged_and_encrypted_zips_are_errors(tmp_path: Path) -> None:
    path = put(tmp_path, b"PK no zip", "z.zip")
    assert message(path) == f"{path}: corrupt, file is not a zip file; copy or download it again"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("m.tmx", MEMORY)
    content = bytearray(buffer.getvalue())
    content[content.index(b"PK\x01\x02") + 8] |= 1  # as its directory tells it
    path = put(tmp_path, bytes(content), "z.zip")
    assert message(path) == f"{path}: m.tmx is encrypted; unpack it with its password and pass the files"


# Anything else


@pytest.mark.slow
@given(noise, st.booleans())
@settings(max_examples=up_to(300), deadline=None)
def test_any_tags_give_units_or_an_error(tags: str, dtd: bool) -> None:
    accounting = Accounting("skip")
    with tempfile.TemporaryDirectory() as name:
        path = put(Path(name), wrap(tags, doctype='<!DOCTYPE tmx SYSTEM "x">' if dtd else ""))
        for document in read_tmx([path], join=1, accounting=accounting):
            assert document.text.strip()
            assert document.lang in ("en", "it")
    assert set(accounting.errors.counts) <= {"unreadable file", "no language", "unknown entity"}


@given(st.binary(max_size=200), st.integers(0, 400))
@relaxed
def test_any_bytes_give_units_or_an_error(junk: bytes, place: int) -> None:
    content = MEMORY.encode()
    with tempfile.TemporaryDirectory() as name:
        for damaged in (junk, content[:place] + junk + content[place + len(junk) :]):
            list(read_tmx([put(Path(name), damaged)], accounting=Accounting("skip")))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("endless", "explanation"),
    [
        ("word " * 300_000, "no unit ends within 1 MB"),
        ("<hi/>" * 220_000, "no unit ends within 1 MB"),
        ("<!--" + "x" * 1_200_000, "no unit ends within 1 MB"),
        ("<x y='" + "z" * 1_200_000, "no unit ends within 1 MB"),
        ("<x>" * 50_000, "more than 1000 nested elements"),
    ],
    ids=["text", "elements", "comment", "attribute", "depth"],
)
def test_an_element_that_never_ends_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endless: str, explanation: str
) -> None:
    monkeypatch.setattr(tmx, "MAX_UNIT_BYTES", 1 << 20)
    path = put(tmp_path, '<tmx><body><tu><tuv xml:lang="en"><seg>' + endless)
    tracemalloc.start()
    try:
        shown = message(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert shown.endswith(f": {explanation}; correct it there or export it again")
    assert peak < 4 << 20


@pytest.mark.slow
def test_too_many_different_element_names_are_an_error(tmp_path: Path) -> None:
    path = put(tmp_path, wrap(*(f"<tu><x{n}/></tu>" for n in range(30_000))))
    assert message(path).endswith(": more than 10000 different element names; pass a TMX file")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    pair = unit(("en", "word " * 20), ("it", "parola " * 20))
    path = put(tmp_path, gzip.compress(wrap(*[pair] * 6000).encode(), 1), "m.tmx.gz")
    tracemalloc.start()
    try:
        found = sum(1 for _ in read_tmx([path], join=10))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == 1200
    assert peak < 1 << 20


def test_a_code_that_is_none_is_named_with_its_unit(tmp_path: Path) -> None:
    path = tmp_path / "memory.tmx"
    units = "".join(f'<tu><tuv xml:lang="{lang}"><seg>a dog</seg></tuv></tu>' for lang in ("en", "english language"))
    path.write_text(f'<tmx version="1.4"><body>{units}</body></tmx>')
    for join, units in ((1, "unit 2"), (2, "units 1 to 2")):
        with pytest.raises(CorpusError, match=f"memory.tmx: {units}: 'english language' is not a language code"):
            list(read_tmx([path], join=join))
