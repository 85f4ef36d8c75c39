"""Wikipedia from a mirror on this machine: the whole way, and everything that may happen on it."""

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
from mirror import Fault, Mirror, publish_cirrus, publish_parquet, publish_sitelinks, publish_xml

from cr5 import Document, demo, read
from cr5.errors import CorpusError, Cr5Error
from cr5.sources.wikipedia import shards
from cr5.sources.wikipedia.build import Built, build
from cr5.sources.wikipedia.executor import open_executor
from cr5.sources.wikipedia.plan import Request
from cr5.sources.wikipedia.publishing import Keep
from cr5.sources.wikipedia.shards import Job
from cr5.sources.wikipedia.wiki import DISAMBIGUATION, NAMESPACE, NO_ITEM, REDIRECT, Kind, Wiki

DATE = "20261101"
LANGS = ("da", "en", "it")
CONCEPTS = 30
AGENT = "cr5/test (https://example.org)"


class Inline(Executor):
    """Does at once what it is given; ``fail`` may refuse."""

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
    """Some articles of every language; the first of each language is about something that no other has."""
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
    """Articles as pages, and pages that are none."""
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


def publish(mirror: Mirror, kind: str, lang: str) -> None:
    """One Wikipedia in one of the forms in which it is published."""
    wiki = Wiki(lang, lang)
    if kind == "xml":
        content = dumps.multistream(pages(lang), lang, per_stream=5)
        publish_xml(mirror, wiki.name, DATE, {"pages-articles-multistream.xml.bz2": content}, props_gz(lang))
        return
    if kind == "xml in parts":
        first, second = pages(lang)[:12], pages(lang)[12:]
        parts = {
            "pages-articles-multistream1.xml-p1p90.bz2": dumps.multistream(first, lang, per_stream=5),
            "pages-articles-multistream2.xml-p91p999.bz2": dumps.multistream(second, lang, per_stream=5),
        }
        publish_xml(mirror, wiki.name, DATE, parts, props_gz(lang))
        return
    publish_xml(mirror, wiki.name, DATE, {}, props_gz(lang))
    lines = search_dumps.bulk(search_pages(lang)[:20], wiki), search_dumps.bulk(search_pages(lang)[20:], wiki)
    if kind == "cirrus":
        publish_cirrus(mirror, wiki.name, DATE, [bz2.compress(part) for part in lines])
    elif kind == "classic":
        publish_cirrus(mirror, wiki.name, DATE, [gzip.compress(b"".join(lines))], layout="classic")
    else:
        with tempfile.TemporaryDirectory() as folder:
            paths = search_dumps.write_export(Path(folder), [p for p in search_pages(lang) if not p.namespace], wiki)
            publish_parquet(mirror, lang, DATE, [path.read_bytes() for path in paths])


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
    kind: Kind = "xml",
    executor: Executor | None = None,
    head: int = 1 << 22,
    **more: Any,
) -> Built:
    request = Request(**({"codes": LANGS, "kind": kind, "mirror": mirror.url, "hub": mirror.url} | more))
    return build(request, output, executor=executor or Inline(), agent=AGENT, pause=0.01, head=head)


def found(output: Path) -> set[tuple[str, str, str]]:
    return {(document.concept, document.lang, document.text) for document in read(output)}


EVERYTHING = {(a.concept, a.lang, a.text) for lang in LANGS for a in ARTICLES[lang]}
SHARED = {(a.concept, a.lang, a.text) for lang in LANGS for a in ARTICLES[lang][1:]}


# The whole way


@pytest.mark.parametrize(
    ("published", "kind"),
    [
        ("xml", "xml"),
        ("xml in parts", "xml"),
        ("cirrus", "cirrus"),
        ("classic", "cirrus"),
        ("parquet", "parquet"),
    ],
)
def test_every_form_gives_the_same_corpus(published: str, kind: Kind, mirror: Mirror, tmp_path: Path) -> None:
    for lang in LANGS:
        publish(mirror, published, lang)
    make(mirror, tmp_path / "corpus", kind=kind)
    assert found(tmp_path / "corpus") == EVERYTHING


