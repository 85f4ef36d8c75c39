"""The search page: versions of a hit, fields, corrected queries, the score and the passage that matched."""

import json
import re
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from browsing import PHONE, PageMonitor, Visit, accessibility_barriers, expect_hits, hit_titles, url_state, when_ready
from fake_api import DOCUMENTS, FakeApi, FakeDocument
from playwright.sync_api import Locator, Page, expect

pytestmark = pytest.mark.browser


@pytest.fixture(autouse=True)
def _same_concepts(api: FakeApi) -> None:
    """Documents about a dog have one concept, and so have the others, whatever their languages."""
    for document in DOCUMENTS:
        about = document.id.partition(":")[2]
        kind = "animal" if about == "dog" else "thing"
        fields = {"kind": kind, "serial": document.id, "tags": ["old", document.lang]}
        api.documents[document.id] = document._replace(about=about, fields=fields)


def searches(api: FakeApi) -> list[dict[str, list[str]]]:
    """The parameters of all searches so far."""
    return [parse_qs(urlsplit(path).query) for path in api.requests if path.startswith("/search?")]


def version(place: Page | Locator, name: str) -> Locator:
    return place.locator(".versions").get_by_role("button", name=name)


# Versions


def test_documents_of_a_concept_are_one_hit_in_the_language_of_the_browser(visit: Visit, api: FakeApi) -> None:
    page = visit("?q=cane", locale="da-DK")
    expect(page.locator("#status")).to_contain_text("1 subject, 6 documents in 6 languages")
    expect(page.locator(".hit h2")).to_have_text(["Hund"])
    expect(page.locator("#prefer option:checked")).to_have_text("Danish first")
    assert searches(api)[-1] | {"k": ["10"]} == {"q": ["cane"], "group": ["concept"], "prefer": ["da"], "k": ["10"]}
    page.get_by_label("Preferred language").select_option("it")
    expect(page.locator(".hit h2")).to_have_text(["Cane"])
    assert url_state(page) == {"q": "cane", "prefer": "it"}
    page.get_by_label("Preferred language").select_option("any")
    expect(page.locator(".hit h2")).to_have_text(["Dog"])
    assert "prefer" not in searches(api)[-1]
    page.get_by_role("button", name="Grouped").click()
    expect_hits(page, 6)
    assert url_state(page) == {"q": "cane", "prefer": "any", "group": "none"}


def test_another_version_of_a_hit_is_shown_with_its_own_passage_and_can_be_opened(visit: Visit) -> None:
    page = visit("?q=cane")
    hit = page.locator(".hit")
    expect(version(hit, "English")).to_have_attribute("aria-pressed", "true")
    version(hit, "Danish").click()
    expect(hit.locator("h2")).to_have_text("Hund")
    expect(hit.locator(".snippet")).to_have_text("En hund vogter huset, og hunden sover ved døren.")
    expect(hit.locator(".snippet mark")).to_have_text(["hund", "hunden"])
    expect(hit.locator(".snippet")).to_have_attribute("lang", "da")
    expect(version(hit, "Danish")).to_be_focused()
    expect(version(hit, "English")).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#document-panel")).to_be_hidden()
    hit.locator("h2 a").click()
    expect(page.locator("#document-title")).to_have_text("Hund")
    assert url_state(page) == {"q": "cane", "doc": "da:dog"}
    expect(hit).to_have_class(re.compile("open"))


def test_an_open_document_can_be_read_in_its_other_languages(visit: Visit) -> None:
    page = visit("?q=cane&doc=en:dog")
    panel = page.locator("#document-panel")
    version(panel, "Italian").click()
    expect(panel.locator("#document-title")).to_have_text("Cane")
    expect(panel.locator("#document-title")).to_be_focused()
    expect(page.locator(".hit h2")).to_have_text("Cane")
    version(page.locator(".hit"), "Danish").click()
    expect(panel.locator("#document-title")).to_have_text("Hund")
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()


def test_a_chosen_version_is_forgotten_with_the_query(visit: Visit) -> None:
    page = visit("?q=cane")
    version(page.locator(".hit"), "Danish").click()
    expect(page.locator(".hit h2")).to_have_text("Hund")
    page.locator("#q").fill("cane guardia")
    expect(page.locator(".hit h2").first).to_have_text("Dog")


