"""The search page: progress, empty results and errors."""

import re
import threading

import pytest
from browsing import PageMonitor, Visit, expect_hits
from fake_api import FakeApi, Fault
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_progress_is_shown_and_a_late_response_never_replaces_a_newer_one(visit: Visit, api: FakeApi) -> None:
    release = threading.Event()
    api.faults["/search"] = [Fault(status=200, until=release)]
    page = visit("?q=luna")
    expect(page.locator("#status")).to_have_text("Searching…")
    expect(page.locator(".skeleton").first).to_be_visible()
    expect(page.locator("#hits")).to_have_attribute("aria-busy", "true")
    page.locator("#q").fill("pane")
    expect(page.locator(".hit h2").first).to_have_text("Bread")
    release.set()
    page.wait_for_timeout(300)
    expect(page.locator(".hit h2").first).to_have_text("Bread")
    expect(page.locator("#hits")).to_have_attribute("aria-busy", "false")


def test_an_empty_result_says_why(visit: Visit) -> None:
    page = visit("?q=luna&in=zh")
    expect(page.locator("#notice")).to_contain_text("Nothing found in Chinese.")
    page.get_by_role("button", name="Search all languages").click()
    expect_hits(page, 4)
    page.locator("#q").fill("zzz")
    expect(page.locator("#notice")).to_contain_text("The model knows none of these words in English.")


def test_words_that_are_encoded_by_their_parts_are_not_called_unknown(visit: Visit) -> None:
    page = visit("?q=lunatico&lang=it")
    expect(page.locator("#notice")).to_contain_text("Nothing found.")
    expect(page.locator("#notice")).not_to_contain_text("knows none")
    expect(page.locator("#status")).to_contain_text("0\u00a0% of the words are known, 100\u00a0% by their n-grams")
    page.goto(page.url.replace("lunatico", "lunatico%20luna%20zzz%20zzzz"))
    expect(page.locator("#status")).to_contain_text("25\u00a0% of the words are known, 25\u00a0% by their n-grams")
    expect(page.locator("#notice")).to_be_hidden()


def test_an_error_of_the_server_is_shown_and_can_be_retried(visit: Visit, api: FakeApi, monitor: PageMonitor) -> None:
    monitor.errors_expected = True
    api.faults["/search"] = [Fault(500), Fault(500, body=b"<h1>Bad gateway</h1>")]
    page = visit("?q=luna")
    expect(page.get_by_role("alert")).to_contain_text("the index is being repaired")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_contain_text("The server answered with status 500.")
    page.get_by_role("button", name="Try again").click()
    expect_hits(page, 4)
    expect(page.locator("#notice")).to_be_hidden()


def test_a_busy_server_is_tried_again_after_the_time_it_named(visit: Visit, api: FakeApi, monitor: PageMonitor) -> None:
    monitor.errors_expected = True
    api.faults["/search"] = [Fault(429, headers={"Retry-After": "2"})]
    page = visit("?q=luna")
    expect(page.get_by_role("button", name=re.compile(r"Try again \([12] s\)"))).to_be_visible()
    expect_hits(page, 4)


def test_results_are_shown_even_if_explanations_fail(visit: Visit, api: FakeApi, monitor: PageMonitor) -> None:
    monitor.errors_expected = True
    api.faults["/explain"] = [Fault(500)] * 20
    page = visit("?q=luna&doc=en:moon")
    expect_hits(page, 4)
    expect(page.locator("#document-panel .document-text")).to_contain_text("The moon lights")
    expect(page.locator("#notice")).to_be_hidden()


def test_a_lost_connection_is_reported_and_recovers(visit: Visit, api: FakeApi, monitor: PageMonitor) -> None:
    monitor.errors_expected = True
    page = visit("?q=luna")
    expect_hits(page, 4)
    page.context.set_offline(True)
    page.locator("#q").fill("pane")
    expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached.")
    page.context.set_offline(False)
    expect(page.locator(".hit h2").first).to_have_text("Bread")


def test_the_page_reconnects_to_a_restarted_server_without_a_click(visit: Visit, monitor: PageMonitor) -> None:
    monitor.errors_expected = True
    page = visit("?q=luna")
    expect_hits(page, 4)
    page.route("**/search?*", lambda route: route.abort())
    page.route("**/health", lambda route: route.abort())
    page.locator("#q").fill("pane")
    expect(page.get_by_role("alert")).to_contain_text("This page keeps trying.")
    page.unroute_all(behavior="ignoreErrors")
    expect(page.locator(".hit h2").first).to_have_text("Bread")
    expect(page.locator("#notice")).to_be_hidden()
    expect(page.locator("#q")).to_be_focused()


def test_a_page_that_cannot_load_says_so(visit: Visit, api: FakeApi, monitor: PageMonitor) -> None:
    monitor.errors_expected = True
    api.faults["/info"] = [Fault(503), Fault(503)]
    page = visit()
    expect(page.get_by_role("alert")).to_contain_text("the index is being repaired")
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#examples")).to_be_visible()
    expect(page.locator("#notice")).to_be_hidden()


def test_an_unknown_language_in_the_url_is_reported(visit: Visit, monitor: PageMonitor) -> None:
    monitor.errors_expected = True
    page = visit("?q=luna&lang=xx")
    expect(page.get_by_role("alert")).to_contain_text("the index has no language 'xx'; its languages are ar, da, en")
    page.get_by_role("button", name="Reset").click()
    expect_hits(page, 4)


def test_a_server_with_an_api_key_asks_for_it(visit: Visit, api: FakeApi, monitor: PageMonitor) -> None:
    monitor.errors_expected = True
    api.key = "opensesame"
    page = visit("?q=luna")
    page.get_by_label("API key").fill("wrong")
    page.get_by_role("button", name="Continue").click()
    expect(page.locator("#notice")).to_contain_text("The API key is wrong.")
    page.get_by_label("API key").fill("opensesame")
    page.keyboard.press("Enter")
    expect_hits(page, 4)
    assert "opensesame" not in page.url
    assert not any("opensesame" in path for path in api.requests)
