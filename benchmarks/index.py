"""Compare a large search index with a FAISS HNSW graph over the same vectors. Prints one JSON object.

python benchmarks/index.py MODEL CORPUS [--documents 1000000] [--keep FOLDER] [--store postgresql://…]

Needs ``pip install faiss-cpu``. The documents are passages of the corpus: every line, then every two neighbouring
lines, and so on until there are enough. The queries are every other word of some of them.

``build`` is what ``cr5 index`` does: encode, compute hubness, store texts, build the approximate index. FAISS gets the
vectors only. ``search`` is from a text to documents, ranked by CSLS; ``nearest`` starts from the vector, ``cosine``
ranks by cosine. FAISS returns row numbers; its efSearch is the smallest that reaches the recall@10 of cr5 by cosine.
``one`` runs one query after another, ``many`` runs them in ``--clients`` threads. ``growth`` measures the time to add
documents to the full index, and of the next search.
"""

import argparse
import importlib.metadata
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_info

from cr5._typing import Array, Ints
from cr5.corpus.documents import Document
from cr5.corpus.reading import read
from cr5.index import Index
from cr5.index.stores.rows import to_matrix
from cr5.progress import Progress
from data import peak_gb, say

# The OpenBLAS of FAISS may be too old to recognise this processor, and then uses code for one of 2004.
[core, *_] = [library["architecture"] for library in threadpool_info() if library["internal_api"] == "openblas"] or [""]
if core:
    os.environ.setdefault("OPENBLAS_CORETYPE", core)
try:
    import faiss
except ImportError:
    sys.exit("this benchmark compares with FAISS; run: pip install faiss-cpu")

K = 10
ADDED_DOCUMENTS = 1500  # at once, to the full index
HNSW_M = 32  # the default of FAISS
EF_SEARCH = (16, 32, 64, 128, 256, 512, 1024)


class Queries(NamedTuple):
    texts: list[str]
    langs: list[str]
    vectors: Array


def passages(corpus: list[str], number: int) -> Iterator[Document]:
    """Windows of 1, 2, 3, … lines of every document, of all languages in turn."""
    documents = [(d.concept, d.lang, d.text.split("\n")) for d in read(corpus)]
    documents = [documents[i] for i in np.random.default_rng(0).permutation(len(documents))]
    longest = max(len(lines) for _, _, lines in documents)
    for width in range(1, longest + 1):
        for concept, lang, lines in documents:
            for first in range(len(lines) - width + 1):
                if not number:
                    return
                number -= 1
                text = "\n".join(lines[first : first + width])
                yield Document(f"{concept}/{first}-{width}", lang, text, title=text[:60])
    sys.exit(f"the corpus has {number:,} passages too few; lower --documents or name more files")


def build(index: Index, documents: Iterator[Document]) -> dict[str, Any]:
    """Add documents to an index; the seconds of each stage."""
    began, last, spent = time.perf_counter(), time.perf_counter(), dict[str, float]()

    def report(progress: Progress) -> None:
        nonlocal last
        now = time.perf_counter()
        spent[progress.stage] = spent.get(progress.stage, 0) + now - last
        last = now
        if progress.done % 100_000 < 2000:
            say(progress)

    added = index.add(documents, progress=report)
    total = time.perf_counter() - began
    spent["rest"] = time.perf_counter() - last
    return {
        "documents": added.total,
        "blank": sum(added.blank.values()),
        "seconds": total,
        "documents_per_second": added.total / total,
        "seconds_by_phase": spent,
        "bytes": index.about()["bytes"],
        "peak_gb": peak_gb(),
    }


def vectors_of(index: Index) -> tuple[Array, list[str]]:
    """All vectors of an index, and their ids."""
    ids, parts = list[str](), []
    for rows in index.scan(("id", "vector")):
        ids += rows["id"].to_pylist()
        parts.append(to_matrix(pa.chunked_array([rows["vector"]])))
    return np.concatenate(parts), ids


def make_queries(index: Index, ids: Sequence[str], number: int) -> Queries:
    """Every other word of some documents."""
    rng = np.random.default_rng(1)
    drawn = [ids[i] for i in rng.choice(len(ids), number, replace=False)]
    entries = index.get(drawn)
    texts = [" ".join(entry.text.split()[::2]) for entry in entries]
    langs = [entry.lang for entry in entries]
    vectors = np.concatenate([index.model.encode([t], lang) for t, lang in zip(texts, langs, strict=True)])
    known = np.flatnonzero(vectors.any(axis=1))
    return Queries([texts[i] for i in known], [langs[i] for i in known], vectors[known])


def latencies(search: Callable[[int], object], number: int, clients: int) -> dict[str, float]:
    """The latency of ``number`` queries, run by several threads at the same time."""
    times, numbers, lock = np.zeros(number), iter(range(number)), threading.Lock()
    errors: list[BaseException] = []

    def client() -> None:
        faiss.omp_set_num_threads(1)
        try:
            while True:
                with lock:
                    i = next(numbers, None)
                if i is None:
                    return
                began = time.perf_counter()
                search(i)
                times[i] = time.perf_counter() - began
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    p50, p95 = 1000 * np.percentile(times, [50, 95])
    return {"p50_ms": float(p50), "p95_ms": float(p95), "per_second": number / (time.perf_counter() - began)}


