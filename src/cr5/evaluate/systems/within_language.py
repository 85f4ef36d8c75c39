"""The upper bound: TF-IDF within each language, where queries and candidates are in the same language."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cr5.evaluate.systems.concept_matrices import require_language
from cr5.evaluate.systems.space import Space
from cr5.evaluate.texts import TokenisedTexts
from cr5.features.tfidf import Vocabulary, Weighting, fit_vocabulary
from cr5.retrieval.block_products import Matrix


def within_language(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> Space:
    """Every language's own TF-IDF rows."""
    features = {
        lang: fit_vocabulary(texts.counts, Weighting(idf_power=1.0, subwords=False)) for lang, texts in training.items()
    }
    return _WithinLanguage(features, {"words": {lang: len(vocabulary.words) for lang, vocabulary in features.items()}})


@dataclass(frozen=True)
class _WithinLanguage(Space):
    features: Mapping[str, Vocabulary]
    report: Mapping[str, Any] = field(default_factory=dict)
    monolingual = True

    @property
    def langs(self) -> list[str]:
        return list(self.features)

    def embed(self, texts: TokenisedTexts, lang: str) -> Matrix:
        require_language("TF-IDF", lang, self.langs)
        return self.features[lang].transform(texts.counts)
