"""The model, Cr5: turns texts of any language into vectors of one space."""

import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from cr5._typing import Array, Sparse
from cr5.corpus.identification import Guess
from cr5.corpus.skipped import OnError, Skipped
from cr5.errors import Cr5Error
from cr5.features.counts import count_tokens
from cr5.features.language_guess import guess_language
from cr5.features.tfidf import Vocabulary
from cr5.features.tokeniser import Tokens
from cr5.language_map import LanguageMap
from cr5.progress import ProgressCallback, no_progress, stop_on_interrupt
from cr5.retrieval.explanations import Explanation, VectorParts, explain_vectors
from cr5.retrieval.vectors import document_vectors, row_products
from cr5.settings import Settings, make_settings
from cr5.storage.model_files import ModelFolder, check_model_folder, open_model, save

if TYPE_CHECKING:  # encoding needs nothing of this
    from cr5.corpus.documents import Batch, Document
    from cr5.training.engines import Engine
    from cr5.training.engines.registry import EngineName

CHUNK_TEXTS = 1024  # encoded at a time, to bound the memory for their tokens and counts


class EncodedText(NamedTuple):
    """A text of one language: its tokens in order, its unit vector (rank), and the share of known tokens.

    The vector is all zeros if the model knows none of the tokens; ``coverage`` is 0 for a text without tokens.
    """

    tokens: list[str]
    vector: Array
    coverage: float


