"""A run: what one evaluation found, as it is written, read and compared."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from cr5._typing import Ints
from cr5.errors import Cr5Error
from cr5.evaluate.statistics import (
    CUTOFFS,
    PERMUTATIONS,
    Difference,
    Interval,
    bootstrap_interval,
    hit_at,
    holm,
    mean_reciprocal_rank,
    paired_difference,
    precision,
    reciprocal_ranks,
)
from cr5.retrieval.csls import NEIGHBOURS
from cr5.retrieval.top_k import Measure
from cr5.storage.atomic import replacing

Task: TypeAlias = Literal["documents", "sentences", "words"]
Regime: TypeAlias = Literal["joint", "pairwise", "low-resource", "transitive", "as given"]
REGIMES: tuple[Regime, ...] = ("joint", "pairwise", "low-resource", "transitive")
FILE = "run.json"
FORMAT = 1
SIGNIFICANCE_LEVEL = 0.05
EXAMPLES = 12  # directions that examples are shown of


@dataclass(frozen=True)
class Queries:
    """The queries of one direction: for each its concept, its number of different words, and its coverage.

    Coverage is the share of a query's words that the first cr5 model of the run knows; it is
    empty where there is none.
    """

    source: str
    target: str
    concepts: list[str]
    lengths: list[int]
    coverage: list[float]


@dataclass(frozen=True)
class Score:
    """One system, trained in one regime, in one direction, by one measure: the rank of every query's counterpart.

    ``ranks`` are in the order of the direction's ``Queries``. ``shared`` is the number of training concepts that
    the two languages share, where it is known, ``candidates`` the number of texts that were ranked.
    """

    system: str
    regime: Regime
    source: str
    target: str
    measure: Measure
    ranks: list[int]
    candidates: int
    shared: int | None
    signature: str
    interval: Interval  # of P@1

    @cached_property
    def rank_array(self) -> Ints:
        """The ranks."""
        return np.array(self.ranks, np.int64)

    def precision(self, k: int = 1) -> float:
        """P@k in percent."""
        return precision(self.rank_array, k)

    @property
    def reciprocal_rank(self) -> float:
        """The mean reciprocal rank in percent."""
        return mean_reciprocal_rank(self.rank_array)

    def to_json(self) -> dict[str, Any]:
        """Plain values, and the figures that follow from the ranks."""
        return asdict(self) | {
            "queries": len(self.ranks),
            "precision": {str(k): self.precision(k) for k in CUTOFFS},
            "reciprocal_rank": self.reciprocal_rank,
        }


@dataclass(frozen=True)
class TrainedSystem:
    """One system as it was trained: for which regime and languages, how long it took, and what it reports."""

    system: str
    regime: Regime
    langs: list[str]
    seconds: float
    report: dict[str, Any]


@dataclass(frozen=True)
class RankedCandidate:
    """A candidate that was found: its title, its score, and whether it is the right one."""

    title: str
    score: float
    right: bool


@dataclass(frozen=True)
class ExampleQuery:
    """A query and the candidates that came first."""

    system: str
    regime: Regime
    source: str
    target: str
    measure: Measure
    query: str
    rank: int
    hits: list[RankedCandidate]


@dataclass(frozen=True)
class Run:
    """All that one evaluation found. ``facts`` are plain values about corpus, split and options; ``notes`` are
    sentences for the reader: what could not be measured, and why."""

    task: Task
    title: str
    version: str
    facts: dict[str, Any]
    queries: list[Queries]
    scores: list[Score]
    trained: list[TrainedSystem] = field(default_factory=list)
    examples: list[ExampleQuery] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def direction(self, source: str, target: str) -> Queries:
        """The queries of one direction."""
        if (source, target) not in self._directions:
            raise ValueError(f"{source} > {target} has no queries")
        return self._directions[source, target]

    @cached_property
    def _directions(self) -> dict[tuple[str, str], Queries]:
        return {(queries.source, queries.target): queries for queries in self.queries}

    def groups(self) -> list[tuple[str, Regime, Measure]]:
        """Systems, regimes and measures, as they come."""
        return list(dict.fromkeys((s.system, s.regime, s.measure) for s in self.scores))

    def select(self, system: str, regime: str, measure: str) -> list[Score]:
        """The scores of one system, regime and measure, direction by direction."""
        return [s for s in self.scores if (s.system, s.regime, s.measure) == (system, regime, measure)]

    def means(self) -> list["MeanScore"]:
        """For each system, regime and measure the means over directions."""
        return self._means

    @cached_property
    def _means(self) -> list["MeanScore"]:
        return [self._mean(*group) for group in self.groups()]

    def _mean(self, system: str, regime: Regime, measure: Measure) -> "MeanScore":
        scores = self.select(system, regime, measure)
        numbers = _numbers(self.direction(s.source, s.target).concepts for s in scores)
        asked = [(s.rank_array, concepts) for s, concepts in zip(scores, numbers, strict=True)]
        return MeanScore(
            system,
            regime,
            measure,
            len(scores),
            {k: float(np.mean([s.precision(k) for s in scores])) for k in CUTOFFS},
            float(np.mean([s.reciprocal_rank for s in scores])),
            bootstrap_interval(asked, hit_at(1)),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values: what can be read again, and the figures that follow from it."""
        scores = [score.to_json() for score in self.scores]
        means = [mean.to_json() for mean in self.means()]
        return {"format": FORMAT} | asdict(self) | {"scores": scores, "means": means}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Run":
        """The run that ``to_json`` wrote."""
        derived = ("queries", "precision", "reciprocal_rank")
        scores = []
        for plain in values["scores"]:
            own = {k: v for k, v in plain.items() if k not in derived}
            scores.append(Score(**own | {"interval": Interval(*own["interval"])}))
        examples = [
            ExampleQuery(**e | {"hits": [RankedCandidate(**hit) for hit in e["hits"]]}) for e in values["examples"]
        ]
        parts = {
            "queries": [Queries(**q) for q in values["queries"]],
            "scores": scores,
            "trained": [TrainedSystem(**t) for t in values["trained"]],
            "examples": examples,
        }
        return cls(**{k: v for k, v in values.items() if k not in ("format", "means")} | parts)


