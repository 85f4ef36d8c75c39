"""The search page, in a real browser."""

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from fake_api import DOCUMENTS, HOSTILE, STATIC, Entry, FakeApi, Fault

sync = pytest.importorskip("playwright.sync_api", reason="no Playwright; install it with: pip install 'cr5[dev]'")
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="no axe; install it with: pip install 'cr5[dev]'"
)

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect  # noqa: E402

# However busy the machine: what is waited for comes, and what comes early is not waited for.
PATIENCE = 30_000  # milliseconds
expect.set_options(timeout=PATIENCE)

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium: that of the system, or Playwright's own."""
    with sync.sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
        found = next(filter(None, map(shutil.which, BROWSERS)), str(own) if own.exists() else None)
        if found is None:
            pytest.skip("no Chromium here; install it with: apt-get install chromium, or playwright install chromium")
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A server of made-up documents."""
    with FakeApi([*DOCUMENTS, *HOSTILE]) as server:
        yield server


@dataclass
class Witness:
    """What must not happen while pages are open: errors in the console, requests elsewhere, foreign code."""

    errors: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    failures: bool = False  # whether answers that failed are meant to be there

    def attend(self, page: Page, home: str) -> None:
        def message(said: ConsoleMessage) -> None:
            wanted = self.failures and said.text.startswith("Failed to load resource")
            if said.type in ("error", "warning") and not wanted:
                self.errors.append(said.text)

        def request(asked: Request) -> None:
            if not asked.url.startswith((home, "data:")):
                self.elsewhere.append(asked.url)

        page.on("console", message)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", request)


@pytest.fixture
def witness() -> Witness:
    return Witness()


Open = Callable[..., Page]


@pytest.fixture
def visit(browser: Browser, api: FakeApi, witness: Witness) -> Iterator[Open]:
    """Open the page at a query string, with settings of the browser's context."""
    contexts = []

    def opened(path: str = "", **settings: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **settings})
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        witness.attend(page, api.url)
        page.goto(api.url + path)
        return page

    yield opened
    for context in contexts:
        for page in context.pages:
            if not page.is_closed():
                assert page.evaluate("window.pwned") is None
        context.close()
    assert witness.errors == []
    assert witness.elsewhere == []


PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


def titles(page: Page) -> list[str]:
    return page.locator(".hit h2").all_inner_texts()


def given(page: Page) -> dict[str, str]:
    """The state in the address."""
    return {name: values[0] for name, values in parse_qs(page.evaluate("location.search.slice(1)")).items()}


def shown(page: Page, count: int) -> None:
    expect(page.locator(".hit")).to_have_count(count)


def begun(page: Page) -> Page:
    """The page, once it takes what is typed: a browser gives the focus a moment after all has been loaded."""
    expect(page.locator("#q")).to_be_focused()
    return page


def explained(page: Page) -> None:
    """Wait until every hit in sight has its marks, so that nothing moves any more."""
    page.wait_for_function(
        """() => [...document.querySelectorAll('.hit')].every(
            hit => hit.getBoundingClientRect().top > innerHeight || !hit.querySelector('.pairs'))"""
    )


def late(api: FakeApi, path: str) -> threading.Event:
    """Hold back answers of the server until the event is set."""
    gate = threading.Event()
    api.faults[path] = [Fault(status=200, until=gate)] * 20
    return gate


@contextmanager
def timeless(page: Page) -> Iterator[None]:
    """Timers of the page stand still, unless they are wound: however busy the machine, a press is not too long."""
    page.clock.install(time=0)
    page.clock.pause_at(10)
    yield
    page.clock.resume()


# Asking


def test_typing_finds_documents_of_all_languages(visit: Open) -> None:
    page = begun(visit())
    page.keyboard.type("cane")
    expect(page.locator("#status")).to_contain_text("6 documents in 6 languages")
    assert set(titles(page)) == {"Dog", "Cane", "Hund", "Chó", "الكلب", "狗"}
    assert given(page) == {"q": "cane"}
    assert page.title() == "cane – cr5"


def test_what_is_typed_before_the_page_has_begun_is_not_lost(visit: Open, api: FakeApi) -> None:
    gate = late(api, "/info")
    page = begun(visit())
    with page.expect_response(lambda answer: answer.url.endswith("/search?q=can&k=10")):
        page.keyboard.type("can")
    page.keyboard.type("e")
    gate.set()
    shown(page, 6)
    expect(page.locator("#filters button").first).to_be_visible()
    expect(page.locator("#q")).to_have_value("cane")


