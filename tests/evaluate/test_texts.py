"""Texts in memory: read, selected, split into paragraphs and masked, compared with loops over plain strings."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import madeup
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import up_to

from cr5 import Document
from cr5._typing import Ints
from cr5.corpus.inputs import in_batches
from cr5.errors import CorpusError
from cr5.evaluate.texts import EvaluationCorpus, TokenisedTexts, _digest, mask_shared_words, read_texts
from cr5.features.tokeniser import Tokeniser
from cr5.progress import Progress

PLAIN = Tokeniser(pretokenised=True)


def read_corpus(
    documents: Sequence[Document], langs: list[str] | None = None, *, comparable: bool = False
) -> EvaluationCorpus:
    return read_texts(in_batches(documents, batch_rows=7), PLAIN, langs=langs, comparable=comparable)


def words(texts: TokenisedTexts) -> list[list[str]]:
    """The words of every document, in their order."""
    ids, offsets = texts.tokens.ids.tolist(), texts.tokens.offsets.tolist()
    return [[texts.tokens.words[i] for i in ids[a:b]] for a, b in pairwise(offsets)]


def plain(texts: TokenisedTexts) -> list[tuple[int, str, list[str]]]:
    """Everything that is known of every document."""
    return list(zip(texts.concepts.tolist(), texts.titles, words(texts), strict=True))


def some_texts(lengths: Sequence[int] = (3, 0, 5, 1, 0, 4), seed: int = 0) -> TokenisedTexts:
    """Documents of these lengths, over few words."""
    random = np.random.default_rng(seed)
    documents = [" ".join(random.choice(list("abcdefg"), n)) for n in lengths]
    concepts = random.integers(0, 3, len(lengths))
    return TokenisedTexts(PLAIN(documents, "xx"), concepts, [f"title {i}" for i in range(len(lengths))])


def small_corpus() -> list[Document]:
    return madeup.corpus(concepts=12)


# Reading


def test_the_corpus_is_read_and_tokenised_by_language() -> None:
    documents = small_corpus()
    found = read_corpus(documents)
    assert list(found.languages) == ["aa", "bb", "cc"]
    assert found.concepts == [f"Q{i:03d}" for i in range(12)]
    for lang, texts in found.languages.items():
        own = [d for d in documents if d.lang == lang]
        assert len(texts) == 12
        assert plain(texts) == [(found.concepts.index(d.concept), d.title, d.text.split()) for d in own]
        assert found.raw_texts[lang].to_pylist() == [d.text for d in own]


def test_texts_are_tokenised_by_the_given_tokeniser() -> None:
    documents = [Document("Q1", "en", "Ünder_Score, 1984!"), Document("Q1", "ja", "猫と犬")]
    found = read_texts(in_batches(documents), Tokeniser())
    assert words(found.languages["en"]) == [["ünder", "score", "1984"]]
    assert words(found.languages["ja"]) == [["猫", "と", "犬"]]


def test_texts_are_tokenised_in_the_same_way_in_any_number_of_chunks() -> None:
    whole = read_corpus(small_corpus()).languages
    for lang, texts in read_texts(in_batches(small_corpus()), PLAIN, chunk_texts=5).languages.items():
        assert plain(texts) == plain(whole[lang])
        assert len(set(texts.tokens.words)) == len(texts.tokens.words)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_documents_changes_neither_digest_nor_numbers(seed: int) -> None:
    documents = small_corpus()
    shuffled = [documents[i] for i in np.random.default_rng(seed).permutation(len(documents))]
    one, other = read_corpus(documents), read_corpus(shuffled)
    assert (one.digest, one.concepts, list(one.languages)) == (other.digest, other.concepts, list(other.languages))
    for lang in one.languages:
        assert sorted(plain(one.languages[lang])) == sorted(plain(other.languages[lang]))


def test_the_order_of_languages_is_kept_and_changes_neither_digest_nor_numbers() -> None:
    found = read_corpus(small_corpus(), ["cc", "aa", "bb"])
    assert list(found.languages) == list(found.raw_texts) == ["cc", "aa", "bb"]
    sorted_ones = read_corpus(small_corpus())
    assert (found.digest, found.concepts) == (sorted_ones.digest, sorted_ones.concepts)
    for lang, texts in found.languages.items():
        assert plain(texts) == plain(sorted_ones.languages[lang])


def test_languages_that_are_not_requested_leave_no_trace() -> None:
    documents = [*small_corpus(), Document("Q999", "cc", "x")]
    found = read_corpus(documents, ["bb", "aa"])
    without = read_corpus([d for d in documents if d.lang != "cc"])
    assert list(found.languages) == ["bb", "aa"]
    assert (found.digest, found.concepts) == (without.digest, without.concepts)


def test_a_language_named_twice_is_one_language() -> None:
    assert list(read_corpus(small_corpus(), ["bb", "aa", "bb"]).languages) == ["bb", "aa"]


def test_a_missing_language_is_named() -> None:
    with pytest.raises(CorpusError) as error:
        read_corpus(small_corpus()[::-1], ["aa", "zz"])
    assert str(error.value) == "the corpus has no document in language zz; its languages are aa, bb, cc"


def test_one_language_is_not_enough() -> None:
    for documents, langs in (
        ([d for d in small_corpus() if d.lang == "bb"], None),
        (small_corpus(), ["bb"]),
        (small_corpus(), ["bb", "bb"]),
    ):
        with pytest.raises(CorpusError, match="two or more languages, and there is only bb"):
            read_corpus(documents, langs)


def test_an_empty_corpus_is_refused() -> None:
    with pytest.raises(CorpusError, match="the corpus is empty"):
        read_corpus([], None)


def test_a_corpus_without_the_languages_asked_for_is_refused_with_their_names() -> None:
    with pytest.raises(CorpusError, match="no document in language en,it; its languages are aa, bb, cc"):
        read_corpus(small_corpus(), ["en,it"])


@pytest.mark.parametrize("langs", [["en"], ["en", "aa"]])
def test_a_language_that_the_corpus_has_under_another_code_is_suggested(langs: list[str]) -> None:
    documents = [*small_corpus(), Document("Q001", "en-US", "x")]
    with pytest.raises(CorpusError, match="language en; its languages are aa, bb, cc, en-US; use 'en-US'"):
        read_corpus(documents, langs)


def test_reading_reports_its_progress() -> None:
    reports: list[Progress] = []
    read_texts(in_batches(small_corpus(), batch_rows=20), PLAIN, progress=reports.append)
    assert reports == [
        Progress("read", 20, None, "20 documents"),
        Progress("read", 36, None, "36 documents"),
        Progress("tokenise", 0, 3, "aa"),
        Progress("tokenise", 1, 3, "bb"),
        Progress("tokenise", 2, 3, "cc"),
    ]


def test_the_beginning_of_a_document_stands_for_a_missing_title() -> None:
    long = "  Many  words\n" + "word " * 40
    documents = [Document("Q1", "aa", text) for text in ("short\t one ", long, "字" * 500)]
    found = read_corpus([*documents, Document("Q1", "aa", "text", "title"), Document("Q1", "bb", "x")])
    titles = found.languages["aa"].titles
    assert (titles[0], titles[2], titles[3]) == ("short one", "字" * 60 + " …", "title")
    assert titles[1].startswith("Many words word word")
    assert titles[1].endswith(" word …")
    assert len(titles[1]) <= 62


# The digest


@pytest.mark.parametrize("field", ["text", "concept", "lang"])
@pytest.mark.parametrize("index", [0, 17, 35])
def test_the_digest_changes_with_every_text_concept_and_language(field: str, index: int) -> None:
    documents = small_corpus()
    value = "bb" if field == "lang" and documents[index].lang != "bb" else "cc"
    changed = list(documents)
    change: dict[str, Any] = {field: value}
    changed[index] = replace(documents[index], **change)
    assert read_corpus(changed).digest != read_corpus(documents).digest


def test_the_digest_changes_with_repeated_and_missing_documents() -> None:
    documents = small_corpus()
    versions = [documents, documents[:-1], [*documents, documents[0]], [*documents, *documents[:1] * 2]]
    assert len({read_corpus(version).digest for version in versions}) == len(versions)


def test_the_digest_depends_on_the_boundaries_of_the_fields() -> None:
    def digest(*fields: str) -> str:
        return read_corpus([Document(*fields), Document("Q1", "zz", "x")]).digest

    versions = [("c", "a", "\0b\0d"), ("c", "a", "b\0d"), ("ca", "a", "bd"), ("c", "aa", "bd"), ("c", "a", "abd")]
    assert len({digest(*version) for version in versions}) == len(versions)


def test_titles_and_addresses_do_not_change_the_digest() -> None:
    bare = [replace(d, title="", url="http://x") for d in small_corpus()]
    assert read_corpus(bare).digest == read_corpus(small_corpus()).digest


def test_texts_with_different_lone_surrogates_have_different_digests() -> None:
    # Corpora refuse them, other sources may not.
    found = {_digest(["aa"], {"aa": [["Q1"], [""], [f"x{half}"]]}) for half in ("\ud800", "\udfff", "?")}
    assert len(found) == 3


# Parallel corpora


def parallel(paragraphs: Sequence[int], langs: Sequence[str] = madeup.LANGS) -> list[Document]:
    """Documents of so many paragraphs, each of them the same in every language, with empty lines between."""
    return [
        Document(f"Q{i}", lang, "\n \n".join(f"{lang}{i}.{j} {lang}" for j in range(n)) or "empty", f"{lang} {i}")
        for i, n in enumerate(paragraphs)
        for lang in langs
    ]


def test_in_a_comparable_corpus_language_i_of_l_keeps_every_lth_paragraph_from_the_ith() -> None:
    langs = ["bb", "cc", "aa"]
    found = read_corpus(parallel([7, 3, 1, 12]), langs, comparable=True)
    assert found.comparable
    for i, lang in enumerate(langs):
        expected = [[w for j in range(i, n, 3) for w in (f"{lang}{k}.{j}", lang)] for k, n in enumerate([7, 3, 1, 12])]
        assert words(found.languages[lang]) == expected


def test_in_a_comparable_corpus_every_paragraph_goes_to_one_language() -> None:
    paragraphs = [7, 3, 1, 12, 5]
    found = read_corpus(parallel(paragraphs), comparable=True)
    for k, n in enumerate(paragraphs):
        kept = [w.split(".")[1] for texts in found.languages.values() for w in words(texts)[k] if "." in w]
        assert sorted(map(int, kept)) == list(range(n))


def test_comparable_parts_have_the_digest_and_the_raw_texts_of_the_whole() -> None:
    documents = parallel([4, 9])
    part, whole = read_corpus(documents, comparable=True), read_corpus(documents)
    assert part.digest == whole.digest
    assert not whole.comparable
    assert {k: v.to_pylist() for k, v in part.raw_texts.items()} == {
        k: v.to_pylist() for k, v in whole.raw_texts.items()
    }


def test_counterparts_have_the_paragraphs_that_the_target_language_keeps() -> None:
    langs = ["bb", "aa", "cc"]
    found = read_corpus(parallel([7, 3, 1, 12]), langs, comparable=True)
    rows = np.array([3, 0, 2, 3])
    for lang in langs:
        for facing in langs:
            part = found.with_paragraphs_of(lang, facing, rows)
            theirs = found.languages[facing].select_rows(rows)
            assert words(part) == [[w.replace(facing, lang) for w in document] for document in words(theirs)]
            assert part.concepts.tolist() == found.languages[lang].concepts[rows].tolist()
            assert part.titles == [found.languages[lang].titles[i] for i in rows]


def test_counterparts_in_the_same_language_are_the_language_s_own_texts() -> None:
    found = read_corpus(parallel([7, 3, 1, 12]), comparable=True)
    for lang, texts in found.languages.items():
        for rows in (np.arange(4), np.array([2, 1]), np.zeros(0, np.int64)):
            assert plain(found.with_paragraphs_of(lang, lang, rows)) == plain(texts.select_rows(rows))


def test_counterparts_in_a_corpus_that_is_not_comparable_are_whole_texts() -> None:
    found = read_corpus(parallel([7, 3]))
    rows = np.array([1, 0])
    assert plain(found.with_paragraphs_of("aa", "bb", rows)) == plain(found.languages["aa"].select_rows(rows))


def test_plain_texts_have_the_paragraphs_of_the_requested_language() -> None:
    documents = parallel([4, 2])
    found = read_corpus(documents, comparable=True)
    rows = np.array([1, 0])
    assert found.plain_texts("bb", rows) == ["bb1.1 bb", "bb0.1 bb"]
    assert found.plain_texts("bb", rows, "aa") == ["bb1.0 bb", "bb0.0 bb\nbb0.3 bb"]
    assert read_corpus(documents).plain_texts("bb", rows, "aa") == [d.text for d in documents if d.lang == "bb"][::-1]


def test_the_filtered_corpus_has_the_documents_with_a_suitable_number_of_unique_words() -> None:
    texts = ["a", "a a a b", "a b c", "a b c d d"]
    documents = [Document(f"Q{i}", lang, text, f"{i}") for i, text in enumerate(texts) for lang in ("aa", "bb")]
    found = read_corpus(documents).with_unique_words(2, 3)
    for lang, own in found.languages.items():
        assert plain(own) == [(1, "1", texts[1].split()), (2, "2", texts[2].split())]
        assert found.raw_texts[lang].to_pylist() == texts[1:3]
        assert words(found.with_paragraphs_of(lang, lang, np.arange(2))) == words(own)


# Documents and tokens


@pytest.mark.parametrize(
    "chosen", [[0], [5, 0, 3], [1], [4, 1], [2, 2, 2, 0, 2], [], list(range(6)), [-1, -5], [1, 1, 4, 5]]
)
def test_rows_are_the_documents_in_the_order_chosen(chosen: list[int]) -> None:
    texts = some_texts()
    every = plain(texts)
    found = texts.select_rows(np.array(chosen, np.int64))
    assert plain(found) == [every[i] for i in chosen]
    assert len(found) == len(chosen)
    assert len(found.tokens.offsets) == len(chosen) + 1


def test_rows_of_rows_are_rows() -> None:
    texts = some_texts((4, 0, 2, 7, 1, 1, 0, 3))
    first, second = np.array([6, 3, 3, 0, 7]), np.array([4, 1, 0, 2, 1])
    assert plain(texts.select_rows(first).select_rows(second)) == plain(texts.select_rows(first[second]))
    assert plain(texts.select_rows(first).select_rows(np.zeros(0, np.int64)).select_rows(np.zeros(0, np.int64))) == []


def test_counts_are_those_of_a_counter() -> None:
    texts = some_texts((30, 0, 5, 1, 80))
    for own in (texts, texts.select_rows(np.array([4, 1, 4])), texts.select_rows(np.zeros(0, np.int64))):
        counted = own.counts
        dense = counted.matrix.toarray()
        found = [{counted.words[j]: int(row[j]) for j in np.flatnonzero(row)} for row in dense]
        assert found == [dict(Counter(document)) for document in words(own)]


def test_keeping_tokens_by_a_mask_keeps_these_tokens() -> None:
    texts = some_texts((6, 0, 3, 9))
    random = np.random.default_rng(1)
    kept = random.random(18) < 0.5
    kept[6:9] = False  # a whole document
    left = iter(kept.tolist())
    expected = [[word for word in document if next(left)] for document in words(texts)]
    found = texts.keep_tokens(kept)
    assert words(found) == expected
    assert (found.concepts.tolist(), found.titles) == (texts.concepts.tolist(), texts.titles)
    assert words(texts.keep_tokens(np.ones(18, bool))) == words(texts)
    assert words(texts.keep_tokens(np.zeros(18, bool))) == [[]] * 4


def test_tokens_that_were_not_kept_are_not_counted() -> None:
    texts = some_texts((6, 0, 3, 9))
    assert texts.counts.matrix.sum() == 18  # which is cached for these texts only
    assert texts.keep_tokens(np.arange(18) < 4).counts.matrix.sum() == 4


# Masking


def made(documents: dict[str, list[tuple[int, list[str]]]]) -> dict[str, TokenisedTexts]:
    """Documents of several languages, each a concept and its words."""
    return {
        lang: TokenisedTexts(
            PLAIN([" ".join(text) for _, text in own], lang),
            np.array([concept for concept, _ in own], np.int64),
            [""] * len(own),
        )
        for lang, own in documents.items()
    }


def masked(documents: dict[str, list[tuple[int, list[str]]]]) -> dict[str, list[list[str]]]:
    """What is left of documents, by the definition."""
    said = {
        (lang, concept): {word for other, text in own if other == concept for word in text}
        for lang, own in documents.items()
        for concept, _ in own
    }

    def shared(word: str, lang: str, concept: int) -> bool:
        return any(word in said.get((other, concept), ()) for other in documents if other != lang)

    return {
        lang: [[word for word in text if not shared(word, lang, concept)] for concept, text in own]
        for lang, own in documents.items()
    }


def test_masking_removes_words_that_another_language_s_document_of_the_concept_has() -> None:
    documents = {
        "aa": [(0, ["x", "a", "x", "y"]), (1, ["x", "z"]), (0, ["b", "b"])],
        "bb": [(0, ["x", "c"]), (2, ["z", "y"])],
        "cc": [(1, ["z", "a"]), (0, ["b"])],
    }
    found = {lang: words(texts) for lang, texts in mask_shared_words(made(documents)).items()}
    assert found == {"aa": [["a", "y"], ["x"], []], "bb": [["c"], ["z", "y"]], "cc": [["a"], []]}
    assert found == masked(documents)


def test_a_word_that_only_documents_of_one_language_share_stays() -> None:
    documents = {"aa": [(0, ["x"]), (0, ["x"])], "bb": [(0, ["y"]), (1, ["x"])]}
    assert {lang: words(texts) for lang, texts in mask_shared_words(made(documents)).items()} == masked(documents)
    assert masked(documents)["aa"] == [["x"], ["x"]]


def test_languages_that_share_no_string_are_left_as_they_are() -> None:
    found = read_corpus(small_corpus()).languages
    for lang, texts in mask_shared_words(found).items():
        assert plain(texts) == plain(found[lang])


def test_the_same_text_in_every_language_leaves_nothing() -> None:
    documents = [Document(f"Q{i}", lang, f"a{i} b{i} c") for i in range(4) for lang in ("aa", "bb")]
    assert all(words(texts) == [[]] * 4 for texts in mask_shared_words(read_corpus(documents).languages).values())


some_documents = st.lists(st.tuples(st.integers(0, 3), st.lists(st.sampled_from("abcdefgh"), max_size=6)), max_size=5)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(["aa", "bb", "cc"]), some_documents, min_size=2))
@settings(max_examples=up_to(150), deadline=None)
def test_masked_versions_share_no_word_and_only_what_they_shared_is_gone(
    documents: dict[str, list[tuple[int, list[str]]]],
) -> None:
    result = mask_shared_words(made(documents))
    assert {lang: words(texts) for lang, texts in result.items()} == masked(documents)
    said: dict[tuple[str, int], set[str]] = {}
    for lang, texts in result.items():
        for concept, _, left in plain(texts):
            said.setdefault((lang, concept), set()).update(left)
    for (lang, concept), own in said.items():
        for (other, same), theirs in said.items():
            assert lang == other or concept != same or not own & theirs


def test_masking_some_rows_considers_only_these_rows() -> None:
    documents = {"aa": [(0, ["x", "a"]), (0, ["y"])], "bb": [(0, ["x"]), (0, ["y"])]}

    def left(rows: Ints) -> list[list[str]]:
        return words(
            mask_shared_words({lang: texts.select_rows(rows) for lang, texts in made(documents).items()})["aa"]
        )

    assert left(np.array([0])) == [["a"]]
    assert left(np.array([1, 0])) == [[], ["a"]]
