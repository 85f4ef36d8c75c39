"""One fit at the paper's scale, on a made-up corpus. Prints one JSON object.

python benchmarks/paper_scale.py --memory 8GB

1.3 million documents of 650,000 concepts in 4 languages of 200,000 words each: 195 million nonzeros,
as many as the paper's four languages have. ``--memory`` is what the engine may use for its blocks.
"""

import argparse
import json
import time
from pathlib import Path

from cr5 import __version__, reduced_rank_ridge
from cr5.cli.options import parse_bytes
from cr5.machine import available_cores
from cr5.progress import Progress
from cr5.training.engines.cpu import CpuEngine
from cr5.training.solver import solve
from data import first, peak_gb, say, synthetic


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1_300_000)
    parser.add_argument("--words", type=int, default=200_000, help="of every language")
    parser.add_argument("--languages", type=int, default=4)
    parser.add_argument("--rank", type=int, default=300)
    parser.add_argument("--ridge", type=float, default=3.0)
    parser.add_argument("--memory", type=parse_bytes, help="what the fit may use, like 4GB; by default all there is")
    parser.add_argument("--scratch", type=Path, help="folder for what exceeds the memory; it needs 20 GB and more")
    given = parser.parse_args()
    began = time.perf_counter()
    blocks, concepts = synthetic(given.documents, languages=given.languages, words=given.words)
    made = time.perf_counter() - began
    nonzeros = sum(int(X.nnz) for X in blocks.values())
    say(f"made up {nonzeros:,} nonzeros in {made:.1f} s, {peak_gb():.2f} GB")
    small = first(blocks, concepts, 500)
    reduced_rank_ridge(small[0], small[1], rank=20, ridge=given.ridge)  # compiles
    began = time.perf_counter()

    def report(progress: Progress) -> None:
        say(f"{time.perf_counter() - began:.1f} s: step {progress.done:g}, {progress.note}, {peak_gb():.2f} GB")

    engine = CpuEngine(memory=given.memory, scratch_folder=given.scratch)
    for lang in list(blocks):
        engine.put(lang, blocks.pop(lang), concepts[lang])
    fit = solve(engine, rank=given.rank, ridge=given.ridge, progress=report)
    fitted = time.perf_counter() - began
    result = {
        "benchmark": "paper_scale",
        "signature": f"made up|{given.documents} documents|{given.languages} languages|{given.words} words each|"
        f"rank {given.rank}|ridge {given.ridge:g}|memory {given.memory or 'default'}|"
        f"{available_cores()} threads|cr5 {__version__}",
        "nonzeros": nonzeros,
        "seconds_generating": made,
        "seconds_fitting": fitted,
        "steps": fit.steps,
        "products": fit.products,
        "energy": fit.energy,
        "residual": fit.residual,
        "converged": fit.converged,
        "peak_gb": peak_gb(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
