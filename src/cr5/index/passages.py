"""Passages: parts of a long document, which are stored beside the documents and found on their own.

The row of a passage has the id of its document, a separator and the number of the passage, from 1. It has no text: its
start and end are computed from the text of the document by ``passage_spans``.
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from cr5._typing import Array
from cr5.errors import Cr5Error, whole_number
from cr5.features.sentences import SENTENCE_END
from cr5.features.tokeniser import EAST_ASIAN, SOUTHEAST_ASIAN
from cr5.index.filters import Where
from cr5.index.recent import cached_for_recent_texts
from cr5.index.stores.rows import PASSAGE_SEPARATOR
from cr5.index.terms import QueryKeys, QueryWord

if TYPE_CHECKING:  # a snapshot has the settings
    from cr5.index.snapshot import Snapshot

MIN_PASSAGE_WORDS = 10
RECENT_IDS = 2**14  # ids of passages whose parts are remembered
MAX_OVERLAP_SHARE = 1 / 3  # largest part of a passage that overlaps, so that the starts of passages are in order
MAX_UNSPLIT_SHARE = 1.5  # a document of up to this many times the words of a passage is not split
MAX_WORD_CHARACTERS = 40
MAX_SHIFT_SHARE = 1 / 6  # largest shift of a cut to the end of a paragraph or sentence, over the words between cuts

# A word is delimited by spaces. In scripts without spaces it is about as many characters as a word has, and a run of
# characters that is longer than any word is divided.
_SPACED_WORD = rf"[^\s{EAST_ASIAN}{SOUTHEAST_ASIAN}]{{1,{MAX_WORD_CHARACTERS}}}"
_WORD = re.compile(rf"[{EAST_ASIAN}]{{1,2}}|[{SOUTHEAST_ASIAN}]{{1,4}}|{_SPACED_WORD}")
_UNSPACED = re.compile(rf"[{EAST_ASIAN}{SOUTHEAST_ASIAN}]")
_CUTS = [re.compile(r"\n\s*\n\s*"), SENTENCE_END, re.compile(r"\s+")]  # the best first


@dataclass(frozen=True)
class PassageSettings:
    """The number of words of a passage, and how many of them it repeats from the passage before it."""

    words: int = 150
    overlap: int = 30

    def __post_init__(self) -> None:
        if not self.words >= MIN_PASSAGE_WORDS:
            raise Cr5Error(f"`passage_words={self.words}` is less than {MIN_PASSAGE_WORDS}; use more, or 0 for none")
        limit = int(self.words * MAX_OVERLAP_SHARE)
        if not 0 <= self.overlap <= limit:
            raise Cr5Error(
                f"`passage_overlap={self.overlap}` must be from 0 to {limit}, a third of `passage_words={self.words}`"
            )


def passage_settings(words: int, overlap: int | None) -> PassageSettings | None:
    """The settings that parameters name; None if they switch passages off. The overlap is a fifth by default."""
    words = whole_number("passage_words", words)
    if not words:
        return None
    return PassageSettings(words, words // 5 if overlap is None else whole_number("passage_overlap", overlap))


@cached_for_recent_texts
def passage_spans(text: str, settings: PassageSettings) -> tuple[tuple[int, int], ...]:
    """The start and end of each passage of a text, in order; a short text is not split and has none.

    The passages cover the text. Each overlaps the next by at most ``overlap`` words, from the start of a sentence if
    there is one.
    """
    limit = MAX_UNSPLIT_SHARE * settings.words
    # Most texts are short, and an upper bound of the number of their words is found faster than the words.
    is_spaced = text.isascii() or not _UNSPACED.search(text)
    if is_spaced and len(text.split()) + len(text) // MAX_WORD_CHARACTERS <= limit:
        return ()
    starts = [match.start() for match in _WORD.finditer(text)]
    number = len(starts)
    if number <= limit:
        return ()
    parts = max(2, round(number / (settings.words - settings.overlap)))
    shift = int(number / parts * MAX_SHIFT_SHARE)
    cuts = [_cut(text, starts, round(i * number / parts), shift) for i in range(1, parts)]
    begins = [_overlap_begin(text, starts, cut, settings.overlap) for cut in cuts]
    return tuple(zip([0, *begins], [*(starts[cut] for cut in cuts), len(text)], strict=True))


def _cut(text: str, starts: Sequence[int], target: int, shift: int) -> int:
    """The number of the word to cut before: the boundary nearest to the target, of the best kind that is there."""
    begin, middle, end = (starts[min(target + by, len(starts) - 1)] for by in (-shift, 0, shift))
    for pattern in _CUTS:
        boundaries = [match.end() for match in pattern.finditer(text, begin, end) if match.end() > begin]
        if boundaries:
            nearest = min(boundaries, key=lambda boundary: abs(boundary - middle))
            return min(max(bisect_left(starts, nearest), target - shift), target + shift)
    return target


def _overlap_begin(text: str, starts: Sequence[int], cut: int, overlap: int) -> int:
    """Where the passage after a cut begins: at the first sentence of the last words before the cut."""
    begin = starts[cut - overlap]
    if not overlap:
        return begin
    limit = starts[cut - 1]
    boundaries = (match.end() for match in _CUTS[1].finditer(text, max(begin - 4, 0), limit))
    return next((boundary for boundary in boundaries if begin <= boundary <= limit), begin)


# Ids


def passage_id(document_id: str, number: int) -> str:
    """The id of the row of a passage."""
    return f"{document_id}{PASSAGE_SEPARATOR}{number}"


@lru_cache(RECENT_IDS)
def parse_passage_id(row_id: str) -> tuple[str, int]:
    """The id of the document that a passage belongs to, and the number of the passage."""
    document_id, _, number = row_id.rpartition(PASSAGE_SEPARATOR)
    return document_id, int(number)


def passage_ids(document_id: str, text: str, settings: PassageSettings) -> list[str]:
    """The ids of all passages of a document."""
    return [passage_id(document_id, number) for number in range(1, len(passage_spans(text, settings)) + 1)]


# Search


class NearPassage(NamedTuple):
    """A passage, its cosine with a query, and its hubness in each language."""

    document_id: str
    number: int
    cosine: float
    hubness: Array


def nearest_passages(
    snapshot: "Snapshot",
    vector: Array,
    k: int,
    langs: Collection[str] | None = None,
    *,
    where: Where | None = None,
) -> list[NearPassage]:
    """The k passages nearest to a vector, best first; none without passages.

    ``langs`` and ``where`` restrict them to documents in some languages, and to those whose fields match a filter.
    After a writer was killed, the document of a passage may be missing, or may have another text with fewer passages.
    """
    if snapshot.passages is None:
        return []
    rows, cosines = snapshot.passages.nearest_candidates(vector, k, langs=langs, where=where)
    found = zip(rows.ids, cosines.tolist(), rows.hubness, strict=True)
    return [NearPassage(*parse_passage_id(row_id), cosine, hubness) for row_id, cosine, hubness in found]


def search_passage_terms(
    snapshot: "Snapshot", words: Sequence[QueryWord] | QueryKeys, lang: str, k: int, *, where: Where | None = None
) -> dict[tuple[str, int], float]:
    """The k passages of a language with the largest BM25 of weighted words, best first; none without passages.

    A passage is the id of its document and its number; its value is its BM25.
    The mean length is that of all passages of the language. ``where`` restricts the result as in ``nearest_passages``,
    and documents may be missing as there.
    """
    if snapshot.passages is None:
        return {}
    found = snapshot.passages.search_term_ids(words, lang, k, where=where)
    return dict(zip(map(parse_passage_id, found), found.values(), strict=True))
