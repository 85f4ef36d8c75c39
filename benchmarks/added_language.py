"""How good is a language that is added to a model, beside one that was trained with the others? Prints JSON lines.

python benchmarks/added_language.py ../shared/data --corpora msdocs libreoffice-help

A fifth of the concepts is held out. One model trains on all languages; then each language is left out in turn, a model
trains on the others, and the language is added to it: with the concept targets that the model has ("targets"; once with
the ridge of the model, once with one chosen for the language), or with the documents in the other languages
("documents"). P@1 in percent by CSLS of the vectors alone, from and to that language, pair by pair, on validation
concepts (one half of those held out) and test concepts. "products" are columns that X or its transpose of one language
was multiplied with, and "cpu_seconds" of the process are comparable within a line.
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from cr5 import Cr5
from cr5.corpus.documents import Document
from cr5.errors import Cr5Warning
from data import counterpart_ranks, say
from short_texts import HELD_OUT, Source, documents

EVERYTHING = 10**6  # more than any corpus has concepts
CORPORA = {
    "msdocs": Source("msdocs", ("en", "it", "da", "vi", "de", "ja"), EVERYTHING),
    "libreoffice-help": Source("libreoffice-help", ("en", "it", "da", "vi", "de", "tr"), EVERYTHING),
    "speeches": Source("europarl-speeches", ("en", "it", "de"), 6_000, comparable=True),
}


def split(everything: list[Document], seed: int) -> tuple[list[Document], list[Document], set[str]]:
    """Documents to train on, held-out ones, and the validation concepts."""
    langs: dict[str, set[str]] = {}
    for document in everything:
        langs.setdefault(document.concept, set()).add(document.lang)
    shared = sorted(concept for concept, found in langs.items() if len(found) > 1)
    held = np.random.default_rng([seed, 7]).permutation(np.array(shared, object))[: int(HELD_OUT * len(shared))]
    training = [document for document in everything if document.concept not in set(held)]
    return training, [document for document in everything if document.concept in set(held)], set(held[::2])


def precision(model: Cr5, new: str, test: list[Document], validation: set[str]) -> dict[str, dict[str, float]]:
    """P@1 of every direction from and to a language, of validation and test concepts."""
    names, vectors = {}, {}
    for lang in model.langs:
        own = [document for document in test if document.lang == lang]
        names[lang] = np.array([document.concept for document in own])
        vectors[lang] = model.encode([document.text for document in own], lang)
    found: dict[str, dict[str, float]] = {"validation": {}, "test": {}}
    for other in model.langs:
        for a, b in ((new, other), (other, new)):
            if a != b:
                asked = np.isin(names[a], names[b])
                numbers = [np.searchsorted(np.unique(test_names(test)), n) for n in (names[a][asked], names[b])]
                ranks = counterpart_ranks(vectors[a][asked], numbers[0], vectors[b], numbers[1], measure="csls")
                is_validation = np.isin(names[a][asked], list(validation))
                for half, chosen in (("validation", is_validation), ("test", ~is_validation)):
                    found[half][f"{a}-{b}"] = round(100 * float((ranks[chosen] == 1).mean()), 2)
    return found


def test_names(test: list[Document]) -> Any:
    return np.array([document.concept for document in test])


def lines(data: Path, name: str, seed: int) -> Iterator[dict[str, Any]]:
    """One line for each language."""
    training, test, validation = split(list(documents(data, CORPORA[name])), seed)
    began = time.process_time()
    joint = Cr5().fit(training)
    joint_seconds = time.process_time() - began
    say(f"{name}: joint, ridge {joint.report['ridge']:g}, {joint_seconds:.0f} s")
    for new in joint.langs:
        others = [document for document in training if document.lang != new]
        own = [document for document in training if document.lang == new]
        model = Cr5().fit(others, extendable=True)
        without = Cr5.__new__(Cr5)
        without.__setstate__(model.__getstate__() | {"targets": None})
        scores = {"joint": precision(joint, new, test, validation)}
        facts: dict[str, Any] = {}
        for label, base, given, ridge in (
            ("targets", deepcopy(model), own, None),
            ("targets, ridge chosen", deepcopy(model), own, "auto"),
            ("documents", without, training, None),
        ):
            began = time.process_time()
            base.add_language(given, new, ridge=ridge)
            added = base.report["added_languages"][new]
            facts[label] = {key: added[key] for key in ("ridge", "steps", "products", "concepts")}
            facts[label]["cpu_seconds"] = round(time.process_time() - began, 1)
            scores[label] = precision(base, new, test, validation)
        reference = scores["joint"]
        gains = {
            label: {
                half: {
                    "mean": round(float(np.mean([v - reference[half][pair] for pair, v in by_pair.items()])), 2),
                    "worst": round(min(v - reference[half][pair] for pair, v in by_pair.items()), 2),
                }
                for half, by_pair in score.items()
            }
            for label, score in scores.items()
            if label != "joint"
        }
        say(f"{name}, {new}: {gains} {facts}")
        yield {
            "benchmark": "added language",
            "corpus": name,
            "seed": seed,
            "lang": new,
            "documents": len(own),
            "targets": model.report["concept_targets"],
            "ridges": {"joint": joint.report["ridge"], "without the language": model.report["ridge"]},
            "joint_cpu_seconds": round(joint_seconds, 1),
            "added": facts,
            "gains": gains,
            "precision": scores,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with the corpora")
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore", Cr5Warning)
    for name in given.corpora:
        for line in lines(given.data, name, given.seed):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
