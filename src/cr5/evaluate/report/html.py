"""A run as a page: one file of HTML that needs nothing else."""

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import Any

import numpy as np

from cr5._typing import Array
from cr5.evaluate.report.tables import (
    GIVEN,
    MISSING,
    NAMES,
    PARTIAL,
    REGIME_NOTES,
    SIGNATURES,
    Cell,
    Entry,
    Pair,
    Row,
    Trait,
    called,
    ceiling,
    columns,
    counted,
    facts,
    failures,
    figure,
    given,
    headline,
    measures,
    named,
    of_scores,
    own,
    pairs,
    plain,
    regimes,
    signatures,
    span,
    summary,
    systems,
    table,
)
from cr5.evaluate.runs import ExampleQuery, MeanScore, Regime, Run, Score, TrainedSystem
from cr5.evaluate.statistics import CUTOFFS
from cr5.retrieval.top_k import Measure

PAIRS = 12  # more than these are shown as means and a matrix
DEEPEST = 50  # the last k of the curves
ROWS = 8000  # of the details, at most, and
CELLS = 40_000  # of the matrices: a page that a phone can open; scores.csv has the rest
EXAMPLES = MODELS = 12  # before the fold
TICKS = (1, 2, 5, 10, 20, 50)
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2")
COLOURS = 8


class Html(str):
    """Text that is HTML already; any other is escaped on its way into a tag."""

    __slots__ = ()


def html(run: Run) -> str:
    """The page."""
    many = len(pairs(run)) > PAIRS
    style = _styles(run)
    means = run.means()
    parts = {
        "Systems side by side": _summary(run, style, means),
        "Precision at k": _curves(run, style, many),
        "From language to language" if many else "Direction by direction": (
            _matrices(run) if many else _directions(run, style)
        ),
        "Details": _details(run, many, means),
        "Examples": _examples(run),
        "What the failed queries have in common": _failures(run),
        "Choosing the ridge": _ridges(run),
        "Training": _training(run),
        "Notes": tag("ul", *(tag("li", note) for note in run.notes), class_="text") if run.notes else Html(),
        "Signatures": _signatures(run),
        "How to read this": _guide(run),
    }
    shown = {f"s{i}": (name, part) for i, (name, part) in enumerate(parts.items(), 1) if part}
    links = tag("nav", *(tag("a", name, href=f"#{key}") for key, (name, _) in shown.items()), aria_label="Sections")
    sections = [
        tag("section", tag("h2", name, id=f"{key}-title"), part, id=key, aria_labelledby=f"{key}-title")
        for key, (name, part) in shown.items()
    ]
    head = tag(
        "head",
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">'),
        tag("title", run.title),
        tag("style", Html(_file("report.css"))),
    )
    foot = tag("footer", f"Made by cr5 {run.version}. The same figures: scores.csv, report.md, run.json.")
    body = tag("body", tag("main", _head(run, means), links, *sections), foot, tag("script", Html(_file("report.js"))))
    return "<!doctype html>\n" + tag("html", head, "\n", body, lang="en") + "\n"


