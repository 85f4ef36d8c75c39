"""A model folder opens as what was saved, or says in one sentence why it does not."""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from cr5.errors import ModelFileError
from cr5.language_map import LanguageMap, SubwordMap, half_precision, ngrams_to_keep
from cr5.storage import model_files, model_manifest
from cr5.storage.model_files import open_model, save

HEADER = {"settings": {"rank": 3, "ridge": 0.1}, "report": [1.5, None, "größer"], "ok": True}
REMEDY = "restore it or save the model again"
Model = tuple[dict[str, Any], dict[str, LanguageMap]]


def language(seed: int, words: int = 5, rank: int = 3) -> LanguageMap:
    draw = np.random.default_rng(seed).standard_normal
    return LanguageMap(
        [f"wörd{seed}字{i}" for i in range(words)],
        draw(words).astype(np.float32),
        draw((words, rank)).astype(np.float32),
        draw(rank).astype(np.float32),
    )


def with_ngrams(seed: int, ngrams: int = 4) -> LanguageMap:
    plain = language(seed, words=7)
    draw = np.random.default_rng(seed).random
    own = SubwordMap(
        [f"<字{seed}{i}" for i in range(ngrams)],
        draw(ngrams).astype(np.float32),
        draw((ngrams, 3)).astype(np.float16),
        draw(1).astype(np.float32),
        draw(7).astype(np.float32),
    )
    return replace(plain, subwords=own)


def model(seed: int) -> Model:
    return {**HEADER, "seed": seed}, {"de": language(seed), "zh-Hant": with_ngrams(seed + 1)}


def assert_same(path: Path, expected: Model) -> None:
    folder = open_model(path)
    header, languages = expected
    assert folder.metadata == header
    assert folder.langs == list(languages)
    for lang, saved in languages.items():
        found = folder.language(lang)
        assert found.words == saved.words
        for name in ("idf", "map", "offset"):
            np.testing.assert_array_equal(getattr(found, name), getattr(saved, name), strict=True)
        assert (found.subwords is None) == (saved.subwords is None)
        if found.subwords and saved.subwords:
            assert found.subwords.ngrams == saved.subwords.ngrams
            for name in ("weights", "map", "unit", "squares"):
                got, expected = getattr(found.subwords, name), getattr(saved.subwords, name)
                np.testing.assert_array_equal(got, expected, strict=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    save(path, *model(1))
    return path


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir())


def file_of(path: Path, lang: str, which: str) -> Path:
    index = json.loads((path / "model.json").read_text())
    return path / str(index["languages"][lang]["files"][which]["name"])


def edit(path: Path, change: Callable[[dict[str, Any]], object], *, sign: bool = False) -> None:
    """Change model.json; with ``sign`` as somebody would who recomputes its digest."""
    content = json.loads((path / "model.json").read_text())
    change(content)
    if sign:
        content.pop("sha256")
        content["sha256"] = model_manifest.digest(content)
    (path / "model.json").write_text(json.dumps(content))


