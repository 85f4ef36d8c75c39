"""Language codes: one spelling for all of them, as BCP 47 has it.

Corpora use the conventions of gettext, Microsoft, Android, Wikipedia and ISO 639; ``bcp47_code`` maps them all to one
spelling. ``canonical_code`` is the same for users' own names too, and ``find_language`` finds a code, in any spelling,
among the languages of a model; ``find_text_language`` finds one by which texts in that language can be encoded.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache

from cr5.corpus.language_names import language_code
from cr5.corpus.texts import not_a_code
from cr5.errors import CorpusError

_MAX_CODE_LENGTH = 80  # characters
_CODE = re.compile(r"(?:[a-z]{2,3}|i|x)(?:-[a-z0-9]{1,8})*")
_CODESET = re.compile(r"\.(?:ansi|ascii|big5|cp|euc|gb|iso|koi|sjis|tis|utf|windows)[\w-]*", re.IGNORECASE)
_ANDROID_REGION = re.compile(r"(?<=[-_])r(?=[A-Z]{2}$)")  # pt-rBR
_REGION_BEFORE_SCRIPT = re.compile(r"([a-z]{2,3})-([a-z]{2})-([a-z]{4})")  # az-AZ-Cyrl, from old Windows
_LANGUAGE_AND_REGION = re.compile(r"[a-z]{2,3}(?:-[A-Z][a-z]{3})?(?:-(?:[A-Z]{2}|\d{3}))?")
_ENDS_IN_REGION = re.compile(r"-(?:[A-Z]{2}|\d{3})$")
_SORT_ORDER = re.compile(r"-(?:mathan|modern|phoneb|posix|pronun|radstr|stroke|technl|tradnl)$")  # es-ES_tradnl

# The modifier after the @ of a locale, as a script or variant; "" if it says nothing about the language. Any other
# modifier becomes a private subtag.
_MODIFIERS = {
    "arabic": "arab", "cyrillic": "cyrl", "devanagari": "deva", "greek": "grek", "hebrew": "hebr", "iqtelif": "latn",
    "latin": "latn", "ije": "ijekavsk", "ijekavian": "ijekavsk", "ijekavianlatin": "latn-ijekavsk",
    "abegede": "", "boldquot": "", "euro": "", "quot": "",
}  # fmt: skip

# First subtags that are not in the registry, or that langcodes merges, following CLDR, although the registry does not.
_REPLACED_PREFIXES = {
    "ca-xv": "ca-valencia", "no-no-ny": "nn-NO", "zh-chs": "zh-Hans", "zh-cht": "zh-Hant",
    "cnr": "cnr", "hbs": "sh", "prs": "prs", "sh": "sh", "swc": "swc", "tgl": "tl", "tl": "tl",
    "zh-cmn": "zh", "zh-guoyu": "zh",
}  # fmt: skip

# Wikipedias whose code is not BCP 47, or is another language's.
_WIKIPEDIAS = {
    "als": "gsw", "bat-smg": "sgs", "be-x-old": "be-tarask", "bh": "bho", "cbk-zam": "cbk", "eml": "egl",
    "fiu-vro": "vro", "map-bms": "jv-x-bms", "mo": "ro-Cyrl-MD", "nrm": "nrf", "roa-rup": "rup",
    "roa-tara": "nap-x-tara", "simple": "en-simple", "tokipona": "tok", "zh-classical": "lzh", "zh-min-nan": "nan",
    "zh-yue": "yue",
}  # fmt: skip

# The member of a macrolanguage that its code usually stands for.
_MACROLANGUAGES = {
    "als": "sq", "arb": "ar", "azj": "az", "cmn": "zh", "ekk": "et", "khk": "mn", "lvs": "lv", "npi": "ne", "ory": "or",
    "pes": "fa", "plt": "mg", "swh": "sw", "uzn": "uz", "ydd": "yi", "zsm": "ms",
}  # fmt: skip
_CHINESE_SCRIPTS = {"Hans", "Hant", "Hani"}  # these share most of their characters
_SYNONYMS = {"nb": "no", "no": "nb"}  # codes that corpora use for the same language


_MUTUALLY_INTELLIGIBLE = (("nb", "no", "nn"), ("hr", "bs", "sh", "sr-Latn"), ("id", "ms"), ("fil", "tl"), ("fa", "prs"))
CLOSE_LANGUAGES = {
    code: tuple(other for other in group if other != code) for group in _MUTUALLY_INTELLIGIBLE for code in group
}
"""For each language, those in the same script whose written standard is so close that a model without the language can
encode its texts with them; the first that the model has is used."""


@lru_cache(4096)
def bcp47_code(code: str) -> str:
    """A language code as BCP 47 writes it: pt_br -> pt-BR, deu -> de, iw -> he, cmn -> zh, sr@latin -> sr-Latn.

    Regions and scripts are kept (zh-TW), and no language is merged with a related one (nb, no, sh, tl, yue); only the
    usual script of a language is dropped (ru-Cyrl -> ru), and the standard form of a macrolanguage gets the code of the
    whole (cmn -> zh, arb -> ar, swh -> sw). A well-formed code that is not registered is accepted; see
    ``is_registered``. Anything else raises ``CorpusError``.
    """
    from langcodes.tag_parser import LanguageTagError

    locale, _, modifier = _CODESET.sub("", code.strip()).partition("@")
    tag = _SORT_ORDER.sub("", _ANDROID_REGION.sub("", locale).replace("_", "-").lower())
    if swapped := _REGION_BEFORE_SCRIPT.fullmatch(tag):
        tag = "{0}-{2}-{1}".format(*swapped.groups())
    if modifier and "=" not in modifier:  # not currency=EUR
        tag = _add_modifier(tag, modifier.lower())
    if len(tag) > _MAX_CODE_LENGTH or not _CODE.fullmatch(tag):
        raise _not_a_code(code)
    try:
        canonical = _canonical(tag)
        if _canonical(canonical.lower()) == canonical:  # which langcodes does not guarantee: aa-aaa-000
            return canonical
    except LanguageTagError:
        pass
    raise _not_a_code(code)


def is_registered(code: str) -> bool:
    """Whether every subtag of a code is registered: those of "pt-BR" are; "xx" and "readme" are not."""
    import langcodes

    try:
        return langcodes.tag_is_valid(bcp47_code(code))
    except CorpusError:
        return False


def primary_subtag(code: str) -> str:
    """The language of a code in lower case, without region, script and modifier: zh_Hant-TW -> zh."""
    return re.split(r"[-_.@]", code, maxsplit=1)[0].lower()


@lru_cache(4096)
def canonical_code(code: str) -> str:
    """``bcp47_code``, for codes that users choose: English -> en; what is no code or name of a language stays."""
    try:
        return bcp47_code(code)
    except CorpusError:
        return language_code(code) or code.strip()


def checked_code(code: str) -> str:
    """``canonical_code``, but an error for what is neither a code nor the name of a language."""
    return bcp47_code(canonical_code(code))


def is_same_language(code: str, other: str) -> bool:
    """Whether two codes, in any spelling, are the same: deu and de, but not pt-BR and pt."""
    return canonical_code(code) == canonical_code(other)


def find_language(code: str, langs: Collection[str]) -> str | None:
    """The one of ``langs`` that a code in any spelling means; None if there is none, or more than one.

    It is the same code, in this spelling or another; else a synonym (nb and no); else a less specific code (zh-Hant for
    zh-Hant-TW, then zh); else the only code of the same language (pt-BR for pt or pt-PT) whose script is not another
    one (never zh-Hans for zh-Hant, nor sr, in Cyrillic, for sr-Latn). All of ``langs`` may be in any spelling, too.
    """
    if not isinstance(code, str):
        raise not_a_code(code)
    if code in langs:
        return code
    wanted = canonical_code(code)
    spellings: dict[str, str] = {}
    for lang in langs:
        spellings.setdefault(canonical_code(lang), lang)
    for tag in _less_and_less_specific(wanted):
        for same in (tag, _SYNONYMS.get(tag, tag)):
            if same in spellings and not _are_in_different_alphabets(wanted, same):
                return spellings[same]
    compatible = [tag for tag in spellings if _are_compatible(tag, wanted)]
    return spellings[compatible[0]] if len(compatible) == 1 else None


def find_text_language(code: str, langs: Collection[str]) -> str | None:
    """The one of ``langs`` by which texts in a language can be encoded: that of ``find_language``, or a close one.

    A close language is taken only under exactly the code that ``CLOSE_LANGUAGES`` has, in any spelling: hr or sr-Latn
    for bs, never sr, which is usually in another script.
    """
    if (found := find_language(code, langs)) is not None:
        return found
    spellings = {canonical_code(lang): lang for lang in langs}
    tags = _less_and_less_specific(canonical_code(code))
    close = (other for tag in tags for other in CLOSE_LANGUAGES.get(tag, ()) if other in spellings)
    return next((spellings[other] for other in close), None)


def probably_meant(code: str, langs: Collection[str]) -> list[str]:
    """Those of some languages that a code which is none of them probably means: ["pt-BR", "pt-PT"] for "pt"."""
    tag = canonical_code(code.strip("'\""))
    found = find_language(tag, langs)
    return [found] if found else [lang for lang in langs if primary_subtag(lang) == primary_subtag(tag)]


def no_such_language(owner: str, code: str, langs: Collection[str], what: str = "no language") -> str:
    """The message that ``owner``, which has ``langs``, lacks a language, and which of these was probably meant."""
    problem = f"{owner} has {what} {code}; its languages are {', '.join(langs)}"
    meant = probably_meant(code, langs)
    return f"{problem}; use {' or '.join(map(repr, meant))}" if meant else problem


def regional_codes(langs: Iterable[str]) -> list[list[str]]:
    """Codes with and without a region that seem to be of one language, in groups: [["en", "en-US"], ["nb", "no"]].

    Two regions alone are taken to be different on purpose (pt-BR, pt-PT), and so are two scripts (zh, zh-TW).
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for code in langs:
        if _LANGUAGE_AND_REGION.fullmatch(code) and is_registered(code):
            language = primary_subtag(code)
            groups.setdefault((min(language, _SYNONYMS.get(language, language)), script(code)), []).append(code)
    return [group for group in groups.values() if len(group) > 1 and not all(map(_ENDS_IN_REGION.search, group))]


