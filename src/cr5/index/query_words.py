"""The words of a query, matched against the documents in one language: the weight of each, and the terms it matches.

The weight of a word is its inverse document frequency in the index, so that words in most documents hardly count;
that of a function word, such as "why", is reduced to ``FUNCTION_WORD_SHARE`` of it. In the language of the query a word
matches its forms (see ``word_forms``); in other languages only itself, as names, numbers and codes do.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from cr5.index.stores.base import Store
from cr5.index.terms import QueryWord
from cr5.retrieval.function_words import is_function_word
from cr5.retrieval.word_forms import Form, find_forms

FUNCTION_WORD_SHARE = 0.3  # of its inverse document frequency
FEW_WORDS = 3  # in a query of more words, it counts more how many a document has than how often
MAX_WORDS_WITH_FORMS = 32  # of a query; looking up the forms of more words would take too long
MIN_TELLING_SHARE = 0.25  # of the largest weight of any word, which a word needs to be shown as a match
MIN_SUGGESTED_SHARE = 0.3  # of a form that is offered instead of a word


@dataclass(frozen=True)
class MatchedWords:
    """The words of a query and what matches them in one language; ``total`` is the sum of their weights.

    ``forms`` are those of each word. A score divided by ``total`` is the share of the query that a document matches.
    """

    lang: str
    words: list[QueryWord]
    total: float
    forms: dict[str, list[Form]]

    @cached_property
    def terms(self) -> dict[str, float]:
        """All terms that match a word, and how much an occurrence of each counts."""
        found: dict[str, float] = {}
        for word in self.words:
            for term, share in word.terms.items():
                found[term] = max(found.get(term, 0.0), share)
        return found

    @property
    def effective_number(self) -> float:
        """The number of words of equal weight that would be as many as these: (sum of w)^2 / sum of w^2."""
        squares = sum(word.weight**2 for word in self.words)
        return sum(word.weight for word in self.words) ** 2 / squares if squares else 0.0

    @cached_property
    def for_bm25(self) -> list[QueryWord]:
        """The words with the shares of their terms scaled, so that a word of a long query saturates earlier.

        tf c / (tf c + saturation) = tf / (tf + saturation / c): in a query of more than ``FEW_WORDS`` effective words,
        a document with all of them once is preferred to one that repeats some.
        """
        scale = self.effective_number / FEW_WORDS
        if scale <= 1:
            return self.words
        return [QueryWord(word.weight, {t: scale * share for t, share in word.terms.items()}) for word in self.words]

    @cached_property
    def telling_terms(self) -> set[str]:
        """The terms that match a word which weighs enough beside the others to be worth showing."""
        least = MIN_TELLING_SHARE * max((word.weight for word in self.words), default=0.0)
        return {term for word in self.words if word.weight >= least for term in word.terms}

    def share_in(self, words: Collection[str]) -> float:
        """The share of the query that some words match, however often they occur, from 0 to 1."""
        present = set(words)
        shares = [max((s for term, s in word.terms.items() if term in present), default=0.0) for word in self.words]
        matched = sum(word.weight * share for word, share in zip(self.words, shares, strict=True))
        return matched / self.total if self.total else 0.0

    def title_match(self, title_words: Collection[str], idf: dict[str, float]) -> float:
        """The share of the query that a title has, times the share of the title that the query has, from 0 to 1."""
        title = set(title_words)
        mass = sum(idf[word] for word in title) if not title.isdisjoint(self.terms) else 0.0
        if not mass:
            return 0.0
        of_title = sum(idf[term] * share for term, share in self.terms.items() if term in title) / mass
        return min(self.share_in(title) * of_title, 1.0)


def match_forms(store: Store, tokens: Sequence[str], lang: str) -> MatchedWords:
    """The words of a query in its own language, with their forms.

    If the index has a word itself, its other forms count less the more words the query has: a long query is specific
    enough without them, and one of more than ``MAX_WORDS_WITH_FORMS`` words uses none. A form that is more common
    than the word counts less, in proportion to its inverse document frequency: "the" hardly stands for "there".
    In a language where most words have accents, a query without any matches words with them fully.
    """
    words = list(dict.fromkeys(tokens))
    dictionaries = store.dictionaries(lang) if len(words) <= MAX_WORDS_WITH_FORMS else []
    is_unaccented = all(map(str.isascii, words)) and any(part.is_accented for part in dictionaries)
    forms = {word: find_forms(dictionaries, word, is_unaccented=is_unaccented) for word in words}
    terms = {form.word for found in forms.values() for form in found} | set(words)
    idf = store.inverse_document_frequencies(terms, lang)
    matched, weights = {}, []
    for word, found in forms.items():
        is_present = any(form.kind == "same" for form in found)
        # A word that the index does not have gets the weight of the form that counts most.
        likely = word if is_present or not found else max(found, key=lambda form: form.share * idf[form.word]).word
        weight, reduction = idf[likely], 1 / len(words) if is_present else 1.0
        full = {"same", "accents"} if is_unaccented else {"same"}
        matched[word] = {
            form.word: form.share * (1.0 if form.kind in full else reduction * min(1.0, idf[form.word] / weight))
            for form in found
        }
        matched[word].setdefault(word, 1.0)  # dictionaries leave out very long words
        weights.append(weight * FUNCTION_WORD_SHARE if is_function_word(word, lang) else weight)
    query_words = [QueryWord(weight, matched[word]) for word, weight in zip(words, weights, strict=True)]
    return MatchedWords(lang, query_words, sum(weights), forms)


def match_literally(store: Store, own: MatchedWords, tokens: Sequence[str], lang: str) -> MatchedWords:
    """The words of a query in another language, where only the same word matches.

    A word weighs no more than in the language of the query: a common word there may happen to be rare here.
    """
    words = list(dict.fromkeys(tokens))
    idf = store.inverse_document_frequencies(words, lang)
    weights = [min(idf[word], known.weight) for word, known in zip(words, own.words, strict=True)]
    matched = [QueryWord(weight, {word: 1.0}) for word, weight in zip(words, weights, strict=True)]
    return MatchedWords(lang, matched, own.total, {})


def closeness(store: Store, tokens: Sequence[str], lang: str) -> float:
    """How well the words of a language match those of a query that it does not have: the sum of the best shares."""
    parts = store.dictionaries(lang) if len(tokens) <= MAX_WORDS_WITH_FORMS else []
    return sum(max((form.share for form in find_forms(parts, word)), default=0.0) for word in tokens)


def suggest(text: str, matched: MatchedWords, is_known: Callable[[str], bool]) -> str | None:
    """The text of a query with words that the index does not have corrected; None if nothing is corrected.

    ``is_known`` tells whether another language of the index has a word.
    """
    corrected = text
    for word, forms in matched.forms.items():
        is_unknown = forms and all(form.kind in ("form", "typo") for form in forms)
        if is_unknown and forms[0].share >= MIN_SUGGESTED_SHARE and not is_known(word):
            corrected = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", forms[0].word, corrected, flags=re.IGNORECASE)
    return corrected if corrected != text else None
