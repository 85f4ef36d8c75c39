"""The model card: its metadata can be read by the hub, and its figures are those of the model and the run."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cr5 import Cr5, Cr5Error
from cr5.exchange.model_card import model_card, read_run
from cr5.storage.model_files import open_model

RUN: dict[str, Any] = {
    "task": "documents",
    "title": "encyclopedia (aa, bb)",
    "means": [
        {
            "system": system, "regime": "joint", "measure": "csls", "directions": 6, "precision": {"1": precision},
            "reciprocal_rank": 80.0,
        }
        for system, precision in (("floor", 12.34), ("cr5", 71.26))
    ],
}  # fmt: skip


def test_the_metadata_are_strings_even_for_norwegian(model: Cr5, tmp_path: Path) -> None:
    renamed = Cr5(rank=5, ridge=1.0, min_documents=1, min_unique=1)
    renamed.fit(
        [(f"c{i}", lang, f"w{lang}{i} w{lang}{i + 1} w{lang}{i + 2}") for i in range(9) for lang in ("no", "en")]
    )
    renamed.save(tmp_path / "model")
    card = model_card(open_model(tmp_path / "model"), name="x", licence="mit")
    assert yaml.safe_load(card.split("---")[1])["language"] == ["en", "no"]


def test_the_card_has_what_the_report_has(model: Cr5, model_folder: Path) -> None:
    card = model_card(open_model(model_folder), name="made-up", repo="me/made-up", corpus="Made-up words.")
    assert "license" not in yaml.safe_load(card.split("---")[1])
    assert "Made-up words." in card
    assert 'Cr5.from_pretrained("me/made-up")' in card
    for lang, size in model.sizes().items():
        assert f"| {lang} | {model.report['languages'][lang]['documents']:,} | {size.words:,} |" in card
    assert f"ridge {model.report['ridge']:g}" in card
    assert "`min_documents=2`" in card
    assert "## Figures" not in card


def test_the_figures_of_a_run_are_in_the_card_the_best_first(model_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    card = model_card(open_model(model_folder), name="x", run=read_run(tmp_path))
    rows = [line for line in card.splitlines() if "| joint |" in line]
    assert rows == ["| cr5 | joint | csls | 71.3 | 80.0 |", "| floor | joint | csls | 12.3 | 80.0 |"]


def test_what_is_not_a_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Cr5Error, match=r"has no run\.json"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text('{"scores": []}')
    with pytest.raises(Cr5Error, match="not a run"):
        read_run(tmp_path)
