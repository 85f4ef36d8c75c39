"""A split: which concepts are queries, candidates or training concepts. It is drawn once, stored and reused.

The concepts are shuffled once. Every second one may become a test query, the others validation queries. Each pair of
languages takes the first concepts that both have, and each language takes the first that it has as candidates. A
concept that is a query or a candidate anywhere is never trained on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from cr5._typing import Ints, Mask
from cr5.corpus.languages import find_language
from cr5.errors import Cr5Error, whole_number
from cr5.evaluate.runs import Regime
from cr5.evaluate.texts import EvaluationCorpus, TokenisedTexts
from cr5.hashing import json_digest
from cr5.storage.json_files import read_json, write_json
from cr5.storage.output_paths import check_output_file

QuerySet: TypeAlias = Literal["test", "validation"]
MAX_QUERIES = 1000  # test queries of a language pair, and as many validation queries
MAX_QUERY_SHARE = 0.1  # largest share of the pair's shared concepts, for the test and for the validation queries each
MIN_QUERIES = 10  # a pair with fewer is not evaluated
MAX_CANDIDATES = 200_000  # candidates of a language
MAX_CANDIDATE_SHARE = 0.4  # largest share of the concepts of a language that are candidates
LOW_RESOURCE = 1000  # training concepts of a pair in the regime low-resource
FORMAT = 1


@dataclass(frozen=True)
class PairQueries:
    """Two languages and the concepts of their queries, which are used in both directions."""

    langs: tuple[str, str]
    test: list[str]
    validation: list[str]

    def queries(self, query_set: QuerySet) -> list[str]:
        """The concepts of the test or of the validation queries."""
        return self.test if query_set == "test" else self.validation


@dataclass(frozen=True)
class Split:
    """The queries of every language pair and the candidates of every language.

    ``corpus`` is the digest of the corpus that was split. Only documents of ``min_unique`` to ``max_unique``
    different words are used. With ``candidates_train`` the candidates that are not queries are trained on.
    """

    corpus: str
    seed: int
    min_unique: int
    max_unique: int
    langs: list[str]
    pairs: list[PairQueries]
    candidates: dict[str, list[str]]
    candidates_train: bool = False

    @cached_property
    def held_out(self) -> frozenset[str]:
        """The concepts that are never trained on: queries and, unless ``candidates_train``, candidates."""
        queries = [name for pair in self.pairs for name in (*pair.test, *pair.validation)]
        return frozenset(queries).union(*([] if self.candidates_train else self.candidates.values()))

    @cached_property
    def digest(self) -> str:
        """A short digest of the whole split, independent of the order of the languages."""
        plain = self.to_json() | {"langs": sorted(self.langs)}
        plain["pairs"] = sorted(({**pair, "langs": sorted(pair["langs"])} for pair in plain["pairs"]), key=str)
        return json_digest(plain, 8)

    def to_json(self) -> dict[str, Any]:
        """Plain values; concepts are listed once and then referred to by number."""
        names = sorted(self.held_out.union(*self.candidates.values()))
        number = {name: i for i, name in enumerate(names)}

        def numbers(chosen: list[str]) -> list[int]:
            return [number[name] for name in chosen]

        return {
            "format": FORMAT,
            "corpus": self.corpus,
            "seed": self.seed,
            "smallest": self.min_unique,  # different words of a document, as in earlier files
            "largest": self.max_unique,
            "langs": self.langs,
            "concepts": names,
            "pairs": [
                {"langs": list(pair.langs), "test": numbers(pair.test), "validation": numbers(pair.validation)}
                for pair in self.pairs
            ],
            "candidates": {lang: numbers(chosen) for lang, chosen in self.candidates.items()},
            "candidates_train": self.candidates_train,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Split":
        """The split that ``to_json`` wrote."""

        def names(numbers: list[int]) -> list[str]:
            return [values["concepts"][i] for i in numbers]

        pairs = [
            PairQueries((pair["langs"][0], pair["langs"][1]), names(pair["test"]), names(pair["validation"]))
            for pair in values["pairs"]
        ]
        candidates = {lang: names(numbers) for lang, numbers in values["candidates"].items()}
        return cls(
            corpus=values["corpus"],
            seed=values["seed"],
            min_unique=values["smallest"],
            max_unique=values["largest"],
            langs=values["langs"],
            pairs=pairs,
            candidates=candidates,
            candidates_train=values.get("candidates_train", False),
        )

    def save(self, path: Path) -> None:
        """Write the split to a file, atomically."""
        check_output_file(path)
        write_json(path, self.to_json(), indent=None)

    @classmethod
    def load(cls, path: str | Path) -> "Split":
        """Read a split from a file."""
        try:
            values = read_json(Path(path))
            stored_format = values["format"]
            if stored_format == FORMAT:
                return cls.from_json(values)
        except FileNotFoundError:
            raise Cr5Error(f"{path} does not exist; leave out `split` to draw a new one") from None
        except (AttributeError, ValueError, TypeError, KeyError, IndexError, IsADirectoryError) as error:
            raise Cr5Error(f"{path} is not a split of an evaluation; leave out `split` to draw a new one") from error
        raise Cr5Error(f"{path} has the format {stored_format}, but this version reads {FORMAT}; draw a new split")


def make_split(
    corpus: EvaluationCorpus,
    *,
    seed: int = 0,
    queries: int = MAX_QUERIES,
    candidates: int = MAX_CANDIDATES,
    min_unique: int = 0,
    max_unique: int = 10**9,
    query_corpus: EvaluationCorpus | None = None,
    candidate_share: float = MAX_CANDIDATE_SHARE,
    candidates_train: bool = False,
) -> Split:
    """Draw queries and candidates from documents of ``min_unique`` to ``max_unique`` different words.

    A pair gets at most ``queries`` test queries and as many validation queries, a language at most ``candidates``;
    both are limited to a share of the concepts, so that a small corpus has enough left to train on. If
    ``query_corpus`` is given, queries come from its documents: the same concepts, but fewer documents.
    """
    queries = whole_number("queries", queries, MIN_QUERIES)
    filtered = corpus.with_unique_words(min_unique, max_unique)
    langs, size = list(filtered.languages), len(filtered.concepts)
    present = {lang: _mask(texts.concepts, size) for lang, texts in filtered.languages.items()}
    eligible = {
        lang: _mask(texts.concepts, size) & present[lang]
        for lang, texts in (query_corpus or filtered).languages.items()
    }
    order = np.random.default_rng(seed).permutation(size)
    order_by_set = {"test": order[::2], "validation": order[1::2]}
    pairs, is_query = [], np.zeros(size, bool)
    for a, b in combinations(langs, 2):
        both = eligible[a] & eligible[b]
        count = min(queries, int(MAX_QUERY_SHARE * both.sum()))
        if count < MIN_QUERIES:
            continue
        chosen = {query_set: numbers[both[numbers]][:count] for query_set, numbers in order_by_set.items()}
        for numbers in chosen.values():
            is_query[numbers] = True
        names = {query_set: [filtered.concepts[i] for i in numbers] for query_set, numbers in chosen.items()}
        pairs.append(PairQueries((a, b), names["test"], names["validation"]))
    if not pairs:
        most = max((int((eligible[a] & eligible[b]).sum()) for a, b in combinations(langs, 2)), default=0)
        limits = ", or change `min_unique` or `max_unique`" if min_unique > 1 or max_unique < 10**9 else ""
        paragraphs = "; with `comparable=True`, documents need one paragraph a line" if corpus.comparable else ""
        raise Cr5Error(
            f"an evaluation needs at least {MIN_QUERIES / MAX_QUERY_SHARE:.0f} concepts that two languages share, "
            f"there are {most}; add documents{limits}{paragraphs}"
        )
    chosen_candidates = {}
    for lang, has_concept in present.items():
        numbers = order[has_concept[order]]
        wanted = min(candidates, int(candidate_share * len(numbers)))
        first = numbers[is_query[numbers]]  # the counterparts of all queries must be candidates
        more = numbers[~is_query[numbers]][: max(0, wanted - len(first))]
        chosen_candidates[lang] = [filtered.concepts[i] for i in sorted([*first.tolist(), *more.tolist()])]
    return Split(corpus.digest, seed, min_unique, max_unique, langs, pairs, chosen_candidates, candidates_train)


def training_rows(
    split: Split,
    corpus: EvaluationCorpus,
    regime: Regime,
    pair: tuple[str, str] | None = None,
    *,
    low_resource: int = LOW_RESOURCE,
    pivot: str | None = None,
    drop_shared: bool = False,
) -> dict[str, Ints]:
    """The documents that a regime trains on, as rows of ``corpus`` by language; never a held-out concept.

    joint: all languages. pairwise: the concepts that both languages of ``pair`` have. low-resource: only
    ``low_resource`` of these. transitive: the two languages share no concept, but each shares some with ``pivot``.
    Concepts that both have are then assigned to one of the two in turn or, with ``drop_shared``, dropped as in the
    paper.
    """
    held_out = np.array([name in split.held_out for name in corpus.concepts], bool)
    free = {lang: _mask(texts.concepts, len(held_out)) & ~held_out for lang, texts in corpus.languages.items()}
    # One shuffle for all languages, different from the one that made the split.
    order = np.random.default_rng([split.seed, 1]).permutation(len(held_out))
    if pair is None:
        kept = {lang: free[lang] for lang in split.langs}
    else:
        a, b = pair
        both = free[a] & free[b]
        if regime == "transitive":
            third = choose_pivot(split, corpus, pair, pivot)
            only_a, only_b, of_third = free[a] & ~both, free[b] & ~both, free[third]
            if drop_shared:
                kept = {a: only_a, b: only_b, third: of_third & ~both}
            else:
                assigned_to_a = _mask(order[both[order]][::2], len(order))
                kept = {a: only_a | assigned_to_a, b: only_b | (both & ~assigned_to_a), third: of_third}
        elif regime == "low-resource":
            few = _mask(order[both[order]][:low_resource], len(order))
            kept = {a: few, b: few}
        else:
            kept = {a: both, b: both}
    shared = np.sum(list(kept.values()), axis=0) > 1  # a concept of a single language cannot be trained on
    return {lang: np.flatnonzero((mask & shared)[corpus.languages[lang].concepts]) for lang, mask in kept.items()}


def choose_pivot(split: Split, corpus: EvaluationCorpus, pair: tuple[str, str], wanted: str | None = None) -> str:
    """The third language: ``wanted`` unless it is one of the pair, otherwise the one that shares most with both."""
    others = [lang for lang in split.langs if lang not in pair]
    if not others:
        raise Cr5Error("transitive training needs a third language as a pivot; add one with `langs`")
    pivot = None if wanted is None else find_language(wanted, split.langs)
    if wanted is not None and pivot is None:
        raise Cr5Error(f"`pivot={wanted}` is not one of the languages {', '.join(split.langs)}; name one of these")
    if pivot in others:
        return pivot
    concepts = {lang: set(corpus.languages[lang].concepts.tolist()) for lang in split.langs}
    return max(others, key=lambda lang: min(len(concepts[lang] & concepts[a]) for a in pair))


def count_shared_concepts(training: Mapping[str, TokenisedTexts], a: str, b: str) -> int:
    """The number of concepts that two languages share in training."""
    return len(np.intersect1d(training[a].concepts, training[b].concepts))


def _mask(numbers: Ints, size: int) -> Mask:
    mask = np.zeros(size, bool)
    mask[numbers] = True
    return mask
