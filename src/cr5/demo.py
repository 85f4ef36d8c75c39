"""The main job on the built-in corpus: train, measure on concepts never seen, search."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cr5._typing import Ints
from cr5.corpus import Document, read
from cr5.encyclopedia import FOLDER
from cr5.evaluate.baselines import shared_tokens
from cr5.evaluate.retrieval import Direction, chance, mean_precision, retrieval
from cr5.model import Cr5
from cr5.neighbours import search
from cr5.progress import Progress, Report, silent

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


@dataclass(frozen=True)
class Trial:
    """One split: precision of the model and of the floor on concepts that were kept out of training."""

    seed: int
    model: list[Direction]
    floor: list[Direction]

    def to_json(self) -> dict[str, Any]:
        """Plain values, the means first."""
        return {
            "seed": self.seed,
            "p1_cosine": mean_precision(self.model, "cosine"),
            "p1_csls": mean_precision(self.model, "csls"),
            "p1_floor": mean_precision(self.floor, "cosine"),
            "p1_floor_csls": mean_precision(self.floor, "csls"),
            "chance": chance(self.model),
            "directions": [direction.to_json() for direction in self.model],
            "floor": [direction.to_json() for direction in self.floor],
        }


def means(trials: Sequence[Trial]) -> dict[str, float]:
    """The mean P@1 of several trials, and what they are to be compared with."""
    names = ("p1_cosine", "p1_csls", "p1_floor", "p1_floor_csls", "chance")
    return {name: float(np.mean([trial.to_json()[name] for trial in trials])) for name in names}


@dataclass(frozen=True)
class Hit:
    """A document that a search found."""

    lang: str
    title: str
    score: float


def encyclopedia() -> list[Document]:
    """The built-in corpus."""
    return list(read(FOLDER))


def split(documents: Sequence[Document], held_out: int, seed: int) -> tuple[list[Document], list[Document]]:
    """Documents to train on, and the documents of ``held_out`` concepts that training never sees."""
    concepts = sorted({document.concept for document in documents})
    chosen = set(np.random.default_rng(seed).permutation(concepts)[:held_out].tolist())
    return [d for d in documents if d.concept not in chosen], [d for d in documents if d.concept in chosen]


def trial(
    documents: Sequence[Document], seed: int, ridge: float | str = "auto", held_out: int = HELD_OUT
) -> tuple[Trial, Cr5]:
    """Train without some concepts, and see how well their documents find each other."""
    training, test = split(documents, held_out, seed)
    model = Cr5(ridge=ridge, seed=seed, **SETTINGS).fit(training)
    names = sorted({document.concept for document in test})
    texts = {lang: [d.text for d in test if d.lang == lang] for lang in model.langs}
    concepts: dict[str, Ints] = {
        lang: np.array([names.index(d.concept) for d in test if d.lang == lang]) for lang in model.langs
    }
    floor = shared_tokens({lang: [d.text for d in training if d.lang == lang] for lang in model.langs}, texts)
    vectors = {lang: model.encode(texts[lang], lang) for lang in model.langs}
    return Trial(seed, retrieval(vectors, concepts), retrieval(floor, concepts)), model


def trials(documents: Sequence[Document], seeds: int = SEEDS, progress: Report = silent) -> tuple[list[Trial], Cr5]:
    """Several splits; the first chooses the ridge, on its own training concepts, for all of them."""
    first, model = trial(documents, 0)
    found = [first]
    for seed in range(1, seeds):
        progress(Progress("measure on held-out concepts", seed, seeds, f"split {seed + 1}"))
        found.append(trial(documents, seed, model.report["ridge"])[0])
    return found, model


def find(model: Cr5, documents: Sequence[Document], text: str, lang: str, k: int = 1) -> list[Hit]:
    """The k best documents of every other language."""
    query = model.encode([text], lang)
    hits = []
    for target in model.langs:
        if target == lang:
            continue
        there = [document for document in documents if document.lang == target]
        ranking = search(query, model.encode([d.text for d in there], target), k)
        pairs = zip(ranking.indices[0], ranking.scores[0], strict=True)
        hits += [Hit(target, there[i].title, float(score)) for i, score in pairs]
    return hits
