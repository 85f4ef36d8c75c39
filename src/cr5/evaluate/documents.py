"""The document task: find a held-out document's counterpart in another language, trained in four regimes."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np

from cr5._typing import Ints
from cr5.errors import UserError
from cr5.evaluate.measures import hits, interval
from cr5.evaluate.run import Example, Findings, Hit, Queries, Regime, Run, Score, Trained
from cr5.evaluate.space import NotApplicableError, Space, System
from cr5.evaluate.split import Pair, Role, Split, choose_bridge, shared_concepts, training_rows
from cr5.evaluate.systems import Cr5Space
from cr5.evaluate.texts import Material, Texts, mask_shared
from cr5.neighbours import NEIGHBOURHOOD, Hits, Measure, Rows, retrieve
from cr5.progress import Progress, Report, silent

Over: TypeAlias = Literal["queries", "background"]
BACKGROUND = 20_000  # documents that a neighbourhood is taken over, at most
EXAMPLES = 12  # directions that examples are shown of


@dataclass(frozen=True)
class Asked:
    """Held-out documents of every language, and which of them are the queries of a direction."""

    material: Material
    split: Split
    role: Role
    over: Over
    rows: dict[str, Ints]
    held: dict[str, Texts]
    masked: bool = False

    def queries(self, source: str, target: str) -> Ints:
        """The documents of the source language that are asked with, as rows of what is held out."""
        pair = next(p for p in self.split.pairs if set(p.langs) == {source, target})
        return np.flatnonzero(np.isin(self.held[source].concepts, self._numbers(pair.queries(self.role))))

    def background(self, source: str, target: str) -> Ints | None:
        """Documents that neighbourhoods are taken over: held out, of the query language, and none of the queries."""
        if self.over == "queries":
            return None
        others = np.setdiff1d(np.arange(len(self.held[source])), self.queries(source, target))
        if not len(others):
            raise UserError(
                f"there is no background for queries in {source}: every held-out document is one; "
                "use --csls-over queries, or fewer --queries"
            )
        return others[:: 1 + len(others) // BACKGROUND]

    def counterparts(self, source: str, target: str) -> Texts:
        """The candidates of a direction, said in the query language: the paragraphs that the target language keeps."""
        here = self.material.languages[source]
        rows = np.flatnonzero(np.isin(here.concepts, self._numbers(self.split.candidates[target])))
        return self.material.part(source, target, rows)

    def written(self, lang: str) -> list[str]:
        """The held-out documents of a language as text; where words are masked, those that are left."""
        if not self.masked:
            return self.material.written(lang, self.rows[lang])
        words, ids, offsets = self.held[lang].tokens
        return [" ".join(words[i] for i in ids[a:b]) for a, b in pairwise(offsets)]

    def _numbers(self, names: Sequence[str]) -> Ints:
        return np.flatnonzero(np.isin(self.material.concepts, list(names)))


def hold_out(
    material: Material, split: Split, *, role: Role = "test", over: Over = "queries", mask: bool = False
) -> Asked:
    """Take the documents of a split out of the material."""
    if split.corpus != material.digest:
        raise UserError(
            f"the split was made for the corpus {split.corpus} ({', '.join(split.langs)}), "
            f"this is {material.digest} ({', '.join(material.languages)}); give that corpus, or leave out --split"
        )
    sized = material.sized(split.smallest, split.largest)
    rows = {}
    for lang, texts in sized.languages.items():
        wanted = np.isin(sized.concepts, split.candidates[lang])
        rows[lang] = np.flatnonzero(wanted[texts.concepts])
    held = {lang: sized.languages[lang].rows(rows[lang]) for lang in rows}
    return Asked(sized, split, role, over, rows, mask_shared(held) if mask else held, mask)


def evaluate(
    asked: Asked,
    systems: Mapping[str, System],
    *,
    title: str,
    variant: str = "whole documents",
    regimes: Sequence[Regime] = ("joint",),
    pairs: Sequence[tuple[str, str]] | None = None,
    rank: int = 300,
    seed: int = 0,
    cut: int = 1000,
    bridge: str | None = None,
    deal: bool = True,
    ceiling: tuple[str, System] | None = None,
    facts: Mapping[str, Any] | None = None,
    progress: Report = silent,
) -> Run:
    """Train every system in every regime and ask it about held-out documents, pair by pair, both ways.

    All pairs of the split are asked about, or those of ``pairs``.
    ``ceiling`` names a system that is asked within the query language instead. ``facts`` are added to the run's.
    """
    split, found = asked.split, Findings()
    everything = dict(systems) | (dict([ceiling]) if ceiling else {})
    wanted = None if pairs is None else [set(pair) for pair in pairs]
    asking = [pair for pair in split.pairs if wanted is None or set(pair.langs) in wanted]
    plan = [(regime, pair) for regime in regimes for pair in ([None] if regime == "joint" else asking)]
    within: dict[tuple[str, str], Texts] = {}
    for step, (regime, pair) in enumerate(plan):
        langs, how = pair.langs if pair else None, str(regime)
        if regime == "low-resource":
            how += f" {cut}"
        elif langs and regime == "transitive":
            how += f" via {choose_bridge(split, asked.material, langs, bridge)}"
        rows = training_rows(split, asked.material, regime, langs, cut=cut, bridge=bridge, deal=deal)
        training = {lang: asked.material.languages[lang].rows(own) for lang, own in rows.items()}
        where = regime if langs is None else f"{regime} {'-'.join(langs)}"
        if empty := [lang for lang, texts in training.items() if not len(texts)]:
            found.notes.append(f"{where}: nothing left to train on in {', '.join(empty)}")
            continue
        for place, (name, system) in enumerate(everything.items()):
            done, total = step * len(everything) + place, len(plan) * len(everything)
            progress(Progress("train and ask", done, total, f"{where}: {name}"))
            began = time.perf_counter()
            try:
                space = system(training, rank=rank, seed=seed)
            except NotApplicableError as error:
                found.notes.append(f"{name}, {where}: {error}")
                continue
            seconds = time.perf_counter() - began
            found.trained.append(Trained(name, regime, list(training), seconds, dict(space.report)))
            parts = [variant, how, name, str(space.report.get("signature", f"rank {rank}"))]
            embedded: dict[str, Rows] = {}
            for source, target in _directions(asking if pair is None else [pair]):
                inside = None
                if ceiling and name == ceiling[0]:
                    inside = _once(within, asked, source, target)
                try:
                    answers = _ask(space, asked, source, target, embedded, inside)
                except NotApplicableError as error:
                    found.notes.append(f"{name}, {where}: {error}")
                    continue
                shared = shared_concepts(training, source, target)
                _record(found, asked, name, regime, source, target, answers, shared, parts)
                if isinstance(space, Cr5Space):
                    _look_at_queries(found, asked, space, source, target, name, regime, answers)
    known = {
        "corpus": {
            "digest": split.corpus,
            "languages": {
                lang: {
                    "documents": len(texts),
                    "held_out": len(asked.held[lang]),
                    "concepts": len(np.unique(texts.concepts)),
                }
                for lang, texts in asked.material.languages.items()
            },
        },
        "split": {"seed": split.seed, "digest": split.digest, "smallest": split.smallest, "largest": split.largest},
        "variant": variant,
        "queries": asked.role,
        "csls": {"neighbours": NEIGHBOURHOOD, "over": asked.over},
        "regimes": list(regimes),
        "rank": rank,
        "seed": seed,
    } | ({"low-resource": cut} if "low-resource" in regimes else {})
    return found.run("documents", title, known | dict(facts or {}))


def _once(within: dict[tuple[str, str], Texts], asked: Asked, source: str, target: str) -> Texts:
    if (source, target) not in within:
        within[source, target] = asked.counterparts(source, target)
    return within[source, target]


def _directions(pairs: Sequence[Pair]) -> Iterator[tuple[str, str]]:
    for pair in pairs:
        yield pair.langs
        yield pair.langs[::-1]


@dataclass(frozen=True)
class _Answers:
    queries: Ints
    candidates: Texts
    hits: dict[Measure, Hits]


def _ask(
    space: Space, asked: Asked, source: str, target: str, embedded: dict[str, Rows], within: Texts | None
) -> _Answers:
    """Rank the candidates of one direction for all of its queries."""
    chosen, behind = asked.queries(source, target), asked.background(source, target)
    candidates = asked.held[target] if within is None else within
    everyone = chosen if behind is None else np.concatenate([chosen, behind])
    if within is not None:
        rows, there = space.embed(asked.held[source].rows(everyone), source), space.embed(within, source)
    elif type(space).pair is Space.pair:  # a text's row is its own: once for each language is enough
        for lang in (source, target):
            if lang not in embedded:
                embedded[lang] = space.embed(asked.held[lang], lang)
        rows, there = embedded[source][everyone], embedded[target]
    else:
        rows, there = space.pair(asked.held[source].rows(everyone), source, candidates, target)
    queries = rows[: len(chosen)]
    background = None if behind is None else rows[len(chosen) :]
    concepts = asked.held[source].concepts[chosen]
    return _Answers(chosen, candidates, retrieve(queries, concepts, there, candidates.concepts, background=background))


def _record(
    found: Findings,
    asked: Asked,
    name: str,
    regime: Regime,
    source: str,
    target: str,
    answers: _Answers,
    shared: int,
    parts: list[str],
) -> None:
    texts = asked.held[source]
    concepts = texts.concepts[answers.queries]
    if (source, target) not in found.queries:
        names = [asked.material.concepts[i] for i in concepts]
        unique = texts.counts.unique[answers.queries]
        found.queries[source, target] = Queries(source, target, names, unique.tolist(), [])
    split = asked.split
    begin = [
        f"cr5 {version('cr5')}",
        "documents",
        f"corpus {split.corpus} {'-'.join(split.langs)}",
        f"split {split.seed} {split.digest}" + (" with trained candidates" if split.candidates_train else ""),
        f"{source}>{target}",
        f"{len(concepts)} {asked.role} queries",
        f"{len(answers.candidates)} candidates",
    ]
    for measure, hit in answers.hits.items():
        how = "cosine" if measure == "cosine" else f"csls k={NEIGHBOURHOOD} over {asked.over}"
        signature = "|".join([*begin, *parts, how])
        span = interval([(hit.ranks, concepts)], hits(1))
        size = len(answers.candidates)
        found.scores.append(
            Score(name, regime, source, target, measure, hit.ranks.tolist(), size, shared, signature, span)
        )


def _look_at_queries(
    found: Findings,
    asked: Asked,
    space: Cr5Space,
    source: str,
    target: str,
    name: str,
    regime: Regime,
    answers: _Answers,
) -> None:
    """Keep what a reader wants to see of the first model that answers a direction: coverage, a hit and a miss."""
    own = found.queries[source, target]
    texts = asked.held[source]
    if own.coverage:
        return
    own.coverage.extend(np.round(space.coverage(texts.rows(answers.queries), source), 4).tolist())
    if len({(e.source, e.target) for e in found.examples}) >= EXAMPLES:
        return
    hit = answers.hits["csls"]
    near = [np.flatnonzero(hit.ranks == 1), np.flatnonzero((hit.ranks > 1) & (hit.ranks <= 10))]
    concepts = answers.candidates.concepts
    for places in near:
        if not len(places):
            continue
        i = int(places[len(places) // 2])
        concept = texts.concepts[answers.queries[i]]
        shown = [
            Hit(answers.candidates.titles[j], round(float(score), 4), bool(concepts[j] == concept))
            for j, score in zip(hit.indices[i], hit.scores[i], strict=True)
        ]
        query = texts.titles[answers.queries[i]]
        found.examples.append(Example(name, regime, source, target, "csls", query, int(hit.ranks[i]), shown))
