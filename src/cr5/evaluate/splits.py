"""A split: which concepts are asked about, which are candidates, which train. Made once, stored, shared.

Concepts are shuffled once. Every second one may become a test query, the others validation queries; each
pair of languages takes the first that both have, and each language takes the first that it has as
candidates. No concept that is query or candidate anywhere trains anything.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from cr5._typing import Ints, Mask
from cr5.errors import Cr5Error
from cr5.evaluate.runs import Regime, write_text
from cr5.evaluate.texts import EvaluationCorpus, TokenisedTexts

QueryRole: TypeAlias = Literal["test", "validation"]
MAX_QUERIES, MAX_QUERY_SHARE = (
    1000,
    0.1,
)  # of each role and pair: so many, but no larger a share of what the pair shares
MAX_CANDIDATES, MAX_CANDIDATE_SHARE = 200_000, 0.4  # for each language: so many, but no larger a share of what it has
MIN_QUERIES = 10  # queries that a pair must have to be asked
FORMAT = 1


@dataclass(frozen=True)
class LanguagePair:
    """Two languages and the concepts to ask about in both directions."""

    langs: tuple[str, str]
    test: list[str]
    validation: list[str]

    def queries(self, role: QueryRole) -> list[str]:
        """The concepts of one role."""
        return self.test if role == "test" else self.validation


@dataclass(frozen=True)
class Split:
    """Queries of every pair and candidates of every language, of documents with ``smallest`` to ``largest`` words."""

    corpus: str
    seed: int
    smallest: int
    largest: int
    langs: list[str]
    pairs: list[LanguagePair]
    candidates: dict[str, list[str]]
    candidates_train: bool = False

    @cached_property
    def held_out(self) -> frozenset[str]:
        """Concepts that no training may see: queries and, unless ``candidates_train``, candidates."""
        asked = [name for pair in self.pairs for name in (*pair.test, *pair.validation)]
        return frozenset(asked).union(*([] if self.candidates_train else self.candidates.values()))

    @cached_property
    def digest(self) -> str:
        """A few letters that stand for all of it, in whatever order the languages are named."""
        plain = self.to_json() | {"langs": sorted(self.langs)}
        plain["pairs"] = sorted(({**pair, "langs": sorted(pair["langs"])} for pair in plain["pairs"]), key=str)
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:8]

    def to_json(self) -> dict[str, Any]:
        """Plain values; concepts are named once and then numbered."""
        names = sorted(self.held_out.union(*self.candidates.values()))
        number = {name: i for i, name in enumerate(names)}
        return {
            "format": FORMAT,
            "corpus": self.corpus,
            "seed": self.seed,
            "smallest": self.smallest,
            "largest": self.largest,
            "langs": self.langs,
            "concepts": names,
            "pairs": [
                {
                    "langs": list(pair.langs),
                    "test": [number[name] for name in pair.test],
                    "validation": [number[name] for name in pair.validation],
                }
                for pair in self.pairs
            ],
            "candidates": {lang: [number[name] for name in names] for lang, names in self.candidates.items()},
            "candidates_train": self.candidates_train,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Split":
        """The split that ``to_json`` wrote."""
        names: list[str] = values["concepts"]
        pairs = [
            LanguagePair(
                (pair["langs"][0], pair["langs"][1]),
                [names[i] for i in pair["test"]],
                [names[i] for i in pair["validation"]],
            )
            for pair in values["pairs"]
        ]
        own = {k: v for k, v in values.items() if k not in ("format", "concepts")}
        candidates = {lang: [names[i] for i in chosen] for lang, chosen in values["candidates"].items()}
        return cls(**own | {"pairs": pairs, "candidates": candidates})

    def save(self, path: Path) -> None:
        """Write it to a file, as a whole or not at all."""
        if not path.parent.is_dir():
            raise Cr5Error(f"{path} cannot be written: there is no folder {path.parent}; make it first")
        write_text(path, json.dumps(self.to_json(), ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Split":
        """Read it from a file."""
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            form = values["format"]
            if form == FORMAT:
                return cls.from_json(values)
        except FileNotFoundError:
            raise Cr5Error(f"{path} does not exist; leave out --split to make a new one") from None
        except (AttributeError, ValueError, TypeError, KeyError, IndexError, IsADirectoryError) as error:
            raise Cr5Error(f"{path} is not a split of cr5 eval; leave out --split to make a new one") from error
        raise Cr5Error(f"{path} has the format {form}, this version reads {FORMAT}; make it anew")


def make_split(
    material: EvaluationCorpus,
    *,
    seed: int = 0,
    queries: int = MAX_QUERIES,
    candidates: int = MAX_CANDIDATES,
    smallest: int = 0,
    largest: int = 10**9,
    query_corpus: EvaluationCorpus | None = None,
    candidate_share: float = MAX_CANDIDATE_SHARE,
    candidates_train: bool = False,
) -> Split:
    """Draw queries and candidates from documents of ``smallest`` to ``largest`` different words.

    A pair has at most ``queries`` test queries and as many for validation, a language at most ``candidates``;
    and neither takes more than a share, so that a small corpus still has something to train on. Queries
    come from ``askable`` where it is given: the same concepts, fewer documents.
    """
    sized = material.sized(smallest, largest)
    langs = list(sized.languages)
    presence = {lang: _marked(texts.concepts, len(sized.concepts)) for lang, texts in sized.languages.items()}
    fit_to_ask = {
        lang: _marked(texts.concepts, len(sized.concepts)) & presence[lang]
        for lang, texts in (query_corpus or sized).languages.items()
    }
    order = np.random.default_rng(seed).permutation(len(sized.concepts))
    roles = {"test": order[::2], "validation": order[1::2]}
    pairs, asked = [], np.zeros(len(order), bool)
    for a, b in combinations(langs, 2):
        both = fit_to_ask[a] & fit_to_ask[b]
        size = min(queries, int(MAX_QUERY_SHARE * both.sum()))
        if size < MIN_QUERIES:
            continue
        chosen = {role: own[both[own]][:size] for role, own in roles.items()}
        for own in chosen.values():
            asked[own] = True
        names = {role: [sized.concepts[i] for i in own] for role, own in chosen.items()}
        pairs.append(LanguagePair((a, b), names["test"], names["validation"]))
    if not pairs:
        most = max((int((fit_to_ask[a] & fit_to_ask[b]).sum()) for a, b in combinations(langs, 2)), default=0)
        raise Cr5Error(
            "no two languages share enough documents that are neither too short nor too long to be asked about: "
            f"at most {most} concepts, and a tenth of them must be {MIN_QUERIES}; add documents, or widen the limits "
            "(min_unique, max_unique); comparable documents need a paragraph a line"
        )
    chosen_candidates = {}
    for lang, there in presence.items():
        own = order[there[order]]
        wanted = min(candidates, int(candidate_share * len(own)))
        first = own[asked[own]]  # what is asked about must be there to be found
        more = own[~asked[own]][: max(0, wanted - len(first))]
        chosen_candidates[lang] = [sized.concepts[i] for i in sorted([*first.tolist(), *more.tolist()])]
    return Split(material.digest, seed, smallest, largest, langs, pairs, chosen_candidates, candidates_train)


def training_rows(
    split: Split,
    material: EvaluationCorpus,
    regime: Regime,
    pair: tuple[str, str] | None = None,
    *,
    low_resource: int = 1000,
    bridge: str | None = None,
    drop_shared: bool = False,
) -> dict[str, Ints]:
    """The documents that a regime trains on, as rows of ``material`` by language; never a held-out concept.

    joint: all languages. pairwise: the two of a pair, what both have. low-resource: only ``cut`` concepts of
    that. transitive: the two share no concept, and each shares some with ``bridge``; concepts that both
    have are dealt out between them, or dropped, as in the paper, with ``deal`` off.
    """
    held_out = np.array([name in split.held_out for name in material.concepts], bool)
    free = {lang: _marked(texts.concepts, len(held_out)) & ~held_out for lang, texts in material.languages.items()}
    # The same shuffle in every language, apart from the one that made the split.
    order = np.random.default_rng([split.seed, 1]).permutation(len(held_out))
    if pair is None:
        kept = {lang: free[lang] for lang in split.langs}
    else:
        a, b = pair
        both = free[a] & free[b]
        if regime == "transitive":
            third = choose_bridge(split, material, pair, bridge)
            turn = np.zeros(len(order), bool)
            turn[order[both[order]][::2]] = not drop_shared
            other = both & ~turn & (not drop_shared)
            kept = {
                a: (free[a] & ~both) | turn,
                b: (free[b] & ~both) | other,
                third: free[third] & (~both | (not drop_shared)),
            }
        elif regime == "low-resource":
            few = _marked(order[both[order]][:low_resource], len(order))
            kept = {a: few, b: few}
        else:
            kept = {a: both, b: both}
    shared = np.sum(list(kept.values()), axis=0) > 1  # what one language has alone trains nothing
    return {lang: np.flatnonzero((there & shared)[material.languages[lang].concepts]) for lang, there in kept.items()}


def choose_bridge(split: Split, material: EvaluationCorpus, pair: tuple[str, str], wanted: str | None = None) -> str:
    """The third language: the wanted one unless it is of the pair, otherwise that which shares most with the two."""
    others = [lang for lang in split.langs if lang not in pair]
    if not others:
        raise Cr5Error("transitive training needs a third language as a bridge; give one more with --langs")
    if wanted is not None and wanted not in split.langs:
        raise Cr5Error(f"the bridge {wanted} is none of the languages {', '.join(split.langs)}; name one of these")
    if wanted in others:
        return wanted
    own = {lang: set(material.languages[lang].concepts.tolist()) for lang in split.langs}
    return max(others, key=lambda lang: min(len(own[lang] & own[a]) for a in pair))


def shared_concepts(training: Mapping[str, TokenisedTexts], a: str, b: str) -> int:
    """How many concepts two languages share in training."""
    return len(np.intersect1d(training[a].concepts, training[b].concepts))


def _marked(numbers: Ints, size: int) -> Mask:
    marks = np.zeros(size, bool)
    marks[numbers] = True
    return marks
