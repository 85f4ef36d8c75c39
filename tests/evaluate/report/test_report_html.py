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
    as_json,
    big_run,
    expected_rows,
    html,
    make_run,
    markdown,
    mean_text,
    partial_run,
)

from cr5.evaluate.runs import Run


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
        (name,) = line.all("th")
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


def test_the_guide_explains_scores_baseline_and_upper_bound(page: Node) -> None:
    (guide,) = page.all("dl", "guide")
    assert "“cosine” stands for the system's own score" in guide.text
    assert "an upper bound: TF-IDF within the query language" in guide.text
    assert "the shared-token baseline" in guide.text
    assert "hubness" in guide.text


def test_the_page_marks_the_chosen_ridge(page: Node) -> None:
    (row,) = page.all("tr", "chosen")
    assert [cell.text for cell in row.all("td")][:3] == ["1", "50.0", "60.0"]
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
