"""The engine of one NVIDIA GPU: whether it agrees with the other engine, and how fast it is. Prints JSON lines.

python benchmarks/gpu.py --prepare ../shared/data/europarl-speeches speeches.npz
python benchmarks/gpu.py --matrices speeches.npz

The first writes the matrices of 12,000 comparable English and Italian speeches, and of 8,000 held out, to
a file that can be carried to where the GPU is; nothing is needed there but CuPy, SciPy and numba. The
second fits them on both engines, then a made-up corpus of the size of the paper's four languages on the
GPU, where it is made: 1.3 million documents of 150 different words, 650,000 concepts, 195.8 million nonzeros.
"""

# ruff: noqa: E402
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # as cr5 has it: before NumPy is imported

sys.path[:0] = [str(Path(__file__).parent.parent / name) for name in ("src", "tests/helpers")]
try:
    import cr5
except ImportError:  # what reads and writes files may be missing here; engine and solver do without
    cr5 = ModuleType("cr5")
    cr5.__path__ = [str(Path(__file__).parent.parent / "src" / "cr5")]
    sys.modules["cr5"] = cr5

import numpy as np
from oracle import dense_maps
from problems import problem
from scipy.sparse import csr_array

from cr5.training import rayleigh_ritz, solver
from cr5.training.engines.cpu import CpuEngine
from cr5.training.engines.gpu import GpuEngine
from cr5.training.solver import Fit, reduced_rank_ridge, solve
from data import Data, europarl, precision_at_1, say, synthetic

WIDTH = 320  # columns of a product at the default rank


def show(part: str, **values: Any) -> None:
    print(json.dumps({"benchmark": "gpu", "part": part, **values}), flush=True)


def prepare(folder: Path, path: Path) -> None:
    """Write the matrices of a corpus, for a machine without it."""
    data = europarl(folder)
    arrays: dict[str, Any] = {"validation": data.validation, "test": data.test}
    for kind, blocks, numbers in (
        ("train", data.blocks, data.concepts),
        ("held", data.candidates, data.answers),
    ):
        for lang, X in blocks.items():
            parts = {"indptr": X.indptr, "indices": X.indices, "data": X.data, "shape": X.shape, "ids": numbers[lang]}
            arrays |= {f"{kind}/{lang}/{name}": array for name, array in parts.items()}
    np.savez_compressed(path, **arrays)
    say(f"{path}: {path.stat().st_size / 1e6:.1f} MB, {data.facts()}")


def load(path: Path) -> Data:
    """What ``prepare`` wrote."""
    found = np.load(path)
    langs = sorted({name.split("/")[1] for name in found.files if "/" in name})

    def block(kind: str, lang: str) -> Any:
        parts = (found[f"{kind}/{lang}/{name}"] for name in ("data", "indices", "indptr"))
        return csr_array(tuple(parts), shape=found[f"{kind}/{lang}/shape"])

    blocks, candidates = ({lang: block(kind, lang) for lang in langs} for kind in ("train", "held"))
    concepts, answers = ({lang: found[f"{kind}/{lang}/ids"] for lang in langs} for kind in ("train", "held"))
    return Data(blocks, concepts, candidates, answers, found["validation"], found["test"])


def about_the_gpu(cupy: Any) -> None:
    runtime = cupy.cuda.runtime
    a, b = cupy.random.random((2, 2**29), dtype=np.float32)
    seconds = timed(cupy, lambda: cupy.copyto(b, a))
    show(
        "card",
        name=runtime.getDeviceProperties(0)["name"].decode(),
        driver=runtime.driverGetVersion(),
        runtime=runtime.runtimeGetVersion(),
        cupy=cupy.__version__,
        copy_gb_per_second=2 * a.nbytes / seconds / 1e9,
    )


