"""Languages in memory, with the interface of the languages of a saved model."""

from collections.abc import Mapping
from typing import TypeAlias

from cr5.storage.concept_targets import ConceptTargets
from cr5.storage.language_map import LanguageMap
from cr5.storage.model_files import LanguageSize, ModelFolder, language_size


class MemoryLanguages:
    """The languages of a model, and perhaps its concept targets, in memory; ``ModelFolder`` has those of a folder."""

    def __init__(self, languages: Mapping[str, LanguageMap], targets: ConceptTargets | None = None) -> None:
        self._languages, self._targets = languages, targets

    @property
    def langs(self) -> list[str]:
        """The codes of the languages."""
        return list(self._languages)

    def sizes(self) -> dict[str, LanguageSize]:
        """How large each language is."""
        return {lang: language_size(language) for lang, language in self._languages.items()}

    def words(self, lang: str) -> list[str]:
        """A language's vocabulary, most frequent word first."""
        return self._languages[lang].words

    def language(self, lang: str) -> LanguageMap:
        """The words of a language and their vectors."""
        return self._languages[lang]

    def targets(self) -> ConceptTargets | None:
        """The concept targets; None if the model was trained without them."""
        return self._targets


Languages: TypeAlias = MemoryLanguages | ModelFolder
