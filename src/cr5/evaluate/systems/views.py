"""Systems that compare texts by views: all views together, which is cr5, or one of them alone."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import NamedTuple, TypeAlias

import numpy as np

from cr5._typing import Array
from cr5.corpus.languages import find_language
from cr5.evaluate.systems.cr5_system import Cr5VectorSystem, fit_cr5
from cr5.evaluate.systems.fitted_system import FittedSystem, NotApplicableError, System, WordSpellings
from cr5.evaluate.texts import TokenisedTexts
from cr5.features.counts import WordCounts
from cr5.features.tfidf import Weighting, fit_vocabulary
from cr5.progress import ProgressCallback, no_progress
from cr5.retrieval.block_products import WeightedView
from cr5.retrieval.lexicon import STRING_WEIGHT, Lexicon, WordVectors, make_lexicon, spelling_rows
from cr5.retrieval.scorer import DEFAULT_WEIGHTS, DenseView, LexiconView, Scorer, StringsView, View
from cr5.retrieval.strings import StringStatistics, string_statistics
from cr5.settings import Settings

ALL_VIEWS = tuple(DEFAULT_WEIGHTS)
LexiconOf: TypeAlias = Callable[[str, str], Lexicon]


class ScoredSystem(FittedSystem):
    """Texts as a ``Scorer`` compares them. The rows of the same texts are computed once."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        weights = ", ".join(f"{name} {scorer.weights[name]:g}" for name in scorer.views)
        self.report = {"signature": f"views {weights}"}

    def views(
        self, queries: TokenisedTexts, query_lang: str, candidates: TokenisedTexts, candidate_lang: str
    ) -> Sequence[WeightedView]:
        return self.scorer.weighted_views(queries.counts, query_lang, candidates.counts, candidate_lang)


class Cr5Views(ScoredSystem):
    """A trained cr5 model, which compares texts by its vectors and by other views, or only by some of these."""

    replaceable_idf = True

    def __init__(self, model: Cr5VectorSystem, lexicon: LexiconOf, names: Sequence[str] = ALL_VIEWS) -> None:
        self.model, self.lexicon, self.names = model, lexicon, names
        every: dict[str, View] = {
            "dense": DenseView(model.embed_counts),
            "lexicon": LexiconView(lexicon, cache(model.word_weights)),
            "strings": StringsView(_statistics),
        }
        weights = model.report.get("view_weights", DEFAULT_WEIGHTS)  # not in reports of older models
        super().__init__(Scorer({name: every[name] for name in names}, weights))
        self.report = {**model.report, "signature": f"{model.signature}|{self.signature}"}
        self.reports_coverage = "dense" in names

    @property
    def langs(self) -> list[str]:
        return self.model.langs

    def words(self, lang: str) -> list[str]:
        return self.model.words(lang)

    def word_vectors(self, lang: str) -> Array:
        return self.model.word_vectors(lang)

    def word_spellings(self, source: str, target: str) -> WordSpellings | None:
        """As the lexicon compares words: by CSLS of their vectors and by their spelling."""
        rows = spelling_rows(self.words(source), self.words(target))
        return WordSpellings(*rows, STRING_WEIGHT / 2)  # halved, because CSLS has two cosines

    def coverage(self, texts: TokenisedTexts, lang: str) -> Array:
        return self.model.coverage(texts, lang)

    def with_idf_of(self, texts: Mapping[str, TokenisedTexts]) -> "Cr5Views":
        return Cr5Views(self.model.with_idf_of(texts), self.lexicon, self.names)


class TrainedModel(NamedTuple):
    """A model that was trained on texts, and its lexicons, each made when it is first asked for."""

    fitted: Cr5VectorSystem
    lexicon: LexiconOf


class SharedTraining:
    """Trains cr5 once for all systems that use it with the same settings on the same texts."""

    def __init__(self, progress: ProgressCallback = no_progress) -> None:
        self.progress = progress
        self._training: Mapping[str, TokenisedTexts] | None = None
        self._models: dict[Settings, TrainedModel] = {}

    def get(self, settings: Settings, training: Mapping[str, TokenisedTexts]) -> TrainedModel:
        """The model of these texts; only models of the latest texts are kept."""
        if training is not self._training:
            self._training, self._models = training, {}
        if settings not in self._models:
            fitted = fit_cr5(training, settings, self.progress)
            self._models[settings] = TrainedModel(fitted, cache(partial(_lexicon, fitted)))
        return self._models[settings]


def _lexicon(fitted: Cr5VectorSystem, source: str, target: str) -> Lexicon:
    return make_lexicon(*(WordVectors(fitted.words(lang), fitted.word_vectors(lang)) for lang in (source, target)))


def cr5_views(settings: Settings, shared: SharedTraining, names: Sequence[str] = ALL_VIEWS) -> System:
    """cr5 with all views, or with some."""

    def fit(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> FittedSystem:
        return Cr5Views(*shared.get(settings, training), names)

    return fit


def cr5_dense(settings: Settings, shared: SharedTraining) -> System:
    """The vectors of cr5 alone."""

    def fit(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> FittedSystem:
        return shared.get(settings, training).fitted

    return fit


class CharacterNgrams(ScoredSystem):
    """The view of strings alone. Single words are compared by their spelling, among the words of the training texts."""

    def __init__(self, training: Mapping[str, TokenisedTexts]) -> None:
        super().__init__(Scorer({"strings": StringsView(_statistics)}))
        self.training = training
        self._words: dict[str, list[str]] = {}

    def words(self, lang: str) -> list[str]:
        code = find_language(lang, self.training)
        if code is None:
            raise NotApplicableError(f"it has no words of {lang}; its languages are {', '.join(self.training)}")
        if code not in self._words:
            self._words[code] = fit_vocabulary(self.training[code].counts, Weighting(subwords=False)).words
        return self._words[code]

    def word_vectors(self, lang: str) -> Array:
        return np.zeros((len(self.words(lang)), 1), np.float32)

    def word_spellings(self, source: str, target: str) -> WordSpellings | None:
        return WordSpellings(*spelling_rows(self.words(source), self.words(target)))


def character_ngrams(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> FittedSystem:
    """The view of strings alone; nothing is trained, and the IDF weights and means are those of the texts compared."""
    return CharacterNgrams(training)


def _statistics(counts: WordCounts, lang: str) -> StringStatistics:
    return string_statistics(counts)
