"""Systems of views on made-up languages: controls, one training for several systems, and the texts that they share."""

from collections.abc import Mapping
from dataclasses import replace

import madeup
import numpy as np
import pytest

from cr5.corpus.documents import Document
from cr5.corpus.inputs import in_batches
from cr5.evaluate.runs import Run
from cr5.evaluate.splits import make_split
from cr5.evaluate.systems import views
from cr5.evaluate.systems.cr5_system import fit_cr5
from cr5.evaluate.systems.fitted_system import EmbeddingCache, FittedSystem, NotApplicableError, System
from cr5.evaluate.systems.registry import SYSTEMS, make_systems
from cr5.evaluate.systems.views import ALL_VIEWS, Cr5Views, SharedTraining, character_ngrams, cr5_dense, cr5_views
from cr5.evaluate.tasks.documents import HeldOutDocuments, evaluate_documents, hold_out
from cr5.evaluate.texts import EvaluationCorpus, TokenisedTexts, read_texts
from cr5.features.tokeniser import Tokeniser
from cr5.retrieval.lexicon import make_lexicon
from cr5.settings import make_settings

SETTINGS = make_settings(**madeup.SETTINGS | {"rank": 40})
LETTERS = list("bcdfghjklmnpqrstvwxz")


def named(documents: list[Document], seed: int = 0) -> list[Document]:
    """The documents, in each of which stands the name of its concept, the same in all languages."""
    random = np.random.default_rng(seed)
    names = {concept: "".join(random.choice(LETTERS, 9)) for concept in sorted({d.concept for d in documents})}
    return [Document(d.concept, d.lang, f"{d.text} {names[d.concept]}", d.title) for d in documents]


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return madeup.corpus(("aa", "bb"), concepts=300)


def prepared(documents: list[Document], *, mask_shared: bool = False) -> HeldOutDocuments:
    corpus: EvaluationCorpus = read_texts(in_batches(documents), Tokeniser())
    return hold_out(corpus, make_split(corpus, min_unique=5, max_unique=1000), mask_shared=mask_shared)


def evaluated(held_out: HeldOutDocuments, *keys: str) -> Run:
    systems = make_systems([SYSTEMS[key] for key in keys], SETTINGS, held_out.training_texts())
    run = evaluate_documents(held_out, systems, title="views", rank=40)
    assert run.failed == []
    return run


def p1(run: Run, key: str, measure: str = "csls") -> float:
    return float(np.mean([score.precision() for score in run.select(SYSTEMS[key].name, "joint", measure)]))


def ranks(run: Run, key: str) -> list[list[int]]:
    return [score.ranks for score in run.scores if score.system == SYSTEMS[key].name]


def near_chance(run: Run, system: str) -> bool:
    scores = run.select(system, "joint", "csls")
    chance = float(np.mean([100 / score.candidates for score in scores]))
    queries = sum(len(score.ranks) for score in scores)
    return bool(np.mean([s.precision() for s in scores]) < chance + 4 * np.sqrt(chance * 100 / queries))


@pytest.mark.slow
def test_every_view_finds_counterparts_and_all_together_are_no_worse(documents: list[Document]) -> None:
    run = evaluated(prepared(documents), "cr5", "cr5-dense", "lexicon")
    assert p1(run, "lexicon") > 60
    assert p1(run, "cr5-dense") > 60
    assert p1(run, "cr5") >= p1(run, "cr5-dense")


@pytest.mark.slow
def test_names_are_found_by_strings_and_masked_names_are_not(documents: list[Document]) -> None:
    with_names = named(documents)
    run = evaluated(prepared(with_names), "cr5", "cr5-dense", "chars")
    assert p1(run, "chars") > 90
    assert p1(run, "cr5") > 90
    masked = evaluated(prepared(with_names, mask_shared=True), "chars")
    assert near_chance(masked, SYSTEMS["chars"].name)


def test_strings_that_cannot_help_leave_every_rank_as_it_is(documents: list[Document]) -> None:
    # The alphabets have no letter in common: the view of strings is left out, instead of adding noise.
    held_out, shared = prepared(documents), SharedTraining()
    systems: dict[str, System] = {
        "cr5": cr5_views(SETTINGS, shared, ["dense", "strings"]),
        "cr5-dense": cr5_dense(SETTINGS, shared),
    }
    run = evaluate_documents(held_out, systems, title="no shared letter", rank=40)
    assert ranks(run, "cr5") == ranks(run, "cr5-dense")
    assert all(rank == score.candidates for score in evaluated(held_out, "chars").scores for rank in score.ranks)


def test_masked_shared_words_give_no_gain_from_strings(documents: list[Document]) -> None:
    held_out, shared = prepared(named(documents), mask_shared=True), SharedTraining()
    systems: dict[str, System] = {
        "cr5": cr5_views(SETTINGS, shared, ["dense", "strings"]),
        "cr5-dense": cr5_dense(SETTINGS, shared),
    }
    run = evaluate_documents(held_out, systems, title="masked", rank=40)
    assert ranks(run, "cr5") == ranks(run, "cr5-dense")


