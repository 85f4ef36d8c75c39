"""Listings of dumps: the newest complete files are found."""

import hashlib
from typing import Any

import pytest
from dump_listings import ARTICLES, DA, EN, NAN, find, message, props_of
from local_server import USER_AGENT, Fault, sha1
from mirror import (
    RESOLVE,
    TREE,
    Mirror,
    publish_jobs,
    publish_parquet,
    publish_search_index,
    publish_sitelinks,
    publish_xml,
)

from cr5.errors import Cr5Error
from cr5.sources.http.client import ShortResponse
from cr5.sources.wikipedia import dump_listing
from cr5.sources.wikipedia.dump_listing import Dump, DumpFile, find_sitelinks
from cr5.sources.wikipedia.dump_reader import DumpFormat
from cr5.sources.wikipedia.wiki import Wiki

INDEX = "pages-articles-multistream-index.txt.bz2"


# XML


def test_the_newest_xml_dump_is_found_with_sizes_and_checksums(mirror: Mirror) -> None:
    publish_xml(mirror, "dawiki", "20261020", {ARTICLES: b"old", INDEX: b"old index"}, b"old props")
    publish_xml(mirror, "dawiki", "20261101", {ARTICLES: b"articles", INDEX: b"index"}, b"props")
    name = f"dawiki-20261101-{ARTICLES}"
    assert find(mirror, "xml", DA) == [
        Dump(
            DA,
            "xml",
            "20261101",
            (DumpFile(f"{mirror.url}/dawiki/20261101/{name}", name, 8, sha1(b"articles")),),
            props_of(mirror, "dawiki", "20261101"),
            (),
        )
    ]
    assert mirror.user_agents == {USER_AGENT}
    assert mirror.most_open == 1


def test_an_unfinished_dump_is_skipped_with_a_note(mirror: Mirror) -> None:
    publish_xml(mirror, "dawiki", "20261101", {ARTICLES: b"articles"}, b"props")
    publish_xml(mirror, "dawiki", "20261110", {ARTICLES: b""}, b"", status="waiting")
    publish_xml(mirror, "dawiki", "20261120", {ARTICLES: b""}, b"", status="in-progress")
    (dump,) = find(mirror, "xml", DA)
    assert (dump.date, dump.props) == ("20261101", props_of(mirror, "dawiki", "20261101"))
    assert dump.notes == ("no complete XML dump of dawiki at 20261120, 20261110; using 20261101",)


def test_articles_without_page_props_are_incomplete(mirror: Mirror) -> None:
    publish_xml(mirror, "dawiki", "20261101", {ARTICLES: b"articles"}, b"props")
    publish_xml(mirror, "dawiki", "20261120", {ARTICLES: b"articles"}, None)
    assert find(mirror, "xml", DA)[0].date == "20261101"


def test_parts_of_a_large_wiki_are_found_once_in_the_order_of_their_pages(mirror: Mirror) -> None:
    begin = "pages-articles-multistream"
    parts = {f"{begin}{i}.xml-p{first}p{first + 9}.bz2": b"part" for i, first in [(10, 91), (2, 21), (2, 11), (1, 1)]}
    indexes = {f"{begin}-index1.txt-p1p10.bz2": b"index"}
    publish_xml(mirror, "enwiki", "20261101", {**parts, **indexes, ARTICLES: b"all", INDEX: b"index"}, b"props")
    (dump,) = find(mirror, "xml", EN)
    assert [file.name.removeprefix(f"enwiki-20261101-{begin}") for file in dump.files] == [
        "1.xml-p1p10.bz2",
        "2.xml-p11p20.bz2",
        "2.xml-p21p30.bz2",
        "10.xml-p91p100.bz2",
    ]
    same_job = {"articlesmultistreamdump": {**parts, ARTICLES: b"all"}, "pagepropstable": {"page_props.sql.gz": b""}}
    publish_jobs(mirror, "enwiki", "20261120", same_job)
    assert len(find(mirror, "xml", EN)[0].files) == 4
    recombined = {"articlesmultistreamdumprecombine": {ARTICLES: b"all"}, "pagepropstable": {"page_props.sql.gz": b""}}
    publish_jobs(mirror, "enwiki", "20261201", recombined)
    assert [file.name for file in find(mirror, "xml", EN)[0].files] == [f"enwiki-20261201-{ARTICLES}"]


