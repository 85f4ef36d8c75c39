"""Hybrid search: documents by their words and by their vectors, with one relevance from 0 to 1.

In the language of the query, words decide. With W, the share of the query that the words of a document match (BM25
of the document, or of its best passage, divided by the total weight of the query), T, how well its title matches, and
A, the share of the neighbouring words of the query that are neighbours in the document, too,

    E = W + TITLE_BONUS T^TITLE_POWER + PAIR_BONUS A min(W / PAIR_SHARE, 1)
    relevance = bounded(E + TIE_WEIGHT csls(q, d))

and a document that vectors alone find has at most ``DENSE_LIMIT``. In other languages, the best documents e in the
language of the query serve as the query (pseudo-relevance feedback), each with a weight w(e) that grows with E,
beside the query itself with the weight w(q):

    z = sum of w(e) csls(e, d) + w(q) csls(q, d) + LITERAL_WEIGHT L
    relevance = max(R logistic((z - CENTRE) / WIDTH), LITERAL_LIMIT L, Q logistic((y - CENTRE) / WIDTH))

where L is the share of the query that d matches literally, and R the mean relevance of the documents e and of the
query, for which ``DENSE_LIMIT`` is taken. The last part finds documents that have no version in the language of the
query: y is the largest csls(q, p) of a passage p of d, and Q = LONE_QUERY_RELEVANCE times the share of the tokens of
the query that the model knows. It is left out unless R < Q.

All weights add up to 1. With r = sum of w'(e) relevance(e), for weights w' proportional to exp(E /
FEEDBACK_TEMPERATURE), and s = min(r / CONFIDENT_RELEVANCE, 1), they are proportional to w(e) = s w'(e) and
w(q) = s QUERY_WEIGHT + (1 - s) UNCERTAIN_QUERY_WEIGHT: the less relevant the documents are, the more the query's own
vector counts. The sum is linear in the vectors, so that one search by their weighted mean finds its best documents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cr5._typing import Array
from cr5.index.filters import Where
from cr5.index.passages import nearest_passages, search_passage_terms
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
TITLE_BONUS, TITLE_POWER = 0.4, 3
PAIR_BONUS, PAIR_DEPTH = 0.3, 10  # of neighbouring words, and the number of documents that are read for them
PAIR_SHARE = 0.4  # of the query that a document must match for the whole bonus
TIE_WEIGHT = 0.02  # of the vectors, among documents that words find
DENSE_LIMIT = 0.2
ENOUGH_RELEVANCE = 0.3  # if words find enough documents with it, vectors are not searched in their language
LINEAR_UP_TO, CURVATURE = 0.9, 0.3  # a sum of 1 or more is bounded by 1
FEEDBACK_DOCUMENTS, FEEDBACK_TEMPERATURE = 5, 0.05
CONFIDENT_RELEVANCE = 0.5  # of the feedback documents, from which the query's own vector counts only QUERY_WEIGHT
QUERY_WEIGHT, UNCERTAIN_QUERY_WEIGHT = 0.05, 0.5
LITERAL_WEIGHT, LITERAL_LIMIT = 0.4, 0.6
CENTRE, WIDTH = 0.3, 0.15  # of the logistic function
LONE_QUERY_RELEVANCE = 0.6  # that the query's own vector gives without feedback documents, or by a passage
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
        self.query_lang = query.lang
        self.other_langs = [lang for lang in langs if lang != self.query_lang]
        self.includes_query_lang = self.query_lang in langs
        self.column = {lang: i for i, lang in enumerate(snapshot.model.langs)}
        self.hubness = snapshot.background.hubness(query.vector[None])[0]

    def run(self, *, only_words: bool = False) -> Found:
        """All stages; with ``only_words``, documents in the language of the query by their words alone."""
        query_words = match_forms(self.snapshot.store, self.query.tokens, self.query_lang)
        words = {self.query_lang: query_words}
        if only_words:
            found = self.by_words(query_words, self.where) if self.includes_query_lang else []
            return Found(found, words, self.query.vector, self.rows)
        has_words = self.query_lang in self.snapshot.store.text_stats()  # not if an earlier version wrote it
        dense_limit = DENSE_LIMIT if has_words else LONE_QUERY_RELEVANCE
        found = self.in_query_language(query_words, dense_limit, self.where)
        vector = self.query.vector
        crosslingual: list[Candidate] = []
        if self.other_langs:
            for lang in self.other_langs:
                words[lang] = match_literally(self.snapshot.store, query_words, self.query.tokens, lang)
            # The filter restricts what is shown, but not which documents serve as feedback.
            feedback = found if self.where is None else self.in_query_language(query_words, dense_limit, None)
            crosslingual, vector = self.in_other_languages(feedback if has_words else [], words)
        return Found((found if self.includes_query_lang else []) + crosslingual, words, vector, self.rows)

    # In the language of the query

    def in_query_language(self, words: MatchedWords, dense_limit: float, where: Where | None) -> list[Candidate]:
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
            candidate.parts = {"words": share, "title": TITLE_BONUS * title**TITLE_POWER}
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
            bonus *= min(candidate.parts["words"] / PAIR_SHARE, 1.0)
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
        idf = self.snapshot.store.inverse_document_frequencies(
            {word for title in titles for word in title}, self.query_lang
        )
        return [words.title_match(title, idf) for title in titles]

    def with_vectors(self, candidates: list[Candidate], limit: float, where: Where | None) -> list[Candidate]:
        """Break ties by vectors; where words find too little, add the documents that vectors find, up to a limit."""
        for candidate, score in zip(candidates, self.scores(candidates), strict=True):
            total = candidate.evidence + TIE_WEIGHT * float(score)
            candidate.parts["vectors"] = bounded(total) - bounded(candidate.evidence)
        if sum(candidate.relevance >= ENOUGH_RELEVANCE for candidate in candidates) >= self.depth // 10:
            return candidates
        known = {candidate.id for candidate in candidates}
        rows, _ = self.snapshot.store.nearest_candidates(
            self.query.vector, self.depth, langs=[self.query_lang], where=where
        )
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
        return csls(cosines, of_query, self.hubness_of(candidates))

    def hubness_of(self, candidates: Sequence[Candidate]) -> Array:
        """The neighbourhood mean of each candidate among documents in the language of the query."""
        return _matrix([candidate.hubness for candidate in candidates])[:, self.column[self.query_lang]]

    # In other languages

    def in_other_languages(
        self, feedback: Sequence[Candidate], words: Mapping[str, MatchedWords]
    ) -> tuple[list[Candidate], Array]:
        """The documents in other languages with their relevance, and the vector that found them."""
        best = sorted(feedback, key=lambda candidate: -candidate.evidence)[:FEEDBACK_DOCUMENTS]
        evidence, relevances = (
            np.array([getattr(candidate, name) for candidate in best]) for name in ("evidence", "relevance")
        )
        weights = np.exp((evidence - evidence[0]) / FEEDBACK_TEMPERATURE) if best else np.empty(0)
        weights = weights / weights.sum() if best else weights
        relevance = float(weights @ relevances)
        confidence = min(relevance / CONFIDENT_RELEVANCE, 1.0)
        query_weight = confidence * QUERY_WEIGHT + (1 - confidence) * UNCERTAIN_QUERY_WEIGHT
        query_weight *= bool(self.query.vector.any())
        weights *= confidence
        total = float(weights.sum()) + query_weight
        if not total:
            return self.score_other_languages(
                [], np.zeros_like(self.query.vector), np.zeros_like(self.hubness), 0.0, words
            )
        parts = np.stack([*(candidate.vector for candidate in best), self.query.vector])
        hubness = np.stack([*(candidate.hubness for candidate in best), self.hubness])
        shares = np.append(weights, query_weight) / total
        mean, mean_hubness = shares @ parts, shares @ hubness
        vector = (mean / max(float(np.linalg.norm(mean)), 1e-9)).astype(np.float32)
        of_query = DENSE_LIMIT if best else LONE_QUERY_RELEVANCE
        mean_relevance = float(shares[:-1].sum()) * relevance + float(shares[-1]) * of_query
        depth = max(self.depth, DEPTH_PER_LANGUAGE * len(self.other_langs))
        rows, _ = self.snapshot.store.nearest_candidates(vector, depth, langs=self.other_langs, where=self.where)
        return self.score_other_languages(_make_candidates(rows), mean, mean_hubness, mean_relevance, words)

    def score_other_languages(
        self,
        near: list[Candidate],
        mean: Array,
        mean_hubness: Array,
        mean_relevance: float,
        words: Mapping[str, MatchedWords],
    ) -> tuple[list[Candidate], Array]:
        """The relevance of documents near a mean of vectors, and of those that have words of the query literally."""
        literal: dict[str, float] = {}
        for lang in self.other_langs:
            found = self.word_shares(words[lang], self.where, with_passages=False)
            literal |= {document_id: share for document_id, (share, _) in found.items()}
        best_literal = sorted(literal, key=lambda key: (-literal[key], key))[: self.depth]
        found_near = {candidate.id for candidate in near}
        candidates = near + self.read([key for key in best_literal if key not in found_near])
        limit = LONE_QUERY_RELEVANCE * self.query.coverage.known
        if mean_relevance < limit:
            candidates = self.with_passages(candidates, limit)
        if candidates:
            cosines = _matrix([candidate.vector for candidate in candidates]) @ mean
            columns = [self.column[candidate.lang] for candidate in candidates]
            scores = csls(cosines, mean_hubness[columns], self.hubness_of(candidates))
            if self.measure == "cosine":
                scores = cosines
            shares = [literal.get(candidate.id, 0.0) for candidate in candidates]
            likelihoods = logistic(scores + LITERAL_WEIGHT * np.array(shares))
            relevances = (mean_relevance * likelihoods if mean.any() else np.zeros(len(shares))).tolist()
            for candidate, share, by_vectors in zip(candidates, shares, relevances, strict=True):
                by_passage = candidate.parts.get("vectors", 0.0)
                if by_vectors > by_passage:
                    candidate.parts["vectors"], candidate.passage = by_vectors, 0
                if LITERAL_LIMIT * share > max(by_vectors, by_passage):
                    candidate.parts, candidate.passage = {"words": LITERAL_LIMIT * share}, 0
        return candidates, np.asarray(mean)

    def with_passages(self, candidates: Sequence[Candidate], limit: float) -> list[Candidate]:
        """Candidates and the documents whose passages are near the query, which give them a relevance up to a limit."""
        found = nearest_passages(self.snapshot, self.query.vector, self.depth, self.other_langs, where=self.where)
        known = {candidate.id: candidate for candidate in candidates}
        new = self.read(
            list(dict.fromkeys(passage.document_id for passage in found if passage.document_id not in known))
        )
        known |= {candidate.id: candidate for candidate in new}
        found = [passage for passage in found if passage.document_id in known]
        if found:
            cosines = np.array([passage.cosine for passage in found])
            columns = [self.column[known[passage.document_id].lang] for passage in found]
            hubness = np.stack([passage.hubness for passage in found])[:, self.column[self.query_lang]]
            scores = cosines if self.measure == "cosine" else csls(cosines, self.hubness[columns], hubness)
            for passage, likelihood in zip(found, logistic(scores).tolist(), strict=True):
                candidate, relevance = known[passage.document_id], limit * likelihood
                if relevance > candidate.parts.get("vectors", 0.0):
                    candidate.parts["vectors"], candidate.passage = relevance, passage.number
        return list(known.values())

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
