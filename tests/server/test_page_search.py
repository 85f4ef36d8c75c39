"""The search page: queries, filters, results and the map."""

import pytest
from browsing import Visit, expect_hits, hit_titles, hold_back, searches_for, url_state, wait_for_highlights, when_ready
from fake_api import FakeApi, FakeDocument
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_typing_finds_documents_in_all_languages(visit: Visit) -> None:
    page = when_ready(visit())
    page.keyboard.type("cane")
    expect(page.locator("#status")).to_contain_text("6 documents in 6 languages")
    assert set(hit_titles(page)) == {"Dog", "Cane", "Hund", "Chó", "الكلب", "狗"}
    assert url_state(page) == {"q": "cane"}
    assert page.title() == "cane – cr5"


def test_text_typed_while_the_page_is_loading_is_not_lost(visit: Visit, api: FakeApi) -> None:
    release = hold_back(api, "/info")
    page = when_ready(visit())
    with page.expect_response(lambda response: searches_for(response.url, "can")):
        page.keyboard.type("can")
    page.keyboard.type("e")
    release.set()
    expect_hits(page, 6)
    expect(page.locator("#filters button").first).to_be_visible()
    expect(page.locator("#q")).to_have_value("cane")


def test_the_start_page_describes_the_index_and_offers_examples(visit: Visit) -> None:
    page = visit()
    expect(page.locator("#intro")).to_contain_text("18 documents in 8 languages")
    page.locator("#examples a", has_text="Cane").click()
    expect(page.locator("#q")).to_have_value("Cane")
    expect_hits(page, 6)


def test_a_query_without_a_letter_or_digit_is_not_sent(visit: Visit, api: FakeApi) -> None:
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
    expect_hits(page, 6)
    page.locator("#q").fill("…")
    expect(page.locator("#examples")).to_be_visible()
    expect(page.locator("#q")).to_have_value("…")
    assert url_state(page) == {}


def test_the_detected_language_is_shown_and_can_be_changed(visit: Visit, api: FakeApi) -> None:
    page = visit("?q=cane")
    expect(page.locator("#lang option:checked")).to_have_text("Italian, 98\u00a0%")
    page.get_by_label("Language of the query").select_option("da")
    expect(page.locator("#notice")).to_contain_text("The model knows none of these words in Danish.")
    assert url_state(page) == {"q": "cane", "lang": "da"}
    page.go_back()
    expect_hits(page, 6)
    expect(page.locator("#lang option:checked")).to_have_text("Italian, 98\u00a0%")


def test_filters_show_counts_and_narrow_the_results(visit: Visit) -> None:
    page = visit("?q=casa")
    danish = page.get_by_role("button", name="Danish 3")
    danish.click()
    expect(danish).to_have_attribute("aria-pressed", "true")
    expect_hits(page, 3)
    page.get_by_role("button", name="Vietnamese 2").click()
    expect_hits(page, 5)
    assert url_state(page) == {"q": "casa", "in": "da,vi"}
    page.get_by_role("button", name="All languages").click()
    expect_hits(page, 10)
    page.go_back()
    expect_hits(page, 5)


def test_only_the_largest_languages_are_offered_until_more_are_requested(visit: Visit, api: FakeApi) -> None:
    for number, lang in enumerate(["cs", "de", "el", "es", "fi", "fr", "hu", "nl", "pl", "pt", "ro", "sv", "tr", "uk"]):
        api.documents |= {f"{lang}:{i}": FakeDocument(f"{lang}:{i}", lang, lang, lang) for i in range(number + 1)}
    page = visit("?q=casa&in=zh")
    expect(page.locator("#filters [data-filter]")).to_have_count(11)  # all, the nine largest, the one that is on
    page.get_by_role("button", name="12 more").click()
    expect(page.locator("#filters [data-filter]")).to_have_count(23)
    expect(page.locator("#filters")).to_contain_text("Ukrainian 14")


def test_more_hits_are_loaded_on_request_and_the_first_new_one_gets_the_focus(visit: Visit) -> None:
    page = visit("?q=casa")
    expect_hits(page, 10)
    page.get_by_role("button", name="Show more").click()
    expect_hits(page, 14)
    expect(page.locator(".hit h2 a").nth(10)).to_be_focused()
    expect(page.locator("#more")).to_be_hidden()


def test_what_to_search_by_can_be_chosen(visit: Visit) -> None:
    page = visit("?q=casa")
    expect(page.get_by_label("Ranking")).to_be_hidden()  # of vectors alone
    with page.expect_response(lambda response: "/search?" in response.url and "mode=lexical" in response.url):
        page.get_by_label("Search by").select_option("By words")
    assert url_state(page) == {"q": "casa", "mode": "lexical"}
    page.get_by_label("Search by").select_option("Best match")
    page.wait_for_url("**/?q=casa")