def timed(cupy: Any, work: Callable[[], Any], repeats: int = 5) -> float:
    """The median seconds of a piece of work, warmed up."""
    work()
    seconds = []
    for _ in range(repeats):
        cupy.cuda.Device().synchronize()
        began = time.perf_counter()
        work()
        cupy.cuda.Device().synchronize()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def precision(data: Data, fit: Fit) -> dict[str, float]:
    """P@1 of the held-out test queries."""
    vectors = {}
    for lang, X in data.candidates.items():
        V = X @ fit.maps[lang] - fit.means[lang] @ fit.maps[lang]
        vectors[lang] = V / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-30)
    return precision_at_1(vectors, data.answers, data.test)


def agreement(data: Data, rank: int, ridge: float) -> None:
    """Both engines on the same matrices."""
    fits, lines = {}, {}
    for name, make in (("cpu", CpuEngine), ("gpu", GpuEngine)):
        for _ in range(2):  # the first compiles
            fit = fits[name] = reduced_rank_ridge(data.blocks, data.concepts, engine=make(), rank=rank, ridge=ridge)
        facts = {n: getattr(fit, n) for n in ("steps", "products", "energy", "residual", "seconds")}
        lines[name] = facts | precision(data, fit)
    worst = float(np.max(np.abs(fits["gpu"].eigenvalues / fits["cpu"].eigenvalues - 1)))
    show("agreement", **data.facts(), rank=rank, ridge=ridge, eigenvalues_differ_by=worst, **lines)
    assert worst < 1e-3, f"eigenvalues differ by {worst}"
    blocks, labels = problem(3, 90, 60, 50)
    exact = dense_maps(blocks, labels, rank=6, ridge=1.0, intercept="language")[1]
    fit = reduced_rank_ridge(blocks, labels, engine=GpuEngine(), rank=6, ridge=1.0, tol=1e-7, max_steps=300)
    worst = float(np.max(np.abs(fit.eigenvalues / exact - 1)))
    show("oracle", dtype="float64", eigenvalues_differ_by=worst, steps=fit.steps)
    assert worst < 1e-6, f"eigenvalues differ by {worst}"


class Stopwatch:
    """Wraps functions to add up their seconds, waiting for the GPU after each; the inner ones do not count twice."""

    def __init__(self, wait: Callable[[], None]) -> None:
        self.wait = wait
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)
        self.inside = 0

    def around(self, owner: Any, name: str, label: Callable[..., str] | None = None) -> None:
        plain = getattr(owner, name)

        def watched(*given: Any, **named: Any) -> Any:
            if self.inside:
                return plain(*given, **named)
            self.inside += 1
            self.wait()
            began = time.perf_counter()
            try:
                result = plain(*given, **named)
                self.wait()
            finally:
                self.inside -= 1
            key = label(*given) if label else name
            self.seconds[key] += time.perf_counter() - began
            self.calls[key] += 1
            return result

        setattr(owner, name, watched)


def breakdown(cupy: Any, engine: GpuEngine, **options: Any) -> None:
    """Where the seconds of a fit go, part by part, each waited for."""
    watch = Stopwatch(cupy.cuda.Device().synchronize)
    methods = ("multiply", "multiply_transposed", "concept_sums", "broadcast_concepts", "column_sums", "compute")
    for name in methods:
        watch.around(engine, name)
    for kind in ("words", "documents", "concepts"):
        partition = getattr(engine, kind)
        watch.around(partition, "map", lambda f, *_: getattr(f, "func", f).__name__)
        watch.around(partition, "get")
    kept = {name: getattr(rayleigh_ritz, name) for name in ("rayleigh_ritz", "_gram_of_step", "_bordered")}
    for name in kept:
        watch.around(rayleigh_ritz, name)
    began = time.perf_counter()
    fit = solve(engine, **options)
    total = time.perf_counter() - began
    for name, plain in kept.items():
        setattr(rayleigh_ritz, name, plain)
    for owner, names in (
        (engine, methods),
        *((getattr(engine, kind), ("map", "get")) for kind in ("words", "documents", "concepts")),
    ):
        for name in names:
            delattr(owner, name)
    parts = {name: [round(s, 4), watch.calls[name]] for name, s in sorted(watch.seconds.items(), key=lambda i: -i[1])}
    rest = total - sum(watch.seconds.values())
    show("breakdown", seconds=total, steps=fit.steps, rest=rest, seconds_and_calls=parts)


