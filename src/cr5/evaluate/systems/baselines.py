"""Baselines: simpler systems that a model has to beat, and the ceiling that it may reach.

What is left open by their authors was chosen on held-out concepts of msdocs (en-it, da-vi), ddtp (da-it) and
europarl-speeches (en-it). Some of these may be among the queries of published scores: if that helps anyone, it
helps the baselines. The reason stands beside each choice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, hstack, vstack

from cr5._typing import Array, Ints, Sparse
from cr5.errors import Cr5Error
from cr5.evaluate.systems.space import NotApplicableError, Space
from cr5.evaluate.texts import TokenisedTexts
from cr5.features.counts import WordCounts
from cr5.features.tfidf import (
    Vocabulary,
    Weighting,
    document_frequencies,
    fit_vocabulary,
    merge_frequencies,
    remap_columns,
    select_vocabulary,
    tfidf_rows,
)
from cr5.retrieval.block_products import Rows
from cr5.retrieval.vectors import document_vectors

INDEX = 10_000  # concepts that CL-ESA compares a text with, at most
STRONGEST = 500  # of these comparisons, how many it keeps
ROWS = 1000  # texts that it compares at once: their products with the index fill 40 MB
SATURATION, LENGTH = 1.2, 0.75  # BM25's k1 and b, as Lucene has them


# Shared strings


def shared_tokens(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> Space:
    """The leak floor: TF-IDF rows over one vocabulary for all languages, also for languages not trained on.

    Two texts are alike only where they share a string: a name, a number, a borrowed word. The IDF comes
    from the training texts; a word that they lack counts as one that occurs in none of them.
    """
    return _SharedTokens.fit([texts.counts for texts in training.values()])


@dataclass(frozen=True)
class _SharedTokens(Space):
    """``columns`` grows by every new word: rows of one call have the same width, those of a later call may be wider."""

    columns: dict[str, int]
    idf: Array
    unseen: float  # the idf of a word that training lacks
    report: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def fit(cls, parts: Sequence[WordCounts]) -> "_SharedTokens":
        found = merge_frequencies(document_frequencies(part) for part in parts)
        features = select_vocabulary(found, Weighting(min_documents=0, max_words=len(found.words)))
        return cls(dict(features.index), features.idf, np.log(1 + found.documents) + 1, {"words": len(features.words)})

    def embed(self, texts: TokenisedTexts, lang: str) -> Rows:
        return self.rows([texts.counts])[0]

    def pair(self, queries: TokenisedTexts, source: str, candidates: TokenisedTexts, target: str) -> tuple[Rows, Rows]:
        left, right = self.rows([queries.counts, candidates.counts])
        return left, right

    def rows(self, parts: Sequence[WordCounts]) -> list[Sparse]:
        column = self.columns
        moves = [
            np.fromiter((column.setdefault(word, len(column)) for word in part.words), np.int32, len(part.words))
            for part in parts
        ]
        idf = np.pad(self.idf, (0, len(column) - len(self.idf)), constant_values=self.unseen)
        return [
            tfidf_rows(remap_columns(part.matrix, move, len(idf)), idf, "log")
            for part, move in zip(parts, moves, strict=True)
        ]


def bm25(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> Space:
    """Okapi BM25 as Lucene has it; the candidates are its index, and training tells it nothing.

    A query scores, for each of its words as often as it occurs there, idf tf / (tf + k1 (1 - b + b length / mean
    length)), with idf = ln(1 + (n - df + 1/2) / (df + 1/2)) over the n candidates.
    """
    return _Bm25()


class _Bm25(Space):
    report: Mapping[str, Any] = {"k1": SATURATION, "b": LENGTH, "signature": f"k1 {SATURATION}, b {LENGTH}"}

    def pair(self, queries: TokenisedTexts, source: str, candidates: TokenisedTexts, target: str) -> tuple[Rows, Rows]:
        index, asked = candidates.counts, queries.counts
        place = {word: i for i, word in enumerate(index.words)}
        columns = np.fromiter((place.get(word, -1) for word in asked.words), np.int32, len(asked.words))
        return remap_columns(asked.matrix, columns, len(place)).astype(np.float32), _bm25_weights(index.matrix)


def _bm25_weights(counts: Sparse) -> Sparse:
    """Documents x words: idf tf / (tf + k1 (1 - b + b length / mean length))."""
    n, width = counts.shape
    documents = np.bincount(counts.indices, minlength=width)
    idf = np.log1p((n - documents + 0.5) / (documents + 0.5))
    lengths = np.asarray(counts.sum(axis=1), np.float64)
    limits = SATURATION * (1 - LENGTH + LENGTH * lengths / max(lengths.sum() / max(n, 1), 1e-12))
    tf = counts.data.astype(np.float64)
    data = idf[counts.indices] * tf / (tf + np.repeat(limits, np.diff(counts.indptr)))
    return csr_array((data.astype(np.float32), counts.indices, counts.indptr), shape=counts.shape)


# One map a language


@dataclass(frozen=True)
class _Mapped(Space):
    """Texts -> TF-IDF rows -> times a matrix, words x rank -> length 1."""

    name: str
    features: Mapping[str, Vocabulary]
    maps: Mapping[str, Array]
    report: Mapping[str, Any] = field(default_factory=dict)

    @property
    def langs(self) -> list[str]:
        return list(self.features)

    def words(self, lang: str) -> list[str]:
        """The words of a language, most frequent first."""
        _check(self.name, lang, self.features)
        return self.features[lang].words

    def vectors(self, lang: str) -> Array:
        """The vector of every word: its row of the matrix."""
        _check(self.name, lang, self.features)
        return self.maps[lang]

    def embed(self, texts: TokenisedTexts, lang: str) -> Rows:
        _check(self.name, lang, self.features)
        V = self.maps[lang]
        return document_vectors(self.features[lang].transform(texts.counts), V, np.zeros(V.shape[1], np.float32))


def cl_lsi(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> Space:
    """Crosslingual LSI: the truncated SVD X = U S V' of merged documents, a text x of a language to x V.

    A row of X is a concept that two languages or more have: the TF-IDF rows of its documents, summed within
    a language, side by side over languages. A text has words in its language's block of V only.
    """
    name = "CL-LSI"
    # IDF squared, for nothing else in LSI holds back common words: europarl 49 instead of 32, elsewhere +0.5 to -1.
    features, blocks = _weigh(training, Weighting(idf_power=2.0))
    concepts = _shared(training, name)
    merged = [_by_concept(X, training[lang].concepts, concepts) for lang, X in blocks.items()]
    found = _svd(hstack(merged, format="csr"), rank, seed, name)
    # x V, not x V / S: documents are compared by the rows of U S (Deerwester et al. 1990, whose method Dumais et
    # al. 1997 apply to merged ones), and x V is where x would be among these; scikit-learn does the same. By
    # P@1 it is x V as well: 42 instead of 28 on europarl, within 1 of each other on msdocs.
    return _Mapped(name, features, _split(found.right, features), _report(features, concepts, found))


def inverted(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> Space:
    """Inverted indexing: a word is described by the concepts in whose documents it occurs, a text by its words.

    Words of all languages x concepts that two or more have, 0 or 1, rows of length 1 = U S V'. A word's vector is
    its row of U, a text's the mean of its words' vectors, weighted by TF-IDF. The same string in two
    languages is two words.
    """
    name = "inverted indexing"
    # Log tf: up to 3 points better than tf. IDF to the power 1.5: europarl 34 instead of 28, elsewhere +0.5 to -1.
    features, blocks = _weigh(training, Weighting(idf_power=1.5))
    concepts = _shared(training, name)
    described = [_by_concept(X, training[lang].concepts, concepts).T for lang, X in blocks.items()]
    found = _svd(_unit(_ones(vstack(described, format="csr"))), rank, seed, name)
    # U and not U S: better on all four, msdocs da-vi 87 instead of 61, for the first dimensions drown the others.
    return _Mapped(name, features, _split(found.left, features), _report(features, concepts, found))


# Comparisons with known documents


def cl_esa(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> Space:
    """Crosslingual explicit semantic analysis: a text is described by its cosines with the documents of an index.

    The index of a pair of languages are the training concepts that both have, or ``INDEX`` of them by lot; in
    each language a text meets its own documents of these, several of a concept merged into one.
    """
    # IDF squared: better than IDF on all four, by 1 to 15 points.
    features, blocks = _weigh(training, Weighting(idf_power=2.0))
    concepts = {lang: texts.concepts for lang, texts in training.items()}
    words = {lang: len(own.words) for lang, own in features.items()}
    return _ClEsa(
        features,
        blocks,
        concepts,
        seed,
        {"words": words, "index": INDEX, "strongest": STRONGEST, "signature": f"index {INDEX}, strongest {STRONGEST}"},
    )


@dataclass(frozen=True)
class _ClEsa(Space):
    features: Mapping[str, Vocabulary]
    blocks: Mapping[str, Sparse]
    concepts: Mapping[str, Ints]
    seed: int
    report: Mapping[str, Any] = field(default_factory=dict)

    @property
    def langs(self) -> list[str]:
        return list(self.features)

    def pair(self, queries: TokenisedTexts, source: str, candidates: TokenisedTexts, target: str) -> tuple[Rows, Rows]:
        for lang in (source, target):
            _check("CL-ESA", lang, self.features)
        index = np.intersect1d(self.concepts[source], self.concepts[target])
        if not len(index):
            raise NotApplicableError(f"CL-ESA needs training concepts that {source} and {target} share; there are none")
        if len(index) > INDEX:
            index = np.sort(np.random.default_rng(self.seed).choice(index, INDEX, replace=False))
        return self._describe(queries, source, index), self._describe(candidates, target, index)

    def _describe(self, texts: TokenisedTexts, lang: str, index: Ints) -> Sparse:
        """Texts x index: cosines, the strongest of each text, rows to length 1."""
        X = self.features[lang].transform(texts.counts)
        documents = _unit(_by_concept(self.blocks[lang], self.concepts[lang], index)).T.tocsr()
        parts = [_strongest(X[i : i + ROWS] @ documents, STRONGEST) for i in range(0, X.shape[0], ROWS)]
        return _unit(vstack(parts, format="csr")) if parts else csr_array((0, len(index)), dtype=np.float32)


def _strongest(X: Sparse, k: int) -> Sparse:
    """The k largest entries of every row; also others that are as large as the k-th."""
    # 500 are the best on all four, or nearly: keeping all, msdocs da-vi falls from 90 to 76, europarl from 31 to 5.
    dense = X.toarray()
    if k < dense.shape[1]:
        dense[dense < np.partition(dense, -k, axis=1)[:, [-k]]] = 0
    return csr_array(dense)


# Within a language


def within(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> Space:
    """The ceiling: every language's own TF-IDF rows, to compare texts of one language with each other."""
    features = {lang: fit_vocabulary(texts.counts, Weighting()) for lang, texts in training.items()}
    return _Within(features, {"words": {lang: len(own.words) for lang, own in features.items()}})


