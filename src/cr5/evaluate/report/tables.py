"""What a report tells of a run, as plain data: tables, headline, failures, facts."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cr5._typing import Array
from cr5.evaluate.runs import SIGNIFICANCE_LEVEL, MeanScore, Regime, Run, Score
from cr5.evaluate.statistics import CUTOFFS, Difference, Interval, hit_at, paired_difference, precision
from cr5.retrieval.top_k import Measure

MISSING = "–"
MEASURES: tuple[Measure, ...] = ("csls", "cosine")  # the one to look at first
NAMES: dict[Measure, str] = {"cosine": "cosine", "csls": "CSLS"}
NOUNS = {"documents": "document", "sentences": "sentence", "words": "translation"}
REGIME_NOTES: dict[str, str] = {
    "joint": "one model for all languages",
    "pairwise": "for each pair a model that saw no other language",
    "low-resource": "pairwise, with fewer shared concepts",
    "transitive": "the two languages share no training concept; others link them",
    "as given": "models that were trained elsewhere",
}
GIVEN: Regime = "as given"  # no regime of training, and not shown as one
PARTIAL = "over fewer directions than other systems, and so out of competition"
SIGNATURES = 200  # shown at most; scores.csv has all of them

Pair: TypeAlias = tuple[str, str]


class Cell(NamedTuple):
    """P@k of one direction or of the mean over several, and the interval of P@1."""

    precision: dict[int, float]
    interval: Interval
    directions: int = 1


@dataclass(frozen=True)
class Row:
    """One line of the table: a pair of languages, or, where these are empty, the mean of a system.

    For a pair each measure has two cells, for queries in the first and in the second language; for the
    mean it has one. A score that does not exist is None.
    """

    regime: Regime
    system: str
    first: str
    second: str
    cosine: tuple[Cell | None, ...]
    csls: tuple[Cell | None, ...]
    shared: int | None

    @property
    def is_mean(self) -> bool:
        """Whether this is the mean of a system."""
        return not self.first

    def cells(self, measure: Measure) -> tuple[Cell | None, ...]:
        """The cells of one measure."""
        return self.cosine if measure == "cosine" else self.csls


class Entry(NamedTuple):
    """One cell of the summary; ``partial`` where other systems of this regime answer in more directions."""

    cell: Cell
    best: bool
    partial: bool


@dataclass(frozen=True)
class Line:
    """One line of the summary: a system and its means by regime and measure."""

    system: str
    entries: dict[tuple[Regime, Measure], Entry]


class Headline(NamedTuple):
    """The sentence that a reader wants, and what it rests on."""

    text: str
    context: str
    best: MeanScore
    rival: MeanScore | None
    difference: Difference | None


class Part(NamedTuple):
    """The queries whose length or coverage lies from ``low`` to ``high``, and how many of them are found first."""

    low: float
    high: float
    queries: int
    precision: float


class Trait(NamedTuple):
    """How one property of the queries goes with success: by quartile, and the medians of found and failed."""

    name: str
    parts: list[Part]
    found: float
    failed: float


class Failures(NamedTuple):
    """What the failed queries of one system have in common; a query has failed that is not answered first."""

    system: str
    regime: Regime
    measure: Measure
    queries: int
    failed: int
    traits: list[Trait]


def regimes(run: Run) -> list[Regime]:
    """The regimes, as they come."""
    return list(dict.fromkeys(s.regime for s in run.scores))


def given(run: Run) -> bool:
    """Whether all models of a run were trained elsewhere, so that there are no regimes to tell apart."""
    return regimes(run) == [GIVEN]


def called(regime: str) -> str:
    """A regime as it is shown."""
    return "trained elsewhere" if regime == GIVEN else regime


def named(system: str, regime: str) -> str:
    """A system and its regime as they are shown."""
    return system if regime == GIVEN else f"{system}, {regime}"


def systems(run: Run, regime: str | None = None) -> list[str]:
    """The systems, as they come."""
    return list(dict.fromkeys(s.system for s in run.scores if regime in (None, s.regime)))


def own(system: str) -> bool:
    """Whether this is cr5, rather than what it is measured against."""
    return system.lower().startswith("cr5")


def lead(run: Run) -> str | None:
    """The system that a run is about: its first cr5, otherwise its first; None without scores."""
    names = systems(run)
    return next((name for name in names if own(name)), names[0] if names else None)


def ceiling(system: str) -> bool:
    """Whether this is a mark that others may reach, rather than one of them."""
    return "ceiling" in system.lower()


def pairs(run: Run, regime: str | None = None) -> list[Pair]:
    """The pairs of languages, each in the order in which it first comes in the run."""
    found: dict[frozenset[str], Pair] = {}
    for score in run.scores:
        found.setdefault(frozenset((score.source, score.target)), (score.source, score.target))
    if regime is not None:
        here = {frozenset((s.source, s.target)) for s in run.scores if s.regime == regime}
        return [pair for key, pair in found.items() if key in here]
    return list(found.values())


def measures(run: Run) -> list[Measure]:
    """The measures, the one to look at first first."""
    return [measure for measure in MEASURES if any(s.measure == measure for s in run.scores)]


def table(run: Run, means: Sequence[MeanScore] | None = None) -> list[Row]:
    """The table of the paper: by regime and system a row for each pair of languages, then the mean.

    Here and below ``means`` are the run's, where they are known already: their intervals take a while.
    """
    scores = {(s.regime, s.system, s.measure, s.source, s.target): s for s in run.scores}
    by_name = {(m.regime, m.system, m.measure): m for m in _means(run, means)}
    rows = []
    for regime in regimes(run):
        for system in systems(run, regime):
            for first, second in pairs(run, regime):
                both = [(first, second), (second, first)]
                found = {m: [scores.get((regime, system, m, *way)) for way in both] for m in MEASURES}
                shared = next((s.shared for part in found.values() for s in part if s), None)
                cells = {m: tuple(_cell(s) for s in part) for m, part in found.items()}
                rows.append(Row(regime, system, first, second, cells["cosine"], cells["csls"], shared))
            of = {m: by_name.get((regime, system, m)) for m in MEASURES}
            mean = {m: (Cell(x.precision, x.interval, x.directions) if x else None,) for m, x in of.items()}
            rows.append(Row(regime, system, "", "", mean["cosine"], mean["csls"], None))
    return rows


def summary(run: Run, means: Sequence[MeanScore] | None = None) -> list[Line]:
    """Systems by regimes: means of P@1.

    The best of a column is one that answers in as many directions as any, and no ceiling.
    """
    means = _means(run, means)
    rivals = [m for m in means if not ceiling(m.system)]
    most = {
        (regime, measure): max((m.directions for m in rivals if (m.regime, m.measure) == (regime, measure)), default=0)
        for regime in regimes(run)
        for measure in MEASURES
    }
    top = {
        key: max((m.precision[1] for m in rivals if (m.regime, m.measure) == key and m.directions == n), default=0.0)
        for key, n in most.items()
    }
    lines: dict[str, Line] = {system: Line(system, {}) for system in systems(run)}
    for m in means:
        key = (m.regime, m.measure)
        partial = m.directions < most[key]
        best = not partial and not ceiling(m.system) and m.precision[1] == top[key]
        lines[m.system].entries[key] = Entry(Cell(m.precision, m.interval, m.directions), best, partial)
    return list(lines.values())


def headline(run: Run, means: Sequence[MeanScore] | None = None) -> Headline | None:
    """The first cr5 of a run, not its luckiest, against the best of the rest; None without scores.

    It is told by the first regime and measure that this system has. Without cr5 the best system takes its place.
    """
    name = lead(run)
    if name is None:
        return None
    regime = next(s.regime for s in run.scores if s.system == name)
    measure = next(m for m in MEASURES if run.select(name, regime, m))
    means = [m for m in _means(run, means) if (m.regime, m.measure) == (regime, measure)]
    means = [m for m in means if not ceiling(m.system)] or means
    by_value = sorted(means, key=lambda m: (-m.directions, -m.precision[1]))
    best = next((m for m in by_value if own(name) and m.system == name), by_value[0])
    rest = [m for m in by_value if m is not best and not (own(name) and own(m.system))]
    here = _directions(run, best)
    rival = _rival(run, rest, here)
    apart = _paired(run, rival, best) if rival else None
    noun = NOUNS[run.task]
    text = (
        f"{best.system} puts the right {noun} first for {best.precision[1]:.1f} % of the queries "
        f"({span(best.interval)})"
    )
    if rival and apart:
        kind = "baseline" if own(best.system) else "other system"
        text += f"; the best {kind}, {rival.system}, for {rival.precision[1]:.1f} % ({span(rival.interval)})."
    else:
        text += "."
    how = "a model trained elsewhere" if regime == GIVEN else f"{regime} training"
    context = [
        f"Mean over {counted(best.directions, 'direction')}, {how}, {NAMES[measure]}; in brackets the 95 % interval."
    ]
    if run.task == "words":
        context.append(_vocabulary({m.system: [_directions(run, m)[way] for way in here] for m in (best, rival) if m}))
    if rival and apart:
        context.append(_verdict(apart))
        if rival.directions > best.directions:
            ways = f"the {best.directions} of {best.system}"
            context.append(f"{rival.system} answers in {rival.directions} directions; the difference is over {ways}.")
    elif rest:
        context.append(f"No other system answers in the same {counted(best.directions, 'direction')}.")
    candidates = [s.candidates for s in here.values() if s.candidates]
    if candidates:
        context.append(f"Guessing would be right for {float(np.mean([100 / n for n in candidates])):.2g} %.")
    return Headline(text, " ".join(context), best, rival, apart)


def _rival(run: Run, means: Sequence[MeanScore], ways: Collection[Pair]) -> MeanScore | None:
    """The best of those systems that answer in all the given directions, and by what they score in these."""
    found = [(_directions(run, mean), mean) for mean in means]
    alike = [(sum(of[way].precision() for way in ways), mean) for of, mean in found if of.keys() >= set(ways)]
    return max(alike, key=lambda pair: pair[0])[1] if alike else None


def _vocabulary(scores: dict[str, list[Score]]) -> str:
    """How many queries have words that each system knows (a rank above 0), and its P@1 among these.

    P@1 is the mean over directions, as everywhere, less those without any such query.
    """
    told: list[str] = []
    for system, of in scores.items():
        known = [s.rank_array[s.rank_array > 0] for s in of]
        at_1 = [precision(ranks, 1) for ranks in known if len(ranks)]
        share = figure(float(np.mean(at_1)) if at_1 else None)
        count = f"{sum(map(len, known)):,}"
        if not told:
            asked = sum(len(s.ranks) for s in of)
            told.append(f"The words of {count} of {asked:,} queries are known to {system} (P@1 among these: {share} %)")
        else:
            told.append(f"those of {count} to {system} ({share} %)")
    return f"{', '.join(told)}. All others count as misses."


def _means(run: Run, means: Sequence[MeanScore] | None) -> Sequence[MeanScore]:
    return run.means() if means is None else means


def _verdict(apart: Difference) -> str:
    low, high = apart.interval
    p = "p < 0.001" if apart.p_value < 0.001 else f"p = {apart.p_value:.3f}"
    figures = f"{apart.value:+.1f} points ({low:+.1f} to {high:+.1f}, paired by query, {p})"
    if apart.p_value < SIGNIFICANCE_LEVEL:
        return f"The difference is {figures}."
    return f"The difference, {figures}, is no more than chance may bring."


def _directions(run: Run, mean: MeanScore) -> dict[Pair, Score]:
    return {(s.source, s.target): s for s in run.select(mean.system, mean.regime, mean.measure)}


def _paired(run: Run, a: MeanScore, b: MeanScore) -> Difference:
    """How much more b scores than a, in the directions of b."""
    first, second = _directions(run, a), _directions(run, b)
    names = [run.direction(*way).concepts for way in second]
    _, numbers = np.unique(np.concatenate([np.array(part, dtype=str) for part in names]), return_inverse=True)
    concepts = np.split(numbers, np.cumsum([len(part) for part in names])[:-1])
    return paired_difference(
        [first[way].rank_array for way in second], [s.rank_array for s in second.values()], concepts, hit_at(1)
    )


def failures(run: Run) -> Failures | None:
    """Length and coverage of the queries that the first cr5 system answers and fails; None where it has none."""
    scores = [s for s in run.scores if own(s.system) and s.measure == measures(run)[0] and s.ranks]
    scores = [s for s in scores if (s.system, s.regime) == (scores[0].system, scores[0].regime)]
    if not scores:
        return None
    asked = [(s.rank_array == 1, run.direction(s.source, s.target)) for s in scores]
    traits = [
        _trait("different words", [(found, q.lengths) for found, q in asked]),
        _trait("words known, %", [(found, [100 * share for share in q.coverage]) for found, q in asked]),
    ]
    found = np.concatenate([found for found, _ in asked])
    kept = [trait for trait in traits if trait]
    first = scores[0]
    return Failures(first.system, first.regime, first.measure, len(found), int((~found).sum()), kept)


def _trait(name: str, asked: Sequence[tuple[Any, Sequence[float]]]) -> Trait | None:
    """A trait by quartile; None where it is unknown, or the same for all queries."""
    known = [(found, np.array(values, float)) for found, values in asked if len(values) == len(found)]
    if not known:
        return None
    found: Array = np.concatenate([f for f, _ in known])
    values: Array = np.concatenate([v for _, v in known])
    # Equal values stay together, so that there may be fewer than four parts.
    part = np.searchsorted(np.unique(np.quantile(values, [0.25, 0.5, 0.75])), values)
    if len(np.unique(part)) < 2:
        return None
    parts = [
        Part(float(values[part == i].min()), float(values[part == i].max()), int((part == i).sum()), share)
        for i in np.unique(part)
        for share in [100 * float(found[part == i].mean())]
    ]
    medians = [float(np.median(values[which])) if which.any() else float("nan") for which in (found, ~found)]
    return Trait(name, parts, *medians)


def _cell(score: Score | None) -> Cell | None:
    return Cell({k: score.precision(k) for k in CUTOFFS}, score.interval) if score else None


def figure(value: float | None) -> str:
    """A percentage as it is shown."""
    return MISSING if value is None or np.isnan(value) else f"{value:.1f}"


def span(interval: Interval) -> str:
    """An interval as it is shown."""
    return f"{interval.low:.1f}–{interval.high:.1f}"


def plain(value: Any) -> str:
    """Any plain value as words."""
    if value is None or value == "" or value == [] or value == {}:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, dict):
        return ", ".join(f"{key}: {plain(part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(plain(part) for part in value) if len(value) <= 40 else f"{len(value):,} values"
    return str(value)


def facts(run: Run) -> tuple[dict[str, str], dict[str, dict[str, dict[str, str]]]]:
    """The facts of a run in words: single ones by name, and tables by title, where a fact has rows and columns."""
    single: dict[str, str] = {}
    tables: dict[str, dict[str, dict[str, str]]] = {}

    def sort(name: str, value: Any) -> None:
        parts = list(value.values()) if isinstance(value, dict) else []
        rows = [row for part in parts if isinstance(part, dict) for row in part.values()]
        if rows and all(isinstance(part, dict) for part in [*parts, *rows]):
            tables[name] = {
                f"{key}, {row}": {str(k): plain(v) for k, v in of.items()}
                for key, part in value.items()
                for row, of in part.items()
            }
        elif parts and all(isinstance(part, dict) for part in parts):
            tables[name] = {str(row): {str(k): plain(v) for k, v in part.items()} for row, part in value.items()}
        elif any(isinstance(part, dict) for part in parts):
            for key, part in value.items():
                sort(f"{name}, {key}", part)
        else:
            single[name] = plain(value)

    for name, value in run.facts.items():
        sort(str(name), value)
    return single, tables


def columns(rows: dict[str, dict[str, str]]) -> list[str]:
    """The columns of a table of facts."""
    return list(dict.fromkeys(key for row in rows.values() for key in row))


def counted(number: int, noun: str) -> str:
    """A number and its noun."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def signatures(run: Run) -> dict[str, list[Score]]:
    """The scores by signature."""
    found: dict[str, list[Score]] = {}
    for score in run.scores:
        found.setdefault(score.signature, []).append(score)
    return found


def of_scores(scores: Sequence[Score]) -> str:
    """What a signature belongs to, in words."""
    s = scores[0]
    group = named(s.system, s.regime)
    if len(scores) == 1:
        return f"{group}, {s.source} > {s.target}, {NAMES[s.measure]}"
    return f"{group}, {len(scores):,} scores"
