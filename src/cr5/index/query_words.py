"""The words of a query, matched against the documents in one language: the weight of each, and the terms it matches.

The weight of a word is its inverse document frequency in the index, so that words in most documents hardly count;
that of a function word, such as "why", is reduced to ``FUNCTION_WORD_SHARE`` of it. In the language of the query a word
matches its forms (see ``word_forms``); in other languages only itself, as names, numbers and codes do.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from cr5.index.quantities import joined_quantities
from cr5.index.stores.base import Store
from cr5.index.terms import QueryKeys, QueryWord
from cr5.retrieval.function_words import is_function_word
from cr5.retrieval.word_forms import Form, LanguageForms

FUNCTION_WORD_SHARE = 0.3  # factor of the weight of a function word
KNOWN_WORD_FORMS = 0.6  # factor of the boosts of a word's forms if the index has the word itself
CERTAIN_BOOST = 0.5  # a form with at least this boost is taken to be what was meant
FEW_WORDS = 3  # in longer queries, matching more words counts more than matching them often
MAX_WORDS_WITH_FORMS = 32  # looking up the forms of a query with more words would take too long
MIN_HIGHLIGHTED_SHARE = 0.25  # words below this share of the largest weight of any word are not highlighted
MIN_SUGGESTED_BOOST = 0.3  # least boost of a form that is suggested instead of a word


@dataclass(frozen=True)
class WeightedQuery:
    """The words of a query and what matches them in one language; ``total`` is the sum of their weights.

    ``forms`` are those of each word. A score divided by ``total`` is the share of the query that a document matches.
    """

    lang: str
    words: list[QueryWord]
    total: float
    forms: dict[str, list[Form]]

    @cached_property
    def for_bm25(self) -> list[QueryWord]:
        """The words as BM25 gets them: uncertain words weigh less, and words of a long query saturate earlier.

        A word that the index does not have weighs less if none of its forms has ``CERTAIN_BOOST``. The boosts of all
        terms are scaled by c = n / ``FEW_WORDS`` in a query of n > ``FEW_WORDS`` effective words: because
        tf c / (tf c + saturation) = tf / (tf + saturation / c), a document with all of them once is then preferred to
        one that repeats some.
        """
        scale = max(1.0, effective_number(word.weight for word in self.words) / FEW_WORDS)
        certainties = [min(1.0, found[0].boost / CERTAIN_BOOST) ** 2 if found else 1.0 for found in self.forms.values()]
        return [
            QueryWord(word.weight * certainty, {term: scale * boost for term, boost in word.terms.items()})
            for word, certainty in zip(self.words, certainties or [1.0] * len(self.words), strict=True)
        ]

    @cached_property
    def keys(self) -> QueryKeys:
        """These words as arrays."""
        return QueryKeys.make(self.for_bm25, self.lang)

    @cached_property
    def for_titles(self) -> list[QueryWord]:
        """The words that titles are compared with: no function words, unless there are no others.

        A form that is probably what was meant counts as the word itself.
        """
        named = zip(self.words, self.forms, strict=False)
        content = [word for word, name in named if not is_function_word(name, self.lang)]
        return [
            QueryWord(word.weight, {term: min(1.0, boost / CERTAIN_BOOST) for term, boost in word.terms.items()})
            for word in content or self.words
        ]

    @cached_property
    def highlighted_terms(self) -> set[str]:
        """The terms that match a word which weighs enough beside the others to be worth highlighting."""
        threshold = MIN_HIGHLIGHTED_SHARE * max((word.weight for word in self.words), default=0.0)
        return {term for word in self.words if word.weight >= threshold for term in word.terms}

    def share_in(self, words: Collection[str]) -> float:
        """The share of the query that some words match, however often they occur, from 0 to 1.

        ``words`` are a set or a mapping, in which a word is found at once.
        """
        return _share_in(self.words, words)

    def title_match(self, title: Collection[str], idf: dict[str, float]) -> float:
        """How well a title, as words in order, and the query match, from 0 to 1.

        This is the share of the query that the title has, times the share of the title that the query has, times the
        mean of 1 and the share of successive words in the title that have the order of the query.
        """
        present, boosts = set(title), self.title_boosts
        mass = sum(idf[word] for word in present) if not present.isdisjoint(boosts) else 0.0
        if not mass:
            return 0.0
        of_title = sum(idf[word] * boosts.get(word, 0.0) for word in present) / mass
        places = [[i for i, word in enumerate(title) if word in known.terms] for known in self.for_titles]
        neighbours = list(pairwise(filter(None, places)))
        in_order = sum(min(a) < max(b) for a, b in neighbours) / len(neighbours) if neighbours else 1.0
        return _share_in(self.for_titles, present) * of_title * (1 + in_order) / 2

    @cached_property
    def title_boosts(self) -> dict[str, float]:
        """All terms that match a word in a title, and how much each counts."""
        found: dict[str, float] = {}
        for word in self.for_titles:
            for term, boost in word.terms.items():
                found[term] = max(found.get(term, 0.0), boost)
        return found


def effective_number(weights: Iterable[float]) -> float:
    """The effective number of words with these weights w: (sum of w)^2 / sum of w^2."""
    values = list(weights)
    squares = sum(weight**2 for weight in values)
    return sum(values) ** 2 / squares if squares else 0.0


def _share_in(words: Sequence[QueryWord], present: Collection[str]) -> float:
    """The share of some words, by weight, that others match."""
    total = matched = 0.0
    for weight, terms in words:
        best = 0.0
        for term, boost in terms.items():
            if boost > best and term in present:
                best = boost
        total += weight
        matched += weight * best
    return matched / total if total else 0.0


def match_forms(store: Store, tokens: Sequence[str], lang: str) -> WeightedQuery:
    """The words of a query in its own language, with their forms.

    If the index has a word itself, documents with it come before those with its other forms, which count
    ``KNOWN_WORD_FORMS`` of their boost, and less the more effective words the query has: a long query is specific
    enough without them, and one of more than ``MAX_WORDS_WITH_FORMS`` words uses none. A form that is more
    common than the word counts less, in proportion to its inverse document frequency: "there" is unlikely to mean
    "the".
    In a language where most words have accents, a query without any matches words with them fully. A number and a unit
    are also matched by both written as one word.
    """
    joined = joined_quantities(tokens)
    frequencies = store.document_frequencies({term for found in joined.values() for term in found}, lang)
    words = list(dict.fromkeys(tokens))
    known = store.word_forms(lang) if len(words) <= MAX_WORDS_WITH_FORMS else LanguageForms([])
    is_unaccented = known.is_accented and all(map(str.isascii, words))
    forms = {word: known.find_with_regular(word, is_unaccented=is_unaccented) for word in words}
    terms = {form.word for found in forms.values() for form in found} | set(words)
    idf = store.inverse_document_frequencies(terms, lang)
    is_present = {word: any(form.kind == "same" for form in found) for word, found in forms.items()}
    weights = {}
    for word, found in forms.items():
        # A word that the index does not have gets the weight of the form that counts most.
        is_known = is_present[word] or not found
        weights[word] = idf[word if is_known else max(found, key=lambda form: form.boost * idf[form.word]).word]
    shares = {word: FUNCTION_WORD_SHARE if is_function_word(word, lang) else 1.0 for word in words}
    query_weights = [weights[word] * shares[word] for word in words]
    reduction = KNOWN_WORD_FORMS / max(effective_number(query_weights), 1.0)
    full = {"same", "accents"} if is_unaccented else {"same"}
    query_words = []
    for (word, found), weight in zip(forms.items(), query_weights, strict=True):
        reduced = reduction if is_present[word] else 1.0
        matched = {
            form.word: form.boost * (1.0 if form.kind in full else reduced * min(1.0, idf[form.word] / weights[word]))
            for form in found
        }
        together = {term: 1.0 for term in joined.get(word, ()) if frequencies[term]}
        # The word itself is added because dictionaries leave out very long ones.
        query_words.append(QueryWord(weight, {word: 1.0} | matched | together))
    return WeightedQuery(lang, query_words, sum(query_weights), forms)


def match_literally(store: Store, in_query_language: WeightedQuery, tokens: Sequence[str], lang: str) -> WeightedQuery:
    """The words of a query in another language, where only the same word matches, if documents have it.

    A word weighs no more than in the language of the query: a common word there may happen to be rare here.
    """
    words, joined = list(dict.fromkeys(tokens)), joined_quantities(tokens)
    together = {word for found in joined.values() for word in found}
    frequencies, known = store.document_frequencies({*words, *together}, lang), in_query_language.words
    if not any(frequencies.values()):
        return WeightedQuery(lang, [QueryWord(word.weight, {}) for word in known], in_query_language.total, {})
    idf = store.inverse_document_frequencies(words, lang)
    matched = [
        QueryWord(
            min(idf[word], same.weight),
            {term: 1.0 for term in (word, *joined.get(word, ())) if frequencies[term]},
        )
        for word, same in zip(words, known, strict=True)
    ]
    return WeightedQuery(lang, matched, in_query_language.total, {})


def best_form_boosts(store: Store, tokens: Sequence[str], lang: str) -> float:
    """How well a language's words match those of a query: the sum over these of the boost of the best form."""
    if len(tokens) > MAX_WORDS_WITH_FORMS:
        return 0.0
    known = store.word_forms(lang)
    return sum(max((form.boost for form in known.find(word)), default=0.0) for word in tokens)


def suggest(text: str, matched: WeightedQuery, is_known: Callable[[str], bool]) -> str | None:
    """The text of a query with words that the index does not have corrected; None if nothing is corrected.

    ``is_known`` tells whether another language of the index has a word.
    """
    corrected = text
    for word, forms in matched.forms.items():
        is_unknown = forms and all(form.kind in ("form", "typo") for form in forms)
        if is_unknown and forms[0].boost >= MIN_SUGGESTED_BOOST and not is_known(word):
            corrected = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", forms[0].word, corrected, flags=re.IGNORECASE)
    return corrected if corrected != text else None
