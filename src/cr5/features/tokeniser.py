"""Tokeniser: text -> tokens, by Unicode normalisation, segmentation, lower-casing and splitting.

A word is a type, a token its occurrence in a text: a run of letters, marks and digits of any script, with at least one
letter or digit. Runs of a script that is written without spaces are segmented by ICU first, whatever the language of
the text; after that every script is treated alike. Every step works on whole Arrow arrays, so that no Python code runs
per token. For a single short text the calls into Arrow take longer than the work, so ``Tokeniser.words`` applies the
same rules to it in plain Python.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from cr5._typing import Ints
from cr5.corpus.languages import primary_subtag
from cr5.corpus.normal_forms import normal_form
from cr5.features import setting

if TYPE_CHECKING:  # Arrow is loaded with the first texts
    import pyarrow as pa

UNSPACED_LANGUAGES = frozenset({"zh", "ja", "th", "lo", "km", "my", "yue", "wuu"})
"""Languages written without spaces between words, as primary subtags, for models that segment by language."""

SOUTHEAST_ASIAN = "\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"
"""Characters of Thai, Lao, Myanmar and Khmer, as inside the brackets of a regular expression."""

EAST_ASIAN = (
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c"  # Chinese characters, in Japanese too
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
    "\u3041-\u3096\u3099-\u309f\u30a1-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001aff0-\U0001b16f"  # kana
)
"""Chinese characters and kana, as inside the brackets of a regular expression."""

_UNSPACED = SOUTHEAST_ASIAN + EAST_ASIAN
_MARKS = "\u0300-\u036f\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef"  # of any script, joiners, variants
UNSPACED_RUN = f"[{_UNSPACED}][{_UNSPACED}{_MARKS}]*"
"""A regular expression for a run of characters of scripts that are written without spaces between words."""

WORD_CHARACTERS = r"\p{L}\p{M}\p{N}\x{200c}\x{200d}"
"""The characters of words, as inside the brackets of a regular expression: letters, marks, digits, and the zero-width
joiners of Indic and Persian scripts. The server generates the rule of its page from it."""

SOFT_HYPHEN = "\u00ad"
"""Marks where a word may be broken; normalisation removes it."""

# Separators are replaced in two steps, which is five times as fast as one: bytes for ASCII, a regular expression for
# the rest.
_ASCII_BLANKED = bytes(c if c >= 128 or chr(c).isalnum() else 32 for c in range(256))
_OTHER_SEPARATORS = rf"[^\x00-\x7f{WORD_CHARACTERS}]+"
# Characters that NFKC never changes, alone or next to each other. A text that consists of these is not normalised.
STABLE_CHARACTERS = (
    "\x00-\x7f\xa1\xa7\xa9\xab\xac\xae\xb0\xb1\xb6\xb7\xbb\xbf-\xff"  # ASCII, Latin-1
    "\u0100-\u0131\u0134-\u013e\u0141-\u0148\u014a-\u017e\u1ea0-\u1ef9"  # more Latin, Vietnamese
    "\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03ce\u0400-\u045f\u0490\u0491"  # Greek, Cyrillic
    "\u05d0-\u05ea\u0621-\u063a\u0641-\u064a"  # Hebrew, Arabic
    "\u3001\u3002\u3041-\u3096\u30a1-\u30fa\u30fc\u4e00-\u9fff\uac00-\ud7a3"  # Chinese, Japanese, Korean
    "\u2013-\u2015\u2018-\u201e\u2020-\u2022\u20ac"  # dashes, quotation marks, bullets, euro
)
# The separators among the stable characters, except those of ASCII.
_STABLE_SEPARATORS = "[\xa1\xa7\xa9\xab\xac\xae\xb0\xb1\xb6\xb7\xbb\xbf\xd7\xf7\u2013-\u2022\u20ac\u3001\u3002]+"
_RUNS = re.compile(f"({UNSPACED_RUN})")
_UNSTABLE = re.compile(f"[^{STABLE_CHARACTERS}]")
_CHARACTER_BLOCK = 1024  # characters to which rules are applied at a time; compiling their expression takes most of it


class Tokens(NamedTuple):
    """Tokenised texts: the tokens of text i are ``words[ids[offsets[i]:offsets[i + 1]]]``."""

    words: list[str]
    ids: Ints
    offsets: Ints

    @classmethod
    def from_lists(cls, texts: Sequence[Sequence[str]]) -> "Tokens":
        """The tokens of each text, in order."""
        numbers: dict[str, int] = {}
        ids = [numbers.setdefault(word, len(numbers)) for text in texts for word in text]
        offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        return cls(list(numbers), np.array(ids, np.int32), offsets)


@dataclass(frozen=True)
class Tokeniser:
    """Splits texts into tokens. Its settings are stored in the model, so that encoding later does the same."""

    normalise: bool = setting(
        True,
        "Apply Unicode NFKC normalisation, so that variants of a character agree; switch it off only if your texts are "
        "normalised already.",
    )
    lowercase: bool = setting(True, "Convert words to lower case; switch it off if case distinguishes words.")
    segment: bool = setting(
        True,
        "Split Chinese, Japanese, Thai and other text without spaces by dictionary (ICU); switch it off if the words "
        "of your texts are separated by spaces.",
    )
    segment_by: Literal["script", "language"] = setting(
        "script",
        '"script": segment text without spaces wherever it occurs; "language": only in languages whose code is that of '
        "Chinese, Japanese, Thai, Lao, Khmer or Burmese, as models written by earlier versions do. Change it only "
        "to train a model like those.",
    )
    pretokenised: bool = setting(
        False,
        "Words are separated by white space already, and the other settings of the tokeniser have no effect; use it "
        "if you tokenise yourself.",
    )

    def __call__(self, texts: "Sequence[str] | pa.StringArray", lang: str) -> Tokens:
        """Split texts in one language into tokens."""
        import pyarrow.compute as pc

        array = as_arrow(texts)
        if not self.pretokenised:
            unstable = pc.match_substring_regex(array, _UNSTABLE.pattern)
            all_stable = not pc.any(unstable).as_py()
            if self.normalise and not all_stable:
                array = _change_texts(array, unstable, normalise_text)
            if self.segment and self.segment_by == "script":
                array = _segment_runs(array)
            elif self.segment and needs_segmenting(lang):
                array = _segment(array, lang)
            # Compiling the general expression takes longer than splitting a short text, so it is avoided if possible.
            array = _to_spaced_words(array, self.lowercase, _STABLE_SEPARATORS if all_stable else _OTHER_SEPARATORS)
        split = pc.utf8_split_whitespace if self.pretokenised else pc.ascii_split_whitespace
        lists = split(pc.utf8_trim_whitespace(array))
        encoded = lists.flatten().dictionary_encode()
        # Splitting an empty text yields one empty string.
        words = encoded.dictionary.to_pylist()
        if self.pretokenised:
            is_word = np.array([word != "" for word in words], bool)
        else:  # nearly all words begin with a letter or digit
            is_word = np.array([word[:1].isalnum() or has_letter_or_digit(word) for word in words], bool)
        ids = np.asarray(encoded.indices)
        kept = is_word[ids]
        kept_before = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])
        offsets = kept_before[np.asarray(lists.offsets) - lists.offsets[0].as_py()]
        new_ids = np.cumsum(is_word, dtype=np.int32) - 1
        return Tokens(list(compress(words, is_word)), new_ids[ids[kept]], offsets)

    def words(self, text: str, lang: str) -> list[str]:
        """The tokens of one text in order, the same as in a batch, without the overhead of one."""
        is_stable = text.isascii() or not _UNSTABLE.search(text)
        if not is_stable:
            text = text.encode(errors="replace").decode()  # as in ``as_arrow``
        if self.pretokenised:
            return text.split()
        if self.normalise and not is_stable:
            text = normalise_text(text)
        if self.segment and self.segment_by == "script":
            text = _segment_text(text) if not text.isascii() and _RUNS.search(text) else text
        elif self.segment and needs_segmenting(lang):
            text = _segment_whole(text, lang)
        words = text.translate(_character_table(self.lowercase)).split()
        return [word for word in words if word[0].isalnum() or has_letter_or_digit(word)]  # nearly all begin with one

    def rules_key(self, lang: str) -> str:
        """A key that languages have in common if they are tokenised by the same rules."""
        segments_by_language = self.segment and self.segment_by == "language" and not self.pretokenised
        return lang if segments_by_language and needs_segmenting(lang) else ""


class _CharacterTable(dict[int, str]):
    """For ``str.translate``: the lower-case form of a character of words, and a space for every other character.

    It is filled by the rules for batches, a block of characters at a time, so both agree about every character.
    """

    def __init__(self, lowercase: bool) -> None:
        self.lowercase = lowercase

    def __missing__(self, code: int) -> str:
        first = code - code % _CHARACTER_BLOCK
        block = as_arrow([chr(first + i) for i in range(_CHARACTER_BLOCK)])
        self.update(enumerate(_to_spaced_words(block, self.lowercase, _OTHER_SEPARATORS).to_pylist(), first))
        return self[code]


_character_table = cache(_CharacterTable)


def has_letter_or_digit(text: str) -> bool:
    """Whether a text has anything but marks, joiners, punctuation and spaces."""
    return any(map(str.isalnum, text))


def as_arrow(texts: "Sequence[str] | pa.StringArray") -> "pa.LargeStringArray":
    """Texts as an Arrow array."""
    import pyarrow as pa

    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError:  # a lone surrogate, which UTF-8 cannot encode, becomes a question mark
        return pa.array([text.encode(errors="replace").decode() for text in texts], pa.large_string())


def needs_segmenting(lang: str) -> bool:
    """Whether ``segment_by="language"`` segments a language; only the primary subtag of its code matters."""
    return primary_subtag(lang) in UNSPACED_LANGUAGES


def _change_texts(
    array: "pa.LargeStringArray", chosen: "pa.BooleanArray", change: Callable[[str], str]
) -> "pa.LargeStringArray":
    """The texts, of which those chosen are changed."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = [change(text) for text in array.filter(chosen).to_pylist()]
    return pc.replace_with_mask(array, chosen, pa.array(texts, pa.large_string()))


