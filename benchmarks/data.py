"""Matrices for benchmarks: comparable Europarl speeches, or a made-up corpus of any size.

python benchmarks/data.py --documents 1300000

makes up a corpus of that size and prints its facts as one JSON object. That half needs NumPy and SciPy
only, so that it also runs where cr5 is not installed.
"""

import argparse
import importlib
import json
import os
import resource
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Array: TypeAlias = NDArray[Any]
Ints: TypeAlias = NDArray[Any]
Sparse: TypeAlias = csr_array

QUERIES = 1_000  # of the validation, and as many of the test
TOPICS, TOPICS_OF_A_CONCEPT = 1_000, 3
FAVOURED = 64  # a topic favours one of so many words of a frequency band
CHUNK = 2_048  # documents that are made up at a time


class Data(NamedTuple):
    """The input of a fit, and the queries and candidates that it is scored on.

    blocks, concepts: training documents x words and their concept numbers, without gaps. candidates,
    answers: the same of held-out documents, with numbers of their own; validation, test: some of these.
    """

    blocks: dict[str, Sparse]
    concepts: dict[str, Ints]
    candidates: dict[str, Sparse]
    answers: dict[str, Ints]
    validation: Ints
    test: Ints

    def facts(self) -> dict[str, int]:
        """The size of the training part."""
        return {
            "documents": sum(X.shape[0] for X in self.blocks.values()),
            "words": sum(X.shape[1] for X in self.blocks.values()),
            "nonzeros": sum(int(X.nnz) for X in self.blocks.values()),
        }


class Parts(NamedTuple):
    """A CSR matrix as plain arrays, on whichever device."""

    indptr: Array
    indices: Array
    data: Array
    shape: tuple[int, int]


def precision_at_1(vectors: dict[str, Array], concepts: dict[str, Ints], asked: Ints) -> dict[str, float]:
    """P@1 in percent by each measure, mean over all directions: documents of the concepts ``asked`` are the queries."""
    found: dict[str, list[float]] = {}
    for source in vectors:
        chosen = np.isin(concepts[source], asked)
        for target in vectors:
            if source != target:
                given = vectors[source][chosen], concepts[source][chosen], vectors[target], concepts[target]
                for measure, hits in retrieve(*given).items():
                    found.setdefault(measure, []).append(100 * float(np.mean(hits.ranks == 1)))
    return {measure: float(np.mean(values)) for measure, values in found.items()}


def retrieve(
    queries: Array, query_concepts: Ints, candidates: Array, candidate_concepts: Ints, *, k: int = 10
) -> dict[str, Any]:
    """Both measures in one view: the k best candidates, and the rank of each query's counterpart."""
    from cr5.retrieval.block_products import WeightedView
    from cr5.retrieval.top_k import retrieve_views

    return {**retrieve_views([WeightedView(queries, candidates)], query_concepts, candidate_concepts, k=k)}


def counterpart_ranks(
    queries: Array, query_concepts: Ints, candidates: Array, candidate_concepts: Ints, *, measure: str = "cosine"
) -> Ints:
    """The rank of the counterpart of each query whose concept some candidate has."""
    kept = np.isin(query_concepts, candidate_concepts)
    found = retrieve(queries[kept], query_concepts[kept], candidates, candidate_concepts, k=0)
    return found[measure].ranks


def speeches(folder: Path, langs: tuple[str, ...], comparable: bool = True) -> tuple[list[str], dict[str, list[str]]]:
    """Concept names and texts; comparable: language i keeps paragraphs i, i + L, i + 2L, ..."""
    import pyarrow.parquet as pq

    tables = {lang: pq.read_table(folder / f"{lang}.parquet") for lang in langs}
    names = tables[langs[0]]["concept"].to_pylist()
    texts = {}
    for i, lang in enumerate(langs):
        assert tables[lang]["concept"].to_pylist() == names
        texts[lang] = tables[lang]["text"].to_pylist()
        if comparable:
            texts[lang] = ["\n".join(text.split("\n")[i :: len(langs)]) for text in texts[lang]]
    return names, texts