def test_a_date_can_be_selected(mirror: Mirror) -> None:
    for date in ("20261001", "20261020", "20261101"):
        publish_xml(mirror, "dawiki", date, {ARTICLES: b"articles"}, b"props")
    publish_xml(mirror, "dawiki", "20261120", {ARTICLES: b""}, b"", status="in-progress")
    (dump,) = find(mirror, "xml", DA, date="20261020")
    assert (dump.date, dump.notes, dump.props) == ("20261020", (), props_of(mirror, "dawiki", "20261020"))
    assert message(mirror, "xml", DA, date="20261021") == (
        "there is no XML dump of dawiki at 20261021; use one of 20261120, 20261101, 20261020, 20261001 as `date`"
    )
    assert message(mirror, "xml", DA, date="20261120") == (
        "there is no complete XML dump of dawiki at 20261120; wait, or use another `date`: 20261101, 20261020, 20261001"
    )
    assert "`date=2026-11-01`" in message(mirror, "xml", DA, date="2026-11-01")


def test_it_is_an_error_if_no_dump_is_complete(mirror: Mirror) -> None:
    publish_xml(mirror, "dawiki", "20261120", {ARTICLES: b""}, b"", status="in-progress")
    mirror.files["/dawiki/20261101/index.html"] = b"no report beside it"
    assert message(mirror, "xml", DA).startswith("there is no complete XML dump of dawiki at 20261120, 20261101;")


@pytest.mark.parametrize("code", ["xq", "../en", "", "en/20261101", "a b", "\n"])
@pytest.mark.parametrize("dump_format", ["xml", "cirrus"])
def test_an_unknown_code_is_an_error(mirror: Mirror, dump_format: DumpFormat, code: str) -> None:
    publish_search_index(mirror, "dawiki", "20261101", [b"part"])
    text = message(mirror, dump_format, Wiki(code, "und"))
    assert text.startswith(f"URL has no Wikipedia with the code '{code}'; check `langs`")


def test_codes_with_dashes_have_database_names_with_underscores(mirror: Mirror) -> None:
    publish_xml(mirror, "zh_min_nanwiki", "20261101", {ARTICLES: b"articles"}, b"props")
    publish_search_index(mirror, "zh_min_nanwiki", "20261101", [b"part"])
    publish_parquet(mirror, "zh-min-nan", "20231101", [b"part"])
    assert find(mirror, "xml", NAN)[0].files[0].name == f"zh_min_nanwiki-20261101-{ARTICLES}"
    assert find(mirror, "cirrus", NAN)[0].files[0].name == "zh_min_nanwiki_content-20261101-00000.json.bz2"
    assert find(mirror, "parquet", NAN)[0].files[0].name == "zh_min_nanwiki-20231101-train-00000-of-00001.parquet"


def test_a_mirror_may_be_in_a_subfolder(mirror: Mirror) -> None:
    publish_xml(mirror, "dawiki", "20261101", {ARTICLES: b"articles"}, b"props")
    mirror.files = {f"/mirror/wikimedia.org/dumps{path}": content for path, content in mirror.files.items()}
    base = f"{mirror.url}/mirror/wikimedia.org/dumps"
    (dump,) = find(mirror, "xml", DA, mirror=f"{base}/")
    assert dump.files[0].url == f"{base}/dawiki/20261101/dawiki-20261101-{ARTICLES}"


# The search index


def test_all_parts_of_the_search_index_are_found(mirror: Mirror) -> None:
    publish_search_index(mirror, "dawiki", "20261109", [b"old"])
    publish_search_index(mirror, "dawiki", "20261116", [b"one", b"two", b"three"])
    publish_search_index(mirror, "enwiki", "20261116", [b"one"])
    publish_xml(mirror, "dawiki", "20261101", {ARTICLES: b"articles"}, b"props")
    publish_xml(mirror, "dawiki", "20261120", {ARTICLES: b""}, b"", status="waiting")
    names = [f"dawiki_content-20261116-{i:05}.json.bz2" for i in range(3)]
    folder = f"{mirror.url}/other/cirrus_search_index/20261116/index_name=dawiki_content"
    da, en = find(mirror, "cirrus", DA, EN)
    files = tuple(DumpFile(f"{folder}/{name}", name, size, None) for name, size in zip(names, [3, 3, 5], strict=True))
    assert da == Dump(DA, "cirrus", "20261116", files, props_of(mirror, "dawiki", "20261101"), ())
    assert (en.wiki, en.props) == (EN, None)
    assert len(mirror.requests_for("/other/cirrus_search_index/")) == 3  # one listing of dates for both