def test_a_hit_in_many_languages_shows_a_few_of_them_until_more_are_requested(visit: Visit, api: FakeApi) -> None:
    for lang in ("cs", "de", "el", "es", "fi", "fr"):
        api.documents[f"{lang}:dog"] = FakeDocument(f"{lang}:dog", lang, lang, lang, about="dog")
    page = visit("?q=cane", **PHONE)
    switches = page.locator(".hit .version")
    expect(switches).to_have_count(7)
    page.get_by_role("button", name="6 more").tap()
    expect(switches).to_have_count(12)
    expect(page.locator(".hit h2")).to_have_text("Dog")
    assert page.evaluate("document.scrollingElement.scrollWidth") == 360


def test_versions_are_reached_and_chosen_by_keyboard(visit: Visit) -> None:
    page = when_ready(visit())
    page.keyboard.type("cane")
    expect_hits(page, 1)
    version(page.locator(".hit"), "Italian").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".hit h2")).to_have_text("Cane")
    page.keyboard.press("ArrowUp")
    expect(page.locator("#q")).to_be_focused()


# Fields


def test_fields_with_common_values_filter_the_results(visit: Visit, api: FakeApi) -> None:
    page = visit("?q=casa&group=none")
    expect_hits(page, 10)
    facets = page.locator("#facets .facet")
    expect(facets.locator(".facet-name")).to_have_text(["tags", "kind"])  # and not the serial numbers
    page.get_by_role("group", name="Filter by kind").get_by_role("button", name="animal").click()
    expect_hits(page, 6)
    assert json.loads(searches(api)[-1]["where"][0]) == {"kind": "animal"}
    assert url_state(page) == {"q": "casa", "group": "none", "where": '{"kind":"animal"}'}
    chosen = page.get_by_role("group", name="Filter by kind").get_by_role("button")
    expect(chosen).to_have_attribute("aria-pressed", "true")
    expect(chosen).to_be_focused()
    chosen.click()
    expect_hits(page, 10)
    assert url_state(page) == {"q": "casa", "group": "none"}


def test_a_filter_that_leaves_nothing_can_be_removed(visit: Visit) -> None:
    page = visit("?q=casa&where=" + quote('{"kind": "animal", "year": {">=": 2000}}'))
    expect(page.locator("#notice")).to_contain_text("Nothing found.")
    expect(page.locator("#facets")).to_contain_text('{">=":2000}')
    page.get_by_role("button", name="Remove the filters").click()
    expect(page.locator(".hit").first).to_be_visible()
    assert url_state(page) == {"q": "casa"}


@pytest.mark.parametrize("where", ["{", "[]", "null", '"x"'])
def test_a_filter_that_is_no_object_is_ignored(visit: Visit, api: FakeApi, where: str) -> None:
    page = visit(f"?q=cane&where={quote(where)}")
    expect_hits(page, 1)
    assert all("where" not in search for search in searches(api))


@pytest.mark.parametrize("settings", [{}, {**PHONE, "color_scheme": "dark"}], ids=["light desktop", "dark phone"])
def test_axe_finds_no_serious_problem_with_versions_fields_and_passages(
    visit: Visit, api: FakeApi, settings: dict[str, object]
) -> None:
    api.suggestions["casa"] = "case"
    api.passages["en:dog"] = 0, 23
    page = visit("?q=casa", reduced_motion="reduce", **settings)
    page.wait_for_selector("#facets:not([hidden])")
    page.wait_for_selector(".hit mark")
    assert accessibility_barriers(page) == []
    page.locator(".hit h2 a", has_text="Dog").click()
    page.wait_for_selector("#document-panel .passage mark")
    assert accessibility_barriers(page) == []


# Queries that find something else, or nothing


def test_a_corrected_query_is_offered_as_a_link(visit: Visit, api: FakeApi) -> None:
    api.suggestions["cnae"] = "cane <b>"
    page = visit("?q=cnae")
    expect(page.locator("#suggestion")).to_have_text("Did you mean cane <b>?")
    page.get_by_role("link", name="cane").click()
    expect(page.locator("#q")).to_have_value("cane <b>")
    expect(page.locator(".hit h2")).to_have_text("Dog")
    expect(page.locator("#suggestion")).to_be_hidden()


def test_an_empty_result_says_how_the_query_was_read(visit: Visit) -> None:
    page = visit("?q=zzz+Luna&lang=da&mode=lexical")
    expect(page.locator("#notice")).to_contain_text("The query was read as Danish: zzz, luna.")
    page.get_by_role("button", name="Search by words and meaning together").click()
    assert url_state(page) == {"q": "zzz Luna", "lang": "da"}


# Scores, and the passage that matched


