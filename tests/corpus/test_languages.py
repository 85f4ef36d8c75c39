"""Language codes in one spelling, and the identification of languages, without false alarms."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import up_to
from timing import seconds

from cr5.corpus.identification import MIN_FOREIGN_PROBABILITY, Guess, find_foreign_language, guess
from cr5.corpus.language_names import language_code
from cr5.corpus.languages import (
    bcp47_code,
    canonical_code,
    find_language,
    is_registered,
    no_such_language,
    wikipedia_code,
    wikipedia_language,
)
from cr5.corpus.reading import read
from cr5.data import FOLDER
from cr5.errors import CorpusError

relaxed = settings(max_examples=up_to(300), deadline=None)

ENGLISH = """Turning a picture
To turn a picture, select it and drag one of its round handles in the direction that you want. Hold down the Shift
key while you drag to turn it in steps of fifteen degrees. The exact angle can also be given in the dialogue that
opens when you double-click the picture; a negative number turns it clockwise.
"""
DANISH = """Drej et billede
Vælg billedet, og træk et af de runde håndtag i den retning, som du vil dreje det. Hold Skift nede, mens du trækker,
så drejes billedet femten grader ad gangen. Den nøjagtige vinkel kan også angives i dialogboksen, som åbner, når du
dobbeltklikker på billedet; et negativt tal drejer det med uret.
"""
SENTENCES = {
    "ar": "في الصباح نشرب القهوة ثم نذهب إلى المدرسة مع الأطفال.",
    "da": "Om morgenen drikker vi kaffe, og bagefter går vi i skole med børnene.",
    "de": "Morgens trinken wir Kaffee, und danach gehen wir mit den Kindern zur Schule.",
    "el": "Το πρωί πίνουμε καφέ και μετά πηγαίνουμε στο σχολείο με τα παιδιά.",
    "en": "In the morning we drink coffee, and then we walk to school with the children.",
    "es": "Por la mañana tomamos café y después vamos a la escuela con los niños.",
    "fr": "Le matin, nous buvons du café, puis nous allons à l'école avec les enfants.",
    "it": "La mattina beviamo il caffè e poi andiamo a scuola con i bambini.",
    "ja": "朝はコーヒーを飲んで、それから子供たちと一緒に学校へ行きます。",
    "ru": "Утром мы пьём кофе, а потом идём с детьми в школу.",
    "vi": "Buổi sáng chúng tôi uống cà phê rồi cùng các con đi bộ đến trường.",
    "zh": "早上我们喝咖啡，然后和孩子们一起走路去学校。",
}


ARTICLES = {
    lang: [document.text for document in read(str(FOLDER / "*.jsonl"), langs=[lang])]
    for lang in ("da", "en", "it", "vi")
}

WELL_FORMED = [
    "no", "nb", "nn", "nb-NO", "sh", "sr", "sr-Latn", "hr", "cnr",
    "tl", "fil", "ms", "id", "ar", "prs", "fa", "ku", "kmr", "tw", "ak", "pt-PT",
    "zh", "zh-TW", "zh-CN", "zh-Hant-HK", "yue", "en-simple", "be-tarask", "jv-x-bms", "nap-x-tara",
]  # fmt: skip
NO_CODES = [
    "", " ", "de DE", "a", "C", "x", "12", "e2", "engl", "root", "readme", "en.html", "en-", "en--US", "en-US-US",
    "en-a", "i-none", "@latin", "sr_Latn@latin", "中文", "İn", "\ud800",
]  # fmt: skip
SUBTAGS = [
    "de", "deu", "iw", "no", "sh", "tl", "zh", "cmn", "xx", "x", "i", "a",
    "latn", "Hant", "cyrl", "BR", "419", "CHS", "min", "nan", "1996", "valencia", "tarask", "u", "co", "trad",
]  # fmt: skip
codes = st.lists(st.sampled_from(SUBTAGS), min_size=1, max_size=5).flatmap(
    lambda parts: st.tuples(st.sampled_from("-_"), st.sampled_from(["", ".UTF-8", "@latin", "@euro", "@x"])).map(
        lambda ends: ends[0].join(parts) + ends[1]
    )
)
texts = st.text() | st.text("aé漢字カнغ\u0301\ud800\0 \n1-", max_size=700) | st.sampled_from(list(SENTENCES.values()))


# Codes


@pytest.mark.parametrize(
    ("code", "tag"),
    [
        ("en", "en"),
        (" EN ", "en"),
        ("pt_br", "pt-BR"),
        ("PT-br", "pt-BR"),
        ("zh_Hant_TW", "zh-Hant-TW"),
        ("zh-hant", "zh-Hant"),
        ("es-419", "es-419"),
        ("de-1996", "de-1996"),
        ("sr@latin", "sr-Latn"),
        ("sr_RS@latin", "sr-Latn-RS"),
        ("sr_RS.UTF-8@Latn", "sr-Latn-RS"),
        ("sr@ije", "sr-ijekavsk"),
        ("sr@ijekavianlatin", "sr-Latn-ijekavsk"),
        ("uz@cyrillic", "uz-Cyrl"),
        ("ca@valencia", "ca-valencia"),
        ("ca_ES.UTF-8@valencia", "ca-ES-valencia"),
        ("be@tarask", "be-tarask"),
        ("de_DE.UTF-8", "de-DE"),
        ("ja_JP.eucJP", "ja-JP"),
        ("de_DE@euro", "de-DE"),
        ("de_DE@currency=EUR", "de-DE"),
        ("en@quot", "en"),
        ("en@piglatin", "en-x-piglatin"),
        ("deu", "de"),
        ("ger", "de"),
        ("vie", "vi"),
        ("iw", "he"),
        ("in_ID", "id-ID"),
        ("zh-min-nan", "nan"),
        ("zh-yue-HK", "yue-HK"),
        ("zh-cmn-Hans-CN", "zh-Hans-CN"),
        ("en-UK", "en-GB"),
        ("zh-CHS", "zh-Hans"),
        ("zh-CHT", "zh-Hant"),
        ("es-ES_tradnl", "es-ES"),
        ("az-AZ-Cyrl", "az-Cyrl-AZ"),
        ("ca-XV", "ca-valencia"),
        ("no_NO_NY", "nn-NO"),
        ("pt-rBR", "pt-BR"),
        ("en_US_POSIX", "en-US"),
        ("hbs", "sh"),
        ("tgl-PH", "tl-PH"),
        ("ru-Cyrl", "ru"),
        ("x-dothraki", "x-dothraki"),
        ("XX", "xx"),
        ("QAA", "qaa"),
        ("und", "und"),
    ],
)
def test_a_code_is_written_as_bcp_47_has_it(code: str, tag: str) -> None:
    assert bcp47_code(code) == tag


@pytest.mark.parametrize("tag", WELL_FORMED)
def test_a_well_formed_code_keeps_its_meaning(tag: str) -> None:
    assert bcp47_code(tag) == tag


@pytest.mark.parametrize("code", NO_CODES)
def test_what_is_not_a_code_is_named_with_what_to_do(code: str) -> None:
    with pytest.raises(CorpusError) as caught:
        bcp47_code(code)
    assert str(caught.value) == (
        f"{code!r} is not a language code; write one such as de, pt-BR or zh-Hant, or x-name for your own"
    )


@given(st.text(max_size=20) | st.text("abxi-_@.=1 ", max_size=90) | codes)
@relaxed
def test_any_string_is_a_code_that_stays_or_a_corpus_error(code: str) -> None:
    try:
        tag = bcp47_code(code)
    except CorpusError:
        assert not is_registered(code)
    else:
        assert bcp47_code(tag) == tag
        assert bcp47_code(tag.upper().replace("-", "_")) == tag


def test_a_very_long_code_is_refused_at_once() -> None:
    with pytest.raises(CorpusError, match="is not a language code"):
        bcp47_code("de" + "-abcde" * 100_000)


def test_registered_codes_are_recognised() -> None:
    assert all(map(is_registered, ["en", "pt_BR", "deu", "zh-Hant-TW", "ca@valencia", "en-simple", "x-own"]))
    assert not any(map(is_registered, ["xx", "jp", "en-QQQ1", "a", "readme", ""]))


@pytest.mark.parametrize(
    ("code", "tag"),
    [
        ("da", "da"),
        ("simple", "en-simple"),
        ("als", "gsw"),
        ("sq", "sq"),
        ("be-x-old", "be-tarask"),
        ("be_x_old", "be-tarask"),
        ("be-tarask", "be-tarask"),
        ("zh-min-nan", "nan"),
        ("zh_min_nan", "nan"),
        ("zh-yue", "yue"),
        ("zh-classical", "lzh"),
        ("fiu-vro", "vro"),
        ("bat-smg", "sgs"),
        ("roa-rup", "rup"),
        ("roa-tara", "nap-x-tara"),
        ("map-bms", "jv-x-bms"),
        ("cbk-zam", "cbk"),
        ("nrm", "nrf"),
        ("bh", "bho"),
        ("eml", "egl"),
        ("mo", "ro-Cyrl-MD"),
        ("nds-nl", "nds-NL"),
        ("no", "no"),
        ("sh", "sh"),
        ("tl", "tl"),
    ],
)
def test_a_wikipedia_has_a_language_by_bcp_47(code: str, tag: str) -> None:
    assert wikipedia_language(code) == tag
    assert is_registered(tag)
    assert bcp47_code(tag) == tag


@pytest.mark.parametrize(
    ("code", "own"), [("eng", "en"), ("cmn", "zh"), ("IT", "it"), ("zh_min_nan", "zh-min-nan"), ("als", "als"),
                      ("simple", "simple"), ("nds-nl", "nds-nl"), ("iw", "he"), ("war", "war")],
)  # fmt: skip
def test_a_wikipedia_is_found_by_the_code_of_its_language_in_any_spelling(code: str, own: str) -> None:
    assert wikipedia_code(code) == own


# Texts


@pytest.mark.parametrize("lang", SENTENCES)
def test_a_sentence_is_enough_to_guess_its_language(lang: str) -> None:
    found = guess(SENTENCES[lang])
    assert found.lang == lang
    assert 0.3 < found.confidence <= 1


def test_a_page_is_surer_than_a_word_and_a_mixed_one_less_sure_than_either_half() -> None:
    page, mixed = guess(ENGLISH), guess(DANISH * 2 + ENGLISH * 2)
    assert page.lang == "en"
    assert guess("hello").confidence < 0.5 < mixed.confidence < min(page.confidence, guess(DANISH).confidence)


@pytest.mark.parametrize("text", ["", " \n", "12 345.67", "— … !?", "|---|---|" * 50])
def test_a_text_without_letters_is_in_no_language_and_never_foreign(text: str) -> None:
    assert guess(text) == Guess("und", 0.0)
    assert find_foreign_language(text, "da") is None


@given(texts, st.sampled_from(["da", "nan", "dv", "sr-Latn", "xx"]) | st.text(max_size=5))
@relaxed
def test_any_text_gets_a_code_and_a_probability(text: str, declared: str) -> None:
    found = guess(text)
    assert bcp47_code(found.lang) == found.lang
    assert 0 <= found.confidence <= 1 + 1e-6
    foreign = find_foreign_language(text, declared)
    assert foreign is None or MIN_FOREIGN_PROBABILITY <= foreign.confidence <= 1 + 1e-6


@pytest.mark.parametrize("lang", ARTICLES)
def test_no_article_is_foreign_in_its_own_language(lang: str) -> None:
    assert [text for text in ARTICLES[lang] if find_foreign_language(text, lang)] == []


@pytest.mark.parametrize("lang", ARTICLES)
def test_nearly_every_article_is_foreign_under_another_language(lang: str) -> None:
    for declared in {"de", "da-DK", "en", "pt-BR", "sr-Latn", "vi", "zh-TW", "dv"} - {lang, f"{lang}-DK"}:
        found = [find_foreign_language(text, declared) for text in ARTICLES[lang][::10]]
        assert sum(answer is not None and answer.lang == lang for answer in found) >= 0.95 * len(found), declared


@pytest.mark.parametrize("declared", ["da", "it", "zh-TW", "pt-BR", "ja", "ast", "dv"])
def test_an_untranslated_page_is_foreign_even_below_a_translated_heading(declared: str) -> None:
    for page in (ENGLISH, f"{SENTENCES.get(declared[:2], '')[:25]}\n{ENGLISH}"):
        found = find_foreign_language(page, declared)
        assert found is not None
        assert found.lang == "en"
        assert found.confidence >= MIN_FOREIGN_PROBABILITY


@pytest.mark.parametrize(
    ("text", "declared"),
    [
        (DANISH + ENGLISH, "da"),
        (ENGLISH + DANISH, "da"),
        ("Åbn Pull requests → New pull request og vælg compare across forks i GitHub Actions Workflow Editor", "da"),
        ("Microsoft Learn\nStudent Hub\nAzure AI Foundry", "it"),
        ("Passer domesticus (Linnaeus, 1758)\nPasser montanus (Linnaeus, 1758)\nPasser italiae (Vieillot, 1817)", "da"),
        ("Select all", "da"),
    ],
)
def test_mixed_short_and_technical_texts_are_not_foreign(text: str, declared: str) -> None:
    assert find_foreign_language(text, declared) is None


@pytest.mark.parametrize(
    ("lang", "declared"),
    [
        ("da", "nb"),
        ("da", "no"),
        ("es", "gl"),
        ("ru", "uk"),
        ("ru", "be"),
        ("zh", "yue"),
        ("zh", "zh-Hant"),
        ("it", "scn"),
    ],
)
def test_similar_languages_do_not_contradict_each_other(lang: str, declared: str) -> None:
    assert find_foreign_language(SENTENCES[lang] * 5, declared) is None


@pytest.mark.parametrize("declared", ["ceb", "tpi", "nan", "qaa", "x-own", "mul", "und", "xx", "a", ""])
def test_a_language_unknown_to_the_identifier_is_not_contradicted(declared: str) -> None:
    assert find_foreign_language(ENGLISH, declared) is None


def test_a_language_unknown_to_the_identifier_is_contradicted_by_another_script() -> None:
    russian = SENTENCES["ru"] * 5
    assert find_foreign_language(russian, "ab") is None
    assert find_foreign_language(ENGLISH, "ab") is not None
    assert find_foreign_language(russian, "ceb") is not None
    assert find_foreign_language(russian, "kk-Latn") is not None
    assert find_foreign_language(ENGLISH, "kk-Latn") is None
    for declared in ("qaa", "mul", "und", "x-own", "nan"):
        assert find_foreign_language(russian, declared) is None


def test_a_long_text_costs_no_more_than_a_short_one() -> None:
    find_foreign_language(ENGLISH, "da")  # the identifier is loaded once
    long = ENGLISH * 20_000
    assert find_foreign_language(long, "da") is not None
    assert seconds(lambda: find_foreign_language(long, "da"), 1) < 1


@pytest.mark.parametrize(
    ("code", "short"),
    [("ita", "it"), ("eng", "en"), ("nob", "nb"), ("nor", "no"), ("swe", "sv"), ("ger", "de"), ("cmn", "zh"),
     ("arb", "ar"), ("ceb", "ceb"), ("it", "it"), ("EN", "en"), ("pt_BR", "pt-BR"), ("zho-Hant", "zh-Hant"),
     ("jpn", "ja"), ("swh", "sw"), ("SWA", "sw"), ("en_US", "en-US"), ("cmn-Hant", "zh-Hant"), ("english", "en"),
     ("my own", "my own"), (" lang_1 ", "lang_1")],
)  # fmt: skip
def test_the_canonical_code_is_the_short_one_and_own_names_stay(code: str, short: str) -> None:
    assert canonical_code(code) == short
    assert canonical_code(short) == short


@pytest.mark.parametrize(
    ("code", "langs", "found"),
    [
        ("en", "en it", "en"),
        ("EN", "en it", "en"),
        ("eng", "en it", "en"),
        ("zh", "cmn en", "cmn"),  # a model written by an earlier version
        ("zho", "cmn en", "cmn"),
        ("cmn", "zh en", "zh"),
        ("swh", "sw", "sw"),
        ("sw", "swh", "swh"),
        ("cmn", "cmn zh", "cmn"),  # the spelling that was asked for comes first
        ("nb", "no", "no"),
        ("nno", "no", None),
        ("en_US", "en en-GB", "en"),
        ("zh_Hant_TW", "zh zh-Hant", "zh-Hant"),
        ("pt", "pt-BR en", "pt-BR"),
        ("pt-PT", "pt-BR en", "pt-BR"),
        ("pt", "pt-BR pt-PT", None),
        ("zh-Hant", "zh-Hans", None),
        ("zh-TW", "zh-CN", None),
        ("zh-TW", "zh-Hans zh-Hant", "zh-Hant"),
        ("zh", "zh-Hans zh-Hant", None),
        ("zh-Hant", "zh", "zh"),  # which may be in either script
        ("sr-Latn", "sr", None),  # which is in Cyrillic
        ("sr", "sr-Latn", None),
        ("sr-RS", "sr", "sr"),
        ("sr-Latn-RS", "sr sr-Latn", "sr-Latn"),
        ("uz-Cyrl", "uz", None),
        ("sr-Latn", "sr-Cyrl", None),
        ("sr-Latn", "sr-RS", None),
        ("x-one", "x-two", None),
        ("lang_2", "lang_1", None),
        ("my-name", "my", None),  # which is Burmese
        ("lang_1", "lang_1", "lang_1"),
        ("xx", "en it", None),
    ],
)
def test_a_code_finds_its_language_in_any_spelling_and_its_only_variant(
    code: str, langs: str, found: str | None
) -> None:
    assert find_language(code, langs.split()) == found


@pytest.mark.parametrize(
    ("name", "langs", "found"),
    [
        ("English", ["en", "it"], "en"),
        ("tiếng việt", ["en", "vi"], "vi"),
        ("Portuguese", ["pt-BR", "it"], "pt-BR"),
        ("en", ["English"], "English"),  # a model that an earlier version trained
        ("english", ["English"], "English"),
        ("English", ["it"], None),
    ],
)
def test_the_name_of_a_language_is_a_spelling_of_its_code(name: str, langs: list[str], found: str | None) -> None:
    assert find_language(name, langs) == found


@pytest.mark.parametrize(
    ("name", "code"),
    [("English", "en"), ("deutsch", "de"), (" Tiếng Việt", "vi"), ("中文", "zh"), ("en", None), ("", None)],
)
def test_a_language_is_known_by_its_name(name: str, code: str | None) -> None:
    assert language_code(name) == code


@pytest.mark.parametrize(
    ("code", "langs", "advice"),
    [
        ("'Portuguese'", ["pt-BR", "pt-PT"], "; use 'pt-BR' or 'pt-PT'"),
        ("en", ["en-US"], "; use 'en-US'"),
        ("'English'", ["it"], ""),
        ("'Klingon'", ["en"], ""),
    ],
)
def test_the_language_that_was_probably_meant_is_named(code: str, langs: list[str], advice: str) -> None:
    message = f"the model has no language {code}; its languages are {', '.join(langs)}{advice}"
    assert no_such_language("the model", code, langs) == message
