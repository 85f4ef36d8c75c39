"""Cleaning the documents of a source: language codes, languages that are missing or wrong, near-duplicates."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
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
from cr5.sources.accounting import DUPLICATE, FOREIGN, UNWANTED_LANGUAGE, Accounting

SAMPLE_DOCUMENTS = 1000
"""How many documents of each language are in the random sample that estimates the share of short ones."""
EXAMPLE_CONCEPTS = 3  # examples for each language


@dataclass
class SourceSummary:
    """Counts of documents by language: what was read from a source, what was kept, and what looked wrong."""

    accounting: Accounting = field(default_factory=Accounting)
    guessed: Counter[str] = field(default_factory=Counter)  # documents whose language was guessed from their text
    confidence: dict[str, float] = field(default_factory=dict)  # the sum of the probabilities of these languages
    # Texts that are evidently in another language, by declared and evident language, and the concept of the first one.
    foreign: Counter[tuple[str, str]] = field(default_factory=Counter)
    foreign_examples: dict[tuple[str, str], str] = field(default_factory=dict)
    duplicates: Counter[str] = field(default_factory=Counter)  # texts that nearly repeat one of another concept
    sampled: Counter[str] = field(default_factory=Counter)  # documents in the random sample whose words were counted
    short: Counter[str] = field(default_factory=Counter)  # sampled documents with too few different words
    concepts: int = 0
    shared: int = 0  # concepts in two languages or more
    example_concepts: dict[str, list[str]] = field(default_factory=dict)  # the first of every language
    renamed: dict[str, str] = field(default_factory=dict)  # BCP 47 codes of languages that the source spells otherwise

    @property
    def documents(self) -> Counter[str]:
        """The documents that were kept."""
        return self.accounting.written

    @property
    def read(self) -> Counter[str]:
        """All documents of the source."""
        return self.accounting.read

    @property
    def hardly_shared(self) -> bool:
        """Whether less than one concept in a hundred is in two languages, so that their names do not seem to match."""
        return 100 * self.shared < self.concepts

    def by_language(self) -> dict[str, "LanguageSummary"]:
        """The counts of every language that is wanted."""
        skipped: dict[str, dict[str, int]] = {}
        for (lang, reason), count in self.accounting.skipped_of.items():
            if lang and reason != UNWANTED_LANGUAGE:
                skipped.setdefault(lang, {})[reason] = count
        langs = sorted({*self.documents, *self.guessed, *skipped, *self.accounting.langs_of_skipped_files})
        return {
            lang: LanguageSummary(
                self.documents[lang],
                skipped.get(lang, {}),
                self.guessed[lang],
                self.confidence[lang] / self.guessed[lang] if self.guessed[lang] else None,
                {other: count for (declared, other), count in self.foreign.items() if declared == lang},
                self.duplicates[lang],
                self.short[lang] / self.sampled[lang] if self.sampled[lang] else None,
            )
            for lang in langs
        }

    def missing(self, langs: Collection[str]) -> list[str]:
        """The given languages, in any spelling, in which the source has no document."""
        return [lang for lang in langs if not self.read[languages.checked_code(lang)]]

    def to_json(self) -> dict[str, object]:
        """The counts as plain values."""
        return self.accounting.to_json() | {
            "concepts": self.concepts,
            "shared": self.shared,
            "example_concepts": self.example_concepts,
            "languages": {lang: counts._asdict() for lang, counts in self.by_language().items()},
            "renamed": self.renamed,
        }


class LanguageSummary(NamedTuple):
    """The counts of one language; ``confidence`` is a mean, ``short`` a share, estimated from a sample."""

    documents: int
    skipped: dict[str, int]
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
) -> Iterator[Batch]:
    """Yield the documents in batches, with BCP 47 language codes, and count them in ``summary``.

    ``langs`` keeps only these languages, in any spelling. ``drop_foreign`` drops texts that are evidently not in their
    declared language, ``dedupe`` those that nearly repeat a text of another concept; otherwise both are only counted.
    Documents with fewer different words than ``min_unique`` are counted as short, in a sample of each language.
    """
    wanted = None if langs is None else {languages.checked_code(lang) for lang in langs}
    duplicates = Duplicates()
    short_sample = _ShortSample(min_unique, summary)
    language_of_concept: dict[int, str] = {}
    for batch in in_batches(_in_known_languages(documents, summary, wanted, drop_foreign), fields=True):
        is_duplicate = duplicates.mark(batch.rows)
        repeated = batch.rows.filter(pa.array(is_duplicate))
        rows = batch.rows.filter(pa.array(~is_duplicate)) if dedupe and repeated.num_rows else batch.rows
        summary.accounting.written.update(rows["lang"].to_pylist())
        summary.duplicates.update(repeated["lang"].to_pylist())
        if dedupe:
            for concept, lang in zip(repeated["concept"].to_pylist(), repeated["lang"].to_pylist(), strict=True):
                summary.accounting.skip_document(DUPLICATE, lang, concept)
        _count_concepts(rows, language_of_concept, summary)
        if min_unique:
            short_sample.add(rows)
        if rows.num_rows:
            yield Batch(rows, batch.source, batch.lines if rows is batch.rows else batch.lines[~is_duplicate])


def _in_known_languages(
    documents: Iterable[Document], summary: SourceSummary, wanted: set[str] | None, drop_foreign: bool
) -> Iterator[Document]:
    accounting = summary.accounting
    for document in documents:
        declared, guess = document.lang, None
        if not declared.strip():
            guess = identification.guess(document.text)
            lang = guess.lang
            if lang == identification.UNKNOWN:
                message = f"{document.concept}: its language cannot be guessed; name the language in the source"
                accounting.unusable_document("language unknown", "", message, is_counted=True)
                continue
        else:
            try:
                lang = languages.checked_code(declared)
            except CorpusError as error:
                message = f"{document.concept}: {error}"
                accounting.unusable_document("invalid language code", declared, message, is_counted=True)
                continue
        if wanted is not None and lang not in wanted:
            accounting.skip_document(UNWANTED_LANGUAGE, lang, document.concept)
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
                    accounting.skip_document(FOREIGN, lang, document.concept)
                    continue
        yield document if lang == declared else replace(document, lang=lang)


def _count_concepts(rows: pa.RecordBatch, language_of_concept: dict[int, str], summary: SourceSummary) -> None:
    """Count concepts; ``language_of_concept`` has the language of each by its hash, "" for several languages."""
    for concept, lang in zip(rows["concept"].to_pylist(), rows["lang"].to_pylist(), strict=True):
        examples = summary.example_concepts.setdefault(lang, [])
        if len(examples) < EXAMPLE_CONCEPTS and concept not in examples:
            examples.append(concept)
        previous = language_of_concept.setdefault(hash(concept), lang)
        if previous not in ("", lang):
            language_of_concept[hash(concept)] = ""
            summary.shared += 1
    summary.concepts = len(language_of_concept)


class _ShortSample:
    """A uniform sample of every language's documents, and how many of it are short.

    Every document gets a random number, and those with the smallest numbers are the sample. The first documents would
    not represent the source: it is sorted by path, and the pages of a folder resemble each other.
    """

    def __init__(self, min_unique: int, summary: SourceSummary) -> None:
        self.min_unique, self.summary = min_unique, summary
        self.random = np.random.default_rng(0)
        self.drawn: dict[str, list[tuple[float, bool]]] = {}  # sorted numbers, and whether the document is short

    def add(self, rows: pa.RecordBatch) -> None:
        """Draw from more documents."""
        langs = rows["lang"].dictionary_encode()
        numbers = self.random.random(rows.num_rows)
        for i, lang in enumerate(langs.dictionary.to_pylist()):
            sample = self.drawn.get(lang, [])
            limit = sample[-1][0] if len(sample) == SAMPLE_DOCUMENTS else 1.0
            chosen = np.flatnonzero((langs.indices.to_numpy() == i) & (numbers < limit))
            chosen = chosen[np.argsort(numbers[chosen])][:SAMPLE_DOCUMENTS]
            _, ids, offsets = Tokeniser()(rows["text"].take(pa.array(chosen)), lang)
            is_short = [len(set(ids[start:end].tolist())) < self.min_unique for start, end in pairwise(offsets)]
            sample = sorted([*sample, *zip(numbers[chosen].tolist(), is_short, strict=True)])[:SAMPLE_DOCUMENTS]
            self.drawn[lang] = sample
            self.summary.sampled[lang] = len(sample)
            self.summary.short[lang] = sum(short for _, short in sample)
