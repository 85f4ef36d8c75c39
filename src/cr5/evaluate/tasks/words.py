"""The word task: find a word's translation among all words that a trained system knows in the other language."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from cr5._typing import Array, Ints
from cr5.corpus.languages import short_code
from cr5.errors import Cr5Error
from cr5.evaluate.runs import Condition, Queries, RankedCandidate, Run, RunBuilder, TrainedSystem
from cr5.evaluate.statistics import precision
from cr5.evaluate.systems.own import Cr5Space
from cr5.evaluate.systems.space import NotApplicableError, Space
from cr5.evaluate.systems.word_vectors import read_dictionary
from cr5.evaluate.tasks.documents import BACKGROUND, CslsOver
from cr5.evaluate.tasks.sentences import spoken, training_concepts
from cr5.features.tokeniser import Tokeniser
from cr5.progress import Progress, ProgressCallback, silent
from cr5.retrieval.csls import NEIGHBOURS, csls_penalty, neighbourhood_means
from cr5.retrieval.top_k import TIE_TOLERANCE, Measure, nearest
from cr5.retrieval.vectors import row_products, unit_rows

CELLS = 2**22  # products at once
_NAME = re.compile(r"([A-Za-z]{2,3})-([A-Za-z]{2,3})(?:\..*)?")


@runtime_checkable
class WordVectors(Protocol):
    """What the word task asks of a space: words, most frequent first, and their vectors."""

    def words(self, lang: str) -> list[str]: ...
    def vectors(self, lang: str) -> Array: ...


def languages_of(path: str | Path) -> tuple[str, str] | None:
    """The languages that a dictionary's name tells: en-it.test.tsv -> ("en", "it")."""
    match = _NAME.fullmatch(Path(path).name)
    return (short_code(match[1]), short_code(match[2])) if match else None