def test_a_search_index_without_a_part_or_without_success_is_incomplete(mirror: Mirror) -> None:
    publish_search_index(mirror, "dawiki", "20261102", [b"one", b"two"])
    publish_search_index(mirror, "dawiki", "20261109", [b"one", b"two", b"three"])
    del mirror.files[
        "/other/cirrus_search_index/20261109/index_name=dawiki_content/dawiki_content-20261109-00001.json.bz2"
    ]
    publish_search_index(mirror, "dawiki", "20261116", [b"one"], complete=False)
    publish_search_index(mirror, "enwiki", "20261123", [b"one"])
    (dump,) = find(mirror, "cirrus", DA)
    assert (dump.date, len(dump.files)) == ("20261102", 2)
    assert dump.notes == ("no complete search index of dawiki at 20261123, 20261116, 20261109; using 20261102",)
    assert message(mirror, "cirrus", DA, date="20261116").startswith(
        "there is no complete search index of dawiki at 20261116;"
    )


def test_the_classic_layout_is_found_if_there_is_no_newer_one(mirror: Mirror) -> None:
    publish_search_index(mirror, "dawiki", "20251222", [b"older"], "classic")
    publish_search_index(mirror, "dawiki", "20251229", [b"content"], "classic")
    name = "dawiki-20251229-cirrussearch-content.json.gz"
    file = DumpFile(f"{mirror.url}/other/cirrussearch/20251229/{name}", name, 7, None)
    assert find(mirror, "cirrus", DA) == [Dump(DA, "cirrus", "20251229", (file,), None, ())]
    publish_search_index(mirror, "dawiki", "20260104", [b"new"])
    assert find(mirror, "cirrus", DA)[0].date == "20260104"
    assert find(mirror, "cirrus", DA, date="20251229")[0].files == (file,)
    assert "20260104, 20251229, 20251222" in message(mirror, "cirrus", DA, date="20251230")


def test_a_mirror_without_a_search_index_is_an_error(mirror: Mirror) -> None:
    publish_xml(mirror, "dawiki", "20261101", {ARTICLES: b"articles"}, b"props")
    assert message(mirror, "cirrus", DA).startswith("URL has no search index of any wiki")


LISTINGS = {
    "nginx": '<a href="../">../</a>\n<a href="20261101/">20261101/</a>   02-Nov-2026 10:00    -\n',
    "apache": '<tr><td valign="top"><img src="/icons/folder.gif" alt="[DIR]"></td><td><a href="20261101/">20261101/</a>'
    '</td><td align="right">2026-11-02 10:00  </td><td align="right">  - </td></tr>',
    "caddy": "<td><a class='dir' href='./20261101/'>\n<svg></svg><span class=\"name\">20261101</span></a></td>",
    "absolute": '<A title="x" HREF="/dawiki/20261101/">there</A>',
    "whole": '<a href="URL/dawiki/2026%31101/">there</a>',
}


@pytest.mark.parametrize("form", sorted(LISTINGS))
def test_listings_of_every_kind_of_server_are_read(mirror: Mirror, form: str) -> None:
    publish_xml(mirror, "dawiki", "20261101", {ARTICLES: b"articles"}, b"props")
    mirror.fail("/dawiki/", Fault(body=LISTINGS[form].replace("URL", mirror.url).encode()))
    assert find(mirror, "xml", DA)[0].date == "20261101"


def test_links_to_other_places_are_ignored(mirror: Mirror) -> None:
    links = ["http://example.org/dawiki/20261101/", "//example.org/dawiki/20261102/", "/enwiki/20261103/", "/20261104/"]
    links += ["20261105/x/", "../20261106/", "20261107", "?20261108/", "http://[", "%2e%2e/20261109/", "2026111０/"]
    body = "".join(f'<a href="{link}">{link}</a>' for link in links)
    mirror.fail("/dawiki/", Fault(body=body.encode()), Fault(body=f'{body}<a href="20261110/">'.encode()))
    assert message(mirror, "xml", DA).startswith("URL has no Wikipedia with the code 'da'")
    assert message(mirror, "xml", DA).startswith("there is no complete XML dump of dawiki at 20261110;")
    assert [request.path for request in mirror.requests] == ["/dawiki/", "/dawiki/", "/dawiki/20261110/dumpstatus.json"]


