"""Publishing: which articles are kept, and which files are written again."""

import shutil
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cr5.errors import CorpusError, Cr5Error
from cr5.sources.wikipedia.corpus_folder import begin_writing, finish_writing
from cr5.sources.wikipedia.plan import WikipediaRequest
from cr5.sources.wikipedia.publishing import (
    PublishedLanguage,
    PublishingTask,
    find_shared_items,
    publish,
)
from cr5.sources.wikipedia.shards import SHARD_SCHEMA
from cr5.sources.wikipedia.work_files import write_table

LONG = "En temmelig lang tekst om en by ved havet, med havn, kirke, torv og en bro, som alle kender og holder af. "
SHARDS = [
    [("Q1", LONG, ""), ("Q2", "Noget helt andet om fugle og fisk", ""), ("Q3", "An English text", "en")],
    [("Q4", LONG, ""), ("Q5", "Endnu en ganske kort tekst om biler", ""), ("Q1", "Igen om det samme emne", "")],
    [("Q6", "Kun om noget, som ingen andre har", "")],
]
SHARED = (1, 3, 4, 5)
RUN = "run"
EVERYTHING = WikipediaRequest(("da",))
DEDUPLICATED = WikipediaRequest(("da",), dedupe=True)


def write_shards(folder: Path) -> tuple[str, ...]:
    folder.mkdir(exist_ok=True)
    paths = []
    for number, rows in enumerate(SHARDS):
        paths.append(folder / f"dump-{number:05d}.parquet")
        columns = [[c for c, _, _ in rows], ["da"] * len(rows), [t for _, t, _ in rows]]
        columns += [[c for c, _, _ in rows], [""] * len(rows), [f for _, _, f in rows]]
        table = pa.Table.from_arrays([pa.array(column, pa.string()) for column in columns], schema=SHARD_SCHEMA)
        write_table(paths[-1], table, {b"cr5": b"{}"})
    return tuple(map(str, paths))


def make(folder: Path, wanted: WikipediaRequest, shards: tuple[str, ...] | None = None) -> PublishedLanguage:
    output, table = folder / "corpus", folder / "shared.npy"
    output.mkdir(exist_ok=True)
    np.save(table, np.array(SHARED))
    begin_writing(output, RUN)
    shards = shards or tuple(map(str, sorted((folder / "shards").iterdir())))
    shared_items = str(table) if wanted.concepts == "shared" else None
    published = publish(PublishingTask("da", shards, str(output), wanted, shared_items, RUN))
    finish_writing(output, {}, published.files)
    return published


def published_articles(folder: Path) -> list[tuple[str, str]]:
    articles: list[tuple[str, str]] = []
    for path in sorted((folder / "corpus").glob("*.parquet")):
        table = pq.read_table(path)
        articles += zip(table["concept"].to_pylist(), table["text"].to_pylist(), strict=True)
    return articles


def expected(wanted: WikipediaRequest) -> list[tuple[str, str]]:
    rows = [row for shard in SHARDS for row in shard]
    rows = [row for row in rows if wanted.concepts == "all" or int(row[0][1:]) in SHARED]
    rows = [row for row in rows if not wanted.drop_foreign or not row[2]]
    return [(c, t) for c, t, _ in rows if not (wanted.dedupe and (c, t) == ("Q4", LONG))]


