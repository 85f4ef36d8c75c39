"""What subwords and views cost: training, encoding, size of a model, and scoring a hundred candidates.

python benchmarks/views.py ../shared/data/europarl-speeches/en.parquet ../shared/data/europarl-speeches/it.parquet

Trains with and without subwords in turns, each in a process of its own, then encodes texts of 8 words on one core with
both, and scores 100 candidates of one query by all views, by processor time. Prints one JSON object; ratios are with to
without.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any


def train(paths: list[str], limit: int, subwords: bool, folder: Path) -> dict[str, Any]:
    """Fit and save a model of the first documents of every file; seconds, and bytes needed, predicted and used."""
    import resource

    from cr5 import Cr5, read

    documents = [document for path in paths for _, document in zip(range(limit), read(path), strict=False)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, processor = time.perf_counter(), time.process_time()
    model = Cr5(subwords=subwords).fit(documents)
    seconds, processor = time.perf_counter() - began, time.process_time() - processor
    model.save(folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {
        "seconds": round(seconds, 2),
        "processor_seconds": round(processor, 2),
        "steps": model.report["steps"],
        "predicted_mb": model.report["memory_predicted"] // 2**20,
        "used_mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 2**10,
        "model_mb": round(size / 2**20, 1),
    }


def encode_rate(model: Any, texts: list[str], lang: str) -> float:
    """Texts a second of processor time, 1,024 at a time, median of 7 rounds."""
    rates = []
    for _ in range(7):
        began = time.process_time()
        for i in range(0, len(texts), 1024):
            model.encode(texts[i : i + 1024], lang)
        rates.append(len(texts) / (time.process_time() - began))
    return round(statistics.median(rates))


def score_milliseconds(model: Any, texts: dict[str, list[str]]) -> dict[str, float]:
    """Processor time: one query and 100 candidates by rows that are stored, and from text; two texts of 8 words."""
    from cr5.retrieval.top_k import search_views

    (source, queries), (target, candidates) = texts.items()
    counts, _ = model._counts(candidates[:400], target)
    some, _ = model._counts(queries[:50], source)
    views = model._languages.scorer().weighted_views(some, source, counts, target)
    times: dict[str, list[float]] = {"stored_rows": [], "from_text": [], "two_short_texts": []}
    for i in range(50):
        one = [replace(v, queries=v.queries[i : i + 1], candidates=v.candidates[:100]) for v in views]
        short = [" ".join(each[i].split()[:8]) for each in (queries, candidates)]
        began = time.process_time()
        search_views(one, 10)
        times["stored_rows"].append(time.process_time() - began)
        for name, pair in (("from_text", (queries[i], candidates[:100])), ("two_short_texts", short)):
            began = time.process_time()
            model.similarity(pair[0], source, pair[1], target)
            times[name].append(time.process_time() - began)
    return {name: round(1000 * statistics.median(values), 2) for name, values in times.items()}


def use(folders: dict[str, Path], paths: list[str]) -> dict[str, Any]:
    """Encoding and scoring, on one core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    from cr5 import Cr5, read

    models = {name: Cr5.load(folder) for name, folder in folders.items()}
    some = {}
    for path in paths[:2]:
        documents = [document for _, document in zip(range(4096), read(path), strict=False)]
        some[documents[0].lang] = [document.text for document in documents[-1000:]]
    lang = next(iter(some))
    short = [" ".join(text.split()[i : i + 8]) for text in some[lang] for i in range(0, 64, 8)]
    rates = {name: encode_rate(model, short, lang) for name, model in models.items()}
    return {"encode_per_second": rates, "score_100_ms": score_milliseconds(models["subwords"], some)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--documents", type=int, default=10**9, help="of each file")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--part", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.part:
        task = json.loads(chosen.part)
        folders = {name: Path(folder) for name, folder in task["folders"].items()}
        if task["do"] == "use":
            print(json.dumps(use(folders, chosen.paths)))
        else:
            print(json.dumps(train(chosen.paths, chosen.documents, task["do"] == "subwords", folders[task["do"]])))
        return
    with tempfile.TemporaryDirectory() as folder:
        folders = {name: str(Path(folder) / name) for name in ("subwords", "words")}

        def part(do: str) -> dict[str, Any]:
            arguments = [*chosen.paths, "--documents", str(chosen.documents)]
            task = json.dumps({"do": do, "folders": folders})
            command = [sys.executable, __file__, *arguments, "--part", task]
            result: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            return result

        fits = [
            {do: part(do) for do in order} for order in [("words", "subwords"), ("subwords", "words")][: chosen.rounds]
        ]
        ratios = {
            key: round(statistics.median(fit["subwords"][key] / fit["words"][key] for fit in fits), 2)
            for key in ("seconds", "processor_seconds", "model_mb")
        }
        print(json.dumps({"benchmark": "views", "fits": fits, "ratios": ratios, **part("use")}))


if __name__ == "__main__":
    main()
