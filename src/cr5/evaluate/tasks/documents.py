"""The document task: find a held-out document's counterpart in another language, trained in four regimes."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from cr5._typing import Ints
from cr5.errors import Cr5Error
from cr5.evaluate.runs import Condition, Queries, RankedCandidate, Regime, Run, RunBuilder, TrainedSystem
from cr5.evaluate.splits import LanguagePair, QueryRole, Split, choose_bridge, shared_concepts, training_rows
from cr5.evaluate.systems.own import Cr5Space
from cr5.evaluate.systems.space import EmbeddingCache, NotApplicableError, Space, System
from cr5.evaluate.texts import EvaluationCorpus, TokenisedTexts, mask_shared_words
from cr5.progress import Progress, ProgressCallback, silent
from cr5.retrieval.csls import NEIGHBOURS
from cr5.retrieval.top_k import Measure, Retrieval, retrieve

CslsOver: TypeAlias = Literal["queries", "background"]
BACKGROUND = 20_000  # documents that a neighbourhood is taken over, at most


@dataclass(frozen=True)
class HeldOutDocuments:
    """Held-out documents of every language, ``rows`` of the whole material, and which of them are queries."""

    corpus: EvaluationCorpus  # everything, of whatever length
    filtered_corpus: EvaluationCorpus  # what may train
    split: Split
    role: QueryRole
    csls_over: CslsOver
    rows: dict[str, Ints]
    texts: dict[str, TokenisedTexts]
    masked: bool = False

    def queries(self, source: str, target: str) -> Ints:
        """The documents of the source language that are asked with, as rows of what is held out."""
        pair = next(p for p in self.split.pairs if set(p.langs) == {source, target})
        wanted = [self._number[name] for name in pair.queries(self.role)]
        return np.flatnonzero(np.isin(self.texts[source].concepts, wanted))

    def background(self, source: str, target: str) -> Ints | None:
        """Documents that neighbourhoods are taken over: held out, of the query language, and none of the queries."""
        if self.csls_over == "queries":
            return None
        if self.split.candidates_train:
            raise Cr5Error(
                "the candidates of this split train, and what trains is no background; use --csls-over queries"
            )
        others = np.setdiff1d(np.arange(len(self.texts[source])), self.queries(source, target))
        if not len(others):
            raise Cr5Error(
                f"there is no background for queries in {source}: every held-out document is one; "
                "use --csls-over queries, or fewer --queries"
            )
        return others[:: -(-len(others) // BACKGROUND)]

    def counterparts(self, source: str, target: str) -> TokenisedTexts:
        """The candidates of a direction, said in the query language: the paragraphs that the target language keeps."""
        here = self.corpus.languages[source]
        wanted = [self._number[name] for name in self.split.candidates[target]]
        return self.corpus.part(source, target, np.flatnonzero(np.isin(here.concepts, wanted)))

    def written(self, lang: str) -> list[str]:
        """The held-out documents of a language as text; where words are masked, those that are left."""
        if not self.masked:
            return self.corpus.written(lang, self.rows[lang])
        words, ids, offsets = self.texts[lang].tokens
        return [" ".join(words[i] for i in ids[a:b]) for a, b in pairwise(offsets)]

    @cached_property
    def _number(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.filtered_corpus.concepts)}


def hold_out(
    corpus: EvaluationCorpus,
    split: Split,
    *,
    role: QueryRole = "test",
    csls_over: CslsOver = "queries",
    mask_shared: bool = False,
) -> HeldOutDocuments:
    """Take the documents of a split out of the corpus."""
    if split.corpus != corpus.digest:
        raise Cr5Error(
            f"the split was made for the corpus {split.corpus} ({', '.join(split.langs)}), "
            f"this is {corpus.digest} ({', '.join(corpus.languages)}); give that corpus, or leave out --split"
        )
    rows = {}
    for lang, own in corpus.languages.items():
        wanted = np.isin(corpus.concepts, split.candidates[lang])
        rows[lang] = np.flatnonzero(wanted[own.concepts])
    held_out = {lang: corpus.languages[lang].rows(rows[lang]) for lang in rows}
    filtered = corpus.sized(split.smallest, split.largest)
    texts = mask_shared_words(held_out) if mask_shared else held_out
    return HeldOutDocuments(corpus, filtered, split, role, csls_over, rows, texts, mask_shared)


class _Stage(NamedTuple):
    """One training set: what it is called, what a signature says of it, its texts, and the pairs to ask about."""

    regime: Regime
    where: str
    how: str
    training: dict[str, TokenisedTexts]
    pairs: list[LanguagePair]


def evaluate_documents(
    asked: HeldOutDocuments,
    systems: Mapping[str, System],
    *,
    title: str,
    variant: str = "whole documents",
    regimes: Sequence[Regime] = ("joint",),
    pairs: Sequence[tuple[str, str]] | None = None,
    rank: int = 300,
    seed: int = 0,
    low_resource: int = 1000,
    bridge: str | None = None,
    drop_shared: bool = False,
    ceiling: tuple[str, System] | None = None,
    facts: Mapping[str, Any] | None = None,
    progress: ProgressCallback = silent,
    stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Train every system in every regime and ask it about held-out documents, pair by pair, both ways.

    All pairs of the split are asked about, or those of ``pairs``. ``ceiling`` names a system that is asked within
    the query language instead. ``facts`` are added to the run's. What cannot be measured is noted, and the
    rest goes on; before each system ``stop`` is asked.
    """
    found = RunBuilder()
    known = _facts(asked, variant, regimes, rank, seed, low_resource) | dict(facts or {})
    everything = dict(systems) | (dict([ceiling]) if ceiling else {})
    if "transitive" in regimes:
        choose_bridge(
            asked.split, asked.filtered_corpus, asked.split.pairs[0].langs, bridge
        )  # complain now, not in an hour
    wanted = None if pairs is None else [set(pair) for pair in pairs]
    asking = [pair for pair in asked.split.pairs if wanted is None or set(pair.langs) in wanted]
    plan = [(r, own) for r in regimes for own in ([asking] if r == "joint" else [[pair] for pair in asking])]
    within: dict[tuple[str, str], TokenisedTexts] = {}
    for step, (regime, own) in enumerate(plan):
        stage = _stage(asked, regime, own, low_resource, bridge, drop_shared, found)
        for place, (name, system) in enumerate(everything.items() if stage else ()):
            assert stage
            done, total = step * len(everything) + place, len(plan) * len(everything)
            if stop():
                missing = f"{total - done} of {total} trainings are missing"
                found.notes.append(f"stopped before {stage.where}, {name}: {missing}")
                return found.run("documents", title, known)
            progress(Progress("train and ask", done, total, f"{stage.where}: {name}"))
            inside = within if ceiling and name == ceiling[0] else None
            _train_and_ask(found, asked, stage, name, system, [variant, stage.how, name], rank, seed, inside)
    return found.run("documents", title, known)


