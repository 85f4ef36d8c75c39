"""Word forms: words of a dictionary that a word of a query may stand for, with how much a match with each counts.

From the most to the least reliable: the word itself (1); the same word with other accents (``ACCENT_BOOST``, or
``OTHER_ACCENT_BOOST`` if the dictionary has the word itself, because then it is probably another word, unless the query
was typed without accents in a language where most words have some, such as Vietnamese); words with a
long common prefix, which are mostly inflected forms (``FORM_BOOST`` s^2, where s = 2 common / (length + length));
and, only for a word that the dictionary does not have, words within an edit distance of 1 or 2, which are mostly what
was meant (``TYPO_BOOST`` s^2, where s = 1 - distance / length). A word that qualifies in two ways, with boosts a and
b, has the boost 1 - (1 - a) (1 - b). Words are compared without accents, in lower case.
"""

import unicodedata
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from cr5._typing import Array, Ints
from cr5.retrieval.endings import Endings, count_endings

ACCENT_BOOST, OTHER_ACCENT_BOOST, FORM_BOOST, TYPO_BOOST = 0.9, 0.3, 0.7, 0.5
REGULAR_BOOST = 0.9  # boost of forms with regular endings
MIN_SIMILARITY = 0.6  # smallest similarity s of inflected forms
MIN_COMMON, MAX_ENDING = 3, 4  # characters that forms begin with, and that may differ at the end of each
MIN_LETTERS = 4  # shorter words have no forms
SHORT_WORD = 5  # a word of up to this many letters may have one typo, a longer one two
MAX_LETTERS = 64  # longer words are not in dictionaries
MAX_FORMS = 12  # forms per word: the ones that count most
RECENT_WORDS = 4096  # of a language, whose forms are remembered
BEFORE, BEFORE_OR_SAME, BEFORE_OR_PREFIX = 0, 1, 2  # which words ``count_before`` counts
Kind: TypeAlias = Literal["same", "accents", "form", "typo"]
_LETTERS = str.maketrans({"đ": "d", "ø": "o", "ł": "l", "æ": "ae", "œ": "oe", "ß": "ss", "ı": "i"})

_LETTER_CATEGORIES = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Cf"})


class Form(NamedTuple):
    """A word of a dictionary that stands for another one; ``boost`` is how much an occurrence of it counts."""

    word: str
    kind: Kind
    boost: float


