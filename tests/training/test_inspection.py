"""Every figure against a hand count."""

import json

import pytest

from cr5.corpus.documents import Document
from cr5.corpus.inputs import in_batches
from cr5.features.tfidf import Weighting
from cr5.features.tokeniser import Tokeniser
from cr5.training.inspection import LanguageFacts, inspect
from cr5.training.selection import (
    NO_COUNTERPART,
    NO_WORD,
    ONE_LANGUAGE,
    RARE_WORDS,
    TOO_LONG,
    TOO_SHORT,
    Usage,
)

WEIGHTING = Weighting(min_documents=2, min_unique=2, max_unique=4)
CORPUS = [
    Document("Q1", "en", "dog cat dog"),  # 2 different words
    Document("Q1", "en", "dog cat"),
    Document("Q2", "en", "Dog bird"),
    Document("Q2", "en", "Dog bird"),  # the same again
    Document("Q3", "en", "dog"),  # too short
    Document("Q4", "en", "dog cat bird fish mouse"),  # too long
    Document("Q5", "en", "cat fish"),  # in no other language
    Document("Q6", "en", "bird fish"),  # in another language, but too short there
    Document("Q1", "it", "cane gatto topo uccello"),  # just short enough
    Document("Q2", "it", "cane uccello"),
    Document("Q3", "it", "cane pesce"),  # too short in the other language
    Document("Q4", "it", "topo cane"),  # too long in the other language
    Document("Q6", "it", "pesce"),
    Document("Q2", "da", "Dog bird"),  # no copy: another language
    Document("Q7", "da", "!"),  # without a word
]


@pytest.mark.parametrize("batch_rows", [1, 4, 100])
def test_every_figure_is_that_of_a_hand_count(batch_rows: int) -> None:
    found = inspect(in_batches(CORPUS, batch_rows), Tokeniser(), WEIGHTING)
    assert found.languages == {
        # Trained: Q1, Q1, Q2, Q2 with dog in 4, cat in 2, bird in 2 documents.
        "en": LanguageFacts(
            documents=8,
            concepts=6,
            unique_words=5,
            words=3 + 2 + 2 + 2 + 1 + 5 + 2 + 2,
            vocabulary=3,
            several=2,
            duplicates=1,
        ),
        # Trained: Q1, Q2 with cane and uccello in both.
        "it": LanguageFacts(
            documents=5,
            concepts=5,
            unique_words=5,
            words=11,
            vocabulary=2,
            several=0,
            duplicates=0,
        ),
        "da": LanguageFacts(
            documents=2,
            concepts=2,
            unique_words=2,
            words=2,
            vocabulary=0,
            several=0,
            duplicates=0,
        ),
    }
    assert found.shared == {
        "da": {"da": 2, "en": 1, "it": 1},
        "en": {"da": 1, "en": 6, "it": 5},
        "it": {"da": 1, "en": 5, "it": 5},
    }
    assert (found.concepts, found.concepts_shared) == (7, 5)
    assert found.usage.languages == {
        "en": Usage(8, 4, {TOO_SHORT: 1, TOO_LONG: 1, ONE_LANGUAGE: 1, NO_COUNTERPART: 1}),
        "it": Usage(5, 2, {TOO_SHORT: 1, NO_COUNTERPART: 2}),
        "da": Usage(2, 0, {NO_WORD: 1, RARE_WORDS: 1}),  # no Danish word is in two documents
    }
    left_out, few, repeated = found.notes
    assert "language da is left out" in left_out
    assert "only 2 shared concepts" in few
    assert "(en 1 of 4)" in repeated
    assert found.usage.concepts == Usage(7, 2, {ONE_LANGUAGE: 2, NO_COUNTERPART: 3})


def test_every_document_is_used_or_left_out_for_one_reason() -> None:
    usage = inspect(in_batches(CORPUS), Tokeniser(), WEIGHTING).usage
    for part in (*usage.languages.values(), usage.documents, usage.concepts):
        assert part.read == part.used + sum(part.left_out.values())


def test_the_vocabulary_is_cut_at_its_limit() -> None:
    found = inspect(in_batches(CORPUS), Tokeniser(), Weighting(min_documents=1, max_words=3, min_unique=0))
    assert {lang: facts.vocabulary for lang, facts in found.languages.items()} == {"da": 2, "en": 3, "it": 3}


def test_copies_are_counted_each_time_but_the_first() -> None:
    copies = [Document(f"Q{i}", "en", "same text") for i in range(4)] + [Document("Q1", "en", "Same text")]
    assert inspect(in_batches(copies, 2), Tokeniser(), WEIGHTING).languages["en"].duplicates == 3


def test_an_empty_corpus_has_no_figures() -> None:
    found = inspect([], Tokeniser(), WEIGHTING)
    assert (found.languages, found.shared, found.concepts, found.concepts_shared) == ({}, {}, 0, 0)
    assert (found.usage.documents, found.usage.concepts) == (Usage(0, 0, {}), Usage(0, 0, {}))


def test_figures_are_plain_values() -> None:
    found = inspect(in_batches(CORPUS), Tokeniser(), WEIGHTING)
    plain = json.loads(json.dumps(found.to_json()))
    assert plain["usage"]["languages"]["en"]["used"] == 4
    assert plain["usage"]["documents"]["read"] == 15
    assert plain["shared"]["en"]["it"] == 5


def test_a_language_code_that_training_would_refuse_is_noted() -> None:
    documents = [Document(f"Q{i}", lang, "dog cat") for i in range(3) for lang in ("en", "a/b")]
    [note] = [
        note for note in inspect(in_batches(documents), Tokeniser(), WEIGHTING).notes if "not a language code" in note
    ]
    assert note.startswith("`documents[1]`: 'a/b' is not a language code (3 documents); ")
