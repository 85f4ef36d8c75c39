"""A run: the scores of one evaluation with everything needed to report and compare them."""

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
    Interval,
    bootstrap_interval,
    hit_at,
    mean_reciprocal_rank,
    precision,
)
from cr5.retrieval.csls import NEIGHBOURS
from cr5.retrieval.top_k import Measure
from cr5.storage.atomic import atomic_write

Task: TypeAlias = Literal["documents", "sentences", "words"]
Regime: TypeAlias = Literal["joint", "pairwise", "low-resource", "transitive", "as given"]
"""What a system was trained on."""
REGIMES: tuple[Regime, ...] = ("joint", "pairwise", "low-resource", "transitive")
TRAINED_ELSEWHERE: Regime = "as given"  # the regime of systems that were trained before the evaluation
LanguagePair: TypeAlias = tuple[str, str]
CslsOver: TypeAlias = Literal["queries", "background"]
"""The vectors over which CSLS takes a candidate's neighbourhood: the queries, or other texts in their language."""
RUN_FILE = "run.json"
FORMAT = 1
MAX_EXAMPLE_DIRECTIONS = 12


@dataclass(frozen=True)
class Queries:
    """The queries of one direction: the concept, the number of unique words and the coverage of each.

    Coverage is the share of a query's tokens that the first cr5 model of the run has in its vocabulary; the list is
    empty if the run has no such model.
    """

    source: str
    target: str
    concepts: list[str]
    lengths: list[int]
    coverage: list[float]


@dataclass(frozen=True)
class Score:
    """The rank of every query's counterpart: one system, trained in one regime, in one direction, by one measure.

    ``ranks`` are in the order of the direction's ``Queries``. ``candidates`` is the number of texts that were ranked.
    ``shared`` is the number of training concepts that the two languages share, if it is known. ``interval`` is that
    of P@1.
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
    interval: Interval

    @cached_property
    def rank_array(self) -> Ints:
        """``ranks`` as an array."""
        return np.array(self.ranks, np.int64)

    def precision(self, k: int = 1) -> float:
        """P@k in percent."""
        return precision(self.rank_array, k)

    @property
    def reciprocal_rank(self) -> float:
        """The mean reciprocal rank in percent."""
        return mean_reciprocal_rank(self.rank_array)

    def to_json(self) -> dict[str, Any]:
        """Plain values, with the figures that follow from the ranks."""
        return asdict(self) | {
            "queries": len(self.ranks),
            "precision": {str(k): self.precision(k) for k in CUTOFFS},
            "reciprocal_rank": self.reciprocal_rank,
        }


@dataclass(frozen=True)
class TrainedSystem:
    """One training of a system: regime, languages, duration, and what the system reports about it."""

    system: str
    regime: Regime
    langs: list[str]
    seconds: float
    report: dict[str, Any]


@dataclass(frozen=True)
class RankedCandidate:
    """A candidate among the first of an example query: its title, its score, and whether it is right."""

    title: str
    score: float
    right: bool


@dataclass(frozen=True)
class ReportExample:
    """A query with its best candidates, for the report; ``rank`` is that of the right one."""

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
    """The result of one evaluation.

    ``facts`` are plain values about corpus, split and options. ``notes`` are sentences for the reader: what could not
    be measured, and why.
    """

    task: Task
    title: str
    version: str
    facts: dict[str, Any]
    queries: list[Queries]
    scores: list[Score]
    trained: list[TrainedSystem] = field(default_factory=list)
    examples: list[ReportExample] = field(default_factory=list)
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
        """The combinations of system, regime and measure, in the order of the scores."""
        return list(dict.fromkeys((s.system, s.regime, s.measure) for s in self.scores))

    def select(self, system: str, regime: str, measure: str) -> list[Score]:
        """The scores of one system, regime and measure, one for each direction."""
        return [s for s in self.scores if (s.system, s.regime, s.measure) == (system, regime, measure)]

    def means(self) -> list["MeanScore"]:
        """The means over directions, for each system, regime and measure."""
        return self._means

    @cached_property
    def _means(self) -> list["MeanScore"]:
        return [self._mean(*group) for group in self.groups()]

    def _mean(self, system: str, regime: Regime, measure: Measure) -> "MeanScore":
        scores = self.select(system, regime, measure)
        numbers = number_concepts(self.direction(s.source, s.target).concepts for s in scores)
        directions = [(s.rank_array, concepts) for s, concepts in zip(scores, numbers, strict=True)]
        return MeanScore(
            system,
            regime,
            measure,
            len(scores),
            {k: float(np.mean([s.precision(k) for s in scores])) for k in CUTOFFS},
            float(np.mean([s.reciprocal_rank for s in scores])),
            bootstrap_interval(directions, hit_at(1)),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values: everything that ``from_json`` needs, and the figures that follow from it."""
        scores = [score.to_json() for score in self.scores]
        means = [mean.to_json() for mean in self.means()]
        return {"format": FORMAT} | asdict(self) | {"scores": scores, "means": means}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Run":
        """The run that ``to_json`` wrote."""
        derived = ("queries", "precision", "reciprocal_rank")
        scores = []
        for score in values["scores"]:
            stored = {k: v for k, v in score.items() if k not in derived}
            scores.append(Score(**stored | {"interval": Interval(*stored["interval"])}))
        examples = [
            ReportExample(**example | {"hits": [RankedCandidate(**hit) for hit in example["hits"]]})
            for example in values["examples"]
        ]
        parts = {
            "queries": [Queries(**q) for q in values["queries"]],
            "scores": scores,
            "trained": [TrainedSystem(**t) for t in values["trained"]],
            "examples": examples,
        }
        return cls(**{k: v for k, v in values.items() if k not in ("format", "means")} | parts)


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


