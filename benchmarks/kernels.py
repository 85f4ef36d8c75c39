"""Sparse times dense: cr5's kernels against Intel MKL's, and against the machine's memory. One JSON object a figure.

python benchmarks/kernels.py ../shared/data/europarl-speeches

Needs ``pip install mkl``. Multiplies X V and X' U (X' stored by rows as well), float32, with both on the
same threads, in turns. MKL's matrix is handed over before the clock starts and both write into the same
U. The ratio is the median over the turns of MKL's seconds by ours: above 1, cr5 is faster; ratio_of_best,
of the least seconds of either, says the same of a machine that others use too.
V and U begin 16 bytes after a cache line, as NumPy's large arrays do on Linux; ``--aligned`` puts them on
one, which MKL likes. Without the folder, the speeches are replaced by a generated matrix of about their size.
"""

import argparse
import ctypes
import importlib.metadata
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numba
import numpy as np
from scipy.sparse import csr_array

from cr5._typing import Array, Sparse
from cr5.features.counts import count_words
from cr5.features.tfidf import Weighting, fit_vocabulary
from cr5.features.tokeniser import Tokeniser
from cr5.machine import available_cores
from cr5.training.engines.kernels import Matrix, Tuning
from data import seconds, speeches

WIDTHS = [32, 64, 128, 256, 350, 512]
FROM_ROWS, GENERAL, NON_TRANSPOSED = 101, 20, 10  # MKL's names for row-major, for no structure and for X as it is


class Mkl:
    """mkl_sparse_s_mm, called as directly as Matrix is."""

    class Description(ctypes.Structure):
        _fields_ = (("kind", ctypes.c_int), ("triangle", ctypes.c_int), ("diagonal", ctypes.c_int))

    def __init__(self, library: ctypes.CDLL, X: Sparse) -> None:
        wide = X.indptr.dtype == np.int64
        self.integer: type[ctypes.c_int64] | type[ctypes.c_int32] = ctypes.c_int64 if wide else ctypes.c_int32
        self.product = getattr(library, "mkl_sparse_s_mm" + "_64" * wide)
        self.X, self.handle = X, ctypes.c_void_p()
        pointers = X.indptr, X.indptr[1:], X.indices, X.data
        create = getattr(library, "mkl_sparse_s_create_csr" + "_64" * wide)
        sizes = self.integer(X.shape[0]), self.integer(X.shape[1])
        assert not create(ctypes.byref(self.handle), 0, *sizes, *(ctypes.c_void_p(p.ctypes.data) for p in pointers))

    def multiply(self, V: Array, U: Array) -> None:
        width, one, zero = self.integer(V.shape[1]), ctypes.c_float(1), ctypes.c_float(0)
        kind, V_at, U_at = self.Description(GENERAL), ctypes.c_void_p(V.ctypes.data), ctypes.c_void_p(U.ctypes.data)
        assert not self.product(
            NON_TRANSPOSED, one, self.handle, kind, FROM_ROWS, V_at, width, width, zero, U_at, width
        )


def load_mkl(threads: int) -> ctypes.CDLL:
    # One OpenMP for both: the idle threads of a second one would keep the cores busy for a while after every call.
    os.environ["MKL_THREADING_LAYER"] = "GNU"
    try:
        files = importlib.metadata.files("mkl") or []
        [path, *_] = [file.locate() for file in files if file.name.startswith(("libmkl_rt.", "mkl_rt."))]
    except (importlib.metadata.PackageNotFoundError, ValueError):
        sys.exit("this benchmark compares with Intel MKL; run: pip install mkl")
    library = ctypes.CDLL(str(path))
    library.MKL_Set_Num_Threads(threads)
    return library


def zipf(documents: int, words: int, length: int) -> Sparse:
    """Documents of ``length`` words drawn with probabilities 1/1, 1/2, 1/3, ..."""
    random = np.random.default_rng(0)
    total = np.cumsum(1 / np.arange(1, words + 1))
    drawn = np.searchsorted(total, random.random(documents * length) * total[-1]).astype(np.int32)
    X = csr_array(
        (np.ones(len(drawn), np.float32), drawn, np.arange(0, len(drawn) + 1, length)), shape=(documents, words)
    )
    X.sum_duplicates()
    X.data[:] = random.random(X.nnz)
    return X


def english(folder: Path, variant: str, number: int, lengths: tuple[int, int]) -> Sparse:
    """TF-IDF rows of the first speeches that have so many different words."""
    comparable = variant == "comparable"
    langs = ("en", "it", "de") if comparable else ("en",)
    counts = count_words(speeches(folder, langs, comparable)[1]["en"], "en", Tokeniser())
    least, most = lengths
    counts = counts.select_rows(np.flatnonzero((counts.unique_words >= least) & (counts.unique_words <= most))[:number])
    return fit_vocabulary(counts, Weighting(idf_power=1.0, subwords=False)).transform(counts)


