"""Texts as vectors: the definition, batches, guessed languages, and what is refused."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import madeup
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from madeup import LANGS, MEANINGS, SETTINGS, texts, word
from model_texts import random_texts
from properties import up_to

from cr5 import Cr5, Document
from cr5._typing import Array
from cr5.errors import Cr5Error
from cr5.features.counts import FEW_TEXTS
from cr5.model.text_encoder import CHUNK_TEXTS
from cr5.storage import model_files

# Encoding


def test_rows_are_unit_vectors_in_single_precision(model: Cr5) -> None:
    vectors = model.encode([t for t in random_texts("aa", 50) if t], "aa")
    assert vectors.dtype == np.float32
    assert vectors.shape[1] == SETTINGS["rank"]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)


def by_hand(model: Cr5, training: list[str], lang: str, text: str, preset: str) -> Array:
    """The definition: weigh the counts, to length 1, times the map, less the mean of training, to length 1."""
    documents = [Counter(t.split()) for t in training]
    column = {w: i for i, w in enumerate(model.words(lang))}
    df = np.array([sum(w in d for d in documents) for w in column])
    n = len(training)
    idf = np.log(n / df) + 1 if preset == "wsdm19" else (np.log((1 + n) / (1 + df)) + 1) ** 1.25

    def row(counts: Counter[str]) -> Array:
        x = np.zeros(len(column))
        for w, n in counts.items():
            if w in column:
                x[column[w]] = (n if preset == "wsdm19" else 1 + np.log(n)) * idf[column[w]]
        return np.asarray(x / np.linalg.norm(x))

    x = row(Counter(text.split()))
    if preset == "default":
        x -= np.mean([row(d) for d in documents], axis=0)
    vector = x @ model.word_vectors(lang).astype(float)
    return np.asarray(vector / np.linalg.norm(vector))


@pytest.mark.parametrize("preset", ["default", "wsdm19"])
def test_encoding_is_what_its_definition_says(documents: list[Document], preset: str) -> None:
    training, held_out = madeup.split(documents)
    model = Cr5(preset, **SETTINGS, subwords=False).fit(training)
    for lang in LANGS:
        for text in texts(held_out, lang)[:3]:
            expected = by_hand(model, texts(training, lang), lang, text, preset)
            np.testing.assert_allclose(model.encode([text], lang)[0], expected, atol=1e-5)


def test_the_papers_maps_are_orthonormal(documents: list[Document]) -> None:
    model = Cr5("wsdm19", **SETTINGS).fit(documents)
    stacked = np.vstack([model.word_vectors(lang) for lang in model.langs])
    np.testing.assert_allclose(stacked.T @ stacked, np.eye(SETTINGS["rank"]), atol=1e-5)


def test_a_text_has_the_same_bits_whatever_stands_around_it(model: Cr5) -> None:
    many = random_texts("bb", CHUNK_TEXTS + 300)
    whole = model.encode(many, "bb")
    alone = np.vstack([model.encode([text], "bb") for text in many[:40] + many[CHUNK_TEXTS - 20 : CHUNK_TEXTS + 20]])
    np.testing.assert_array_equal(np.vstack([whole[:40], whole[CHUNK_TEXTS - 20 : CHUNK_TEXTS + 20]]), alone)
    order = np.random.default_rng(1).permutation(len(many))
    np.testing.assert_array_equal(model.encode([many[i] for i in order], "bb"), whole[order])
    for shift in (1, 3, 7):
        np.testing.assert_array_equal(model.encode(many[shift:], "bb"), whole[shift:])


@settings(max_examples=up_to(100), deadline=None)
@given(st.lists(st.integers(0, MEANINGS + 20) | st.sampled_from("aeβж犬 .,!"), max_size=40), st.sampled_from(LANGS))
def test_few_texts_have_the_bits_that_they_have_among_many(model: Cr5, drawn: list[int | str], lang: str) -> None:
    text = " ".join(madeup.word(lang, part) if isinstance(part, int) else part for part in drawn)
    batch = [*random_texts(lang, FEW_TEXTS), text]
    np.testing.assert_array_equal(model.encode([text], lang)[0], model.encode(batch, lang)[-1])
    encoded = model.encode_text(text, lang)
    np.testing.assert_array_equal(encoded.vector, model.encode(batch, lang)[-1])
    assert encoded.coverage == model.coverage_parts(text, lang)


def test_the_order_of_words_does_not_matter(model: Cr5, documents: list[Document]) -> None:
    text = texts(documents, "aa")[0]
    backwards = " ".join(reversed(text.split()))
    np.testing.assert_array_equal(model.encode([text], "aa"), model.encode([backwards], "aa"))


def test_texts_without_a_known_word_are_zero_and_coverage_says_so(model: Cr5) -> None:
    known, unknown = word("aa", 3), "zzz"
    given_texts = ["", "   ", "?!", unknown, f"{unknown} {unknown}", known, f"{known} {known} {known} {unknown}"]
    vectors = model.encode(given_texts, "aa")
    assert vectors.any(axis=1).tolist() == [False] * 5 + [True] * 2
    np.testing.assert_array_equal(model.coverage(given_texts, "aa"), np.array([0, 0, 0, 0, 0, 1, 0.75], np.float32))
    np.testing.assert_array_equal(vectors[5], vectors[6])


def test_no_texts_are_no_rows(model: Cr5) -> None:
    assert model.encode([], "aa").shape == (0, SETTINGS["rank"])
    assert model.coverage([], "aa").shape == (0,)


@pytest.mark.slow
def test_a_text_of_any_length_is_taken_whole(model: Cr5) -> None:
    long = " ".join(random_texts("aa", 8_000))
    once = " ".join(word("aa", i) for i in range(MEANINGS))
    assert len(long) > 1_000_000
    assert model.encode([long], "aa")[0] @ model.encode([once], "aa")[0] > 0.5
    changed = model.encode([f"{long} {' '.join([word('aa', 3)] * 10**5)}"], "aa")[0]
    assert (changed != model.encode([long], "aa")[0]).any()  # the end counts as much as the beginning


@pytest.mark.slow
@settings(max_examples=up_to(150), deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=[]), max_size=30), max_size=5), st.sampled_from([*LANGS]))
def test_no_text_is_too_odd(model: Cr5, odd: list[str], lang: str) -> None:
    vectors = model.encode(odd, lang)
    assert np.isfinite(vectors).all()
    assert (model.coverage(odd, lang) <= 1).all()
    parts = model.coverage_parts(odd, lang)
    assert (vectors.any(axis=1) == (parts.known + parts.by_subword > 0)).all()


@settings(max_examples=up_to(50), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(LANGS), st.lists(st.integers(0, MEANINGS + 20), max_size=8)), max_size=12))
def test_texts_of_several_languages_have_the_rows_of_each_in_any_order(
    model: Cr5, drawn: list[tuple[str, list[int]]]
) -> None:
    mixed, langs = [madeup.text(lang, meanings) for lang, meanings in drawn], [lang for lang, _ in drawn]
    vectors = model.encode(mixed, langs)
    assert vectors.shape == (len(drawn), SETTINGS["rank"])
    assert vectors.dtype == np.float32
    for lang in LANGS:
        rows = [i for i, other in enumerate(langs) if other == lang]
        some = [mixed[i] for i in rows]
        np.testing.assert_array_equal(vectors[rows], model.encode(some, lang))
        np.testing.assert_array_equal(model.coverage(mixed, langs)[rows], model.coverage(some, lang))
    np.testing.assert_array_equal(model.encode(mixed[::-1], langs[::-1]), vectors[::-1])


def test_a_language_that_is_not_given_is_guessed(model: Cr5, documents: list[Document]) -> None:
    mixed, langs = [d.text for d in documents[:30]], [d.lang for d in documents[:30]]
    vectors = model.encode(mixed)
    assert model.guess_languages(mixed) == [model.guess_language(text) for text in mixed]
    assert [guess.lang for guess in model.guess_languages(mixed)] == langs
    assert set(langs) == set(LANGS)
    np.testing.assert_array_equal(vectors, model.encode(mixed, langs))
    np.testing.assert_array_equal(model.coverage(mixed), model.coverage(mixed, langs))
    some = [lang if i % 2 else None for i, lang in enumerate(langs)]
    for container in (some, tuple(some), np.array(some, object), pd.Series(some), pa.array(some), iter(some)):
        np.testing.assert_array_equal(vectors, model.encode(mixed, container))
    assert [guess.lang for guess in model.guess_languages(mixed, ["bb"])] == ["bb"] * 30


def test_one_text_is_one_vector_and_one_share(model: Cr5) -> None:
    text = f"{word('bb', 3)} zzz"
    for lang in ("bb", None, ["bb"], [None]):
        np.testing.assert_array_equal(model.encode(text, lang), model.encode([text], "bb")[0], strict=True)
        assert model.coverage(text, lang) == 0.5
    assert model.encode(text).shape == (SETTINGS["rank"],)


@pytest.mark.parametrize("container", [tuple, np.array, pd.Series, pl.Series, pa.array, iter])
def test_texts_may_be_in_any_sequence(model: Cr5, container: Callable[[list[str]], Any]) -> None:
    some = random_texts("aa", 20)
    np.testing.assert_array_equal(model.encode(container(some), "aa"), model.encode(some, "aa"), strict=True)
    np.testing.assert_array_equal(model.coverage(container(some), "aa"), model.coverage(some, "aa"), strict=True)
    assert model.guess_languages(container(some)) == model.guess_languages(some)


@pytest.mark.parametrize("method", ["encode", "coverage", "guess_languages"])
@pytest.mark.parametrize("value", [None, b"bytes", float("nan"), 5])
def test_what_is_no_text_is_refused_by_position_and_value(model: Cr5, method: str, value: Any) -> None:
    with pytest.raises(TypeError, match=rf"^`texts\[2\]` is {value!r}, not a string; ") as caught:
        getattr(model, method)(["one", "two", value, "four"])
    assert isinstance(caught.value, Cr5Error)


@pytest.mark.parametrize("method", ["encode", "coverage", "guess_languages"])
def test_an_array_without_dimensions_is_no_sequence_of_texts(model: Cr5, method: str) -> None:
    with pytest.raises(TypeError, match=r"^`texts` is an array without dimensions; give its text, with item\(\)"):
        getattr(model, method)(np.array("il cane"))
    with pytest.raises(TypeError, match=r"^`lang` is an ndarray, not a language code"):
        model.encode(["il cane"], np.array("aa"))


@pytest.mark.parametrize("value", [None, b"bytes", 5])
def test_only_texts_are_explained(model: Cr5, value: Any) -> None:
    with pytest.raises(TypeError, match=f"^`text_a` is {value!r}, not a string; "):
        model.explain(value, "aa", "text", "bb")
    with pytest.raises(TypeError, match=f"^`text_b` is {value!r}, not a string; "):
        model.explain("text", "aa", value, "bb")


def test_many_texts_of_languages_that_are_not_given_have_the_rows_of_each(model: Cr5) -> None:
    mixed = [text for lang in LANGS for text in [*random_texts(lang, CHUNK_TEXTS // 2), "", "zzz"]][::-1]
    vectors, found = model.encode(mixed), model.guess_languages(mixed)
    assert {guess.lang for guess in found} == set(LANGS)
    for lang in LANGS:
        rows = [i for i, guess in enumerate(found) if guess.lang == lang]
        np.testing.assert_array_equal(vectors[rows], model.encode([mixed[i] for i in rows], lang))
    assert model.guess_languages([]) == []


def test_a_guess_reads_the_words_of_a_saved_model_but_no_tensors(
    model: Cr5, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = Cr5.load(model_folder)
    monkeypatch.setattr(model_files, "_read_language", None)
    some = [text for lang in LANGS for text in random_texts(lang, 10)]
    assert loaded.guess_languages(some) == model.guess_languages(some)
    with pytest.raises(TypeError):
        loaded.encode(some, "aa")


def test_a_model_that_is_fitted_again_guesses_with_its_new_words() -> None:
    model = Cr5(**SETTINGS).fit(madeup.corpus(["aa", "bb"]))
    assert {model.guess_language(word("aa", 3)).lang, model.guess_language(word("bb", 3)).lang} == {"aa", "bb"}
    model.fit(Document(d.concept, {"aa": "bb", "bb": "aa"}[d.lang], d.text) for d in madeup.corpus(["aa", "bb"]))
    assert (model.guess_language(word("aa", 3)).lang, model.guess_language(word("bb", 3)).lang) == ("bb", "aa")


def test_texts_without_a_known_word_are_zero_among_others(model: Cr5) -> None:
    mixed = ["", word("bb", 3), "zzz", word("aa", 3)]
    assert model.encode(mixed).any(axis=1).tolist() == [False, True, False, True]
    assert [guess.lang for guess in model.guess_languages(mixed)][1::2] == ["bb", "aa"]
    assert model.encode([]).shape == (0, SETTINGS["rank"])
    assert model.guess_languages([]) == []


def test_languages_that_do_not_fit_the_texts_are_refused(model: Cr5) -> None:
    with pytest.raises(Cr5Error, match=r"^`lang` has 1 code for 2 texts; give one for all texts, or one for each"):
        model.encode(["one", "two"], ["aa"])
    with pytest.raises(Cr5Error, match=r"^the model has no language 'xx'; its languages are aa, bb, cc$"):
        model.encode(["one", "two"], [None, "xx"])
    with pytest.raises(TypeError, match=r"^`lang\[1\]` is 5, not a language code; convert it$"):
        model.encode(["one", "two"], ["aa", 5])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"^`lang` is a set, not a language code; convert it$"):
        model.encode(["one", "two"], {"aa", "bb"})  # which has no order
    with pytest.raises(Cr5Error, match=r"fit the model first$"):
        Cr5(rank=3).encode("one")


@pytest.mark.parametrize("method", ["encode", "coverage"])
def test_an_unknown_language_is_refused(model: Cr5, method: str) -> None:
    with pytest.raises(Cr5Error, match=r"^the model has no language 'xx'; its languages are aa, bb, cc$"):
        getattr(model, method)(["text"], "xx")


def test_threads_may_share_a_model(model_folder: Path, model: Cr5) -> None:
    loaded = Cr5.load(model_folder)
    jobs = [(lang, random_texts(lang, 20, seed)) for seed in range(4) for lang in LANGS]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda job: loaded.encode(job[1], job[0]), jobs))
    for (lang, some), vectors in zip(jobs, found, strict=True):
        np.testing.assert_array_equal(vectors, model.encode(some, lang))