@pytest.mark.parametrize("kind", ["xml", "parquet"])
def test_items_may_come_from_wikidatas_sitelinks(kind: Kind, mirror: Mirror, tmp_path: Path) -> None:
    rows = [(int(a.concept[1:]), f"{lang}wiki", a.title) for lang in LANGS for a in ARTICLES[lang]]
    publish_sitelinks(mirror, DATE, gzip.compress(dumps.items_per_site_sql(rows)))
    for lang in LANGS:
        publish(mirror, kind, lang)
    make(mirror, tmp_path / "corpus", kind=kind, ids="sitelinks")
    assert found(tmp_path / "corpus") == EVERYTHING
    assert len(mirror.asked("wb_items_per_site.sql.gz")) == 1  # one table for all wikis
    assert not mirror.asked("page_props.sql.gz")


def test_documents_have_title_and_address(xml_mirror: Mirror, tmp_path: Path) -> None:
    make(xml_mirror, tmp_path / "corpus")
    titles = {(d.lang, d.title): d.url for d in read(tmp_path / "corpus")}
    assert len(titles) == len(EVERYTHING)
    assert titles["da", ARTICLES["da"][0].title].startswith("https://da.wikipedia.org/wiki/")


def test_the_manifest_says_what_was_made_from_what(xml_mirror: Mirror, tmp_path: Path) -> None:
    make(xml_mirror, tmp_path / "corpus", keep=Keep(shared=True))
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


def test_shared_concepts_are_those_of_two_languages_or_more(xml_mirror: Mirror, tmp_path: Path) -> None:
    built = make(xml_mirror, tmp_path / "corpus", keep=Keep(shared=True))
    assert found(tmp_path / "corpus") == SHARED
    assert built.shared == CONCEPTS


def test_texts_in_another_language_are_counted_and_dropped_when_asked(mirror: Mirror, tmp_path: Path) -> None:
    for lang in LANGS:
        publish(mirror, "xml", lang)
    untranslated = dumps.Page(5000, "Glemt side", ARTICLES["en"][3].text)
    content = dumps.multistream([*pages("da"), untranslated], "da")
    table = gzip.compress(dumps.page_props_sql([*props("da"), (5000, "wikibase_item", "Q5000", None)]))
    publish_xml(mirror, "dawiki", DATE, {"pages-articles-multistream.xml.bz2": content}, table)
    kept = make(mirror, tmp_path / "kept")
    dropped = make(mirror, tmp_path / "dropped", keep=Keep(own=True))
    assert kept.languages["da"].published.foreign == {"en": 1}
    assert kept.languages["da"].documents == CONCEPTS + 2
    assert dropped.languages["da"].documents == CONCEPTS + 1


def test_near_duplicates_are_dropped_when_asked(mirror: Mirror, tmp_path: Path) -> None:
    copy = dumps.Page(5000, "Kopi", ARTICLES["da"][3].text + " Og lidt til.")
    content = dumps.multistream([*pages("da"), copy], "da")
    table = gzip.compress(dumps.page_props_sql([*props("da"), (5000, "wikibase_item", "Q5000", None)]))
    publish_xml(mirror, "dawiki", DATE, {"pages-articles-multistream.xml.bz2": content}, table)
    built = make(mirror, tmp_path / "corpus", codes=("da",), keep=Keep(unlike=True))
    assert built.languages["da"].published.duplicates == 1
    assert built.languages["da"].documents == CONCEPTS + 1


# Going on


def shard_times(output: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in sorted(output.rglob("*.parquet"))}


def test_a_second_run_fetches_and_writes_nothing(xml_mirror: Mirror, tmp_path: Path) -> None:
    make(xml_mirror, tmp_path / "corpus")
    before, asked = shard_times(tmp_path / "corpus"), len(xml_mirror.requests)
    make(xml_mirror, tmp_path / "corpus")
    assert shard_times(tmp_path / "corpus") == before
    assert len(xml_mirror.requests) == asked