def test_the_start_page_tells_what_is_there_and_offers_examples(visit: Open) -> None:
    page = visit()
    expect(page.locator("#intro")).to_contain_text("18 documents in 8 languages")
    page.locator("#examples a", has_text="Cane").click()
    expect(page.locator("#q")).to_have_value("Cane")
    shown(page, 6)


def test_a_query_without_a_letter_or_digit_asks_nothing(visit: Open, api: FakeApi) -> None:
    page = visit("?q=%3F%21")
    expect(page.locator("#examples")).to_be_visible()
    for text in ["  ", "?!", "\U0001f415"]:
        page.locator("#q").fill(text)
        page.keyboard.press("Enter")
        page.wait_for_timeout(300)
        expect(page.locator("#examples")).to_be_visible()
        expect(page.locator("#q")).to_have_value(text)
    assert not any(path.startswith("/search") for path in api.requests)
    page.locator("#q").fill("cane ?")
    shown(page, 6)
    page.locator("#q").fill("…")
    expect(page.locator("#examples")).to_be_visible()
    expect(page.locator("#q")).to_have_value("…")
    assert given(page) == {}


def test_the_guessed_language_is_shown_and_can_be_changed(visit: Open, api: FakeApi) -> None:
    page = visit("?q=cane")
    expect(page.locator("#lang option:checked")).to_have_text("Italian, 98\u00a0%")
    page.get_by_label("Language of the query").select_option("da")
    expect(page.locator("#notice")).to_contain_text("None of these words is known in Danish.")
    assert given(page) == {"q": "cane", "lang": "da"}
    page.go_back()
    shown(page, 6)
    expect(page.locator("#lang option:checked")).to_have_text("Italian, 98\u00a0%")


def test_filters_show_counts_and_narrow_the_results(visit: Open) -> None:
    page = visit("?q=casa")
    danish = page.get_by_role("button", name="Danish 3")
    danish.click()
    expect(danish).to_have_attribute("aria-pressed", "true")
    shown(page, 3)
    page.get_by_role("button", name="Vietnamese 2").click()
    shown(page, 5)
    assert given(page) == {"q": "casa", "in": "da,vi"}
    page.get_by_role("button", name="All languages").click()
    shown(page, 10)
    page.go_back()
    shown(page, 5)


def test_many_languages_are_folded(visit: Open, api: FakeApi) -> None:
    for number, lang in enumerate(["cs", "de", "el", "es", "fi", "fr", "hu", "nl", "pl", "pt", "ro", "sv", "tr", "uk"]):
        api.documents |= {f"{lang}:{i}": Entry(f"{lang}:{i}", lang, lang, lang) for i in range(number + 1)}
    page = visit("?q=casa&in=zh")
    expect(page.locator("#filters [data-filter]")).to_have_count(11)  # all, the nine largest, the one that is on
    page.get_by_role("button", name="12 more").click()
    expect(page.locator("#filters [data-filter]")).to_have_count(23)
    expect(page.locator("#filters")).to_contain_text("Ukrainian 14")


def test_more_hits_come_on_request_and_the_first_new_one_has_the_focus(visit: Open) -> None:
    page = visit("?q=casa")
    shown(page, 10)
    page.get_by_role("button", name="Show more").click()
    shown(page, 14)
    expect(page.locator(".hit h2 a").nth(10)).to_be_focused()
    expect(page.locator("#more")).to_be_hidden()


def test_the_ranking_can_be_chosen(visit: Open) -> None:
    page = visit("?q=casa")
    with page.expect_response(lambda answer: "/search?" in answer.url and "measure=cosine" in answer.url):
        page.get_by_label("Ranking").select_option("cosine")
    page.wait_for_url("**measure=cosine")
    expect(page.locator("#status")).to_contain_text("10 documents")


def test_a_long_document_shows_the_passage_that_matched(visit: Open, api: FakeApi) -> None:
    api.documents["en:tale"] = Entry("en:tale", "en", "Tale", 60 * "Nobody was there. " + "Then a dog came.")
    tale = visit("?q=cane&in=en").locator(".hit", has_text="Tale")
    expect(tale.locator(".snippet mark")).to_have_text(["dog"])
    expect(tale.locator(".snippet")).to_contain_text("Then a dog came.")


