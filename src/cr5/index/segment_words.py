"""The sorted words of a full-text segment: they are stored with it, so that opening it takes no time for sorting."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cr5._typing import Array, Ints
from cr5.retrieval.word_forms import TermDictionary, fold, listed_words

if TYPE_CHECKING:
    from cr5.index.full_text import PostingsSegment


def word_arrays(terms: Sequence[str], lang_numbers: Ints, language_count: int) -> dict[str, Any]:
    """The arrays of a segment's dictionaries, from its terms and the numbers of their languages."""
    listed = listed_words(terms)
    folded = fold("\n".join(terms[i] for i in listed)).split("\n") if listed else []
    numbers = np.array(listed, np.int64)
    accented = np.array([terms[i] != other for i, other in zip(listed, folded, strict=True)], bool)
    return _sorted_arrays(numbers, lang_numbers[numbers], pa.array(folded, pa.large_string()), accented, language_count)


def merged_word_arrays(
    segments: Sequence["PostingsSegment"], kept_terms: Ints, terms: pa.LargeStringArray, language_count: int
) -> dict[str, Any]:
    """The same arrays for the terms that are kept from several segments; empty if a segment has no such arrays.

    ``kept_terms`` are numbers across all segments, in the order of the new terms, and ``terms`` their words.
    """
    folded, langs, first, count = list[pa.LargeStringArray](), list[Ints](), 0, 0
    # The position of each term among all folded words:
    position_of = np.full(sum(len(segment.keys) for segment in segments), -1, np.int64)
    for segment in segments:
        if segment.word_terms is None or segment.word_starts is None:
            return {}
        position_of[first + segment.word_terms] = count + np.arange(len(segment.word_terms))
        first, count = first + len(segment.keys), count + len(segment.word_terms)
        folded.append(_folded_words(segment))
        langs.append(np.repeat(np.arange(len(segment.word_starts) - 1), np.diff(segment.word_starts)))
    positions = position_of[kept_terms]
    numbers = np.flatnonzero(positions >= 0)
    words = pa.concat_arrays(folded).take(pa.array(positions[numbers]))
    accented = np.asarray(pc.not_equal(terms.take(pa.array(numbers)), words).to_numpy(zero_copy_only=False), bool)
    return _sorted_arrays(numbers, np.concatenate(langs)[positions[numbers]], words, accented, language_count)


def stored_dictionary(segment: "PostingsSegment", lang: int) -> TermDictionary | None:
    """The dictionary of a language that is stored with a segment; None if an earlier version wrote it."""
    if segment.word_starts is None or segment.word_terms is None or segment.accented is None:
        return None
    if lang + 1 >= len(segment.word_starts):
        return TermDictionary([])
    assert segment.folded_sizes is not None
    assert segment.folded_bytes is not None
    begin, end = segment.word_starts[lang : lang + 2].tolist()
    first = int(segment.folded_sizes[:begin].sum(dtype=np.int64))
    sizes, terms, strings = segment.folded_sizes[begin:end], segment.word_terms[begin:end], segment.term_strings
    folded = segment.folded_bytes[first : first + int(sizes.sum(dtype=np.int64))].tobytes()
    accented = int(segment.accented[lang])
    return TermDictionary.of_folded(lambda numbers: strings.take(terms[numbers]), folded, sizes, accented)


def _folded_words(segment: "PostingsSegment") -> pa.LargeStringArray:
    assert segment.folded_sizes is not None
    assert segment.folded_bytes is not None
    offsets = np.concatenate([[0], np.cumsum(segment.folded_sizes, dtype=np.int64)])
    buffers = pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(segment.folded_bytes))
    return pa.LargeStringArray.from_buffers(len(segment.folded_sizes), *buffers)


def _sorted_arrays(
    numbers: Ints, lang_numbers: Ints, folded: pa.LargeStringArray, accented: Array, language_count: int
) -> dict[str, Any]:
    """The arrays of words, given the numbers of their terms, sorted by language and folded word."""
    keys = pa.table({"lang": pa.array(lang_numbers, pa.int64()), "folded": folded})
    order = pc.sort_indices(keys, sort_keys=[("lang", "ascending"), ("folded", "ascending")]).to_numpy()
    ordered = folded.take(pa.array(order))
    content, sizes = ordered.buffers()[2], pc.binary_length(ordered).to_numpy(zero_copy_only=False)
    return {
        "word_starts": np.append(0, np.cumsum(np.bincount(lang_numbers, minlength=language_count))).astype(np.int64),
        "word_terms": numbers[order].astype(np.int32),
        "folded_sizes": sizes.astype(np.uint16),
        "folded_bytes": np.frombuffer(content, np.uint8)[: sizes.sum()] if content else np.empty(0, np.uint8),
        "accented": np.bincount(lang_numbers[accented], minlength=language_count).astype(np.int64),
    }
