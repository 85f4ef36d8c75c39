"""The documents that a model is trained on, and how many others are left out of a corpus, by reason."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np

from cr5._typing import Ints, Mask
from cr5.corpus.country_codes import country_code_warning
from cr5.corpus.languages import regional_codes
from cr5.errors import (
    CountryCode,
    Cr5Warning,
    DocumentsLeftOut,
    FewDocuments,
    LanguageLeftOut,
    RepeatedDocuments,
    SeveralCodes,
)
from cr5.features.tfidf import Vocabulary, Weighting
from cr5.message_parts import plural, quoted
from cr5.training.counted_corpus import CountedCorpus

NO_WORD = "no word"
TOO_SHORT = "too short"
TOO_LONG = "too long"
ONE_LANGUAGE = "concept in one language only"
RARE_WORDS = "only rare words"
NO_COUNTERPART = "counterparts left out"
_EXPLANATIONS = {
    NO_WORD: "no word was found in the text",
    TOO_SHORT: "fewer different words than `min_unique={min_unique}`, which can be lowered",
    TOO_LONG: "more different words than `max_unique={max_unique}`, which can be raised",
    ONE_LANGUAGE: "no other language has a document of the concept",
    RARE_WORDS: "no word is in `min_documents={min_documents}` documents, which can be lowered",
    NO_COUNTERPART: "the documents of the concept in other languages are left out",
}
_DOCUMENT_PHRASES = {
    NO_WORD: "without a word",
    ONE_LANGUAGE: "whose concept is in one language only",
    RARE_WORDS: "with only rare words",
    NO_COUNTERPART: "whose counterparts are left out",
}  # after a number of documents, where the reason itself does not fit
REASONS = tuple(_EXPLANATIONS)
"""Why documents are left out; a document is counted under one of these."""

ENOUGH_CONCEPTS = 200
"""How many concepts a language has to share with others: with these, P@1 was more than half of that with all documents
on four of five corpora, and with 50 less than a sixth on three (benchmarks/few_documents.py)."""

MANY_PER_CONCEPT = 20
"""Documents of a concept in each language from which a message about few concepts asks whether they are concepts."""

MANY_REPEATED = 0.01
"""The share of a language's documents that may repeat others without a warning; most corpora have some."""

_NUMBER_OF = {reason: number for number, reason in enumerate(REASONS, 1)}
_USED = 0


def explain_reason(reason: str, weighting: Weighting) -> str:
    """What one of ``REASONS`` means, with the setting that decides it."""
    return _EXPLANATIONS[reason].format(**asdict(weighting))


@dataclass(frozen=True)
class Usage:
    """Documents or concepts: how many were read, how many of them are used, how many are left out, by reason."""

    read: int
    used: int
    left_out: dict[str, int]


@dataclass(frozen=True)
class CorpusUsage:
    """What becomes of the documents in every language, and of the concepts."""

    languages: dict[str, Usage]
    concepts: Usage

    @property
    def documents(self) -> Usage:
        """The documents in all languages together."""
        parts = list(self.languages.values())
        left_out = sum((Counter(part.left_out) for part in parts), Counter[str]())
        return Usage(sum(part.read for part in parts), sum(part.used for part in parts), _in_order(left_out))

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"documents": asdict(self.documents), **asdict(self)}


@dataclass(frozen=True)
class Selection:
    """The documents to train on, of every language that has some, its vocabulary, and what becomes of all others."""

    corpus: CountedCorpus
    vocabularies: dict[str, Vocabulary]
    usage: CorpusUsage
    everything: CountedCorpus

    def warnings(self, weighting: Weighting) -> list[Cr5Warning]:
        """What will keep languages from being learned well, from missing documents to repeated ones."""
        return [
            *_left_out_warnings(self.usage, weighting, self.everything),
            *few_concepts_warnings(
                self.usage.concepts.used, weighting.min_documents, documents_per_concept(self.corpus)
            ),
            *_few_documents_warnings(self.corpus),
            *_several_codes_warnings(self.corpus),
            *(CountryCode(message) for lang in self.corpus.languages if (message := country_code_warning(lang))),
            *_repeated_documents_warnings(self.corpus),
        ]


