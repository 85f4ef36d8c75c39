"""A counted corpus: every language's documents as word counts, with their concepts and places."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow.compute as pc

from cr5._typing import Ints, Sparse
from cr5.corpus.documents import Batch, location
from cr5.corpus.reading import CorpusReader, FileShard
from cr5.corpus.skipped import Skipped
from cr5.errors import CorpusError
from cr5.features.counts import WordCounter, WordCounts
from cr5.features.tfidf import (
    DocumentFrequencies,
    Vocabulary,
    Weighting,
    document_frequencies,
    fit_transform,
    merge_frequencies,
    select_vocabulary,
)
from cr5.features.tokeniser import Tokeniser
from cr5.machine import available_cores
from cr5.progress import Progress, ProgressCallback, silent
from cr5.storage.scratch import ScratchArrays
from cr5.training.engines import Cluster, Engine


@dataclass(frozen=True)
class Spread:
    """Counts that lie with the workers of a cluster: for every document its handle's number, its row there,
    and the number of its different words."""

    handles: list[Any]
    handle: Ints
    row: Ints
    unique: Ints

    def rows(self, chosen: Ints) -> "Spread":
        """Some of the documents."""
        return Spread(self.handles, self.handle[chosen], self.row[chosen], self.unique[chosen])


@dataclass(frozen=True)
class Documents:
    """One language: counts, and for every document its concept number, source number and line."""

    counts: WordCounts | Spread
    concepts: Ints
    sources: Ints
    lines: Ints

    def __len__(self) -> int:
        return len(self.concepts)

    @property
    def here(self) -> WordCounts:
        """The counts, which lie here."""
        assert isinstance(self.counts, WordCounts)
        return self.counts

    @property
    def unique(self) -> Ints:
        """The number of different words of every document."""
        return self.counts.unique

    def rows(self, chosen: Ints) -> "Documents":
        """Some of the documents."""
        return Documents(self.counts.rows(chosen), self.concepts[chosen], self.sources[chosen], self.lines[chosen])


@dataclass(frozen=True)
class Collection:
    """The documents of all languages; ``concepts`` and ``sources`` give the names behind the numbers."""

    concepts: list[str]
    sources: list[str]
    languages: dict[str, Documents]

    def presence(self) -> Ints:
        """concepts x languages: how many documents of each concept a language has."""
        size = len(self.concepts)
        columns = [np.bincount(d.concepts, minlength=size) for d in self.languages.values()]
        return np.array(columns, np.int64).reshape(len(columns), size).T

    def sized(self, smallest: int, largest: int) -> "Collection":
        """Only documents of ``smallest`` to ``largest`` different words."""
        return self._keep(lambda d: (d.unique >= smallest) & (d.unique <= largest))

    def shared(self) -> "Collection":
        """Only concepts that two languages or more have documents about."""
        shared = (self.presence() > 0).sum(axis=1) > 1
        return self._keep(lambda d: shared[d.concepts])

    def require_shared(self, skipped: Skipped | None) -> None:
        """Complain about the first concept that only one language has, or count all in ``skipped``."""
        alone = (self.presence() > 0).sum(axis=1) == 1
        for lang, documents in self.languages.items():
            rows = np.flatnonzero(alone[documents.concepts])
            for row in rows:
                where = location(self.sources[documents.sources[row]], int(documents.lines[row]))
                concept = self.concepts[documents.concepts[row]]
                message = f"{where}: concept {concept} occurs in language {lang} only"
                if skipped is None:
                    more = f" ({int(alone.sum()):,} concepts do)" if alone.sum() > 1 else ""
                    raise CorpusError(f"{message}{more}; skip what cannot be used with --on-error skip, or mend it")
                skipped.add("concept in one language only", message)

    def put(self, engine: Engine, weighting: Weighting, number: Ints) -> dict[str, Vocabulary]:
        """Weigh the words and hand every language's documents to an engine; concept c is called number[c] there."""
        spread = {lang: d for lang, d in self.languages.items() if isinstance(d.counts, Spread)}
        if spread:
            assert isinstance(engine, Cluster)
            return {lang: _put_spread(engine, lang, d, weighting, number) for lang, d in spread.items()}
        counts = {lang: d.here for lang, d in self.languages.items()}
        weighed = fit_transform(counts, weighting, available_cores())
        for lang, (_, X) in weighed.items():
            engine.put(lang, X, number[self.languages[lang].concepts])
        return {lang: features for lang, (features, _) in weighed.items()}

    def _keep(self, choose) -> "Collection":  # type: ignore[no-untyped-def]
        return replace(self, languages={k: d.rows(np.flatnonzero(choose(d))) for k, d in self.languages.items()})


