"""Languages: their codes by BCP 47, and which one a text is in.

Codes come from everywhere, in the manners of gettext, Microsoft, Android and Wikipedia; ``normalise`` writes
them in one way without changing what they say. Texts are told apart by ``py3langid``, which needs no network.
"""

import re
from functools import cache
from typing import NamedTuple

import langcodes
from langcodes.data_dicts import LIKELY_SUBTAGS
from langcodes.tag_parser import LanguageTagError
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from cr5.errors import CorpusError

__all__ = ["EVIDENT", "Guess", "guess", "is_foreign", "known", "normalise", "of_wiki"]

EVIDENT = 0.9  # the least probability of the other language in each window of a foreign text
MIN_LETTERS = 60  # of a foreign text's windows together: fewer are a heading, or a list of names
WINDOWS, WINDOW = 3, 300  # how much of a text is looked at; characters, and bytes of UTF-8 as well


# Codes

_LONGEST = 80  # characters of a code
_CODE = re.compile(r"(?:[a-z]{2,3}|i|x)(?:-[a-z0-9]{1,8})*")
_CODESET = re.compile(r"\.(?:ansi|ascii|big5|cp|euc|gb|iso|koi|sjis|tis|utf|windows)[\w-]*", re.IGNORECASE)
_ANDROID = re.compile(r"(?<=[-_])r(?=[A-Z]{2}$)")  # pt-rBR
_REGION_FIRST = re.compile(r"([a-z]{2,3})-([a-z]{2})-([a-z]{4})")  # az-AZ-Cyrl, from old Windows
_SORTING = re.compile(r"-(?:mathan|modern|phoneb|posix|pronun|radstr|stroke|technl|tradnl)$")  # es-ES_tradnl

# Behind the @ of a locale: scripts and variants; "" for what is no matter of language. Others become private.
_MODIFIERS = {
    "arabic": "arab", "cyrillic": "cyrl", "devanagari": "deva", "greek": "grek", "hebrew": "hebr", "iqtelif": "latn",
    "latin": "latn", "ije": "ijekavsk", "ijekavian": "ijekavsk", "ijekavianlatin": "latn-ijekavsk",
    "abegede": "", "boldquot": "", "euro": "", "quot": "",
}  # fmt: skip

# Beginnings of codes that no standard has, or where langcodes, with CLDR, merges what the registry keeps apart.
_INSTEAD = {
    "ca-xv": "ca-valencia", "no-no-ny": "nn-NO", "zh-chs": "zh-Hans", "zh-cht": "zh-Hant",
    "cnr": "cnr", "hbs": "sh", "prs": "prs", "sh": "sh", "swc": "swc", "tgl": "tl", "tl": "tl",
    "zh-cmn": "cmn", "zh-guoyu": "cmn",
}  # fmt: skip

# Wikipedias whose code is no BCP 47, or is another language's.
_WIKIS = {
    "als": "gsw", "bat-smg": "sgs", "be-x-old": "be-tarask", "bh": "bho", "cbk-zam": "cbk", "eml": "egl",
    "fiu-vro": "vro", "map-bms": "jv-x-bms", "mo": "ro-Cyrl-MD", "nrm": "nrf", "roa-rup": "rup",
    "roa-tara": "nap-x-tara", "simple": "en-simple", "tokipona": "tok", "zh-classical": "lzh", "zh-min-nan": "nan",
    "zh-yue": "yue",
}  # fmt: skip


def normalise(code: str) -> str:
    """A language's code as BCP 47 writes it: pt_br -> pt-BR, deu -> de, iw -> he, sr@latin -> sr-Latn.

    What a code says stays: regions and scripts are kept (zh-TW), and no language is merged with its kin (nb, no,
    sh, tl); only a script that goes without saying is left out (ru-Cyrl -> ru). Codes that nobody has registered
    pass when they are well-formed; ``known`` tells them.
    """
    locale, _, modifier = _CODESET.sub("", code.strip()).partition("@")
    tag = _SORTING.sub("", _ANDROID.sub("", locale).replace("_", "-").lower())
    if swapped := _REGION_FIRST.fullmatch(tag):
        tag = "{0}-{2}-{1}".format(*swapped.groups())
    if modifier and "=" not in modifier:  # not currency=EUR
        tag = _modified(tag, modifier.lower())
    if len(tag) > _LONGEST or not _CODE.fullmatch(tag):
        raise _no_code(code)
    try:
        return _standard(tag)
    except LanguageTagError:
        raise _no_code(code) from None