def normalise_text(text: str) -> str:
    """NFKC without soft hyphens."""
    return normal_form("NFKC", text).replace(SOFT_HYPHEN, "")


def _to_spaced_words(array: "pa.LargeStringArray", lowercase: bool, separators: str) -> "pa.LargeStringArray":
    """Lower-case texts if wanted, and put a space for every separator, whatever stands next to it.

    Separators are what ``separators`` matches, and every ASCII character that is neither a letter nor a digit.
    """
    import pyarrow.compute as pc

    lowered = pc.utf8_lower(array) if lowercase else array
    return pc.replace_substring_regex(_blank_ascii(lowered), separators, " ")


def _blank_ascii(array: "pa.LargeStringArray") -> "pa.LargeStringArray":
    """Replace every ASCII character that is not a letter or digit by a space."""
    import pyarrow as pa

    _, offsets, data = array.buffers()
    blanked = pa.py_buffer(data.to_pybytes().translate(_ASCII_BLANKED) if data else b"")
    return pa.Array.from_buffers(array.type, len(array), [None, offsets, blanked], offset=array.offset)


def _segment_runs(array: "pa.LargeStringArray") -> "pa.LargeStringArray":
    """Separate the words that ICU finds in runs of scripts without spaces, and the runs from what is around them."""
    import pyarrow.compute as pc

    if not may_have_runs(array):
        return array
    return _change_texts(array, pc.match_substring_regex(array, f"[{_UNSPACED}]"), _segment_text)


