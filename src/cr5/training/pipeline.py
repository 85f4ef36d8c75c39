"""Training: filter and weight counted documents, select the ridge, fit the maps."""

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from cr5._typing import Array, Ints, Sparse
from cr5.errors import CorpusError
from cr5.features.tfidf import Vocabulary
from cr5.language_map import LanguageMap
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.retrieval.vectors import document_vectors
from cr5.settings import Settings
from cr5.storage.model_files import check_code
from cr5.training.checkpoint import Checkpoint
from cr5.training.counted_corpus import CountedCorpus
from cr5.training.engines import Engine
from cr5.training.engines.cpu import CpuEngine
from cr5.training.ridge import RIDGES, RidgePath, select_ridge
from cr5.training.solver import Fit, memory_needed, solve


class NotConverged(UserWarning):
    """A fit that ended above its tolerance."""


class TrainingResult(NamedTuple):
    """The map of every language, and a report of plain values: corpus sizes, ridge path, convergence."""

    languages: dict[str, LanguageMap]
    report: dict[str, Any]


def train(
    corpus: CountedCorpus,
    settings: Settings,
    *,
    engine: Engine | None = None,
    checkpoint: Path | None = None,
    progress: ProgressCallback = no_progress,
    should_stop: Callable[[], bool] = lambda: False,
    checkpoint_interval_seconds: float = 30.0,
    ridges: tuple[float, ...] = RIDGES,
) -> TrainingResult:
    """Learn every language's map; returns the maps and a report.

    ``engine`` decides where to compute, by default on this machine. ``checkpoint`` names a file from which an
    interrupted run continues; the caller removes it once the model is saved. ``ridges`` are tried for ridge "auto".
    """
    chosen = corpus.with_unique_words(
        settings.weighting.min_unique, settings.weighting.max_unique
    ).with_shared_concepts()
    _check(corpus, chosen, settings)
    progress(Progress("weight words", 0, None))
    engine = engine or CpuEngine()
    # Numbers without gaps, in the order of the names: the result does not depend on the order of the corpus.
    used = np.flatnonzero(chosen.document_counts().sum(axis=1))
    number = np.zeros(len(chosen.concepts), np.int64)
    number[sorted(used.tolist(), key=chosen.concepts.__getitem__)] = np.arange(len(used))
    vocabularies = chosen.load_into(engine, settings.weighting, number)
    concepts = {lang: number[documents.concepts] for lang, documents in chosen.languages.items()}
    _check_words(vocabularies, settings.rank, settings.weighting.min_documents)
    blocks = engine.block_info()
    needed = memory_needed(blocks, len(used), settings.rank)
    engine.check_memory(needed)
    lengths = {lang: documents.unique_words for lang, documents in chosen.languages.items()}
    saved = None
    if checkpoint:
        digest = fingerprint(vocabularies, concepts, lengths, settings)
        saved = Checkpoint(checkpoint, digest, checkpoint_interval_seconds)
    fit, ridge_path = _fit(engine, concepts, settings, saved, ridges, progress, should_stop)
    warning = ""
    if not fit.converged and not should_stop():
        steps = "1 step" if fit.steps == 1 else f"{fit.steps} steps"
        exhausted = fit.steps < settings.max_steps
        advice = "raise `tol`: float32 goes no further" if exhausted else "raise `max_steps` or `tol`"
        warning = (
            f"the fit stopped after {steps} at residual {fit.residual:.3g}, above the tolerance "
            f"{settings.tol:g}; {advice}"
        )
        warnings.warn(warning, NotConverged, stacklevel=3)
    maps = metric_maps(fit, settings, max_documents_per_concept(concepts))
    languages = {
        lang: LanguageMap(
            vocabularies[lang].words, vocabularies[lang].idf, maps[lang], _offset(fit, maps, lang, settings)
        )
        for lang in vocabularies
    }
    report = {
        "concepts": len(used),
        "languages": {
            lang: {
                "documents": len(chosen.languages[lang]),
                "documents_read": len(corpus.languages[lang]),
                "words": len(vocabularies[lang].words),
                "nonzeros": sum([block.nonzeros for block in blocks if engine.langs[block.language] == lang]),
            }
            for lang in vocabularies
        },
        "ridge": ridge_path.best_ridge if ridge_path else settings.ridge,
        "ridge_path": [asdict(point) for point in ridge_path.points] if ridge_path else [],
        "ridge_queries": ridge_path.queries if ridge_path else 0,
        "energy": fit.energy,
        "eigenvalues": [float(value) for value in fit.eigenvalues],
        "residual": fit.residual,
        "steps": fit.steps,
        "products": fit.products,
        "seconds": fit.seconds,
        "path_seconds": sum(point.seconds for point in ridge_path.points) if ridge_path else 0.0,
        "converged": fit.converged,
        "interrupted": should_stop(),
        "memory_predicted": needed,
        "warning": warning,
    }
    return TrainingResult(languages, report)