@dataclass(frozen=True)
class _Within(Space):
    features: Mapping[str, Vocabulary]
    report: Mapping[str, Any] = field(default_factory=dict)

    @property
    def langs(self) -> list[str]:
        return list(self.features)

    def embed(self, texts: TokenisedTexts, lang: str) -> Rows:
        _check("TF-IDF", lang, self.features)
        return self.features[lang].transform(texts.counts)


# What several of them need


class _Svd(NamedTuple):
    """Singular vectors, rows x rank and columns x rank, and values."""

    left: Array
    values: Array
    right: Array


def _svd(X: Sparse, rank: int, seed: int, name: str) -> _Svd:
    """The first ``rank`` singular vectors of X, or as many as it has."""
    try:
        from sklearn.utils.extmath import randomized_svd
    except ImportError:
        raise Cr5Error(f"{name} needs scikit-learn; install it with pip install 'cr5[eval]'") from None
    if not X.nnz:
        raise NotApplicableError(f"{name} needs words that occur in {Weighting().min_documents} documents or more")
    U, values, Vt = randomized_svd(X, min(rank, *X.shape), random_state=seed)
    kept = values > 1e-5 * values[0]  # the others are rounding errors
    # So is what stands in place of an empty row or column; texts are brought to length 1, and these would be loud.
    U[np.diff(X.indptr) == 0] = 0
    Vt[:, np.bincount(X.indices, minlength=X.shape[1]) == 0] = 0
    return _Svd(U[:, kept], values[kept], Vt[kept].T)


