"""Every file and document of a source is accounted for: read or written, or skipped for a reason."""

import ast
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties import up_to

import cr5.sources
from cr5 import read
from cr5.cli.render.corpora import source_warnings
from cr5.errors import CorpusError
from cr5.sources.accounting import NO_DOCUMENT, NOT_READ, Accounting, UnusableInputError
from cr5.sources.make_corpus import make_corpus
from cr5.sources.registry import SOURCES

ENGLISH = "The dog barks at the neighbour's cat, which sleeps on the warm roof."
ITALIAN = "Il cane abbaia al gatto del vicino, che dorme sul tetto caldo."
LATIN = "Il perché è già così: più città, più caffè.".encode("latin-1")
SEGMENT = '<tuv xml:lang="{}"><seg>{}</seg></tuv>'
MEMORY = '<tmx version="1.4"><body>{}</body></tmx>'
PO = 'msgid ""\nmsgstr "Language: it\\nContent-Type: text/plain; charset={}\\n"\n\n{}'
SPEECH = '<CHAPTER ID="{0}">\n<SPEAKER ID="7" NAME="Rossi">\n{1}\n'


def unit(*segments: tuple[str, str]) -> str:
    return f"<tu>{''.join(SEGMENT.format(*segment) for segment in segments)}</tu>"


def message(source: str, translation: str) -> str:
    return f'msgid "{source}"\nmsgstr "{translation}"\n\n'


@dataclass(frozen=True)
class Part:
    """Some files, and how many documents a reader finds in them, with or without text."""

    files: dict[str, str | bytes]
    documents: int


@dataclass(frozen=True)
class Case:
    """Parts of a source that may be present or not, one that is, and the options of its reader."""

    good: Part
    others: dict[str, Part]
    options: dict[str, Any] = field(default_factory=dict)