class Cr5:
    """A crosslingual document embedding: ``fit`` it on documents, ``encode`` texts with it.

    Settings are those of a preset, "default" or "wsdm19" (the paper's), which keywords change:
    ``Cr5(rank=100, ridge=1.0)``, ``Cr5("wsdm19", min_documents=5)``. See ``cr5.settings``.
    """

    def __init__(self, preset: str = "default", **changes: Any) -> None:
        self.settings: Settings = make_settings(preset, **changes)
        self.report: dict[str, Any] = {}
        self._trained: dict[str, LanguageMap] | ModelFolder = {}
        self._vocabularies: dict[str, Vocabulary] = {}

    def __repr__(self) -> str:
        return f"Cr5({self.settings.preset!r}, rank={self.settings.rank}, langs={self.langs})"

    @property
    def langs(self) -> list[str]:
        """The languages that the model knows."""
        return list(self._trained) if isinstance(self._trained, dict) else self._trained.langs

    def fit(
        self,
        documents: "Iterable[Document] | Iterable[Batch]",
        *,
        on_error: OnError = "raise",
        skipped: Skipped | None = None,
        engine: "Engine | None" = None,
        checkpoint: Path | None = None,
        threads: int | None = None,
        progress: ProgressCallback = no_progress,
    ) -> Self:
        """Learn from documents, or from the batches that ``read_batches`` yields.

        A concept in one language only is an error; with ``on_error="skip"``, its documents are skipped, and counted in
        ``skipped`` if that is given.
        ``engine`` decides where to compute (``CpuEngine(memory=...)``, ``GpuEngine()``, ``DaskEngine(...)``), by
        default on all cores of this machine. ``checkpoint`` names a file from which an interrupted fit continues.
        While the solver runs, Ctrl-C stops it and keeps the model as it is at that point.
        """
        from cr5.training.engines.cpu import CpuEngine
        from cr5.training.pipeline import train

        engine = engine or CpuEngine(threads=threads)
        corpus = engine.count_words(documents, self.settings.tokeniser, threads=threads, progress=progress)
        corpus.require_shared((skipped or Skipped()) if on_error == "skip" else None)
        with stop_on_interrupt() as should_stop:
            languages, report = train(
                corpus,
                self.settings,
                engine=engine,
                checkpoint=checkpoint,
                progress=progress,
                should_stop=should_stop,
            )
        self._trained, self._vocabularies, self.report = languages, {}, report | {"versions": _versions()}
        return self

    def encode(self, texts: Sequence[str], lang: str) -> Array:
        """Texts of one language -> texts x rank, float32 rows of length 1.

        Texts of any length are encoded in full. The row of a text without a known word is zero.
        """
        result = np.empty((len(_texts(texts)), self.settings.rank), np.float32)
        self._language(lang)  # must exist, also for no texts
        for i in range(0, len(texts), CHUNK_TEXTS):
            tokens = self.settings.tokeniser(texts[i : i + CHUNK_TEXTS], lang)
            result[i : i + CHUNK_TEXTS] = self._vectors(tokens, lang)
        return result

    def encode_mixed(
        self, texts: Sequence[str], langs: Sequence[str | None] | None = None
    ) -> tuple[Array, list[Guess]]:
        """Texts of several languages -> texts x rank, as ``encode`` has them, and the language of each.

        ``langs``: the language of each text, or None to guess it; without ``langs``, all are guessed.
        """
        if isinstance(langs, str):
            raise TypeError("langs is a single string; encode takes texts of one language")
        langs = [None] * len(texts) if langs is None else langs
        if len(langs) != len(_texts(texts)):
            raise Cr5Error(
                f"{len(texts):,} texts have {len(langs):,} languages; give one for each, None where it is to be guessed"
            )
        pairs = zip(texts, langs, strict=True)
        guesses = [Guess(lang, 1.0) if lang else self.guess_language(text) for text, lang in pairs]
        result = np.empty((len(texts), self.settings.rank), np.float32)
        for lang in {guess.lang for guess in guesses}:
            rows = [i for i, guess in enumerate(guesses) if guess.lang == lang]
            result[rows] = self.encode([texts[i] for i in rows], lang)
        return result, guesses

    def coverage(self, texts: Sequence[str], lang: str) -> Array:
        """The share of each text's tokens that the model knows; 0 for an empty text."""
        return self._coverage(self.settings.tokeniser(_texts(texts), lang), lang)

    def encode_text(self, text: str, lang: str) -> EncodedText:
        """Tokenise a text once, for its vector as in ``encode`` and its coverage as in ``coverage``."""
        tokens = self.settings.tokeniser([text], lang)
        words = [tokens.words[i] for i in tokens.ids.tolist()]
        return EncodedText(words, self._vectors(tokens, lang)[0], float(self._coverage(tokens, lang)[0]))

    def words(self, lang: str) -> list[str]:
        """A language's vocabulary, most frequent word first."""
        return self._language(lang).words

    def word_vectors(self, lang: str) -> Array:
        """words x rank: the vector of every word of ``words``."""
        return self._language(lang).map

    def guess_language(self, text: str, langs: Sequence[str] | None = None) -> Guess:
        """The most probable language of a text among ``langs``, by default all of the model, and its probability.

        A single known word is enough: of held-out single words of the built-in encyclopedia, 95 of 100 are identified
        correctly, and 73 by a character-based identifier alone.
        """
        langs = self.langs if langs is None else langs
        if not langs:
            raise Cr5Error("there is no language to choose from; fit the model first, or give `langs`")
        return guess_language(text, {lang: self._vocabulary(lang).index for lang in langs}, self.settings.tokeniser)

    def similar_words(self, word: str, lang: str, to: str, k: int = 10) -> list[tuple[str, float]]:
        """The words of language ``to`` whose vectors have the largest cosine with a word of ``lang``."""
        tokens = self.settings.tokeniser([word], lang).words
        row = self._vocabulary(lang).index.get(tokens[0]) if len(tokens) == 1 else None
        if row is None:
            raise Cr5Error(
                f"{word!r} is not one of the {len(self.words(lang)):,} words known in {lang}; "
                "try a more frequent word or another form of it"
            )
        query, candidates = self.word_vectors(lang)[row], self.word_vectors(to)
        norms = np.sqrt(row_products(candidates, candidates) * (query @ query))
        cosines = (candidates @ query) / np.where(norms > 0, norms, 1)
        if lang == to:
            cosines[row] = -np.inf
        best = np.argsort(-cosines, kind="stable")[: min(k, len(cosines) - (lang == to))]
        return [(self.words(to)[i], float(cosines[i])) for i in best]

    def explain(self, text_a: str, lang_a: str, text_b: str, lang_b: str, k: int = 10) -> Explanation:
        """The words that make two texts similar, with their contributions to the cosine."""
        return explain_vectors(self._parts(text_a, lang_a), self._parts(text_b, lang_b), k)

    def save(self, path: str | Path) -> None:
        """Write the model to a folder; an earlier model in it is replaced atomically."""
        languages = {lang: self._language(lang) for lang in self.langs}
        save(Path(path), {"settings": self.settings.to_json(), "report": self.report}, languages)

    @classmethod
    def load(cls, path: str | Path, langs: Sequence[str] | None = None) -> Self:
        """Open a saved model; a language's files are mapped into memory when it is first used."""
        folder = open_model(Path(path), langs)
        model = cls()
        model.settings = Settings.from_json(folder.metadata["settings"])
        model.report = folder.metadata["report"]
        model._trained = folder
        return model

    def _language(self, lang: str) -> LanguageMap:
        if lang not in self.langs:
            known = ", ".join(self.langs) or "none, fit it first"
            raise Cr5Error(f"the model has no language {lang!r}; its languages are {known}")
        return self._trained[lang] if isinstance(self._trained, dict) else self._trained.language(lang)

    def _vocabulary(self, lang: str) -> Vocabulary:
        if lang not in self._vocabularies:
            language = self._language(lang)
            self._vocabularies[lang] = Vocabulary(language.words, language.idf, self.settings.weighting)
        return self._vocabularies[lang]

    def _tfidf(self, tokens: Tokens, lang: str) -> Sparse:
        return self._vocabulary(lang).transform(count_tokens(tokens))

    def _vectors(self, tokens: Tokens, lang: str) -> Array:
        language = self._language(lang)
        return document_vectors(self._tfidf(tokens, lang), language.map, language.offset)

    def _coverage(self, tokens: Tokens, lang: str) -> Array:
        index = self._vocabulary(lang).index
        is_known = np.array([word in index for word in tokens.words], bool)
        known_before = np.concatenate([[0], np.cumsum(is_known[tokens.ids])])
        known = np.diff(known_before[tokens.offsets])
        return np.asarray(known / np.maximum(np.diff(tokens.offsets), 1), np.float32)

    def _parts(self, text: str, lang: str) -> VectorParts:
        language = self._language(lang)
        X = self._tfidf(self.settings.tokeniser([text], lang), lang)
        summands = X.data[:, None] * language.map[X.indices]
        vector = summands.sum(axis=0) - language.offset if X.nnz else np.zeros(self.settings.rank, np.float32)
        norm = float(np.linalg.norm(vector)) or 1.0
        return VectorParts([language.words[i] for i in X.indices], summands / norm, vector / norm)