def tag(name: str, *children: str, **attributes: object) -> Html:
    """An element; children that are not Html are escaped. ``class_`` is class, ``data_x`` is data-x."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(child if isinstance(child, Html) else escape(child, quote=False) for child in children)
    return Html(f"<{name}{given}>{inner}</{name}>")


def join(parts: Iterable[Html]) -> Html:
    """Elements one after the other, each on its line."""
    return Html("\n".join(parts))


def fold(title: str, *children: str, open_: bool = False) -> Html:
    """What is seen only when it is asked for."""
    return tag("details", tag("summary", title), *children, open="open" if open_ else None)


def scroll(content: Html, label: str) -> Html:
    """A box that scrolls by itself, so that the page does not."""
    return tag("div", content, class_="scroll", tabindex=0, role="region", aria_label=label)


def unbroken(text: str) -> str:
    """Text in which no line ends between a figure and its sign."""
    return re.sub(r" (?=[%<=])|(?<=[<=]) ", "\N{NO-BREAK SPACE}", text)


def foreign(text: str, lang: str | None = None) -> Html:
    """Text of whatever script, in its own direction."""
    return tag("bdi", text, dir="auto", lang=lang)


def bar(value: float, of: float = 100.0, whisker: tuple[float, float] | None = None, colour: str = "s0") -> Html:
    """A bar from 0 to ``of``, with an interval on its end."""
    scale = 100 / of if of else 0.0
    parts = [tag("i", style=f"width:{value * scale:.2f}%")]
    if whisker:
        low, high = (end * scale for end in whisker)
        parts.append(tag("b", style=f"left:{low:.2f}%;width:{max(high - low, 0):.2f}%"))
    return tag("span", *parts, class_=f"bar {colour}", aria_hidden="true")


# ---------------------------------------------------------------------------------------- the look of a system


def _styles(run: Run) -> dict[str, int]:
    """A number for each system, cr5 first, the ceiling last: it stands for a colour, a dash and a marker."""
    ordered = sorted(systems(run), key=lambda name: (ceiling(name), not own(name)))
    return {system: i for i, system in enumerate(ordered)}


def _look(system: str, style: dict[str, int]) -> str:
    return f"s{style[system] % COLOURS}" + (" own" if own(system) else "")


def _marker(i: int, x: float, y: float, *children: Html) -> Html:
    """A small shape, one of six."""
    r = 2.9
    shapes = (
        f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0",
        f"M{x - 2.5:.1f} {y - 2.5:.1f}h5v5h-5z",
        f"M{x:.1f} {y - 3.3:.1f}l3.3 5.7h-6.6z",
        f"M{x:.1f} {y - 3.6:.1f}l3.6 3.6l-3.6 3.6l-3.6 -3.6z",
        f"M{x - 2.6:.1f} {y - 2.6:.1f}l5.2 5.2m0 -5.2l-5.2 5.2",
        f"M{x:.1f} {y - 3.3:.1f}v6.6m-3.3 -3.3h6.6",
    )
    return tag("path", *children, d=shapes[i % len(shapes)], class_="m")


def _swatch(system: str, style: dict[str, int]) -> Html:
    """A system's line and marker, to be put before its name."""
    i = style[system]
    line = tag("path", d="M1 6H33", class_="l", stroke_dasharray=DASHES[i % len(DASHES)] or None)
    group = tag("g", line, _marker(i, 17, 6), class_=_look(system, style))
    return tag("svg", group, viewBox="0 0 34 12", class_="swatch", aria_hidden="true")


def _legend(run: Run, style: dict[str, int], regime: Regime) -> Html:
    names = sorted(systems(run, regime), key=style.__getitem__)
    return tag("p", *(tag("span", _swatch(name, style), name) for name in names), class_="legend")


# ------------------------------------------------------------------------------------------------- head, summary


def _head(run: Run, means: Sequence[MeanScore]) -> Html:
    found = headline(run, means)
    single, tables = facts(run)
    said = (
        [tag("p", unbroken(found.text), class_="lede"), tag("p", unbroken(found.context), class_="context")]
        if found
        else []
    )
    if not found:
        said = [tag("p", "This run has no scores; its notes say why.", class_="lede")]
    # At a glance what is one value by itself; what has parts, when it is asked for.
    glance = {name: text for name, text in single.items() if not isinstance(run.facts.get(name, {}), dict)}
    rest = {name: text for name, text in single.items() if name not in glance}
    more = [_listed(rest)] if rest else []
    for title, rows in tables.items():
        more += [tag("h3", title), _fact_table(title, rows)]
    return tag(
        "header",
        tag("p", f"{_retrieval(run)} · cr5 {run.version}", class_="eyebrow"),
        tag("h1", foreign(run.title)),
        *said,
        _listed(glance) if glance else Html(),
        fold("Corpus, split and settings", *more) if more else Html(),
    )


def _listed(named: dict[str, str]) -> Html:
    return tag("dl", *(tag("div", tag("dt", key), tag("dd", value)) for key, value in named.items()), class_="facts")


def _fact_table(title: str, rows: dict[str, dict[str, str]]) -> Html:
    names = columns(rows)
    head = tag("tr", *(tag("th", name, scope="col") for name in ("", *names)))
    body = [
        tag("tr", tag("th", row, scope="row"), *(tag("td", of.get(name, MISSING)) for name in names))
        for row, of in rows.items()
    ]
    return scroll(tag("table", tag("thead", head), tag("tbody", join(body))), title)


def _retrieval(run: Run) -> str:
    return {"documents": "Document retrieval", "sentences": "Sentence retrieval", "words": "Word translation"}[run.task]