class TermDictionary:
    """The words of one language."""

    def __init__(self, words: Sequence[str]) -> None:
        folded = fold("\n".join(words)).split("\n") if words else []
        order = sorted(range(len(words)), key=folded.__getitem__)
        self.words_at: Callable[[Ints], list[str]] = lambda positions: [words[order[i]] for i in positions.tolist()]
        self._codes = _code_points("".join(folded[i] for i in order))
        self._ends = np.cumsum([0, *(len(folded[i]) for i in order)])
        self._accented_count = sum(map(str.__ne__, words, folded))

    @classmethod
    def of_folded(
        cls, words_at: Callable[[Ints], list[str]], folded: bytes, sizes: Ints, accented_count: int
    ) -> "TermDictionary":
        """A dictionary that has been sorted: ``words_at`` gives the words at some positions.

        ``folded`` are the words without accents, one after the other, ``sizes`` their lengths in bytes, and
        ``accented_count`` is the number of words that differ from them.
        """
        result = cls.__new__(cls)
        result.words_at, result._accented_count = words_at, accented_count
        result._codes, result._ends = _code_points(str(folded, "utf-8")), np.cumsum([0, *sizes.tolist()])
        if len(result._codes) < len(folded):  # ends are in characters, not in bytes
            is_first = (np.frombuffer(folded, np.uint8) & 0xC0) != 0x80
            result._ends = np.concatenate([[0], np.cumsum(is_first)])[result._ends]
        return result

    def __len__(self) -> int:
        return len(self._ends) - 1

    @property
    def words(self) -> list[str]:
        """All words, sorted by their letters without accents."""
        return self.words_at(np.arange(len(self)))

    @property
    def is_accented(self) -> bool:
        """Whether most words have accents, so that a text without any was probably typed without them."""
        return 2 * self._accented_count > len(self)

    @cached_property
    def _letters(self) -> Array:
        return _letter_sets(self._codes, self._ends)

    @cached_property
    def endings(self) -> Endings:
        """The endings of its words."""
        return count_endings(self.words_at, len(self))

    def same_unaccented(self, folded: str) -> range:
        """The positions of the words that are the same without accents."""
        word = _code_points(folded)
        return range(*(_count_before(word, self._codes, self._ends, order) for order in (BEFORE, BEFORE_OR_SAME)))

    def inflected(self, folded: str, same_unaccented: range) -> list[Form]:
        """Words with a long common prefix, except those that are the same."""
        common = max(MIN_COMMON, len(folded) - MAX_ENDING)
        prefix = _code_points(folded[:common])
        begin, end = (_count_before(prefix, self._codes, self._ends, order) for order in (BEFORE, BEFORE_OR_PREFIX))
        similarities = _common_prefixes(_code_points(folded), self._codes, self._ends, begin, end)
        near = np.flatnonzero(similarities >= MIN_SIMILARITY)
        found = zip((begin + near).tolist(), self.words_at(begin + near), similarities[near].tolist(), strict=True)
        return [
            Form(word, "form", FORM_BOOST * similarity**2)
            for i, word, similarity in found
            if i not in same_unaccented and _is_of_letters(word)
        ]

    def similar(self, folded: str) -> list[Form]:
        """Words within a small edit distance."""
        limit = 1 if len(folded) <= SHORT_WORD else 2
        codes = _code_points(folded)
        [letters] = _letter_sets(codes, np.array([0, len(codes)]))
        distances = _edit_distances(codes, letters, limit, self._codes, self._ends, self._letters)
        near = np.flatnonzero(distances <= limit)
        return [
            Form(word, "typo", TYPO_BOOST * (1 - distance / len(folded)) ** 2)
            for word, distance in zip(self.words_at(near), distances[near].tolist(), strict=True)
        ]


class LanguageForms:
    """The dictionaries of one language, and the forms of words that were recently looked up in them.

    Threads may share it: every access to what it remembers is atomic.
    """

    def __init__(self, dictionaries: Sequence[TermDictionary]) -> None:
        self.dictionaries = list(dictionaries)
        self._recent: dict[tuple[str, bool], tuple[list[Form], list[Form]]] = {}

    @cached_property
    def is_accented(self) -> bool:
        """Whether most words of a dictionary have accents."""
        return any(part.is_accented for part in self.dictionaries)

    def find(self, word: str, *, is_unaccented: bool = False) -> list[Form]:
        """What ``find_forms`` finds; the list must not be changed."""
        return self._find(word, is_unaccented)[0]

    def find_with_regular(self, word: str, *, is_unaccented: bool = False) -> list[Form]:
        """What ``with_regular_forms`` makes of these forms; the list must not be changed."""
        return self._find(word, is_unaccented)[1]

    def _find(self, word: str, is_unaccented: bool) -> tuple[list[Form], list[Form]]:
        known = self._recent.get((word, is_unaccented))
        if known is None:
            plain = find_forms(self.dictionaries, word, is_unaccented=is_unaccented)
            known = plain, with_regular_forms(self.dictionaries, word, plain)
            if len(self._recent) >= RECENT_WORDS:
                self._recent = {}
            if len(word) <= MAX_LETTERS:
                self._recent[word, is_unaccented] = known
        return known


def find_forms(dictionaries: Sequence[TermDictionary], word: str, *, is_unaccented: bool = False) -> list[Form]:
    """The words of one language that a word may stand for, those that count most first.

    Several dictionaries are searched as if they were one. ``is_unaccented`` says that the word was typed without its
    accents.
    """
    folded = fold(word)
    ranges = [part.same_unaccented(folded) for part in dictionaries]
    parts = zip(dictionaries, ranges, strict=True)
    same_unaccented = {same for part, at in parts if at for same in part.words_at(np.array(at))}
    boost = OTHER_ACCENT_BOOST if word in same_unaccented and not is_unaccented else ACCENT_BOOST
    found = [Form(other, "same", 1.0) if other == word else Form(other, "accents", boost) for other in same_unaccented]
    if len(folded) >= MIN_LETTERS and _is_of_letters(folded):
        for part, positions in zip(dictionaries, ranges, strict=True):
            inflected = part.inflected(folded, positions)
            found += inflected if same_unaccented else _combined(inflected, part.similar(folded))
    return best_forms(found)


