"""Sentences: where those of a text begin and end, by punctuation and line breaks alone, in any script."""

import re

_STOPS, _STOPS_WITHOUT_SPACE = ".!?؟।", "。！？"
SENTENCE_END = re.compile(rf"[{_STOPS}][\"'”’»)\]]{{0,3}}\s+|[{_STOPS_WITHOUT_SPACE}][”’」』）]?\s*|\n\s*")
"""What ends a sentence, with the spaces after it. Passages of an index depend on it: it must stay as it is."""
COMPLETE_SENTENCE = re.compile(rf"[{_STOPS}{_STOPS_WITHOUT_SPACE}:;…][\"'”’»)\]」』）]*\s*\Z")
"""The end of a text whose last sentence is complete, or introduces a list."""

# After these a full stop rarely ends a sentence. Those that a lower-case word follows need not be listed.
_ABBREVIATIONS = """
    abs adm approx art arts avv bspw bzw ca cap cf cfr dipl dott dr ds etc fig figg gen ggf hr hrsg ing inkl jr kap mio
    mme mr mrd mrs ms nr ord osv pag pp prof resp rev sen sgt sig sigg sog sr st tlf usw vgl vol vs
"""
_WORD_BEFORE_STOP = re.compile(r"[^\W_]+\Z")
MAX_ORDINAL_DIGITS = 2  # "3. Oktober" goes on, and "in 1999. The" does not


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """The start and end of each sentence of a text, without the spaces around it; every line break ends one.

    A full stop before a lower-case letter, and after an initial, an abbreviation or a short number, ends none.
    """
    spans, begin = [], 0
    for end, is_end in [
        *((match.end(), not _goes_on(text, match)) for match in SENTENCE_END.finditer(text)),
        (None, True),
    ]:
        if is_end:
            part = text[begin:end]
            start = begin + len(part) - len(part.lstrip())
            if stripped := part.strip():
                spans.append((start, start + len(stripped)))
            begin = len(text) if end is None else end
    return spans


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, see ``sentence_spans``."""
    return [text[begin:end] for begin, end in sentence_spans(text)]


def _goes_on(text: str, end: re.Match[str]) -> bool:
    """Whether a sentence goes on after what looks like its end: a full stop and a space within a line."""
    if text[end.start()] != "." or "\n" in end[0]:
        return False
    if text[end.end() : end.end() + 1].islower():
        return True
    word = _WORD_BEFORE_STOP.search(text, max(end.start() - 12, 0), end.start())
    if word is None or not end[0][1:].isspace():
        return False
    if word[0].isdigit():
        return len(word[0]) <= MAX_ORDINAL_DIGITS
    return (len(word[0]) == 1 and word[0].isupper()) or word[0].lower() in _ABBREVIATIONS.split()
