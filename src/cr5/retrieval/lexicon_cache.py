"""The lexicons of a model: each is made when it is first asked for, and kept."""

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING

from cr5._typing import Array
from cr5.errors import Cr5Error
from cr5.storage.lexicon_files import lexicon_path, read_lexicon, write_lexicon
from cr5.storage.model_files import ModelFolder

if TYPE_CHECKING:  # a model that only encodes does not need them
    from cr5.retrieval.lexicon import Lexicon

MAX_CACHED_LEXICONS = 16
RECIPE = "3"  # changes whenever the same vectors lead to another lexicon, so that older files are not used


class LexiconCache:
    """Lexicons by their languages, in memory and beside the files of a model. Threads may share a cache.

    A copied or pickled cache is empty.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._lexicons: dict[tuple[str, str], Lexicon] = {}

    def __reduce__(self) -> tuple[type["LexiconCache"], tuple[()]]:
        return LexiconCache, ()

    def get(
        self,
        source: str,
        target: str,
        words: Callable[[str], list[str]],
        vectors: Callable[[str], Array],
        folder: ModelFolder | None = None,
    ) -> "Lexicon":
        """The lexicon from one language to another; ``words`` and ``vectors`` have those of a language.

        ``folder`` is the saved model that they are from, if they are: the lexicon is read from there, or written there.
        """
        if source == target:
            raise Cr5Error(f"the source and the target language are both {source}; a lexicon needs two languages")
        key = source, target
        if (kept := self._lexicons.get(key)) is not None:  # without waiting for another one that is being made
            return kept
        with self._lock:
            if key not in self._lexicons:
                while len(self._lexicons) >= MAX_CACHED_LEXICONS:
                    del self._lexicons[next(iter(self._lexicons))]  # the one that was made first
                self._lexicons[key] = _read_or_make(source, target, words, vectors, folder)
            return self._lexicons[key]


def _read_or_make(
    source: str,
    target: str,
    words: Callable[[str], list[str]],
    vectors: Callable[[str], Array],
    folder: ModelFolder | None,
) -> "Lexicon":
    from cr5.retrieval.lexicon import Lexicon, WordVectors, make_lexicon

    def make() -> Lexicon:
        return make_lexicon(*(WordVectors(words(lang), vectors(lang)) for lang in (source, target)))

    if folder is None:
        return make()
    path, digest = lexicon_path(folder.path, source, target), f"{RECIPE} {folder.digest(source, target)}"
    arrays = read_lexicon(path, digest, (len(words(source)), len(words(target))))
    if arrays is not None:
        return Lexicon(words(source)[: len(arrays[0])], words(target), *arrays)
    lexicon = make()
    write_lexicon(path, digest, lexicon.indices, lexicon.probabilities)
    return lexicon
