"""Words of every script, against a slow reading of the same rules in plain Python."""

import re
import unicodedata
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import up_to

from cr5.features.tokeniser import (
    STABLE_CHARACTERS,
    UNSPACED_RUN,
    Tokeniser,
    Tokens,
    may_have_runs,
    needs_segmenting,
)


def lists(tokens: Tokens) -> list[list[str]]:
    """Tokens text by text."""
    ends = zip(tokens.offsets[:-1], tokens.offsets[1:], strict=True)
    return [[tokens.words[i] for i in tokens.ids[a:b]] for a, b in ends]


def words(text: str, lang: str = "en", **options: Any) -> list[str]:
    return lists(Tokeniser(**options)([text], lang))[0]


def slow_words(text: str) -> list[str]:
    """The rules, character by character."""
    found, word = [], ""
    for character in unicodedata.normalize("NFKC", text).replace("\u00ad", "") + " ":
        if unicodedata.category(character)[0] in "LMN" or character in "\u200c\u200d":
            word += character.lower()
        else:
            if any(unicodedata.category(c)[0] in "LN" for c in word):
                found.append(word)
            word = ""
    return found


def test_normalising_leaves_the_stable_characters_as_they_are() -> None:
    ranges = re.findall(r"(.)(?:-(.))?", STABLE_CHARACTERS, flags=re.DOTALL)
    stable = [chr(c) for first, last in ranges for c in range(ord(first), ord(last or first) + 1)]
    assert len(stable) > 30_000
    assert all(unicodedata.is_normalized("NFKC", character) for character in stable)
    assert not any(unicodedata.combining(character) for character in stable)  # so none is moved by another
    together = "".join(stable)
    assert unicodedata.normalize("NFKC", together + together[::-1]) == together + together[::-1]


def test_stable_characters_separate_words_as_all_others_do() -> None:
    ranges = re.findall(r"(.)(?:-(.))?", STABLE_CHARACTERS, flags=re.DOTALL)
    stable = [f"x{chr(c)}y" for first, last in ranges for c in range(ord(first), ord(last or first) + 1)]
    stable = [text for text in stable if is_comparable(text)]
    tokeniser = Tokeniser(segment=False)
    plain = lists(tokeniser(stable, "en"))
    assert plain == lists(tokeniser([*stable, "\u0e01"], "en"))[:-1]  # a character that calls for the general rule
    assert plain == [slow_words(text) for text in stable]


def is_comparable(text: str) -> bool:
    """Whether Python and Arrow mean the same by it.

    Arrow lowers character by character, so İ becomes i, where Python gives two characters; and the
    three libraries know different versions of Unicode, so a character must have been there in 3.2.
    """
    normal = unicodedata.normalize("NFKC", text)
    old = all(unicodedata.ucd_3_2_0.category(c) != "Cn" for c in text + normal)
    return old and all(len(c.lower()) == 1 for c in normal)


letters = st.sampled_from("aÉßΣςЖعשहिन्दी한ôô1²½①ﬁ \u00a0\u00ad\u200c\u200d\u0301\u3000_-'.,\t\n\0😀‿")
characters = st.characters(exclude_categories=["Cs", "Cn"]).filter(is_comparable)
texts = st.text(letters | characters, max_size=30).filter(is_comparable)


@given(texts)
@settings(max_examples=up_to(120), deadline=None)
def test_words_are_runs_of_letters_marks_digits_and_joiners_with_a_letter_or_digit_in_them(text: str) -> None:
    assert words(text, segment=False) == slow_words(text)


@pytest.mark.slow
def test_every_character_of_the_basic_plane_separates_or_belongs_as_its_category_says() -> None:
    plane = [f"a{chr(c)}b" for c in range(0x10000) if not 0xD800 <= c < 0xE000 and is_comparable(chr(c))]
    assert len(plane) > 40_000
    assert lists(Tokeniser(segment=False)(plane, "en")) == [slow_words(text) for text in plane]


