"""Names of languages, in English and in the language itself."""

_NAMES = """
af afrikaans; ar arabic العربية; az azerbaijani azərbaycan; be belarusian беларуская; bg bulgarian български;
bn bengali bangla বাংলা; bs bosnian bosanski; ca catalan català; cs czech čeština; cy welsh cymraeg; da danish dansk;
de german deutsch; el greek ελληνικά; en english; es spanish español castilian; et estonian eesti; eu basque euskara;
fa persian farsi فارسی; fi finnish suomi; fil filipino; fr french français; ga irish gaeilge; gl galician galego;
gu gujarati ગુજરાતી; he hebrew עברית; hi hindi हिन्दी; hr croatian hrvatski; hu hungarian magyar; hy armenian հայերեն;
id indonesian; is icelandic íslenska; it italian italiano; ja japanese 日本語; ka georgian ქართული;
kk kazakh қазақ; km khmer ខ្មែរ; kn kannada ಕನ್ನಡ; ko korean 한국어; la latin latina; lt lithuanian lietuvių;
lv latvian latviešu;
mk macedonian македонски; ml malayalam മലയാളം; mn mongolian монгол; mr marathi मराठी; ms malay melayu; mt maltese malti;
my burmese မြန်မာ; nb bokmål bokmal; ne nepali नेपाली; nl dutch nederlands flemish; nn nynorsk; no norwegian norsk;
pa punjabi ਪੰਜਾਬੀ; pl polish polski; pt portuguese português; ro romanian română; ru russian русский;
sk slovak slovenčina;
sl slovenian slovene slovenščina; sq albanian shqip; sr serbian српски srpski; sv swedish svenska; sw swahili kiswahili;
ta tamil தமிழ்; te telugu తెలుగు; th thai ไทย; tl tagalog; tr turkish türkçe; uk ukrainian українська; ur urdu اردو;
uz uzbek; vi vietnamese; zh chinese mandarin 中文
"""
_CODES = {name: code for code, *names in map(str.split, _NAMES.split(";")) for name in names}
_CODES["tiếng việt"] = "vi"


def language_code(name: str) -> str | None:
    """The code of a language that is given by its name, in English or in the language itself; None if it is not one."""
    return _CODES.get(name.strip().lower())
