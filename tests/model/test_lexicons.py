"""The lexicons of a model: made once, and kept beside its files if that is possible."""

import copy
import pickle
import shutil
from functools import partial
from pathlib import Path

import madeup
import numpy as np
import pytest
from madeup import MEANINGS, word

from cr5 import Cr5, Document
from cr5._typing import Array, Ints
from cr5.errors import Cr5Error, Cr5TypeError, OutputWarning
from cr5.retrieval.lexicon import Lexicon, WordVectors, make_lexicon
from cr5.storage.lexicon_files import lexicon_path, read_lexicon, write_lexicon


@pytest.fixture
def saved(model_folder: Path, tmp_path: Path) -> Path:
    """A model of its own, without lexicons."""
    return Path(shutil.copytree(model_folder, tmp_path / "model", ignore=shutil.ignore_patterns("lexicons")))


def same(one: Lexicon, other: Lexicon) -> bool:
    return np.array_equal(one.indices, other.indices) and np.array_equal(one.probabilities, other.probabilities)


def test_words_are_translated_to_words_of_the_same_meaning(model: Cr5) -> None:
    words = [word("aa", meaning) for meaning in range(MEANINGS)]
    found = model.translate_words(words, "aa", "bb", 1)
    right = [best[0][0] == word("bb", meaning) for meaning, best in enumerate(found) if best]
    assert len(right) > 0.9 * MEANINGS
    assert np.mean(right) > 0.9
    lexicon = model.lexicon("aa", "bb")
    assert lexicon is model.lexicon("aa", "bb")
    assert [lexicon.translations(w, 1) for w in words if w in lexicon.index] == [best for best in found if best]


def test_a_word_is_tokenised_and_one_that_is_not_known_has_no_translations(model: Cr5) -> None:
    known = word("aa", 5)
    found = model.translate_words([known.upper(), "zzz", f"{known} {known}", ""], "aa", "bb", 2)
    assert found == [model.lexicon("aa", "bb").translations(known, 2), [], [], []]
    assert model.translate_words(known, "AA", "bb", 2) == found[0]
    assert model.translate_words("zzz", "aa", "bb") == []
    with pytest.raises(Cr5TypeError, match="`words`"):
        model.translate_words(5, "aa", "bb")  # type: ignore[call-overload]
    with pytest.raises(Cr5Error, match="`k=-1`"):
        model.translate_words([], "aa", "bb", -1)
    with pytest.raises(Cr5Error, match="both aa"):
        model.lexicon("aa", "aa")
    with pytest.raises(Cr5Error, match="no language 'xx'"):
        model.lexicon("aa", "xx")


def test_a_lexicon_is_kept_beside_the_model(saved: Path, model: Cr5, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Cr5.load(saved).lexicon("aa", "bb")
    assert same(made, model.lexicon("aa", "bb"))
    assert [path.name for path in (saved / "lexicons").iterdir()] == ["aa.bb.safetensors"]
    monkeypatch.setattr("cr5.retrieval.lexicon.make_lexicon", None)  # it must not be needed again
    loaded = Cr5.load(saved, langs=["aa", "bb"]).lexicon("aa", "bb")
    assert same(loaded, made)
    assert (loaded.source_words, loaded.target_words) == (model.words("aa"), model.words("bb"))


def test_a_lexicon_of_the_most_frequent_words_is_the_same_when_it_is_read(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cr5.retrieval.lexicon.make_lexicon", partial(make_lexicon, max_words=20))
    made, loaded = (Cr5.load(saved).lexicon("aa", "bb") for _ in range(2))
    assert same(made, loaded)
    assert len(loaded.source_words) == 20
    assert made.translations(made.source_words[19]) == loaded.translations(made.source_words[19])
    assert Cr5.load(saved).translate_words(Cr5.load(saved).words("aa")[20:21], "aa", "bb") == [[]]


def test_a_lexicon_of_another_model_is_not_used(saved: Path, documents: list[Document]) -> None:
    old = Cr5.load(saved).lexicon("aa", "bb")
    path = lexicon_path(saved, "aa", "bb")
    content = path.read_bytes()
    Cr5(**madeup.SETTINGS | {"ridge": 30.0}).fit(documents).save(saved)
    assert not path.exists()
    path.parent.mkdir()
    path.write_bytes(content)
    new = Cr5.load(saved)
    assert not same(new.lexicon("aa", "bb"), old)
    assert same(Cr5.load(saved).lexicon("aa", "bb"), new.lexicon("aa", "bb"))
    assert path.read_bytes() != content


@pytest.mark.parametrize("damage", ["empty", "cut", "text"])
def test_a_damaged_lexicon_is_made_again(saved: Path, damage: str) -> None:
    made = Cr5.load(saved).lexicon("aa", "bb")
    path = lexicon_path(saved, "aa", "bb")
    content = path.read_bytes()
    path.write_bytes({"empty": b"", "cut": content[:-10], "text": b"no lexicon" * 100}[damage])
    assert same(Cr5.load(saved).lexicon("aa", "bb"), made)
    assert path.read_bytes() == content


def test_arrays_that_do_not_fit_the_vocabularies_are_not_read(tmp_path: Path) -> None:
    path, half = tmp_path / "lexicons" / "aa.bb.safetensors", np.full((3, 2), 0.5, np.float16)
    unfit: list[tuple[Ints, Array]] = [
        (np.full((3, 2), 4, np.int32), half),
        (np.full((3, 2), -1, np.int32), half),
        (np.zeros((4, 2), np.int32), np.full((4, 2), 0.5, np.float16)),
        (np.zeros((3, 1), np.int32), half),
        (np.zeros((3, 2), np.int64), half),
        (np.zeros((3, 2), np.int32), half.astype(np.float32)),
    ]
    for indices, probabilities in unfit:
        write_lexicon(path, "digest", indices, probabilities)
        assert read_lexicon(path, "digest", (3, 4)) is None
    write_lexicon(path, "digest", np.full((3, 2), 3, np.int32), half)
    assert read_lexicon(path, "digest", (3, 4)) is not None
    assert read_lexicon(path, "other", (3, 4)) is None


def test_a_folder_that_cannot_be_written_is_warned_of(saved: Path, model: Cr5) -> None:
    (saved / "lexicons").write_text("a file, where the folder would be")
    with pytest.warns(OutputWarning, match=r"aa\.bb\.safetensors: the lexicon cannot be saved, .*exists"):
        lexicon = Cr5.load(saved).lexicon("aa", "bb")
    assert same(lexicon, model.lexicon("aa", "bb"))


def test_a_model_that_is_fitted_again_has_new_lexicons(documents: list[Document]) -> None:
    model = Cr5(**madeup.SETTINGS).fit(documents)
    old = model.lexicon("aa", "bb")
    assert not same(model.fit(madeup.shuffled(documents)).lexicon("aa", "bb"), old)


def test_copies_make_the_same_lexicons(model: Cr5) -> None:
    expected = model.lexicon("aa", "bb")
    for other in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert same(other.lexicon("aa", "bb"), expected)


def test_a_pair_of_200_000_words_takes_less_than_30_megabytes(tmp_path: Path) -> None:
    few = WordVectors(["a", "b"] * 10, np.eye(20, dtype=np.float32))
    lexicon = make_lexicon(few, few)
    path = tmp_path / "lexicons" / "aa.bb.safetensors"
    write_lexicon(path, "digest", np.tile(lexicon.indices, (10_000, 1)), np.tile(lexicon.probabilities, (10_000, 1)))
    assert path.stat().st_size < 30e6
