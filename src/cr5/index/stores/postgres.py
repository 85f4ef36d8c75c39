"""The store in a PostgreSQL database with pgvector: tables of documents, of their hubness, and of terms.

PostgreSQL rewrites a row that is updated, with an entry in every index, and entries in the HNSW graph of the vectors
are expensive. Hubness, which is refreshed in bulk, therefore has its own table. The graph holds half-precision vectors
(half the memory, twice the maximum rank); its results are reranked in full precision.
"""

import json
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from cr5.corpus.fields import FIELDS, canonical_text
from cr5.errors import Cr5Error
from cr5.index.filters import Filter
from cr5.index.stores.base import ANN_MIN_ROWS, FullTextStats, Location, Restriction, Store, read_header, write_header
from cr5.index.stores.postgres_database import Database, Timeouts, without_password
from cr5.index.stores.postgres_filters import CREATE_FIELDS, Conditions, conditions_for
from cr5.index.stores.postgres_full_text import BM25_QUERY, CREATE_WORDS, PostgresFullText, bm25_parameters
from cr5.index.stores.postgres_state import SearchState, SharedState
from cr5.index.stores.rows import TEXT_COLUMNS, Floats, make_schema, take_best, to_lists, to_matrix, valid_keys
from cr5.index.terms import QueryKeys, TermCounts, term_keys
from cr5.retrieval.word_forms import LanguageForms, TermDictionary

if TYPE_CHECKING:
    from psycopg import Connection, Cursor
    from psycopg.sql import Composed

Value = TypeVar("Value")

MAX_RANK = 4000  # the largest half-precision vector that pgvector can index
HNSW_M, HNSW_EF_CONSTRUCTION = 16, 100
MIN_EF_SEARCH, MAX_EF_SEARCH = 200, 1000  # pgvector allows no more
RERANKED_ROWS_PER_HIT, MIN_RERANKED_ROWS = 3, 200  # the minimum applies where languages or a filter are given
BUILD_MEMORY_BYTES = 2**31  # memory that the server may use to build the graph
OPTIMISE_POLL_SECONDS = 0.2
_EXISTS_AND_HEADER = (
    "SELECT to_regclass(quote_ident(%s)) IS NOT NULL, obj_description(to_regclass(quote_ident(%s)), 'pg_class')"
)


