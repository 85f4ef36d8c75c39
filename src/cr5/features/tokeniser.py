"""Text -> words: normalise, segment, lower-case, split.

Everything runs on whole Arrow arrays, so that the interpreter never touches a token. A word is a
run of letters, marks and digits of any script. Languages that are written without spaces are cut
into words by ICU first; after that every language takes the same path.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cr5._typing import Ints
from cr5.corpus.languages import primary_subtag

UNSPACED = frozenset({"zh", "ja", "th", "lo", "km", "my", "yue", "wuu"})
"""Languages written without spaces between words."""

# Joiners are part of words in Indic scripts and in Persian.
WORD_CHARACTERS = r"\p{L}\p{M}\p{N}\x{200c}\x{200d}"
"""The characters of words, as inside the brackets of a regular expression: letters, marks, digits and joiners."""

SOFT_HYPHEN = "\u00ad"
"""A hint where a word may be broken, not a character of it: it is removed."""

# Separators in two moves, five times as fast as one: bytes for ASCII, an expression for the rest.
_ASCII_BLANKED = bytes(c if c >= 128 or chr(c).isalnum() else 32 for c in range(256))
_OTHER_SEPARATORS = rf"[^\x00-\x7f{WORD_CHARACTERS}]+"
# Characters that NFKC never touches, alone or side by side: most texts hold no others and are only looked at.
STABLE = (
    "\x00-\x7f\xa1\xa7\xa9\xab\xac\xae\xb0\xb1\xb6\xb7\xbb\xbf-\xff"  # ASCII, Latin-1
    "\u0100-\u0131\u0134-\u013e\u0141-\u0148\u014a-\u017e\u1ea0-\u1ef9"  # more Latin, Vietnamese
    "\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03ce\u0400-\u045f\u0490\u0491"  # Greek, Cyrillic
    "\u05d0-\u05ea\u0621-\u063a\u0641-\u064a"  # Hebrew, Arabic
    "\u3001\u3002\u3041-\u3096\u30a1-\u30fa\u30fc\u4e00-\u9fff\uac00-\ud7a3"  # Chinese, Japanese, Korean
    "\u2013-\u2015\u2018-\u201e\u2020-\u2022\u20ac"  # dashes, quotation marks, bullets, euro
)
# The separators among them, but for those of ASCII.
_STABLE_SEPARATORS = "[\xa1\xa7\xa9\xab\xac\xae\xb0\xb1\xb6\xb7\xbb\xbf\xd7\xf7\u2013-\u2022\u20ac\u3001\u3002]+"


class Tokens(NamedTuple):
    """Tokenised texts: text i holds ``words[ids[offsets[i]:offsets[i + 1]]]``."""

    words: list[str]
    ids: Ints
    offsets: Ints


@dataclass(frozen=True)
class Tokeniser:
    """How text becomes words. Stored in the model, so that encoding later is identical.

    ``pretokenised`` takes the words as they are, separated by white space, and ignores the rest.
    """

    normalise: bool = True
    lowercase: bool = True
    segment: bool = True
    pretokenised: bool = False

    def __call__(self, texts: Sequence[str] | pa.StringArray, lang: str) -> Tokens:
        """Split texts of one language into words."""
        array = as_arrow(texts)
        if not self.pretokenised:
            unsure = pc.match_substring_regex(array, f"[^{STABLE}]")
            common = not pc.any(unsure).as_py()
            if self.normalise and not common:
                array = _normalise(array, unsure)
            if self.segment and needs_segmenting(lang):
                array = _segment(array, lang)
            if self.lowercase:
                array = pc.utf8_lower(array)
            # Compiling the general expression takes longer than a short text: where it can be spared, it is.
            separators = _STABLE_SEPARATORS if common else _OTHER_SEPARATORS
            array = pc.replace_substring_regex(_blank_ascii(array), separators, " ")
        split = pc.utf8_split_whitespace if self.pretokenised else pc.ascii_split_whitespace
        lists = split(pc.utf8_trim_whitespace(array))
        encoded = lists.flatten().dictionary_encode()
        # Splitting an empty text yields one empty string.
        words = encoded.dictionary.to_pylist()
        word = np.fromiter(map(bool if self.pretokenised else _is_word, words), bool, len(words))
        ids = np.asarray(encoded.indices)
        kept = word[ids]
        before = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])
        offsets = before[np.asarray(lists.offsets) - lists.offsets[0].as_py()]
        number = np.cumsum(word, dtype=np.int32) - 1
        return Tokens(list(compress(words, word)), number[ids[kept]], offsets)


def _is_word(token: str) -> bool:
    """Whether there is a letter or digit in it, not only marks and joiners."""
    return token[:1].isalnum() or any(map(str.isalnum, token))


def as_arrow(texts: Sequence[str] | pa.StringArray) -> pa.LargeStringArray:
    """Texts as an Arrow array."""
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError:  # half a character, which UTF-8 cannot hold, stands for none
        return pa.array([text.encode(errors="replace").decode() for text in texts], pa.large_string())


def needs_segmenting(lang: str) -> bool:
    """Whether a language (its BCP 47 primary subtag) is written without spaces."""
    return primary_subtag(lang) in UNSPACED


def _normalise(array: pa.LargeStringArray, unsure: pa.BooleanArray) -> pa.LargeStringArray:
    """NFKC without soft hyphens, for the texts that may need it."""
    texts = [unicodedata.normalize("NFKC", text).replace(SOFT_HYPHEN, "") for text in array.filter(unsure).to_pylist()]
    return pc.replace_with_mask(array, unsure, pa.array(texts, pa.large_string()))


def _blank_ascii(array: pa.LargeStringArray) -> pa.LargeStringArray:
    """Turn every ASCII character that is no letter or digit into a space."""
    _, offsets, data = array.buffers()
    blanked = pa.py_buffer(data.to_pybytes().translate(_ASCII_BLANKED) if data else b"")
    return pa.Array.from_buffers(array.type, len(array), [None, offsets, blanked], offset=array.offset)


def _segment(array: pa.LargeStringArray, lang: str) -> pa.LargeStringArray:
    """Put a space between any two words that ICU's dictionaries find."""
    from icu4py.breakers import WordBreaker

    return pa.array([" ".join(WordBreaker(text, lang)) for text in array.to_pylist()], pa.large_string())