def forge(path: Path, which: str, content: bytes) -> Path:
    """Put other content into a file of "de", with every size and digest right."""
    file = file_of(path, "de", which)
    file.write_bytes(content)
    record = {"name": file.name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    edit(path, lambda index: index["languages"]["de"]["files"].update({which: record}), sign=True)
    return file


def fails(message: str) -> Any:
    return pytest.raises(ModelFileError, match=f"^{re.escape(message)}$")


def damaged(folder: Path, message: str) -> str:
    """What is said about a damaged file of the language de, which the other language can do without."""
    advice = f"or do without de: cr5 model subset {folder} --langs zh-Hant -o NEW"
    return f"the language de is damaged: {message}; {advice}"


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


@pytest.mark.parametrize(("bits", "kind", "units"), [(16, "float16", 1), (8, "int8", 7)])
def test_quantised_languages_open_as_they_were_saved(tmp_path: Path, bits: int, kind: str, units: int) -> None:
    small, exact = with_ngrams(1).quantised(bits), language(2)
    save(tmp_path / "model", {}, {"de": small, "it": exact})
    assert json.loads((tmp_path / "model" / "model.json").read_text())["format"] == 3
    assert_same(tmp_path / "model", ({}, {"de": small, "it": exact}))
    found = open_model(tmp_path / "model").language("de")
    assert found.unit is not None
    assert small.unit is not None
    np.testing.assert_array_equal(found.unit, small.unit)
    assert (str(found.map.dtype), found.unit.shape, open_model(tmp_path / "model").language("it").unit) == (
        kind,
        (units,),
        None,
    )
    assert {lang: size.bits for lang, size in open_model(tmp_path / "model").sizes().items()} == {"de": bits, "it": 32}


def test_a_quantised_language_whose_units_are_missing_is_refused(tmp_path: Path) -> None:
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


# What cannot be saved


def changed(**parts: Any) -> dict[str, LanguageMap]:
    return {"de": LanguageMap(**{**vars(language(1)), **parts})}


FIVE = [f"w{i}" for i in range(5)]
OWN: Any = with_ngrams(1).subwords


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        (
            {"../de": language(1)},
            "language '../de' cannot name a file; use only letters a to z, digits, - and _",
        ),
        (changed(words=[]), "language de has 0 words and rank 3; both must be at least 1"),
        (changed(words=FIVE[:4]), "idf of de is float32 (5,); make it float32 (4,)"),
        (changed(map=np.ones((5, 3))), "map of de is float64 (5, 3); make it float32 (5, 3)"),
        (changed(idf=np.full(5, np.inf, np.float32)), "idf of de is not finite; check the training data"),
        (
            {"zh": replace(with_ngrams(1), subwords=replace(OWN, map=np.ones((4, 3), np.float32)))},
            "subword_map of zh is float32 (4, 3); make it float16 (4, 3)",
        ),
        (
            {"zh": replace(with_ngrams(1), subwords=replace(OWN, ngrams=["<a", "b>", "<a", "c>"]))},
            "n-gram '<a' of zh occurs twice; keep one of them",
        ),
        (changed(words=[*FIVE[:4], "w1"]), "word 'w1' of de occurs twice; keep one of them"),
        *(
            (
                changed(words=[*FIVE[:4], word]),
                f"word {word!r} of de is empty, has white space or is not Unicode; drop it",
            )
            for word in ("", "a b", "a\n", "\u2028a", "\ud800")
        ),
    ],
)
def test_what_is_no_model_is_refused_and_nothing_written(
    tmp_path: Path, languages: dict[str, LanguageMap], message: str
) -> None:
    with fails(message):
        save(tmp_path / "model", {}, languages)
    assert not names(tmp_path)


def test_a_header_must_be_strict_json(tmp_path: Path) -> None:
    message = "the metadata is not JSON: Object of type float32 is not JSON serializable; "
    with fails(message + "use strings, finite numbers, lists, dicts"):
        save(tmp_path / "model", {"rank": np.float32(1)}, model(1)[1])
    for header in ({"loss": float("nan")}, {"name": "\ud800"}):
        with pytest.raises(
            ModelFileError, match=r"^the metadata is not JSON: .*; use strings, finite numbers, lists, dicts$"
        ):
            save(tmp_path / "model", header, model(1)[1])
    assert not names(tmp_path)


