"""The word index and the concept index of a language."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cr5._typing import Ints
from cr5.corpus.tables import ErrorReporter
from cr5.errors import CorpusError
from cr5.evaluate.paper_data.text_files import INTEGER, MOST, SKIP_LINES, Columns, is_mostly, read_columns

MISSING_WORD = "missing word"
"""Stands for every id without a word on its line; no token contains a space."""

_Q_NUMBER = r"^Q[0-9]+$"


@dataclass(frozen=True)
class WordIndex:
    """A vocabulary: its words, and the sorted ids that a matrix uses, each with the position of its word."""

    words: pa.LargeStringArray
    ids: Ints
    positions: Ints

    def find(self, ids: Ints) -> Ints:
        """The position of every id's word, -1 where there is none."""
        if self._position_of_id is not None:
            inside = (ids >= 0) & (ids < len(self._position_of_id))
            return np.where(inside, self._position_of_id[np.where(inside, ids, 0)], -1)
        nearest = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[nearest] == ids, self.positions[nearest], -1)

    @cached_property
    def _position_of_id(self) -> Ints | None:
        """The position of every id up to the largest; None where that would be a mostly empty array."""
        if self.ids[-1] > 4 * len(self.ids) + 2**20:
            return None
        positions = np.full(self.ids[-1] + 1, -1, np.int32)
        positions[self.ids] = self.positions
        return positions


def read_word_index(path: Path, report_error: ErrorReporter, lowercase: bool) -> WordIndex:
    """Read a word index; words that ``lowercase`` makes equal share a position."""
    columns, lines = read_columns(path, report_error)
    id_column, word_column = _word_index_columns(path, columns)
    ids, words = columns[id_column], pc.utf8_trim_whitespace(columns[word_column])
    valid = pc.match_substring_regex(ids, INTEGER).to_numpy(zero_copy_only=False)
    for i in np.flatnonzero(~valid):
        report_error(int(lines[i]), "broken line", f"id '{ids[i].as_py()}' is not a whole number; {SKIP_LINES}")
    words, lines = words.filter(pa.array(valid)), lines[valid]
    ids = ids.filter(pa.array(valid)).cast(pa.int64()).to_numpy()
    if not len(ids):
        raise CorpusError(f"{path}: it contains no word; copy it again")
    sorted_ids, first = np.unique(ids, return_index=True)
    for i in np.setdiff1d(np.arange(len(ids)), first):
        earlier = lines[first[np.searchsorted(sorted_ids, ids[i])]]
        report_error(int(lines[i]), "duplicate id", f"id {ids[i]} is already on line {earlier}; {SKIP_LINES}")
    words = pc.if_else(pc.equal(words, ""), pa.scalar(MISSING_WORD, pa.large_string()), words)
    encoded = (pc.utf8_lower(words) if lowercase else words).dictionary_encode()
    return WordIndex(encoded.dictionary, sorted_ids, encoded.indices.to_numpy()[first].astype(np.int32))


def _word_index_columns(path: Path, columns: list[pa.LargeStringArray]) -> tuple[int, int]:
    """The column of ids and that of words; of three or more the first and the last, where both are possible."""
    last = len(columns) - 1
    if last == 0:
        raise CorpusError(f"{path}: only one column; every line needs a word's id, a tab and the word")
    numbers = {
        i: np.asarray(column.filter(pc.match_substring_regex(column, INTEGER)).cast(pa.int64()))
        for i, column in enumerate(columns)
        if is_mostly(column, INTEGER)
    }
    unique = [i for i, values in numbers.items() if len(np.unique(values)) >= MOST * len(values)]
    ids = [i for i in unique if numbers[i][0] <= 1 and (np.diff(numbers[i]) == 1).sum() >= MOST * (len(numbers[i]) - 1)]
    ids = ids or unique  # consecutive numbers from 0 or 1 are preferred
    if not ids:
        raise CorpusError(
            f"{path}: no column contains ids, a different number on every line; use the file that the authors published"
        )
    if last > 1 and 0 in ids:
        ids = [0]
    words = [i for i in range(len(columns)) if i not in numbers] or [i for i in range(len(columns)) if i not in ids]
    if last > 1 and last in words:
        words = [last]
    if len(ids) > 1 or len(words) != 1:
        kind, possible = ("ids", ids) if len(ids) > 1 else ("words", words)
        raise CorpusError(
            f"{path}: the {kind} could be in any of the columns {_numbered(possible)}; write id, number and word on "
            "every line"
        )
    return ids[0], words[0]


def _numbered(columns: Sequence[int]) -> str:
    return ", ".join(str(i + 1) for i in columns)


@dataclass(frozen=True)
class ConceptIndex:
    """A concept index: the row of every concept, and its columns of names, Q-numbers and titles."""

    row_of: dict[str, int]
    names: pa.LargeStringArray
    items: pa.LargeStringArray | None
    titles: pa.LargeStringArray | None


def concept_index(
    path: Path, table: Columns, matrix: Path, sample: list[str], report_error: ErrorReporter
) -> ConceptIndex:
    """Recognise the columns of a concept index.

    The column that contains the concepts of the matrix, of which ``sample`` is a part, is that of the names.
    """
    columns, lines = table
    wanted = pa.array(sample, pa.large_string())
    rows = [pc.index_in(wanted, value_set=column).to_numpy(False).astype(np.float64) for column in columns]
    matches = [int((~np.isnan(row)).sum()) for row in rows]
    if 2 * max(matches) < len(sample) or not sample:
        raise CorpusError(
            f"{path}: no column contains the concepts of {matrix.name} ({', '.join(sample[:3])}, …); "
            "use both files of the same record"
        )
    best = [i for i in range(len(columns)) if matches[i] == max(matches)]
    if any(not np.array_equal(rows[i], rows[best[0]], equal_nan=True) for i in best[1:]):
        raise CorpusError(
            f"{path}: the concepts of {matrix.name} could be in any of the columns {_numbered(best)}; "
            "remove the wrong ones"
        )
    names = columns[best[0]]
    row_of: dict[str, int] = {}
    for row, name in enumerate(names.to_pylist()):
        if name and row_of.setdefault(name, row) != row:
            earlier = lines[row_of[name]]
            report_error(
                int(lines[row]), "duplicate concept", f"concept {name} is already on line {earlier}; {SKIP_LINES}"
            )
    others = [column for i, column in enumerate(columns) if i != best[0]]
    items = [column for column in others if is_mostly(column, _Q_NUMBER)]
    titles = [column for column in others if not is_mostly(column, _Q_NUMBER) and not is_mostly(column, INTEGER)]
    return ConceptIndex(row_of, names, items[0] if items else None, titles[-1] if titles else None)
