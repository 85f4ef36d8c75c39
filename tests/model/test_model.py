"""A model of made-up languages: what it must find, and what it must not."""

import re
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import madeup
import numpy as np
import pytest
from madeup import LANGS, MEANINGS, SETTINGS, texts, word
from model_texts import precision

from cr5 import CorpusError, Cr5, Document, InputSkipped, Skipped
from cr5.errors import Cr5Error

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


# Words


def test_words_are_the_frequent_ones_first_and_each_has_a_vector(model: Cr5, documents: list[Document]) -> None:
    total = Counter(w for text in texts(madeup.split(documents)[0], "aa") for w in text.split())
    words = model.words("aa")
    assert [total[w] for w in words] == sorted((total[w] for w in words), reverse=True)
    assert model.word_vectors("aa").shape == (len(words), SETTINGS["rank"])
    assert model.word_vectors("aa").dtype == np.float32


def test_similar_words_of_several_words_are_refused(model: Cr5) -> None:
    with pytest.raises(Cr5Error, match=r"has 2 words, .* give one of them"):
        model.similar_words(f"{word('aa', 1)} {word('aa', 2)}", "aa", "bb")


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


def test_similar_words_are_of_the_language_of_the_word_unless_another_is_named(model: Cr5) -> None:
    found = model.similar_words(word("aa", 5), "aa", k=7)
    assert found == model.similar_words(word("aa", 5), "aa", "aa", k=7)
    assert word("aa", 5) not in dict(found)


@pytest.mark.parametrize("unknown", ["zzz", ""])
def test_an_unknown_word_is_refused(model: Cr5, unknown: str) -> None:
    message = (
        f"{unknown!r} is not one of the {len(model.words('aa'))} words known in language aa; "
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


def test_what_is_skipped_is_in_the_report_and_a_warning_unless_the_caller_counts_it(documents: list[Document]) -> None:
    damaged: list[Any] = [*documents, {"concept": "Q000", "lang": "aa", "text": None}, Document("Q000", "xx!", "a")]
    counts = {"missing field": 1, "unusable language code": 1}
    told = r"skipped 1: missing field \(first: `documents\[450\]`: .*; 1: unusable language"
    with pytest.warns(InputSkipped, match=told):
        model = Cr5(**SETTINGS).fit(damaged, on_error="skip")
    assert model.report["corpus"]["skipped"] == counts
    skipped = Skipped({"earlier": 3, "missing field": 2}, {"earlier": "", "missing field": ""})
    assert model.update(damaged, on_error="skip", skipped=skipped).report["corpus"]["skipped"] == counts
    assert skipped.total == 7


def test_a_concept_of_one_language_is_an_error_on_request(documents: list[Document]) -> None:
    lonely = [*documents, Document("lonely", "aa", documents[0].text)]
    with pytest.raises(CorpusError, match=r"`documents\[450\]`: concept lonely occurs in language aa only"):
        Cr5(**SETTINGS).fit(lonely, on_error="raise")
