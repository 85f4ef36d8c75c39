"""The kernels of an inverted index: from the postings of terms to scores of documents, and from postings to others.

The postings of a term are a range of two arrays: ``documents``, numbers of documents, and ``counts``, how often the
term occurs in each. The kernels run without the global interpreter lock, on one thread each.
"""

from typing import NamedTuple

import numpy as np

from cr5._typing import Array, Ints, Mask
from cr5.compiler import compiled
from cr5.retrieval.kernels import replace_worst

DROPPED = -1  # the new number of a document that is left out
CHECK_RATIO = 2  # postings that are left for each document found, from which on it pays to see whether they matter
PRUNING_SLACK = 1.0001  # of the weights that are left, against rounding


@compiled
def count_live(documents: Ints, begins: Ints, ends: Ints, first: int, saturations: Array, frequencies: Ints) -> None:
    """Add to ``frequencies`` the postings of each term whose documents are live: their saturation is finite."""
    for term in range(len(begins)):
        for i in range(begins[term], ends[term]):
            frequencies[term] += saturations[documents[i] - first] < np.inf


class Postings(NamedTuple):
    """The postings of a query's terms, sorted by document: those of term i are ``begins[i]`` to ``ends[i]``."""

    documents: Ints
    counts: Ints
    begins: Ints
    ends: Ints


class Words(NamedTuple):
    """The words of a query, those with the largest weights first: word i has the terms ``groups[i, 0]`` to ``[i, 1]``.

    ``shares`` is how much an occurrence of each term counts.
    """

    weights: Array
    groups: Ints
    shares: Array


class Documents(NamedTuple):
    """The documents of one language in a segment, from ``first`` on; a deleted one has an infinite saturation.

    ``allowed`` restricts them unless it is empty. On a heap, their numbers are increased by ``offset``.
    """

    first: int
    saturations: Array
    allowed: Mask
    offset: int


@compiled
def keep_best_bm25(
    postings: Postings, words: Words, own: Documents, frequencies: Array, scores: Array, best_scores: Array, best: Ints
) -> None:
    """Push documents onto the heap of those with the largest BM25, whose root is the worst of them.

    bm25 = sum over words of weight tf / (tf + saturation), where tf = sum of share x count over the terms of the word.

    Words are added by decreasing weight. As soon as the words that are left cannot lift a document without any of the
    others onto the heap (their weights add up to less than its worst score), only documents that have one of the others
    and can still reach it are looked up in the postings that are left, which are those of the most common words.

    ``frequencies`` and ``scores`` have a 0 for every document, also afterwards.
    """
    number = len(words.weights)
    left = np.zeros(number + 1, np.float32)  # the sum of the weights from each word on
    sizes = np.zeros(number + 1, np.int64)  # the number of their postings
    for i in range(number - 1, -1, -1):
        left[i], sizes[i] = left[i + 1] + words.weights[i], sizes[i + 1]
        for term in range(words.groups[i, 0], words.groups[i, 1]):
            sizes[i] += postings.ends[term] - postings.begins[term]
    found, n, word = np.empty(min(sizes[0], len(own.saturations)), np.int32), 0, 0
    while word < number:
        if left[0] - left[word] > left[word] and sizes[word] > CHECK_RATIO * n:
            least = _worst_score(found[:n], scores, own.allowed, best_scores)
            if least > left[word] * PRUNING_SLACK:
                n = _keep_promising(found, n, scores, least - left[word] * PRUNING_SLACK)
                break
        n = _add_word(postings, words, word, own, frequencies, scores, found, n)
        word += 1
    if word < number and n:
        ordered = np.sort(found[:n])
        for i in range(word, number):
            _look_up_word(postings, words, i, own, frequencies, scores, ordered)
    for i in range(n):
        document = found[i]
        score, place = scores[document], own.offset + document
        scores[document] = 0
        is_better = score > best_scores[0] or (score == best_scores[0] and place < best[0])
        if is_better and (len(own.allowed) == 0 or own.allowed[document]):
            replace_worst(best_scores, best, score, place)


