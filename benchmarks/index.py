"""A large search index beside a plain FAISS HNSW graph over the same vectors. Prints one JSON object.

python benchmarks/index.py MODEL CORPUS [--documents 1000000] [--keep FOLDER] [--store postgresql://…]

Needs ``pip install faiss-cpu``. The documents are passages of the corpus: every line, then every two neighbouring
lines, and so on until there are enough. Queries are some of them, of which every other word is left out.

``build`` is what ``cr5 index`` does: encode, tell hubs, store texts, build the approximate index. FAISS only gets the
vectors. ``search`` is text in, documents out, ranked by CSLS; ``nearest`` begins with the vector, ``cosine`` leaves out
CSLS. FAISS returns row numbers; the breadth of its search is the least that reaches our recall. ``one`` asks one query
after another, ``many`` from as many threads as there are ``--clients``. Recall is among the 10 nearest by cosine.
``growth`` adds documents to the full index, and tells what the next search takes.
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
from cr5.index.stores.base import matrix
from cr5.progress import Progress
from data import peak_gb, say

# The OpenBLAS that comes with FAISS may be too old to know this processor, and then takes it for one of 2004.
[core, *_] = [library["architecture"] for library in threadpool_info() if library["internal_api"] == "openblas"] or [""]
if core:
    os.environ.setdefault("OPENBLAS_CORETYPE", core)
try:
    import faiss
except ImportError:
    sys.exit("this benchmark compares with FAISS; run: pip install faiss-cpu")

K = 10
MANY = 1500  # documents that are added at once to what is there
LINKS = 32  # FAISS's own default, as is the breadth of its building
BREADTHS = (16, 32, 64, 128, 256, 512, 1024)


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
    """Fill an index; seconds of each of its phases."""
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
    """All of them, with their ids."""
    ids, parts = list[str](), []
    for rows in index.ask(lambda now: now.store.scan(("id", "vector"))):
        ids += rows["id"].to_pylist()
        parts.append(matrix(pa.chunked_array([rows["vector"]])))
    return np.concatenate(parts), ids


def ask_for(index: Index, ids: Sequence[str], number: int) -> Queries:
    """Every other word of some documents."""
    rng = np.random.default_rng(1)
    drawn = [ids[i] for i in rng.choice(len(ids), number, replace=False)]
    entries = index.get(drawn)
    texts = [" ".join(entry.text.split()[::2]) for entry in entries]
    langs = [entry.lang for entry in entries]
    vectors = np.concatenate([index.model.encode([t], lang) for t, lang in zip(texts, langs, strict=True)])
    known = np.flatnonzero(vectors.any(axis=1))
    return Queries([texts[i] for i in known], [langs[i] for i in known], vectors[known])


def latencies(ask: Callable[[int], object], number: int, clients: int) -> dict[str, float]:
    """Milliseconds of each of ``number`` queries, asked by some clients at the same time."""
    times, waiting, guard = np.zeros(number), iter(range(number)), threading.Lock()
    faults: list[BaseException] = []

    def client() -> None:
        faiss.omp_set_num_threads(1)
        try:
            while True:
                with guard:
                    i = next(waiting, None)
                if i is None:
                    return
                began = time.perf_counter()
                ask(i)
                times[i] = time.perf_counter() - began
        except BaseException as error:
            faults.append(error)

    crew = [threading.Thread(target=client) for _ in range(clients)]
    began = time.perf_counter()
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    if faults:
        raise faults[0]
    p50, p95 = 1000 * np.percentile(times, [50, 95])
    return {"p50_ms": float(p50), "p95_ms": float(p95), "per_second": number / (time.perf_counter() - began)}


def both(ask: Callable[[int], object], number: int, clients: int) -> dict[str, Any]:
    latencies(ask, number // 5, 1)  # warm up
    return {"one": latencies(ask, number, 1), "many": latencies(ask, number, clients)}


def growth(index: Index, text: str, lang: str) -> dict[str, float]:
    """What it takes to add documents one by one and many at once, and what the search after each takes."""

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
    seconds, next_search = add([f"many/{i}" for i in range(MANY)]), search()
    return {
        "one_ms": one,
        "search_ms": after,
        f"{MANY}_seconds": seconds,
        f"search_after_{MANY}_ms": 1000 * next_search,
    }


def recall(found: Sequence[set[int]], right: Ints) -> float:
    return float(np.mean([len(some & {*row.tolist()}) / K for some, row in zip(found, right, strict=True)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("corpus", nargs="+")
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--store", help="address of a PostgreSQL server with pgvector; a folder without")
    parser.add_argument("--keep", type=Path, help="folder for the index, which is then not deleted")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        index = Index.create(given.keep or Path(folder) / "index", given.model, store=given.store)
        built = build(index, passages(given.corpus, given.documents))
        say(built)
        vectors, ids = vectors_of(index)
        place = {name: i for i, name in enumerate(ids)}
        asked = ask_for(index, ids, given.queries)
        number = len(asked.texts)

        flat = faiss.IndexFlatIP(vectors.shape[1])
        flat.add(vectors)
        right = flat.search(asked.vectors, K)[1]
        del flat
        found = [
            {place[name] for name in rows["id"].to_pylist()}
            for rows in index.ask(lambda now: now.store.nearest(asked.vectors, K, columns=("id",)))
        ]
        ours = {"recall": recall(found, right)}
        say(ours)

        def nearest(i: int, measure: Any = "csls") -> object:
            return index.nearest(asked.vectors[i : i + 1], asked.langs[i], k=K, measure=measure)

        ways: dict[str, Callable[[int], object]] = {
            "search": lambda i: index.search(asked.texts[i], asked.langs[i], k=K),
            "nearest": nearest,
            "cosine": lambda i: nearest(i, "cosine"),
        }
        searches = {name: both(way, number, given.clients) for name, way in ways.items()}
        say(searches)

        began = time.perf_counter()
        faiss.omp_set_num_threads(os.cpu_count())
        graph = faiss.IndexHNSWFlat(vectors.shape[1], LINKS, faiss.METRIC_INNER_PRODUCT)
        graph.add(vectors)
        seconds = time.perf_counter() - began
        path = Path(folder) / "graph"
        faiss.write_index(graph, str(path))
        peer: dict[str, Any] = {
            "version": importlib.metadata.version("faiss-cpu"),
            "seconds": seconds,
            "vectors_per_second": len(vectors) / seconds,
            "bytes": path.stat().st_size,
        }
        say(peer)
        for breadth in BREADTHS:
            graph.hnsw.efSearch = breadth
            peer |= {
                "breadth": breadth,
                "recall": recall([{*row.tolist()} for row in graph.search(asked.vectors, K)[1]], right),
            }
            if peer["recall"] >= ours["recall"]:
                break
        peer["search"] = both(lambda i: graph.search(asked.vectors[i : i + 1], K), number, given.clients)
        grown = growth(index, asked.texts[0], asked.langs[0])
        index.close()
    ratios = {
        "build_seconds": built["seconds"] / peer["seconds"],
        "bytes": built["bytes"] / peer["bytes"],
        "one_p50": searches["nearest"]["one"]["p50_ms"] / peer["search"]["one"]["p50_ms"],
        "many_p50": searches["nearest"]["many"]["p50_ms"] / peer["search"]["many"]["p50_ms"],
    }
    about = {
        "benchmark": "index",
        "store": "lancedb" if given.store is None else "postgresql",
        "rank": vectors.shape[1],
        "languages": len(index.langs),
        "queries": number,
        "clients": given.clients,
        "cores": os.cpu_count(),
    }
    print(json.dumps(about | {"build": built} | ours | searches | {"growth": grown, "faiss": peer, "ratio": ratios}))


if __name__ == "__main__":
    main()
