"""A corpus becomes counts, and every document can still be found again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from cr5.corpus.documents import Batch, Document
from cr5.corpus.inputs import in_batches
from cr5.corpus.reading import read_batches
from cr5.corpus.skipped import Skipped
from cr5.corpus.writing import write
from cr5.errors import CorpusError
from cr5.features.counts import WordCounts, count_words
from cr5.features.tfidf import Weighting, fit_vocabulary
from cr5.features.tokeniser import Tokeniser
from cr5.progress import Progress
from cr5.training.counted_corpus import CountedCorpus, CountedDocuments, count_corpus
from cr5.training.engines.cpu import CpuEngine

DOCUMENTS = [
    Document("Q2", "it", "il cane e il gatto"),
    Document("Q1", "en", "the dog"),
    Document("Q2", "en", "the cat and the dog"),
    Document("Q9", "zh", "我喜欢喝咖啡"),
    Document("Q1", "it", "il cane"),
    Document("Q2", "en", "a cat"),
    Document("Q9", "en", "coffee"),
    Document("Q7", "it", "solo"),
]
ADVICE = '; correct the corpus, or leave out `on_error="raise"`'


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs in a folder of its own, so that messages quote short paths."""
    monkeypatch.chdir(tmp_path)


def collected(documents: list[Document], batch_rows: int = 3) -> CountedCorpus:
    return count_corpus(in_batches(documents, batch_rows), Tokeniser(), threads=2)


def names(corpus: CountedCorpus, lang: str) -> list[str]:
    return [corpus.concepts[i] for i in corpus.languages[lang].concepts]


def counts(documents: CountedDocuments) -> WordCounts:
    """Those that lie here, with no worker of a cluster."""
    assert isinstance(documents.counts, WordCounts)
    return documents.counts


def complaint(corpus: CountedCorpus) -> str:
    with pytest.raises(CorpusError) as caught:
        corpus.require_shared(None)
    return str(caught.value)


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 100])
def test_languages_that_come_mixed_are_taken_apart_in_order(batch_rows: int) -> None:
    corpus = collected(DOCUMENTS, batch_rows)
    assert list(corpus.languages) == ["en", "it", "zh"]
    assert corpus.concepts == ["Q2", "Q1", "Q9", "Q7"]
    for lang, documents in corpus.languages.items():
        here = [(i, d) for i, d in enumerate(DOCUMENTS, 1) if d.lang == lang]
        assert names(corpus, lang) == [d.concept for _, d in here]
        assert documents.lines.tolist() == [i for i, _ in here]
        assert len(documents) == len(here)
        alone = count_words([d.text for _, d in here], lang, Tokeniser())
        assert counts(documents).words == alone.words
        np.testing.assert_array_equal(counts(documents).matrix.toarray(), alone.matrix.toarray())


def test_presence_counts_the_documents_of_every_concept_and_language() -> None:
    # en it zh of Q2, Q1, Q9, Q7
    assert collected(DOCUMENTS).document_counts().tolist() == [[2, 1, 0], [1, 1, 0], [1, 0, 1], [0, 1, 0]]


def test_an_empty_corpus_is_an_empty_collection() -> None:
    corpus = collected([])
    assert (corpus.concepts, corpus.languages, corpus.document_counts().shape) == ([], {}, (0, 0))
    corpus.require_shared(None)


def test_documents_without_a_word_are_kept_and_have_none() -> None:
    corpus = collected([Document("Q1", "en", "!"), Document("Q1", "it", "?"), Document("Q2", "it", "sì")], 1)
    assert corpus.languages["en"].counts.unique_words.tolist() == [0]
    assert corpus.languages["it"].counts.unique_words.tolist() == [0, 1]


@pytest.mark.parametrize(("smallest", "largest"), [(0, 100), (2, 2), (2, 4), (3, 3), (5, 9)])
def test_sizes_are_different_words_with_both_limits_inside(smallest: int, largest: int) -> None:
    chosen = collected(DOCUMENTS).with_unique_words(smallest, largest)
    for lang, documents in chosen.languages.items():
        here = [d for d in DOCUMENTS if d.lang == lang]
        sizes = [len(count_words([d.text], lang, Tokeniser()).words) for d in here]
        kept = [d.concept for d, size in zip(here, sizes, strict=True) if smallest <= size <= largest]
        assert names(chosen, lang) == kept
        assert counts(documents).matrix.shape[0] == len(documents.lines) == len(documents.sources) == len(kept)


def test_shared_concepts_are_those_of_two_languages_and_keep_all_their_documents() -> None:
    chosen = collected(DOCUMENTS).with_shared_concepts()
    assert {lang: names(chosen, lang) for lang in chosen.languages} == {
        "en": ["Q1", "Q2", "Q2", "Q9"],
        "it": ["Q2", "Q1"],
        "zh": ["Q9"],
    }
    assert chosen.concepts == ["Q2", "Q1", "Q9", "Q7"]  # numbers stay what they were


