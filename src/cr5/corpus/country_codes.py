"""Codes of countries that are written for languages, such as dk for Danish, for advice."""

from cr5.corpus.languages import is_registered

# The code of a country, that of its language, and its name. Countries whose code is also that of another language
# (se, Northern Sami; ee, Ewe; br, Breton) are not there.
_LANGUAGES = """
al sq Albanian; at de German; au en English; bd bn Bengali;
by be Belarusian; cn zh Chinese; cz cs Czech; dk da Danish; eg ar Arabic; gb en English; gr el Greek;
hk zh-HK Chinese of Hong Kong; il he Hebrew; iq ar Arabic; ir fa Persian; jp ja Japanese; kh km Khmer; kz kk Kazakh;
mx es Spanish; nz en English; ph fil Filipino; pk ur Urdu; rs sr Serbian; ua uk Ukrainian; us en English;
vn vi Vietnamese
"""
_BY_COUNTRY = {country: (code, name) for country, code, name in (row.split(None, 2) for row in _LANGUAGES.split(";"))}


def country_code_warning(lang: str) -> str | None:
    """What to say about a language whose code is that of a country; None for every other language."""
    if lang.lower() not in _BY_COUNTRY or is_registered(lang):
        return None
    code, name = _BY_COUNTRY[lang.lower()]
    return f"{lang!r} is not a language code; {name} is {code}; write that, unless {lang} is a name of your own"
