"""How many parallel sentences are found in two collections with distractors, beside the vectors alone.

python benchmarks/mining.py MODEL DATA [--seeds 0 1] [--candidates views]
python benchmarks/mining.py MODEL DATA --sizes 20000 50000 [--probes 0 32 64]

Collections: sentences of ``europarl-sentences`` (en-it), 3,000 parallel ones and 7,000 on each side whose translation
is not on the other side; and of ``tatoeba``, 250 parallel ones and 125 others on each side, in the languages of the
model. One half of the rows of a file is for validation, the other for test. The threshold is the one with the best F1
on validation sentences of the collection; the default is measured beside it. A pair counts as right if the file has it
anywhere. Prints one JSON object per collection and seed; with ``--sizes``, the processor time of every step and the
figures by exact search and by inverted lists, for so many sentences of Europarl a side, 30 % of them parallel.
"""

import argparse
import json
import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from cr5 import Cr5
from cr5.alignment.mining import MIN_SCORE, PROBES, ParallelSentences, mine
from cr5.progress import Progress

EVERYTHING = -10.0  # below every score
TATOEBA = {"ita": "it", "deu": "de", "dan": "da", "vie": "vi"}


class Collection(NamedTuple):
    """Sentences of two languages, and the pairs of texts that are translations."""

    langs: tuple[str, str]
    a: list[str]
    b: list[str]
    gold: set[tuple[str, str]]


def collection(
    langs: tuple[str, str],
    texts: tuple[Sequence[str], Sequence[str]],
    parallel: int,
    others: int,
    half: int | None,
    seed: int,
) -> Collection:
    """Sentences of every second row or of all: ``parallel`` on both sides and ``others`` on one, in random order."""
    random = np.random.default_rng([seed, half or 0])
    every = np.arange(len(texts[0])) if half is None else np.arange(half, len(texts[0]), 2)
    rows = random.permutation(every).tolist()
    chosen = rows[: parallel + others], rows[:parallel] + rows[parallel + others : parallel + 2 * others]
    a, b = ([texts[side][i] for i in random.permutation(chosen[side])] for side in (0, 1))
    present = {" ".join(text.split()) for text in a}, {" ".join(text.split()) for text in b}
    pairs = ((" ".join(x.split()), " ".join(y.split())) for x, y in zip(*texts, strict=True))
    return Collection(langs, a, b, {(x, y) for x, y in pairs if x in present[0] and y in present[1]})


def collections(data: Path, langs: Sequence[str], seed: int) -> Iterator[tuple[str, Collection, Collection]]:
    """The name of each collection, its validation and its test sentences."""
    if {"en", "it"} <= set(langs):
        table = pq.read_table(data / "europarl-sentences" / "en-it.parquet")
        texts = table["en"].to_pylist(), table["it"].to_pylist()
        parts = (collection(("en", "it"), texts, 3_000, 7_000, half, seed) for half in (0, 1))
        yield "europarl en-it", next(parts), next(parts)
    for code, lang in TATOEBA.items():
        if {"en", lang} <= set(langs):
            files = (data / "tatoeba" / f"{code}-eng.{side}" for side in ("eng", code))
            sides = [path.read_text(encoding="utf-8").splitlines() for path in files]
            parts = (collection(("en", lang), (sides[0], sides[1]), 250, 125, half, seed) for half in (0, 1))
            yield f"tatoeba en-{lang}", next(parts), next(parts)


def curve(found: Sequence[ParallelSentences], given: Collection) -> tuple[np.ndarray, np.ndarray]:
    """Scores, and precision, recall and F1 in percent if the pairs with this score or more are kept (3 x pairs)."""
    texts = [(" ".join(given.a[pair.a].split()), " ".join(given.b[pair.b].split())) for pair in found]
    right = np.cumsum([pair in given.gold for pair in texts])
    precision, recall = right / np.arange(1, len(found) + 1), right / len(given.gold)
    return np.array([pair.score for pair in found]), 100 * np.stack(
        [precision, recall, 2 * precision * recall / np.maximum(precision + recall, 1e-9)]
    )


