"""The languages that a model knows: their words and maps, and what is made of them when it is first asked for."""

from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from cr5._typing import Array
from cr5.corpus.language_names import no_such_language
from cr5.corpus.languages import find_language, find_text_language
from cr5.corpus.texts import one_or_several
from cr5.errors import Cr5Error, LanguageBorrowed, NotFittedError, warn
from cr5.features.language_guess import GuesserCache, LanguageGuesser
from cr5.model.language_encoder import LanguageEncoder
from cr5.retrieval.lexicon_cache import LexiconCache
from cr5.settings import Settings
from cr5.storage.language_map import LanguageMap
from cr5.storage.model_files import LanguageSize, ModelFolder, language_size

if TYPE_CHECKING:  # encoding needs nothing of this
    from cr5.retrieval.lexicon import Lexicon
    from cr5.retrieval.scorer import Scorer


class TrainedLanguages:
    """Languages in memory, or those of a saved model, which are read on first use; none before a model is fitted.

    ``documents``: how many each language was trained on. ``view_weights``: None for models that were trained before
    weights were adapted. Threads may share an object.
    """

    def __init__(
        self,
        maps: Mapping[str, LanguageMap] | ModelFolder,
        settings: Settings,
        documents: Mapping[str, int],
        view_weights: Mapping[str, float] | None = None,
    ) -> None:
        self._maps, self._settings, self._documents, self._view_weights = maps, settings, documents, view_weights
        self._encoders: dict[str, LanguageEncoder] = {}
        self._guessers, self._lexicons = GuesserCache(), LexiconCache()
        self._make_scorer: Callable[[Mapping[str, float]], Scorer] | None = None
        self._lock = Lock()

    @property
    def codes(self) -> list[str]:
        """The languages."""
        return self._maps.langs if isinstance(self._maps, ModelFolder) else list(self._maps)

    def require(self) -> None:
        """Raise an error if there are none, because the model is not fitted."""
        if not self.codes:
            raise NotFittedError

    def find(self, lang: str) -> str:
        """The language that a code in any spelling means; an error if there is none."""
        self.require()
        found = find_language(lang, self.codes)
        if found is None:
            raise Cr5Error(no_such_language("the model", repr(lang), self.codes))
        return found

    def find_for_text(self, lang: str) -> str:
        """The language by which texts in a language are encoded: itself or, with a warning, a close one."""
        self.require()
        found = find_language(lang, self.codes)
        if found is None and (found := find_text_language(lang, self.codes)) is not None:
            warn_of_borrowing(lang, found)
        return self.find(lang) if found is None else found

    def sizes(self) -> dict[str, LanguageSize]:
        """How large each language is."""
        if isinstance(self._maps, ModelFolder):
            return self._maps.sizes()
        return {lang: language_size(language) for lang, language in self._maps.items()}

    def words(self, lang: str) -> list[str]:
        """A language's vocabulary, most frequent word first."""
        return self._maps.words(lang) if isinstance(self._maps, ModelFolder) else self._maps[lang].words

    def map(self, lang: str) -> LanguageMap:
        """The words of a language and their vectors."""
        return self._maps.language(lang) if isinstance(self._maps, ModelFolder) else self._maps[lang]

    def documents(self, lang: str) -> int:
        """How many documents a language was trained on; 0 if that is not known."""
        return self._documents.get(lang, 0)

    def word_vectors(self, lang: str) -> Array:
        """words x rank: the vector of every word; the array cannot be written to."""
        view = np.asarray(self.map(lang).vectors()).view()
        view.flags.writeable = False
        return view

    def encoder(self, lang: str) -> LanguageEncoder:
        """What turns texts of a language into vectors."""
        if lang not in self._encoders:
            with self._lock:  # of several threads, only one makes it
                if lang not in self._encoders:
                    encoder = LanguageEncoder(self.map(lang), self._settings.weighting)
                    encoder.vocabulary.index  # noqa: B018 - computed now, not by every thread
                    self._encoders[lang] = encoder
        return self._encoders[lang]

    def guesser(self, langs: str | Iterable[str] | None = None) -> LanguageGuesser:
        """What guesses the language of texts, among some languages or all."""
        self.require()
        chosen = tuple(self.codes if langs is None else map(self.find, one_or_several(langs)))
        if not chosen:
            raise Cr5Error("`langs` is empty; name a language")
        return self._guessers.get(chosen, self.words, self._settings.tokeniser)

    def lexicon(self, source: str, target: str) -> "Lexicon":
        """The lexicon from one language to another, kept in memory and in the folder of a saved model."""
        folder = self._maps if isinstance(self._maps, ModelFolder) else None
        return self._lexicons.get(source, target, self.words, self.word_vectors, folder)

    @property
    def view_weights(self) -> Mapping[str, float]:
        """The weight of each view; the mapping cannot be changed."""
        from cr5.retrieval.scorer import DEFAULT_WEIGHTS

        self.require()
        return MappingProxyType(self._view_weights or DEFAULT_WEIGHTS)

    def scorer(self, weights: Mapping[str, float] | None = None) -> "Scorer":
        """What compares texts by all views; ``weights`` replace those of some views."""
        from cr5.retrieval.text_similarity import views_of_model

        if self._make_scorer is None:
            self._make_scorer = views_of_model(
                lambda counts, lang: self.encoder(lang).vectors(counts),
                self.lexicon,
                lambda lang: self.encoder(lang).vocabulary,
                self._documents.__getitem__,
            )
        weights = weights or {}
        for name in weights:
            if name not in self.view_weights:
                raise Cr5Error(f"there is no view {name!r}; the views are {', '.join(self.view_weights)}")
        return self._make_scorer({**self.view_weights, **weights})


def warn_of_borrowing(lang: str, close: str) -> None:
    """Warn that texts in a language which a model does not have are encoded by a close one."""
    message = f"the model has no language {lang!r}; its texts are encoded by {close}, which is close to it in writing"
    warn(message, LanguageBorrowed)