def collect(
    batches: Iterable[Batch],
    tokeniser: Tokeniser,
    *,
    threads: int | None = None,
    scratch: ScratchArrays | None = None,
    progress: ProgressCallback = silent,
) -> Collection:
    """Count the words of a corpus as it streams by; the texts themselves are not kept."""
    counters: dict[str, WordCounter] = {}
    columns: dict[str, list[list[Ints]]] = {}
    concepts: dict[str, int] = {}
    sources: dict[str, int] = {}
    seen = 0
    with ThreadPoolExecutor(threads or available_cores()) as pool:
        for batch in batches:
            source = sources.setdefault(batch.source, len(sources))
            names = batch.rows["concept"].to_pylist()
            numbers = np.fromiter((concepts.setdefault(c, len(concepts)) for c in names), np.int64, len(names))
            for lang in pc.unique(batch.rows["lang"]).to_pylist():
                rows = np.flatnonzero(pc.equal(batch.rows["lang"], lang).to_numpy(zero_copy_only=False))
                if lang not in counters:
                    counters[lang] = WordCounter(lang, tokeniser, pool, scratch=scratch)
                    columns[lang] = [[], [], []]
                whole = len(rows) == len(names)
                counters[lang].add(batch.rows["text"] if whole else batch.rows["text"].take(rows))
                parts = numbers[rows], np.full(len(rows), source), batch.lines[rows]
                for column, part in zip(columns[lang], parts, strict=True):
                    column.append(part)
            seen += len(names)
            progress(Progress("read and count words", seen, None, f"{seen:,} documents"))
        counts = {lang: counters[lang].finish() for lang in sorted(counters)}
    languages = {lang: Documents(counts[lang], *map(np.concatenate, columns[lang])) for lang in counts}
    return Collection(list(concepts), list(sources), languages)


# The same on a cluster: workers count pieces of the corpus and keep what they counted.


def collect_on(
    cluster: Cluster, reading: CorpusReader, tokeniser: Tokeniser, *, progress: ProgressCallback = silent
) -> Collection:
    """Count the words of a corpus where the workers are; only concepts, lengths and places come here."""
    pieces = reading.shards()
    handles = cluster.spawn(partial(_count_piece, tokeniser=tokeniser), pieces)
    concepts: dict[str, int] = {}
    sources: dict[str, int] = {}
    columns: dict[str, list[list[Ints]]] = {}
    seen = 0
    for i, handle in enumerate(handles):
        [(names, origins, languages, skipped)] = cluster.ask(_summary, [handle])
        number = np.fromiter((concepts.setdefault(c, len(concepts)) for c in names), np.int64, len(names))
        source = np.fromiter((sources.setdefault(s, len(sources)) for s in origins), np.int64, len(origins))
        for lang, (unique, concept, origin, line) in languages.items():
            rows = np.arange(len(unique))
            parts = np.full(len(rows), i), rows, unique, number[concept], source[origin], line
            for column, part in zip(columns.setdefault(lang, [[] for _ in parts]), parts, strict=True):
                column.append(part)
            seen += len(rows)
        for reason, count in skipped.counts.items():
            if reading.skipped is not None:
                reading.skipped.add(reason, skipped.examples[reason], count)
        progress(Progress("read and count words", i + 1, len(pieces), f"{seen:,} documents"))
    languages = {}
    for lang in sorted(columns):
        handle, row, unique, *others = map(np.concatenate, columns[lang])
        languages[lang] = Documents(Spread(handles, handle, row, unique), *others)
    return Collection(list(concepts), list(sources), languages)


def _count_piece(piece: FileShard, tokeniser: Tokeniser) -> tuple[Collection, Skipped]:
    skipped = Skipped()
    return collect(piece.read(skipped), tokeniser, threads=1), skipped


def _summary(counted: tuple[Collection, Skipped]) -> tuple[Any, ...]:
    collection, skipped = counted
    languages = {lang: (d.unique, d.concepts, d.sources, d.lines) for lang, d in collection.languages.items()}
    return collection.concepts, collection.sources, languages, skipped


def _put_spread(cluster: Cluster, lang: str, documents: Documents, weighting: Weighting, number: Ints) -> Vocabulary:
    """Choose a language's vocabulary from what the workers counted, and have them weigh their documents by it."""
    spread = documents.counts
    assert isinstance(spread, Spread)
    members = [np.flatnonzero(spread.handle == i) for i in range(len(spread.handles))]
    used = [i for i, rows in enumerate(members) if len(rows)]
    handles, rows = [spread.handles[i] for i in used], [spread.row[members[i]] for i in used]
    found = cluster.ask(partial(_frequencies, lang=lang), handles, rows)
    features = select_vocabulary(merge_frequencies(found), weighting)
    concepts = [number[documents.concepts[members[i]]] for i in used]
    [shared] = cluster.spawn(_same, [features])  # sent to a worker once, not with every piece
    pieces = [(*piece, shared) for piece in zip(handles, rows, concepts, strict=True)]
    cluster.put_shards(lang, partial(_weigh, lang=lang), pieces)
    return features


def _same(features: Vocabulary) -> Vocabulary:
    return features


def _frequencies(counted: tuple[Collection, Skipped], rows: Ints, lang: str) -> DocumentFrequencies:
    return document_frequencies(counted[0].languages[lang].here.rows(rows))


def _weigh(
    counted: tuple[Collection, Skipped], rows: Ints, concepts: Ints, features: Vocabulary, lang: str
) -> tuple[Sparse, Ints]:
    return features.transform(counted[0].languages[lang].here.rows(rows)), concepts
