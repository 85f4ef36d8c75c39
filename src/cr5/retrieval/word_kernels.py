"""The kernels of word forms: one word is compared with many, which are given by their code points, one after the other.

Word i has the code points ``ends[i]`` to ``ends[i + 1]``. The kernels run without the global interpreter lock.
"""

import numpy as np

from cr5._typing import Array, Ints
from cr5.machine.compiler import compiled, count_bits


@compiled
def count_before(word: Ints, codes: Ints, ends: Ints, order: int) -> int:
    """The number of sorted words before a word; with ``order`` 1 also the same, with 2 those that begin with it."""
    begin, end = 0, len(ends) - 1
    while begin < end:
        middle = (begin + end) // 2
        first, length = ends[middle], ends[middle + 1] - ends[middle]
        common, limit = 0, min(length, len(word))
        while common < limit and codes[first + common] == word[common]:
            common += 1
        if common < limit:
            is_before = codes[first + common] < word[common]
        elif common == len(word):  # the word begins with it
            is_before = order == 2 or (order == 1 and length == common)
        else:
            is_before = True
        if is_before:
            begin = middle + 1
        else:
            end = middle
    return begin


@compiled
def common_prefixes(
    word: Ints, codes: Ints, ends: Ints, begin: int, end: int, min_common: int, max_ending: int
) -> Array:
    """2 common / (length + length) for the words from ``begin`` to ``end``.

    It is 0 unless they begin with at least ``min_common`` common characters, and at most ``max_ending``
    differ after them.
    """
    similarities = np.zeros(end - begin, np.float32)
    for i in range(begin, end):
        first, length = ends[i], ends[i + 1] - ends[i]
        common, limit = 0, min(length, len(word))
        while common < limit and codes[first + common] == word[common]:
            common += 1
        if common >= min_common and length - common <= max_ending and len(word) - common <= max_ending:
            similarities[i - begin] = 2 * common / (length + len(word))
    return similarities


@compiled
def edit_distances(word: Ints, letters: int, limit: int, codes: Ints, ends: Ints, letter_sets: Array) -> Ints:
    """The number of insertions, deletions, replacements and swaps of neighbours between words; too many: limit + 1.

    ``letters`` and ``letter_sets`` are the sets of characters of the words: each edit changes two of them at most.
    """
    n = len(ends) - 1
    distances = np.full(n, limit + 1, np.int32)
    rows = np.zeros((3, len(word) + 1), np.int32)
    for i in range(n):
        first, length = ends[i], ends[i + 1] - ends[i]
        if abs(length - len(word)) > limit:
            continue
        if count_bits(np.uint64(letters) ^ letter_sets[i]) > 2 * limit:
            continue
        for j in range(len(word) + 1):
            rows[0, j] = j
        best = 0
        for a in range(1, length + 1):
            row, above, before = rows[a % 3], rows[(a - 1) % 3], rows[(a - 2) % 3]
            row[0] = best = a
            for b in range(1, len(word) + 1):
                same = codes[first + a - 1] == word[b - 1]
                cost = min(above[b] + 1, row[b - 1] + 1, above[b - 1] + (0 if same else 1))
                if a > 1 and b > 1 and codes[first + a - 1] == word[b - 2] and codes[first + a - 2] == word[b - 1]:
                    cost = min(cost, before[b - 2] + 1)
                row[b] = cost
                best = min(best, cost)
            if best > limit:
                break
        if best <= limit:
            distances[i] = min(limit + 1, rows[length % 3, len(word)])
    return distances