class Condition(NamedTuple):
    """What a score is about: a system, trained in a regime, in one direction."""

    system: str
    regime: Regime
    source: str
    target: str


@dataclass
class RunBuilder:
    """Collects the results of an evaluation and builds its run."""

    queries: dict[tuple[str, str], Queries] = field(default_factory=dict)
    scores: list[Score] = field(default_factory=list)
    trained: list[TrainedSystem] = field(default_factory=list)
    examples: list[ReportExample] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    grouped_notes: dict[str, dict[str, None]] = field(default_factory=dict)

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

    def add_examples(
        self, condition: Condition, ranks: Ints, describe_query: Callable[[int], tuple[str, list[RankedCandidate]]]
    ) -> None:
        """Add one query that was answered right and one near miss, by CSLS, of the first few directions.

        ``describe_query`` returns the title of query i and its best candidates.
        """
        if len({(example.source, example.target) for example in self.examples}) >= MAX_EXAMPLE_DIRECTIONS:
            return
        for matching in (np.flatnonzero(ranks == 1), np.flatnonzero((ranks > 1) & (ranks <= 10))):
            if len(matching):
                i = int(matching[len(matching) // 2])
                title, candidates = describe_query(i)
                self.examples.append(ReportExample(*condition, "csls", title, int(ranks[i]), candidates))

    def note_failure(self, system: str, where: str, reason: object) -> None:
        """Note why a system has no score there."""
        self.note(f"{system}, {where}: {reason}", group=f"{system}, {where.split()[0]}")

    def note(self, text: str, *, group: str) -> None:
        """Add a note; of the notes of a group, the run shows the first and the number of the others."""
        self.grouped_notes.setdefault(group, {})[text] = None

    def build(self, task: Task, title: str, facts: dict[str, Any]) -> Run:
        """The run; equal notes and equal trainings appear once."""
        first_notes = [
            next(iter(texts)) + (f" (and {len(texts) - 1} more like it)" if len(texts) > 1 else "")
            for texts in self.grouped_notes.values()
        ]
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
            self.examples,
            notes,
        )


def merge(runs: Sequence[Run], title: str) -> Run:
    """Several runs over the same queries as one; the facts are those of the first, with the regimes of all."""
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


def number_concepts(directions: Iterable[list[str]]) -> list[Ints]:
    """A number for each concept, the same in every direction."""
    number: dict[str, int] = {}
    return [np.array([number.setdefault(name, len(number)) for name in names], np.int64) for names in directions]


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_write(path) as file:
        # File names may contain lone surrogates, which UTF-8 cannot encode; JSON reads them back from the escape.
        file.write(text.encode(errors="backslashreplace"))


def save_run(run: Run, folder: Path) -> None:
    """Write a run into a folder, as ``run.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / RUN_FILE, json.dumps(run.to_json(), ensure_ascii=False) + "\n")


def load_run(path: str | Path) -> Run:
    """Read a run from its folder or its file."""
    file = Path(path) / RUN_FILE if Path(path).is_dir() else Path(path)
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Cr5Error(f"{file} does not exist; name a folder that an evaluation wrote as its `output`") from None
    except (ValueError, IsADirectoryError):
        raise Cr5Error(f"{file} is not a run; name a folder that an evaluation wrote as its `output`") from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        stored_format = values.get("format") if isinstance(values, dict) else None
        raise Cr5Error(f"{file} has the format {stored_format}, but this version reads format {FORMAT}; evaluate again")
    try:
        run = Run.from_json(values)
        for score in run.scores:
            if len(score.ranks) != len(run.direction(score.source, score.target).concepts):
                raise ValueError(f"{score.source} > {score.target} has different numbers of queries and ranks")
        return run
    except (AttributeError, TypeError, KeyError, ValueError) as error:
        raise Cr5Error(f"{file} is damaged ({error}); evaluate again") from error
