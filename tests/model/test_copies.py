"""A model travels: through pickle, copy, joblib and processes, and between threads."""

import copy
import multiprocessing
import pickle
import shutil
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import joblib
import madeup
import numpy as np
import pytest
from madeup import LANGS, word

from cr5 import Cr5
from cr5.features.tfidf import Vocabulary
from cr5.model.language_encoder import EncodedText

TEXTS = {lang: [madeup.text(lang, range(i, i + 9)) for i in range(20)] for lang in LANGS}
MIXED = [text for texts in TEXTS.values() for text in texts]


@pytest.fixture(params=["fitted", "loaded", "used"])
def original(request: pytest.FixtureRequest, model: Cr5, model_folder: Path) -> Cr5:
    if request.param == "fitted":
        return model
    loaded = Cr5.load(model_folder)
    if request.param == "used":
        loaded.encode(MIXED)
    return loaded


def assert_same(one: Cr5, other: Cr5) -> None:
    np.testing.assert_array_equal(one.encode(MIXED), other.encode(MIXED), strict=True)
    assert (one.settings, one.get_params(), one.report) == (other.settings, other.get_params(), other.report)
    assert one.similar_words(word("aa", 5), "aa", "bb") == other.similar_words(word("aa", 5), "aa", "bb")
    assert repr(one) == repr(other)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_model_can_be_pickled(original: Cr5, protocol: int) -> None:
    assert_same(pickle.loads(pickle.dumps(original, protocol)), original)


def test_a_model_that_was_pickled_before_modules_moved_can_be_opened(model: Cr5) -> None:
    pickled = pickle.dumps(model, protocol=2)  # in which modules are named by lines of text
    for old, new in (("model", "model.cr5"), ("language_map", "storage.language_map")):
        assert f"ccr5.{new}\n".encode() in pickled
        pickled = pickled.replace(f"ccr5.{new}\n".encode(), f"ccr5.{old}\n".encode())
    pickled = pickled.replace(b"ccr5.storage.concept_targets\n", b"ccr5.concept_targets\n")
    assert_same(pickle.loads(pickled), model)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_model_can_be_copied(original: Cr5, copied: Any) -> None:
    other = copied(original)
    assert other is not original
    assert_same(other, original)
    before = original.get_params()
    other.set_params(rank=3)
    assert original.get_params() == before
    assert original.langs == list(LANGS)


def test_a_copy_does_not_need_the_files_of_the_original(model: Cr5, model_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(model_folder, tmp_path / "model")
    pickled = pickle.dumps(Cr5.load(tmp_path / "model"))
    shutil.rmtree(tmp_path / "model")
    assert_same(pickle.loads(pickled), model)


def test_a_copy_can_be_saved(original: Cr5, tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(original)).save(tmp_path / "model")
    assert_same(Cr5.load(tmp_path / "model"), original)


def test_a_model_that_is_not_fitted_can_be_pickled() -> None:
    model = Cr5("wsdm19", rank=7)
    assert pickle.loads(pickle.dumps(model)).get_params() == model.get_params()


def test_joblib_stores_a_model(original: Cr5, tmp_path: Path) -> None:
    joblib.dump(original, tmp_path / "model.joblib")
    assert_same(joblib.load(tmp_path / "model.joblib"), original)
    assert_same(joblib.load(tmp_path / "model.joblib", mmap_mode="r"), original)


def encoded(model: Cr5, texts: list[str]) -> Any:
    return model.encode(texts)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_processes_encode_with_a_model(model_folder: Path, how: str) -> None:
    if how not in multiprocessing.get_all_start_methods():
        pytest.skip("this system cannot fork")
    original = Cr5.load(model_folder)
    with ProcessPoolExecutor(2, multiprocessing.get_context(how)) as pool:
        parts = list(pool.map(encoded, [original] * 2, [MIXED[:30], MIXED[30:]]))
    np.testing.assert_array_equal(np.vstack(parts), original.encode(MIXED))


@pytest.mark.slow
def test_joblib_encodes_on_several_processes(model_folder: Path) -> None:
    original = Cr5.load(model_folder)
    parts = joblib.Parallel(2)(joblib.delayed(encoded)(original, part) for part in (MIXED[:30], MIXED[30:]))
    np.testing.assert_array_equal(np.vstack(parts), original.encode(MIXED))


def test_threads_that_use_a_model_first_at_once_make_its_parts_once(
    model_folder: Path, model: Cr5, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, threads = Counter[str](), 8
    check = Vocabulary.__init__

    def count(self: Vocabulary, words: list[str], *rest: Any) -> None:
        made[words[0]] += 1
        check(self, words, *rest)

    monkeypatch.setattr(Vocabulary, "__init__", count)
    loaded, barrier = Cr5.load(model_folder), Barrier(threads)

    def use(_: int) -> tuple[Any, list[Any], EncodedText]:
        barrier.wait()
        return loaded.encode(MIXED), loaded.guess_languages(MIXED), loaded.encode_text(MIXED[0], "aa")

    with ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(use, range(threads)))
    assert dict(made) == {model.words(lang)[0]: 1 for lang in LANGS}
    for vectors, guesses, _ in results:
        np.testing.assert_array_equal(vectors, model.encode(MIXED))
        assert guesses == model.guess_languages(MIXED)


# What a model hands out cannot be used to change it


def test_changing_what_a_model_returns_does_not_change_the_model(original: Cr5) -> None:
    before = original.encode(MIXED)
    original.words("aa").clear()
    original.langs.clear()
    original.report["languages"]["aa"].clear()
    original.get_params()["rank"] = 1
    with pytest.raises(ValueError, match="read-only"):
        original.word_vectors("aa")[0] = 0
    assert original.words("aa")
    assert original.langs == list(LANGS)
    assert original.report["languages"]["aa"]
    np.testing.assert_array_equal(original.encode(MIXED), before)
    assert original.word_vectors("aa").flags.writeable is False
    assert type(original.word_vectors("aa")) is np.ndarray
