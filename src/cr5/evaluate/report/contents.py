"""The contents of a report: tables and sentences, prepared once for the terminal, Markdown and HTML."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from cr5.evaluate.report.failed_queries import FailureAnalysis, analyse_failures
from cr5.evaluate.report.formatting import (
    MEASURE_NAMES,
    MEASURES,
    PAPER_MEASURES,
    describe_failures,
    format_others,
    format_percent,
    system_name,
)
from cr5.evaluate.report.headline import Headline, write_headline
from cr5.evaluate.runs import (
    PRETRAINED,
    REGIMES,
    FailedSystem,
    FailureKind,
    LanguagePair,
    MeanScore,
    Regime,
    Run,
    Score,
)
from cr5.evaluate.statistics import CUTOFFS, Interval
from cr5.retrieval.top_k import Measure

MAX_LISTED_PAIRS = 12  # a report on more language pairs shows the means, the best pairs and the worst
PARTIAL_NOTE = "over fewer directions than other systems, and therefore not compared with them"
FAILURE_LABELS: dict[FailureKind, str] = {
    "missing package": "not installed",
    "out of memory": "out of memory",
    "not applicable": "could not run",
    "error": "failed",
}


class PrecisionCell(NamedTuple):
    """P@k of one direction, and the 95 % interval of P@1."""

    precision: dict[int, float]
    interval: Interval


@dataclass(frozen=True)
class DetailRow:
    """A language pair's scores by one system: for each measure, queries in the first and in the second language.

    A score that does not exist is None. ``shared`` is the number of training concepts that the languages share.
    """

    first: str
    second: str
    by_measure: dict[Measure, list[PrecisionCell | None]]
    shared: int | None

    @property
    def cells(self) -> list[PrecisionCell | None]:
        """All four cells, in the order of the paper's table."""
        return [cell for measure in PAPER_MEASURES for cell in self.by_measure[measure]]


@dataclass(frozen=True)
class DetailTable:
    """The scores of one system in one regime: a row for each language pair, and the mean by each measure."""

    regime: Regime
    system: str
    rows: list[DetailRow]
    means: dict[Measure, MeanScore]

    @property
    def title(self) -> str:
        return system_name(self.system, self.regime)

    @property
    def has_shared(self) -> bool:
        """Whether it is known how many training concepts a pair shares."""
        return any(row.shared is not None for row in self.rows)


class SummaryCell(NamedTuple):
    """A system's mean by one measure; ``partial`` where other systems of the regime answer in more directions.

    ``ratio`` is P@1 over that of the upper bound in the same directions, None where no upper bound was measured.
    """

    scores: MeanScore
    best: bool
    partial: bool
    ratio: float | None = None


class SummaryFailure(NamedTuple):
    """Why a system has no mean in a regime: in two words, and as the reason of the first failure."""

    label: str
    reason: str


@dataclass(frozen=True)
class SummaryRow:
    """One row of the summary: a system, its means by regime and measure, and by regime why it has none."""

    system: str
    cells: dict[tuple[Regime, Measure], SummaryCell]
    failures: dict[Regime, SummaryFailure]

    def by_measure(self, regime: Regime) -> dict[Measure, SummaryCell]:
        return {measure: cell for (of_regime, measure), cell in self.cells.items() if of_regime == regime}


