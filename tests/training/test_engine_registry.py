"""Engines by name, with their options."""

import sys
from pathlib import Path
from typing import Any

import pytest

from cr5 import Cr5, Document
from cr5.errors import Cr5Error, Cr5TypeError, MissingPackageError
from cr5.training.engines.cpu import CpuEngine
from cr5.training.engines.registry import open_engine


def test_the_cpu_engine_takes_a_memory_budget_and_a_scratch_folder(tmp_path: Path) -> None:
    with open_engine("cpu", memory=10**9, scratch_folder=tmp_path) as engine:
        assert isinstance(engine, CpuEngine)
        assert (engine.memory, engine.scratch.folder) == (10**9, tmp_path)
    with open_engine("cpu", threads=3) as engine:
        assert isinstance(engine, CpuEngine)
        assert (engine.memory, engine.threads) == (None, 3)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gpu", {"memory": 10**9}, '`memory` is an option of `engine="cpu"`, not of "gpu"; leave one of them out'),
        ("cpu", {"scheduler": "tcp://127.0.0.1:1"}, '`scheduler` is an option of `engine="dask"`'),
        ("cpu", {"workers": 2}, '`workers` is an option of `engine="dask"`'),
        (
            "dask",
            {"scheduler": "tcp://127.0.0.1:1", "workers": 2},
            "`workers` starts a local cluster, `scheduler` names",
        ),
    ],
)
def test_options_of_another_engine_are_refused(name: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(Cr5Error) as caught, open_engine(name, **options):
        pass
    assert message in str(caught.value)


def test_an_option_that_no_engine_has_is_refused_with_the_options_that_there_are() -> None:
    told = 'no engine has the option `memroy`; the options of "cpu" are memory, '
    with pytest.raises(Cr5TypeError, match=told), open_engine("cpu", memroy=10**9):
        pass


def test_options_without_a_value_and_those_of_every_machine_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_engine("cpu", scheduler=None, workers=None, memory=None) as engine:
        assert isinstance(engine, CpuEngine)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(MissingPackageError), open_engine("gpu", scratch_folder=tmp_path, threads=2, workers=None):
        pass


DOCUMENTS = [Document(str(i), lang, f"{lang}{i} word") for i in range(3) for lang in ("it", "da")]


@pytest.mark.parametrize("engine", ["cpu", "gpu", CpuEngine])
def test_what_is_not_an_engine_is_refused_with_the_engines_that_there_are(engine: Any) -> None:
    expected = f"`engine={engine!r}` is not an engine; pass one of `CpuEngine()`, `GpuEngine()`, `DaskEngine()`"
    model = Cr5()
    with pytest.raises(Cr5TypeError) as caught:
        model.fit(DOCUMENTS, engine=engine)
    assert str(caught.value) == expected


def test_updates_and_added_languages_refuse_what_is_not_an_engine(model: Cr5) -> None:
    wrong: Any = "cpu"
    with pytest.raises(Cr5TypeError, match="is not an engine"):
        model.update(DOCUMENTS, engine=wrong)
    with pytest.raises(Cr5TypeError, match="is not an engine"):
        model.add_language(DOCUMENTS, "it", engine=wrong)


@pytest.mark.parametrize("threads", [0, -1])
@pytest.mark.parametrize("engine", [None, CpuEngine()], ids=["no engine", "engine"])
def test_fits_refuse_less_than_one_thread(threads: int, engine: CpuEngine | None) -> None:
    with pytest.raises(Cr5Error, match=rf"`threads={threads}` must be a whole number of at least 1"):
        Cr5().fit(DOCUMENTS, engine=engine, threads=threads)
    with pytest.raises(Cr5Error, match=rf"`threads={threads}` must be a whole number of at least 1"):
        CpuEngine(threads=threads)
