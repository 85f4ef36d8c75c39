"""One direction of a task: rank the candidates of one language for queries of another, and record the result."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cr5._typing import Ints
from cr5.errors import Cr5Error
from cr5.evaluate.run_builder import Condition, RunBuilder
from cr5.evaluate.runs import PRETRAINED, CslsOver, Queries, RankedCandidate, TrainedSystem
from cr5.evaluate.systems.fitted_system import EmbeddingCache, FittedSystem
from cr5.evaluate.texts import TokenisedTexts
from cr5.retrieval.block_products import WeightedView
from cr5.retrieval.top_k import Measure, Retrieval, retrieve_views

MAX_BACKGROUND = 20_000  # texts over which CSLS computes neighbourhood means


def background_of(others: Ints, queries_of: str) -> Ints:
    """At most ``MAX_BACKGROUND`` of the rows that are not queries, evenly spaced; raises Cr5Error if there are none."""
    if not len(others):
        raise Cr5Error(
            f"there is no background for queries in {queries_of}: every text is a query; "
            'use `csls_over="queries"`, or fewer `queries`'
        )
    return others[:: -(-len(others) // MAX_BACKGROUND)]


def record_pretrained(builder: RunBuilder, system: str, fitted: FittedSystem, langs: Sequence[str]) -> None:
    """Add what a pretrained system reports about its training, in these languages."""
    seconds, report = float(fitted.report.get("seconds", 0.0)), dict(fitted.report)
    builder.trained.append(TrainedSystem(system, PRETRAINED, list(langs), seconds, report))


@dataclass(frozen=True)
class Direction:
    """Queries and candidates of one direction; ``background`` are rows of the queries' language."""

    source: str
    target: str
    texts: TokenisedTexts
    queries: Ints
    background: Ints | None
    candidates: TokenisedTexts

    def rank(self, cache: EmbeddingCache) -> dict[Measure, Retrieval]:
        """Rank all candidates for every query, by both measures."""
        parts = [self.queries] if self.background is None else [self.queries, self.background]
        rows, n = np.concatenate(parts), len(self.queries)
        if cache.fitted.monolingual:
            vectors = cache.fitted.embed(self.texts.select_rows(rows), self.source)
            views = [WeightedView(vectors, cache.fitted.embed(self.candidates, self.source))]
        else:
            views = cache.views(self.source, rows, self.target)
        if self.background is not None:
            views = [replace(view, queries=view.queries[:n], background=view.queries[n:]) for view in views]
        return retrieve_views(views, self.texts.concepts[self.queries], self.candidates.concepts)

    def record(
        self,
        builder: RunBuilder,
        condition: Condition,
        fitted: FittedSystem,
        retrieved: dict[Measure, Retrieval],
        *,
        concept_names: Sequence[str],
        test_set: Sequence[str],
        system_details: Sequence[str],
        shared: int | None,
        csls_over: CslsOver,
        code: str | None = None,
    ) -> None:
        """Add the scores of one system, and the coverage and examples of the first system that reports coverage.

        ``concept_names`` names the concept of every query. ``code`` is the code by which the system knows the query
        language, if it differs.
        """
        queries = self.texts.select_rows(self.queries)
        key = self.source, self.target
        if key not in builder.queries:
            builder.queries[key] = Queries(*key, list(concept_names), queries.counts.unique_words.tolist(), [])
        ranks: dict[Measure, Ints] = {measure: retrieval.ranks for measure, retrieval in retrieved.items()}
        builder.add_scores(
            condition, ranks, queries.concepts, candidates=len(self.candidates), shared=shared, test_set=test_set,
            system_details=system_details, csls_over=csls_over,
        )  # fmt: skip
        recorded = builder.queries[key]
        if recorded.coverage or not fitted.reports_coverage:
            return
        recorded.coverage.extend(np.round(fitted.coverage(queries, code or self.source), 4).tolist())
        top = retrieved["csls"]

        def describe_query(i: int) -> tuple[str, list[RankedCandidate]]:
            return queries.titles[i], [
                RankedCandidate(
                    self.candidates.titles[j],
                    round(float(score), 4),
                    bool(self.candidates.concepts[j] == queries.concepts[i]),
                )
                for j, score in zip(top.indices[i], top.scores[i], strict=True)
            ]

        builder.add_examples(condition, top.ranks, describe_query)
        builder.add_wrong_answers(self.target, top.ranks, top.indices[:, 0])
