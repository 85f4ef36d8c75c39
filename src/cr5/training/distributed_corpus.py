"""A corpus counted on a cluster: the workers read files, count their words and keep the counts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cr5._typing import Ints, Mask, Sparse
from cr5.corpus.documents import ReadOptions
from cr5.corpus.reading import CorpusReader, FileShard
from cr5.corpus.skipped import Skipped
from cr5.corpus.texts import assign_numbers
from cr5.features.counts import WordCounts, stack_counts
from cr5.features.tfidf import Vocabulary, Weighting, make_vocabulary, merge_frequencies, word_frequencies
from cr5.features.tokeniser import Tokeniser
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.training.counted_corpus import CountedCorpus, CountedDocuments, count_corpus, document_hashes, have_known_word
from cr5.training.engines import DistributedEngine, Engine

CountedShard: TypeAlias = tuple[CountedCorpus, Skipped, ReadOptions]
"""A shard with what was skipped in it, and the languages that it has, wanted or not."""


@dataclass(frozen=True)
class DistributedCounts:
    """Counts that workers hold: for every document the number of its handle, its row there, and its different words."""

    handle: Ints
    row: Ints
    unique_words: Ints

    def select_rows(self, rows: Ints) -> "DistributedCounts":
        """Some of the documents."""
        return DistributedCounts(self.handle[rows], self.row[rows], self.unique_words[rows])


@dataclass(frozen=True)
class DistributedCorpus(CountedCorpus):
    """A counted corpus whose counts the workers of ``cluster`` hold, one handle for each shard of the corpus files."""

    cluster: DistributedEngine
    handles: list[Any]

    def fit_vocabularies(self, weighting: Weighting) -> dict[str, Vocabulary]:
        """The vocabulary of every language, from the workers' counts."""
        vocabularies = {}
        for lang in self.languages:
            frequencies = self._call(word_frequencies, lang, self._parts(lang))
            vocabularies[lang] = make_vocabulary(merge_frequencies(frequencies), weighting)
        return vocabularies

    def have_known_word(self, vocabularies: Mapping[str, Vocabulary]) -> dict[str, Mask]:
        """For every document, whether it has a word of its language's vocabulary."""
        masks = {}
        for lang, documents in self.languages.items():
            parts = self._parts(lang)
            masks[lang] = np.zeros(len(documents), bool)
            known = self._call(have_known_word, lang, parts, self._send(vocabularies[lang]))
            for positions, mask in zip(parts.positions, known, strict=True):
                masks[lang][positions] = mask
        return masks

    def _document_hashes(self) -> dict[str, Ints]:
        return {lang: np.concatenate(self._call(document_hashes, lang, self._parts(lang))) for lang in self.languages}

    def load_into(
        self,
        engine: Engine,
        vocabularies: Mapping[str, Vocabulary],
        concept_numbers: Ints,
        subwords: Mapping[str, Sparse | None],
    ) -> None:
        """Have the workers weight and keep their documents."""
        if engine is not self.cluster:
            raise ValueError("the counts are on the workers of another engine")
        for lang, documents in self.languages.items():
            parts = self._parts(lang)
            concepts = [concept_numbers[documents.concepts[positions]] for positions in parts.positions]
            vocabulary = self._send(vocabularies[lang])
            shard_inputs = [(*each, vocabulary) for each in zip(parts.handles, parts.rows, concepts, strict=True)]
            self.cluster.put_shards(lang, partial(_weighted_rows, lang=lang), shard_inputs, subwords[lang])

    def fetch_counts(self, rows: Mapping[str, Ints]) -> dict[str, WordCounts]:
        """The word counts of some documents of some languages, in the given order, from the workers."""
        fetched = {}
        for lang, chosen in rows.items():
            parts = self._parts(lang, chosen)
            counts = stack_counts(self._call(WordCounts.drop_unused_words, lang, parts))
            fetched[lang] = counts.select_rows(np.argsort(np.concatenate(parts.positions)))
        return fetched

    def _call(self, function: Callable[..., Any], lang: str, parts: "_Parts", *arguments: Any) -> list[Any]:
        """``function(counts, *arguments)`` for the documents of a language that each worker holds."""
        repeated = [[argument] * len(parts.handles) for argument in arguments]
        return self.cluster.call(partial(_apply, function, lang), parts.handles, parts.rows, *repeated)

    def _send(self, vocabulary: Vocabulary) -> Any:
        """A handle, so that a vocabulary is sent to the workers once, not with every part."""
        [handle] = self.cluster.map_items(_identity, [vocabulary])
        return handle

    def _parts(self, lang: str, chosen: Ints | None = None) -> "_Parts":
        """Where all documents of a language are, or the chosen ones, in that order."""
        counts = self.languages[lang].counts
        assert isinstance(counts, DistributedCounts)
        counts = counts if chosen is None else counts.select_rows(chosen)
        positions = [np.flatnonzero(counts.handle == i) for i in range(len(self.handles))]
        used = [i for i, chosen in enumerate(positions) if len(chosen)]
        return _Parts(
            [self.handles[i] for i in used], [counts.row[positions[i]] for i in used], [positions[i] for i in used]
        )