def both(search: Callable[[int], object], number: int, clients: int) -> dict[str, Any]:
    latencies(search, number // 5, 1)  # warm up
    return {"one": latencies(search, number, 1), "many": latencies(search, number, clients)}


def growth(index: Index, text: str, lang: str) -> dict[str, float]:
    """The time to add documents one by one and many at once, and that of the search after each."""

    def timed(work: Callable[[], object]) -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    def add(names: Sequence[str]) -> float:
        return timed(lambda: index.add(Document(name, lang, f"{text} {name}", title=name) for name in names))

    def search() -> float:
        return timed(lambda: index.search(text, lang, k=K))

    singles = [(add([f"single/{i}"]), search()) for i in range(20)]
    one, after = 1000 * np.median(singles, axis=0)
    seconds, next_search = add([f"many/{i}" for i in range(ADDED_DOCUMENTS)]), search()
    return {
        "one_ms": one,
        "search_ms": after,
        f"{ADDED_DOCUMENTS}_seconds": seconds,
        f"search_after_{ADDED_DOCUMENTS}_ms": 1000 * next_search,
    }


def recall(retrieved: Sequence[set[int]], relevant: Ints) -> float:
    return float(np.mean([len(rows & {*row.tolist()}) / K for rows, row in zip(retrieved, relevant, strict=True)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("corpus", nargs="+")
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--store", help="address of a PostgreSQL server with pgvector; a folder without")
    parser.add_argument("--keep", type=Path, help="folder for the index, which is then not deleted")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        index = Index.create(arguments.keep or Path(folder) / "index", arguments.model, store=arguments.store)
        built = build(index, passages(arguments.corpus, arguments.documents))
        say(built)
        vectors, ids = vectors_of(index)
        row_of = {document_id: i for i, document_id in enumerate(ids)}
        queries = make_queries(index, ids, arguments.queries)
        number = len(queries.texts)

        flat = faiss.IndexFlatIP(vectors.shape[1])
        flat.add(vectors)
        relevant = flat.search(queries.vectors, K)[1]
        del flat
        retrieved = [
            {row_of[hit.id] for hit in hits}
            for hits in index.nearest(queries.vectors, index.langs[0], k=K, measure="cosine")
        ]
        cr5_recall = recall(retrieved, relevant)
        say(cr5_recall)

        def nearest(i: int, measure: Any = "csls") -> object:
            return index.nearest(queries.vectors[i : i + 1], queries.langs[i], k=K, measure=measure)

        ways: dict[str, Callable[[int], object]] = {
            "search": lambda i: index.search(queries.texts[i], queries.langs[i], k=K),
            "nearest": nearest,
            "cosine": lambda i: nearest(i, "cosine"),
        }
        searches = {name: both(way, number, arguments.clients) for name, way in ways.items()}
        say(searches)

        began = time.perf_counter()
        faiss.omp_set_num_threads(os.cpu_count())
        graph = faiss.IndexHNSWFlat(vectors.shape[1], HNSW_M, faiss.METRIC_INNER_PRODUCT)
        graph.add(vectors)
        seconds = time.perf_counter() - began
        path = Path(folder) / "graph"
        faiss.write_index(graph, str(path))
        faiss_figures: dict[str, Any] = {
            "version": importlib.metadata.version("faiss-cpu"),
            "seconds": seconds,
            "vectors_per_second": len(vectors) / seconds,
            "bytes": path.stat().st_size,
        }
        say(faiss_figures)
        for ef_search in EF_SEARCH:
            graph.hnsw.efSearch = ef_search
            faiss_figures |= {
                "ef_search": ef_search,
                "recall": recall([{*row.tolist()} for row in graph.search(queries.vectors, K)[1]], relevant),
            }
            if faiss_figures["recall"] >= cr5_recall:
                break
        faiss_figures["search"] = both(lambda i: graph.search(queries.vectors[i : i + 1], K), number, arguments.clients)
        grown = growth(index, queries.texts[0], queries.langs[0])
        index.close()
    ratios = {
        "build_seconds": built["seconds"] / faiss_figures["seconds"],
        "bytes": built["bytes"] / faiss_figures["bytes"],
        "one_p50": searches["nearest"]["one"]["p50_ms"] / faiss_figures["search"]["one"]["p50_ms"],
        "many_p50": searches["nearest"]["many"]["p50_ms"] / faiss_figures["search"]["many"]["p50_ms"],
    }
    about = {
        "benchmark": "index",
        "store": "lancedb" if arguments.store is None else "postgresql",
        "rank": vectors.shape[1],
        "languages": len(index.langs),
        "queries": number,
        "clients": arguments.clients,
        "cores": os.cpu_count(),
    }
    figures = {"build": built, "recall": cr5_recall} | searches | {"growth": grown, "faiss": faiss_figures}
    print(json.dumps(about | figures | {"ratio": ratios}))


if __name__ == "__main__":
    main()