def answer_ranks(queries: Array, candidates: Array, answers: Sequence[Ints], *, penalty: Array | None = None) -> Ints:
    """The rank of the best of each query's answers by q'c - penalty: 1 + the number of others that score no less.

    queries, candidates: rows; answers: the rows of candidates that are right, for each query one or several.
    Ties count against the answer, also those that rounding blurs, as in ``neighbours.retrieve``.
    """
    n, m = len(queries), len(candidates)
    owner = np.repeat(np.arange(n), [len(own) for own in answers])
    right = np.concatenate([np.zeros(0, np.int64), *answers])
    by_place = np.argsort(right, kind="stable")
    owner, right = owner[by_place], right[by_place]
    queries, candidates = queries.astype(np.float32), candidates.astype(np.float32)
    cost = np.zeros(m, np.float32) if penalty is None else penalty.astype(np.float32)
    best = np.full(n, -np.inf, np.float32)
    np.maximum.at(best, owner, row_products(queries[owner], candidates[right]) - cost[right])
    least = best - np.float32(TIE_TOLERANCE) * np.maximum(1, np.abs(best))
    above = np.zeros(n, np.int64)
    step = max(1, CELLS // max(n, 1))
    for start in range(0, m, step):
        block = slice(start, start + step)
        counted = queries @ candidates[block].T - cost[block] >= least[:, None]
        above += counted.sum(axis=1)
        inside = slice(*np.searchsorted(right, [start, start + step]))
        np.subtract.at(above, owner[inside], counted[owner[inside], right[inside] - start])
    return above + 1


@dataclass(frozen=True)
class _Dictionary:
    """Distinct source words, and the translations of each; as single tokens, or "" for what is none."""

    source: str
    target: str
    digest: str
    asked: list[str]
    words: list[str]
    answers: list[list[str]]

    @property
    def direction(self) -> str:
        return f"{self.source}>{self.target}"


def evaluate_words(
    spaces: Mapping[str, Space],
    dictionaries: Sequence[tuple[str, str, Path]],
    *,
    tokeniser: Tokeniser,
    csls_over: CslsOver = "queries",
    title: str = "words",
    about: Mapping[str, str] | None = None,
    facts: Mapping[str, Any] | None = None,
    progress: ProgressCallback = silent,
) -> Run:
    """Ask trained systems for the translations of words: dictionaries as (source, target, file), one a direction.

    The candidates are all words that a system knows in the target language; any translation in the dictionary is
    right. A word that the system does not know, or none of whose translations it knows, has the rank 0.
    ``about`` tells more of a system, for its signature: what it was trained on.
    """
    found = RunBuilder()
    read: dict[str, _Dictionary] = {}
    known: dict[str, dict[str, dict[str, int]]] = {}
    for source, target, path in dictionaries:
        dictionary = _read(source, target, path, tokeniser)
        if dictionary.direction in read:
            raise Cr5Error(f"{path}: there is another dictionary {source}-{target}; measure one at a time")
        read[dictionary.direction] = dictionary
    for i, dictionary in enumerate(read.values()):
        names = [f"{dictionary.source}:{word}" for word in dictionary.asked]
        key = dictionary.source, dictionary.target
        found.queries[key] = Queries(*key, names, [1] * len(names), [])
        for j, (name, space) in enumerate(spaces.items()):
            note = f"{dictionary.direction}: {name}"
            progress(Progress("ask", i * len(spaces) + j, len(read) * len(spaces), note))
            try:
                known.setdefault(name, {})[dictionary.direction] = _measure(
                    found, dictionary, name, space, csls_over, (about or {}).get(name, "")
                )
            except NotApplicableError as error:
                found.cannot(name, dictionary.direction, error)
    described = {
        dictionary.direction: {
            "source": str(path),
            "digest": dictionary.digest,
            "queries": len(dictionary.asked),
            "pairs": sum(map(len, dictionary.answers)),
        }
        for dictionary, (_, _, path) in zip(read.values(), dictionaries, strict=True)
    }
    told = {"dictionaries": described, "csls": {"neighbours": NEIGHBOURS, "over": csls_over}, "known": known}
    return found.run("words", title, told | dict(facts or {}))


def _read(source: str, target: str, path: Path, tokeniser: Tokeniser) -> _Dictionary:
    answers: dict[str, dict[str, None]] = {}
    for word, translation in read_dictionary(path):
        answers.setdefault(word, {})[translation] = None
    pairs = sorted(f"{word}\t{translation}" for word, own in answers.items() for translation in own)
    digest = hashlib.sha256("\n".join(pairs).encode()).hexdigest()[:16]
    words = _tokens(list(answers), source, tokeniser)
    flat = [translation for own in answers.values() for translation in own]
    token = dict(zip(flat, _tokens(flat, target, tokeniser), strict=True))
    return _Dictionary(
        source, target, digest, list(answers), words, [[token[t] for t in own] for own in answers.values()]
    )


def _tokens(words: list[str], lang: str, tokeniser: Tokeniser) -> list[str]:
    """Each word as the tokeniser has it; "" where it makes none of it, or several."""
    found, ids, offsets = tokeniser(words, lang)
    single = np.diff(offsets) == 1
    return [found[ids[start]] if one else "" for start, one in zip(offsets[:-1], single, strict=True)]


def _measure(
    found: RunBuilder, dictionary: _Dictionary, name: str, space: Space, csls_over: CslsOver, about: str
) -> dict[str, int]:
    """Ask one space, in one direction; returns how many queries it knows, does not know, and cannot answer."""
    if not isinstance(space, WordVectors):
        raise NotApplicableError("it has no words with vectors of their own, only texts")
    source, target = dictionary.source, dictionary.target
    here, there = spoken(space, source), spoken(space, target)
    found.notes += [
        f"{name}, {dictionary.direction}: {lang} is asked as {code}"
        for lang, code in ((source, here), (target, there))
        if lang != code
    ]
    vocabulary, others = space.words(here), space.words(there)
    place, places = ({word: i for i, word in enumerate(words)} for words in (vocabulary, others))
    rows = np.array([place.get(word, -1) for word in dictionary.words], np.int64)
    answers = [np.unique([places[t] for t in each if t in places]).astype(np.int64) for each in dictionary.answers]
    answered = np.array([len(each) > 0 for each in answers], bool)
    known = np.flatnonzero((rows >= 0) & answered)
    candidates, vectors = unit_rows(space.vectors(there)), unit_rows(space.vectors(here))
    queries = vectors[rows[known]]
    right = [answers[i] for i in known]
    background = queries if csls_over == "queries" else vectors[_others(dictionary, rows, len(vocabulary))]
    penalties: dict[Measure, Array] = {
        "cosine": np.zeros(len(candidates)),
        "csls": csls_penalty(neighbourhood_means(candidates, background)),
    }
    ranks: dict[Measure, Ints] = {measure: np.zeros(len(rows), np.int64) for measure in penalties}
    for measure, penalty in penalties.items():
        ranks[measure][known] = answer_ranks(queries, candidates, right, penalty=penalty)
    best = {measure: precision(own[known], 1) for measure, own in ranks.items()}
    who = Condition(name, "as given", source, target)
    question = ["words", f"dictionary {dictionary.digest}", dictionary.direction, f"{len(rows)} queries"]
    found.score(
        who, ranks, np.arange(len(rows)), candidates=len(candidates), shared=training_concepts(space),
        question=question, answer=["as given", name, space.signature, about], over=csls_over,
    )  # fmt: skip
    unknown, unanswered = int((rows < 0).sum()), int(((rows >= 0) & ~answered).sum())
    found.notes.append(
        f"{name}, {dictionary.direction}: {unknown:,} of {len(rows):,} queries are not in its vocabulary, and of "
        f"{unanswered:,} others no translation is: all of them are misses; P@1 among the {len(known):,} queries whose "
        f"words are known: {best['cosine']:.1f} by cosine, {best['csls']:.1f} by CSLS"
    )
    seconds = float(space.report.get("seconds", 0.0))
    found.trained.append(TrainedSystem(name, "as given", sorted([here, there]), seconds, dict(space.report)))
    asked = found.queries[source, target]
    if isinstance(space, Cr5Space) and not asked.coverage:
        asked.coverage.extend((rows >= 0).astype(float).tolist())

        def show(i: int) -> tuple[str, list[RankedCandidate]]:
            top = nearest(queries[[i]], candidates, 10, penalty=penalties["csls"])
            pairs = zip(top.indices[0], top.scores[0], strict=True)
            return dictionary.asked[known[i]], [
                RankedCandidate(others[j], round(2 * float(score), 4), bool(j in right[i])) for j, score in pairs
            ]

        found.look(who, ranks["csls"][known], show)
    return {"known": len(known), "unknown": unknown, "unanswered": unanswered}


def _others(dictionary: _Dictionary, rows: Ints, size: int) -> Ints:
    """The most frequent words of the query language that are no queries."""
    others = np.setdiff1d(np.arange(size), rows)[:BACKGROUND]
    if not len(others):
        raise Cr5Error(
            f"there is no background for queries in {dictionary.source}: every word of the vocabulary is one; "
            "use --csls-over queries"
        )
    return others