CASES = {
    "folder": Case(
        Part({"en/good.html": f"<p>{ENGLISH}", "it/good.html": f"<p>{ITALIAN}"}, 2),
        {
            "empty file": Part({"en/empty.html": ""}, 1),
            "white space": Part({"it/space.txt": " \n\t\n"}, 1),
            "markup alone": Part({"en/menu.html": "<nav>menu</nav>"}, 1),
            "duplicate": Part({"en/copy.md": ENGLISH}, 1),
            "untranslated": Part({"it/forgotten.md": f"{ENGLISH} It never comes down before the evening."}, 1),
            "missing counterpart": Part({"en/alone.txt": "Nobody translated this page."}, 1),
            "Latin-1": Part({"it/latin.txt": LATIN}, 1),
            "no encoding": Part({"en/binary.txt": b"\xff\x81\0"}, 0),
            "other extension": Part({"en/guide.adoc": "= Guide", "en/README": "read me"}, 0),
            "hidden": Part({"en/.hidden.html": "<p>hidden", ".git/en/x.html": "<p>hidden"}, 0),
            "no language": Part({"index.html": "<p>index"}, 0),
        },
    ),
    "moses": Case(
        Part({"good.en": f"{ENGLISH}\n", "good.it": f"{ITALIAN}\n"}, 2),
        {
            "empty files": Part({"nil.en": "", "nil.it": ""}, 0),
            "white space": Part({"half.en": f"{ENGLISH}\n", "half.it": " \n"}, 2),
            "duplicate": Part({"copy.en": f"{ENGLISH}\n", "copy.it": f"{ITALIAN}\n"}, 2),
            "missing counterpart": Part({"alone.en": "one\n"}, 0),
            "unequal": Part({"more.en": "one\ntwo\n", "more.it": "uno\n"}, 0),
            "unreadable line": Part({"latin.en": b"caf\xe9\n", "latin.it": "bar\n"}, 2),
            "unreadable file": Part({"cut.en.gz": b"\x1f\x8bno", "cut.it": "uno\n"}, 0),
            "other file": Part({"README": "read me", ".hidden.en": "x"}, 0),
        },
    ),
    "tmx": Case(
        Part({"good.tmx": MEMORY.format(unit(("en", ENGLISH), ("it", ITALIAN)))}, 2),
        {
            "empty file": Part({"nil.tmx": ""}, 0),
            "no units": Part({"void.tmx": MEMORY.format("")}, 0),
            "white space": Part({"half.tmx": MEMORY.format(unit(("en", "text"), ("it", " ")))}, 2),
            "markup alone": Part({"tags.tmx": MEMORY.format(unit(("en", "text"), ("it", "<ph>x</ph>")))}, 2),
            "no language": Part({"mute.tmx": MEMORY.format(unit(("", "text"), ("it", "testo")))}, 1),
            "damaged": Part({"cut.tmx": MEMORY.format(unit(("en", "a"), ("it", "b")))[:-13]}, 2),
            "other file": Part({"notes.txt": "x"}, 0),
        },
    ),
    "europarl": Case(
        Part({f"{lang}/ep-1.txt": SPEECH.format(1, text) for lang, text in (("en", ENGLISH), ("it", ITALIAN))}, 4),
        {
            "empty file": Part({"en/ep-2.txt": ""}, 0),
            "white space": Part({"en/ep-3.txt": SPEECH.format(1, "  \n")}, 2),
            "no id": Part({"it/ep-4.txt": SPEECH.format("", "testo")}, 2),
            "missing counterpart": Part({"it/ep-5.xml": '<CHAPTER ID="1">titolo</CHAPTER>'}, 1),
            "unreadable line": Part({"it/ep-6.txt": SPEECH.format(1, "").encode() + b"\xff"}, 2),
            "other file": Part({"en/README": "x"}, 0),
        },
    ),
    "gettext": Case(
        Part({"good/it.po": PO.format("UTF-8", message(ENGLISH, ITALIAN))}, 2),
        {
            "empty file": Part({"nil/it.po": ""}, 0),
            "not translated, or marked as fuzzy": Part({"half/it.po": PO.format("UTF-8", message("Open", ""))}, 1),
            "markup alone": Part({"tags/it.po": PO.format("UTF-8", message("%s", "%s"))}, 1),
            "source without text": Part({"keys/it.po": PO.format("UTF-8", message("<a>", "apri"))}, 2),
            "duplicate": Part({"copy/it.po": PO.format("UTF-8", message(ENGLISH, ITALIAN))}, 2),
            "same language": Part({"same/en.po": PO.format("UTF-8", message("a b", "a b")).replace("it", "en")}, 2),
            "unknown charset": Part({"odd/it.po": PO.format("klingon", message("a", "b"))}, 0),
            "unreadable file": Part({"bad/it.mo": "not compiled"}, 0),
            "compiled too": Part({"good/it.mo": "compiled"}, 0),
            "other file": Part({"app.pot": "x", "POTFILES": "x"}, 0),
        },
    ),
    "bible": Case(
        Part({"vref.txt": "GEN 1:1\nGEN 2:1\n", "eng-a.txt": f"{ENGLISH}\n\n", "ita-a.txt": f"{ITALIAN}\nDorme.\n"}, 4),
        {
            "empty file": Part({"dan-nil.txt": ""}, 0),
            "white space": Part({"eng-void.txt": "\n \n"}, 2),
            "merged": Part({"ita-one.txt": f"{ITALIAN}\n<range>\n"}, 2),
            "duplicate": Part({"eng-copy.txt": f"{ENGLISH}\nIt sleeps.\n"}, 2),
            "missing line": Part({"ita-cut.txt": "Nel principio\n"}, 0),
            "unreadable line": Part({"ita-latin.txt": b"\xff\nDorme.\n"}, 2),
            "other file": Part({"README.md": "x"}, 0),
        },
        {"references": "vref.txt", "by": "chapter"},
    ),
    "table": Case(
        Part({"good.csv": f'concept,lang,text\n1,en,"{ENGLISH}"\n1,it,"{ITALIAN}"\n'}, 2),
        {
            "empty file": Part({"nil.csv": ""}, 0),
            "header alone": Part({"void.tsv": "concept\tlang\ttext\n"}, 0),
            "white space": Part({"space.csv": "concept,lang,text\n2,en,  \n2,it,due\n"}, 2),
            "broken row": Part({"broken.csv": "concept,lang,text\n3,en\n3,it,tre\n"}, 2),
            "broken line": Part(
                {"broken.jsonl": '{"concept": \n{"concept": "4", "lang": "it", "text": "quattro"}\n'}, 2
            ),
            "not UTF-8": Part({"latin.csv": b"concept,lang,text\n5,it,perch\xe9\n"}, 1),
            "other columns": Part({"columns.csv": "id,code,body\n1,en,one\n"}, 0),
            "unknown language": Part({"mute.csv": "concept,lang,text\n6,,12 34\n"}, 1),
            "invalid language": Part({"odd.csv": "concept,lang,text\n7,no code,x\n"}, 1),
            "unreadable file": Part({"bad.parquet": "PAR1"}, 0),
            "other file": Part({"notes.txt": "x"}, 0),
        },
    ),
}


