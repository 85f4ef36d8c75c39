"""Held-out document retrieval on Europarl speeches, comparable or parallel. Prints one JSON object.

python benchmarks/europarl.py ../shared/data/europarl-speeches --variant comparable --preset default

Speeches with 50 to 1,000 different words in every language; 60 % of them train, the others are the
candidates; 1,000 of these are the queries of the test, 1,000 others those of the validation
(``--queries validation``, what settings are chosen on). No trained document is ever a candidate.
"""

import argparse
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from cr5 import Cr5, Document, __version__
from cr5.evaluate.baselines import shared_tokens
from cr5.evaluate.retrieval import mean_precision, retrieval
from cr5.features import count
from cr5.text import Tokeniser


def speeches(folder: Path, langs: list[str], variant: str) -> tuple[list[str], dict[str, list[str]]]:
    """Concept names and texts; comparable: language i keeps paragraphs i, i + L, i + 2L, ..."""
    tables = {lang: pq.read_table(folder / f"{lang}.parquet") for lang in langs}
    names = tables[langs[0]]["concept"].to_pylist()
    texts = {}
    for i, lang in enumerate(langs):
        assert tables[lang]["concept"].to_pylist() == names
        texts[lang] = tables[lang]["text"].to_pylist()
        if variant == "comparable":
            texts[lang] = ["\n".join(text.split("\n")[i :: len(langs)]) for text in texts[lang]]
    return names, texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--langs", default="en,it,de")
    parser.add_argument("--variant", choices=["comparable", "parallel"], default="comparable")
    parser.add_argument("--preset", default="default")
    parser.add_argument("--speeches", type=int, default=20_000)
    parser.add_argument("--queries", choices=["test", "validation"], default="test")
    parser.add_argument("--split-seed", type=int, default=0)
    parser.add_argument("--floor", action="store_true", help="also score the shared-token floor")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=JSON", help="a setting, e.g. ridge=3")
    given = parser.parse_args()
    langs = given.langs.split(",")
    names, texts = speeches(given.folder, langs, given.variant)
    fitting = np.ones(len(names), bool)
    for lang in langs:
        for i in range(0, len(names), 2000):
            unique = count(texts[lang][i : i + 2000], lang, Tokeniser()).unique
            fitting[i : i + 2000] &= (unique >= 50) & (unique <= 1000)
    order = np.random.default_rng(given.split_seed).permutation(np.flatnonzero(fitting))[: given.speeches]
    training, candidates = np.split(order, [int(0.6 * len(order))])
    asked = candidates[1000:2000] if given.queries == "test" else candidates[:1000]
    model = Cr5(given.preset, **{k: json.loads(v) for k, v in (item.split("=") for item in given.set)})
    began = time.perf_counter()
    model.fit(Document(names[i], lang, texts[lang][i]) for lang in langs for i in training)
    trained = time.perf_counter()
    held_out = {lang: [texts[lang][i] for i in candidates] for lang in langs}
    vectors = {lang: model.encode(held_out[lang], lang) for lang in langs}
    encoded = time.perf_counter()
    scores = retrieval(vectors, dict.fromkeys(langs, candidates), asked)
    result = {
        "benchmark": "europarl",
        "signature": f"europarl-speeches {'-'.join(langs)}|{given.variant}|{len(training)} train|{len(candidates)} "
        f"candidates|{len(asked)} {given.queries} queries|split {given.split_seed}|preset {given.preset}"
        f"|{' '.join(given.set)}|rank {model.settings.rank}|ridge {model.report['ridge']:g}|cr5 {__version__}",
        "mean": {m: {f"P@{k}": mean_precision(scores, m, k) for k in (1, 5, 10)} for m in ("cosine", "csls")},
        "directions": [score.to_json() for score in scores],
        "ridge": model.report["ridge"],
        "ridge_path": model.report["ridge_path"],
        "energy": model.report["energy"],
        "residual": model.report["residual"],
        "steps": model.report["steps"],
        "nonzeros": sum(facts["nonzeros"] for facts in model.report["languages"].values()),
        "seconds": {
            "train": trained - began,
            "path": model.report["path_seconds"],
            "fit": model.report["seconds"],
            "encode": encoded - trained,
        },
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "linux" else 1e9),
    }
    if given.floor:
        floor = shared_tokens({lang: [texts[lang][i] for i in training] for lang in langs}, held_out)
        below = retrieval(floor, dict.fromkeys(langs, candidates), asked)
        result["floor"] = {f"P@{k}": mean_precision(below, "cosine", k) for k in (1, 5, 10)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
