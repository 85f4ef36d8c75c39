"""The upper bound: TF-IDF within each language, where queries and candidates are in the same language."""

from collections.abc import Mapping

from cr5.evaluate.systems.concept_matrices import TfidfSystem, fit_vocabularies, vocabulary_sizes
from cr5.evaluate.systems.fitted_system import FittedSystem
from cr5.evaluate.texts import TokenisedTexts
from cr5.features.tfidf import Weighting
from cr5.retrieval.block_products import Matrix


def within_language(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> FittedSystem:
    """Every language's own TF-IDF rows."""
    features = fit_vocabularies(training, Weighting(idf_power=1.0, subwords=False))
    return _WithinLanguage("TF-IDF", features, {"words": vocabulary_sizes(features)})


class _WithinLanguage(TfidfSystem):
    monolingual = True

    def embed(self, texts: TokenisedTexts, lang: str) -> Matrix:
        return self.tfidf(texts, lang)
