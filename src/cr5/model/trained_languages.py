"""The languages of a model: their words and maps, and the encoders, guessers, lexicons and scorers made from them."""

from collections.abc import Collection, Iterable, Mapping
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from cr5._typing import Array
from cr5.corpus.languages import find_language, find_text_language, no_such_language, probably_meant
from cr5.corpus.texts import one_or_several
from cr5.errors import Cr5Error, LanguageFallback, ModelFileError, NotFittedError, warn
from cr5.features.language_guess import LanguageGuesser
from cr5.model.bounded_cache import BoundedCache
from cr5.model.language_encoder import LanguageEncoder
from cr5.model.lexicons import read_or_make_lexicon
from cr5.model.memory_languages import Languages
from cr5.settings import Settings
from cr5.storage.concept_targets import ConceptTargets
from cr5.storage.language_map import LanguageMap
from cr5.storage.model_files import LanguageSize

if TYPE_CHECKING:  # encoding needs nothing of this
    from cr5.retrieval.lexicon import Lexicon
    from cr5.retrieval.scorer import Scorer
    from cr5.retrieval.strings import StringStatistics
    from cr5.retrieval.translation import WordWeights

MAX_CACHED_GUESSERS = 4  # sets of languages whose guessers are cached
MAX_CACHED_LEXICONS = 16


def find_to_load(lang: str, langs: Collection[str]) -> str | None:
    """``find_text_language`` among the languages of a saved model; if there is none but another was meant, an error."""
    found = find_text_language(lang, langs)
    if found is None and probably_meant(lang, langs):
        raise ModelFileError(no_such_language("the model", repr(lang), langs))
    return found


