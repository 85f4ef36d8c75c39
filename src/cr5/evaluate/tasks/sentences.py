"""The sentence task: find a sentence's translation among all sentences of an aligned corpus, with trained systems."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from cr5._typing import Ints
from cr5.corpus.documents import SCHEMA, Batch
from cr5.corpus.texts import assign_numbers
from cr5.errors import Cr5Error
from cr5.evaluate.aligned_sentences import AlignedSentences
from cr5.evaluate.run_builder import Condition, RunBuilder, csls_facts
from cr5.evaluate.runs import PRETRAINED, CslsOver, Run
from cr5.evaluate.splits import QuerySet
from cr5.evaluate.systems.fitted_system import EmbeddingCache, FittedSystem, NotApplicableError
from cr5.evaluate.systems.pretrained import PretrainedSystems
from cr5.evaluate.tasks.directions import Direction, background_of, record_pretrained
from cr5.evaluate.texts import TokenisedTexts, read_texts
from cr5.features.tokeniser import Tokeniser
from cr5.progress import Progress, ProgressCallback, no_progress

SENTENCE_QUERIES = 2000  # queries of a language pair
SEPARATE_SHARE = 0.25  # share of the sentences of a pair that is kept separate, to compute IDF weights
MIN_TO_SEPARATE = 10_000  # a pair with fewer sentences keeps none separate
MAX_SEPARATE = 300_000  # as many as in the paper


class SentenceSample(NamedTuple):
    """The sentences of a pair by their use, as ascending rows; ``queries`` are some of the candidates.

    ``concepts`` has a number for every sentence: the row of the first equivalent sentence.
    """

    concepts: Ints
    idf_rows: Ints
    candidates: Ints
    queries: Ints


def sample_sentences(
    pair: AlignedSentences, *, queries: int, separate: float, seed: int, query_set: QuerySet = "test"
) -> SentenceSample:
    """Draw the sentences for IDF weights, the candidates and the queries of a pair.

    ``separate`` below 1 is the share of the sentences for IDF weights, none if the pair has fewer than
    ``MIN_TO_SEPARATE``; a larger number is how many. Equivalent sentences stay together, so no separate sentence
    shares a text with a candidate. For validation, half of the separate sentences are the candidates, and
    the others give the weights.
    """
    n, name = len(pair), "-".join(pair.langs)
    share_size = min(int(separate * n), MAX_SEPARATE) if n >= MIN_TO_SEPARATE else 0
    size = int(separate) if separate >= 1 else share_size
    if not 0 <= size < n:
        raise Cr5Error(f"`separate={separate:g}` leaves no candidates of the {n:,} sentences of {name}; lower it")
    concepts = equivalent_sentences(pair)
    random = np.random.default_rng(seed)
    order_key = random.permutation(n)[concepts]
    order = np.argsort(order_key, kind="stable")
    idf_rows, candidates = _split_groups(order, order_key, size)
    if query_set == "validation":
        idf_rows, candidates = _split_groups(idf_rows, order_key, len(idf_rows) // 2)
        if not len(idf_rows):
            raise Cr5Error(
                f"{name} has too few sentences to keep some separate for validation; use {MIN_TO_SEPARATE:,} or more, "
                "or give the number to keep separate as `separate`"
            )
    candidates = np.sort(candidates)
    chosen = random.choice(len(candidates), min(queries, len(candidates)), replace=False)
    return SentenceSample(concepts, np.sort(idf_rows), candidates, candidates[np.sort(chosen)])


def equivalent_sentences(pair: AlignedSentences) -> Ints:
    """For every sentence the first equivalent row: equal on either side, directly or through other rows."""
    left, right = (assign_numbers(texts, {}) for texts in pair.texts)
    right = right + len(pair)
    edges = coo_array((np.ones(len(pair), np.int8), (left, right)), shape=(2 * len(pair), 2 * len(pair)))
    labels = connected_components(edges, directed=False)[1][left]
    _, first, position = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(first[position])


def _split_groups(order: Ints, order_key: Ints, size: int) -> tuple[Ints, Ints]:
    """The first ``size`` rows and the others; rows with an equal key stay together, with the others."""
    first = np.searchsorted(order_key[order], order_key[order[size]]) if size < len(order) else len(order)
    return order[:first], order[first:]


@dataclass(frozen=True)
class _SentencePair:
    """A pair of languages, ready to be queried: its candidates, and which rows of these are queries."""

    pair: AlignedSentences
    digest: str
    texts: dict[str, TokenisedTexts]
    idf_texts: dict[str, TokenisedTexts]
    queries: Ints
    background: Ints | None
    csls_over: CslsOver
    sampling: str  # for signatures
    query_set: QuerySet

    @property
    def name(self) -> str:
        return "-".join(self.pair.langs)

    @property
    def concepts(self) -> Ints:
        return self.texts[self.pair.langs[0]].concepts

    @property
    def separate(self) -> int:
        return len(self.idf_texts[self.pair.langs[0]])


def evaluate_sentences(
    pretrained: PretrainedSystems,
    pairs: Sequence[AlignedSentences],
    *,
    queries: int = SENTENCE_QUERIES,
    separate: float = SEPARATE_SHARE,
    seed: int = 0,
    csls_over: CslsOver = "queries",
    query_set: QuerySet = "test",
    title: str = "sentences",
    progress: ProgressCallback = no_progress,
) -> Run:
    """Query trained systems with sentences, pair by pair, in both directions; ``sample_sentences`` draws them.

    If sentences are kept separate, a cr5 model takes its IDF weights from these, as in the paper, and is also
    evaluated with those of its training. Any sentence that is equivalent to the translation is right. A pair that the
    first system does not know is left out for all.
    """
    fitted_systems, builder = pretrained.fitted_systems, RunBuilder(seed, failed=list(pretrained.failed))
    pair_facts: dict[str, Any] = {}
    seen: set[frozenset[str]] = set()
    for i, pair in enumerate(pairs):
        name = "-".join(pair.langs)
        if frozenset(pair.langs) in seen:
            raise Cr5Error(f"{pair.source}: other files are also {name}; evaluate one pair of files at a time")
        seen.add(frozenset(pair.langs))
        if unknown := _unknown_language(fitted_systems, pair):
            builder.note(f"{name}: left out, {unknown}", group="unknown")
            continue
        progress(Progress("tokenise", i, len(pairs), name))
        sample = sample_sentences(pair, queries=queries, separate=separate, seed=seed, query_set=query_set)
        prepared = _prepare(pair, sample, pretrained.tokeniser, f"seed {seed}", csls_over, query_set)
        pair_facts[name] = _describe_pair(builder, prepared)
        for j, (system, fitted) in enumerate(fitted_systems.items()):
            progress(
                Progress("evaluate", i * len(fitted_systems) + j, len(pairs) * len(fitted_systems), f"{name}: {system}")
            )
            details = pretrained.details.get(system, "")
            with builder.record_failure(system, PRETRAINED, pair.langs):
                codes = {lang: fitted.code_of(lang) for lang in pair.langs}
                for name_with_idf, weighted, idf in _idf_choices(system, fitted, prepared, codes):
                    _query(builder, prepared, name_with_idf, weighted, codes, [details, idf])
                record_pretrained(builder, system, fitted, fitted.langs or list(codes.values()))
                for lang, code in codes.items():
                    if lang != code:
                        builder.note(f"{system}, {name}: {lang} is queried as {code}", group=f"{system}, {lang}")
    run_facts = {"pairs": pair_facts, "queries": query_set, "csls": csls_facts(csls_over), "seed": seed}
    return builder.build("sentences", title, run_facts | dict(pretrained.facts))


def _unknown_language(fitted_systems: Mapping[str, FittedSystem], pair: AlignedSentences) -> str:
    """The first language of the pair that the first system does not know, as a sentence; empty if it knows both."""
    for system, fitted in list(fitted_systems.items())[:1]:
        for lang in pair.langs:
            try:
                fitted.code_of(lang)
            except NotApplicableError:
                return f"{system} has no language {lang}"
    return ""


def _prepare(
    pair: AlignedSentences,
    sample: SentenceSample,
    tokeniser: Tokeniser,
    sampling: str,
    csls_over: CslsOver,
    query_set: QuerySet,
) -> _SentencePair:
    names = [f"{i:09d}" for i in range(len(pair))]
    corpus = read_texts(
        [_batch(names, lang, texts, pair.source) for lang, texts in zip(pair.langs, pair.texts, strict=True)],
        tokeniser,
        langs=list(pair.langs),
    )
    sentences = {lang: replace(texts, concepts=sample.concepts) for lang, texts in corpus.languages.items()}
    candidates = {lang: texts.select_rows(sample.candidates) for lang, texts in sentences.items()}
    idf_texts = {lang: texts.select_rows(sample.idf_rows) for lang, texts in sentences.items()}
    if csls_over == "queries":
        background = None
    else:
        is_query = np.isin(sample.concepts[sample.candidates], sample.concepts[sample.queries])
        background = background_of(np.flatnonzero(~is_query), "-".join(pair.langs))
    rows = np.searchsorted(sample.candidates, sample.queries)
    return _SentencePair(pair, corpus.digest, candidates, idf_texts, rows, background, csls_over, sampling, query_set)


def _batch(names: list[str], lang: str, texts: list[str], source: str) -> Batch:
    n = len(texts)
    columns = {"concept": names, "lang": [lang] * n, "text": texts, "title": [""] * n, "url": [""] * n}
    rows = pa.RecordBatch.from_arrays([pa.array(columns[f.name], f.type) for f in SCHEMA], schema=SCHEMA)
    return Batch(rows, source, np.arange(1, n + 1))


def _describe_pair(builder: RunBuilder, prepared: _SentencePair) -> dict[str, Any]:
    """The facts about a pair; those that readers of the report should know are also added as notes."""
    pair, name = prepared.pair, prepared.name
    _, sizes = np.unique(prepared.concepts, return_counts=True)
    candidates, repeated = len(prepared.concepts), int(sizes[sizes > 1].sum())
    if pair.empty:
        left_out = f"{pair.empty:,} of {pair.empty + len(pair):,} pairs"
        builder.note(f"{name}: {left_out} left out because one side is empty", group="empty")
    if repeated:
        builder.note(
            f"{name}: {repeated:,} of {candidates:,} candidates share a text with another one, at most "
            f"{sizes.max():,} with each other; these count as one sentence, and any of them is a right answer",
            group="repeated",
        )
    if not prepared.separate:
        builder.note(
            f"{name}: {len(pair):,} sentences are too few to keep some separate for IDF weights; models keep their own",
            group="idf",
        )
    return {
        "source": pair.source,
        "digest": prepared.digest,
        "sentences": len(pair),
        "empty": pair.empty,
        "separate": prepared.separate,
        "candidates": candidates,
        "repeated": repeated,
        "queries": len(prepared.queries),
    }


def _idf_choices(
    system: str, fitted: FittedSystem, prepared: _SentencePair, codes: Mapping[str, str]
) -> list[tuple[str, FittedSystem, str]]:
    """A system and, if its IDF weights can be replaced, also that with the other weights: (name, system, details)."""
    if not fitted.replaceable_idf:
        return [(system, fitted, "")]
    if not prepared.separate:
        return [(system, fitted, "idf of training")]
    reweighted = fitted.with_idf_of({codes[lang]: texts for lang, texts in prepared.idf_texts.items()})
    details = f"idf of {prepared.separate} sentences"
    return [(system, reweighted, details), (f"{system} (training IDF)", fitted, "idf of training")]


def _query(
    builder: RunBuilder,
    prepared: _SentencePair,
    name: str,
    fitted: FittedSystem,
    codes: Mapping[str, str],
    details: list[str],
) -> None:
    a, b = prepared.pair.langs
    cache = EmbeddingCache(fitted, prepared.texts, codes)
    texts, queries = prepared.texts, prepared.queries
    for source, target in ((a, b), (b, a)):
        direction = Direction(source, target, texts[source], queries, prepared.background, texts[target])
        direction.record(
            builder,
            Condition(name, PRETRAINED, source, target),
            fitted,
            direction.rank(cache),
            concept_names=[f"{prepared.name}:{number + 1}" for number in prepared.concepts[queries]],
            test_set=[
                "sentences",
                f"corpus {prepared.digest} {prepared.name}",
                prepared.sampling,
                f"{source}>{target}",
                f"{len(queries)} {prepared.query_set} queries",
            ],
            system_details=[PRETRAINED, name, fitted.signature, *details],
            shared=fitted.training_concepts,
            csls_over=prepared.csls_over,
            code=codes[source],
        )
