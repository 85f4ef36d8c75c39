"""A corpus counted on a cluster: the workers read files, count their words and keep the counts."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from cr5._typing import Ints, Sparse
from cr5.corpus.reading import CorpusReader, FileShard
from cr5.corpus.skipped import Skipped
from cr5.features.tfidf import (
    Vocabulary,
    Weighting,
    WordFrequencies,
    make_vocabulary,
    merge_frequencies,
    word_frequencies,
)
from cr5.features.tokeniser import Tokeniser
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.training.counted_corpus import CountedCorpus, CountedDocuments, count_corpus
from cr5.training.engines import DistributedEngine, Engine


@dataclass(frozen=True)
class DistributedCounts:
    """Counts that workers hold: for every document the number of its handle, its row there, and its unique words."""

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

    def load_into(self, engine: Engine, weighting: Weighting, number: Ints) -> dict[str, Vocabulary]:
        """Choose every vocabulary from the workers' counts, and have them weight and keep their documents."""
        if engine is not self.cluster:
            raise ValueError("the counts are on the workers of another engine")
        return {lang: self._load_language(lang, weighting, number) for lang in self.languages}

    def _load_language(self, lang: str, weighting: Weighting, number: Ints) -> Vocabulary:
        documents = self.languages[lang]
        counts = documents.counts
        assert isinstance(counts, DistributedCounts)
        documents_of = [np.flatnonzero(counts.handle == i) for i in range(len(self.handles))]
        used = [i for i, chosen in enumerate(documents_of) if len(chosen)]
        handles, rows = [self.handles[i] for i in used], [counts.row[documents_of[i]] for i in used]
        frequencies = self.cluster.call(partial(_frequencies, lang=lang), handles, rows)
        vocabulary = make_vocabulary(merge_frequencies(frequencies), weighting)
        concepts = [number[documents.concepts[documents_of[i]]] for i in used]
        [shared] = self.cluster.map_items(_identity, [vocabulary])  # sent to a worker once, not with every piece
        pieces = [(*piece, shared) for piece in zip(handles, rows, concepts, strict=True)]
        self.cluster.put_shards(lang, partial(_weighted_rows, lang=lang), pieces)
        return vocabulary


def count_corpus_on_workers(
    cluster: DistributedEngine, reader: CorpusReader, tokeniser: Tokeniser, *, progress: ProgressCallback = no_progress
) -> DistributedCorpus:
    """Count the words of a corpus on the workers; only concepts, lengths and origins are sent here."""
    shards = reader.shards()
    handles = cluster.map_items(partial(_count_shard, tokeniser=tokeniser), shards)
    concepts: dict[str, int] = {}
    sources: dict[str, int] = {}
    columns: dict[str, list[list[Ints]]] = {}
    seen = 0
    for i, handle in enumerate(handles):
        [(names, origins, languages, skipped)] = cluster.call(_summary, [handle])
        number = np.fromiter((concepts.setdefault(c, len(concepts)) for c in names), np.int64, len(names))
        source = np.fromiter((sources.setdefault(s, len(sources)) for s in origins), np.int64, len(origins))
        for lang, (unique, concept, origin, line) in languages.items():
            rows = np.arange(len(unique))
            parts = np.full(len(rows), i), rows, unique, number[concept], source[origin], line
            for column, part in zip(columns.setdefault(lang, [[] for _ in parts]), parts, strict=True):
                column.append(part)
            seen += len(rows)
        for reason, count in skipped.counts.items():
            if reader.skipped is not None:
                reader.skipped.add(reason, skipped.examples[reason], count)
        progress(Progress("read and count words", i + 1, len(shards), f"{seen:,} documents"))
    languages = {}
    for lang in sorted(columns):
        handle, row, unique, *others = map(np.concatenate, columns[lang])
        languages[lang] = CountedDocuments(DistributedCounts(handle, row, unique), *others)
    return DistributedCorpus(list(concepts), list(sources), languages, cluster, handles)


# What runs on the workers.


def _count_shard(shard: FileShard, tokeniser: Tokeniser) -> tuple[CountedCorpus, Skipped]:
    skipped = Skipped()
    return count_corpus(shard.read(skipped), tokeniser, threads=1), skipped


def _summary(counted: tuple[CountedCorpus, Skipped]) -> tuple[Any, ...]:
    corpus, skipped = counted
    languages = {lang: (d.unique_words, d.concepts, d.sources, d.lines) for lang, d in corpus.languages.items()}
    return corpus.concepts, corpus.sources, languages, skipped


def _identity(vocabulary: Vocabulary) -> Vocabulary:
    return vocabulary


def _frequencies(counted: tuple[CountedCorpus, Skipped], rows: Ints, lang: str) -> WordFrequencies:
    return word_frequencies(counted[0].languages[lang].local_counts.select_rows(rows))


def _weighted_rows(
    counted: tuple[CountedCorpus, Skipped], rows: Ints, concepts: Ints, vocabulary: Vocabulary, lang: str
) -> tuple[Sparse, Ints]:
    return vocabulary.transform(counted[0].languages[lang].local_counts.select_rows(rows)), concepts