@given(st.lists(texts, max_size=6), st.sampled_from(["en", "zh", "th"]))
@settings(max_examples=up_to(30), deadline=None)
def test_a_batch_gives_what_its_texts_give_one_by_one(batch: list[str], lang: str) -> None:
    tokens = Tokeniser()(batch, lang)
    assert lists(tokens) == [words(text, lang) for text in batch]
    assert len(set(tokens.words)) == len(tokens.words)


@pytest.mark.parametrize(
    ("lang", "text", "expected"),
    [
        ("fr", "L’été, où ÇA ?", ["l", "été", "où", "ça"]),
        ("de", "Straße GRÖẞE", ["straße", "größe"]),
        ("el", "Ο Οδυσσεύς, στην ΙΘΆΚΗ", ["ο", "οδυσσεύς", "στην", "ιθάκη"]),
        ("ru", "Ёлка и Ельник!", ["ёлка", "и", "ельник"]),
        ("ar", "السَّلامُ عليكم، ١٢٣", ["السَّلامُ", "عليكم", "١٢٣"]),
        ("he", "שָׁלוֹם, עולם", ["שָׁלוֹם", "עולם"]),
        ("hi", "हिन्दी में क्षत्रिय।", ["हिन्दी", "में", "क्षत्रिय"]),
        ("ta", "தமிழ் மொழி", ["தமிழ்", "மொழி"]),
        ("ko", "한국어 위키백과", ["한국어", "위키백과"]),
        ("vi", "Tiếng Việt đẹp", ["tiếng", "việt", "đẹp"]),
        ("ka", "ქართული ენა", ["ქართული", "ენა"]),
        ("am", "አማርኛ፡ቋንቋ", ["አማርኛ", "ቋንቋ"]),
        ("en", "Don't re-read snake_case 3.14", ["don", "t", "re", "read", "snake", "case", "3", "14"]),
    ],
)
def test_every_script_gives_its_words(lang: str, text: str, expected: list[str]) -> None:
    assert words(text, lang) == [unicodedata.normalize("NFKC", word) for word in expected]


@pytest.mark.parametrize(
    ("lang", "text", "expected"),
    [
        ("zh", "我喜欢喝咖啡", ["我", "喜欢", "喝", "咖啡"]),
        ("zh-TW", "我喜歡喝咖啡。", ["我", "喜歡", "喝", "咖啡"]),
        ("zh_Hans", "我喜欢喝咖啡", ["我", "喜欢", "喝", "咖啡"]),
        ("ZH", "我喜欢喝咖啡", ["我", "喜欢", "喝", "咖啡"]),
        ("ja", "私はコーヒーが好きです。", ["私", "は", "コーヒー", "が", "好き", "です"]),
        ("th", "ฉันชอบดื่มกาแฟ", ["ฉัน", "ชอบ", "ดื่ม", "กาแฟ"]),
        ("lo", "ຂ້ອຍມັກດື່ມກາເຟ", ["ຂ້ອຍ", "ມັກ", "ດື່ມ", "ກາເຟ"]),
        ("km", "ខ្ញុំចូលចិត្តផឹកកាហ្វេ", ["ខ្ញុំ", "ចូលចិត្ត", "ផឹក", "កាហ្វេ"]),
        ("my", "ကျွန်တော်ကော်ဖီကြိုက်တယ်", ["ကျွန်တော်", "ကော်ဖီ", "ကြိုက်", "တယ်"]),
    ],
)
def test_languages_without_spaces_are_cut_by_the_dictionary(lang: str, text: str, expected: list[str]) -> None:
    assert words(text, lang) == expected
    assert len(words(text, lang, segment=False)) == 1


def test_latin_words_inside_chinese_stay_whole() -> None:
    assert words("我喜欢Python 3，和GNU/Linux", "zh") == ["我", "喜欢", "python", "3", "和", "gnu", "linux"]