def _summary(run: Run, style: dict[str, int], means: Sequence[MeanScore]) -> Html:
    if not run.scores:
        return Html()
    lines = sorted(summary(run, means), key=lambda line: style[line.system])
    shown, first = regimes(run), measures(run)
    heads = []
    for regime in shown:
        most = max(e.cell.directions for line in lines for (r, _), e in line.entries.items() if r == regime)
        name = "Mean P@1" if given(run) else called(regime)
        heads.append(tag("th", name, tag("small", counted(most, "direction")), scope="col"))
    body = []
    for line in lines:
        cells = [_entries(line.entries, regime, first, _look(line.system, style)) for regime in shown]
        body.append(tag("tr", tag("th", _swatch(line.system, style), line.system, scope="row"), *cells))
    grid = tag(
        "table",
        tag("thead", tag("tr", tag("th", "System", scope="col"), *heads)),
        tag("tbody", join(body)),
        class_="summary",
    )
    text = (
        f"Mean P@1 in %, {' and '.join(NAMES[m] for m in first)}; bars and large figures are {NAMES[first[0]]}. "
        "The line on a bar's end is the 95 % interval, ● the best of its column."
    )
    notes = [tag("p", text, class_="text")]
    if any(entry.partial for line in lines for entry in line.entries.values()):
        notes.append(tag("p", f"* {PARTIAL}.", class_="note"))
    if not given(run):
        meanings = "; ".join(f"{called(regime)}: {REGIME_NOTES[regime]}" for regime in shown if regime in REGIME_NOTES)
        notes.append(tag("p", f"{meanings}.", class_="note"))
    return join([notes[0], scroll(grid, "Systems side by side"), *notes[1:]])


def _entries(
    entries: dict[tuple[Regime, Measure], Entry], regime: Regime, shown: Sequence[Measure], colour: str
) -> Html:
    lines = []
    if not any((regime, measure) in entries for measure in shown):
        return tag("td", MISSING, class_="none")
    for measure in shown:
        entry = entries.get((regime, measure))
        lead = measure == shown[0]
        if entry is None:
            lines.append(tag("div", f"{NAMES[measure]} {MISSING}", class_="second"))
            continue
        cell = entry.cell
        value = tag("b" if entry.best else "span", figure(cell.precision[1]), class_="value")
        star = "*" if entry.partial else " ●" if entry.best else ""
        ends = tag("span", f"{span(cell.interval)}{star}", class_="span")
        names = tag("span", f"{NAMES[measure]} ") if not lead else Html()
        data = {"data_regime": regime, "data_measure": measure, "data_p1": cell.precision[1]}
        lines.append(tag("div", names, value, " ", ends, class_="first" if lead else "second", **data))
        if lead:
            lines.append(bar(cell.precision[1], whisker=cell.interval, colour=colour))
    return tag("td", *lines)


# --------------------------------------------------------------------------------------------------------- curves


def curve(scores: Sequence[Score], deepest: int) -> Array:
    """P@1 to P@deepest, in percent: the mean over the given directions."""
    lines = []
    for score in scores:
        ranks = score.rank_array
        counts = np.bincount(ranks[(ranks >= 1) & (ranks <= deepest)], minlength=deepest + 1)[1:]
        lines.append(100 * np.cumsum(counts) / max(len(ranks), 1))
    return np.asarray(np.mean(lines, axis=0))


def _curves(run: Run, style: dict[str, int], many: bool) -> Html:
    if not run.scores:
        return Html()
    measure = measures(run)[0]
    how = "the mean over all directions" if many else "the mean of both directions of a pair"
    text = f"How often the right answer is among the first k, in %, by {NAMES[measure]}: {how}. k on a log scale."
    figures = [_figure(run, regime, measure, style, many) for regime in regimes(run)]
    return join([tag("p", text, class_="text"), *figures])


def _figure(run: Run, regime: Regime, measure: Measure, style: dict[str, int], many: bool) -> Html:
    scores = [s for s in run.scores if (s.regime, s.measure) == (regime, measure)]
    deepest = max(2, min(DEEPEST, max((s.candidates for s in scores), default=2)))
    panels: dict[str, dict[str, Array]] = {}
    if many:
        panels["mean over all directions"] = _lines(scores, style, deepest)
    else:
        for pair in pairs(run, regime):
            here = [s for s in scores if {s.source, s.target} == set(pair)]
            if here:
                panels[_pair_name(pair, here)] = _lines(here, style, deepest)
    highest = max((float(line[-1]) for lines in panels.values() for line in lines.values()), default=100)
    top = next(n for n in (10, 20, 40, 60, 80, 100) if n >= min(highest, 100))
    drawn = [
        tag("figure", tag("figcaption", name), _panel(name, lines, style, deepest, top, wide=many))
        for name, lines in panels.items()
    ]
    return tag(
        "div",
        Html() if given(run) else tag("h3", called(regime), tag("small", f" {REGIME_NOTES.get(regime, '')}")),
        _legend(run, style, regime),
        tag("div", join(drawn), class_="wide" if many else "multiples"),
        class_="curves",
    )


