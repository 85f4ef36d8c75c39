"""Which documents should train? Rules about their length, compared on corpora of long, short and mixed texts.

python benchmarks/short_texts.py ../shared/data --corpora sentences msdocs --seeds 0 1

A fifth of the concepts is held out: their documents, of whatever length, are queries and candidates. Every rule trains
on the other concepts with each ridge of a small grid; the ridge is chosen on one half of the held-out concepts, the
validation queries, and the test queries are the other half. Prints one JSON object per corpus and seed with P@1 in
percent by CSLS, mean of all directions: of all queries, of short ones (fewer than 50 different words), of long ones
(more than 1,000) and of the others.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from scipy.sparse import diags_array

from cr5._typing import Array, Ints, Sparse
from cr5.corpus.documents import Document
from cr5.corpus.inputs import in_batches
from cr5.corpus.reading import read
from cr5.features.tfidf import NO_LIMIT, Vocabulary
from cr5.model.language_encoder import LanguageEncoder
from cr5.settings import Settings, make_settings
from cr5.storage.language_map import LanguageMap
from cr5.training.counted_corpus import CountedCorpus, count_corpus
from cr5.training.engines import Engine
from cr5.training.pipeline import train
from cr5.training.selection import select_documents
from data import counterpart_ranks, say

RIDGES = (1.0, 3.0, 10.0)
RANK = 150
HELD_OUT = 0.2  # of the concepts
SHORT, LONG = 50, 1_000  # different words: the limits of the paper
JOINED = 12  # speeches of a day that make one long document


class Source(NamedTuple):
    """Where a corpus is, which of its languages and how many of its concepts are used."""

    folder: str
    langs: tuple[str, ...]
    most: int
    comparable: bool = False
    joined: bool = False


SOURCES = {
    "speeches": Source("europarl-speeches", ("en", "it"), 4_000, comparable=True),
    "speeches, some joined": Source("europarl-speeches", ("en", "it"), 8_000, comparable=True, joined=True),
    "sentences": Source("europarl-sentences", ("en", "it"), 6_000),
    "msdocs": Source("msdocs", ("en", "it", "vi"), 2_500),
    "libreoffice-help": Source("libreoffice-help", ("en", "it", "vi"), 3_000),
    "ddtp": Source("ddtp", ("en", "it", "de"), 4_000),
    "builtin": Source("", ("en", "it", "da", "vi"), 400),
}


class Rule(NamedTuple):
    """The least and the most different words of a training document, and the length below which it weighs less."""

    least: int
    most: int
    full_weight: int = 0


RULES = {
    "50 to 1,000 (paper)": Rule(SHORT, LONG),
    "1 to 1,000": Rule(1, LONG),
    "all": Rule(1, NO_LIMIT),
    "all, weighed": Rule(1, NO_LIMIT, SHORT),
}


@dataclass(frozen=True)
class WeighedCorpus(CountedCorpus):
    """Documents of u < ``full_weight`` different words have rows of length sqrt(u / full_weight) instead of 1."""

    full_weight: int = 0

    def load_into(
        self,
        engine: Engine,
        vocabularies: Mapping[str, Vocabulary],
        concept_numbers: Ints,
        subwords: Mapping[str, Sparse | None],
    ) -> None:
        for lang, documents in self.languages.items():
            weights = np.sqrt(np.minimum(documents.unique_words / max(self.full_weight, 1), 1)).astype(np.float32)
            X = (diags_array(weights) @ vocabularies[lang].transform(documents.local_counts)).tocsr()
            engine.put(lang, X, concept_numbers[documents.concepts], subwords[lang])


def documents(data: Path, source: Source) -> Iterator[Document]:
    """The texts of a corpus: of ``most`` concepts that two languages share, drawn at random."""
    if not source.folder:
        yield from read("builtin")
        return
    columns = dict(read_columns(data / source.folder, source.langs))
    known = [set(names) for names, _ in columns.values()]
    shared = sorted(name for name in set.union(*known) if sum(name in names for names in known) > 1)
    chosen = set(np.random.default_rng(0).permutation(np.array(shared, object))[: source.most].tolist())
    for i, (lang, (names, texts)) in enumerate(columns.items()):
        parts: dict[str, list[str]] = {}
        for name, text in zip(names, texts, strict=True):
            if name in chosen and text:
                part = "\n".join(text.split("\n")[i :: len(columns)]) if source.comparable else text
                parts.setdefault(_joined_name(name, parts) if source.joined else name, []).append(part)
        yield from (Document(name, lang, "\n".join(some)) for name, some in parts.items() if "".join(some).strip())


def read_columns(folder: Path, langs: tuple[str, ...]) -> Iterator[tuple[str, tuple[list[str], list[str]]]]:
    """Concepts and texts of every language."""
    for lang in langs:
        if folder.name == "europarl-sentences":
            [path] = folder.glob("*.parquet")
            table = pq.read_table(path)
            yield lang, ([str(name) for name in table["id"].to_pylist()], table[lang].to_pylist())
        else:
            table = pq.read_table(folder / f"{lang}.parquet")
            yield lang, (table["concept"].to_pylist(), table["text"].to_pylist())


def _joined_name(name: str, parts: Mapping[str, list[str]]) -> str:
    """On every second day, the speeches are one document for each ``JOINED`` of them."""
    day = name.split("/")[0]
    if sum(map(ord, day)) % 2:
        return name
    number = 0
    while len(parts.get(f"{day}, part {number}", ())) >= JOINED:
        number += 1
    return f"{day}, part {number}"


def split(corpus: CountedCorpus, seed: int) -> tuple[CountedCorpus, CountedCorpus, Ints]:
    """Training documents, held-out documents, and the numbers of the validation concepts among the held-out ones."""
    shared = np.flatnonzero((corpus.document_counts() > 0).sum(axis=1) > 1)
    held = np.random.default_rng([seed, 7]).permutation(shared)[: int(HELD_OUT * len(shared))]
    is_held = np.zeros(len(corpus.concepts), bool)
    is_held[held] = True
    training, test = (
        corpus.select_rows({lang: np.flatnonzero(mask[d.concepts]) for lang, d in corpus.languages.items()})
        for mask in (~is_held, is_held)
    )
    return training, test, held[::2]


def training_set(training: CountedCorpus, rule: Rule) -> tuple[int, ...]:
    """Equal for rules that keep the same documents with the same weights."""
    lengths = np.concatenate([documents.unique_words for documents in training.languages.values()])
    return int((lengths < rule.least).sum()), int((lengths > rule.most).sum()), int((lengths < rule.full_weight).sum())


def fit(training: CountedCorpus, rule: Rule, ridge: float) -> tuple[Settings, dict[str, LanguageMap], dict[str, Any]]:
    """A model by one rule; its rank is lowered where the rule leaves few concepts."""
    limits = {"min_unique": rule.least, "max_unique": rule.most}
    used = select_documents(training, make_settings(**limits).weighting).usage.concepts.used
    settings = make_settings(rank=max(1, min(RANK, used - 1)), ridge=ridge, **limits)
    corpus = WeighedCorpus(training.concepts, training.sources, training.languages, rule.full_weight)
    languages, report = train(corpus, settings)
    return settings, languages, report


def ranks_of(settings: Settings, languages: Mapping[str, LanguageMap], test: CountedCorpus) -> Iterator[Array]:
    """For every direction: concepts x 3, the concept, the different words and the rank of each query."""
    vectors = {}
    for lang, language in languages.items():
        vectors[lang] = LanguageEncoder(language, settings.weighting).vectors(test.languages[lang].local_counts)
    for a, b in permutations(test.languages, 2):
        source, target = test.languages[a], test.languages[b]
        asked = np.isin(source.concepts, target.concepts)
        concepts, words = source.concepts[asked], source.unique_words[asked]
        if a in vectors and b in vectors:
            ranks = counterpart_ranks(vectors[a][asked], concepts, vectors[b], target.concepts, measure="csls")
        else:  # a language that was left out finds nothing
            ranks = np.full(len(concepts), len(target) + 1)
        yield np.stack([concepts, words, ranks])


def precision(ranks: list[Array], queries: Ints) -> dict[str, float]:
    """P@1 in percent, mean of all directions, of queries of every length and by length."""
    limits = {"all": (0, NO_LIMIT), "short": (0, SHORT), "medium": (SHORT, LONG + 1), "long": (LONG + 1, NO_LIMIT)}
    found: dict[str, float] = {}
    for name, (least, most) in limits.items():
        values = []
        for concepts, words, rank in ranks:
            chosen = np.isin(concepts, queries) & (words >= least) & (words < most)
            if chosen.sum() >= 10:
                values.append(100 * float((rank[chosen] == 1).mean()))
        if values:
            found[name] = round(float(np.mean(values)), 2)
    return found


def measure(name: str, corpus: CountedCorpus, seed: int) -> dict[str, Any]:
    """P@1 of every rule, on test queries, with the ridge that is best for it on validation queries."""
    training, test, validation = split(corpus, seed)
    everything = np.unique(np.concatenate([d.concepts for d in test.languages.values()]))
    lengths = np.concatenate([d.unique_words for d in training.languages.values()])
    results: dict[str, Any] = {}
    seen: dict[tuple[int, ...], str] = {}
    for label, rule in RULES.items():
        same = seen.setdefault(training_set(training, rule), label)
        if same != label:
            results[label] = results[same]
            continue
        path = []
        for ridge in RIDGES:
            began = time.perf_counter()
            settings, languages, report = fit(training, rule, ridge)
            ranks = list(ranks_of(settings, languages, test))
            scores = [precision(ranks, queries) for queries in (validation, np.setdiff1d(everything, validation))]
            path.append((scores[0]["all"], ridge, scores, report))
            say(f"{name}, seed {seed}, {label}, ridge {ridge:g}: {scores[0]} ({time.perf_counter() - began:.1f} s)")
        _, ridge, scores, report = max(path, key=lambda point: point[:2])
        results[label] = {
            "ridge": ridge,
            "rank": report["rank"],
            "used": report["corpus"]["documents"]["used"],
            "validation": scores[0],
            "test": scores[1],
        }
    quantiles = np.quantile(lengths, (0.1, 0.5, 0.9)).tolist()
    facts = {"training": len(lengths), "different words (10, 50, 90 %)": quantiles, "queries": len(everything) // 2}
    return {"benchmark": "short texts", "corpus": name, "seed": seed} | facts | {"rules": results}


def run(
    measure: Callable[[str, CountedCorpus, int], dict[str, Any]], description: str | None, corpora: Sequence[str]
) -> None:
    """Measure the corpora and seeds that the command line names, one JSON line for each."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with the corpora")
    parser.add_argument("--corpora", nargs="+", choices=SOURCES, default=corpora)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    given = parser.parse_args()
    for name in given.corpora:
        corpus = count_corpus(in_batches(documents(given.data, SOURCES[name])), make_settings().tokeniser)
        for seed in given.seeds:
            print(json.dumps(measure(name, corpus, seed)), flush=True)


if __name__ == "__main__":
    run(measure, __doc__, list(SOURCES))
