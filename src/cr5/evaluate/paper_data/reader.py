"""The reader of the published matrices: word counts of every document, concepts and titles."""

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from scipy.sparse import coo_array, csr_array

from cr5._typing import Ints, Mask, Sparse
from cr5.corpus.documents import error_reporter
from cr5.corpus.skipped import OnError, Skipped, check_on_error
from cr5.corpus.tables import ErrorReporter
from cr5.corpus.texts import find_numbers
from cr5.errors import CorpusError
from cr5.evaluate.paper_data.indices import ConceptIndex, concept_index, read_word_index
from cr5.evaluate.paper_data.text_files import BLOCK_BYTES, SKIP_LINES, Entries, parse_lines, read_columns, read_entries
from cr5.evaluate.texts import TokenisedTexts
from cr5.features.counts import WordCounts
from cr5.features.tokeniser import Tokens
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.storage.scratch import ScratchArrays

FREQUENT_WORDS = 200_000
"""How many of the most frequent words the authors count to measure the length of a document."""

FILE_NAMES = {
    "word_indices": "word_index_{}.tsv",
    "concept_indices": "concept_index_{}.tsv",
    "sparse_matrices": "sparse_matrix_{}.txt",
}
"""The folders, and the names of their files for a language, without a suffix of compression."""

_LARGEST_COUNT = 2**31 - 1


class CountedTexts(TokenisedTexts):
    """Tokenised texts whose word counts are given and whose word order is unknown.

    ``frequent`` is the number of frequent words in each document before lower-casing: the authors' limits of 50 and
    1,000 (100 and 700 for queries) apply to it.
    """

    def __init__(self, counts: WordCounts, concepts: Ints, titles: list[str], frequent: Ints) -> None:
        values = {"word_counts": counts, "concepts": concepts, "titles": titles, "frequent": frequent}
        for name, value in values.items():
            object.__setattr__(self, name, value)  # the base class is frozen

    word_counts: WordCounts
    frequent: Ints

    @cached_property
    def counts(self) -> WordCounts:
        return self.word_counts

    @cached_property
    def tokens(self) -> Tokens:
        """Every word as often as it occurs; much larger than the counts, and therefore built on first use."""
        matrix = self.counts.matrix
        lengths = np.concatenate([[0], np.cumsum(matrix.data, dtype=np.int64)])
        return Tokens(self.counts.words, np.repeat(matrix.indices, matrix.data), lengths[matrix.indptr])

    def select_rows(self, chosen: Ints) -> "CountedTexts":
        titles = [self.titles[i] for i in chosen]
        return CountedTexts(self.counts.select_rows(chosen), self.concepts[chosen], titles, self.frequent[chosen])

    def keep_tokens(self, kept: Mask) -> TokenisedTexts:
        return TokenisedTexts(self.tokens, self.concepts, self.titles).keep_tokens(kept)


class _LanguageFiles(NamedTuple):
    words: Path
    concepts: Path
    matrix: Path


class _LanguageData(NamedTuple):
    """A language as its files have it: for each document its concept in the matrix, its Q-number and its title."""

    counts: WordCounts
    concepts: list[str]
    items: list[str] | None
    titles: list[str]
    frequent: Ints


def languages(folder: str | Path) -> list[str]:
    """The languages with a matrix of counts; each of them must have both indices as well."""
    root = _data_folder(folder)
    pattern = re.compile(re.escape(FILE_NAMES["sparse_matrices"]).replace(r"\{\}", "(.+)") + r"(\.gz)?")
    matches = [pattern.fullmatch(path.name) for path in (root / "sparse_matrices").iterdir()]
    langs = sorted({match[1] for match in matches if match})
    if not langs:
        raise CorpusError(
            f"{root / 'sparse_matrices'}: there is no sparse_matrix_XX.txt.gz in this folder, XX being a language; "
            "copy the matrices of Zenodo record 3359814 into it"
        )
    for lang in langs:
        _files(root, lang)
    return langs