def _pair_name(pair: Pair, scores: Sequence[Score]) -> str:
    ways = {(s.source, s.target) for s in scores}
    return f"{pair[0]} ↔ {pair[1]}" if len(ways) == 2 else " → ".join(next(iter(ways)))


def _lines(scores: Sequence[Score], style: dict[str, int], deepest: int) -> dict[str, Array]:
    by_system: dict[str, list[Score]] = {}
    for score in scores:
        by_system.setdefault(score.system, []).append(score)
    return {system: curve(by_system[system], deepest) for system in style if system in by_system}


def _panel(name: str, lines: dict[str, Array], style: dict[str, int], deepest: int, top: int, wide: bool) -> Html:
    width, height = (720, 320) if wide else (300, 200)
    left, right, above, below = 30, 10, 8, 30

    def x(k: float) -> float:
        return left + (width - left - right) * math.log(k) / math.log(deepest)

    def y(value: float) -> float:
        return above + (height - above - below) * (1 - value / top)

    ticks = [k for k in TICKS if k <= deepest]
    parts = _grid(width, (left, right, above, below), height, top, y)
    parts += [tag("text", str(k), x=f"{x(k):.1f}", y=height - below + 14, text_anchor="middle") for k in ticks]
    parts.append(tag("text", "k", x=(left + width - right) / 2, y=height - 3, text_anchor="middle"))
    for system, line in reversed(lines.items()):  # the first comes out on top
        i = style[system]
        points = " ".join(f"{x(k):.1f},{y(value):.1f}" for k, value in enumerate(line, 1))
        marks = [
            _marker(i, x(k), y(line[k - 1]), tag("title", f"{system}, {name}: P@{k} {line[k - 1]:.1f} %"))
            for k in ticks
        ]
        stroke = tag("polyline", points=points, class_="l", stroke_dasharray=DASHES[i % len(DASHES)] or None)
        parts.append(tag("g", stroke, *marks, class_=_look(system, style)))
    said = "; ".join(f"{system} {line[0]:.1f} at 1, {line[-1]:.1f} at {deepest}" for system, line in lines.items())
    return tag("svg", *parts, viewBox=f"0 0 {width} {height}", role="img", aria_label=f"P@k, {name}: {said}")


def _grid(
    width: int, margins: tuple[int, int, int, int], height: int, top: float, y: Callable[[float], float]
) -> list[Html]:
    """Lines across at four heights, with their values."""
    left, right, _, _ = margins
    parts = []
    for n in range(5):
        value = top * n / 4
        parts.append(tag("path", d=f"M{left} {y(value):.1f}H{width - right}", class_="grid" if n else "axis"))
        parts.append(tag("text", f"{value:g}", x=left - 5, y=f"{y(value) + 3.5:.1f}", text_anchor="end"))
    return parts


# ------------------------------------------------------------------------------- direction by direction, matrices


def _directions(run: Run, style: dict[str, int]) -> Html:
    """All systems of a regime beside each other, direction by direction."""
    if len(style) < 2:
        return Html()
    measure = measures(run)[0]
    parts = [tag("p", f"P@1 in %, {NAMES[measure]}, on a scale from 0 to 100; the best in bold.", class_="text")]
    for regime in regimes(run):
        names = sorted(systems(run, regime), key=style.__getitem__)
        scores = {(s.system, s.source, s.target): s for s in run.scores if (s.regime, s.measure) == (regime, measure)}
        body = []
        for way in [way for a, b in pairs(run, regime) for way in ((a, b), (b, a))]:
            values = {name: scores[name, *way].precision(1) for name in names if (name, *way) in scores}
            if values:
                best = max((value for name, value in values.items() if not ceiling(name)), default=None)
                cells = [
                    tag(
                        "td",
                        tag("b", figure(value))
                        if best is not None and value == best and not ceiling(name)
                        else figure(value),
                    )
                    for name, value in ((name, values.get(name)) for name in names)
                ]
                body.append(tag("tr", tag("th", " → ".join(way), scope="row"), _strip(values, style), *cells))
        heads = [tag("th", _swatch(name, style), tag("span", name), scope="col") for name in names]
        head = tag("thead", tag("tr", tag("th", "Query → answer", scope="col"), _scale(), *heads))
        grid = tag("table", head, tag("tbody", join(body)), class_="ways")
        title = Html() if given(run) else tag("h3", called(regime))
        parts += [title, scroll(grid, f"Direction by direction, {called(regime)}")]
    return join(parts)


def _scale() -> Html:
    return tag("th", tag("span", tag("span", "0"), tag("span", "50"), tag("span", "100")), class_="strip")