def products(cupy: Any, engine: GpuEngine) -> None:
    """Each product by itself, at the usual number of columns."""
    facts = engine.block_info()
    nonzeros = sum(block.nonzeros for block in facts)
    random = cupy.random.default_rng(0)
    for named, block in zip(engine.words.arrays, facts, strict=True):
        named["V"] = random.standard_normal((block.words, WIDTH), dtype=np.float32)
    engine.multiply("V", "V")
    kept = [named["V"] for named in engine.documents.arrays]

    def multiply(may_round: bool = False) -> None:
        engine.multiply("V", "V", may_round=may_round)

    def multiply_transposed(may_round: bool = False) -> None:
        for named, U in zip(engine.documents.arrays, kept, strict=True):
            named["U"] = U
        engine.multiply_transposed("U", "W", may_round=may_round)

    def multiply_rounded() -> None:
        multiply(may_round=True)

    def multiply_transposed_rounded() -> None:
        multiply_transposed(may_round=True)

    def concept_sums() -> None:
        engine.concept_sums("V")

    def broadcast_concepts() -> None:
        engine.broadcast_concepts("V", "U")

    products_of_X = multiply, multiply_transposed, multiply_rounded, multiply_transposed_rounded
    for work in (*products_of_X, concept_sums, broadcast_concepts):
        name, seconds = work.__name__, timed(cupy, work)
        line: dict[str, Any] = {"ms": 1e3 * seconds}
        if name.startswith("multiply"):
            size = 2 if name.endswith("rounded") else 4
            line |= {
                "gathered_gb_per_second": nonzeros * WIDTH * size / seconds / 1e9,
                "gflops": 2 * nonzeros * WIDTH / seconds / 1e9,
            }
        show("product", name=name, columns=WIDTH, **line)
    V, X = engine.words.arrays[0]["V"], engine.blocks[0].X.rows
    share = facts[0].nonzeros / nonzeros
    with suppress(ImportError):
        import torch

        if torch.cuda.is_available():
            crow, column, data, dense = (torch.as_tensor(a, device="cuda") for a in (X.indptr, X.indices, X.data, V))
            A = torch.sparse_csr_tensor(crow, column.long(), data, size=X.shape)
            seconds = timed(cupy, lambda: A @ dense)
            show("comparison", name="torch CSR product", columns=WIDTH, ms_for_all_languages=1e3 * seconds / share)
            transposed = engine.blocks[0].transposed.rows
            crow, column, data = (torch.as_tensor(a, device="cuda") for a in transposed[:3])
            A = torch.sparse_csr_tensor(crow, column.long(), data, size=transposed.shape)
            dense = torch.as_tensor(kept[0], device="cuda")
            seconds = timed(cupy, lambda: A @ dense)
            show("comparison", name="torch CSR product, X'", columns=WIDTH, ms_for_all_languages=1e3 * seconds / share)
            del crow, column, data, dense, A
            torch.cuda.empty_cache()
    from cupyx.scipy.sparse import csr_matrix

    A = csr_matrix((X.data, X.indices, X.indptr.astype(np.int32)), shape=X.shape)
    seconds = timed(cupy, lambda: A @ V, repeats=1)
    show("comparison", name="cupyx csr @ dense", columns=WIDTH, ms_for_all_languages=1e3 * seconds / share)
    for partition in (engine.words, engine.documents, engine.concepts):
        for named in partition.arrays:
            for name in {"V", "U", "W"} & set(named):
                del named[name]