def test_a_file_is_not_saved_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with fails(f"{tmp_path}/file is a file; save the model to a new or empty folder"):
        save(tmp_path / "file", *model(1))
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_of_other_files_is_not_saved_over(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with fails(f"{tmp_path} holds other files, such as thesis.tex; save to a new or empty folder"):
        save(tmp_path, *model(1))
    assert names(tmp_path) == ["thesis.tex"]


@pytest.mark.parametrize("content", ["pickle", '{"kind": "spacy"}', '{"kind": "cr5 model", "format": 4}'])
def test_a_model_json_of_others_is_not_saved_over(tmp_path: Path, content: str) -> None:
    (tmp_path / "model.json").write_text(content)
    with fails(f"cannot save over {tmp_path}, which this cr5 did not write; save elsewhere"):
        save(tmp_path, *model(1))
    assert names(tmp_path) == ["model.json"]
    assert (tmp_path / "model.json").read_text() == content


# Crashes


class CrashError(Exception):
    """The machine stops."""


class Steps:
    """Counts what touches the disk and stops at one step: for good, as a crash, or once, as an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stop: int, *, once: bool) -> None:
        self.count, self.stop, self.once = 0, stop, once
        for name in ("mkdir", "open", "fsync", "replace", "unlink", "rmdir", "chmod"):
            monkeypatch.setattr(os, name, self.watch(getattr(os, name)))
        monkeypatch.setattr(fcntl, "flock", self.watch(fcntl.flock))
        monkeypatch.setattr("safetensors.numpy.save_file", self.watch(save_file, self.half_tensors))
        monkeypatch.setattr(Path, "write_bytes", self.watch(Path.write_bytes, self.half_bytes))

    def watch(self, function: Callable[..., Any], torn: Callable[..., Any] | None = None) -> Callable[..., Any]:
        def step(*arguments: Any, **named: Any) -> Any:
            self.count += 1
            if self.count == self.stop or (self.count > self.stop > 0 and not self.once):
                if torn and self.count == self.stop:
                    torn(*arguments)
                raise CrashError
            return function(*arguments, **named)

        return step

    @staticmethod
    def half_tensors(arrays: Any, file: Path, metadata: Any) -> None:
        save_file(arrays, file, metadata)
        os.truncate(file, file.stat().st_size // 2)
        (file.parent / ".tmpA1b2C3").touch()  # the library's own

    @staticmethod
    def half_bytes(file: Path, content: bytes) -> None:
        with file.open("wb") as opened:
            opened.write(content[: len(content) // 2])


@pytest.mark.slow
@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_a_crash_at_any_step_leaves_the_old_model_or_the_new_one(tmp_path: Path, first: bool, once: bool) -> None:
    seen = []
    save(tmp_path / "old", *model(1))
    for stop in range(1, 1000):
        path = tmp_path / str(stop)
        if not first:
            shutil.copytree(tmp_path / "old", path)
        with pytest.MonkeyPatch.context() as monkeypatch:
            steps = Steps(monkeypatch, stop, once=once)
            try:
                save(path, *model(5))
            except CrashError:
                pass
            else:
                break
        if (path / "model.json").exists():
            seen.append(open_model(path).metadata["seed"])
            assert_same(path, model(seen[-1]))
        else:
            assert first
            seen.append(None)
        if not once:
            save(path, *model(9))
            assert_same(path, model(9))
            assert len(names(path)) == 7  # nothing stale is left
    assert steps.count == stop - 1 > 20
    assert set(seen) == {None if first else 1, 5}
    assert seen == sorted(seen, key=lambda seed: seed == 5)  # one step decides


def test_everything_is_on_disk_before_the_step_that_decides(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: set[int] = set()
    waiting: list[str] = []
    decided = False
    fsync, replace, unlink = os.fsync, os.replace, os.unlink

    def watch_fsync(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)
        if os.fstat(descriptor).st_ino == folder.stat().st_ino:
            waiting.clear()

    def watch_replace(source: Path, target: Path) -> None:
        nonlocal decided
        assert source.stat().st_ino in synced
        if target.name == "model.json":
            assert not waiting
            decided = True
        waiting.append(target.name)
        replace(source, target)

    def watch_unlink(file: Any, **named: Any) -> None:
        assert decided
        assert not waiting
        unlink(file, **named)

    monkeypatch.setattr(os, "fsync", watch_fsync)
    monkeypatch.setattr(os, "replace", watch_replace)
    monkeypatch.setattr(os, "unlink", watch_unlink)
    save(folder, *model(5))
    assert decided


def test_old_files_stay_while_the_new_model_json_may_be_lost(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, fsync = set(names(folder)), os.fsync

    def fail_once_decided(descriptor: int) -> None:
        if json.loads((folder / "model.json").read_text())["header"]["seed"] == 5:
            raise OSError("disk on fire")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_once_decided)
    for _ in range(2):  # nor does the next save take them away
        with pytest.raises(ModelFileError, match="disk on fire"):
            save(folder, *model(5))
        assert before <= set(names(folder))
    assert_same(folder, model(5))


KILLER = """
import os, random, signal, sys, time
from pathlib import Path
from test_model_files import assert_same, model, names, open_model, save

path, broken, seen = Path(sys.argv[1]), 0, []
random.seed(5)
save(path, *model(1))
for i in range(400):
    child = os.fork()
    while child == 0:
        save(path, *model(5))
        save(path, *model(1))
    time.sleep(random.uniform(0.001, 0.03 * (1 + i / 40)))  # longer and longer, for a busy machine
    os.kill(child, signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    broken += len(names(path)) > 7
    seen.append(open_model(path).metadata["seed"])
    assert_same(path, model(seen[-1]))
    if i >= 39 and broken and len(set(seen)) == 2:
        break
save(path, *model(9))
assert_same(path, model(9))
assert len(names(path)) == 7
print(broken, *sorted(set(seen)))
"""


@pytest.mark.slow
def test_a_process_killed_while_saving_leaves_a_whole_model(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLER, str(tmp_path / "model")]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    broken, *seen = map(int, result.stdout.split())
    assert broken > 0  # otherwise no save was interrupted
    assert seen == [1, 5]


def test_saves_at_the_same_time_wait_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "model"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda seed: save(path, *model(seed)), range(10, 30)))
    seed = open_model(path).metadata["seed"]
    assert seed in range(10, 30)
    assert_same(path, model(seed))
    assert len(names(path)) == 7