def _strip(values: dict[str, float], style: dict[str, int]) -> Html:
    """The systems as marks on a line from 0 to 100."""
    width = 240
    parts = [tag("path", d=f"M4 9H{width - 4}", class_="axis")]
    parts += [tag("path", d=f"M{4 + (width - 8) * n / 4:.1f} 6v6", class_="axis") for n in range(5)]
    parts += [
        tag("g", _marker(style[name], 4 + (width - 8) * value / 100, 9), class_=_look(name, style))
        for name, value in reversed(values.items())
    ]
    return tag("td", tag("svg", *parts, viewBox=f"0 0 {width} 18", aria_hidden="true"), class_="strip")


def _matrices(run: Run) -> Html:
    """For each regime and system the P@1 of every direction, as a coloured matrix."""
    measure = measures(run)[0]
    langs = list(dict.fromkeys(lang for s in run.scores for lang in (s.source, s.target)))
    text = f"P@1 in %, {NAMES[measure]}: queries in the language of the row, answers in that of the column."
    parts, left_out = [tag("p", text, class_="text")], 0
    order = [(regime, system) for regime in regimes(run) for system in systems(run, regime)]
    lead = next((group for group in order if own(group[1])), order[0])
    room = CELLS // len(langs) ** 2
    for place, (regime, system) in enumerate([lead, *(group for group in order if group != lead)]):
        if place >= max(room, 1):
            left_out += 1
            continue
        scores = {(s.source, s.target): s.precision(1) for s in run.select(system, regime, measure)}
        grid = scroll(_matrix(langs, scores), f"P@1 of {named(system, regime)}")
        parts.append(fold(named(system, regime), grid, open_=place == 0))
    if left_out:
        parts.append(tag("p", f"{counted(left_out, 'more matrix')[:-1]}: see scores.csv.", class_="note"))
    return join(parts)


def _matrix(langs: Sequence[str], scores: dict[Pair, float]) -> Html:
    head = tag("tr", tag("th", ""), *(tag("th", lang, scope="col") for lang in langs))
    body = []
    for a in langs:
        cells = []
        for b in langs:
            value = scores.get((a, b))
            if value is None:
                cells.append(Html("<td></td>" if a == b else f"<td>{MISSING}</td>"))
            else:
                cells.append(Html(f'<td class="h{min(int(value / 10), 9)}">{value:.0f}</td>'))
        body.append(tag("tr", tag("th", a, scope="row"), *cells))
    return tag("table", tag("thead", head), tag("tbody", join(body)), class_="matrix")


# -------------------------------------------------------------------------------------------------------- details


def _details(run: Run, many: bool, means: Sequence[MeanScore]) -> Html:
    """The table of the paper, a system below the other, for each regime."""
    parts: list[Html] = []
    rows_left, left_out = ROWS, 0
    text = "Precision at k in %: one row for each pair of languages, asked in either language, by either measure."
    shared = _knows_shared(run)
    for regime, by_regime in groupby(table(run, means), lambda row: row.regime):
        bodies: list[Html] = []
        for system, by_system in groupby(by_regime, lambda row: row.system):
            rows = list(by_system)
            if len(rows) > rows_left and parts + bodies:
                left_out += len(rows)
                continue
            rows_left -= len(rows)
            bodies.append(_system_body(system, rows, shared))
        if bodies:
            grid = tag("table", _details_head(shared), *bodies, class_="details sortable")
            box = scroll(grid, f"Details, {called(regime)}")
            if many:
                parts.append(fold(f"{called(regime)}: {REGIME_NOTES.get(regime, '')}", box))
            else:
                parts.append(box if given(run) else join([tag("h3", called(regime)), box]))
    if left_out:
        parts.append(tag("p", f"{left_out:,} more rows: see scores.csv.", class_="note"))
    return join([tag("p", text, class_="text"), *parts]) if parts else Html()


def _knows_shared(run: Run) -> bool:
    return any(score.shared is not None for score in run.scores)


def _details_head(shared: bool) -> Html:
    blocks = [(f"query in {side}", NAMES[measure]) for measure in ("cosine", "csls") for side in ("l₁", "l₂")]
    over = [tag("th", name, tag("small", f" {measure}"), colspan=3, scope="colgroup") for name, measure in blocks]
    top = tag(
        "tr",
        *(tag("th", name, rowspan=2, scope="col", class_="lang") for name in ("l₁", "l₂")),
        *over,
        tag("th", "shared", Html("<br>"), tag("small", "concepts"), rowspan=2, scope="col") if shared else Html(),
    )
    under = [
        tag("th", f"P@{k}", scope="col", data_column=2 + 3 * i + j) for i in range(4) for j, k in enumerate(CUTOFFS)
    ]
    return tag("thead", top, tag("tr", *under))