class PostgresStore(Store):
    """Documents in a database."""

    label = "PostgreSQL"
    address_form = "postgresql://USER@HOST:PORT/DATABASE"

    @classmethod
    def accepts(cls, address: str) -> bool:
        # A URL, or libpq's "host=... dbname=...".
        return address.startswith("postgres") or re.match(r"\s*\w+\s*=", address) is not None

    @classmethod
    def new_record(cls, address: str) -> dict[str, Any]:
        return {"store": without_password(address), "table": f"cr5_{secrets.token_hex(8)}"}

    @classmethod
    def create(
        cls,
        location: Location,
        *,
        rank: int,
        language_count: int,
        timeouts: Timeouts | None = None,
        ann_min_rows: int = ANN_MIN_ROWS,
    ) -> "PostgresStore":
        schema = make_schema(rank, language_count)
        if rank > MAX_RANK:
            raise Cr5Error(f"`rank={rank}` is more than {MAX_RANK}, the most that pgvector can index; lower it")
        database = Database(location.address, location.table or "", timeouts)
        table, texts = database.table, ", ".join(f'{name} text COLLATE "C" NOT NULL' for name in TEXT_COLUMNS[1:])
        statements = [
            f'CREATE TABLE {{documents}} (id text COLLATE "C" PRIMARY KEY, {texts}, vector vector({rank:d}) NOT NULL)',
            "ALTER TABLE {documents} ALTER vector SET STORAGE MAIN",  # long texts are moved out of the row only
            "CREATE INDEX {langs} ON {documents} (lang)",
            f'CREATE TABLE {{hubness}} (id text COLLATE "C" PRIMARY KEY, hubness vector({language_count:d}) NOT NULL)',
            *CREATE_WORDS,
            *CREATE_FIELDS,
            "COMMENT ON TABLE {documents} IS {header}",
        ]
        with database.connection() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"cr5 create {table}"])
            if _fetch_one(connection.execute(_EXISTS_AND_HEADER, [table, table]))[0]:
                raise Cr5Error(
                    f"{database}: there is a table {table} already; open it, drop it, or choose another name"
                )
            for statement in statements:
                connection.execute(database.sql(statement, header=database.literal(write_header(rank, language_count))))
        return cls(database, schema, ann_min_rows)

    @classmethod
    def open(
        cls,
        location: Location,
        *,
        rank: int | None = None,
        timeouts: Timeouts | None = None,
        ann_min_rows: int = ANN_MIN_ROWS,
    ) -> "PostgresStore":
        database = Database(location.address, location.table or "", timeouts)
        table = database.table
        with database.reading() as connection:  # after an error the connection is closed
            exists, header = _fetch_one(connection.execute(_EXISTS_AND_HEADER, [table, table]))
            if not exists:
                raise Cr5Error(f"{database}: there is no index {table}; check the address, or build the index first")
            schema = read_header(header, f"{database}, table {table}", rank)
        return cls(database, schema, ann_min_rows)

    @classmethod
    def drop(cls, location: Location) -> None:
        database = Database(location.address, location.table or "")
        with database.connection() as connection:
            tables = "{documents}, {hubness}, {words}, {postings}, {terms}"
            connection.execute(database.sql(f"DROP TABLE IF EXISTS {tables}"))
        database.close()

    def __init__(self, database: Database, schema: pa.Schema, ann_min_rows: int) -> None:
        super().__init__(schema)
        self._database, self._ann_min_rows = database, ann_min_rows
        self._full_text, self._has_fields = PostgresFullText(database), False
        self._shared_state = SharedState(database)
        self._state: SearchState | None = None  # of a pinned store

    def __repr__(self) -> str:
        return f"PostgresStore({str(self._database)!r}, {self._database.table!r})"

    def pinned(self) -> "PostgresStore":
        """This store for one search, which remembers statistics as long as the database does not change."""
        pinned = copy(self)
        pinned._state = SearchState(self._shared_state)
        return pinned

    def _remember(self, key: object, read: Callable[[], Value]) -> Value:
        """What a function reads; a pinned store reads it only if it is not remembered."""
        return read() if self._state is None else self._state.get(key, read)

    def _upsert(self, table: pa.Table, terms: TermCounts | None) -> None:
        names = [name for name in table.column_names if name != "hubness"]
        changes = ", ".join(f"{name} = EXCLUDED.{name}" for name in names if name != "id")
        columns, values = ", ".join(names), ", ".join("fields::jsonb" if name == FIELDS else name for name in names)
        ids = table["id"].to_pylist()
        with self._database.connection() as connection, connection.transaction():
            self._copy_in(connection, table.column_names, [_to_values(column) for column in table.columns])
            # All writers lock rows in the order of the ids, which excludes deadlocks.
            connection.execute(
                self._database.sql(f"""
                INSERT INTO {{documents}} ({columns}) SELECT {values} FROM {{incoming}} ORDER BY id
                ON CONFLICT (id) DO UPDATE SET {changes}""")
            )
            connection.execute(
                self._database.sql("""
                INSERT INTO {hubness} (id, hubness) SELECT id, hubness FROM {incoming} ORDER BY id
                ON CONFLICT (id) DO UPDATE SET hubness = EXCLUDED.hubness""")
            )
            self._full_text.delete(connection, ids)
            if terms is not None:
                self._full_text.add(connection, ids, table["lang"].to_pylist(), terms)

    def _delete(self, keys: list[str]) -> int:
        with self._database.connection() as connection, connection.transaction():
            number = connection.execute(
                self._database.sql("""
                DELETE FROM {documents}
                WHERE id IN (SELECT id FROM {documents} WHERE id = ANY(%s) ORDER BY id FOR UPDATE)"""),
                [keys],
            ).rowcount
            connection.execute(
                self._database.sql("""
                DELETE FROM {hubness}
                WHERE id IN (SELECT id FROM {hubness} WHERE id = ANY(%s) ORDER BY id FOR UPDATE)"""),
                [keys],
            )
            self._full_text.delete(connection, keys)
        return number

    def _read_ids(self, keys: list[str], columns: list[str]) -> pa.Table:
        with self._database.reading() as connection, connection.cursor(binary=True) as cursor:
            cursor.execute(self._select(columns, "WHERE id = ANY(%s)"), [keys])
            return self._table(cursor.fetchall(), columns)

    def count(self) -> dict[str, int]:
        with self._database.reading() as connection:
            query = self._database.sql("SELECT lang, count(*) FROM {documents} GROUP BY lang ORDER BY lang")
            return dict(connection.execute(query).fetchall())

    def _scan(self, columns: list[str], restriction: Restriction, batch_rows: int) -> Iterator[pa.RecordBatch]:
        clause, parameters = conditions_for(*restriction)
        query = self._select(columns, clause)
        with (
            self._database.connection() as connection,
            connection.transaction(),
            connection.cursor(name="scan", binary=True) as cursor,
        ):
            cursor.execute(query, parameters)
            while rows := cursor.fetchmany(batch_rows):
                yield from self._table(rows, columns).to_batches()

    def _set_hubness(self, batches: Iterable[tuple[list[str], Floats]]) -> None:
        for keys, values in batches:
            self._replace_hubness(keys, values)

    def _replace_hubness(self, keys: list[str], values: Floats) -> None:
        columns: list[Sequence[Any]] = [keys, _to_binary(pa.chunked_array([to_lists(values)]))]
        with self._database.connection() as connection, connection.transaction():
            self._copy_in(connection, ["id", "hubness"], columns)
            for statement in (
                "SELECT FROM {hubness} WHERE id IN (SELECT id FROM {incoming}) ORDER BY id FOR UPDATE",
                "UPDATE {hubness} AS old SET hubness = new.hubness FROM {incoming} AS new WHERE old.id = new.id",
            ):
                connection.execute(self._database.sql(statement))

    def _nearest(
        self, vectors: Floats, k: int, restriction: Restriction, columns: list[str], exact: bool
    ) -> list[pa.Table]:
        results, conditions = [], conditions_for(*restriction)
        use_graph = not exact and self._should_use_graph(restriction, conditions)
        with self._database.connection() if exact else self._database.reading() as connection:
            for vector in vectors:
                if use_graph:
                    with connection.transaction():  # for which the settings of the search are made
                        rows = self._nearest_to(connection, vector, k, conditions, columns, use_graph=True)
                # Without the graph, or if its search ended too early, or there are fewer rows.
                if not use_graph or rows.num_rows < k:
                    rows = self._nearest_to(connection, vector, k, conditions, columns, use_graph=False)
                results.append(rows)
        return results

    def _search_terms(self, words: QueryKeys, lang: str, k: int, columns: list[str], where: Filter | None) -> pa.Table:
        stats = self.full_text_stats().get(lang)
        if stats is None:
            return take_best(self._table([], columns), np.empty(0, np.float32), k, "bm25")
        with self._database.reading() as connection, connection.cursor(binary=True) as cursor:
            clause, parameters = conditions_for(None, where)
            restriction = f"JOIN (SELECT id FROM {{documents}} {clause}) AS restriction USING (id)" if where else ""
            best = f"{BM25_QUERY.replace('{restriction}', restriction)} AS best JOIN {{documents}} USING (id)"
            query = self._select([*columns, "bm25"], "ORDER BY bm25 DESC, id", best)
            rows = cursor.execute(query, bm25_parameters(words, stats.mean_length, k) | parameters).fetchall()
        scores = np.array([row[-1] for row in rows], np.float32)
        return take_best(self._table([row[:-1] for row in rows], columns), scores, k, "bm25")

    def _document_frequencies(self, terms: list[str], lang: str) -> list[int]:
        if self._state is None:
            return self._read_frequencies({lang: terms})[lang]
        return self._state.frequencies({lang: terms}, self._read_frequencies)[lang]

    def expect_terms(self, terms: Collection[str], langs: Sequence[str]) -> None:
        if self._state is not None:
            names = list(dict.fromkeys(terms))
            self._state.frequencies(dict.fromkeys(valid_keys(langs), names), self._read_frequencies)

    def _read_frequencies(self, terms: dict[str, list[str]]) -> dict[str, list[int]]:
        """The document frequencies of terms by language, by one statement."""
        keys = np.concatenate([term_keys(own, lang) for lang, own in terms.items()])
        with self._database.reading() as connection:
            frequencies = iter(self._full_text.document_frequencies(connection, keys).tolist())
        return {lang: [next(frequencies) for _ in own] for lang, own in terms.items()}

    def term_dictionaries(self, lang: str) -> list[TermDictionary]:
        with self._database.reading() as connection:
            return self._full_text.term_dictionaries(connection, lang)

    def word_forms(self, lang: str) -> LanguageForms:
        return self._remember(("forms", lang), lambda: super(PostgresStore, self).word_forms(lang))

    def full_text_stats(self) -> dict[str, FullTextStats]:
        def read() -> dict[str, FullTextStats]:
            with self._database.reading() as connection:
                return self._full_text.stats(connection)

        return self._remember("full text", read)

    def ids_without_terms(self) -> list[str]:
        with self._database.connection() as connection:
            return self._full_text.ids_without_terms(connection)

    def _add_terms(self, keys: list[str], terms: TermCounts) -> None:
        with self._database.connection() as connection, connection.transaction():
            row_of = {key: row for row, key in enumerate(keys)}
            lacking = self._full_text.ids_without_terms(connection, keys)
            langs = dict(connection.execute(self._select(["id", "lang"], "WHERE id = ANY(%s)"), [lacking]).fetchall())
            rows = np.array([row_of[key] for key in lacking], np.int64)
            self._full_text.add(connection, lacking, [langs[key] for key in lacking], terms.select_rows(rows))

    def has_fields(self) -> bool:
        def read() -> bool:
            query = "SELECT FROM pg_attribute WHERE attrelid = to_regclass(quote_ident(%s)) AND attname = 'fields'"
            with self._database.reading() as connection:
                return connection.execute(query, [self._database.table]).fetchone() is not None

        self._has_fields = self._has_fields or self._remember("fields", read)
        return self._has_fields

    def add_fields(self) -> None:
        with self._database.connection() as connection, connection.transaction():
            for statement in CREATE_FIELDS:
                connection.execute(self._database.sql(statement))

    def optimise(self) -> None:
        key = [f"cr5 optimise {self._database.table}"]
        with self._database.connection() as connection:
            # Polled, because waiting in the server is a transaction, and CREATE INDEX CONCURRENTLY waits for those.
            while not _fetch_one(connection.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", key))[0]:
                time.sleep(OPTIMISE_POLL_SECONDS)
            (rows,) = _fetch_one(connection.execute(self._database.sql("SELECT count(*) FROM {documents}")))
            if rows >= self._ann_min_rows and not self._has_graph(connection):
                self._build_graph(connection, rows)
            connection.execute(self._database.sql("VACUUM (ANALYZE) {documents}, {hubness}"))
            self._full_text.optimise(connection)
            connection.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", key)

    def _stats(self) -> dict[str, Any]:
        sizes = " + ".join(["coalesce(pg_total_relation_size(to_regclass(quote_ident(%s))), 0)"] * 5)
        with self._database.reading() as connection:
            query = self._database.sql(f"SELECT count(*), {sizes} FROM {{documents}}")
            name = self._database.table
            names = [name, *(f"{name}__{other}" for other in ("hubness", "words", "postings", "terms"))]
            rows, size = _fetch_one(connection.execute(query, names))
            graph = self._has_graph(connection)
        return {
            "rows": rows,
            "index": "HNSW" if graph else "none",
            "unindexed": 0 if graph else rows,
            "bytes": int(size),
        }

    def close(self) -> None:
        self._database.close()

    def _copy_in(self, connection: "Connection[Any]", names: Sequence[str], columns: Sequence[Sequence[Any]]) -> None:
        """Copy rows into {incoming}, a temporary table of the transaction."""
        kinds = {name: "vector" if name in ("vector", "hubness") else 'text COLLATE "C"' for name in names}
        fields = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
        connection.execute(self._database.sql(f"CREATE TEMPORARY TABLE {{incoming}} ({fields}) ON COMMIT DROP"))
        with connection.cursor().copy(self._database.sql("COPY {incoming} FROM STDIN (FORMAT BINARY)")) as copy:
            copy.set_types(["text" if kind != "vector" else "bytea" for kind in kinds.values()])
            for row in zip(*columns, strict=True):
                copy.write_row(row)

    def _select(self, names: Sequence[str], rest: str, source: str = "{documents}") -> "Composed":
        """A SELECT statement for columns; vectors are returned in binary form, fields as text."""
        special = {"vector": "vector_send(vector)", "hubness": "vector_send(hubness)", FIELDS: "fields::text"}
        expressions = ", ".join(special.get(name, name) for name in names)
        join = " JOIN {hubness} USING (id)" if "hubness" in names else ""
        return self._database.sql(f"SELECT {expressions} FROM {source}{join} {rest}")

    def _table(self, rows: Sequence[Sequence[Any]], names: Sequence[str]) -> pa.Table:
        columns: Iterable[Any] = zip(*rows, strict=True) if rows else ([] for _ in names)
        arrays = []
        for name, values in zip(names, columns, strict=True):
            kind = self.schema.field(name).type
            if name == FIELDS:
                values = [canonical_text(text) for text in values]
            arrays.append(
                _from_binary(values, kind.list_size) if name in ("vector", "hubness") else pa.array(values, kind)
            )
        return pa.Table.from_arrays(arrays, schema=pa.schema([self.schema.field(name) for name in names]))

    def _should_use_graph(self, restriction: Restriction, conditions: Conditions) -> bool:
        """Whether the graph exists, and too many rows meet the conditions to compare all of them."""
        query = self._database.sql(
            f"SELECT count(*) FROM (SELECT FROM {{documents}} {conditions.clause} LIMIT %(limit)s) AS limited"
        )
        parameters = conditions.parameters | {"limit": self._ann_min_rows}

        def has_graph() -> bool:
            with self._database.reading() as connection:
                return self._has_graph(connection)

        def has_many() -> bool:
            with self._database.reading() as connection:
                return bool(_fetch_one(connection.execute(query, parameters))[0] >= self._ann_min_rows)

        if not self._remember("graph", has_graph):
            return False
        langs = restriction.langs
        if restriction.where is not None or (langs is not None and len(langs) != 1):  # too many to remember them all
            return has_many()
        return langs is None or self._remember(("many rows", *langs), has_many)

    def _nearest_to(
        self,
        connection: "Connection[Any]",
        vector: Floats,
        k: int,
        conditions: Conditions,
        columns: list[str],
        *,
        use_graph: bool,
    ) -> pa.Table:
        """The k rows nearest to a vector, by the graph or an exact search."""
        order, depth = "(vector <#> %(query)s::vector) + 0", k  # the sum keeps PostgreSQL from using the graph
        if use_graph:
            order = f"vector::halfvec({self.rank:d}) <#> %(query)s::halfvec({self.rank:d})"
            depth = max(RERANKED_ROWS_PER_HIT * k, MIN_RERANKED_ROWS if conditions.clause else 0)
            settings = {
                "hnsw.ef_search": min(MAX_EF_SEARCH, max(MIN_EF_SEARCH, depth)),
                "hnsw.iterative_scan": "relaxed_order",  # until there are enough rows that meet the conditions
                "hnsw.max_scan_tuples": 2**31 - 1,
                "hnsw.scan_mem_multiplier": 16,
            }
            calls = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())
            connection.execute(f"SELECT {calls}")
        inner = f"""(
            SELECT * FROM (
                SELECT id, -(vector <#> %(query)s::vector) AS cosine FROM {{documents}} {conditions.clause}
                ORDER BY {order} LIMIT %(depth)s
            ) AS candidates ORDER BY cosine DESC LIMIT %(k)s
        ) AS best"""
        query = self._select([*columns, "cosine"], "", f"{inner} JOIN {{documents}} USING (id)")
        with connection.cursor(binary=True) as cursor:
            parameters = {"query": json.dumps(vector.tolist()), "depth": depth, "k": k}
            rows = cursor.execute(query, parameters | conditions.parameters).fetchall()
        cosines = np.array([row[-1] for row in rows], np.float32)
        return take_best(self._table([row[:-1] for row in rows], columns), cosines, k)

    def _has_graph(self, connection: "Connection[Any]") -> bool:
        query = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(quote_ident(%s))"
        row = connection.execute(query, [f"{self._database.table}__graph"]).fetchone()
        return row is not None and bool(row[0])

    def _build_graph(self, connection: "Connection[Any]", rows: int) -> None:
        """Build the HNSW graph without blocking readers and writers."""
        memory = min(BUILD_MEMORY_BYTES, 2 * rows * (2 * self.rank + 16 * HNSW_M))
        connection.execute(
            """SELECT set_config('maintenance_work_mem', greatest(%s,
               pg_size_bytes(current_setting('maintenance_work_mem')) / 1024)::text || 'kB', false)""",
            [memory // 1024],
        )
        build = f"""CREATE INDEX CONCURRENTLY {{graph}} ON {{documents}}
            USING hnsw ((vector::halfvec({self.rank:d})) halfvec_ip_ops)
            WITH (m = {HNSW_M:d}, ef_construction = {HNSW_EF_CONSTRUCTION:d})"""

        def drop_and_build() -> None:
            connection.execute(self._database.sql("DROP INDEX IF EXISTS {graph}"))  # left by an interrupted build
            connection.execute(self._database.sql(build))

        try:
            drop_and_build()
        except self._database.psycopg.errors.DiskFull:
            # Parallel workers need shared memory, of which containers have little.
            connection.execute("SET max_parallel_maintenance_workers = 0")
            drop_and_build()
        connection.execute("RESET maintenance_work_mem")
        connection.execute("RESET max_parallel_maintenance_workers")


def _fetch_one(cursor: "Cursor[Any]") -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = cursor.fetchone()
    assert row is not None
    return row


def _to_values(column: pa.ChunkedArray) -> Sequence[Any]:
    return _to_binary(column) if pa.types.is_fixed_size_list(column.type) else column.to_pylist()


def _to_binary(column: pa.ChunkedArray) -> list[bytes]:
    """Vectors in pgvector's binary format: their width, two zero bytes, the numbers, all big-endian."""
    values = to_matrix(column).astype(">f4")
    header = values.shape[1].to_bytes(2, "big") + b"\0\0"
    return [header + row.tobytes() for row in values]


def _from_binary(values: Iterable[bytes], width: int) -> pa.Array:
    numbers = np.frombuffer(b"".join(value[4:] for value in values), ">f4")
    return to_lists(numbers.reshape(-1, width))
