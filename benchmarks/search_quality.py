"""Search in manuals or other corpora, measured by known items beside BM25. Prints one JSON object.

python benchmarks/search_quality.py ../shared/data [--langs en,it,da] [--queries 100] [--validation] [--keep FOLDER]
python benchmarks/search_quality.py ../shared/data --corpora ddtp --langs de,fr,sk

trains a model on half of the concepts of msdocs and libreoffice-help, or of other corpora, indexes all documents, with
the first line of a text as its title if it is short, and runs ``cr5 eval search``. Choose settings with
``--validation``; the other half of the queries is for reporting. ``--keep`` keeps model and index in a folder, and uses
those that it has.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from cr5 import Cr5, Document, evaluate, read
from cr5.evaluate.tasks.search.task import QUERIES, TYPES
from cr5.hashing import hash_texts
from cr5.index import Index

CORPORA = "msdocs,libreoffice-help"
LANGS = "en,it,da,vi,de,fr,es,ru,ja,pt-BR,nl,sv"
MAX_TITLE_CHARACTERS = 100  # a longer first line is no title


def documents(data: Path, corpora: list[str], langs: list[str]) -> Iterator[Document]:
    """The documents of some corpora; concepts begin with the name of the corpus."""
    for name in corpora:
        for document in read([str(data / name / f"{lang}.parquet") for lang in langs]):
            first = document.text.strip().split("\n", 1)[0].strip("# ")
            title = first if len(first) <= MAX_TITLE_CHARACTERS else ""
            yield replace(document, concept=f"{name}/{document.concept}", title=title)


def is_trained(concept: str) -> bool:
    """Whether a concept is in the half that the model is trained on, which is not the half of the test queries."""
    return bool(int(hash_texts([f"train: {concept}"])[0]) >> 32 & 1)


def make_index(folder: Path, data: Path, corpora: list[str], langs: list[str]) -> dict[str, float]:
    """Train and index; the seconds of both."""
    began = time.perf_counter()
    model = Cr5().fit(d for d in documents(data, corpora, langs) if is_trained(d.concept))
    trained = time.perf_counter()
    with Index.create(folder / "index", model) as index:
        index.add(documents(data, corpora, langs))
    return {"train": round(trained - began, 1), "index": round(time.perf_counter() - trained, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder with the corpora")
    parser.add_argument("--corpora", default=CORPORA)
    parser.add_argument("--langs", default=LANGS)
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--queries", type=int, default=QUERIES)
    parser.add_argument("--validation", action="store_true")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    langs = given.langs.split(",")
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.keep or Path(scratch)
        seconds = (
            {} if Index.exists(folder / "index") else make_index(folder, given.data, given.corpora.split(","), langs)
        )
        print(f"model and index: {seconds}", file=sys.stderr, flush=True)
        run = evaluate.search(
            folder / "index",
            types=given.types.split(","),
            langs=langs,
            queries=given.queries,
            validation=given.validation,
            output=given.keep / "results" if given.keep else None,
        )
    values = run.to_json()
    del values["queries"], values["scores"]
    print(json.dumps({"benchmark": "search_quality", "build_seconds": seconds} | values, ensure_ascii=False))


if __name__ == "__main__":
    main()
