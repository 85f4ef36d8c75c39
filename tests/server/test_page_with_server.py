"""The search page and the real server together, from end to end."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import madeup
import pytest
import running
from browsing import PageMonitor, Visit, expect_hits, hit_titles, url_state, when_ready
from playwright.sync_api import expect

import cr5
from cr5.index import Index

pytestmark = [pytest.mark.browser, pytest.mark.services]

QUERY = madeup.text("aa", [3, 4, 5])
KEY = "a key"


@pytest.fixture(scope="module")
def address(index_folder: Path) -> Iterator[str]:
    """The address of a running server."""
    with running.server(index_folder, "--read-only") as (_, address):
        yield address


@pytest.fixture
def page_url(address: str) -> str:
    return f"{address}/"


@pytest.fixture
def get(address: str) -> Any:
    """Requests to the API of the same server."""

    def request(path: str, **parameters: Any) -> Any:
        return httpx2.get(f"{address}/{path}", params=parameters, timeout=120).raise_for_status().json()

    return request


def test_typing_a_query_shows_the_hits_of_the_server(visit: Visit, get: Any) -> None:
    page = when_ready(visit())
    expect(page.locator("#intro")).to_contain_text("450 documents in ")
    page.keyboard.type(QUERY)
    page.keyboard.press("Enter")
    expect_hits(page, 10)
    hits = get("search", q=QUERY, group="concept")["hits"]
    assert hit_titles(page) == [hit["title"] for hit in hits]
    assert {version["lang"] for hit in hits for version in [hit, *hit["versions"]]} == {"aa", "bb", "cc"}
    expect(page.locator(".map-point")).to_have_count(10)
    expect(page.locator("#lang option:checked")).to_contain_text("aa")
    page.get_by_role("button", name="Show more").click()
    expect_hits(page, 20)


def test_opening_a_hit_shows_its_document_and_why_it_was_found(visit: Visit, get: Any) -> None:
    page = visit(f"?q={QUERY}&in=bb")
    hit = get("search", q=QUERY, **{"in": "bb"})["hits"][0]
    page.get_by_role("link", name=hit["title"], exact=True).click()
    expect(page.locator("#document-title")).to_have_text(hit["title"])
    text = get(f"documents/{hit['id']}")["text"]
    expect(page.locator("#document-panel .document-text")).to_have_text(text)
    explanation = get("explain", q=QUERY, id=hit["id"])
    best = [word for word, value in explanation["document_words"] if value >= 0.6 * explanation["document_words"][0][1]]
    marks = page.locator("#document-panel .document-text mark[data-strength='3']")
    expect(marks.first).to_be_visible()
    assert set(marks.all_inner_texts()) == set(best) & set(text.split())
    expect(page.locator("#document-panel .query-text mark").first).to_be_visible()
    pairs = page.locator("#document-panel .word-pair").all_inner_texts()
    assert {tuple(re.split(r"\s*~\s*", pair)) for pair in pairs} <= {(a, b) for a, b, _ in explanation["pairs"]}
    assert pairs


def test_a_language_filter_shows_only_documents_of_that_language(visit: Visit, get: Any) -> None:
    page = visit(f"?q={QUERY}")
    expect_hits(page, 10)
    page.get_by_role("button", name="cc 150").click()
    page.wait_for_url("**in=cc")
    hits = get("search", q=QUERY, group="concept", **{"in": "cc"})["hits"]
    expect(page.locator(".hit h2")).to_have_text([hit["title"] for hit in hits])
    expect(page.locator(".hit .language-label")).to_have_text(["cc"] * len(hits))
    assert url_state(page) == {"q": QUERY, "in": "cc"}


def test_more_like_this_shows_the_similar_documents_of_the_server(visit: Visit, get: Any) -> None:
    page = visit("?like=aa:Q001")
    hits = get("similar", id="aa:Q001")["hits"]
    expect(page.locator(".hit h2")).to_have_text([hit["title"] for hit in hits])
    expect(page.locator("#similar-to")).to_contain_text("Similar to aa 1")


def test_an_error_of_the_server_is_shown(visit: Visit, monitor: PageMonitor) -> None:
    monitor.errors_expected = True
    page = visit(f"?q={QUERY}&lang=zz")
    expect(page.get_by_role("alert")).to_contain_text("The index has no language 'zz'", ignore_case=True)
    page.get_by_role("button", name="Reset").click()
    expect_hits(page, 10)
    page.goto(page.url.partition("?")[0] + f"?q={QUERY}&doc=aa:missing")
    expect(page.locator("#document-title")).to_have_text("Document not found.")


def test_an_empty_result_says_that_no_word_is_known(visit: Visit) -> None:
    page = visit("?q=unheard&lang=aa")
    expect(page.locator("#notice")).to_contain_text("The model knows none of these words")


def test_a_word_outside_the_vocabulary_is_found_by_its_parts(visit: Visit, get: Any) -> None:
    word = madeup.word("aa", 70) + "x"
    found = get("search", q=word, lang="aa")
    assert (found["known"], found["by_subword"]) == (0, 1)
    page = visit(f"?q={word}&lang=aa")
    expect_hits(page, 10)
    expect(page.locator("#notice")).to_be_hidden()
    expect(page.locator("#status")).to_contain_text("0\u00a0% of the words are known, 100\u00a0% by their n-grams")


@pytest.fixture(scope="module")
def encyclopedia(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server for the built-in encyclopedia."""
    documents = list(cr5.read("builtin"))
    index = Index.create(tmp_path_factory.mktemp("encyclopedia") / "index", cr5.Cr5(rank=100, ridge=10).fit(documents))
    index.add(documents)
    index.close()
    with running.server(index.folder, "--read-only") as (_, address):
        yield address


