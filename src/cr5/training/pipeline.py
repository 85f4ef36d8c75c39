"""From counted documents to maps: filter, weigh, choose the ridge, fit."""

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
from cr5.progress import Progress, ProgressCallback, silent
from cr5.retrieval.vectors import document_vectors
from cr5.settings import Settings
from cr5.storage.model_files import check_code
from cr5.training.checkpoint import Checkpoint
from cr5.training.collection import Collection
from cr5.training.engines import Engine
from cr5.training.engines.cpu import CpuEngine
from cr5.training.ridge import RidgePath, ridge_path
from cr5.training.solver import Fit, memory, solve


class NotConverged(UserWarning):
    """A fit that ended above its tolerance."""


class TrainingResult(NamedTuple):
    """The map of every language, and a report of plain values: corpus sizes, ridge path, convergence."""

    languages: dict[str, LanguageMap]
    report: dict[str, Any]


def train(
    collection: Collection,
    settings: Settings,
    *,
    engine: Engine | None = None,
    checkpoint: Path | None = None,
    progress: ProgressCallback = silent,
    stop: Callable[[], bool] = lambda: False,
) -> TrainingResult:
    """Learn every language's map; returns the maps and a report.

    ``engine`` says where to compute, by default here. ``checkpoint`` names a file that an interrupted
    run goes on from; whoever keeps the model removes it.
    """
    chosen = collection.sized(settings.weighting.min_unique, settings.weighting.max_unique).shared()
    _check(collection, chosen, settings)
    progress(Progress("weigh words", 0, None))
    engine = engine or CpuEngine()
    # Numbers without gaps, in the order of the names, so that the order of the corpus does not matter.
    used = np.flatnonzero(chosen.presence().sum(axis=1))
    number = np.zeros(len(chosen.concepts), np.int64)
    number[sorted(used.tolist(), key=chosen.concepts.__getitem__)] = np.arange(len(used))
    features = chosen.put(engine, settings.weighting, number)
    concepts = {lang: number[documents.concepts] for lang, documents in chosen.languages.items()}
    _check_words(features, settings.rank)
    facts = engine.block_info()
    needed = memory(facts, len(used), settings.rank)
    engine.check_memory(needed)
    lengths = {lang: documents.unique for lang, documents in chosen.languages.items()}
    mark = fingerprint(features, concepts, lengths, settings)
    fit, path = _fit(engine, concepts, settings, Checkpoint(checkpoint, mark) if checkpoint else None, progress, stop)
    warning = ""
    if not fit.converged and not stop():
        warning = (
            f"the fit stopped after {fit.steps} steps at residual {fit.residual:.3g}, above the tolerance "
            f"{settings.tol:g}; "
            + ("raise max_steps or tol" if fit.steps >= settings.max_steps else "raise tol: float32 goes no further")
        )
        warnings.warn(warning, NotConverged, stacklevel=3)
    maps = metric_maps(fit, settings, documents_per_concept(concepts))
    languages = {
        lang: LanguageMap(features[lang].words, features[lang].idf, maps[lang], _offset(fit, maps, lang, settings))
        for lang in features
    }
    report = {
        "concepts": len(used),
        "languages": {
            lang: {
                "documents": len(chosen.languages[lang]),
                "documents_read": len(collection.languages[lang]),
                "words": len(features[lang].words),
                "nonzeros": sum([block.nonzeros for block in facts if engine.langs[block.language] == lang]),
            }
            for lang in features
        },
        "ridge": path.ridge if path else settings.ridge,
        "ridge_path": [asdict(point) for point in path.points] if path else [],
        "ridge_queries": path.queries if path else 0,
        "energy": fit.energy,
        "eigenvalues": [float(value) for value in fit.eigenvalues],
        "residual": fit.residual,
        "steps": fit.steps,
        "products": fit.products,
        "seconds": fit.seconds,
        "path_seconds": sum(point.seconds for point in path.points) if path else 0.0,
        "converged": fit.converged,
        "interrupted": stop(),
        "memory_predicted": needed,
        "warning": warning,
    }
    return TrainingResult(languages, report)


