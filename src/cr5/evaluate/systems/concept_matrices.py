"""Matrices of training concepts and words, which several baselines factorise or compare texts with.

What the authors of the baselines leave open was chosen on held-out concepts of msdocs (en-it, da-vi), ddtp (da-it)
and europarl-speeches (en-it); a comment gives the reason for each choice. Some of these concepts may be queries of
published scores; if that helps any system, it helps the baselines.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from cr5._typing import Array, Ints, Sparse
from cr5.corpus.texts import shared_numbers
from cr5.errors import needs_package
from cr5.evaluate.systems.fitted_system import FittedSystem, NotApplicableError
from cr5.evaluate.texts import TokenisedTexts
from cr5.features.tfidf import Vocabulary, Weighting, fit_vocabulary
from cr5.retrieval.block_products import Matrix
from cr5.retrieval.vectors import document_vectors


@dataclass(frozen=True)
class TfidfSystem(FittedSystem):
    """A system that takes a text as its TF-IDF row over the vocabulary of its language."""

    name: str
    features: Mapping[str, Vocabulary]
    report: Mapping[str, Any] = field()  # no default, unlike in ``FittedSystem``

    @property
    def langs(self) -> list[str]:
        return list(self.features)

    def tfidf(self, texts: TokenisedTexts, lang: str) -> Sparse:
        """texts x words: the TF-IDF rows."""
        return self.vocabulary(lang).transform(texts.counts)

    def vocabulary(self, lang: str) -> Vocabulary:
        """The vocabulary of a language; raises NotApplicableError if the system was not trained on it."""
        if lang not in self.features:
            known = ", ".join(self.features)
            raise NotApplicableError(f"{self.name} was not trained on language {lang}; its languages are {known}")
        return self.features[lang]


@dataclass(frozen=True)
class MappedSystem(TfidfSystem):
    """Texts -> TF-IDF rows, times a matrix of words x rank, normalised to length 1."""

    maps: Mapping[str, Array]

    def words(self, lang: str) -> list[str]:
        return self.vocabulary(lang).words

    def word_vectors(self, lang: str) -> Array:
        self.vocabulary(lang)
        return self.maps[lang]

    def embed(self, texts: TokenisedTexts, lang: str) -> Matrix:
        X, V = self.tfidf(texts, lang), self.maps[lang]
        return document_vectors(X, V, np.zeros(V.shape[1], np.float32))


def fit_vocabularies(training: Mapping[str, TokenisedTexts], weighting: Weighting) -> dict[str, Vocabulary]:
    """The vocabulary of every language."""
    return {lang: fit_vocabulary(texts.counts, weighting) for lang, texts in training.items()}


def vocabulary_sizes(features: Mapping[str, Vocabulary]) -> dict[str, int]:
    """The number of words of every language, for reports."""
    return {lang: len(vocabulary.words) for lang, vocabulary in features.items()}


def fit_tfidf(
    training: Mapping[str, TokenisedTexts], weighting: Weighting
) -> tuple[dict[str, Vocabulary], dict[str, Sparse]]:
    """Every language's vocabulary and its documents' TF-IDF rows."""
    features = fit_vocabularies(training, weighting)
    return features, {lang: vocabulary.transform(training[lang].counts) for lang, vocabulary in features.items()}


def shared_concepts(training: Mapping[str, TokenisedTexts], name: str) -> Ints:
    """The concepts that two or more languages have, sorted; the others relate no languages to each other."""
    concepts = shared_numbers(texts.concepts for texts in training.values())
    if not len(concepts):
        raise NotApplicableError(f"{name} needs training concepts that two languages share; there are none")
    return concepts


def sum_by_concept(X: Sparse, concepts: Ints, chosen: Ints) -> Sparse:
    """Chosen concepts x words: the sum of the rows of each concept. ``chosen`` must be sorted."""
    documents = np.flatnonzero(np.isin(concepts, chosen))
    positions = np.searchsorted(chosen, concepts[documents])
    ones = np.ones(len(positions), np.float32)
    members = csr_array((ones, (positions, documents)), shape=(len(chosen), len(concepts)))
    return csr_array(members @ X)


def sparse_unit_rows(X: Sparse) -> Sparse:
    """x / |x| for every row x; an empty row stays empty."""
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)))
    data = X.data / np.repeat(np.where(norms > 0, norms, 1), np.diff(X.indptr))
    return csr_array((data.astype(np.float32), X.indices, X.indptr), shape=X.shape)


class TruncatedSvd(NamedTuple):
    """X = left diag(values) right': left is rows x rank, right columns x rank."""

    left: Array
    values: Array
    right: Array


def truncated_svd(X: Sparse, rank: int, seed: int, name: str) -> TruncatedSvd:
    """The first ``rank`` singular vectors of X, or as many as it has."""
    with needs_package(name, "scikit-learn", "eval"):
        from sklearn.utils.extmath import randomized_svd
    if not X.nnz:
        raise NotApplicableError(f"{name} needs words that occur in {Weighting().min_documents} documents or more")
    U, values, Vt = randomized_svd(X, min(rank, *X.shape), random_state=seed)
    kept = values > 1e-5 * values[0]  # the others are rounding errors
    # So are the entries for empty rows and columns, which normalising texts to length 1 would make large.
    U[np.diff(X.indptr) == 0] = 0
    Vt[:, np.bincount(X.indices, minlength=X.shape[1]) == 0] = 0
    return TruncatedSvd(U[:, kept], values[kept], Vt[kept].T)


def split_by_language(stacked: Array, features: Mapping[str, Vocabulary]) -> dict[str, Array]:
    """Words of all languages x rank -> each language's block of rows."""
    ends = np.cumsum([len(vocabulary.words) for vocabulary in features.values()])
    return dict(zip(features, np.split(stacked, ends[:-1]), strict=True))


def svd_report(features: Mapping[str, Vocabulary], concepts: Ints, svd: TruncatedSvd) -> dict[str, Any]:
    return {
        "concepts": len(concepts),
        "words": vocabulary_sizes(features),
        "rank": len(svd.values),
        "signature": f"rank {len(svd.values)}",
    }