def language_columns(names: Sequence[str]) -> list[str]:
    """The columns of a table that have a language each: two or more names such as en, pt-BR and eng, or none."""
    found = [name for name in names if len(_shortest_subtag(name)) == 2 and name != "id" and is_registered(name)]
    return found if len(found) > 1 else []


def _shortest_subtag(code: str) -> str:
    """The language of a code, by its code of two letters if it has one: eng -> en, pt-BR -> pt."""
    return primary_subtag(canonical_code(code))


def script(code: str) -> str:
    """The script that a code names or that the language is usually written in, "" if it is not known."""
    import langcodes
    from langcodes.data_dicts import LIKELY_SUBTAGS

    if primary_subtag(code) not in LIKELY_SUBTAGS:
        return ""
    return langcodes.Language.get(code).maximize().script or ""


def wikipedia_code(code: str) -> str:
    """The code of a Wikipedia in its own spelling: eng -> en, cmn -> zh, zh_min_nan -> zh-min-nan."""
    own = code.strip().lower().replace("_", "-")
    short = canonical_code(code)
    return short if own not in _WIKIPEDIAS and len(short) == 2 else own


def wikipedia_language(code: str) -> str:
    """The BCP 47 code of a Wikipedia, from its own code or that of its dumps: als -> gsw, zh_min_nan -> nan."""
    return _WIKIPEDIAS.get(code.strip().lower().replace("_", "-")) or bcp47_code(code)