def matrices(folder: Path | None, quick: bool) -> Iterator[tuple[str, Sparse]]:
    if folder is None or not folder.exists():
        yield "generated speeches", zipf(12_000 if quick else 30_000, 28_000, 300)
    else:
        yield "europarl comparable en", english(folder, "comparable", 12_000, (50, 1000))
        if not quick:
            yield "europarl full en", english(folder, "parallel", 30_000, (1, sys.maxsize))
    yield "generated", zipf(10_000 if quick else 100_000, 200_000, 150)


@numba.njit(parallel=True)  # type: ignore[untyped-decorator]
def _triad(a: Array, b: Array, c: Array) -> None:
    for i in numba.prange(len(a)):
        a[i] = b[i] + 3 * c[i]


def bandwidth(quick: bool) -> float:
    """Bytes a second of a = b + 3 c, arrays of 1 GB; the bytes of a count twice, they are fetched to be written."""
    a, b, c = (np.ones(250_000_000 if not quick else 100_000_000, np.float32) for _ in range(3))
    return 4 * a.nbytes / min(seconds(lambda: _triad(a, b, c)) for _ in range(6))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--quick", action="store_true", help="smaller matrices and fewer widths, about a minute")
    parser.add_argument("--threads", type=int, default=available_cores())
    parser.add_argument("--aligned", action="store_true", help="let V and U begin with a cache line")
    given = parser.parse_args()
    offset = 0 if given.aligned else 16
    numba.set_num_threads(given.threads)
    mkl = load_mkl(given.threads)
    machine = bandwidth(given.quick)
    common = {
        "benchmark": "kernels",
        "threads": given.threads,
        "offset": offset,
        "mkl": importlib.metadata.version("mkl"),
    }
    print(json.dumps(common | {"figure": "memory bandwidth", "gb_per_second": machine / 1e9}), flush=True)
    for name, X in matrices(given.folder, given.quick):
        for product, oriented in ("X V", X), ("X' U", X.T.tocsr()):
            for index in np.int32, np.int64:
                arrays = oriented.data, oriented.indices.astype(index), oriented.indptr.astype(index)
                A = csr_array(arrays, shape=oriented.shape)
                A.indices, A.indptr = arrays[1:]  # SciPy chooses an index type of its own
                for width in [32, 128, 350] if given.quick else WIDTHS:
                    measured = compare(
                        Matrix(A, Tuning(given.threads)), Mkl(mkl, A), width, offset, machine, 7 if given.quick else 15
                    )
                    facts = {"figure": "product", "matrix": name, "shape": A.shape, "nonzeros": int(A.nnz)}
                    facts |= {"product": product, "index": index.__name__, "width": width}
                    print(json.dumps(common | facts | measured), flush=True)


def empty(rows: int, columns: int, offset: int) -> Array:
    memory = np.empty(4 * rows * columns + 128, np.uint8)
    return memory[-memory.ctypes.data % 64 + offset :][: 4 * rows * columns].view(np.float32).reshape(rows, columns)


def compare(ours: Matrix, theirs: Mkl, width: int, offset: int, machine: float, turns: int) -> dict[str, float]:
    """GFLOP/s of both, the ratio, and the shares of the memory bandwidth that two extremes would use.

    ``compulsory``: X, V and U are moved once. ``uncached``: every nonzero's row of V comes from memory.
    A share above 1 is what the caches give.
    """
    X = ours.X
    V, U, check = (empty(rows, width, offset) for rows in (X.shape[1], X.shape[0], X.shape[0]))
    V[:] = np.random.default_rng(0).standard_normal(V.shape, np.float32)
    ours.multiply(V, U)
    theirs.multiply(V, check)
    np.testing.assert_allclose(U, check, rtol=1e-3, atol=1e-3)
    # Short products are repeated until a turn takes a while.
    repeats = 1 + int(0.02 / seconds(lambda: ours.multiply(V, U)))

    def turn(matrix: Matrix | Mkl) -> float:
        return seconds(lambda: [matrix.multiply(V, U) for _ in range(repeats)]) / repeats

    pairs = np.array([[turn(ours), turn(theirs)] for _ in range(turns)])
    mine, mkls = np.median(pairs, axis=0)
    X_bytes = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    flop = 2 * X.nnz * width
    return {
        "gflops": flop / mine / 1e9,
        "mkl_gflops": flop / mkls / 1e9,
        "ratio": float(np.median(pairs[:, 1] / pairs[:, 0])),
        "ratio_of_best": float(pairs[:, 1].min() / pairs[:, 0].min()),
        "compulsory": (X_bytes + V.nbytes + 2 * U.nbytes) / mine / machine,
        "uncached": (X_bytes + X.nnz * width * V.itemsize + 2 * U.nbytes) / mine / machine,
    }


if __name__ == "__main__":
    main()