def _system_body(system: str, rows: Sequence[Row], shared: bool) -> Html:
    lines, last = [], Html()
    for row in rows:
        if row.is_mean:
            cells = [_mean_cells(*row.cosine), _mean_cells(*row.csls)]
            cells += [tag("td", "")] if shared else []
            last = tag("tr", tag("th", "mean", colspan=2, scope="row"), *cells, class_="mean")
            continue
        values = "".join(
            f"<td>{figure(cell.precision[k] if cell else None)}</td>"
            for cell in (*row.cosine, *row.csls)
            for k in CUTOFFS
        )
        concepts = tag("td", MISSING if row.shared is None else f"{row.shared:,}") if shared else Html()
        names = [tag("th", name, scope="row") for name in (row.first, row.second)]
        lines.append(tag("tr", *names, Html(values), concepts))
    title = tag("tr", tag("th", system, colspan=14 + shared, scope="rowgroup"), class_="system")
    return Html(tag("tbody", title) + tag("tbody", join(lines)) + tag("tbody", last))


def _mean_cells(cell: Cell | None) -> Html:
    if cell is None:
        return tag("td", MISSING, colspan=6)
    values = [
        tag(
            "span",
            tag("small", f"P@{k} "),
            tag("b", figure(cell.precision[k])) if k == 1 else figure(cell.precision[k]),
        )
        for k in CUTOFFS
    ]
    values.insert(1, tag("small", f"({span(cell.interval)})"))
    return tag("td", *(part for value in values for part in (value, " ")), colspan=6)


# ------------------------------------------------------------------------------------------- examples and failures


def _examples(run: Run) -> Html:
    if not run.examples:
        return Html()
    text = "What came first for some queries; ✓ marks the right answer."
    cards = [_card(example) for example in run.examples]
    parts = [tag("p", text, class_="text"), tag("div", join(cards[:EXAMPLES]), class_="cards")]
    if len(cards) > EXAMPLES:
        more = f"{len(cards) - EXAMPLES:,} more"
        parts.append(fold(more, tag("div", join(cards[EXAMPLES:]), class_="cards")))
    return join(parts)


def _card(example: ExampleQuery) -> Html:
    if example.rank == 1:
        kind, said = "hit", "✓ found first"
    elif any(hit.right for hit in example.hits):
        kind, said = "near", f"◐ found at rank {example.rank:,}"
    else:
        kind, said = "miss", f"✗ missed, rank {example.rank:,}" if example.rank else "✗ missed, no answer"
    items = [
        tag(
            "li",
            foreign(hit.title, example.target),
            tag("span", " ✓", class_="tick", title="the right answer") if hit.right else Html(),
            tag("span", f"{hit.score:.2f}", class_="score"),
            class_="right" if hit.right else None,
        )
        for hit in example.hits
    ]
    return tag(
        "article",
        tag("p", f"{example.source} → {example.target}", tag("span", said, class_=f"badge {kind}"), class_="from"),
        tag("h3", foreign(example.query, example.source)),
        tag("ol", *items),
        tag("p", f"{named(example.system, example.regime)}, {NAMES[example.measure]}", class_="note"),
    )


def _failures(run: Run) -> Html:
    found = failures(run)
    if not found or not found.traits:
        return Html()
    share = 100 * found.failed / found.queries
    text = (
        f"{named(found.system, found.regime)}, {NAMES[found.measure]}: {found.failed:,} of {found.queries:,} queries "
        f"({share:.1f} %) are not answered first. How often they are, by quarter of the queries:"
    )
    return join([tag("p", text, class_="text"), tag("div", *(_trait(trait) for trait in found.traits), class_="cards")])


def _trait(trait: Trait) -> Html:
    name = {"different words": "Length", "words known, %": "Coverage"}[trait.name]
    said = {"different words": "different words in the query", "words known, %": "% of its words that the model knows"}
    unit = "%" if name == "Coverage" else "words"
    rows = [
        tag(
            "tr",
            tag("th", _range(part.low, part.high), scope="row"),
            tag("td", f"{part.queries:,}"),
            tag("td", bar(part.precision), class_="bars"),
            tag("td", figure(part.precision)),
        )
        for part in trait.parts
    ]
    head = [tag("th", label, scope="col") for label in (unit, "queries", "", "P@1")]
    medians = f"Median: {_short(trait.found)} where found first, {_short(trait.failed)} where not."
    return tag(
        "article",
        tag("h3", name, tag("small", f" {said[trait.name]}")),
        tag("table", tag("thead", tag("tr", *head)), tag("tbody", *rows), class_="trait"),
        tag("p", medians, class_="note"),
    )