@compiled
def _add_word(
    postings: Postings, words: Words, word: int, own: Documents, frequencies: Array, scores: Array, found: Ints, n: int
) -> int:
    """Add a word to the scores of all documents that have it; those without a score before are appended to ``found``.

    Returns how many documents have been found.
    """
    weight, first, last = np.float32(words.weights[word]), words.groups[word, 0], words.groups[word, 1]
    for term in range(first, last):
        share = np.float32(words.shares[term])
        for i in range(postings.begins[term], postings.ends[term]):
            document = postings.documents[i] - own.first
            tf = share * np.float32(postings.counts[i])
            if last - first > 1:
                frequencies[document] += tf
            else:
                n = _add_score(document, weight * tf / (tf + own.saturations[document]), scores, found, n)
    for term in range(first, last if last - first > 1 else first):
        for i in range(postings.begins[term], postings.ends[term]):
            document = postings.documents[i] - own.first
            tf = frequencies[document]
            if tf > 0:  # otherwise another term of the word has the document as well, and it is counted
                frequencies[document] = 0
                n = _add_score(document, weight * tf / (tf + own.saturations[document]), scores, found, n)
    return n


@compiled
def _add_score(document: int, score: float, scores: Array, found: Ints, n: int) -> int:
    if scores[document] == 0 and score > 0:
        found[n] = document
        n += 1
    scores[document] += score
    return n


@compiled
def _worst_score(found: Ints, scores: Array, allowed: Mask, best_scores: Array) -> float:
    """The root of the heap if the documents found so far were pushed onto it; their scores can only increase."""
    heap, unused = best_scores.copy(), np.zeros(len(best_scores), np.int64)
    for document in found:
        if scores[document] > heap[0] and (len(allowed) == 0 or allowed[document]):
            replace_worst(heap, unused, scores[document], 0)
    return float(heap[0])


@compiled
def _keep_promising(found: Ints, n: int, scores: Array, least: float) -> int:
    """Keep the documents with at least this score; set the scores of the others to 0."""
    kept = 0
    for i in range(n):
        document = found[i]
        if scores[document] >= least:
            found[kept] = document
            kept += 1
        else:
            scores[document] = 0
    return kept


@compiled
def _look_up_word(
    postings: Postings, words: Words, word: int, own: Documents, frequencies: Array, scores: Array, ordered: Ints
) -> None:
    """Add a word to the scores of some documents, in ascending order, which are searched for in its postings."""
    for term in range(words.groups[word, 0], words.groups[word, 1]):
        begin, end, share = postings.begins[term], postings.ends[term], np.float32(words.shares[term])
        for document in ordered:
            target, step = document + own.first, 1
            while begin + step < end and postings.documents[begin + step] < target:  # doubling steps, then bisection
                begin, step = begin + step, 2 * step
            stop = min(begin + step, end)
            while begin < stop:
                middle = (begin + stop) // 2
                if postings.documents[middle] < target:
                    begin = middle + 1
                else:
                    stop = middle
            if begin == end:
                break
            if postings.documents[begin] == target:
                frequencies[document] += share * np.float32(postings.counts[begin])
    weight = np.float32(words.weights[word])
    for document in ordered:
        tf = frequencies[document]
        if tf > 0:
            scores[document] += weight * tf / (tf + own.saturations[document])
            frequencies[document] = 0


@compiled
def count_kept(documents: Ints, offsets: Ints, new_numbers: Ints) -> Ints:
    """For each term, the number of its postings whose documents are not dropped."""
    kept = np.zeros(len(offsets) - 1, np.int64)
    for term in range(len(kept)):
        for i in range(offsets[term], offsets[term + 1]):
            kept[term] += new_numbers[documents[i]] != DROPPED
    return kept


@compiled
def copy_kept(
    documents: Ints, counts: Ints, offsets: Ints, new_numbers: Ints, targets: Ints, new_documents: Ints,
    new_counts: Ints,
) -> None:  # fmt: skip
    """Copy the postings of each term to its place in other arrays, with the new numbers of their documents."""
    for term in range(len(targets)):
        target = targets[term]
        for i in range(offsets[term], offsets[term + 1]):
            number = new_numbers[documents[i]]
            if number != DROPPED:
                new_documents[target], new_counts[target] = number, counts[i]
                target += 1
