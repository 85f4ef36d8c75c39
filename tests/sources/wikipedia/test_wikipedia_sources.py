"""Building a Wikipedia corpus from faulty servers, samples, local dumps, and by other executors."""

import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import dumps
import numpy as np
import pytest
import search_dumps
from local_server import Fault
from mirror import Mirror, publish_search_index, publish_xml
from small_wikipedia import (
    ARTICLES,
    CONCEPTS,
    DATE,
    EVERYTHING,
    LANGS,
    USER_AGENT,
    documents,
    make,
    pages,
    props_gz,
    search_pages,
    shard_times,
)

from cr5.errors import CorpusError, Cr5Error
from cr5.sources.http import client
from cr5.sources.wikipedia import sample, shards
from cr5.sources.wikipedia.dump_reader import DumpFormat
from cr5.sources.wikipedia.executor import open_executor
from cr5.sources.wikipedia.wiki import Wiki

pytestmark = pytest.mark.slow  # every test builds a corpus


@pytest.fixture(autouse=True)
def short_retry_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_RETRY_SECONDS", 0.01)


# Nothing to publish


def test_a_wiki_without_articles_is_an_error_and_does_not_affect_others(xml_mirror: Mirror, tmp_path: Path) -> None:
    content = dumps.multistream(pages("it"), "it", per_stream=5)
    table = gzip.compress(dumps.page_props_sql([], "itwiki"))
    publish_xml(xml_mirror, "itwiki", DATE, {"pages-articles-multistream.xml.bz2": content}, table)
    reasons = rf"\(1 redirects, {CONCEPTS + 3} without a Wikidata item, 1 other namespaces\)"
    with pytest.raises(Cr5Error, match=f"it: none of its {CONCEPTS + 5} pages is an article {reasons}"):
        make(xml_mirror, tmp_path / "corpus")
    make(xml_mirror, tmp_path / "corpus", langs=("da", "en"))
    assert documents(tmp_path / "corpus") == {document for document in EVERYTHING if document[1] != "it"}


def test_a_corpus_without_shared_concepts_is_an_error(xml_mirror: Mirror, tmp_path: Path) -> None:
    with pytest.raises(Cr5Error, match="no concept is shared by any two of da, en, it; increase `sample`"):
        make(xml_mirror, tmp_path / "corpus", sample=1, concepts="shared")


# The network


def address(lang: str, name: str) -> str:
    return f"/{lang}wiki/{DATE}/{lang}wiki-{DATE}-{name}"


def test_a_bad_connection_does_not_change_the_corpus(xml_mirror: Mirror, tmp_path: Path) -> None:
    dump = "pages-articles-multistream.xml.bz2"
    xml_mirror.fail(f"/dawiki/{DATE}/dumpstatus.json", Fault(status=503), Fault(drop=10))
    xml_mirror.fail(address("da", "page_props.sql.gz"), Fault(status=429, headers={"Retry-After": "0"}))
    xml_mirror.fail(address("da", dump), Fault(drop=900), Fault(status=503), Fault(drop=100))
    xml_mirror.fail(address("en", dump), Fault(drop=1000), Fault(ranges=False))
    xml_mirror.fail(address("it", dump), Fault(body=b"x" * len(xml_mirror.files[address("it", dump)])))
    built = make(xml_mirror, tmp_path / "corpus")
    assert documents(tmp_path / "corpus") == EVERYTHING
    assert any("its sha1 was wrong: restarted" in note for note in built.notes)
    assert any("the server ignores ranges: restarted" in note for note in built.notes)
    assert len(xml_mirror.requests_for(address("da", dump))) == 4
    assert xml_mirror.requests_for(address("da", dump))[1].headers["range"] == "bytes=900-"


