"""Training: filter and weight counted documents, select the ridge, fit the maps."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from cr5._typing import Array, Ints, Sparse
from cr5.errors import CorpusError, Cr5Warning, NotConverged, OutputWarning, RankLowered, warn
from cr5.features.tfidf import Vocabulary, Weighting
from cr5.message_parts import plural
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.retrieval.scorer import DEFAULT_WEIGHTS
from cr5.retrieval.vectors import document_vectors
from cr5.settings import DEFAULT_RANK, Settings
from cr5.storage.concept_targets import ConceptTargets, targets_nbytes
from cr5.storage.language_map import LanguageMap, SubwordMap, half_precision, ngrams_to_keep
from cr5.storage.model_files import check_code, language_size
from cr5.storage.output_paths import check_free_space, lack_of_space
from cr5.training.checkpoint import Checkpoint
from cr5.training.counted_corpus import CountedCorpus, subword_matrices
from cr5.training.engines import Engine
from cr5.training.engines.cpu import engine_or_cpu
from cr5.training.ridge import RIDGES, HeldOut, RidgePath, held_out_count, select_ridge, squared_lengths
from cr5.training.selection import (
    NO_COUNTERPART,
    CorpusUsage,
    Selection,
    different_names,
    documents_per_concept,
    list_reasons,
    question_about_concepts,
    select_documents,
)
from cr5.training.solver import OVERSAMPLING, Fit, SolverState, memory_needed, solve
from cr5.training.view_weights import StringsWeight, choose_strings_weight
from cr5.training.warm_start import folded_start

MAX_OFFERED_RANK = 2000  # in place of one that is too large: finding whether a rank works takes time and memory
MAX_TARGETS_SHARE = 0.2  # largest size of saved concept targets, relative to the model


class TrainingResult(NamedTuple):
    """The map of every language, and a report of plain values: corpus sizes, ridge path, convergence."""

    languages: dict[str, LanguageMap]
    report: dict[str, Any]


def train(corpus: CountedCorpus, settings: Settings, **options: Any) -> TrainingResult:
    """``train_with_targets`` without the targets."""
    return train_with_targets(corpus, settings, extendable=False, **options)[0]


def train_with_targets(
    corpus: CountedCorpus,
    settings: Settings,
    *,
    extendable: bool | None = None,
    earlier: Mapping[str, LanguageMap] | None = None,
    engine: Engine | None = None,
    checkpoint: Path | None = None,
    progress: ProgressCallback = no_progress,
    should_stop: Callable[[], bool] = lambda: False,
    checkpoint_interval_seconds: float = 30.0,
    ridges: tuple[float, ...] = RIDGES,
) -> tuple[TrainingResult, ConceptTargets | None]:
    """Learn every language's map; returns the maps, a report, and the concept targets that a further language needs.

    There are targets if the model is ``extendable``; None decides by what they add to the size of the model.
    The fit starts from the languages of an ``earlier`` model, with the ridge that the settings give.
    ``engine`` decides where to compute, by default on this machine. ``checkpoint`` names a file from which an
    interrupted run continues; the caller removes it once the model is saved. ``ridges`` are tried for ridge "auto".
    """
    progress(Progress("weight words", 0, None))
    for lang in corpus.languages:
        check_code(lang)  # now, not when the model is saved after an hour
    selection = select_documents(corpus, settings.weighting)
    chosen, vocabularies, usage = selection.corpus, selection.vocabularies, selection.usage
    _check(corpus, usage, settings.weighting)
    words = sum(len(vocabulary.words) for vocabulary in vocabularies.values())
    is_auto_rank = settings.rank == "auto"
    engine = engine_or_cpu(engine)
    dimensions = partial(_count_dimensions, selection, engine, settings)
    rank = choose_rank(settings, usage.concepts.used, words, _hint(corpus, chosen), dimensions)
    settings = replace(settings, rank=rank)
    notes = selection.warnings(settings.weighting)
    for note in notes:  # now, so that a caller who cares can stop
        warn(note)
    names, concepts, subwords = load_documents(selection, engine)
    needed = memory_needed(engine.block_info(), len(names), rank)
    engine.check_memory(needed)
    model_bytes = 4 * words * rank * (2 if any(block.subwords for block in engine.block_info()) else 1)  # at most
    opened = None
    if checkpoint:
        lengths = {lang: documents.unique_words for lang, documents in chosen.languages.items()}
        digest = fingerprint(vocabularies, concepts, lengths, settings)
        opened = Checkpoint(checkpoint, digest, checkpoint_interval_seconds, settings.to_json())
        # The checkpoint is there twice while it is replaced, and once while the model is saved.
        checkpoint_bytes = 2 * 4 * words * min(rank + OVERSAMPLING, words)
        folder, most = checkpoint.parent.resolve(), checkpoint_bytes + max(checkpoint_bytes, model_bytes)
        check_free_space(folder, model_bytes, "the model")
        if problem := lack_of_space(folder, most, "the model with a checkpoint"):  # a short fit writes none
            warn(f"{problem} if the fit takes longer than {checkpoint_interval_seconds:g} s", OutputWarning)
    choose_weight = partial(
        choose_strings_weight, fetch_counts=chosen.fetch_counts, concepts=len(names), setting=settings.strings_weight
    )
    if extendable is None and targets_nbytes(len(names), rank) > MAX_TARGETS_SHARE * model_bytes:
        extendable = False
    fit, ridge_path, strings_weight = _fit(
        engine, concepts, subwords, settings, choose_weight, opened, ridges, progress, should_stop,
        lower_rank=is_auto_rank, concept_sums=extendable is not False,
        earlier_maps=folded_start(vocabularies, earlier) if earlier else None,
    )  # fmt: skip
    rank = len(fit.eigenvalues)
    warning = "" if fit.converged or fit.stopped else _not_converged(fit, settings)
    if warning:
        warn(warning, NotConverged)
    if is_auto_rank and rank < DEFAULT_RANK:
        notes.append(_rank_lowered(rank, usage.concepts.used, words, settings))
        warn(notes[-1])
    scale = metric_scale(fit, settings, max_documents_per_concept(concepts))
    languages = {
        lang: language_map(fit, lang, vocabularies[lang], subwords[lang], scale, settings) for lang in vocabularies
    }
    targets, targets_bytes = None, targets_nbytes(len(names), rank)
    share = targets_bytes / sum(language_size(language).bytes for language in languages.values())
    if extendable or (extendable is None and share <= MAX_TARGETS_SHARE):
        targets = ConceptTargets.make(names, *concept_targets(fit, concepts, scale, settings))
    report = {
        "corpus": usage.to_json(),
        "rank": rank,
        "concepts": len(names),
        "languages": {lang: language_report(engine, lang, corpus, selection) for lang in vocabularies},
        **_chosen_settings(ridge_path, strings_weight),
        "concept_targets": {"saved": targets is not None, "bytes": targets_bytes, "share": share},
        "energy": fit.energy,
        "eigenvalues": [float(value) for value in fit.eigenvalues],
        **fit.convergence,
        "interrupted": fit.stopped,
        "memory_predicted": needed,
        "warning": warning,
        "notes": [str(note) for note in notes],
    }
    return TrainingResult(languages, report), targets


def load_documents(selection: Selection, engine: Engine) -> tuple[list[str], dict[str, Ints], dict[str, Sparse | None]]:
    """Load the chosen documents into an engine; returns the names of its concepts, those of its documents, subwords."""
    chosen = selection.corpus
    # Numbers without gaps, in the order of the names: the result does not depend on the order of the corpus.
    used = np.flatnonzero(chosen.document_counts().sum(axis=1)).tolist()
    used.sort(key=chosen.concepts.__getitem__)
    concept_numbers = np.zeros(len(chosen.concepts), np.int64)
    concept_numbers[used] = np.arange(len(used))
    subwords = subword_matrices(selection.vocabularies)
    chosen.load_into(engine, selection.vocabularies, concept_numbers, subwords)
    concepts = {lang: concept_numbers[documents.concepts] for lang, documents in chosen.languages.items()}
    return [chosen.concepts[concept] for concept in used], concepts, subwords


def _not_converged(fit: Fit, settings: Settings) -> str:
    exhausted = fit.steps < settings.max_steps
    if settings.tol == 0 and not exhausted:
        return (
            f"the fit ended after {plural(fit.steps, 'step')}, and with `tol=0` its residual is not computed; "
            "set `tol` above 0 to know how exact it is"
        )
    advice = "increase `tol`: float32 goes no further" if exhausted else "increase `max_steps` or `tol`"
    return (
        f"the fit stopped after {plural(fit.steps, 'step')} at residual {fit.residual:.3g}, above the tolerance "
        f"{settings.tol:g}; {advice}"
    )


def _chosen_settings(ridge_path: RidgePath, strings_weight: StringsWeight) -> dict[str, Any]:
    """What the report says about settings that may be "auto"."""
    return {
        "ridge": ridge_path.ridge,
        "ridge_path": [asdict(point) for point in ridge_path.points],
        "ridge_queries": ridge_path.queries,
        "ridge_shares": list(ridge_path.shares),
        "ridge_note": ridge_path.note,
        "path_seconds": sum((point.seconds for point in ridge_path.points), start=0.0),
        "view_weights": DEFAULT_WEIGHTS | {"strings": strings_weight.weight},
        "strings_weight_expected": strings_weight.expected,
        "strings_weight_path": [asdict(point) for point in strings_weight.points],
    }


def language_report(engine: Engine, lang: str, corpus: CountedCorpus, selection: Selection) -> dict[str, int]:
    """The sizes of a language in a fit: of its documents, before and after the selection, and of its matrices."""
    blocks = [block for block in engine.block_info() if engine.langs[block.language] == lang]
    return {
        "documents": len(selection.corpus.languages[lang]),
        "documents_read": len(corpus.languages[lang]),
        "words": len(selection.vocabularies[lang].words),
        "subwords": max(block.subwords for block in blocks),
        "nonzeros": sum(block.nonzeros for block in blocks),
    }


def _fit(
    engine: Engine,
    concepts: dict[str, Ints],
    subwords: Mapping[str, Sparse | None],
    settings: Settings,
    choose_weight: Callable[[HeldOut | None], StringsWeight],
    checkpoint: Checkpoint | None,
    ridges: tuple[float, ...],
    progress: ProgressCallback,
    should_stop: Callable[[], bool],
    *,
    lower_rank: bool,
    concept_sums: bool,
    earlier_maps: Mapping[str, Array] | None,
) -> tuple[Fit, RidgePath, StringsWeight]:
    """Select the ridge if it is "auto", and the weight of the strings view, then fit; continue from a checkpoint.

    The fit does not start where the selection ended, so that it is the same as with the chosen ridge given, or if it is
    continued. It starts from ``earlier_maps``, folded ones of an earlier model, if there are any.
    """
    options: dict[str, Any] = {
        "rank": settings.nominal_rank,
        "seed": settings.seed,
        "intercept": settings.intercept,
        "tol": settings.tol,
        "max_steps": settings.max_steps,
        "lower_rank": lower_rank,
    }
    loaded = checkpoint.load() if checkpoint else None
    start: Mapping[str, Array] | Literal["engine"] | None = loaded[0] or None if loaded else earlier_maps
    if settings.ridge != "auto":
        ridge_path = RidgePath([], settings.ridge, shares=())
    elif loaded:
        ridge_path = RidgePath.from_json(loaded[1]["path"])
    else:
        max_documents = max_documents_per_concept(concepts)
        embed = partial(_embed, settings=settings, max_documents=max_documents)
        ridge_path = select_ridge(
            engine, concepts, embed, squared_lengths(subwords), ridges=ridges, progress=progress,
            should_stop=should_stop,
            **options | {"lower_rank": True},  # without those held out, documents may span fewer dimensions
        )  # fmt: skip
        start = "engine" if ridge_path.points and should_stop() else None  # stopped: from where the selection ended
    if loaded and "strings_weight" in loaded[1]:
        strings_weight = StringsWeight.from_json(loaded[1]["strings_weight"])
    else:
        strings_weight = choose_weight(ridge_path.held_out)
    chosen = {"path": ridge_path.to_json(), "strings_weight": strings_weight.to_json()}
    state = chosen if settings.ridge == "auto" else {}

    is_resumable = bool(loaded) or settings.ridge != "auto" or not should_stop()  # an interrupted path is repeated
    if checkpoint and ridge_path.points and not loaded and is_resumable:
        checkpoint.save(dict, state, force=True)

    def save(fetch: Callable[[], dict[str, Array]], position: SolverState, is_stopped: bool) -> None:
        if checkpoint and is_resumable:
            checkpoint.save(fetch, state | {"position": position}, force=is_stopped)

    callbacks: dict[str, Any] = {"save_checkpoint": save, "progress": progress, "should_stop": should_stop}
    is_folded = not loaded and earlier_maps is not None
    position = SolverState(*loaded[1]["position"]) if loaded and "position" in loaded[1] else None
    options |= {"start": start, "start_is_folded": is_folded, "position": position, "concept_sums": concept_sums}
    fit = solve(engine, ridge=float(ridge_path.ridge), **callbacks, **options)
    if start == "engine":  # even if no step was needed, since the ridge was not chosen
        fit = replace(fit, stopped=True, converged=False)
    return fit, ridge_path, strings_weight


def concept_targets(
    fit: Fit, concepts: Mapping[str, Ints], scale: Array | None, settings: Settings
) -> tuple[Array, Array]:
    """The targets T for which the maps solve B Z = X'C Y T, concepts x rank, and the intercept of all languages.

    With the B-orthonormal eigenvectors z = maps E and the sums S = Y'C X maps, B z = X'C Y S E / theta.
    """
    assert fit.concept_sums is not None
    theta, E = np.maximum(fit.eigenvalues, 1e-6 * fit.eigenvalues.max(initial=0)), fit.eigenvectors
    eigenvector_scale = np.linalg.inv(E) @ (np.eye(len(theta)) if scale is None else scale)
    targets = fit.concept_sums @ (E / theta @ eigenvector_scale)
    if settings.intercept == "language":
        return targets, np.zeros(targets.shape[1])
    # The mean of T - X Z over the documents of all languages: what the shared intercept is in these coordinates.
    mean_target = np.mean(targets[np.concatenate(list(concepts.values()))], axis=0)
    return targets, mean_target - sum(_scaled(fit.means[lang] @ fit.folded_maps[lang], scale) for lang in concepts)


def language_map(
    fit: Fit, lang: str, vocabulary: Vocabulary, subwords: Sparse | None, scale: Array | None, settings: Settings
) -> LanguageMap:
    """The parameters of a language; its maps are multiplied by ``scale``."""
    Z = _scaled(fit.folded_maps[lang], scale)
    subword_map = None
    if vocabulary.subwords and subwords is not None:
        kept = vocabulary.subwords.most_frequent(
            ngrams_to_keep(vocabulary.words, vocabulary.subwords.ngrams, Z.shape[1])
        )
        values, scales = half_precision(_scaled(subwords[:, : len(kept.ngrams)].T @ fit.maps[lang], scale))
        subword_map = SubwordMap(kept.ngrams, kept.weights, values, scales, kept.squares) if kept.ngrams else None
    return LanguageMap(vocabulary.words, vocabulary.idf, Z, _offset(fit, lang, scale, settings), subword_map)


def _scaled(Z: Array, scale: Array | None) -> Array:
    return Z if scale is None else np.asarray(Z @ scale)


def metric_scale(fit: Fit, settings: Settings, max_documents: int) -> Array | None:
    """rank x rank: what maps are multiplied by for the metric that documents are compared in; None for nothing."""
    if settings.metric == "orthonormal":
        return None
    theta = np.clip(fit.eigenvalues, 0, max_documents * (1 - 1e-6))
    return np.asarray(fit.eigenvectors * np.sqrt(theta / (max_documents - theta)), np.float32)


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
    for lang, vocabulary in vocabularies.items():
        subwords = vocabulary.subwords
        strings = [lang, vocabulary.words] + ([subwords.ngrams] if subwords else [])
        digest.update(json.dumps(strings).encode())
        documents = np.stack([concepts[lang], lengths[lang]]).astype(np.int64)
        weights = [vocabulary.idf] + ([subwords.weights] if subwords else [])
        for part in (*weights, documents[:, np.lexsort(documents)]):
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def _embed(fit: Fit, blocks: Mapping[str, Sparse], settings: Settings, max_documents: int) -> dict[str, Array]:
    scale, vectors = metric_scale(fit, settings, max_documents), {}
    for lang, X in blocks.items():
        words = np.unique(X.indices)  # of a few documents
        Z = _scaled(fit.folded_maps[lang][words], scale)
        vectors[lang] = document_vectors(X[:, words], Z, _offset(fit, lang, scale, settings))
    return vectors


def _offset(fit: Fit, lang: str, scale: Array | None, settings: Settings) -> Array:
    """The vector that embedding subtracts: that of the mean document, or zero for a shared intercept."""
    mean = fit.means[lang] if settings.intercept == "language" else np.zeros_like(fit.means[lang])
    return _scaled(mean @ fit.folded_maps[lang], scale)


def choose_rank(
    settings: Settings,
    concepts: int,
    words: int,
    hint: str = "",
    count_dimensions: Callable[[int], int] = lambda most: most,
) -> int:
    """The rank of a fit of ``concepts`` shared concepts and ``words`` words in all vocabularies.

    The default rank is lowered to what they allow; raises CorpusError for a larger one that was asked for, with a
    ``hint`` about the documents. The error offers a rank that works: no more than ``count_dimensions``, which takes the
    most that are of interest, has found.
    """
    held_out, shared = _held_out(settings, concepts)
    largest = min(concepts - held_out - 1, words)
    if largest < 1:
        raise CorpusError(
            f"the languages share {plural(concepts, 'concept')}, and at least 2 are needed; add documents{hint}"
        )
    if settings.rank == "auto":
        return min(settings.nominal_rank, largest)
    if settings.rank > largest:
        offered = min(count_dimensions(min(largest, MAX_OFFERED_RANK)), largest)
        limit = f"the {words:,} words of all languages" if words == largest else shared
        if offered < min(largest, MAX_OFFERED_RANK):
            limit = f"the documents, which span only {plural(offered, 'dimension')}"
        advice = f"use `rank<={offered}`, or add documents{hint}"
        raise CorpusError(f"`rank={settings.rank}` is too large for {limit}; {advice}")
    return settings.rank


def _count_dimensions(selection: Selection, engine: Engine, settings: Settings, most: int) -> int:
    """How many dimensions the documents span, up to ``most``, at any ridge of those that are tried for "auto"."""
    names, _, _ = load_documents(selection, engine)
    engine.check_memory(memory_needed(engine.block_info(), len(names), most))
    ridge = RIDGES[0] if settings.ridge == "auto" else float(settings.ridge)  # at a larger one there are fewer
    options: dict[str, Any] = {"seed": settings.seed, "intercept": settings.intercept, "max_steps": 2, "tol": 0.0}
    return len(solve(engine, rank=most, ridge=ridge, lower_rank=True, **options).eigenvalues)


def _hint(corpus: CountedCorpus, chosen: CountedCorpus) -> str:
    """What is probably wrong with a corpus that has too few concepts, as the end of a message."""
    return _swapped_columns(corpus) or question_about_concepts(documents_per_concept(chosen))


def _swapped_columns(corpus: CountedCorpus) -> str:
    """A hint for a corpus with more languages than concepts, of which there are as many as languages otherwise."""
    langs, concepts = len(corpus.languages), len(corpus.concepts)
    numbers = f"{langs:,} languages and {plural(concepts, 'concept')}"
    return f"; there are {numbers}: check that lang and concept are not swapped" if langs > concepts > 1 else ""


def _rank_lowered(rank: int, concepts: int, words: int, settings: Settings) -> Cr5Warning:
    held_out, shared = _held_out(settings, concepts)
    lowered = f"the rank is {rank} instead of {DEFAULT_RANK}"
    if rank < min(concepts - held_out - 1, words):
        return RankLowered(
            f"{lowered}: the documents span only {plural(rank, 'dimension')}; add documents with other words"
        )
    limit = f"{shared}{',' if held_out else ''}" if rank < words else f"the {words:,} words of all languages"
    return RankLowered(f"{lowered}, the most that {limit} allow; add documents for a higher rank")


def _held_out(settings: Settings, concepts: int) -> tuple[int, str]:
    """How many of these concepts are held out to choose the ridge, and what messages call the concepts."""
    count = held_out_count(concepts) if settings.ridge == "auto" else 0
    note = f', of which `ridge="auto"` holds out {count:,}' if count else ""
    return count, f"{concepts:,} shared concepts{note}"


def _check(corpus: CountedCorpus, usage: CorpusUsage, weighting: Weighting) -> None:
    """Raise CorpusError if nothing can be learned from a corpus."""
    if not usage.languages:
        raise CorpusError("the corpus has no documents; give documents in two languages or more")
    if len(usage.languages) < 2:
        name = next(iter(usage.languages))
        raise CorpusError(f"the corpus has documents in one language only ({name}); give two languages or more")
    if not usage.documents.used:
        examples = "" if usage.concepts.left_out.get(NO_COUNTERPART) else different_names(corpus, corpus.languages)
        reasons = list_reasons(usage.documents, weighting)
        raise CorpusError(f"no document can be trained on: {reasons}{_swapped_columns(corpus) or examples}")