def _fit(
    engine: Engine,
    concepts: dict[str, Ints],
    settings: Settings,
    kept: Checkpoint | None,
    progress: ProgressCallback,
    stop: Callable[[], bool],
) -> tuple[Fit, RidgePath | None]:
    """Choose the ridge where it is open, then fit; go on from a checkpoint where there is one."""
    options: dict[str, Any] = {
        "rank": settings.rank,
        "seed": settings.seed,
        "intercept": settings.intercept,
        "tol": settings.tol,
        "max_steps": settings.max_steps,
    }
    found = kept.load() if kept else None
    start: Mapping[str, Array] | Literal["engine"] | None = found[0] if found else None
    path = None
    if found and settings.ridge == "auto":
        path = RidgePath.from_json(found[1]["path"])
    elif settings.ridge == "auto":
        embed = partial(_embed, settings=settings, most=documents_per_concept(concepts))
        path = ridge_path(engine, concepts, embed, progress=progress, stop=stop, **options)
        start = "engine"
    state = {"path": path.to_json()} if path else {}
    if kept and path and not found and not stop():  # a path that was cut short is to be walked again
        kept.save(lambda: dict(zip(engine.langs, engine.words.get("Z"), strict=True)), state, now=True)
    keep = (lambda fetch: kept.save(fetch, state)) if kept else None
    ridge = path.ridge if path else float(settings.ridge)
    fit = solve(engine, ridge=ridge, start=start, keep=keep, progress=progress, stop=stop, **options)
    return fit, path


def metric_maps(fit: Fit, settings: Settings, most: int) -> dict[str, Array]:
    """A fit's maps in the metric that documents are compared in, words x rank."""
    if settings.metric == "orthonormal":
        return fit.maps
    theta = np.clip(fit.eigenvalues, 0, most * (1 - 1e-6))
    small = (fit.eigenvectors * np.sqrt(theta / (most - theta))).astype(np.float32)
    return {lang: Z @ small for lang, Z in fit.maps.items()}


def documents_per_concept(concepts: Mapping[str, Ints]) -> int:
    """The most documents that a concept has: no eigenvalue exceeds it."""
    return int(np.bincount(np.concatenate(list(concepts.values()))).max())


def fingerprint(
    features: Mapping[str, Vocabulary], concepts: Mapping[str, Ints], lengths: Mapping[str, Ints], settings: Settings
) -> str:
    """A digest of the settings and the data that a fit depends on, in whatever order and wherever that lies.

    Of every document its concept and its number of different words stand for it.
    """
    digest = hashlib.sha256(json.dumps(settings.to_json(), sort_keys=True).encode())
    for lang in features:
        digest.update(json.dumps([lang, features[lang].words]).encode())
        documents = np.stack([concepts[lang], lengths[lang]]).astype(np.int64)
        for part in (features[lang].idf, documents[:, np.lexsort(documents)]):
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def _embed(fit: Fit, blocks: Mapping[str, Sparse], settings: Settings, most: int) -> dict[str, Array]:
    maps = metric_maps(fit, settings, most)
    return {lang: document_vectors(X, maps[lang], _offset(fit, maps, lang, settings)) for lang, X in blocks.items()}


def _offset(fit: Fit, maps: dict[str, Array], lang: str, settings: Settings) -> Array:
    """What embedding subtracts: the mean document's vector; nothing where the intercept is shared."""
    mean = fit.means[lang] if settings.intercept == "language" else np.zeros_like(fit.means[lang])
    return np.asarray(mean @ maps[lang])


def _check(collection: Collection, chosen: Collection, settings: Settings) -> None:
    """Complain about a corpus that nothing can be learned from."""
    if not collection.languages:
        raise CorpusError("there is no document to train on; check the corpus and --langs")
    if len(collection.languages) < 2:
        name = next(iter(collection.languages))
        raise CorpusError(f"the corpus has documents in one language only ({name}); give two languages or more")
    for lang, documents in chosen.languages.items():
        check_code(lang)  # now, not when an hour's work is to be saved
        if not len(documents):
            low, high = settings.weighting.min_unique, settings.weighting.max_unique
            raise CorpusError(
                f"language {lang} has no document left to train on: of its {len(collection.languages[lang]):,}, "
                f"none has {low} to {high:,} different words and a concept shared with another language; "
                "widen min_unique and max_unique, or leave the language out with --langs"
            )
    shared = int((chosen.presence().sum(axis=1) > 0).sum())
    if settings.rank >= shared:
        raise CorpusError(
            f"rank {settings.rank} exceeds what the {shared} concepts that two languages share can give; "
            f"lower --rank to {shared - 1} or less, or add documents"
        )


def _check_words(features: Mapping[str, Vocabulary], rank: int) -> None:
    for lang, feature in features.items():
        if not feature.words:
            raise CorpusError(f"no word of language {lang} occurs in enough documents; lower min_documents")
    words = sum(len(feature.words) for feature in features.values())
    if rank > words:
        raise CorpusError(f"rank {rank} exceeds the {words} words of the vocabulary; lower --rank")
