"""The charts of a report as SVG coordinates; the templates draw them."""

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cr5._typing import Array
from cr5.evaluate.runs import Score
from cr5.evaluate.systems.registry import SYSTEMS, SystemRole, find_entry

LARGEST_K = 50  # the curves of P@k end here
LABELLED_K = (1, 2, 5, 10, 20, 50)
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2")
MARKERS = 6
COLOURS = 13  # .s0 and so on in the style sheet, for the first registered systems
NEUTRAL = "neutral"  # the colour of all further registered systems
OTHER_COLOURS = 3  # .o0 and so on, for all other systems
REPEATED = {"training IDF": 1, "trained here": 2}  # part of a system's name -> shift of its style


@dataclass(frozen=True)
class SystemStyle:
    """The look of a system: a colour, and a number that determines its dash pattern and its marker.

    It depends on the name, the role and the place in the registry alone, so that it is the same in every chart and
    report. Registered systems without a colour of their own differ in dash pattern and marker.
    """

    colour: str
    number: int
    role: SystemRole

    @classmethod
    def of(cls, name: str, role: SystemRole) -> "SystemStyle":
        """The look of a system, given its name in a run; a system that is in it several times has one colour."""
        entry = find_entry(name)
        digest = zlib.crc32(name.encode(errors="replace"))
        if entry is None:
            return cls(f"o{digest % OTHER_COLOURS}", digest // OTHER_COLOURS % (len(DASHES) * MARKERS), role)
        number = list(SYSTEMS).index(entry.key)
        shift = sum(step for words, step in REPEATED.items() if words in name)
        return cls(f"s{number}" if number < COLOURS else NEUTRAL, number + shift, role)

    @property
    def css_class(self) -> str:
        return f"{self.colour} {self.role.replace(' ', '-')}"

    @property
    def dash(self) -> str | None:
        """The pattern of the line; None for a solid one."""
        return DASHES[self.number % len(DASHES)] or None

    def marker(self, x: float, y: float) -> str:
        """The outline of a small shape, one of six, around a point."""
        shapes = (
            _circle(x, y, 2.9),
            f"M{x - 2.5:.1f} {y - 2.5:.1f}h5v5h-5z",
            f"M{x:.1f} {y - 3.3:.1f}l3.3 5.7h-6.6z",
            f"M{x:.1f} {y - 3.6:.1f}l3.6 3.6l-3.6 3.6l-3.6 -3.6z",
            f"M{x - 2.6:.1f} {y - 2.6:.1f}l5.2 5.2m0 -5.2l-5.2 5.2",
            f"M{x:.1f} {y - 3.3:.1f}v6.6m-3.3 -3.3h6.6",
        )
        return shapes[self.number % MARKERS]


class GridLine(NamedTuple):
    path: str
    is_axis: bool


class Label(NamedTuple):
    """Text next to an axis or a point."""

    text: str
    x: str
    y: str
    anchor: str = "middle"
    css_class: str | None = None


class Marker(NamedTuple):
    """A point of a curve: its outline, and the text of its tooltip."""

    path: str
    title: str


@dataclass(frozen=True)
class Curve:
    """A line through points, some of them marked."""

    css_class: str
    dash: str | None
    points: str
    markers: list[Marker]
    marker_class: str = "m"


@dataclass(frozen=True)
class Chart:
    """A drawing of ``width`` by ``height`` units, described in words by ``label``."""

    width: int
    height: int
    label: str
    grid: list[GridLine]
    labels: list[Label]
    curves: list[Curve]


def _circle(x: float, y: float, radius: float) -> str:
    return f"M{x - radius:.1f} {y:.1f}a{radius} {radius} 0 1 0 {2 * radius} 0a{radius} {radius} 0 1 0 {-2 * radius} 0"


def precision_curve(scores: Sequence[Score], largest_k: int) -> Array:
    """P@1 to P@largest_k, in percent: the mean over the given directions."""
    curves = []
    for score in scores:
        ranks = score.rank_array
        counts = np.bincount(ranks[(ranks >= 1) & (ranks <= largest_k)], minlength=largest_k + 1)[1:]
        curves.append(100 * np.cumsum(counts) / max(len(ranks), 1))
    return np.asarray(np.mean(curves, axis=0))


def precision_chart(name: str, curves: dict[str, Array], styles: dict[str, SystemStyle], top: int, wide: bool) -> Chart:
    """P@k of several systems over k, on a logarithmic scale; the axis of P@k ends at ``top``."""
    width, height = (720, 320) if wide else (300, 200)
    left, right, above, below = 30, 10, 8, 30
    largest_k = len(next(iter(curves.values())))

    def x(k: float) -> float:
        return left + (width - left - right) * math.log(k) / math.log(largest_k)

    def y(value: float) -> float:
        return above + (height - above - below) * (1 - value / top)

    labelled = [k for k in LABELLED_K if k <= largest_k]
    grid, labels = _grid([top * n / 4 for n in range(5)], y, left, width - right)
    labels += [Label(str(k), f"{x(k):.1f}", str(height - below + 14)) for k in labelled]
    labels.append(Label("k", str((left + width - right) / 2), str(height - 3)))
    drawn = []
    for system, values in reversed(curves.items()):  # the first system is drawn last, above the others
        style = styles[system]
        markers = [
            Marker(style.marker(x(k), y(values[k - 1])), f"{system}, {name}: P@{k} {values[k - 1]:.1f} %")
            for k in labelled
        ]
        points = " ".join(f"{x(k):.1f},{y(value):.1f}" for k, value in enumerate(values, 1))
        drawn.append(Curve(style.css_class, style.dash, points, markers))
    figures = [f"{system} {values[0]:.1f} at 1, {values[-1]:.1f} at {largest_k}" for system, values in curves.items()]
    return Chart(width, height, f"P@k, {name}: {'; '.join(figures)}", grid, labels, drawn)


def ridge_chart(name: str, path: Sequence[dict[str, Any]], chosen: float | None, css_class: str) -> Chart:
    """P@1 of held-out queries for each ridge that was tried, in increasing order; the chosen one is large."""
    width, height = 320, 156
    left, right, above, below = 34, 12, 18, 30
    values = [100 * float(point["precision"]) for point in path]
    low = math.floor(min(values) / 10) * 10
    top = max(math.ceil(max(values) / 10) * 10, low + 10)

    def x(i: int) -> float:
        return left + 8 + (width - left - right - 16) * (i / (len(path) - 1) if len(path) > 1 else 0.5)

    def y(value: float) -> float:
        return above + (height - above - below) * (1 - (value - low) / (top - low))

    grid, labels = _grid([low, (low + top) / 2, top], y, left, width - right)
    markers = []
    for i, (point, value) in enumerate(zip(path, values, strict=True)):
        ridge, at = f"{point['ridge']:g}", f"{x(i):.1f}"
        is_chosen = point["ridge"] == chosen
        label_class = "ink" if is_chosen else None
        markers.append(Marker(_circle(x(i), y(value), 5 if is_chosen else 2.5), f"ridge {ridge}: P@1 {value:.1f} %"))
        labels.append(Label(ridge, at, str(height - below + 15), css_class=label_class))
        if is_chosen:
            labels.append(Label(f"{value:.1f}", at, f"{y(value) - 9:.1f}", css_class=label_class))
    labels.append(Label("ridge", str((left + width - right) / 2), str(height - 2)))
    points = " ".join(f"{x(i):.1f},{y(value):.1f}" for i, value in enumerate(values))
    curve = Curve(css_class, None, points, markers, "dot")
    return Chart(width, height, f"Ridge path of {name}", grid, labels, [curve])


def _grid(
    values: Sequence[float], y: Callable[[float], float], left: int, right: int
) -> tuple[list[GridLine], list[Label]]:
    lines = [GridLine(f"M{left} {y(value):.1f}H{right}", value == values[0]) for value in values]
    labels = [Label(f"{value:g}", str(left - 5), f"{y(value) + 3.5:.1f}", "end") for value in values]
    return lines, labels
