"""A corpus becomes counts, and every document can still be found again."""

from collections.abc import Iterator
from dataclasses import replace
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
from cr5.features.tfidf import Vocabulary, Weighting, fit_vocabulary
from cr5.features.tokeniser import Tokeniser
from cr5.progress import Progress
from cr5.training.counted_corpus import CountedCorpus, CountedDocuments, count_corpus, subword_matrices
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
        corpus.require_shared()
    return str(caught.value)


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 100])
def test_mixed_languages_are_separated_and_keep_their_order(batch_rows: int) -> None:
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


def test_document_counts_are_by_concept_and_language() -> None:
    # en it zh of Q2, Q1, Q9, Q7
    assert collected(DOCUMENTS).document_counts().tolist() == [[2, 1, 0], [1, 1, 0], [1, 0, 1], [0, 1, 0]]


def test_an_empty_corpus_is_an_empty_collection() -> None:
    corpus = collected([])
    assert (corpus.concepts, corpus.languages, corpus.document_counts().shape) == ([], {}, (0, 0))
    corpus.require_shared()


def test_documents_without_a_word_are_kept_and_have_none() -> None:
    corpus = collected([Document("Q1", "en", "!"), Document("Q1", "it", "?"), Document("Q2", "it", "sì")], 1)
    assert corpus.languages["en"].counts.unique_words.tolist() == [0]
    assert corpus.languages["it"].counts.unique_words.tolist() == [0, 1]


def test_some_documents_keep_their_order_and_their_concept_numbers() -> None:
    corpus = collected(DOCUMENTS)
    chosen = corpus.select_rows({"en": np.array([1, 3]), "it": np.array([0, 1, 2]), "zh": np.zeros(0, int)})
    assert {lang: names(chosen, lang) for lang in chosen.languages} == {"en": ["Q2", "Q9"], "it": ["Q2", "Q1", "Q7"]}
    assert chosen.concepts == corpus.concepts
    assert chosen.languages["it"] is corpus.languages["it"]
    assert counts(chosen.languages["en"]).matrix.shape[0] == len(chosen.languages["en"].lines) == 2
    assert [len(documents) for documents in corpus.languages.values()] == [4, 3, 1]


def test_the_words_of_some_documents_are_fetched_in_their_order() -> None:
    corpus = collected([Document("Q1", "en", text) for text in ("dog", "!", "cat", "cat dog cat", "fish")])
    fetched = corpus.fetch_counts({"en": np.array([3, 0])})["en"]
    found = [{fetched.words[j]: int(row[j]) for j in np.flatnonzero(row)} for row in fetched.matrix.toarray()]
    assert found == [{"cat": 2, "dog": 1}, {"dog": 1}]
    assert sorted(fetched.words) == ["cat", "dog"]


def test_known_words_are_those_of_the_vocabulary() -> None:
    corpus = collected([Document("Q1", "en", text) for text in ("dog", "!", "cat", "cat dog fish", "fish")])
    words = corpus.fit_vocabularies(Weighting(min_documents=2))
    assert set(words["en"].words) == {"dog", "cat", "fish"}
    few = {"en": Vocabulary(["dog", "bird"], np.ones(2, np.float32), Weighting())}
    assert corpus.have_known_word(words)["en"].tolist() == [True, False, True, True, True]
    assert corpus.have_known_word(few)["en"].tolist() == [True, False, False, True, False]


@pytest.mark.parametrize("idf", ["plain", "smooth"])
def test_an_engine_is_given_weighted_rows_and_renumbered_concepts_of_every_language(
    idf: Literal["plain", "smooth"],
) -> None:
    corpus, engine = collected(DOCUMENTS), CpuEngine()
    weighting = Weighting(idf=idf, min_documents=0)
    number = np.array([7, 0, 3, 1])
    features = corpus.fit_vocabularies(weighting)
    corpus.load_into(engine, features, number, subword_matrices(features))
    assert engine.langs == list(features) == ["en", "it", "zh"]
    blocks, concepts = engine.fetch_documents(np.ones(8, bool))
    for lang, documents in corpus.languages.items():
        alone = fit_vocabulary(counts(documents), weighting)
        assert features[lang].words == alone.words
        np.testing.assert_array_equal(features[lang].idf, alone.idf)
        np.testing.assert_array_equal(blocks[lang].toarray(), alone.transform(counts(documents)).toarray())
        named = dict(zip(number.tolist(), corpus.concepts, strict=True))
        assert [named[i] for i in concepts[lang].tolist()] == [d.concept for d in DOCUMENTS if d.lang == lang]


