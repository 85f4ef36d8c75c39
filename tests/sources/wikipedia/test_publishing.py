"""From shards to a corpus: what is kept, what is written again, and whose files are whose."""

import json
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cr5.errors import CorpusError, Cr5Error
from cr5.sources.wikipedia.publishing import (
    Edition,
    Keep,
    Published,
    begin,
    check_folder,
    finish,
    is_temporary,
    publish,
    shared_items,
)
from cr5.sources.wikipedia.shards import ARTICLES, write_table

LONG = "En temmelig lang tekst om en by ved havet, med havn, kirke, torv og en bro, som alle kender og holder af. "
SHARDS = [
    [("Q1", LONG, ""), ("Q2", "Noget helt andet om fugle og fisk", ""), ("Q3", "An English text", "en")],
    [("Q4", LONG, ""), ("Q5", "Endnu en ganske kort tekst om biler", ""), ("Q1", "Igen om det samme emne", "")],
    [("Q6", "Kun om noget, som ingen andre har", "")],
]
SHARED = (1, 3, 4, 5)
RUN = "run"


def write_shards(folder: Path) -> tuple[str, ...]:
    folder.mkdir(exist_ok=True)
    paths = []
    for number, rows in enumerate(SHARDS):
        paths.append(folder / f"dump-{number:05d}.parquet")
        columns = [[c for c, _, _ in rows], ["da"] * len(rows), [t for _, t, _ in rows]]
        columns += [[c for c, _, _ in rows], [""] * len(rows), [f for _, _, f in rows]]
        table = pa.Table.from_arrays([pa.array(column, pa.string()) for column in columns], schema=ARTICLES)
        write_table(paths[-1], table, {b"cr5": b"{}"})
    return tuple(map(str, paths))


def make(folder: Path, keep: Keep, shards: tuple[str, ...] | None = None) -> Published:
    output, table = folder / "corpus", folder / "shared.npy"
    output.mkdir(exist_ok=True)
    np.save(table, np.array(SHARED))
    begin(output, "wikipedia", RUN)
    shards = shards or tuple(map(str, sorted((folder / "shards").iterdir())))
    published = publish(Edition("da", shards, str(output), keep, str(table) if keep.shared else None, RUN))
    finish(output, {}, published.files)
    return published


def kept(folder: Path) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for path in sorted((folder / "corpus").glob("*.parquet")):
        table = pq.read_table(path)
        found += zip(table["concept"].to_pylist(), table["text"].to_pylist(), strict=True)
    return found


def expected(keep: Keep) -> list[tuple[str, str]]:
    rows = [row for shard in SHARDS for row in shard]
    rows = [row for row in rows if not keep.shared or int(row[0][1:]) in SHARED]
    rows = [row for row in rows if not keep.own or not row[2]]
    return [(c, t) for c, t, _ in rows if not (keep.unlike and (c, t) == ("Q4", LONG))]


