"""Runs with random ranks, their reports, and the figures that these must contain."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from itertools import permutations
from typing import Any

import numpy as np

from cr5.evaluate.report.contents import Report
from cr5.evaluate.report.formatting import MISSING
from cr5.evaluate.report.headline import Headline
from cr5.evaluate.report.html import render_html
from cr5.evaluate.report.markdown import render_markdown
from cr5.evaluate.runs import Queries, RankedCandidate, Regime, ReportExample, Run, Score, Task, TrainedSystem
from cr5.evaluate.statistics import Interval
from cr5.retrieval.top_k import Measure

NASTY = "<script>alert(1)</script> | `a` *b* [bold]&amp;\"'"
ARABIC = "الحاسوب الفائق (IBM)"
CHINESE = "超级计算机"
SYSTEMS = {"cr5": 0.3, "CL-LSI [x]": 0.15, "floor <b>|": 0.05}
PATH = [
    {
        "ridge": r,
        "log_likelihood": p - 1,
        "precision": p,
        "reciprocal_rank": p + 0.1,
        "energy": 20.0,
        "steps": 3,
        "seconds": 0.5,
    }
    for r, p in ((10.0, 0.25), (1.0, 0.5), (0.1, 0.375))
]

REPORT = {
    "concepts": 120,
    "languages": {"da": {"documents": 100, "words": 1000}, "en": {"documents": 110, "words": 2345}},
    "ridge": 1.0,
    "ridge_path": PATH,
    "energy": 20.5,
    "residual": 0.0005,
    "steps": 17,
    "converged": True,
    "warning": "",
}


def make_run(
    langs: Sequence[str] = ("da", "en", "ar"),
    regimes: Sequence[Regime] = ("joint", "pairwise"),
    systems: dict[str, float] = SYSTEMS,
    measures: Sequence[Measure] = ("cosine", "csls"),
    directions: Sequence[tuple[str, str]] | None = None,
    task: Task = "documents",
    queries: int = 30,
    coverage: bool = True,
) -> Run:
    """A run with random ranks: a system's number is the probability that the answer is first, and so on by rank."""
    random = np.random.default_rng(0)
    all_queries = [
        Queries(
            *direction,
            [f"Q{i}" for i in random.choice(2 * queries, queries, replace=False)],
            random.integers(5, 200, queries).tolist(),
            random.uniform(0.5, 1, queries).tolist() if coverage else [],
        )
        for direction in directions or permutations(langs, 2)
    ]
    scores = []
    for regime in regimes:
        for system, chance in systems.items():
            for of_direction in all_queries:
                for measure in measures:
                    ranks = np.minimum(random.geometric(chance, queries), 100)
                    ranks[random.random(queries) < 0.05] = 0
                    at_1 = 100 * float((ranks == 1).mean())
                    interval = Interval(0.75 * at_1, 1.25 * at_1)
                    source, target = of_direction.source, of_direction.target
                    signature = f"{system}|{regime}|{source}-{target}"
                    condition = (system, regime, source, target, measure)
                    scores.append(Score(*condition, ranks.tolist(), 100, 1234, signature, interval))
    both = [RankedCandidate(CHINESE, 0.5, False), RankedCandidate(ARABIC, 0.25, True)]
    return Run(
        task=task,
        title=f"A run {NASTY}",
        version="0.1.0",
        facts={"corpus": {"digest": "5fe1", "languages": {"da": {"documents": 12345}}}, "seed": 0, "path": NASTY},
        queries=all_queries,
        scores=scores,
        trained=[
            TrainedSystem("cr5", "joint", ["da", "en"], 1.25, REPORT),
            TrainedSystem(NASTY, "joint", ["da"], 0.5, {"words": 12345, "tool": NASTY, "values": [0.5] * 300}),
        ],
        examples=[
            ReportExample("cr5", "joint", "en", "ar", "csls", NASTY, 2, both),
            ReportExample("cr5", "joint", "ar", "en", "csls", ARABIC, 1, [RankedCandidate(NASTY, 0.75, True)]),
            ReportExample("cr5", "joint", "da", "en", "csls", CHINESE, 0, [RankedCandidate("Tianhe-I", 0.75, False)]),
        ],
        notes=[f"CL-LSI: {NASTY}"],
    )


def partial_run() -> Run:
    """Two regimes, three systems, three languages; in one direction one system has no score."""
    full = make_run()
    lost = ("CL-LSI [x]", "pairwise", "da", "en")
    return replace(full, scores=[s for s in full.scores if (s.system, s.regime, s.source, s.target) != lost])


def as_json(run: Run) -> dict[str, Any]:
    """The run as it is read from JSON."""
    found: dict[str, Any] = json.loads(json.dumps(run.to_json()))
    return found


def word_run() -> Run:
    """Two systems that know few of the words; nothing is known of their training."""
    run = make_run(
        ["en", "it"], ["pretrained"], {"cr5": 0.4, "vectors": 0.2}, task="words", queries=100, coverage=False
    )
    lost = {"cr5": 60, "vectors": 70}
    scores = [replace(s, shared=None, ranks=[0] * lost[s.system] + s.ranks[lost[s.system] :]) for s in run.scores]
    known = {"known": 40, "unknown": 50, "unanswered": 10}
    facts = {"known": {"cr5": {"en>it": known, "it>en": known}}, "seed": 0}
    trained = [replace(t, regime="pretrained") for t in run.trained]
    examples = [replace(e, regime="pretrained") for e in run.examples]
    return replace(run, title="words", facts=facts, scores=scores, trained=trained, examples=examples)


def big_run() -> Run:
    """Thirty languages, and therefore 435 pairs."""
    langs = [f"{a}{b}" for a in "abcde" for b in "uvwxyz"]
    return make_run(langs, ["joint"], {"cr5": 0.3, "CL-LSI": 0.15}, queries=6)


def html(run: Run) -> str:
    return render_html(Report(run))


def markdown(run: Run) -> str:
    return render_markdown(Report(run))


def headline(run: Run) -> Headline:
    found = Report(run).headline
    assert found is not None
    return found


def expected_rows(values: dict[str, Any]) -> list[list[str]]:
    """The paper's rows, straight from the JSON."""
    scores = {(s["regime"], s["system"], s["measure"], s["source"], s["target"]): s for s in values["scores"]}
    rows = []
    for regime in dict.fromkeys(key[0] for key in scores):
        for system in dict.fromkeys(key[1] for key in scores):
            for a, b in (("da", "en"), ("da", "ar"), ("en", "ar")):
                row = [a, b]
                for measure in ("cosine", "csls"):
                    for way in ((a, b), (b, a)):
                        score = scores.get((regime, system, measure, *way))
                        row += [f"{score['precision'][k]:.1f}" if score else MISSING for k in ("1", "5", "10")]
                rows.append([*row, "1,234"])
    return rows


def mean_text(values: dict[str, Any], system: str, regime: str, measure: str) -> str:
    (mean,) = [m for m in values["means"] if (m["system"], m["regime"], m["measure"]) == (system, regime, measure)]
    low, high = mean["interval"]
    return f"{mean['precision']['1']:.1f} ({low:.1f}–{high:.1f})"


def markdown_cells(line: str) -> list[str]:
    """The cells of a line of a Markdown table, without escapes."""
    cells = re.split(r"(?<!\\)\|", line)[1:-1]
    return [unescape(re.sub(r"\\(.)", r"\1", cell.strip())) for cell in cells]