@pytest.mark.slow
def test_an_encyclopedia_is_searched_in_one_language_and_read_in_others(
    encyclopedia: str, visit: Visit, monitor: PageMonitor
) -> None:
    page = visit(locale="en-GB")
    page.goto("about:blank")
    monitor.attach(page, encyclopedia)
    page.goto(f"{encyclopedia}/")
    when_ready(page).keyboard.type("cane che guida i ciechi")
    first = page.locator(".hit").first
    expect(first.locator("h2")).to_have_text("Dog")
    expect(page.locator("#lang option:checked")).to_contain_text("Italian")
    expect(page.locator("#prefer option:checked")).to_have_text("English first")
    expect(first.locator(".word-pair", has_text="dog").first).to_be_visible()
    first.locator(".versions").get_by_role("button", name="Vietnamese").click()
    expect(first.locator("h2")).to_have_text("Chó")
    first.locator("h2 a").click()
    expect(page.locator("#document-title")).to_have_text("Chó")
    expect(page.locator("#document-panel .document-text mark").first).to_be_visible()
    page.locator("#document-panel .versions").get_by_role("button", name="Danish").click()
    expect(page.locator("#document-title")).to_have_text("Hund")
    page.keyboard.press("Escape")
    page.locator("#q").fill('"Canis familiaris" wolf')
    expect(page.locator(".hit").first.locator("mark", has_text="familiaris").first).to_be_visible()
    page.goto("about:blank")
    monitor.foreign_requests.clear()


def test_a_server_with_an_api_key_answers_once_it_is_entered(
    index_folder: Path, visit: Visit, monitor: PageMonitor
) -> None:
    monitor.errors_expected = True
    with running.server(index_folder, "--api-key", KEY) as (_, address):
        page = visit()
        page.goto("about:blank")
        monitor.attach(page, address)
        page.goto(f"{address}/?q={QUERY}")
        page.get_by_label("API key").fill(KEY)
        page.keyboard.press("Enter")
        expect_hits(page, 10)
        page.goto("about:blank")
    monitor.foreign_requests.clear()
