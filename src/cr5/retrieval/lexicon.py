"""Lexicons: the most probable translations of every word of a language, from word vectors and spelling.

The score of a translation f of a word e is csls(e, f) + ``string_weight`` x the cosine of the character n-grams of both
words, where csls is over all words of both languages. The best translations of e have probabilities
t(f|e) = softmax(score / ``temperature``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cr5._typing import Array, Ints, Sparse
from cr5.errors import Cr5Error, whole_number
from cr5.features.ngrams import character_ngrams
from cr5.features.tfidf import smooth_idf, tfidf_rows
from cr5.message_parts import quoted
from cr5.retrieval.block_products import Blocks, BlockSizes, WeightedView, map_blocks
from cr5.retrieval.csls import means_of_largest
from cr5.retrieval.heaps import best_first, empty_heaps
from cr5.retrieval.sparse_rows import arrays_of
from cr5.retrieval.strings import to_latin
from cr5.retrieval.vectors import unit_rows

TRANSLATIONS_PER_WORD = 10
"""The number of translations that a lexicon keeps for each word."""
MAX_WORDS = 100_000  # per language: with vectors of rank 300, all pairs of them take 6 x 10^12 operations
STRING_WEIGHT = 0.3  # factor of the cosine of n-grams, which is added to the CSLS of the vectors
NGRAM_LENGTHS = (3, 5)
NGRAM_COLUMNS = 2**20


class WordVectors(NamedTuple):
    """The words of a language and a row for each: words x rank."""

    words: Sequence[str]
    vectors: Array


@dataclass(frozen=True, repr=False)
class Lexicon:
    """The translations of each of the ``source_words``, most probable first.

    indices: words x k, the positions of translations in ``target_words``, int32; probabilities: words x k, float16.
    """

    source_words: Sequence[str]
    target_words: Sequence[str]
    indices: Ints
    probabilities: Array

    def __repr__(self) -> str:
        return f"Lexicon(source_words={len(self.source_words)}, target_words={len(self.target_words)})"

    def translations(self, word: str, k: int = TRANSLATIONS_PER_WORD) -> list[tuple[str, float]]:
        """The k most probable translations of a word with their probabilities; the word has to be known."""
        k, row = whole_number("k", k), self.index.get(word)
        if row is None:
            raise Cr5Error(f"{quoted(word)} is not one of the {len(self.source_words):,} words of the lexicon")
        found = zip(self.indices[row, :k].tolist(), self.probabilities[row, :k].tolist(), strict=True)
        return [(self.target_words[i], probability) for i, probability in found if probability > 0]

    @cached_property
    def index(self) -> dict[str, int]:
        """source word -> row."""
        return {word: i for i, word in enumerate(self.source_words)}

    @cached_property
    def matrix(self) -> Sparse:
        """source words x target words: the probabilities, float32."""
        from scipy.sparse import csr_array

        n, k = self.indices.shape
        arrays = self.probabilities.ravel().astype(np.float32), self.indices.ravel(), np.arange(0, n * k + 1, max(k, 1))
        return csr_array(arrays if k else (n, len(self.target_words)), shape=(n, len(self.target_words)))


def make_lexicon(
    source: WordVectors,
    target: WordVectors,
    *,
    string_weight: float = STRING_WEIGHT,
    temperature: float = 0.1,
    transliterate: bool = True,
    max_words: int = MAX_WORDS,
    sizes: BlockSizes | None = None,
) -> Lexicon:
    """The lexicon from one language to another.

    With ``transliterate``, words are compared by their spelling in Latin letters; otherwise, words in different scripts
    have nothing in common. The products of all words are computed in blocks, of ``sizes.candidates`` target words each;
    only the first ``max_words`` of each language are used, which are the most frequent ones of a model.
    """
    source, target = (WordVectors(words[:max_words], vectors[:max_words]) for words, vectors in (source, target))
    ngrams = spelling_rows(source.words, target.words, transliterate) if string_weight else None
    indices, scores = _best_translations(
        source, target, ngrams, TRANSLATIONS_PER_WORD, string_weight, sizes or BlockSizes()
    )
    probabilities = _softmax(scores / temperature)
    return Lexicon(source.words, target.words, indices.astype(np.int32), probabilities.astype(np.float16))


def _best_translations(
    source: WordVectors,
    target: WordVectors,
    ngrams: tuple[Sparse, Sparse] | None,
    k: int,
    string_weight: float,
    sizes: BlockSizes,
) -> tuple[Ints, Array]:
    """The k target words with the largest 2 cos(e, f) - r(f) + string_weight cos(n-grams of e and f); their scores.

    A block holds the products of some target words with all source words, so that r(f) is known when the block is
    processed, and the words are multiplied once.
    """
    from cr5.retrieval.kernels import add_sparse_products, keep_top

    n, k = len(source.words), min(k, len(target.words))
    postings = arrays_of(ngrams[0].tocsc()) if ngrams else None  # by n-gram: the source words that have it

    def process(blocks: Blocks) -> tuple[Ints, Array]:
        indices, scores, worst = np.zeros((n, k), np.int64), empty_heaps(n, k), np.full(n, -np.inf, np.float32)
        for block, [products] in blocks:
            penalty = means_of_largest(products)
            if ngrams and postings is not None:
                add_sparse_products(products, np.float32(string_weight / 2), *arrays_of(ngrams[1][block]), *postings)
            keep_top(products, np.float32(2), penalty, block.start, worst, indices, scores)
        return indices, scores

    if not n or not k:
        return np.zeros((n, 0), np.int64), np.zeros((n, 0), np.float32)
    parts = map_blocks(process, [WeightedView(unit_rows(source.vectors), unit_rows(target.vectors))], sizes)
    indices, scores = zip(*parts, strict=True)
    return best_first(indices, scores, k)


def spelling_rows(source: Sequence[str], target: Sequence[str], transliterate: bool = True) -> tuple[Sparse, Sparse]:
    """words x n-grams at unit length, each n-gram weighted by its inverse frequency in the words of both languages."""
    words = [to_latin(each) if transliterate else each for each in (source, target)]
    a, b = (character_ngrams(each, NGRAM_LENGTHS, NGRAM_COLUMNS) for each in words)
    of_a, of_b = (np.bincount(rows.indices, minlength=NGRAM_COLUMNS) for rows in (a, b))
    idf = smooth_idf(of_a + of_b, len(source) + len(target))
    return tfidf_rows(a, idf, "raw"), tfidf_rows(b, idf, "raw")


def _softmax(scores: Array) -> Array:
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))
