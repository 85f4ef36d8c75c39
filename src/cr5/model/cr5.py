"""Cr5: a model that can be fitted, saved and loaded, and that turns texts into vectors of one space."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from copy import copy, deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent
from typing import TYPE_CHECKING, Any, Literal, Never, Self

import numpy as np

from cr5._typing import Intercept
from cr5.corpus.languages import canonical_code, find_language
from cr5.corpus.skipped import OnError, Skipped, counting_skipped
from cr5.corpus.texts import not_a_code, one_or_several, one_path
from cr5.errors import CorpusError, Cr5Error, Cr5TypeError, FitNeeded, Interrupted, check_progress, one_of, warn
from cr5.exchange.export import ExportedLanguage, ExportFormat, check_target, export
from cr5.features.tfidf import Idf, Tf
from cr5.machine import package_versions
from cr5.model import reports
from cr5.model.derived import TrainedParts, merge, quantise, subset
from cr5.model.memory_languages import Languages, MemoryLanguages
from cr5.model.text_encoder import TextEncoder
from cr5.model.trained_languages import TrainedLanguages, find_to_load
from cr5.progress import ProgressCallback, fit_interrupt, no_progress, stop_fit_on_interrupt
from cr5.settings import (
    Metric,
    Rank,
    Ridge,
    Settings,
    Weight,
    changed_settings,
    make_settings,
    setting_rows,
    settings_docstring,
    waiting_settings,
)
from cr5.storage.language_map import LanguageMap
from cr5.storage.model_files import open_model, save
from cr5.storage.output_paths import check_output_file

if TYPE_CHECKING:  # encoding needs nothing of this
    from cr5.corpus.inputs import Documents
    from cr5.training.engines import Engine


class Cr5(TextEncoder):
    """A crosslingual document embedding: ``fit`` it on documents, ``encode`` texts with it.

    Settings are those of a preset, "default" or "wsdm19" (the paper's), except for the keywords that are given:
    ``Cr5(rank=100, ridge=1.0)``, ``Cr5("wsdm19", min_documents=5)``. None stands for the setting of the preset.

    ``fit``, ``update`` and ``add_language`` change the model and return it; ``subset``, ``merge`` and ``quantise``
    return another one. A model can be pickled and copied, and threads may share it once it is fitted. It follows the
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
        strings_weight: Weight | None = None,
        seed: int | None = None,
        tf: Tf | None = None,
        idf: Idf | None = None,
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
        """A model that is not fitted; ``help(Cr5)`` explains the settings."""
        given = {name: value for name, value in locals().items() if name in ("preset", *_SETTING_NAMES)}
        self._reset(make_settings(**given, **unknown), given)

    def _reset(self, settings: Settings, given: Mapping[str, Any]) -> None:
        self.settings = settings
        self._set_given(given)
        self._set_trained(MemoryLanguages({}), {})

    def _set_given(self, given: Mapping[str, Any]) -> None:
        self._given = {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}

    def _set_trained(self, languages: Languages, report: dict[str, Any]) -> None:
        self._report = report
        documents = {lang: entry["documents"] for lang, entry in report.get("languages", {}).items()}
        self._languages = TrainedLanguages(languages, self.settings, documents, report.get("view_weights"))

    def __repr__(self) -> str:
        if self.langs:
            return f"Cr5({self.settings.preset!r}, rank={self.rank}, langs={self.langs})"
        changed = [f"{name}={value!r}" for name, value in changed_settings(self.settings).items()]
        return f"Cr5({', '.join([repr(self.settings.preset), *changed, 'not fitted'])})"

    # Copies

    def __getstate__(self) -> dict[str, Any]:
        """The whole model, with every language in memory: a copy does not depend on the files of this one."""
        languages = {lang: language.in_memory() for lang, language in self._language_maps().items()}
        state = {"settings": self.settings, "given": self._given, "report": self._report, "languages": languages}
        return state | {"targets": self._languages.targets()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._reset(state["settings"], state["given"])
        self._set_trained(MemoryLanguages(state["languages"], state.get("targets")), state["report"])

    def __copy__(self) -> Self:
        """A shallow copy: ``fit`` or ``set_params`` on one does not change the other."""
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
        """Change settings for the next ``fit``.

        As in scikit-learn, a fitted model stays fitted: until then it encodes as before, and its ``settings`` are those
        that it was fitted with. The warning ``FitNeeded`` names changed settings that also govern encoding.
        """
        given = self.get_params() | params
        settings = make_settings(**given)
        self._set_given(given)
        if not self.langs:
            self.settings = settings
        elif params and (waiting := waiting_settings(settings, self.settings)):
            warn(waiting, FitNeeded)
        return self

    @property
    def report(self) -> dict[str, Any]:
        """What the fit used and how it went: documents, concepts, ridge, steps, warnings, versions."""
        return deepcopy(self._report)

    def fit(
        self,
        documents: "Documents",
        *,
        on_error: OnError | None = None,
        skipped: Skipped | None = None,
        engine: "Engine | None" = None,
        checkpoint: Path | str | None = None,
        threads: int | None = None,
        progress: ProgressCallback = no_progress,
        on_interrupt: Literal["raise", "return"] = "raise",
        extendable: bool | None = None,
    ) -> Self:
        """Learn from documents with the fields concept, lang and text, and optionally title and url.

        They may be a path, or several (a file, a folder, "builtin", see ``read``); a pandas or polars DataFrame, an
        Arrow table, a Hugging Face dataset; or an iterable of ``Document``, dicts, tuples (concept, lang, text) or
        tables, or of the batches that ``read_batches`` yields. With ``on_error="skip"``, documents that cannot be used
        are left out, and counted in ``skipped`` or a warning, ``InputSkipped``; otherwise they are an error, which
        names the position, from 1, and the value.

        A concept that only one language has teaches nothing: its documents are left out, or an error with
        ``on_error="raise"``. ``report["corpus"]`` has how many documents were read, used and left out, and why, and
        what was skipped. ``progress`` is called with every ``Progress``, and may be ``print``.
        ``engine`` decides where to compute (``CpuEngine(memory=...)``, ``GpuEngine()``, ``DaskEngine(...)``), by
        default on ``threads`` cores of this machine, or all of them. ``checkpoint`` names a file from which an
        interrupted fit continues. Ctrl-C raises ``KeyboardInterrupt``, and the model is as it was before; with a
        ``checkpoint``, the first Ctrl-C does so after the current step, which is saved, the second at once. With
        ``on_interrupt="return"``, the first Ctrl-C after the documents are read ends the fit after the current step,
        with the warning ``Interrupted``; the second raises. The model is then as far as the fit came; but one that was
        finished before stays as it was, since an unfinished model never replaces a finished one.

        ``extendable`` keeps a vector of every concept, to which ``add_language`` fits a further language. None does so
        if that adds at most a fifth to the size of the model; ``report["concept_targets"]`` says what was decided.
        """
        return self._fit(
            documents, make_settings(**self._given), on_error=on_error, skipped=skipped, engine=engine,
            checkpoint=checkpoint, threads=threads, progress=progress, on_interrupt=on_interrupt, extendable=extendable,
        )  # fmt: skip

    def update(
        self,
        documents: "Documents",
        *,
        on_error: OnError | None = None,
        skipped: Skipped | None = None,
        engine: "Engine | None" = None,
        checkpoint: Path | str | None = None,
        threads: int | None = None,
        progress: ProgressCallback = no_progress,
        on_interrupt: Literal["raise", "return"] = "raise",
        extendable: bool | None = None,
    ) -> Self:
        """Fit a fitted model again to an enlarged corpus, starting from what it has learned; arguments as in ``fit``.

        ``documents`` are all of them, old and new: the solution depends on how all documents use words, and the model
        does not keep that. The vocabulary is that of all documents, and there may be further languages. Settings stay
        those of the fit, also the ridge and the weight of the strings view: nothing is held out to choose them. The
        result is that of a fresh fit with this ridge, within the tolerance ``tol``, after fewer products; all vectors
        change. ``report["updated"]`` has what the model was before. To add a language without changing vectors, see
        ``add_language``.
        """
        self._languages.check_fitted()
        kept: dict[str, Any] = {"ridge": reports.ridge_of(self._report), "strings_weight": self.view_weights["strings"]}
        before, settings = self._report, dataclasses.replace(self.settings, **kept)
        self._fit(
            documents, settings, on_error=on_error, skipped=skipped, engine=engine, checkpoint=checkpoint,
            threads=threads, progress=progress, on_interrupt=on_interrupt, extendable=extendable,
            earlier=self._language_maps(),
        )  # fmt: skip
        if self._report is not before:  # the update was not interrupted
            self._report = reports.with_update(self._report, before)
        return self

    def _fit(
        self,
        documents: "Documents",
        settings: Settings,
        *,
        on_error: OnError | None,
        skipped: Skipped | None,
        engine: "Engine | None",
        checkpoint: Path | str | None,
        threads: int | None,
        progress: ProgressCallback,
        on_interrupt: Literal["raise", "return"],
        extendable: bool | None,
        earlier: Mapping[str, LanguageMap] | None = None,
    ) -> Self:
        """``fit`` with other settings than those of the model; ``earlier`` are the maps that an update starts from."""
        from cr5.corpus.inputs import in_batches
        from cr5.training.engines.cpu import engine_or_cpu
        from cr5.training.pipeline import train_with_targets

        one_of("on_interrupt", on_interrupt, ("raise", "return"))
        check_progress(progress)
        if checkpoint is not None:
            checkpoint = one_path(checkpoint, "checkpoint")
            check_output_file(checkpoint, example="fit.checkpoint")
        engine = engine_or_cpu(engine, threads)
        with counting_skipped(skipped) as counter:
            batches = in_batches(documents, on_error=on_error or "raise", skipped=counter)
            counter = getattr(batches, "skipped", counter)  # a reader may have its own
            before = dict(counter.counts)
            corpus = engine.count_words(batches, settings.tokeniser, threads=threads, progress=progress)
            corpus = corpus.with_usable_codes(on_error or "raise", counter)
        if on_error == "raise":
            corpus.require_shared()
        if earlier is not None:
            read = {lang: len(counted) for lang, counted in corpus.languages.items()}
            reports.check_enlarged(self._report["languages"], self.langs, read)
        with stop_fit_on_interrupt(on_interrupt, checkpoint, progress) as should_stop:
            (languages, report), targets = train_with_targets(
                corpus, settings, extendable=extendable, earlier=earlier, engine=engine, checkpoint=checkpoint,
                progress=progress, should_stop=should_stop,
            )  # fmt: skip
        if report["interrupted"]:
            if on_interrupt == "raise":
                raise fit_interrupt(checkpoint)
            warn(reports.describe_interruption(report, settings.tol, self._report, checkpoint), Interrupted)
            if reports.is_finished(self._report):
                return self
        if earlier is None:
            self.settings = settings
        report["corpus"]["skipped"] = counter.since(before)
        report |= {"space": reports.space_digest(settings, report), "versions": package_versions()}
        self._set_trained(MemoryLanguages(languages, targets), report)
        return self

    def add_language(
        self,
        documents: "Documents",
        lang: str,
        *,
        ridge: Ridge | None = None,
        replace: bool = False,
        on_error: OnError | None = None,
        skipped: Skipped | None = None,
        engine: "Engine | None" = None,
        threads: int | None = None,
        progress: ProgressCallback = no_progress,
    ) -> Self:
        """Learn one more language from documents whose concepts the model was trained on; the others do not change.

        The model itself is changed, and returned. The vectors of texts in the other languages stay the same, bit for
        bit, so that they need not be computed again.
        The documents are fitted to the vectors of their concepts, which the model has if it is ``extendable`` (see
        ``fit``). If it is not, or was written by an earlier version, ``documents`` must have documents of the same
        concepts in languages of the model as well: the mean of their vectors is then the vector of a concept.
        Documents of other concepts and in other languages are left out.

        ``ridge``: by default that of the model; "auto" chooses it by retrieval of the targets of held-out concepts.
        ``replace``: whether the language may be one of the model, which is then learned again. Other arguments are
        those of ``fit``; ``report["added_languages"]`` says how it went.
        """
        from cr5.corpus.inputs import in_batches
        from cr5.training import added_language
        from cr5.training.engines.cpu import engine_or_cpu

        self._languages.check_fitted()
        check_progress(progress)
        if not isinstance(lang, str):
            raise not_a_code(lang)
        code, targets = canonical_code(lang), self._languages.targets()
        if (known := find_language(code, self.langs)) and not replace:
            raise Cr5Error(f"the model already has the language {known}; pass `replace=True` to learn it again")
        own_ridge = reports.ridge_of(self._report)
        ridge = make_settings(ridge=own_ridge if ridge is None else ridge).ridge  # checks it
        code, others = known or code, [other for other in self.langs if other != known]
        engine = engine_or_cpu(engine, threads)
        langs = [code] if targets else [code, *others]
        with counting_skipped(skipped) as counter:
            batches = in_batches(documents, langs=langs, on_error=on_error or "raise", skipped=counter)
            corpus = engine.count_words(batches, self.settings.tokeniser, threads=threads, progress=progress)
        if code not in corpus.languages:
            raise CorpusError(f"there is no document in the language {code}; check `lang={lang!r}` and the documents")
        if targets is None:
            encoders = {other: self._languages.encoder(other).vectors for other in others}
            theta = np.ones(self.rank)  # in the orthonormal metric, no dimension belongs to one eigenvalue
            if self.settings.metric == "signal" and "eigenvalues" in self._report:
                theta = np.maximum(self._report["eigenvalues"], 1e-6)
            targets = added_language.targets_from_documents(corpus, code, encoders, theta)
        added, report = added_language.add_language(
            corpus, code, targets, self.settings, engine=engine, ridge=ridge, default_ridge=own_ridge, progress=progress
        )
        languages = MemoryLanguages(self._language_maps() | {code: added}, self._languages.targets())
        self._set_trained(languages, reports.with_language(self.report, code, report))
        return self

    # Models derived from this one

    def subset(self, langs: str | Sequence[str]) -> Self:
        """A model with some of the languages; their vectors do not change."""
        codes = {self.find_language(lang) for lang in one_or_several(langs)}
        if not codes:
            raise Cr5Error("`langs` is empty; name a language")
        return self._with_parts(subset(self._parts_of(codes), codes))

    def merge(self, other: "Cr5") -> Self:
        """A model with the languages of two models of the same space, which means that both come from one fit.

        Of a language that both have, it takes that of this model. Vectors of models that were trained separately
        cannot be compared: these are an error.
        """
        if not isinstance(other, Cr5):
            raise Cr5TypeError(f"`other={other!r}` must be a model; load it with Cr5.load first")
        parts = self._parts_of(self.langs), other._parts_of(other.langs)
        return self._with_parts(merge(*parts, (self.settings, other.settings)))

    def quantise(self, bits: Literal[16, 8]) -> Self:
        """A smaller model: word vectors and n-grams in float16, or in int8 with a scale for every word and n-gram.

        It is used like any other, and encodes without converting more than the words of the texts. Languages that
        have as few bits already stay as they are.
        """
        return self._with_parts(quantise(self._parts_of(self.langs), bits))

    def export(self, path: str | Path, *, format: ExportFormat, lang: str) -> None:  # noqa: A002
        """Write the words of a language and their vectors in a format of other libraries.

        "word2vec", "word2vec-binary" and "fasttext" (.vec) are read by gensim and many others, "npz" by NumPy,
        "parquet" by pandas, polars and DuckDB; "sentence-transformers" and "model2vec" are folders of models that
        encode texts on their own, nearly as this one does. A file is replaced, a folder has to be new or empty.
        """
        path = Path(path)
        check_target(path, format)
        lang = self.find_language(lang)
        vocabulary, documents = self._languages.encoder(lang).vocabulary, self._languages.documents(lang)
        shares = vocabulary.document_frequency(documents) / documents if documents else np.zeros(len(vocabulary.words))
        export(path, format, ExportedLanguage(lang, self._language(lang), self.settings.tokeniser, shares))

    def _parts_of(self, langs: Collection[str]) -> TrainedParts:
        self._languages.check_fitted()
        languages = {lang: self._languages.language(lang) for lang in self.langs if lang in langs}
        return TrainedParts(languages, self._report, self._languages.targets())

    def _with_parts(self, parts: TrainedParts) -> Self:
        result = copy(self)
        result._set_trained(MemoryLanguages(parts.languages, parts.targets), parts.report)
        return result

    def _language_maps(self) -> dict[str, LanguageMap]:
        return {lang: self._languages.language(lang) for lang in self.langs}

    def save(self, path: str | Path) -> None:
        """Write the model to a folder, atomically; an unfinished model does not replace a finished one."""
        self._languages.check_fitted()
        folder, settings = one_path(path, "path"), self.settings.to_json() | {"rank": self.rank}
        reports.check_replaceable(folder, self._report)
        metadata = {"settings": settings, "auto_rank": self.settings.rank == "auto", "report": self._report}
        save(folder, metadata, self._language_maps(), self._languages.targets())

    @classmethod
    def load(cls, path: str | Path, langs: str | Sequence[str] | None = None) -> Self:
        """Open a saved model; a language's files are mapped into memory when it is first used.

        ``langs`` may name a language that the model encodes by a close one, see ``encode``.
        """
        folder = open_model(one_path(path, "path"), None if langs is None else one_or_several(langs), find_to_load)
        auto = {"rank": "auto"} if folder.metadata.get("auto_rank") else {}  # missing in older models
        settings = Settings.from_json(folder.metadata["settings"] | auto)
        return cls._from_parts(settings, folder, folder.metadata["report"])

    @classmethod
    def load_published(
        cls,
        folder: str | Path,
        name: str,
        langs: str | Sequence[str] | None = None,
        *,
        rank: int | None = None,
        on_error: OnError = "raise",
        skipped: Skipped | None = None,
        progress: ProgressCallback = no_progress,
    ) -> Self:
        """Read a model that the paper's authors published, such as "joint_4", from files like joint_4_en.txt.gz.

        Only the files of ``langs`` are read, by default all of the model. A vector of ``encode`` is the sum of the
        vectors of a text's words, as in the authors' libraries, at length 1. Words with white space are left out and
        counted in ``skipped``; with ``on_error="skip"``, so are lines that cannot be used, otherwise an error. ``rank``
        is the dimension of the word vectors, if the lines do not show it. ``save`` the model to read the files once.
        """
        from cr5.exchange.published_vectors import read_published

        settings, maps, report = read_published(folder, name, langs, rank, on_error, skipped=skipped, progress=progress)
        return cls._from_parts(settings, MemoryLanguages(maps), report)

    @classmethod
    def _from_parts(cls, settings: Settings, languages: Languages, report: dict[str, Any]) -> Self:
        model = cls()
        model._reset(settings, {"preset": settings.preset} | changed_settings(settings))
        model._set_trained(languages, report)
        return model

    @classmethod
    def from_pretrained(
        cls,
        repo: str,
        langs: str | Sequence[str] | None = None,
        *,
        revision: str | None = None,
        cache_dir: str | Path | None = None,
        progress: ProgressCallback = no_progress,
    ) -> Self:
        """Open a model from the Hugging Face Hub, ``owner/name``; only the files of ``langs`` are downloaded.

        ``revision`` is a branch, a tag or a commit. The files are in the hub's cache, or in ``cache_dir``, and are not
        downloaded twice; an interrupted download is continued. The hub's library decides where the hub is
        (``HF_ENDPOINT``), who asks (``HF_TOKEN``) and whether only the cache is used (``HF_HUB_OFFLINE``).
        """
        from cr5.exchange.hub import fetch

        chosen = None if langs is None else one_or_several(langs)
        return cls.load(fetch(repo, chosen, revision=revision, cache_dir=cache_dir, progress=progress), chosen)

    def push_to_hub(
        self,
        repo: str,
        *,
        private: bool | None = None,
        licence: str | None = None,
        evaluation: str | Path | None = None,
        revision: str | None = None,
        progress: ProgressCallback = no_progress,
    ) -> str:
        """Upload the model to the Hugging Face Hub as ``owner/name``, in one commit; return the commit's address.

        The repository is created unless it exists, with the visibility of ``private``. A model card is made from the
        training report; ``licence`` is an identifier such as "cc-by-sa-4.0", and ``evaluation`` the folder of a run
        whose figures it shows.
        """
        from cr5.exchange.hub import push

        with TemporaryDirectory(prefix="cr5-") as folder:
            self.save(folder)
            return push(
                Path(folder), repo, private=private, licence=licence, evaluation=evaluation, revision=revision,
                progress=progress,
            )  # fmt: skip


_SETTING_NAMES = [row.name for row in setting_rows()]
Cr5.__doc__ = f"{Cr5.__doc__}\n{indent(settings_docstring(), '    ')}\n"