CONCEPTS: list[Literal["all", "shared"]] = ["all", "shared"]
REQUESTS = [
    WikipediaRequest(("da",), concepts=concepts, drop_foreign=foreign, dedupe=dedupe)
    for concepts in CONCEPTS
    for foreign, dedupe in product((False, True), repeat=2)
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_shards(tmp_path / "shards")
    return tmp_path


def test_the_corpus_depends_on_the_current_filter_and_not_on_earlier_ones(folder: Path) -> None:
    shards = {path: path.stat().st_mtime_ns for path in (folder / "shards").iterdir()}
    for number in np.random.default_rng(0).integers(len(REQUESTS), size=30):
        make(folder, REQUESTS[number])
        assert published_articles(folder) == expected(REQUESTS[number])
    assert {path: path.stat().st_mtime_ns for path in (folder / "shards").iterdir()} == shards


@pytest.mark.parametrize("wanted", REQUESTS)
def test_nothing_is_written_again_from_the_same_shards(wanted: WikipediaRequest, folder: Path) -> None:
    first = make(folder, wanted)
    times = {path: path.stat().st_mtime_ns for path in (folder / "corpus").glob("*.parquet")}
    assert make(folder, wanted) == first
    assert {path: path.stat().st_mtime_ns for path in (folder / "corpus").glob("*.parquet")} == times


def test_changed_shards_of_the_same_names_and_sizes_are_noticed(folder: Path) -> None:
    make(folder, EVERYTHING)
    path = folder / "shards" / "dump-00002.parquet"
    table, size = pq.read_table(path), path.stat().st_size
    other = table.set_column(2, "text", pa.array(["Kun om noget, som alle andre har"]))
    write_table(path, other, {b"cr5": b"{}"})
    assert abs(path.stat().st_size - size) < 20  # nearly the same
    make(folder, EVERYTHING)
    assert published_articles(folder)[-1] == ("Q6", "Kun om noget, som alle andre har")


def test_duplicates_depend_on_the_shards_before(folder: Path) -> None:
    shards = tuple(map(str, sorted((folder / "shards").iterdir())))
    make(folder, DEDUPLICATED, shards)
    shutil.copy2(shards[2], shards[0])  # the article that Q4 repeats is gone
    make(folder, DEDUPLICATED, shards)
    assert ("Q4", LONG) in published_articles(folder)


def test_shared_items_are_those_of_at_least_two_languages(folder: Path) -> None:
    paths = sorted((folder / "shards").iterdir())
    assert find_shared_items({"da": paths, "en": paths[1:2], "it": []}).tolist() == [1, 4, 5]
    assert find_shared_items({"da": paths[:2], "en": paths[2:]}).tolist() == []
    assert find_shared_items({"da": []}).tolist() == []


def test_a_damaged_shard_is_named(folder: Path) -> None:
    path = folder / "shards" / "dump-00001.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorpusError, match=f"{path}: damaged; delete it"):
        find_shared_items({"da": [path]})
    with pytest.raises(CorpusError, match=f"{path}: damaged; delete it"):
        make(folder, EVERYTHING)


def test_a_run_that_another_has_taken_over_writes_nothing_more(folder: Path) -> None:
    output = folder / "corpus"
    output.mkdir()
    begin_writing(output, "another")
    shards = tuple(map(str, sorted((folder / "shards").iterdir())))
    task = PublishingTask("da", shards, str(output), EVERYTHING, None, RUN)
    with pytest.raises(Cr5Error, match=f"{output}: another run has taken over"):
        publish(task)
    finish_writing(output, {}, {})
    with pytest.raises(Cr5Error, match="another run has taken over"):
        publish(task)
    assert [path.name for path in output.iterdir()] == ["manifest.json"]


def test_files_of_other_origin_stay(folder: Path) -> None:
    make(folder, EVERYTHING)
    output = folder / "corpus"
    table = pq.read_table(output / "da-00000.parquet").replace_schema_metadata(None)
    pq.write_table(table, output / "it-00000.parquet")
    (output / "x-00000.parquet").write_bytes(b"not Parquet")
    shutil.copy(output / "da-00000.parquet", output / "copy.parquet")
    shutil.copy(output / "da-00000.parquet", output / "en-00000.parquet")  # ours, of a language that was removed
    make(folder, EVERYTHING)
    assert sorted(path.name for path in output.glob("*.parquet")) == [
        "copy.parquet", "da-00000.parquet", "da-00001.parquet", "da-00002.parquet", "it-00000.parquet",
        "x-00000.parquet",
    ]  # fmt: skip