def _fit(
    engine: Engine,
    concepts: dict[str, Ints],
    settings: Settings,
    checkpoint: Checkpoint | None,
    ridges: tuple[float, ...],
    progress: ProgressCallback,
    should_stop: Callable[[], bool],
) -> tuple[Fit, RidgePath | None]:
    """Select the ridge if it is "auto", then fit; continue from a checkpoint if there is one."""
    options: dict[str, Any] = {
        "rank": settings.rank,
        "seed": settings.seed,
        "intercept": settings.intercept,
        "tol": settings.tol,
        "max_steps": settings.max_steps,
    }
    loaded = checkpoint.load() if checkpoint else None
    start: Mapping[str, Array] | Literal["engine"] | None = loaded[0] if loaded else None
    ridge_path = None
    if loaded and settings.ridge == "auto":
        ridge_path = RidgePath.from_json(loaded[1]["path"])
    elif settings.ridge == "auto":
        embed = partial(_embed, settings=settings, max_documents=max_documents_per_concept(concepts))
        ridge_path = select_ridge(
            engine, concepts, embed, ridges=ridges, progress=progress, should_stop=should_stop, **options
        )
        start = "engine"
    state = {"path": ridge_path.to_json()} if ridge_path else {}
    # An interrupted path is repeated from its beginning.
    if checkpoint and ridge_path and not loaded and not should_stop():
        checkpoint.save(lambda: dict(zip(engine.langs, engine.words.get("Z"), strict=True)), state, force=True)
    save = (lambda fetch: checkpoint.save(fetch, state)) if checkpoint else None
    ridge = ridge_path.best_ridge if ridge_path else float(settings.ridge)
    callbacks: dict[str, Any] = {"save_checkpoint": save, "progress": progress, "should_stop": should_stop}
    fit = solve(engine, ridge=ridge, start=start, **callbacks, **options)
    return fit, ridge_path


def metric_maps(fit: Fit, settings: Settings, max_documents: int) -> dict[str, Array]:
    """A fit's maps in the metric that documents are compared in, words x rank."""
    if settings.metric == "orthonormal":
        return fit.maps
    theta = np.clip(fit.eigenvalues, 0, max_documents * (1 - 1e-6))
    small = (fit.eigenvectors * np.sqrt(theta / (max_documents - theta))).astype(np.float32)
    return {lang: Z @ small for lang, Z in fit.maps.items()}


def max_documents_per_concept(concepts: Mapping[str, Ints]) -> int:
    """The largest number of documents of one concept: no eigenvalue exceeds it."""
    return int(np.bincount(np.concatenate(list(concepts.values()))).max())


def fingerprint(
    vocabularies: Mapping[str, Vocabulary],
    concepts: Mapping[str, Ints],
    lengths: Mapping[str, Ints],
    settings: Settings,
) -> str:
    """A digest of the settings and the data that a fit depends on, whatever the order of documents and the engine.

    Every document is represented by its concept and its number of different words.
    """
    digest = hashlib.sha256(json.dumps(settings.to_json(), sort_keys=True).encode())
    for lang in vocabularies:
        digest.update(json.dumps([lang, vocabularies[lang].words]).encode())
        documents = np.stack([concepts[lang], lengths[lang]]).astype(np.int64)
        for part in (vocabularies[lang].idf, documents[:, np.lexsort(documents)]):
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def _embed(fit: Fit, blocks: Mapping[str, Sparse], settings: Settings, max_documents: int) -> dict[str, Array]:
    maps = metric_maps(fit, settings, max_documents)
    return {lang: document_vectors(X, maps[lang], _offset(fit, maps, lang, settings)) for lang, X in blocks.items()}


def _offset(fit: Fit, maps: dict[str, Array], lang: str, settings: Settings) -> Array:
    """The vector that embedding subtracts: that of the mean document, or zero for a shared intercept."""
    mean = fit.means[lang] if settings.intercept == "language" else np.zeros_like(fit.means[lang])
    return np.asarray(mean @ maps[lang])


def _check(corpus: CountedCorpus, chosen: CountedCorpus, settings: Settings) -> None:
    """Raise CorpusError for a corpus that nothing can be learned from."""
    if not corpus.languages:
        raise CorpusError("there is no document to train on; check the corpus and `langs`")
    if len(corpus.languages) < 2:
        name = next(iter(corpus.languages))
        raise CorpusError(f"the corpus has documents in one language only ({name}); give two languages or more")
    for lang, documents in chosen.languages.items():
        check_code(lang)  # now, not when the model is saved after an hour
        if not len(documents):
            low, high = settings.weighting.min_unique, settings.weighting.max_unique
            raise CorpusError(
                f"language {lang} has no document left to train on: of its {len(corpus.languages[lang]):,}, "
                f"none has {low} to {high:,} different words and a concept shared with another language; "
                "widen `min_unique` and `max_unique`, or leave the language out with `langs`"
            )
    shared = int((chosen.document_counts().sum(axis=1) > 0).sum())
    if settings.rank >= shared:
        raise CorpusError(
            f"`rank={settings.rank}` must be below the number of shared concepts, {shared}; "
            f"use `rank<={shared - 1}`, or add documents"
        )


def _check_words(vocabularies: Mapping[str, Vocabulary], rank: int, min_documents: int) -> None:
    for lang, vocabulary in vocabularies.items():
        if not vocabulary.words:
            raise CorpusError(f"no word of language {lang} occurs in {min_documents} documents; lower `min_documents`")
    words = sum(len(vocabulary.words) for vocabulary in vocabularies.values())
    if rank > words:
        raise CorpusError(f"`rank={rank}` is more than the {words} words of all vocabularies; use `rank<={words}`")
