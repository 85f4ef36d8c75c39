"""Language codes: one spelling for all of them, as BCP 47 has it.

Corpora use the conventions of gettext, Microsoft, Android, Wikipedia and ISO 639; ``normalise`` maps them all to one
spelling without changing which language is meant.
"""

import re
from collections.abc import Collection

from cr5.errors import CorpusError

__all__ = ["find_language", "is_registered", "normalise", "primary_subtag", "short_code", "wikipedia_language"]

_MAX_CODE_LENGTH = 80  # characters
_CODE = re.compile(r"(?:[a-z]{2,3}|i|x)(?:-[a-z0-9]{1,8})*")
_CODESET = re.compile(r"\.(?:ansi|ascii|big5|cp|euc|gb|iso|koi|sjis|tis|utf|windows)[\w-]*", re.IGNORECASE)
_ANDROID_REGION = re.compile(r"(?<=[-_])r(?=[A-Z]{2}$)")  # pt-rBR
_REGION_BEFORE_SCRIPT = re.compile(r"([a-z]{2,3})-([a-z]{2})-([a-z]{4})")  # az-AZ-Cyrl, from old Windows
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
    "zh-cmn": "cmn", "zh-guoyu": "cmn",
}  # fmt: skip

# Wikipedias whose code is not BCP 47, or is another language's.
_WIKIPEDIAS = {
    "als": "gsw", "bat-smg": "sgs", "be-x-old": "be-tarask", "bh": "bho", "cbk-zam": "cbk", "eml": "egl",
    "fiu-vro": "vro", "map-bms": "jv-x-bms", "mo": "ro-Cyrl-MD", "nrm": "nrf", "roa-rup": "rup",
    "roa-tara": "nap-x-tara", "simple": "en-simple", "tokipona": "tok", "zh-classical": "lzh", "zh-min-nan": "nan",
    "zh-yue": "yue",
}  # fmt: skip

# The most spoken member of a macrolanguage, which benchmarks use as the code of the whole.
_MACROLANGUAGES = {
    "als": "sq", "arb": "ar", "azj": "az", "cmn": "zh", "ekk": "et", "khk": "mn", "lvs": "lv", "npi": "ne", "ory": "or",
    "pes": "fa", "plt": "mg", "swh": "sw", "uzn": "uz", "ydd": "yi", "zsm": "ms",
}  # fmt: skip
_SYNONYMS = {"nb": "no", "no": "nb"}  # codes that corpora use for the same language


def normalise(code: str) -> str:
    """A language code as BCP 47 writes it: pt_br -> pt-BR, deu -> de, iw -> he, sr@latin -> sr-Latn.

    Regions and scripts are kept (zh-TW), and no language is merged with a related one (nb, no, sh, tl); only the
    usual script of a language is dropped (ru-Cyrl -> ru). A well-formed code that is not registered is accepted; see
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
        return langcodes.tag_is_valid(normalise(code))
    except CorpusError:
        return False


def primary_subtag(code: str) -> str:
    """The language of a code in lower case, without region, script and modifier: zh_Hant-TW -> zh."""
    return re.split(r"[-_.@]", code, maxsplit=1)[0].lower()


def short_code(code: str) -> str:
    """A code with its shortest primary subtag, to compare codes of benchmarks: ita -> it, arb -> ar, pt_BR -> pt-BR."""
    first, *rest = code.replace("_", "-").split("-")
    first = first.lower()
    shortest = normalise(first) if len(first) == 3 and is_registered(first) else first
    return "-".join([_MACROLANGUAGES.get(first) or (shortest if len(shortest) == 2 else first), *rest])


def find_language(code: str, langs: Collection[str]) -> str | None:
    """The one of ``langs`` with this code, or else with its synonym (nb and no); None if there is neither."""
    if code in langs:
        return code
    synonym = _SYNONYMS.get(code)
    return synonym if synonym in langs else None


def wikipedia_language(code: str) -> str:
    """The BCP 47 code of a Wikipedia, from its own code or that of its dumps: als -> gsw, zh_min_nan -> nan."""
    return _WIKIPEDIAS.get(code.strip().lower().replace("_", "-")) or normalise(code)


def _add_modifier(tag: str, modifier: str) -> str:
    """A tag with the modifier of a locale in the place that BCP 47 gives it."""
    if modifier not in _MODIFIERS and len(modifier) != 4 and not is_registered(f"{tag}-{modifier}"):
        return f"{tag}-x-{modifier}"
    first, _, last = _MODIFIERS.get(modifier, modifier).partition("-")
    if len(first) == 4:  # a script, which precedes the region
        language, _, region = tag.partition("-")
        return "-".join(filter(None, [language, first, region, last]))
    return "-".join(filter(None, [tag, first]))


def _canonical(tag: str) -> str:
    import langcodes

    subtags = tag.split("-")
    for size in (3, 2, 1):
        if replacement := _REPLACED_PREFIXES.get("-".join(subtags[:size])):
            rest = langcodes.standardize_tag("-".join(["und", *subtags[size:]]))
            return replacement + rest.removeprefix("und")
    return langcodes.standardize_tag(tag)


def _not_a_code(code: str) -> CorpusError:
    return CorpusError(
        f"{code[:40]!r} is not a language code; write one such as de, pt-BR or zh-Hant, or x-name for your own"
    )
