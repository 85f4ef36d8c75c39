"""The demo: train on the built-in encyclopedia, evaluate on held-out concepts, and search."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from cr5.corpus.documents import Document, in_batches
from cr5.corpus.reading import read
from cr5.data import FOLDER
from cr5.evaluate.runs import Run
from cr5.evaluate.splits import PairQueries, Split
from cr5.evaluate.systems.registry import SYSTEMS, make_systems
from cr5.evaluate.tasks.documents import evaluate_documents, hold_out
from cr5.evaluate.texts import EvaluationCorpus, read_texts
from cr5.model import Cr5
from cr5.progress import Progress, ProgressCallback, silent
from cr5.retrieval.top_k import search
from cr5.settings import settings

SETTINGS: dict[str, Any] = {"rank": 200, "min_documents": 2}
"""For a small corpus: fewer dimensions, and a vocabulary of words that occur in two documents or more."""

HELD_OUT = 64  # concepts
SEEDS = 5  # random splits
QUERIES = (
    ("vi", "chó"),
    ("it", "montagna da cui escono lava e cenere"),
    ("da", "ost og mælk fra køer"),
    ("en", "fever caused by a mosquito bite"),
)
MODEL, BASELINE = SYSTEMS["cr5"].name, SYSTEMS["floor"].name


@dataclass(frozen=True)
class SearchResult:
    """A document that a search found."""

    lang: str
    title: str
    score: float


def encyclopedia() -> list[Document]:
    """The built-in corpus."""
    return list(read(FOLDER))


def draw_split(corpus: EvaluationCorpus, seed: int, held_out: int = HELD_OUT) -> Split:
    """Hold out some concepts; each is a query and a candidate in every language."""
    langs = list(corpus.languages)
    names = sorted(np.random.default_rng(seed).permutation(corpus.concepts)[:held_out].tolist())
    pairs = [PairQueries((a, b), names, []) for a, b in combinations(langs, 2)]
    return Split(corpus.digest, seed, 0, 10**9, langs, pairs, dict.fromkeys(langs, names))


def trial(corpus: EvaluationCorpus, seed: int, ridge: float | str = "auto") -> Run:
    """Train the model and the shared-token baseline without some concepts, and evaluate on the documents of these."""
    chosen = settings(ridge=ridge, seed=seed, **SETTINGS)
    held_out = hold_out(corpus, draw_split(corpus, seed))
    systems = make_systems([SYSTEMS["cr5"], SYSTEMS["floor"]], chosen, {})
    return evaluate_documents(held_out, systems, title="the built-in encyclopedia", rank=chosen.rank, seed=seed)


def trials(documents: Sequence[Document], seeds: int = SEEDS, progress: ProgressCallback = silent) -> list[Run]:
    """Evaluate on several splits; the ridge is chosen on the training concepts of the first."""
    corpus = read_texts(in_batches(documents), settings().tokeniser)
    runs = [trial(corpus, 0)]
    for seed in range(1, seeds):
        progress(Progress("measure on held-out concepts", seed, seeds, f"split {seed + 1}"))
        runs.append(trial(corpus, seed, runs[0].trained[0].report["ridge"]))
    return runs


def figures(run: Run) -> dict[str, float]:
    """The mean P@1 of model and baseline over all directions, in percent, and that of random guessing."""
    found = {(mean.system, mean.measure): mean.precision[1] for mean in run.means()}
    return {
        "p1_cosine": found[MODEL, "cosine"],
        "p1_csls": found[MODEL, "csls"],
        "p1_floor": found[BASELINE, "cosine"],
        "p1_floor_csls": found[BASELINE, "csls"],
        "chance": float(np.mean([100 / score.candidates for score in run.scores])),
    }


def means(runs: Sequence[Run]) -> dict[str, float]:
    """The means of these figures over several runs."""
    each = [figures(run) for run in runs]
    return {name: float(np.mean([one[name] for one in each])) for name in each[0]}


def search_documents(model: Cr5, documents: Sequence[Document], text: str, lang: str, k: int = 1) -> list[SearchResult]:
    """The k best documents in every other language."""
    query = model.encode([text], lang)
    results = []
    for target in model.langs:
        if target == lang:
            continue
        candidates = [document for document in documents if document.lang == target]
        ranking = search(query, model.encode([document.text for document in candidates], target), k)
        best = zip(ranking.indices[0], ranking.scores[0], strict=True)
        results += [SearchResult(target, candidates[i].title, float(score)) for i, score in best]
    return results