def test_a_file_with_a_wrong_checksum_is_not_extracted(xml_mirror: Mirror, tmp_path: Path) -> None:
    path = address("it", "pages-articles-multistream.xml.bz2")
    right = xml_mirror.files[path]
    wrong = Fault(body=b"x" * len(right))
    xml_mirror.fail(path, wrong, wrong)
    with pytest.raises(Cr5Error, match=r"its sha1 is .* nothing is kept"):
        make(xml_mirror, tmp_path / "corpus")
    assert not (tmp_path / "corpus" / "manifest.json").exists()
    make(xml_mirror, tmp_path / "corpus")
    assert documents(tmp_path / "corpus") == EVERYTHING


def test_requests_name_the_contact_and_use_at_most_two_connections(xml_mirror: Mirror, tmp_path: Path) -> None:
    make(xml_mirror, tmp_path / "corpus")
    assert xml_mirror.user_agents == {USER_AGENT}
    assert xml_mirror.most_open <= 2


def test_a_dump_that_is_damaged_on_the_server_is_reported(mirror: Mirror, tmp_path: Path) -> None:
    content = dumps.multistream(pages("da"), "da", per_stream=5)
    publish_xml(mirror, "dawiki", DATE, {"pages-articles-multistream.xml.bz2": content}, props_gz("da")[:-9])
    with pytest.raises(CorpusError, match=r"page_props\.sql\.gz: truncated"):
        make(mirror, tmp_path / "corpus", langs=("da",))


def cut_off(*arguments: Any) -> None:
    raise Cr5Error("enough")


