"""A model that is saved, opened, fitted again or interrupted is the same every time."""

import re
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import madeup
import numpy as np
import pytest
from command_line import command
from madeup import LANGS, SETTINGS, texts, word
from model_texts import precision, random_texts

from cr5 import Cr5, Document, InputSkipped, Interrupted, ModelFileError, NotConverged, read_batches, write
from cr5._typing import Array
from cr5.errors import Cr5Error
from cr5.model.folder_training import checkpoint_path, train_model
from cr5.progress import Progress
from cr5.training.engines.cpu import CpuEngine

TIGHT = SETTINGS | {"tol": 4e-4, "max_steps": 300}


def cosines(model: Cr5, documents: Sequence[Document]) -> Array:
    vectors = np.vstack([model.encode(texts(documents, lang), lang) for lang in LANGS])
    return np.asarray(vectors @ vectors.T)


# Saving and loading


def assert_same(one: Cr5, other: Cr5, langs: Sequence[str] = LANGS) -> None:
    for lang in langs:
        some = random_texts(lang, 30)
        np.testing.assert_array_equal(one.encode(some, lang), other.encode(some, lang), strict=True)
        assert one.words(lang) == other.words(lang)


def test_a_model_whose_last_residual_was_not_computed_is_saved_and_described(tmp_path: Path) -> None:
    with pytest.warns(NotConverged, match="^the fit ended after 2 steps, and with `tol=0` its residual is not"):
        model = Cr5(**SETTINGS | {"tol": 0, "max_steps": 2}).fit(madeup.corpus())
    model.save(tmp_path / "model")
    assert Cr5.load(tmp_path / "model").report["residual"] is None
    printed = command("info", tmp_path / "model").stdout
    assert "residual not computed after 2 steps" in " ".join(printed.split())


def test_a_loaded_model_is_the_saved_one(model: Cr5, model_folder: Path) -> None:
    loaded = Cr5.load(model_folder)
    assert_same(model, loaded)
    assert loaded.settings == model.settings
    assert loaded.report == model.report
    assert repr(loaded) == repr(model) == "Cr5('default', rank=60, langs=['aa', 'bb', 'cc'])"
    a, b = texts(madeup.corpus(), "aa")[0], texts(madeup.corpus(), "bb")[0]
    assert loaded.explain(a, "aa", b, "bb") == model.explain(a, "aa", b, "bb")
    assert loaded.similar_words(word("aa", 1), "aa", "bb") == model.similar_words(word("aa", 1), "aa", "bb")


def test_some_languages_may_be_loaded_and_saved_alone(model: Cr5, model_folder: Path, tmp_path: Path) -> None:
    some = Cr5.load(model_folder, langs=["bb"])
    assert some.langs == ["bb"]
    with pytest.raises(Cr5Error, match=r"^the model has no language 'aa'; its languages are bb$"):
        some.encode(["text"], "aa")
    some.save(tmp_path / "some")
    assert Cr5.load(tmp_path / "some").langs == ["bb"]
    assert_same(model, Cr5.load(tmp_path / "some"), ["bb"])
    with pytest.raises(ModelFileError, match=r"has no language 'xx'; it has aa, bb, cc$"):
        Cr5.load(model_folder, langs=["xx"])


def test_a_model_may_be_saved_over_itself_and_over_another(
    model: Cr5, documents: list[Document], tmp_path: Path
) -> None:
    path = tmp_path / "model"
    Cr5(**SETTINGS | {"rank": 5}).fit(documents).save(path)
    model.save(path)
    loaded = Cr5.load(path)
    loaded.save(path)
    assert_same(model, loaded)
    assert_same(model, Cr5.load(path))


def test_a_model_folder_holds_nothing_but_its_documented_files(model: Cr5, tmp_path: Path) -> None:
    for _ in range(2):
        model.save(tmp_path / "model")
    kinds = {re.sub(r"-[0-9a-f]{12}\.", ".", path.name) for path in (tmp_path / "model").iterdir()}
    languages = {f"{lang}{suffix}" for lang in LANGS for suffix in (".safetensors", ".txt")}
    assert kinds == {".lock", "model.json", "concepts.safetensors", *languages}
    assert len(list((tmp_path / "model").iterdir())) == len(kinds) + len(LANGS)  # words and n-grams are both .txt
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_unfitted_model_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(Cr5Error, match="not fitted"):
        Cr5().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_an_unfitted_model_says_so(model: Cr5) -> None:
    assert repr(Cr5()) == "Cr5('default', not fitted)"
    assert repr(Cr5("wsdm19", rank=7)) == "Cr5('wsdm19', rank=7, not fitted)"
    assert Cr5(rank=7).rank == 7
    assert not hasattr(Cr5(), "rank")  # it depends on the documents
    for use in (lambda: Cr5().rank, lambda: Cr5().encode([]), lambda: Cr5().encode("text")):
        with pytest.raises(Cr5Error, match="not fitted"):
            use()
    assert repr(model) == "Cr5('default', rank=60, langs=['aa', 'bb', 'cc'])"