def test_words_that_matched_across_languages_are_marked_in_query_and_results(visit: Open) -> None:
    page = visit("?q=cane+verde")
    dog = page.locator(".hit", has=page.get_by_role("link", name="Dog", exact=True))
    expect(dog.locator(".snippet mark")).to_have_text(["dog", "dogs"])
    expect(page.locator("#query-highlights mark")).to_have_text(["cane"])
    explained(page)
    dog.locator(".snippet mark").first.hover()
    expect(page.locator("#tooltip")).to_have_text("cane ~ dog +0.12")
    box = page.evaluate("document.querySelector('#query-highlights mark').getBoundingClientRect().toJSON()")
    page.mouse.move(box["x"] + 4, box["y"] + box["height"] / 2)
    expect(page.locator("#tooltip")).to_contain_text("cane ~ ")


def test_marks_lie_exactly_under_the_words_of_the_field(visit: Open) -> None:
    page = visit("?q=" + "il+cane+fa+la+guardia+" * 12)
    page.wait_for_selector("#query-highlights mark")
    sizes = page.evaluate(
        "[document.getElementById('query-highlights'), q].map(e => [e.clientWidth, e.scrollHeight, getComputedStyle(e).font])"
    )
    assert sizes[0] == sizes[1]


def test_only_visible_hits_are_explained(visit: Open, api: FakeApi) -> None:
    page = visit("?q=casa", viewport={"width": 1280, "height": 420})
    page.wait_for_selector(".hit mark")
    page.wait_for_timeout(300)
    assert 0 < sum(path.startswith("/explain") for path in api.requests) < 8
    page.locator(".hit").last.scroll_into_view_if_needed()
    expect(page.locator(".hit").last.locator("mark").first).to_be_visible()


def test_words_of_languages_without_spaces_are_marked(visit: Open) -> None:
    page = visit("?q=cane&in=zh")
    expect(page.locator(".snippet mark")).to_have_text(["狗"])


# Documents


def test_a_document_opens_beside_the_query_and_back_closes_it(visit: Open) -> None:
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
    assert given(page) == {"q": "cane", "doc": "en:dog"}
    shown(page, 6)
    page.go_back()
    expect(page.locator("#document-panel")).to_be_hidden()
    page.go_forward()
    expect(page.locator("#document-panel h2")).to_have_text("Dog")


def test_a_click_anywhere_in_a_hit_opens_it(visit: Open) -> None:
    page = visit("?q=cane")
    hund = page.locator(".hit", has=page.get_by_role("link", name="Hund", exact=True))
    hund.locator(".snippet mark").first.click()
    expect(page.locator("#document-panel h2")).to_have_text("Hund")
    page.locator(".hit", has=page.get_by_role("link", name="Dog", exact=True)).click(position={"x": 250, "y": 14})
    expect(page.locator("#document-panel h2")).to_have_text("Dog")
    page.keyboard.press("Escape")
    expect(page.locator("#document-panel")).to_be_hidden()
    assert given(page) == {"q": "cane"}


def test_more_like_this_searches_by_the_document(visit: Open) -> None:
    page = visit("?q=cane&doc=it:dog")
    page.locator("#document-panel").get_by_role("link", name="More like this").click()
    expect(page.locator("#similar-to")).to_contain_text("Similar to Cane")
    expect(page.locator("#status")).to_contain_text("10 documents")
    assert "Cane" not in titles(page)
    assert given(page) == {"like": "it:dog"}
    page.get_by_role("link", name="Hund", exact=True).click()
    expect(page.locator("#document-panel .query-text")).to_contain_text("Il cane fa la guardia")
    page.go_back()
    page.go_back()
    expect(page.locator("#q")).to_have_value("cane")
    expect(page.locator("#document-panel h2")).to_have_text("Cane")


def test_back_goes_through_searches_and_not_through_letters(visit: Open) -> None:
    page = begun(visit())
    page.keyboard.type("luna", delay=260)
    page.keyboard.press("Enter")
    shown(page, 4)
    page.locator("#q").fill("pane")
    expect(page.locator(".hit h2").first).to_have_text("Bread")
    page.go_back()
    expect(page.locator("#q")).to_have_value("luna")
    expect(page.locator(".hit h2").first).to_have_text("Moon")
    page.go_back()
    expect(page.locator("#examples")).to_be_visible()
    expect(page.locator("#q")).to_have_value("")


def test_an_address_carries_the_whole_state(visit: Open) -> None:
    page = visit("?q=casa&lang=it&in=da,en&k=20&measure=cosine&doc=en:moon&map=0")
    shown(page, 6)
    expect(page.locator("#q")).to_have_value("casa")
    expect(page.locator("#lang")).to_have_value("it")
    expect(page.locator("#measure")).to_have_value("cosine")
    expect(page.locator("#document-panel h2")).to_have_text("Moon")
    pressed = page.locator("#filters [aria-pressed=true]")
    expect(pressed).to_have_text([re.compile("English"), re.compile("Danish")])
    expect(page.locator("#map")).to_be_hidden()