def _short(value: float) -> str:
    return MISSING if math.isnan(value) else f"{value:.1f}".removesuffix(".0")


def _range(low: float, high: float) -> str:
    return _short(low) if _short(low) == _short(high) else f"{_short(low)}–{_short(high)}"


# ------------------------------------------------------------------------------------------------------- training


def _ridges(run: Run) -> Html:
    cards = [_ridge(trained) for trained in run.trained if trained.report.get("ridge_path")]
    if not cards:
        return Html()
    text = "P@1 by CSLS, in %, on queries held out from training, for each ridge that was tried; ● the one chosen."
    parts = [tag("p", text, class_="text"), tag("div", join(cards[:MODELS]), class_="cards")]
    if len(cards) > MODELS:
        rest = cards[MODELS : 5 * MODELS]
        parts.append(fold(f"{len(rest):,} more of {len(cards):,}", tag("div", join(rest), class_="cards")))
    return join(parts)


def _ridge(trained: TrainedSystem) -> Html:
    points = sorted(trained.report["ridge_path"], key=lambda point: float(point["ridge"]))
    chosen = trained.report.get("ridge")
    values = [100 * float(point["precision"]) for point in points]
    width, height, margins = 320, 156, (34, 12, 18, 30)
    left, right, above, below = margins
    low = math.floor(min(values) / 10) * 10
    top = max(math.ceil(max(values) / 10) * 10, low + 10)

    def x(i: int) -> float:
        return left + 8 + (width - left - right - 16) * (i / (len(points) - 1) if len(points) > 1 else 0.5)

    def y(value: float) -> float:
        return above + (height - above - below) * (1 - (value - low) / (top - low))

    parts: list[Html] = []
    for value in (low, (low + top) / 2, top):
        parts.append(
            tag("path", d=f"M{left} {y(value):.1f}H{width - right}", class_="axis" if value == low else "grid")
        )
        parts.append(tag("text", f"{value:g}", x=left - 5, y=f"{y(value) + 3.5:.1f}", text_anchor="end"))
    line = " ".join(f"{x(i):.1f},{y(value):.1f}" for i, value in enumerate(values))
    marks = []
    for i, (point, value) in enumerate(zip(points, values, strict=True)):
        picked = point["ridge"] == chosen
        name = tag("title", f"ridge {point['ridge']:g}: P@1 {value:.1f} %")
        marks.append(tag("circle", name, cx=f"{x(i):.1f}", cy=f"{y(value):.1f}", r=5 if picked else 2.5, class_="dot"))
        label = {"x": f"{x(i):.1f}", "text_anchor": "middle", "class_": "ink" if picked else None}
        parts.append(tag("text", f"{point['ridge']:g}", y=height - below + 15, **label))
        if picked:
            parts.append(tag("text", f"{value:.1f}", y=f"{y(value) - 9:.1f}", **label))
    parts.append(tag("text", "ridge", x=(left + width - right) / 2, y=height - 2, text_anchor="middle"))
    parts.append(tag("g", tag("polyline", points=line, class_="l"), *marks, class_="s0"))
    chart = tag(
        "svg", *parts, viewBox=f"0 0 {width} {height}", role="img", aria_label=f"Ridge path of {_name(trained)}"
    )
    names = ("ridge", "P@1", "MRR", "energy", "steps", "seconds")
    rows = [
        tag(
            "tr",
            *(tag("td", text) for text in _point(point)),
            class_="chosen" if point["ridge"] == chosen else None,
        )
        for point in points
    ]
    numbers = tag("table", tag("thead", tag("tr", *(tag("th", c, scope="col") for c in names))), tag("tbody", *rows))
    title = tag("h3", trained.system, tag("small", f" {named(_langs(trained), trained.regime)}"))
    return tag("article", title, chart, fold("Figures", scroll(numbers, "Ridge path")))


def _point(point: dict[str, Any]) -> list[str]:
    percent = [figure(100 * point[key]) if key in point else MISSING for key in ("precision", "reciprocal_rank")]
    return [f"{point['ridge']:g}", *percent, *(plain(point.get(key)) for key in ("energy", "steps", "seconds"))]


def _langs(trained: TrainedSystem) -> str:
    return ", ".join(trained.langs) if len(trained.langs) <= 8 else f"{len(trained.langs)} languages"


def _name(trained: TrainedSystem) -> str:
    return f"{named(trained.system, trained.regime)}, {_langs(trained)}"


