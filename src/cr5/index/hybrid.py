"""Hybrid search: documents by their words and by their vectors, with one relevance from 0 to 1.

In the language of the query, words decide. With W, the share of the query that the words of a document match (BM25
of the document, or of its best passage, divided by the total weight of the query), T, how well its title matches, and
A, the share of the neighbouring words of the query that are neighbours in the document, too,

    E = W + TITLE_BONUS T^2 + PAIR_BONUS A,    relevance = bounded(E + TIE_WEIGHT csls(q, d))

and a document that vectors alone find has at most ``DENSE_LIMIT``. In other languages, the best documents e in the
language of the query serve as the query (pseudo-relevance feedback), each with a weight w(e) that grows with E,
beside the query itself with the weight w(q):

    z = sum of w(e) csls(e, d) + w(q) csls(q, d) + LITERAL_WEIGHT L
    relevance = max(R logistic((z - CENTRE) / WIDTH), LITERAL_LIMIT L)

where L is the share of the query that d matches literally, and R the mean relevance of the documents e and of the
query, for which ``DENSE_LIMIT`` is taken. All weights add up to 1. With r = sum of w'(e) relevance(e), for weights w'
proportional to exp(E / FEEDBACK_TEMPERATURE), and s = min(r / SURE_RELEVANCE, 1), they are proportional to
w(e) = s w'(e) and w(q) = s QUERY_WEIGHT + (1 - s) UNSURE_QUERY_WEIGHT: the less relevant the documents are, the more
the query's own vector counts. The sum is linear in the vectors, so that one search by their weighted mean finds its
best documents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cr5._typing import Array
from cr5.index.filters import Where
from cr5.index.passages import search_passage_terms
from cr5.index.query import Query
from cr5.index.query_words import MatchedWords, match_forms, match_literally
from cr5.index.results import DOCUMENT_COLUMNS
from cr5.index.snapshot import Snapshot
from cr5.index.stores.base import CandidateRows
from cr5.index.terms import different_words
from cr5.index.word_pairs import share_of_pairs, word_pairs
from cr5.retrieval.csls import csls
from cr5.retrieval.top_k import Measure

MIN_DEPTH = 100  # candidates of each kind, in each language
TITLE_SHARE = 0.5  # of the candidates by words: titles are compared only for the best of them
DEPTH_PER_LANGUAGE = 30  # candidates by vectors, for each language that is searched
TITLE_BONUS = 0.4
PAIR_BONUS, PAIR_DEPTH = 0.3, 10  # of neighbouring words, and the number of documents that are read for them
TIE_WEIGHT = 0.02  # of the vectors, among documents that words find
DENSE_LIMIT = 0.2
ENOUGH_RELEVANCE = 0.3  # if words find enough documents with it, vectors are not searched in their language
LINEAR_UP_TO, CURVATURE = 0.9, 0.3  # a sum of 1 or more is bounded by 1
FEEDBACK_DOCUMENTS, FEEDBACK_TEMPERATURE = 5, 0.05
SURE_RELEVANCE = 0.5  # of the feedback documents, from which the query's own vector counts only QUERY_WEIGHT
QUERY_WEIGHT, UNSURE_QUERY_WEIGHT = 0.05, 0.5
LITERAL_WEIGHT, LITERAL_LIMIT = 0.4, 0.6
CENTRE, WIDTH = 0.3, 0.15  # of the logistic function
LONE_QUERY_RELEVANCE = 0.6  # R of the query's own vector, if there are no feedback documents
TITLE_COLUMNS = ("concept", "title")  # these take longer to read


@dataclass(slots=True)
class Candidate:
    """A document that may be a hit, with its score broken down into parts that add up to its relevance.

    ``passage`` is the number of the passage whose words match best, 0 for none. ``evidence`` is E, which may be
    above 1, or the relevance of a document that vectors alone find.
    """

    id: str
    lang: str
    vector: Array = field(repr=False)
    hubness: Array = field(repr=False)
    concept: str = ""
    title: str = ""
    parts: dict[str, float] = field(default_factory=dict)
    passage: int = 0
    evidence: float = 0.0

    @property
    def relevance(self) -> float:
        """From 0 to 1."""
        total = sum(self.parts.values())
        return float(total) if 0 < total < 1 else float(total > 0)


@dataclass(frozen=True)
class Found:
    """The candidates of a search, and the words (by language) and the vector (in other languages) that found them.

    ``rows`` has the documents, by id, that have been read already.
    """

    candidates: list[Candidate]
    words: dict[str, MatchedWords]
    vector: Array
    rows: dict[str, dict[str, Any]]


class HybridSearch:
    """One search in a snapshot, stage by stage; ``depth`` is the minimum number of candidates."""

    def __init__(
        self, snapshot: Snapshot, query: Query, langs: Sequence[str], depth: int, where: Where | None, measure: Measure
    ) -> None:
        self.snapshot, self.query, self.where, self.measure = snapshot, query, where, measure
        self.depth, self.rows = max(depth, MIN_DEPTH), dict[str, dict[str, Any]]()
        self.own = query.lang
        self.others = [lang for lang in langs if lang != self.own]
        self.is_own_wanted = self.own in langs
        self.column = {lang: i for i, lang in enumerate(snapshot.model.langs)}
        self.hubness = snapshot.background.hubness(query.vector[None])[0]

    def run(self, *, only_words: bool = False) -> Found:
        """All stages; with ``only_words``, documents in the language of the query by their words alone."""
        words = {self.own: match_forms(self.snapshot.store, self.query.tokens, self.own)}
        if only_words:
            own = self.by_words(words[self.own], self.where) if self.is_own_wanted else []
            return Found(own, words, self.query.vector, self.rows)
        has_words = self.own in self.snapshot.store.text_stats()  # not if an earlier version wrote it
        dense_limit = DENSE_LIMIT if has_words else LONE_QUERY_RELEVANCE
        own = self.in_own_language(words[self.own], dense_limit, self.where)
        vector = self.query.vector
        others: list[Candidate] = []
        if self.others:
            for lang in self.others:
                words[lang] = match_literally(self.snapshot.store, words[self.own], self.query.tokens, lang)
            # The filter restricts what is shown, but not which documents serve as feedback.
            alike = own if self.where is None else self.in_own_language(words[self.own], dense_limit, None)
            others, vector = self.in_other_languages(alike if has_words else [], words)
        return Found((own if self.is_own_wanted else []) + others, words, vector, self.rows)

    # In the language of the query

    def in_own_language(self, words: MatchedWords, dense_limit: float, where: Where | None) -> list[Candidate]:
        """The documents that words and vectors find, with their relevance."""
        candidates = self.by_words(words, where)
        return self.with_vectors(candidates, dense_limit, where) if self.query.vector.any() else candidates

    def by_words(self, words: MatchedWords, where: Where | None) -> list[Candidate]:
        """The documents that have words of the query, with their relevance."""
        shares = self.word_shares(words, where, with_passages=True)
        best = sorted(shares, key=lambda key: (-shares[key][0], key))[: int(self.depth * TITLE_SHARE)]
        candidates = self.read(best)
        read_titles(self.snapshot, candidates)
        titles = self.title_matches(candidates, words)
        for candidate, title in zip(candidates, titles, strict=True):
            share, candidate.passage = shares[candidate.id]
            candidate.parts = {"words": share, "title": TITLE_BONUS * title**2}
            candidate.evidence = sum(candidate.parts.values())
        self.add_pairs(candidates, words)
        for candidate in candidates:
            scale = bounded(candidate.evidence) / candidate.evidence if candidate.evidence else 0.0
            candidate.parts = {name: scale * value for name, value in candidate.parts.items() if value}
        return candidates

    def add_pairs(self, candidates: Sequence[Candidate], words: MatchedWords) -> None:
        """Add to the words of the best candidates the neighbouring words of the query that are neighbours there."""
        pairs = word_pairs(self.query.text, self.query.tokens, words)
        best = {c.id: c for c in sorted(candidates, key=lambda c: (-c.evidence, c.id))[:PAIR_DEPTH]} if pairs else {}
        for row in self.snapshot.store.records(list(best), DOCUMENT_COLUMNS) if len(best) > 1 else []:
            candidate, self.rows[row["id"]] = best[row["id"]], row
            bonus = PAIR_BONUS * share_of_pairs(pairs, f"{candidate.title}\n{row['text']}")
            candidate.parts["words"] += bonus
            candidate.evidence += bonus

    def word_shares(
        self, words: MatchedWords, where: Where | None, *, with_passages: bool
    ) -> dict[str, tuple[float, int]]:
        """For each document with words of the query, the share that it matches, and the number of its best passage."""
        store, total, query_words = self.snapshot.store, words.total or 1.0, words.for_bm25
        found = store.search_term_ids(query_words, words.lang, self.depth, where=where)
        shares = {document_id: (bm25 / total, 0) for document_id, bm25 in found.items()}
        if with_passages:
            for passage in search_passage_terms(self.snapshot, query_words, words.lang, self.depth, where=where):
                share = passage.bm25 / total
                if share > shares.get(passage.document_id, (0.0, 0))[0]:
                    shares[passage.document_id] = share, passage.number
        return shares

    def title_matches(self, candidates: Sequence[Candidate], words: MatchedWords) -> list[float]:
        """How well the query and each title match, from 0 to 1."""
        tokeniser = self.snapshot.model.settings.tokeniser
        titles = [different_words(tokeniser, candidate.title, candidate.lang) for candidate in candidates]
        idf = self.snapshot.store.inverse_document_frequencies({word for title in titles for word in title}, self.own)
        return [words.title_match(title, idf) for title in titles]

    def with_vectors(self, candidates: list[Candidate], limit: float, where: Where | None) -> list[Candidate]:
        """Break ties by vectors; where words find too little, add the documents that vectors find, up to a limit."""
        for candidate, score in zip(candidates, self.scores(candidates), strict=True):
            total = candidate.evidence + TIE_WEIGHT * float(score)
            candidate.parts["vectors"] = bounded(total) - bounded(candidate.evidence)
        if sum(candidate.relevance >= ENOUGH_RELEVANCE for candidate in candidates) >= self.depth // 10:
            return candidates
        known = {candidate.id for candidate in candidates}
        rows, _ = self.snapshot.store.nearest_candidates(self.query.vector, self.depth, langs=[self.own], where=where)
        new = [candidate for candidate in _make_candidates(rows) if candidate.id not in known]
        for candidate, likelihood in zip(new, logistic(self.scores(new)).tolist(), strict=True):
            candidate.evidence = candidate.parts["vectors"] = limit * likelihood
        return candidates + new

    def scores(self, candidates: Sequence[Candidate]) -> Array:
        """CSLS, or the cosine, of the query and each candidate."""
        if not candidates:
            return np.empty(0, np.float32)
        cosines = _matrix([candidate.vector for candidate in candidates]) @ self.query.vector
        if self.measure == "cosine":
            return np.asarray(cosines)
        of_query = self.hubness[[self.column[candidate.lang] for candidate in candidates]]
        return csls(cosines, of_query, self.own_hubness(candidates))

    def own_hubness(self, candidates: Sequence[Candidate]) -> Array:
        """The neighbourhood mean of each candidate among documents in the language of the query."""
        return _matrix([candidate.hubness for candidate in candidates])[:, self.column[self.own]]

    # In other languages

    def in_other_languages(
        self, own: Sequence[Candidate], words: Mapping[str, MatchedWords]
    ) -> tuple[list[Candidate], Array]:
        """The documents in other languages with their relevance, and the vector that found them."""
        best = sorted(own, key=lambda candidate: -candidate.evidence)[:FEEDBACK_DOCUMENTS]
        evidence, relevances = (
            np.array([getattr(candidate, name) for candidate in best]) for name in ("evidence", "relevance")
        )
        weights = np.exp((evidence - evidence[0]) / FEEDBACK_TEMPERATURE) if best else np.empty(0)
        weights = weights / weights.sum() if best else weights
        relevance = float(weights @ relevances)
        sure = min(relevance / SURE_RELEVANCE, 1.0)
        query_weight = sure * QUERY_WEIGHT + (1 - sure) * UNSURE_QUERY_WEIGHT if self.query.vector.any() else 0.0
        weights *= sure
        total = float(weights.sum()) + query_weight
        if not total:
            return self.score_others([], np.zeros_like(self.query.vector), np.zeros_like(self.hubness), 0.0, words)
        parts = np.stack([*(candidate.vector for candidate in best), self.query.vector])
        hubness = np.stack([*(candidate.hubness for candidate in best), self.hubness])
        shares = np.append(weights, query_weight) / total
        mean, mean_hubness = shares @ parts, shares @ hubness
        vector = (mean / max(float(np.linalg.norm(mean)), 1e-9)).astype(np.float32)
        of_query = DENSE_LIMIT if best else LONE_QUERY_RELEVANCE
        level = float(shares[:-1].sum()) * relevance + float(shares[-1]) * of_query
        depth = max(self.depth, DEPTH_PER_LANGUAGE * len(self.others))
        rows, _ = self.snapshot.store.nearest_candidates(vector, depth, langs=self.others, where=self.where)
        return self.score_others(_make_candidates(rows), mean, mean_hubness, level, words)

    def score_others(
        self,
        near: list[Candidate],
        mean: Array,
        mean_hubness: Array,
        level: float,
        words: Mapping[str, MatchedWords],
    ) -> tuple[list[Candidate], Array]:
        """The relevance of documents near a mean of vectors, and of those that have words of the query literally."""
        literal: dict[str, float] = {}
        for lang in self.others:
            found = self.word_shares(words[lang], self.where, with_passages=False)
            literal |= {document_id: share for document_id, (share, _) in found.items()}
        best_literal = sorted(literal, key=lambda key: (-literal[key], key))[: self.depth]
        found_near = {candidate.id for candidate in near}
        candidates = near + self.read([key for key in best_literal if key not in found_near])
        if candidates:
            cosines = _matrix([candidate.vector for candidate in candidates]) @ mean
            columns = [self.column[candidate.lang] for candidate in candidates]
            scores = csls(cosines, mean_hubness[columns], self.own_hubness(candidates))
            if self.measure == "cosine":
                scores = cosines
            shares = [literal.get(candidate.id, 0.0) for candidate in candidates]
            likelihoods = logistic(scores + LITERAL_WEIGHT * np.array(shares))
            relevances = (level * likelihoods if mean.any() else np.zeros(len(shares))).tolist()
            for candidate, share, by_vectors in zip(candidates, shares, relevances, strict=True):
                candidate.parts["vectors"] = by_vectors
                if LITERAL_LIMIT * share > by_vectors:
                    candidate.parts = {"words": LITERAL_LIMIT * share}
        return candidates, np.asarray(mean)

    def read(self, ids: Sequence[str]) -> list[Candidate]:
        """Documents by their ids; those deleted in the meantime are left out."""
        return _make_candidates(self.snapshot.store.candidates(ids)) if ids else []


def _matrix(rows: Sequence[Array]) -> Array:
    """As ``np.stack``, which takes longer than everything else about a few hundred rows."""
    return np.concatenate(rows).reshape(len(rows), -1)


def _make_candidates(rows: CandidateRows) -> list[Candidate]:
    return list(map(Candidate, *rows))


def read_titles(snapshot: Snapshot, candidates: Sequence[Candidate]) -> None:
    """Add the concepts and titles of candidates that have none yet."""
    lacking = {candidate.id: candidate for candidate in candidates if not candidate.concept}
    for row in snapshot.store.records(list(lacking), ("id", *TITLE_COLUMNS)) if lacking else []:
        lacking[row["id"]].concept, lacking[row["id"]].title = row["concept"], row["title"]


def bounded(total: float) -> float:
    """The total itself up to ``LINEAR_UP_TO``; beyond, it approaches 1."""
    if total <= LINEAR_UP_TO:
        return total
    return 1 - (1 - LINEAR_UP_TO) * float(np.exp(-(total - LINEAR_UP_TO) / CURVATURE))


def logistic(scores: Array) -> Array:
    """How likely two documents are to be about the same thing, from 0 to 1, given the CSLS of each pair."""
    return np.asarray(1 / (1 + np.exp(-(scores.astype(np.float64) - CENTRE) / WIDTH)))
