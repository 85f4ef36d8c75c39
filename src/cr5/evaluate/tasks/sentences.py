"""The sentence task: find a sentence's translation among all sentences of an aligned corpus, with trained systems."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from cr5._typing import Ints
from cr5.corpus.documents import SCHEMA, Batch
from cr5.corpus.languages import find_language
from cr5.errors import Cr5Error
from cr5.evaluate.aligned import Aligned
from cr5.evaluate.runs import Condition, Queries, RankedCandidate, Run, RunBuilder, TrainedSystem
from cr5.evaluate.splits import QueryRole
from cr5.evaluate.systems.own import Cr5Space, describe
from cr5.evaluate.systems.space import EmbeddingCache, NotApplicableError, Space
from cr5.evaluate.tasks.documents import BACKGROUND, CslsOver
from cr5.evaluate.texts import TokenisedTexts, read_texts
from cr5.features.tfidf import DocumentFrequencies, document_frequencies, select_vocabulary
from cr5.features.tokeniser import Tokeniser
from cr5.model import Cr5
from cr5.progress import Progress, ProgressCallback, silent
from cr5.retrieval.csls import NEIGHBOURS
from cr5.retrieval.top_k import Measure, Retrieval, retrieve
from cr5.settings import Settings

ENOUGH = 10_000  # sentences of a pair from which on a share of them is kept apart
APART = 300_000  # sentences that are kept apart, at most: as many as in the paper


class Division(NamedTuple):
    """Which sentences of a pair serve for what: rows, ascending. ``queries`` are some of the candidates.

    ``concepts`` has a number for every sentence: the row of the first one that says the same.
    """

    concepts: Ints
    weights: Ints
    candidates: Ints
    queries: Ints


def divide(pair: Aligned, *, queries: int, separate: float, seed: int, role: QueryRole = "test") -> Division:
    """Draw the sentences for IDF weights, the candidates and the queries of a pair.

    A ``separate`` below 1 is a share of the sentences, and none of pairs that have fewer than ``ENOUGH``; a whole
    number is how many. Sentences that say the same stay together: those kept apart share no text with the
    candidates. For the role validation, half of those kept apart are the candidates, and the others the weights.
    """
    n, name = len(pair), "-".join(pair.langs)
    size = int(separate) if separate >= 1 else min(int(separate * n), APART) if n >= ENOUGH else 0
    if not 0 <= size < n:
        raise Cr5Error(f"separate is {separate:g}, and {name} has {n:,} sentences; leave some of them as candidates")
    concepts = same(pair)
    random = np.random.default_rng(seed)
    lot = random.permutation(n)[concepts]
    order = np.argsort(lot, kind="stable")
    apart, rest = _cut(order, lot, size)
    if role == "validation":
        apart, rest = _cut(apart, lot, len(apart) // 2)
        if not len(apart):
            raise Cr5Error(
                f"{name} has no separate sentences to validate with; give {ENOUGH:,} sentences or more, or set separate"
            )
    rest = np.sort(rest)
    chosen = random.choice(len(rest), min(queries, len(rest)), replace=False)
    return Division(concepts, np.sort(apart), rest, rest[np.sort(chosen)])


def same(pair: Aligned) -> Ints:
    """For every sentence the first row that says the same: one that shares a text with it on either side, or with
    another such row, and so on."""
    columns = []
    for texts in pair.texts:
        number: dict[str, int] = {}
        columns.append(np.array([number.setdefault(text, len(number)) for text in texts], np.int64))
    left, right = columns[0], columns[1] + len(pair)
    edges = coo_array((np.ones(len(pair), np.int8), (left, right)), shape=(2 * len(pair), 2 * len(pair)))
    labels = connected_components(edges, directed=False)[1][left]
    _, first, place = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(first[place])


def _cut(order: Ints, lot: Ints, size: int) -> tuple[Ints, Ints]:
    """The first ``size`` rows and the others; what has the same lot is not torn apart, and is one of the others."""
    first = np.searchsorted(lot[order], lot[order[size]]) if size < len(order) else len(order)
    return order[:first], order[first:]


def space_of(model: Cr5, langs: Sequence[str] | None = None) -> Cr5Space:
    """A model, fitted or loaded, as a space; of all its languages or of some."""
    languages = {lang: model._language(lang) for lang in langs or model.langs}
    report = {name: value for name, value in model.report.items() if name != "eigenvalues"}
    told = [
        model.settings.to_json(),
        *(model.report[key] for key in ("languages", "concepts", "energy", "eigenvalues")),
    ]
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:8]
    signature = f"model {digest}|{describe(model.settings, float(model.report['ridge']))}"
    return Cr5Space(languages, model.settings, report | {"signature": signature})


def reweigh(space: Cr5Space, texts: Mapping[str, TokenisedTexts]) -> Cr5Space:
    """The same model with the IDF of other texts, by its own formula; languages without texts keep theirs.

    A word that the texts lack is as rare as can be.
    """
    languages = dict(space.languages)
    weighting = next(iter(space.features.values())).weighting
    for lang, own in texts.items():
        words = space.words(lang)
        found = document_frequencies(own.counts)
        index = space.features[lang].index
        columns = np.fromiter((index.get(word, -1) for word in found.words), np.int64, len(found.words))
        documents = np.zeros(len(words), np.int64)
        documents[columns[columns >= 0]] = found.document_frequency[columns >= 0]
        # A falling total keeps the vocabulary as it is, and in its order.
        every = DocumentFrequencies(words, documents, -np.arange(len(words), dtype=float), found.documents)
        features = select_vocabulary(every, replace(weighting, min_documents=0, max_words=len(words)))
        languages[lang] = replace(languages[lang], idf=features.idf)
    return Cr5Space(languages, Settings(weighting=weighting), space.report)


def spoken(space: Space, lang: str) -> str:
    """The code by which a space knows a language: this one, or where it lacks that, no for nb and nb for no."""
    if space.langs is None:
        return lang
    if (code := find_language(lang, space.langs)) is not None:
        return code
    raise NotApplicableError(f"it has no language {lang}; its languages are {', '.join(space.langs)}")


def _unknown(space: Space, langs: Sequence[str]) -> list[str]:
    """The languages that a space does not know."""
    return [lang for lang in langs if space.langs is not None and find_language(lang, space.langs) is None]


@dataclass(frozen=True)
class _Asked:
    """A pair of languages, ready to be asked about: its candidates, and which rows of these are queries."""

    pair: Aligned
    digest: str
    texts: dict[str, TokenisedTexts]
    weights: dict[str, TokenisedTexts]
    queries: Ints
    background: Ints | None

    @property
    def name(self) -> str:
        return "-".join(self.pair.langs)

    @property
    def csls_over(self) -> CslsOver:
        return "queries" if self.background is None else "background"

    @property
    def concepts(self) -> Ints:
        return self.texts[self.pair.langs[0]].concepts


def evaluate_sentences(
    spaces: Mapping[str, Space],
    pairs: Sequence[Aligned],
    *,
    tokeniser: Tokeniser,
    queries: int = 2000,
    separate: float = 0.25,
    seed: int = 0,
    csls_over: CslsOver = "queries",
    role: QueryRole = "test",
    title: str = "sentences",
    about: Mapping[str, str] | None = None,
    facts: Mapping[str, Any] | None = None,
    progress: ProgressCallback = silent,
) -> Run:
    """Ask trained systems for the translation of sentences, pair by pair, both ways; ``divide`` draws them.

    Where sentences are kept apart, a cr5 model takes its IDF weights from these, as in the paper, and is asked
    once more with those of its training. Sentences that say the same are one: any copy of a translation is right.
    A pair that the first system does not know is left out for all. ``about`` tells more of a system, for its
    signature: what it was trained on.
    """
    found = RunBuilder()
    drawn: dict[str, Any] = {}
    seen: set[frozenset[str]] = set()
    for i, pair in enumerate(pairs):
        if frozenset(pair.langs) in seen:
            raise Cr5Error(f"{pair.source}: there is another pair {'-'.join(pair.langs)}; measure one at a time")
        seen.add(frozenset(pair.langs))
        first = list(spaces.items())[:1]
        if missing := [(name, lang) for name, space in first for lang in _unknown(space, pair.langs)]:
            name, lang = missing[0]
            found.note(f"{'-'.join(pair.langs)}: left out, {name} has no language {lang}", like="unknown")
            continue
        progress(Progress("split into words", i, len(pairs), "-".join(pair.langs)))
        asked = _prepare(pair, tokeniser, queries, separate, seed, csls_over, role)
        drawn[asked.name] = _describe_pair(found, asked)
        for j, (name, space) in enumerate(spaces.items()):
            progress(Progress("ask", i * len(spaces) + j, len(pairs) * len(spaces), f"{asked.name}: {name}"))
            try:
                codes = {lang: spoken(space, lang) for lang in pair.langs}
                for version_name, one, idf in _versions(name, space, asked, codes):
                    answer = [(about or {}).get(name, ""), idf or ""]
                    _measure(found, asked, version_name, one, codes, [f"seed {seed}", role], answer)
            except NotApplicableError as error:
                found.note(f"{name}, {asked.name}: {error}", like=f"{name} cannot")
                continue
            found.trained.append(_trained(name, space, codes))
            for lang, code in codes.items():
                if lang != code:
                    found.note(f"{name}, {asked.name}: {lang} is asked as {code}", like=f"{name}, {lang}")
    known = {
        "pairs": drawn,
        "queries": role,
        "csls": {"neighbours": NEIGHBOURS, "over": csls_over},
        "seed": seed,
    }
    return found.run("sentences", title, known | dict(facts or {}))


def _prepare(
    pair: Aligned, tokeniser: Tokeniser, queries: int, separate: float, seed: int, csls_over: CslsOver, role: QueryRole
) -> _Asked:
    division = divide(pair, queries=queries, separate=separate, seed=seed, role=role)
    names = [f"{i:09d}" for i in range(len(pair))]
    material = read_texts(
        [_batch(names, lang, texts, pair.source) for lang, texts in zip(pair.langs, pair.texts, strict=True)],
        tokeniser,
        langs=list(pair.langs),
    )
    every = {lang: replace(texts, concepts=division.concepts) for lang, texts in material.languages.items()}
    candidates = {lang: texts.rows(division.candidates) for lang, texts in every.items()}
    weights = {lang: texts.rows(division.weights) for lang, texts in every.items()}
    chosen = np.searchsorted(division.candidates, division.queries)
    background = None
    if csls_over == "background":
        asked = division.concepts[division.queries]
        others = np.flatnonzero(~np.isin(division.concepts[division.candidates], asked))
        if not len(others):
            raise Cr5Error(
                f"there is no background for {'-'.join(pair.langs)}: every candidate is a query; "
                "use --csls-over queries, or fewer --queries"
            )
        background = others[:: 1 + len(others) // BACKGROUND]
    return _Asked(pair, material.digest, candidates, weights, chosen, background)


def _batch(names: list[str], lang: str, texts: list[str], source: str) -> Batch:
    n = len(texts)
    columns = {"concept": names, "lang": [lang] * n, "text": texts, "title": [""] * n, "url": [""] * n}
    rows = pa.RecordBatch.from_arrays([pa.array(columns[f.name], f.type) for f in SCHEMA], schema=SCHEMA)
    return Batch(rows, source, np.arange(1, n + 1))


def _describe_pair(found: RunBuilder, asked: _Asked) -> dict[str, Any]:
    """The facts of a pair; what a reader should know of them goes into the notes."""
    pair, texts = asked.pair, asked.texts[asked.pair.langs[0]]
    _, sizes = np.unique(texts.concepts, return_counts=True)
    repeated = int(sizes[sizes > 1].sum())
    apart = len(asked.weights[pair.langs[0]])
    if pair.empty:
        left_out = f"{pair.empty:,} of {pair.empty + len(pair):,} pairs"
        found.note(f"{asked.name}: left out for an empty side: {left_out}", like="empty")
    if repeated:
        found.note(
            f"{asked.name}: {repeated:,} of {len(texts):,} candidates share a text with another one, at most "
            f"{sizes.max():,} with each other; these count as one sentence, and any of them is a right answer",
            like="repeated",
        )
    if not apart:
        found.note(
            f"{asked.name}: no separate sentences to take IDF weights from, of {len(pair):,}; models keep their own",
            like="idf",
        )
    return {
        "source": pair.source,
        "digest": asked.digest,
        "sentences": len(pair),
        "empty": pair.empty,
        "separate": apart,
        "candidates": len(texts),
        "repeated": repeated,
        "queries": len(asked.queries),
    }


def _versions(name: str, space: Space, asked: _Asked, codes: Mapping[str, str]) -> list[tuple[str, Space, str | None]]:
    """A space under its name, and where it can take other IDF weights, both ways."""
    if not isinstance(space, Cr5Space):
        return [(name, space, None)]
    apart = len(asked.weights[asked.pair.langs[0]])
    if not apart:
        return [(name, space, "idf of training")]
    other = reweigh(space, {codes[lang]: texts for lang, texts in asked.weights.items()})
    return [(name, other, f"idf of {apart} sentences"), (f"{name} (training IDF)", space, "idf of training")]


def _trained(name: str, space: Space, codes: Mapping[str, str]) -> TrainedSystem:
    langs = list(getattr(space, "features", codes.values()))
    return TrainedSystem(name, "as given", langs, float(space.report.get("seconds", 0.0)), dict(space.report))


def _measure(
    found: RunBuilder,
    asked: _Asked,
    name: str,
    space: Space,
    codes: Mapping[str, str],
    drawn: list[str],
    answer: list[str],
) -> None:
    """Ask one space, both ways."""
    a, b = asked.pair.langs
    placed = EmbeddingCache(space, asked.texts, codes)
    concepts = asked.concepts[asked.queries]
    for source, target in ((a, b), (b, a)):
        hits = _ask(asked, placed, source, target)
        texts = asked.texts[source].rows(asked.queries)
        if (source, target) not in found.queries:
            names = [f"{asked.name}:{number + 1}" for number in concepts]
            found.queries[source, target] = Queries(source, target, names, texts.counts.unique.tolist(), [])
        who = Condition(name, "as given", source, target)
        question = [
            "sentences",
            f"corpus {asked.digest} {asked.name}",
            drawn[0],
            f"{source}>{target}",
            f"{len(concepts)} {drawn[1]} queries",
        ]
        ranks: dict[Measure, Ints] = {measure: hit.ranks for measure, hit in hits.items()}
        found.score(
            who, ranks, concepts, candidates=len(asked.concepts), shared=training_concepts(space), question=question,
            answer=["as given", name, space.signature, *answer], over=asked.csls_over,
        )  # fmt: skip
        if isinstance(space, Cr5Space) and not found.queries[source, target].coverage:
            coverage = space.coverage(texts, codes[source])
            found.queries[source, target].coverage.extend(np.round(coverage, 4).tolist())
            found.look(who, hits["csls"].ranks, partial(_example, asked, source, target, hits["csls"]))


def training_concepts(space: Space) -> int | None:
    """The training concepts that both languages of a space have; not known where there are more languages."""
    two = len(space.report.get("languages", ())) == 2
    return int(space.report["concepts"]) if two and "concepts" in space.report else None


def _ask(asked: _Asked, placed: EmbeddingCache, source: str, target: str) -> dict[Measure, Retrieval]:
    behind, n = asked.background, len(asked.queries)
    everyone = asked.queries if behind is None else np.concatenate([asked.queries, behind])
    rows, there = placed.pair(source, everyone, target)
    background = None if behind is None else rows[n:]
    return retrieve(rows[:n], asked.concepts[asked.queries], there, asked.concepts, background=background)


def _example(asked: _Asked, source: str, target: str, hit: Retrieval, i: int) -> tuple[str, list[RankedCandidate]]:
    row = asked.queries[i]
    shown = [
        RankedCandidate(
            asked.texts[target].titles[j], round(float(score), 4), bool(asked.concepts[j] == asked.concepts[row])
        )
        for j, score in zip(hit.indices[i], hit.scores[i], strict=True)
    ]
    return asked.texts[source].titles[row], shown
