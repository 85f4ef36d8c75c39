"""Hand-written queries, a JSONL file with the fields query, lang, concept and kind, and the documents they look for."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from cr5.corpus.languages import find_language
from cr5.data import BUILTIN
from cr5.errors import Cr5Error
from cr5.evaluate.splits import QuerySet
from cr5.evaluate.tasks.search.documents import LanguageDocuments
from cr5.evaluate.tasks.search.queries import SearchQuery, is_validation

ENCYCLOPEDIA_QUERIES = Path(__file__).parent / "encyclopedia.jsonl"
"""Queries for the built-in encyclopedia, as people would type them."""


class WrittenQuery(NamedTuple):
    """A query in a language, the concept that it looks for, and what kind of query it is."""

    query: str
    lang: str
    concept: str
    kind: str


def read_queries(path: str | Path) -> list[WrittenQuery]:
    """Read a file of queries, or "builtin" for those of the built-in encyclopedia."""
    file = ENCYCLOPEDIA_QUERIES if str(path) == BUILTIN and not Path(path).exists() else Path(path)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Cr5Error(f"`query_file={path}` cannot be read ({error}); name a JSONL file in UTF-8") from None
    queries = [_parse_query(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not queries:
        raise Cr5Error(f"`query_file={path}` has no queries; write one JSON object a line")
    return queries


def find_answers(
    written: Sequence[WrittenQuery], languages: Mapping[str, LanguageDocuments], query_set: QuerySet | Literal["all"]
) -> tuple[list[SearchQuery], list[str]]:
    """Each query for the documents of its concept, in every language that has any, and notes for the reader.

    In another language, BM25 receives the title of the document.
    """
    known = {concept for documents in languages.values() for concept in documents.concepts}
    missing = [query.query for query in written if query.concept not in known]
    if len(missing) == len(written):
        raise Cr5Error("the index has none of the concepts of `query_file`; use queries for its documents")
    notes = ["across languages, BM25 receives the title of the document in that language"]
    if missing:
        number = f"{len(missing)} queries look" if len(missing) > 1 else "1 query looks"
        notes.append(f"{number} for concepts that the index does not have, such as {missing[0]!r}")
    queries = []
    for text, lang, concept, kind in written:
        source, half = find_language(lang, list(languages)), "validation" if is_validation(concept) else "test"
        if source is None or query_set not in ("all", half):
            continue
        for target, documents in languages.items():
            found = documents.rows_of_concept.get(concept, [])
            reference = text if target == source else next((documents.titles[i] for i in found), "")
            if found and reference:
                answers = frozenset(documents.ids[i] for i in found)
                queries.append(SearchQuery(kind, text, source, target, concept, answers, reference))
    return queries, notes


def _parse_query(path: str | Path, number: int, line: str) -> WrittenQuery:
    try:
        values = json.loads(line)
        row = WrittenQuery(values["query"], values["lang"], values["concept"], values.get("kind", "query"))
        if not all(isinstance(value, str) and value.strip() for value in row):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError):
        raise Cr5Error(
            f"{path}, line {number} is not a query; write an object with the texts query, lang and concept"
        ) from None
    return row