def test_the_address_can_be_copied(visit: Open) -> None:
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


def test_a_document_that_is_gone_says_so(visit: Open, witness: Witness) -> None:
    witness.failures = True
    page = visit("?q=cane&doc=en:gone")
    expect(page.locator("#document-panel h2")).to_have_text("This document is gone.")
    page.get_by_role("button", name="Close the document").click()
    expect(page.locator("#document-panel")).to_be_hidden()
    shown(page, 6)


def test_more_like_a_document_that_is_gone_says_so(visit: Open, witness: Witness) -> None:
    witness.failures = True
    page = visit("?like=en:gone")
    expect(page.locator("#notice")).to_contain_text("This document is gone.")
    expect(page.locator("#similar-to")).to_be_hidden()
    page.get_by_role("button", name="Start again").click()
    expect(page.locator("#examples")).to_be_visible()


# The map


def test_the_map_shows_every_hit_with_its_title_and_opens_it(visit: Open) -> None:
    page = visit("?q=cane")
    expect(page.locator(".map-point")).to_have_count(6)
    spot = page.get_by_role("button", name="Hund, Danish")
    spot.hover()
    expect(page.locator("#tooltip")).to_contain_text("Hund\nDanish", use_inner_text=True)
    expect(page.locator(".hit.active h2")).to_have_text("Hund")
    spot.click()
    expect(page.locator("#document-panel h2")).to_have_text("Hund")


def test_points_of_the_map_never_cover_each_other(visit: Open, api: FakeApi) -> None:
    same = [Entry(f"en:{n}", "en", f"Dog {n}", "dog") for n in range(60)]
    api.documents = {entry.id: entry for entry in same}
    page = visit("?q=dog&k=100")
    expect(page.locator(".map-point")).to_have_count(60)
    places = page.evaluate(
        "[...document.querySelectorAll('.map-point .hit-area')].map(e => [+e.getAttribute('cx'), +e.getAttribute('cy')])"
    )
    gaps = [abs(complex(*a) - complex(*b)) for i, a in enumerate(places) for b in places[:i]]
    assert min(gaps) > 9


def test_the_map_can_be_switched_off_and_that_is_in_the_address(visit: Open) -> None:
    page = visit("?q=cane")
    toggle = page.get_by_role("button", name="Map", exact=True)
    expect(page.locator("#map")).to_be_visible()
    toggle.click()
    expect(page.locator("#map")).to_be_hidden()
    assert given(page) == {"q": "cane", "map": "0"}
    page.go_back()
    expect(page.locator("#map")).to_be_visible()


# Hands and eyes


def test_everything_can_be_done_from_the_keyboard(visit: Open) -> None:
    page = begun(visit())
    page.keyboard.type("cane")
    shown(page, 6)
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


def test_what_has_the_focus_is_seen(visit: Open) -> None:
    page = visit("?q=cane")
    shown(page, 6)
    page.keyboard.press("Tab")
    for _ in range(25):
        bare = page.evaluate(BARE)
        assert not bare
        page.keyboard.press("Tab")


def test_the_number_of_results_is_announced(visit: Open) -> None:
    status = visit("?q=cane").get_by_role("status")
    expect(status).to_contain_text("6 documents in 6 languages")
    expect(status).to_have_attribute("aria-live", "polite")


