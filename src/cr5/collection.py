"""A counted corpus: every language's documents as word counts, with their concepts and places."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pyarrow.compute as pc

from cr5._typing import Ints
from cr5.corpus import Batch, CorpusError, Skipped, place
from cr5.engine import available_cores
from cr5.features import Counts, WordCounter
from cr5.progress import Progress, Report, silent
from cr5.text import Tokeniser


@dataclass(frozen=True)
class Documents:
    """One language: counts, and for every document its concept number, source number and line."""

    counts: Counts
    concepts: Ints
    sources: Ints
    lines: Ints

    def __len__(self) -> int:
        return len(self.concepts)

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
        return self._keep(lambda d: (d.counts.unique >= smallest) & (d.counts.unique <= largest))

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
                where = place(self.sources[documents.sources[row]], int(documents.lines[row]))
                concept = self.concepts[documents.concepts[row]]
                message = f"{where}: concept {concept} occurs in language {lang} only"
                if skipped is None:
                    more = f" ({int(alone.sum()):,} concepts do)" if alone.sum() > 1 else ""
                    raise CorpusError(f"{message}{more}; skip what cannot be used with --on-error skip, or mend it")
                skipped.add("concept in one language only", message)

    def _keep(self, choose) -> "Collection":  # type: ignore[no-untyped-def]
        return replace(self, languages={k: d.rows(np.flatnonzero(choose(d))) for k, d in self.languages.items()})


def collect(
    batches: Iterable[Batch], tokeniser: Tokeniser, *, threads: int | None = None, progress: Report = silent
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
                    counters[lang] = WordCounter(lang, tokeniser, pool)
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
