"""Building a corpus from a local mirror, from the listing to the manifest, and everything that may go wrong."""

import bz2
import errno
import gzip
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, BinaryIO

import dumps
import numpy as np
import pyarrow.parquet as pq
import pytest
import search_dumps
from local_server import Fault
from mirror import Mirror, publish_cirrus, publish_parquet, publish_sitelinks, publish_xml

from cr5 import Document, demo, read
from cr5.errors import CorpusError, Cr5Error
from cr5.sources.http import client
from cr5.sources.wikipedia import sample, shards, work_files
from cr5.sources.wikipedia.build import WikipediaCorpus, build
from cr5.sources.wikipedia.dump_reader import DISAMBIGUATION, NAMESPACE, NO_ITEM, REDIRECT, DumpFormat
from cr5.sources.wikipedia.executor import open_executor
from cr5.sources.wikipedia.plan import WikipediaRequest
from cr5.sources.wikipedia.wiki import Wiki

pytestmark = pytest.mark.slow  # every test builds a corpus

DATE = "20261101"
LANGS = ("da", "en", "it")
CONCEPTS = 30
USER_AGENT = "cr5/test (https://example.org)"


class InlineExecutor(Executor):
    """Runs every task at once; ``fail`` is called before it with its first argument and may raise."""

    def __init__(self, fail: Callable[[Any], None] = lambda argument: None) -> None:
        self.fail, self.done = fail, 0

    def submit(self, function: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            self.fail(arguments[0])
            future.set_result(function(*arguments, **options))
            self.done += 1
        except BaseException as error:
            future.set_exception(error)
        return future


def articles() -> dict[str, list[Document]]:
    """Some articles of every language; the first one of each has a concept that no other language has."""
    everything = demo.encyclopedia()
    concepts = sorted({document.concept for document in everything})
    found = {}
    for i, lang in enumerate(LANGS):
        chosen = [concepts[CONCEPTS + i], *concepts[:CONCEPTS]]
        by_concept = {document.concept: document for document in everything if document.lang == lang}
        numbers = {concept: concepts.index(concept) + 1 for concept in chosen}
        found[lang] = [Document(f"Q{numbers[c]}", lang, by_concept[c].text, by_concept[c].title, "") for c in chosen]
    return found


ARTICLES = articles()


def pages(lang: str) -> list[dumps.Page]:
    """The articles as pages, and some pages that are not articles."""
    written = [dumps.Page(10 * i + 10, a.title, a.text) for i, a in enumerate(ARTICLES[lang])]
    return [
        dumps.Page(1, "Forside", "#REDIRECT [[Hund]]", redirect="Hund"),
        dumps.Page(2, "Merkur", "Merkur kan være {{t}} [[en planet]].\n"),
        dumps.Page(3, "Ny", "Endnu uden emne på Wikidata."),
        dumps.Page(4, "Bruger:Nogen", "Hej.", namespace=2),
        *written,
    ]


def props(lang: str) -> list[tuple[int, str, str, float | None]]:
    rows: list[tuple[int, str, str, float | None]] = [
        (2, "disambiguation", "", None),
        (2, "wikibase_item", "Q900", None),
        (4, "wikibase_item", "Q901", None),
    ]
    return rows + [(10 * i + 10, "wikibase_item", a.concept, None) for i, a in enumerate(ARTICLES[lang])]


def props_gz(lang: str) -> bytes:
    return gzip.compress(dumps.page_props_sql(props(lang), f"{lang}wiki"))


def search_pages(lang: str) -> list[search_dumps.Page]:
    items = {page: value for page, name, value, _ in props(lang) if name == "wikibase_item"}
    return [search_dumps.Page(p.id, p.title, p.text, items.get(p.id), (), p.namespace) for p in pages(lang) if p.id > 1]


def publish(mirror: Mirror, layout: str, lang: str) -> None:
    """Publish one Wikipedia in one of its layouts."""
    wiki = Wiki(lang, lang)
    if layout == "xml":
        content = dumps.multistream(pages(lang), lang, per_stream=5)
        publish_xml(mirror, wiki.name, DATE, {"pages-articles-multistream.xml.bz2": content}, props_gz(lang))
        return
    if layout == "xml in parts":
        first, second = pages(lang)[:12], pages(lang)[12:]
        parts = {
            "pages-articles-multistream1.xml-p1p90.bz2": dumps.multistream(first, lang, per_stream=5),
            "pages-articles-multistream2.xml-p91p999.bz2": dumps.multistream(second, lang, per_stream=5),
        }
        publish_xml(mirror, wiki.name, DATE, parts, props_gz(lang))
        return
    publish_xml(mirror, wiki.name, DATE, {}, props_gz(lang))
    lines = search_dumps.bulk(search_pages(lang)[:20], wiki), search_dumps.bulk(search_pages(lang)[20:], wiki)
    if layout == "cirrus":
        publish_cirrus(mirror, wiki.name, DATE, [bz2.compress(part) for part in lines])
    elif layout == "classic":
        publish_cirrus(mirror, wiki.name, DATE, [gzip.compress(b"".join(lines))], layout="classic")
    else:
        with tempfile.TemporaryDirectory() as folder:
            paths = search_dumps.write_export(Path(folder), [p for p in search_pages(lang) if not p.namespace], wiki)
            publish_parquet(mirror, lang, DATE, [path.read_bytes() for path in paths])


@pytest.fixture(autouse=True)
def short_retry_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_RETRY_SECONDS", 0.01)


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    with Mirror() as server:
        yield server


@pytest.fixture
def xml_mirror(mirror: Mirror) -> Mirror:
    for lang in LANGS:
        publish(mirror, "xml", lang)
    return mirror


def make(
    mirror: Mirror,
    output: Path,
    *,
    executor: Executor | None = None,
    **more: Any,
) -> WikipediaCorpus:
    request = WikipediaRequest(**({"langs": LANGS, "source": "xml", "mirror": mirror.url, "hub": mirror.url} | more))
    return build(request, output, executor=executor or InlineExecutor(), user_agent=USER_AGENT)


def documents(output: Path) -> set[tuple[str, str, str]]:
    return {(document.concept, document.lang, document.text) for document in read(output)}


EVERYTHING = {(a.concept, a.lang, a.text) for lang in LANGS for a in ARTICLES[lang]}
SHARED = {(a.concept, a.lang, a.text) for lang in LANGS for a in ARTICLES[lang][1:]}


# From dumps to a corpus


@pytest.mark.parametrize(
    ("layout", "source"),
    [
        ("xml", "xml"),
        ("xml in parts", "xml"),
        ("cirrus", "cirrus"),
        ("classic", "cirrus"),
        ("parquet", "parquet"),
    ],
)
def test_all_formats_give_the_same_corpus(layout: str, source: DumpFormat, mirror: Mirror, tmp_path: Path) -> None:
    for lang in LANGS:
        publish(mirror, layout, lang)
    make(mirror, tmp_path / "corpus", source=source)
    assert documents(tmp_path / "corpus") == EVERYTHING


@pytest.mark.parametrize("source", ["xml", "parquet"])
def test_items_may_come_from_wikidatas_sitelinks(source: DumpFormat, mirror: Mirror, tmp_path: Path) -> None:
    rows = [(int(a.concept[1:]), f"{lang}wiki", a.title) for lang in LANGS for a in ARTICLES[lang]]
    publish_sitelinks(mirror, DATE, gzip.compress(dumps.items_per_site_sql(rows)))
    for lang in LANGS:
        publish(mirror, source, lang)
    make(mirror, tmp_path / "corpus", source=source, ids="sitelinks")
    assert documents(tmp_path / "corpus") == EVERYTHING
    assert len(mirror.requests_for("wb_items_per_site.sql.gz")) == 1  # one table for all wikis
    assert not mirror.requests_for("page_props.sql.gz")


def test_documents_have_titles_and_addresses(xml_mirror: Mirror, tmp_path: Path) -> None:
    make(xml_mirror, tmp_path / "corpus")
    titles = {(d.lang, d.title): d.url for d in read(tmp_path / "corpus")}
    assert len(titles) == len(EVERYTHING)
    assert titles["da", ARTICLES["da"][0].title].startswith("https://da.wikipedia.org/wiki/")


def test_the_manifest_says_what_the_corpus_was_made_from(xml_mirror: Mirror, tmp_path: Path) -> None:
    make(xml_mirror, tmp_path / "corpus", concepts="shared")
    about = json.loads((tmp_path / "corpus" / "manifest.json").read_text())
    danish = about["languages"]["da"]
    assert about["complete"] is True
    assert about["concepts"] == "shared"
    assert about["concepts_shared"] == CONCEPTS
    assert danish["dump"] == DATE
    assert danish["pages"] == CONCEPTS + 5
    assert danish["left_out"] == {NAMESPACE: 1, REDIRECT: 1, DISAMBIGUATION: 1, NO_ITEM: 1}
    assert (danish["articles"], danish["alone"], danish["documents"]) == (CONCEPTS + 1, 1, CONCEPTS)
    names = [file["name"] for file in danish["from"]]
    assert names == [f"dawiki-{DATE}-pages-articles-multistream.xml.bz2", f"dawiki-{DATE}-page_props.sql.gz"]
    assert all(file["digest"].startswith("sha1:") for file in danish["from"])
    assert about["files"] == {f"{lang}-00000.parquet": CONCEPTS for lang in LANGS}


def test_shared_concepts_are_those_of_at_least_two_languages(xml_mirror: Mirror, tmp_path: Path) -> None:
    built = make(xml_mirror, tmp_path / "corpus", concepts="shared")
    assert documents(tmp_path / "corpus") == SHARED
    assert built.shared_concepts == CONCEPTS


def test_texts_in_another_language_are_counted_and_can_be_dropped(mirror: Mirror, tmp_path: Path) -> None:
    for lang in LANGS:
        publish(mirror, "xml", lang)
    untranslated = dumps.Page(5000, "Glemt side", ARTICLES["en"][3].text)
    content = dumps.multistream([*pages("da"), untranslated], "da")
    table = gzip.compress(dumps.page_props_sql([*props("da"), (5000, "wikibase_item", "Q5000", None)]))
    publish_xml(mirror, "dawiki", DATE, {"pages-articles-multistream.xml.bz2": content}, table)
    kept = make(mirror, tmp_path / "kept")
    dropped = make(mirror, tmp_path / "dropped", drop_foreign=True)
    assert kept.languages["da"].published.foreign == {"en": 1}
    assert kept.languages["da"].documents == CONCEPTS + 2
    assert dropped.languages["da"].documents == CONCEPTS + 1


def test_near_duplicates_can_be_dropped(mirror: Mirror, tmp_path: Path) -> None:
    copy = dumps.Page(5000, "Kopi", ARTICLES["da"][3].text + " Og lidt til.")
    content = dumps.multistream([*pages("da"), copy], "da")
    table = gzip.compress(dumps.page_props_sql([*props("da"), (5000, "wikibase_item", "Q5000", None)]))
    publish_xml(mirror, "dawiki", DATE, {"pages-articles-multistream.xml.bz2": content}, table)
    built = make(mirror, tmp_path / "corpus", langs=("da",), dedupe=True)
    assert built.languages["da"].published.duplicates == 1
    assert built.languages["da"].documents == CONCEPTS + 1


# Resuming


def shard_times(output: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in sorted(output.rglob("*.parquet"))}


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
    with pytest.raises(OSError, match="No space left"):
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
    with pytest.raises(Cr5Error, match=f"{shard}: no space left on the disk"):
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
    with pytest.raises(Cr5Error, match="no concept is shared by any two of da, en, it; raise `sample`"):
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
    publish_cirrus(mirror, wiki.name, DATE, [bz2.compress(search_dumps.bulk(search_pages("da"), wiki))])
    with monkeypatch.context() as patch:
        patch.setattr(shards, "SHARD_TEXT_BYTES", 4000)
        patch.setattr(shards, "write_json", lambda path, values: cut_off() if "record" in values else None)
        with pytest.raises(Cr5Error, match="enough"):  # all shards are written, but not the record of the task
            make(mirror, output, source="cirrus", langs=("da",))
    assert len(shard_times(output)) > 2
    (path,) = (path for path in mirror.files if path.endswith(".json.bz2"))
    replaced = bz2.compress(search_dumps.bulk(search_pages("da")[::-1], wiki))
    mirror.files[path] = replaced
    plan = output / ".work" / "da" / "plan.json"
    about = json.loads(plan.read_text())
    about["files"][0][2] = len(replaced) + 1
    plan.write_text(json.dumps(about))
    sizes = f"{Path(path).name}: has {len(replaced):,} bytes, not {len(replaced) + 1:,}"
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
