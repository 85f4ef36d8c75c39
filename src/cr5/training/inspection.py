"""The inspection of a corpus: documents and words by language, shared concepts, duplicates, what training would use."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from cr5.corpus.documents import Batch
from cr5.corpus.skipped import OnError, Skipped
from cr5.errors import CorpusError
from cr5.features.tfidf import Weighting
from cr5.features.tokeniser import Tokeniser
from cr5.hashing import digest
from cr5.progress import ProgressCallback, no_progress
from cr5.training.counted_corpus import CountedCorpus, count_corpus
from cr5.training.selection import CorpusUsage, select_documents


@dataclass(frozen=True)
class LanguageFacts:
    """One language of a corpus."""

    documents: int
    concepts: int
    unique_words: int
    words: int
    vocabulary: int
    several: int
    duplicates: int


@dataclass(frozen=True)
class Inspection:
    """A corpus in figures.

    Of a language: different words (``unique_words``) and tokens (``words``) of all documents, the vocabulary that
    training would use; ``several`` concepts have more than one document, whose rows training sums; ``duplicates``
    repeat the text of an earlier document. ``shared``: concepts that two languages both have. ``usage``: how many
    documents and concepts training would use and leave out. ``notes``: what it would warn of.
    """

    languages: dict[str, LanguageFacts]
    shared: dict[str, dict[str, int]]
    concepts: int
    concepts_shared: int
    usage: CorpusUsage
    notes: list[str]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"usage": self.usage.to_json()}


def inspect(
    batches: Iterable[Batch],
    tokeniser: Tokeniser,
    weighting: Weighting,
    *,
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
    progress: ProgressCallback = no_progress,
) -> Inspection:
    """Count what a corpus contains, in one pass.

    Languages whose codes no model can have are in the figures and the notes, or skipped with ``on_error="skip"``.
    """
    repeated: Counter[str] = Counter()
    corpus = count_corpus(_count_repeated_texts(batches, repeated), tokeniser, progress=progress)
    if on_error == "skip":
        corpus = corpus.with_usable_codes(on_error, skipped)
    present = corpus.document_counts() > 0
    selection = select_documents(corpus, weighting)
    languages = {}
    for i, (lang, documents) in enumerate(corpus.languages.items()):
        counts, vocabulary = documents.local_counts, selection.vocabularies.get(lang)
        languages[lang] = LanguageFacts(
            documents=len(documents),
            concepts=int(present[:, i].sum()),
            unique_words=len(counts.words),
            words=int(counts.matrix.sum()),
            vocabulary=len(vocabulary.words) if vocabulary else 0,
            several=int((corpus.document_counts()[:, i] > 1).sum()),
            duplicates=repeated[lang],
        )
    names = list(languages)
    shared = {
        a: {b: int((present[:, i] & present[:, j]).sum()) for j, b in enumerate(names)} for i, a in enumerate(names)
    }
    return Inspection(
        languages,
        shared,
        len(corpus.concepts),
        int((present.sum(axis=1) > 1).sum()),
        selection.usage,
        [str(note) for note in (*_unusable_codes(corpus), *selection.warnings(weighting))],
    )


def _unusable_codes(corpus: CountedCorpus) -> Iterator[str]:
    """What training would refuse: language codes that cannot name files of a model."""
    try:
        corpus.with_usable_codes("raise", None)
    except CorpusError as error:
        yield str(error)


def _count_repeated_texts(batches: Iterable[Batch], repeated: Counter[str]) -> Iterator[Batch]:
    """Pass batches on, and count by language the texts that repeat an earlier one; only digests are kept."""
    seen: set[bytes] = set()
    for batch in batches:
        rows = batch.rows
        for lang, text in zip(rows["lang"].to_pylist(), rows["text"].to_pylist(), strict=True):
            key = digest(f"{lang}\0{text}", 12)
            repeated[lang] += key in seen
            seen.add(key)
        yield batch