@dataclass(frozen=True)
class Report:
    """A run as every form of its report shows it; what takes long is computed once."""

    run: Run

    @cached_property
    def regimes(self) -> list[Regime]:
        return list(dict.fromkeys(score.regime for score in self.run.scores))

    @cached_property
    def measures(self) -> list[Measure]:
        """The measures of the run, the preferred one first."""
        return [measure for measure in MEASURES if any(s.measure == measure for s in self.run.scores)]

    @property
    def all_pretrained(self) -> bool:
        """Whether all systems were trained before the evaluation, so that there are no regimes to distinguish."""
        return self.regimes == [PRETRAINED]

    @property
    def has_shared_counts(self) -> bool:
        return any(score.shared is not None for score in self.run.scores)

    def systems(self, regime: str | None = None) -> list[str]:
        """The systems, of one regime or all, in the order of the run."""
        return list(dict.fromkeys(s.system for s in self.run.scores if regime in (None, s.regime)))

    @cached_property
    def main_system(self) -> str | None:
        """The system that the run is about: its first cr5, otherwise its first system; None without scores."""
        names = self.systems()
        return next((name for name in names if self.run.role(name) == "own"), names[0] if names else None)

    def pairs(self, regime: str | None = None) -> list[LanguagePair]:
        """The language pairs, of one regime or all, each in the order in which it first appears in the run."""
        pairs: dict[frozenset[str], LanguagePair] = {}
        for score in self.run.scores:
            pairs.setdefault(frozenset((score.source, score.target)), (score.source, score.target))
        wanted = {frozenset((s.source, s.target)) for s in self.run.scores if regime in (None, s.regime)}
        return [pair for key, pair in pairs.items() if key in wanted]

    @cached_property
    def has_many_pairs(self) -> bool:
        return len(self.pairs()) > MAX_LISTED_PAIRS

    @cached_property
    def headline(self) -> Headline | None:
        return write_headline(self.run, self.main_system) if self.main_system else None

    @cached_property
    def summary_regimes(self) -> list[Regime]:
        """The regimes of the run in their usual order, including those in which no system could run."""
        failed = [regime for _, regime in self.run.not_measured()]
        return sorted({*self.regimes, *failed}, key=[*REGIMES, PRETRAINED].index)

    @cached_property
    def failures(self) -> list[str]:
        """Sentences on systems that could not be trained, or not be queried in all directions."""
        return describe_failures(self.run.failed)

    @cached_property
    def partial_failures(self) -> list[str]:
        """The sentences on systems that could be queried in some directions only."""
        return describe_failures(f for f in self.run.failed if (f.system, f.regime) not in self.run.not_measured())

    @cached_property
    def summary(self) -> list[SummaryRow]:
        """Systems by regimes: the means of P@1, or why a system has none.

        The best of a column is a system that answers in as many directions as any other and is not an upper bound.
        """
        means = self.run.means()
        # Of every column the most directions, and the highest P@1 of a system that has so many.
        best_of: dict[tuple[Regime, Measure], tuple[int, float]] = {}
        for mean in means:
            if self.run.role(mean.system) != "upper bound":
                column = (mean.regime, mean.measure)
                best_of[column] = max(best_of.get(column, (0, 0.0)), (mean.directions, mean.precision[1]))
        names = dict.fromkeys([*self.systems(), *(system for system, _ in self.run.not_measured())])
        order = [*self.run.roles, *names]
        rows = {system: SummaryRow(system, {}, {}) for system in sorted(names, key=order.index)}
        for mean in means:
            column = (mean.regime, mean.measure)
            most_directions, highest = best_of.get(column, (0, 0.0))
            partial = mean.directions < most_directions
            best = not partial and self.run.role(mean.system) != "upper bound" and mean.precision[1] == highest
            ratio = self._ratio_to_upper_bound(mean)
            rows[mean.system].cells[column] = SummaryCell(mean, best, partial, ratio)
        for (system, regime), failures in self.run.not_measured().items():
            rows[system].failures[regime] = _summary_failure(failures)
        return list(rows.values())

    def _ratio_to_upper_bound(self, mean: MeanScore) -> float | None:
        bounds = (
            other.precision[1]
            for other in self.run.means()
            if self.run.role(other.system) == "upper bound"
            and (other.regime, other.measure, other.directions) == (mean.regime, mean.measure, mean.directions)
        )
        bound = next(bounds, 0.0)
        return mean.precision[1] / bound if bound else None

    @property
    def has_ratios(self) -> bool:
        return any(cell.ratio is not None for row in self.summary for cell in row.cells.values())

    @property
    def has_partial_means(self) -> bool:
        return any(cell.partial for row in self.summary for cell in row.cells.values())

    @cached_property
    def details(self) -> list[DetailTable]:
        """The table of the paper: for each regime and system, a row for each language pair, and the means."""
        scores = {(s.regime, s.system, s.measure, s.source, s.target): s for s in self.run.scores}
        means = {(mean.regime, mean.system, mean.measure): mean for mean in self.run.means()}
        tables = []
        for regime in self.regimes:
            pairs = self.pairs(regime)
            for system in self.systems(regime):
                rows = []
                for first, second in pairs:
                    directions = ((first, second), (second, first))
                    of_pair = {m: [scores.get((regime, system, m, *d)) for d in directions] for m in MEASURES}
                    shared = next((s.shared for both in of_pair.values() for s in both if s), None)
                    cells = {measure: list(map(_cell, both)) for measure, both in of_pair.items()}
                    rows.append(DetailRow(first, second, cells, shared))
                of_system = {m: means[regime, system, m] for m in MEASURES if (regime, system, m) in means}
                tables.append(DetailTable(regime, system, rows, of_system))
        return tables

    @cached_property
    def examples_text(self) -> str:
        """Which queries the examples are, and how many of them fail."""
        examples = self.run.examples
        if not examples or self.run.example_seed is None:
            return "The best answers to some queries."
        first = examples[0]
        ranks = [rank for s in self.run.select(first.system, first.regime, first.measure) for rank in s.ranks]
        failed, shown = (sum(rank != 1 for rank in each) for each in (ranks, [e.rank for e in examples]))
        condition = f"{system_name(first.system, first.regime)}, {MEASURE_NAMES[first.measure]}"
        return (
            f"{len(examples):,} of {len(ranks):,} queries, drawn at random (seed {self.run.example_seed}), with "
            f"failures in proportion: {condition}, does not put the right answer first for "
            f"{format_percent(100 * failed / len(ranks))} % of all queries and for {shown} of these {len(examples)}."
        )

    @cached_property
    def failed_queries(self) -> FailureAnalysis | None:
        return analyse_failures(self.run, self.measures[0]) if self.measures else None

    @cached_property
    def signatures(self) -> dict[str, str]:
        """The signatures of the scores, each with the scores that it belongs to, in words."""
        by_signature: dict[str, list[Score]] = {}
        for score in self.run.scores:
            by_signature.setdefault(score.signature, []).append(score)
        return {signature: _describe(scores) for signature, scores in by_signature.items()}


def _cell(score: Score | None) -> PrecisionCell | None:
    return PrecisionCell({k: score.precision(k) for k in CUTOFFS}, score.interval) if score else None


def _summary_failure(failures: list[FailedSystem]) -> SummaryFailure:
    others = len({failed.reason for failed in failures}) - 1
    return SummaryFailure(FAILURE_LABELS[failures[0].kind], failures[0].reason + format_others(others))


def _describe(scores: list[Score]) -> str:
    first = scores[0]
    name = system_name(first.system, first.regime)
    if len(scores) > 1:
        return f"{name}, {len(scores):,} scores"
    return f"{name}, {first.source} > {first.target}, {MEASURE_NAMES[first.measure]}"
