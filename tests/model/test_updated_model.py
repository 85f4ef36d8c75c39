"""A model that is continued with more documents: the answer of a fresh fit, after fewer products."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import madeup
import numpy as np
import pytest
from scipy.linalg import subspace_angles

from cr5 import CorpusError, Cr5, Document, NotFittedError, write
from cr5.cli import run
from cr5.errors import FewDocuments
from cr5.training.engines import Engine

pytestmark = pytest.mark.filterwarnings("ignore:only 1..? shared concepts:cr5.errors.FewDocuments")

TIGHT: dict[str, Any] = madeup.SETTINGS | {"rank": 20, "tol": 0.003}
OLD_CONCEPTS = 135  # of 150


@pytest.fixture(scope="module")
def old(documents: list[Document]) -> list[Document]:
    """The documents of nine tenths of the concepts."""
    return [document for document in documents if document.concept < f"Q{OLD_CONCEPTS:03d}"]


@pytest.fixture(scope="module")
def fresh(documents: list[Document]) -> Cr5:
    return Cr5(**TIGHT).fit(documents)


def stacked(model: Cr5) -> Any:
    """The vectors of the words of all languages, words x rank."""
    return np.vstack([model.word_vectors(lang) for lang in model.langs]).astype(np.float64)


def assert_same_solution(one: Cr5, other: Cr5) -> None:
    assert one.report["energy"] == pytest.approx(other.report["energy"], rel=1e-4)
    assert [one.words(lang) for lang in one.langs] == [other.words(lang) for lang in other.langs]
    assert np.sin(subspace_angles(stacked(one), stacked(other))).max() < 0.05


def test_an_update_has_the_energy_and_the_subspace_of_a_fresh_fit_after_fewer_products(
    engine: Engine, documents: list[Document], old: list[Document], fresh: Cr5
) -> None:
    model = Cr5(**TIGHT).fit(old)
    before = model.report["energy"]
    model.update(documents, engine=engine)
    assert_same_solution(model, fresh)
    assert model.report["energy"] > before
    assert model.report["steps"] <= fresh.report["steps"]  # a fresh fit begins with power steps
    assert model.report["products"] < fresh.report["products"]
    assert model.report["updated"]["energy"] == before


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    pytest.importorskip("distributed")
    from cr5.training.engines.dask import DaskEngine

    with DaskEngine(workers=2) as engine:
        yield engine


@pytest.mark.dask
def test_a_cluster_updates_a_model_as_one_machine_does(
    cluster: Any, documents: list[Document], old: list[Document], fresh: Cr5, tmp_path: Path
) -> None:
    write(tmp_path / "all.jsonl", documents)
    model = Cr5(**TIGHT).fit(old).update(tmp_path / "all.jsonl", engine=cluster)
    assert_same_solution(model, fresh)
    assert model.report["products"] < fresh.report["products"]


def test_the_same_documents_need_no_step(documents: list[Document], tmp_path: Path) -> None:
    Cr5(**madeup.SETTINGS).fit(documents).save(tmp_path / "model")
    model = Cr5.load(tmp_path / "model").update(documents)
    assert model.report["steps"] == 0


@pytest.mark.filterwarnings("ignore::cr5.errors.RankLowered")
def test_a_saved_model_remembers_whether_its_rank_was_given(
    documents: list[Document], old: list[Document], tmp_path: Path
) -> None:
    for rank, larger in (("auto", 149), (20, 20)):
        Cr5(**madeup.SETTINGS | {"rank": rank}).fit(old).save(tmp_path / "model")
        assert Cr5.load(tmp_path / "model").update(documents).rank == larger
        assert Cr5.load(tmp_path / "model").settings.rank == rank
    Cr5(**madeup.SETTINGS | {"rank": "auto"}).fit(documents).save(tmp_path / "model")
    assert Cr5.load(tmp_path / "model").fit(old).rank == OLD_CONCEPTS - 1


@pytest.mark.parametrize("changes", [{"subwords": False}, {"metric": "orthonormal"}, {"intercept": "shared"}], ids=str)
def test_it_works_with_all_settings(changes: dict[str, Any], documents: list[Document], old: list[Document]) -> None:
    cold = Cr5(**TIGHT | changes).fit(documents)
    warm = Cr5(**TIGHT | changes).fit(old).update(documents)
    assert_same_solution(warm, cold)
    assert warm.report["products"] < cold.report["products"]


def test_the_vocabulary_and_the_languages_may_grow(documents: list[Document]) -> None:
    def without(words: Sequence[int]) -> list[Document]:
        dropped = {madeup.word(lang, meaning) for lang in madeup.LANGS for meaning in words}
        return [
            Document(d.concept, d.lang, " ".join(word for word in d.text.split() if word not in dropped))
            for d in documents
            if d.lang != "cc"
        ]

    model = Cr5(**TIGHT).fit(without(range(20)))
    assert madeup.word("aa", 3) not in model.words("aa")
    model.update(documents)
    assert_same_solution(model, Cr5(**TIGHT).fit(documents))
    assert madeup.word("aa", 3) in model.words("aa")


def test_the_ridge_and_the_weight_of_the_strings_stay_those_of_the_model(
    documents: list[Document], old: list[Document]
) -> None:
    model = Cr5(**madeup.SETTINGS | {"ridge": "auto"}).fit(old)
    before = model.report
    model.update(documents)
    for name in ("ridge", "ridge_path", "view_weights"):
        assert model.report[name] == before[name]
    assert model.settings.ridge == "auto"
    assert model.report["path_seconds"] == 0


def test_the_targets_of_an_updated_model_are_those_of_all_documents(
    documents: list[Document], old: list[Document]
) -> None:
    model = Cr5(**madeup.SETTINGS).fit(old, extendable=True)
    count = len(model.__getstate__()["targets"].hashes)
    assert len(model.update(documents, extendable=True).__getstate__()["targets"].hashes) == count + 15


def test_what_are_evidently_new_documents_alone_is_pointed_out(documents: list[Document], old: list[Document]) -> None:
    model = Cr5(**madeup.SETTINGS).fit(old)
    with pytest.raises(CorpusError, match=r"no documents in language cc, .* old and new"):
        model.update([document for document in documents if document.lang != "cc"])
    with pytest.warns(FewDocuments, match="aa 100 instead of 135"):
        model.update([document for document in documents if document.concept < "Q100"])
    with pytest.raises(NotFittedError):
        Cr5().update(documents)


def test_the_command_continues_from_a_model(
    documents: list[Document], old: list[Document], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Cr5(**madeup.SETTINGS).fit(old).save(tmp_path / "old")
    write(tmp_path / "all.jsonl", documents)
    command = ["train", str(tmp_path / "all.jsonl"), "--from", str(tmp_path / "old"), "-o", str(tmp_path / "new")]
    assert run(command) == 0
    updated = Cr5.load(tmp_path / "new")
    assert updated.rank == madeup.SETTINGS["rank"]
    assert updated.report["updated"]["concepts"] == OLD_CONCEPTS
    capsys.readouterr()
    assert run([*command, "--rank", "10"]) == 1
    assert "leave out --rank, or --from" in capsys.readouterr().err
