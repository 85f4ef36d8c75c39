"""What passages of long documents cost an index, in time, memory and bytes. Prints one JSON object.

python benchmarks/passages.py ../shared/data/libreoffice-help [--langs en,it,de] [--rank 100] [--passage-words 150]

trains a model on the corpus and indexes all of it twice, each time in a process of its own: without passages, and with
them. ``processor_seconds`` are those of all threads, ``ratio`` is with passages to without.
"""

import argparse
import json
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from cr5 import Cr5, read
from cr5.index import Index
from data import peak_gb, say


def measure(folder: Path, model: Path, files: list[str], passage_words: int) -> dict[str, Any]:
    """Index files; the time, bytes and peak memory."""
    documents = list(read(files))
    with Index.create(folder / f"index-{passage_words}", model, passage_words=passage_words) as index:
        index.query(documents[0].text, documents[0].lang)  # the model is loaded
        peak_before, began, processor_began = peak_gb(), time.perf_counter(), time.process_time()
        index.add(documents)
        figures: dict[str, Any] = {
            "seconds": time.perf_counter() - began,
            "processor_seconds": time.process_time() - processor_began,
            "peak_gb": peak_gb(),
            "peak_gb_before": peak_before,
        }
        about = index.about()
    text_bytes = sum(len(document.text.encode()) for document in documents)
    sizes = {name: about[name] for name in ("rows", "passages", "bytes")}
    return figures | sizes | {"text_bytes": text_bytes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="a folder with a Parquet file for each language")
    parser.add_argument("--langs", default="en,it,de")
    parser.add_argument("--rank", type=int, default=100)
    parser.add_argument("--passage-words", type=int, default=150)
    arguments = parser.parse_args()
    files = [str(arguments.corpus / f"{lang}.parquet") for lang in arguments.langs.split(",")]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        Cr5(rank=arguments.rank).fit(files).save(folder / "model")
        say("trained")
        found = {}
        for label, words in (("without", 0), ("with", arguments.passage_words)):
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:  # peak memory is that of a process
                found[label] = process.submit(measure, folder, folder / "model", files, words).result()
            say(found[label])
    names = ("seconds", "processor_seconds", "peak_gb", "bytes")
    ratio = {name: found["with"][name] / found["without"][name] for name in names}
    about = {"benchmark": "passages", "langs": arguments.langs, "rank": arguments.rank}
    print(json.dumps(about | {"passage_words": arguments.passage_words} | found | {"ratio": ratio}))


if __name__ == "__main__":
    main()
