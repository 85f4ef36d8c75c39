"""A language that is added to a model: what stays the same, how well it does, what is refused."""

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import madeup
import numpy as np
import pytest

from cr5 import CorpusError, Cr5, Cr5Error, Document, Index, NotFittedError, write
from cr5.cli import run
from cr5.errors import ClusterError
from cr5.model.folder_training import add_language_to_model, train_model
from cr5.storage.concept_targets import ConceptTargets, targets_nbytes
from cr5.storage.model_files import open_model
from cr5.training.engines.cpu import SCRATCH_BYTES, CpuEngine

pytestmark = pytest.mark.filterwarnings("ignore::cr5.errors.FewDocuments")


def in_langs(documents: Sequence[Document], *langs: str) -> list[Document]:
    return [document for document in documents if document.lang in langs]


@pytest.fixture(scope="module")
def training(documents: list[Document]) -> list[Document]:
    return madeup.split(documents)[0]


@pytest.fixture(scope="module")
def test_set(documents: list[Document]) -> list[Document]:
    return madeup.split(documents)[1]


@pytest.fixture(scope="module")
def two(training: list[Document]) -> Cr5:
    """A model of aa and bb. Only to be copied."""
    return Cr5(**madeup.SETTINGS).fit(in_langs(training, "aa", "bb"))


@pytest.fixture
def copied(two: Cr5) -> Cr5:
    return copy_of(two)


def copy_of(model: Cr5) -> Cr5:
    copied: Cr5 = pickle.loads(pickle.dumps(model))
    return copied


def precision(model: Cr5, test_set: Sequence[Document], lang: str = "cc", other: str = "aa") -> float:
    """The share of held-out documents whose counterpart is ranked first."""
    one, two = (model.encode(madeup.texts(test_set, code), code) for code in (lang, other))
    return float(((one @ two.T).argmax(axis=1) == np.arange(len(one))).mean())


def test_the_vectors_of_the_other_languages_stay_the_same_bit_for_bit(
    two: Cr5, copied: Cr5, training: list[Document], test_set: list[Document], tmp_path: Path
) -> None:
    copied.add_language(in_langs(training, "cc"), "cc")
    copied.save(tmp_path / "model")
    for model in (copied, Cr5.load(tmp_path / "model")):
        assert model.langs == ["aa", "bb", "cc"]
        for lang in ("aa", "bb"):
            texts = madeup.texts(test_set, lang)
            np.testing.assert_array_equal(model.encode(texts, lang), two.encode(texts, lang), strict=True)


def test_an_added_language_finds_its_counterparts_as_one_that_was_trained_with_the_others(
    copied: Cr5, training: list[Document], test_set: list[Document]
) -> None:
    copied.add_language(in_langs(training, "cc"), "cc")
    joint = Cr5(**madeup.SETTINGS).fit(training)
    assert precision(copied, test_set) >= precision(joint, test_set) - 0.03
    shuffled = copy_of(copied)
    shuffled.add_language(madeup.shuffled(in_langs(training, "cc")), "cc", replace=True)
    assert precision(shuffled, test_set) < 0.2  # the concepts are what teaches it


@pytest.mark.parametrize(
    "settings", [{"metric": "orthonormal"}, {"intercept": "shared"}, {"subwords": False}, {"preset": "wsdm19"}], ids=str
)
def test_it_works_with_all_settings_of_the_model(
    settings: dict[str, Any], training: list[Document], test_set: list[Document]
) -> None:
    model = Cr5(**madeup.SETTINGS | settings).fit(in_langs(training, "aa", "bb"))
    joint = Cr5(**madeup.SETTINGS | settings).fit(training)
    model.add_language(in_langs(training, "cc"), "cc")
    assert precision(model, test_set) >= precision(joint, test_set) - 0.05


def test_without_targets_the_documents_in_the_other_languages_take_their_place(
    training: list[Document], test_set: list[Document], tmp_path: Path
) -> None:
    model = Cr5(**madeup.SETTINGS).fit(in_langs(training, "aa", "bb"), extendable=False)
    model.save(tmp_path / "model")
    assert open_model(tmp_path / "model").targets() is None
    with pytest.raises(CorpusError) as caught:
        copy_of(model).add_language(in_langs(training, "cc"), "cc")
    for fact in ("no concept targets", "aa, bb", "`extendable=True`"):
        assert fact in str(caught.value)
    model.add_language(training, "cc")
    assert precision(model, test_set) > 0.95


@pytest.mark.parametrize("kept", [1.0, 0.5])
def test_a_ridge_is_chosen_on_held_out_documents_if_asked_for(
    copied: Cr5, training: list[Document], test_set: list[Document], kept: float
) -> None:
    own = in_langs(training, "cc")
    copied.add_language(own[: int(kept * len(own))], "cc", ridge="auto")
    report = copied.report["added_languages"]["cc"]
    assert report["ridge"] in [point["ridge"] for point in report["ridge_path"]]
    assert precision(copied, test_set) > 0.8


