"""A model of made-up languages: what it must find, what it must not, and that it is the same every time."""

import re
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import madeup
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from madeup import LANGS, MEANINGS, SETTINGS, texts, word
from properties import up_to
from ranks import counterpart_ranks

from cr5 import CorpusError, Cr5, Document, Interrupted, ModelFileError, read_batches, write
from cr5._typing import Array
from cr5.errors import Cr5Error
from cr5.features.counts import FEW_TEXTS
from cr5.progress import Progress
from cr5.storage import model_files
from cr5.text_encoder import CHUNK_TEXTS
from cr5.training.engines.cpu import CpuEngine

TIGHT = SETTINGS | {"tol": 4e-4, "max_steps": 300}


def precision(model: Cr5, held_out: Sequence[Document]) -> float:
    """P@1 on held-out concepts, in percent, mean over all pairs of languages."""
    vectors = {lang: model.encode(texts(held_out, lang), lang) for lang in model.langs}
    concepts = np.arange(madeup.HELD_OUT)
    ranks = [counterpart_ranks(vectors[a], concepts, vectors[b], concepts) for a in vectors for b in vectors if a != b]
    return 100 * float((np.array(ranks) == 1).mean())


def random_texts(lang: str, count: int, seed: int = 0) -> list[str]:
    """Texts of 0 to 60 words, among them unknown ones."""
    random = np.random.default_rng(seed)
    return [madeup.text(lang, random.integers(0, MEANINGS + 20, random.integers(0, 61)).tolist()) for _ in range(count)]


def cosines(model: Cr5, documents: Sequence[Document]) -> Array:
    vectors = np.vstack([model.encode(texts(documents, lang), lang) for lang in LANGS])
    return np.asarray(vectors @ vectors.T)


# What it learns


@pytest.mark.parametrize("change", [{}, {"ridge": "auto"}, {"preset": "wsdm19"}], ids=["default", "auto", "wsdm19"])
def test_documents_of_concepts_never_seen_find_each_other(documents: list[Document], change: dict[str, Any]) -> None:
    training, held_out = madeup.split(documents)
    assert precision(Cr5(**SETTINGS | change).fit(training), held_out) > 80


@pytest.mark.parametrize("seed", range(3))
def test_shuffled_concepts_teach_nothing(documents: list[Document], seed: int) -> None:
    training, held_out = madeup.split(documents)
    chance = 100 / madeup.HELD_OUT
    assert precision(Cr5(**SETTINGS).fit(madeup.shuffled(training, seed)), held_out) < 3 * chance


def test_two_languages_are_enough(documents: list[Document]) -> None:
    training, held_out = madeup.split([d for d in documents if d.lang != "cc"])
    assert precision(Cr5(**SETTINGS).fit(training), held_out) > 80


def test_a_language_that_lacks_most_concepts_is_learned_through_the_others(documents: list[Document]) -> None:
    training, held_out = madeup.split(documents)
    some = [d for d in training if d.lang != "cc" or int(d.concept[1:]) % 2]
    assert precision(Cr5(**SETTINGS).fit(some), held_out) > 80


@pytest.mark.parametrize(("lang", "to"), [("aa", "bb"), ("bb", "cc"), ("cc", "aa")])
def test_the_most_similar_word_is_the_translation(model: Cr5, lang: str, to: str) -> None:
    words = set(model.words(lang))
    known = [i for i in range(MEANINGS) if word(lang, i) in words]
    right = [model.similar_words(word(lang, i), lang, to, 1)[0][0] == word(to, i) for i in known]
    assert len(known) > 0.9 * MEANINGS
    assert np.mean(right) > 0.9


