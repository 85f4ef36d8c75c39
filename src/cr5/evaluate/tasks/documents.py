"""The document task: find a held-out document's counterpart in another language, trained in four regimes."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from cr5._typing import Ints, Mask
from cr5.errors import Cr5Error
from cr5.evaluate.run_builder import Condition, RunBuilder, csls_facts
from cr5.evaluate.runs import CslsOver, Regime, Run, TrainedSystem
from cr5.evaluate.splits import (
    LOW_RESOURCE,
    MAX_QUERY_SHARE,
    MIN_QUERIES,
    PairQueries,
    QuerySet,
    Split,
    choose_pivot,
    count_shared_concepts,
    training_rows,
)
from cr5.evaluate.systems.fitted_system import EmbeddingCache, FittedSystem, System
from cr5.evaluate.tasks.directions import Direction, background_of
from cr5.evaluate.texts import EvaluationCorpus, TokenisedTexts, mask_shared_words
from cr5.evaluate.wrong_answers import describe_wrong_answers
from cr5.progress import Progress, ProgressCallback, no_progress


@dataclass(frozen=True)
class HeldOutDocuments:
    """The held-out documents in every language, and which of them are queries.

    ``corpus`` has all documents, ``filtered_corpus`` those of suitable length, which may be trained on. ``texts`` are
    the held-out documents by language, ``rows`` their rows in ``corpus``.
    """

    corpus: EvaluationCorpus
    filtered_corpus: EvaluationCorpus
    split: Split
    query_set: QuerySet
    csls_over: CslsOver
    rows: dict[str, Ints]
    texts: dict[str, TokenisedTexts]
    masked: bool = False

    def queries(self, source: str, target: str) -> Ints:
        """The queries of a direction, as rows of the held-out documents of the source language."""
        pair = next(p for p in self.split.pairs if set(p.langs) == {source, target})
        return self._rows_of(self.texts[source], pair.queries(self.query_set))

    def background(self, source: str, target: str) -> Ints | None:
        """Held-out documents of the source language that are not queries, for CSLS; None if CSLS uses the queries."""
        if self.csls_over == "queries":
            return None
        if self.split.candidates_train:
            raise Cr5Error(
                "the candidates of this split are trained on, and documents that were trained on cannot serve as the "
                'CSLS background; use `csls_over="queries"`'
            )
        others = np.setdiff1d(np.arange(len(self.texts[source])), self.queries(source, target))
        return background_of(others, source)

    def monolingual_candidates(self, source: str, target: str) -> TokenisedTexts:
        """The candidates of a direction in the source language: the paragraphs that the target language keeps."""
        rows = self._rows_of(self.corpus.languages[source], self.split.candidates[target])
        return self.corpus.with_paragraphs_of(source, target, rows)

    def plain_texts(self, lang: str) -> list[str]:
        """The held-out documents of a language as plain text, or their remaining words if words are masked."""
        if not self.masked:
            return self.corpus.plain_texts(lang, self.rows[lang])
        words, ids, offsets = self.texts[lang].tokens
        return [" ".join(words[i] for i in ids[a:b]) for a, b in pairwise(offsets)]

    def training_texts(self) -> dict[str, TokenisedTexts]:
        """All documents that may be trained on, by language."""
        rows = training_rows(self.split, self.filtered_corpus, "joint")
        return {lang: self.filtered_corpus.languages[lang].select_rows(chosen) for lang, chosen in rows.items()}

    def _rows_of(self, texts: TokenisedTexts, names: Sequence[str]) -> Ints:
        return np.flatnonzero(np.isin(texts.concepts, [self._number[name] for name in names]))

    @cached_property
    def _number(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.filtered_corpus.concepts)}


def hold_out(
    corpus: EvaluationCorpus,
    split: Split,
    *,
    query_set: QuerySet = "test",
    csls_over: CslsOver = "queries",
    mask_shared: bool = False,
) -> HeldOutDocuments:
    """Hold the documents of a split out of the corpus; the split must have been made for this corpus."""
    if split.corpus != corpus.digest:
        raise Cr5Error(
            f"the split was made for the corpus {split.corpus} ({', '.join(split.langs)}), but this is "
            f"{corpus.digest} ({', '.join(corpus.languages)}); evaluate on that corpus, or leave out `split`"
        )
    rows = {
        lang: np.flatnonzero(np.isin(corpus.concepts, split.candidates[lang])[texts.concepts])
        for lang, texts in corpus.languages.items()
    }
    held_out = {lang: corpus.languages[lang].select_rows(chosen) for lang, chosen in rows.items()}
    texts = mask_shared_words(held_out) if mask_shared else held_out
    filtered = corpus.with_unique_words(split.min_unique, split.max_unique)
    return HeldOutDocuments(corpus, filtered, split, query_set, csls_over, rows, texts, mask_shared)


def count_by_use(held_out: HeldOutDocuments) -> dict[str, dict[str, int]]:
    """What becomes of the documents in every language: "read" is the sum of the six counts after it.

    trained: joint training may use it. held_out: it is a query or a candidate. short, long: it has too few or too many
    different words. set_aside: its concept is held out in another language. single: no other language has a document of
    suitable length of its concept.
    "documents" are those of suitable length, and "concepts" what these are about.
    """
    split, filtered = held_out.split, held_out.filtered_corpus
    joint = training_rows(split, filtered, "joint")
    is_held_out = np.array([name in split.held_out for name in filtered.concepts], bool)
    counted = {}
    for lang, texts in held_out.corpus.languages.items():
        unique = texts.counts.unique_words
        suitable = np.flatnonzero((unique >= split.min_unique) & (unique <= split.max_unique))
        rows_by_use = {
            "trained": suitable[joint[lang]],
            "held_out": held_out.rows[lang],
            "short": unique < split.min_unique,
            "long": unique > split.max_unique,
            "set_aside": is_held_out[texts.concepts],
            "single": np.ones(len(texts), bool),
        }
        counted[lang] = {
            "read": len(texts),
            **_count_by_first_use(rows_by_use, len(texts)),
            "documents": len(suitable),
            "concepts": len(np.unique(texts.concepts[suitable])),
        }
    return counted


def _count_by_first_use(rows_by_use: Mapping[str, Mask | Ints], total: int) -> dict[str, int]:
    """How many of ``total`` rows have each use; a row of several counts for the first of them."""
    first = np.zeros(total, int)
    for number, rows in reversed(list(enumerate(rows_by_use.values()))):
        first[rows] = number
    return dict(zip(rows_by_use, np.bincount(first, minlength=len(rows_by_use)).tolist(), strict=True))


class _TrainingSet(NamedTuple):
    """What a regime trains on, for all pairs or for one; ``label`` is for notes, ``details`` for signatures.

    ``notes`` are those that have been added about systems trained on it.
    """

    regime: Regime
    label: str
    details: str
    texts: dict[str, TokenisedTexts]
    pairs: list[PairQueries]
    notes: set[str]


def evaluate_documents(
    held_out: HeldOutDocuments,
    systems: Mapping[str, System],
    *,
    title: str,
    preprocessing: str = "whole documents",
    regimes: Sequence[Regime] = ("joint",),
    pairs: Sequence[tuple[str, str]] | None = None,
    rank: int = 300,
    seed: int = 0,
    low_resource: int = LOW_RESOURCE,
    pivot: str | None = None,
    drop_shared: bool = False,
    facts: Mapping[str, Any] | None = None,
    progress: ProgressCallback = no_progress,
    should_stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Train every system in every regime, and query it with held-out documents, pair by pair, in both directions.

    ``pairs`` limits the evaluation to these language pairs. ``preprocessing`` says in signatures what was done to
    the texts. ``facts`` are added to those of the run. A system that cannot be trained or queried is one of the run's
    ``failed``, and the others are evaluated. ``should_stop`` is called before each training; once it returns true, the
    run is built from what was measured.
    """
    split, filtered = held_out.split, held_out.filtered_corpus
    builder = RunBuilder(seed)
    run_facts: dict[str, Any] = {
        "corpus": {"digest": split.corpus, "languages": count_by_use(held_out)},
        "split": {
            "seed": split.seed,
            "digest": split.digest,
            "smallest": split.min_unique,
            "largest": split.max_unique,
        },
        "variant": preprocessing,  # its name in run.json; reports call it "texts"
        "queries": held_out.query_set,
        "csls": csls_facts(held_out.csls_over),
        "regimes": list(regimes),
        "rank": rank,
        "seed": seed,
        **({"low-resource": low_resource} if "low-resource" in regimes else {}),
        **(facts or {}),
    }
    _note_languages_without_queries(builder, split, filtered)
    if "transitive" in regimes:
        choose_pivot(split, filtered, split.pairs[0].langs, pivot)  # fail early
    wanted = None if pairs is None else [set(pair) for pair in pairs]
    evaluated = [pair for pair in split.pairs if wanted is None or set(pair.langs) in wanted]
    plan = [(r, group) for r in regimes for group in ([evaluated] if r == "joint" else [[p] for p in evaluated])]
    total = len(plan) * len(systems)
    monolingual_candidates: dict[tuple[str, str], TokenisedTexts] = {}
    for i, (regime, group) in enumerate(plan):
        training = _training_set(held_out, regime, group, low_resource, pivot, drop_shared, builder)
        if training is None:
            continue
        for j, (name, system) in enumerate(systems.items()):
            done = i * len(systems) + j
            if should_stop():
                missing = f"{total - done} of {total} trainings are missing"
                builder.notes.append(f"stopped before {training.label}, {name}: {missing}")
                return builder.build("documents", title, run_facts | {"rank": _used_ranks(builder.trained, rank)})
            progress(Progress("train and evaluate", done, total, f"{training.label}: {name}"))
            fitted = _train(builder, training, name, system, rank, seed)
            if fitted is not None:
                details = [preprocessing, training.details, name]
                _query(builder, held_out, training, name, fitted, details, monolingual_candidates)
    builder.notes += describe_wrong_answers(held_out.corpus, held_out.rows, builder.wrong_answers, seed)
    return builder.build("documents", title, run_facts | {"rank": _used_ranks(builder.trained, rank)})


