"""The passage of a text that says why it was found."""

import re
from collections.abc import Sequence

OFTEN = 20  # places of a word that are looked at


def passage(text: str, words: Sequence[tuple[str, float]], size: int, before: int) -> str:
    """About ``size`` characters of a text in one line, where the words with the largest values together stand.

    ``words`` are lower-case words with their values, of which the positive count, each once. Up to ``before``
    characters come before the first of them, from the beginning of a sentence if that is near. Without any word, it is
    the beginning of the text.
    """
    lower = text.lower()
    found = sorted(
        (match.start(), word, value)
        for word, value in words
        if value > 0 and word
        for match, _ in zip(re.finditer(re.escape(word), lower), range(OFTEN), strict=False)
    )
    best, begin = _worth(found, 0, size), 0
    for place, _, _ in found:
        start = _start(text, place, before)
        if (worth := _worth(found, start, size)) > best:  # of equals the first
            best, begin = worth, start
    return _cut(text, begin, size)


def _worth(found: Sequence[tuple[int, str, float]], begin: int, size: int) -> float:
    inside = {word: value for place, word, value in found if begin <= place and place + len(word) <= begin + size}
    return sum(inside.values())


def _start(text: str, place: int, before: int) -> int:
    """Where the sentence begins, or a word, at most so many characters before a place."""
    earliest = max(place - before, 0)
    if not earliest:
        return 0
    sentences = [match.end() for match in re.finditer(r"[.!?。！？؟]\s+|\n\s*", text[earliest:place])]
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
