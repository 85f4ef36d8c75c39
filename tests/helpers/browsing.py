"""Driving the search page in a real browser: what tests of the page share."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import pytest
from fake_api import FakeApi, Fault

pytest.importorskip("playwright.sync_api", reason="no Playwright; run: pip install 'cr5[dev]'")
from playwright.sync_api import ConsoleMessage, Page, Request, expect

TIMEOUT_MS = 120_000  # generous, because the machine may be busy; what arrives early is not waited for
expect.set_options(timeout=TIMEOUT_MS)

PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
Visit = Callable[..., Page]


@dataclass
class PageMonitor:
    """Records what must not happen while pages are open: console errors, and requests to other servers."""

    errors: list[str] = field(default_factory=list)
    foreign_requests: list[str] = field(default_factory=list)
    errors_expected: bool = False  # whether failed responses are part of the test

    def attach(self, page: Page, url: str) -> None:
        """Watch a page that is served at a URL."""

        def on_console(message: ConsoleMessage) -> None:
            expected = self.errors_expected and message.text.startswith("Failed to load resource")
            if message.type in ("error", "warning") and not expected:
                self.errors.append(message.text)

        def on_request(request: Request) -> None:
            if not request.url.startswith((url, "data:")):
                self.foreign_requests.append(request.url)

        page.on("console", on_console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", on_request)


def accessibility_barriers(page: Page) -> list[tuple[str, list[str]]]:
    """The serious problems that axe finds in a page, each with elements that have it."""
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

    return [
        (problem["id"], [node["html"] for node in problem["nodes"]][:3])
        for problem in Axe().run(page).response["violations"]
        if problem["impact"] in ("serious", "critical")
    ]


def searches_for(url: str, query: str) -> bool:
    """Whether a URL is that of a search for a query."""
    address = urlsplit(url)
    return address.path.endswith("/search") and parse_qs(address.query)["q"] == [query]


def hit_titles(page: Page) -> list[str]:
    """The titles of the hits that are shown."""
    return page.locator(".hit h2").all_inner_texts()


def url_state(page: Page) -> dict[str, str]:
    """The state in the URL."""
    return {name: values[0] for name, values in parse_qs(page.evaluate("location.search.slice(1)")).items()}


def expect_hits(page: Page, count: int) -> None:
    """Wait until a number of hits is shown."""
    expect(page.locator(".hit")).to_have_count(count)


def when_ready(page: Page) -> Page:
    """The page, once its field has the focus, which the browser sets a moment after loading."""
    expect(page.locator("#q")).to_be_focused()
    return page


def wait_for_highlights(page: Page) -> None:
    """Wait until every visible hit has its highlights, so that nothing moves any more."""
    page.wait_for_function(
        """() => [...document.querySelectorAll('.hit')].every(
            hit => hit.getBoundingClientRect().top > innerHeight || !hit.querySelector('.pairs'))"""
    )


def hold_back(api: FakeApi, path: str) -> threading.Event:
    """Hold back the responses at a path until the event is set."""
    release = threading.Event()
    api.faults[path] = [Fault(status=200, until=release)] * 20
    return release


@contextmanager
def frozen_clock(page: Page) -> Iterator[None]:
    """Stop the timers of the page, so that on a busy machine a press does not last too long to be a click."""
    page.clock.install(time=0)
    page.clock.pause_at(10)
    yield
    page.clock.resume()
