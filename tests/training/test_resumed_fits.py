"""A fit that was interrupted is continued from its checkpoint."""

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_corpora import chosen, counted

from cr5 import Document
from cr5.errors import Cr5Error
from cr5.progress import Progress
from cr5.training.counted_corpus import CountedCorpus
from cr5.training.engines.cpu import CpuEngine
from cr5.training.pipeline import train


@pytest.fixture(scope="module")
def corpus(documents: list[Document]) -> CountedCorpus:
    return counted(documents)


# Going on after a break

SLOW: dict[str, Any] = {"tol": 5e-4, "max_steps": 300}  # some steps to be interrupted in, yet within float32
AUTO: dict[str, Any] = SLOW | {"ridge": "auto"}


class Break(Exception):  # noqa: N818
    """A run that dies."""


train_in_steps = partial(train, checkpoint_interval_seconds=0.0, ridges=(0.3, 0.1))
"""Writes a checkpoint after every step; the ridges take several steps to fit."""


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "fit.checkpoint"


def break_at(step: int, seen: list[str] | None = None) -> Callable[[Progress], None]:
    def report(progress: Progress) -> None:
        if seen is not None:
            seen.append(progress.stage)
        if progress.stage == "fit" and progress.done == step:
            raise Break

    return report


@pytest.mark.slow
@pytest.mark.parametrize("changes", [SLOW, AUTO], ids=["given", "auto"])
def test_a_run_that_died_is_continued(corpus: CountedCorpus, checkpoint: Path, changes: dict[str, Any]) -> None:
    picked = chosen(**changes)
    whole, plain = train_in_steps(corpus, picked)
    with pytest.raises(Break):
        train_in_steps(corpus, picked, checkpoint=checkpoint, progress=break_at(4))
    stages: list[str] = []
    languages, report = train_in_steps(corpus, picked, checkpoint=checkpoint, progress=break_at(-1, stages))
    assert "choose the ridge" not in stages
    assert report["steps"] == plain["steps"]
    assert report["converged"]
    np.testing.assert_allclose(report["eigenvalues"], plain["eigenvalues"], rtol=1e-5)
    assert report["ridge"] == plain["ridge"]
    drop = [{k: v for k, v in point.items() if k != "seconds"} for point in plain["ridge_path"]]
    assert [{k: v for k, v in point.items() if k != "seconds"} for point in report["ridge_path"]] == drop
    for name in ("view_weights", "strings_weight_path", "strings_weight_expected"):
        assert report[name] == plain[name]
    for lang in whole:
        one, other = whole[lang].map.astype(float), languages[lang].map.astype(float)
        np.testing.assert_allclose(one @ one.T, other @ other.T, atol=5e-4 * np.abs(one @ one.T).max())


@pytest.mark.slow
@pytest.mark.parametrize("changes", [SLOW, AUTO], ids=["given", "auto"])
def test_a_run_that_was_stopped_is_continued(corpus: CountedCorpus, checkpoint: Path, changes: dict[str, Any]) -> None:
    picked = chosen(**changes)
    _, plain = train_in_steps(corpus, picked)
    reached: list[Progress] = []

    def watch(progress: Progress) -> None:
        if progress.stage == "fit" and progress.done == 4:
            reached.append(progress)

    _, stopped = train_in_steps(
        corpus, picked, checkpoint=checkpoint, progress=watch, should_stop=lambda: bool(reached)
    )
    assert (stopped["interrupted"], stopped["converged"], stopped["steps"]) == (True, False, 4)
    assert stopped["warning"] == ""  # whoever stopped it knows
    _, report = train_in_steps(corpus, picked, checkpoint=checkpoint)
    assert report["steps"] == plain["steps"]
    np.testing.assert_allclose(report["eigenvalues"], plain["eigenvalues"], rtol=1e-5)


@pytest.mark.slow
def test_a_run_that_died_is_continued_on_another_engine(corpus: CountedCorpus, checkpoint: Path) -> None:
    picked = chosen(**AUTO)
    with pytest.raises(Break):
        train_in_steps(corpus, picked, checkpoint=checkpoint, progress=break_at(4))
    shutil.copy(checkpoint, checkpoint.with_suffix(".copy"))
    _, plain = train_in_steps(corpus, picked, checkpoint=checkpoint)
    _, other = train_in_steps(
        corpus, picked, checkpoint=checkpoint.with_suffix(".copy"), engine=CpuEngine(memory=2**29)
    )
    assert other["eigenvalues"] == plain["eigenvalues"]


@pytest.mark.slow
def test_a_run_that_died_right_after_the_path_does_not_fit_it_again(corpus: CountedCorpus, tmp_path: Path) -> None:
    picked, path = chosen(**AUTO), tmp_path / "fit.checkpoint"
    with pytest.raises(Break):
        train_in_steps(corpus, picked, checkpoint=path, progress=break_at(0))
    stages: list[str] = []
    continued, _ = train_in_steps(corpus, picked, checkpoint=path, progress=break_at(-1, stages))
    assert "choose the ridge" not in stages
    whole, _ = train_in_steps(corpus, picked)
    assert all(np.array_equal(language.map, whole[lang].map) for lang, language in continued.items())


@pytest.mark.slow
def test_a_path_that_was_interrupted_is_fitted_again(corpus: CountedCorpus, checkpoint: Path) -> None:
    picked = chosen(**AUTO)
    reached: list[Progress] = []

    def watch(progress: Progress) -> None:
        if progress.stage == "choose the ridge":
            reached.append(progress)

    _, stopped = train_in_steps(
        corpus, picked, checkpoint=checkpoint, progress=watch, should_stop=lambda: bool(reached)
    )
    assert len(stopped["ridge_path"]) == 1
    _, plain = train_in_steps(corpus, picked)
    _, report = train_in_steps(corpus, picked, checkpoint=checkpoint)
    assert [p["ridge"] for p in report["ridge_path"]] == [p["ridge"] for p in plain["ridge_path"]]


@pytest.mark.parametrize("what", ["setting", "text", "concept", "language"])
def test_a_checkpoint_of_another_run_is_refused(documents: list[Document], checkpoint: Path, what: str) -> None:
    with pytest.raises(Break):
        train_in_steps(counted(documents), chosen(**SLOW), checkpoint=checkpoint, progress=break_at(3))
    first = documents[0]
    changed = {
        "setting": first,
        "text": replace(first, text=documents[3].text),
        "concept": replace(first, concept="Q001"),
        "language": replace(first, lang="bb"),
    }[what]
    seed = 1 if what == "setting" else 0
    with pytest.raises(Cr5Error, match=re.escape(f"{checkpoint} belongs to other documents or settings")):
        train_in_steps(counted([changed, *documents[1:]]), chosen(seed=seed, **SLOW), checkpoint=checkpoint)
    assert checkpoint.exists()


def test_without_a_checkpoint_nothing_is_written(
    corpus: CountedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    train(corpus, chosen())
    assert list(tmp_path.iterdir()) == []