def checkpoint_path(output: Path) -> Path:
    """The checkpoint that ``train_model`` writes beside the folder of a model."""
    return Path(f"{output if output.name else output.resolve()}.checkpoint")


def train_model(
    model: Cr5,
    documents: "Iterable[Document] | Iterable[Batch]",
    output: Path,
    *,
    resume: bool = False,
    engine: "EngineName" = "cpu",
    engine_options: Mapping[str, Any] | None = None,
    **fit_options: Any,
) -> None:
    """Fit a model on the named engine, and save it to a folder.

    During the fit a checkpoint is written beside the folder; ``resume`` continues from that of an interrupted run.
    ``engine_options`` are those of ``open_engine``, ``fit_options`` those of ``Cr5.fit``.
    """
    from cr5.training.engines.registry import open_engine

    check_model_folder(output)
    checkpoint = checkpoint_path(output)
    if resume and not checkpoint.exists():
        raise Cr5Error(f"there is no checkpoint {checkpoint} to continue from; leave out `resume`")
    if checkpoint.exists() and not resume:
        raise Cr5Error(f"{checkpoint} is from an interrupted run; continue it with `resume=True`, or delete the file")
    output.parent.mkdir(parents=True, exist_ok=True)
    with open_engine(engine, scratch_folder=output.parent, **(engine_options or {})) as opened:
        model.fit(documents, engine=opened, checkpoint=checkpoint, **fit_options)
        model.save(output)
    checkpoint.unlink(missing_ok=True)


def _texts(texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, str):
        raise TypeError("texts is a single string; put it into a list")
    return texts


def _versions() -> dict[str, str]:
    """The versions that a tokenisation or a fit can depend on."""
    packages = ("cr5", "numpy", "scipy", "numba", "pyarrow", "icu4py")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}