def test_dumps_may_be_deleted_when_they_are_extracted(xml_mirror: Mirror, tmp_path: Path) -> None:
    make(xml_mirror, tmp_path / "corpus")
    for lang in LANGS:
        shutil.rmtree(tmp_path / "corpus" / ".work" / lang / "dumps")
    asked = len(xml_mirror.requests)
    make(xml_mirror, tmp_path / "corpus", keep=Keep(shared=True))
    assert found(tmp_path / "corpus") == SHARED
    assert len(xml_mirror.requests) == asked


@pytest.mark.parametrize("jobs", range(9))  # a table, a file and an edition for every language
def test_whatever_task_fails_the_next_run_goes_on_behind_it(jobs: int, xml_mirror: Mirror, tmp_path: Path) -> None:
    output = tmp_path / "corpus"
    left = [jobs]

    def fail(argument: Any) -> None:
        if left[0] == 0:
            raise Cr5Error("the lights went out")
        left[0] -= 1

    with pytest.raises(Cr5Error, match="the lights went out"):
        make(xml_mirror, output, executor=Inline(fail))
    with pytest.raises(CorpusError):
        list(read(output))
    before = shard_times(output)
    make(xml_mirror, output)
    assert found(output) == EVERYTHING
    assert before.items() <= shard_times(output).items()


def test_a_job_goes_on_behind_its_last_shard(
    xml_mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Job.__new__, "__defaults__", (4000, None))  # small shards
    output, write, written = tmp_path / "corpus", shards.write_table, [0]

    def fail(path: Path, table: Any, metadata: Any) -> None:
        if written[0] == 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        written[0] += 1
        write(path, table, metadata)

    monkeypatch.setattr(shards, "write_table", fail)
    with pytest.raises(OSError, match="No space left"):
        make(xml_mirror, output, codes=("da",))
    before = shard_times(output)
    assert len(before) == 4
    monkeypatch.setattr(shards, "write_table", write)
    built = make(xml_mirror, output, codes=("da",))
    assert before.items() <= shard_times(output).items()
    assert found(output) == {each for each in EVERYTHING if each[1] == "da"}
    assert built.languages["da"].done.tally["pages"] == CONCEPTS + 5


def test_a_full_disk_is_said_and_leaves_no_half_of_a_file(
    xml_mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(table: Any, file: BinaryIO, **options: Any) -> None:
        file.write(b"PAR1")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write = pq.write_table
    monkeypatch.setattr(pq, "write_table", full)
    folder = tmp_path / "corpus" / ".work" / "da" / "extracted"
    with pytest.raises(Cr5Error) as caught:
        make(xml_mirror, tmp_path / "corpus", codes=("da",))
    shard = folder.resolve() / f"dawiki-{DATE}-pages-articles-multistream.xml.bz2.0000000000000-00000.parquet"
    assert str(caught.value) == (
        f"{shard}: no space left on the disk; free some and run the same command again, it goes on from here"
    )
    assert not [path for path in folder.iterdir() if path.suffix in (".tmp", ".parquet")]
    monkeypatch.setattr(pq, "write_table", write)
    make(xml_mirror, tmp_path / "corpus", codes=("da",))
    assert len(found(tmp_path / "corpus")) == CONCEPTS + 1


def test_a_language_can_be_added_later(xml_mirror: Mirror, tmp_path: Path) -> None:
    make(xml_mirror, tmp_path / "corpus", codes=("da",))
    asked = len(xml_mirror.asked("/dawiki/"))
    make(xml_mirror, tmp_path / "corpus", keep=Keep(shared=True))
    assert found(tmp_path / "corpus") == SHARED
    assert len(xml_mirror.asked("/dawiki/")) == asked


def test_a_language_that_is_no_longer_wanted_leaves_the_corpus_and_not_the_work(
    xml_mirror: Mirror, tmp_path: Path
) -> None:
    output = tmp_path / "corpus"
    make(xml_mirror, output)
    (output / "mine.parquet").write_bytes((output / "it-00000.parquet").read_bytes())
    table = pq.read_table(output / "mine.parquet").replace_schema_metadata(None)
    pq.write_table(table, output / "mine.parquet")
    make(xml_mirror, output, codes=("da", "en"))
    assert sorted(path.name for path in output.glob("*.parquet")) == [
        "da-00000.parquet", "en-00000.parquet", "mine.parquet",
    ]  # fmt: skip
    assert (output / ".work" / "it" / "extracted").exists()


def test_an_incomplete_corpus_is_not_read(xml_mirror: Mirror, tmp_path: Path) -> None:
    output = tmp_path / "corpus"

    def fail(argument: Any) -> None:
        if type(argument).__name__ == "Edition" and argument.lang == "it":
            raise Cr5Error("enough")

    with pytest.raises(Cr5Error, match="enough"):
        make(xml_mirror, output, executor=Inline(fail))
    with pytest.raises(CorpusError) as caught:
        list(read(output))
    assert str(caught.value) == (
        f"{output}: this corpus is not complete; repeat the command that writes it, which resumes"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"kind": "cirrus"},
            "begun with --source xml, not --source cirrus; go on as it was begun, or name another folder",
        ),
        ({"sample": 5}, "begun with no --sample, not --sample 5; go on as it was begun, or name another folder"),
        (
            {"ids": "sitelinks"},
            "begun with --ids props, not --ids sitelinks; go on as it was begun, or name another folder",
        ),
        (
            {"date": "20261001"},
            "begun with the dump of 20261101 for da, not 20261001; leave out --date to go on, or name another folder",
        ),
    ],
)
def test_a_run_goes_on_as_it_was_begun(
    change: dict[str, Any], message: str, xml_mirror: Mirror, tmp_path: Path
) -> None:
    make(xml_mirror, tmp_path / "corpus", codes=("da",))
    with pytest.raises(Cr5Error) as caught:
        make(xml_mirror, tmp_path / "corpus", **({"codes": ("da",)} | change))
    assert str(caught.value) == f"{tmp_path / 'corpus'}: {message}"


