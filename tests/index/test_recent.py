"""Results are cached for recent texts, but not for very long ones, nor for more than a limited number."""

from cr5.index.recent import MAX_CHARACTERS, RECENT_SHORT, RECENT_TEXTS, SHORT_CHARACTERS, cached_for_recent_texts

LONG = (MAX_CHARACTERS + 1) * "a"
TEXT = (SHORT_CHARACTERS + 1) * "a"


def test_a_result_is_computed_once_for_a_recent_text_and_anew_for_a_long_or_an_older_one() -> None:
    calls: list[str] = []

    @cached_for_recent_texts
    def repeat(text: str, times: int) -> str:
        calls.append(text)
        return text * times

    assert [repeat("a", 2), repeat("a", 2), repeat("a", 3), repeat(LONG, 2), repeat(LONG, 2)] == [
        "aa", "aa", "aaa", 2 * LONG, 2 * LONG,
    ]  # fmt: skip
    assert calls == ["a", "a", LONG, LONG]
    for number in range(RECENT_SHORT):
        repeat(f"other {number}", 1)
    calls.clear()
    assert repeat("a", 2) == "aa"
    assert calls == ["a"]


def test_titles_do_not_replace_texts() -> None:
    calls: list[str] = []

    @cached_for_recent_texts
    def keep(text: str) -> str:
        calls.append(text)
        return text

    keep(TEXT)
    for number in range(RECENT_TEXTS):
        keep(f"title {number}")
    calls.clear()
    keep(TEXT)
    assert not calls
    for number in range(RECENT_TEXTS):
        keep(f"{number} {TEXT}")
    calls.clear()
    keep(TEXT)
    assert calls == [TEXT]