def at(scores: np.ndarray, figures: np.ndarray, threshold: float) -> list[float]:
    """Precision, recall and F1 at a threshold."""
    kept = int((scores >= threshold).sum())
    return [round(float(figure), 1) for figure in figures[:, kept - 1]] if kept else [0.0, 0.0, 0.0]


def measure(model: Cr5, name: str, validation: Collection, test: Collection, candidates: Any) -> dict[str, Any]:
    """Precision, recall and F1 on test sentences, by all views and by the vectors alone."""
    sizes = [len(test.a), len(test.b)]
    result: dict[str, Any] = {"collection": name, "sentences": sizes, "parallel": len(test.gold)}
    result["candidates"] = candidates
    for system, rerank in (("all views", True), ("vectors", False)):
        by = candidates if rerank else "vectors"
        curves = [
            curve(
                mine(
                    model,
                    each.a,
                    each.langs[0],
                    each.b,
                    each.langs[1],
                    min_score=EVERYTHING,
                    rerank=rerank,
                    candidates=by,
                ),
                each,
            )
            for each in (validation, test)
        ]
        threshold = float(curves[0][0][curves[0][1][2].argmax()])
        result[system] = {
            "threshold": round(threshold, 3),
            "validation": at(*curves[0], threshold),
            "test": at(*curves[1], threshold),
        }
        if rerank:
            result[system]["validation by threshold"] = {
                f"{t:.1f}": at(*curves[0], t)[2] for t in np.arange(0.1, 0.9, 0.1).tolist()
            }
            result[system] |= {"default threshold": MIN_SCORE, "test at default": at(*curves[1], MIN_SCORE)}
    return result


def timed(model: Cr5, given: Collection, **options: Any) -> tuple[list[ParallelSentences], dict[str, Any]]:
    """The pairs, the processor seconds of every step, and the largest memory of the process so far."""
    seconds: dict[str, float] = {}
    last = [time.process_time()]

    def step(progress: Progress) -> None:
        now = time.process_time()
        seconds[progress.stage] = round(seconds.get(progress.stage, 0.0) + now - last[0], 2)
        last[0] = now

    found = mine(model, given.a, given.langs[0], given.b, given.langs[1], progress=step, **options)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return found, {"processor seconds": seconds, "peak GB": round(peak, 2)}


def compare_searches(model: Cr5, data: Path, size: int, probes: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Exact search and inverted lists, for so many sentences a side, 30 % of them parallel."""
    table = pq.read_table(data / "europarl-sentences" / "en-it.parquet")
    texts = table["en"].to_pylist(), table["it"].to_pylist()
    parallel = int(0.3 * size)
    given = collection(("en", "it"), texts, parallel, size - parallel, None, 0)
    mine(model, given.a[:100], "en", given.b[:100], "it")  # lexicons and kernels
    for number in probes:
        exact = {"exact_up_to": size} if not number else {"exact_up_to": 0, "probes": number}
        found, about = timed(model, given, min_score=EVERYTHING, **exact)
        scores, figures = curve(found, given)
        best = float(scores[figures[2].argmax()])
        result = {"sentences": size, "parallel": len(given.gold), "probes": number or "all (exact)"} | about
        yield result | {
            "best": at(scores, figures, best),
            "threshold": round(best, 2),
            "default": at(scores, figures, MIN_SCORE),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path, help="folder with the corpora")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--candidates", choices=["vectors", "views"], default="vectors")
    parser.add_argument("--sizes", type=int, nargs="+", default=[], metavar="SENTENCES")
    parser.add_argument("--probes", type=int, nargs="+", default=[0, PROBES], metavar="LISTS", help="0: exact search")
    given = parser.parse_args()
    model = Cr5.load(given.model)
    for size in given.sizes:
        for result in compare_searches(model, given.data, size, given.probes):
            print(json.dumps({"benchmark": "mining"} | result), flush=True)
    for seed in given.seeds if not given.sizes else []:
        for name, validation, test in collections(given.data, model.langs, seed):
            result = measure(model, name, validation, test, given.candidates)
            print(json.dumps({"benchmark": "mining", "seed": seed} | result), flush=True)


if __name__ == "__main__":
    main()