def europarl(
    folder: Path,
    langs: tuple[str, ...] = ("en", "it"),
    most: int = 20_000,
    train: float = 0.6,
    seed: int = 0,
    preset: str = "default",
) -> Data:
    """Comparable speeches with 50 to 1,000 different words in every language: 60 % train, the others are candidates."""
    from cr5.features.counts import WordCounter
    from cr5.features.tfidf import fit_vocabulary
    from cr5.settings import make_settings

    chosen = make_settings(preset)
    names, texts = speeches(folder, langs)
    counts = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for lang in langs:
            counter = WordCounter(lang, chosen.tokeniser, pool)
            for i in range(0, len(names), 2_000):
                counter.add(texts[lang][i : i + 2_000])
            counts[lang] = counter.finish()
    fitting = np.logical_and.reduce([(c.unique_words >= 50) & (c.unique_words <= 1_000) for c in counts.values()])
    order = np.random.default_rng(seed).permutation(np.flatnonzero(fitting))[:most]
    training, held_out = np.split(order, [int(train * len(order))])
    by_name = np.argsort(np.array(names)[training])  # numbers as Cr5.fit gives them: in another order than the rows
    numbers = np.empty(len(training), np.int64)
    numbers[by_name] = np.arange(len(training))
    blocks, candidates = {}, {}
    for lang in langs:
        rows = counts[lang].select_rows(training)
        features = fit_vocabulary(rows, replace(chosen.weighting, subwords=False))
        blocks[lang] = features.transform(rows)
        candidates[lang] = features.transform(counts[lang].select_rows(held_out))
    asked = min(QUERIES, len(held_out) // 2)
    answers = dict.fromkeys(langs, held_out)
    return Data(
        blocks, dict.fromkeys(langs, numbers), candidates, answers, held_out[:asked], held_out[asked : 2 * asked]
    )


def synthetic(
    documents: int,
    words_per_document: int = 150,
    languages: int = 4,
    words: int = 200_000,
    concepts: int | None = None,
    seed: int = 0,
    xp: Any = np,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A made-up corpus whose languages share topics: blocks and concept numbers per language.

    Each concept (``documents`` / 2 of them, unless given) has documents in two languages and three of
    1,000 topics. Every other token is background, rank i as often as 1/i; the others come from the
    topics in turn: of the same frequency band, but one of the few words that the topic favours there.
    Documents have equally many tokens and ``words_per_document`` different words on average. Weights
    are log tf times smooth idf^1.5, rows of length 1.

    All randomness is a hash of the seed and of what it is for, so that chunks and devices do not
    matter. With ``xp=cupy`` all arrays stay on the GPU, and blocks are ``Parts``, not SciPy's.
    """
    concepts = documents // 2 if concepts is None else concepts
    blocks, numbers, length = {}, {}, 0
    for i in range(languages):
        key = _key(seed, i)
        ids = _concepts(xp, documents, concepts, i, languages, key)
        topics = _topics(xp, ids, _key(seed, languages))
        length = length or _tokens_for(xp, words_per_document, topics[:256], key, words)
        parts = _weigh(xp, _count(xp, topics, key, length, words), len(ids), words)
        numbers[f"l{i}"], blocks[f"l{i}"] = ids, _scipy(parts) if xp is np else parts
    return blocks, numbers


def hold_out(blocks: Mapping[str, Sparse], concepts: Mapping[str, Ints], train: float = 0.6) -> Data:
    """The first concepts train, the documents of the others are the candidates."""
    border = int(train * (1 + max(int(ids.max()) for ids in concepts.values())))
    others = np.unique(np.concatenate([ids[ids >= border] for ids in concepts.values()]))
    asked = min(QUERIES, len(others) // 2)
    return Data(
        *first(blocks, concepts, border),
        {lang: X[concepts[lang] >= border] for lang, X in blocks.items()},
        {lang: ids[ids >= border] for lang, ids in concepts.items()},
        others[:asked],
        others[asked : 2 * asked],
    )


def first(
    blocks: Mapping[str, Sparse], concepts: Mapping[str, Ints], count: int
) -> tuple[dict[str, Sparse], dict[str, Ints]]:
    """The documents of the first ``count`` concepts."""
    return (
        {lang: X[concepts[lang] < count] for lang, X in blocks.items()},
        {lang: ids[ids < count] for lang, ids in concepts.items()},
    )


def peak_gb() -> float:
    """The most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "linux" else 1e9)


def import_faiss() -> Any:
    """The module faiss; the benchmark ends without it."""
    from threadpoolctl import threadpool_info

    # The OpenBLAS of FAISS may be too old to recognise this processor, and then uses code for one of 2004.
    cores = [library["architecture"] for library in threadpool_info() if library["internal_api"] == "openblas"]
    if cores and cores[0]:
        os.environ.setdefault("OPENBLAS_CORETYPE", cores[0])
    try:
        return importlib.import_module("faiss")
    except ImportError:
        sys.exit("this benchmark compares with FAISS; run: pip install faiss-cpu")


def measure_corpora(
    description: str | None, measure: Callable[[Path, str], dict[str, Any]], choices: Sequence[str]
) -> None:
    """Parse the arguments of a benchmark, and print what it measures on each of the corpora that are named."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of the benchmark corpora")
    parser.add_argument("corpora", nargs="+", choices=choices)
    given = parser.parse_args()
    for name in given.corpora:
        print(json.dumps(measure(given.data, name)), flush=True)


def seconds(action: Callable[[], object]) -> float:
    """How long an action takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def say(what: object) -> None:
    """Progress, beside the results."""
    print(what, file=sys.stderr, flush=True)


# How a corpus is made up. Unsigned arithmetic wraps around; NumPy would warn only for scalars.

_U = np.uint64


def _key(seed: int, lang: int) -> np.uint64:
    return _U((seed * 1_000_003 + lang + 1) * 0x9E3779B97F4A7C15 % 2**64)


def _mix(x: Array) -> Array:
    """64 random bits for every number: the finaliser of SplitMix64, in place."""
    x ^= x >> _U(30)
    x *= _U(0xBF58476D1CE4E5B9)
    x ^= x >> _U(27)
    x *= _U(0x94D049BB133111EB)
    x ^= x >> _U(31)
    return x


def _below(bits: Array, limit: Any) -> Array:
    """The lower 32 bits as whole numbers below ``limit``."""
    return ((bits & _U(2**32 - 1)) * limit) >> _U(32)


def _concepts(xp: Any, documents: int, concepts: int, lang: int, languages: int, key: np.uint64) -> Array:
    """The concept of every document of a language, in an order of its own.

    Document d is of concept d % concepts; a concept's first two are in different languages.
    """
    document = xp.arange(documents)
    concept, turn = document % concepts, document // concepts
    step = 1 + concept // languages % max(languages - 1, 1)
    ids = concept[(concept + turn * step) % languages == lang]
    return ids[xp.argsort(_mix(ids.astype(xp.uint64) + key))]


def _topics(xp: Any, ids: Array, key: np.uint64) -> Array:
    """Documents x 3: the topics of every document's concept."""
    which = xp.arange(TOPICS_OF_A_CONCEPT, dtype=xp.uint64)
    return _below(_mix((ids.astype(xp.uint64)[:, None] << _U(20)) + which + key), _U(TOPICS))


def _draw(xp: Any, topics: Array, begin: int, length: int, key: np.uint64, words: int) -> Array:
    """Documents x tokens: the words of documents ``begin`` and on, which have these topics."""
    rows = xp.arange(begin, begin + len(topics), dtype=xp.uint64)[:, None] << _U(20)
    bits = _mix(rows + xp.arange(length, dtype=xp.uint64) + key)
    uniform = (bits >> _U(40)).astype(xp.float64) * 2**-24
    # P(word <= i) ~ ln i, from 1 on; in double precision devices round to the same word
    word = xp.minimum(xp.exp(uniform * np.log(words + 1)), words).astype(xp.int32)
    exponent = xp.frexp(word[:, 1::2].astype(xp.float32))[1]
    base = xp.ldexp(np.float32(0.5), exponent).astype(xp.uint64)  # the band: word is in [base, 2 base)
    slot = _below(bits[:, 1::2], xp.maximum(base // _U(FAVOURED), _U(1)))
    turns = xp.arange(base.shape[1]) % TOPICS_OF_A_CONCEPT
    favoured = _mix((topics[:, turns] << _U(40)) + base + slot + key)
    word[:, 1::2] = base + _below(favoured, xp.minimum(base, _U(words + 1) - base))
    return word - np.int32(1)


def _tally(xp: Any, tokens: Array) -> tuple[Array, Array, Array]:
    """Different words of every document, in order; how often each occurs; how many they are a document."""
    tokens.sort(axis=1)
    new = xp.ones(tokens.shape, bool)
    new[:, 1:] = tokens[:, 1:] != tokens[:, :-1]
    at = xp.flatnonzero(new)
    times = xp.diff(xp.concatenate([at, xp.asarray([tokens.size])]))
    return tokens.ravel()[at], times.astype(xp.int16), new.sum(axis=1)


def _tokens_for(xp: Any, different: int, topics: Array, key: np.uint64, words: int) -> int:
    """How many tokens have so many different words on average."""
    sample = _draw(xp, topics, 0, 16 * different, key, words)

    def found(length: int) -> float:
        return float(_tally(xp, sample[:, :length].copy())[2].mean())

    return 1 + bisect_left(range(1, sample.shape[1]), different, key=found)


def _count(xp: Any, topics: Array, key: np.uint64, length: int, words: int) -> Iterator[tuple[Array, Array, Array]]:
    """``_tally`` of all documents, chunk by chunk."""

    def one(begin: int) -> tuple[Array, Array, Array]:
        return _tally(xp, _draw(xp, topics[begin : begin + CHUNK], begin, length, key, words))

    begins = range(0, len(topics), CHUNK)
    if xp is not np:
        yield from map(one, begins)
        return
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(one, begins)


def _weigh(xp: Any, chunks: Iterator[tuple[Array, Array, Array]], documents: int, words: int) -> Parts:
    """(1 + ln tf) idf^1.5, every row to length 1."""
    chunks = list(chunks)[::-1]
    lengths = xp.concatenate([chunk[2] for chunk in reversed(chunks)])
    indptr = xp.concatenate([xp.zeros(1, xp.int64), xp.cumsum(lengths, dtype=xp.int64)])
    found = xp.zeros(words, xp.int64)
    for chunk in chunks:
        found += xp.bincount(chunk[0], minlength=words)
    idf = (xp.log((1 + documents) / (1 + found)) + 1) ** 1.5
    size = int(indptr[-1])
    indices, data, end = xp.empty(size, xp.int32), xp.empty(size, xp.float32), 0
    while chunks:  # each is forgotten as soon as it has moved
        column, times, length = chunks.pop()
        weight = (1 + xp.log(times.astype(xp.float32))) * idf[column]
        sums = xp.cumsum(weight**2)[xp.cumsum(length) - 1]
        norms = xp.sqrt(xp.diff(xp.concatenate([xp.zeros(1), sums])))
        row = xp.zeros(len(column), xp.int32)  # no row is empty, so each begins at another place
        row[(xp.cumsum(length) - length)[1:]] = 1
        weight /= norms[xp.cumsum(row)]
        begin, end = end, end + len(column)
        indices[begin:end], data[begin:end] = column, weight
    return Parts(indptr, indices, data, (documents, words))


def _scipy(parts: Parts) -> Sparse:
    """The same as SciPy's, which widens the indices where indptr is wider than it needs to be."""
    indptr = parts.indptr.astype(np.int32) if len(parts.indices) < 2**31 else parts.indptr
    return csr_array((parts.data, parts.indices, indptr), shape=parts.shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--words-per-document", type=int, default=150)
    parser.add_argument("--languages", type=int, default=4)
    parser.add_argument("--words", type=int, default=200_000, help="of every language")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    began = time.perf_counter()
    blocks, concepts = synthetic(**vars(given))
    seconds = time.perf_counter() - began
    nonzeros = sum(int(X.nnz) for X in blocks.values())
    result = {
        "benchmark": "data",
        "shapes": {lang: X.shape for lang, X in blocks.items()},
        "concepts": 1 + max(int(ids.max()) for ids in concepts.values()),
        "nonzeros": nonzeros,
        "words_per_document": nonzeros / given.documents,
        "words_used": {lang: len(np.unique(X.indices)) for lang, X in blocks.items()},
        "seconds": seconds,
        "peak_gb": peak_gb(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
