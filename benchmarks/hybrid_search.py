"""The time of a search by each mode, and the scores of related and unrelated queries. Prints one JSON object.

python benchmarks/hybrid_search.py INDEX [--unrelated OTHER_INDEX] [--queries 200]

The queries are titles, keywords, strings, questions and titles with typos that ``cr5 eval search`` makes out of INDEX,
each asked in all languages. Those of OTHER_INDEX, in the languages that both have, are about something else: their
best scores say from which score on a hit is probably related.
"""

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np

from cr5.evaluate.tasks.search.documents import read_documents
from cr5.evaluate.tasks.search.queries import QueryMaker, QueryType, SearchQuery
from cr5.index import Index, Mode
from cr5.progress import no_progress

SHORT: tuple[QueryType, ...] = ("title", "string", "keywords", "question", "typo")
LEVELS = (0.3, 0.5)


def make_queries(index: Index, types: Sequence[QueryType], langs: Sequence[str], number: int) -> list[SearchQuery]:
    """Queries in their own language, in random order."""
    languages = read_documents(index, langs, no_progress)
    made = QueryMaker(index, languages, queries=number, validation=False, seed=0).make(types)
    own = [query for query in made if query.source == query.target]
    return [own[i] for i in np.random.default_rng(0).permutation(len(own))[:number]]


def times(index: Index, queries: Sequence[SearchQuery], mode: Mode) -> dict[str, float]:
    """The median and the 95th percentile of one search after another, in milliseconds."""
    for query in queries[:20]:
        index.search(query.text, query.source, mode=mode)
    seconds = []
    for query in queries:
        began = time.perf_counter()
        index.search(query.text, query.source, mode=mode)
        seconds.append(time.perf_counter() - began)
    return {
        "p50": round(1000 * float(np.median(seconds)), 1),
        "p95": round(1000 * float(np.quantile(seconds, 0.95)), 1),
    }


def best_scores(index: Index, queries: Sequence[SearchQuery]) -> dict[str, Any]:
    """The scores of the first hits: their median, and the share that reaches each level."""
    hits = [index.search(query.text, query.source, k=1).hits for query in queries]
    scores = np.array([found[0].score if found else 0.0 for found in hits])
    shares = {f"from {level}": round(float((scores >= level).mean()), 3) for level in LEVELS}
    return {"queries": len(scores), "median": round(float(np.median(scores)), 2)} | shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index")
    parser.add_argument("--unrelated", help="the index of another corpus")
    parser.add_argument("--queries", type=int, default=200)
    given = parser.parse_args()
    with Index.open(given.index) as index:
        queries = make_queries(index, SHORT, list(index.count()), given.queries)
        result: dict[str, Any] = {
            "benchmark": "hybrid_search",
            "documents": sum(index.count().values()),
            "passages": index.about()["passages"],
            "milliseconds": {mode: times(index, queries, mode) for mode in get_args(Mode)},
            "related": best_scores(index, queries),
        }
        if given.unrelated:
            with Index.open(given.unrelated) as other:
                shared = [lang for lang in index.count() if lang in other.count()]
                everything: tuple[QueryType, ...] = get_args(QueryType)
                asked = make_queries(other, everything, shared, given.queries)
            result["unrelated"] = best_scores(index, asked)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