def test_too_few_documents_to_choose_on_take_the_ridge_of_the_model(copied: Cr5, training: list[Document]) -> None:
    copied.add_language(in_langs(training, "cc")[:20], "cc", ridge="auto")
    report = copied.report["added_languages"]["cc"]
    assert (report["ridge"], report["ridge_path"]) == (madeup.SETTINGS["ridge"], [])
    assert "20 shared concepts are too few" in report["ridge_note"]


def test_a_memory_budget_changes_no_bit(copied: Cr5, two: Cr5, training: list[Document], tmp_path: Path) -> None:
    write(tmp_path / "cc.jsonl", in_langs(training, "cc"))
    copied.add_language(tmp_path / "cc.jsonl", "cc")
    scarce = copy_of(two).add_language(tmp_path / "cc.jsonl", "cc", engine=CpuEngine(memory=2 * SCRATCH_BYTES))
    np.testing.assert_array_equal(scarce.word_vectors("cc"), copied.word_vectors("cc"))


def test_a_lost_cluster_does_not_advise_to_continue_from_a_checkpoint(
    copied: Cr5, training: list[Document], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_workers(*_: Any, **__: Any) -> None:
        raise ClusterError("the workers are lost; start some")

    monkeypatch.setattr(CpuEngine, "put", lose_workers)
    with pytest.raises(ClusterError) as caught:
        add_language_to_model(copied, in_langs(training, "cc"), "cc", tmp_path / "model")
    assert str(caught.value) == "the workers are lost; start some, then run it again"


@pytest.mark.dask
@pytest.mark.parametrize("extendable", [True, False], ids=["targets", "documents"])
def test_a_cluster_adds_the_language_that_one_machine_adds(
    extendable: bool, training: list[Document], tmp_path: Path
) -> None:
    pytest.importorskip("distributed")
    write(tmp_path / "all.jsonl", training)
    model = Cr5(**madeup.SETTINGS).fit(in_langs(training, "aa", "bb"), extendable=extendable)
    add_language_to_model(copy_of(model), tmp_path / "all.jsonl", "cc", tmp_path / "local")
    cluster: dict[str, Any] = {"engine": "dask", "engine_options": {"workers": 2}}
    add_language_to_model(model, tmp_path / "all.jsonl", "cc", tmp_path / "far", **cluster)
    local, far = (Cr5.load(tmp_path / name) for name in ("local", "far"))
    np.testing.assert_allclose(local.word_vectors("cc"), far.word_vectors("cc"), atol=1e-4)


def test_a_loaded_model_is_saved_to_its_own_folder(
    two: Cr5, training: list[Document], test_set: list[Document], tmp_path: Path
) -> None:
    two.save(tmp_path / "model")
    add_language_to_model(Cr5.load(tmp_path / "model"), in_langs(training, "cc"), "cc", tmp_path / "model")
    larger = Cr5.load(tmp_path / "model")
    assert precision(larger, test_set) > 0.95
    assert larger.add_language(in_langs(training, "cc"), "cc", replace=True).langs == ["aa", "bb", "cc"]


# What is reported and saved


def test_the_report_says_what_the_language_was_learned_from(copied: Cr5, training: list[Document]) -> None:
    other = [Document("elsewhere", "cc", madeup.text("cc", range(12)))]
    copied.add_language([*in_langs(training, "cc"), *other], "cc")
    report = copied.report
    count = len(in_langs(training, "cc"))
    assert report["languages"]["cc"]["documents_read"] == count + 1
    assert report["languages"]["cc"]["documents"] == count
    assert report["corpus"]["languages"]["cc"]["left_out"] == {"concept in one language only": 1}
    added = report["added_languages"]["cc"]
    assert (added["ridge"], added["converged"], added["concepts"]) == (madeup.SETTINGS["ridge"], True, count)
    assert 0.5 < added["explained"] <= 1


def test_targets_are_saved_unless_they_would_add_too_much_to_the_size(training: list[Document]) -> None:
    def decision(**options: Any) -> dict[str, Any]:
        model = Cr5(**madeup.SETTINGS | {"max_words": 40, "subwords": False} | options.pop("settings", {}))
        facts: dict[str, Any] = model.fit(training, **options).report["concept_targets"]
        assert (model.__getstate__()["targets"] is not None) == facts["saved"]
        return facts

    large = decision()
    assert large["share"] > 0.2
    assert not large["saved"]
    assert decision(extendable=True)["saved"]
    small = decision(settings={"max_words": 1000})
    assert small["share"] < 0.2
    assert small["saved"]
    assert not decision(settings={"max_words": 1000}, extendable=False)["saved"]


def test_saved_targets_are_the_same_after_loading_and_a_missing_file_matters_only_to_them(
    two: Cr5, training: list[Document], tmp_path: Path
) -> None:
    two.save(tmp_path / "model")
    saved, loaded = two.__getstate__()["targets"], open_model(tmp_path / "model").targets()
    assert loaded is not None
    for name in ("hashes", "values", "scale", "intercept"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(saved, name))
    [file] = (tmp_path / "model").glob("concepts-*.safetensors")
    assert abs(file.stat().st_size - targets_nbytes(*saved.values.shape)) < 500
    file.unlink()
    model = Cr5.load(tmp_path / "model")
    assert model.encode(madeup.text("aa", range(9)), "aa").any()
    with pytest.raises(Cr5Error, match="no concept targets"):
        model.add_language(in_langs(training, "cc"), "cc")
    model.subset("aa").save(tmp_path / "part")
    assert Cr5.load(tmp_path / "part").langs == ["aa"]


def test_saving_again_removes_targets_that_the_model_no_longer_has(training: list[Document], tmp_path: Path) -> None:
    model = Cr5(**madeup.SETTINGS)
    for extendable in (True, False):
        model.fit(training, extendable=extendable).save(tmp_path / "model")
        assert len(list((tmp_path / "model").glob("concepts-*"))) == extendable


def test_concepts_are_found_by_name() -> None:
    vectors = np.arange(6.0).reshape(3, 2)
    targets = ConceptTargets.make(["Q1", "ä b\n", "Q3"], vectors, np.array([0.5, 0.0]))
    rows = targets.find(["Q3", "Q2", "ä b\n"])
    assert rows[1] == -1
    np.testing.assert_allclose(targets.vectors(rows[[0, 2]]), [[3.5, 5], [1.5, 3]])


# What is refused


def refused(model: Cr5, documents: Sequence[Document], lang: str, *facts: str, **options: Any) -> None:
    before = model.langs
    with pytest.raises(Cr5Error) as caught:
        model.add_language(documents, lang, **options)
    for fact in facts:
        assert fact in str(caught.value)
    assert model.langs == before


def test_what_cannot_be_added_is_refused_in_one_sentence(copied: Cr5, training: list[Document]) -> None:
    own = in_langs(training, "cc")
    refused(copied, training, "bb", "already has the language bb", "`replace=True`")
    refused(copied, own, "de", "no document in the language de", "`lang='de'`")
    elsewhere = [Document(f"other {d.concept}", d.lang, d.text) for d in own]
    refused(copied, elsewhere, "cc", "share no concept", "'other Q000'")
    refused(copied, own[:1], "cc", "no document in cc can be used", "`min_documents=2`")
    refused(copied, own, "cc", "`ridge=-1`", ridge=-1)
    with pytest.raises(NotFittedError):
        Cr5().add_language(own, "cc")


def test_documents_of_a_single_concept_are_refused(copied: Cr5, training: list[Document]) -> None:
    own = in_langs(training, "cc")
    refused(copied, [Document("Q001", "cc", d.text) for d in own], "cc", "one concept")


# Index and command line


def test_an_index_stays_valid_when_its_model_gets_a_language(
    copied: Cr5, two: Cr5, training: list[Document], test_set: list[Document], tmp_path: Path
) -> None:
    two.save(tmp_path / "two")
    copied.add_language(in_langs(training, "cc"), "cc").save(tmp_path / "three")
    Cr5(**madeup.SETTINGS | {"seed": 1}).fit(training).save(tmp_path / "other")
    with Index.create(tmp_path / "index", tmp_path / "two") as index:
        index.add(in_langs(test_set, "aa"))
        assert index.built_with(tmp_path / "three")
        assert not index.built_with(tmp_path / "three", further_languages=False)
        assert not index.built_with(tmp_path / "other")
        [hit] = index.search(madeup.texts(test_set, "bb")[3], lang="bb", k=1).hits
        index.reindex(tmp_path / "three")
        assert index.built_with(tmp_path / "three", further_languages=False)
        assert not index.built_with(tmp_path / "two")
        [same] = index.search(madeup.texts(test_set, "cc")[3], lang="cc", k=1).hits
        assert hit.id == same.id


def test_the_command_adds_a_language_to_a_saved_model(
    two: Cr5, training: list[Document], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two.save(tmp_path / "two")
    write(tmp_path / "corpus.jsonl", training)
    command = ["model", "add-language", str(tmp_path / "two"), str(tmp_path / "corpus.jsonl"), "--lang", "cc"]
    assert run([*command, "-o", str(tmp_path / "three")]) == 0
    assert "cc: 110 of 110 documents used" in capsys.readouterr().out
    assert Cr5.load(tmp_path / "three").langs == ["aa", "bb", "cc"]
    assert run([*command, "-o", str(tmp_path / "three"), "--json"]) == 0
    two_again = ["model", "add-language", str(tmp_path / "three"), *command[3:], "-o", str(tmp_path / "three")]
    assert run(two_again) == 1
    message = "error: the model already has the language cc; pass --replace to learn it again\n"
    assert capsys.readouterr().err.endswith(message)
    assert run(["info", str(tmp_path / "three")]) == 0
    assert "added: cc" in capsys.readouterr().out


def test_training_to_a_folder_keeps_the_targets_if_asked_to(training: list[Document], tmp_path: Path) -> None:
    train_model(Cr5(**madeup.SETTINGS), training, tmp_path / "model", extendable=True)
    assert open_model(tmp_path / "model").targets() is not None