def _training(run: Run) -> Html:
    fitted = [t for t in run.trained if isinstance(t.report.get("languages"), dict) and "energy" in t.report]
    others = [t for t in run.trained if t not in fitted]
    regime = any(t.regime != GIVEN for t in run.trained)
    parts = []

    def names(t: TrainedSystem) -> list[Html]:
        told = (t.system, called(t.regime), _langs(t)) if regime else (t.system, _langs(t))
        return [tag("th", text, scope="row") for text in told]

    first = ("system", "regime", "languages") if regime else ("system", "languages")
    labels = [tag("th", name, scope="col", class_="name") for name in first]
    if fitted:
        shown = ("documents", "words", "concepts", "ridge", "energy", "residual", "steps", "seconds")
        body = [tag("tr", *names(t), *(tag("td", text) for text in _fit(t))) for t in fitted]
        heads = [*labels, *(tag("th", name, scope="col") for name in shown)]
        grid = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", join(body)), class_="training")
        parts.append(scroll(grid, "Training of cr5"))
        parts += [
            tag("p", f"{_name(t)}: {t.report['warning']}", class_="note") for t in fitted if t.report.get("warning")
        ]
    if others:
        body = []
        for t in others:
            facts = [tag("span", tag("i", f"{key}: "), _brief(value)) for key, value in t.report.items()]
            told = tag("td", *facts, class_="told") if facts else tag("td", MISSING, class_="told")
            body.append(tag("tr", *names(t), tag("td", plain(t.seconds)), told))
        heads = [*labels, tag("th", "seconds", scope="col"), tag("th", "what it reports", scope="col", class_="told")]
        grid = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", join(body)), class_="training")
        parts.append(scroll(grid, "Training of other systems"))
    if len(run.trained) > 3 * MODELS:
        return fold(counted(len(run.trained), "trained model"), *parts)
    return join(parts)


def _fit(trained: TrainedSystem) -> list[str]:
    report = trained.report
    languages = report["languages"].values()
    sums = [sum(int(facts.get(key, 0)) for facts in languages) for key in ("documents", "words")]
    steps = plain(report.get("steps")) + ("" if report.get("converged", True) else " (not converged)")
    rest = [plain(report.get(key)) for key in ("ridge", "energy", "residual")]
    concepts = report.get("concepts")
    counts = [f"{n:,}" if isinstance(n, int) else MISSING for n in (*sums, concepts)]
    return [*counts, *rest, steps, plain(round(trained.seconds, 1))]


def _brief(value: Any) -> str:
    if isinstance(value, list | dict) and len(value) > 12:
        return f"{len(value):,} values"
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else plain(value)
    return text if len(text) <= 120 else text[:119] + "…"


# ------------------------------------------------------------------------------------------------- the small print


def _signatures(run: Run) -> Html:
    known = signatures(run)
    if not known:
        return Html()
    shown = list(known.items())[:SIGNATURES]
    items = [tag("li", of_scores(scores), Html("<br>"), tag("code", name)) for name, scores in shown]
    if len(known) > len(shown):
        items.append(tag("li", f"and {len(known) - len(shown):,} more, in scores.csv"))
    text = tag("p", "What each score rests on, in one line.", class_="text")
    return join([text, fold(counted(len(known), "signature"), tag("ul", *items, class_="signatures"))])


def _guide(run: Run) -> Html:
    lines = {
        "P@k": "how many of 100 queries have their right answer among the first k; P@1: at the very top.",
        "MRR": "the mean of 1 / rank of the right answer; 100 would be all at the top.",
        "Cosine, CSLS": (
            "two ways to compare; CSLS lowers those candidates that are close to everything. For BM25, and others that "
            "do not compare by cosine, “cosine” stands for the system's own score."
        ),
        "Interval": "95 of 100 such draws of queries give a P@1 in it; queries on one concept are drawn together.",
        "Floor": "what a system reaches by strings that both languages share; learning has to add to it.",
        "Ceiling": (
            "TF-IDF within the query language: what a bag of words finds without crossing a language; a model may even "
            "exceed it where texts are translations. It is a mark, not a rival."
        ),
        "Shared concepts": "training concepts with documents in both languages of the pair.",
        MISSING: "was not measured: the system cannot do it, or was not asked; the notes say more.",
    }
    if not _knows_shared(run):
        del lines["Shared concepts"]
    parts = [tag("div", tag("dt", name), tag("dd", text)) for name, text in lines.items()]
    return tag("dl", *parts, class_="guide")


def _file(name: str) -> str:
    return "\n" + files("cr5.evaluate.report").joinpath(name).read_text(encoding="utf-8")
