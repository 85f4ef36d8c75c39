"""Language codes in any spelling: every place that takes one means the same language by it."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import madeup
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from cr5 import Cr5, Document, ModelFileError, evaluate, read, write
from cr5.cli import run
from cr5.corpus.inputs import in_batches
from cr5.errors import Cr5Error
from cr5.index import Index
from cr5.model.memory_languages import MemoryLanguages
from cr5.server.app import create_app
from cr5.server.settings import ServerSettings

# The made-up languages under codes of real ones, each in several spellings.
SPELLINGS = {"aa": ("en", "EN", "eng"), "bb": ("zh", "cmn", "ZHO"), "cc": ("sw", "swh", "swa")}
OTHERS = {
    "en": ("EN", "eng", "en_US", "en-GB"),
    "zh": ("cmn", "zho", "zh_CN", "zh-Hant"),
    "sw": ("SWH", "swa", "sw-KE"),
}
EACH = [(lang, spelling) for lang, spellings in OTHERS.items() for spelling in spellings]
TEXT = madeup.text("bb", range(9))


def spelled(documents: list[Document]) -> list[Document]:
    """The documents with a different spelling of its language on each concept."""
    return [replace(d, lang=SPELLINGS[d.lang][int(d.concept[1:]) % 3]) for d in documents]


@pytest.fixture(scope="module")
def training(documents: list[Document]) -> list[Document]:
    return spelled(madeup.split(documents)[0])


@pytest.fixture(scope="module")
def trained(training: list[Document]) -> Cr5:
    return Cr5(**madeup.SETTINGS).fit(training)


@pytest.fixture(scope="module")
def old(trained: Cr5, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved model whose languages have the codes that an earlier version kept."""
    path = tmp_path_factory.mktemp("models") / "old"
    model = Cr5(**madeup.SETTINGS)
    old_codes = {"zh": "cmn", "sw": "swh"}
    maps = {old_codes.get(lang, lang): trained._language(lang) for lang in trained.langs}
    model._set_trained(MemoryLanguages(maps), trained.report)
    model.save(path)
    return path