KEEPS = [Keep(*choice) for choice in product([False, True], repeat=3)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_shards(tmp_path / "shards")
    return tmp_path


def test_whatever_was_kept_before_the_corpus_is_what_is_wanted_now(folder: Path) -> None:
    shards = {path: path.stat().st_mtime_ns for path in (folder / "shards").iterdir()}
    for number in np.random.default_rng(0).integers(len(KEEPS), size=30):
        make(folder, KEEPS[number])
        assert kept(folder) == expected(KEEPS[number])
    assert {path: path.stat().st_mtime_ns for path in (folder / "shards").iterdir()} == shards


@pytest.mark.parametrize("keep", KEEPS)
def test_nothing_is_written_again_from_the_same_shards(keep: Keep, folder: Path) -> None:
    first = make(folder, keep)
    times = {path: path.stat().st_mtime_ns for path in (folder / "corpus").glob("*.parquet")}
    assert make(folder, keep) == first
    assert {path: path.stat().st_mtime_ns for path in (folder / "corpus").glob("*.parquet")} == times


def test_other_shards_of_the_same_names_and_sizes_are_noticed(folder: Path) -> None:
    make(folder, Keep())
    path = folder / "shards" / "dump-00002.parquet"
    table, size = pq.read_table(path), path.stat().st_size
    other = table.set_column(2, "text", pa.array(["Kun om noget, som alle andre har"]))
    write_table(path, other, {b"cr5": b"{}"})
    assert abs(path.stat().st_size - size) < 20  # as good as the same
    make(folder, Keep())
    assert kept(folder)[-1] == ("Q6", "Kun om noget, som alle andre har")


def test_what_repeats_a_text_depends_on_the_shards_before_it(folder: Path) -> None:
    shards = tuple(map(str, sorted((folder / "shards").iterdir())))
    make(folder, Keep(unlike=True), shards)
    shutil.copy2(shards[2], shards[0])  # the first Q1 is gone
    make(folder, Keep(unlike=True), shards)
    assert ("Q4", LONG) in kept(folder)


def test_shared_items_are_those_of_two_languages(folder: Path) -> None:
    paths = sorted((folder / "shards").iterdir())
    assert shared_items({"da": paths, "en": paths[1:2], "it": []}).tolist() == [1, 4, 5]
    assert shared_items({"da": paths[:2], "en": paths[2:]}).tolist() == []
    assert shared_items({"da": []}).tolist() == []


def test_a_damaged_shard_is_named(folder: Path) -> None:
    path = folder / "shards" / "dump-00001.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    message = f"{path}: damaged; delete it and run the same command again"
    with pytest.raises(CorpusError) as caught:
        shared_items({"da": [path]})
    assert str(caught.value) == message
    with pytest.raises(CorpusError) as caught:
        make(folder, Keep())
    assert str(caught.value) == message


def test_a_run_that_another_has_taken_over_writes_nothing_more(folder: Path) -> None:
    output = folder / "corpus"
    output.mkdir()
    begin(output, "wikipedia", "another")
    shards = tuple(map(str, sorted((folder / "shards").iterdir())))
    edition = Edition("da", shards, str(output), Keep(), None, RUN)
    with pytest.raises(Cr5Error) as caught:
        publish(edition)
    assert str(caught.value) == f"{output}: another run has taken over"
    finish(output, {}, {})
    with pytest.raises(Cr5Error, match="another run has taken over"):
        publish(edition)
    assert [path.name for path in output.iterdir()] == ["manifest.json"]


# Files of others


def test_files_of_others_stay(folder: Path) -> None:
    make(folder, Keep())
    output = folder / "corpus"
    table = pq.read_table(output / "da-00000.parquet").replace_schema_metadata(None)
    pq.write_table(table, output / "it-00000.parquet")
    (output / "x-00000.parquet").write_bytes(b"no Parquet")
    shutil.copy(output / "da-00000.parquet", output / "copy.parquet")
    shutil.copy(output / "da-00000.parquet", output / "en-00000.parquet")  # ours, of a language no longer wanted
    make(folder, Keep())
    assert sorted(path.name for path in output.glob("*.parquet")) == [
        "copy.parquet", "da-00000.parquet", "da-00001.parquet", "da-00002.parquet", "it-00000.parquet",
        "x-00000.parquet",
    ]  # fmt: skip


@pytest.mark.parametrize("content", ['{"name": "mine"}', "[]", "{"])
def test_a_manifest_of_somebody_else_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(Cr5Error) as caught:
        check_folder(tmp_path, "wikipedia", ["da"], begun=False)
    path = tmp_path / "manifest.json"
    assert str(caught.value) == f"{path}: not of a corpus of this command; name another folder"
    check_folder(tmp_path, "wikipedia", ["da"], begun=True)  # then it was ours, and is damaged
    path.write_text(json.dumps({"source": "wikipedia"}))
    check_folder(tmp_path, "wikipedia", ["da"], begun=False)


def test_a_file_of_somebody_else_where_ours_is_to_be_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "da-00007.parquet"
    path.write_bytes(b"mine")
    with pytest.raises(Cr5Error) as caught:
        check_folder(tmp_path, "wikipedia", ["da"], begun=False)
    assert str(caught.value) == (
        f"{path}: damaged, or not written by this command; move it away, or name another folder"
    )
    check_folder(tmp_path, "wikipedia", ["en"], begun=False)


def test_a_folder_that_is_new_or_empty_is_taken(tmp_path: Path) -> None:
    check_folder(tmp_path, "wikipedia", ["da"], begun=False)
    check_folder(tmp_path / "new", "wikipedia", ["da"], begun=False)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        (".da-00001.parquet.0123abcd.tmp", True),
        (".zh-Hant-00001.parquet.0123abcd.tmp", True),
        (".manifest.json.0123abcd.tmp", True),
        (".da-00001.parquet.0123abcg.tmp", False),
        (".mine.parquet.0123abcd.tmp", False),
        ("da-00001.parquet.0123abcd.tmp", False),
        (".0123abcd.tmp", False),
    ],
)
def test_a_temporary_file_of_ours_is_told_by_its_name(name: str, ours: bool) -> None:
    assert is_temporary(name) is ours