TRANSLATIONS = {
    "en": "apple university economy computer hospital music history science aeroplane railway city animal plant ocean "
    "sun moon earth country government law student friend family child company bank",
    "zh": "苹果 大学 经济 电脑 医院 音乐 历史 科学 飞机 火车 城市 动物 植物 海洋 太阳 月亮 地球 国家 政府 法律 "
    "学生 朋友 家庭 孩子 公司 银行",
    "ja": "りんご 大学 経済 コンピューター 病院 音楽 歴史 科学 飛行機 電車 都市 動物 植物 海洋 太陽 月 地球 国 "
    "政府 法律 学生 友達 家族 子供 会社 銀行",
    "th": "แอปเปิล มหาวิทยาลัย เศรษฐกิจ คอมพิวเตอร์ โรงพยาบาล ดนตรี ประวัติศาสตร์ วิทยาศาสตร์ เครื่องบิน รถไฟ เมือง สัตว์ พืช "
    "มหาสมุทร พระอาทิตย์ พระจันทร์ โลก ประเทศ รัฐบาล กฎหมาย นักเรียน เพื่อน ครอบครัว เด็ก บริษัท ธนาคาร",
}


@pytest.mark.parametrize("lang", ["zh", "ja", "th"])
def test_languages_without_spaces_are_cut_into_words(lang: str) -> None:
    random = np.random.default_rng(0)
    vocabulary = {code: words.split() for code, words in TRANSLATIONS.items()}
    joint = {"en": " ", lang: ""}
    documents = []
    for i in range(80):
        core = random.choice(len(vocabulary["en"]), 6, replace=False)
        for code, joiner in joint.items():
            documents.append(
                Document(f"Q{i}", code, joiner.join(vocabulary[code][m] for m in random.permutation(core)))
            )
    model = Cr5(rank=12, ridge=0.1, min_documents=2, min_unique=3).fit(documents)
    pairs = zip(*(vocabulary[code] for code in joint), strict=True)
    found = [model.similar_words(english, "en", lang, 2) for english, _ in pairs]
    right = [other.startswith(tuple(w for w, _ in near)) for near, other in zip(found, vocabulary[lang], strict=True)]
    assert np.mean(right) > 0.8
    assert model.coverage([documents[1].text], lang)[0] == 1


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
    with pytest.raises(TypeError, match=r"^`lang` is a ndarray, not a language code"):
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
    with pytest.raises(Cr5Error, match=r"^`lang` has 1 codes for 2 texts; give one for all texts, or one for each"):
        model.encode(["one", "two"], ["aa"])
    with pytest.raises(Cr5Error, match=r"^the model has no language 'xx'; its languages are aa, bb, cc$"):
        model.encode(["one", "two"], [None, "xx"])
    with pytest.raises(TypeError, match=r"^`lang\[1\]` is 5, not a language code; convert it$"):
        model.encode(["one", "two"], ["aa", 5])  # type: ignore[list-item]
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


# Words


def test_words_are_the_frequent_ones_first_and_each_has_a_vector(model: Cr5, documents: list[Document]) -> None:
    total = Counter(w for text in texts(madeup.split(documents)[0], "aa") for w in text.split())
    words = model.words("aa")
    assert [total[w] for w in words] == sorted((total[w] for w in words), reverse=True)
    assert model.word_vectors("aa").shape == (len(words), SETTINGS["rank"])
    assert model.word_vectors("aa").dtype == np.float32


def test_similar_words_are_those_with_the_largest_cosine(model: Cr5) -> None:
    query = word("aa", 5)
    vectors = {lang: model.word_vectors(lang).astype(float) for lang in LANGS}
    unit = {lang: Z / np.linalg.norm(Z, axis=1, keepdims=True) for lang, Z in vectors.items()}
    for to in LANGS:
        expected = unit[to] @ unit["aa"][model.words("aa").index(query)]
        found = model.similar_words(query, "aa", to, k=7)
        values = {w: c for w, c in zip(model.words(to), expected, strict=True) if (to, w) != ("aa", query)}
        np.testing.assert_allclose([c for _, c in found], sorted(values.values(), reverse=True)[:7], atol=1e-5)
        np.testing.assert_allclose([c for _, c in found], [values[w] for w, _ in found], atol=1e-5)