def known(code: str) -> bool:
    """Whether everything in a code is registered: "pt-BR" is, "xx" is not, and neither is "readme"."""
    try:
        return langcodes.tag_is_valid(normalise(code))
    except CorpusError:
        return False


def of_wiki(code: str) -> str:
    """A Wikipedia's language by BCP 47, from its own code or that of its dumps: als -> gsw, zh_min_nan -> nan."""
    return _WIKIS.get(code.strip().lower().replace("_", "-")) or normalise(code)


def _modified(tag: str, modifier: str) -> str:
    """A tag with what stood behind its @ put where it belongs."""
    if modifier not in _MODIFIERS and len(modifier) != 4 and not known(f"{tag}-{modifier}"):
        return f"{tag}-x-{modifier}"
    first, _, last = _MODIFIERS.get(modifier, modifier).partition("-")
    if len(first) == 4:  # a script, and those stand before the region
        language, _, region = tag.partition("-")
        return "-".join(filter(None, [language, first, region, last]))
    return "-".join(filter(None, [tag, first]))


def _standard(tag: str) -> str:
    """A lower-case tag in its canonical form."""
    subtags = tag.split("-")
    for size in (3, 2, 1):
        if instead := _INSTEAD.get("-".join(subtags[:size])):
            rest = langcodes.standardize_tag("-".join(["und", *subtags[size:]]))
            return instead + rest.removeprefix("und")
    return langcodes.standardize_tag(tag)


def _no_code(code: str) -> CorpusError:
    return CorpusError(
        f"{code[:40]!r} is no language code; write one such as de, pt-BR or zh-Hant, or x-name for one of your own"
    )


# Texts

# Languages that the identifier takes for one another, or that it does not know and would take for the others.
_ALIKE = [
    "da nb nn no", "fo is", "de gsw lb nds", "af fy nl", "en pcm sco", "ar arz ary", "fa prs", "ckb ku kmr sdh",
    "an ast es ext gl lad mwl pt", "ca oc", "fr oc wa", "gcf gcr ht", "it lij lmo nap scn vec",
    "bs cnr hr sh sr", "bg mk sr", "be ru rue uk", "cs sk", "lt ltg lv", "ga gd",
    "az crh gag tk tr", "ba kk ky tt", "uz uzs", "bho gom hi mai mr ne sa", "as bn",
    "ace bjn id jv min ms su", "bcl fil tl", "cmn gan hsn lzh wuu yue zh",
    "nso st tn", "nr ss xh zu", "he hbo", "el grc", "gn gug", "ff fuv",
]  # fmt: skip
UNKNOWN = "und"  # what BCP 47 calls it
_NO_EVIDENCE = {"la", "zxx"}  # names of species; no language at all
# Unknown to the identifier, and not written in one script only.
_ANY_SCRIPT = {"cdo", "cr", "hak", "iu", "ks", "mni", "nan", "sat", "sd", "shi", "und"}
_BOTH_SCRIPTS = {"sr-Latn", "uz-Cyrl", "zh-Hant"}  # which the identifier knows beside the usual script


class Guess(NamedTuple):
    """A language by BCP 47, and how sure it is, from 0 to 1."""

    lang: str
    confidence: float