def _train(
    builder: RunBuilder, training: _TrainingSet, name: str, system: System, rank: int, seed: int
) -> FittedSystem | None:
    """Train one system and record how; None if it fails, which is recorded as well."""
    langs, fitted, started = list(training.texts), None, time.perf_counter()
    with builder.record_failure(
        name, training.regime, langs if training.regime == "joint" else training.pairs[0].langs
    ):
        fitted = system(training.texts, rank=rank, seed=seed)
    if fitted is None:
        return None
    report = dict(fitted.report)
    # A model that several systems share was trained before, for the first of them, which has the same notes.
    seconds = max(time.perf_counter() - started, float(report.get("seconds", 0)))
    for note in (*report.get("notes", ()), report.get("warning")):
        if note and note not in training.notes:
            training.notes.add(note)
            builder.note(f"{name}, {training.label}: {note}", group=f"{name}: {note.split()[0]}")
    builder.trained.append(TrainedSystem(name, training.regime, langs, seconds, report))
    return fitted


def _used_ranks(trained: Sequence[TrainedSystem], rank: int) -> int | str:
    """The rank that the systems were trained with: lower than the given one where there are too few concepts for it."""
    used = sorted({int(each.report["rank"]) for each in trained if "rank" in each.report}) or [rank]
    return used[0] if len(used) == 1 else f"{used[0]} to {used[-1]}"