UNSPACED_TEXTS = [
    "我喜欢喝咖啡。他不喝",
    "私はコーヒーが好きです。",
    "ฉันชอบดื่มกาแฟ ๒๕๕๐",
    "ខ្ញុំចូលចិត្តផឹកកាហ្វេ",
    "ကျွန်တော်ကော်ဖီကြိုက်တယ်",
]


@pytest.mark.parametrize("text", UNSPACED_TEXTS)
@pytest.mark.parametrize("lang", ["cmn", "en", "x-own", "jpn", "ZH"])
def test_the_script_decides_about_segmenting_not_the_language(text: str, lang: str) -> None:
    by_language = words(text, "zh", segment_by="language")
    assert words(text, lang) == by_language
    assert len(by_language) > 3


def test_runs_without_spaces_are_cut_from_the_words_around_them() -> None:
    assert words("Tokyo (東京大学) 2024年にABC社") == ["tokyo", "東京", "大学", "2024", "年", "に", "abc", "社"]
    assert words("大韓民國은", "ko") == ["大韓民國", "은"]
    assert words("葛\U000e0100城", "ja") == words("葛\U000e0100城", "ja", segment_by="language")


@given(st.lists(st.sampled_from([*UNSPACED_TEXTS, "don't re-read", "한국어", "Ёлка", "3.14", "हिन्दी"]), max_size=5))
@settings(max_examples=up_to(40), deadline=None)
def test_words_of_other_scripts_do_not_depend_on_the_runs_beside_them(parts: list[str]) -> None:
    assert words(" ".join(parts)) == [word for part in parts for word in words(part)]


@pytest.mark.slow
def test_the_fast_check_finds_every_character_of_a_script_without_spaces() -> None:
    every = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    unspaced = [character for character in every if re.fullmatch(UNSPACED_RUN, character)]
    assert len(unspaced) > 90_000
    assert all(may_have_runs(pa.array([character], pa.large_string())) for character in unspaced[::7])
    assert not may_have_runs(pa.array(["Straße “été” Ёлка שלום — € Tiếng Việt हिन्दी"], pa.large_string()))


def test_segmentation_by_language_looks_at_the_primary_subtag() -> None:
    assert words("我喜欢喝咖啡", "cmn", segment_by="language") == ["我喜欢喝咖啡"]  # as earlier versions did
    assert all(map(needs_segmenting, ["zh", "zh-TW", "zh_Hans", "JA", "th", "lo", "km", "my", "yue", "wuu"]))
    assert not any(map(needs_segmenting, ["ko", "vi", "en", "zha", "de-ZH", ""]))


def test_composed_and_decomposed_vietnamese_are_the_same_words() -> None:
    text = "Tiếng Việt là ngôn ngữ của người Việt"
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert composed != decomposed
    assert words(composed, "vi") == words(decomposed, "vi") == composed.lower().split()


def test_compatibility_forms_become_plain() -> None:
    assert words("ﬁne Ｆｕｌｌ ｶﾀｶﾅ x² ①") == ["fine", "full", "カタカナ", "x2", "1"]


def test_soft_hyphens_vanish_and_joiners_stay() -> None:
    assert words("Donau\u00addampf\u00adschiff", "de") == ["donaudampfschiff"]
    assert words("می\u200cخواهم", "fa") == ["می\u200cخواهم"]
    assert words("ශ්\u200dරී ලංකා", "si") == ["ශ්\u200dරී", "ලංකා"]


@pytest.mark.parametrize("lang", ["en", "zh", "th"])
@pytest.mark.parametrize("text", ["", " ", "\t\r\n \u00a0\u2003\u3000", "😀🎉", "…!? — «»„“。、؟॥", "\0", "\u00ad"])
def test_texts_without_a_word_give_no_tokens(lang: str, text: str) -> None:
    assert words(text, lang) == []
    assert lists(Tokeniser()([text, "a", text], lang)) == [[], ["a"], []]


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_no_texts_give_no_tokens(lang: str) -> None:
    tokens = Tokeniser()([], lang)
    assert (tokens.words, tokens.ids.tolist(), tokens.offsets.tolist()) == ([], [], [0])


