"""Whether more cores and more Dask workers make a fit faster: strong scaling on a made-up corpus. Prints JSON lines.

python benchmarks/scaling.py --cores 1 2 4 8 16 --workers 1 2 4 8

One corpus of the size of the paper's four languages, 195.8 million nonzeros, is written to a folder. For each number of
cores, a process that is bound to them reads it; for each number of workers, the workers of a cluster with one thread
each. Every fit takes the same ``--steps`` after the start, so that all multiply as many columns. Binding needs Linux.
"""

# ruff: noqa: E402
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # as cr5 has it: before NumPy is imported

sys.path[:0] = [str(Path(__file__).parent.parent / name) for name in ("src", "benchmarks")]
try:
    import cr5
except ImportError:  # what reads and writes files may be missing here; engines and solver do without
    cr5 = ModuleType("cr5")
    cr5.__path__ = [str(Path(__file__).parent.parent / "src" / "cr5")]
    sys.modules["cr5"] = cr5

import numpy as np
from scipy.sparse import csr_array

from cr5.training.engines.cpu import CpuEngine
from cr5.training.solver import reduced_rank_ridge, solve
from data import first, peak_gb, say, synthetic

PARTS = "indptr", "indices", "data", "concepts"


def write_corpus(folder: Path, documents: int) -> None:
    """A file for every array of every language."""
    blocks, concepts = synthetic(documents)
    for lang, X in blocks.items():
        arrays = dict(zip(PARTS, (X.indptr, X.indices, X.data, concepts[lang]), strict=True))
        for name, array in arrays.items():
            np.save(folder / f"{lang}.{name}.npy", array)
    shapes = {lang: X.shape for lang, X in blocks.items()}
    (folder / "shapes.json").write_text(json.dumps(shapes))


def read_rows(folder: str, lang: str, begin: int, end: int, words: int) -> tuple[csr_array, Any]:
    """Some documents of a language and their concepts."""
    indptr, indices, data, concepts = (np.load(Path(folder) / f"{lang}.{name}.npy", mmap_mode="r") for name in PARTS)
    low, high = int(indptr[begin]), int(indptr[end])
    rows = np.array(indptr[begin : end + 1] - low)
    X = csr_array((np.array(data[low:high]), np.array(indices[low:high]), rows), shape=(end - begin, words))
    return X, np.array(concepts[begin:end])


def fit(engine: Any, options: dict[str, Any], **facts: Any) -> None:
    """One fit, timed from the first product on, when the data are where they are needed."""
    nonzeros = sum(block.nonzeros for block in engine.block_info())
    found = solve(engine, **options)
    line = {"seconds": found.seconds, "steps": found.steps, "energy": found.energy, "products": found.products}
    line["nonzeros"] = nonzeros
    named = {"benchmark": "scaling", "engine": type(engine).__name__, **facts}
    print(json.dumps(named | line | options | {"peak_gb": peak_gb()}), flush=True)


def on_cores(folder: Path, cores: list[int], options: dict[str, Any]) -> None:
    """A fit of this process, bound to some cores."""
    os.sched_setaffinity(0, cores)
    shapes = json.loads((folder / "shapes.json").read_text())
    corpus = {lang: read_rows(str(folder), lang, 0, rows, words) for lang, (rows, words) in shapes.items()}
    small = first(*({lang: part[i] for lang, part in corpus.items()} for i in range(2)), 500)  # type: ignore[arg-type]
    reduced_rank_ridge(*small, rank=20, ridge=1.0)  # compiles
    engine = CpuEngine()
    for lang in list(corpus):
        engine.put(lang, *corpus.pop(lang))
    fit(engine, options, cores=len(cores))


def on_workers(folder: Path, workers: int, shards: int, options: dict[str, Any]) -> None:
    """A fit on the worker processes of a cluster on this machine, one thread each."""
    from cr5.training.engines.dask import DaskEngine

    shapes = json.loads((folder / "shapes.json").read_text())
    began = time.perf_counter()
    with DaskEngine(workers=workers) as engine:
        for lang, (rows, words) in shapes.items():
            bounds = [rows * i // shards for i in range(shards + 1)]
            inputs = [(str(folder), lang, low, high, words) for low, high in pairwise(bounds)]
            engine.put_shards(lang, read_rows, inputs)
        engine.block_info()
        fit(engine, options, workers=workers, seconds_loading=time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=int, nargs="*", default=[])
    parser.add_argument("--workers", type=int, nargs="*", default=[])
    parser.add_argument("--documents", type=int, default=1_300_000)
    parser.add_argument("--steps", type=int, default=1, help="at most")
    parser.add_argument("--tol", type=float, default=0.0, help="where a fit ends before; 0: after all steps")
    parser.add_argument("--rank", type=int, default=300)
    parser.add_argument("--ridge", type=float, default=3.0)
    parser.add_argument("--shards", type=int, default=8, help="of a language, for workers")
    parser.add_argument("--first-core", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where the corpus is kept; one that holds it already is reused")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    options = {"rank": given.rank, "ridge": given.ridge, "tol": given.tol, "max_steps": given.steps}
    if given.child:
        on_cores(given.folder, json.loads(given.child), options)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        if not (folder / "shapes.json").exists():
            began = time.perf_counter()
            write_corpus(folder, given.documents)
            say(f"made up in {time.perf_counter() - began:.0f} s")
        for count in given.cores:
            cores = json.dumps(list(range(given.first_core, given.first_core + count)))
            command = [sys.executable, __file__, "--folder", str(folder), "--child", cores]
            numbers = {"--steps": given.steps, "--tol": given.tol, "--rank": given.rank, "--ridge": given.ridge}
            subprocess.run(command + [str(part) for pair in numbers.items() for part in pair], check=True)
        for workers in given.workers:
            on_workers(folder, workers, given.shards, options)


if __name__ == "__main__":
    main()
