"""The search page: documents, queries and URLs are never run as code."""

import re

import pytest
from browsing import PageMonitor, Visit, expect_hits, hit_titles, when_ready
from fake_api import HOSTILE, STATIC
from playwright.sync_api import expect

from cr5.server import token_rules

pytestmark = pytest.mark.browser


def test_documents_are_shown_as_text_whatever_they_contain(visit: Visit) -> None:
    page = visit("?q=storm&k=100")
    expect_hits(page, 4)
    page.wait_for_selector(".hit mark")
    assert "<img src=x onerror='window.pwned=1'> storm" in hit_titles(page)
    assert page.locator("#hits :is(img, script, iframe, style, b)").count() == 0
    sources = page.get_by_role("link", name="Source").all()
    assert [link.get_attribute("href") for link in sources] == [
        "https://example.org/%22%3E%3Cscript%3Ewindow.pwned=1%3C/script%3E"
    ]
    for document in HOSTILE:
        page.locator(".hit", has=page.get_by_role("link", name=document.title, exact=True)).locator("h2 a").hover()
        page.get_by_role("link", name=document.title, exact=True).first.click()
        expect(page.locator("#document-panel .document-text")).to_have_text(document.text)
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
def test_queries_are_shown_as_text_whatever_they_contain(visit: Visit, attack: str) -> None:
    page = when_ready(visit())
    page.keyboard.insert_text(f"{attack} storm")
    expect_hits(page, 4)
    page.wait_for_selector("#query-highlights mark")
    page.get_by_role("link", name="storm", exact=True).click()
    expect(page.locator(".query-text-body")).to_have_text(f"{attack} storm")
    expect(page.locator("h1")).to_have_text(f"Results for “{attack} storm”")
    assert page.evaluate("window.pwned") is None


@pytest.mark.parametrize(
    "name", ["q", "like", "lang", "in", "prefer", "k", "mode", "measure", "group", "where", "doc", "map"]
)
def test_the_url_is_never_run_as_code(visit: Visit, monitor: PageMonitor, name: str) -> None:
    monitor.errors_expected = True
    page = visit(
        f"?q=storm&{name}=%22%3E%3Cimg%20src%3Dx%20onerror%3Dwindow.pwned%3D1%3E#<img src=x onerror=window.pwned=1>"
    )
    page.wait_for_selector(".hit, #notice:not([hidden])")
    page.wait_for_timeout(250)
    assert page.locator("img").count() == 0
    assert page.evaluate("window.pwned") is None


def test_the_page_has_no_inline_code_or_style_and_makes_no_markup_from_strings() -> None:
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
        if name not in seen and name != token_rules.FILE_NAME:  # which the server generates
            seen.add(name)
            needed += re.findall(r'^import .*?"\./(.+?)";$', (STATIC / name).read_text(), re.MULTILINE)
    assert seen == {path.name for path in STATIC.glob("*.js")}