def test_a_model_remembers_the_versions_it_was_made_with(model: Cr5) -> None:
    assert set(model.report["versions"]) == {"python", "cr5", "numpy", "scipy", "numba", "pyarrow", "icu4py"}


# The same every time


def test_the_same_seed_gives_the_same_bits(model: Cr5, documents: list[Document], tmp_path: Path) -> None:
    training, _ = madeup.split(documents)
    assert_same(model, Cr5(**SETTINGS).fit(training))
    assert_same(model, Cr5(**SETTINGS).fit(iter(training), threads=1))
    write(tmp_path / "corpus.jsonl", training)
    assert_same(model, Cr5(**SETTINGS).fit(read_batches(tmp_path / "corpus.jsonl", batch_rows=17)))


def test_a_model_fitted_within_a_memory_budget_is_the_same(
    model: Cr5, documents: list[Document], tmp_path: Path
) -> None:
    training, _ = madeup.split(documents)
    assert_same(model, Cr5(**SETTINGS).fit(training, engine=CpuEngine(memory=2**29, scratch_folder=tmp_path)))
    assert list(tmp_path.iterdir()) == []


def test_a_model_may_be_fitted_again(documents: list[Document], model: Cr5) -> None:
    training, _ = madeup.split(documents)
    again = Cr5(**SETTINGS).fit(madeup.shuffled(training))
    again.encode(["some text"], "aa")
    assert_same(model, again.fit(training))


@pytest.fixture(scope="module")
def plain_cosines(documents: list[Document]) -> Array:
    """The cosines of a tight fit, with which those of changed input are compared."""
    return cosines(Cr5(**TIGHT).fit(documents), documents)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["documents", "languages", "concepts", "seed"])
def test_order_and_names_do_not_matter(documents: list[Document], plain_cosines: Array, what: str) -> None:
    random = np.random.default_rng(5)
    other = {
        "documents": [documents[i] for i in random.permutation(len(documents))],
        "languages": sorted(documents, key=lambda d: d.lang, reverse=True),
        "concepts": [Document(f"x{d.concept[::-1]}", d.lang, d.text) for d in documents],
        "seed": documents,
    }[what]
    changed = Cr5(**TIGHT | {"seed": 1 if what == "seed" else 0}).fit(other)
    np.testing.assert_allclose(cosines(changed, documents), plain_cosines, atol=1e-3)


@pytest.mark.slow
def test_renamed_languages_keep_their_cosines(documents: list[Document], plain_cosines: Array) -> None:
    names = {"aa": "zz", "bb": "yy-Latn", "cc": "x_1"}
    renamed = Cr5(**TIGHT).fit([Document(d.concept, names[d.lang], d.text) for d in documents])
    vectors = np.vstack([renamed.encode(texts(documents, lang), names[lang]) for lang in LANGS])
    np.testing.assert_allclose(vectors @ vectors.T, plain_cosines, atol=1e-3)


