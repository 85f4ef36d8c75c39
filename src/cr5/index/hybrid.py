"""Hybrid search: documents by their words and by their vectors, with one relevance from 0 to 1.

In the language of the query, words decide. With W, the share of the query that the words of a document match (BM25
of the document, or of its best passage, divided by the total weight of the query), T, how well its title matches, and
A, the share of the neighbouring words of the query that are neighbours in the document, too,

    E = W + (1 - W) T^TITLE_POWER + PAIR_BONUS I A min(W / PAIR_SHARE, 1)
    relevance = bounded(E + TIE_WEIGHT csls(q, d))

and a document that vectors alone find has at most ``DENSE_LIMIT``. In other languages, the best documents e in the
language of the query serve as the query (pseudo-relevance feedback), each with a weight w(e) that grows with E,
beside the query itself with the weight w(q):

    z = sum of w(e) csls(e, d) + w(q) csls(q, d) + LITERAL_WEIGHT L
    relevance = max(R logistic((z - CENTRE) / WIDTH), LITERAL_LIMIT L, Q logistic((y - CENTRE) / WIDTH))

where L is the share of the query that d matches literally, and R the mean relevance of the documents e and of the
query, where the query itself counts with the relevance ``DENSE_LIMIT``. The last term, Q ..., finds documents that
have no version in the language of the query: y is the largest csls(q, p) of a passage p of d, and Q =
NO_FEEDBACK_RELEVANCE times the share of the tokens of the query that the model knows. It is left out unless R < Q.

All weights add up to 1. With r = sum of share(e) relevance(e), for shares proportional to exp(E /
FEEDBACK_TEMPERATURE), and s = min(r / CONFIDENT_RELEVANCE, 1), they are proportional to w(e) = s share(e) and
w(q) = s QUERY_WEIGHT + (1 - s) UNCERTAIN_QUERY_WEIGHT: the less relevant the documents are, the more the query's own
vector counts. The sum is linear in the vectors, so that one search by their weighted mean finds its best documents.

Symbols:

    q, d, p     the query, a document, and a passage of it
    e, w(e)     a document that serves as the query, and its weight
    W, T, A, L  matches from 0 to 1: of words, of the title, of neighbouring words, and literal ones
    I           how much the neighbouring words of the query say beyond the words (``word_pairs.informativeness``)
    E           the evidence of words, title and neighbouring words together
    z, y        the similarity of a document in another language, and that of its nearest passage
    R, Q        the largest relevance that z and y can give
    r, s        the mean relevance of the documents e, and the confidence in them
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cr5._typing import Array, Ints
from cr5.index.candidates import TITLE, VECTORS, WORDS, Candidates, best_first
from cr5.index.filters import Where
from cr5.index.passages import nearest_passages, search_passage_terms
from cr5.index.quantities import joined_quantities, split_quantities
from cr5.index.query import Query
from cr5.index.query_words import WeightedQuery, match_forms, match_literally
from cr5.index.results import DOCUMENT_COLUMNS
from cr5.index.snapshot import Snapshot
from cr5.index.stores.base import CandidateRows
from cr5.index.terms import word_finder
from cr5.index.word_pairs import informativeness, share_of_pairs, word_pairs
from cr5.retrieval.csls import csls
from cr5.retrieval.top_k import Measure

MIN_DEPTH = 100  # candidates of each kind, in each language
TITLE_SHARE = 0.5  # share of the candidates by words whose titles are compared: the best of them
DEPTH_PER_LANGUAGE = 30  # candidates by vectors, for each language that is searched
TITLE_POWER = 2  # exponent of the match of a title, which is multiplied by 1 − W
PAIR_BONUS, PAIR_DEPTH = 0.3, 10  # bonus for neighbouring words, and the number of documents that are read for them
PAIR_SHARE = 0.4  # share of the query that a document must match for the whole bonus
TIE_WEIGHT = 0.02  # weight of the vectors among documents that words find
DENSE_LIMIT = 0.2
ENOUGH_RELEVANCE = 0.3  # if words find enough documents this relevant, vectors are not searched in their language
LINEAR_UP_TO, CURVATURE = 0.9, 0.3  # a sum of 1 or more is bounded by 1
FEEDBACK_DOCUMENTS, FEEDBACK_TEMPERATURE = 5, 0.05
CONFIDENT_RELEVANCE = 0.5  # relevance of feedback documents from which the query's own vector counts only QUERY_WEIGHT
QUERY_WEIGHT, UNCERTAIN_QUERY_WEIGHT = 0.05, 0.5
LITERAL_WEIGHT, LITERAL_LIMIT = 0.4, 0.6
CENTRE, WIDTH = 0.3, 0.15  # parameters of the logistic function
NO_FEEDBACK_RELEVANCE = 0.6  # the most that the query's own vector gives, without feedback documents or by a passage
TITLE_COLUMNS = ("concept", "title")  # these take longer to read


@dataclass(frozen=True)
class FoundCandidates:
    """The candidates of a search, and the queries (by language) and the vector (in other languages) that found them.

    ``records`` has the documents, by id, that have been read already, and ``titles`` the concepts and titles.
    """

    candidates: Candidates
    queries: dict[str, WeightedQuery]
    vector: Array
    records: dict[str, dict[str, Any]]
    titles: dict[str, tuple[str, str]]


class HybridSearch:
    """One search in a snapshot, stage by stage; ``depth`` is the minimum number of candidates."""

    def __init__(
        self, snapshot: Snapshot, query: Query, langs: Sequence[str], depth: int, where: Where | None, measure: Measure
    ) -> None:
        self.snapshot, self.query, self.where, self.measure = snapshot, query, where, measure
        self.depth, self.records = max(depth, MIN_DEPTH), dict[str, dict[str, Any]]()
        self.titles = dict[str, tuple[str, str]]()
        self.query_lang = query.lang
        self.other_langs = [lang for lang in langs if lang != self.query_lang]
        self.includes_query_lang = self.query_lang in langs
        self.tokens = split_quantities(query.tokens)
        self.column = {lang: i for i, lang in enumerate(snapshot.model.langs)}

    @cached_property
    def hubness(self) -> Array:
        """The hubness of the query in each language."""
        return np.asarray(self.snapshot.background.hubness(self.query.vector[None])[0])

    def run(self, *, only_words: bool = False) -> FoundCandidates:
        """All stages; with ``only_words``, documents in the language of the query by their words alone."""
        weighted = match_forms(self.snapshot.store, self.tokens, self.query_lang)
        queries = {self.query_lang: weighted}
        if only_words:
            found = self.find_by_words(weighted, self.where) if self.includes_query_lang else self.read_candidates([])
            return FoundCandidates(found, queries, self.query.vector, self.records, self.titles)
        has_words = self.query_lang in self.snapshot.store.full_text_stats()  # not if an earlier version wrote it
        dense_limit = DENSE_LIMIT if has_words else NO_FEEDBACK_RELEVANCE
        found = self.find_in_query_language(weighted, dense_limit, self.where)
        vector, candidates = self.query.vector, found if self.includes_query_lang else self.read_candidates([])
        if self.other_langs:
            joined = (word for words in joined_quantities(self.tokens).values() for word in words)
            self.snapshot.store.expect_terms([*self.tokens, *joined], self.other_langs)
            for lang in self.other_langs:
                queries[lang] = match_literally(self.snapshot.store, weighted, self.tokens, lang)
            # The filter restricts what is shown, but not which documents serve as feedback.
            feedback = found if self.where is None else self.find_in_query_language(weighted, dense_limit, None)
            crosslingual, vector = self.find_in_other_languages(
                feedback if has_words else self.read_candidates([]), queries
            )
            candidates += crosslingual
        return FoundCandidates(candidates, queries, vector, self.records, self.titles)

    # In the language of the query

    def find_in_query_language(self, weighted: WeightedQuery, dense_limit: float, where: Where | None) -> Candidates:
        """The documents that words and vectors find, with their relevance."""
        candidates = self.find_by_words(weighted, where)
        return self.add_by_vectors(candidates, dense_limit, where) if self.query.vector.any() else candidates

    def find_by_words(self, weighted: WeightedQuery, where: Where | None) -> Candidates:
        """The documents that have words of the query, with their relevance."""
        scores, passage_of = self.search_words(weighted, where), dict[str, int]()
        found = search_passage_terms(self.snapshot, weighted.keys, weighted.lang, self.depth, where=where)
        for (document_id, number), score in found.items():
            if score > scores.get(document_id, 0.0):
                scores[document_id], passage_of[document_id] = score, number
        candidates = self.read_candidates(_largest(scores, int(self.depth * TITLE_SHARE)))
        candidates.passages[:] = [passage_of.get(key, 0) for key in candidates.ids]
        parts = candidates.part_values
        parts[:, WORDS] = np.array([scores[key] for key in candidates.ids]) / (weighted.total or 1.0)
        parts[:, TITLE] = (1 - parts[:, WORDS]) * self.score_titles(candidates, weighted) ** TITLE_POWER
        candidates.evidence[:] = candidates.total
        self.add_pair_bonus(candidates, weighted)
        parts *= (bounded(candidates.evidence) / np.where(candidates.evidence, candidates.evidence, 1))[:, None]
        return candidates

    def add_pair_bonus(self, candidates: Candidates, weighted: WeightedQuery) -> None:
        """Add a bonus to the best candidates for words that are neighbours both in the query and in the document."""
        pairs = word_pairs(self.query.text, self.tokens, weighted)
        best = best_first(candidates.evidence, candidates.ids, PAIR_DEPTH) if pairs else []
        position = {candidates.ids[i]: i for i in best}
        most = PAIR_BONUS * informativeness(pairs, self.tokens, weighted) if pairs else 0.0
        for row in self.snapshot.store.records(list(position), DOCUMENT_COLUMNS) if len(best) > 1 else []:
            i, self.records[row["id"]] = position[row["id"]], row
            bonus = most * share_of_pairs(pairs, row["title"], row["text"])
            bonus *= min(candidates.part_values[i, WORDS] / PAIR_SHARE, 1.0)
            candidates.part_values[i, WORDS] += bonus
            candidates.evidence[i] += bonus

    def search_words(self, weighted: WeightedQuery, where: Where | None) -> dict[str, float]:
        """The documents with words of the query, and their BM25: the share that they match times its total weight."""
        if not any(word.terms for word in weighted.words):
            return {}
        return self.snapshot.store.search_term_ids(weighted.keys, weighted.lang, self.depth, where=where)

    def score_titles(self, candidates: Candidates, weighted: WeightedQuery) -> Array:
        """How well the query and each title match, from 0 to 1."""
        read_titles(self.snapshot, candidates.ids, self.titles)
        titles = [self.titles.get(document_id, ("", ""))[1] for document_id in candidates.ids]
        title_words = [*map(word_finder(self.snapshot.model.settings.tokeniser, self.query_lang), titles)]
        terms = weighted.title_boosts.keys()
        matching = {i: title for i, title in enumerate(title_words) if not terms.isdisjoint(title)}
        idf = self.snapshot.store.inverse_document_frequencies(
            {word for title in matching.values() for word in title}, self.query_lang
        )
        matches = np.zeros(len(candidates))
        for i, title in matching.items():
            matches[i] = weighted.title_match(title, idf)
        return matches

    def add_by_vectors(self, candidates: Candidates, limit: float, where: Where | None) -> Candidates:
        """Break ties by vectors; where words find too little, add the documents that vectors find, up to a limit."""
        total = candidates.evidence + TIE_WEIGHT * self.similarities_to_query(candidates)
        candidates.part_values[:, VECTORS] = bounded(total) - candidates.total
        if np.count_nonzero(candidates.relevance >= ENOUGH_RELEVANCE) >= self.depth // 10:
            return candidates
        rows, _ = self.snapshot.store.nearest_candidates(
            self.query.vector, self.depth, langs=[self.query_lang], where=where
        )
        new = Candidates.of_rows(rows).without(set(candidates.ids))
        new.evidence = new.part_values[:, VECTORS] = limit * logistic(self.similarities_to_query(new))
        return candidates + new

    def similarities_to_query(self, candidates: Candidates) -> Array:
        """CSLS, or the cosine, of the query and each candidate in its language."""
        own = self.column[self.query_lang]
        return self.similarities_to(candidates, self.query.vector, self.hubness[own])

    def similarities_to(self, candidates: Candidates, vector: Array, hubness: Array) -> Array:
        """CSLS, or the inner product, of each candidate and a vector, whose hubness in their languages is given."""
        products = candidates.vectors @ vector
        if self.measure == "csls":
            own = candidates.hubness[:, self.column[self.query_lang]]
            products = csls(products, hubness, own)
        return products.astype(np.float64)

    def columns(self, langs: Sequence[str]) -> Ints:
        """The columns of some languages in the hubness."""
        return np.fromiter(map(self.column.__getitem__, langs), np.int64, len(langs))

    # In other languages

    def find_in_other_languages(
        self, feedback: Candidates, queries: Mapping[str, WeightedQuery]
    ) -> tuple[Candidates, Array]:
        """The documents in other languages with their relevance, and the vector that found them."""
        best = np.argsort(-feedback.evidence, kind="stable")[:FEEDBACK_DOCUMENTS]
        evidence, relevances = feedback.evidence[best], feedback.relevance[best]
        weights = np.exp((evidence - evidence[:1]) / FEEDBACK_TEMPERATURE)
        weights = weights / weights.sum() if len(best) else weights
        relevance = float(weights @ relevances)
        confidence = min(relevance / CONFIDENT_RELEVANCE, 1.0)
        query_weight = confidence * QUERY_WEIGHT + (1 - confidence) * UNCERTAIN_QUERY_WEIGHT
        query_weight *= bool(self.query.vector.any())
        weights = weights * confidence
        total = float(weights.sum()) + query_weight
        if not total:
            nothing = np.zeros_like(self.query.vector), np.zeros_like(self.hubness)
            return self.score_other_languages(self.read_candidates([]), *nothing, 0.0, queries)
        shares = np.append(weights, query_weight) / total
        mean = shares @ np.concatenate([feedback.vectors[best], self.query.vector[None]])
        mean_hubness = shares @ np.concatenate([feedback.hubness[best], self.hubness[None]])
        vector = (mean / max(float(np.linalg.norm(mean)), 1e-9)).astype(np.float32)
        of_query = DENSE_LIMIT if len(best) else NO_FEEDBACK_RELEVANCE
        mean_relevance = float(shares[:-1].sum()) * relevance + float(shares[-1]) * of_query
        depth = max(self.depth, DEPTH_PER_LANGUAGE * len(self.other_langs))
        rows, _ = self.snapshot.store.nearest_candidates(vector, depth, langs=self.other_langs, where=self.where)
        return self.score_other_languages(Candidates.of_rows(rows), mean, mean_hubness, mean_relevance, queries)

    def score_other_languages(
        self,
        near: Candidates,
        mean: Array,
        mean_hubness: Array,
        mean_relevance: float,
        queries: Mapping[str, WeightedQuery],
    ) -> tuple[Candidates, Array]:
        """The relevance of documents near a mean of vectors, and of those that have words of the query literally."""
        literal: dict[str, float] = {}
        for lang in self.other_langs:
            literal |= self.search_words(queries[lang], self.where)
        known = set(near.ids) if literal else ()
        candidates = near + self.read_candidates([key for key in _largest(literal, self.depth) if key not in known])
        limit = NO_FEEDBACK_RELEVANCE * self.query.coverage.known
        if mean_relevance < limit:
            candidates = self.add_by_passages(candidates, limit)
        total = queries[self.query_lang].total or 1.0  # also in other languages
        shares = np.array([literal.get(key, 0.0) for key in candidates.ids]) / total
        similarities = self.similarities_to(
            candidates, mean.astype(np.float32), mean_hubness[self.columns(candidates.langs)]
        )
        likelihoods = logistic(similarities + LITERAL_WEIGHT * shares)
        by_vectors = mean_relevance * likelihoods * mean.any()
        parts, by_passage = candidates.part_values, candidates.part_values[:, VECTORS].copy()
        candidates.passages[by_vectors > by_passage] = 0
        parts[:, VECTORS] = np.maximum(by_vectors, by_passage)
        is_literal = LITERAL_LIMIT * shares > parts[:, VECTORS]
        parts[is_literal, WORDS], parts[is_literal, VECTORS] = LITERAL_LIMIT * shares[is_literal], 0
        candidates.passages[is_literal] = 0
        return candidates, np.asarray(mean)

    def add_by_passages(self, candidates: Candidates, limit: float) -> Candidates:
        """Candidates and the documents whose passages are near the query, which give them a relevance up to a limit."""
        found = nearest_passages(self.snapshot, self.query.vector, self.depth, self.other_langs, where=self.where)
        known = set(candidates.ids)
        new = dict.fromkeys(passage.document_id for passage in found if passage.document_id not in known)
        candidates += self.read_candidates(list(new))
        position = {document_id: i for i, document_id in enumerate(candidates.ids)}
        found = [passage for passage in found if passage.document_id in position]
        if found:
            scores = np.array([passage.cosine for passage in found])
            if self.measure == "csls":
                columns = self.columns([candidates.langs[position[passage.document_id]] for passage in found])
                hubness = np.stack([passage.hubness for passage in found])[:, self.column[self.query_lang]]
                scores = csls(scores, self.hubness[columns], hubness)
            for passage, likelihood in zip(found, logistic(scores).tolist(), strict=True):
                i, relevance = position[passage.document_id], limit * likelihood
                if relevance > candidates.part_values[i, VECTORS]:
                    candidates.part_values[i, VECTORS], candidates.passages[i] = relevance, passage.number
        return candidates

    def read_candidates(self, ids: Sequence[str]) -> Candidates:
        """Documents by their ids; those deleted in the meantime are left out."""
        return Candidates.of_rows(self.snapshot.store.candidates(ids) if ids else self._no_rows)

    @property
    def _no_rows(self) -> CandidateRows:
        vectors, hubness = (np.empty((0, n), np.float32) for n in (len(self.query.vector), len(self.column)))
        return CandidateRows([], [], vectors, hubness)


def read_titles(snapshot: Snapshot, ids: Sequence[str], titles: dict[str, tuple[str, str]]) -> None:
    """Add the concepts and titles of documents that are not among ``titles``."""
    lacking = [document_id for document_id in ids if document_id not in titles]
    for row in snapshot.store.records(lacking, ("id", *TITLE_COLUMNS)) if lacking else []:
        titles[row["id"]] = row["concept"], row["title"]


def _largest(scores: Mapping[str, float], k: int) -> list[str]:
    """The ids with the k largest scores, largest first."""
    ids = list(scores)
    return [ids[i] for i in best_first(np.array(list(scores.values())), ids, k)] if ids else []


def bounded(totals: Array) -> Array:
    """Totals up to ``LINEAR_UP_TO`` as they are; beyond, they approach 1."""
    beyond = np.maximum(totals - LINEAR_UP_TO, 0)
    return np.where(beyond, 1 - (1 - LINEAR_UP_TO) * np.exp(-beyond / CURVATURE), totals)


def logistic(scores: Array) -> Array:
    """How likely two documents are to be about the same thing, from 0 to 1, given the CSLS of each pair."""
    return np.asarray(1 / (1 + np.exp(-(scores.astype(np.float64) - CENTRE) / WIDTH)))
