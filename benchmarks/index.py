"""A search index of any size: build, search by each mode and stage, growth, beside FAISS. Prints one JSON object.

python benchmarks/index.py [MODEL CORPUS...] [--documents 1000000] [--keep FOLDER] [--grow 100000] [--store postgresql://…]

Needs ``pip install faiss-cpu``. Without a model and a corpus, documents of about 60 words in four languages are made
up (``documents.py``), and a model is trained with 20,000 of them; otherwise the documents are passages of the corpus:
every line, then every two neighbouring lines, and so on. With ``--keep``, an index that is in the folder is used.

``build`` is what ``cr5 index`` does: encode, compute hubness, store texts and full text, build the approximate index;
FAISS gets the vectors only. The queries are, in turn, two to four words of a document, its title, and a sentence.
``modes`` are searches from the text on, hybrid and lexical ones grouped by concept; ``stages`` are the parts of a
hybrid search. ``nearest`` starts from a vector and returns documents, FAISS row numbers; its efSearch is the smallest
that reaches the recall@10 of cr5 by cosine. ``one`` runs one query after another, ``many`` runs them in ``--clients``
threads. ``milliseconds`` are of wall-clock time, ``cpu_milliseconds`` of processor time in all threads, which other
work on the machine affects less. ``--grow`` adds documents, 1,000 at a time, to an index that is empty at first, while
another thread searches and a third one merges files and builds the approximate index, as in a server.
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
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cr5._typing import Array, Ints
from cr5.corpus.documents import Document
from cr5.corpus.reading import read
from cr5.index import Index, hybrid, pipeline
from cr5.index.ingest import IngestSettings
from cr5.index.stores.rows import to_matrix
from cr5.model import Cr5
from cr5.progress import Progress
from data import import_faiss, peak_gb, say
from documents import documents as made_up

faiss = import_faiss()

K = 10
TRAINING_DOCUMENTS, RANK = 20_000, 300  # of the model of made-up documents
ADDED_DOCUMENTS = 1000  # at once
HNSW_M = 32  # the default of FAISS
EF_SEARCH = (16, 32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 512, 768, 1024, 2048)
STAGES = {  # functions of a hybrid search, whose times are measured without those of the others that they call
    "encode": (pipeline, "analyse_query"),
    "forms": (hybrid, "match_forms"),
    "full text": (hybrid.HybridSearch, "search_words"),
    "titles and pairs": (hybrid.HybridSearch, "find_by_words"),
    "candidates": (hybrid.HybridSearch, "read_candidates"),
    "nearest in the language": (hybrid.HybridSearch, "add_by_vectors"),
    "nearest in others": (hybrid.HybridSearch, "find_in_other_languages"),
    "fusion": (pipeline, "_rank"),
    "grouping": (pipeline, "group_versions"),
    "versions": (pipeline, "_versions"),
    "texts of hits": (pipeline, "_read_hits"),
}


class Query(NamedTuple):
    text: str
    lang: str


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
    began, last, spent, cpu = time.perf_counter(), time.perf_counter(), dict[str, float](), time.process_time()

    def report(progress: Progress) -> None:
        nonlocal last
        now = time.perf_counter()
        spent[progress.stage] = spent.get(progress.stage, 0) + now - last
        last = now
        if progress.done % 100_000 < 12_000:
            say(progress)

    added = index.add(documents, progress=report)
    total = time.perf_counter() - began
    spent["rest"] = time.perf_counter() - last
    return {
        "blank": sum(added.blank.values()),
        "seconds": total,
        "cpu_seconds": time.process_time() - cpu,
        "documents_per_second": added.total / total,
        "seconds_by_phase": spent,
        "peak_gb": peak_gb(),
    }


def vectors_of(index: Index) -> tuple[Array, list[str]]:
    """All vectors of an index, and their ids."""
    ids, parts = list[str](), []
    for rows in index.scan(("id", "vector")):
        ids += rows["id"].to_pylist()
        parts.append(to_matrix(pa.chunked_array([rows["vector"]])))
    return np.concatenate(parts), ids


def make_queries(index: Index, ids: Sequence[str], number: int) -> list[Query]:
    """In turn, two to four words of a document, its title, and a sentence, in random order."""
    rng, queries = np.random.default_rng(1), []
    for i, entry in enumerate(index.get([ids[j] for j in rng.choice(len(ids), number, replace=False)])):
        words = entry.text.replace(".", "").split()
        few = " ".join(rng.choice(words, min(len(words), int(rng.integers(2, 5))), replace=False))
        text = (few, entry.title, str(rng.choice(entry.text.split(". "))))[i % 3]
        queries.append(Query(text, entry.lang))
    return [queries[i] for i in rng.permutation(len(queries))]


def percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    p50, p95 = np.percentile(milliseconds, [50, 95])
    return {"p50": round(float(p50), 2), "p95": round(float(p95), 2)}


def one_by_one(search: Callable[[int], object], number: int) -> dict[str, Any]:
    """The latency and the processor time of one query after another."""
    for i in range(min(number, 30)):  # warm up
        search(i)
    wall, cpu = [], []
    for i in range(number):
        began, began_cpu = time.perf_counter(), time.process_time()
        search(i)
        wall.append(1000 * (time.perf_counter() - began))
        cpu.append(1000 * (time.process_time() - began_cpu))
    return {"milliseconds": percentiles(wall), "cpu_milliseconds": percentiles(cpu)}


def at_once(search: Callable[[int], object], number: int, clients: int) -> dict[str, Any]:
    """The latency of queries that several threads run at the same time, and how many were answered in a second."""
    times, numbers, lock, errors = np.zeros(number), iter(range(number)), threading.Lock(), list[BaseException]()

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
    began, cpu = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    spent, seconds = time.process_time() - cpu, time.perf_counter() - began
    return {
        "milliseconds": percentiles(1000 * times),
        "per_second": number / seconds,
        "cpu_milliseconds_per_query": 1000 * spent / number,
    }


def both(search: Callable[[int], object], number: int, clients: int) -> dict[str, Any]:
    return {"one": one_by_one(search, number), "many": at_once(search, number, clients)}


def stages(index: Index, queries: Sequence[Query]) -> dict[str, dict[str, float]]:
    """The processor time of the parts of a hybrid search, each without the others that it calls."""
    spent: dict[str, list[float]] = {name: [] for name in STAGES}
    running, current = list[list[float]](), dict[str, float]()

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            began, inner = time.thread_time(), [0.0]
            running.append(inner)
            try:
                return function(*arguments, **options)
            finally:
                running.pop()
                seconds = time.thread_time() - began
                current[name] = current.get(name, 0.0) + seconds - inner[0]
                if running:
                    running[-1][0] += seconds

        return call

    originals = {name: getattr(*place) for name, place in STAGES.items()}
    rest = []
    for name, (owner, attribute) in STAGES.items():
        setattr(owner, attribute, timed(name, originals[name]))
    try:
        for query in queries:
            current.clear()
            began = time.thread_time()
            index.search(query.text, query.lang, k=K, group="concept")
            rest.append(1000 * (time.thread_time() - began - sum(current.values())))
            for name, times in spent.items():
                times.append(1000 * current.get(name, 0.0))
    finally:
        for name, (owner, attribute) in STAGES.items():
            setattr(owner, attribute, originals[name])
    return {name: percentiles(times) for name, times in (spent | {"rest": rest}).items()}


def recall(retrieved: Sequence[set[int]], relevant: Ints) -> float:
    return float(
        np.mean([len(rows & {*row.tolist()}) / len(row) for rows, row in zip(retrieved, relevant, strict=True)])
    )


def measure(index: Index, number: int, clients: int, folder: Path) -> dict[str, Any]:
    """Searches by each mode, and nearest documents beside FAISS."""
    vectors, ids = vectors_of(index)
    row_of = {document_id: i for i, document_id in enumerate(ids)}
    queries = make_queries(index, ids, min(number, len(ids)))
    number = len(queries)

    def search(i: int, mode: Any) -> object:
        group: Any = None if mode == "dense" else "concept"
        return index.search(queries[i].text, queries[i].lang, k=K, mode=mode, group=group)

    modes: dict[str, Any] = {}
    for mode in ("hybrid", "lexical", "dense"):
        modes[mode] = both(lambda i, mode=mode: search(i, mode), number, clients)  # type: ignore[misc]
        say((mode, modes[mode]))
    by_stage = stages(index, queries)
    say(by_stage)

    points = np.stack([index.query(*query).vector for query in queries])
    points = points[points.any(axis=1)]
    flat = faiss.IndexFlatIP(vectors.shape[1])
    flat.add(vectors)
    relevant = flat.search(points, K)[1]
    del flat
    lang = index.langs[0]
    retrieved = [{row_of[hit.id] for hit in hits} for hits in index.nearest(points, lang, k=K, measure="cosine")]
    own_recall = recall(retrieved, relevant)
    nearest = both(lambda i: index.nearest(points[i : i + 1], lang, k=K, measure="cosine"), len(points), clients)
    say((own_recall, nearest))
    peer = measure_faiss(vectors, points, relevant, own_recall, clients, folder)
    return {
        "queries": number,
        "modes": modes,
        "stages_cpu_milliseconds": by_stage,
        "recall": own_recall,
        "nearest": nearest,
        "faiss": peer,
        "ratio": {
            "bytes": index.about()["bytes"] / peer["bytes"],
            "cpu_p50": nearest["one"]["cpu_milliseconds"]["p50"] / peer["one"]["cpu_milliseconds"]["p50"],
            "p50": nearest["one"]["milliseconds"]["p50"] / peer["one"]["milliseconds"]["p50"],
            "many_per_second": nearest["many"]["per_second"] / peer["many"]["per_second"],
        },
    }


def measure_faiss(
    vectors: Array, points: Array, relevant: Ints, least_recall: float, clients: int, folder: Path
) -> dict[str, Any]:
    """A FAISS HNSW graph over the same vectors, which searches with at least the recall of cr5 if it can."""
    began, cpu = time.perf_counter(), time.process_time()
    faiss.omp_set_num_threads(os.cpu_count())
    graph = faiss.IndexHNSWFlat(vectors.shape[1], HNSW_M, faiss.METRIC_INNER_PRODUCT)
    graph.add(vectors)
    figures: dict[str, Any] = {
        "version": importlib.metadata.version("faiss-cpu"),
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
    }
    path = folder / "graph"
    faiss.write_index(graph, str(path))
    figures["bytes"] = path.stat().st_size
    path.unlink()
    say(figures)
    faiss.omp_set_num_threads(1)
    for ef_search in EF_SEARCH:
        graph.hnsw.efSearch = ef_search
        reached = recall([{*row.tolist()} for row in graph.search(points, K)[1]], relevant)
        figures |= {"ef_search": ef_search, "recall": reached}
        if reached >= least_recall:
            break
    return figures | both(lambda i: graph.search(points[i : i + 1], K), len(points), clients)


def grow(index: Index, documents: Iterator[Document], queries: Sequence[Query]) -> dict[str, Any]:
    """Add documents, 1,000 at a time, while another thread searches; the index is empty at the beginning.

    ``cpu_seconds_by_quarter`` are of additions and of what is done beside them, without searches.
    """
    stopped, searches, additions = threading.Event(), list[tuple[float, float]](), list[tuple[float, float]]()
    spent = [time.process_time()]

    def keep_searching() -> None:
        for i in range(10**9):
            if stopped.wait(0.05):
                return
            began, cpu = time.perf_counter(), time.thread_time()
            index.search(*queries[i % len(queries)], k=K)
            searches.append((time.perf_counter() - began, time.thread_time() - cpu))

    index.add(list(islice(documents, ADDED_DOCUMENTS)))
    for query in queries[:30]:  # compile
        index.search(*query, k=K)
    searcher = threading.Thread(target=keep_searching)
    searcher.start()
    while batch := list(islice(documents, ADDED_DOCUMENTS)):
        began, cpu = time.perf_counter(), time.thread_time()
        index.add(batch)
        additions.append((time.perf_counter() - began, time.thread_time() - cpu))
        spent.append(time.process_time() - sum(seconds for _, seconds in searches))
        if len(additions) % 25 == 0:
            say((len(additions), additions[-1], np.sum(additions, axis=0).tolist(), np.max(searches, axis=0).tolist()))
    stopped.set()
    searcher.join()
    wall, cpu_seconds = np.array(additions).T
    ends = np.array(spent)[np.linspace(0, len(spent) - 1, 5).astype(int)]
    latencies, search_cpu = 1000 * np.array(searches).T
    return {
        "documents": sum(index.count().values()),
        "addition_seconds": {"p50": float(np.median(wall)), "max": float(wall.max())},
        "addition_cpu_seconds": {"p50": float(np.median(cpu_seconds)), "max": float(cpu_seconds.max())},
        "cpu_seconds_by_quarter": np.diff(ends).round(1).tolist(),
        "searches": len(searches),
        "search_milliseconds": percentiles(latencies.tolist()) | {"max": float(latencies.max())},
        "search_cpu_milliseconds": percentiles(search_cpu.tolist()) | {"max": float(search_cpu.max())},
        "searches_above_200_ms_of_cpu": int((search_cpu > 200).sum()),
        "bytes": index.about()["bytes"],
    }


def made_up_model(folder: Path) -> Path:
    """A model of made-up documents."""
    if not folder.exists():
        Cr5(rank=RANK, min_unique=20).fit(made_up(TRAINING_DOCUMENTS)).save(folder)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("corpus", nargs="*")
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--store", help="address of a PostgreSQL server with pgvector; a folder without")
    parser.add_argument("--keep", type=Path, help="folder for the model and the index, which are then not deleted")
    parser.add_argument("--grow", type=int, default=0, help="documents to add by 1,000 to another index")
    arguments = parser.parse_args()

    def documents(number: int) -> Iterator[Document]:
        return passages(arguments.corpus, number) if arguments.corpus else made_up(number)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kept = arguments.keep or folder
        model = arguments.model or made_up_model(kept / "model")
        place, figures = kept / f"index-{arguments.documents}", dict[str, Any]()
        if Index.exists(place):
            index = Index.open(place, store=arguments.store)
        else:
            index = Index.create(place, model, store=arguments.store)
            figures["build"] = build(index, documents(arguments.documents))
            say(figures)
        with index:
            figures |= {"documents": len(index), "bytes": index.about()["bytes"], "passages": index.about()["passages"]}
            figures |= measure(index, arguments.queries, arguments.clients, folder)
            if arguments.grow:
                ids = [row for rows in islice(index.scan(("id",)), 20) for row in rows["id"].to_pylist()]
                queries = make_queries(index, ids, 300)
        if arguments.grow:
            settings = IngestSettings(optimise_beside=True)
            with Index.create(folder / "growing", model, settings=settings) as growing:
                figures["growth"] = grow(growing, documents(arguments.grow), queries)
        about = {
            "benchmark": "index",
            "source": "corpus" if arguments.corpus else "made up",
            "store": "lancedb" if arguments.store is None else "postgresql",
            "clients": arguments.clients,
            "cores": os.cpu_count(),
            "load": os.getloadavg()[0],
            "peak_gb": peak_gb(),
        }
    print(json.dumps(about | figures))


if __name__ == "__main__":
    main()