def test_a_fit_on_a_folder_counts_the_files_that_are_not_read(documents: list[Document], tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    write(tmp_path / "corpus/a.jsonl", documents)
    (tmp_path / "corpus/b.txt").touch()
    with pytest.warns(InputSkipped, match=r"1: file of another format \(first: .*b\.txt; the formats are"):
        model = Cr5(**SETTINGS).fit(tmp_path / "corpus")
    assert model.report["corpus"]["skipped"] == {"file of another format": 1}


# Interrupting


def test_ctrl_c_raises_and_installs_no_handler(documents: list[Document]) -> None:
    before, seen = signal.getsignal(signal.SIGINT), []

    def interrupt(progress: Progress) -> None:
        seen.append(signal.getsignal(signal.SIGINT))
        if progress.stage == "fit":
            signal.raise_signal(signal.SIGINT)

    model = Cr5(**SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        model.fit(documents, progress=interrupt)
    assert model.langs == []
    assert set(seen) == {before}
    with pytest.raises(Cr5Error, match="`on_interrupt='stop'` must be"):
        model.fit(documents, on_interrupt="stop")  # type: ignore[arg-type]


def test_ctrl_c_can_end_the_fit_and_keep_the_model(documents: list[Document]) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.stage == "fit" and progress.done == 2:
            signal.raise_signal(signal.SIGINT)

    training, held_out = madeup.split(documents)
    before = signal.getsignal(signal.SIGINT)
    with pytest.warns(
        Interrupted, match=r"interrupted after 2 steps and has not converged: the residual is 0\.\d+, the tolerance 0$"
    ):
        model = Cr5(**SETTINGS | {"tol": 0}).fit(training, progress=interrupt, on_interrupt="return")
    assert (model.report["interrupted"], model.report["converged"], model.report["steps"]) == (True, False, 2)
    assert signal.getsignal(signal.SIGINT) is before
    assert precision(model, held_out) > 80


def test_an_unfinished_model_never_replaces_a_finished_one(documents: list[Document], tmp_path: Path) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.stage == "fit" and progress.done == 1:
            signal.raise_signal(signal.SIGINT)

    kept = "the model is the finished one of before"
    model = Cr5(**SETTINGS | {"tol": 1e-5}).fit([d for d in documents if int(d.concept[1:]) < 100])
    before, settings, checkpoint = model.report, model.settings, tmp_path / "fit.checkpoint"
    model.set_params(rank=5)
    for change in (model.fit, model.update):
        with pytest.warns(Interrupted, match=kept):
            change(documents, progress=interrupt, on_interrupt="return")
        assert (model.report, model.settings, model.rank) == (before, settings, settings.rank)
    with pytest.warns(Interrupted, match=rf"{kept}.*; the same fit with checkpoint='.*fit\.checkpoint' continues$"):
        model.fit(documents, progress=interrupt, on_interrupt="return", checkpoint=checkpoint)
    model.save(tmp_path / "finished")
    unfinished = Cr5(**SETTINGS | {"tol": 1e-5})
    for _ in range(2):  # an unfinished one may replace another, in memory and in a folder
        with pytest.warns(Interrupted):
            unfinished.fit(documents, progress=interrupt, on_interrupt="return")
        unfinished.save(tmp_path / "unfinished")
    with pytest.raises(Cr5Error, match="finished has a finished model, which an unfinished one does not replace"):
        unfinished.save(tmp_path / "finished")
    assert Cr5.load(tmp_path / "finished").report == before
    model.save(tmp_path / "unfinished")


def test_ctrl_c_leaves_a_checkpoint_from_which_the_fit_continues(documents: list[Document], tmp_path: Path) -> None:
    steps: list[float] = []

    def interrupt(progress: Progress) -> None:
        if progress.stage == "fit":
            steps.append(progress.done)
            if steps == [0, 1, 2]:
                signal.raise_signal(signal.SIGINT)

    before, checkpoint = signal.getsignal(signal.SIGINT), tmp_path / "fit.checkpoint"
    model = Cr5(**SETTINGS | {"tol": 1e-3})
    with pytest.raises(KeyboardInterrupt, match=r"with checkpoint='.*fit\.checkpoint' continues$"):
        model.fit(documents, progress=interrupt, checkpoint=checkpoint)
    assert model.langs == []
    assert signal.getsignal(signal.SIGINT) is before
    assert steps == [0, 1, 2]
    model.fit(documents, progress=interrupt, checkpoint=checkpoint)
    assert steps[3] == 2
    assert model.report["steps"] > 2


@pytest.mark.parametrize("ending", [{"tol": 0.1}, {"tol": 1e-9, "max_steps": 2}])
@pytest.mark.filterwarnings("ignore::cr5.NotConverged")
def test_a_fit_that_ends_at_the_step_of_ctrl_c_is_complete(
    documents: list[Document], tmp_path: Path, ending: dict[str, Any]
) -> None:
    settings: dict[str, Any] = SETTINGS | ending
    expected = Cr5(**settings).fit(documents)

    def interrupt(progress: Progress) -> None:
        if progress.stage == "fit" and progress.done == expected.report["steps"]:
            signal.raise_signal(signal.SIGINT)

    before, checkpoint = signal.getsignal(signal.SIGINT), tmp_path / "fit.checkpoint"
    model = Cr5(**settings).fit(documents, progress=interrupt, checkpoint=checkpoint)
    assert not model.report["interrupted"]
    assert model.report["space"] == expected.report["space"]
    assert signal.getsignal(signal.SIGINT) is before
    assert train_model(Cr5(**settings), documents, tmp_path / "model", progress=interrupt, on_interrupt="return")
    assert Cr5.load(tmp_path / "model").report["space"] == expected.report["space"]
    assert not checkpoint_path(tmp_path / "model").exists()


def test_ctrl_c_while_the_ridge_is_chosen_says_that_it_was_not(documents: list[Document]) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.stage == "choose the ridge":
            signal.raise_signal(signal.SIGINT)

    note = "the ridge was not chosen: interrupted after 1 of 6 values; it is 30"
    with pytest.warns(Interrupted, match=f"before its first step and has not converged: .*; {note}$"):
        model = Cr5(**SETTINGS | {"ridge": "auto"}).fit(documents, progress=interrupt, on_interrupt="return")
    assert model.report["ridge_note"] == note
    assert model.report["ridge"] == 30


def test_a_second_ctrl_c_ends_everything(documents: list[Document]) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.stage == "fit":
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    model = Cr5(**SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        model.fit(documents, progress=interrupt, on_interrupt="return")
    assert signal.getsignal(signal.SIGINT) is before
    assert model.langs == []


def test_a_model_may_be_fitted_outside_the_main_thread(model: Cr5, documents: list[Document]) -> None:
    with ThreadPoolExecutor(1) as pool:
        assert_same(model, pool.submit(Cr5(**SETTINGS).fit, madeup.split(documents)[0]).result())
