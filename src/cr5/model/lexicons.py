"""The lexicons of a model: each is made once, and kept beside the files of a saved model."""

from typing import TYPE_CHECKING

from cr5.model.memory_languages import Languages, MemoryLanguages
from cr5.storage.lexicon_files import lexicon_path, read_lexicon, write_lexicon

if TYPE_CHECKING:  # a model that only encodes does not need it
    from cr5.retrieval.lexicon import Lexicon

ALGORITHM_VERSION = "3"  # changes whenever the same vectors lead to another lexicon, so that older files are not used


def read_or_make_lexicon(languages: Languages, source: str, target: str) -> "Lexicon":
    """The lexicon from one language to another; that of a saved model is read from its folder, or written there."""
    from cr5.retrieval.lexicon import Lexicon

    if isinstance(languages, MemoryLanguages):
        return _make_lexicon(languages, source, target)
    path = lexicon_path(languages.path, source, target)
    digest = f"{ALGORITHM_VERSION} {languages.digest(source, target)}"
    words = languages.words(source), languages.words(target)
    arrays = read_lexicon(path, digest, (len(words[0]), len(words[1])))
    if arrays is not None:
        return Lexicon(words[0][: len(arrays[0])], words[1], *arrays)
    lexicon = _make_lexicon(languages, source, target)
    write_lexicon(path, digest, lexicon.indices, lexicon.probabilities)
    return lexicon


def _make_lexicon(languages: Languages, *langs: str) -> "Lexicon":
    from cr5.retrieval.lexicon import WordVectors, make_lexicon

    return make_lexicon(*(WordVectors(languages.words(lang), languages.language(lang).vectors()) for lang in langs))
