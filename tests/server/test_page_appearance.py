"""The search page: keyboard, colours, phones, right-to-left scripts and accessibility."""

import re

import pytest
from browsing import PHONE, PageMonitor, Visit, accessibility_barriers, expect_hits, hold_back, when_ready
from fake_api import FakeApi
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser


def test_everything_can_be_done_from_the_keyboard(visit: Visit) -> None:
    page = when_ready(visit())
    page.keyboard.type("cane")
    expect_hits(page, 6)
    page.keyboard.press("ArrowDown")
    expect(page.locator(".hit h2 a").first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".hit h2 a").nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#document-title")).to_be_focused()
    expect(page.locator("#document-title")).to_have_text("Cane")
    page.keyboard.press("Escape")
    expect(page.locator("#document-panel")).to_be_hidden()
    expect(page.locator(".hit h2 a").nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    expect(page.locator("#q")).to_have_value("cane")
    page.locator(".map-point").first.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".map-point").nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#document-title")).to_have_text("Cane")


BARE = """() => {
  const e = document.activeElement;
  const parts = [e, e.closest('.pill'), e.closest('.search')].filter(Boolean);
  const looks = parts.flatMap(part => [getComputedStyle(part), getComputedStyle(part, '::after')]);
  const elsewhere = e === document.body || e.closest('.map-point') || e.id === 'q';  // these change colour
  return elsewhere || looks.some(look => look.outlineStyle === 'solid') ? null : e.outerHTML;
}"""


def test_the_focused_element_is_visible(visit: Visit) -> None:
    page = visit("?q=cane")
    expect_hits(page, 6)
    page.keyboard.press("Tab")
    for _ in range(25):
        bare = page.evaluate(BARE)
        assert not bare
        page.keyboard.press("Tab")


def test_the_number_of_results_is_announced(visit: Visit) -> None:
    status = visit("?q=cane").get_by_role("status")
    expect(status).to_contain_text("6 documents in 6 languages")
    expect(status).to_have_attribute("aria-live", "polite")


def background(page: Page) -> int:
    """How bright the page is, 0 to 255."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return max(map(int, re.findall(r"\d+", colour)[:3]))


def test_colours_follow_the_system_and_a_choice_is_remembered(visit: Visit) -> None:
    page = visit("?q=cane", color_scheme="dark")
    assert background(page) < 60
    page.get_by_role("button", name="Theme: system").click()
    assert background(page) > 200
    page.reload()
    expect(page.get_by_role("button", name="Theme: light")).to_be_visible()
    assert background(page) > 200
    page.get_by_role("button", name="Theme: light").click()
    assert background(page) < 60


def test_the_chosen_colours_apply_before_anything_is_drawn(visit: Visit, api: FakeApi) -> None:
    page = visit(color_scheme="dark")
    page.get_by_role("button", name="Theme: system").click()
    hold_back(api, "/static/app.js")
    page.goto(api.url, wait_until="commit")
    page.wait_for_selector("main", state="attached")
    page.wait_for_function("document.styleSheets.length")
    assert background(page) > 200
    assert page.evaluate("document.querySelector('meta[name=color-scheme]').content") == "light"
    expect(page.locator("#examples")).to_be_hidden()  # the modules have not come yet


def test_print_shows_the_query_and_the_results_without_controls(visit: Visit) -> None:
    page = visit("?q=cane", color_scheme="dark")
    expect_hits(page, 6)
    page.emulate_media(media="print")
    assert background(page) > 200
    expect(page.locator("#q")).to_be_visible()
    expect(page.locator("body").get_by_role("button")).to_have_count(0)
    page.get_by_role("link", name="Dog", exact=True).click()
    expect(page.locator("#document-panel .document-text")).to_be_visible()
    expect(page.locator("#results")).to_be_hidden()


@pytest.mark.parametrize("path", ["", "?q=casa", "?q=casa&map=1", "?q=casa&doc=en:dog", "?q=storm", "?like=ar:dog"])
def test_nothing_is_wider_than_a_phone(visit: Visit, api: FakeApi, path: str) -> None:
    api.documents["en:dog"] = api.documents["en:dog"]._replace(title="Dog" * 60, text="dog" * 300 + " dog")
    page = visit(path, **PHONE)
    page.wait_for_selector("mark" if path else "#examples")
    assert page.evaluate("document.scrollingElement.scrollWidth") == 360
    for box in (page.locator("#q").bounding_box(), page.locator("main").bounding_box()):
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360


def test_on_a_phone_a_document_covers_the_page_and_disables_it(visit: Visit) -> None:
    page = visit("?q=cane", **PHONE)
    expect(page.locator("#map")).to_be_hidden()
    page.get_by_role("link", name="Dog", exact=True).tap()
    expect(page.locator("#document-title")).to_be_focused()
    assert page.evaluate("document.querySelector('#results').inert")
    box = page.locator("#document-panel").bounding_box()
    assert box == {"x": 0, "y": 0, "width": 360, "height": 740}
    page.get_by_role("button", name="Close the document").tap()
    expect(page.locator("#document-panel")).to_be_hidden()
    assert not page.evaluate("document.querySelector('#results').inert")


def test_right_to_left_scripts_run_from_right_to_left(visit: Visit) -> None:
    page = visit("?q=%D8%A7%D9%84%D8%A8%D9%8A%D8%AA")  # the house, in Arabic
    expect(page.locator("#lang option:checked")).to_contain_text("Arabic")
    direction = "e => getComputedStyle(e).direction"
    assert page.locator("#q").evaluate(direction) == "rtl"
    for title, way in {"הבית": "rtl", "الكلب": "rtl", "Dog": "ltr"}.items():
        hit = page.locator(".hit", has=page.locator("h2", has_text=title))
        assert hit.locator("h2").evaluate(direction) == way
        assert hit.locator(".snippet").evaluate(direction) == way
    page.locator("h2 a", has_text="שומר").click()
    expect(page.locator("#document-panel .document-text p")).to_have_css("direction", "rtl")


def test_nothing_is_animated_with_reduced_motion(visit: Visit, api: FakeApi) -> None:
    hold_back(api, "/search")
    page = visit("?q=cane", reduced_motion="reduce")
    page.wait_for_selector(".skeleton")
    assert page.evaluate("document.getAnimations().length") == 0


# Accessibility


@pytest.mark.parametrize("phone", [False, True], ids=["light desktop", "dark phone"])
@pytest.mark.parametrize(
    "path", ["", "?q=cane", "?q=cane&doc=en:dog", "?like=ar:dog&map=1&in=he,en", "?q=zzz", "?q=luna&lang=xx"]
)
def test_axe_finds_no_serious_accessibility_problem(visit: Visit, monitor: PageMonitor, path: str, phone: bool) -> None:
    monitor.errors_expected = True
    page = visit(path, reduced_motion="reduce", **({**PHONE, "color_scheme": "dark"} if phone else {}))
    page.wait_for_selector(
        "#notice:not([hidden])"
        if "zzz" in path or "xx" in path
        else "#document-panel .document-text mark"
        if "doc" in path
        else "mark"
        if path
        else "#examples"
    )
    assert accessibility_barriers(page) == []
