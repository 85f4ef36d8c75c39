"""Building a Wikipedia corpus is resumed, by runs that failed or have other settings."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow.parquet as pq
import pytest
from mirror import Mirror
from small_wikipedia import CONCEPTS, DATE, EVERYTHING, LANGS, SHARED, InlineExecutor, documents, make, shard_times

from cr5 import read
from cr5.errors import CorpusError, Cr5Error
from cr5.sources.http import client
from cr5.sources.wikipedia import shards, work_files

pytestmark = pytest.mark.slow  # every test builds a corpus


@pytest.fixture(autouse=True)
def short_retry_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_RETRY_SECONDS", 0.01)


def test_a_second_run_downloads_and_writes_nothing(xml_mirror: Mirror, tmp_path: Path) -> None:
    make(xml_mirror, tmp_path / "corpus")
    before, requests_before = shard_times(tmp_path / "corpus"), len(xml_mirror.requests)
    make(xml_mirror, tmp_path / "corpus")
    assert shard_times(tmp_path / "corpus") == before
    assert len(xml_mirror.requests) == requests_before


def test_dumps_may_be_deleted_after_their_extraction(xml_mirror: Mirror, tmp_path: Path) -> None:
    make(xml_mirror, tmp_path / "corpus")
    for lang in LANGS:
        shutil.rmtree(tmp_path / "corpus" / ".work" / lang / "dumps")
    requests_before = len(xml_mirror.requests)
    make(xml_mirror, tmp_path / "corpus", concepts="shared")
    assert documents(tmp_path / "corpus") == SHARED
    assert len(xml_mirror.requests) == requests_before


@pytest.mark.parametrize("tasks", range(9))  # an item table, a file and a publication for every language
def test_whichever_task_fails_the_next_run_resumes_there(tasks: int, xml_mirror: Mirror, tmp_path: Path) -> None:
    output = tmp_path / "corpus"
    tasks_left = [tasks]

    def fail(argument: Any) -> None:
        if tasks_left[0] == 0:
            raise Cr5Error("power failure")
        tasks_left[0] -= 1

    with pytest.raises(Cr5Error, match="power failure"):
        make(xml_mirror, output, executor=InlineExecutor(fail))
    with pytest.raises(CorpusError):
        list(read(output))
    before = shard_times(output)
    make(xml_mirror, output)
    assert documents(output) == EVERYTHING
    assert before.items() <= shard_times(output).items()


def test_a_task_resumes_after_its_last_shard(
    xml_mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, write, written = tmp_path / "corpus", work_files.write_table, [0]

    def fail(path: Path, table: Any, metadata: Any) -> None:
        if written[0] == 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        written[0] += 1
        write(path, table, metadata)

    monkeypatch.setattr(shards, "SHARD_TEXT_BYTES", 4000)
    monkeypatch.setattr(shards, "write_table", fail)
    with pytest.raises(Cr5Error, match="no space left on device"):
        make(xml_mirror, output, langs=("da",))
    before = shard_times(output)
    assert len(before) == 4
    monkeypatch.setattr(shards, "write_table", write)
    built = make(xml_mirror, output, langs=("da",))
    assert before.items() <= shard_times(output).items()
    assert documents(output) == {document for document in EVERYTHING if document[1] == "da"}
    assert built.languages["da"].extracted.page_counts["pages"] == CONCEPTS + 5


def test_a_full_disk_is_reported_and_leaves_no_half_written_file(
    xml_mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(table: Any, file: BinaryIO, **options: Any) -> None:
        file.write(b"PAR1")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write = pq.write_table
    monkeypatch.setattr(pq, "write_table", full)
    folder = tmp_path / "corpus" / ".work" / "da" / "extracted"
    shard = folder.resolve() / f"dawiki-{DATE}-pages-articles-multistream.xml.bz2.0000000000000-00000.parquet"
    with pytest.raises(Cr5Error, match=f"{shard}: no space left on device"):
        make(xml_mirror, tmp_path / "corpus", langs=("da",))
    assert not [path for path in folder.iterdir() if path.suffix in (".tmp", ".parquet")]
    monkeypatch.setattr(pq, "write_table", write)
    make(xml_mirror, tmp_path / "corpus", langs=("da",))
    assert len(documents(tmp_path / "corpus")) == CONCEPTS + 1


def test_a_language_can_be_added_later(xml_mirror: Mirror, tmp_path: Path) -> None:
    make(xml_mirror, tmp_path / "corpus", langs=("da",))
    requests_before = len(xml_mirror.requests_for("/dawiki/"))
    make(xml_mirror, tmp_path / "corpus", concepts="shared")
    assert documents(tmp_path / "corpus") == SHARED
    assert len(xml_mirror.requests_for("/dawiki/")) == requests_before


def test_a_removed_language_leaves_the_corpus_but_not_the_work_folder(xml_mirror: Mirror, tmp_path: Path) -> None:
    output = tmp_path / "corpus"
    make(xml_mirror, output)
    (output / "mine.parquet").write_bytes((output / "it-00000.parquet").read_bytes())
    table = pq.read_table(output / "mine.parquet").replace_schema_metadata(None)
    pq.write_table(table, output / "mine.parquet")
    make(xml_mirror, output, langs=("da", "en"))
    assert sorted(path.name for path in output.glob("*.parquet")) == [
        "da-00000.parquet", "en-00000.parquet", "mine.parquet",
    ]  # fmt: skip
    assert (output / ".work" / "it" / "extracted").exists()


def test_an_incomplete_corpus_is_not_read(xml_mirror: Mirror, tmp_path: Path) -> None:
    output = tmp_path / "corpus"

    def fail(argument: Any) -> None:
        if type(argument).__name__ == "PublishingTask" and argument.lang == "it":
            raise Cr5Error("enough")

    with pytest.raises(Cr5Error, match="enough"):
        make(xml_mirror, output, executor=InlineExecutor(fail))
    with pytest.raises(CorpusError, match=f"{output}: this corpus is (not complete|incomplete)"):
        list(read(output))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": "cirrus"}, "begun with `source=xml`, not `source=cirrus`"),
        ({"sample": 5}, "begun with no `sample`, not `sample=5`"),
        ({"ids": "sitelinks"}, "begun with `ids=props`, not `ids=sitelinks`"),
        ({"date": "20261001"}, "begun with the dump of 20261101 for da, not with `date=20261001`"),
    ],
)
def test_a_run_is_resumed_only_with_the_same_settings(
    change: dict[str, Any], message: str, xml_mirror: Mirror, tmp_path: Path
) -> None:
    make(xml_mirror, tmp_path / "corpus", langs=("da",))
    with pytest.raises(Cr5Error, match=f"{tmp_path / 'corpus'}: this corpus was {message}"):
        make(xml_mirror, tmp_path / "corpus", **({"langs": ("da",)} | change))


def test_two_runs_cannot_write_the_same_corpus_at_once(xml_mirror: Mirror, tmp_path: Path) -> None:
    messages: list[str] = []

    def run_again(argument: Any) -> None:
        if not messages:
            messages.append("")
            with pytest.raises(Cr5Error) as caught:
                make(xml_mirror, tmp_path / "corpus")
            messages.append(str(caught.value))

    make(xml_mirror, tmp_path / "corpus", executor=InlineExecutor(run_again))
    assert messages[1].startswith(f"{tmp_path / 'corpus'}: another run is writing this corpus")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"langs": ()}, "no language .* `langs`"),
        ({"langs": ("da", "en", "da")}, "language da occurs twice in `langs`"),
        ({"langs": ("da",), "concepts": "shared"}, '`concepts="shared"` needs at least two languages'),
        ({"sample": 3, "ids": "sitelinks"}, '`ids="sitelinks"` .* `sample`'),
    ],
)
def test_contradictory_requests_are_refused_before_anything_happens(
    arguments: dict[str, Any], message: str, mirror: Mirror, tmp_path: Path
) -> None:
    with pytest.raises(Cr5Error, match=message):
        make(mirror, tmp_path / "corpus", **arguments)
    assert not (tmp_path / "corpus").exists()
    assert not mirror.requests


def test_half_written_files_of_a_killed_run_are_removed(xml_mirror: Mirror, tmp_path: Path) -> None:
    output = tmp_path / "corpus"
    extracted = output / ".work" / "da" / "extracted"
    extracted.mkdir(parents=True)
    half_written = [output / ".da-00000.parquet.0123abcd.tmp", extracted / ".x-00000.parquet.0123abcd.tmp"]
    mine = output / ".mine.tmp"
    for path in [*half_written, mine]:
        path.write_bytes(b"PAR1")
    make(xml_mirror, output)
    assert not any(path.exists() for path in half_written)
    assert mine.exists()


def test_a_damaged_plan_affects_only_its_wiki(xml_mirror: Mirror, tmp_path: Path) -> None:
    work = tmp_path / "corpus" / ".work"
    make(xml_mirror, tmp_path / "corpus")
    (work / "da" / "plan.json").write_text('{"source": "xm')
    with pytest.raises(Cr5Error, match=f"{work / 'da' / 'plan.json'}: damaged; delete {work / 'da'} and"):
        make(xml_mirror, tmp_path / "corpus")
    shutil.rmtree(work / "da")
    requests_before = len(xml_mirror.requests_for("/itwiki/"))
    make(xml_mirror, tmp_path / "corpus")
    assert documents(tmp_path / "corpus") == EVERYTHING
    assert len(xml_mirror.requests_for("/itwiki/")) == requests_before


def test_an_output_that_is_a_file_is_refused(mirror: Mirror, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(Cr5Error, match=f"{tmp_path / 'file'}: cannot be written, not a directory"):
        make(mirror, tmp_path / "file")
    assert not mirror.requests


def test_files_of_other_origin_stay_and_are_noted(xml_mirror: Mirror, tmp_path: Path) -> None:
    mine = tmp_path / "mine.jsonl"
    mine.write_text('{"concept": "a", "lang": "da", "text": "b"}\n')
    built = make(xml_mirror, tmp_path)
    assert built.notes == [f"{mine} was there before and is read as part of the corpus {tmp_path}"]
    assert mine.exists()
    assert documents(tmp_path) == EVERYTHING | {("a", "da", "b")}


def test_a_file_of_other_origin_in_the_place_of_ours_is_refused_before_anything_happens(
    mirror: Mirror, tmp_path: Path
) -> None:
    (tmp_path / "da-00000.parquet").write_bytes(b"mine")
    with pytest.raises(Cr5Error, match="not written by cr5"):
        make(mirror, tmp_path)
    assert not mirror.requests
    assert [path.name for path in tmp_path.iterdir()] == ["da-00000.parquet"]