def test_a_word_may_be_written_as_in_a_text_and_k_may_exceed_the_vocabulary(model: Cr5) -> None:
    plain = model.similar_words(word("aa", 5), "aa", "bb", k=10**6)
    assert model.similar_words(f" {word('aa', 5).upper()}! ", "aa", "bb", k=10**6) == plain
    assert len(plain) == len(model.words("bb"))
    assert len(model.similar_words(word("aa", 5), "aa", "aa", k=10**6)) == len(model.words("aa")) - 1


@pytest.mark.parametrize("unknown", ["zzz", "", "kaka lolo"])
def test_an_unknown_word_is_refused(model: Cr5, unknown: str) -> None:
    message = (
        f"{unknown!r} is not one of the {len(model.words('aa'))} words known in aa; "
        "try a more frequent word or another form of it"
    )
    with pytest.raises(Cr5Error, match=f"^{re.escape(message)}$"):
        model.similar_words(unknown, "aa", "bb")


# Explaining


@pytest.mark.parametrize("k", [1, 5, 10_000])
def test_contributions_and_the_rest_add_up_to_the_cosine(model: Cr5, documents: list[Document], k: int) -> None:
    a, b = texts(documents, "aa")[7], texts(documents, "bb")[7]
    found = model.explain(a, "aa", b, "bb", k)
    cosine = model.encode([a], "aa")[0] @ model.encode([b], "bb")[0]
    assert found.similarity == pytest.approx(cosine, abs=1e-5)
    assert sum(c.value for c in found.words_a) + found.rest_a == pytest.approx(found.similarity, abs=1e-6)
    assert sum(c.value for c in found.words_b) + found.rest_b == pytest.approx(found.similarity, abs=1e-6)
    assert len(found.words_a) == min(k, len(set(a.split())))
    for values in ([c.value for c in found.words_a], [c.value for c in found.words_b], [p.value for p in found.pairs]):
        assert values == sorted(values, reverse=True)
    assert len(found.pairs) == min(k, len(set(a.split())) * len(set(b.split())))


def test_where_nothing_is_centred_the_words_are_all_there_is(documents: list[Document]) -> None:
    model = Cr5("wsdm19", **SETTINGS).fit(documents)
    a, b = texts(documents, "aa")[7], texts(documents, "cc")[7]
    found = model.explain(a, "aa", b, "cc", k=10_000)
    assert (found.rest_a, found.rest_b) == pytest.approx((0, 0), abs=1e-5)
    for words, side in ((found.words_a, 0), (found.words_b, 1)):
        for w, value in words:
            assert value == pytest.approx(sum(pair.value for pair in found.pairs if pair[side] == w), abs=1e-5)


def test_the_strongest_pair_of_two_one_word_texts_is_the_pair(model: Cr5) -> None:
    a, b = word("aa", 9), word("bb", 9)
    found = model.explain(a, "aa", b, "bb")
    assert [(p.word_a, p.word_b) for p in found.pairs] == [(a, b)]
    assert found.similarity > 0.3


def test_most_strong_pairs_are_translations(model: Cr5, documents: list[Document]) -> None:
    right = total = 0
    for a, b in zip(texts(documents, "aa")[:20], texts(documents, "bb")[:20], strict=True):
        for pair in model.explain(a, "aa", b, "bb", 5).pairs:
            right += any((word("aa", i), word("bb", i)) == pair[:2] for i in range(MEANINGS))
            total += 1
    assert right > total / 2


def test_a_text_is_as_similar_to_itself_as_can_be(model: Cr5, documents: list[Document]) -> None:
    text = texts(documents, "aa")[3]
    assert model.explain(text, "aa", text, "aa").similarity == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(("a", "b"), [("", ""), ("zzz", word("bb", 3)), (word("aa", 3), "?")])
def test_a_text_without_known_words_is_similar_to_nothing(model: Cr5, a: str, b: str) -> None:
    found = model.explain(a, "aa", b, "bb")
    assert found.similarity == 0
    assert found.pairs == []
    assert sum(c.value for c in found.words_a) + found.rest_a == 0
    assert sum(c.value for c in found.words_b) + found.rest_b == 0


