"""The search page: opening documents, the history and the URL."""

import re

import pytest
from browsing import PageMonitor, Visit, expect_hits, hit_titles, url_state, when_ready
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_a_document_opens_next_to_the_query_and_back_closes_it(visit: Visit) -> None:
    page = visit("?q=cane")
    page.get_by_role("link", name="Dog", exact=True).click()
    expect(page.locator("#document-panel h2")).to_have_text("Dog")
    expect(page.locator("#document-panel .document-text p")).to_have_text(
        ["A dog guards the house.", "Many dogs sleep by the door."]
    )
    expect(page.locator("#document-panel .query-text mark")).to_have_text(["cane"])
    expect(page.locator("#document-panel .document-text mark")).to_have_text(["dog", "dogs"])
    expect(page.locator("#document-panel .source a")).to_have_attribute("href", "https://example.org/dog")
    expect(page.locator("#document-panel .source a")).to_have_attribute("rel", "noopener noreferrer")
    assert url_state(page) == {"q": "cane", "doc": "en:dog"}
    expect_hits(page, 6)
    page.go_back()
    expect(page.locator("#document-panel")).to_be_hidden()
    page.go_forward()
    expect(page.locator("#document-panel h2")).to_have_text("Dog")


def test_a_click_anywhere_in_a_hit_opens_it(visit: Visit) -> None:
    page = visit("?q=cane")
    hund = page.locator(".hit", has=page.get_by_role("link", name="Hund", exact=True))
    hund.locator(".snippet mark").first.click()
    expect(page.locator("#document-panel h2")).to_have_text("Hund")
    page.locator(".hit", has=page.get_by_role("link", name="Dog", exact=True)).click(position={"x": 250, "y": 14})
    expect(page.locator("#document-panel h2")).to_have_text("Dog")
    page.keyboard.press("Escape")
    expect(page.locator("#document-panel")).to_be_hidden()
    assert url_state(page) == {"q": "cane"}


def test_more_like_this_searches_by_the_document(visit: Visit) -> None:
    page = visit("?q=cane&doc=it:dog")
    page.locator("#document-panel").get_by_role("link", name="More like this").click()
    expect(page.locator("#similar-to")).to_contain_text("Similar to Cane")
    expect(page.locator("#status")).to_contain_text("10 documents")
    assert "Cane" not in hit_titles(page)
    assert url_state(page) == {"like": "it:dog"}
    page.get_by_role("link", name="Hund", exact=True).click()
    expect(page.locator("#document-panel .query-text")).to_contain_text("Il cane fa la guardia")
    page.go_back()
    page.go_back()
    expect(page.locator("#q")).to_have_value("cane")
    expect(page.locator("#document-panel h2")).to_have_text("Cane")


def test_back_returns_to_the_previous_search_not_to_the_previous_letter(visit: Visit) -> None:
    page = when_ready(visit())
    page.keyboard.type("luna", delay=260)
    page.keyboard.press("Enter")
    expect_hits(page, 4)
    page.locator("#q").fill("pane")
    expect(page.locator(".hit h2").first).to_have_text("Bread")
    page.go_back()
    expect(page.locator("#q")).to_have_value("luna")
    expect(page.locator(".hit h2").first).to_have_text("Moon")
    page.go_back()
    expect(page.locator("#examples")).to_be_visible()
    expect(page.locator("#q")).to_have_value("")


def test_the_url_holds_the_complete_state(visit: Visit) -> None:
    page = visit("?q=casa&lang=it&in=da,en&prefer=da&k=20&mode=dense&measure=cosine&group=none&doc=en:moon&map=0")
    expect_hits(page, 6)
    expect(page.locator("#q")).to_have_value("casa")
    expect(page.locator("#lang")).to_have_value("it")
    expect(page.locator("#prefer")).to_have_value("da")
    expect(page.locator("#mode")).to_have_value("dense")
    expect(page.locator("#measure")).to_have_value("cosine")
    expect(page.locator("#group")).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#document-panel h2")).to_have_text("Moon")
    pressed = page.locator("#filters [aria-pressed=true]")
    expect(pressed).to_have_text([re.compile("English"), re.compile("Danish")])
    expect(page.locator("#map")).to_be_hidden()


def test_the_link_can_be_copied(visit: Visit) -> None:
    page = visit("?q=cane", permissions=["clipboard-read", "clipboard-write"])
    page.evaluate(
        """() => {
            window.texts = [];
            const button = document.getElementById('copy-link');
            new MutationObserver(() => texts.push(button.textContent)).observe(button, {childList: true});
        }"""
    )  # it is said for a moment only
    page.get_by_role("button", name="Copy link").click()
    page.wait_for_function("texts.length")
    assert page.evaluate("texts[0]") == "Copied"
    assert page.evaluate("navigator.clipboard.readText()") == page.evaluate("location.href")


def test_a_missing_document_is_reported(visit: Visit, monitor: PageMonitor) -> None:
    monitor.errors_expected = True
    page = visit("?q=cane&doc=en:gone")
    expect(page.locator("#document-panel h2")).to_have_text("Document not found.")
    page.get_by_role("button", name="Close the document").click()
    expect(page.locator("#document-panel")).to_be_hidden()
    expect_hits(page, 6)


def test_a_search_similar_to_a_missing_document_is_reported(visit: Visit, monitor: PageMonitor) -> None:
    monitor.errors_expected = True
    page = visit("?like=en:gone")
    expect(page.locator("#notice")).to_contain_text("Document not found.")
    expect(page.locator("#similar-to")).to_be_hidden()
    page.get_by_role("button", name="Start again").click()
    expect(page.locator("#examples")).to_be_visible()
