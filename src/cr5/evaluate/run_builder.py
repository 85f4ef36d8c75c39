"""The builder of a run: it collects scores, trainings, failures, examples and notes while a task proceeds."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from cr5._typing import Array, Ints
from cr5.evaluate.report.formatting import format_others
from cr5.evaluate.runs import (
    CslsOver,
    FailedSystem,
    Queries,
    RankedCandidate,
    Regime,
    ReportExample,
    Run,
    Score,
    Task,
    TrainedSystem,
)
from cr5.evaluate.statistics import bootstrap_interval, hit_at
from cr5.evaluate.wrong_answers import WrongAnswers
from cr5.retrieval.csls import NEIGHBOURS
from cr5.retrieval.top_k import Measure

EXAMPLES = 24  # examples stored with a run
log = logging.getLogger("cr5.evaluate")

DescribeQuery = Callable[[int], tuple[str, list[RankedCandidate]]]
"""Returns the title of query i and its best candidates."""


def csls_facts(csls_over: CslsOver) -> dict[str, Any]:
    """How CSLS was computed, for the facts of a run."""
    return {"neighbours": NEIGHBOURS, "over": csls_over}


class Condition(NamedTuple):
    """What a score is about: a system, trained in a regime, in one direction."""

    system: str
    regime: Regime
    source: str
    target: str


@dataclass
class ExampleSample:
    """A random sample of queries that arrive direction by direction: those with the smallest random keys.

    Of ``seen`` queries, each has the same chance to be among the ``size`` that are kept.
    """

    size: int
    seen: int = 0
    kept: list[tuple[float, ReportExample]] = field(default_factory=list)

    def add(self, queries: Ints, keys: Array, make_example: Callable[[int], ReportExample]) -> None:
        """Add the queries of one direction, each with a key between 0 and 1; only kept ones become examples."""
        self.seen += len(queries)
        limit = self.kept[-1][0] if len(self.kept) == self.size else np.inf
        smallest = [i for i in queries[np.argsort(keys[queries])][: self.size].tolist() if keys[i] < limit]
        self.kept += [(float(keys[i]), make_example(i)) for i in smallest]
        self.kept = sorted(self.kept, key=itemgetter(0))[: self.size]


def _proportional_examples(answered: ExampleSample, failed: ExampleSample, size: int) -> list[ReportExample]:
    """Answered and failed queries in the proportion in which they occur, also among the first n for every n."""
    seen = answered.seen + failed.seen
    size = min(size, seen)
    if not size:
        return []
    failures = round(size * failed.seen / seen)
    next_answered, next_failed = iter(answered.kept), iter(failed.kept)
    failures_before = [(2 * i * failures + size) // (2 * size) for i in range(size + 1)]
    return [next(next_failed if after > before else next_answered)[1] for before, after in pairwise(failures_before)]


@dataclass
class RunBuilder:
    """Collects the results of an evaluation and builds its run; ``seed`` is that of the examples."""

    seed: int = 0
    queries: dict[tuple[str, str], Queries] = field(default_factory=dict)
    scores: list[Score] = field(default_factory=list)
    trained: list[TrainedSystem] = field(default_factory=list)
    failed: list[FailedSystem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    wrong_answers: dict[str, WrongAnswers] = field(default_factory=dict)
    grouped_notes: dict[str, dict[str, None]] = field(default_factory=dict)
    _sampled: tuple[str, Regime] | None = None
    _answered: ExampleSample = field(default_factory=lambda: ExampleSample(EXAMPLES))
    _failed: ExampleSample = field(default_factory=lambda: ExampleSample(EXAMPLES))

    def add_scores(
        self,
        condition: Condition,
        ranks: Mapping[Measure, Ints],
        concepts: Ints,
        *,
        candidates: int,
        shared: int | None,
        test_set: Sequence[str],
        system_details: Sequence[str],
        csls_over: CslsOver,
    ) -> None:
        """Add a direction's ranks by each measure, with their signatures.

        A signature is the version, ``test_set``, the number of candidates, ``system_details`` and the measure. Scores
        may be compared only if their ``test_set`` is the same; ``system_details`` holds all that may differ.
        """
        parts = [f"cr5 {version('cr5')}", *test_set, f"{candidates} candidates", *filter(None, system_details)]
        for measure, measured in ranks.items():
            similarity = "cosine" if measure == "cosine" else f"csls k={NEIGHBOURS} over {csls_over}"
            interval = bootstrap_interval([(measured, concepts)], hit_at(1))
            signature = "|".join([*parts, similarity])
            self.scores.append(Score(*condition, measure, measured.tolist(), candidates, shared, signature, interval))

    def add_examples(self, condition: Condition, ranks: Ints, describe_query: DescribeQuery) -> None:
        """Add the queries of a direction, ranked by CSLS, to those from which the examples are drawn.

        All examples are of one system and regime, the first that is added.
        """
        self._sampled = self._sampled or (condition.system, condition.regime)
        if self._sampled != (condition.system, condition.regime):
            return
        keys = np.random.default_rng([self.seed, self._answered.seen + self._failed.seen]).random(len(ranks))

        def make_example(i: int) -> ReportExample:
            title, candidates = describe_query(i)
            return ReportExample(*condition, "csls", title, int(ranks[i]), candidates)

        self._answered.add(np.flatnonzero(ranks == 1), keys, make_example)
        self._failed.add(np.flatnonzero(ranks != 1), keys, make_example)

    def add_wrong_answers(self, target: str, ranks: Ints, first: Ints) -> None:
        """Count, by language, the candidates that come first for a query without being its right answer."""
        answers = self.wrong_answers.setdefault(target, WrongAnswers())
        answers.queries += len(ranks)
        answers.counts.update(first[ranks != 1].tolist())

    @contextmanager
    def record_failure(self, system: str, regime: Regime, langs: Sequence[str]) -> Iterator[None]:
        """Record an exception that a system raises within the block, instead of stopping the evaluation.

        The traceback is logged to "cr5.evaluate" at the level DEBUG.
        """
        try:
            yield
        except Exception as error:
            log.debug("%s, %s, %s could not run", system, regime, "-".join(langs), exc_info=True)
            self.failed.append(FailedSystem.from_error(error, system, regime, langs))

    def note(self, text: str, *, group: str) -> None:
        """Add a note; of the notes of a group, the run shows the first and the number of the others."""
        self.grouped_notes.setdefault(group, {})[text] = None

    def build(self, task: Task, title: str, facts: dict[str, Any]) -> Run:
        """The run; equal notes and equal trainings appear once."""
        first_notes = [next(iter(texts)) + format_others(len(texts) - 1) for texts in self.grouped_notes.values()]
        notes = list(dict.fromkeys([*first_notes, *self.notes]))
        trained = {(t.system, t.regime, *t.langs): t for t in reversed(self.trained)}
        return Run(
            task,
            title,
            version("cr5"),
            facts,
            list(self.queries.values()),
            self.scores,
            list(trained.values())[::-1],
            _proportional_examples(self._answered, self._failed, EXAMPLES),
            notes,
            self.failed,
            example_seed=self.seed,
        )