EIGH = """
import sys, time
import numpy as np
from scipy.linalg import eigh
A = np.random.default_rng(0).standard_normal((int(sys.argv[1]),) * 2)
seconds = []
for _ in range(4):
    began = time.perf_counter()
    eigh(A + A.T, driver="evd")
    seconds.append(time.perf_counter() - began)
print(sorted(seconds[1:])[1])
"""


def host_algebra(cupy: Any) -> None:
    """The small eigenproblems of a step, by the number of threads, and on the GPU."""
    for size in (WIDTH, 3 * WIDTH):
        line = {}
        for threads in (1, 4, 8, 16):
            if threads <= (os.cpu_count() or 1):
                env = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
                command = [sys.executable, "-c", EIGH, str(size)]
                found = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
                line[f"{threads} threads"] = 1e3 * float(found.stdout)
        A = np.random.default_rng(0).standard_normal((size, size))
        line["card"] = 1e3 * timed(cupy, lambda A=A: [cupy.asnumpy(a) for a in cupy.linalg.eigh(cupy.asarray(A + A.T))])
        show("eigh", size=size, dtype="float64", ms=line)


def at_scale(cupy: Any, documents: int, rank: int, ridge: float, repeats: int) -> None:
    began = time.perf_counter()
    blocks, concepts = synthetic(documents, xp=cupy)
    cupy.cuda.Device().synchronize()
    made = time.perf_counter()
    engine = GpuEngine()
    for lang in list(blocks):
        engine.put(lang, blocks.pop(lang), concepts.pop(lang))
    cupy.cuda.Device().synchronize()
    put = time.perf_counter()
    engine.check_memory(solver.memory_needed(engine.block_info(), engine.concepts.sizes[0], rank))
    nonzeros = sum(block.nonzeros for block in engine.block_info())
    options: dict[str, Any] = {"rank": rank, "ridge": ridge}
    fits = [solve(engine, **options) for _ in range(1 + repeats)][1:]  # the first warms up
    fit = fits[-1]
    assert all(np.array_equal(fit.eigenvalues, other.eigenvalues) for other in fits), "two runs differ"
    free, total = cupy.cuda.runtime.memGetInfo()
    show(
        "fit",
        documents=documents,
        nonzeros=nonzeros,
        concepts=engine.concepts.sizes[0],
        rank=rank,
        ridge=ridge,
        seconds=statistics.median(fit.seconds for fit in fits),
        seconds_all=[fit.seconds for fit in fits],
        seconds_generating=made - began,
        seconds_putting=put - made,
        steps=fit.steps,
        products=fit.products,
        energy=fit.energy,
        residual=fit.residual,
        converged=fit.converged,
        eigenvalues={str(i): float(fit.eigenvalues[i]) for i in (0, 1, 9, 99, rank - 1)},
        peak_gb_of_the_pool=engine.device.pool.total_bytes() / 1e9,
        used_gb_of_the_card=(total - free) / 1e9,
        estimated_gb=solver.memory_needed(engine.block_info(), engine.concepts.sizes[0], rank) / 1e9,
    )
    breakdown(cupy, engine, **options)
    products(cupy, engine)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepare", nargs=2, type=Path, metavar=("FOLDER", "FILE"), help="write matrices of speeches")
    parser.add_argument("--matrices", type=Path, metavar="FILE", help="that --prepare wrote")
    parser.add_argument("--documents", type=int, default=1_300_000, help="of the made-up corpus; 0 for none")
    parser.add_argument("--rank", type=int, default=300)
    parser.add_argument("--ridge", type=float, default=3.0)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    if given.prepare:
        return prepare(*given.prepare)
    cupy = GpuEngine().device.cupy
    about_the_gpu(cupy)
    host_algebra(cupy)
    if given.matrices:
        agreement(load(given.matrices), given.rank, given.ridge)
    if given.documents:
        at_scale(cupy, given.documents, given.rank, given.ridge, given.repeats)
    return None


if __name__ == "__main__":
    main()