def _note_languages_without_queries(builder: RunBuilder, split: Split, corpus: EvaluationCorpus) -> None:
    concepts = {lang: set(corpus.languages[lang].concepts.tolist()) for lang in split.langs}
    queried = {lang for pair in split.pairs for lang in pair.langs}
    for lang in split.langs:
        if lang not in queried:
            most = max(len(concepts[lang] & concepts[other]) for other in split.langs if other != lang)
            builder.notes.append(
                f"{lang} has no queries: it shares at most {most:,} concepts with another language, and "
                f"{MIN_QUERIES / MAX_QUERY_SHARE:.0f} are needed for {MIN_QUERIES} queries"
            )


def _training_set(
    held_out: HeldOutDocuments,
    regime: Regime,
    pairs: list[PairQueries],
    low_resource: int,
    pivot: str | None,
    drop_shared: bool,
    builder: RunBuilder,
) -> _TrainingSet | None:
    """What a regime trains on, for one pair or, jointly, for all; None, with a note, if nothing is left."""
    split, corpus = held_out.split, held_out.filtered_corpus
    langs = None if regime == "joint" else pairs[0].langs
    rows = training_rows(split, corpus, regime, langs, low_resource=low_resource, pivot=pivot, drop_shared=drop_shared)
    texts = {lang: corpus.languages[lang].select_rows(chosen) for lang, chosen in rows.items()}
    label, details = str(regime), str(regime)
    if langs is not None:
        label += f" {'-'.join(langs)}"
    if langs is not None and regime == "low-resource":
        details += f" {low_resource}"
        if (left := count_shared_concepts(texts, *langs)) < low_resource:
            builder.note(f"{label}: {left} concepts to train on, fewer than {low_resource}", group="few concepts")
    if langs is not None and regime == "transitive":
        details += f" via {choose_pivot(split, corpus, langs, pivot)}"
        details += ", shared concepts dropped" if drop_shared else ""
    if empty := [lang for lang, documents in texts.items() if not len(documents)]:
        builder.note(f"{label}: nothing left to train on in {', '.join(empty)}", group=f"nothing left, {regime}")
        return None
    return _TrainingSet(regime, label, details, texts, pairs, set())


