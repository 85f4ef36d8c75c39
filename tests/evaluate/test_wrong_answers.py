"""Notes on the wrong answers of an evaluation: untranslated texts and hubs, on the built-in encyclopedia."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cr5 import Document, cli, evaluate, read
from cr5.corpus.inputs import in_batches
from cr5.evaluate.texts import EvaluationCorpus, read_texts
from cr5.evaluate.wrong_answers import WrongAnswers, describe_wrong_answers
from cr5.features.tokeniser import Tokeniser
from cr5.settings import make_settings

UNTRANSLATED = 20


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    """English and Italian articles; every tenth Italian one is left in English, and has an English title."""
    articles = [d for d in read("builtin") if d.lang in ("en", "it")]
    english = {d.concept: d for d in articles if d.lang == "en"}
    concepts = sorted({d.concept for d in articles if d.lang == "it" and d.concept in english})
    untranslated = set(concepts[::10][:UNTRANSLATED])
    return [
        replace(english[d.concept], lang="it") if d.lang == "it" and d.concept in untranslated else d for d in articles
    ]


@pytest.fixture(scope="module")
def corpus(documents: list[Document]) -> EvaluationCorpus:
    return read_texts(in_batches(documents), Tokeniser())


def notes(corpus: EvaluationCorpus, counts: dict[str, Counter[int]], queries: int = 100, **options: int) -> list[str]:
    rows = {lang: np.arange(len(texts)) for lang, texts in corpus.languages.items()}
    answers = {lang: WrongAnswers(queries, of_lang) for lang, of_lang in counts.items()}
    return describe_wrong_answers(corpus, rows, answers, seed=0, **options)


def rows_of(corpus: EvaluationCorpus, documents: list[Document], lang: str, other: str) -> list[int]:
    """The rows of documents of one language whose text is that of another language."""
    texts = {d.text for d in documents if d.lang == other}
    return [i for i, text in enumerate(corpus.raw_texts[lang].to_pylist()) if text in texts]


def test_untranslated_candidates_are_counted_and_the_note_names_the_option(
    corpus: EvaluationCorpus, documents: list[Document]
) -> None:
    foreign = rows_of(corpus, documents, "it", "en")
    assert len(foreign) == UNTRANSLATED
    others = [i for i in range(40) if i not in foreign]
    (note,) = notes(
        corpus, {"en": Counter(), "it": Counter({foreign[3]: 4, foreign[0]: 2, others[0]: 1, others[1]: 1})}
    )
    size = len(corpus.languages["it"])
    title = corpus.languages["it"].titles[foreign[3]]
    assert note == (
        f"it: {UNTRANSLATED} of {size} candidates ({100 * UNTRANSLATED / size:.1f} %) are evidently in another "
        f"language (en; such as “{title}”), and such texts are the first answer to 6 of 8 failed queries; "
        "make the corpus with `drop_foreign` to leave out untranslated texts"
    )


def test_a_note_on_a_sample_names_how_many_it_was_drawn_from(
    corpus: EvaluationCorpus, documents: list[Document]
) -> None:
    foreign = rows_of(corpus, documents, "it", "en")
    (note,) = notes(corpus, {"en": Counter(), "it": Counter({foreign[0]: 2})}, sampled_texts=20)
    assert f" of 20 candidates drawn from {len(corpus.languages['it'])} (" in note


def test_the_option_that_the_note_names_exists(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["corpus", "table", "--help"]) == 0
    assert "--drop-foreign" in capsys.readouterr().out


def test_texts_in_their_declared_language_are_not_noted(corpus: EvaluationCorpus) -> None:
    assert notes(corpus, {"en": Counter(range(30))}) == []


def test_a_hub_is_noted_with_the_number_of_queries(corpus: EvaluationCorpus) -> None:
    (note,) = notes(corpus, {"en": Counter({7: 12, 3: 5, 9: 4, 10: 1})})
    titles = corpus.languages["en"].titles
    assert note == (
        f"en: frequent wrong answers (hubs) come first for 17 of 100 queries: “{titles[7]}” for 12, “{titles[3]}” for 5"
    )
    assert notes(corpus, {"en": Counter({7: 12, 3: 5})}, queries=5000) == []


@pytest.mark.slow
def test_an_evaluation_with_untranslated_texts_points_to_the_option(documents: list[Document], tmp_path: Path) -> None:
    run = evaluate.documents(documents, systems=["cr5"], settings=make_settings(rank=50, ridge=1.0), output=tmp_path)
    assert [note for note in run.notes if note.startswith("it: ") and "drop_foreign" in note]
    for name in ("report.html", "report.md"):
        assert "drop_foreign" in (tmp_path / name).read_text()