def with_regular_forms(dictionaries: Sequence[TermDictionary], word: str, forms: Sequence[Form]) -> list[Form]:
    """Forms of a word, those that count most first; one with a regular ending has ``REGULAR_BOOST`` or more.

    The largest of the dictionaries tells which endings are regular.
    """
    if all(form.kind != "form" for form in forms):
        return list(forms)
    endings = max(dictionaries, key=len).endings
    found = [
        form._replace(boost=max(form.boost, REGULAR_BOOST))
        if form.kind == "form" and endings.are_regular(word, form.word)
        else form
        for form in forms
    ]
    return sorted(found, key=lambda form: (-form.boost, form.word))


def best_forms(forms: Sequence[Form]) -> list[Form]:
    """The forms that count most, each word once, of the kind that counts most."""
    by_word: dict[str, Form] = {}
    for form in sorted(forms, key=lambda form: (-form.boost, form.word)):
        by_word.setdefault(form.word, form)
    return list(by_word.values())[:MAX_FORMS]


def _combined(inflected: Sequence[Form], typos: Sequence[Form]) -> list[Form]:
    """Both kinds of forms; a word that is of both kinds counts more than one that is of either."""
    boost_of = {form.word: form.boost for form in typos}
    boosts = [1 - (1 - form.boost) * (1 - boost_of.pop(form.word, 0.0)) for form in inflected]
    both = [form._replace(boost=boost) for form, boost in zip(inflected, boosts, strict=True)]
    return both + [form for form in typos if form.word in boost_of]


def listed_words(words: Sequence[str]) -> list[int]:
    """The positions of the words that a dictionary should have: those that people might type, without line breaks."""
    return [i for i, word in enumerate(words) if len(word) <= MAX_LETTERS and "\n" not in word]


def fold(text: str) -> str:
    """A text in lower case and without accents."""
    decomposed = unicodedata.normalize("NFD", text.lower())
    if not decomposed.isascii():
        decomposed = "".join(character for character in decomposed if not unicodedata.combining(character))
        decomposed = unicodedata.normalize("NFC", decomposed).translate(_LETTERS)
    return decomposed


def _is_of_letters(word: str) -> bool:
    """Whether a word has only letters, and the vowel signs and joiners of Indic, Persian and other scripts."""
    return word.isalpha() or all(unicodedata.category(character) in _LETTER_CATEGORIES for character in word)


def _code_points(text: str) -> Ints:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _letter_sets(codes: Ints, ends: Ints) -> Array:
    """For every word a set of its characters, as bits: character c is in bit c modulo 64."""
    if not len(codes):
        return np.zeros(len(ends) - 1, np.uint64)
    bits = np.uint64(1) << (codes.astype(np.uint64) & np.uint64(63))
    sets = np.bitwise_or.reduceat(bits, np.minimum(ends[:-1], len(bits) - 1))
    return np.where(np.diff(ends) > 0, sets, np.uint64(0))


def _common_prefixes(word: Ints, codes: Ints, ends: Ints, begin: int, end: int) -> Array:
    from cr5.retrieval.word_kernels import common_prefixes

    return np.asarray(common_prefixes(word, codes, ends, begin, end, MIN_COMMON, MAX_ENDING))


def _count_before(word: Ints, codes: Ints, ends: Ints, order: int) -> int:
    from cr5.retrieval.word_kernels import count_before

    return int(count_before(word, codes, ends, order))


def _edit_distances(word: Ints, letters: int, limit: int, codes: Ints, ends: Ints, sets: Array) -> Array:
    from cr5.retrieval.word_kernels import edit_distances

    return np.asarray(edit_distances(word, letters, limit, codes, ends, sets))