def _query(
    builder: RunBuilder,
    held_out: HeldOutDocuments,
    training: _TrainingSet,
    name: str,
    fitted: FittedSystem,
    system_details: list[str],
    monolingual_candidates: dict[tuple[str, str], TokenisedTexts],
) -> None:
    """Query one trained system in every direction; ``monolingual_candidates`` keeps those that have been made."""
    cache, split = EmbeddingCache(fitted, held_out.texts), held_out.split
    candidates_note = " with trained candidates" if split.candidates_train else ""
    for source, target in [direction for pair in training.pairs for direction in (pair.langs, pair.langs[::-1])]:
        candidates = held_out.texts[target]
        if fitted.monolingual:
            if (source, target) not in monolingual_candidates:
                monolingual_candidates[source, target] = held_out.monolingual_candidates(source, target)
            candidates = monolingual_candidates[source, target]
        queries, background = held_out.queries(source, target), held_out.background(source, target)
        direction = Direction(source, target, held_out.texts[source], queries, background, candidates)
        names = [held_out.filtered_corpus.concepts[i] for i in held_out.texts[source].concepts[queries]]
        with builder.record_failure(name, training.regime, [source, target]):
            direction.record(
                builder,
                Condition(name, training.regime, source, target),
                fitted,
                direction.rank(cache),
                concept_names=names,
                test_set=[
                    "documents",
                    f"corpus {split.corpus} {'-'.join(split.langs)}",
                    f"split {split.seed} {split.digest}{candidates_note}",
                    f"{source}>{target}",
                    f"{len(queries)} {held_out.query_set} queries",
                ],
                system_details=[*system_details, fitted.signature],
                shared=count_shared_concepts(training.texts, source, target),
                csls_over=held_out.csls_over,
            )
