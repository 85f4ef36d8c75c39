"""The page's tokeniser is generated from Python's and gives the same words."""

import unicodedata

import pytest
from browsing import Visit, when_ready

from cr5.features.tokeniser import Tokeniser
from cr5.server.token_rules import JOINING_CHARACTERS

TEXTS = [
    ("en", "The dog's house_number is 42."),
    ("en", "don’t “quote”—dash a\u2044b"),
    ("en", "ﬁne ﬃ Word™ №5 ㎏ ½ ① x² ⅷ Ǆ ŉ"),  # one character that stands for several, or for another
    ("en", "soft\u00adhyphen e\u00ad\u0301"),
    ("en", "\u0301 \u200d \u0301a a\u0301\u0323 q\u0307\u0323"),  # marks without letters, and in any order
    ("en", "emoji 🐕 dog👩‍👩‍👧 𝒳𝒴 𝟜𝟚"),  # characters outside the basic plane
    ("en", "half a pair: \ud800x y"),
    ("en", ""),
    ("tr", "İSTANBUL Iğdır ıı"),
    ("el", "ΟΔΥΣΣΕΑΣ ΟΔΟΣ ὀδός"),
    ("de", "STRAẞE Straße"),
    ("vi", "Tiê\u0301ng Việt tie\u0302\u0301ng"),
    ("ru", "Ёлка и́ё"),
    ("ka", "ᲗᲑᲘᲚᲘᲡᲘ Თბილისი"),
    ("am", "አማርኛ ፩፪"),
    ("ar", "الكِتَابُ ﷺ ﻻ"),
    ("fa", "می\u200cخواهم کتاب\u200cها"),
    ("he", "שָׁלוֹם עולם"),
    ("hi", "क्\u200dष नमस्ते दुनिया"),
    ("ta", "தமிழ் மொழி"),
    ("ko", "한국어 ㄱㅏㄴ \u1112\u1161\u11ab ﾡￂ"),
    ("ja", "ｶﾞｷﾞ 東京タワーに行きます。Can't stop"),
    ("zh", "狗在家门口睡觉。ABC公司的iPhone15"),
    ("zh_Hant", "繁體中文"),
    ("yue", "佢哋嚟咗"),
    ("cmn", "狗在家门口睡觉。ABC公司的iPhone15"),
    ("en", "Tokyo is written 東京都 and コーヒー is coffee, ภาษาไทย2024ปี"),
    ("ko", "大韓民國은 한국어로 葛\U000e0100城"),
    ("th", "ภาษาไทยเขียนไม่มีช่องว่าง น้ำ"),
    ("lo", "ພາສາລາວ ນ້ຳ"),
    ("km", "ភាសាខ្មែរ"),
    ("my", "မြန်မာဘာသာ"),
]


def words_of(text: str, lang: str) -> list[str]:
    """The words of a text as the model splits it."""
    tokens = Tokeniser()([text], lang)
    return [tokens.words[i] for i in tokens.ids]


@pytest.mark.browser
def test_the_page_finds_the_same_words_as_the_model_and_where_they_are(visit: Visit) -> None:
    page = when_ready(visit())
    found = page.evaluate(
        """async (texts) => {
            const { tokenise } = await import("/static/tokeniser.js");
            return texts.map(([, text]) =>
                [...tokenise(text)].map(([start, end, word]) => [word, text.slice(start, end), start]));
        }""",
        [[lang, text.replace("\ud800", "\ufffd")] for lang, text in TEXTS],
    )
    for (lang, text), words in zip(TEXTS, found, strict=True):
        assert [word for word, _, _ in words] == words_of(text, lang), text
        starts = [start for _, _, start in words]
        assert starts == sorted(starts)
        for word, written, _ in words:
            assert word in words_of(written, lang), text


@pytest.mark.slow
def test_every_character_that_normalisation_merges_with_the_one_before_is_known_to_the_script() -> None:
    every = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    pairs = [unicodedata.decomposition(character).split() for character in every]
    second = {chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2 and not pair[0].startswith("<")}
    second |= {chr(code) for code in [*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)]}  # Hangul, which is computed
    parts = JOINING_CHARACTERS.removeprefix(r"\p{M}").split(r"\x{")[1:]
    codes = [int(part.rstrip("-}"), 16) for part in parts]
    ranges = [range(first, last + 1) for first, last in zip(codes[::2], codes[1::2], strict=True)]
    for character in every:
        first = unicodedata.normalize("NFKD", character)[:1]
        if unicodedata.combining(first) or first in second:
            mark = unicodedata.category(character).startswith("M")
            assert mark or any(ord(character) in some for some in ranges), hex(ord(character))
