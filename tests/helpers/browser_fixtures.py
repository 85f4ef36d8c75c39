"""Fixtures for the tests of the search page: a browser, a fake server and pages."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from browsing import PageMonitor, Visit
    from fake_api import FakeApi
    from playwright.sync_api import Browser, Page

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """Chromium: that of the system, or the one that Playwright has installed."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no Playwright; run: pip install 'cr5[dev]'")
    with sync_api.sync_playwright() as playwright:
        installed = Path(playwright.chromium.executable_path)
        executable = next(filter(None, map(shutil.which, BROWSERS)), str(installed) if installed.exists() else None)
        if executable is None:
            pytest.skip("no Chromium; run: apt-get install chromium, or: playwright install chromium")
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def api() -> Iterator["FakeApi"]:
    """A fake server with made-up documents, some of them hostile."""
    from fake_api import DOCUMENTS, HOSTILE, FakeApi

    with FakeApi([*DOCUMENTS, *HOSTILE]) as server:
        yield server


@pytest.fixture
def monitor() -> "PageMonitor":
    from browsing import PageMonitor

    return PageMonitor()


@pytest.fixture
def page_url(api: "FakeApi") -> str:
    """The URL of the page, with a slash at its end; modules may override it."""
    return api.url


@pytest.fixture
def visit(browser: "Browser", page_url: str, monitor: "PageMonitor") -> Iterator["Visit"]:
    """Open the page at a query string, with settings of the browser context; afterwards, check what must not happen."""
    from browsing import TIMEOUT_MS

    contexts = []

    def open_page(path: str = "", **settings: Any) -> "Page":
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **settings})
        context.set_default_timeout(TIMEOUT_MS)
        contexts.append(context)
        page = context.new_page()
        monitor.attach(page, page_url)
        page.goto(page_url + path)
        return page

    yield open_page
    for context in contexts:
        for page in context.pages:
            if not page.is_closed():
                assert page.evaluate("window.pwned") is None
        context.close()
    assert monitor.errors == []
    assert monitor.foreign_requests == []