def test_the_score_is_a_relevance_whose_parts_can_be_seen(visit: Visit) -> None:
    page = visit("?q=cane")
    meter = page.locator(".hit").get_by_role("meter", name="Relevance")
    expect(meter).to_have_attribute("aria-valuetext", "80\u00a0%")
    page.locator(".hit .score").hover()
    expect(page.locator("#tooltip")).to_have_text(
        "Relevance 80\u00a0%\nthe same words 0.45\nmeaning 0.35", use_inner_text=True
    )
    page.goto(page.url.replace("q=cane", "like=it:dog"))
    expect(page.locator(".hit").first.get_by_role("meter", name="Similarity")).to_be_visible()


def test_hits_that_are_hardly_related_are_set_apart_and_not_explained(visit: Visit) -> None:
    page = visit("?q=cane+pane+luna+guardia")
    expect(page.locator("#hits li").nth(1)).to_have_text("Less relevant")
    weak = page.locator(".divider + .hit")
    expect(weak.locator("mark").first).to_be_visible()
    expect(page.locator(".hit").first.locator(".word-pair").first).to_be_visible()
    expect(weak.locator(".pairs")).to_have_count(0)
    expect(weak.locator(".word-pair")).to_have_count(0)
    page.goto(page.url.partition("?")[0] + "?q=cane+pane+luna+tempesta&in=it")
    words = "Nothing matches well. The query was read as Italian (98\u00a0% sure): cane, pane, luna, tempesta."
    expect(page.locator("#hits li").first).to_have_text(words)


@pytest.mark.parametrize("settings", [{}, PHONE], ids=["desktop", "phone"])
def test_a_long_document_opens_at_the_passage_that_matched(
    visit: Visit, api: FakeApi, settings: dict[str, object]
) -> None:
    filler = "\n\n".join(f"\U0001f415 Paragraph {i}. " + "Nobody was there. " * 12 for i in range(30))
    passage = "Then a dog came.\nIt slept."
    text = f"{filler}\n\nBefore it. {passage} After it.\n\n{filler}"
    api.documents = {"en:tale": FakeDocument("en:tale", "en", "Tale", text)}
    api.passages["en:tale"] = text.index(passage), text.index(passage) + len(passage)
    page = visit("?q=cane", **settings)
    page.locator(".hit h2 a").click()
    parts = page.locator("#document-panel .passage")
    expect(parts).to_have_text(["Then a dog came.", "It slept."])
    expect(parts.first).to_be_in_viewport()
    expect(page.get_by_role("button", name="Close the document")).to_be_in_viewport()
    expect(page.locator("#document-panel .query-text mark")).to_have_text(["cane"])
    expect(parts.first).to_be_in_viewport()  # also after the explanation has been filled in above it
    expect(page.locator("#document-panel .document-text p")).to_have_count(62)


def test_the_passage_of_another_version_comes_from_its_explanation(visit: Visit, api: FakeApi) -> None:
    text = "Il gatto dorme. " * 300 + "\nPoi venne un cane.\n" + "Il gatto dorme. " * 300
    begin = text.index("Poi")
    api.documents["it:dog"] = api.documents["it:dog"]._replace(text=text)
    api.passages["it:dog"] = begin, begin + 18
    page = visit("?q=dog&doc=it:dog")
    expect(page.locator("#document-panel .passage")).to_have_text("Poi venne un cane.")
    expect(page.locator("#document-panel .passage")).to_be_in_viewport()


# Paging


def test_more_than_a_hundred_results_come_in_pages(visit: Visit, api: FakeApi) -> None:
    many = [FakeDocument(f"en:{n}", "en", f"Dog {n}", "dog") for n in range(130)]
    api.documents = {document.id: document for document in many}
    page = visit("?q=dog&k=100")
    expect_hits(page, 100)
    page.get_by_role("button", name="Show more").click()
    expect_hits(page, 130)
    assert len(set(hit_titles(page))) == 130
    expect(page.locator("#more")).to_be_hidden()
    assert [(one["k"], one.get("offset")) for one in searches(api)[-2:]] == [(["100"], None), (["100"], ["100"])]
    expect(page.locator(".map-point")).to_have_count(100)


def test_a_preferred_language_that_the_index_does_not_have_can_be_reset(visit: Visit, monitor: PageMonitor) -> None:
    monitor.errors_expected = True
    page = visit("?q=cane&prefer=xx")
    expect(page.get_by_role("alert")).to_contain_text("the index has no language 'xx'")
    page.get_by_role("button", name="Reset").click()
    expect_hits(page, 1)