def shuffled(system: System) -> System:
    """The same system, trained on documents whose concepts have been shuffled."""

    def fit(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> FittedSystem:
        random = np.random.default_rng(5)
        mixed = {
            lang: TokenisedTexts(texts.tokens, random.permutation(texts.concepts), texts.titles)
            for lang, texts in training.items()
        }
        return system(mixed, rank=rank, seed=seed)

    return fit


@pytest.mark.parametrize("names", [("dense", "lexicon", "strings"), ("lexicon",)])
def test_all_views_of_a_model_of_shuffled_concepts_score_at_chance(
    documents: list[Document], names: tuple[str, ...]
) -> None:
    system = shuffled(cr5_views(SETTINGS, SharedTraining(), names))
    run = evaluate_documents(prepared(documents), {"shuffled": system}, title="control", rank=40)
    assert near_chance(run, "shuffled")


def test_a_system_has_the_weights_of_its_model(documents: list[Document]) -> None:
    held_out = prepared(documents)
    settings = replace(SETTINGS, strings_weight=0.4)
    model, lexicon = SharedTraining().get(settings, held_out.training_texts())
    fitted = Cr5Views(model, lexicon)
    assert fitted.scorer.weights == {"dense": 1, "lexicon": 0.6, "strings": 0.4}
    assert "views dense 1, lexicon 0.6, strings 0.4" in fitted.signature


@pytest.mark.slow
def test_one_training_serves_all_systems_of_a_model(documents: list[Document], monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[int] = []
    lexicons: list[int] = []

    def count_training(training: Mapping[str, TokenisedTexts], *given: object) -> object:
        trained.append(len(training))
        return fit_cr5(training, SETTINGS)

    def count_lexicons(*given: object, **options: object) -> object:
        lexicons.append(1)
        return make_lexicon(*given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(views, "fit_cr5", count_training)
    monkeypatch.setattr(views, "make_lexicon", count_lexicons)
    held_out = prepared(documents)
    systems = make_systems([SYSTEMS[key] for key in ("cr5", "cr5-dense", "lexicon")], SETTINGS, {})
    run = evaluate_documents(held_out, systems, title="shared", regimes=["joint", "low-resource"], rank=40)
    assert len(trained) == 2  # one for each regime
    assert len(lexicons) == 4  # one for each direction and regime
    assert len(run.trained) == 6
    assert len({round(each.seconds, 3) for each in run.trained if each.regime == "joint"}) <= 2


def test_the_texts_of_a_language_are_embedded_once_for_all_directions(documents: list[Document]) -> None:
    held_out = prepared(documents)
    training = held_out.training_texts()
    model, lexicon = SharedTraining().get(SETTINGS, training)
    fitted, embedded = Cr5Views(model, lexicon), []
    embed = model.embed_counts

    def count(*given: object) -> object:
        embedded.append(given[1])
        return embed(*given)  # type: ignore[arg-type]

    model.embed_counts = count  # type: ignore[method-assign, assignment]
    fitted = Cr5Views(model, lexicon)
    cache = EmbeddingCache(fitted, held_out.texts)
    chosen = np.arange(5)
    rows = cache.views("aa", chosen, "bb")
    cache.views("bb", chosen, "aa")
    assert embedded == ["aa", "bb"]
    assert [row.queries.shape[0] for row in rows] == [5] * len(rows)
    direct = fitted.views(held_out.texts["aa"], "aa", held_out.texts["bb"], "bb")
    assert [row.weight for row in rows] == [row.weight for row in direct]


def test_a_signature_names_the_views_and_their_weights(documents: list[Document]) -> None:
    run = evaluated(prepared(documents), "cr5", "cr5-dense", "chars")
    signatures = {score.system: score.signature for score in run.scores}
    assert "|views dense 1, lexicon " in signatures["cr5"]
    assert "views" not in signatures["cr5-dense"]
    assert "|views strings " in signatures[SYSTEMS["chars"].name]


def test_all_views_and_the_lexicon_alone_compare_words_by_vectors_and_spelling(documents: list[Document]) -> None:
    training = prepared(documents).training_texts()
    shared = SharedTraining()
    for names in (ALL_VIEWS, ["lexicon"]):
        fitted = cr5_views(SETTINGS, shared, names)(training, rank=40, seed=0)
        spellings = fitted.word_spellings("aa", "bb")
        assert spellings is not None
        assert len(fitted.words("aa")) == len(fitted.word_vectors("aa")) == spellings.source.shape[0]
        assert len(fitted.words("bb")) == len(fitted.word_vectors("bb")) == spellings.target.shape[0]


def test_character_ngrams_find_words_that_are_spelled_alike(documents: list[Document]) -> None:
    fitted = character_ngrams(prepared(documents).training_texts(), rank=40, seed=0)
    words, spellings = fitted.words("aa"), fitted.word_spellings("aa", "aa")
    assert spellings is not None
    assert (spellings.source @ spellings.target.T).toarray().argmax(axis=1).tolist() == list(range(len(words)))
    assert not fitted.word_vectors("aa").any()
    with pytest.raises(NotApplicableError, match="no words of xx"):
        fitted.words("xx")
