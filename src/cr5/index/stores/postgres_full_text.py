"""The full text of documents in PostgreSQL: a table of rows with their lengths, and one of the postings of terms.

The postings of a term are arrays of slots and counts, one pair for each transaction that wrote it: a row for each
posting would take several times the size of the texts. A document that is written gets a new slot, and the old one
disappears from {words}; what is left of it in {postings} has no effect, because postings are joined with {words},
and is purged when there is much of it.
"""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cr5._typing import Array, Ints
from cr5.index.full_text import MAX_COUNT
from cr5.index.stores.base import FullTextStats
from cr5.index.stores.postgres_database import Database
from cr5.index.terms import QueryKeys, TermCounts
from cr5.retrieval.bm25 import K1, B
from cr5.retrieval.word_forms import TermDictionary, listed_words

if TYPE_CHECKING:
    from psycopg import Connection

MAX_PARTS = 32  # arrays of a term before they are joined
MAX_DELETED_SHARE = 1 / 4  # share of deleted postings at which all are written again without them
CREATE_WORDS = (
    """CREATE TABLE IF NOT EXISTS {words} (slot bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
       id text COLLATE "C" UNIQUE NOT NULL, lang text COLLATE "C" NOT NULL, length int NOT NULL, terms int NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS {word_langs} ON {words} (lang) INCLUDE (length)",
    "CREATE TABLE IF NOT EXISTS {postings} (key bigint NOT NULL, slots bigint[] NOT NULL, counts int[] NOT NULL)",
    "CREATE INDEX IF NOT EXISTS {posting_keys} ON {postings} (key)",
    """CREATE TABLE IF NOT EXISTS {terms} (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
       lang text COLLATE "C" NOT NULL, term text COLLATE "C" NOT NULL, UNIQUE (lang, term))""",
)
# {restriction} joins the documents that may be returned, if that is a part of them; the statistics are those of all.
BM25_QUERY = f"""(
    WITH query AS (
        SELECT * FROM unnest(%(keys)s::bigint[], %(boosts)s::float8[], %(words)s::int[], %(weights)s::float8[])
        AS terms (key, boost, word, weight)
    ),
    found AS (
        SELECT word, weight, id, length, sum(boost * count) AS tf
        FROM query JOIN {{postings}} USING (key), unnest(slots, counts) AS posting (slot, count)
        JOIN {{words}} USING (slot) {{restriction}} GROUP BY word, weight, id, length
    )
    SELECT id, sum(weight * tf / (tf + {K1} * (1 - {B} + {B} * length / %(mean)s::float8))) AS bm25
    FROM found GROUP BY id ORDER BY bm25 DESC, id LIMIT %(k)s
)"""


def bm25_parameters(words: QueryKeys, mean_length: float, k: int) -> dict[str, Any]:
    """The parameters of BM25_QUERY: one row for each term, with the number and the weight of its word."""
    numbers = np.repeat(np.arange(len(words.weights)), np.diff(words.groups))
    values = {"boosts": words.boosts.tolist(), "words": numbers.tolist(), "weights": words.weights[numbers].tolist()}
    return {"keys": _signed(words.keys), "mean": mean_length, "k": k} | values


class PostgresFullText:
    """The tables {words} and {postings} of an index; one from an earlier version has none until the next write."""

    def __init__(self, database: Database) -> None:
        self._database, self._exist, self._lock = database, False, threading.Lock()
        # By language: parts, each with the number of its last term.
        self._dictionaries: dict[str, list[tuple[int, TermDictionary]]] = {}

    def exist(self, connection: "Connection[Any]") -> bool:
        """Whether the tables exist."""
        if not self._exist:
            query = "SELECT to_regclass(quote_ident(%s)) IS NOT NULL"
            row = connection.execute(query, [f"{self._database.table}__postings"]).fetchone()
            self._exist = row is not None and bool(row[0])
        return self._exist

    def add(self, connection: "Connection[Any]", ids: Sequence[str], langs: Sequence[str], terms: TermCounts) -> None:
        """Write the terms of documents that have none, in a transaction."""
        if not self.exist(connection):
            key = [f"cr5 words {self._database.table}"]
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", key)
            for statement in CREATE_WORDS:
                connection.execute(self._database.sql(statement))
        lengths, numbers = terms.matrix.sum(axis=1).tolist(), np.diff(terms.matrix.indptr).tolist()
        insert = """INSERT INTO {words} (id, lang, length, terms)
            SELECT * FROM unnest(%s::text[], %s::text[], %s::int[], %s::int[]) RETURNING id, slot"""
        parameters = [list(ids), list(langs), lengths, numbers]
        slot_of = dict(connection.execute(self._database.sql(insert), parameters).fetchall())
        slots = np.array([slot_of[document_id] for document_id in ids], np.int64)
        with connection.cursor().copy(self._database.sql("COPY {postings} (key, slots, counts) FROM STDIN")) as copy:
            copy.write(_lines(terms, slots))
        insert = """INSERT INTO {terms} (lang, term) SELECT * FROM unnest(%s::text[], %s::text[])
            ON CONFLICT (lang, term) DO NOTHING"""
        is_used = np.bincount(terms.matrix.indices, minlength=len(terms.words)) > 0
        kept = [i for i in listed_words(terms.words) if is_used[i]]
        used = [[values[i] for i in kept] for values in (terms.langs, terms.words)]
        connection.execute(self._database.sql(insert), used)

    def delete(self, connection: "Connection[Any]", ids: Sequence[str]) -> None:
        """Remove the terms of documents, which the transaction has locked."""
        if self.exist(connection):
            connection.execute(self._database.sql("DELETE FROM {words} WHERE id = ANY(%s)"), [list(ids)])

    def document_frequencies(self, connection: "Connection[Any]", keys: Array) -> Ints:
        """The number of documents that have each term."""
        if not self.exist(connection):
            return np.zeros(len(keys), np.int64)
        query = """SELECT key, count(*) FROM {postings}, unnest(slots) AS posting (slot) JOIN {words} USING (slot)
            WHERE key = ANY(%s) GROUP BY key"""
        found = dict(connection.execute(self._database.sql(query), [_signed(keys)]).fetchall())
        return np.array([found.get(key, 0) for key in _signed(keys)], np.int64)

    def term_dictionaries(self, connection: "Connection[Any]", lang: str) -> list[TermDictionary]:
        """The words of a language; only those that are new since the last call are read."""
        if not self.exist(connection):
            return []
        with self._lock:
            parts = self._dictionaries.setdefault(lang, [])
            query = "SELECT number, term FROM {terms} WHERE lang = %s AND number > %s ORDER BY number"
            last = parts[-1][0] if parts else 0
            rows = connection.execute(self._database.sql(query), [lang, last]).fetchall()
            if rows:
                words = [term for _, term in rows]
                while parts and len(parts[-1][1]) < 2 * len(words):  # few parts, each larger than the next
                    words = [*parts.pop()[1].words, *words]
                parts.append((rows[-1][0], TermDictionary(words)))
            return [part for _, part in parts]

    def stats(self, connection: "Connection[Any]") -> dict[str, FullTextStats]:
        """The number of documents with terms of each language, and their mean length."""
        if not self.exist(connection):
            return {}
        query = "SELECT lang, count(*), avg(length)::float8 FROM {words} GROUP BY lang ORDER BY lang"
        rows = connection.execute(self._database.sql(query)).fetchall()
        return {lang: FullTextStats(documents, mean_length) for lang, documents, mean_length in rows}

    def ids_without_terms(self, connection: "Connection[Any]", ids: Sequence[str] | None = None) -> list[str]:
        """The ids of documents without terms; those of some documents are locked."""
        conditions = [] if ids is None else ["id = ANY(%(ids)s)"]
        if self.exist(connection):
            conditions.append("NOT EXISTS (SELECT FROM {words} AS words WHERE words.id = documents.id)")
        where, lock = " AND ".join(conditions) or "true", "" if ids is None else "FOR UPDATE"
        query = self._database.sql(f"SELECT id FROM {{documents}} AS documents WHERE {where} ORDER BY id {lock}")
        return [row[0] for row in connection.execute(query, {"ids": None if ids is None else list(ids)}).fetchall()]

    def optimise(self, connection: "Connection[Any]") -> None:
        """Join the arrays of terms that have many, and purge those of deleted documents if there are many."""
        if not self.exist(connection):
            return
        query = """SELECT (SELECT coalesce(sum(terms), 0) FROM {words}),
            (SELECT coalesce(sum(cardinality(slots)), 0) FROM {postings})"""
        row = connection.execute(self._database.sql(query)).fetchone()
        assert row is not None
        max_parts = 0 if row[0] < (1 - MAX_DELETED_SHARE) * row[1] else MAX_PARTS
        join = """WITH long AS (SELECT key FROM {postings} GROUP BY key HAVING count(*) > %s),
            old AS (DELETE FROM {postings} USING long WHERE {postings}.key = long.key RETURNING {postings}.*)
            INSERT INTO {postings} SELECT key, array_agg(slot ORDER BY slot), array_agg(count ORDER BY slot)
            FROM old, unnest(slots, counts) AS posting (slot, count) JOIN {words} USING (slot) GROUP BY key"""
        connection.execute(self._database.sql(join), [max_parts])
        connection.execute(self._database.sql("VACUUM (ANALYZE) {words}, {postings}"))


def _signed(keys: Array) -> list[int]:
    """Keys as PostgreSQL's bigint, which has a sign."""
    return [int(key) for key in keys.view(np.int64)]


def _lines(terms: TermCounts, slots: Ints) -> str:
    """Postings as lines of COPY."""
    postings = terms.matrix.tocsc()
    documents = slots[postings.indices].tolist()
    counts, ends = np.minimum(postings.data, MAX_COUNT).tolist(), postings.indptr.tolist()
    return "".join(
        f"{key}\t{{{','.join(map(str, documents[begin:end]))}}}\t{{{','.join(map(str, counts[begin:end]))}}}\n"
        for key, begin, end in zip(_signed(terms.keys), ends[:-1], ends[1:], strict=True)
        if begin < end
    )
