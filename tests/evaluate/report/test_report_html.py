"""The HTML page: its figures are those of the JSON, every value is escaped, and it needs no other file."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from html_tree import Node, everything, parse
from reports import (
    ARABIC,
    CHINESE,
    NASTY,
    REPORT,
    as_json,
    big_run,
    expected_rows,
    html,
    make_run,
    markdown,
    mean_text,
    partial_run,
)

from cr5._typing import Array
from cr5.evaluate.report.charts import COLOURS, NEUTRAL, OTHER_COLOURS
from cr5.evaluate.runs import Run, TrainedSystem
from cr5.evaluate.systems.registry import SYSTEMS, SystemEntry
from cr5.settings import make_settings


@pytest.fixture(scope="module")
def run() -> Run:
    return partial_run()


@pytest.fixture(scope="module")
def values(run: Run) -> dict[str, Any]:
    return as_json(run)


@pytest.fixture(scope="module")
def big() -> Run:
    return big_run()


@pytest.fixture(scope="module")
def text(run: Run) -> str:
    return html(run)


@pytest.fixture(scope="module")
def page(text: str) -> Node:
    return parse(text)


def test_the_details_of_the_page_contain_the_figures_of_the_json(page: Node, values: dict[str, Any]) -> None:
    rows = []
    for grid in page.all("table", "details"):
        for line in grid.all("tr"):
            cells = [cell.text for cell in (*line.all("th"), *line.all("td"))]
            if len(cells) == 15 and "td" in [child.name for child in line.children if isinstance(child, Node)]:
                rows.append(cells)
    assert rows == expected_rows(values)


def test_the_summary_of_the_page_contains_the_means_of_the_json(page: Node, values: dict[str, Any]) -> None:
    (grid,) = page.all("table", "summary")
    (body,) = grid.all("tbody")
    found = {}
    for line in body.all("tr"):
        (name,) = line.all("span", "name")
        for cell in line.all("div"):
            if "data-p1" in cell.attributes:
                key = (name.text, str(cell.attributes["data-regime"]), str(cell.attributes["data-measure"]))
                (ends,) = cell.all("span", "interval")
                (shown,) = [*cell.all("b", "value"), *cell.all("span", "value")]
                found[key] = (float(cell.attributes["data-p1"] or 0), f"{shown.text} ({ends.text.strip(' ●*')})")
    assert len(found) == len(values["means"])
    for mean in values["means"]:
        key = (mean["system"], mean["regime"], mean["measure"])
        assert found[key] == (mean["precision"]["1"], mean_text(values, *key))


def test_the_curves_pass_through_the_mean_of_both_directions(page: Node, run: Run) -> None:
    titles = {title.text for title in page.all("title")}
    for k in (1, 5, 10):
        both = [s.precision(k) for s in run.select("cr5", "joint", "csls") if {s.source, s.target} == {"da", "en"}]
        assert f"cr5, da ↔ en: P@{k} {np.mean(both):.1f} %" in titles


def test_a_curve_of_one_direction_says_so() -> None:
    (only,) = parse(html(make_run(directions=[("en", "da")], regimes=["joint"]))).all("figcaption")
    assert only.text == "en → da"


def looks(run: Run) -> dict[str, str]:
    """The swatch of every system in the summary: its classes, dashes and marker."""
    (table,) = parse(html(run)).all("table", "summary")
    rows = [row for body in table.all("tbody") for row in body.all("tr")]
    swatches = {next(row.all("span", "name")).text: next(row.all("svg", "swatch")) for row in rows}
    return {name: " ".join(str(node.attributes) for node in everything(svg)) for name, svg in swatches.items()}


@pytest.mark.slow
def test_a_system_has_the_same_look_in_every_report() -> None:
    names = [entry.name for entry in SYSTEMS.values()] + ["cr5 (training IDF)", "e5", "my own vectors"]
    first = looks(make_run(systems=dict.fromkeys(names, 0.2)))
    assert set(first) == set(names)
    for chosen in (names[::-3], names[1:4], names[-3:]):
        other = make_run(["en", "it"], ["pretrained"], dict.fromkeys(chosen, 0.2), task="sentences")
        assert looks(other).items() <= first.items()
    assert len(set(first.values())) == len(first)


def test_the_ridge_path_of_a_system_has_its_colour() -> None:
    names = ("cr5", "cr5 as in the paper")
    run = make_run(systems=dict.fromkeys(names, 0.2))
    page = parse(html(replace(run, trained=[replace(run.trained[0], system=name) for name in names])))
    (section,) = [node for node in page.all("section") if node.attributes["id"] == "ridges"]
    colours = [next(card.all("g")).attributes["class"] for card in section.all("article")]
    assert colours == ["s0 own", "s2 own"]
    assert all(colour and colour in looks(run)[name] for name, colour in zip(names, colours, strict=True))


def test_every_colour_of_a_registered_system_is_in_the_style_sheet() -> None:
    page = html(make_run())
    assert all(f".s{number}{{" in page for number in range(COLOURS))
    assert f".s{COLOURS}{{" not in page
    assert f".{NEUTRAL}{{" in page


def test_systems_without_a_colour_of_their_own_differ_in_dash_pattern_and_marker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [entry.name for entry in SYSTEMS.values()]
    before = looks(make_run(["en", "it"], ["joint"], dict.fromkeys(names, 0.2)))
    new = [f"new baseline {number}" for number in range(COLOURS + 2 - len(SYSTEMS))]
    for name in new:
        monkeypatch.setitem(SYSTEMS, name, SystemEntry(name, name, "baseline", SYSTEMS["bm25"].make))
    found = looks(make_run(["en", "it"], ["joint"], dict.fromkeys(names + new, 0.2)))
    assert before.items() <= found.items()
    assert len(set(found.values())) == len(found) == COLOURS + 2
    assert all(f"'{NEUTRAL} baseline'" in found[name] for name in new[-2:])


def test_own_systems_baselines_and_upper_bounds_look_different() -> None:
    names = ["CL-ESA", "mine", "upper bound (TF-IDF within the language)", "cr5"]
    run = replace(make_run(systems=dict.fromkeys(names, 0.2)), roles={"CL-ESA": "baseline", "mine": "own"})
    found = looks(run)
    assert list(found) == ["mine", "cr5", "CL-ESA", "upper bound (TF-IDF within the language)"]
    roles = [
        next(role for role in ("own", "baseline", "upper-bound") if f" {role}'" in look) for look in found.values()
    ]
    assert roles == ["own", "own", "baseline", "upper-bound"]
    (table,) = parse(html(run)).all("table", "summary")
    assert [label.text for label in table.all("small", "role")] == ["baseline", "upper bound"]


# What people without one kind of cone see (Machado, Oliveira and Fernandes 2009), on linear RGB.
COLOUR_VISION = {
    "usual": np.eye(3),
    "no red": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "no green": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "no blue": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
RGB_TO_XYZ = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])


def linear_rgb(colours: list[str]) -> Array:
    values = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in colours])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def cielab(rgb: Array) -> Array:
    xyz = np.clip(rgb, 0, 1) @ RGB_TO_XYZ.T / RGB_TO_XYZ.sum(axis=1)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116).T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_colours_of_systems_differ_for_colour_blind_readers(mode: str, page: Node) -> None:
    css = next(page.all("style")).text
    part = css[: css.index("@media")] if mode == "light" else css[css.index("prefers-color-scheme:dark") :]
    found = dict(re.findall(r"--(page|[so]\d+):(#[0-9a-f]{3,6})", part))
    background = linear_rgb(["#ffffff" if found["page"] == "#fff" else found["page"]]) @ RGB_TO_XYZ[1]
    systems = [found[name] for name in found if name != "page"]
    assert len(systems) == COLOURS + OTHER_COLOURS
    luminance = linear_rgb(systems) @ RGB_TO_XYZ[1]
    brighter, darker = np.maximum(luminance, background), np.minimum(luminance, background)
    assert ((brighter + 0.05) / (darker + 0.05)).min() >= 3  # WCAG, for graphics
    for seen_by, matrix in COLOUR_VISION.items():
        lab = cielab(linear_rgb(systems) @ matrix.T)
        distances = np.linalg.norm(lab[:, None] - lab[None], axis=2)[np.triu_indices(len(lab), 1)]
        assert distances.min() > (24 if seen_by == "usual" else 15), seen_by


def test_the_page_shows_neither_json_nor_exponents_nor_raw_seconds() -> None:
    run = make_run()
    training = {"residual": 5.7e-6, "words": {"da": 1200, "en": 3}, "epochs": [1, 2], "nested": {"a": {"b": [0.25]}}}
    run = replace(
        run,
        facts={"settings": make_settings(rank=77).to_json(), "seconds": 5.7e-06, "skipped": {"no text": 3}},
        trained=[
            TrainedSystem("cr5", "joint", ["da", "en"], 5.7e-06, REPORT | {"residual": 5.7e-6}),
            TrainedSystem("esa", "joint", ["da"], 3725.0, training | {"seconds": 3.3}),
        ],
    )
    shown = parse(html(run))
    for name in ("style", "script"):
        for node in everything(shown):
            node.children = [child for child in node.children if isinstance(child, str) or child.name != name]
    for text in (shown.text, markdown(replace(run, title="run"))):
        assert not re.search(r"\de[-+]?\d|[{}]|seconds", text.replace(NASTY, ""))
        assert "under 1 ms" in text
        assert re.search(r"rank\W*77\W*auto", text)
    assert "5.7 × 10⁻⁶" in shown.text
    assert "1 h 2 min" in shown.text
    assert "words: da 1,200, en 3" in shown.text
    assert "nested: a (b (0.25))" in shown.text


def test_examples_say_how_they_were_drawn_and_how_many_fail() -> None:
    run = replace(make_run(queries=100), example_seed=4)
    ranks = [rank for score in run.select("cr5", "joint", "csls") for rank in score.ranks]
    share = f"{100 * sum(rank != 1 for rank in ranks) / len(ranks):.1f}"
    sentence = (
        "3 of 600 queries, drawn at random (seed 4), with failures in proportion: cr5, joint, CSLS, does not put "
        f"the right answer first for {share} % of all queries and for 2 of these 3."
    )
    assert sentence in parse(html(run)).text.replace("\xa0", " ")
    assert sentence in markdown(run)
    assert "drawn at random" not in html(replace(run, example_seed=None))  # of an older version


def test_the_guide_explains_scores_baseline_and_upper_bound(page: Node) -> None:
    (guide,) = page.all("dl", "guide")
    assert "“cosine” stands for the system's own score" in guide.text
    assert "TF-IDF within the query language" in guide.text
    assert "Shared tokens" in guide.text
    assert "hubness" in guide.text


def test_the_page_marks_the_chosen_ridge(page: Node) -> None:
    (row,) = page.all("tr", "chosen")
    assert [cell.text for cell in row.all("td")][:4] == ["1", "-0.500", "50.0", "60.0"]
    assert "P@1 25.0 %" in next(t.text for t in page.all("title") if t.text.startswith("ridge 10:"))


def test_examples_mark_hits_and_misses_by_a_sign_and_words(page: Node) -> None:
    badges = [badge.text for badge in page.all("span", "badge")]
    assert badges == ["◐ found at rank 2", "✓ found first", "✗ missed, no answer"]
    assert [item.text for item in page.all("li", "right")] == [f"{ARABIC} ✓0.25", f"{NASTY} ✓0.75"]


@pytest.mark.slow
def test_thirty_languages_make_a_small_page_with_a_matrix(big: Run) -> None:
    text = html(big)
    assert len(text.encode()) < 3_000_000
    page = parse(text)
    matrix = next(page.all("table", "matrix"))
    (head, *lines) = matrix.all("tr")
    names = [cell.text for cell in head.all("th")][1:]
    scores = {(s.source, s.target): s for s in big.select("cr5", "joint", "csls")}
    assert len(lines) == len(names) == 30
    for line in lines:
        source = next(line.all("th")).text
        for target, cell in zip(names, line.all("td"), strict=True):
            assert cell.text == (f"{scores[source, target].precision(1):.0f}" if source != target else "")
    assert len(list(page.all("figcaption"))) == 1
    inside = [grid for fold in page.all("details") for grid in fold.all("table", "details")]
    assert len(inside) == len(list(page.all("table", "details"))) == 1


def test_titles_of_any_script_keep_their_own_direction(page: Node) -> None:
    for title in (NASTY, ARABIC, CHINESE):
        found = [node for node in everything(page) if node.name == "bdi" and node.text == title]
        assert found
        assert all(node.attributes["dir"] == "auto" for node in found)


def test_the_page_escapes_every_value(run: Run, text: str, page: Node) -> None:
    assert "<script>alert" not in text
    assert len(list(page.all("script"))) == len(list(page.all("style"))) == 1
    assert not [node for node in everything(page) if any(name.startswith("on") for name in node.attributes)]
    assert "alert" not in next(page.all("script")).text
    (title, *_) = page.all("title")
    assert title.text == f"A run {NASTY}"
    assert "<script>" not in markdown(run)


def test_the_page_escapes_names_of_languages_systems_facts_and_trained_models() -> None:
    run = make_run((NASTY, "en"), systems={NASTY: 0.3, "cr5": 0.2})
    run = replace(run, facts={NASTY: {NASTY: {NASTY: {NASTY: NASTY}}}, "plain": NASTY})
    for few in (run, replace(run, trained=run.trained * 20, examples=run.examples * 20)):
        page = parse(html(few))
        assert len(list(page.all("script"))) == 1
        assert not [node for node in everything(page) if any(name.startswith("on") for name in node.attributes)]
        assert NASTY in page.text


def test_the_page_loads_no_other_file(text: str, page: Node) -> None:
    for node in everything(page):
        assert node.name not in ("link", "img", "iframe", "object", "embed", "base", "use", "image")
        for name, value in node.attributes.items():
            assert name not in ("src", "srcset", "xlink:href", "action", "background")
            assert name != "href" or (value or "").startswith("#")
    assert not re.search(r"url\(|@import|https?://|fetch\(|XMLHttpRequest", text)


def test_every_link_and_label_has_a_target(page: Node) -> None:
    ids = [node.attributes["id"] for node in everything(page) if "id" in node.attributes]
    assert len(ids) == len(set(ids))
    for node in everything(page):
        if "href" in node.attributes:
            assert (node.attributes["href"] or "")[1:] in ids
        if "aria-labelledby" in node.attributes:
            assert node.attributes["aria-labelledby"] in ids