# Saving and loading


def assert_same(one: Cr5, other: Cr5, langs: Sequence[str] = LANGS) -> None:
    for lang in langs:
        some = random_texts(lang, 30)
        np.testing.assert_array_equal(one.encode(some, lang), other.encode(some, lang), strict=True)
        assert one.words(lang) == other.words(lang)


def test_a_loaded_model_is_the_saved_one(model: Cr5, model_folder: Path) -> None:
    loaded = Cr5.load(model_folder)
    assert_same(model, loaded)
    assert loaded.settings == model.settings
    assert loaded.report == model.report
    assert repr(loaded) == repr(model) == "Cr5('default', rank=60, langs=['aa', 'bb', 'cc'])"
    a, b = texts(madeup.corpus(), "aa")[0], texts(madeup.corpus(), "bb")[0]
    assert loaded.explain(a, "aa", b, "bb") == model.explain(a, "aa", b, "bb")
    assert loaded.similar_words(word("aa", 1), "aa", "bb") == model.similar_words(word("aa", 1), "aa", "bb")


def test_some_languages_may_be_loaded_and_saved_alone(model: Cr5, model_folder: Path, tmp_path: Path) -> None:
    some = Cr5.load(model_folder, langs=["bb"])
    assert some.langs == ["bb"]
    with pytest.raises(Cr5Error, match=r"^the model has no language 'aa'; its languages are bb$"):
        some.encode(["text"], "aa")
    some.save(tmp_path / "some")
    assert Cr5.load(tmp_path / "some").langs == ["bb"]
    assert_same(model, Cr5.load(tmp_path / "some"), ["bb"])
    with pytest.raises(ModelFileError, match=r"has no language 'xx'; it has aa, bb, cc$"):
        Cr5.load(model_folder, langs=["xx"])


def test_a_model_may_be_saved_over_itself_and_over_another(
    model: Cr5, documents: list[Document], tmp_path: Path
) -> None:
    path = tmp_path / "model"
    Cr5(**SETTINGS | {"rank": 5}).fit(documents).save(path)
    model.save(path)
    loaded = Cr5.load(path)
    loaded.save(path)
    assert_same(model, loaded)
    assert_same(model, Cr5.load(path))


def test_a_model_folder_holds_nothing_but_its_documented_files(model: Cr5, tmp_path: Path) -> None:
    for _ in range(2):
        model.save(tmp_path / "model")
    kinds = {re.sub(r"-[0-9a-f]{12}\.", ".", path.name) for path in (tmp_path / "model").iterdir()}
    languages = {f"{lang}{suffix}" for lang in LANGS for suffix in (".safetensors", ".txt")}
    assert kinds == {".lock", "model.json", "concepts.safetensors", *languages}
    assert len(list((tmp_path / "model").iterdir())) == len(kinds) + len(LANGS)  # words and n-grams are both .txt
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_unfitted_model_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(Cr5Error, match="not fitted"):
        Cr5().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_an_unfitted_model_says_so(model: Cr5) -> None:
    assert repr(Cr5()) == "Cr5('default', not fitted)"
    assert repr(Cr5("wsdm19", rank=7)) == "Cr5('wsdm19', rank=7, not fitted)"
    assert Cr5(rank=7).rank == 7
    assert not hasattr(Cr5(), "rank")  # it depends on the documents
    for use in (lambda: Cr5().rank, lambda: Cr5().encode([]), lambda: Cr5().encode("text")):
        with pytest.raises(Cr5Error, match="not fitted"):
            use()
    assert repr(model) == "Cr5('default', rank=60, langs=['aa', 'bb', 'cc'])"


def test_a_model_remembers_the_versions_it_was_made_with(model: Cr5) -> None:
    assert set(model.report["versions"]) == {"python", "cr5", "numpy", "scipy", "numba", "pyarrow", "icu4py"}


# The same every time


