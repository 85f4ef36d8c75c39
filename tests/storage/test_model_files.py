"""A model folder opens as what was saved."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_folders import HEADER, assert_same, edit, file_of, forge, language, model, names, with_ngrams
from safetensors.numpy import load_file, save_file

from cr5.errors import ModelFileError
from cr5.storage import model_files
from cr5.storage.language_map import LanguageMap, SubwordMap, half_precision, ngrams_to_keep
from cr5.storage.model_files import open_model, save


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    save(path, *model(1))
    return path


def test_a_saved_model_opens_as_it_was(folder: Path) -> None:
    assert_same(folder, model(1))
    assert open_model(folder).langs == ["de", "zh-Hant"]


def test_the_folder_holds_nothing_but_json_safetensors_and_text(folder: Path) -> None:
    stripped = sorted(re.sub(r"-[0-9a-f]{12}\.", ".", name) for name in names(folder))
    languages = ["de.safetensors", "de.txt", "zh-Hant.safetensors", "zh-Hant.txt", "zh-Hant.txt"]
    assert stripped == sorted([".lock", "model.json", *languages])
    saved = language(1)
    assert file_of(folder, "de", "words").read_text() == "".join(f"{word}\n" for word in saved.words)
    np.testing.assert_array_equal(load_file(file_of(folder, "de", "tensors"))["map"], saved.map)


def test_model_json_can_be_read_by_people(folder: Path) -> None:
    text = (folder / "model.json").read_text()
    assert text.startswith('{\n  "format": 2,\n  "kind": "cr5 model",\n  "cr5": "')
    assert "größer" in text


def test_whoever_may_read_the_vocabulary_may_read_the_tensors(folder: Path) -> None:
    modes = {file_of(folder, "de", which).stat().st_mode for which in ("words", "tensors")}
    assert len(modes) == 1


def test_a_model_of_format_1_opens(tmp_path: Path) -> None:
    header, languages = {**HEADER, "seed": 3}, {"de": language(3), "it": language(4)}
    save(tmp_path / "model", header, languages)
    edit(tmp_path / "model", lambda index: index.update(format=1), sign=True)
    assert_same(tmp_path / "model", (header, languages))


@pytest.mark.parametrize(("bits", "kind", "scales"), [(16, "float16", 1), (8, "int8", 7)])
def test_quantised_languages_open_as_they_were_saved(tmp_path: Path, bits: int, kind: str, scales: int) -> None:
    small, exact = with_ngrams(1).quantised(bits), language(2)
    save(tmp_path / "model", {}, {"de": small, "it": exact})
    assert json.loads((tmp_path / "model" / "model.json").read_text())["format"] == 3
    assert_same(tmp_path / "model", ({}, {"de": small, "it": exact}))
    found = open_model(tmp_path / "model").language("de")
    assert found.scale is not None
    assert small.scale is not None
    np.testing.assert_array_equal(found.scale, small.scale)
    assert (str(found.map.dtype), found.scale.shape, open_model(tmp_path / "model").language("it").scale) == (
        kind,
        (scales,),
        None,
    )
    assert {lang: size.bits for lang, size in open_model(tmp_path / "model").sizes().items()} == {"de": bits, "it": 32}


def test_a_quantised_language_whose_scales_are_missing_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "model", {}, {"de": language(1).quantised(8)})
    tensors = load_file(file_of(tmp_path / "model", "de", "tensors"))
    save_file({name: array for name, array in tensors.items() if name != "unit"}, tmp_path / "other")
    forge(tmp_path / "model", "tensors", (tmp_path / "other").read_bytes())
    with pytest.raises(ModelFileError, match=r"does not hold the tensors .*map int8 \(5, 3\).*unit float32 \(5,\)"):
        open_model(tmp_path / "model").language("de")


def test_the_sizes_of_languages_are_known_without_reading_them(folder: Path) -> None:
    sizes = open_model(folder).sizes()
    counted = {lang: (size.words, size.ngrams) for lang, size in sizes.items()}
    assert counted == {"de": (5, 0), "zh-Hant": (7, 4)}
    for lang, size in sizes.items():
        assert size.bytes == sum(file.stat().st_size for file in folder.iterdir() if file.name.startswith(f"{lang}-"))


@pytest.mark.parametrize(
    ("words", "ngrams", "rank"), [(500, 3000, 20), (500, 3000, 1), (500, 700, 50), (2000, 9000, 3)]
)
def test_ngrams_at_most_double_a_model(tmp_path: Path, words: int, ngrams: int, rank: int) -> None:
    plain, strings = language(1, words, rank), [f"<{i:04d}" for i in range(ngrams)]
    kept = ngrams_to_keep(plain.words, strings, rank)
    values, unit = half_precision(np.ones((kept, rank), np.float32))
    own = SubwordMap(strings[:kept], np.ones(kept, np.float32), values, unit, np.ones(words, np.float32))
    sizes = []
    for part in (plain, replace(plain, subwords=own)):
        save(tmp_path / "model", {}, {"de": part})
        sizes.append(open_model(tmp_path / "model").sizes()["de"].bytes)
    header = 600  # of the safetensors file, which names the tensors
    assert kept <= min(2 * words, ngrams)
    assert sizes[1] <= 2 * sizes[0] + header
    assert kept == ngrams or sizes[1] > 1.9 * sizes[0] or kept == 2 * words


def test_half_precision_keeps_three_digits_whatever_the_size() -> None:
    drawn = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
    for size in (1e-12, 1e-3, 1.0, 1e6):
        values, unit = half_precision(drawn * np.float32(size))
        assert (str(values.dtype), str(unit.dtype), unit.shape) == ("float16", "float32", (1,))
        np.testing.assert_allclose(values.astype(np.float32) * unit, drawn * np.float32(size), rtol=1e-3)
    assert not half_precision(np.zeros((2, 2), np.float32))[0].any()


def test_arrays_are_read_only_views_of_the_file(folder: Path) -> None:
    found = open_model(folder).language("de")
    base: Any = found.map
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, mmap)
    assert type(found.map) is np.ndarray  # every view of a memmap is slow to make
    assert not found.map.flags.owndata
    assert not found.map.flags.writeable


def test_opening_reads_no_language_and_a_language_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    original = model_files._read_language

    def watch(path: Path, entry: Any, words: list[str]) -> LanguageMap:
        read.append(path)
        return original(path, entry, words)

    monkeypatch.setattr(model_files, "_read_language", watch)
    opened = open_model(folder)
    assert opened.words("de") == language(1).words
    assert not read
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(opened.language, ["de"] * 50))
    assert len(read) == 1
    assert all(one is found[0] for one in found)


def test_memory_in_any_order_is_saved_right(tmp_path: Path) -> None:
    one = language(1)
    languages = {
        "de": LanguageMap(one.words, one.idf[::-1], np.asfortranarray(one.map), one.offset),
        "en": LanguageMap(one.words, one.idf, np.repeat(one.map, 2, axis=1)[:, ::2], one.offset),
    }
    save(tmp_path / "model", {}, languages)
    assert_same(tmp_path / "model", ({}, languages))


def test_some_languages_open_without_the_files_of_the_others(folder: Path) -> None:
    file_of(folder, "de", "tensors").unlink()
    opened = open_model(folder, ["zh-Hant"])
    assert opened.langs == ["zh-Hant"]
    assert opened.language("zh-Hant").words == model(1)[1]["zh-Hant"].words


def test_an_open_model_survives_a_change_of_directory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    opened = open_model(Path("model"))
    monkeypatch.chdir("/")
    assert opened.language("de").words == language(1).words


def test_saving_replaces_the_model_and_leaves_nothing_of_it(folder: Path) -> None:
    before = names(folder)
    save(folder, *model(5))
    assert_same(folder, model(5))
    assert len(names(folder)) == len(before)
    assert set(names(folder)) & set(before) == {".lock", "model.json"}


def test_a_mapped_model_can_be_saved_over_itself_and_stays_usable(folder: Path) -> None:
    opened = open_model(folder)
    languages = {lang: opened.language(lang) for lang in opened.langs}
    save(folder, opened.metadata, languages)
    assert_same(folder, model(1))
    save(folder, *model(5))
    np.testing.assert_array_equal(languages["de"].map, language(1).map)


def test_saving_heals_a_damaged_model(folder: Path) -> None:
    file_of(folder, "de", "tensors").write_bytes(b"")
    edit(folder, lambda index: index.pop("languages"))
    save(folder, *model(1))
    assert_same(folder, model(1))


def test_saving_keeps_the_files_of_others_in_a_model_folder(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    (folder / "de-0123456789ab.txt").mkdir()
    save(folder, *model(5))
    assert (folder / "notes.txt").read_text() == "mine"
    assert (folder / "de-0123456789ab.txt").is_dir()


def test_a_reader_between_two_saves_gets_the_new_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = model_files._check_size

    def save_first(*arguments: Any) -> None:
        monkeypatch.setattr(model_files, "_check_size", check)
        save(folder, *model(5))
        check(*arguments)

    monkeypatch.setattr(model_files, "_check_size", save_first)
    assert_same(folder, model(5))