def may_have_runs(array: "pa.LargeStringArray") -> bool:
    """Whether a byte of the texts can begin a character of a script without spaces; a fast check of Latin text."""
    data = array.buffers()[2]
    if not data or not len(data):
        return False
    view = np.frombuffer(data, np.uint8)
    if view.max() < 0xE0:
        return False
    if (view - np.uint8(0xE3) < 8).any() or (view >= 0xEF).any():  # bytes below 0xE3 wrap around and become large
        return True
    first, second = view[:-1], view[1:]
    thai_or_lao, myanmar_or_khmer = (first == 0xE0) & (second >= 0xB8), (first == 0xE1) & (second < 0xA0)
    return bool((thai_or_lao | myanmar_or_khmer).any())


def _segment_text(text: str) -> str:
    from icu4py.breakers import WordBreaker

    parts = _RUNS.split(text)  # what is between the runs, and the runs, in turn
    # One breaker for all runs, which end at line breaks; the dictionaries depend on the script, not on the locale.
    words = " ".join(WordBreaker("\n".join(parts[1::2]), "en"))
    parts[1::2] = [f" {run} " for run in words.split("\n")]
    return "".join(parts)


def _segment(array: "pa.LargeStringArray", lang: str) -> "pa.LargeStringArray":
    """Separate the words that ICU finds in whole texts by spaces."""
    import pyarrow as pa

    return pa.array([_segment_whole(text, lang) for text in array.to_pylist()], pa.large_string())


def _segment_whole(text: str, lang: str) -> str:
    from icu4py.breakers import WordBreaker

    return " ".join(WordBreaker(text, lang))