def _stage(
    asked: HeldOutDocuments,
    regime: Regime,
    pairs: list[LanguagePair],
    low_resource: int,
    bridge: str | None,
    drop_shared: bool,
    found: RunBuilder,
) -> _Stage | None:
    """What a regime trains on, for one pair or, jointly, for all; nothing, and a note, where nothing is left."""
    langs = None if regime == "joint" else pairs[0].langs
    rows = training_rows(
        asked.split,
        asked.filtered_corpus,
        regime,
        langs,
        low_resource=low_resource,
        bridge=bridge,
        drop_shared=drop_shared,
    )
    training = {lang: asked.filtered_corpus.languages[lang].rows(own) for lang, own in rows.items()}
    where, how = str(regime), str(regime)
    if langs is not None:
        where += f" {'-'.join(langs)}"
    if langs is not None and regime == "low-resource":
        how += f" {low_resource}"
        if (left := shared_concepts(training, *langs)) < low_resource:
            found.note(f"{where}: {left} concepts to train on, fewer than {low_resource}", like="few concepts")
    if langs is not None and regime == "transitive":
        third = choose_bridge(asked.split, asked.filtered_corpus, langs, bridge)
        how += f" via {third}" + (", shared concepts dropped" if drop_shared else "")
    if empty := [lang for lang, texts in training.items() if not len(texts)]:
        found.note(f"{where}: nothing left to train on in {', '.join(empty)}", like=f"nothing left, {regime}")
        return None
    return _Stage(regime, where, how, training, pairs)


def _train_and_ask(
    found: RunBuilder,
    asked: HeldOutDocuments,
    stage: _Stage,
    name: str,
    system: System,
    answer: list[str],
    rank: int,
    seed: int,
    within: dict[tuple[str, str], TokenisedTexts] | None,
) -> None:
    """Train one system, and ask it in every direction; with ``within``, inside the query language."""
    began = time.perf_counter()
    try:
        space = system(stage.training, rank=rank, seed=seed)
    except Cr5Error as error:
        found.cannot(name, stage.where, error)
        return
    seconds = time.perf_counter() - began
    found.trained.append(TrainedSystem(name, stage.regime, list(stage.training), seconds, dict(space.report)))
    placed = EmbeddingCache(space, asked.texts)
    for source, target in _directions(stage.pairs):
        if within is not None and (source, target) not in within:
            within[source, target] = asked.counterparts(source, target)
        try:
            answers = _ask(space, asked, source, target, placed, None if within is None else within[source, target])
        except NotApplicableError as error:
            found.cannot(name, stage.where, error)
            continue
        who = Condition(name, stage.regime, source, target)
        _record(found, asked, who, answers, shared_concepts(stage.training, source, target), [*answer, space.signature])
        if isinstance(space, Cr5Space):
            _look(found, asked, who, space, answers)


