"""Words outside the vocabulary: their vectors by the definition, one text and many, saved and copied."""

import math
import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import madeup
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from madeup import LANGS, MEANINGS, word

from cr5 import Cr5, Document
from cr5._typing import Array
from cr5.corpus.inputs import in_batches
from cr5.evaluate.systems.cr5_system import model_system
from cr5.evaluate.texts import read_texts
from cr5.features.counts import count_words
from cr5.features.tfidf import Vocabulary, fit_vocabulary
from cr5.model.language_encoder import MAX_CACHED_WORDS, LanguageEncoder

NEW = ("kalomi" + "x", "renren", "supeno" * 2, "tavtavtavtav", "mikalo9")
"""Words that no document has, of syllables of language aa."""


def ngrams_of(token: str) -> set[str]:
    marked = f"<{token}>"
    return {marked[i : i + n] for n in (3, 4, 5) for i in range(len(marked) - n + 1)}


def by_hand(model: Cr5, vocabulary: Vocabulary, text: str, lang: str) -> Array:
    """The vector of a text as its definition says, word by word."""
    language = model._language(lang)
    own, all_ngrams = language.subwords, vocabulary.subwords
    assert own is not None
    assert all_ngrams is not None
    weight = dict(zip(all_ngrams.ngrams, all_ngrams.weights.astype(float), strict=True))
    kept = {ngram: own.map[i].astype(float) * own.scale for i, ngram in enumerate(own.ngrams)}
    vector, square = np.zeros(model.rank), 0.0
    for token, count in Counter(text.split()).items():
        tf = 1 + math.log(count)
        if token in vocabulary.index:
            row = vocabulary.index[token]
            vector += tf * float(language.idf[row]) * language.map[row].astype(float)
            known = ngrams_of(token) & weight.keys()
            square += tf**2 * (float(language.idf[row]) ** 2 + sum(weight[ngram] ** 2 for ngram in known))
        else:
            known = ngrams_of(token) & kept.keys()
            vector += tf * sum((weight[ngram] * kept[ngram] for ngram in known), np.zeros(model.rank))
            square += tf**2 * sum(weight[ngram] ** 2 for ngram in known)
    vector = vector / math.sqrt(square) - language.offset
    return np.asarray(vector / np.linalg.norm(vector))


def mixed_texts(lang: str, count: int, seed: int = 0) -> list[str]:
    """Texts of known words and of words that are outside the vocabulary, some of them again and again."""
    random = np.random.default_rng(seed)
    known = [word(lang, i) for i in range(MEANINGS)]
    outside = [word(lang, i) + word(lang, j) for i, j in random.integers(0, MEANINGS, (200, 2))]
    chosen = [[*random.choice(known, 4), *random.choice(outside, random.integers(0, 4))] for _ in range(count)]
    return [" ".join(random.permutation(words)) for words in chosen]


@pytest.mark.parametrize("text", [" ".join(NEW), "kalomi", f"kalomi kalomi {' '.join(NEW * 3)} lolomi", NEW[1]])
def test_encoding_with_ngrams_is_what_its_definition_says(model: Cr5, documents: list[Document], text: str) -> None:
    training = madeup.split(documents)[0]
    counts = count_words(madeup.texts(training, "aa"), "aa", model.settings.tokeniser)
    vocabulary = fit_vocabulary(counts, model.settings.weighting)
    expected = by_hand(model, vocabulary, text, "aa")
    np.testing.assert_allclose(model.encode([text], "aa")[0], expected, atol=2e-5)
    np.testing.assert_allclose(model.encode([text] * 20, "aa")[7], expected, atol=2e-5)


def test_a_text_of_new_words_alone_has_a_vector_near_that_of_the_words_it_is_made_of(model: Cr5) -> None:
    whole = model.encode([word("aa", i) for i in range(MEANINGS)], "aa")
    ranks = []
    for meaning in range(64, MEANINGS, 10):
        new = word("aa", meaning) + "x"
        assert model.coverage(new, "aa") == 0
        cosines = whole @ model.encode(new, "aa")
        ranks.append(int((cosines > cosines[meaning]).sum()))
    assert np.median(ranks) == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.sampled_from("kalomirensu9é"), min_size=1, max_size=9), max_size=12), st.integers(0, 99))
def test_texts_have_the_same_bits_alone_and_among_many(model: Cr5, words: list[str], seed: int) -> None:
    text = " ".join(words)
    batch = [*mixed_texts("aa", 20, seed), text]
    np.testing.assert_array_equal(model.encode([text], "aa")[0], model.encode(batch, "aa")[-1])
    np.testing.assert_array_equal(model.encode_text(text, "aa").vector, model.encode(batch, "aa")[-1])
    np.testing.assert_array_equal(model.encode(" ".join(words[::-1]), "aa"), model.encode(text, "aa"))


