"""The class names of the paper authors' libraries, for programs that use them: ``Cr5_Model`` and ``Cr5Model``.

``Cr5_Model`` is the class of ``cr5.py`` in github.com/epfl-dlab/Cr5, ``Cr5Model`` that of github.com/epfl-dlab/cr5-lib.
Both return, for the tokens of a document with the counts n and the word vectors z, the sum of n z divided by the length
of the vector of all n; ``Cr5.encode`` has the same direction and length 1. Every name warns with what replaces it.

A folder may hold the published files, or a model that ``cr5 convert`` has made from them, which opens at once. Texts
are tokenised by cr5's tokeniser, which lower-cases words, as the paper does; the libraries used that of NLTK, which
does not. Give tokens of your own to ``Cr5_Model.get_document_embedding`` if you need others.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from cr5._typing import Array
from cr5.corpus.skipped import OnError
from cr5.errors import Cr5Error, DeprecatedInterface, warn
from cr5.message_parts import quoted
from cr5.model import Cr5
from cr5.retrieval.vectors import unit_rows
from cr5.storage.model_files import has_model

SEARCH_RESULTS = 5
"""The number of documents that ``Cr5Model`` finds."""


class Cr5_Model:  # noqa: N801 - its name in the library
    """The model of ``cr5.py``: replaced by ``Cr5.load_published(folder, name, langs)``."""

    def __init__(self, data_folder_path: str | Path | None = None, model_name: str | None = None) -> None:
        _warn("Cr5_Model", "Cr5.load_published(folder, name, langs)")
        self.data_folder_path, self.model_name = str(data_folder_path or ""), model_name or ""
        self.lang_codes: list[str] = []
        self._model: Cr5 | None = None

    def load_langs(self, lang_codes: Iterable[str], on_error: OnError = "raise") -> None:
        """Read these languages, in place of those that were read before."""
        _warn("load_langs", "Cr5.load_published(folder, name, langs)")
        langs = list(lang_codes)
        self._model = _load(self.data_folder_path or ".", self.model_name, langs, on_error)
        self.lang_codes = langs

    def get_document_embedding(self, tokens: Iterable[str], lang_code: str) -> Array:
        """The vector of a document (rank, float64), given its tokens; an error if none of them is known."""
        _warn("get_document_embedding", "encode(text, lang)")
        return _embed(self._loaded(lang_code), list(tokens), lang_code)

    def transform(self, texts: Iterable[str], lang: str) -> Array:
        """texts x rank, float64: the vectors of documents; a text without a known word has a row of zeros."""
        _warn("transform", "encode(texts, lang)")
        model = self._loaded(lang)
        rows = [_document_vector(model, model.settings.tokeniser.words(text, lang), lang) for text in texts]
        return np.array(rows).reshape(len(rows), model.rank)

    def tokenize(self, text: str) -> list[str]:
        """The words of a text, in lower case."""
        _warn("tokenize", "encode(text, lang), which tokenises")
        return Cr5().settings.tokeniser.words(text, "")

    def _loaded(self, lang: str) -> Cr5:
        if self._model is None or lang not in self.lang_codes:
            raise Cr5Error(f"language {lang!r} is not loaded; call load_langs([{lang!r}]) first")
        return self._model


class Cr5Model:
    """The model of ``cr5-lib``: replaced by ``Cr5.load_published(folder, name, langs)`` and ``Index``.

    A language is read when it is first used, from ``model_dir``. ``in_memory_model`` has no effect, since a model that
    ``cr5 convert`` has written is memory-mapped. Files of LevelDB and FAISS are not read or written.
    """

    def __init__(
        self,
        model_name: str,
        model_dir: str | Path | None = None,
        level_db_dir: str | Path | None = None,
        search_indexes_dir: str | Path | None = None,
    ) -> None:
        _warn("Cr5Model", "Cr5.load_published(folder, name, langs)")
        if model_dir is None:
            raise Cr5Error("`model_dir` is missing, and files of LevelDB are not read; name the folder of the model")
        self.model_name, self.model_dir = model_name, model_dir
        self.level_db_dir, self.search_indexes_dir = level_db_dir, search_indexes_dir
        self._models: dict[str, Cr5] = {}
        self._indexes: dict[str, tuple[list[tuple[str, str]], Array]] = {}

    def get_document_embedding(self, document: str, lang_code: str, in_memory_model: bool = False) -> Array:
        """The vector of a document (rank, float32); an error if none of its words is known."""
        _warn("get_document_embedding", "encode(text, lang)")
        return self._embed(document, lang_code)

    def create_index_in_memory(
        self, document_path: str | Path, document_language: str, in_memory_model: bool = True, normalize: bool = True
    ) -> None:
        """Read documents, lines of title, tab, id, tab, text, for ``search_similar_documents_in_memory``.

        As in the library, lines with another number of columns and documents without a known word are left out.
        """
        _warn("create_index_in_memory", "Index.create(folder, model) and its method add(documents)")
        keys, rows, model = [], [], self._model(document_language)
        with Path(document_path).open(encoding="utf-8") as file:
            for title, key, text in (parts for line in file if len(parts := line.rstrip("\n").split("\t")) == 3):
                vector = _document_vector(
                    model, model.settings.tokeniser.words(text, document_language), document_language
                )
                if vector.any():
                    keys.append((title, key))
                    rows.append(vector)
        if not rows:
            raise Cr5Error(f"{document_path} has no line of title, tab, id, tab, text with a word that the model knows")
        Z = np.array(rows, np.float32)
        self._indexes[document_language] = keys, unit_rows(Z) if normalize else Z

    def search_similar_documents_in_memory(
        self, document: str, src_lang: str, dst_lang: str, normalize: bool = True
    ) -> tuple[list[tuple[str, str]], int]:
        """Title and id of the nearest documents of a language, nearest first, and how many it has."""
        _warn("search_similar_documents_in_memory", "the method search(text, lang) of an Index")
        if dst_lang not in self._indexes:
            raise Cr5Error(f"there is no index of language {dst_lang!r}; call create_index_in_memory first")
        keys, Z = self._indexes[dst_lang]
        vector = self._embed(document, src_lang)
        query = unit_rows(vector[None])[0] if normalize else vector
        scores = Z @ query if normalize else -((Z - query) ** 2).sum(axis=1)
        return [keys[i] for i in np.argsort(-scores, kind="stable")[:SEARCH_RESULTS]], len(keys)

    def store_model_in_db(self, *arguments: object, **options: object) -> None:
        """An error: LevelDB is not used."""
        raise Cr5Error("files of LevelDB are not written; convert the model once with `cr5 convert`, and open that")

    def create_search_indexes_on_disk(self, *arguments: object, **options: object) -> None:
        """An error: FAISS is not used."""
        raise Cr5Error(
            "indexes of FAISS are not written; use Index.create(folder, model) and its method add(documents)"
        )

    def search_similar_documents_on_disk(self, *arguments: object, **options: object) -> None:
        """An error: FAISS is not used."""
        raise Cr5Error("indexes of FAISS are not read; use Index.open(folder) and its method search(text, lang)")

    def _model(self, lang: str) -> Cr5:
        if lang not in self._models:
            self._models[lang] = _load(self.model_dir, self.model_name, [lang], "raise")
        return self._models[lang]

    def _embed(self, document: str, lang: str) -> Array:
        model = self._model(lang)
        return _embed(model, model.settings.tokeniser.words(document, lang), lang).astype(np.float32)


def _warn(old: str, new: str) -> None:
    message = f"{old} is a name of the authors' library; use {new} of cr5 instead"
    warn(message, DeprecatedInterface)


def _load(folder: str | Path, name: str, langs: Sequence[str], on_error: OnError) -> Cr5:
    if has_model(Path(folder)):
        return Cr5.load(folder, langs)
    return Cr5.load_published(folder, name, langs, on_error=on_error)


def _document_vector(model: Cr5, tokens: Sequence[str], lang: str) -> Array:
    """The sum of n z over the words, divided by the length of the vector of all n; zeros without a known word."""
    language = model._language(lang)
    index = model._languages.encoder(model.find_language(lang)).vocabulary.index
    counts = Counter(index[token] for token in tokens if token in index)
    if not counts:
        return np.zeros(model.rank)
    n = np.array(list(counts.values()), float)
    return np.asarray(n @ language.map[list(counts)].astype(float) / np.linalg.norm(n))


def _embed(model: Cr5, tokens: Sequence[str], lang: str) -> Array:
    vector = _document_vector(model, tokens, lang)
    if not vector.any():
        raise Cr5Error(f"none of the {len(tokens)} tokens is a word of {lang}, e.g. {quoted(' '.join(tokens[:3]))}")
    return vector