@pytest.fixture(scope="module")
def index(trained: Cr5, training: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    folder = tmp_path_factory.mktemp("codes")
    trained.save(folder / "model")
    made = Index.create(folder / "index", folder / "model")
    assert made.add(training).new == len(training)
    yield made
    made.close()


def test_documents_under_several_spellings_train_one_language(
    trained: Cr5, documents: list[Document], model: Cr5
) -> None:
    assert trained.langs == ["en", "sw", "zh"]
    assert [trained.report["languages"][lang]["documents"] for lang in trained.langs] == [110, 110, 110]
    plain = Cr5(**madeup.SETTINGS).fit([replace(d, lang=SPELLINGS[d.lang][0]) for d in madeup.split(documents)[0]])
    np.testing.assert_array_equal(trained.encode([TEXT], "zh"), plain.encode([TEXT], "zh"))


def test_batches_that_were_made_elsewhere_get_canonical_codes(training: list[Document]) -> None:
    batches = []
    for batch in in_batches(training):
        codes = pa.array([document.lang for document in training[: batch.rows.num_rows]])
        batches.append(batch._replace(rows=batch.rows.set_column(1, "lang", codes)))
    assert len(batches) == 1
    assert Cr5(**madeup.SETTINGS).fit(batches).langs == ["en", "sw", "zh"]


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_files_are_read_with_canonical_codes_and_filtered_by_any(suffix: str, tmp_path: Path) -> None:
    codes = ["EN", "eng", "cmn", "zh", "pt_BR", "mine"]
    table = pa.table({"concept": [str(i) for i in range(6)], "lang": codes, "text": ["text"] * 6})
    path = tmp_path / f"corpus{suffix}"
    if suffix == ".parquet":
        pq.write_table(table, path)
    elif suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    assert [d.lang for d in read(path)] == ["en", "en", "zh", "zh", "pt-BR", "mine"]
    assert [d.concept for d in read(path, langs=["ZHO", "pt-br"])] == ["2", "3", "4"]
    assert list(read(path, langs=["it"])) == []


@pytest.mark.parametrize(("lang", "spelling"), EACH)
def test_a_model_takes_every_spelling(trained: Cr5, lang: str, spelling: str) -> None:
    source = next(made_up for made_up, codes in SPELLINGS.items() if codes[0] == lang)
    text, word = madeup.text(source, range(9)), madeup.word(source, 1)
    other = "en" if lang != "en" else "zh"
    assert trained.find_language(spelling) == lang
    np.testing.assert_array_equal(trained.encode([text], spelling), trained.encode([text], lang))
    np.testing.assert_array_equal(trained.coverage([text], spelling), [1])
    assert trained.encode_text(text, spelling).tokens == text.split()
    assert trained.words(spelling) == trained.words(lang)
    assert trained.similar_words(word, spelling, other) == trained.similar_words(word, lang, other)
    assert trained.similar_words(word, spelling, lang) == trained.similar_words(word, lang, lang)  # without itself
    assert trained.explain(text, spelling, text, lang) == trained.explain(text, lang, text, lang)
    assert trained.guess_language(text, [spelling, other]).lang == lang
    np.testing.assert_array_equal(trained.encode([text, text], [spelling, lang])[0], trained.encode(text, lang))


def test_an_unknown_language_is_shown_as_it_was_given(trained: Cr5, old: Path) -> None:
    for call in (lambda: trained.encode(["a"], "IT_it"), lambda: trained.guess_language("a", ["IT_it"])):
        with pytest.raises(Cr5Error, match="has no language 'IT_it'; its languages are en, sw, zh"):
            call()
    with pytest.raises(ModelFileError, match="has no language 'IT_it'; it has en, swh, cmn"):
        Cr5.load(old, langs=["IT_it"])
    with pytest.raises(ModelFileError, match="has no language 'Danish'; it has en, swh, cmn"):
        Cr5.load(old, langs="Danish")


def test_the_name_of_a_language_means_its_code_everywhere(trained: Cr5, old: Path, tmp_path: Path) -> None:
    assert Cr5.load(old, langs="English").langs == ["en"]
    np.testing.assert_array_equal(trained.encode(TEXT, "Chinese"), trained.encode(TEXT, "zh"))
    document = Document("Q1", "中文", TEXT)
    with Index.create(tmp_path / "index", trained) as index:
        assert index.add([document]).new == 1
        assert [each.lang for each in index.get("zh:Q1")] == ["zh"]
        assert index.search(TEXT, "chinese", langs="Mandarin")[0].id == "zh:Q1"
    write(tmp_path / "corpus.csv", [document])
    assert [each.lang for each in read(tmp_path / "corpus.csv", langs="Chinese")] == ["zh"]


@pytest.mark.parametrize("spelling", ["zh", "cmn", "CMN", "zho"])
def test_a_model_of_an_earlier_version_answers_to_every_spelling(old: Path, trained: Cr5, spelling: str) -> None:
    loaded = Cr5.load(old)
    assert loaded.langs == ["en", "swh", "cmn"]
    np.testing.assert_array_equal(loaded.encode([TEXT], spelling), trained.encode([TEXT], "zh"))
    assert Cr5.load(old, langs=[spelling, "sw"]).langs == ["cmn", "swh"]


@pytest.mark.slow
def test_an_index_of_an_old_model_takes_documents_in_every_spelling(
    old: Path, training: list[Document], tmp_path: Path
) -> None:
    index = Index.create(tmp_path / "index", old)
    assert index.add(training).new == len(training)
    assert index.count() == {"cmn": 110, "en": 110, "swh": 110}
    assert {hit.lang for hit in index.search(TEXT, "zho", langs=["zh"]).hits} == {"cmn"}
    index.close()


def test_an_index_searches_and_filters_by_every_spelling(index: Index) -> None:
    assert index.count() == {"en": 110, "sw": 110, "zh": 110}
    expected = index.search(TEXT, "zh", langs=["zh", "sw"]).hits
    assert [hit.id for hit in index.search(TEXT, "cmn", langs=["ZH", "swh", "sw"]).hits] == [hit.id for hit in expected]
    assert all(hit.id.startswith(("zh:", "sw:")) for hit in expected)
    assert index.pairs("eng", "cmn", k=3) == index.pairs("en", "zh", k=3)
    assert index.query(TEXT, "ZHO").lang == "zh"
    assert index.search(index.query(TEXT, "zh"), "cmn").query.lang == "zh"
    vector = index.query(TEXT, "zh").vector[None]
    assert index.nearest(vector, "cmn", langs=["EN"]) == index.nearest(vector, "zh", langs=["en"])
    with pytest.raises(Cr5Error, match="'IT_it'; its languages are en, sw, zh"):
        index.search(TEXT, "IT_it")


def test_the_server_takes_every_spelling(index: Index) -> None:
    with TestClient(create_app(Index.open(index.folder), ServerSettings(read_only=True))) as client:
        found = client.get("/search", params={"q": TEXT, "lang": "CMN", "in": "swa,zho"}).json()
        assert found["lang"] == "zh"
        assert {hit["lang"] for hit in found["hits"]} <= {"sw", "zh"}
        explained = {"id": found["hits"][0]["id"], "q": TEXT, "lang": "zho"}
        assert client.get("/explain", params=explained).status_code == 200
        assert client.post("/embed", json={"texts": [TEXT], "lang": "cmn"}).json()["known"] == [1.0]
        assert client.post("/v1/embeddings", json={"input": TEXT, "model": "cr5:cmn"}).status_code == 200
        refused = client.get("/search", params={"q": TEXT, "lang": "IT_it"})
        assert refused.status_code == 422
        assert "'IT_it'; its languages are en, sw, zh" in refused.text


def test_commands_take_every_spelling(index: Index, capsys: pytest.CaptureFixture[str]) -> None:
    model, word = index.folder.with_name("model"), madeup.word("bb", 1)
    capsys.readouterr()
    assert run(["similar", str(model), word, "--lang", "CMN", "--to", "eng, swh", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["similar"]) == {"eng", "swh"}
    assert run(["similar", str(model), word, "--lang", "zho", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["similar"]) == {"en", "sw"}
    assert run(["search", str(index.folder), TEXT, "--lang", "cmn", "--in", "SW,eng", "--json"]) == 0
    assert {hit["lang"] for hit in json.loads(capsys.readouterr().out)["hits"]} <= {"en", "sw"}
    assert run(["explain", str(model), TEXT, TEXT, "-a", "ZH", "-b", "cmn", "--json"]) == 0
    assert run(["pairs", str(index.folder), "--between", "cmn,ENG", "--json"]) == 0


def test_an_evaluation_takes_every_spelling(training: list[Document], trained: Cr5, tmp_path: Path) -> None:
    (tmp_path / "ENG-cmn.tsv").write_text(
        "".join(f"{madeup.word('aa', i)}\t{madeup.word('bb', i)}\n" for i in range(50)), encoding="utf-8"
    )
    run_of_words = evaluate.words(trained, tmp_path / "ENG-cmn.tsv")
    assert {(score.source, score.target) for score in run_of_words.scores} <= {("en", "zh"), ("zh", "en")}
    for code, source in (("cmn", "bb"), ("eng", "aa")):
        (tmp_path / f"test.{code}").write_text("\n".join(madeup.text(source, range(i, i + 9)) for i in range(60)))
    run_of_sentences = evaluate.sentences(trained, tmp_path, langs=["ZH", "EN"])
    assert run_of_sentences.scores


def test_a_model_is_loaded_divided_and_exported_by_every_spelling(index: Index, trained: Cr5, tmp_path: Path) -> None:
    assert Cr5.load(index.folder.with_name("model"), langs=["ENG", "cmn"]).langs == ["en", "zh"]
    assert trained.subset(["SWH", "zh-Hant"]).langs == ["sw", "zh"]
    trained.export(tmp_path / "zh.npz", format="npz", lang="zho")
    with np.load(tmp_path / "zh.npz") as exported:
        assert exported["words"].tolist() == trained.words("zh")


def test_documents_of_a_corpus_are_evaluated_and_indexed_by_every_spelling(
    index: Index, training: list[Document], tmp_path: Path
) -> None:
    settings = {name: value for name, value in madeup.SETTINGS.items() if name != "rank"}
    found = evaluate.documents(training, langs=["ENG", "cmn"], systems="shared-tokens", settings=settings)
    assert {(score.source, score.target) for score in found.scores} == {("en", "zh"), ("zh", "en")}
    write(tmp_path / "corpus.jsonl", training)
    model, corpus = str(index.folder.with_name("model")), str(tmp_path / "corpus.jsonl")
    assert run(["index", model, corpus, "-o", str(tmp_path / "index"), "--langs", "ENG,cmn"]) == 0
    with closing(Index.open(tmp_path / "index")) as some:
        assert some.count() == {"en": 110, "zh": 110}
