"""Cleaning the documents of a source: language codes, languages that are missing or wrong, near-duplicates."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cr5.corpus import identification, languages
from cr5.corpus.documents import Batch, Document
from cr5.corpus.duplicates import Duplicates
from cr5.corpus.inputs import in_batches
from cr5.errors import CorpusError
from cr5.features.tokeniser import Tokeniser
from cr5.sources.files import ErrorHandler, raise_error

SAMPLE_DOCUMENTS = 1000
"""How many documents of each language are tokenised to estimate the share of short ones."""


@dataclass
class SourceSummary:
    """Counts of documents by language: what was read from a source, what was kept, and what looked wrong."""

    read: Counter[str] = field(default_factory=Counter)  # all documents of the source
    documents: Counter[str] = field(default_factory=Counter)  # those that were kept
    guessed: Counter[str] = field(default_factory=Counter)  # those whose language was identified from their text
    confidence: dict[str, float] = field(default_factory=dict)  # the sum of the probabilities of these languages
    # Texts that are evidently in another language, by declared and evident language, and the concept of the first one.
    foreign: Counter[tuple[str, str]] = field(default_factory=Counter)
    foreign_examples: dict[tuple[str, str], str] = field(default_factory=dict)
    duplicates: Counter[str] = field(default_factory=Counter)  # texts that nearly repeat one of another concept
    sampled: Counter[str] = field(default_factory=Counter)  # documents whose words were counted
    short: Counter[str] = field(default_factory=Counter)  # those of them with too few different words
    concepts: int = 0
    shared: int = 0  # concepts in two languages or more
    renamed: dict[str, str] = field(default_factory=dict)  # BCP 47 codes of languages that the source spells otherwise

    def by_language(self) -> dict[str, "LanguageSummary"]:
        """The counts of every language."""
        langs = sorted({*self.documents, *self.guessed, *self.duplicates, *(lang for lang, _ in self.foreign)})
        return {
            lang: LanguageSummary(
                self.documents[lang],
                self.guessed[lang],
                self.confidence[lang] / self.guessed[lang] if self.guessed[lang] else None,
                {other: count for (declared, other), count in self.foreign.items() if declared == lang},
                self.duplicates[lang],
                self.short[lang] / self.sampled[lang] if self.sampled[lang] else None,
            )
            for lang in langs
        }

    def missing(self, langs: Collection[str]) -> list[str]:
        """Those of these languages, in any spelling, of which the source has no document."""
        return [lang for lang in langs if not self.read[languages.normalise(lang)]]

    def to_json(self) -> dict[str, object]:
        """The counts as plain values."""
        return {
            "concepts": self.concepts,
            "shared": self.shared,
            "languages": {lang: counts._asdict() for lang, counts in self.by_language().items()},
            "renamed": self.renamed,
        }


class LanguageSummary(NamedTuple):
    """The counts of one language; ``confidence`` is a mean, ``short`` a share, estimated from a sample."""

    documents: int
    guessed: int
    confidence: float | None
    foreign: dict[str, int]
    duplicates: int
    short: float | None


def clean(
    documents: Iterable[Document],
    summary: SourceSummary,
    *,
    langs: Collection[str] | None = None,
    drop_foreign: bool = False,
    dedupe: bool = False,
    min_unique: int = 0,
    handle_error: ErrorHandler = raise_error,
) -> Iterator[Batch]:
    """Yield the documents in batches, with BCP 47 language codes, and count them in ``summary``.

    ``langs`` keeps only these languages, in any spelling. ``drop_foreign`` drops texts that are evidently not in their
    declared language, ``dedupe`` those that nearly repeat a text of another concept; otherwise both are only counted.
    Documents with fewer different words than ``min_unique`` are counted as short, in a sample of each language.
    """
    wanted = None if langs is None else {languages.normalise(lang) for lang in langs}
    duplicates = Duplicates()
    language_of_concept: dict[int, str] = {}
    for batch in in_batches(_in_known_languages(documents, summary, wanted, drop_foreign, handle_error)):
        is_duplicate = duplicates.mark(batch.rows)
        rows = batch.rows.filter(pa.array(~is_duplicate)) if dedupe and is_duplicate.any() else batch.rows
        summary.documents.update(rows["lang"].to_pylist())
        summary.duplicates.update(batch.rows["lang"].filter(pa.array(is_duplicate)).to_pylist())
        _count_concepts(rows, language_of_concept, summary)
        if min_unique:
            _count_short(rows, min_unique, summary)
        if rows.num_rows:
            yield Batch(rows, batch.source, batch.lines if rows is batch.rows else batch.lines[~is_duplicate])


def _in_known_languages(
    documents: Iterable[Document],
    summary: SourceSummary,
    wanted: set[str] | None,
    drop_foreign: bool,
    handle_error: ErrorHandler,
) -> Iterator[Document]:
    for document in documents:
        declared, guess = document.lang, None
        if not declared.strip():
            guess = identification.guess(document.text)
            lang = guess.lang
            if lang == identification.UNKNOWN:
                handle_error(
                    "language unknown",
                    f"{document.concept}: its language cannot be identified; name the language in the source, or "
                    'skip such documents with `on_error="skip"`',
                )
                continue
        else:
            try:
                lang = _normalise(declared)
            except CorpusError as error:
                handle_error("invalid language code", f"{document.concept}: {error}")
                continue
        summary.read[lang] += 1
        if wanted is not None and lang not in wanted:
            continue
        if guess is not None:
            summary.guessed[lang] += 1
            summary.confidence[lang] = summary.confidence.get(lang, 0.0) + guess.confidence
        else:
            if lang != declared:
                summary.renamed[declared] = lang
            if (evident := identification.find_foreign_language(document.text, lang)) is not None:
                summary.foreign[lang, evident.lang] += 1
                summary.foreign_examples.setdefault((lang, evident.lang), document.concept)
                if drop_foreign:
                    continue
        yield Document(document.concept, lang, document.text, document.title, document.url)


def _count_concepts(rows: pa.RecordBatch, language_of_concept: dict[int, str], summary: SourceSummary) -> None:
    """Count concepts; ``language_of_concept`` has the language of each by its hash, "" for several languages."""
    for concept, lang in zip(rows["concept"].to_pylist(), rows["lang"].to_pylist(), strict=True):
        previous = language_of_concept.setdefault(hash(concept), lang)
        if previous not in ("", lang):
            language_of_concept[hash(concept)] = ""
            summary.shared += 1
    summary.concepts = len(language_of_concept)


def _count_short(rows: pa.RecordBatch, min_unique: int, summary: SourceSummary) -> None:
    langs = rows["lang"].dictionary_encode()
    for i, lang in enumerate(langs.dictionary.to_pylist()):
        sample = np.flatnonzero(langs.indices.to_numpy() == i)[: SAMPLE_DOCUMENTS - summary.sampled[lang]]
        _, ids, offsets = Tokeniser()(rows["text"].take(pa.array(sample)), lang)
        unique_words = (len(set(ids[start:end].tolist())) for start, end in pairwise(offsets))
        summary.short[lang] += sum(count < min_unique for count in unique_words)
        summary.sampled[lang] += len(sample)


_normalise = lru_cache(1024)(languages.normalise)