def _facts(
    asked: HeldOutDocuments, variant: str, regimes: Sequence[Regime], rank: int, seed: int, low_resource: int
) -> dict[str, Any]:
    split = asked.split
    languages = {
        lang: {
            "documents": len(texts),
            "held_out": len(asked.texts[lang]),
            "concepts": len(np.unique(texts.concepts)),
        }
        for lang, texts in asked.filtered_corpus.languages.items()
    }
    return {
        "corpus": {"digest": split.corpus, "languages": languages},
        "split": {"seed": split.seed, "digest": split.digest, "smallest": split.smallest, "largest": split.largest},
        "variant": variant,
        "queries": asked.role,
        "csls": {"neighbours": NEIGHBOURS, "over": asked.csls_over},
        "regimes": list(regimes),
        "rank": rank,
        "seed": seed,
    } | ({"low-resource": low_resource} if "low-resource" in regimes else {})


def _directions(pairs: Sequence[LanguagePair]) -> Iterator[tuple[str, str]]:
    for pair in pairs:
        yield pair.langs
        yield pair.langs[::-1]


class _Answers(NamedTuple):
    queries: Ints
    candidates: TokenisedTexts
    hits: dict[Measure, Retrieval]


def _ask(
    space: Space,
    asked: HeldOutDocuments,
    source: str,
    target: str,
    placed: EmbeddingCache,
    within: TokenisedTexts | None,
) -> _Answers:
    """Rank the candidates of one direction for all of its queries."""
    chosen, behind = asked.queries(source, target), asked.background(source, target)
    everyone = chosen if behind is None else np.concatenate([chosen, behind])
    if within is None:
        candidates = asked.texts[target]
        rows, there = placed.pair(source, everyone, target)
    else:
        candidates = within
        rows, there = space.embed(asked.texts[source].rows(everyone), source), space.embed(within, source)
    background = None if behind is None else rows[len(chosen) :]
    concepts = asked.texts[source].concepts[chosen]
    hits = retrieve(rows[: len(chosen)], concepts, there, candidates.concepts, background=background)
    return _Answers(chosen, candidates, hits)


def _record(
    found: RunBuilder, asked: HeldOutDocuments, who: Condition, answers: _Answers, shared: int, answer: list[str]
) -> None:
    direction, texts, split = (who.source, who.target), asked.texts[who.source], asked.split
    concepts = texts.concepts[answers.queries]
    if direction not in found.queries:
        names = [asked.filtered_corpus.concepts[i] for i in concepts]
        unique = texts.counts.unique[answers.queries]
        found.queries[direction] = Queries(*direction, names, unique.tolist(), [])
    question = [
        "documents",
        f"corpus {split.corpus} {'-'.join(split.langs)}",
        f"split {split.seed} {split.digest}" + (" with trained candidates" if split.candidates_train else ""),
        ">".join(direction),
        f"{len(concepts)} {asked.role} queries",
    ]
    ranks: dict[Measure, Ints] = {measure: hit.ranks for measure, hit in answers.hits.items()}
    found.score(
        who, ranks, concepts, candidates=len(answers.candidates), shared=shared, question=question, answer=answer,
        over=asked.csls_over,
    )  # fmt: skip


def _look(found: RunBuilder, asked: HeldOutDocuments, who: Condition, space: Cr5Space, answers: _Answers) -> None:
    """Keep what a reader wants to see of the first model that answers a direction: coverage, a hit and a miss."""
    own, texts, there = found.queries[who.source, who.target], asked.texts[who.source], answers.candidates
    if own.coverage:
        return
    own.coverage.extend(np.round(space.coverage(texts.rows(answers.queries), who.source), 4).tolist())
    hit = answers.hits["csls"]

    def show(i: int) -> tuple[str, list[RankedCandidate]]:
        row = answers.queries[i]
        return texts.titles[row], [
            RankedCandidate(there.titles[j], round(float(score), 4), bool(there.concepts[j] == texts.concepts[row]))
            for j, score in zip(hit.indices[i], hit.scores[i], strict=True)
        ]

    found.look(who, hit.ranks, show)