def put(root: Path, *parts: Part) -> None:
    for name, content in {name: content for part in parts for name, content in part.files.items()}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def run(name: str, root: Path, output: Path, **options: Any) -> Accounting:
    source, case = SOURCES[name], CASES[name]
    is_single = next(iter(source.parameters.values()))[0].annotation.__origin__ is Path
    reader_options = {key: root / value if key == "references" else value for key, value in case.options.items()}
    return make_corpus(source, root if is_single else [root], output, reader_options, **options).accounting


def test_every_source_is_tested() -> None:
    assert set(CASES) == set(SOURCES)


@pytest.mark.parametrize("name", SOURCES)
@settings(max_examples=up_to(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_files_and_documents_are_read_or_skipped_for_a_reason(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    case = CASES[name]
    chosen = data.draw(st.sets(st.sampled_from(sorted(case.others))))
    options = data.draw(st.fixed_dictionaries({"drop_foreign": st.booleans(), "dedupe": st.booleans()}))
    langs = data.draw(st.sampled_from([None, ["it"]]))
    root, output = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    parts = [case.good, *(case.others[part] for part in chosen)]
    put(root, *parts)
    accounting = run(name, root, output, on_error="skip", langs=langs, **options)

    assert accounting.files_found == sum(len(names) for _, _, names in os.walk(root))
    assert accounting.files_found == accounting.files_read + accounting.skipped_files.total
    assert NOT_READ not in accounting.skipped_files.counts
    assert accounting.documents_read == accounting.written.total() + accounting.skipped_documents.total
    assert accounting.skipped_documents.total == sum(accounting.skipped_of.values())
    assert accounting.written.total() == len(list(read(output)))
    if langs is None:
        assert accounting.documents_read == sum(part.documents for part in parts)
    told: Any = accounting.to_json()
    assert told["files"]["found"] == told["files"]["read"] + sum(told["files"]["skipped"].values())
    assert told["documents"]["read"] == told["documents"]["written"] + sum(told["documents"]["skipped"].values())


@pytest.mark.parametrize("name", SOURCES)
def test_every_reason_has_an_example_that_names_the_input(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    put(tmp_path / "source", case.good, *case.others.values())
    accounting = run(name, tmp_path / "source", tmp_path / "corpus.jsonl", on_error="skip")
    for skipped in (accounting.skipped_files, accounting.skipped_parts):
        assert all(str(tmp_path / "source") in example for example in skipped.examples.values())
    assert all(accounting.skipped_documents.examples.values())


@pytest.mark.parametrize(("name", "part"), [(name, part) for name, case in CASES.items() for part in case.others])
def test_without_skipping_the_accounts_are_right_or_an_error_says_how_to_skip(
    name: str, part: str, tmp_path: Path
) -> None:
    case = CASES[name]
    put(tmp_path / "source", case.good, case.others[part])
    lenient = run(name, tmp_path / "source", tmp_path / "corpus.jsonl", on_error="skip")
    if lenient.errors.total:
        with pytest.raises(CorpusError) as caught:
            run(name, tmp_path / "source", tmp_path / "corpus.jsonl")
        assert str(caught.value) == f'{lenient.errors.first}, or skip such input with `on_error="skip"`'
    else:
        strict = run(name, tmp_path / "source", tmp_path / "corpus.jsonl")
        assert strict.to_json() == lenient.to_json()


@pytest.mark.parametrize("name", SOURCES)
def test_the_corpus_may_be_written_into_the_folder_that_is_read(name: str, tmp_path: Path) -> None:
    put(tmp_path, CASES[name].good)
    first = run(name, tmp_path, tmp_path / "corpus.jsonl")
    content = (tmp_path / "corpus.jsonl").read_bytes()
    assert run(name, tmp_path, tmp_path / "corpus.jsonl").to_json() == first.to_json()
    assert (tmp_path / "corpus.jsonl").read_bytes() == content
    assert first.files_found == len(CASES[name].good.files)


def test_readers_make_documents_only_through_the_accounting() -> None:
    folder = Path(cr5.sources.__file__).parent
    for path in set(folder.glob("*.py")) - {folder / "accounting.py", folder / "clean.py"}:
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        names = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
        assert "Document" not in names, path.name


def test_a_file_that_a_reader_forgets_is_counted_as_not_read() -> None:
    accounting = Accounting()
    accounting.count_found("a.txt")
    accounting.count_found("b.txt")
    with accounting.reading("a.txt"):
        assert accounting.document("1", "en", "one")
    accounting.finish()
    assert (accounting.files_found, accounting.files_read) == (2, 1)
    assert accounting.skipped_files.examples == {NOT_READ: "b.txt"}


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("folder", {"en/a.txt": b"a dog", "it/a.txt": b"un cane"}, {"JA/a.txt": b"\x8c\xa2\x82\xcd\x90l"}),
        ("bible", {"eng.txt": b"GEN 1:1\ta dog", "ita.txt": b"GEN 1:1\tun cane"}, {"jpn.txt": b"\n"}),
        ("moses", {"x.en": b"a dog\n", "x.it": b"un cane\n"}, {"y.en": b"a\nb\n", "y.ja": b"c\n"}),
        ("moses", {"x.en": b"a dog\n", "x.it": b"un cane\n"}, {"y.ja": b"c\n"}),
        ("gettext", {"it.po": b'msgid "dog"\nmsgstr "cane"\n'}, {"ja.po": b"garbage"}),
    ],
)  # fmt: skip
def test_a_language_of_which_no_file_can_be_read_is_missed(
    name: str, good: dict[str, bytes], bad: dict[str, bytes], tmp_path: Path
) -> None:
    for path, content in (good | bad).items():
        (tmp_path / "source" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / path).write_bytes(content)
    source, inputs = SOURCES[name], tmp_path / "source"
    given = inputs if name == "folder" else [inputs]
    for langs, missed in ((None, ["ja"]), (["en", "it"], [])):
        made = make_corpus(source, given, tmp_path / "corpus.jsonl", langs=langs, on_error="skip")
        assert [lang for lang, facts in made.by_language().items() if not facts.documents] == missed
        expected = [f"no documents are left in language {lang}; see above what was skipped" for lang in missed]
        assert list(source_warnings(made, langs or [])) == expected


def test_a_file_that_fails_after_some_documents_was_read_and_its_damage_is_counted() -> None:
    accounting = Accounting("skip")
    for name, documents in (("a", 1), ("b", 0)):
        accounting.count_found(name)
        with accounting.reading(name):
            for i in range(documents):
                accounting.document(str(i), "en", "text")
            raise UnusableInputError("damaged", f"{name}: damaged")
    assert (accounting.files_read, accounting.skipped_files.counts) == (1, {"damaged": 1})
    assert accounting.skipped_parts.examples == {"damaged": "a: damaged"}
    assert accounting.errors.counts == {"damaged": 2}


def test_a_file_without_a_document_is_skipped() -> None:
    accounting = Accounting()
    accounting.count_found("a")
    with accounting.reading("a"):
        pass
    assert (accounting.files_read, accounting.skipped_files.examples) == (0, {NO_DOCUMENT: "a"})


def test_a_document_whose_concept_has_a_control_character_is_refused_or_skipped() -> None:
    with pytest.raises(CorpusError, match=r"pages/a: the concept is 'a\\nb', which has a control character"):
        Accounting().document("a\nb", "en", ENGLISH, place="pages/a")
    accounting = Accounting("skip")
    assert accounting.document("a\nb", "en", ENGLISH) == ()
    assert accounting.errors.counts == accounting.skipped_documents.counts == {"control character": 1}
