"""The inverted index of full text compared with BM25 by dense arithmetic."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bm25_oracle import Words, assert_best, bm25, query_words, random_words, term_counts
from hypothesis import given, settings
from hypothesis import strategies as st

from cr5.features.tokeniser import Tokeniser
from cr5.index import full_text, segments
from cr5.index.full_text import MAX_SEGMENT_SIZE, DocumentTerms, FullTextIndex, FullTextReader, extend, purge
from cr5.index.terms import OPENING_WEIGHT, TITLE_WEIGHT, QueryKeys, QueryWord, count_terms, term_keys
from cr5.retrieval.bm25 import inverse_document_frequencies
from cr5.retrieval.word_forms import TermDictionary, find_forms

LANGS = ("da", "it", "vi")
QUERIES = [{"w0": 1.0, "w1": 0.5, "w7": 0.25}, {"w3": 2.0}, {"w0": 1.0, "unknown": 1.0}, {"unknown": 1.0}]


def add(folder: Path, documents: Sequence[Words], first: int = 0, **options: Any) -> None:
    slots = first + np.arange(len(documents))
    new = DocumentTerms(slots, [f"d{i}" for i in slots], [d.lang for d in documents], term_counts(documents))
    extend(folder, new, first + len(documents), **options)


def reader(folder: Path, deleted: Sequence[int] = ()) -> FullTextReader:
    index = FullTextIndex(folder)
    exists = np.ones(index.next_slot, bool)
    exists[list(deleted)] = False
    return FullTextReader(index, exists)


def assert_agrees(found: FullTextReader, documents: dict[str, Words], langs: Sequence[str] = LANGS) -> None:
    for lang in (*langs, "xx"):
        own = [d.counts for d in documents.values() if d.lang == lang]
        assert found.language(lang).documents == len(own)
        for query in QUERIES:
            df = [sum(term in counts for counts in own) for term in query]
            assert found.document_frequencies(term_keys(query, lang), lang).tolist() == df
            for _ in range(2):  # computed, and remembered
                idf = found.inverse_document_frequencies(query, lang)
                np.testing.assert_array_equal([*idf.values()], inverse_document_frequencies(len(own), np.array(df)))
                assert [*idf] == [*query]
            words = query_words(documents, query, lang)
            for asked in (
                words,
                [*words, QueryWord(1.5, {"w0": 1.0, "w2": 0.5, "w9": 0.25}), QueryWord(0.0, {"w1": 1.0})],
            ):
                oracle = bm25(documents, asked, lang)
                for k in (1, 5, 1000):
                    assert_best(*found.search(QueryKeys.make(asked, lang), lang, k), oracle, k)
        listed = {word for part in found.term_dictionaries(lang) for word in part.words}
        assert listed >= {word for counts in own for word in counts}


def test_documents_are_ranked_by_bm25_of_their_language(tmp_path: Path) -> None:
    documents = random_words(300, LANGS)
    add(tmp_path, documents)
    assert_agrees(reader(tmp_path), {f"d{i}": d for i, d in enumerate(documents)})


def test_deleted_documents_count_for_nothing(tmp_path: Path) -> None:
    documents = random_words(300, LANGS)
    add(tmp_path, documents)
    deleted = list(range(0, 300, 7))
    assert_agrees(reader(tmp_path, deleted), {f"d{i}": d for i, d in enumerate(documents) if i not in deleted})


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=8), st.integers(0, 2**32), st.floats(0, 1))
def test_any_history_of_additions_deletions_and_merges_gives_the_same_numbers(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], seed: int, share: float
) -> None:
    folder, n = tmp_path_factory.mktemp("words"), sum(sizes)
    documents, first = random_words(n, LANGS, seed), 0
    for size in sizes:
        add(folder, documents[first : first + size], first, max_segment_size=700)
        first += size
    deleted = np.flatnonzero(np.random.default_rng(seed).random(n) < share).tolist()
    kept = {f"d{i}": d for i, d in enumerate(documents) if i not in deleted}
    assert_agrees(reader(folder, deleted), kept)
    exists = np.ones(n, bool)
    exists[deleted] = False
    purge(folder, exists, 0.0)
    index = FullTextIndex(folder)
    assert sorted(index.slots.tolist()) == np.flatnonzero(exists).tolist()
    assert_agrees(reader(folder, deleted), kept)
    assert {path.name for path in folder.iterdir()} == {FullTextIndex.manifest_name, *index.manifest["segments"]}


def test_segments_of_similar_size_are_merged_up_to_a_limit(tmp_path: Path) -> None:
    documents = random_words(400, LANGS)
    for i in range(0, 400, 4):
        add(tmp_path, documents[i : i + 4], i, max_segment_size=1500)
        sizes = [segment.size for segment in FullTextIndex(tmp_path).segments]
        assert len(sizes) <= 12
        assert max(sizes) <= 1500
    assert_agrees(reader(tmp_path), {f"d{i}": d for i, d in enumerate(documents)})


def test_languages_may_be_added_later(tmp_path: Path) -> None:
    first, second = random_words(20, ["vi"]), random_words(20, ["aa", "vi", "zz"], seed=1)
    add(tmp_path, first)
    add(tmp_path, second, 20)
    assert_agrees(reader(tmp_path), {f"d{i}": d for i, d in enumerate([*first, *second])}, ["aa", "vi", "zz"])


def test_a_document_without_words_counts_as_a_document(tmp_path: Path) -> None:
    documents = [Words("it", {}), Words("it", {"w0": 1}), Words("it", {})]
    add(tmp_path, documents[:1])
    add(tmp_path, documents[1:], 1)
    assert_agrees(reader(tmp_path), {f"d{i}": d for i, d in enumerate(documents)}, ["it"])


def test_only_existing_slots_are_found_also_if_the_index_has_later_ones(tmp_path: Path) -> None:
    documents = random_words(40, LANGS)
    add(tmp_path, documents)
    found = FullTextReader(FullTextIndex(tmp_path), np.ones(25, bool))
    assert_agrees(found, {f"d{i}": d for i, d in enumerate(documents[:25])})


def test_an_open_index_stays_readable_after_its_files_are_replaced(tmp_path: Path) -> None:
    documents = random_words(60, LANGS)
    add(tmp_path, documents[:30])
    opened = reader(tmp_path)
    add(tmp_path, documents[30:], 30)
    assert_agrees(opened, {f"d{i}": d for i, d in enumerate(documents[:30])})


def test_a_failed_write_leaves_the_old_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = random_words(60, LANGS)
    add(tmp_path, documents[:30])

    def full(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    for module, step in ((full_text, "write_tensors"), (segments, "write_json")):
        with monkeypatch.context() as patch:
            patch.setattr(module, step, full)
            with pytest.raises(OSError, match="full"):
                add(tmp_path, documents[30:], 30)
        assert_agrees(reader(tmp_path), {f"d{i}": d for i, d in enumerate(documents[:30])})
    add(tmp_path, documents[30:], 30)
    assert_agrees(reader(tmp_path), {f"d{i}": d for i, d in enumerate(documents)})


def test_very_high_counts_are_limited(tmp_path: Path) -> None:
    documents = [Words("it", {"w0": 10**6, "w1": 1}), Words("it", {"w0": 1})]
    add(tmp_path, documents)
    words = [QueryWord(1.0, {"w0": 1.0})]
    ids, scores = reader(tmp_path).search(QueryKeys.make(words, "it"), "it", 2)
    oracle = bm25({f"d{i}": d for i, d in enumerate(documents)}, words, "it")
    assert dict(zip(ids, scores.tolist(), strict=True)) == pytest.approx(oracle, rel=1)


def test_counts_have_one_byte_unless_a_segment_has_high_ones(tmp_path: Path) -> None:
    parts = [[Words("it", {"w0": 3})], [Words("it", {"w0": 300, "w1": 2})], [Words("da", {"w0": 255})]]
    kinds = []
    for i, documents in enumerate(parts):
        add(tmp_path, documents, i, max_segment_size=1)
        kinds.append(FullTextIndex(tmp_path).segments[-1].counts.dtype)
    assert kinds == [np.uint8, np.uint16, np.uint8]
    extend(tmp_path, None, 3)  # merges them
    [segment] = FullTextIndex(tmp_path).segments
    assert segment.counts.dtype == np.uint16
    assert_agrees(reader(tmp_path), {f"d{i}": d for i, [d] in enumerate(parts)})


def test_the_terms_of_a_document_are_those_of_its_concept_text_opening_and_title_which_weigh_more() -> None:
    rest = "così " * 20 + "lupo"
    titles, texts, concepts = ["Il cane", "", "Hund"], [f"cane {rest}", "", "en hund"], ["Q144", "honey-bee", "Q144"]
    terms, o = count_terms(titles, texts, concepts, ["it", "da", "da"], Tokeniser()), OPENING_WEIGHT
    for row, (lang, want) in enumerate([
        ("it", Counter(cane=1 + o + TITLE_WEIGHT, il=TITLE_WEIGHT, q144=1, così=20 + 19 * o, lupo=1)),
        ("da", Counter(honey=1, bee=1)),
        ("da", Counter(hund=1 + o + TITLE_WEIGHT, en=1 + o, q144=1)),
    ]):  # fmt: skip
        counts = terms.matrix[[row]].tocoo()
        found = dict(zip(terms.keys[counts.col].tolist(), counts.data.tolist(), strict=True))
        assert found == dict(zip(term_keys(want, lang).tolist(), want.values(), strict=True))
    assert len(count_terms([], [], [], [], Tokeniser())) == 0


WORDS = ["hus", "huset", "Huse", "hùs", "straße", "strasse", "가나다", "ca", "cà", "x" * 80, "mælk", "mælken", "e0412"]


def texts(numbers: Sequence[int]) -> list[Words]:
    """Documents that have three of the words each, in two languages."""
    return [Words(LANGS[i % 2], Counter(WORDS[(i * step) % len(WORDS)] for step in (1, 2, 3))) for i in numbers]


def assert_forms_agree(found: FullTextReader, documents: Sequence[Words]) -> None:
    for lang in (*LANGS[:2], "xx"):
        listed = {word for d in documents if d.lang == lang for word in d.counts if len(word) <= 64}
        whole, parts = TermDictionary(sorted(listed)), found.term_dictionaries(lang)
        assert {word for part in parts for word in part.words} == listed
        for word in (*WORDS, "husent", "melk", "가나라", "strase"):
            assert find_forms(parts, word) == find_forms([whole], word)


def test_words_have_the_same_forms_in_one_segment_in_several_and_after_merging(tmp_path: Path) -> None:
    documents = texts(range(40))
    add(tmp_path / "one", documents)
    for first in range(0, 40, 10):
        add(tmp_path / "several", documents[first : first + 10], first, max_segment_size=1)
    assert len(FullTextIndex(tmp_path / "several").segments) == 4
    for name in ("one", "several"):
        assert_forms_agree(reader(tmp_path / name), documents)
    FullTextIndex.merge_concurrently(tmp_path / "several", tmp_path / "beside", nullcontext, MAX_SEGMENT_SIZE)
    assert len(FullTextIndex(tmp_path / "several").segments) == 1
    assert not (tmp_path / "beside").exists()
    assert_forms_agree(reader(tmp_path / "several"), documents)


def test_segments_of_an_earlier_version_have_dictionaries_and_can_be_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = texts(range(20))
    with monkeypatch.context() as patched:
        patched.setattr(full_text, "word_arrays", lambda *_: {})
        add(tmp_path, documents[:10], max_segment_size=1)
    assert_forms_agree(reader(tmp_path), documents[:10])
    add(tmp_path, documents[10:], 10, max_segment_size=1)
    assert_forms_agree(reader(tmp_path), documents)
    FullTextIndex.merge_concurrently(tmp_path, tmp_path.with_name("beside"), nullcontext, MAX_SEGMENT_SIZE)
    assert_forms_agree(reader(tmp_path), documents)


def test_documents_that_are_added_while_segments_are_merged_stay(tmp_path: Path) -> None:
    documents, entered = random_words(90, LANGS), list[int]()
    for first in (0, 30):
        add(tmp_path / "words", documents[first : first + 30], first, max_segment_size=1)

    @contextmanager
    def activating() -> Iterator[None]:
        if not entered:  # another writer was faster
            add(tmp_path / "words", documents[60:], 60, max_segment_size=1)
        entered.append(1)
        yield

    FullTextIndex.merge_concurrently(tmp_path / "words", tmp_path / "beside", activating, MAX_SEGMENT_SIZE)
    assert len(FullTextIndex(tmp_path / "words").segments) < 3
    assert_agrees(reader(tmp_path / "words"), {f"d{i}": d for i, d in enumerate(documents)})


def test_segments_that_are_purged_while_they_are_merged_stay_purged(tmp_path: Path) -> None:
    documents = random_words(60, LANGS)
    for first in (0, 30):
        add(tmp_path / "words", documents[first : first + 30], first, max_segment_size=1)
    exists = np.arange(60) >= 20

    @contextmanager
    def activating() -> Iterator[None]:
        purge(tmp_path / "words", exists, 0.25)
        yield

    FullTextIndex.merge_concurrently(tmp_path / "words", tmp_path / "beside", activating, MAX_SEGMENT_SIZE)
    index = FullTextIndex(tmp_path / "words")
    assert sorted(index.slots.tolist()) == list(range(20, 60))
    kept = {f"d{i}": d for i, d in enumerate(documents) if i >= 20}
    assert_agrees(FullTextReader(index, exists), kept)


def test_segments_that_are_still_in_use_are_not_opened_again(tmp_path: Path) -> None:
    add(tmp_path, random_words(60, LANGS))
    before = FullTextIndex(tmp_path)
    add(tmp_path, random_words(9, LANGS), 60)
    after = FullTextIndex(tmp_path, before)
    assert len(after.segments) == 2
    assert after.segments[0] is before.segments[0]