def few_concepts_warnings(concepts: int, min_documents: int, per_concept: float = 1.0) -> Iterator[Cr5Warning]:
    """Yield a warning if a corpus has few shared concepts; fewer than two are an error elsewhere.

    ``per_concept``: see ``documents_per_concept``.
    """
    if 1 < concepts < ENOUGH_CONCEPTS:
        more_words = "`min_documents=2` gives better vectors, and " if min_documents > 2 else ""
        yield FewDocuments(
            f"only {concepts:,} shared concepts, too few for a good model; add documents until two or more languages "
            f"share at least {ENOUGH_CONCEPTS} concepts, or better 1,000. Until then, {more_words}a comparison by all "
            f"views (Cr5.similarity) finds more than vectors alone{question_about_concepts(per_concept)}"
        )


def documents_per_concept(corpus: CountedCorpus) -> float:
    """How many documents a concept has in a language, on average over concepts and languages."""
    counts = corpus.document_counts()
    return float(counts.sum() / max((counts > 0).sum(), 1))


def question_about_concepts(per_concept: float) -> str:
    """The end of a message about few concepts, which asks whether they are what was meant, if each has many documents.

    ``per_concept``: see ``documents_per_concept``.
    """
    if per_concept < MANY_PER_CONCEPT:
        return ""
    return (
        f". A concept has {per_concept:,.0f} documents in each language on average: is `concept` the right column? It "
        "should say which documents are about the same thing, such as an article and its translations"
    )


def select_documents(corpus: CountedCorpus, weighting: Weighting, known: Mask | None = None) -> Selection:
    """Choose the documents of suitable length that have a word of the vocabulary and a counterpart.

    A counterpart is a document of the same concept in another language that is chosen as well. The vocabulary is that
    of all documents of suitable length with counterparts: also of those, usually none, that have only rare words.
    The concepts of the mask ``known`` have a counterpart outside the corpus.
    """
    outside = np.zeros(len(corpus.concepts), bool) if known is None else known
    reasons = {lang: _length_reasons(d.unique_words, weighting) for lang, d in corpus.languages.items()}
    shared = (corpus.document_counts() > 0).sum(axis=1) + outside > 1
    _mark_without_counterpart(corpus, reasons, shared, outside)
    rows = {lang: np.flatnonzero(numbers == _USED) for lang, numbers in reasons.items()}
    candidates = corpus.select_rows(rows)
    vocabularies = candidates.fit_vocabularies(weighting)
    for lang, has_word in candidates.have_known_word(vocabularies).items():
        reasons[lang][rows[lang][~has_word]] = _NUMBER_OF[RARE_WORDS]
    _mark_without_counterpart(corpus, reasons, shared, outside)
    chosen = candidates.select_rows({lang: np.flatnonzero(reasons[lang][rows[lang]] == _USED) for lang in rows})
    usage = CorpusUsage({lang: _usage(numbers) for lang, numbers in reasons.items()}, _concept_usage(chosen, shared))
    return Selection(chosen, {lang: vocabularies[lang] for lang in chosen.languages}, usage, corpus)


def list_reasons(documents: Usage, weighting: Weighting) -> str:
    """Why documents are left out: every reason, with the number of documents and what it means."""
    reasons = [
        f"{count:,} {_DOCUMENT_PHRASES.get(reason, reason)} ({explain_reason(reason, weighting)})"
        for reason, count in documents.left_out.items()
    ]
    return f"of {plural(documents.read, 'document')}, {'; '.join(reasons)}"


def different_names(corpus: CountedCorpus, langs: Iterable[str]) -> str:
    """The first concept of some languages, where no concept of one is in another."""
    first = {lang: corpus.languages[lang] for lang in islice(langs, 4)}
    names = "; ".join(f"{lang}: {quoted(corpus.concepts[d.concepts[0]])}" for lang, d in first.items())
    return f"; the concepts of different languages probably have different names ({names})"


def _left_out_warnings(usage: CorpusUsage, weighting: Weighting, corpus: CountedCorpus) -> Iterator[Cr5Warning]:
    """Yield a warning for each language without a used document, and one if most documents have the wrong length."""
    used = [lang for lang, documents in usage.languages.items() if documents.used]
    for lang, documents in usage.languages.items():
        if not documents.used:
            is_alone = documents.left_out.get(ONE_LANGUAGE) == documents.read
            examples = different_names(corpus, [lang, *used]) if is_alone else ""
            yield LanguageLeftOut(f"language {lang} is left out: {list_reasons(documents, weighting)}{examples}")
    documents = usage.documents
    if sum(documents.left_out.get(reason, 0) for reason in (TOO_SHORT, TOO_LONG)) > documents.read / 2:
        yield DocumentsLeftOut(f"most documents are left out: {list_reasons(documents, weighting)}")


