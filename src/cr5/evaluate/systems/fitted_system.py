"""The interface between systems and tasks: a system is trained on texts, and a fitted system embeds texts."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from cr5._typing import Array, Ints, Sparse
from cr5.corpus.languages import find_language
from cr5.errors import Cr5Error
from cr5.evaluate.texts import TokenisedTexts
from cr5.retrieval.block_products import Matrix, WeightedView


class WordSpellings(NamedTuple):
    """A sparse row for the spelling of every word of two languages; weight x their product is added to a cosine."""

    source: Sparse
    target: Sparse
    weight: float = 1.0

    def select_rows(self, words: Ints) -> "WordSpellings":
        """The spellings of some source words."""
        return self._replace(source=self.source[words])

    def products(self, candidates: slice = slice(None)) -> Array:
        """Source words x candidates, weighted."""
        return np.asarray(self.weight * (self.source @ self.target[candidates].T).toarray())


class NotApplicableError(Cr5Error):
    """A system cannot be trained on, or queried with, what it was given; the message says why."""


class System(Protocol):
    """Anything that can be trained: documents by language, where equal concept numbers mean the same concept."""

    def __call__(self, training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> "FittedSystem": ...


class FittedSystem:
    """A trained system: it embeds texts as rows, and the inner product of two rows is their similarity.

    What a baseline overrides:

    - always one of three: ``embed`` if a text's row depends on this text alone, otherwise ``pair``, or ``views`` if it
      adds the products of several rows;
    - ``langs``, unless it takes any language;
    - ``report``, plain values about its training, whose "signature" tells it from others of the same name;
    - the optional methods that it supports: ``words``, ``word_vectors`` and ``word_spellings`` for the word task;
      ``coverage`` (set ``reports_coverage``); ``with_idf_of`` (set ``replaceable_idf``).
    """

    report: Mapping[str, Any] = {}
    monolingual = False
    """Whether it compares texts in one language only. The candidates are then given in the query language."""
    replaceable_idf = False
    """Whether ``with_idf_of`` can replace its IDF weights."""
    reports_coverage = False
    """Whether it reports the ``coverage`` of texts."""

    @property
    def langs(self) -> list[str] | None:
        """The languages that it was trained on; None if it takes any language."""
        return None

    @property
    def signature(self) -> str:
        """The settings in a few words; empty if there are none."""
        return str(self.report.get("signature", ""))

    @property
    def training_concepts(self) -> int | None:
        """The training concepts that its two languages share; None if it has more languages or does not know."""
        two = len(self.report.get("languages", ())) == 2
        return int(self.report["concepts"]) if two and "concepts" in self.report else None

    def code_of(self, lang: str) -> str:
        """The code by which it knows a language: this one or an equivalent, such as no for nb."""
        if self.langs is None:
            return lang
        if (code := find_language(lang, self.langs)) is not None:
            return code
        raise NotApplicableError(f"it has no language {lang}, of those of this evaluation only {', '.join(self.langs)}")

    def embed(self, texts: TokenisedTexts, lang: str) -> Matrix:
        """One row for each text, of length 1 if the system compares by cosine."""
        raise NotImplementedError

    def pair(
        self, queries: TokenisedTexts, query_lang: str, candidates: TokenisedTexts, candidate_lang: str
    ) -> tuple[Matrix, Matrix]:
        """The rows of queries and candidates, to be compared with each other."""
        return self.embed(queries, query_lang), self.embed(candidates, candidate_lang)

    def views(
        self, queries: TokenisedTexts, query_lang: str, candidates: TokenisedTexts, candidate_lang: str
    ) -> Sequence[WeightedView]:
        """The rows of queries and candidates in one or several views. ``queries`` may hold more texts than are used."""
        return [WeightedView(*self.pair(queries, query_lang, candidates, candidate_lang))]

    @property
    def has_views(self) -> bool:
        """Whether it adds several views."""
        return type(self).views is not FittedSystem.views

    @property
    def embeds_independently(self) -> bool:
        """Whether a text's row depends on this text alone, so that it can be computed once and kept."""
        return type(self).pair is FittedSystem.pair

    def words(self, lang: str) -> list[str]:
        """The vocabulary of a language, most frequent word first."""
        raise NotApplicableError("it embeds texts only, and has no vectors of single words")

    def word_vectors(self, lang: str) -> Array:
        """words x dimensions: the vector of every word of ``words``."""
        raise NotApplicableError("it embeds texts only, and has no vectors of single words")

    def word_spellings(self, source: str, target: str) -> WordSpellings | None:
        """What is added to the cosines of words; None if it compares words by their vectors alone."""
        return None

    def coverage(self, texts: TokenisedTexts, lang: str) -> Array:
        """The share of each text's tokens that are in the vocabulary."""
        raise NotImplementedError

    def with_idf_of(self, texts: Mapping[str, TokenisedTexts]) -> "FittedSystem":
        """The same system with IDF weights computed from other texts; languages without texts keep theirs."""
        raise NotImplementedError


class EmbeddingCache:
    """The rows of texts in several languages; each language is embedded once if its rows are independent.

    ``codes`` are the codes by which the system knows the languages, where these differ.
    """

    def __init__(
        self, fitted: FittedSystem, texts: Mapping[str, TokenisedTexts], codes: Mapping[str, str] | None = None
    ) -> None:
        self.fitted, self.texts, self.codes = fitted, texts, codes or {lang: lang for lang in texts}
        self._rows: dict[str, Matrix] = {}

    def views(self, query_lang: str, chosen: Ints, candidate_lang: str) -> list[WeightedView]:
        """The rows of the chosen texts in one language, and of all texts of another, to be compared."""
        if not self.fitted.has_views:
            return [WeightedView(*self._pair(query_lang, chosen, candidate_lang))]
        # All texts of a language, not the chosen ones, so that what is computed for them serves every direction.
        langs = self.codes[query_lang], self.codes[candidate_lang]
        views = self.fitted.views(self.texts[query_lang], langs[0], self.texts[candidate_lang], langs[1])
        return [view.select_queries(chosen) for view in views]

    def _pair(self, query_lang: str, chosen: Ints, candidate_lang: str) -> tuple[Matrix, Matrix]:
        if not self.fitted.embeds_independently:
            queries = self.texts[query_lang].select_rows(chosen)
            return self.fitted.pair(
                queries, self.codes[query_lang], self.texts[candidate_lang], self.codes[candidate_lang]
            )
        for lang in (query_lang, candidate_lang):
            if lang not in self._rows:
                self._rows[lang] = self.fitted.embed(self.texts[lang], self.codes[lang])
        return self._rows[query_lang][chosen], self._rows[candidate_lang]