def test_an_engine_is_given_the_n_grams_of_every_language_that_has_any() -> None:
    corpus, engine = collected(DOCUMENTS), CpuEngine()
    features = corpus.fit_vocabularies(Weighting(min_documents=1, subwords=True))
    features["zh"] = replace(features["zh"], subwords=None)
    matrices = subword_matrices(features)
    corpus.load_into(engine, features, np.arange(4), matrices)
    sizes = [(0, 0) if M is None else (M.shape[1], M.nnz) for M in matrices.values()]
    assert sizes[0] > (0, 0) == sizes[2]
    assert [(block.subwords, block.subword_nonzeros) for block in engine.block_info()] == sizes


# A concept in one language only


def test_a_lone_concept_of_documents_is_named_by_number() -> None:
    assert complaint(collected(DOCUMENTS)) == "`documents[7]`: concept Q7 occurs in language it only" + ADVICE


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
    assert complaint(collected(twice)) == "`documents[0]`: concept Q1 occurs in language en only" + ADVICE


def test_a_corpus_that_shares_every_concept_passes() -> None:
    collected(DOCUMENTS[:7]).require_shared()


# On the way


def test_progress_counts_the_documents_read() -> None:
    seen: list[Progress] = []
    count_corpus(in_batches(DOCUMENTS, 3), Tokeniser(), progress=seen.append)
    assert [(p.stage, p.done, p.note) for p in seen] == [
        ("read and count words", 3, "3 documents"),
        ("read and count words", 6, "6 documents"),
        ("read and count words", 8, "8 documents"),
    ]


def test_batches_are_read_one_at_a_time() -> None:
    given: list[Batch] = []

    def watched() -> Iterator[Batch]:
        for batch in in_batches(DOCUMENTS, 1):
            given.append(batch)
            yield batch

    seen: list[int] = []
    count_corpus(watched(), Tokeniser(), progress=lambda _: seen.append(len(given)))
    assert seen == list(range(1, 9))


def test_languages_whose_codes_no_file_can_have_are_named_or_left_out_and_counted() -> None:
    documents = [Document("Q1", "en", "a"), *[Document(f"Q{i}", "Danish (Denmark)", "b") for i in (1, 2)]]
    corpus = collected([*documents, Document("Q1", "it", "c")])
    with pytest.raises(CorpusError) as caught:
        corpus.with_usable_codes("raise", None)
    assert str(caught.value).startswith(
        "`documents[1]`: 'Danish (Denmark)' is not a language code (2 documents); use one"
    )
    skipped = Skipped()
    kept = corpus.with_usable_codes("skip", skipped)
    assert list(kept.languages) == ["en", "it"]
    assert skipped.counts == {"unusable language code": 2}
    assert kept.with_usable_codes("raise", None) is kept


def test_fields_in_the_wrong_order_are_asked_about_at_the_first_of_them() -> None:
    texts = [f"{name} once went to a town that was not far away" for name in ("Zoe", "Ann", "Bob")]
    documents = [Document("Q0", "en", "a"), *(Document("en", text, f"Q{i}") for i, text in enumerate(texts))]
    with pytest.raises(CorpusError) as caught:
        collected(documents).with_usable_codes("raise", None)
    assert str(caught.value) == (
        "`documents[1]`: 'Zoe once went to a town that was not far away' is not a language code (3 documents with 3 "
        "such codes); check that the fields are in the order concept, lang, text, or leave such documents out with "
        '`on_error="skip"`'
    )


def test_the_code_of_a_language_that_is_named_is_given() -> None:
    corpus = collected([Document("Q1", "en", "a"), Document("Q1", "it", "a")])
    corpus = replace(corpus, languages={"en": corpus.languages["en"], "Français": corpus.languages["it"]})
    with pytest.raises(CorpusError, match=r"`documents\[1\]`: 'Français' is not a language code; use 'fr', or leave"):
        corpus.with_usable_codes("raise", None)
