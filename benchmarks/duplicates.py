"""Near-duplicates: cr5 against datasketch's MinHashLSH, on one thread, with the same shingles, slots and bands.

python benchmarks/duplicates.py [CORPUS]

Prints one JSON object. Without a corpus (a file or folder that cr5 reads), texts are made up of a few thousand
words, one in ten a copy with some words changed. datasketch gets the first ``--sample`` documents only, and
an index for each language. Both mark what repeats an earlier unmarked text of the language and another concept;
``agreement`` is the share of documents on which they say the same, ``similar`` what cr5 marks of them. Seconds
are the processor's, without compiling and reading; ``bytes_a_document`` is what an unmarked document leaves in
memory, for datasketch measured in a turn of its own.
"""

import argparse
import importlib.metadata
import json
import re
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from datasketch import LeanMinHash, MinHash, MinHashLSH

from cr5.corpus.documents import SCHEMA, Document
from cr5.corpus.duplicates import Duplicates, bands
from cr5.corpus.inputs import in_batches
from cr5.corpus.minhash import BINS, SHINGLE
from cr5.corpus.reading import read_batches

Rows = list[pa.RecordBatch]


def synthetic(documents: int, words: int = 150, seed: int = 0) -> Iterator[Document]:
    rng = np.random.default_rng(seed)
    vocabulary = np.array(["".join(map(chr, rng.integers(97, 123, length))) for length in rng.integers(2, 10, 5_000)])
    weights = 1 / np.arange(1, len(vocabulary) + 1)
    texts = rng.choice(len(vocabulary), (documents, words), p=weights / weights.sum())
    texts[9::10] = np.where(rng.random(texts[9::10].shape) < 0.03, texts[9::10], texts[8::10][: len(texts[9::10])])
    for i, text in enumerate(texts):
        yield Document(str(i), "en", " ".join(vocabulary[text]))


def ours(rows: Rows, threshold: float) -> tuple[list[bool], Duplicates]:
    duplicates = Duplicates(threshold)
    return [bool(mark) for batch in rows for mark in duplicates.mark(batch)], duplicates


def theirs(rows: Rows, threshold: float) -> tuple[list[bool], object]:
    indexes: dict[str, MinHashLSH] = defaultdict(lambda: MinHashLSH(num_perm=BINS, params=bands(threshold)))
    kept: list[tuple[str, LeanMinHash]] = []
    blank, marks = MinHash(BINS), []
    for batch in rows:
        for row in batch.to_pylist():
            plain = re.sub(r"[\W_]+", " ", re.sub(r"\d+", "0", row["text"].lower())).strip().encode()
            counted = blank.copy()
            counted.update_batch([plain[i : i + SHINGLE] for i in range(len(plain) - SHINGLE + 1)])
            signature = LeanMinHash(counted)
            near = (kept[number] for number in indexes[row["lang"]].query(signature))
            marks.append(any(c != row["concept"] and s.jaccard(signature) >= threshold for c, s in near))
            if not marks[-1]:
                indexes[row["lang"]].insert(len(kept), signature)
                kept.append((row["concept"], signature))
    return marks, (indexes, kept)


def head(rows: Rows, count: int) -> Rows:
    return pa.Table.from_batches(rows, SCHEMA).slice(0, count).to_batches()


def size(rows: Rows) -> tuple[int, float]:
    """Documents, and megabytes of their texts."""
    return sum(batch.num_rows for batch in rows), sum(batch["text"].nbytes for batch in rows) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="?")
    parser.add_argument("--documents", type=int, default=50_000, help="to make up")
    parser.add_argument("--sample", type=int, default=2_000)
    parser.add_argument("--threshold", type=float, default=0.8)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    found = read_batches(given.corpus) if given.corpus else in_batches(synthetic(given.documents))
    rows = [batch.rows for batch in found]
    sample = head(rows, given.sample)
    ours(sample, given.threshold)  # compiled

    rounds = []
    for _ in range(given.rounds):
        began = time.process_time()
        marks, duplicates = ours(rows, given.threshold)
        rounds.append(time.process_time() - began)
    seconds = float(np.median(rounds))
    began = time.process_time()
    their_marks, _ = theirs(sample, given.threshold)
    their_seconds = time.process_time() - began
    tracemalloc.start()
    _, _index = theirs(sample, given.threshold)
    their_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()

    documents, megabytes = size(rows)
    sampled, sampled_megabytes = size(sample)
    print(
        json.dumps(
            {
                "benchmark": "duplicates",
                "corpus": given.corpus or "made up",
                "threshold": given.threshold,
                "bands": bands(given.threshold),
                "documents": documents,
                "megabytes": megabytes,
                "marked": sum(marks) / documents,
                "rounds": given.rounds,
                "mb_per_second": megabytes / seconds,
                "documents_a_second": documents / seconds,
                "bytes_a_document": duplicates.nbytes / (documents - sum(marks)),
                "datasketch": importlib.metadata.version("datasketch"),
                "datasketch_documents": sampled,
                "datasketch_mb_per_second": sampled_megabytes / their_seconds,
                "datasketch_documents_a_second": sampled / their_seconds,
                "datasketch_bytes_a_document": their_bytes / (sampled - sum(their_marks)),
                "similar": sum(marks[:sampled]) / sampled,
                "agreement": float(np.mean(np.array(marks[:sampled]) == their_marks)),
            }
        )
    )


if __name__ == "__main__":
    main()
