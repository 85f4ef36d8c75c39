"""Building a Wikipedia corpus from a local mirror, from the listing to the manifest."""

import gzip
import json
from pathlib import Path

import dumps
import pytest
from mirror import Mirror, publish_sitelinks, publish_xml
from small_wikipedia import ARTICLES, CONCEPTS, DATE, EVERYTHING, LANGS, SHARED, documents, make, pages, props, publish

from cr5 import read
from cr5.sources.http import client
from cr5.sources.wikipedia.dump_reader import DISAMBIGUATION, NAMESPACE, NO_ITEM, REDIRECT, DumpFormat

pytestmark = pytest.mark.slow  # every test builds a corpus


@pytest.fixture(autouse=True)
def short_retry_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_RETRY_SECONDS", 0.01)


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
