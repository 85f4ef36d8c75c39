"""Languages in file names, as corpora and published test sets are named."""

import pytest

from cr5.corpus.file_names import find_pair, is_language_name, split_name


@pytest.mark.parametrize(
    ("name", "stem", "lang"),
    [
        ("train.en", "train", "en"),
        ("train.pt_BR", "train", "pt_BR"),
        ("train.en.txt", "train", "en"),
        ("en.txt", "text", "en"),
        ("Europarl.en-it.it", "Europarl.en-it", "it"),
        ("tatoeba.deu-eng.deu", "tatoeba.deu-eng", "deu"),
        ("S.src-ze_en.src", "S.src-ze_en", "src"),  # the name of the pair makes it a language
        ("newstest2019-ref.eng.txt", "newstest2019", "eng"),  # NTREX
        ("newstest2019-src.eng-GB.txt", "newstest2019", "eng-GB"),
        ("newstest2014-deen-ref.en", "newstest2014-deen", "en"),  # WMT
        ("eng_Latn.devtest", "devtest", "eng_Latn"),  # FLORES
        ("zho_Hans.dev", "dev", "zho_Hans"),
        ("eng.devtest.txt", "devtest", "eng"),
        ("Europarl.en-it.ids", "Europarl.en-it.ids", ""),
        ("english.txt", "text", "english"),
        ("train.Italian", "train", "Italian"),
        ("train.italiano.txt", "train", "italiano"),
        ("README.md", "README.md", ""),
        ("readme.txt", "readme", ""),
        ("notes.test", "notes.test", ""),
        ("train.qq", "train.qq", ""),
        ("en", "en", ""),
        ("fil-ph.txt", "text", "fil-ph"),
        ("haw_us.txt", "text", "haw_us"),
        ("how-to.txt", "how-to", ""),  # not Honi of Tonga
        ("guide.how-to", "guide.how-to", ""),
    ],
)
def test_a_name_gives_the_language_of_a_text_and_what_its_translations_share(name: str, stem: str, lang: str) -> None:
    assert split_name(name) == (stem, lang)


def test_codes_that_are_not_registered_count_on_request() -> None:
    assert split_name("train.qq", allow_unregistered=True) == ("train", "qq")
    assert split_name("README.md", allow_unregistered=True) == ("README.md", "")


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("en-it.tsv", ("en", "it")),
        ("en-it.test.tsv", ("en", "it")),
        ("en-fr.0-5000.txt", ("en", "fr")),  # MUSE
        ("yacle.test.freq.2k.en-fr.tsv", ("en", "fr")),
        ("eng_deu.txt", ("eng", "deu")),
        ("muse-en-fr.5000-6500.txt", ("en", "fr")),
        ("dic-en-fr.txt", ("en", "fr")),
        ("English-French.tsv", ("English", "French")),
        ("my_deutsch-français.txt", ("deutsch", "français")),
        ("english-words.txt", None),
        ("qq-zz.tsv", ("qq", "zz")),
        ("words.qq-zz.tsv", None),
        ("words.tsv", None),
        ("0-5000.txt", None),
    ],
)
def test_a_name_gives_the_languages_of_a_dictionary(name: str, pair: tuple[str, str] | None) -> None:
    assert find_pair(name) == pair


def test_a_file_of_subtitles_is_not_in_a_language_srt() -> None:
    assert not is_language_name("srt")
    assert is_language_name("sr")
