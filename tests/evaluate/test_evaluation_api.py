"""The Python interface of the evaluation: forms of input, parameters that do not fit, systems of one's own."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import madeup
import numpy as np
import pandas as pd
import pytest
from limits import file_size_limit

from cr5 import Cr5, Document, evaluate, write
from cr5.corpus.inputs import in_batches
from cr5.errors import Cr5Error, NotFittedError, ResultsNotWrittenError
from cr5.evaluate.dictionaries import read_dictionaries
from cr5.evaluate.systems.fitted_system import FittedSystem
from cr5.evaluate.systems.registry import KEYS, SYSTEMS, SystemEntry, choose_systems, make_systems, role_of
from cr5.evaluate.texts import TokenisedTexts, read_texts
from cr5.features.tokeniser import Tokeniser
from cr5.settings import make_settings

SETTINGS = make_settings(rank=40, ridge=0.3, min_documents=2, min_unique=5)


@pytest.fixture(scope="module")
def articles() -> list[Document]:
    return madeup.corpus(concepts=300)


@pytest.fixture(scope="module")
def corpus_file(articles: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpora") / "corpus.jsonl"
    write(path, articles)
    return path


@pytest.fixture(scope="module")
def run(articles: list[Document]) -> evaluate.Run:
    return evaluate.documents(articles, systems=["shared-tokens"], settings=SETTINGS)


def test_a_corpus_may_be_documents_batches_a_path_or_several(
    articles: list[Document], corpus_file: Path, run: evaluate.Run
) -> None:
    for corpus in (iter(articles), in_batches(articles), corpus_file, str(corpus_file), [corpus_file]):
        again = evaluate.documents(corpus, systems=["shared-tokens"], settings=SETTINGS)
        assert again.scores == run.scores
    assert run.title == "documents: aa, bb, cc"
    assert (
        evaluate.documents(corpus_file, systems=["shared-tokens"], settings=SETTINGS).title
        == "corpus.jsonl: aa, bb, cc"
    )


def test_results_that_the_disk_has_no_space_for_are_in_the_error_and_earlier_files_stay(
    corpus_file: Path, run: evaluate.Run, tmp_path: Path
) -> None:
    folder = tmp_path / "some" / "results"
    options: dict[str, Any] = {"systems": ["floor"], "settings": SETTINGS, "output": folder}
    with file_size_limit(3000), pytest.raises(ResultsNotWrittenError, match="write_reports") as caught:
        evaluate.documents(corpus_file, **options)
    assert str(caught.value).startswith(f"{folder}: the results cannot be written, file too large; free some space")
    assert caught.value.run.scores == run.scores
    assert not list(tmp_path.iterdir())
    evaluate.documents(corpus_file, seed=1, **options)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert len(before["run.json"]) != len(before["report.html"])
    largest = max(map(len, before.values()))
    with file_size_limit(largest - 1000), pytest.raises(ResultsNotWrittenError):  # the others have space
        evaluate.documents(corpus_file, **options)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    evaluate.write_reports(caught.value.run, tmp_path / "other")
    assert evaluate.load_run(tmp_path / "other").scores == run.scores


def test_held_out_texts_are_written_together_or_not_at_all(corpus_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "some" / "texts"
    sizes = evaluate.held_out_texts(corpus_file, folder, settings=SETTINGS)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(before) == {f"{lang}.jsonl" for lang in sizes}
    assert len(set(map(len, before.values()))) == 3
    for target in (folder, tmp_path / "other"):
        largest = max(map(len, before.values()))
        with file_size_limit(largest - 1), pytest.raises(OSError, match="File too large") as caught:
            evaluate.held_out_texts(corpus_file, target, settings=SETTINGS, seed=0)
        assert caught.value.filename == str(target)
        found = {path.name: path.read_bytes() for path in target.iterdir()} if target.exists() else {}
        assert found == (before if target == folder else {})


def test_a_corpus_may_be_a_table_and_a_number_one_of_numpy(articles: list[Document], tmp_path: Path) -> None:
    sizes: list[Any] = [20, np.int64(20)]
    runs = [
        evaluate.documents(
            pd.DataFrame(articles),
            systems=["shared-tokens"],
            settings=SETTINGS,
            seed=size,
            queries=size,
            candidates=size,
            output=tmp_path / type(size).__name__,
        )
        for size in sizes
    ]
    assert runs[0].scores == runs[1].scores
    assert evaluate.load_run(tmp_path / "int64").scores == runs[0].scores
    with pytest.raises(Cr5Error, match=r"^`queries=2.5` must be a whole number of at least 10$"):
        evaluate.documents(articles, systems=["shared-tokens"], settings=SETTINGS, queries=2.5)  # type: ignore[arg-type]


def test_one_system_regime_or_language_may_be_a_string(articles: list[Document], run: evaluate.Run) -> None:
    again = evaluate.documents(articles, systems="shared-tokens", regimes="joint", settings=SETTINGS)
    assert again.scores == run.scores
    with pytest.raises(Cr5Error, match="no system 'magic'"):
        evaluate.documents(articles, systems="magic")
    with pytest.raises(Cr5Error, match=r"there is only aa; add documents in another language, or change `langs`$"):
        evaluate.documents(articles, systems="shared-tokens", settings=SETTINGS, langs="aa")


def test_the_output_folder_gets_the_run_and_the_split_which_can_be_used_again(
    articles: list[Document], run: evaluate.Run, tmp_path: Path
) -> None:
    evaluate.documents(articles, systems=["shared-tokens"], settings=SETTINGS, output=tmp_path / "out")
    assert evaluate.load_run(tmp_path / "out").scores == run.scores
    split = evaluate.Split.load(tmp_path / "out" / "split.json")
    for given in (split, tmp_path / "out" / "split.json", str(tmp_path / "out" / "split.json")):
        assert (
            evaluate.documents(articles, systems=["shared-tokens"], settings=SETTINGS, split=given).scores == run.scores
        )
    assert not any(row.significant for row in evaluate.compare(tmp_path / "out", run))


def test_settings_may_be_a_dict_or_a_model(articles: list[Document], run: evaluate.Run) -> None:
    values: dict[str, Any] = {"rank": 40, "ridge": 0.3, "min_documents": 2, "min_unique": 5}
    for given in (values, Cr5(**values)):
        assert evaluate.documents(articles, systems=["shared-tokens"], settings=given).scores == run.scores
    with pytest.raises(Cr5Error, match="`settings` must be a dict of settings, a Cr5 or Settings, not an int"):
        evaluate.documents(articles, settings=3)  # type: ignore[arg-type]


def test_a_run_is_shown_in_one_line_and_read_by_its_means_and_scores(run: evaluate.Run) -> None:
    assert repr(run).startswith("<Run of documents, documents: aa, bb, cc; ")
    best = max(mean.precision[1] for mean in run.means())
    assert f"best P@1 {best:.1f} (" in repr(run)
    assert len(repr(run)) < 200
    assert all(0 <= score.precision(1) <= 100 for score in run.scores)
    assert repr(replace(run, scores=[])).endswith("; no scores>")


def test_a_small_corpus_is_refused_with_what_is_needed(articles: list[Document]) -> None:
    few = [d for d in articles if int(d.concept[1:]) < 30]
    needed = "an evaluation needs at least 100 concepts that two languages share, there are 30; add documents"
    with pytest.raises(Cr5Error, match=f"^{needed}$"):
        evaluate.documents(few)
    with pytest.raises(Cr5Error, match=f"^{needed}, or change `min_unique` or `max_unique`$"):
        evaluate.documents(few, settings=SETTINGS)


def test_a_model_that_is_not_fitted_is_refused(tmp_path: Path) -> None:
    for name in ("text.en", "text.it"):
        (tmp_path / name).write_text("a\nb\n")
    with pytest.raises(NotFittedError):
        evaluate.sentences(Cr5(), [tmp_path / "text.en", tmp_path / "text.it"])


def test_a_table_in_place_of_files_is_refused() -> None:
    with pytest.raises(Cr5Error, match="a path or several are needed, not a list"):
        evaluate.sentences(Cr5(), [["a dog"], ["un cane"]])  # type: ignore[list-item]
    with pytest.raises(Cr5Error, match="a path or several are needed, not a DataFrame"):
        evaluate.sentences("model", pd.DataFrame({"en": ["a"], "it": ["b"]}))


class Random(FittedSystem):
    """Random vectors."""

    def embed(self, texts: TokenisedTexts, lang: str) -> Any:
        return np.random.default_rng([*lang.encode()]).standard_normal((len(texts), 4)).astype(np.float32)


def train_random(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> FittedSystem:
    return Random()


def test_a_system_of_one_s_own_is_evaluated_beside_the_registered_ones(articles: list[Document]) -> None:
    mine = SystemEntry("mine", "my system", "baseline", lambda options: train_random)
    run = evaluate.documents(articles, systems=["cr5", mine], settings=SETTINGS)
    assert {score.system for score in run.scores} == {"cr5", "my system"}
    precision = {(mean.system, mean.measure): mean.precision[1] for mean in run.means()}
    assert precision["my system", "csls"] < 10 < precision["cr5", "csls"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"systems": ["magic"]}, "no system 'magic'"),
        ({"systems": []}, "`systems` is empty"),
        ({"regimes": ["alone"]}, "no regime 'alone'"),
        ({"regimes": []}, "`regimes` is empty"),
        ({"csls_over": "x"}, "`csls_over='x'` must be"),
        ({"queries": 9}, "`queries=9` must be a whole number of at least 10"),
        ({"queries": -1}, "`queries=-1` must be a whole number of at least 10"),
        ({"low_resource": 20}, "`low_resource` only applies to the regime low-resource"),
        ({"bridge": "aa"}, "`pivot` only applies to the regime transitive"),
        ({"pivot": "aa"}, "`pivot` only applies to the regime transitive"),
        ({"drop": True}, "`drop` only applies to the regime transitive"),
        ({"split": "split.json", "seed": 0}, "`seed` is determined by the split split.json"),
        ({"split": "nowhere.json"}, "nowhere.json does not exist; leave out `split`"),
        ({"systems": ["dictionary"]}, "`dictionary=en-it.tsv`"),
        ({"vectors": {"mine": "nowhere"}}, "nowhere has no vectors"),
        ({"langs": ["aa", "xx"]}, "no document in language xx"),
    ],
)
def test_a_parameter_that_does_not_fit_is_named(
    articles: list[Document], parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(Cr5Error) as caught:
        evaluate.documents(articles, settings=SETTINGS, **parameters)
    assert message in str(caught.value)


def test_stopping_before_anything_was_measured_raises_keyboard_interrupt(articles: list[Document]) -> None:
    with pytest.raises(KeyboardInterrupt):
        evaluate.documents(articles, settings=SETTINGS, should_stop=lambda: True)
    calls = iter([False, True, True, True])  # one batch is read
    with pytest.raises(KeyboardInterrupt):
        evaluate.documents(articles, settings=SETTINGS, should_stop=lambda: next(calls))


def test_sentences_and_words_take_a_model_or_its_folder(model: Cr5, model_folder: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    meanings = [random.choice(madeup.MEANINGS, 6, replace=False).tolist() for _ in range(80)]
    files = [tmp_path / f"sentences.{lang}" for lang in ("aa", "bb")]
    for file in files:
        lang = file.suffix[1:]
        file.write_text("".join(madeup.text(lang, one) + "\n" for one in meanings))
    dictionary = tmp_path / "aa-bb.tsv"
    dictionary.write_text("".join(f"{madeup.word('aa', i)}\t{madeup.word('bb', i)}\n" for i in range(60)))
    sentences = [evaluate.sentences(given, files) for given in (model, model_folder, str(model_folder))]
    words = [evaluate.words(given, dictionary) for given in (model, model_folder)]
    for runs in (sentences, words):
        assert all(again.scores == runs[0].scores for again in runs)
        assert min(mean.precision[1] for mean in runs[0].means()) > 10
    with pytest.raises(Cr5Error, match="`systems` needs documents to train on"):
        evaluate.words(model, dictionary, systems=["shared-tokens"])
    unknown = cast(Any, "x")
    with pytest.raises(Cr5Error, match=r"`csls_over='x'` must be"):
        evaluate.sentences(model, files, csls_over=unknown)
    with pytest.raises(Cr5Error, match=r"`csls_over='x'` must be"):
        evaluate.words(model, dictionary, csls_over=unknown)


@pytest.mark.slow
def test_every_system_can_be_made_and_trained(articles: list[Document], tmp_path: Path) -> None:
    dictionary = tmp_path / "aa-bb.tsv"
    dictionary.write_text("".join(f"{madeup.word('aa', i)}\t{madeup.word('bb', i)}\n" for i in range(200)))
    names = [Document(d.concept, d.lang, f"{d.text} name{i % 40}") for i, d in enumerate(articles) if d.lang != "cc"]
    texts = read_texts(in_batches(names), Tokeniser()).languages
    for name, system in make_systems(list(SYSTEMS.values()), SETTINGS, texts, read_dictionaries([dictionary])).items():
        fitted = system(texts, rank=20, seed=0)
        json.dumps(dict(fitted.report))
        target = "aa" if fitted.monolingual else "bb"
        for view in fitted.views(texts["aa"], "aa", texts[target], target):
            assert view.queries.shape[1] == view.candidates.shape[1], name
            assert view.queries.shape[0] == len(texts["aa"])


def test_all_systems_include_the_one_that_needs_a_dictionary_with_the_reason_why_it_cannot_run() -> None:
    assert [entry.key for entry in choose_systems("all", has_dictionary=False)] == list(KEYS)
    system = make_systems([SYSTEMS["dictionary"]], SETTINGS, {})["word vectors (dictionary)"]
    with pytest.raises(Cr5Error, match=r"^it needs a bilingual dictionary; give one with `dictionary=en-it.tsv`$"):
        system({}, rank=20, seed=0)
    with pytest.raises(Cr5Error, match=r"^the system dictionary needs a bilingual dictionary"):
        choose_systems("dictionary", has_dictionary=False)


def test_roles_of_registered_systems_their_variants_and_others() -> None:
    assert [role_of(SYSTEMS[key].name) for key in KEYS[:5]] == ["own"] * 3 + ["baseline"] * 2
    assert role_of("cr5-dense (training IDF)") == "own"
    assert role_of("cr5 (training IDF)") == role_of("cr5 (trained here)") == "own"
    assert role_of(SYSTEMS["upper-bound"].name) == "upper bound"
    assert role_of("somebody's vectors") == role_of("cr5-like") == role_of("") == "baseline"
    assert "upper-bound" not in KEYS
