"""What quantised models cost: P@1 on held-out documents, sizes, and processor time of encoding beside float32.

python benchmarks/quantised.py ../shared/data builtin europarl-comparable

trains on half of the concepts of each corpus and finds the counterparts of a quarter of them, as
``benchmarks/similarity.py`` does, by the vectors and by all views, with CSLS. Prints one JSON object a corpus. Times
are processor time of one thread, measured in turns.
"""

import os
import statistics
import tempfile
import time
from itertools import combinations
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from data import measure_corpora
from similarity import LANGS, TEXTS, concepts_of, cosines, precision, weighted, with_csls

ROUNDS = 9
SHORT_TEXT_WORDS = 8


def train(concepts: list[dict[str, str]], name: str) -> Any:
    """A model of the first half of the concepts."""
    from cr5 import Cr5

    settings: dict[str, Any] = {"min_documents": 2} if name == "builtin" else {}
    half = concepts[: len(concepts) // 2]
    return Cr5(**settings).fit((str(i), lang, text) for i, texts in enumerate(half) for lang, text in texts.items())


def held_out(concepts: list[dict[str, str]], a: str, b: str) -> tuple[list[str], list[str]]:
    """The texts of the last quarter of the concepts in two languages."""
    both = [texts for texts in concepts[3 * len(concepts) // 4 :] if a in texts and b in texts][:TEXTS]
    return [texts[a] for texts in both], [texts[b] for texts in both]


def quality(model: Any, concepts: list[dict[str, str]]) -> dict[str, float]:
    """P@1 by CSLS of the vectors and of all views, mean of all pairs of languages and both directions."""
    found: dict[str, list[float]] = {"p1_vectors": [], "p1_all_views": []}
    for a, b in combinations(model.langs, 2):
        texts = held_out(concepts, a, b)
        views = {view: with_csls(each) for view, each in cosines(model, texts[0], a, texts[1], b).items()}
        deviations = {view: float(each.std()) for view, each in views.items()}
        found["p1_vectors"].append(precision(views["dense"]))
        found["p1_all_views"].append(precision(weighted(views, deviations)))
    return {name: round(statistics.mean(values), 2) for name, values in found.items()}


def ratios(models: dict[int, Any], texts: list[str], lang: str, batch: int) -> dict[int, float]:
    """The processor time of encoding the texts, as a multiple of that of float32: the median of several rounds."""
    seconds: dict[int, list[float]] = {bits: [] for bits in models}
    for _ in range(ROUNDS + 1):  # the first opens the languages
        for bits, model in models.items():
            began = time.process_time()
            for i in range(0, len(texts), batch):
                model.encode(texts[i : i + batch], lang)
            seconds[bits].append(time.process_time() - began)
    rounds = {bits: [a / b for a, b in zip(seconds[bits], seconds[32], strict=True)][1:] for bits in models}
    return {bits: round(statistics.median(each), 2) for bits, each in rounds.items()}


def measure(data: Path, name: str) -> dict[str, Any]:
    """The figures of one corpus."""
    from cr5 import Cr5

    concepts = concepts_of(data, name)
    trained = train(concepts, name)
    with tempfile.TemporaryDirectory() as folder:
        models = {}
        for bits in (32, 16, 8):
            made = trained if bits == 32 else trained.quantise(bits)
            made.save(Path(folder) / str(bits))
            models[bits] = Cr5.load(Path(folder) / str(bits))
        a, b = models[32].langs[:2]
        documents = held_out(concepts, a, b)[0]
        short = [" ".join(text.split()[:SHORT_TEXT_WORDS]) for text in documents]
        time_of = {
            "documents, batch 1024": ratios(models, documents, a, 1024),
            "8 words, batch 1024": ratios(models, short, a, 1024),
            "8 words, one at a time": ratios(models, short[:200], a, 1),
        }
        found = {
            bits: quality(model, concepts)
            | {"bytes": {lang: size.bytes for lang, size in model.sizes().items()}}
            | {"processor_time": {kind: each[bits] for kind, each in time_of.items()}}
            for bits, model in models.items()
        }
        return {"benchmark": "quantised", "corpus": name, "rank": trained.rank, "bits": found}


if __name__ == "__main__":
    measure_corpora(__doc__, measure, ["builtin", *LANGS])
