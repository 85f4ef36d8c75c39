"""A further language for a trained model: its documents are fitted to the targets of their concepts."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from cr5._typing import Array, Sparse
from cr5.errors import CorpusError, NotConverged, warn
from cr5.features.counts import WordCounts
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.retrieval.vectors import document_vectors, unit_rows
from cr5.settings import Ridge, Settings
from cr5.storage.concept_targets import ConceptTargets
from cr5.storage.language_map import LanguageMap
from cr5.training.counted_corpus import CountedCorpus
from cr5.training.engines import Engine
from cr5.training.pipeline import language_map, language_report, load_documents
from cr5.training.regression import regress, set_targets
from cr5.training.ridge import RIDGES, RidgePath, held_out, select_ridge, squared_lengths
from cr5.training.selection import ONE_LANGUAGE, Usage, list_reasons, select_documents
from cr5.training.solver import Fit, memory_needed

TOL_FRACTION = 0.2  # share of the setting ``tol``: a step costs little here, and P@1 changes no more below it
BATCH_ROWS = 4096  # documents of the model's languages that are encoded at a time
_TARGETS = ""  # stands for a language code: the concepts that have a target


class AddedLanguage(NamedTuple):
    """The map of a language, and a report of plain values."""

    language: LanguageMap
    report: dict[str, Any]


def add_language(
    corpus: CountedCorpus,
    lang: str,
    targets: ConceptTargets,
    settings: Settings,
    *,
    engine: Engine,
    ridge: Ridge,
    default_ridge: float,
    progress: ProgressCallback = no_progress,
    should_stop: Callable[[], bool] = lambda: False,
    ridges: tuple[float, ...] = RIDGES,
) -> AddedLanguage:
    """Fit a language to the targets of the concepts of its documents; documents in other languages are ignored.

    ``default_ridge`` is used where too few documents are left to choose one on. ``settings`` are those of the model.
    """
    progress(Progress("weight words", 0, None))
    corpus = _only(corpus, lang)
    selection = select_documents(corpus, settings.weighting, known=targets.find(corpus.concepts) >= 0)
    usage = selection.usage.languages[lang]
    if not usage.used:
        raise CorpusError(_why_unusable(corpus, lang, usage, settings))
    if selection.usage.concepts.used < 2:
        raise CorpusError(f"the documents in {lang} are about one concept of the model; add documents")
    notes = selection.warnings(settings.weighting)
    for note in notes:
        warn(note)
    names, concepts, subwords = load_documents(selection, engine)
    vectors = targets.vectors(targets.find(names))
    engine.check_memory(memory_needed(engine.block_info(), len(names), vectors.shape[1]))
    set_targets(engine, vectors)
    concepts[_TARGETS] = np.arange(len(names))
    options: dict[str, Any] = {"intercept": settings.intercept, "should_stop": should_stop}
    if ridge == "auto":
        references = unit_rows(vectors[np.flatnonzero(held_out(concepts, settings.seed))])
        path = select_ridge(
            engine, concepts, partial(_embed, references=references, settings=settings), squared_lengths(subwords),
            rank=0, seed=settings.seed, ridges=ridges, progress=progress, solver=regress, default=default_ridge,
            **options,
        )  # fmt: skip
    else:
        path = RidgePath([], float(ridge))
    tol = TOL_FRACTION * settings.tol
    fit = regress(engine, ridge=path.ridge, tol=tol, max_steps=settings.max_steps, progress=progress, **options)
    warning = ""
    if not fit.converged:
        warning = (
            f"the fit of {lang} stopped at residual {fit.residual:.3g}, above {tol:g}; train the model with a larger "
            "`max_steps` or `tol`"
        )
        warn(warning, NotConverged)
    report = {
        "corpus": asdict(usage),
        "language": language_report(engine, lang, corpus, selection),
        "fit": {
            "concepts": len(names),
            "ridge": path.ridge,
            "ridge_path": [asdict(point) for point in path.points],
            "ridge_note": path.note,
            "explained": float(fit.eigenvalues.mean()),
            **fit.convergence,
            "warning": warning,
            "notes": [str(note) for note in notes],
        },
    }
    return AddedLanguage(language_map(fit, lang, selection.vocabularies[lang], subwords[lang], None, settings), report)


def _why_unusable(corpus: CountedCorpus, lang: str, usage: Usage, settings: Settings) -> str:
    if usage.left_out.get(ONE_LANGUAGE) != usage.read:
        return f"no document in {lang} can be used: {list_reasons(usage, settings.weighting)}"
    example = corpus.concepts[corpus.languages[lang].concepts[0]]
    return (
        f"the documents in {lang} share no concept with those that the model was trained on ({lang} has {example!r}, "
        "for example); give their concepts the names that they have in the training corpus"
    )


def targets_from_documents(
    corpus: CountedCorpus, lang: str, encode: Mapping[str, Callable[[WordCounts], Array]], eigenvalues: Array
) -> ConceptTargets:
    """The mean vector of each concept's documents in the languages of a model, which ``encode`` has functions for.

    Dimension i is divided by eigenvalue i, as in the targets that training computes from the sums over documents. Only
    concepts that ``lang`` has documents of get a target, and no document without a word of the model counts.
    """
    known = [other for other in encode if other in corpus.languages and other != lang]
    wanted = np.zeros(len(corpus.concepts), bool)
    wanted[corpus.languages[lang].concepts] = True
    rank = len(eigenvalues)
    sums, counts = np.zeros((len(wanted), rank), np.float32), np.zeros(len(wanted), np.int64)
    for other in known:
        concepts = corpus.languages[other].concepts
        rows = np.flatnonzero(wanted[concepts])
        for begin in range(0, len(rows), BATCH_ROWS):
            chunk = rows[begin : begin + BATCH_ROWS]
            vectors = encode[other](corpus.fetch_counts({other: chunk})[other])
            np.add.at(sums, concepts[chunk], vectors)
            np.add.at(counts, concepts[chunk], vectors.any(axis=1))
    found = np.flatnonzero(counts)
    if not len(found):
        raise CorpusError(
            f"the model has no concept targets, and no document in its languages ({', '.join(encode)}) shares a "
            f"concept with one in {lang}; give documents of the same concepts in those languages as well, or train the "
            "model again with `extendable=True`"
        )
    names = [corpus.concepts[concept] for concept in found.tolist()]
    return ConceptTargets.make(names, sums[found] / counts[found, None] / eigenvalues, np.zeros(rank))


def _only(corpus: CountedCorpus, lang: str) -> CountedCorpus:
    """The documents in one language."""
    no_rows = np.zeros(0, np.int64)
    rows = dict.fromkeys(corpus.languages, no_rows)
    return corpus.select_rows(rows | {lang: np.arange(len(corpus.languages[lang]))})


def _embed(fit: Fit, blocks: Mapping[str, Sparse], references: Array, settings: Settings) -> dict[str, Array]:
    vectors = {_TARGETS: references}
    for lang, X in blocks.items():
        mean = fit.means[lang] @ fit.folded_maps[lang] if settings.intercept == "language" else 0.0
        vectors[lang] = document_vectors(X, fit.folded_maps[lang], np.zeros(references.shape[1], np.float32) + mean)
    return vectors