class Condition(NamedTuple):
    """Who is asked, trained how, and in which direction."""

    system: str
    regime: Regime
    source: str
    target: str


@dataclass
class RunBuilder:
    """A run in the making."""

    queries: dict[tuple[str, str], Queries] = field(default_factory=dict)
    scores: list[Score] = field(default_factory=list)
    trained: list[TrainedSystem] = field(default_factory=list)
    examples: list[ExampleQuery] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    notes_like: dict[str, dict[str, None]] = field(default_factory=dict)

    def score(
        self,
        who: Condition,
        ranks: Mapping[Measure, Ints],
        concepts: Ints,
        *,
        candidates: int,
        shared: int | None,
        question: Sequence[str],
        answer: Sequence[str],
        over: str,
    ) -> None:
        """Keep the ranks of a direction by each measure; the signature is version, question, answer and measure.

        ``question`` must be the same for whatever may be compared, ``answer`` tell all that may differ.
        """
        asked = [f"cr5 {version('cr5')}", *question, f"{candidates} candidates", *filter(None, answer)]
        for measure, found in ranks.items():
            how = "cosine" if measure == "cosine" else f"csls k={NEIGHBOURS} over {over}"
            span = bootstrap_interval([(found, concepts)], hit_at(1))
            signature = "|".join([*asked, how])
            self.scores.append(Score(*who, measure, found.tolist(), candidates, shared, signature, span))

    def look(self, who: Condition, ranks: Ints, show: Callable[[int], tuple[str, list[RankedCandidate]]]) -> None:
        """Keep a hit and a near miss of a direction, by CSLS; ``show`` gives query i and what was found for it."""
        if len({(example.source, example.target) for example in self.examples}) >= EXAMPLES:
            return
        for places in (np.flatnonzero(ranks == 1), np.flatnonzero((ranks > 1) & (ranks <= 10))):
            if len(places):
                i = int(places[len(places) // 2])
                query, found = show(i)
                self.examples.append(ExampleQuery(*who, "csls", query, int(ranks[i]), found))

    def cannot(self, system: str, where: str, reason: object) -> None:
        """Note why a system has no score there."""
        self.note(f"{system}, {where}: {reason}", like=f"{system}, {where.split()[0]}")

    def note(self, text: str, *, like: str) -> None:
        """Note something that may be said of many: of all that are ``like`` each other, the first is told."""
        self.notes_like.setdefault(like, {})[text] = None

    def run(self, task: Task, title: str, facts: dict[str, Any]) -> Run:
        """The run; whatever was noted twice is told once, and what is alike by the first."""
        first = [
            next(iter(told)) + (f" (and {len(told) - 1} more like it)" if len(told) > 1 else "")
            for told in self.notes_like.values()
        ]
        notes = list(dict.fromkeys([*first, *self.notes]))
        trained = {(t.system, t.regime, *t.langs): t for t in reversed(self.trained)}
        return Run(
            task,
            title,
            version("cr5"),
            facts,
            list(self.queries.values()),
            self.scores,
            list(trained.values())[::-1],
            self.examples,
            notes,
        )


def merge(runs: Sequence[Run], title: str) -> Run:
    """Several runs over the same queries as one; the facts are those of the first, and all regimes."""
    queries = {(q.source, q.target): q for run in reversed(runs) for q in run.queries}
    return replace(
        runs[0],
        title=title,
        facts=runs[0].facts | {"regimes": list(dict.fromkeys(r for run in runs for r in run.facts["regimes"]))},
        queries=list(queries.values()),
        scores=[score for run in runs for score in run.scores],
        trained=[trained for run in runs for trained in run.trained],
        examples=[example for run in runs for example in run.examples],
        notes=[note for run in runs for note in run.notes],
    )


class MeanScore(NamedTuple):
    """The means over the directions of one system, regime and measure; the interval is that of P@1."""

    system: str
    regime: Regime
    measure: Measure
    directions: int
    precision: dict[int, float]
    reciprocal_rank: float
    interval: Interval

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return self._asdict() | {"precision": {str(k): v for k, v in self.precision.items()}}


class Comparison(NamedTuple):
    """One row of two runs side by side: P@1 and the mean reciprocal rank of each, and their differences.

    A mean is over so many ``directions``. ``adjusted`` is the p-value of the difference in P@1, made larger for
    the number of rows that are looked at together (Holm).
    """

    system_a: str
    system_b: str
    regime: Regime
    measure: Measure
    source: str  # "" for the mean over directions
    target: str
    precision_a: float
    precision_b: float
    at_1: Difference
    reciprocal: Difference
    directions: int = 1
    adjusted: float = 1.0

    @property
    def significant(self) -> bool:
        """Whether chance alone makes such a difference in P@1 in fewer than 5 of 100 such comparisons."""
        return self.adjusted < SIGNIFICANCE_LEVEL

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        differences = {"at_1": self.at_1, "reciprocal": self.reciprocal}
        plain = {k: v._asdict() | {"interval": list(v.interval)} for k, v in differences.items()}
        return self._asdict() | plain | {"significant": self.significant}


def write_text(path: Path, text: str) -> None:
    """Write a file that appears when it is complete."""
    with replacing(path) as file:
        # The name of a file may hold half a character, which UTF-8 cannot: JSON reads it back from its escape.
        file.write(text.encode(errors="backslashreplace"))


def save_run(run: Run, folder: Path) -> None:
    """Write a run into a folder, as ``run.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / FILE, json.dumps(run.to_json(), ensure_ascii=False) + "\n")


def load_run(path: Path) -> Run:
    """Read a run, from its folder or its file."""
    file = path / FILE if path.is_dir() else path
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Cr5Error(f"{file} does not exist; name a folder that cr5 eval wrote with -o") from None
    except (ValueError, IsADirectoryError):
        raise Cr5Error(f"{file} is not a run of cr5 eval; name a folder that it wrote with -o") from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        found = values.get("format") if isinstance(values, dict) else None
        raise Cr5Error(f"{file} has the format {found}, this version reads {FORMAT}; evaluate again")
    try:
        run = Run.from_json(values)
        for score in run.scores:
            if len(score.ranks) != len(run.direction(score.source, score.target).concepts):
                raise ValueError(f"{score.source} > {score.target} has other queries than ranks")
        return run
    except (AttributeError, TypeError, KeyError, ValueError) as error:
        raise Cr5Error(f"{file} is damaged ({error}); evaluate again") from error


def compare(a: Run, b: Run, systems: tuple[str, str] | None = None) -> list[Comparison]:
    """Two runs side by side, wherever both have scores for the same queries: means first, then directions.

    Without ``systems`` every system is compared with itself, or, where each run has one only, these two.
    """
    names_a, names_b = ([*dict.fromkeys(s.system for s in run.scores)] for run in (a, b))
    if systems:
        pairs = [systems]
    elif len(names_a) == len(names_b) == 1:
        pairs = [(names_a[0], names_b[0])]
    else:
        pairs = [(name, name) for name in names_a if name in names_b]
    asked: list[tuple[tuple[str, str, Regime, Measure, str, str], list[tuple[Score, Score]]]] = []
    for name_a, name_b in pairs:
        for regime, measure in dict.fromkeys((s.regime, s.measure) for s in a.scores):
            there = {(s.source, s.target): s for s in b.select(name_b, regime, measure)}
            both = [
                (s, there[s.source, s.target])
                for s in a.select(name_a, regime, measure)
                if (s.source, s.target) in there
            ]
            both = [pair for pair in both if _same_question(a, b, *pair)]
            if not both:
                continue
            asked.append(((name_a, name_b, regime, measure, "", ""), both))
            if len(both) > 1:
                asked += [((name_a, name_b, regime, measure, x.source, x.target), [(x, y)]) for x, y in both]
    if not asked:
        raise Cr5Error(
            "the two runs have no system and queries in common; compare runs of the same corpus and split "
            f"(systems {', '.join(names_a)} and {', '.join(names_b)})"
        )
    # The least p-value there can be, 1 / draws, has to be significant for all rows together.
    draws = max(PERMUTATIONS, round(2 / SIGNIFICANCE_LEVEL) * len(asked))
    rows = [Comparison(*names, *_paired_difference(a, both, draws), directions=len(both)) for names, both in asked]
    same = [all(x.ranks == y.ranks for x, y in both) for _, both in asked]
    result = list(rows)
    for family in (True, False):  # means, then directions; what is identical is no comparison
        members = [i for i, row in enumerate(rows) if (row.source == "") == family and not same[i]]
        for i, adjusted in zip(members, holm([rows[i].at_1.p_value for i in members]), strict=True):
            result[i] = rows[i]._replace(adjusted=adjusted)
    return result


def _same_question(a: Run, b: Run, x: Score, y: Score) -> bool:
    """Whether two scores are about the same queries and as many candidates; words are looked for in any vocabulary."""
    concepts = [run.direction(x.source, x.target).concepts for run in (a, b)]
    alike = concepts[0] == concepts[1] and _question(x) == _question(y)
    return alike and (a.task == "words" or x.candidates == y.candidates)


def _question(score: Score) -> list[str]:
    """The parts of a signature up to the queries: task, corpus, split and direction, but not the version."""
    parts = score.signature.split("|")[1:]
    end = next((i for i, part in enumerate(parts) if part.endswith(" queries")), len(parts))
    return parts[: end + 1]


def _paired_difference(
    run: Run, pairs: list[tuple[Score, Score]], draws: int
) -> tuple[float, float, Difference, Difference]:
    concepts = _numbers(run.direction(x.source, x.target).concepts for x, _ in pairs)
    ranks = [x.rank_array for x, _ in pairs], [y.rank_array for _, y in pairs]
    at_1, mrr = (paired_difference(*ranks, concepts, gain, draws=draws) for gain in (hit_at(1), reciprocal_ranks))
    mean_a, mean_b = (float(np.mean([precision(r, 1) for r in side])) for side in ranks)
    return mean_a, mean_b, at_1, mrr


def _numbers(directions: Iterable[list[str]]) -> list[Ints]:
    """A number for each concept, the same in every direction."""
    number: dict[str, int] = {}
    return [np.array([number.setdefault(name, len(number)) for name in names], np.int64) for names in directions]