# The hub


def test_an_export_is_found_on_the_hub_with_its_checksums(mirror: Mirror) -> None:
    publish_parquet(mirror, "da", "20220301", [b"old"])
    publish_parquet(mirror, "da", "20231101", [b"one", b"two"])
    publish_parquet(mirror, "en", "20261101", [b"other"])
    mirror.files[f"{RESOLVE}/README.md"] = b"read me"
    mirror.files[f"{RESOLVE}/20231101.da/notes.txt"] = b"not a part"
    publish_xml(mirror, "dawiki", "20261101", {ARTICLES: b"articles"}, b"props")
    names = [f"train-{i:05}-of-00002.parquet" for i in range(2)]
    digests = [f"sha256:{hashlib.sha256(content).hexdigest()}" for content in (b"one", b"two")]
    files = tuple(
        DumpFile(f"{mirror.url}{RESOLVE}/20231101.da/{name}", f"dawiki-20231101-{name}", 3, digest)
        for name, digest in zip(names, digests, strict=True)
    )
    expected = Dump(DA, "parquet", "20231101", files, props_of(mirror, "dawiki", "20261101"), ())
    assert find(mirror, "parquet", DA) == [expected]
    mirror.page = 1  # one entry per page
    mirror.requests.clear()
    assert find(mirror, "parquet", DA) == [expected]
    assert len(mirror.requests_for(f"{TREE}?cursor=")) == 3
    assert find(mirror, "parquet", DA, date="20220301")[0].date == "20220301"


def test_a_missing_or_incomplete_export_is_an_error(mirror: Mirror) -> None:
    publish_parquet(mirror, "da", "20231101", [b"one", b"two"])
    assert message(mirror, "parquet", DA).startswith("URL has no complete page_props of dawiki")
    assert message(mirror, "parquet", EN).startswith(
        "URL/datasets/wikimedia/wikipedia has no Wikipedia with the code 'en'; check `langs`"
    )
    del mirror.files[f"{RESOLVE}/20231101.da/train-00001-of-00002.parquet"]
    assert message(mirror, "parquet", DA).startswith("there is no complete export of dawiki at 20231101;")


def test_an_endless_listing_of_the_hub_is_an_error(mirror: Mirror) -> None:
    def next_page(url: str, **options: Any) -> ShortResponse:
        requested.append(url)
        return ShortResponse(b"[]", f"http://elsewhere.example/?{len(requested)}")

    requested: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dump_listing, "get", next_page)
        assert message(mirror, "parquet", DA).startswith(f"URL{TREE}: the listing has more than 50 pages")
    assert len(requested) == 50
    assert all(url.startswith(mirror.url) for url in requested)


def test_an_incomplete_listing_of_the_hub_is_not_used(mirror: Mirror) -> None:
    publish_parquet(mirror, "da", "20231101", [b"part"])
    mirror.files[f"{RESOLVE}/20231101.da/zzz.txt"] = b"after it"
    mirror.page = 1
    mirror.fail(f"{TREE}/20231101.da", Fault(), Fault(404))
    assert message(mirror, "parquet", DA).startswith("there is no complete export of dawiki at 20231101;")


# Wikidata


def test_wikidatas_sitelinks_are_found(mirror: Mirror) -> None:
    with pytest.raises(Cr5Error, match="has no dumps of wikidatawiki"):
        find_sitelinks(mirror=mirror.url, user_agent=USER_AGENT)
    publish_sitelinks(mirror, "20261101", b"table")
    publish_sitelinks(mirror, "20261120", b"", status="in-progress")
    name = "wikidatawiki-20261101-wb_items_per_site.sql.gz"
    found = find_sitelinks(mirror=mirror.url, user_agent=USER_AGENT)
    assert found == DumpFile(f"{mirror.url}/wikidatawiki/20261101/{name}", name, 5, sha1(b"table"))
