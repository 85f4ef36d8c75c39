"""The upper bound: TF-IDF within each language, where queries and candidates are in the same language."""

from collections.abc import Mapping

from cr5.evaluate.systems.concept_matrices import TfidfSystem
from cr5.evaluate.systems.fitted_system import FittedSystem
from cr5.evaluate.texts import TokenisedTexts
from cr5.features.tfidf import Weighting, fit_vocabulary
from cr5.retrieval.block_products import Matrix


def within_language(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> FittedSystem:
    """Every language's own TF-IDF rows."""
    weighting = Weighting(idf_power=1.0, subwords=False)
    features = {lang: fit_vocabulary(texts.counts, weighting) for lang, texts in training.items()}
    report = {"words": {lang: len(vocabulary.words) for lang, vocabulary in features.items()}}
    return _WithinLanguage("TF-IDF", features, report)


class _WithinLanguage(TfidfSystem):
    monolingual = True

    def embed(self, texts: TokenisedTexts, lang: str) -> Matrix:
        return self.tfidf(texts, lang)
