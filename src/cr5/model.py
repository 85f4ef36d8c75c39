"""The model, Cr5: turns texts of any language into vectors of one space."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path
from textwrap import indent
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Never, Self, overload

import numpy as np

from cr5._typing import Array, Intercept, Ints
from cr5.corpus.identification import Guess
from cr5.corpus.languages import find_language
from cr5.corpus.skipped import OnError, Skipped
from cr5.corpus.texts import Texts, code_list, one_or_several, one_text, positions, text_list
from cr5.errors import Cr5Error, Interrupted, NotFittedError, one_of, whole_number
from cr5.features.counts import WordCounts, count_words
from cr5.features.language_guess import GuesserCache, LanguageGuesser
from cr5.language_encoder import Coverage, LanguageEncoder
from cr5.language_map import LanguageMap
from cr5.machine import versions
from cr5.progress import ProgressCallback, describe_interruption, no_progress, stop_on_interrupt
from cr5.retrieval.explanations import Explanation, VectorParts, explain_vectors
from cr5.retrieval.lexicon_cache import LexiconCache
from cr5.retrieval.vectors import row_products
from cr5.settings import (
    Metric,
    Rank,
    Ridge,
    Settings,
    changed_settings,
    make_settings,
    setting_rows,
    settings_docstring,
)
from cr5.storage.model_files import LanguageSize, ModelFolder, language_size, open_model, save

if TYPE_CHECKING:  # encoding needs nothing of this
    from cr5.corpus.inputs import Documents
    from cr5.retrieval.lexicon import Lexicon
    from cr5.retrieval.scorer import Scorer
    from cr5.training.engines import Engine

CHUNK_TEXTS = 1024  # encoded at a time, to bound the memory for their tokens and counts
FEW_TEXTS = 8  # are encoded one by one if they are short, because calls for a whole batch take longer than the work
SHORT_CHARACTERS = 2000  # of few texts together


class EncodedText(NamedTuple):
    """A text of one language: its tokens in order, its unit vector (rank), and the share of known tokens.

    The vector is all zeros if none of the tokens is known or has a known n-gram; ``coverage`` is 0 for a text without
    tokens.
    """

    tokens: list[str]
    vector: Array
    coverage: float


class Cr5:
    """A crosslingual document embedding: ``fit`` it on documents, ``encode`` texts with it.

    Settings are those of a preset, "default" or "wsdm19" (the paper's), except for the keywords that are given:
    ``Cr5(rank=100, ridge=1.0)``, ``Cr5("wsdm19", min_documents=5)``. None stands for the setting of the preset.

    A model can be pickled and copied, and any number of threads may use it once it is fitted. It follows the
    conventions of scikit-learn for parameters; ``cr5.integrations.sklearn`` has a transformer for pipelines.
    """

    def __init__(
        self,
        preset: str = "default",
        *,
        rank: Rank | None = None,
        ridge: Ridge | None = None,
        intercept: Intercept | None = None,
        metric: Metric | None = None,
        tol: float | None = None,
        max_steps: int | None = None,
        seed: int | None = None,
        tf: Literal["raw", "log"] | None = None,
        idf: Literal["plain", "smooth"] | None = None,
        idf_power: float | None = None,
        min_documents: int | None = None,
        max_words: int | None = None,
        min_unique: int | None = None,
        max_unique: int | None = None,
        subwords: bool | None = None,
        subword_weight: float | None = None,
        max_subwords: int | None = None,
        normalise: bool | None = None,
        lowercase: bool | None = None,
        segment: bool | None = None,
        segment_by: Literal["script", "language"] | None = None,
        pretokenised: bool | None = None,
        **unknown: Never,
    ) -> None:
        given = {name: value for name, value in locals().items() if name in ("preset", *_SETTING_NAMES)}
        self._start(make_settings(**given, **unknown), given)

    def _start(self, settings: Settings, given: Mapping[str, Any]) -> None:
        self.settings = settings
        self._given = {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}
        self._report: dict[str, Any] = {}
        self._trained: dict[str, LanguageMap] | ModelFolder = {}
        self._encoders: dict[str, LanguageEncoder] = {}
        self._guessers, self._lexicons = GuesserCache(), LexiconCache()
        self._make_scorer: Callable[[], Scorer] | None = None
        self._lock = Lock()

    def __repr__(self) -> str:
        if self.langs:
            return f"Cr5({self.settings.preset!r}, rank={self.rank}, langs={self.langs})"
        changed = [f"{name}={value!r}" for name, value in changed_settings(self.settings).items()]
        return f"Cr5({', '.join([repr(self.settings.preset), *changed, 'not fitted'])})"

    @property
    def rank(self) -> int:
        """The dimensions of the vectors; with ``rank="auto"``, they are known once the model is fitted."""
        rank: Rank = self._report.get("rank", self.settings.rank)  # reports of older models have no rank
        if rank == "auto":
            raise NotFittedError(_NOT_FITTED)
        return rank

    # Copies

    def __getstate__(self) -> dict[str, Any]:
        """The whole model, with every language in memory: a copy does not depend on the files of this one."""
        plain = {}
        for lang in self.langs:
            plain[lang] = self._language(lang).in_memory()
        return {"settings": self.settings, "given": self._given, "report": self._report, "languages": plain}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._start(state["settings"], state["given"])
        self._report, self._trained = state["report"], state["languages"]

    def __copy__(self) -> Self:
        """A model that shares the arrays of this one, and not its settings."""
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    # Parameters, as in scikit-learn

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor; for a loaded model, the preset and every setting that differs from it.

        ``deep`` is there for scikit-learn, and has no effect.
        """
        return dict.fromkeys(_SETTING_NAMES) | self._given

    def set_params(self, **params: Any) -> Self:
        """Change settings; a fitted model has to be fitted again."""
        if params:
            changed = self.get_params() | params
            self._start(make_settings(**changed), changed)
        return self

    @property
    def report(self) -> dict[str, Any]:
        """What the fit used and how it went: documents, concepts, ridge, steps, warnings, versions."""
        return deepcopy(self._report)

    @property
    def langs(self) -> list[str]:
        """The languages that the model knows."""
        return list(self._trained) if isinstance(self._trained, dict) else self._trained.langs

    def find_language(self, lang: str) -> str:
        """The language of the model that a code means, in any spelling: "zh" for "cmn" or "ZH", "en" for "en_US".

        See ``cr5.corpus.languages.find_language``; a code of no language of the model is an error.
        """
        found = find_language(lang, self.langs)
        if found is None:
            known = ", ".join(self.langs) or "none, fit it first"
            raise Cr5Error(f"the model has no language {lang!r}; its languages are {known}")
        return found

    def fit(
        self,
        documents: "Documents",
        *,
        on_error: OnError | None = None,
        skipped: Skipped | None = None,
        engine: "Engine | None" = None,
        checkpoint: Path | None = None,
        threads: int | None = None,
        progress: ProgressCallback = no_progress,
        on_interrupt: Literal["raise", "return"] = "raise",
    ) -> Self:
        """Learn from documents with the fields concept, lang and text, and optionally title and url.

        They may be a path, or several (a file, a folder, "builtin", see ``read``); a DataFrame of pandas or polars, an
        Arrow table, a dataset of Hugging Face; or an iterable of ``Document``, dicts, tuples (concept, lang, text) or
        tables, or of the batches that ``read_batches`` yields.
        With ``on_error="skip"``, documents that cannot be used are left out, and counted in ``skipped`` if that is
        given; otherwise they are an error, which names the position and the value.

        A concept that only one language has teaches nothing: its documents are left out, or an error with
        ``on_error="raise"``. ``report["corpus"]`` has how many documents were read, used and left out, and why.
        ``engine`` decides where to compute (``CpuEngine(memory=...)``, ``GpuEngine()``, ``DaskEngine(...)``), by
        default on ``threads`` cores of this machine, or all of them. ``checkpoint`` names a file from which an
        interrupted fit continues.
        Ctrl-C raises ``KeyboardInterrupt``, and the model is as it was before. With ``on_interrupt="return"``, the
        first Ctrl-C after the documents are read ends the fit after the current step and keeps the model as it is at
        that point, with the warning ``Interrupted``; the second raises.
        """
        from cr5.corpus.inputs import in_batches
        from cr5.training.engines.cpu import CpuEngine
        from cr5.training.pipeline import train

        one_of("on_interrupt", on_interrupt, ("raise", "return"))
        engine = engine or CpuEngine(threads=threads)
        batches = in_batches(documents, on_error="raise" if on_error is None else on_error, skipped=skipped)
        corpus = engine.count_words(batches, self.settings.tokeniser, threads=threads, progress=progress)
        if on_error == "raise":
            corpus.require_shared()
        handler = stop_on_interrupt(progress) if on_interrupt == "return" else nullcontext(lambda: False)
        with handler as should_stop:
            languages, report = train(
                corpus,
                self.settings,
                engine=engine,
                checkpoint=checkpoint,
                progress=progress,
                should_stop=should_stop,
            )
        self._trained, self._report = languages, report | {"versions": versions()}
        self._encoders, self._guessers, self._lexicons, self._make_scorer = {}, GuesserCache(), LexiconCache(), None
        if report["interrupted"]:
            warnings.warn(describe_interruption(report, self.settings.tol), Interrupted, stacklevel=2)
        return self

    def encode(self, texts: str | Texts, lang: str | Iterable[str | None] | None = None) -> Array:
        """One text -> its vector (rank); several -> texts x rank. Vectors are float32 and of length 1.

        ``texts`` may be any sequence of strings, an array of NumPy or Arrow, or a column of a DataFrame. ``lang`` is
        the language of all texts, or one for each; where it is None, it is guessed (see ``guess_languages``).
        Texts of any length are encoded in full. Words outside the vocabulary are encoded by their n-grams; the vector
        of a text without a known word or n-gram is zero.
        """
        if isinstance(texts, str):
            return self.encode([texts], lang)[0]  # type: ignore[no-any-return]
        texts = text_list(texts)
        if isinstance(lang, str):
            return self._encode(texts, [self.find_language(lang)] * len(texts))
        result, codes = np.empty((len(texts), self.rank), np.float32), self._codes(texts, lang)
        rules = [None if code is None else self.settings.tokeniser.same_rules(code) for code in codes]
        for rows in positions(rules).values():
            result[rows] = self._encode([texts[row] for row in rows], [codes[row] for row in rows])
        return result

    @overload
    def coverage(  # type: ignore[overload-overlap]
        self, texts: str, lang: str | Iterable[str | None] | None = None
    ) -> float: ...

    @overload
    def coverage(self, texts: Texts, lang: str | Iterable[str | None] | None = None) -> Array: ...

    def coverage(self, texts: str | Texts, lang: str | Iterable[str | None] | None = None) -> float | Array:
        """The share of each text's tokens that are words of the vocabulary; arguments as in ``encode``.

        It is 0 for an empty text. ``coverage_parts`` tells which of the other tokens have vectors.
        """
        if isinstance(texts, str):
            return float(self.coverage([texts], lang)[0])
        return self.coverage_parts(texts, lang).known

    def coverage_parts(self, texts: Texts, lang: str | Iterable[str | None] | None = None) -> Coverage:
        """The shares of each text's tokens that the model knows, encodes by their n-grams, and does not know.

        Arguments are as in ``encode``; the three arrays add up to 1, or to 0 for an empty text.
        """
        texts, tokeniser = text_list(texts), self.settings.tokeniser
        if isinstance(lang, str):
            lang = self.find_language(lang)
            return self._encoder(lang).coverage(tokeniser(texts, lang))
        result = Coverage(*np.empty((3, len(texts)), np.float32))
        for code, rows in self._rows_by_language(texts, lang).items():
            parts = self._encoder(code).coverage(tokeniser([texts[row] for row in rows], code))
            for whole, part in zip(result, parts, strict=True):
                whole[rows] = part
        return result

    def encode_text(self, text: str, lang: str) -> EncodedText:
        """Tokenise a text once, for its vector as in ``encode`` and its coverage as in ``coverage``."""
        lang = self.find_language(lang)
        encoder, words = self._encoder(lang), self.settings.tokeniser.words(one_text(text), lang)
        known = sum(word in encoder.vocabulary.index for word in words)
        return EncodedText(words, encoder.vector(words), float(np.float32(known / max(len(words), 1))))

    def sizes(self) -> dict[str, LanguageSize]:
        """How large each language is: its words, its n-grams, and the bytes of both with their vectors."""
        if isinstance(self._trained, dict):
            return {lang: language_size(language) for lang, language in self._trained.items()}
        return self._trained.sizes()

    def words(self, lang: str) -> list[str]:
        """A language's vocabulary, most frequent word first."""
        return list(self._words(lang))

    def word_vectors(self, lang: str) -> Array:
        """words x rank: the vector of every word of ``words``; the array cannot be written to."""
        view = np.asarray(self._language(lang).map).view()
        view.flags.writeable = False
        return view

    def guess_languages(self, texts: Texts, langs: str | Iterable[str] | None = None) -> list[Guess]:
        """The most probable language of each text among ``langs``, by default all of the model, and its probability.

        A single known word is enough: of held-out single words of the built-in encyclopedia, 95 of 100 are guessed
        correctly, and 73 by a character-based identifier alone. The first guess among a set of languages reads their
        words and builds a table of them, which takes 12 to 16 bytes for each.
        """
        texts = text_list(texts)
        guesser = self._guesser(langs) if texts else None
        chunks = (texts[i : i + CHUNK_TEXTS] for i in range(0, len(texts), CHUNK_TEXTS))
        return [guess for chunk in chunks for guess in guesser(chunk).guesses] if guesser else []

    def guess_language(self, text: str, langs: str | Iterable[str] | None = None) -> Guess:
        """The most probable language of one text, as in ``guess_languages``."""
        return self.guess_languages([one_text(text)], langs)[0]

    def similar_words(self, word: str, lang: str, to: str, k: int = 10) -> list[tuple[str, float]]:
        """The words of language ``to`` whose vectors have the largest cosine with a word of ``lang``."""
        lang, to = self.find_language(lang), self.find_language(to)
        k, source, target = whole_number("k", k), self._language(lang), self._language(to)
        tokens = self.settings.tokeniser(text_list([word], "word"), lang).words
        row = self._encoder(lang).vocabulary.index.get(tokens[0]) if len(tokens) == 1 else None
        if row is None:
            raise Cr5Error(
                f"{word!r} is not one of the {len(source.words):,} words known in {lang}; "
                "try a more frequent word or another form of it"
            )
        query, candidates = source.map[row], target.map
        norms = np.sqrt(row_products(candidates, candidates) * (query @ query))
        cosines = (candidates @ query) / np.where(norms > 0, norms, 1)
        if lang == to:
            cosines[row] = -np.inf
        best = np.argsort(-cosines, kind="stable")[: min(k, len(cosines) - (lang == to))]
        return [(target.words[i], float(cosines[i])) for i in best]

    def lexicon(self, source: str, target: str) -> "Lexicon":
        """The most probable translations of every word of language ``source`` in language ``target``.

        It is made when it is first asked for, in seconds, or minutes for 100,000 words and more, and kept: in memory,
        and in the folder that the model was loaded from, if that can be written.
        """
        langs = self.find_language(source), self.find_language(target)
        folder = None if isinstance(self._trained, dict) else self._trained
        return self._lexicons.get(*langs, self._words, self.word_vectors, folder)

    def translate_words(self, words: Texts, source: str, target: str, k: int = 10) -> list[list[tuple[str, float]]]:
        """For each word, its k most probable translations and their probabilities; none if the model has no such word.

        A lexicon has 10 translations of a word at most, see ``lexicon``.
        """
        k, source, lexicon = whole_number("k", k), self.find_language(source), self.lexicon(source, target)
        tokens = [" ".join(self.settings.tokeniser.words(word, source)) for word in text_list(words, "words")]
        return [lexicon.translations(token, k) if token in lexicon.index else [] for token in tokens]

    def similarity(self, texts_a: Texts, lang_a: str, texts_b: Texts, lang_b: str) -> Array:
        """texts_a x texts_b: how similar texts are by all views: vectors, translated words and spelling.

        It is a weighted mean of the views' cosines: 1 for equal texts of one language, about 0 for texts that have
        nothing to do with each other. The first call for two languages makes their lexicons, see ``lexicon``.
        """
        from cr5.retrieval.text_similarity import similarities

        a, b = self._counts(text_list(texts_a, "texts_a"), lang_a), self._counts(text_list(texts_b, "texts_b"), lang_b)
        return similarities(self._scorer(), *a, *b)

    def explain(
        self, text_a: str, lang_a: str, text_b: str, lang_b: str, k: int = 10, *, views: bool = False
    ) -> Explanation:
        """The words that make two texts similar, with their contributions to the cosine; and what ``views`` add."""
        from cr5.retrieval.text_similarity import explain_views

        text_a, text_b, k = one_text(text_a, "text_a"), one_text(text_b, "text_b"), whole_number("k", k)
        explanation = explain_vectors(self._parts(text_a, lang_a), self._parts(text_b, lang_b), k)
        if not views:
            return explanation
        a, b = self._counts([text_a], lang_a), self._counts([text_b], lang_b)
        return explanation._replace(views=explain_views(self._scorer(), *a, *b, k))

    def _counts(self, texts: list[str], lang: str) -> tuple[WordCounts, str]:
        lang = self.find_language(lang)
        return count_words(texts, lang, self.settings.tokeniser), lang

    def _scorer(self) -> "Scorer":
        from cr5.retrieval.text_similarity import views_of_model

        if self._make_scorer is None:
            self._make_scorer = views_of_model(
                lambda counts, lang: self._encoder(lang).vectors(counts),
                self.lexicon,
                lambda lang: self._encoder(lang).vocabulary,
                lambda lang: int(self._report["languages"][lang]["documents"]),
            )
        return self._make_scorer()

    def _parts(self, text: str, lang: str) -> VectorParts:
        lang = self.find_language(lang)
        return self._encoder(lang).parts(self.settings.tokeniser.words(text, lang))

    def save(self, path: str | Path) -> None:
        """Write the model to a folder; an earlier model in it is replaced atomically."""
        if not self.langs:
            raise NotFittedError(_NOT_FITTED)
        languages = {lang: self._language(lang) for lang in self.langs}
        settings = self.settings.to_json() | {"rank": self.rank}
        save(Path(path), {"settings": settings, "report": self._report}, languages)

    @classmethod
    def load(cls, path: str | Path, langs: str | Sequence[str] | None = None) -> Self:
        """Open a saved model; a language's files are mapped into memory when it is first used."""
        folder = open_model(Path(path), None if langs is None else one_or_several(langs), find_language)
        model, settings = cls(), Settings.from_json(folder.metadata["settings"])
        model._start(settings, {"preset": settings.preset} | changed_settings(settings))
        model._report, model._trained = folder.metadata["report"], folder
        return model

    def _words(self, lang: str) -> list[str]:
        lang = self.find_language(lang)
        return self._trained[lang].words if isinstance(self._trained, dict) else self._trained.words(lang)

    def _language(self, lang: str) -> LanguageMap:
        lang = self.find_language(lang)
        return self._trained[lang] if isinstance(self._trained, dict) else self._trained.language(lang)

    def _encoder(self, lang: str) -> LanguageEncoder:
        if lang not in self._encoders:
            with self._lock:  # of several threads, only one makes it
                if lang not in self._encoders:
                    encoder = LanguageEncoder(self._language(lang), self.settings.weighting)
                    encoder.vocabulary.index  # noqa: B018 - computed now, not by every thread
                    self._encoders[lang] = encoder
        return self._encoders[lang]

    def _codes(self, texts: list[str], langs: Iterable[str | None] | None) -> list[str | None]:
        """The given language of each text, None where it is to be guessed."""
        codes = code_list(langs if langs is not None else [None] * len(texts))
        if len(codes) != len(texts):
            raise Cr5Error(
                f"`lang` has {len(codes):,} codes for {len(texts):,} texts; give one for all texts, or one for each, "
                "None where it is to be guessed"
            )
        known = {code: self.find_language(code) for code in set(codes) if code is not None}
        return [None if code is None else known[code] for code in codes]

    def _rows_by_language(self, texts: list[str], langs: Iterable[str | None] | None) -> dict[str, Ints]:
        """For each language, the positions of its texts, after guessing the languages that are not given."""
        codes = self._codes(texts, langs)
        unknown = [i for i, code in enumerate(codes) if code is None]
        for i, guess in zip(unknown, self.guess_languages([texts[i] for i in unknown]), strict=True):
            codes[i] = guess.lang
        return positions(map(str, codes))

    def _guesser(self, langs: str | Iterable[str] | None = None) -> LanguageGuesser:
        chosen = tuple(self.langs if langs is None else map(self.find_language, one_or_several(langs)))
        if not chosen:
            raise Cr5Error("`langs` is empty; name a language") if self.langs else NotFittedError(_NOT_FITTED)
        return self._guessers.get(chosen, self._words, self.settings.tokeniser)

    def _encode(self, texts: list[str], codes: Sequence[str | None]) -> Array:
        """Texts in languages that are tokenised by the same rules, or all None, to be guessed.

        Each text is tokenised once, for the guess and for the vector, together with those of other languages.
        """
        result, tokeniser = np.empty((len(texts), self.rank), np.float32), self.settings.tokeniser
        if len(texts) <= FEW_TEXTS and sum(map(len, texts)) <= SHORT_CHARACTERS:
            langs = [guess.lang for guess in self.guess_languages(texts)] if None in codes else map(str, codes)
            for i, (text, lang) in enumerate(zip(texts, langs, strict=True)):
                result[i] = self._encoder(lang).vector(tokeniser.words(text, lang))
            return result
        for i in range(0, len(texts), CHUNK_TEXTS):
            chunk, langs = texts[i : i + CHUNK_TEXTS], [str(code) for code in codes[i : i + CHUNK_TEXTS]]
            if None in codes:
                guesses, counts = self._guesser()(chunk)
                langs = [guess.lang for guess in guesses]
            else:
                counts = dict.fromkeys(langs, count_words(chunk, langs[0], tokeniser))
            for lang, rows in positions(langs).items():
                own = counts[lang] if len(rows) == len(chunk) else counts[lang].select_rows(rows).drop_unused_words()
                result[i + rows] = self._encoder(lang).vectors(own)
        return result


_NOT_FITTED = "the model is not fitted yet, it has no languages; fit the model first"
_SETTING_NAMES = [row.name for row in setting_rows()]
Cr5.__doc__ = f"{Cr5.__doc__}\n{indent(settings_docstring(), '    ')}\n"
