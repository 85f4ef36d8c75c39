"""A run: the scores of one evaluation with everything needed to report and compare them."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from cr5._typing import Ints
from cr5.corpus.texts import assign_numbers
from cr5.errors import Cr5Error
from cr5.evaluate.statistics import CUTOFFS, Interval, bootstrap_interval, hit_at, mean_reciprocal_rank, precision
from cr5.evaluate.systems.registry import EARLIER_NAMES, SystemRole, role_of
from cr5.retrieval.top_k import Measure
from cr5.storage.atomic import created_folder
from cr5.storage.json_files import write_json

Task: TypeAlias = Literal["documents", "sentences", "words"]
Regime: TypeAlias = Literal["joint", "pairwise", "low-resource", "transitive", "pretrained"]
"""What a system was trained on."""
REGIMES: tuple[Regime, ...] = ("joint", "pairwise", "low-resource", "transitive")
PRETRAINED: Regime = "pretrained"  # the regime of systems that were trained before the evaluation
LanguagePair: TypeAlias = tuple[str, str]
CslsOver: TypeAlias = Literal["queries", "background"]
"""The vectors over which CSLS takes a candidate's neighbourhood: the queries, or other texts in their language."""
FailureKind: TypeAlias = Literal["missing package", "out of memory", "not applicable", "error"]
RUN_FILE = "run.json"
FORMAT = 1


@dataclass(frozen=True)
class Queries:
    """The queries of one direction: the concept, the number of different words and the coverage of each.

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
class FailedSystem:
    """A system that could not be trained, or queried in some direction: the regime, the languages, and the reason."""

    system: str
    regime: Regime
    langs: list[str]
    kind: FailureKind
    reason: str

    @classmethod
    def from_error(cls, error: Exception, system: str, regime: Regime, langs: Sequence[str]) -> "FailedSystem":
        """The failure that an exception means; an unexpected exception is shown with its class."""
        kind: FailureKind = "error"
        reason = str(error)
        if isinstance(error, ImportError):
            kind = "missing package"
        elif isinstance(error, MemoryError):
            kind, reason = "out of memory", reason or "there is not enough memory"
        elif isinstance(error, Cr5Error):
            kind = "not applicable"
        else:
            reason = f"{type(error).__name__}: {reason}"
        return cls(system, regime, list(langs), kind, reason)


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

    ``facts`` are plain values about corpus, split and options. ``notes`` are sentences for the reader. ``failed`` are
    the systems that could not run. ``roles`` are the systems that were to be measured, in order, and their roles.
    ``example_seed`` is the seed with which the examples were drawn; None in old runs, which did not draw them.
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
    failed: list[FailedSystem] = field(default_factory=list)
    roles: dict[str, SystemRole] = field(default_factory=dict)
    example_seed: int | None = None

    def with_messages(self, change: Callable[[str], str]) -> "Run":
        """The same run with its messages changed: notes, warnings of training, and why systems could not run."""
        return replace(
            self,
            notes=[change(note) for note in self.notes],
            trained=[
                replace(model, report=model.report | {"warning": change(model.report.get("warning", ""))})
                for model in self.trained
            ],
            failed=[replace(failed, reason=change(failed.reason)) for failed in self.failed],
        )

    def __repr__(self) -> str:
        """The task, the systems and the best P@1: everything else would fill pages."""
        systems = ", ".join(dict.fromkeys(score.system for score in self.scores))
        means = {group: float(np.mean([s.precision() for s in self.select(*group)])) for group in self.groups()}
        best = max(means, key=means.__getitem__, default=None)
        scores = f"{systems}; best P@1 {means[best]:.1f} ({', '.join(best)})" if best else "no scores"
        return f"<Run of {self.task}, {self.title}; {scores}>"

    def role(self, system: str) -> SystemRole:
        """What a system is in the comparison."""
        return self.roles.get(system) or role_of(system)

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

    def by_direction(self, system: str, regime: str, measure: str) -> dict[LanguagePair, Score]:
        """As ``select``, by source and target."""
        return {(score.source, score.target): score for score in self.select(system, regime, measure)}

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

    def not_measured(self) -> dict[tuple[str, Regime], list[FailedSystem]]:
        """The failures of systems that have no score at all in a regime, by system and regime."""
        measured = {(s.system, s.regime) for s in self.scores}
        groups: dict[tuple[str, Regime], list[FailedSystem]] = {}
        for failed in self.failed:
            if (failed.system, failed.regime) not in measured:
                groups.setdefault((failed.system, failed.regime), []).append(failed)
        return groups

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
            "failed": [FailedSystem(**f) for f in values.get("failed", [])],
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


def merge(runs: Sequence[Run], title: str) -> Run:
    """Several runs over the same queries as one; the facts are those of the first, with the regimes of all."""
    queries = {(q.source, q.target): q for run in reversed(runs) for q in run.queries}
    facts = runs[0].facts | {"regimes": list(dict.fromkeys(r for run in runs for r in run.facts["regimes"]))}
    names = ("scores", "trained", "examples", "notes", "failed")
    joined: dict[str, Any] = {name: [item for run in runs for item in getattr(run, name)] for name in names}
    return replace(runs[0], title=title, facts=facts, queries=list(queries.values()), **joined)


def number_concepts(directions: Iterable[list[str]]) -> list[Ints]:
    """A number for each concept, the same in every direction."""
    number: dict[str, int] = {}
    return [assign_numbers(names, number) for names in directions]


def save_run(run: Run, folder: str | Path) -> None:
    """Write a run into a folder, as ``run.json``."""
    folder = Path(folder)
    with created_folder(folder):
        write_json(folder / RUN_FILE, run.to_json(), indent=None)


def _with_current_names(values: dict[str, Any]) -> dict[str, Any]:
    """An object of a saved run, with the names that its systems and regimes have today."""
    if "roles" in values:
        roles = {name: "upper bound" if role == "ceiling" else role for name, role in values["roles"].items()}
        values["roles"] = {EARLIER_NAMES.get(name, name): role for name, role in roles.items()}
    if "system" in values:
        values["system"] = EARLIER_NAMES.get(values["system"], values["system"])
    if values.get("regime") == "as given":
        values["regime"] = PRETRAINED
    return values


def load_run(path: str | Path) -> Run:
    """Read a run from its folder or its file."""
    file = Path(path) / RUN_FILE if Path(path).is_dir() else Path(path)
    try:
        values = json.loads(file.read_text(encoding="utf-8"), object_hook=_with_current_names)
    except FileNotFoundError:
        raise Cr5Error(f"{file} does not exist; name a folder that an evaluation wrote") from None
    except (ValueError, IsADirectoryError):
        raise Cr5Error(f"{file} is not a run; name a folder that an evaluation wrote") from None
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
