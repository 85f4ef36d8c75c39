"""From Parquet files to TF-IDF matrices, by cr5 and by scikit-learn. Prints one JSON object.

python benchmarks/features.py ../shared/data/europarl-speeches

Both read the same files (concept, lang, text), count words of every language, keep those of at least
3 documents, at most 200,000, and weigh them: 1 + ln(count) times smooth IDF, rows of length 1. Each
runs in a process of its own, so that peak memory is its own too; seconds include reading, not
imports. cr5 uses all cores, scikit-learn has no such option.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq


def by_cr5(folder: Path) -> dict[str, Any]:
    """Seconds, peak memory, and of every language the documents, words and nonzeros."""
    from cr5 import read_batches
    from cr5.features.tfidf import Weighting, fit_vocabulary
    from cr5.features.tokeniser import Tokeniser
    from cr5.machine import available_cores
    from cr5.training.counted_corpus import count_corpus

    began = time.perf_counter()
    weighting = Weighting(tf="log", idf="smooth", idf_power=1.0, min_documents=3, max_words=200_000, subwords=False)
    corpus = count_corpus(read_batches(str(folder / "*.parquet")), Tokeniser())
    counts = {lang: documents.counts for lang, documents in corpus.languages.items()}
    with ThreadPoolExecutor(available_cores()) as pool:
        rows = pool.map(lambda each: fit_vocabulary(each, weighting).transform(each), counts.values())
        shapes = {lang: [*X.shape, X.nnz] for lang, X in zip(counts, rows, strict=True)}
    return _tell(began, shapes)


def by_scikit_learn(folder: Path) -> dict[str, Any]:
    """The same by TfidfVectorizer."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    began = time.perf_counter()
    texts: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.parquet")):
        table = pq.read_table(path, columns=["lang", "text"])
        for lang in pc.unique(table["lang"]).to_pylist():
            texts.setdefault(lang, []).extend(table.filter(pc.equal(table["lang"], lang))["text"].to_pylist())
    shapes = {}
    for lang in sorted(texts):
        X = TfidfVectorizer(min_df=3, max_features=200_000, sublinear_tf=True, token_pattern=r"(?u)\w+").fit_transform(
            texts[lang]
        )
        shapes[lang] = [*X.shape, X.nnz]
    return _tell(began, shapes)


def _tell(began: float, shapes: dict[str, list[int]]) -> dict[str, Any]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "linux" else 1e9)
    return {"seconds": time.perf_counter() - began, "peak_gb": peak, "shapes": shapes}


def size(folder: Path) -> tuple[int, int]:
    """Documents and bytes of text."""
    columns = [pq.read_table(path, columns=["text"])["text"] for path in sorted(folder.glob("*.parquet"))]
    return sum(len(c) for c in columns), sum(pc.sum(pc.binary_length(c)).as_py() for c in columns)


WAYS = {"cr5": by_cr5, "scikit-learn": by_scikit_learn}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=WAYS, help="one way, in this process")
    given = parser.parse_args()
    if not list(given.folder.glob("*.parquet")):
        sys.exit(f"{given.folder} holds no .parquet file; name a folder that does")
    if given.only:
        print(json.dumps(WAYS[given.only](given.folder)))
        return
    documents, octets = size(given.folder)
    result: dict[str, Any] = {"benchmark": "features", "documents": documents, "mb": octets / 1e6}
    for way in WAYS:
        command = [sys.executable, __file__, str(given.folder), "--only", way]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        speed = {
            "mb_per_second": octets / 1e6 / found["seconds"],
            "documents_per_second": documents / found["seconds"],
        }
        result[way] = found | speed
    result["ratio"] = result["scikit-learn"]["seconds"] / result["cr5"]["seconds"]
    result["ratio_peak_gb"] = result["scikit-learn"]["peak_gb"] / result["cr5"]["peak_gb"]
    print(json.dumps(result))


if __name__ == "__main__":
    main()
