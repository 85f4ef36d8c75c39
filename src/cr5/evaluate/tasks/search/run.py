"""The result of an evaluation of search: ranks of the right documents, by search and by BM25, and their figures."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from cr5._typing import Ints
from cr5.evaluate.output import csv_table, write_files
from cr5.evaluate.report.formatting import format_percent, format_value
from cr5.evaluate.report.markdown import table_head, table_row
from cr5.evaluate.runs import number_concepts
from cr5.evaluate.statistics import (
    Difference,
    Interval,
    bootstrap_interval,
    hit_at,
    mean_reciprocal_rank,
    paired_difference,
    precision,
)
from cr5.evaluate.tasks.search.queries import SearchQuery
from cr5.storage.json_files import json_text

CUTOFFS = (1, 3, 10)
DEPTH = max(CUTOFFS)  # hits that are looked at; the rank of a document that is not among them is 0
FORMAT = 1
Scope: TypeAlias = Literal["own language", "across languages"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
ALL = "all"  # the name of the row for all queries


@dataclass(frozen=True)
class RankedQuery:
    """A query with the rank of its first right document by search and by BM25, 0 if not among the first ten."""

    query: SearchQuery
    search: int
    bm25: int

    @property
    def scope(self) -> Scope:
        """Whether documents in the language of the query were searched, or in another."""
        return "own language" if self.query.source == self.query.target else "across languages"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self.query) | {
            "answers": sorted(self.query.answers), "scope": self.scope, "search": self.search, "bm25": self.bm25
        }  # fmt: skip


class SearchFigures(NamedTuple):
    """Success@1, @3 and @10 and the mean reciprocal rank of one system, in percent; the interval is of success@1."""

    success: dict[int, float]
    reciprocal_rank: float
    interval: Interval

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return self._asdict() | {"success": {str(k): value for k, value in self.success.items()}}


class SearchRow(NamedTuple):
    """The figures of some queries, by search and by BM25.

    ``type``, ``source`` and ``target`` are what the queries have in common, otherwise empty. ``difference`` is how much
    more search finds first than BM25, with its interval and p-value.
    """

    scope: Scope
    type: str
    source: str
    target: str
    queries: int
    search: SearchFigures
    bm25: SearchFigures
    difference: Difference

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        figures = {"search": self.search.to_json(), "bm25": self.bm25.to_json()}
        return self._asdict() | figures | {"difference": self.difference._asdict()}


@dataclass(frozen=True)
class SearchRun:
    """The result of an evaluation of search: the queries with their ranks, plain facts, and notes for the reader."""

    title: str
    version: str
    facts: dict[str, Any]
    queries: list[RankedQuery]
    notes: list[str]

    def __repr__(self) -> str:
        """The title and the success of all queries at once: everything else would fill pages."""
        figures = ", ".join(f"{row.scope}: success@1 {row.search.success[1]:.1f}" for row in self.overall())
        return f"<SearchRun of {self.title}; {figures}>"

    def overall(self) -> list[SearchRow]:
        """One row for queries that search documents in their own language, and one for those that search another."""
        return self._tables["overall"]

    def by_type(self) -> list[SearchRow]:
        """A row for each type of queries, in their own language and in another."""
        return self._tables["by_type"]

    def by_language(self) -> list[SearchRow]:
        """A row for each language of queries, over all types, in their own language and in another."""
        return self._tables["by_language"]

    def scores(self) -> list[SearchRow]:
        """A row for each type of queries and each pair of languages."""
        return self._tables["scores"]

    @cached_property
    def _tables(self) -> dict[str, list[SearchRow]]:
        return {
            "overall": self._rows(lambda query: ("", "", "")),
            "by_type": self._rows(lambda query: (query.type, "", "")),
            "by_language": self._rows(lambda query: ("", query.source, "")),
            "scores": self._rows(lambda query: (query.type, query.source, query.target)),
        }

    def _rows(self, group: Callable[[SearchQuery], tuple[str, str, str]]) -> list[SearchRow]:
        groups: dict[tuple[Scope, tuple[str, str, str]], list[RankedQuery]] = {}
        for scope in SCOPES:
            for ranked in self.queries:
                if ranked.scope == scope:
                    groups.setdefault((scope, group(ranked.query)), []).append(ranked)
        return [_row(scope, *names, members) for (scope, names), members in groups.items()]

    def to_json(self) -> dict[str, Any]:
        """Plain values: all queries with their ranks, and the figures that follow from them."""
        return {
            "format": FORMAT, "task": "search", "title": self.title, "version": self.version, "facts": self.facts,
            "notes": self.notes,
            **{name: [row.to_json() for row in rows] for name, rows in self._tables.items()},
            "queries": [ranked.to_json() for ranked in self.queries],
        }  # fmt: skip

    def save(self, folder: str | Path) -> None:
        """Write search.json (everything), scores.csv and report.md into a folder."""
        texts = {"search.json": json_text(self.to_json()), "scores.csv": _csv(self.scores())}
        write_files(Path(folder), texts | {"report.md": _markdown(self)})


def _row(scope: Scope, query_type: str, source: str, target: str, queries: Sequence[RankedQuery]) -> SearchRow:
    """Every query counts the same; those about the same concept are drawn together for intervals."""
    concepts = number_concepts([[ranked.query.concept for ranked in queries]])
    search, bm25 = (np.array(ranks, np.int64) for ranks in zip(*((q.search, q.bm25) for q in queries), strict=True))
    difference = paired_difference([bm25], [search], concepts, hit_at(1))
    figures = [_figures(ranks, concepts[0]) for ranks in (search, bm25)]
    return SearchRow(scope, query_type, source, target, len(queries), figures[0], figures[1], difference)


def _figures(ranks: Ints, concepts: Ints) -> SearchFigures:
    success = {k: precision(ranks, k) for k in CUTOFFS}
    interval = bootstrap_interval([(ranks, concepts)], hit_at(1))
    return SearchFigures(success, mean_reciprocal_rank(ranks), interval)


def _csv(rows: Iterable[SearchRow]) -> str:
    """Two lines for each row: of search and of BM25."""
    names = ("scope", "type", "source", "target", "queries", "system")
    figures = (*(f"success@{k}" for k in CUTOFFS), "MRR", "success@1 low", "success@1 high")
    lines = [
        (*row[:5], system, *of_system.success.values(), of_system.reciprocal_rank, *of_system.interval)
        for row in rows
        for system, of_system in (("search", row.search), ("BM25", row.bm25))
    ]
    return csv_table((*names, *figures), lines)


EXPLANATION = "success@1 with its interval, @3, @10 and MRR: of search, then of BM25, in %"
HEADER = ("", "queries", "@1", "95 %", "@3", "@10", "MRR", "BM25", "@3", "@10", "MRR")


def cells(row: SearchRow) -> list[str]:
    """The figures of a row as text, in the order of ``HEADER`` after its name."""
    search, bm25 = (
        [
            format_percent(value).replace("100.0", "100")
            for value in (*figures.success.values(), figures.reciprocal_rank)
        ]
        for figures in (row.search, row.bm25)
    )
    low, high = row.search.interval
    return [f"{row.queries:,}", search[0], f"{low:.0f}–{high:.0f}", *search[1:], *bm25]


def tables(run: SearchRun) -> list[tuple[str, list[tuple[str, SearchRow]]]]:
    """The tables of a report: a title, and the rows with their names."""
    result = []
    for scope in SCOPES:
        by_type = [(row.type, row) for row in run.by_type() if row.scope == scope]
        by_type += [(ALL, row) for row in run.overall() if row.scope == scope]
        by_language = [(row.source, row) for row in run.by_language() if row.scope == scope]
        tables = {"type of query": by_type, "language of the query": by_language}
        result += [(f"{scope.capitalize()}, by {name}", rows) for name, rows in tables.items() if rows]
    return result


def _markdown(run: SearchRun) -> str:
    lines = [f"# Search: {run.title}", "", EXPLANATION, ""]
    for title, rows in tables(run):
        lines += [f"## {title}", "", *table_head(HEADER, text_columns=1)]
        lines += [*(table_row([name, *cells(row)]) for name, row in rows), ""]
    lines += [f"- {note}" for note in run.notes]
    return "\n".join([*lines, "", f"cr5 {run.version}; {format_value(run.facts)}", ""])
