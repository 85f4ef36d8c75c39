"""The search page: responses that arrive late, or between press and release."""

import pytest
from browsing import (
    Visit,
    expect_hits,
    frozen_clock,
    hold_back,
    searches_for,
    url_state,
    wait_for_highlights,
    when_ready,
)
from fake_api import HOSTILE, FakeApi
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("path", "title"), [("/explain", "Moon"), ("/search", HOSTILE[0].title)], ids=["marks", "hits"]
)
def test_a_click_is_not_lost_when_a_response_arrives_between_press_and_release(
    visit: Visit, api: FakeApi, path: str, title: str
) -> None:
    page = visit("?q=storm")
    expect_hits(page, 4)
    wait_for_highlights(page)
    release = hold_back(api, path)
    with page.expect_request(lambda request: path in request.url and "luna" in request.url):
        page.locator("#q").fill("luna")
    link = page.locator(".hit h2 a").first
    expect(link).to_have_text(title)
    link.hover()
    with frozen_clock(page):
        page.mouse.down()
        with page.expect_response(lambda response: path in response.url and "luna" in response.url):
            release.set()
        page.wait_for_timeout(150)
        page.mouse.up()
    expect(page.locator("#document-title")).to_have_text(title)
    expect(page.locator(".hit h2").first).to_have_text("Moon")
    expect(page.locator(".hit mark").first).to_be_visible()


def test_a_click_is_not_lost_when_a_search_begins_between_press_and_release(visit: Visit) -> None:
    page = visit("?q=casa")
    expect_hits(page, 10)
    page.get_by_role("button", name="Danish 3").hover()
    with frozen_clock(page):
        page.mouse.down()
        page.evaluate("q.value = 'cane'; q.dispatchEvent(new Event('input'))")
        page.clock.run_for(400)
        page.mouse.up()
    expect_hits(page, 1)
    assert url_state(page) == {"q": "cane", "in": "da"}


def test_a_press_that_is_never_released_does_not_block_the_page_for_long(visit: Visit, api: FakeApi) -> None:
    release = hold_back(api, "/explain")
    page = visit("?q=luna")
    page.locator(".hit").first.hover()
    page.mouse.down()
    release.set()
    expect(page.locator(".hit mark").first).to_be_visible()


def test_clearing_the_query_ends_the_progress_display(visit: Visit, api: FakeApi) -> None:
    hold_back(api, "/search")
    page = when_ready(visit())
    page.keyboard.insert_text("luna")
    expect(page.locator("#progress")).to_be_visible()
    page.get_by_role("button", name="Clear the search").click()
    expect(page.locator("#examples")).to_be_visible()
    expect(page.locator("#progress")).to_be_hidden()
    expect(page.locator("#hits")).to_have_attribute("aria-busy", "false")


def test_a_document_is_not_explained_with_the_previous_result(visit: Visit, api: FakeApi) -> None:
    page = visit("?q=storm")
    expect(page.locator("#lang option:checked")).to_contain_text("English")
    release = hold_back(api, "/search")
    with page.expect_request(lambda request: searches_for(request.url, "luna")):
        page.locator("#q").fill("luna")
    page.get_by_role("link", name="storm", exact=True).click()
    expect(page.locator("#document-panel .document-text")).to_be_visible()
    page.wait_for_timeout(150)
    release.set()
    expect(page.locator("#document-panel .query-text .label")).to_have_text("Your query, in Italian")
    assert not any(path.startswith("/explain?q=luna&lang=en") for path in api.requests)


def test_a_document_that_arrives_late_does_not_take_the_focus_from_the_field(visit: Visit, api: FakeApi) -> None:
    release = hold_back(api, "/documents/en%3Adog")
    page = visit("?q=cane")
    page.get_by_role("link", name="Dog", exact=True).click()
    expect(page.locator("#document-title")).to_have_text("Opening…")
    page.locator("#q").focus()
    release.set()
    expect(page.locator("#document-title")).to_have_text("Dog")
    expect(page.locator("#q")).to_be_focused()


def test_more_hits_that_arrive_late_do_not_take_the_focus_from_the_field(visit: Visit, api: FakeApi) -> None:
    page = visit("?q=casa")
    expect_hits(page, 10)
    release = hold_back(api, "/search")
    page.get_by_role("button", name="Show more").click()
    page.locator("#q").focus()
    release.set()
    expect_hits(page, 14)
    page.wait_for_timeout(150)
    expect(page.locator("#q")).to_be_focused()


def test_a_page_that_loads_slowly_leaves_the_focus_where_it_is(visit: Visit, api: FakeApi) -> None:
    release = hold_back(api, "/info")
    page = when_ready(visit())
    page.locator("#theme").focus()
    release.set()
    expect(page.locator("#examples")).to_be_visible()
    expect(page.locator("#theme")).to_be_focused()


def test_hits_keep_the_focus_when_they_are_drawn_again(visit: Visit, api: FakeApi) -> None:
    release = hold_back(api, "/info")
    page = when_ready(visit())
    page.keyboard.type("cane")
    expect_hits(page, 6)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".hit h2 a").nth(1)).to_be_focused()
    release.set()
    expect(page.locator(".hit .language-marker[data-shape='2']")).to_have_count(0)  # languages have got their colours
    expect(page.locator(".hit h2 a").nth(1)).to_be_focused()
    with page.expect_response(lambda response: "/search?" in response.url):
        page.evaluate("q.value = 'luna'; q.dispatchEvent(new Event('input'))")
    expect(page.locator(".hit h2 a").first).to_have_text("Moon")
    expect(page.locator(".hit h2 a").first).to_be_focused()


def test_an_open_select_list_is_not_replaced_by_a_result(visit: Visit) -> None:
    page = visit("?q=storm")
    expect(page.locator("#lang option:checked")).to_contain_text("English")
    page.evaluate("for (const option of document.querySelectorAll('option')) option.dataset.kept = ''")
    page.locator("#q").fill("luna")
    expect(page.locator("#lang option:checked")).to_contain_text("Italian")
    expect(page.locator("option:not([data-kept])")).to_have_count(0)


def test_closing_a_document_twice_goes_back_once(visit: Visit) -> None:
    page = visit("?q=luna")
    page.locator("#q").fill("cane")
    page.get_by_role("link", name="Dog", exact=True).click()
    expect(page.locator("#document-panel .document-text mark").first).to_be_visible()
    page.evaluate("const key = {key: 'Escape', bubbles: true};"
                  "for (const _ of [1, 2]) document.body.dispatchEvent(new KeyboardEvent('keydown', key))")  # fmt: skip
    expect(page.locator("#document-panel")).to_be_hidden()
    page.wait_for_timeout(150)
    assert url_state(page) == {"q": "cane"}


def test_enter_while_typing_adds_no_entry_to_the_history(visit: Visit) -> None:
    page = when_ready(visit())
    with page.expect_response(lambda response: searches_for(response.url, "lun")):
        page.keyboard.insert_text("lun")
    page.keyboard.insert_text("a")
    page.keyboard.press("Enter")
    expect_hits(page, 4)
    page.go_back()
    expect(page.locator("#examples")).to_be_visible()