def test_the_same_seed_gives_the_same_bits(model: Cr5, documents: list[Document], tmp_path: Path) -> None:
    training, _ = madeup.split(documents)
    assert_same(model, Cr5(**SETTINGS).fit(training))
    assert_same(model, Cr5(**SETTINGS).fit(iter(training), threads=1))
    write(tmp_path / "corpus.jsonl", training)
    assert_same(model, Cr5(**SETTINGS).fit(read_batches(tmp_path / "corpus.jsonl", batch_rows=17)))


def test_a_model_fitted_within_a_memory_budget_is_the_same(
    model: Cr5, documents: list[Document], tmp_path: Path
) -> None:
    training, _ = madeup.split(documents)
    assert_same(model, Cr5(**SETTINGS).fit(training, engine=CpuEngine(memory=2**29, scratch_folder=tmp_path)))
    assert list(tmp_path.iterdir()) == []


def test_a_model_may_be_fitted_again(documents: list[Document], model: Cr5) -> None:
    training, _ = madeup.split(documents)
    again = Cr5(**SETTINGS).fit(madeup.shuffled(training))
    again.encode(["some text"], "aa")
    assert_same(model, again.fit(training))


@pytest.fixture(scope="module")
def plain_cosines(documents: list[Document]) -> Array:
    """The cosines of a tight fit, with which those of changed input are compared."""
    return cosines(Cr5(**TIGHT).fit(documents), documents)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["documents", "languages", "concepts", "seed"])
def test_order_and_names_do_not_matter(documents: list[Document], plain_cosines: Array, what: str) -> None:
    random = np.random.default_rng(5)
    other = {
        "documents": [documents[i] for i in random.permutation(len(documents))],
        "languages": sorted(documents, key=lambda d: d.lang, reverse=True),
        "concepts": [Document(f"x{d.concept[::-1]}", d.lang, d.text) for d in documents],
        "seed": documents,
    }[what]
    changed = Cr5(**TIGHT | {"seed": 1 if what == "seed" else 0}).fit(other)
    np.testing.assert_allclose(cosines(changed, documents), plain_cosines, atol=1e-3)


@pytest.mark.slow
def test_renamed_languages_keep_their_cosines(documents: list[Document], plain_cosines: Array) -> None:
    names = {"aa": "zz", "bb": "yy-Latn", "cc": "x_1"}
    renamed = Cr5(**TIGHT).fit([Document(d.concept, names[d.lang], d.text) for d in documents])
    vectors = np.vstack([renamed.encode(texts(documents, lang), names[lang]) for lang in LANGS])
    np.testing.assert_allclose(vectors @ vectors.T, plain_cosines, atol=1e-3)


# Special input


def test_words_may_come_ready_made(documents: list[Document], tmp_path: Path) -> None:
    def marked(text: str) -> str:
        return " ".join(f"{w.title()}|N.,!" for w in text.split())

    training, held_out = madeup.split([Document(d.concept, d.lang, marked(d.text)) for d in documents])
    model = Cr5(**SETTINGS, pretokenised=True).fit(training)
    assert precision(model, held_out) > 80
    assert set(model.words("aa")) <= {marked(word("aa", i)) for i in range(MEANINGS)}
    model.save(tmp_path / "model")
    loaded = Cr5.load(tmp_path / "model")
    assert loaded.coverage([marked(word("aa", 3)), word("aa", 3)], "aa").tolist() == [1, 0]
    assert loaded.similar_words(marked(word("aa", 3)), "aa", "bb", 1)[0][0].endswith("|N.,!")


def test_ready_made_words_around_any_white_space_can_be_saved(documents: list[Document], tmp_path: Path) -> None:
    spaces = ["\u00a0", "\u3000", "\x1c", "\x85", "\u2028", "\t", "\n"]
    odd = [Document(d.concept, d.lang, d.text.replace(" ", spaces[i % len(spaces)])) for i, d in enumerate(documents)]
    model = Cr5(**SETTINGS, pretokenised=True).fit(odd)
    model.save(tmp_path / "model")
    assert set(model.words("aa")) <= {word("aa", i) for i in range(MEANINGS)}


