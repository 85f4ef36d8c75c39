"""Models made of trained ones: some languages, those of two models, and smaller numbers."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import madeup
import numpy as np
import pytest
from madeup import LANGS, MEANINGS, word

from cr5 import Cr5, Cr5Error, Document, Index, ModelFileError
from cr5._typing import Array
from cr5.evaluate.systems.cr5_system import model_system
from cr5.model.memory_languages import MemoryLanguages
from cr5.model.reports import space_digest
from cr5.retrieval.vectors import unit_rows
from cr5.storage.language_map import LanguageMap

UNKNOWN_WORDS = "kalomix supenosupeno"
TEXTS = {lang: madeup.texts(madeup.split(madeup.corpus())[1], lang) for lang in LANGS}
TEXTS["aa"] = [*TEXTS["aa"], UNKNOWN_WORDS, f"{word('aa', 3)} {UNKNOWN_WORDS}", "", "???"]
TOLERANCES = {16: 0.001, 8: 0.02}


@pytest.fixture(params=["in memory", "saved"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Cr5], Cr5]:
    """What a test gets of a model: the model itself, or what is loaded after it was saved."""

    def saved(model: Cr5) -> Cr5:
        model.save(tmp_path / "made")
        return Cr5.load(tmp_path / "made")

    return saved if request.param == "saved" else lambda model: model


def precision(model: Cr5) -> float:
    """The share of held-out documents of aa that find their counterpart in bb."""
    a, b = (model.encode(TEXTS[lang][: madeup.HELD_OUT], lang) for lang in ("aa", "bb"))
    return float(((a @ b.T).argmax(axis=1) == np.arange(len(a))).mean())


def by_definition(language: LanguageMap, bits: int) -> LanguageMap:
    """A language whose vectors are what is left of them with so many bits, number by number."""

    def rounded(row: Array) -> Array:
        if bits == 16:  # eleven significant bits; the numbers of these models are far from the limits of the exponent
            fraction, exponent = np.frexp(row.astype(np.float64))
            return np.asarray(np.ldexp(np.rint(fraction * 2**11) / 2**11, exponent), np.float32)
        largest = float(np.abs(row).max())
        return np.array([round(127 * float(x) / largest) * largest / 127 for x in row], np.float32)

    own = language.subwords
    assert own is not None
    rows = np.array([rounded(row) for row in own.map.astype(np.float32) * own.scale])
    subwords = replace(own, map=rows, scale=np.ones(1, np.float32))
    return replace(language, map=np.array([rounded(row) for row in language.map]), subwords=subwords)


# Languages


def test_a_subset_encodes_as_the_whole_model_does(model: Cr5, made: Callable[[Cr5], Cr5]) -> None:
    part = made(model.subset(["cc", "AA"]))
    assert part.langs == ["aa", "cc"]
    assert set(part.sizes()) == set(part.report["languages"]) == {"aa", "cc"}
    for lang in part.langs:
        np.testing.assert_array_equal(part.encode(TEXTS[lang], lang), model.encode(TEXTS[lang], lang))
    assert part.translate_words(word("aa", 9), "aa", "cc") == model.translate_words(word("aa", 9), "aa", "cc")
    with pytest.raises(Cr5Error, match="bb"):
        part.encode("x", "bb")


def test_a_model_is_not_changed_by_what_is_made_of_it(model: Cr5) -> None:
    before = model.report, model.sizes(), model.encode(TEXTS["aa"], "aa")
    model.subset("aa").merge(model).quantise(8)
    assert (model.report, model.sizes()) == before[:2]
    np.testing.assert_array_equal(model.encode(TEXTS["aa"], "aa"), before[2])


def test_parts_of_a_model_merge_to_the_whole(model: Cr5, made: Callable[[Cr5], Cr5]) -> None:
    whole = made(model.subset("aa")).merge(model.subset(["bb", "cc"]))
    assert whole.langs == list(LANGS)
    assert whole.report == model.report
    for lang in LANGS:
        np.testing.assert_array_equal(whole.encode(TEXTS[lang], lang), model.encode(TEXTS[lang], lang))
    assert whole.similarity(TEXTS["aa"][0], "aa", TEXTS["bb"][0], "bb") == pytest.approx(
        model.similarity(TEXTS["aa"][0], "aa", TEXTS["bb"][0], "bb")
    )


def test_of_a_language_in_both_models_that_of_the_first_is_kept(model: Cr5) -> None:
    merged = model.subset(["aa", "bb"]).quantise(8).merge(model)
    assert {lang: size.bits for lang, size in merged.sizes().items()} == {"aa": 8, "bb": 8, "cc": 32}


@pytest.fixture(scope="module")
def separate(documents: list[Document]) -> Cr5:
    """A model of the same documents whose space is another one."""
    return Cr5(**madeup.SETTINGS | {"seed": 5}).fit(madeup.split(documents)[0])


def test_models_that_were_trained_separately_do_not_merge(model: Cr5, separate: Cr5) -> None:
    for other in (separate, separate.subset("cc"), separate.quantise(8)):
        with pytest.raises(Cr5Error, match=r"`other` \(.*cc\) has another vector space.*this model \(aa, bb\)"):
            model.subset(["aa", "bb"]).merge(other)


def test_the_same_fit_again_has_the_same_space(model: Cr5, documents: list[Document]) -> None:
    again = Cr5(**madeup.SETTINGS).fit(madeup.split(documents)[0])
    assert again.report["space"] == model.report["space"]
    assert model.subset("aa").merge(again.subset("bb")).langs == ["aa", "bb"]


def with_report(model: Cr5, *without: str) -> Cr5:
    """A model whose report lacks some entries, as that of an older version may."""
    state = model.__getstate__()
    state["report"] = {name: value for name, value in model.report.items() if name not in without}
    older = Cr5()
    older.__setstate__(state)
    return older


def test_the_space_of_an_older_model_follows_from_its_report(model: Cr5, separate: Cr5, tmp_path: Path) -> None:
    with_report(model, "space").save(tmp_path / "old")
    old = Cr5.load(tmp_path / "old")
    assert "space" not in old.report
    assert space_digest(old.settings, old.report) == model.report["space"]
    assert old.subset("aa").merge(Cr5.load(tmp_path / "old", ["bb"])).langs == ["aa", "bb"]
    with pytest.raises(Cr5Error, match="another vector space"):
        old.subset("aa").merge(with_report(separate, "space").subset("bb"))


def test_without_a_known_space_an_identical_language_proves_that_it_is_the_same(model: Cr5, separate: Cr5) -> None:
    nameless = with_report(model, "space", "eigenvalues")
    assert nameless.subset(["aa", "bb"]).merge(nameless.subset(["bb", "cc"])).langs == list(LANGS)
    for other in (nameless.subset("bb"), with_report(separate, "space", "eigenvalues")):
        with pytest.raises(Cr5Error, match="another vector space"):
            nameless.subset("aa").merge(other)


def test_two_different_versions_of_a_language_do_not_merge(model: Cr5) -> None:
    language = model._language("bb")
    other = model.subset("bb")
    other._set_trained(MemoryLanguages({"bb": replace(language, map=language.map + np.float32(1))}), other.report)
    with pytest.raises(Cr5Error, match="language bb, trained on different documents"):
        model.merge(other)


def test_what_cannot_be_made_is_refused(model: Cr5) -> None:
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: model.subset([]), "`langs` is empty"),
        (lambda: model.subset("xx"), "'xx'; its languages are aa, bb, cc"),
        (lambda: model.quantise(4), "`bits=4` must be 16 or 8"),  # type: ignore[arg-type]
        (lambda: model.quantise(8).quantise(16), "`bits=16`: the model has 8 bits already"),
        (lambda: model.merge("folder"), "`other='folder'` must be a model"),  # type: ignore[arg-type]
        (lambda: Cr5().subset("aa"), "not fitted"),
        (lambda: Cr5().quantise(8), "not fitted"),
    ]
    for call, message in calls:
        with pytest.raises(Cr5Error, match=message):
            call()


# Quantised models


@pytest.mark.parametrize("bits", [16, 8])
def test_a_quantised_model_encodes_with_the_rounded_vectors(model: Cr5, bits: Any, made: Callable[[Cr5], Cr5]) -> None:
    small, exact = made(model.quantise(bits)), model.subset("aa")
    exact._set_trained(MemoryLanguages({"aa": by_definition(model._language("aa"), bits)}), exact.report)
    vectors = small.encode(TEXTS["aa"], "aa")
    np.testing.assert_allclose(vectors, exact.encode(TEXTS["aa"], "aa"), atol=2e-6)
    np.testing.assert_allclose(vectors, model.encode(TEXTS["aa"], "aa"), atol=TOLERANCES[bits])
    assert np.abs(vectors - model.encode(TEXTS["aa"], "aa")).max() > 1e-7
    np.testing.assert_allclose(small.word_vectors("aa"), exact.word_vectors("aa"), rtol=1e-6)
    assert small.word_vectors("aa").dtype == np.float32
    assert not vectors[-2:].any()


@pytest.mark.parametrize("bits", [16, 8])
def test_one_text_of_a_quantised_model_has_the_bits_that_it_has_among_many(model: Cr5, bits: Any) -> None:
    small = model.quantise(bits)
    many = TEXTS["aa"] * 60  # more than are encoded at a time
    rows = small.encode(many, "aa")
    for i in (0, 7, 41, 42, len(many) - 3):
        np.testing.assert_array_equal(small.encode(many[i], "aa"), rows[i])


@pytest.mark.parametrize("bits", [16, 8])
def test_whatever_can_be_asked_of_a_model_can_be_asked_of_a_quantised_one(
    model: Cr5, bits: Any, made: Callable[[Cr5], Cr5]
) -> None:
    small = made(model.quantise(bits))
    assert precision(small) == precision(model)
    for meaning in range(0, MEANINGS, 50):
        near = small.similar_words(word("aa", meaning), "aa", "bb", 3)
        assert near[0][0] == word("bb", meaning)
        assert near[0][1] == pytest.approx(model.similar_words(word("aa", meaning), "aa", "bb", 1)[0][1], abs=0.01)
        assert small.translate_words(word("aa", meaning), "aa", "bb", 1)[0][0] == word("bb", meaning)
    assert small.similar_words(word("aa", 5), "aa", "aa", 2)[0][0] != word("aa", 5)
    pair = TEXTS["aa"][0], "aa", TEXTS["bb"][0], "bb"
    explained = small.explain(*pair, k=50, views=True)
    total = sum(part.value for part in explained.words_a) + explained.rest_a
    assert total == pytest.approx(float(small.encode(pair[0], "aa") @ small.encode(pair[2], "bb")), abs=1e-5)
    assert small.similarity(*pair) == pytest.approx(explained.similarity_by_views, abs=1e-5)
    assert small.guess_language(TEXTS["cc"][0]).lang == "cc"
    space = model_system(small)
    np.testing.assert_array_equal(space.word_vectors("aa"), small.word_vectors("aa"))
    assert space.report["signature"] != model_system(model).report["signature"]


def test_a_quantised_model_can_be_copied_and_quantised_further(model: Cr5, tmp_path: Path) -> None:
    half, byte = model.quantise(16), model.quantise(8)
    byte.save(tmp_path / "byte")
    for other in (pickle.loads(pickle.dumps(byte)), byte.quantise(8), Cr5.load(tmp_path / "byte")):
        np.testing.assert_array_equal(other.encode(TEXTS["aa"], "aa"), byte.encode(TEXTS["aa"], "aa"))
    np.testing.assert_allclose(
        half.quantise(8).encode(TEXTS["aa"], "aa"), byte.encode(TEXTS["aa"], "aa"), atol=TOLERANCES[8]
    )
    sizes = [sum(size.bytes for size in made.sizes().values()) for made in (model, half, byte, half.quantise(8))]
    assert sizes[0] > sizes[1] > sizes[2] == sizes[3]


def test_a_word_without_a_vector_stays_without_one() -> None:
    zero = LanguageMap(["a", "b"], np.ones(2, np.float32), np.zeros((2, 3), np.float32), np.zeros(3, np.float32))
    for bits in (16, 8):
        assert not zero.quantised(bits).vectors().any()


def test_encoding_converts_only_the_words_of_the_texts(model: Cr5, monkeypatch: pytest.MonkeyPatch) -> None:
    small = model.quantise(8)
    monkeypatch.setattr(LanguageMap, "vectors", lambda *_: pytest.fail("the whole map was converted"))
    assert small.encode(TEXTS["aa"], "aa").any()


def test_similar_words_of_a_quantised_model_are_found_block_by_block(
    model: Cr5, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = model.quantise(8)
    cosines = unit_rows(small.word_vectors("bb")) @ unit_rows(small.word_vectors("aa"))[7]
    monkeypatch.setattr("cr5.storage.language_map.BLOCK_ROWS", 17)
    near = small.similar_words(small.words("aa")[7], "aa", "bb", 5)
    assert [w for w, _ in near] == [small.words("bb")[i] for i in np.argsort(-cosines)[:5]]
    np.testing.assert_array_equal(model.quantise(8).word_vectors("bb"), small.word_vectors("bb"))


def test_an_index_works_with_a_quantised_model(model: Cr5, documents: list[Document], tmp_path: Path) -> None:
    model.quantise(8).save(tmp_path / "model")
    index = Index.create(tmp_path / "index", tmp_path / "model")
    held_out = madeup.split(documents)[1]
    index.add(held_out)
    asked = next(document for document in held_out if document.lang == "aa")
    hits = index.search(asked.text, "aa", langs=["bb"], mode="dense")
    assert hits.hits[0].concept == asked.concept


def test_a_quantised_language_with_a_map_of_another_type_is_refused(model: Cr5, tmp_path: Path) -> None:
    language = model.quantise(8)._language("aa")
    wrong = model.subset("aa")
    wrong._set_trained(MemoryLanguages({"aa": replace(language, scale=None)}), wrong.report)
    with pytest.raises(ModelFileError, match="aa"):
        wrong.save(tmp_path / "wrong")