class TrainedLanguages:
    """Languages in memory, or those of a saved model, which are read on first use; none before a model is fitted.

    ``documents``: how many each language was trained on. ``view_weights``: None for models that were trained before
    weights were adapted. Threads may share an object.
    """

    def __init__(
        self,
        languages: Languages,
        settings: Settings,
        documents: Mapping[str, int],
        view_weights: Mapping[str, float] | None = None,
    ) -> None:
        self._languages, self._settings, self._documents = languages, settings, documents
        self._view_weights = view_weights
        self._encoders: dict[str, LanguageEncoder] = {}
        self._guessers = BoundedCache[tuple[str, ...], LanguageGuesser](MAX_CACHED_GUESSERS)
        self._lexicons = BoundedCache[tuple[str, str], "Lexicon"](MAX_CACHED_LEXICONS)
        self._word_weights: dict[str, WordWeights] = {}
        self._string_statistics: dict[str, StringStatistics] = {}
        self._lock = Lock()

    @property
    def codes(self) -> list[str]:
        """The languages."""
        return self._languages.langs

    def check_fitted(self) -> None:
        """Raise ``NotFittedError`` if there are no languages."""
        if not self.codes:
            raise NotFittedError

    def find(self, lang: str) -> str:
        """The language that a code in any spelling means; an error if there is none."""
        self.check_fitted()
        found = find_language(lang, self.codes)
        if found is None:
            raise Cr5Error(no_such_language("the model", repr(lang), self.codes))
        return found

    def find_for_text(self, lang: str) -> str:
        """The language by which texts in a language are encoded: itself or, with a warning, a close one."""
        self.check_fitted()
        found = find_language(lang, self.codes)
        if found is None and (found := find_text_language(lang, self.codes)) is not None:
            warn_of_close_language(lang, found)
        return self.find(lang) if found is None else found

    def sizes(self) -> dict[str, LanguageSize]:
        """How large each language is."""
        return self._languages.sizes()

    def words(self, lang: str) -> list[str]:
        """A language's vocabulary, most frequent word first."""
        return self._languages.words(lang)

    def language(self, lang: str) -> LanguageMap:
        """The words of a language and their vectors."""
        return self._languages.language(lang)

    def targets(self) -> ConceptTargets | None:
        """The concept targets, to which a further language is fitted; None if the model has none."""
        return self._languages.targets()

    def documents(self, lang: str) -> int:
        """How many documents a language was trained on; 0 if that is not known."""
        return self._documents.get(lang, 0)

    def word_vectors(self, lang: str) -> Array:
        """words x rank: the vector of every word; the array cannot be written to."""
        view = np.asarray(self.language(lang).vectors()).view()
        view.flags.writeable = False
        return view

    def encoder(self, lang: str) -> LanguageEncoder:
        """The encoder of a language."""
        if lang not in self._encoders:
            with self._lock:  # of several threads, only one makes it
                if lang not in self._encoders:
                    encoder = LanguageEncoder(self.language(lang), self._settings.weighting)
                    encoder.vocabulary.index  # noqa: B018 - computed now, not by every thread
                    self._encoders[lang] = encoder
        return self._encoders[lang]

    def guesser(self, langs: str | Iterable[str] | None = None) -> LanguageGuesser:
        """The guesser among some languages, or all."""
        self.check_fitted()
        codes = tuple(self.codes if langs is None else map(self.find, one_or_several(langs)))
        if not codes:
            raise Cr5Error("`langs` is empty; name a language")

        def make() -> LanguageGuesser:
            return LanguageGuesser({lang: self.words(lang) for lang in codes}, self._settings.tokeniser)

        return self._guessers.get(codes, make)

    def lexicon(self, source: str, target: str) -> "Lexicon":
        """The lexicon from one language to another, kept in memory and in the folder of a saved model."""
        if source == target:
            raise Cr5Error(f"the source and the target language are both {source}; a lexicon needs two languages")
        return self._lexicons.get((source, target), lambda: read_or_make_lexicon(self._languages, source, target))

    @property
    def view_weights(self) -> Mapping[str, float]:
        """The weight of each view; the mapping cannot be changed."""
        from cr5.retrieval.scorer import DEFAULT_WEIGHTS

        self.check_fitted()
        return MappingProxyType(self._view_weights or DEFAULT_WEIGHTS)

    def scorer(self, weights: Mapping[str, float] | None = None) -> "Scorer":
        """The scorer that compares texts by all views; ``weights`` replace those of some views."""
        from cr5.retrieval.scorer import DenseView, LexiconView, Scorer, StringsView, View

        weights = weights or {}
        for name in weights:
            if name not in self.view_weights:
                raise Cr5Error(f"there is no view {name!r}; the views are {', '.join(self.view_weights)}")
        views: dict[str, View] = {
            "dense": DenseView(lambda counts, lang: self.encoder(lang).vectors(counts)),
            "lexicon": LexiconView(self.lexicon, self._weights_of_words),
            "strings": StringsView(lambda _, lang: self._statistics_of_strings(lang), always=True),
        }
        return Scorer(views, {**self.view_weights, **weights})

    def _weights_of_words(self, lang: str) -> "WordWeights":
        from cr5.retrieval.translation import word_weights

        if lang not in self._word_weights:
            self._word_weights[lang] = word_weights(self.encoder(lang).vocabulary, self._documents[lang])
        return self._word_weights[lang]

    def _statistics_of_strings(self, lang: str) -> "StringStatistics":
        from cr5.retrieval.strings import vocabulary_statistics

        if lang not in self._string_statistics:
            vocabulary, documents = self.encoder(lang).vocabulary, self._documents[lang]
            frequency = vocabulary.document_frequency(documents)
            self._string_statistics[lang] = vocabulary_statistics(vocabulary.words, frequency, documents)
        return self._string_statistics[lang]


def warn_of_close_language(lang: str, close: str) -> None:
    """Warn that texts in a language which a model does not have are encoded by a close language."""
    message = f"the model has no language {lang!r}; its texts are encoded by {close}, which is close to it in writing"
    warn(message, LanguageFallback)