def test_several_documents_of_a_concept_count_together(documents: list[Document]) -> None:
    training, held_out = madeup.split(documents)
    halves = [Document(d.concept, d.lang, " ".join(d.text.split()[part::2])) for d in training for part in (0, 1)]
    model = Cr5(**SETTINGS).fit(halves)
    assert model.report["concepts"] == madeup.CONCEPTS - madeup.HELD_OUT
    assert precision(model, held_out) > 80


@pytest.mark.parametrize("on_error", [None, "skip"])
def test_a_concept_of_one_language_is_left_out_and_counted(
    documents: list[Document], on_error: Literal["skip"] | None
) -> None:
    lonely = [*documents, Document("lonely", "aa", documents[0].text)]
    model = Cr5(**SETTINGS).fit(lonely, on_error=on_error)
    usage = model.report["corpus"]
    left_out = {"concept in one language only": 1}
    assert usage["languages"]["aa"] == {"read": 151, "used": 150, "left_out": left_out}
    assert usage["concepts"] == {"read": 151, "used": 150, "left_out": left_out}


def test_a_concept_of_one_language_is_an_error_on_request(documents: list[Document]) -> None:
    lonely = [*documents, Document("lonely", "aa", documents[0].text)]
    with pytest.raises(CorpusError, match="document 451: concept lonely occurs in language aa only"):
        Cr5(**SETTINGS).fit(lonely, on_error="raise")


# Interrupting


def test_ctrl_c_raises_and_installs_no_handler(documents: list[Document]) -> None:
    before, seen = signal.getsignal(signal.SIGINT), []

    def interrupt(progress: Progress) -> None:
        seen.append(signal.getsignal(signal.SIGINT))
        if progress.stage == "fit":
            signal.raise_signal(signal.SIGINT)

    model = Cr5(**SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        model.fit(documents, progress=interrupt)
    assert model.langs == []
    assert set(seen) == {before}
    with pytest.raises(Cr5Error, match="`on_interrupt='stop'` must be"):
        model.fit(documents, on_interrupt="stop")  # type: ignore[arg-type]


def test_ctrl_c_can_end_the_fit_and_keep_the_model(documents: list[Document]) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.stage == "fit" and progress.done == 2:
            signal.raise_signal(signal.SIGINT)

    training, held_out = madeup.split(documents)
    before = signal.getsignal(signal.SIGINT)
    with pytest.warns(
        Interrupted, match=r"interrupted after 2 steps and has not converged: the residual is 0\.\d+, the tolerance 0$"
    ):
        model = Cr5(**SETTINGS | {"tol": 0}).fit(training, progress=interrupt, on_interrupt="return")
    assert (model.report["interrupted"], model.report["converged"], model.report["steps"]) == (True, False, 2)
    assert signal.getsignal(signal.SIGINT) is before
    assert precision(model, held_out) > 80


def test_ctrl_c_while_the_ridge_is_chosen_says_that_it_was_not(documents: list[Document]) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.stage == "choose the ridge":
            signal.raise_signal(signal.SIGINT)

    note = "the ridge was not chosen: interrupted after 1 of 6; it is 30"
    with pytest.warns(Interrupted, match=f"before its first step and has not converged: .*; {note}$"):
        model = Cr5(**SETTINGS | {"ridge": "auto"}).fit(documents, progress=interrupt, on_interrupt="return")
    assert model.report["ridge_note"] == note
    assert model.report["ridge"] == 30


def test_a_second_ctrl_c_ends_everything(documents: list[Document]) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.stage == "fit":
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    model = Cr5(**SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        model.fit(documents, progress=interrupt, on_interrupt="return")
    assert signal.getsignal(signal.SIGINT) is before
    assert model.langs == []


def test_a_model_may_be_fitted_outside_the_main_thread(model: Cr5, documents: list[Document]) -> None:
    with ThreadPoolExecutor(1) as pool:
        assert_same(model, pool.submit(Cr5(**SETTINGS).fit, madeup.split(documents)[0]).result())
