"""Why a text was found: the words that say so, and the passage where they stand."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from cr5._typing import Array
from cr5.retrieval.explanations import Contribution, Explainer, WordPairContribution

WHOLE = 6_000  # characters of a text that is explained as a whole: time and memory are the product of both texts' words
PART = 600  # and of the part of a longer one
SHORT, LONG = 40, 300  # characters of a sentence: a shorter one goes with the next, a longer one is cut
NEAR = 60  # characters before a part in which a sentence or a word should begin, and after it in which one should end

_END = re.compile(r"[.!?؟]\s+|[。！？]\s*|\n\s*")  # of a sentence


class LongTextExplanation(NamedTuple):
    """Why two texts are similar: ``similarity`` is that of the whole texts.

    The contributions are those of ``Cr5.explain``; where a text is longer than ``WHOLE`` characters, those of the part
    that is nearest to the other text. ``begin`` and ``end`` are where that of the second text is.
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

    ``vector_a`` and ``vector_b`` are the vectors of the whole texts, if they are known already.
    """
    vector_a = model.encode([text_a], lang_a)[0] if vector_a is None else vector_a
    vector_b = model.encode([text_b], lang_b)[0] if vector_b is None else vector_b
    begin_a, end_a = _nearest(model, text_a, lang_a, vector_b)
    begin, end = _nearest(model, text_b, lang_b, vector_a)
    why = model.explain(text_a[begin_a:end_a], lang_a, text_b[begin:end], lang_b, k)
    return LongTextExplanation(float(vector_a @ vector_b), why.words_a, why.words_b, why.pairs, begin, end)


def passage(
    text: str, words: Sequence[tuple[str, float]], size: int, before: int, begin: int = 0, end: int | None = None
) -> str:
    """About ``size`` characters of a text in one line, where the words with the largest values together stand.

    ``words`` are lower-case words with their values, of which the positive count, each once. Up to ``before``
    characters come before the first of them, from the beginning of a sentence if that is near. They are looked for
    between ``begin`` and ``end``. Without any word, it is the text from ``begin`` on.
    """
    lower = text[begin:end].lower()
    found = sorted(
        (begin + match.start(), word, value)
        for word, value in words
        if value > 0 and word
        for match in re.finditer(re.escape(word), lower)
    )
    best = _worth(found, begin, size)
    for place, _, _ in found:
        start = _start(text, place, before)
        if (worth := _worth(found, start, size)) > best:  # of equals the first
            best, begin = worth, start
    return _cut(text, begin, size)


def _nearest(model: Explainer, text: str, lang: str, vector: Array) -> tuple[int, int]:
    """Where a text is read, from beginning to end: around the sentence with the largest cosine if the text is long."""
    if len(text) <= WHOLE:
        return 0, len(text)
    places = _sentences(text)
    best = int((model.encode([text[begin:end] for begin, end in places], lang) @ vector).argmax())
    begin = min(max(sum(places[best]) // 2 - PART // 2, 0), len(text) - PART)
    blank = re.compile(r"\s").search(text, begin + PART, begin + PART + NEAR)
    return _start(text, begin, NEAR), blank.start() if blank else begin + PART


def _sentences(text: str) -> list[tuple[int, int]]:
    """Where sentences begin and end; the pieces of a long one overlap by half."""
    places, begin = [], 0
    for end in [*(match.end() for match in _END.finditer(text)), len(text)]:
        while end - begin > LONG:
            places.append((begin, begin + LONG))
            begin += LONG // 2
        if end - begin >= SHORT or end == len(text):
            places.append((begin, end))
            begin = end
    return places


def _worth(found: Sequence[tuple[int, str, float]], begin: int, size: int) -> float:
    first, last = (bisect_left(found, place, key=lambda at: at[0]) for place in (begin, begin + size))
    inside = {word: value for place, word, value in found[first:last] if place + len(word) <= begin + size}
    return sum(inside.values())


def _start(text: str, place: int, before: int) -> int:
    """Where the sentence begins, or a word, at most so many characters before a place."""
    earliest = max(place - before, 0)
    if not earliest:
        return 0
    sentences = [match.end() for match in _END.finditer(text[earliest:place])]
    blanks = [match.end() for match in re.finditer(r"\s+", text[earliest:place])]
    return earliest + next(iter([*sentences, *blanks]), place - earliest)


def _cut(text: str, begin: int, size: int) -> str:
    """Characters from a place on in one line, cut behind a word."""
    part = text[begin : begin + size]
    if begin + size < len(text) and not text[begin + size].isspace():
        whole = re.match(r"(.*)\s\S*$", part, re.DOTALL)
        part = whole[1] if whole else part
    line = " ".join(part.split())
    rest = text[begin + len(part) :].strip()
    more = " …" if line.endswith(tuple(".!?。！？؟")) else "…"  # or a full stop would become one dot more
    return ("… " if text[:begin].strip() else "") + line + (more if rest else "")