def guess(text: str) -> Guess:
    """The language a text is in, judged by three windows of it; "und" for a text without letters.

    ``confidence`` is the probability that the identifier gives the language, averaged over the windows, with zero
    for a window that looks like another language: neither length nor one clear passage makes a mixed text sure.
    It errs on the low side: of single sentences at 0.3, 0.5 and 0.7, some 60, 80 and 97 of 100 are right, and of
    those above 0.8 nearly all.
    """
    windows = _windows(text)
    votes: dict[str, float] = {}
    for window in windows:
        lang, probability = _classify(window)
        votes[lang] = votes.get(lang, 0.0) + probability
    if not votes:
        return Guess(UNKNOWN, 0.0)
    lang = max(votes, key=votes.__getitem__)
    return Guess(lang, votes[lang] / len(windows))


def is_foreign(text: str, declared: str) -> Guess | None:
    """What a text is in, if that is evidently not its declared language (as ``normalise`` writes it); else None.

    Evident is what every window shows for itself, the same in all: a language that with its kin has a probability
    of ``EVIDENT`` or more, and that is the ``confidence``, averaged. Languages easily mistaken for each other (da
    and nb, hr and sr, gl and pt) never speak against each other; against one that the identifier does not know,
    only another script does. An honest text costs one window.
    """
    windows = _windows(text)
    votes: list[Guess] = []
    for window in windows:
        vote = _classify(window)
        if not _differ(vote.lang, declared):
            return None
        if vote.confidence < EVIDENT:
            vote = _with_kin(window, vote.lang)
        votes.append(vote)
        if vote.confidence < EVIDENT or vote.lang not in _kin(votes[0].lang):
            return None
    if sum(map(str.isalpha, "".join(windows))) < MIN_LETTERS:
        return None
    clearest = max(votes, key=lambda vote: vote.confidence)
    return Guess(clearest.lang, sum(vote.confidence for vote in votes) / len(votes))


def _windows(text: str) -> list[str]:
    """Up to three parts of a text, evenly spread, that have letters."""
    text = text.strip()
    count = min(WINDOWS, -(-len(text) // WINDOW))
    last = max(len(text) - WINDOW, 0)
    starts = [last * i // max(count - 1, 1) for i in range(count)]
    windows = [text[start : start + WINDOW] for start in starts]
    return [window for window in windows if any(map(str.isalpha, window))]


def probabilities(text: str) -> dict[str, float]:
    """What the identifier gives to every language it knows, from the beginning of a text; they add up to 1."""
    return {_label(lang): share for lang, share in _identifier().rank(_bytes(text[:WINDOW]))}


def _classify(window: str) -> Guess:
    lang, probability = _identifier().classify(_bytes(window))
    return Guess(_label(lang), probability)


def _with_kin(window: str, lang: str) -> Guess:
    """How probable it is that a window is in a language or in one that is easily mistaken for it."""
    kin = _kin(lang)
    return Guess(lang, sum(part for other, part in _identifier().rank(_bytes(window)) if _label(other) in kin))


def _bytes(window: str) -> bytes:
    return window.encode("utf-8", "replace")[:WINDOW]


@cache
def _identifier() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@cache
def _label(lang: str) -> str:
    return normalise(lang)


@cache
def _kin(lang: str) -> frozenset[str]:
    return frozenset([lang]).union(*(group for group in map(str.split, _ALIKE) if lang in group))


@cache
def _differ(lang: str, declared: str) -> bool:
    """Whether a text that looks like ``lang`` cannot be in the declared language."""
    if lang in _NO_EVIDENCE or not known(declared):
        return False
    primary = declared.partition("-")[0]
    script = _script(declared)
    usual = script == _script(primary) or f"{primary}-{script}" in _BOTH_SCRIPTS
    if usual and not _kin(primary).isdisjoint(_labels()):
        return lang not in _kin(primary)
    return script not in ("", _script(lang)) and primary not in _ANY_SCRIPT


@cache
def _labels() -> frozenset[str]:
    return frozenset(map(_label, _identifier().labels))


def _script(code: str) -> str:
    """The script that a language is usually written in, "" where nobody knows."""
    if code.partition("-")[0] not in LIKELY_SUBTAGS:
        return ""
    return langcodes.Language.get(code).maximize().script or ""