def test_a_dump_that_is_replaced_between_two_runs_is_not_mixed_with_the_old_one(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, wiki = tmp_path / "corpus", Wiki("da", "da")
    publish_xml(mirror, wiki.name, DATE, {}, props_gz("da"))
    publish_search_index(mirror, wiki.name, DATE, [bz2.compress(search_dumps.bulk(search_pages("da"), wiki))])
    with monkeypatch.context() as patch:
        patch.setattr(shards, "SHARD_TEXT_BYTES", 4000)
        patch.setattr(shards, "write_json", lambda path, values: cut_off() if "record" in values else None)
        with pytest.raises(Cr5Error, match="enough"):  # all shards are written, but not the record of the task
            make(mirror, output, source="cirrus", langs=("da",))
    assert len(shard_times(output)) > 2
    (path,) = (path for path in mirror.files if path.endswith(".json.bz2"))
    replaced = bz2.compress(search_dumps.bulk(search_pages("da")[::-1], wiki))
    (output / ".work" / "da" / "dumps" / Path(path).name).write_bytes(replaced)  # as if it had been fetched again
    plan = output / ".work" / "da" / "plan.json"
    about = json.loads(plan.read_text())
    sizes = f"{Path(path).name}: has {len(replaced):,} bytes, not {about['files'][0][2]:,}"
    with pytest.raises(Cr5Error, match=f"{sizes} .* delete {output / '.work' / 'da'} and"):
        make(mirror, output, source="cirrus", langs=("da",))
    about["files"][0][2] = len(replaced)  # as if the old file had the same size
    plan.write_text(json.dumps(about))
    built = make(mirror, output, source="cirrus", langs=("da",))
    assert documents(output) == {document for document in EVERYTHING if document[1] == "da"}
    assert built.languages["da"].documents == CONCEPTS + 1


@pytest.mark.parametrize("source", ["xml", "cirrus"])
def test_half_a_dump_is_an_error(source: DumpFormat, mirror: Mirror, tmp_path: Path) -> None:
    content = dumps.multistream(pages("da"), "da", per_stream=5)
    name = f"dawiki-{DATE}-pages-articles-multistream.xml.bz2"
    if source == "cirrus":
        content, name = bz2.compress(search_dumps.bulk(search_pages("da"))), f"dawiki_content-{DATE}-00000.json.bz2"
    (tmp_path / name).write_bytes(content[: len(content) // 2])
    (tmp_path / f"dawiki-{DATE}-page_props.sql.gz").write_bytes(props_gz("da"))
    with pytest.raises(CorpusError, match=rf"{name}: .*truncated"):
        make(mirror, tmp_path / "corpus", source=source, langs=("da",), dumps=tmp_path)
    (tmp_path / name).write_bytes(content)
    built = make(mirror, tmp_path / "corpus", source=source, langs=("da",), dumps=tmp_path)
    assert built.languages["da"].documents == CONCEPTS + 1


def test_damage_within_a_dump_is_counted_and_the_rest_is_kept(mirror: Mirror, tmp_path: Path) -> None:
    parts = [bz2.compress(part) for part in dumps.streams(pages("da"), "da", per_stream=5)]
    middle = bytearray(parts[3])
    middle[len(middle) // 2] ^= 255
    content = b"".join([*parts[:3], bytes(middle), *parts[4:]])
    publish_xml(mirror, "dawiki", DATE, {"pages-articles-multistream.xml.bz2": content}, props_gz("da"))
    built = make(mirror, tmp_path / "corpus", langs=("da",))
    assert built.languages["da"].documents == CONCEPTS + 1 - 5
    assert sum(built.languages["da"].extracted.faults.counts.values()) == 1


# Samples


@pytest.mark.parametrize("sample_bytes", [500, 1 << 22])
def test_a_sample_has_the_first_articles_of_each_wiki(
    sample_bytes: int, xml_mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample, "SAMPLE_BYTES", sample_bytes)
    make(xml_mirror, tmp_path / "corpus", sample=7)
    assert documents(tmp_path / "corpus") == {(a.concept, a.lang, a.text) for lang in LANGS for a in ARTICLES[lang][:7]}


def test_a_sample_downloads_only_the_beginning_of_a_file(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample, "SAMPLE_BYTES", 20_000)
    rng = np.random.default_rng(0)
    noise = [dumps.Page(10_000 + i, f"Støj {i}", rng.bytes(30_000).hex()) for i in range(60)]
    content = dumps.multistream([*pages("da"), *noise], "da", per_stream=5)
    publish_xml(mirror, "dawiki", DATE, {"pages-articles-multistream.xml.bz2": content}, props_gz("da"))
    make(mirror, tmp_path / "corpus", langs=("da",), sample=5)
    part = tmp_path / "corpus" / ".work" / "da" / "dumps" / f"dawiki-{DATE}-pages-articles-multistream.xml.bz2.part"
    assert part.stat().st_size < len(content) / 2
    assert len(documents(tmp_path / "corpus")) == 5


def test_a_sample_larger_than_the_wiki_has_all_articles(
    xml_mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample, "SAMPLE_BYTES", 500)
    make(xml_mirror, tmp_path / "corpus", sample=5000)
    assert documents(tmp_path / "corpus") == EVERYTHING


def test_a_finished_sample_is_not_downloaded_again(xml_mirror: Mirror, tmp_path: Path) -> None:
    make(xml_mirror, tmp_path / "corpus", sample=7)
    requests_before = len(xml_mirror.requests)
    make(xml_mirror, tmp_path / "corpus", sample=7, concepts="shared")
    assert len(xml_mirror.requests) == requests_before
    assert len(documents(tmp_path / "corpus")) == 18


# Local dumps, and other executors


def test_local_dumps_are_used_without_a_request(mirror: Mirror, tmp_path: Path) -> None:
    folder = tmp_path / "downloads" / "deep"
    folder.mkdir(parents=True)
    for lang in LANGS:
        content = dumps.multistream(pages(lang), lang, per_stream=5)
        (folder / f"{lang}wiki-{DATE}-pages-articles-multistream.xml.bz2").write_bytes(content)
        (folder / f"{lang}wiki-{DATE}-page_props.sql.gz").write_bytes(props_gz(lang))
    make(mirror, tmp_path / "corpus", dumps=tmp_path / "downloads")
    assert documents(tmp_path / "corpus") == EVERYTHING
    assert not mirror.requests


def test_the_date_selects_among_local_dumps(mirror: Mirror, tmp_path: Path) -> None:
    for date, some in {"20261001": pages("da")[:10], DATE: pages("da")}.items():
        content = dumps.multistream(some, "da", per_stream=5)
        (tmp_path / f"dawiki-{date}-pages-articles-multistream.xml.bz2").write_bytes(content)
    (tmp_path / f"dawiki-{DATE}-page_props.sql.gz").write_bytes(props_gz("da"))
    built = make(mirror, tmp_path / "corpus", langs=("da",), dumps=tmp_path, date="20261001")
    assert (built.languages["da"].dump.date, built.languages["da"].documents) == ("20261001", 6)
    with pytest.raises(Cr5Error, match=f"{tmp_path}: contains no xml dump of dawiki of 20200101"):
        make(mirror, tmp_path / "other", langs=("da",), dumps=tmp_path, date="20200101")


@pytest.mark.parametrize(
    ("source", "names", "place"),
    [
        ("cirrus", ["dawiki_content-{}-00000.json.bz2", "dawiki_content-{}-00002.json.bz2"], "before"),
        ("cirrus", ["dawiki_content-{}-00001.json.bz2"], "before"),
        ("xml", ["dawiki-{}-pages-articles-multistream2.xml-p91p999.bz2"], "before"),
        (
            "xml",
            [
                "dawiki-{}-pages-articles-multistream1.xml-p1p90.bz2",
                "dawiki-{}-pages-articles-multistream3.xml-p200p300.bz2",
            ],
            "before",
        ),
        ("parquet", ["{}.da/train-00000-of-00002.parquet"], "after"),
    ],
)
def test_local_dumps_with_a_missing_part_are_refused(
    source: DumpFormat, names: list[str], place: str, mirror: Mirror, tmp_path: Path
) -> None:
    paths = [tmp_path / name.format(DATE) for name in names]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    with pytest.raises(Cr5Error, match=f"{paths[-1]}: the part of the dump {place} this one is missing"):
        make(mirror, tmp_path / "corpus", source=source, langs=("da",), dumps=tmp_path)


def test_local_dumps_that_exist_twice_are_refused(mirror: Mirror, tmp_path: Path) -> None:
    paths = [tmp_path / folder / f"dawiki_content-{DATE}-00000.json.bz2" for folder in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        path.touch()
    with pytest.raises(Cr5Error, match=f"{paths[1]}: there is also {paths[0]}"):
        make(mirror, tmp_path / "corpus", source="cirrus", langs=("da",), dumps=tmp_path)


def test_a_local_dump_that_is_also_unpacked_is_read_once(mirror: Mirror, tmp_path: Path) -> None:
    content = dumps.pages_xml(pages("da"), "da")
    (tmp_path / f"dawiki-{DATE}-pages-articles.xml").write_bytes(content)
    (tmp_path / f"dawiki-{DATE}-pages-articles.xml.bz2").write_bytes(bz2.compress(content))
    (tmp_path / f"dawiki-{DATE}-page_props.sql.gz").write_bytes(props_gz("da"))
    built = make(mirror, tmp_path / "corpus", langs=("da",), dumps=tmp_path)
    assert built.languages["da"].documents == CONCEPTS + 1


@pytest.mark.slow
def test_worker_processes_give_the_same_corpus(xml_mirror: Mirror, tmp_path: Path) -> None:
    with open_executor(workers=2) as executor:
        make(xml_mirror, tmp_path / "corpus", executor=executor)
    assert documents(tmp_path / "corpus") == EVERYTHING


@pytest.mark.dask
def test_a_dask_cluster_gives_the_same_corpus(xml_mirror: Mirror, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=50
        ) as cluster,
        open_executor(scheduler=cluster.scheduler_address) as executor,
    ):
        make(xml_mirror, tmp_path / "corpus", executor=executor)
    assert documents(tmp_path / "corpus") == EVERYTHING