def _few_documents_warnings(chosen: CountedCorpus) -> Iterator[Cr5Warning]:
    """Yield a warning for each language that has few concepts, where another has enough."""
    concepts = {lang: len(np.unique(documents.concepts)) for lang, documents in chosen.languages.items()}
    if max(concepts.values(), default=0) < ENOUGH_CONCEPTS:
        return
    for lang, count in concepts.items():
        if count < ENOUGH_CONCEPTS:
            yield FewDocuments(
                f"language {lang} shares only {count:,} concepts with the others, too few to find most of its "
                f"counterparts; add documents until it shares at least {ENOUGH_CONCEPTS} concepts, or better 1,000"
            )


def _several_codes_warnings(chosen: CountedCorpus) -> Iterator[Cr5Warning]:
    """Yield a warning for the codes of each language that has several."""
    for codes in regional_codes(chosen.languages):
        yield SeveralCodes(
            f"{' and '.join(codes)} are treated as different languages, each learned from its own documents only; give "
            "them the same code unless you mean them to be different"
        )


def _repeated_documents_warnings(chosen: CountedCorpus) -> Iterator[Cr5Warning]:
    """Yield a warning if more than ``MANY_REPEATED`` of the documents of a language repeat others."""
    repeated = chosen.count_same_words()
    many = {lang: n for lang, n in repeated.items() if n >= MANY_REPEATED * len(chosen.languages[lang])}
    if many:
        counts = ", ".join(f"{lang} {n:,} of {len(chosen.languages[lang]):,}" for lang, n in many.items() if n)
        yield RepeatedDocuments(
            f"some documents have exactly the same words as another one ({counts}): repeated documents weigh more, and "
            "concepts with the same text cannot be told apart; leave them out unless you want that"
        )


def _length_reasons(unique_words: Ints, weighting: Weighting) -> Ints:
    """The number of the reason for which each document is left out for its length, _USED if it is not."""
    reasons = np.full(len(unique_words), _USED, np.int8)
    reasons[unique_words > weighting.max_unique] = _NUMBER_OF[TOO_LONG]
    reasons[unique_words < weighting.min_unique] = _NUMBER_OF[TOO_SHORT]
    reasons[unique_words == 0] = _NUMBER_OF[NO_WORD]
    return reasons


def _mark_without_counterpart(corpus: CountedCorpus, reasons: Mapping[str, Ints], shared: Mask, outside: Mask) -> None:
    """Mark the used documents of concepts that no other language has a used document of.

    ``shared``: the concepts that two languages or more have documents of, used or not. ``outside``: those that have a
    counterpart outside the corpus.
    """
    languages = outside.astype(np.int64)
    for lang, documents in corpus.languages.items():
        languages[np.unique(documents.concepts[reasons[lang] == _USED])] += 1
    number = np.where(shared, _NUMBER_OF[NO_COUNTERPART], _NUMBER_OF[ONE_LANGUAGE])
    for lang, documents in corpus.languages.items():
        alone = (reasons[lang] == _USED) & (languages[documents.concepts] < 2)
        reasons[lang][alone] = number[documents.concepts[alone]]


def _usage(reasons: Ints) -> Usage:
    counts = np.bincount(reasons, minlength=1 + len(REASONS))
    left_out = Counter({reason: int(counts[number]) for reason, number in _NUMBER_OF.items()})
    return Usage(len(reasons), int(counts[_USED]), _in_order(left_out))


def _concept_usage(chosen: CountedCorpus, shared: Mask) -> Usage:
    used = int((chosen.document_counts().sum(axis=1) > 0).sum()) if chosen.languages else 0
    left_out = Counter({ONE_LANGUAGE: int((~shared).sum()), NO_COUNTERPART: int(shared.sum()) - used})
    return Usage(len(shared), used, _in_order(left_out))


def _in_order(left_out: Counter[str]) -> dict[str, int]:
    return {reason: left_out[reason] for reason in REASONS if left_out[reason]}