def _add_modifier(tag: str, modifier: str) -> str:
    """A tag with the modifier of a locale in the place that BCP 47 gives it."""
    if modifier not in _MODIFIERS and len(modifier) != 4 and not is_registered(f"{tag}-{modifier}"):
        return f"{tag}-x-{modifier}"
    first, _, last = _MODIFIERS.get(modifier, modifier).partition("-")
    if len(first) == 4:  # a script, which precedes the region
        language, _, region = tag.partition("-")
        return "-".join(filter(None, [language, first, region, last]))
    return "-".join(filter(None, [tag, first]))


def _less_and_less_specific(tag: str) -> Iterator[str]:
    """zh-Hant-TW, zh-Hant, zh; only itself for a name of the user's own."""
    yield tag
    while "-" in tag and _is_public_code(tag):
        tag = tag.rpartition("-")[0]
        yield tag


def _are_in_different_alphabets(a: str, b: str) -> bool:
    """Whether two codes are of scripts without common characters: sr-Latn and sr, but not zh-Hant and zh."""
    if primary_subtag(a) != primary_subtag(b) or a == b or not (_is_public_code(a) and _is_public_code(b)):
        return False
    scripts = {script(a), script(b)}
    return len(scripts) > 1 and "" not in scripts and not scripts <= _CHINESE_SCRIPTS


def _are_compatible(a: str, b: str) -> bool:
    """Whether two codes are of one language and not of different scripts; zh without a script may be of either."""
    if primary_subtag(a) != primary_subtag(b) or not (_is_public_code(a) and _is_public_code(b)):
        return False
    return ("-" not in a or "-" not in b or script(a) == script(b)) and not _are_in_different_alphabets(a, b)


def _is_public_code(tag: str) -> bool:
    """Whether a tag is a registered language code, not a name of the user's own."""
    return primary_subtag(tag) not in ("i", "x") and is_registered(tag)


def _canonical(tag: str) -> str:
    import langcodes

    language, *others = tag.split("-")
    subtags = [_MACROLANGUAGES.get(language, language), *others]
    for size in (3, 2, 1):
        if replacement := _REPLACED_PREFIXES.get("-".join(subtags[:size])):
            rest = langcodes.standardize_tag("-".join(["und", *subtags[size:]]))
            return replacement + rest.removeprefix("und")
    return langcodes.standardize_tag("-".join(subtags))


def _not_a_code(code: str) -> CorpusError:
    return CorpusError(
        f"{code[:40]!r} is not a language code; write one such as de, pt-BR or zh-Hant, or x-name for your own"
    )
