"""The main job on the built-in corpus: train, measure on concepts never seen, search."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from cr5.corpus.documents import Document, batches, read
from cr5.data import FOLDER
from cr5.evaluate.runs import Run
from cr5.evaluate.splits import LanguagePair, Split
from cr5.evaluate.systems.baselines import shared_tokens
from cr5.evaluate.systems.own import cr5_system
from cr5.evaluate.tasks.documents import evaluate_documents, hold_out
from cr5.evaluate.texts import EvaluationCorpus, read_texts
from cr5.model import Cr5
from cr5.progress import Progress, ProgressCallback, silent
from cr5.retrieval.top_k import search
from cr5.settings import settings

SETTINGS: dict[str, Any] = {"rank": 200, "min_documents": 2}
"""A small corpus: fewer dimensions, and a word counts from its second document on."""

HELD_OUT = 64
SEEDS = 5
QUERIES = (
    ("vi", "chó"),
    ("it", "montagna da cui escono lava e cenere"),
    ("da", "ost og mælk fra køer"),
    ("en", "fever caused by a mosquito bite"),
)


MODEL, FLOOR = "cr5", "shared tokens (floor)"


def figures(run: Run) -> dict[str, float]:
    """The mean P@1 of model and floor over all directions, in percent, and what guessing would score."""
    found = {(mean.system, mean.measure): mean.precision[1] for mean in run.means()}
    return {
        "p1_cosine": found[MODEL, "cosine"],
        "p1_csls": found[MODEL, "csls"],
        "p1_floor": found[FLOOR, "cosine"],
        "p1_floor_csls": found[FLOOR, "csls"],
        "chance": float(np.mean([100 / score.candidates for score in run.scores])),
    }


def means(runs: Sequence[Run]) -> dict[str, float]:
    """The same figures, over several splits."""
    each = [figures(run) for run in runs]
    return {name: float(np.mean([one[name] for one in each])) for name in each[0]}


@dataclass(frozen=True)
class SearchResult:
    """A document that a search found."""

    lang: str
    title: str
    score: float


def encyclopedia() -> list[Document]:
    """The built-in corpus."""
    return list(read(FOLDER))


def split(material: EvaluationCorpus, seed: int, held_out: int = HELD_OUT) -> Split:
    """Some concepts, all of them asked about and all of them candidates; training never sees them."""
    langs = list(material.languages)
    names = sorted(np.random.default_rng(seed).permutation(material.concepts)[:held_out].tolist())
    pairs = [LanguagePair((a, b), names, []) for a, b in combinations(langs, 2)]
    return Split(material.digest, seed, 0, 10**9, langs, pairs, dict.fromkeys(langs, names))


def trial(material: EvaluationCorpus, seed: int, ridge: float | str = "auto") -> Run:
    """Train without some concepts, and see how well their documents find each other."""
    chosen = settings(ridge=ridge, seed=seed, **SETTINGS)
    systems = {MODEL: cr5_system(chosen), FLOOR: shared_tokens}
    asked = hold_out(material, split(material, seed))
    return evaluate_documents(asked, systems, title="the built-in encyclopedia", rank=chosen.rank, seed=seed)


def trials(documents: Sequence[Document], seeds: int = SEEDS, progress: ProgressCallback = silent) -> list[Run]:
    """Several splits; the first chooses the ridge, on its own training concepts, for all of them."""
    material = read_texts(batches(documents), settings().tokeniser)
    found = [trial(material, 0)]
    for seed in range(1, seeds):
        progress(Progress("measure on held-out concepts", seed, seeds, f"split {seed + 1}"))
        found.append(trial(material, seed, found[0].trained[0].report["ridge"]))
    return found


def find(model: Cr5, documents: Sequence[Document], text: str, lang: str, k: int = 1) -> list[SearchResult]:
    """The k best documents of every other language."""
    query = model.encode([text], lang)
    hits = []
    for target in model.langs:
        if target == lang:
            continue
        there = [document for document in documents if document.lang == target]
        ranking = search(query, model.encode([d.text for d in there], target), k)
        pairs = zip(ranking.indices[0], ranking.scores[0], strict=True)
        hits += [SearchResult(target, there[i].title, float(score)) for i, score in pairs]
    return hits
