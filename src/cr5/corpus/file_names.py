"""Languages in file names, as corpora and published test sets are named.

train.en, train.en.txt, en.txt           the language is the last part, or its name: english.txt
train_en.txt, dev-it                     so too, if another name differs only there
Europarl.en-it.en, tatoeba.deu-eng.deu   one language of the pair before it
newstest2019-ref.deu.txt                 NTREX and WMT: src and ref belong to the same test set
eng_Latn.devtest                         FLORES: the language is the first part, before the split
eng-engBSB.txt                           eBible: the language is the beginning
en-fr.0-5000.txt, yacle.test.freq.2k.en-fr.tsv, english-french.tsv   dictionaries: a pair is one of the parts
"""

import re

from cr5.corpus.language_names import language_code
from cr5.corpus.languages import is_registered, script

# Parts of names that are valid language codes, but are much more often something else.
_NOT_LANGUAGES = """
    all api app bak bin box bpe bug bz2 cfg cli com con cpp css csv def dev dic dir doc dos env etc ext fun gem git gnu
    gui gz hyp ids inc iso jar job key lab lib lng loc log man map md mod msg mul new nix old opt org out pdf pkg png
    pot ppt pre pub py raw ref rel res rst run sdk set src srt ssl std sub sys tab tar tex tgt tip tmp tok top trg tsv
    two txt und url var wav www xls xml xsd xsl xz yml zip zxx
"""
_SPLITS = frozenset({"dev", "devtest", "test", "train", "valid", "validation"})
_CODE = re.compile(r"[a-z]{2,3}(?:[-_][a-z0-9]{2,8})*", re.IGNORECASE)
_LEADING = re.compile(r"[A-Za-z]{2,3}(?=[-_.])")
_ENDING = re.compile(r"(.+)[-_]([a-z]{2,3}(?:[-_][A-Z][a-z]{3})?(?:[-_](?:[A-Z]{2}|[0-9]{3}))?)")
_SIDE = re.compile(r"[-_.](?:src|ref)$")
_SMALL_REGION = re.compile(r"[a-z]{3}[-_][a-z]{2}")  # fil-ph; and how-to, which could be Honi of Tonga
# A pair may overlap the one before, as in wiki-en-fr.
_PAIR = re.compile(r"(?<![A-Za-z0-9])(?=([A-Za-z]{2,3})[-_]([A-Za-z]{2,3})(?![A-Za-z0-9]))")
_NAMED_PAIR = re.compile(r"(?<![^\W_])(?=([^\W\d_]{4,})[-_]([^\W\d_]{4,})(?![^\W_]))")


def is_language_name(name: str, *, allow_unregistered: bool = False) -> bool:
    """Whether a part of a file name is a language: "pt_BR" and "italian" are; "css" is a code, but hardly ever meant.

    Three letters and two are one only if CLDR knows the language: "fil-ph" is, "how-to" is not.
    """
    plain = re.split(r"[@.]", name)[0]
    return language_code(plain) is not None or (
        bool(_CODE.fullmatch(plain))
        and (not _SMALL_REGION.fullmatch(plain) or script(plain) != "")
        and re.split(r"[-_]", plain.lower())[0] not in _NOT_LANGUAGES.split()
        and (allow_unregistered or is_registered(plain))
    )


def split_name(name: str, *, allow_unregistered: bool = False) -> tuple[str, str]:
    """The name of a text without its language, and the language, "" if there is none: train.en -> train, en.

    ``allow_unregistered`` accepts codes of languages that are not registered.
    """
    plain = name.removesuffix(".txt")
    stem, _, last = plain.rpartition(".")
    if not stem:
        return ("text", plain) if plain != name and is_language_name(plain) else (plain, "")
    if partner(stem, last) or is_language_name(last, allow_unregistered=allow_unregistered):
        return _SIDE.sub("", stem) or stem, last
    if last in _SPLITS and is_language_name(stem):
        return last, stem
    return plain, ""


def split_ending(name: str) -> tuple[str, str]:
    """``split_name`` for a language after a dash or underscore: dev-en -> dev, en.

    It can be wrong: sign-in -> sign, in.
    """
    match = _ENDING.fullmatch(name.removesuffix(".txt"))
    is_language = match and is_language_name(match[2]) and not is_language_name(match[1])
    return (match[1], match[2]) if match and is_language else (name, "")


def leading_language(name: str) -> str:
    """The language that a name begins with, else that of ``split_name``: eng-engBSB.txt -> eng, luke.it.txt -> it."""
    match = _LEADING.match(name)
    return match[0] if match else split_name(name)[1]


def partner(stem: str, lang: str) -> str:
    """The other language of a stem that names a pair: Europarl.en-it, en -> it."""
    pair = stem.rpartition(".")[2]
    if pair.startswith(f"{lang}-"):
        return pair.removeprefix(f"{lang}-")
    return pair.removesuffix(f"-{lang}") if pair.endswith(f"-{lang}") else ""


def find_pair(name: str) -> tuple[str, str] | None:
    """The two languages that a file name states anywhere, or any two codes at its beginning; None if there are none."""
    pairs = [(match.start(), match[1], match[2]) for match in _PAIR.finditer(name)]
    for _, *codes in pairs:
        if all(map(is_language_name, codes)):
            return codes[0], codes[1]
    for match in _NAMED_PAIR.finditer(name):
        if all(map(language_code, match.groups())):
            return match[1], match[2]
    return next(((first, second) for start, first, second in pairs if start == 0), None)