class _Parts(NamedTuple):
    """A language's documents by the handle of their counts: rows there, and positions among all of the language."""

    handles: list[Any]
    rows: list[Ints]
    positions: list[Ints]


def count_corpus_on_workers(
    cluster: DistributedEngine, reader: CorpusReader, tokeniser: Tokeniser, *, progress: ProgressCallback = no_progress
) -> DistributedCorpus:
    """Count the words of a corpus on the workers; only concepts, lengths and origins are sent here."""
    shards = reader.shards()
    handles = cluster.map_items(partial(_count_shard, tokeniser=tokeniser), shards)
    concepts: dict[str, int] = {}
    sources: dict[str, int] = {}
    columns: dict[str, list[list[Ints]]] = {}
    document_count, found_langs = 0, set[str]()
    for i, handle in enumerate(handles):
        [(names, origins, languages, skipped, (langs_of_shard, guessed_encodings))] = cluster.call(_summary, [handle])
        number, source = assign_numbers(names, concepts), assign_numbers(origins, sources)
        for lang, (unique, concept, origin, line) in languages.items():
            rows = np.arange(len(unique))
            parts = np.full(len(rows), i), rows, unique, number[concept], source[origin], line
            for column, part in zip(columns.setdefault(lang, [[] for _ in parts]), parts, strict=True):
                column.append(part)
            document_count += len(rows)
        reader.skipped.update(skipped)
        found_langs |= langs_of_shard
        reader.note_encodings(guessed_encodings)
        progress(Progress("read and count words", i + 1, len(shards), f"{document_count:,} documents"))
    reader.check_langs(found_langs)
    languages = {}
    for lang in sorted(columns):
        handle, row, unique, *others = map(np.concatenate, columns[lang])
        languages[lang] = CountedDocuments(DistributedCounts(handle, row, unique), *others)
    return DistributedCorpus(list(concepts), list(sources), languages, cluster, handles)


# What runs on the workers.


def _count_shard(shard: FileShard, tokeniser: Tokeniser) -> CountedShard:
    skipped = Skipped()
    return count_corpus(shard.read(skipped), tokeniser, threads=1), skipped, shard.options


def _summary(counted: CountedShard) -> tuple[Any, ...]:
    corpus, skipped, options = counted
    languages = {lang: (d.unique_words, d.concepts, d.sources, d.lines) for lang, d in corpus.languages.items()}
    return corpus.concepts, corpus.sources, languages, skipped, (options.found_langs, options.guessed_encodings)


def _identity(vocabulary: Vocabulary) -> Vocabulary:
    return vocabulary


def _apply(function: Callable[..., Any], lang: str, counted: CountedShard, rows: Ints, *arguments: Any) -> Any:
    return function(counted[0].languages[lang].local_counts.select_rows(rows), *arguments)


def _weighted_rows(
    counted: CountedShard, rows: Ints, concepts: Ints, vocabulary: Vocabulary, lang: str
) -> tuple[Sparse, Ints]:
    return vocabulary.transform(counted[0].languages[lang].local_counts.select_rows(rows)), concepts
