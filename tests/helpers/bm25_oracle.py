"""BM25 by dense arithmetic over documents in memory, and documents of random words to compare with it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from cr5 import Cr5, Document
from cr5.index.terms import OPENING_WEIGHT, TITLE_WEIGHT, QueryWord, TermCounts, opening


class Words(NamedTuple):
    """The language of a document, and how often each word occurs in it."""

    lang: str
    counts: Mapping[str, int]


def random_words(number: int, langs: Sequence[str], seed: int = 0, vocabulary: int = 60) -> list[Words]:
    """Documents of up to 40 words, frequent ones and rare ones; some documents have none."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 40, number)
    words = [(rng.zipf(1.4, length) % vocabulary).tolist() for length in lengths]
    return [Words(langs[i % len(langs)], Counter(f"w{word}" for word in own)) for i, own in enumerate(words)]


def words_of(model: Cr5, documents: Iterable[Document]) -> dict[str, Words]:
    """The words that documents of an index are found by."""
    found = {}
    for d in documents:
        counts = Counter[str]()
        fields = ((d.text, 1), (d.concept, 1), (opening(d.text), OPENING_WEIGHT), (d.title, TITLE_WEIGHT))
        for text, weight in fields:
            for token in model.settings.tokeniser.words(text, d.lang):
                counts[token] += weight
        found[f"{d.lang}:{d.concept}"] = Words(d.lang, counts)
    return found


def term_counts(documents: Sequence[Words]) -> TermCounts:
    """The terms of documents as a store gets them."""
    columns: dict[tuple[str, str], int] = {}
    entries = [
        (row, columns.setdefault((lang, word), len(columns)), count)
        for row, (lang, counts) in enumerate(documents)
        for word, count in counts.items()
    ]
    row, column, count = np.array(entries, np.int64).reshape(-1, 3).T
    matrix = csr_array((count.astype(np.int32), (row, column)), shape=(len(documents), len(columns)))
    return TermCounts([word for _, word in columns], [lang for lang, _ in columns], matrix)


def inverse_document_frequencies(documents: Mapping[str, Words], terms: Iterable[str], lang: str) -> dict[str, float]:
    """ln(1 + (n - df + 1/2) / (df + 1/2)) of each term in the documents of a language."""
    own = [document.counts for document in documents.values() if document.lang == lang]
    df = {term: sum(term in counts for counts in own) for term in terms}
    return {term: float(np.log(1 + (len(own) - df[term] + 0.5) / (df[term] + 0.5))) for term in df}


def query_words(documents: Mapping[str, Words], terms: Mapping[str, float], lang: str) -> list[QueryWord]:
    """A word for each term: its weight is the given one times its inverse document frequency."""
    idf = inverse_document_frequencies(documents, terms, lang)
    return [QueryWord(weight * idf[term], {term: 1.0}) for term, weight in terms.items()]


def bm25(documents: Mapping[str, Words], words: Sequence[QueryWord], lang: str) -> dict[str, float]:
    """score = sum of weight tf / (tf + 1.2 (1/4 + 3/4 length / mean length)), tf = sum of share x count."""
    own = {name: document.counts for name, document in documents.items() if document.lang == lang}
    lengths = {name: sum(counts.values()) for name, counts in own.items()}
    mean = sum(lengths.values()) / max(len(own), 1)
    scores = {}
    for name, counts in own.items():
        score = 0.0
        for word in words:
            tf = sum(share * counts.get(term, 0) for term, share in word.terms.items())
            score += word.weight * tf / (tf + 1.2 * (0.25 + 0.75 * lengths[name] / mean)) if tf else 0
        if score > 0:
            scores[name] = score
    return scores


def assert_best(ids: Sequence[str], scores: Any, oracle: Mapping[str, float], k: int) -> None:
    """Check that these are the k best documents with their BM25; equal ones may stand in any order."""
    best = sorted(oracle.values(), reverse=True)[:k]
    assert len(set(ids)) == len(ids) == len(best)
    np.testing.assert_allclose(scores, best, rtol=1e-5)
    np.testing.assert_allclose([oracle[name] for name in ids], best, rtol=1e-5)