def background(page: Page) -> int:
    """How bright the page is, 0 to 255."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return max(map(int, re.findall(r"\d+", colour)[:3]))


def test_colours_follow_the_system_and_can_be_changed_for_good(visit: Open) -> None:
    page = visit("?q=cane", color_scheme="dark")
    assert background(page) < 60
    page.get_by_role("button", name="Colours: same as system").click()
    assert background(page) > 200
    page.reload()
    expect(page.get_by_role("button", name="Colours: light")).to_be_visible()
    assert background(page) > 200
    page.get_by_role("button", name="Colours: light").click()
    assert background(page) < 60


def test_the_chosen_colours_are_there_before_anything_is_drawn(visit: Open, api: FakeApi) -> None:
    page = visit(color_scheme="dark")
    page.get_by_role("button", name="Colours: same as system").click()
    late(api, "/static/app.js")
    page.goto(api.url, wait_until="commit")
    page.wait_for_selector("main", state="attached")
    page.wait_for_function("document.styleSheets.length")
    assert background(page) > 200
    assert page.evaluate("document.querySelector('meta[name=color-scheme]').content") == "light"
    expect(page.locator("#examples")).to_be_hidden()  # the modules have not come yet


def test_paper_shows_what_was_asked_and_found_and_nothing_to_press(visit: Open) -> None:
    page = visit("?q=cane", color_scheme="dark")
    shown(page, 6)
    page.emulate_media(media="print")
    assert background(page) > 200
    expect(page.locator("#q")).to_be_visible()
    expect(page.locator("body").get_by_role("button")).to_have_count(0)
    page.get_by_role("link", name="Dog", exact=True).click()
    expect(page.locator("#document-panel .document-text")).to_be_visible()
    expect(page.locator("#results")).to_be_hidden()


@pytest.mark.parametrize("path", ["", "?q=casa", "?q=casa&map=1", "?q=casa&doc=en:dog", "?q=storm", "?like=ar:dog"])
def test_nothing_is_wider_than_a_phone(visit: Open, api: FakeApi, path: str) -> None:
    api.documents["en:dog"] = api.documents["en:dog"]._replace(title="Dog" * 60, text="dog" * 300 + " dog")
    page = visit(path, **PHONE)
    page.wait_for_selector("mark" if path else "#examples")
    assert page.evaluate("document.scrollingElement.scrollWidth") == 360
    for box in (page.locator("#q").bounding_box(), page.locator("main").bounding_box()):
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360


def test_on_a_phone_a_document_covers_the_page_which_cannot_be_reached_behind_it(visit: Open) -> None:
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


def test_scripts_from_right_to_left_run_from_right_to_left(visit: Open) -> None:
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


def test_nothing_moves_for_those_who_asked_for_that(visit: Open, api: FakeApi) -> None:
    late(api, "/search")
    page = visit("?q=cane", reduced_motion="reduce")
    page.wait_for_selector(".skeleton")
    assert page.evaluate("document.getAnimations().length") == 0


# What is slow


@pytest.mark.parametrize(
    ("path", "title"), [("/explain", "Moon"), ("/search", HOSTILE[0].title)], ids=["marks", "hits"]
)
def test_a_click_counts_though_an_answer_comes_between_press_and_release(
    visit: Open, api: FakeApi, path: str, title: str
) -> None:
    page = visit("?q=storm")
    shown(page, 4)
    explained(page)
    gate = late(api, path)
    with page.expect_request(lambda asked: path in asked.url and "luna" in asked.url):
        page.locator("#q").fill("luna")
    link = page.locator(".hit h2 a").first
    expect(link).to_have_text(title)
    link.hover()
    with timeless(page):
        page.mouse.down()
        with page.expect_response(lambda answer: path in answer.url and "luna" in answer.url):
            gate.set()
        page.wait_for_timeout(150)
        page.mouse.up()
    expect(page.locator("#document-title")).to_have_text(title)
    expect(page.locator(".hit h2").first).to_have_text("Moon")
    expect(page.locator(".hit mark").first).to_be_visible()


def test_a_click_counts_though_what_was_typed_is_asked_between_press_and_release(visit: Open) -> None:
    page = visit("?q=casa")
    shown(page, 10)
    page.get_by_role("button", name="Danish 3").hover()
    with timeless(page):
        page.mouse.down()
        page.evaluate("q.value = 'cane'; q.dispatchEvent(new Event('input'))")
        page.clock.run_for(400)
        page.mouse.up()
    shown(page, 1)
    assert given(page) == {"q": "cane", "in": "da"}


def test_a_press_that_is_never_released_holds_nothing_up_for_long(visit: Open, api: FakeApi) -> None:
    gate = late(api, "/explain")
    page = visit("?q=luna")
    page.locator(".hit").first.hover()
    page.mouse.down()
    gate.set()
    expect(page.locator(".hit mark").first).to_be_visible()


def test_nothing_is_waited_for_once_nothing_is_asked(visit: Open, api: FakeApi) -> None:
    late(api, "/search")
    page = begun(visit())
    page.keyboard.insert_text("luna")
    expect(page.locator("#progress")).to_be_visible()
    page.get_by_role("button", name="Clear the search").click()
    expect(page.locator("#examples")).to_be_visible()
    expect(page.locator("#progress")).to_be_hidden()
    expect(page.locator("#hits")).to_have_attribute("aria-busy", "false")


def test_a_document_is_not_explained_by_the_answer_before(visit: Open, api: FakeApi) -> None:
    page = visit("?q=storm")
    expect(page.locator("#lang option:checked")).to_contain_text("English")
    gate = late(api, "/search")
    with page.expect_request(lambda asked: asked.url.endswith("/search?q=luna&k=10")):
        page.locator("#q").fill("luna")
    page.get_by_role("link", name="storm", exact=True).click()
    expect(page.locator("#document-panel .document-text")).to_be_visible()
    page.wait_for_timeout(150)
    gate.set()
    expect(page.locator("#document-panel .query-text .label")).to_have_text("Your query, in Italian")
    assert not any(path.startswith("/explain?q=luna&lang=en") for path in api.requests)


def test_a_document_that_comes_late_does_not_take_the_focus_from_the_field(visit: Open, api: FakeApi) -> None:
    gate = late(api, "/documents/en%3Adog")
    page = visit("?q=cane")
    page.get_by_role("link", name="Dog", exact=True).click()
    expect(page.locator("#document-title")).to_have_text("Opening…")
    page.locator("#q").focus()
    gate.set()
    expect(page.locator("#document-title")).to_have_text("Dog")
    expect(page.locator("#q")).to_be_focused()


def test_more_hits_that_come_late_do_not_take_the_focus_from_the_field(visit: Open, api: FakeApi) -> None:
    page = visit("?q=casa")
    shown(page, 10)
    gate = late(api, "/search")
    page.get_by_role("button", name="Show more").click()
    page.locator("#q").focus()
    gate.set()
    shown(page, 14)
    page.wait_for_timeout(150)
    expect(page.locator("#q")).to_be_focused()


def test_a_page_that_begins_late_leaves_the_focus_where_it_is(visit: Open, api: FakeApi) -> None:
    gate = late(api, "/info")
    page = begun(visit())
    page.locator("#theme").focus()
    gate.set()
    expect(page.locator("#examples")).to_be_visible()
    expect(page.locator("#theme")).to_be_focused()


def test_hits_that_are_drawn_anew_keep_the_focus(visit: Open, api: FakeApi) -> None:
    gate = late(api, "/info")
    page = begun(visit())
    page.keyboard.type("cane")
    shown(page, 6)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".hit h2 a").nth(1)).to_be_focused()
    gate.set()
    expect(page.locator(".hit .language-marker[data-shape='2']")).to_have_count(0)  # languages have got their colours
    expect(page.locator(".hit h2 a").nth(1)).to_be_focused()
    with page.expect_response(lambda answer: "/search?" in answer.url):
        page.evaluate("q.value = 'luna'; q.dispatchEvent(new Event('input'))")
    expect(page.locator(".hit h2 a").first).to_have_text("Moon")
    expect(page.locator(".hit h2 a").first).to_be_focused()


def test_a_list_that_is_unfolded_is_not_replaced_by_an_answer(visit: Open) -> None:
    page = visit("?q=storm")
    expect(page.locator("#lang option:checked")).to_contain_text("English")
    page.evaluate("for (const option of document.querySelectorAll('option')) option.dataset.kept = ''")
    page.locator("#q").fill("luna")
    expect(page.locator("#lang option:checked")).to_contain_text("Italian")
    expect(page.locator("option:not([data-kept])")).to_have_count(0)


def test_closing_a_document_twice_goes_back_once(visit: Open) -> None:
    page = visit("?q=luna")
    page.locator("#q").fill("cane")
    page.get_by_role("link", name="Dog", exact=True).click()
    expect(page.locator("#document-panel .document-text mark").first).to_be_visible()
    page.evaluate("const key = {key: 'Escape', bubbles: true};"
                  "for (const _ of [1, 2]) document.body.dispatchEvent(new KeyboardEvent('keydown', key))")  # fmt: skip
    expect(page.locator("#document-panel")).to_be_hidden()
    page.wait_for_timeout(150)
    assert given(page) == {"q": "cane"}


def test_enter_before_the_last_letters_are_asked_is_no_step_of_its_own(visit: Open) -> None:
    page = begun(visit())
    with page.expect_response(lambda answer: answer.url.endswith("/search?q=lun&k=10")):
        page.keyboard.insert_text("lun")
    page.keyboard.insert_text("a")
    page.keyboard.press("Enter")
    shown(page, 4)
    page.go_back()
    expect(page.locator("#examples")).to_be_visible()


# What goes wrong


def test_waiting_is_shown_and_a_later_answer_never_replaces_a_newer_one(visit: Open, api: FakeApi) -> None:
    gate = threading.Event()
    api.faults["/search"] = [Fault(status=200, until=gate)]
    page = visit("?q=luna")
    expect(page.locator("#status")).to_have_text("Searching…")
    expect(page.locator(".skeleton").first).to_be_visible()
    expect(page.locator("#hits")).to_have_attribute("aria-busy", "true")
    page.locator("#q").fill("pane")
    expect(page.locator(".hit h2").first).to_have_text("Bread")
    gate.set()
    page.wait_for_timeout(300)
    expect(page.locator(".hit h2").first).to_have_text("Bread")
    expect(page.locator("#hits")).to_have_attribute("aria-busy", "false")


def test_nothing_found_says_why(visit: Open) -> None:
    page = visit("?q=luna&in=zh")
    expect(page.locator("#notice")).to_contain_text("Nothing found in Chinese.")
    page.get_by_role("button", name="Search all languages").click()
    shown(page, 4)
    page.locator("#q").fill("zzz")
    expect(page.locator("#notice")).to_contain_text("None of these words is known in English.")


def test_a_failing_server_is_told_in_its_words_and_can_be_asked_again(
    visit: Open, api: FakeApi, witness: Witness
) -> None:
    witness.failures = True
    api.faults["/search"] = [Fault(500), Fault(500, body=b"<h1>Bad gateway</h1>")]
    page = visit("?q=luna")
    expect(page.get_by_role("alert")).to_contain_text("the index is being repaired")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_contain_text("The server answered with status 500.")
    page.get_by_role("button", name="Try again").click()
    shown(page, 4)
    expect(page.locator("#notice")).to_be_hidden()


def test_a_busy_server_is_asked_again_when_it_said(visit: Open, api: FakeApi, witness: Witness) -> None:
    witness.failures = True
    api.faults["/search"] = [Fault(429, headers={"Retry-After": "2"})]
    page = visit("?q=luna")
    expect(page.get_by_role("button", name=re.compile(r"Try again \([12] s\)"))).to_be_visible()
    shown(page, 4)


def test_results_stand_without_their_explanation(visit: Open, api: FakeApi, witness: Witness) -> None:
    witness.failures = True
    api.faults["/explain"] = [Fault(500)] * 20
    page = visit("?q=luna&doc=en:moon")
    shown(page, 4)
    expect(page.locator("#document-panel .document-text")).to_contain_text("The moon lights")
    expect(page.locator("#notice")).to_be_hidden()


def test_a_lost_connection_is_told_and_recovers(visit: Open, api: FakeApi, witness: Witness) -> None:
    witness.failures = True
    page = visit("?q=luna")
    shown(page, 4)
    page.context.set_offline(True)
    page.locator("#q").fill("pane")
    expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached.")
    page.context.set_offline(False)
    expect(page.locator(".hit h2").first).to_have_text("Bread")


def test_a_server_that_is_started_again_is_found_without_a_click(visit: Open, witness: Witness) -> None:
    witness.failures = True
    page = visit("?q=luna")
    shown(page, 4)
    page.route("**/search?*", lambda route: route.abort())
    page.route("**/health", lambda route: route.abort())
    page.locator("#q").fill("pane")
    expect(page.get_by_role("alert")).to_contain_text("This page keeps trying.")
    page.unroute_all(behavior="ignoreErrors")
    expect(page.locator(".hit h2").first).to_have_text("Bread")
    expect(page.locator("#notice")).to_be_hidden()
    expect(page.locator("#q")).to_be_focused()


def test_a_page_that_cannot_begin_says_so(visit: Open, api: FakeApi, witness: Witness) -> None:
    witness.failures = True
    api.faults["/info"] = [Fault(503), Fault(503)]
    page = visit()
    expect(page.get_by_role("alert")).to_contain_text("the index is being repaired")
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#examples")).to_be_visible()
    expect(page.locator("#notice")).to_be_hidden()


def test_an_unknown_language_in_the_address_is_explained(visit: Open, witness: Witness) -> None:
    witness.failures = True
    page = visit("?q=luna&lang=xx")
    expect(page.get_by_role("alert")).to_contain_text("the model has no language 'xx'; its languages are ar, da, en")
    page.get_by_role("button", name="Remove the filters").click()
    shown(page, 4)


def test_a_locked_server_asks_for_its_key(visit: Open, api: FakeApi, witness: Witness) -> None:
    witness.failures = True
    api.key = "opensesame"
    page = visit("?q=luna")
    page.get_by_label("Key").fill("wrong")
    page.get_by_role("button", name="Continue").click()
    expect(page.locator("#notice")).to_contain_text("The key is wrong.")
    page.get_by_label("Key").fill("opensesame")
    page.keyboard.press("Enter")
    shown(page, 4)
    assert "opensesame" not in page.url
    assert not any("opensesame" in path for path in api.requests)


# Malice


def test_documents_stay_text_whatever_they_hold(visit: Open) -> None:
    page = visit("?q=storm&k=100")
    shown(page, 4)
    page.wait_for_selector(".hit mark")
    assert "<img src=x onerror='window.pwned=1'> storm" in titles(page)
    assert page.locator("#hits :is(img, script, iframe, style, b)").count() == 0
    sources = page.get_by_role("link", name="Source").all()
    assert [link.get_attribute("href") for link in sources] == [
        "https://example.org/%22%3E%3Cscript%3Ewindow.pwned=1%3C/script%3E"
    ]
    for entry in HOSTILE:
        page.locator(".hit", has=page.get_by_role("link", name=entry.title, exact=True)).locator("h2 a").hover()
        page.get_by_role("link", name=entry.title, exact=True).first.click()
        expect(page.locator("#document-panel .document-text")).to_have_text(entry.text)
        page.wait_for_selector("#document-panel mark")
        assert page.locator("#document-panel :is(img, script, iframe, style, b, .document-text a)").count() == 0
        page.keyboard.press("Escape")
        expect(page.locator("#document-panel")).to_be_hidden()
    for spot in page.locator(".map-point").all():
        spot.hover()
        expect(page.locator("#tooltip")).to_be_visible()
    assert page.evaluate("window.pwned") is None


ATTACKS = [
    "<script>window.pwned=1</script>",
    '"><img src=x onerror=window.pwned=1>',
    "javascript:window.pwned=1",
    "${alert(1)}{{7*7}}",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_queries_stay_text_whatever_they_hold(visit: Open, attack: str) -> None:
    page = begun(visit())
    page.keyboard.insert_text(f"{attack} storm")
    shown(page, 4)
    page.wait_for_selector("#query-highlights mark")
    page.get_by_role("link", name="storm", exact=True).click()
    expect(page.locator(".query-text-body")).to_have_text(f"{attack} storm")
    expect(page.locator("h1")).to_have_text(f"Results for “{attack} storm”")
    assert page.evaluate("window.pwned") is None


@pytest.mark.parametrize("name", ["q", "like", "lang", "in", "k", "measure", "doc", "map"])
def test_the_address_is_never_code(visit: Open, witness: Witness, name: str) -> None:
    witness.failures = True
    page = visit(
        f"?q=storm&{name}=%22%3E%3Cimg%20src%3Dx%20onerror%3Dwindow.pwned%3D1%3E#<img src=x onerror=window.pwned=1>"
    )
    page.wait_for_selector(".hit, #notice:not([hidden])")
    page.wait_for_timeout(250)
    assert page.locator("img").count() == 0
    assert page.evaluate("window.pwned") is None


def test_the_page_holds_no_code_or_style_inline_and_makes_no_markup_from_strings() -> None:
    html = (STATIC / "index.html").read_text()
    script = "".join(path.read_text() for path in STATIC.glob("*.js"))
    assert re.findall(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", html) == []
    assert (
        re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser", script)
        == []
    )
    for path in STATIC.iterdir():
        addresses = set(re.findall(r"https?://[^\s'\"]+", path.read_text()))
        assert addresses <= {"http://www.w3.org/2000/svg"}, path.name


def test_every_script_is_part_of_the_page() -> None:
    needed, seen = re.findall(r'src="static/(.+?)"', (STATIC / "index.html").read_text()), set[str]()
    while needed:
        name = needed.pop()
        if name not in seen:
            seen.add(name)
            needed += re.findall(r'^import .*?"\./(.+?)";$', (STATIC / name).read_text(), re.MULTILINE)
    assert seen == {path.name for path in STATIC.glob("*.js")}


# Everyone


@pytest.mark.parametrize("phone", [False, True], ids=["light desktop", "dark phone"])
@pytest.mark.parametrize(
    "path", ["", "?q=cane", "?q=cane&doc=en:dog", "?like=ar:dog&map=1&in=he,en", "?q=zzz", "?q=luna&lang=xx"]
)
def test_axe_finds_no_serious_barrier(visit: Open, witness: Witness, path: str, phone: bool) -> None:
    witness.failures = True
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
    found = axe.Axe().run(page).response["violations"]
    barriers = [
        (problem["id"], [node["html"] for node in problem["nodes"]][:3])
        for problem in found
        if problem["impact"] in ("serious", "critical")
    ]
    assert barriers == []
