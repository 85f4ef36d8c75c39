"""The demo: train on the built-in encyclopedia, evaluate on held-out concepts, and search."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from cr5 import __version__
from cr5.corpus.documents import Document
from cr5.corpus.inputs import in_batches
from cr5.corpus.reading import read
from cr5.data import BUILTIN
from cr5.evaluate.runs import Run
from cr5.evaluate.splits import PairQueries, Split
from cr5.evaluate.systems.registry import SYSTEMS, make_systems
from cr5.evaluate.tasks.documents import evaluate_documents, hold_out
from cr5.evaluate.texts import EvaluationCorpus, read_texts
from cr5.model import Cr5
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.retrieval.top_k import nearest
from cr5.settings import make_settings

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
MODEL_NAME, DENSE_NAME, BASELINE_NAME = (SYSTEMS[key].name for key in ("cr5", "cr5-dense", "shared-tokens"))


@dataclass(frozen=True)
class ArticleMatch:
    """The article of a language that a search ranks first."""

    lang: str
    title: str
    score: float


@dataclass(frozen=True)
class Demo:
    """What the demo computed: the trials on held-out concepts, a model of all documents, and its searches."""

    documents: list[Document]
    runs: list[Run]
    model: Cr5
    searches: list[tuple[str, str, list[ArticleMatch]]]
    seconds: float

    @property
    def mean(self) -> dict[str, float]:
        """The mean of every figure over the trials."""
        return mean_precision(self.runs)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        first, fit = self.runs[0].trained[0].report, self.model.report
        trials = [
            {"seed": seed} | precision_at_1(run) | {"scores": [score.to_json() for score in run.scores]}
            for seed, run in enumerate(self.runs)
        ]
        return {
            "version": __version__,
            "documents": len(self.documents),
            "held_out": HELD_OUT,
            "seeds": len(self.runs),
            "settings": self.model.settings.to_json(),
            "ridge": first["ridge"],
            "ridge_path": first["ridge_path"],
            "mean": self.mean,
            "trials": trials,
            "fit": {key: fit[key] for key in ("energy", "residual", "steps", "products", "seconds", "converged")},
            "searches": [
                {"lang": lang, "query": text, "hits": [asdict(hit) for hit in hits]}
                for lang, text, hits in self.searches
            ],
            "seconds": self.seconds,
        }


def run_demo(seeds: int = SEEDS, progress: ProgressCallback = no_progress) -> Demo:
    """Evaluate on held-out concepts, train on all documents with the choices of the first trial, and search."""
    start = time.perf_counter()
    documents = encyclopedia()
    runs = evaluate_splits(documents, seeds, progress)
    model = Cr5(**_chosen(runs[0]), **SETTINGS).fit(documents, progress=progress)
    searches = [(lang, text, search_documents(model, documents, text, lang)) for lang, text in QUERIES]
    return Demo(documents, runs, model, searches, time.perf_counter() - start)


def encyclopedia() -> list[Document]:
    """The built-in corpus."""
    return list(read(BUILTIN))


def draw_split(corpus: EvaluationCorpus, seed: int) -> Split:
    """Hold out some concepts; each is a query and a candidate in every language."""
    langs = list(corpus.languages)
    concepts = sorted(np.random.default_rng(seed).permutation(corpus.concepts)[:HELD_OUT].tolist())
    return Split(
        corpus=corpus.digest,
        seed=seed,
        min_unique=0,
        max_unique=10**9,
        langs=langs,
        pairs=[PairQueries((a, b), concepts, []) for a, b in combinations(langs, 2)],
        candidates=dict.fromkeys(langs, concepts),
    )


def evaluate_split(corpus: EvaluationCorpus, seed: int, **chosen: Any) -> Run:
    """Train without some concepts, and evaluate on the documents of these: all views, vectors alone, shared tokens."""
    settings = make_settings(seed=seed, **SETTINGS, **chosen)
    held_out = hold_out(corpus, draw_split(corpus, seed))
    systems = make_systems([SYSTEMS[key] for key in ("cr5", "cr5-dense", "shared-tokens")], settings, {})
    return evaluate_documents(
        held_out, systems, title="the built-in encyclopedia", rank=settings.nominal_rank, seed=seed
    )


def evaluate_splits(
    documents: Sequence[Document], seeds: int = SEEDS, progress: ProgressCallback = no_progress
) -> list[Run]:
    """Evaluate on several splits; ridge and weight of strings are chosen on the training concepts of the first."""
    corpus = read_texts(in_batches(documents), make_settings().tokeniser)
    runs = [evaluate_split(corpus, 0)]
    for seed in range(1, seeds):
        progress(Progress("measure on held-out concepts", seed, seeds, f"split {seed + 1}"))
        runs.append(evaluate_split(corpus, seed, **_chosen(runs[0])))
    return runs


def _chosen(run: Run) -> dict[str, Any]:
    """The settings that the training of a trial chose."""
    report = run.trained[0].report
    return {"ridge": report["ridge"], "strings_weight": report["view_weights"]["strings"]}


def precision_at_1(run: Run) -> dict[str, float]:
    """The mean P@1 over all directions, in percent, of model, vectors alone, baseline and random guessing."""
    precision = {(mean.system, mean.measure): mean.precision[1] for mean in run.means()}
    return {
        "p1_cosine": precision[MODEL_NAME, "cosine"],
        "p1_csls": precision[MODEL_NAME, "csls"],
        "p1_dense_cosine": precision[DENSE_NAME, "cosine"],
        "p1_dense_csls": precision[DENSE_NAME, "csls"],
        "p1_baseline": precision[BASELINE_NAME, "cosine"],
        "p1_baseline_csls": precision[BASELINE_NAME, "csls"],
        "chance": float(np.mean([100 / score.candidates for score in run.scores])),
    }


def mean_precision(runs: Sequence[Run]) -> dict[str, float]:
    """The means of ``precision_at_1`` over several runs."""
    precisions = [precision_at_1(run) for run in runs]
    return {name: float(np.mean([precision[name] for precision in precisions])) for name in precisions[0]}


def search_documents(model: Cr5, documents: Sequence[Document], text: str, lang: str) -> list[ArticleMatch]:
    """The best document in every other language."""
    query = model.encode([text], lang)
    matches = []
    for target in model.langs:
        if target != lang:
            candidates = [document for document in documents if document.lang == target]
            ranking = nearest(query, model.encode([document.text for document in candidates], target), 1)
            best = candidates[ranking.indices[0, 0]]
            matches.append(ArticleMatch(target, best.title, float(ranking.scores[0, 0])))
    return matches
