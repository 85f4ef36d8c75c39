"""Full text beside LanceDB's own full-text index and Tantivy, over the same tokens. Prints one JSON object.

python benchmarks/full_text.py CORPUS... [--documents 50000] [--passage-words 60] [--ours]

Tantivy takes part if it is installed (``pip install tantivy``). The queries are up to ten random words of a document,
with random weights, in its language. The others know no languages: they get every token with its language as a prefix,
and their statistics are those of all documents. With ``--passage-words``, the documents are overlapping passages, until
there are enough. ``agreement`` is the share of our first ten that the other finds among its first ten.
"""

import argparse
import importlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cr5.corpus.reading import read
from cr5.features.tokeniser import Tokeniser
from cr5.index import full_text
from cr5.index.full_text import DocumentTerms, FullTextIndex, FullTextReader
from cr5.index.terms import QueryKeys, QueryWord, count_terms
from data import peak_gb, say

K, BATCH_ROWS, QUERY_WORDS, PASSAGE_STEP = 100, 8192, 10, 7
SEPARATOR = "·"  # between language and token


class Query(NamedTuple):
    lang: str
    terms: dict[str, float]


Search = Callable[[Query], list[str]]


def tokenised(corpus: Sequence[str], number: int, passage_words: int) -> list[tuple[str, str]]:
    """The language and the tokens of documents, or of their passages."""
    tokeniser = Tokeniser()
    documents = [(d.lang, tokeniser.words(f"{d.title} {d.text}", d.lang)) for d in read(list(corpus))]
    documents = [documents[i] for i in np.random.default_rng(0).permutation(len(documents))]
    found = list[tuple[str, str]]()
    for first in range(0, max(len(tokens) for _, tokens in documents) if passage_words else 1, PASSAGE_STEP):
        for lang, tokens in documents:
            part = tokens[first : first + passage_words] if passage_words else tokens
            if part:
                found.append((lang, " ".join(part)))
            if len(found) == number:
                return found
    return found


def make_queries(documents: Sequence[tuple[str, str]], number: int) -> list[Query]:
    rng = np.random.default_rng(1)
    queries = []
    for i in rng.choice(len(documents), min(number, len(documents)), replace=False):
        words = documents[i][1].split()
        drawn = dict.fromkeys(rng.choice(words, QUERY_WORDS).tolist())
        queries.append(Query(documents[i][0], {word: float(rng.uniform(0.1, 1)) for word in drawn}))
    return queries


def ours(folder: Path, documents: Sequence[tuple[str, str]], deleted_share: float = 0.0) -> Search:
    tokeniser, folder = Tokeniser(pretokenised=True), folder / "words"
    if not folder.exists():
        for first in range(0, len(documents), BATCH_ROWS):
            langs, tokens = zip(*documents[first : first + BATCH_ROWS], strict=True)
            none, slots = [""] * len(langs), first + np.arange(len(langs))
            terms = count_terms(none, tokens, none, langs, tokeniser)
            full_text.extend(folder, DocumentTerms(slots, [str(i) for i in slots], langs, terms), first + len(langs))
    exists = np.random.default_rng(2).random(len(documents)) >= deleted_share
    reader = FullTextReader(FullTextIndex(folder), exists)

    def search(query: Query) -> list[str]:
        words = [QueryWord(weight, {term: 1.0}) for term, weight in query.terms.items()]
        return reader.search(QueryKeys.make(words, query.lang), query.lang, K)[0]

    return search


def lancedb(folder: Path, documents: Sequence[tuple[str, str]]) -> Search:
    library, index = importlib.import_module("lancedb"), importlib.import_module("lancedb.index")
    parts = importlib.import_module("lancedb.query")
    rows = pa.table({"id": [str(i) for i in range(len(documents))], "tokens": list(prefixed(documents))})
    table = library.connect(folder / "lancedb").create_table("documents", rows)
    options = {"stem": False, "remove_stop_words": False, "lower_case": False, "ascii_folding": False}
    table.create_index("tokens", config=index.FTS(base_tokenizer="whitespace", max_token_length=None, **options))

    def search(query: Query) -> list[str]:
        terms = ((f"{query.lang}{SEPARATOR}{term}", weight) for term, weight in query.terms.items())
        should = [(parts.Occur.SHOULD, parts.MatchQuery(term, "tokens", boost=weight)) for term, weight in terms]
        found = table.search(parts.BooleanQuery(should), query_type="fts").select(["id", "_score"]).limit(K)
        return list(found.to_arrow()["id"].to_pylist())

    return search


def tantivy(folder: Path, documents: Sequence[tuple[str, str]]) -> Search:
    library = importlib.import_module("tantivy")
    builder = library.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw")
    builder.add_text_field("tokens", tokenizer_name="whitespace", index_option="freq")
    schema, path = builder.build(), folder / "tantivy"
    path.mkdir()
    index = library.Index(schema, path=str(path))
    writer = index.writer(heap_size=200_000_000, num_threads=1)
    for i, tokens in enumerate(prefixed(documents)):
        writer.add_document(library.Document(id=str(i), tokens=tokens))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher, kinds = index.searcher(), library.Query

    def search(query: Query) -> list[str]:
        parts = []
        for term, weight in query.terms.items():
            own = kinds.term_query(schema, "tokens", f"{query.lang}{SEPARATOR}{term}", "freq")
            parts.append((library.Occur.Should, kinds.boost_query(own, weight)))
        return [searcher.doc(address)["id"][0] for _, address in searcher.search(kinds.boolean_query(parts), K).hits]

    return search


def prefixed(documents: Sequence[tuple[str, str]]) -> Iterator[str]:
    return (" ".join(f"{lang}{SEPARATOR}{token}" for token in tokens.split()) for lang, tokens in documents)


def measure(search: Search, queries: Sequence[Query], baseline: list[list[str]] | None) -> dict[str, Any]:
    """Latencies, one query after another; how far the first ten agree with the baseline's."""
    for query in queries[:5]:
        search(query)
    times, answers = [], []
    for query in queries:
        began = time.perf_counter()
        answers.append(search(query))
        times.append(1000 * (time.perf_counter() - began))
    result = {"p50_ms": float(np.percentile(times, 50)), "p95_ms": float(np.percentile(times, 95))}
    if baseline is not None:
        shares = [len({*a[:10]} & {*b[:10]}) / len(b[:10]) for a, b in zip(answers, baseline, strict=True) if b]
        result["agreement"] = float(np.mean(shares))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="+")
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--passage-words", type=int, default=0, help="0 for whole documents")
    parser.add_argument("--ours", action="store_true", help="leave out the others")
    options = parser.parse_args()
    documents = tokenised(options.corpus, options.documents, options.passage_words)
    queries, baseline = make_queries(documents, options.queries), None
    result: dict[str, Any] = {
        "documents": len(documents),
        "megabytes": sum(len(t.encode()) for _, t in documents) / 1e6,
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for system in (ours,) if options.ours else (ours, lancedb, tantivy):
            before, began = folder_bytes(folder), time.perf_counter()
            try:
                search = system(folder, documents)
            except ImportError:
                say(f"{system.__name__} is not installed")
                continue
            built = {"build_seconds": time.perf_counter() - began, "bytes": folder_bytes(folder) - before}
            result[system.__name__] = built | measure(search, queries, baseline)
            baseline = baseline or [search(query) for query in queries]
            say(f"{system.__name__}: {result[system.__name__]}")
        result["ours_2_percent_deleted"] = measure(ours(folder, documents, 0.02), queries, None)
    json.dump(result | {"peak_gb": peak_gb()}, sys.stdout, indent=1)


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
