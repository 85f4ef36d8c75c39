"""An index of sentences whose right answers are known, and queries for it."""

import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import madeup
import numpy as np

from cr5 import Cr5, Document
from cr5.evaluate.tasks.search.documents import read_documents
from cr5.evaluate.tasks.search.queries import QueryMaker, QueryType, SearchQuery
from cr5.evaluate.tasks.search.task import TYPES
from cr5.index import Index
from cr5.progress import no_progress

CODES = {"aa": "en", "bb": "it", "cc": "tlh"}  # questions are in English and Italian, not in the third language


SHORT, MEDIUM, LONG = (400, 1499), (1500, 6000), (6001, 6400)


def sentences(lang: str, seed: int, characters: tuple[int, int]) -> str:
    """Sentences of random words, as many characters as allowed."""
    random, text = np.random.default_rng(seed), ""
    while len(text) < characters[0]:
        text += madeup.text(lang, random.integers(madeup.MEANINGS, size=8).tolist()).capitalize() + ".\n"
    return text[: characters[1]]


def documents_of(lang: str, concepts: int = 60) -> list[Document]:
    """Documents with titles, sentences, a code of the concept that all languages have, and one of the document."""
    result = []
    for i in range(concepts):
        body = sentences(lang, 1000 * i + ord(lang[0]), (SHORT, MEDIUM, LONG)[i % 3])
        title = madeup.text(lang, [i, 249 - i])
        text = f"{body}\nerror_{i}x.{i} and {CODES[lang]}_{i}.exe and common_42."
        result.append(Document(f"C{i}", CODES[lang], text, title))
    return result


def make_index(folder: Path, model: Cr5, documents: Sequence[Document]) -> Index:
    index = Index.create(folder, model)
    index.add(documents)
    return index


def make(
    index: Index, types: Sequence[QueryType] = TYPES, *, queries: int = 20, validation: bool = False, seed: int = 0
) -> list[SearchQuery]:
    languages = read_documents(index, None, no_progress)
    return QueryMaker(index, languages, queries=queries, validation=validation, seed=seed).make(types)


def own(queries: Sequence[SearchQuery]) -> list[SearchQuery]:
    return [query for query in queries if query.source == query.target]


def across(queries: Sequence[SearchQuery]) -> list[SearchQuery]:
    return [query for query in queries if query.source != query.target]


def by_id(corpus: Sequence[Document]) -> dict[str, Document]:
    return {f"{d.lang}:{d.concept}": d for d in corpus}


def words(text: str) -> set[str]:
    return set(re.split(r"[\W_]+", text.casefold()))


def edits(a: str, b: str) -> int:
    """The distance of Damerau and Levenshtein, with exchanges of neighbours."""
    table = {(i, j): i + j for i, j in product(range(-1, len(a)), range(-1, len(b))) if i < 0 or j < 0}
    table = {key: value + 2 if key == (-1, -1) else value + 1 for key, value in table.items()}
    table[-1, -1] = 0
    for i, j in product(range(len(a)), range(len(b))):
        table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (a[i] != b[j]))
        if i and j and a[i] == b[j - 1] and a[i - 1] == b[j]:
            table[i, j] = min(table[i, j], table[i - 2, j - 2] + 1)
    return table[len(a) - 1, len(b) - 1]