def test_a_concept_whose_other_documents_are_dropped_is_shared_no_more() -> None:
    chosen = collected(DOCUMENTS).with_unique_words(2, 100).with_shared_concepts()
    assert {lang: names(chosen, lang) for lang in chosen.languages} == {
        "en": ["Q1", "Q2", "Q2"],
        "it": ["Q2", "Q1"],
        "zh": [],
    }


def test_filters_leave_the_collection_as_it_was() -> None:
    corpus = collected(DOCUMENTS)
    corpus.with_unique_words(2, 3).with_shared_concepts()
    assert [len(documents) for documents in corpus.languages.values()] == [4, 3, 1]


@pytest.mark.parametrize("idf", ["plain", "smooth"])
def test_put_hands_over_every_languages_weighed_words_and_renamed_concepts(idf: Literal["plain", "smooth"]) -> None:
    corpus, engine = collected(DOCUMENTS), CpuEngine()
    weighting = Weighting(idf=idf, min_documents=0)
    number = np.array([7, 0, 3, 1])
    features = corpus.load_into(engine, weighting, number)
    assert engine.langs == list(features) == ["en", "it", "zh"]
    blocks, concepts = engine.fetch_documents(np.ones(8, bool))
    for lang, documents in corpus.languages.items():
        alone = fit_vocabulary(counts(documents), weighting)
        assert features[lang].words == alone.words
        np.testing.assert_array_equal(features[lang].idf, alone.idf)
        np.testing.assert_array_equal(blocks[lang].toarray(), alone.transform(counts(documents)).toarray())
        named = dict(zip(number.tolist(), corpus.concepts, strict=True))
        assert [named[i] for i in concepts[lang].tolist()] == [d.concept for d in DOCUMENTS if d.lang == lang]


# A concept in one language only


def test_a_lone_concept_of_documents_is_named_by_number() -> None:
    assert complaint(collected(DOCUMENTS)) == "document 8: concept Q7 occurs in language it only" + ADVICE


def test_a_lone_concept_of_a_file_is_named_by_file_and_line() -> None:
    write("en.jsonl", [Document("Q1", "en", "dog"), Document("Q5", "en", "alone")])
    write("it.jsonl", [Document("Q1", "it", "cane"), Document("Q6", "it", "solo")])
    with_two = count_corpus(read_batches(["en.jsonl", "it.jsonl"]), Tokeniser())
    assert with_two.sources == ["en.jsonl", "it.jsonl"]
    assert complaint(with_two) == "en.jsonl:2: concept Q5 occurs in language en only (2 concepts do)" + ADVICE


def test_a_lone_concept_of_a_parquet_file_is_named_by_row() -> None:
    write("all.parquet", [*DOCUMENTS[:7], DOCUMENTS[7]])
    corpus = count_corpus(read_batches("all.parquet"), Tokeniser())
    assert complaint(corpus) == "all.parquet: row 8: concept Q7 occurs in language it only" + ADVICE


def test_two_documents_of_one_language_do_not_share_a_concept() -> None:
    twice = [Document("Q1", "en", "dog"), Document("Q1", "en", "hound")]
    assert complaint(collected(twice)) == "document 1: concept Q1 occurs in language en only" + ADVICE


def test_lone_concepts_are_counted_when_they_are_skipped() -> None:
    skipped = Skipped()
    more = [Document("Q7", "it", "ancora"), Document("Q8", "zh", "一")]
    collected(DOCUMENTS + more).require_shared(skipped)
    assert skipped.counts == {"concept in one language only": 3}
    assert skipped.examples == {
        "concept in one language only": "document 8: concept Q7 occurs in language it only",
    }


def test_a_corpus_that_shares_every_concept_passes() -> None:
    skipped = Skipped()
    collected(DOCUMENTS[:7]).require_shared(None)
    collected(DOCUMENTS[:7]).require_shared(skipped)
    assert skipped.total == 0


# On the way


def test_progress_counts_the_documents_read() -> None:
    seen: list[Progress] = []
    count_corpus(in_batches(DOCUMENTS, 3), Tokeniser(), progress=seen.append)
    assert [(p.stage, p.done, p.note) for p in seen] == [
        ("read and count words", 3, "3 documents"),
        ("read and count words", 6, "6 documents"),
        ("read and count words", 8, "8 documents"),
    ]


def test_batches_are_asked_for_one_after_the_other() -> None:
    given: list[Batch] = []

    def watched() -> Iterator[Batch]:
        for batch in in_batches(DOCUMENTS, 1):
            given.append(batch)
            yield batch

    seen: list[int] = []
    count_corpus(watched(), Tokeniser(), progress=lambda _: seen.append(len(given)))
    assert seen == list(range(1, 9))