def test_nul_characters_separate_words() -> None:
    assert words("a\0b\0\0c") == ["a", "b", "c"]
    assert words("我喜欢\0咖啡", "zh") == ["我", "喜欢", "咖啡"]


def test_half_a_character_separates_words_and_spares_the_other_texts() -> None:
    assert words("a\ud83db") == ["a", "b"]
    assert lists(Tokeniser()(["é\udc00", "été"], "fr")) == [["é"], ["été"]]


def test_pretokenised_words_are_taken_as_they_are() -> None:
    text = " New_York  DON'T\tre-read\n.,! ﬁ\u3000我喜欢\u00a0co\u00adop "
    assert words(text, "zh", pretokenised=True) == text.split()
    assert words("", pretokenised=True) == words(" \n", pretokenised=True) == []


def test_each_step_can_be_left_out() -> None:
    assert words("ﬁne WINE", lowercase=False) == ["fine", "WINE"]
    assert words("ﬁne WINE", normalise=False) == ["ﬁne", "wine"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("options", [{}, {"normalise": False, "lowercase": False}, {"pretokenised": True}])
def test_a_slice_of_an_arrow_array_gives_its_own_words(kind: pa.DataType, options: dict[str, Any]) -> None:
    array = pa.array(["never seen", "a b", "", "c d"], kind)[1:]
    tokens = Tokeniser(**options)(array, "en")
    assert lists(tokens) == [["a", "b"], [], ["c", "d"]]
    assert set(tokens.words) == {"a", "b", "c", "d"}


# One text at a time


OPTIONS: list[dict[str, Any]] = [
    {},
    {"normalise": False},
    {"lowercase": False},
    {"segment": False},
    {"segment_by": "language"},
    {"pretokenised": True},
]
odd_texts = st.text(
    letters | st.characters(exclude_categories=[]) | st.sampled_from("ⅣİΣς我喜ﾀコกา ่\x1c\x85\u2028"), max_size=40
)


@given(odd_texts, st.sampled_from(["en", "tr", "zh", "th"]), st.sampled_from(OPTIONS))
@settings(max_examples=up_to(100), deadline=None)
def test_one_text_has_the_words_that_it_has_in_a_batch(text: str, lang: str, options: dict[str, Any]) -> None:
    assert Tokeniser(**options).words(text, lang) == words(text, lang, **options)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"lowercase": False}, {"normalise": False}, {"pretokenised": True}])
def test_every_character_means_the_same_in_one_text_as_in_a_batch(options: dict[str, Any]) -> None:
    every = " ".join(f"a{chr(c)}b" for c in [*range(0x2_0000), 0x2_FA1D, 0xE_0100, 0xF_0000, 0x10_FFFF])
    assert Tokeniser(**options).words(every, "en") == words(every, "en", **options)


@given(st.lists(st.lists(st.sampled_from(["a", "b", "été", "ab"])), max_size=4))
def test_tokens_from_lists_are_the_lists(texts: list[list[str]]) -> None:
    assert lists(Tokens.from_lists(texts)) == texts


@pytest.mark.parametrize("segment_by", ["script", "language"])
def test_languages_with_the_same_rules_have_the_same_words(segment_by: Literal["script", "language"]) -> None:
    tokeniser = Tokeniser(segment_by=segment_by)
    assert tokeniser.rules_key("en") == tokeniser.rules_key("vi")
    text = "我喜欢喝咖啡, dog"
    by_rules = {tokeniser.rules_key(lang): tokeniser.words(text, lang) for lang in ("en", "zh", "vi", "ja")}
    for lang in ("en", "zh", "vi", "ja"):
        assert by_rules[tokeniser.rules_key(lang)] == tokeniser.words(text, lang)
