"""Explanations of long texts, and passages: the part of a text that contains the words of an explanation."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from cr5._typing import Array
from cr5.features.sentences import SENTENCE_END
from cr5.features.tokeniser import UNSPACED_RUN
from cr5.retrieval.explanations import Contribution, Explainer, WordPairContribution

MAX_EXPLAINED_CHARACTERS = 6_000  # of a text explained in full: time and memory are the product of both texts' words
PART_CHARACTERS = 600  # of a longer text that are explained
MIN_SENTENCE_CHARACTERS = 40  # a shorter sentence is joined with the next
MAX_SENTENCE_CHARACTERS = 300  # a longer sentence is cut
MAX_SHIFT_CHARACTERS = 60  # by which the ends of a part move to those of a sentence or a word

_UNSPACED = re.compile(UNSPACED_RUN)


class LongTextExplanation(NamedTuple):
    """Why two texts of any length are similar: ``similarity`` is that of the full texts.

    The contributions are those of ``Cr5.explain``; for a text longer than ``MAX_EXPLAINED_CHARACTERS``, those of the
    part with the largest cosine to the other text. ``begin`` and ``end`` delimit the explained part of the second text.
    """

    similarity: float
    words_a: list[Contribution]
    words_b: list[Contribution]
    pairs: list[WordPairContribution]
    begin: int
    end: int


def explain_texts(
    model: Explainer,
    text_a: str,
    lang_a: str,
    text_b: str,
    lang_b: str,
    k: int = 10,
    *,
    vector_a: Array | None = None,
    vector_b: Array | None = None,
) -> LongTextExplanation:
    """Why two texts of any length are similar, in ``k`` words and pairs; the time is linear in their lengths.

    ``vector_a`` and ``vector_b`` are the vectors of the full texts, if they are known already.
    """
    vector_a = model.encode([text_a], lang_a)[0] if vector_a is None else vector_a
    vector_b = model.encode([text_b], lang_b)[0] if vector_b is None else vector_b
    begin_a, end_a = _nearest(model, text_a, lang_a, vector_b)
    begin, end = _nearest(model, text_b, lang_b, vector_a)
    part = model.explain(text_a[begin_a:end_a], lang_a, text_b[begin:end], lang_b, k)
    return LongTextExplanation(float(vector_a @ vector_b), part.words_a, part.words_b, part.pairs, begin, end)


def passage(
    text: str, words: Sequence[tuple[str, float]], size: int, before: int, begin: int = 0, end: int | None = None
) -> str:
    """About ``size`` characters of a text in one line, chosen for the largest sum of the values of their words.

    ``words`` are lower-case words with their values; only positive values are used, each word once. They are searched
    between ``begin`` and ``end``. Up to ``before`` characters precede the first word, from the beginning of a sentence
    if that is near. Without any word, the passage begins at ``begin``.
    """
    lower, positions = _lower(text[begin:end])
    occurrences = sorted(
        (begin + positions[match.start()], word, value)
        for word, value in words
        if value > 0 and word
        for match in re.finditer(_whole(word), lower)
    )
    best = _sum_of_values(occurrences, begin, size)
    for position, _, _ in occurrences:
        start = _start(text, position, before)
        if (value := _sum_of_values(occurrences, start, size)) > best:  # the first of equal ones
            best, begin = value, start
    return _cut(text, begin, size)


def word_spans(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Where a text has any of some lower-case words, in order; places that overlap are joined."""
    lower, positions = _lower(text)
    places = {
        (positions[match.start()], positions[match.end() - 1] + 1)
        for word in words
        if word
        for match in re.finditer(_whole(word), lower)
    }
    spans: list[tuple[int, int]] = []
    for begin, end in sorted(places):
        if spans and begin < spans[-1][1]:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        else:
            spans.append((begin, end))
    return spans


def _lower(text: str) -> tuple[str, Sequence[int]]:
    """A text in lower case, and the position in the text of each of its characters, of which there may be more."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower, range(len(text))
    return lower, [i for i, character in enumerate(text) for _ in character.lower()]


def _whole(word: str) -> str:
    """A pattern that finds a word, but not inside other words unless its script is written without spaces."""
    pattern = re.escape(word)
    return pattern if _UNSPACED.search(word) else rf"(?<!\w){pattern}(?!\w)"


def _nearest(model: Explainer, text: str, lang: str, vector: Array) -> tuple[int, int]:
    """The start and end of the part to explain: around the sentence with the largest cosine if the text is long."""
    if len(text) <= MAX_EXPLAINED_CHARACTERS:
        return 0, len(text)
    sentences = _sentences(text)
    best = int((model.encode([text[begin:end] for begin, end in sentences], lang) @ vector).argmax())
    begin = min(max(sum(sentences[best]) // 2 - PART_CHARACTERS // 2, 0), len(text) - PART_CHARACTERS)
    end = begin + PART_CHARACTERS
    space = re.compile(r"\s").search(text, end, end + MAX_SHIFT_CHARACTERS)
    return _start(text, begin, MAX_SHIFT_CHARACTERS), space.start() if space else end


def _sentences(text: str) -> list[tuple[int, int]]:
    """The start and end of every sentence; the parts of a long one overlap by half."""
    sentences, begin = [], 0
    for end in [*(match.end() for match in SENTENCE_END.finditer(text)), len(text)]:
        while end - begin > MAX_SENTENCE_CHARACTERS:
            sentences.append((begin, begin + MAX_SENTENCE_CHARACTERS))
            begin += MAX_SENTENCE_CHARACTERS // 2
        if end - begin >= MIN_SENTENCE_CHARACTERS or end == len(text):
            sentences.append((begin, end))
            begin = end
    return sentences


def _sum_of_values(occurrences: Sequence[tuple[int, str, float]], begin: int, size: int) -> float:
    first, last = (bisect_left(occurrences, limit, key=lambda found: found[0]) for limit in (begin, begin + size))
    values = {word: value for start, word, value in occurrences[first:last] if start + len(word) <= begin + size}
    return sum(values.values())


def _start(text: str, position: int, before: int) -> int:
    """The begin of the sentence, or else of a word, at most ``before`` characters before a position."""
    earliest = max(position - before, 0)
    if not earliest:
        return 0
    sentences = [match.end() for match in SENTENCE_END.finditer(text[earliest:position])]
    words = [match.end() for match in re.finditer(r"\s+", text[earliest:position])]
    return earliest + next(iter([*sentences, *words]), position - earliest)


def _cut(text: str, begin: int, size: int) -> str:
    """At most ``size`` characters from ``begin`` on in one line, cut after a word, with ellipses."""
    part = text[begin : begin + size]
    if begin + size < len(text) and not text[begin + size].isspace():
        complete_words = re.match(r"(.*)\s\S*$", part, re.DOTALL)
        part = complete_words[1] if complete_words else part
    line = " ".join(part.split())
    rest = text[begin + len(part) :].strip()
    ellipsis = " …" if line.endswith(tuple(".!?。！？؟")) else "…"
    return ("… " if text[:begin].strip() else "") + line + (ellipsis if rest else "")
