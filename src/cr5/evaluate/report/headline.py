"""The headline of a report: the main result as a sentence, and what it is based on."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from cr5.evaluate.comparison import SIGNIFICANCE_LEVEL, paired_differences
from cr5.evaluate.report.formatting import MEASURE_NAMES, MEASURES, format_interval, format_percent
from cr5.evaluate.runs import PRETRAINED, LanguagePair, MeanScore, Run, Score
from cr5.evaluate.statistics import Difference, hit_at, precision
from cr5.message_parts import plural

ANSWER_NOUNS = {"documents": "document", "sentences": "sentence", "words": "translation"}


class Headline(NamedTuple):
    """The main result as a sentence and its context; ``difference`` is that of ``system`` to ``competitor``."""

    text: str
    context: str
    system: MeanScore
    competitor: MeanScore | None
    difference: Difference | None


def write_headline(run: Run, main_system: str) -> Headline:
    """Compare the main system with the best of the others, by the first regime and measure that it has.

    Where the main system is not cr5, the best system takes its place.
    """
    about_cr5 = run.role(main_system) == "own"
    regime = next(s.regime for s in run.scores if s.system == main_system)
    measure = next(m for m in MEASURES if run.select(main_system, regime, m))
    means = [m for m in run.means() if (m.regime, m.measure) == (regime, measure)]
    means = [m for m in means if run.role(m.system) != "upper bound"] or means
    ranked = sorted(means, key=lambda m: (-m.directions, -m.precision[1]))
    system = next((m for m in ranked if about_cr5 and m.system == main_system), ranked[0])
    others = [m for m in ranked if m is not system and not (about_cr5 and run.role(m.system) == "own")]
    scores = _by_direction(run, system)
    competitor = _best_competitor(run, others, scores)
    difference = _difference(run, competitor, system) if competitor else None
    text = f"{system.system} puts the right {ANSWER_NOUNS[run.task]} first for {_share(system, ' of the queries')}"
    if competitor:
        kind = "baseline" if run.role(system.system) == "own" else "other system"
        text += f"; the best {kind}, {competitor.system}, for {_share(competitor)}"
    context = _context(run, system, competitor, difference)
    if others and not competitor:
        context.append(f"No other system answers in the same {plural(system.directions, 'direction')}.")
    candidates = [s.candidates for s in scores.values() if s.candidates]
    if candidates:
        context.append(f"Guessing would be right for {float(np.mean([100 / n for n in candidates])):.2g} %.")
    return Headline(f"{text}.", " ".join(context), system, competitor, difference)


def _context(run: Run, system: MeanScore, competitor: MeanScore | None, difference: Difference | None) -> list[str]:
    """Sentences on what the figures are, how many queries could be answered, and whether the difference is real."""
    count = plural(system.directions, "direction")
    how = "a pretrained model" if system.regime == PRETRAINED else f"{system.regime} training"
    sentences = [f"Mean over {count}, {how}, {MEASURE_NAMES[system.measure]}; 95 % intervals in brackets."]
    if run.task == "words":
        directions = _by_direction(run, system)
        scores = {mean.system: _by_direction(run, mean) for mean in (system, competitor) if mean}
        sentences.append(_vocabulary({name: [own[d] for d in directions] for name, own in scores.items()}))
    if competitor and difference:
        sentences.append(_describe_difference(difference))
        if competitor.directions > system.directions:
            sentences.append(
                f"{competitor.system} answers in {competitor.directions} directions; the difference is over the "
                f"{system.directions} of {system.system}."
            )
    return sentences


def _share(mean: MeanScore, of_what: str = "") -> str:
    return f"{mean.precision[1]:.1f} %{of_what} ({format_interval(mean.interval)})"


def _best_competitor(run: Run, means: Sequence[MeanScore], directions: Collection[LanguagePair]) -> MeanScore | None:
    """The best system in the given directions, of those that answer in all of them."""
    candidates = []
    for mean in means:
        scores = _by_direction(run, mean)
        if scores.keys() >= set(directions):
            candidates.append((sum(scores[direction].precision() for direction in directions), mean))
    return max(candidates, key=lambda candidate: candidate[0])[1] if candidates else None


def _vocabulary(scores: dict[str, list[Score]]) -> str:
    """How many queries each system has words for (a rank above 0), and its P@1 among these.

    P@1 is the mean over directions, without those that have no such query.
    """
    sentences: list[str] = []
    for system, of_system in scores.items():
        known = [s.rank_array[s.rank_array > 0] for s in of_system]
        at_1 = [precision(ranks, 1) for ranks in known if len(ranks)]
        share = format_percent(float(np.mean(at_1)) if at_1 else None)
        count = f"{sum(map(len, known)):,}"
        if sentences:
            sentences.append(f"those of {count} to {system} ({share} %)")
        else:
            total = sum(len(s.ranks) for s in of_system)
            sentences.append(
                f"The words of {count} of {total:,} queries are known to {system} (P@1 among these: {share} %)"
            )
    return f"{', '.join(sentences)}. All other queries count as misses."


def _describe_difference(difference: Difference) -> str:
    low, high = difference.interval
    p = "p < 0.001" if difference.p_value < 0.001 else f"p = {difference.p_value:.3f}"
    figures = f"{difference.value:+.1f} points ({low:+.1f} to {high:+.1f}, paired by concept, {p})"
    if difference.p_value < SIGNIFICANCE_LEVEL:
        return f"The difference is {figures}."
    return f"The difference, {figures}, is not significant."


def _by_direction(run: Run, mean: MeanScore) -> dict[LanguagePair, Score]:
    return run.by_direction(mean.system, mean.regime, mean.measure)


def _difference(run: Run, a: MeanScore, b: MeanScore) -> Difference:
    first = _by_direction(run, a)
    pairs = [(first[direction], score) for direction, score in _by_direction(run, b).items()]
    return paired_differences(run, pairs, [hit_at(1)])[0]