def test_two_runs_do_not_write_one_corpus(xml_mirror: Mirror, tmp_path: Path) -> None:
    messages: list[str] = []

    def again(argument: Any) -> None:
        if not messages:
            messages.append("")
            with pytest.raises(Cr5Error) as caught:
                make(xml_mirror, tmp_path / "corpus")
            messages.append(str(caught.value))

    make(xml_mirror, tmp_path / "corpus", executor=Inline(again))
    assert messages[1] == f"{tmp_path / 'corpus'}: another run is writing this corpus; wait until it ends"


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"codes": ()}, "no language given; name some, e.g. --langs da,en,it,vi"),
        ({"codes": ("da", "en", "da")}, "language da is named twice; name it once"),
        (
            {"codes": ("da",), "keep": Keep(shared=True)},
            "--concepts shared needs two languages or more; name another, or keep all concepts",
        ),
        (
            {"sample": 3, "ids": "sitelinks"},
            "--ids sitelinks needs Wikidata's whole table, which is too much for a sample; leave it out",
        ),
    ],
)
def test_what_makes_no_corpus_is_refused_before_anything_happens(
    request_: dict[str, Any], message: str, mirror: Mirror, tmp_path: Path
) -> None:
    with pytest.raises(Cr5Error) as caught:
        make(mirror, tmp_path / "corpus", **request_)
    assert str(caught.value) == message
    assert not (tmp_path / "corpus").exists()
    assert not mirror.requests


def test_what_was_half_written_when_a_run_was_killed_is_removed(xml_mirror: Mirror, tmp_path: Path) -> None:
    output = tmp_path / "corpus"
    extracted = output / ".work" / "da" / "extracted"
    extracted.mkdir(parents=True)
    half = [output / ".da-00000.parquet.0123abcd.tmp", extracted / ".x-00000.parquet.0123abcd.tmp"]
    mine = output / ".mine.tmp"
    for path in [*half, mine]:
        path.write_bytes(b"PAR1")
    make(xml_mirror, output)
    assert not any(path.exists() for path in half)
    assert mine.exists()


