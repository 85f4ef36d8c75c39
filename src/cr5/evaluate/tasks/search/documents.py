"""The documents of an index by language: ids, concepts, titles and word counts; texts stay in the index."""

from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from cr5._typing import Ints
from cr5.corpus.languages import find_language, no_such_language
from cr5.errors import Cr5Error
from cr5.features.counts import WordCounter, WordCounts
from cr5.features.tokeniser import Tokeniser
from cr5.hashing import hash_texts
from cr5.index import Index
from cr5.machine import available_cores
from cr5.message_parts import in_languages
from cr5.progress import Progress, ProgressCallback

Key = TypeVar("Key", bound=Hashable)
TITLE_COUNT = 2  # how often the words of a title count, where those of the text count once


@dataclass(frozen=True)
class LanguageDocuments:
    """The documents in one language, sorted by id; ``counts`` are those of the text and of the title."""

    lang: str
    tokeniser: Tokeniser
    ids: list[str]
    concepts: list[str]
    titles: list[str]
    characters: Ints
    text_hashes: list[int]
    counts: WordCounts

    @cached_property
    def row_of_id(self) -> dict[str, int]:
        """The row of each document."""
        return {document_id: i for i, document_id in enumerate(self.ids)}

    @cached_property
    def rows_of_concept(self) -> dict[str, list[int]]:
        """The documents of each concept."""
        return _rows_by(self.concepts)

    @cached_property
    def rows_of_title(self) -> dict[str, list[int]]:
        """The documents of each title; titles with the same words in the same order are the same."""
        return _rows_by([self.key(title) for title in self.titles])

    @cached_property
    def rows_of_text(self) -> dict[int, list[int]]:
        """The documents of each text, by its hash."""
        return _rows_by(self.text_hashes)

    @cached_property
    def document_frequency(self) -> Ints:
        """The number of documents that contain each word."""
        return np.bincount(self.counts.matrix.indices, minlength=len(self.counts.words))

    @cached_property
    def column(self) -> dict[str, int]:
        """The column of each word in ``counts``."""
        return {word: i for i, word in enumerate(self.counts.words)}

    def key(self, text: str) -> str:
        """The tokens of a text, separated by spaces."""
        return " ".join(self.tokeniser.words(text, self.lang))

    def frequency(self, word: str) -> int:
        """The number of documents that contain a word."""
        return int(self.document_frequency[self.column[word]]) if word in self.column else 0


def read_documents(
    index: Index, langs: Sequence[str] | None, progress: ProgressCallback
) -> dict[str, LanguageDocuments]:
    """Read the documents of an index, of some languages or of all that have any."""
    counts = index.count()
    for lang in langs or ():
        if find_language(lang, index.langs) is None:
            raise Cr5Error(no_such_language("the index", repr(lang), index.langs))
    chosen = index.langs if langs is None else [str(find_language(lang, index.langs)) for lang in langs]
    present = [lang for lang in dict.fromkeys(chosen) if counts.get(lang)]
    if not present:
        raise Cr5Error(f"the index has no documents {in_languages(chosen)}; add documents to it first")
    return _read_languages(index, present, sum(counts.values()), progress)


def scan_texts(index: Index, langs: Sequence[str]) -> Iterator[tuple[str, str, str, str, str]]:
    """Id, language, concept, title and text of every document in these languages."""
    columns = ("id", "lang", "concept", "title", "text")
    for batch in index.scan(columns):
        for row in zip(*(batch[name].to_pylist() for name in columns), strict=True):
            if row[1] in langs:
                yield row


def _read_languages(
    index: Index, langs: Sequence[str], total: int, progress: ProgressCallback
) -> dict[str, LanguageDocuments]:
    """Count the words of texts in batches, of which only the counts stay in memory."""
    tokeniser, batch_size = index.model.settings.tokeniser, 1000
    rows: dict[str, list[tuple[str, str, str, int, int]]] = {lang: [] for lang in langs}
    waiting: dict[str, list[str]] = {lang: [] for lang in langs}
    with ThreadPoolExecutor(available_cores()) as pool:
        counters = {lang: WordCounter(lang, tokeniser, pool) for lang in langs}
        for done, (document_id, lang, concept, title, text) in enumerate(scan_texts(index, langs), 1):
            rows[lang].append((document_id, concept, title.strip(), len(text), int(hash_texts([text])[0])))
            waiting[lang].append("\n".join([title] * TITLE_COUNT + [text]))
            if len(waiting[lang]) == batch_size:
                counters[lang].add(waiting.pop(lang))
                waiting[lang] = []
            if done % batch_size == 0:
                progress(Progress("read", done, total))
        for lang, texts in waiting.items():
            if texts:
                counters[lang].add(texts)
        counts = {lang: counter.finish() for lang, counter in counters.items()}
    languages = {}
    for lang, own in rows.items():
        order = sorted(range(len(own)), key=lambda i: own[i][0])
        ids, concepts, titles, characters, hashes = map(list, zip(*(own[i] for i in order), strict=True))
        ordered = counts[lang].select_rows(np.array(order, np.int64))
        languages[lang] = LanguageDocuments(
            lang, tokeniser, ids, concepts, titles, np.array(characters), hashes, ordered
        )
    return languages


def _rows_by(keys: Sequence[Key]) -> dict[Key, list[int]]:
    rows: dict[Key, list[int]] = {}
    for i, key in enumerate(keys):
        rows.setdefault(key, []).append(i)
    return rows
