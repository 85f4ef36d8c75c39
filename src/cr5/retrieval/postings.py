"""The kernels of an inverted index: from the postings of terms to scores of documents, and from postings to others.

The postings of a term are a range of two arrays: ``documents``, numbers of documents, and ``counts``, how often the
term occurs in each. The kernels run without the global interpreter lock, on one thread each.
"""

import numpy as np

from cr5._typing import Array, Ints, Mask
from cr5.machine.compiler import compiled
from cr5.retrieval.kernels import replace_worst

DROPPED = -1  # the new number of a document that is left out


@compiled
def find_postings(keys: Array, offsets: Ints, wanted: Array) -> tuple[Ints, Ints]:
    """Where the postings of each wanted term begin and end: ``offsets[i]`` to ``offsets[i + 1]`` for key i.

    Keys are sorted. A term without postings begins where it ends.
    """
    begins, ends = np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.int64)
    for term in range(len(wanted)):
        position = np.searchsorted(keys, wanted[term])
        if position < len(keys) and keys[position] == wanted[term]:
            begins[term], ends[term] = offsets[position], offsets[position + 1]
    return begins, ends


@compiled
def count_live(documents: Ints, begins: Ints, ends: Ints, first: int, saturations: Array, frequencies: Ints) -> None:
    """Add to ``frequencies`` the postings of each term whose documents are live: their saturation is finite."""
    for term in range(len(begins)):
        for i in range(begins[term], ends[term]):
            frequencies[term] += saturations[documents[i] - first] < np.inf


@compiled
def add_bm25(
    documents: Ints, counts: Ints, begins: Ints, ends: Ints, boosts: Array, groups: Ints, weights: Array, first: int,
    saturations: Array, frequencies: Array, scores: Array,
) -> None:  # fmt: skip
    """scores += weight tf / (tf + saturation) for each group of terms; ``first`` is the first document.

    tf = sum of boost x count over the terms of the group, which are ``groups[g]`` to ``groups[g + 1]``. The saturation
    of a deleted document is infinite, so that it scores 0. ``frequencies`` has a 0 for every document, also afterwards.
    """
    for group in range(len(weights)):
        weight = np.float32(weights[group])
        terms = range(groups[group], groups[group + 1])
        if len(terms) == 1:  # no document is counted twice
            boost = np.float32(boosts[groups[group]])
            for i in range(begins[groups[group]], ends[groups[group]]):
                document, tf = documents[i] - first, boost * np.float32(counts[i])
                scores[document] += weight * tf / (tf + saturations[document])
            continue
        for term in terms:
            boost = np.float32(boosts[term])
            for i in range(begins[term], ends[term]):
                frequencies[documents[i] - first] += boost * np.float32(counts[i])
        for term in terms:
            for i in range(begins[term], ends[term]):
                document = documents[i] - first
                tf = frequencies[document]
                if tf > 0:  # otherwise another term of the group has the document as well, and it is counted
                    scores[document] += weight * tf / (tf + saturations[document])
                    frequencies[document] = 0


@compiled
def keep_best_documents(
    documents: Ints, begins: Ints, ends: Ints, first: int, allowed: Mask, offset: int, scores: Array,
    best_scores: Array, best: Ints,
) -> None:  # fmt: skip
    """Push the documents of all terms onto the heap of the best (its root is the worst), and reset their scores to 0.

    Only documents that are ``allowed``, unless that is empty. On the heap, a document's number is increased by
    ``offset``. If there are fewer postings than documents, only these are read.
    """
    if (ends - begins).sum() >= len(scores):
        for document in range(len(scores)):
            if scores[document] > best_scores[0] and (len(allowed) == 0 or allowed[document]):
                replace_worst(best_scores, best, scores[document], offset + document)
        scores[:] = 0
        return
    for term in range(len(begins)):
        for i in range(begins[term], ends[term]):
            document = documents[i] - first
            score, number = scores[document], offset + document
            scores[document] = 0
            is_better = score > best_scores[0] or (score == best_scores[0] and score > 0 and number < best[0])
            if is_better and (len(allowed) == 0 or allowed[document]):
                replace_worst(best_scores, best, score, number)


@compiled
def search_postings(
    keys: Array, offsets: Ints, documents: Ints, counts: Ints, wanted: Array, boosts: Array, groups: Ints,
    weights: Array, first: int, saturations: Array, allowed: Mask, offset: int, zeros: Array, best_scores: Array,
    best: Ints,
) -> None:  # fmt: skip
    """``find_postings``, ``add_bm25`` and ``keep_best_documents`` in one call; ``zeros`` has two rows of them, also
    afterwards."""
    begins, ends = find_postings(keys, offsets, wanted)
    frequencies, scores = zeros[0, : len(saturations)], zeros[1, : len(saturations)]
    add_bm25(documents, counts, begins, ends, boosts, groups, weights, first, saturations, frequencies, scores)
    keep_best_documents(documents, begins, ends, first, allowed, offset, scores, best_scores, best)


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
