"""On the way into a corpus: one code per language, a language for every text, and what is out of place."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cr5.corpus import identification, languages
from cr5.corpus.documents import Batch, Document, in_batches
from cr5.corpus.duplicates import Duplicates
from cr5.errors import CorpusError
from cr5.features.tokeniser import Tokeniser
from cr5.sources.files import ErrorHandler, raise_error

SAMPLE = 1000  # documents of a language that tell how many are short


@dataclass
class SourceSummary:
    """What passed by, per language, what became ``documents``, and what was out of place.

    ``guessed``: the source did not name the language; ``confidence`` sums how sure the guesses were. ``foreign``:
    texts evidently in another language than they say, counted by both, each with the concept of its first case in
    ``examples``. ``duplicates``: texts that nearly repeat one of another concept. ``short``: documents with too few
    different words, among the ``judged``. ``concepts`` counts all, and ``shared`` those in two languages or more.
    ``renamed``: codes as the source wrote them.
    """

    passed: Counter[str] = field(default_factory=Counter)
    documents: Counter[str] = field(default_factory=Counter)
    guessed: Counter[str] = field(default_factory=Counter)
    confidence: dict[str, float] = field(default_factory=dict)
    foreign: Counter[tuple[str, str]] = field(default_factory=Counter)
    duplicates: Counter[str] = field(default_factory=Counter)
    examples: dict[tuple[str, str], str] = field(default_factory=dict)
    judged: Counter[str] = field(default_factory=Counter)
    short: Counter[str] = field(default_factory=Counter)
    concepts: int = 0
    shared: int = 0
    renamed: dict[str, str] = field(default_factory=dict)

    def by_language(self) -> dict[str, "LanguageSummary"]:
        """All of it by language."""
        langs = sorted({*self.documents, *self.guessed, *self.duplicates, *(lang for lang, _ in self.foreign)})
        return {
            lang: LanguageSummary(
                self.documents[lang],
                self.guessed[lang],
                self.confidence[lang] / self.guessed[lang] if self.guessed[lang] else None,
                {other: count for (declared, other), count in self.foreign.items() if declared == lang},
                self.duplicates[lang],
                self.short[lang] / self.judged[lang] if self.judged[lang] else None,
            )
            for lang in langs
        }

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {
            "concepts": self.concepts,
            "shared": self.shared,
            "languages": {lang: figures._asdict() for lang, figures in self.by_language().items()},
            "renamed": self.renamed,
        }


class LanguageSummary(NamedTuple):
    """One language of an summary; ``short`` is a share, by a sample."""

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
    """Documents with their languages by BCP 47, in batches; what is out of place is counted and may be dropped.

    ``langs`` keeps these languages only, however they are spelled. Documents with fewer different words than
    ``min_unique`` are short, which is looked at in the first 1,000 of every language.
    """
    wanted = None if langs is None else {languages.normalise(lang) for lang in langs}
    seen = Duplicates()
    found: dict[int, str] = {}
    for batch in in_batches(_in_language(documents, summary, wanted, drop_foreign, handle_error)):
        marked = seen.mark(batch.rows)
        rows = batch.rows.filter(pa.array(~marked)) if dedupe and marked.any() else batch.rows
        summary.documents.update(rows["lang"].to_pylist())
        summary.duplicates.update(batch.rows["lang"].filter(pa.array(marked)).to_pylist())
        _count_concepts(rows, found, summary)
        if min_unique:
            _count_short(rows, min_unique, summary)
        if rows.num_rows:
            yield Batch(rows, batch.source, batch.lines if rows is batch.rows else batch.lines[~marked])


def _in_language(
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
                    f"{document.concept}: the language of its text cannot be told; name it or pass --on-error skip",
                )
                continue
        else:
            try:
                lang = _normalise(declared)
            except CorpusError as error:
                handle_error("no language code", f"{document.concept}: {error}")
                continue
        summary.passed[lang] += 1
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
                summary.examples.setdefault((lang, evident.lang), document.concept)
                if drop_foreign:
                    continue
        yield Document(document.concept, lang, document.text, document.title, document.url)


def _count_concepts(rows: pa.RecordBatch, found: dict[int, str], summary: SourceSummary) -> None:
    """Count concepts and those of several languages; ``found`` has the language of each, "" for several."""
    for concept, lang in zip(rows["concept"].to_pylist(), rows["lang"].to_pylist(), strict=True):
        before = found.setdefault(hash(concept), lang)
        if before not in ("", lang):
            found[hash(concept)] = ""
            summary.shared += 1
    summary.concepts = len(found)


def _count_short(rows: pa.RecordBatch, min_unique: int, summary: SourceSummary) -> None:
    langs = rows["lang"].dictionary_encode()
    for i, lang in enumerate(langs.dictionary.to_pylist()):
        places = np.flatnonzero(langs.indices.to_numpy() == i)[: SAMPLE - summary.judged[lang]]
        _, ids, offsets = Tokeniser()(rows["text"].take(pa.array(places)), lang)
        different = (len(set(ids[start:end].tolist())) for start, end in pairwise(offsets))
        summary.short[lang] += sum(count < min_unique for count in different)
        summary.judged[lang] += len(places)


_normalise = lru_cache(1024)(languages.normalise)
