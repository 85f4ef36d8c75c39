"""Snippets: the part of a text that has the words of a query or of an explanation, in one line."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from math import fsum

from cr5.features.sentences import SENTENCE_END
from cr5.features.tokeniser import UNSPACED_RUN

_UNSPACED, _WORD_CHARACTER = re.compile(UNSPACED_RUN), re.compile(r"\w")
SENTENCE_MARKS = (".", "!", "?", "。", "！", "？", "؟")
_SPACES, _VISIBLE = re.compile(r"\s+"), re.compile(r"\S")


def snippet(
    text: str, words: Sequence[tuple[str, float]], size: int, before: int, begin: int = 0, end: int | None = None
) -> str:
    """About ``size`` characters of a text in one line, chosen for the largest sum of the values of their words.

    ``words`` are lower-case words with their values; only positive values are used, each word once. They are searched
    between ``begin`` and ``end``. Up to ``before`` characters precede the first word, from the beginning of a sentence
    if that is near. Without any word, the snippet begins at ``begin``.
    """
    if not words:
        return _cut(text, begin, size)
    lower, positions = _lower(text[begin:end])
    occurrences = sorted(
        (begin + positions[start], word, value)
        for word, value in words
        if value > 0 and word
        for start in _find_word(word, lower)
    )
    best, most = (
        _sum_of_values(occurrences, begin, size),
        fsum({word: value for _, word, value in occurrences}.values()),
    )
    for position, _, _ in occurrences:
        if best == most:
            break
        start = context_start(text, position, before)
        if (value := _sum_of_values(occurrences, start, size)) > best:  # the first of equal ones
            best, begin = value, start
    return _cut(text, begin, size)


def word_spans(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Where a text has any of some lower-case words, in order; spans that overlap are joined."""
    lower, positions = _lower(text)
    found = {
        (positions[start], positions[start + len(word) - 1] + 1)
        for word in words
        if word
        for start in _find_word(word, lower)
    }
    spans: list[tuple[int, int]] = []
    for begin, end in sorted(found):
        if spans and begin < spans[-1][1]:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        else:
            spans.append((begin, end))
    return spans


def context_start(text: str, position: int, before: int) -> int:
    """The start of the sentence, or else of a word, at most ``before`` characters before a position."""
    earliest = max(position - before, 0)
    if not earliest:
        return 0
    found = SENTENCE_END.search(text, earliest, position) or _SPACES.search(text, earliest, position)
    return found.end() if found else position


def _lower(text: str) -> tuple[str, Sequence[int]]:
    """A text in lower case, and the position in the text of each of its characters, of which there may be more."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower, range(len(text))
    return lower, [i for i, character in enumerate(text) for _ in character.lower()]


def _find_word(word: str, text: str) -> Iterator[int]:
    """The positions of a word in a text, but not inside other words unless its script is written without spaces.

    A regular expression does the same; compiling it takes longer than the search.
    """
    may_be_inside, start = not word.isascii() and bool(_UNSPACED.search(word)), text.find(word)
    while start >= 0:
        end = start + len(word)
        around = text[max(start - 1, 0) : start] + text[end : end + 1]
        is_whole = may_be_inside or not _WORD_CHARACTER.search(around)
        if is_whole:
            yield start
        start = text.find(word, end if is_whole else start + 1)


def _sum_of_values(occurrences: Sequence[tuple[int, str, float]], begin: int, size: int) -> float:
    first, last = bisect_left(occurrences, (begin,)), bisect_left(occurrences, (begin + size,))
    values = {word: value for start, word, value in occurrences[first:last] if start + len(word) <= begin + size}
    return fsum(values.values())  # which does not depend on their order


def _cut(text: str, begin: int, size: int) -> str:
    """At most ``size`` characters from ``begin`` on in one line, cut after a word, with ellipses."""
    part = text[begin : begin + size]
    if begin + size < len(text) and not text[begin + size].isspace():
        part = _without_last_word(part)
    line = " ".join(part.split())
    rest = _VISIBLE.search(text, begin + len(part))
    ellipsis = " …" if line.endswith(SENTENCE_MARKS) else "…"
    return ("… " if _VISIBLE.search(text, 0, begin) else "") + line + (ellipsis if rest else "")


def _without_last_word(text: str) -> str:
    """A text up to its last space, or to the spaces before its last word; all of a text without spaces."""
    if text[-1:].isspace():
        return text
    parts = text.rsplit(maxsplit=1)
    if len(parts) == 2:
        return parts[0]
    return "" if text[:1].isspace() else text