def read(
    folder: str | Path,
    langs: Sequence[str] | None = None,
    *,
    lowercase: bool = True,
    frequent_words: int = FREQUENT_WORDS,
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
    block_bytes: int = BLOCK_BYTES,
    progress: ProgressCallback = no_progress,
) -> tuple[list[str], dict[str, CountedTexts]]:
    """Read the names of all concepts, sorted, and the documents in every language.

    The lines of a concept may be anywhere in a matrix. Counts of the same word in the same document are added up,
    also where ``lowercase`` makes two words equal. With ``on_error="skip"``, bad lines are left out and counted in
    ``skipped``. About ``block_bytes`` of a matrix are parsed at a time.
    """
    check_on_error(on_error)
    root = _data_folder(folder)
    files = {lang: _files(root, lang) for lang in (languages(folder) if langs is None else langs)}
    sizes = {lang: paths.matrix.stat().st_size for lang, paths in files.items()}
    size_before, data = 0, {}
    for lang, paths in files.items():

        def report_progress(done: int, lang: str = lang, size_before: int = size_before) -> None:
            progress(Progress("read", size_before + done, sum(sizes.values()), lang))

        reader = _LanguageReader(paths, lowercase, frequent_words, on_error, skipped)
        data[lang] = reader.read(block_bytes, report_progress)
        report_progress(sizes[lang])
        size_before += sizes[lang]
    names = _concept_names(files, data)
    number = {name: i for i, name in enumerate(sorted({name for own in names.values() for name in own}))}
    texts = {}
    for lang, own_names in names.items():
        concepts = find_numbers(own_names, number)
        documents = data.pop(lang)
        titles = [title or name for title, name in zip(documents.titles, own_names, strict=True)]
        texts[lang] = CountedTexts(documents.counts, concepts, titles, documents.frequent)
    return list(number), texts


def _data_folder(folder: str | Path) -> Path:
    for below in (".", "matlab_input", "data/matlab_input"):  # where the authors' scripts expect them
        if (Path(folder) / below / "sparse_matrices").is_dir():
            return Path(folder) / below
    if not Path(folder).is_dir():
        raise CorpusError(f"{folder}: no such folder; check the spelling")
    raise CorpusError(
        f"{folder}: there is no folder sparse_matrices in it; name the folder that contains "
        "word_indices, concept_indices and sparse_matrices"
    )


def _files(root: Path, lang: str) -> _LanguageFiles:
    files = []
    for folder, name in FILE_NAMES.items():
        plain = root / folder / name.format(lang)
        compressed = plain.with_name(f"{plain.name}.gz")
        paths = [path for path in (compressed, plain) if path.is_file()]
        if not paths:
            usual = compressed if folder == "sparse_matrices" else plain
            raise CorpusError(
                f"{usual}: no such file; copy it from Zenodo record 3359814, or leave language {lang} out"
            )
        files.append(paths[0])
    return _LanguageFiles(*files)


def _concept_names(files: dict[str, _LanguageFiles], data: dict[str, _LanguageData]) -> dict[str, list[str]]:
    """The names of each language's concepts: those of the matrices, or Q-numbers where the languages differ in them."""
    item_of: dict[str, str] = {}
    differ = False
    for language in data.values():
        if language.items is not None:
            pairs = zip(language.concepts, language.items, strict=True)
            differ |= any(item_of.setdefault(concept, item) != item for concept, item in pairs)
    if not differ:
        return {lang: language.concepts for lang, language in data.items()}
    for lang, language in data.items():
        if language.items is None:
            raise CorpusError(
                f"{files[lang].concepts}: it has no column of Q-numbers, and other languages use the same ids for "
                f"other concepts; add the column, or leave language {lang} out"
            )
    return {lang: language.items or [] for lang, language in data.items()}


class _Documents(NamedTuple):
    """Parts of documents: the rows of their concepts in the index, their word counts, their frequent words."""

    rows: Ints
    counts: Sparse
    frequent: Ints