def _weigh(
    training: Mapping[str, TokenisedTexts], weighting: Weighting
) -> tuple[dict[str, Vocabulary], dict[str, Sparse]]:
    """Every language's features and its TF-IDF rows."""
    features = {lang: fit_vocabulary(texts.counts, weighting) for lang, texts in training.items()}
    return features, {lang: own.transform(training[lang].counts) for lang, own in features.items()}


def _shared(training: Mapping[str, TokenisedTexts], name: str) -> Ints:
    """The concepts that two languages or more have: the others relate no language to another."""
    every = np.concatenate([np.unique(texts.concepts) for texts in training.values()])
    concepts, languages = np.unique(every, return_counts=True)
    if not (languages > 1).any():
        raise NotApplicableError(f"{name} needs training concepts that two languages share; there are none")
    return np.asarray(concepts[languages > 1])


def _by_concept(X: Sparse, concepts: Ints, chosen: Ints) -> Sparse:
    """Chosen concepts x words: the sum of the rows of each; ``chosen`` is sorted."""
    documents = np.flatnonzero(np.isin(concepts, chosen))
    places = np.searchsorted(chosen, concepts[documents])
    members = csr_array((np.ones(len(places), np.float32), (places, documents)), shape=(len(chosen), len(concepts)))
    return csr_array(members @ X)


def _ones(X: Sparse) -> Sparse:
    return csr_array((np.ones_like(X.data), X.indices, X.indptr), shape=X.shape)


def _unit(X: Sparse) -> Sparse:
    """Every row to length 1; an empty row stays empty."""
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)))
    data = X.data / np.repeat(np.where(norms > 0, norms, 1), np.diff(X.indptr))
    return csr_array((data.astype(np.float32), X.indices, X.indptr), shape=X.shape)


def _split(stacked: Array, features: Mapping[str, Vocabulary]) -> dict[str, Array]:
    """Words of all languages x rank -> each language's block."""
    ends = np.cumsum([len(own.words) for own in features.values()])
    return dict(zip(features, np.split(stacked, ends[:-1]), strict=True))


def _report(features: Mapping[str, Vocabulary], concepts: Ints, found: _Svd) -> dict[str, Any]:
    return {
        "concepts": len(concepts),
        "words": {lang: len(own.words) for lang, own in features.items()},
        "rank": len(found.values),
        "signature": f"rank {len(found.values)}",
    }


def _check(name: str, lang: str, features: Mapping[str, Vocabulary]) -> None:
    if lang not in features:
        raise NotApplicableError(f"{name} was not trained on language {lang}; its languages are {', '.join(features)}")
