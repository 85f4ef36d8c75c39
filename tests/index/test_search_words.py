"""Searching an index by words: BM25 of one language over title, text and concept."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from bm25_oracle import assert_best, bm25, query_words, words_of
from madeup import word

from cr5 import Document
from cr5.errors import Cr5Error
from cr5.index import Index, IngestSettings
from cr5.index.stores.base import Store


@pytest.fixture(params=["lance", pytest.param("postgres", marks=pytest.mark.services)])
def address(request: pytest.FixtureRequest) -> str | None:
    """The address of the store; None for the folder of the index."""
    return str(request.getfixturevalue("url")) if request.param == "postgres" else None


@pytest.fixture
def index(tmp_path: Path, model_folder: Path, address: str | None) -> Iterator[Index]:
    with Index.create(tmp_path / "index", model_folder, store=address) as made:
        yield made


def test_documents_are_ranked_by_bm25_of_the_querys_language(index: Index, documents: list[Document]) -> None:
    index.add(documents[:90])
    held = words_of(index.model, documents[:90])
    for lang in ("aa", "bb"):
        text = " ".join([word(lang, 7), word(lang, 50), word(lang, 50), "Q003"])
        terms = Counter(index.model.settings.tokeniser.words(text, lang))
        for k in (4, 100):
            hits = index.search_words(text, lang, k=k)
            oracle = bm25(held, query_words(held, terms, lang), lang)
            assert_best([hit.id for hit in hits], [hit.bm25 for hit in hits], oracle, k)
            assert {hit.lang for hit in hits} == {lang}
        assert index.search_words(text, lang.upper(), k=4) == index.search_words(text, lang, k=4)
    assert index.search_words(documents[0].text, k=1)[0].id == "aa:Q000"  # its language is guessed


def test_a_word_in_the_title_weighs_more_and_concepts_and_unknown_words_are_found(index: Index) -> None:
    text = " ".join(word("aa", i) for i in range(30))
    index.add([
        Document("A", "aa", f"{text} zyxwvut_77"),
        Document("B", "aa", text, "zyxwvut_77"),
        Document("honey-bee", "aa", text),
        Document("D", "aa", f"{text} E0412 E0413"),
    ])  # fmt: skip
    assert [hit.concept for hit in index.search_words("zyxwvut_77", "aa")] == ["B", "A"]
    assert [hit.concept for hit in index.search_words("Honey", "aa")] == ["honey-bee"]
    assert [hit.concept for hit in index.search_words("e0412", "aa")] == ["D"]
    for unknown in ("qqqqq", "", " … ", "\0"):
        assert index.search_words(unknown, "aa") == []


def test_words_follow_changes_and_deletions_of_documents(
    index: Index, documents: list[Document], address: str | None
) -> None:
    first = documents[0]
    index.add(documents[:30])
    index.add([Document(first.concept, first.lang, first.text, "renamed zyxwvut")])
    assert [hit.title for hit in index.search_words("zyxwvut", "aa")] == ["renamed zyxwvut"]
    with Index.open(index.folder, store=address) as reader:
        assert [hit.concept for hit in reader.search_words("zyxwvut", "aa")] == [first.concept]
        index.delete("aa:Q000")
        assert reader.search_words("zyxwvut", "aa") == []
    assert index.about()["full_text"] == 29


def test_reindexing_keeps_full_text(index: Index, documents: list[Document], model_folder: Path) -> None:
    index.add(documents[:30])
    before = index.search_words(documents[0].text, "aa")
    index.reindex(model_folder)
    assert [hit.id for hit in index.search_words(documents[0].text, "aa")] == [hit.id for hit in before]
    assert (index.about()["full_text"], index.about()["outdated"]) == (30, None)


def test_an_interrupted_refresh_continues_with_the_documents_that_have_no_words(
    tmp_path: Path, model_folder: Path, documents: list[Document], address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    upsert, settings = Store.upsert, IngestSettings(batch_rows=20)
    with Index.create(tmp_path / "index", model_folder, store=address, settings=settings) as index:
        with monkeypatch.context() as patch:
            patch.setattr(Store, "upsert", lambda store, rows, terms: upsert(store, rows))  # as an earlier version did
            index.add(documents[:90])
        assert index.about()["outdated"].startswith("90 documents")

        def stop(_: object) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            index.refresh(progress=stop)
        assert index.about()["outdated"].startswith("70 documents")
        index.refresh()
        assert index.about()["outdated"] is None
        query, held = documents[1], words_of(index.model, documents[:90])
        terms = Counter(index.model.settings.tokeniser.words(query.text, "bb"))
        hits = index.search_words(query.text, "bb", k=90)
        oracle = bm25(held, query_words(held, terms, "bb"), "bb")
        assert_best([hit.id for hit in hits], [hit.bm25 for hit in hits], oracle, 90)


def test_a_wrong_language_and_a_wrong_number_are_errors(index: Index) -> None:
    with pytest.raises(Cr5Error, match="xx"):
        index.search_words("text", "xx")
    with pytest.raises(Cr5Error, match="k=0"):
        index.search_words("text", "aa", k=0)