class _LanguageReader:
    def __init__(
        self, files: _LanguageFiles, lowercase: bool, frequent_words: int, on_error: OnError, skipped: Skipped | None
    ) -> None:
        self.files, self.frequent_words, self.on_error, self.skipped = files, frequent_words, on_error, skipped
        self.words = read_word_index(files.words, self._error_handler(files.words), lowercase)
        self.report_error = self._error_handler(files.matrix)

    def _error_handler(self, path: Path) -> ErrorReporter:
        return error_reporter(str(path), self.on_error, *([] if self.skipped is None else [self.skipped]))

    def read(self, block_bytes: int, report_progress: Callable[[int], None]) -> _LanguageData:
        files = self.files
        report_concept_error = self._error_handler(files.concepts)
        index = read_columns(files.concepts, report_concept_error)
        concepts: ConceptIndex | None = None
        parts: list[_Documents] = []
        lines = 0
        for entries in read_entries(files.matrix, block_bytes, self.report_error, report_progress):
            lines += len(entries.word_ids)
            if concepts is None:
                concepts = concept_index(files.concepts, index, files.matrix, entries.concepts, report_concept_error)
            parts.append(self._documents(entries, concepts))
        if concepts is None or not any(len(part.rows) for part in parts):
            problem = f"none of its {lines:,} lines can be used" if lines else "it contains no counts"
            raise CorpusError(f"{files.matrix}: {problem}; copy it again, with the indices of the same record")
        rows, matrix, frequent = _merge(parts, len(self.words.words))
        used = np.flatnonzero(np.bincount(matrix.indices, minlength=matrix.shape[1]))
        position = np.zeros(matrix.shape[1], np.int32)
        position[used] = np.arange(len(used), dtype=np.int32)
        matrix = csr_array((matrix.data, position[matrix.indices], matrix.indptr), shape=(len(rows), len(used)))
        return _LanguageData(
            WordCounts(self.words.words.take(pa.array(used)).to_pylist(), matrix),
            concepts.names.take(pa.array(rows)).to_pylist(),
            None if concepts.items is None else concepts.items.take(pa.array(rows)).to_pylist(),
            [""] * len(rows) if concepts.titles is None else concepts.titles.take(pa.array(rows)).to_pylist(),
            frequent,
        )

    def _documents(self, entries: Entries, concepts: ConceptIndex) -> _Documents:
        """Look up the concepts and words of a block, and report those that do not exist."""
        names, codes, word_ids, counts, lines, block = entries
        rows = find_numbers(names, concepts.row_of)[codes]
        positions = self.words.find(word_ids)
        valid = (rows >= 0) & (positions >= 0) & (counts >= 0) & (counts <= _LARGEST_COUNT)
        if not valid.all():
            if lines is None:
                return self._documents(parse_lines(block, self.report_error), concepts)
            for i in np.flatnonzero(~valid):
                reason, problem = self._describe_entry(names[codes[i]], int(word_ids[i]), int(counts[i]), rows[i] >= 0)
                self.report_error(int(lines[i]), reason, f"{problem}; {SKIP_LINES}")
            rows, positions, codes, word_ids, counts = (
                array[valid] for array in (rows, positions, codes, word_ids, counts)
            )
        shape = len(names), len(self.words.words)
        matrix = coo_array((counts.astype(np.int32), (codes, positions)), shape=shape).tocsr()
        frequent = np.bincount(codes[word_ids < self.words.ids[0] + self.frequent_words], minlength=shape[0])
        row_of_code = np.zeros(shape[0], np.int64)
        row_of_code[codes] = rows
        filled = np.flatnonzero(np.diff(matrix.indptr))  # a concept may have lost all of its lines
        return _Documents(row_of_code[filled], matrix if len(filled) == shape[0] else matrix[filled], frequent[filled])

    def _describe_entry(self, concept: str, word_id: int, count: int, is_known: bool) -> tuple[str, str]:
        if count < 0:
            return "negative count", f"count {count} is negative"
        if count > _LARGEST_COUNT:
            return "count too large", f"count {count} is larger than {_LARGEST_COUNT}"
        if not is_known:
            return "unknown concept", f"concept {concept} is not in {self.files.concepts.name}"
        first, last = self.words.ids[[0, -1]]
        known = f"{self.files.words.name}, whose ids are {first} to {last}"
        return "unknown word", f"word id {word_id} is not in {known}"


def _merge(parts: list[_Documents], words: int) -> _Documents:
    """Put the parts of every document together; ``parts`` is emptied on the way, to save memory."""
    rows, frequent = (np.concatenate([getattr(part, name) for part in parts]) for name in ("rows", "frequent"))
    nonzeros = sum(part.counts.nnz for part in parts)
    parts.reverse()
    taken = (parts.pop().counts for _ in range(len(parts)))
    matrix = ScratchArrays().stack_rows(taken, (len(rows), words), nonzeros, np.int32, np.int32)
    if (np.diff(rows) < 0).any():
        order = np.argsort(rows, kind="stable")
        matrix, rows, frequent = matrix[order], rows[order], frequent[order]
    first = np.flatnonzero(np.diff(rows, prepend=-1))
    offsets = np.append(matrix.indptr[first], matrix.indptr[-1:])
    matrix = csr_array((matrix.data, matrix.indices, offsets), shape=(len(first), words), copy=False)
    matrix.sum_duplicates()
    return _Documents(rows[first], matrix, np.add.reduceat(frequent, first))
