"""How fast a model encodes on one core. Prints one JSON object.

python benchmarks/encode.py MODEL --lang en --corpus ../shared/data/europarl-speeches/en.parquet

Texts of 15 words and whole documents, one at a time and 1,024 at a time. Without ``--corpus`` the
texts are drawn from the model's own vocabulary (rank r as often as 1/r), documents of 300 words.
The measuring process may use one core and no second thread.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ONE = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "ARROW_NUM_THREADS"), "1"
)
COUNT, SECONDS = 4096, 2.0  # texts to choose from, and how long to measure at least


def measure(model_path: Path, lang: str, corpus: str | None) -> dict[str, Any]:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    began = time.perf_counter()
    import pyarrow as pa

    from cr5 import Cr5, __version__
    from cr5.features.counts import count_words

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    imported = time.perf_counter()
    model = Cr5.load(model_path, langs=[lang])
    loaded = time.perf_counter()
    model.encode([""], lang)
    first = time.perf_counter()
    documents = from_corpus(corpus, lang) if corpus else drawn(model.words(lang), 300)
    short = [" ".join(text.split()[:15]) for text in documents] if corpus else drawn(model.words(lang), 15)
    result: dict[str, Any] = {
        "benchmark": "encode",
        "signature": f"{model_path.name} {lang}|{corpus or 'drawn from the vocabulary'}|{len(documents)} texts|"
        f"{len(model.words(lang))} words|rank {model.settings.rank}|1 core|cr5 {__version__}",
        "seconds": {"import": imported - began, "load": loaded - imported, "first_language": first - loaded},
    }
    for name, texts in (("15 words", short), ("documents", documents)):
        tokens = int(count_words(texts, lang, model.settings.tokeniser).matrix.sum())
        for batch in (1, 1024):
            speed = rate(lambda some: model.encode(some, lang), texts, batch)
            result[f"{name}, batch {batch}"] = {
                "texts_per_second": speed,
                "tokens_per_second": speed * tokens / len(texts),
                "tokens_per_text": tokens / len(texts),
            }
    return result


def rate(encode: Callable[[list[str]], object], texts: list[str], batch: int) -> float:
    """Texts a second, over at least SECONDS and one whole batch."""
    done, i, began = 0, 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < SECONDS:
        some = texts[i : i + batch]
        encode(some)
        done += len(some)
        i = i + batch if i + batch < len(texts) else 0
    return done / passed


def from_corpus(corpus: str, lang: str) -> list[str]:
    from itertools import islice

    from cr5 import read

    texts = [document.text for document in islice(read(corpus, langs=[lang]), COUNT)]
    if not texts:
        sys.exit(f"{corpus} has no document in {lang}; name another corpus or language")
    return texts


def drawn(words: list[str], length: int) -> list[str]:
    import numpy as np

    weight = 1 / np.arange(1, len(words) + 1)
    chosen = np.random.default_rng(0).choice(len(words), (COUNT, length), p=weight / weight.sum())
    return [" ".join(words[i] for i in row) for row in chosen]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--lang", required=True)
    parser.add_argument("--corpus", help="documents to encode")
    parser.add_argument("--here", action="store_true", help="measure in this process, as its environment is")
    given = parser.parse_args()
    if given.here:
        print(json.dumps(measure(given.model, given.lang, given.corpus)))
        return
    # Libraries count their threads when they are loaded, so the measuring process begins with one.
    command = [sys.executable, __file__, *sys.argv[1:], "--here"]
    sys.exit(subprocess.run(command, check=False, env=os.environ | ONE).returncode)


if __name__ == "__main__":
    main()
