"""What a corpus holds: documents and words per language, shared concepts, duplicates, what filters drop."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from cr5.corpus.documents import Batch
from cr5.features.tfidf import Weighting
from cr5.features.tokeniser import Tokeniser
from cr5.progress import ProgressCallback, no_progress
from cr5.training.counted_corpus import count_corpus


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
    too_short: int
    too_long: int
    alone: int
    trained: int


@dataclass(frozen=True)
class Inspection:
    """A corpus in figures.

    Of a language: different words (``unique_words``) and tokens (``words``) of all documents, the vocabulary that
    training would use; ``several`` concepts have more than one document (their rows are summed into the
    concept), ``duplicates`` repeat the text of an earlier document; then what training would drop:
    documents with too few or too many different words, and of those left, documents of concepts that no
    other language has (``alone``); ``trained`` documents remain. ``shared``: concepts that two languages both have.
    """

    languages: dict[str, LanguageFacts]
    shared: dict[str, dict[str, int]]
    concepts: int
    concepts_shared: int

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def inspect(
    batches: Iterable[Batch], tokeniser: Tokeniser, weighting: Weighting, *, progress: ProgressCallback = no_progress
) -> Inspection:
    """Count what a corpus contains, in one pass."""
    copies: Counter[str] = Counter()
    corpus = count_corpus(_count_copies(batches, copies), tokeniser, progress=progress)
    present = corpus.document_counts() > 0
    sized = corpus.with_unique_words(weighting.min_unique, weighting.max_unique)
    trained = sized.with_shared_concepts()
    languages = {}
    for i, (lang, documents) in enumerate(corpus.languages.items()):
        counts, kept = documents.local_counts, trained.languages[lang].local_counts.matrix
        frequent = (kept.tocsc().indptr[1:] - kept.tocsc().indptr[:-1]) >= weighting.min_documents
        languages[lang] = LanguageFacts(
            documents=len(documents),
            concepts=int(present[:, i].sum()),
            unique_words=len(counts.words),
            words=int(counts.matrix.sum()),
            vocabulary=min(int(frequent.sum()), weighting.max_words),
            several=int((corpus.document_counts()[:, i] > 1).sum()),
            duplicates=copies[lang],
            too_short=int((counts.unique_words < weighting.min_unique).sum()),
            too_long=int((counts.unique_words > weighting.max_unique).sum()),
            alone=len(sized.languages[lang]) - len(trained.languages[lang]),
            trained=len(trained.languages[lang]),
        )
    names = list(languages)
    shared = {
        a: {b: int((present[:, i] & present[:, j]).sum()) for j, b in enumerate(names)} for i, a in enumerate(names)
    }
    return Inspection(languages, shared, len(corpus.concepts), int((present.sum(axis=1) > 1).sum()))


def _count_copies(batches: Iterable[Batch], copies: Counter[str]) -> Iterator[Batch]:
    """Pass batches on and count, per language, texts that were there before; only digests are kept."""
    seen: set[bytes] = set()
    for batch in batches:
        rows = batch.rows
        for lang, text in zip(rows["lang"].to_pylist(), rows["text"].to_pylist(), strict=True):
            digest = hashlib.blake2b(f"{lang}\0{text}".encode(), digest_size=12).digest()
            copies[lang] += digest in seen
            seen.add(digest)
        yield batch
