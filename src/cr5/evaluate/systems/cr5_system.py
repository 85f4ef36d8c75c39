"""cr5 as a system: trained within an evaluation, or loaded as a finished model."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cr5._typing import Array
from cr5.errors import Cr5Warning
from cr5.evaluate.systems.fitted_system import FittedSystem, System
from cr5.evaluate.texts import TokenisedTexts
from cr5.features.counts import WordCounts
from cr5.features.tfidf import WordFrequencies, make_vocabulary, word_frequencies
from cr5.hashing import json_digest
from cr5.model import Cr5
from cr5.model.language_encoder import LanguageEncoder
from cr5.progress import ProgressCallback, no_progress
from cr5.retrieval.block_products import Matrix
from cr5.retrieval.translation import WordWeights, word_weights
from cr5.settings import PRESETS, Settings, without_groups
from cr5.storage.language_map import LanguageMap
from cr5.training.counted_corpus import CountedCorpus, CountedDocuments
from cr5.training.pipeline import train


class Cr5VectorSystem(FittedSystem):
    """A trained cr5 model that takes tokenised texts."""

    replaceable_idf = True
    reports_coverage = True

    def __init__(self, languages: Mapping[str, LanguageMap], settings: Settings, report: Mapping[str, object]) -> None:
        self.languages, self.settings, self.report = languages, settings, report
        self.encoders = {lang: LanguageEncoder(m, settings.weighting) for lang, m in languages.items()}

    @property
    def langs(self) -> list[str]:
        return list(self.languages)

    def embed(self, texts: TokenisedTexts, lang: str) -> Matrix:
        return self.embed_counts(texts.counts, lang)

    def embed_counts(self, counts: WordCounts, lang: str) -> Array:
        """Unit rows, the same as those of ``Cr5.encode``."""
        return self.encoders[lang].vectors(counts)

    def word_weights(self, lang: str) -> WordWeights:
        """The IDF of each word, as the lexicon's view weights it."""
        return word_weights(self.encoders[lang].vocabulary, int(self.report["languages"][lang]["documents"]))

    def words(self, lang: str) -> list[str]:
        return self.languages[lang].words

    def word_vectors(self, lang: str) -> Array:
        return self.languages[lang].vectors()

    def coverage(self, texts: TokenisedTexts, lang: str) -> Array:
        known = (self.encoders[lang].vocabulary.columns(texts.counts.words) >= 0).astype(float)
        matrix = texts.counts.matrix
        return np.asarray((matrix @ known) / np.maximum(matrix.sum(axis=1), 1))

    def with_idf_of(self, texts: Mapping[str, TokenisedTexts]) -> "Cr5VectorSystem":
        """The IDF by the model's own formula; a word that the texts lack has document frequency 0.

        The weights of n-grams stay as they are.
        """
        languages = dict(self.languages)
        for lang, sample in texts.items():
            words, sampled = self.words(lang), word_frequencies(sample.counts)
            columns = self.encoders[lang].vocabulary.columns(sampled.words)
            documents = np.zeros(len(words), np.int64)
            documents[columns[columns >= 0]] = sampled.document_frequency[columns >= 0]
            # Falling totals make ``make_vocabulary`` keep the vocabulary in its order.
            totals = -np.arange(len(words), dtype=float)
            weighting = replace(self.settings.weighting, min_documents=0, max_words=len(words), subwords=False)
            features = make_vocabulary(WordFrequencies(words, documents, totals, sampled.documents), weighting)
            languages[lang] = replace(languages[lang], idf=features.idf)
        return Cr5VectorSystem(languages, self.settings, self.report)


def cr5_system(settings: Settings, progress: ProgressCallback = no_progress) -> System:
    """The vectors of cr5 with these settings, which also determine rank and seed."""

    def fit(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> FittedSystem:
        return fit_cr5(training, settings, progress)

    return fit


def fit_cr5(
    training: Mapping[str, TokenisedTexts], settings: Settings, progress: ProgressCallback = no_progress
) -> Cr5VectorSystem:
    """Train cr5 on texts."""
    size = 1 + max(int(texts.concepts.max(initial=-1)) for texts in training.values())
    names = [f"{i:010d}" for i in range(size)]  # sorted by their numbers
    documents = {
        lang: CountedDocuments(texts.counts, texts.concepts, np.zeros(len(texts), np.int64), np.arange(len(texts)))
        for lang, texts in training.items()
    }
    corpus = CountedCorpus(names, ["evaluation"], documents)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Cr5Warning)  # the report has it
        languages, report = train(corpus, settings, progress=progress)
    signature = _describe(settings, report["rank"], report["ridge"])
    return Cr5VectorSystem(languages, settings, _plain(report) | {"signature": signature})


def model_system(model: Cr5, langs: Sequence[str] | None = None) -> Cr5VectorSystem:
    """A model as a fitted system, with all its languages or some."""
    languages = {lang: model._language(lang) for lang in langs or model.langs}
    identity = [
        model.settings.to_json() | {"rank": model.rank},
        *(model.report.get(key) for key in ("languages", "concepts", "energy", "eigenvalues")),
    ]
    signature = f"model {json_digest(identity, 8)}|{_describe(model.settings, model.rank, model.report.get('ridge'))}"
    return Cr5VectorSystem(languages, model.settings, _plain(model.report) | {"signature": signature})


def _plain(report: Mapping[str, object]) -> dict[str, object]:
    """A training report without the eigenvalues, which would dominate run.json."""
    return {name: value for name, value in report.items() if name != "eigenvalues"}


def _describe(settings: Settings, rank: int, ridge: float | None) -> str:
    """The settings in a few words: the preset, what differs from it, the rank and, if it is known, the ridge."""
    groups = settings.to_json()
    preset, actual = without_groups(PRESETS[settings.preset].to_json()), without_groups(groups)
    names = [*groups["weighting"], *groups["tokeniser"], "intercept", "metric", "tol", "max_steps", "seed"]
    changed = [f"{name}={actual[name]}" for name in names if actual[name] != preset[name]]
    known_ridge = [] if ridge is None else [f"ridge {float(ridge):g}"]
    return "|".join([f"preset {settings.preset}", *changed, f"rank {rank}", *known_ridge])
