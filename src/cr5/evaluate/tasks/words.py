"""The word task: find a word's translation among all words that a trained system knows in the other language."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from cr5._typing import Array, Ints
from cr5.errors import Cr5Error
from cr5.evaluate.dictionaries import dictionary_languages, read_dictionary
from cr5.evaluate.run_builder import Condition, RunBuilder, csls_facts
from cr5.evaluate.runs import PRETRAINED, CslsOver, Queries, RankedCandidate, Run
from cr5.evaluate.statistics import precision
from cr5.evaluate.systems.fitted_system import FittedSystem, WordSpellings
from cr5.evaluate.systems.pretrained import PretrainedSystems
from cr5.evaluate.tasks.directions import MAX_BACKGROUND, record_pretrained
from cr5.features.tokeniser import Tokeniser
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.retrieval.csls import csls_penalty, neighbourhood_means
from cr5.retrieval.top_k import Measure, tie_threshold
from cr5.retrieval.vectors import row_products, unit_rows


@dataclass(frozen=True)
class WordQueries:
    """Unique source words, and the translations of each.

    ``words`` are the entries of the dictionary. ``tokens`` and ``answers`` are the words and their translations as
    single tokens, "" for an entry that is not exactly one token.
    """

    source: str
    target: str
    digest: str
    words: list[str]
    tokens: list[str]
    answers: list[list[str]]

    @property
    def direction(self) -> str:
        return f"{self.source}>{self.target}"


def read_word_queries(path: str | Path, tokeniser: Tokeniser) -> WordQueries:
    """Read a dictionary whose file name says its languages, en-it.test.tsv."""
    source, target = dictionary_languages(path)
    translations: dict[str, dict[str, None]] = {}
    for word, translation in read_dictionary(path):
        translations.setdefault(word, {})[translation] = None
    pairs = sorted(f"{word}\t{answer}" for word, answers in translations.items() for answer in answers)
    digest = hashlib.sha256("\n".join(pairs).encode()).hexdigest()[:16]
    tokens = _single_tokens(list(translations), source, tokeniser)
    all_answers = [answer for answers in translations.values() for answer in answers]
    token_of = dict(zip(all_answers, _single_tokens(all_answers, target, tokeniser), strict=True))
    answer_tokens = [[token_of[answer] for answer in answers] for answers in translations.values()]
    return WordQueries(source, target, digest, list(translations), tokens, answer_tokens)


def _single_tokens(words: list[str], lang: str, tokeniser: Tokeniser) -> list[str]:
    """The token of each word; "" for a word that is not exactly one token."""
    vocabulary, ids, offsets = tokeniser(words, lang)
    single = np.diff(offsets) == 1
    return [vocabulary[ids[start]] if one else "" for start, one in zip(offsets[:-1], single, strict=True)]


def answer_ranks(
    queries: Array,
    candidates: Array,
    answers: Sequence[Ints],
    *,
    penalty: Array | None = None,
    spellings: WordSpellings | None = None,
    block_cells: int = 2**22,
) -> Ints:
    """The rank of the best of each query's answers by q'c - penalty: 1 + the number of others that score no less.

    queries, candidates: rows; answers: for each query the rows of candidates that are right, one or several.
    ``spellings`` are those of the queries and the candidates. Ties count against the answer, within rounding errors,
    as in ``retrieval.top_k``. At most ``block_cells`` products are computed at once.
    """
    n, m = len(queries), len(candidates)
    query_of = np.repeat(np.arange(n), [len(rows) for rows in answers])
    answer_rows = np.concatenate([np.zeros(0, np.int64), *answers])
    by_candidate = np.argsort(answer_rows, kind="stable")
    query_of, answer_rows = query_of[by_candidate], answer_rows[by_candidate]
    queries, candidates = queries.astype(np.float32), candidates.astype(np.float32)
    cost = np.zeros(m, np.float32) if penalty is None else penalty.astype(np.float32)
    best = np.full(n, -np.inf, np.float32)
    scores = row_products(queries[query_of], candidates[answer_rows]) - cost[answer_rows]
    if spellings:
        scores += _spelling_products(spellings, query_of, answer_rows)
    np.maximum.at(best, query_of, scores)
    threshold = tie_threshold(best)
    above = np.zeros(n, np.int64)
    step = max(1, block_cells // max(n, 1))
    for start in range(0, m, step):
        block = slice(start, start + step)
        products = queries @ candidates[block].T - cost[block]
        if spellings:
            products += spellings.products(block)
        no_less = products >= threshold[:, None]
        above += no_less.sum(axis=1)
        inside = slice(*np.searchsorted(answer_rows, [start, start + step]))
        np.subtract.at(above, query_of[inside], no_less[query_of[inside], answer_rows[inside] - start])
    return above + 1


def _spelling_products(spellings: WordSpellings, queries: Ints, candidates: Ints) -> Array:
    """The weighted product of each of these queries with the candidate at the same position."""
    rows = spellings.source[queries].multiply(spellings.target[candidates])
    return np.asarray(rows.sum(axis=1), np.float32).ravel() * np.float32(spellings.weight)


def evaluate_words(
    pretrained: PretrainedSystems,
    dictionaries: Sequence[str | Path],
    *,
    csls_over: CslsOver = "queries",
    title: str = "words",
    progress: ProgressCallback = no_progress,
) -> Run:
    """Query trained systems for the translations of words; each dictionary is one direction.

    The candidates are all words that a system knows in the target language; any translation in the dictionary is
    right. A word that the system does not know, or none of whose translations it knows, has rank 0.
    """
    fitted_systems, builder = pretrained.fitted_systems, RunBuilder(failed=list(pretrained.failed))
    all_queries: dict[str, WordQueries] = {}
    known: dict[str, dict[str, dict[str, int]]] = {}
    for path in dictionaries:
        queries = read_word_queries(path, pretrained.tokeniser)
        if queries.direction in all_queries:
            raise Cr5Error(f"{path}: another dictionary is also {queries.direction}; evaluate one at a time")
        all_queries[queries.direction] = queries
    for i, (direction, queries) in enumerate(all_queries.items()):
        names = [f"{queries.source}:{word}" for word in queries.words]
        key = queries.source, queries.target
        builder.queries[key] = Queries(*key, names, [1] * len(names), [])
        for j, (name, fitted) in enumerate(fitted_systems.items()):
            progress(
                Progress(
                    "evaluate",
                    i * len(fitted_systems) + j,
                    len(all_queries) * len(fitted_systems),
                    f"{direction}: {name}",
                )
            )
            details = pretrained.details.get(name, "")
            with builder.record_failure(name, PRETRAINED, key):
                known.setdefault(name, {})[direction] = _query(builder, queries, name, fitted, csls_over, details)
    described = {
        direction: {
            "source": str(path),
            "digest": queries.digest,
            "queries": len(queries.words),
            "pairs": sum(map(len, queries.answers)),
        }
        for (direction, queries), path in zip(all_queries.items(), dictionaries, strict=True)
    }
    run_facts = {"dictionaries": described, "csls": csls_facts(csls_over), "known": known}
    return builder.build("words", title, run_facts | dict(pretrained.facts))


@dataclass(frozen=True)
class _Vocabularies:
    """The words of both languages that a system knows, with the queries and their translations among them.

    ``vectors`` and ``candidates`` are those of the query and of the target language. ``rows`` are the queries' rows of
    ``vectors``, -1 for unknown words, ``answers`` the rows of their known translations in ``candidates``.
    """

    vectors: Array
    candidates: Array
    candidate_words: list[str]
    spellings: WordSpellings | None
    rows: Ints
    answers: list[Ints]

    @cached_property
    def known(self) -> Ints:
        """The queries that have both a vector and a translation with one."""
        return np.flatnonzero((self.rows >= 0) & [len(rows) > 0 for rows in self.answers])

    def penalties(self, csls_over: CslsOver, lang: str) -> dict[Measure, Array]:
        """What each measure subtracts from the products with the candidates."""
        over_queries = csls_over == "queries"
        rows = self.rows[self.known] if over_queries else _background(lang, self.rows, len(self.vectors))
        return {
            "cosine": np.zeros(len(self.candidates)),
            "csls": csls_penalty(neighbourhood_means(self.candidates, self.vectors[rows])),
        }

    def ranks(self, penalty: Array) -> Ints:
        """The rank of the best answer of every query; 0 for a query that is not known."""
        ranks, rows = np.zeros(len(self.rows), np.int64), self.rows[self.known]
        spellings = self.spellings and self.spellings.select_rows(rows)
        answers = [self.answers[i] for i in self.known]
        ranks[self.known] = answer_ranks(
            self.vectors[rows], self.candidates, answers, penalty=penalty, spellings=spellings
        )
        return ranks

    def best(self, query: int, penalty: Array) -> list[RankedCandidate]:
        """The ten best candidates of a query; none for an unknown word."""
        row = self.rows[query]
        if row < 0:
            return []
        scores = self.candidates @ self.vectors[row] - penalty
        if self.spellings:
            scores += self.spellings.select_rows(np.array([row])).products()[0]
        return [
            RankedCandidate(self.candidate_words[j], round(2 * float(scores[j]), 4), bool(j in self.answers[query]))
            for j in np.argsort(-scores, kind="stable")[:10]
        ]


def _look_up(queries: WordQueries, fitted: FittedSystem, source: str, target: str) -> _Vocabularies:
    """Find the queries and their translations among the words that a system knows, by its codes of the languages."""
    words, candidate_words = fitted.words(source), fitted.words(target)
    row_of, candidate_of = ({word: i for i, word in enumerate(vocabulary)} for vocabulary in (words, candidate_words))
    answers = [
        np.unique([candidate_of[token] for token in tokens if token in candidate_of]).astype(np.int64)
        for tokens in queries.answers
    ]
    return _Vocabularies(
        vectors=unit_rows(fitted.word_vectors(source)),
        candidates=unit_rows(fitted.word_vectors(target)),
        candidate_words=candidate_words,
        spellings=fitted.word_spellings(source, target),
        rows=np.array([row_of.get(word, -1) for word in queries.tokens], np.int64),
        answers=answers,
    )


def _query(
    builder: RunBuilder, queries: WordQueries, name: str, fitted: FittedSystem, csls_over: CslsOver, details: str
) -> dict[str, int]:
    """Query one system in one direction; return how many queries are known, not known, and without an answer."""
    source, target, size = queries.source, queries.target, len(queries.words)
    codes = {lang: fitted.code_of(lang) for lang in (source, target)}
    builder.notes += [
        f"{name}, {queries.direction}: {lang} is queried as {code}" for lang, code in codes.items() if lang != code
    ]
    found = _look_up(queries, fitted, codes[source], codes[target])
    penalties = found.penalties(csls_over, source)
    ranks = {measure: found.ranks(penalty) for measure, penalty in penalties.items()}
    condition = Condition(name, PRETRAINED, source, target)
    compared_by = f"spelling {found.spellings.weight:g}" if found.spellings else ""
    builder.add_scores(
        condition, ranks, np.arange(size), candidates=len(found.candidates), shared=fitted.training_concepts,
        test_set=["words", f"dictionary {queries.digest}", queries.direction, f"{size} queries"],
        system_details=[PRETRAINED, name, fitted.signature, compared_by, details], csls_over=csls_over,
    )  # fmt: skip
    known, unknown = len(found.known), int((found.rows < 0).sum())
    unanswered = size - known - unknown
    among_known = {measure: precision(of_all[found.known], 1) for measure, of_all in ranks.items()}
    builder.notes.append(
        f"{name}, {queries.direction}: of {size:,} queries, {unknown:,} not in its vocabulary and {unanswered:,} "
        f"without a translation in it count as misses; P@1 among the other {known:,}: "
        f"{among_known['cosine']:.1f} by cosine, {among_known['csls']:.1f} by CSLS"
    )
    record_pretrained(builder, name, fitted, sorted(codes.values()))
    recorded = builder.queries[source, target]
    if fitted.reports_coverage and not recorded.coverage:
        recorded.coverage.extend((found.rows >= 0).astype(float).tolist())
        builder.add_examples(condition, ranks["csls"], lambda i: (queries.words[i], found.best(i, penalties["csls"])))
    return {"known": known, "unknown": unknown, "unanswered": unanswered}


def _background(lang: str, rows: Ints, size: int) -> Ints:
    others = np.setdiff1d(np.arange(size), rows)[:MAX_BACKGROUND]
    if not len(others):
        raise Cr5Error(
            f"there is no background for queries in {lang}: every word of the vocabulary is a query; "
            'use `csls_over="queries"`'
        )
    return others