def test_an_evaluation_sees_the_same_rows(model: Cr5) -> None:
    texts = mixed_texts("bb", 3000)
    documents = [Document(f"{i}", lang, text) for i, text in enumerate(texts) for lang in ("aa", "bb")]
    given_texts = read_texts(in_batches(documents), model.settings.tokeniser).languages["bb"]
    np.testing.assert_array_equal(model_system(model).embed(given_texts, "bb"), model.encode(texts, "bb"))


def test_coverage_tells_known_words_from_those_with_known_ngrams(model: Cr5) -> None:
    known = word("aa", 70)
    texts = [f"{known} {known} {NEW[0]} жжжж", "", known, "жжжж", f"{NEW[0]} {NEW[1]}"]
    parts = model.coverage_parts(texts, "aa")
    assert parts.known.tolist() == [0.5, 0, 1, 0, 0] == model.coverage(texts, "aa").tolist()
    assert parts.by_subword.tolist() == [0.25, 0, 0, 0, 1]
    assert parts.unknown.tolist() == [0.25, 0, 0, 1, 0]
    assert model.coverage_parts(texts[0], "AA") == (0.5, 0.25, 0.25) == model.encode_text(texts[0], "aa").coverage
    guessed = model.coverage_parts(f"{known} {known} {NEW[0]} жжжж")
    assert guessed == (0.5, 0.25, 0.25)
    assert all(isinstance(part, float) for part in guessed)
    several = model.coverage_parts([*texts, word("bb", 3)], ["aa"] * 5 + ["bb"])
    for one, other in zip(parts, several, strict=True):
        assert other.tolist()[:5] == one.tolist()
    assert (model.encode(texts, "aa").any(axis=1) == (parts.known + parts.by_subword > 0)).all()


def test_explanations_name_words_outside_the_vocabulary(model: Cr5) -> None:
    text = f"{word('aa', 70)} {NEW[0]}"
    explained = model.explain(text, "aa", word("bb", 70), "bb", k=100)
    assert {part.word for part in explained.words_a} == {word("aa", 70), NEW[0]}
    cosine = float(model.encode(text, "aa") @ model.encode(word("bb", 70), "bb"))
    assert explained.similarity == pytest.approx(cosine, abs=1e-5)
    assert sum(part.value for part in explained.words_a) + explained.rest_a == pytest.approx(cosine, abs=1e-5)


def test_saved_loaded_and_copied_models_encode_the_same(model: Cr5, tmp_path: Path) -> None:
    texts = mixed_texts("cc", 40)
    expected = model.encode(texts, "cc")
    model.save(tmp_path / "model")
    loaded = Cr5.load(tmp_path / "model")
    for other in (loaded, pickle.loads(pickle.dumps(loaded)), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.encode(texts, "cc"), expected)
        assert other.sizes() == {
            lang: size._replace(bytes=other.sizes()[lang].bytes) for lang, size in loaded.sizes().items()
        }
    assert loaded.sizes()["cc"].ngrams > 0


@pytest.mark.slow
def test_threads_may_share_an_encoder_and_its_recent_words_are_bounded(model: Cr5) -> None:
    encoder = LanguageEncoder(model._language("aa"), model.settings.weighting)
    random = np.random.default_rng(0)
    words = [word("aa", i) + word("aa", j) for i, j in random.integers(0, MEANINGS, (3 * MAX_CACHED_WORDS, 2))]
    lists = [[words[i] for i in random.integers(0, len(words), 20)] for _ in range(800)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(encoder.vector, lists))
    assert len(encoder._recent) <= MAX_CACHED_WORDS
    alone = LanguageEncoder(model._language("aa"), model.settings.weighting)
    for one, other in zip(together, map(alone.vector, lists), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("settings_", [{"subwords": False}, {"subword_weight": 0.0}, {"max_subwords": 0}])
def test_models_without_ngrams_know_no_new_words(documents: list[Document], settings_: dict[str, Any]) -> None:
    plain = Cr5(**madeup.SETTINGS | {"rank": 10, "max_steps": 3, "tol": 0.9} | settings_).fit(documents)
    assert not plain.encode(NEW[0], "aa").any()
    assert plain.coverage_parts([NEW[0]], "aa").unknown.tolist() == [1]
    assert {size.ngrams for size in plain.sizes().values()} == {0}
    assert [plain.report["languages"][lang]["subwords"] for lang in LANGS] == [0, 0, 0]
