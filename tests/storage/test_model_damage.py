"""A damaged, foreign or newer model folder says in one sentence why it does not open."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_folders import damaged, edit, fails, file_of, forge, model
from safetensors.numpy import save_file

from cr5.errors import ModelFileError
from cr5.storage.model_files import open_model, save

REMEDY = "restore it or save the model again"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    save(path, *model(1))
    return path


# What cannot be opened


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with fails(f"{tmp_path}/none does not exist; check the path, or save a model there first"):
        open_model(tmp_path / "none")


def test_a_file_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with fails(f"{tmp_path}/file is a file, not a folder; name the folder that a model was saved to"):
        open_model(tmp_path / "file")


def test_a_folder_without_model_json_is_no_model(tmp_path: Path) -> None:
    message = f"{tmp_path} is not a cr5 model: it holds no model.json; name the folder that a model was saved to"
    with fails(message):
        open_model(tmp_path)


def test_model_json_must_be_json(folder: Path) -> None:
    (folder / "model.json").write_text("pickle")
    with fails(f"{folder}/model.json is damaged or not JSON; {REMEDY}"):
        open_model(folder)
    (folder / "model.json").write_text("\n")
    with fails(f"{folder}/model.json is empty; {REMEDY}"):
        open_model(folder)


@pytest.mark.parametrize(
    ("content", "is_of"),
    [('{"kind": "spacy"}', "of kind 'spacy', not 'cr5 model'"), ("[1]", "of another program")],
)
def test_another_kind_is_refused(folder: Path, content: str, is_of: str) -> None:
    (folder / "model.json").write_text(content)
    with fails(f"{folder}/model.json is {is_of}; name a folder that cr5 saved"):
        open_model(folder)


def test_a_newer_format_asks_for_an_upgrade(folder: Path) -> None:
    edit(folder, lambda index: index.update(format=4, languages="of another shape"), sign=True)
    with fails(f"{folder} was written by a newer cr5 (format 4, this version reads formats up to 3); upgrade cr5"):
        open_model(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda index: index["header"]["settings"].update(ridge=0.2),
        lambda index: index["languages"]["de"].update(rank=4),
        lambda index: index.update(more=float("inf")),
        lambda index: index.pop("sha256"),
    ],
)
def test_an_edited_model_json_is_found(folder: Path, change: Callable[[Any], object]) -> None:
    edit(folder, change)
    with fails(f"{folder}/model.json has been edited or damaged; {REMEDY}"):
        open_model(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda index: index.update(format=0),
        lambda index: index.pop("languages"),
        lambda index: index.update(languages=[]),
        lambda index: index["languages"]["de"].pop("rank"),
        lambda index: index["languages"]["de"].update(bits=4),
        lambda index: index["languages"]["de"]["files"].pop("tensors"),
        lambda index: index["languages"]["de"]["files"]["words"].update(name="../../secret.txt"),
    ],
)
def test_a_forged_model_json_is_found_even_with_the_right_digest(folder: Path, change: Callable[[Any], object]) -> None:
    edit(folder, change, sign=True)
    with fails(f"{folder}/model.json has been edited or damaged; {REMEDY}"):
        open_model(folder)


@pytest.mark.parametrize("which", ["tensors", "words"])
def test_a_missing_language_file_is_found_when_opening(folder: Path, which: str) -> None:
    file = file_of(folder, "de", which)
    file.unlink()
    with fails(damaged(folder, f"{file} is missing; restore it, or open the model again if it was just saved")):
        open_model(folder)


@pytest.mark.parametrize("which", ["tensors", "words"])
def test_a_truncated_language_file_is_found_when_opening(folder: Path, which: str) -> None:
    file = file_of(folder, "de", which)
    size = file.stat().st_size
    os.truncate(file, size - 1)
    with fails(damaged(folder, f"{file} has {size - 1} bytes instead of {size}; {REMEDY}")):
        open_model(folder)


@pytest.mark.parametrize("which", ["tensors", "words"])
def test_a_flipped_byte_is_found_on_first_use_of_its_language(folder: Path, which: str) -> None:
    file = file_of(folder, "de", which)
    content = bytearray(file.read_bytes())
    content[-2] ^= 1
    file.write_bytes(content)
    opened = open_model(folder)
    assert opened.language("zh-Hant").words
    with fails(damaged(folder, f"{file} has been changed; {REMEDY}")):
        opened.language("de")


@pytest.mark.parametrize("damage", [lambda file: file.unlink(), lambda file: os.truncate(file, 3)])
def test_a_damaged_list_of_ngrams_is_found_when_opening(folder: Path, damage: Callable[[Path], None]) -> None:
    file = file_of(folder, "zh-Hant", "ngrams")
    damage(file)
    with pytest.raises(ModelFileError, match=re.escape(str(file))):
        open_model(folder)


def test_a_model_saved_since_it_was_opened_asks_to_be_opened_again(folder: Path) -> None:
    opened, file = open_model(folder), file_of(folder, "de", "words")
    save(folder, *model(5))
    with fails(damaged(folder, f"{file} is missing; restore it, or open the model again if it was just saved")):
        opened.language("de")


def test_a_foreign_safetensors_file_is_found(folder: Path, tmp_path: Path) -> None:
    save_file({"weights": np.zeros((5, 3), np.float32)}, tmp_path / "foreign")
    file = file_of(folder, "de", "tensors")
    size = file.stat().st_size
    file.write_bytes((tmp_path / "foreign").read_bytes())
    with fails(damaged(folder, f"{file} has {file.stat().st_size} bytes instead of {size}; {REMEDY}")):
        open_model(folder)


ONES = {"idf": np.ones(5, np.float32), "map": np.ones((5, 3), np.float32), "offset": np.ones(3, np.float32)}


@pytest.mark.parametrize(
    "tensors",
    [
        {"weights": ONES["map"]},
        {**ONES, "map": np.ones((5, 3), np.float64)},
        {**ONES, "map": np.ones((3, 5), np.float32)},
        {**ONES, "idf": np.ones(6, np.float32)},
        {**ONES, "offset": np.ones((3, 1), np.float32)},
        b"",
        b"pickle",
        b"\xff" * 100,
        b"\x02" + bytes(7) + b"[]",
        b"\x09" + bytes(7) + b'{"idf":1}',
        b"\x42" + bytes(7) + b'{"idf":{"dtype":"F32","shape":[5],"data_offsets":[0,9000000000]}}',
    ],
)
def test_tensors_of_another_shape_are_found(folder: Path, tmp_path: Path, tensors: Any) -> None:
    if isinstance(tensors, dict):
        save_file(tensors, tmp_path / "foreign")
        tensors = (tmp_path / "foreign").read_bytes()
    file = forge(folder, "tensors", tensors)
    needed = "idf float32 (5,), map float32 (5, 3), offset float32 (3,)"
    with fails(damaged(folder, f"{file} does not hold the tensors {needed}; {REMEDY}")):
        open_model(folder).language("de")


@pytest.mark.parametrize("name", ["idf", "offset"])
def test_numbers_that_are_not_finite_are_found(folder: Path, tmp_path: Path, name: str) -> None:
    save_file(ONES | {name: np.full_like(ONES[name], np.nan)}, tmp_path / "foreign")
    file = forge(folder, "tensors", (tmp_path / "foreign").read_bytes())
    with fails(damaged(folder, f"{name} in {file} is not finite; {REMEDY}")):
        open_model(folder).language("de")


@pytest.mark.parametrize("content", [b"a\nb\n", b"a\nb\nc\nd\ne", b"", b"a\nb\nc\nd\ne\n\xff"])
def test_another_number_of_words_is_found(folder: Path, content: bytes) -> None:
    file = forge(folder, "words", content)
    with fails(damaged(folder, f"{file} is not a list of 5 words; {REMEDY}")):
        open_model(folder).language("de")


def test_no_language_at_all_is_refused(folder: Path) -> None:
    with fails("`langs` is empty; name some of de, zh-Hant"):
        open_model(folder, [])


def test_an_unknown_language_is_answered_with_those_there_are(folder: Path) -> None:
    with fails(f"{folder} has no language 'fr'; it has de, zh-Hant"):
        open_model(folder, ["de", "fr"])
