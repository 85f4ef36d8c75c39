"""How the time of a fit grows with its data. Prints one JSON object per size, and one with the exponent.

python benchmarks/growth.py ../shared/data/europarl-speeches

Comparable English and Italian speeches, all of them training; without the folder the corpus is made
up. Seconds are the median of ``--repeats`` fits. The exponent is that of the nonzeros in the seconds, by least
squares over all sizes: 1 is linear.
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from cr5 import __version__, reduced_rank_ridge
from cr5.machine import available_cores
from data import Data, europarl, first, hold_out, say, synthetic

SIZES = (2_000, 4_000, 8_000, 16_000, 30_000)


def measure(data: Data, rank: int, ridge: float, repeats: int) -> dict[str, Any]:
    load = os.getloadavg()[0]  # what else runs: seconds of a busy machine say little
    seconds, fit = [], None
    for _ in range(repeats):
        began = time.perf_counter()
        fit = reduced_rank_ridge(data.blocks, data.concepts, rank=rank, ridge=ridge)
        seconds.append(time.perf_counter() - began)
    facts, middle = data.facts(), statistics.median(seconds)
    return {
        **facts,
        "seconds": middle,
        "seconds_all": seconds,
        "steps": fit.steps,
        "products": fit.products,
        "energy": fit.energy,
        "converged": fit.converged,
        "load": load,
        "seconds_per_million_nonzeros": middle / facts["nonzeros"] * 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="of europarl-speeches; without it the corpus is made up")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="speeches a language")
    parser.add_argument("--rank", type=int, default=300)
    parser.add_argument("--ridge", type=float, default=3.0)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    real = given.folder is not None and given.folder.exists()
    source = "europarl-speeches en-it|comparable" if real else "made up"
    signature = f"{source}|rank {given.rank}|ridge {given.ridge:g}|{available_cores()} threads|cr5 {__version__}"
    lines: list[dict[str, Any]] = []
    for size in given.sizes:
        if real:
            data = europarl(given.folder, most=size, train=1.0)
        else:
            data = hold_out(*synthetic(2 * size, languages=2, words=30_000), train=1.0)
        say(f"{source}: {data.facts()}")
        if not lines:  # compiles
            reduced_rank_ridge(*first(data.blocks, data.concepts, 500), rank=20, ridge=given.ridge)
        lines.append(measure(data, given.rank, given.ridge, given.repeats))
        print(json.dumps({"benchmark": "growth", "signature": signature, "speeches": size, **lines[-1]}), flush=True)
    if len(lines) > 1:
        nonzeros, seconds = (np.log([line[name] for line in lines]) for name in ("nonzeros", "seconds"))
        exponent = float(np.polyfit(nonzeros, seconds, 1)[0])
        print(json.dumps({"benchmark": "growth", "signature": signature, "exponent": exponent}))


if __name__ == "__main__":
    main()