def test_the_ranking_of_vectors_can_be_chosen(visit: Visit) -> None:
    page = visit("?q=casa&mode=dense")
    with page.expect_response(lambda response: "/search?" in response.url and "measure=cosine" in response.url):
        page.get_by_label("Ranking").select_option("cosine")
    page.wait_for_url("**measure=cosine")
    expect(page.locator("#status")).to_contain_text("10 documents")


def test_a_long_document_shows_the_passage_that_matched(visit: Visit, api: FakeApi) -> None:
    api.documents["en:tale"] = FakeDocument("en:tale", "en", "Tale", 60 * "Nobody was there. " + "Then a dog came.")
    tale = visit("?q=cane&in=en").locator(".hit", has_text="Tale")
    expect(tale.locator(".snippet mark")).to_have_text(["dog"])
    expect(tale.locator(".snippet")).to_contain_text("Then a dog came.")


def test_words_that_matched_across_languages_are_highlighted_in_query_and_results(visit: Visit) -> None:
    page = visit("?q=cane+verde")
    dog = page.locator(".hit", has=page.get_by_role("link", name="Dog", exact=True))
    expect(dog.locator(".snippet mark")).to_have_text(["dog", "dogs"])
    expect(page.locator("#query-highlights mark")).to_have_text(["cane"])
    wait_for_highlights(page)
    dog.locator(".snippet mark").first.hover()
    expect(page.locator("#tooltip")).to_have_text("cane ~ dog +0.12")
    box = page.evaluate("document.querySelector('#query-highlights mark').getBoundingClientRect().toJSON()")
    page.mouse.move(box["x"] + 4, box["y"] + box["height"] / 2)
    expect(page.locator("#tooltip")).to_contain_text("cane ~ ")


def test_highlights_lie_exactly_under_the_words_of_the_field(visit: Visit) -> None:
    page = visit("?q=" + "il+cane+fa+la+guardia+" * 12)
    page.wait_for_selector("#query-highlights mark")
    sizes = page.evaluate(
        "[...document.querySelectorAll('#query-highlights, #q')]"
        ".map(e => [e.clientWidth, e.scrollHeight, getComputedStyle(e).font])"
    )
    assert sizes[0] == sizes[1]


def test_only_visible_hits_are_explained(visit: Visit, api: FakeApi) -> None:
    page = visit("?q=casa", viewport={"width": 1280, "height": 420})
    page.wait_for_selector(".hit mark")
    page.wait_for_timeout(300)
    assert 0 < sum(path.startswith("/explain") for path in api.requests) < 8
    page.locator(".hit").last.scroll_into_view_if_needed()
    expect(page.locator(".hit").last.locator("mark").first).to_be_visible()


def test_words_of_languages_without_spaces_are_highlighted(visit: Visit) -> None:
    page = visit("?q=cane&in=zh")
    expect(page.locator(".snippet mark")).to_have_text(["狗"])


# The map


def test_the_map_shows_every_hit_with_its_title_and_opens_it(visit: Visit) -> None:
    page = visit("?q=cane")
    expect(page.locator(".map-point")).to_have_count(6)
    spot = page.get_by_role("button", name="Hund, Danish")
    spot.hover()
    expect(page.locator("#tooltip")).to_contain_text("Hund\nDanish", use_inner_text=True)
    expect(page.locator(".hit.active h2")).to_have_text("Hund")
    spot.click()
    expect(page.locator("#document-panel h2")).to_have_text("Hund")


def test_points_of_the_map_never_overlap(visit: Visit, api: FakeApi) -> None:
    same = [FakeDocument(f"en:{n}", "en", f"Dog {n}", "dog") for n in range(60)]
    api.documents = {document.id: document for document in same}
    page = visit("?q=dog&k=100")
    expect(page.locator(".map-point")).to_have_count(60)
    places = page.evaluate(
        "[...document.querySelectorAll('.hit-area')].map(e => [+e.getAttribute('cx'), +e.getAttribute('cy')])"
    )
    gaps = [abs(complex(*a) - complex(*b)) for i, a in enumerate(places) for b in places[:i]]
    assert min(gaps) > 9


def test_the_map_can_be_switched_off_and_the_url_says_so(visit: Visit) -> None:
    page = visit("?q=cane")
    toggle = page.get_by_role("button", name="Map", exact=True)
    expect(page.locator("#map")).to_be_visible()
    toggle.click()
    expect(page.locator("#map")).to_be_hidden()
    assert url_state(page) == {"q": "cane", "map": "0"}
    page.go_back()
    expect(page.locator("#map")).to_be_visible()
