"""Texts in a language that a model lacks are encoded by a close one, with a warning."""

import io
from pathlib import Path

import numpy as np
import pytest
from published_files import random_vectors, write_published

import cr5
from cr5 import Cr5, Cr5Error, Document, Index, LanguageFallback
from cr5.cli import run
from cr5.cli.render.search import ingest_report
from cr5.corpus.languages import CLOSE_LANGUAGES, find_text_language, script
from cr5.evaluate.systems.cr5_system import model_system
from cr5.evaluate.systems.fitted_system import NotApplicableError

TEXT = "hunden drikker øl"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Cr5:
    words = {"nb": random_vectors(TEXT.split(), 3, 1), "en": random_vectors(["dog", "beer"], 3, 2)}
    return Cr5.load_published(write_published(tmp_path_factory.mktemp("files"), "m", words), "m")


@pytest.mark.parametrize(
    ("code", "langs", "expected"),
    [
        ("nn", ["en", "nb"], "nb"),
        ("nno", ["en", "no"], "no"),
        ("nn-NO", ["nb"], "nb"),
        ("nb", ["nn"], "nn"),
        ("bs", ["sr", "sr-Latn"], "sr-Latn"),
        ("sr-Latn-RS", ["hr"], "hr"),
        ("sr-Latn", ["sr", "hr"], "hr"),
        ("ms", ["ind"], "ind"),
        ("tl", ["fil"], "fil"),
        ("prs", ["fa"], "fa"),
        ("pt-BR", ["pt"], "pt"),
        ("nn", ["nn", "nb"], "nn"),
        ("hr", ["sr"], None),  # in another script
        ("sr", ["hr"], None),
        ("da", ["nb"], None),
        ("cs", ["sk"], None),
        ("gl", ["pt"], None),
        ("own_name", ["nb"], None),
    ],
)
def test_a_language_is_itself_or_a_close_one_in_the_same_script(
    code: str, langs: list[str], expected: str | None
) -> None:
    assert find_text_language(code, langs) == expected


def test_close_languages_are_close_both_ways_and_have_one_script() -> None:
    for code, others in CLOSE_LANGUAGES.items():
        assert code not in others
        for other in others:
            assert code in CLOSE_LANGUAGES[other]
            assert len({script(code), script(other)} - {""}) == 1  # that of sh and prs is not known


def test_texts_are_encoded_as_those_of_the_close_language_with_a_warning(model: Cr5) -> None:
    expected = model.encode(TEXT, "nb")
    with pytest.warns(LanguageFallback, match=r"no language 'nn'.* nb"):
        np.testing.assert_array_equal(model.encode(TEXT, "nn"), expected)
    with pytest.warns(LanguageFallback):
        np.testing.assert_array_equal(model.encode([TEXT, "dog"], ["nn", "en"])[0], expected)
    with pytest.warns(LanguageFallback):
        assert model.coverage(TEXT, "nn") == 1.0
    with pytest.warns(LanguageFallback):
        np.testing.assert_array_equal(model.encode_text(TEXT, "nn").vector, expected)
    with pytest.warns(LanguageFallback):
        assert model.similarity(TEXT, "nn", TEXT, "nb") == pytest.approx(1.0, abs=1e-6)
    with pytest.warns(LanguageFallback):
        assert model.explain(TEXT, "nn", TEXT, "nb").similarity == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_array_equal(model.encode(TEXT, "no"), expected)  # the same language: no warning


def test_words_languages_and_evaluations_do_not_borrow(model: Cr5) -> None:
    for ask in (model.find_language, model.words, lambda lang: model.translate_words("øl", lang, "en")):
        with pytest.raises(Cr5Error, match="no language 'nn'"):
            ask("nn")
    with pytest.raises(NotApplicableError, match="no language nn"):
        model_system(model).code_of("nn")


def test_an_index_says_which_codes_it_reads_as_those_of_the_model(
    model: Cr5, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = [Document("dog", "no", "hunden"), Document("beer", "en-GB", "beer"), Document("dog", "EN", "dog")]
    with Index.create(tmp_path / "index", model) as index:
        counts = index.add(documents)
        assert (counts.new, counts.renamed, counts.borrowed) == (3, {"en-GB": "en", "no": "nb"}, {})
    ingest_report("added", counts)
    assert capsys.readouterr().out == "added: 3 new, 0 replaced, 0 unchanged\nen-GB is read as en; no is read as nb\n"


def test_an_index_stores_and_searches_texts_by_the_close_language(model: Cr5, tmp_path: Path) -> None:
    documents = [Document("dog", "nn", "hunden"), Document("beer", "nn", "øl"), Document("beer", "en", "beer")]
    with Index.create(tmp_path / "index", model) as index:
        with pytest.warns(LanguageFallback) as caught:
            counts = index.add(documents)
        assert len(caught) == 1
        assert (counts.new, counts.borrowed) == (3, {"nn": "nb"})
        assert index.count() == {"en": 1, "nb": 2}
        with pytest.warns(LanguageFallback):
            result = index.search("øl", "nn", langs=["nn"])
        assert (result.query.lang, result.hits[0].id) == ("nb", "nb:beer")
        with pytest.warns(LanguageFallback):  # and nn does not contradict the language that the query was encoded by
            assert index.search(result.query, "nn").hits[0].id == "nb:beer"
        with pytest.raises(Cr5Error, match="no language 'da'"):
            index.search("øl", "da")


def test_a_server_answers_in_the_close_language_and_says_which(model: Cr5, tmp_path: Path) -> None:
    from starlette.testclient import TestClient

    from cr5.server.app import create_app
    from cr5.server.settings import ServerSettings

    index = Index.create(tmp_path / "index", model)
    index.add([Document("beer", "nb", "øl"), Document("dog", "en", "dog")])
    with TestClient(create_app(index, ServerSettings(read_only=True))) as client:
        found = client.get("/search", params={"q": "øl", "lang": "nn"}).json()
        assert (found["lang"], found["hits"][0]["id"]) == ("nb", "nb:beer")
        sent = {"texts": [TEXT], "lang": "nn"}
        assert client.post("/embed", json=sent).json()["vectors"][0] == model.encode(TEXT, "nb").tolist()
        assert client.get("/search", params={"q": "øl", "lang": "da"}).status_code == 422


def test_the_command_encodes_by_the_close_language_and_warns(
    model: Cr5, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model.save(tmp_path / "model")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert run(["encode", str(tmp_path / "model"), "--lang", "nn", "-o", str(tmp_path / "v.npy")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy")[0], model.encode(TEXT, "nb"))
    message = "the model has no language 'nn'; its texts are encoded by nb, which is close to it in writing"
    assert capsys.readouterr().err == f"warning: {message}\n"


def test_the_earlier_name_of_the_warning_is_known() -> None:
    assert cr5.errors.LanguageBorrowed is LanguageFallback
    assert getattr(cr5, "LanguageBorrowed") is LanguageFallback  # noqa: B009
