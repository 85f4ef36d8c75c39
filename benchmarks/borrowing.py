"""How well texts in a language that a model lacks are encoded by a close one. Prints one JSON object per direction.

python benchmarks/borrowing.py ../shared/data/msdocs id-ms no-da cs-sk fi-hu

For every pair, in both directions, a model of English and the lender is trained, and one that has the borrower too.
Held-out documents in the borrower's language look for the English document of the same concept: as texts in the
borrower's own language, and as texts in the lender's. The documents of the lender itself show what its model reaches.
Words that the English document has as well, such as the names of products, are removed from the queries.
Half of the held-out concepts are for choosing which languages may borrow (validation), the other half for reporting.
"""

import argparse
import json
import warnings
from pathlib import Path
from zlib import crc32

import numpy as np
import pyarrow.parquet as pq

from cr5 import Cr5, Document
from cr5.errors import RepeatedDocuments
from cr5.features.tokeniser import Tokeniser

HELD_OUT_SHARE, ENGLISH = 0.4, "en"


def documents(folder: Path, lang: str) -> dict[str, Document]:
    """The documents of a language, by concept."""
    rows = pq.read_table(folder / f"{lang}.parquet", columns=["concept", "text"]).to_pylist()
    return {row["concept"]: Document(row["concept"], lang, row["text"]) for row in rows}


def precision(model: Cr5, queries: list[str], lang: str, english: list[str]) -> float:
    """P@1 in percent, by cosine: query i is right if it finds English document i."""
    products = model.encode(queries, lang) @ model.encode(english, ENGLISH).T
    return round(100 * float(np.mean(products.argmax(axis=1) == np.arange(len(queries)))), 1)


def measure(folder: Path, borrower: str, lender: str, query_set: str) -> dict[str, object]:
    """The figures of one direction."""
    every = {lang: documents(folder, lang) for lang in (ENGLISH, borrower, lender)}
    concepts = sorted(set.intersection(*(set(of_lang) for of_lang in every.values())))
    number = {concept: crc32(concept.encode()) / 2**32 for concept in concepts}
    training = [concept for concept in concepts if number[concept] >= HELD_OUT_SHARE]
    limits = (0, HELD_OUT_SHARE / 2) if query_set == "validation" else (HELD_OUT_SHARE / 2, HELD_OUT_SHARE)
    held_out = [concept for concept in concepts if limits[0] <= number[concept] < limits[1]]

    def fit(*langs: str, subwords: bool = True) -> Cr5:
        return Cr5(ridge=3.0, subwords=subwords).fit(every[lang][concept] for lang in langs for concept in training)

    words = Tokeniser().words
    english = [every[ENGLISH][concept].text for concept in held_out]
    shared_words = [set(words(text, ENGLISH)) for text in english]
    texts = {ENGLISH: english}
    for lang in (borrower, lender):
        pairs = zip((words(every[lang][concept].text, lang) for concept in held_out), shared_words, strict=True)
        texts[lang] = [" ".join(word for word in own if word not in shared) for own, shared in pairs]
    no_ngrams = fit(ENGLISH, lender, subwords=False)
    without, with_both = fit(ENGLISH, lender), fit(ENGLISH, lender, borrower)
    return {
        "borrower": borrower,
        "lender": lender,
        "queries": query_set,
        "trained concepts": len(training),
        "candidates": len(held_out),
        "P@1 of the lender": precision(without, texts[lender], lender, texts[ENGLISH]),
        "P@1 of the borrower, trained": precision(with_both, texts[borrower], borrower, texts[ENGLISH]),
        "P@1 of the borrower, borrowed": precision(without, texts[borrower], lender, texts[ENGLISH]),
        "P@1 of the borrower, borrowed, no n-grams": precision(no_ngrams, texts[borrower], lender, english),
        "known words": round(100 * float(np.mean(without.coverage(texts[borrower], lender))), 1),
        "known words of the lender": round(100 * float(np.mean(without.coverage(texts[lender], lender))), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("pairs", nargs="+", help="two languages, e.g. id-ms")
    parser.add_argument("--validation", action="store_true", help="the half of the queries that is for choosing")
    given = parser.parse_args()
    warnings.simplefilter("ignore", RepeatedDocuments)
    for pair in given.pairs:
        a, b = pair.split("-")
        for borrower, lender in ((a, b), (b, a)):
            found = measure(given.folder, borrower, lender, "validation" if given.validation else "test")
            print(json.dumps(found, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