def test_a_damaged_plan_costs_its_wiki_and_no_other(xml_mirror: Mirror, tmp_path: Path) -> None:
    work = tmp_path / "corpus" / ".work"
    make(xml_mirror, tmp_path / "corpus")
    (work / "da" / "plan.json").write_text('{"source": "xm')
    with pytest.raises(Cr5Error) as caught:
        make(xml_mirror, tmp_path / "corpus")
    assert str(caught.value) == (
        f"{work / 'da' / 'plan.json'}: damaged; delete {work / 'da'} and run the same command again"
    )
    shutil.rmtree(work / "da")
    asked = len(xml_mirror.asked("/itwiki/"))
    make(xml_mirror, tmp_path / "corpus")
    assert found(tmp_path / "corpus") == EVERYTHING
    assert len(xml_mirror.asked("/itwiki/")) == asked


def test_a_folder_that_cannot_be_is_refused(mirror: Mirror, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(Cr5Error) as caught:
        make(mirror, tmp_path / "file")
    assert str(caught.value) == f"{tmp_path / 'file'}: cannot be written, not a directory; name another folder"
    assert not mirror.requests


def test_files_of_others_are_named_and_stay(xml_mirror: Mirror, tmp_path: Path) -> None:
    mine = tmp_path / "mine.jsonl"
    mine.write_text('{"concept": "a", "lang": "da", "text": "b"}\n')
    built = make(xml_mirror, tmp_path)
    assert built.notes == [f"{mine} was there before; whoever reads {tmp_path} reads it as well"]
    assert mine.exists()
    assert found(tmp_path) == EVERYTHING | {("a", "da", "b")}


def test_a_file_of_somebody_else_in_our_place_is_refused_before_anything_happens(
    mirror: Mirror, tmp_path: Path
) -> None:
    (tmp_path / "da-00000.parquet").write_bytes(b"mine")
    with pytest.raises(Cr5Error, match="not written by this command"):
        make(mirror, tmp_path)
    assert not mirror.requests
    assert [path.name for path in tmp_path.iterdir()] == ["da-00000.parquet"]


# Nothing to publish


def test_a_wiki_without_an_article_is_an_error_and_costs_no_other(xml_mirror: Mirror, tmp_path: Path) -> None:
    content = dumps.multistream(pages("it"), "it", per_stream=5)
    table = gzip.compress(dumps.page_props_sql([], "itwiki"))
    publish_xml(xml_mirror, "itwiki", DATE, {"pages-articles-multistream.xml.bz2": content}, table)
    with pytest.raises(Cr5Error) as caught:
        make(xml_mirror, tmp_path / "corpus")
    assert str(caught.value) == (
        f"it: none of its {CONCEPTS + 5} pages is an article (1 redirects, {CONCEPTS + 3} without a Wikidata item, "
        "1 other namespaces); take another --date or --source, or leave it out of --langs"
    )
    make(xml_mirror, tmp_path / "corpus", codes=("da", "en"))
    assert found(tmp_path / "corpus") == {each for each in EVERYTHING if each[1] != "it"}


def test_no_shared_concept_is_an_error(xml_mirror: Mirror, tmp_path: Path) -> None:
    with pytest.raises(Cr5Error) as caught:
        make(xml_mirror, tmp_path / "corpus", sample=1, keep=Keep(shared=True))
    assert str(caught.value) == "no concept is in two of da, en, it; raise --sample, or keep all concepts"


# The network


def address(lang: str, name: str) -> str:
    return f"/{lang}wiki/{DATE}/{lang}wiki-{DATE}-{name}"


def test_a_bad_connection_costs_time_and_nothing_else(xml_mirror: Mirror, tmp_path: Path) -> None:
    dump = "pages-articles-multistream.xml.bz2"
    xml_mirror.fail(f"/dawiki/{DATE}/dumpstatus.json", Fault(status=503), Fault(drop=10))
    xml_mirror.fail(address("da", "page_props.sql.gz"), Fault(status=429, headers={"Retry-After": "0"}))
    xml_mirror.fail(address("da", dump), Fault(drop=900), Fault(status=503), Fault(drop=100))
    xml_mirror.fail(address("en", dump), Fault(drop=1000), Fault(ranges=False))
    xml_mirror.fail(address("it", dump), Fault(body=b"x" * len(xml_mirror.files[address("it", dump)])))
    built = make(xml_mirror, tmp_path / "corpus")
    assert found(tmp_path / "corpus") == EVERYTHING
    assert any("its sha1 was wrong: begun anew" in note for note in built.notes)
    assert any("the server ignores ranges: begun anew" in note for note in built.notes)
    assert len(xml_mirror.asked(address("da", dump))) == 4
    assert xml_mirror.asked(address("da", dump))[1].headers["range"] == "bytes=900-"


def test_a_wrong_checksum_is_an_error_and_nothing_is_made_of_it(xml_mirror: Mirror, tmp_path: Path) -> None:
    path = address("it", "pages-articles-multistream.xml.bz2")
    right = xml_mirror.files[path]
    wrong = Fault(body=b"x" * len(right))
    xml_mirror.fail(path, wrong, wrong)
    with pytest.raises(Cr5Error, match=r"its sha1 is .* also when fetched again; nothing is kept"):
        make(xml_mirror, tmp_path / "corpus")
    assert not (tmp_path / "corpus" / "manifest.json").exists()
    make(xml_mirror, tmp_path / "corpus")
    assert found(tmp_path / "corpus") == EVERYTHING


def test_servers_are_asked_politely(xml_mirror: Mirror, tmp_path: Path) -> None:
    make(xml_mirror, tmp_path / "corpus")
    assert xml_mirror.agents == {AGENT}
    assert xml_mirror.most_open <= 2


def test_a_dump_that_is_damaged_on_the_server_is_named(mirror: Mirror, tmp_path: Path) -> None:
    content = dumps.multistream(pages("da"), "da", per_stream=5)
    publish_xml(mirror, "dawiki", DATE, {"pages-articles-multistream.xml.bz2": content}, props_gz("da")[:-9])
    with pytest.raises(CorpusError, match=r"page_props\.sql\.gz: cut short"):
        make(mirror, tmp_path / "corpus", codes=("da",))


def cut_off(*arguments: Any) -> None:
    raise Cr5Error("enough")


def test_a_dump_that_is_renewed_between_two_runs_is_not_mixed_with_the_old_one(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, wiki = tmp_path / "corpus", Wiki("da", "da")
    publish_xml(mirror, wiki.name, DATE, {}, props_gz("da"))
    publish_cirrus(mirror, wiki.name, DATE, [bz2.compress(search_dumps.bulk(search_pages("da"), wiki))])
    monkeypatch.setattr(Job.__new__, "__defaults__", (4000, None))
    with monkeypatch.context() as patch:
        patch.setattr(shards, "write_json", lambda path, values: cut_off() if "record" in values else None)
        with pytest.raises(Cr5Error, match="enough"):  # all shards are there, but for the record of the job
            make(mirror, output, kind="cirrus", codes=("da",))
    assert len(shard_times(output)) > 2
    (path,) = (path for path in mirror.files if path.endswith(".json.bz2"))
    renewed = bz2.compress(search_dumps.bulk(search_pages("da")[::-1], wiki))
    mirror.files[path] = renewed
    plan = output / ".work" / "da" / "plan.json"
    about = json.loads(plan.read_text())
    about["files"][0][2] = len(renewed) + 1
    plan.write_text(json.dumps(about))
    with pytest.raises(Cr5Error) as caught:
        make(mirror, output, kind="cirrus", codes=("da",))
    assert str(caught.value) == (
        f"{output / '.work' / 'da' / 'dumps' / Path(path).name}: {len(renewed):,} bytes, not {len(renewed) + 1:,} as "
        f"when this corpus was begun: the dump has been renewed; delete {output / '.work' / 'da'} and run the same "
        "command again"
    )
    about["files"][0][2] = len(renewed)  # the old one had the same size
    plan.write_text(json.dumps(about))
    built = make(mirror, output, kind="cirrus", codes=("da",))
    assert found(output) == {each for each in EVERYTHING if each[1] == "da"}
    assert built.languages["da"].documents == CONCEPTS + 1


@pytest.mark.parametrize("kind", ["xml", "cirrus"])
def test_half_a_dump_is_not_taken_for_a_whole_one(kind: Kind, mirror: Mirror, tmp_path: Path) -> None:
    content = dumps.multistream(pages("da"), "da", per_stream=5)
    name = f"dawiki-{DATE}-pages-articles-multistream.xml.bz2"
    if kind == "cirrus":
        content, name = bz2.compress(search_dumps.bulk(search_pages("da"))), f"dawiki_content-{DATE}-00000.json.bz2"
    (tmp_path / name).write_bytes(content[: len(content) // 2])
    (tmp_path / f"dawiki-{DATE}-page_props.sql.gz").write_bytes(props_gz("da"))
    with pytest.raises(CorpusError, match=rf"{name}: .*cut short"):
        make(mirror, tmp_path / "corpus", kind=kind, codes=("da",), dumps=tmp_path)
    (tmp_path / name).write_bytes(content)
    built = make(mirror, tmp_path / "corpus", kind=kind, codes=("da",), dumps=tmp_path)
    assert built.languages["da"].documents == CONCEPTS + 1


def test_what_is_broken_within_a_dump_is_counted_and_the_rest_is_kept(mirror: Mirror, tmp_path: Path) -> None:
    parts = [bz2.compress(part) for part in dumps.streams(pages("da"), "da", per_stream=5)]
    middle = bytearray(parts[3])
    middle[len(middle) // 2] ^= 255
    content = b"".join([*parts[:3], bytes(middle), *parts[4:]])
    publish_xml(mirror, "dawiki", DATE, {"pages-articles-multistream.xml.bz2": content}, props_gz("da"))
    built = make(mirror, tmp_path / "corpus", codes=("da",))
    assert built.languages["da"].documents == CONCEPTS + 1 - 5
    assert sum(built.languages["da"].done.faults.counts.values()) == 1


# A try-out


@pytest.mark.parametrize("head", [500, 1 << 22])
def test_a_sample_is_the_first_articles_of_each_language(head: int, xml_mirror: Mirror, tmp_path: Path) -> None:
    make(xml_mirror, tmp_path / "corpus", sample=7, head=head)
    assert found(tmp_path / "corpus") == {(a.concept, a.lang, a.text) for lang in LANGS for a in ARTICLES[lang][:7]}


def test_a_sample_fetches_the_head_of_a_file_only(mirror: Mirror, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    noise = [dumps.Page(10_000 + i, f"Støj {i}", rng.bytes(30_000).hex()) for i in range(60)]
    content = dumps.multistream([*pages("da"), *noise], "da", per_stream=5)
    publish_xml(mirror, "dawiki", DATE, {"pages-articles-multistream.xml.bz2": content}, props_gz("da"))
    make(mirror, tmp_path / "corpus", codes=("da",), sample=5, head=20_000)
    part = tmp_path / "corpus" / ".work" / "da" / "dumps" / f"dawiki-{DATE}-pages-articles-multistream.xml.bz2.part"
    assert part.stat().st_size < len(content) / 2
    assert len(found(tmp_path / "corpus")) == 5


def test_a_sample_of_more_than_there_is_takes_all(xml_mirror: Mirror, tmp_path: Path) -> None:
    make(xml_mirror, tmp_path / "corpus", sample=5000, head=500)
    assert found(tmp_path / "corpus") == EVERYTHING


def test_a_sample_is_not_taken_twice(xml_mirror: Mirror, tmp_path: Path) -> None:
    make(xml_mirror, tmp_path / "corpus", sample=7)
    asked = len(xml_mirror.requests)
    make(xml_mirror, tmp_path / "corpus", sample=7, keep=Keep(shared=True))
    assert len(xml_mirror.requests) == asked
    assert len(found(tmp_path / "corpus")) == 18


# Files that are here already, and other crews


def test_dumps_on_disk_are_used_without_a_network(mirror: Mirror, tmp_path: Path) -> None:
    folder = tmp_path / "downloads" / "deep"
    folder.mkdir(parents=True)
    for lang in LANGS:
        content = dumps.multistream(pages(lang), lang, per_stream=5)
        (folder / f"{lang}wiki-{DATE}-pages-articles-multistream.xml.bz2").write_bytes(content)
        (folder / f"{lang}wiki-{DATE}-page_props.sql.gz").write_bytes(props_gz(lang))
    make(mirror, tmp_path / "corpus", dumps=tmp_path / "downloads")
    assert found(tmp_path / "corpus") == EVERYTHING
    assert not mirror.requests


def test_of_dumps_on_disk_the_date_is_chosen(mirror: Mirror, tmp_path: Path) -> None:
    for date, some in {"20261001": pages("da")[:10], DATE: pages("da")}.items():
        content = dumps.multistream(some, "da", per_stream=5)
        (tmp_path / f"dawiki-{date}-pages-articles-multistream.xml.bz2").write_bytes(content)
    (tmp_path / f"dawiki-{DATE}-page_props.sql.gz").write_bytes(props_gz("da"))
    built = make(mirror, tmp_path / "corpus", codes=("da",), dumps=tmp_path, date="20261001")
    assert (built.languages["da"].dump.date, built.languages["da"].documents) == ("20261001", 6)
    with pytest.raises(Cr5Error) as caught:
        make(mirror, tmp_path / "other", codes=("da",), dumps=tmp_path, date="20200101")
    assert str(caught.value) == (
        f"{tmp_path}: no xml dump of dawiki of 20200101 in it; keep the name under which it is published, such as "
        "dawiki-20261101-pages-articles-multistream.xml.bz2"
    )


@pytest.mark.parametrize(
    ("kind", "names", "message"),
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
        ("parquet", ["{}.da/train-00000-of-00002.parquet"], "behind"),
    ],
)
def test_dumps_on_disk_with_a_part_missing_are_refused(
    kind: Kind, names: list[str], message: str, mirror: Mirror, tmp_path: Path
) -> None:
    paths = [tmp_path / name.format(DATE) for name in names]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    with pytest.raises(Cr5Error) as caught:
        make(mirror, tmp_path / "corpus", kind=kind, codes=("da",), dumps=tmp_path)
    assert str(caught.value) == f"{paths[-1]}: a part of the dump {message} this one is missing; add it"


def test_dumps_on_disk_that_are_there_twice_are_refused(mirror: Mirror, tmp_path: Path) -> None:
    paths = [tmp_path / folder / f"dawiki_content-{DATE}-00000.json.bz2" for folder in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        path.touch()
    with pytest.raises(Cr5Error) as caught:
        make(mirror, tmp_path / "corpus", kind="cirrus", codes=("da",), dumps=tmp_path)
    assert str(caught.value) == f"{paths[1]}: there is also {paths[0]}; remove one of them"


def test_a_dump_on_disk_that_is_also_unpacked_is_read_once(mirror: Mirror, tmp_path: Path) -> None:
    content = dumps.pages_xml(pages("da"), "da")
    (tmp_path / f"dawiki-{DATE}-pages-articles.xml").write_bytes(content)
    (tmp_path / f"dawiki-{DATE}-pages-articles.xml.bz2").write_bytes(bz2.compress(content))
    (tmp_path / f"dawiki-{DATE}-page_props.sql.gz").write_bytes(props_gz("da"))
    built = make(mirror, tmp_path / "corpus", codes=("da",), dumps=tmp_path)
    assert built.languages["da"].documents == CONCEPTS + 1


def test_processes_give_the_same_corpus(xml_mirror: Mirror, tmp_path: Path) -> None:
    with open_executor(workers=2) as crew:
        make(xml_mirror, tmp_path / "corpus", executor=crew)
    assert found(tmp_path / "corpus") == EVERYTHING


def test_a_dask_cluster_gives_the_same_corpus(xml_mirror: Mirror, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=50
        ) as cluster,
        open_executor(scheduler=cluster.scheduler_address) as crew,
    ):
        make(xml_mirror, tmp_path / "corpus", executor=crew)
    assert found(tmp_path / "corpus") == EVERYTHING
