"""The store: rows of documents with vectors and terms; the rows nearest to a query, and those that have its terms.

A store handles rows, inner products and BM25, and needs neither model nor tokeniser; for CSLS it only stores the
hubness of each row. The base class checks what callers pass; ``lance`` (a folder) and ``postgres`` (a server) implement
the rest. To add a store, write a subclass and list it in ``cr5.index.stores.registry``. A store that
keeps rows outside the folder of the index also overrides ``new_record`` and ``drop``, and one that can read an earlier
version of its rows while others write overrides ``pinned``. The other methods that are not abstract are right for every
new store: they are overridden for speed, or where an earlier version of cr5 wrote rows without terms or fields.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cr5.corpus.fields import FIELDS, NO_FIELDS
from cr5.errors import CorpusError, Cr5Error, whole_number
from cr5.index.filters import Filter, Where
from cr5.index.stores.rows import (
    TEXT_COLUMNS,
    Floats,
    check_each,
    check_rows,
    make_schema,
    take_ids,
    to_matrix,
    valid_keys,
)
from cr5.index.terms import QueryKeys, QueryWord, TermCounts
from cr5.message_parts import quoted
from cr5.retrieval.bm25 import inverse_document_frequencies
from cr5.retrieval.word_forms import LanguageForms, TermDictionary

FORMAT = 1  # version of the stored rows; other versions are rejected
ANN_MIN_ROWS = 20_000  # rows from which an approximate index pays; smaller tables are searched exactly
DEFAULT_COLUMNS = (*TEXT_COLUMNS, "hubness", FIELDS)  # all but the vector
CANDIDATE_COLUMNS = ("id", "lang", "hubness")  # columns needed for reranking
CANDIDATE_ROW_COLUMNS = ("id", "lang", "vector", "hubness")  # columns of ``CandidateRows``
FOLDER_ADDRESS = "lance"  # address of a store in the folder of the index

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


class Location(NamedTuple):
    """Where a store is: its own folder, the address that the user passed as ``store``, and the table on a server.

    The table is the one in ``new_record``; None for a store in the folder.
    """

    folder: Path
    address: str = FOLDER_ADDRESS
    table: str | None = None


class CandidateRows(NamedTuple):
    """The columns of rows that ranking needs: ids, languages, vectors (rows x rank) and hubness (rows x languages)."""

    ids: list[str]
    langs: list[str]
    vectors: Floats
    hubness: Floats

    @classmethod
    def of_table(cls, rows: pa.Table) -> "CandidateRows":
        """The candidate rows of a table with ``CANDIDATE_ROW_COLUMNS``."""
        ids, langs = (rows[name].to_pylist() for name in ("id", "lang"))
        return cls(ids, langs, to_matrix(rows["vector"]), to_matrix(rows["hubness"]))


class Restriction(NamedTuple):
    """What restricts a search: languages (None: all) and a filter (None: none)."""

    langs: list[str] | None
    where: Filter | None


class FullTextStats(NamedTuple):
    """The rows of a language that have terms, and their mean length in words."""

    documents: int
    mean_length: float


class Store(ABC):
    """Rows by id. Readers never wait for writers; threads may share a store.

    Every row has a vector of length 1 (rank numbers) and its ``hubness``: its neighbourhood mean of CSLS in each
    language. It may have terms, by which ``search_terms`` finds it, and ``fields``, JSON text, by which filters
    (``where``) choose rows. A store that an earlier version of cr5 wrote has no column for fields; all of them are
    empty.
    """

    label: ClassVar[str]  # the name of the database as users know it
    address_form: ClassVar[str] = ""  # form of its addresses; empty if the folder of the index is enough
    # A context around every search; a store that computes in this process limits how many threads are in it.
    search_limit: ClassVar[AbstractContextManager[None]] = nullcontext()

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.rank, self.language_count = (schema.field(name).type.list_size for name in ("vector", "hubness"))

    @classmethod
    @abstractmethod
    def accepts(cls, address: str) -> bool:
        """Whether an address is for a store of this class."""

    @classmethod
    def new_record(cls, address: str) -> dict[str, Any]:
        """The entries of ``index.json`` that locate a new store, without a password."""
        return {"store": address, "table": None}

    @classmethod
    @abstractmethod
    def create(cls, location: Location, *, rank: int, language_count: int) -> "Store":
        """Create an empty store for vectors of ``rank`` numbers."""

    @classmethod
    @abstractmethod
    def open(cls, location: Location, *, rank: int | None = None) -> "Store":
        """Open a store; with ``rank``, check that its vectors have that rank."""

    @classmethod  # noqa: B027
    def drop(cls, location: Location) -> None:
        """Remove what lies outside the folder, which the caller deletes."""

    def pinned(self) -> "Store":
        """This store for the reads of one search; all see the same version of the rows if the store has versions."""
        return self

    def upsert(self, rows: pa.RecordBatch | pa.Table, terms: TermCounts | None = None) -> None:
        """Insert rows, replacing those with the same id, in one transaction; of equal ids in a call the last stays.

        ``terms`` has those of every row; without it, the rows have none. The column "fields" may be missing.
        """
        table = check_rows(rows, self.schema)
        if not self.has_fields():
            has_some = pc.not_equal(table[FIELDS], NO_FIELDS)
            message = "this index cannot store fields; bring it up to date with `refresh`"
            check_each(table, has_some, message, CorpusError)
            table = table.drop_columns([FIELDS])
        if terms is not None and len(terms) != table.num_rows:
            raise Cr5Error(f"`terms` has {len(terms)} rows, `rows` has {table.num_rows}; give the terms of every row")
        last = sorted({document_id: row for row, document_id in enumerate(table["id"].to_pylist())}.values())
        if len(last) < table.num_rows:
            table, terms = table.take(last), terms and terms.select_rows(np.array(last))
        if table.num_rows:
            self._upsert(table, terms)

    def delete(self, ids: Sequence[str]) -> int:
        """Delete rows; return how many existed."""
        keys = valid_keys(ids)
        return self._delete(keys) if keys else 0

    def get(self, ids: Sequence[str], columns: Sequence[str] = DEFAULT_COLUMNS) -> pa.Table:
        """The rows with these ids, in the order of the ids; missing ones are left out."""
        columns = self._existing_columns(columns)
        return self._with_fields(self._get(ids, self._stored(columns)), columns)

    def candidates(self, ids: Sequence[str]) -> CandidateRows:
        """The rows with these ids as arrays, in the order of the ids; missing ones are left out."""
        return CandidateRows.of_table(self.get(ids, CANDIDATE_ROW_COLUMNS))

    def records(self, ids: Sequence[str], columns: Sequence[str]) -> list[dict[str, Any]]:
        """The rows with these ids as dicts of strings, in the order of the ids; missing ones are left out."""
        found: list[dict[str, Any]] = self.get(ids, columns).to_pylist()
        return found

    def matching(self, ids: Sequence[str], where: Where) -> set[str]:
        """The given ids whose rows exist and match a filter."""
        rows = self.get(list(dict.fromkeys(ids)), ("id", FIELDS))
        return set(rows["id"].filter(pa.array(Filter.parse(where).mask(rows[FIELDS].to_pylist()))).to_pylist())

    def digests(self, ids: Sequence[str]) -> dict[str, str]:
        """The content digest of each of these rows that exists."""
        rows = self._read_ids(valid_keys(ids), ["id", "digest"])
        return dict(zip(rows["id"].to_pylist(), rows["digest"].to_pylist(), strict=True))

    @abstractmethod
    def count(self) -> dict[str, int]:
        """The number of rows of each language."""

    def scan(
        self,
        columns: Sequence[str] = DEFAULT_COLUMNS,
        langs: Collection[str] | None = None,
        batch_rows: int = 4096,
        *,
        where: Where | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """All rows as of now, whatever is written during the scan, in batches of at most ``batch_rows``.

        Only those in ``langs``, and those whose fields match the filter ``where``.
        """
        columns, restriction = self._existing_columns(columns), self._restriction(langs, where)
        batches = self._scan(self._stored(columns), restriction, batch_rows)
        return (self._with_fields(batch, columns) for batch in batches)

    def set_all_hubness(self, batches: Iterable[tuple[Sequence[str], Floats]]) -> None:
        """Replace the hubness (rows x languages) of batches of rows; missing ids are ignored.

        Readers may see the values of some batches before the others.
        """
        self._set_hubness(pair for pair in map(self._checked_hubness, batches) if pair[0])

    def _checked_hubness(self, batch: tuple[Sequence[str], Floats]) -> tuple[list[str], Floats]:
        ids, values = batch[0], np.asarray(batch[1], np.float32)
        if values.shape != (len(ids), self.language_count):
            raise Cr5Error(f"hubness has shape {values.shape}; it must be ({len(ids)}, {self.language_count})")
        if not np.isfinite(values).all():
            raise Cr5Error("hubness is not finite")
        last = {document_id: row for row, document_id in enumerate(ids)}
        keys = valid_keys(last)
        return keys, values[[last[key] for key in keys]]

    def nearest(
        self,
        vectors: Floats,
        k: int,
        *,
        langs: Collection[str] | None = None,
        exact: bool = False,
        columns: Sequence[str] = CANDIDATE_COLUMNS,
        where: Where | None = None,
    ) -> list[pa.Table]:
        """For each row of ``vectors`` (queries x rank), the k rows with the largest inner product, best first.

        The inner product is added as the column "cosine". ``langs`` restricts the search to some languages, and
        ``where`` to rows whose fields match a filter. With ``exact`` every row is compared; otherwise an approximate
        index, if ``optimise`` has built one, may miss a few.
        """
        columns, restriction = self._existing_columns(columns), self._restriction(langs, where)
        found = self._nearest(self._checked_vectors(vectors, k), k, restriction, self._stored(columns), exact)
        return [self._with_fields(rows, [*columns, "cosine"]) for rows in found]

    def nearest_candidates(
        self, vector: Floats, k: int, *, langs: Collection[str] | None = None, where: Where | None = None
    ) -> tuple[CandidateRows, Floats]:
        """As ``nearest`` for one vector: the columns that ranking needs of its rows, best first, and their cosines."""
        [rows] = self.nearest(vector[None], k, langs=langs, columns=CANDIDATE_ROW_COLUMNS, where=where)
        return CandidateRows.of_table(rows), rows["cosine"].to_numpy()

    def _checked_vectors(self, vectors: Floats, k: int) -> Floats:
        vectors = np.asarray(vectors, np.float32)
        if vectors.ndim != 2 or vectors.shape[1] != self.rank:
            raise Cr5Error(f"the query vectors have shape {vectors.shape}; it must be (queries, {self.rank})")
        if not np.isfinite(vectors).all():
            raise Cr5Error("a query vector is not finite")
        whole_number("k", k, 1)
        return vectors

    # Full text

    def search_terms(
        self,
        words: Sequence[QueryWord],
        lang: str,
        k: int,
        *,
        columns: Sequence[str] = CANDIDATE_COLUMNS,
        where: Where | None = None,
    ) -> pa.Table:
        """The k rows of a language with the largest BM25 of weighted words, best first; the column "bm25" is added.

        bm25 = sum over the words of weight tf / (tf + k1 (1 - b + b length / mean length)), where tf is the sum of
        boost x count over the terms of a word, and the mean length is that of the language. Rows without any of the
        terms are left out. The weights are inverse document frequencies, or whatever the caller prefers. ``where``
        restricts the result to rows whose fields match a filter; the mean length stays the same.
        """
        columns, (langs, parsed) = self._existing_columns(columns), self._restriction([lang], where)
        keys = _checked_words(words, lang, k)
        if not langs or not len(keys.keys):
            return self.schema.empty_table().select(columns).append_column("bm25", pa.array([], pa.float32()))
        rows = self._search_terms(keys, lang, k, self._stored(columns), parsed)
        return self._with_fields(rows, [*columns, "bm25"])

    def search_term_ids(
        self, words: Sequence[QueryWord] | QueryKeys, lang: str, k: int, *, where: Where | None = None
    ) -> dict[str, float]:
        """The ids of the rows that ``search_terms`` finds, best first, and the BM25 of each.

        ``words`` may also be their arrays, which ``QueryKeys.make`` has made for this language.
        """
        (langs, parsed), keys = self._restriction([lang], where), _checked_words(words, lang, k)
        return self._search_term_ids(keys, lang, k, parsed) if langs and len(keys.keys) else {}

    def inverse_document_frequencies(self, terms: Collection[str], lang: str) -> dict[str, float]:
        """ln(1 + (n - df + 1/2) / (df + 1/2)) of each of these terms among the n rows of a language that have terms."""
        found = self.document_frequencies(terms, lang)
        frequencies = np.array(list(found.values()), np.int64)
        # Rows may have been deleted between both questions.
        documents = max(self._documents_with_terms(lang), int(frequencies.max(initial=0)))
        idf = inverse_document_frequencies(documents, frequencies)
        return dict(zip(found, idf.tolist(), strict=True))

    def document_frequencies(self, terms: Collection[str], lang: str) -> dict[str, int]:
        """The number of rows of a language that have each of these terms."""
        names = list(dict.fromkeys(terms))
        frequencies = self._document_frequencies(names, lang) if valid_keys([lang]) else [0] * len(names)
        return dict(zip(names, frequencies, strict=True))

    def expect_terms(self, terms: Collection[str], langs: Sequence[str]) -> None:  # noqa: B027
        """Prepare for questions about the frequencies of terms in several languages, if that makes them faster."""

    @abstractmethod
    def term_dictionaries(self, lang: str) -> list[TermDictionary]:
        """The words of a language's terms, in parts that may overlap; also words that only deleted rows had."""

    def word_forms(self, lang: str) -> LanguageForms:
        """The forms of words in these dictionaries, some of which may be remembered."""
        return LanguageForms(self.term_dictionaries(lang))

    @abstractmethod
    def full_text_stats(self) -> dict[str, FullTextStats]:
        """For each language, how many rows have terms, and how long they are."""

    def _documents_with_terms(self, lang: str) -> int:
        stats = self.full_text_stats().get(lang)
        return stats.documents if stats else 0

    def ids_without_terms(self) -> list[str]:
        """The ids of rows that have no terms, because an earlier version of cr5 wrote them."""
        return []

    def add_terms(self, ids: Sequence[str], terms: TermCounts) -> None:
        """Give terms to rows that have none; other rows keep theirs, and missing ids are ignored."""
        if len(ids) != len(terms):
            raise Cr5Error(f"`terms` has {len(terms)} rows for {len(ids)} ids; give the terms of every id")
        last = {document_id: row for row, document_id in enumerate(ids)}
        keys = valid_keys(last)
        if keys:
            self._add_terms(keys, terms.select_rows(np.array([last[key] for key in keys])))

    def has_fields(self) -> bool:
        """Whether the store has a column for fields; one that an earlier version of cr5 wrote has none."""
        return True

    def has_match(self, where: Filter) -> bool:
        """Whether a row matches a filter; perhaps also if only deleted rows did."""
        return any(batch.num_rows for batch in self.scan(("id",), where=where))

    def has_field(self, name: str) -> bool:
        """Whether a row has a field of this name, as in filters; perhaps also if only deleted rows had it."""
        return self.has_match(Filter.existing(name))

    def add_fields(self) -> None:  # noqa: B027
        """Add the column for fields, which are empty, if there is none."""

    @abstractmethod
    def optimise(self) -> None:
        """Compact the files; build or update the approximate index if there are enough rows."""

    def stats(self) -> dict[str, Any]:
        """``store``, ``rank``, ``extras``, ``rows``, ``unindexed``, ``bytes``, ``index``, ``full_text`` and ``fields``.

        ``extras`` is the number of languages of the model, each with a number of ``hubness``. ``index`` is the type of
        the approximate index ("cells": IVF, in a folder), or "none"; ``unindexed`` are the rows that it does not have.
        ``full_text`` is the number of rows that have terms, and ``fields`` whether rows can have fields.
        """
        about = {
            "store": self.label.lower(),
            "rank": self.rank,
            "extras": self.language_count,
            "fields": self.has_fields(),
        }
        return about | self._stats() | {"full_text": sum(stats.documents for stats in self.full_text_stats().values())}

    @abstractmethod
    def close(self) -> None:
        """Release files and connections."""

    # What the methods above call after they have checked their arguments: keys are valid; ``columns`` are one or more
    # stored columns, without duplicates. Results have them in this order.

    @abstractmethod
    def _upsert(self, table: pa.Table, terms: TermCounts | None) -> None:
        """Insert or replace rows of different ids, and replace their terms, by none if None, in one transaction."""

    @abstractmethod
    def _delete(self, keys: list[str]) -> int:
        """Delete rows with their hubness and terms; return how many existed."""

    @abstractmethod
    def _read_ids(self, keys: list[str], columns: list[str]) -> pa.Table:
        """The rows with these ids, in any order."""

    def _get(self, ids: Sequence[str], columns: list[str]) -> pa.Table:
        rows = self._read_ids(valid_keys(ids), list(dict.fromkeys([*columns, "id"])))
        return take_ids(rows, ids).select(columns)

    @abstractmethod
    def _scan(self, columns: list[str], restriction: Restriction, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of a restriction as of the call, in any order, in batches of at most ``batch_rows``."""

    @abstractmethod
    def _set_hubness(self, batches: Iterable[tuple[list[str], Floats]]) -> None:
        """Replace the hubness (rows x languages) of the rows with these ids; ignore ids without a row."""

    @abstractmethod
    def _nearest(
        self, vectors: Floats, k: int, restriction: Restriction, columns: list[str], exact: bool
    ) -> list[pa.Table]:
        """For each vector the k rows of a restriction with the largest inner product, best first, ties in any order.

        A column "cosine" (float32) with the inner products is added at the end.
        """

    @abstractmethod
    def _search_terms(self, words: QueryKeys, lang: str, k: int, columns: list[str], where: Filter | None) -> pa.Table:
        """The k rows with the largest BM25, best first, ties in any order; a column "bm25" (float32) is added."""

    def _search_term_ids(self, words: QueryKeys, lang: str, k: int, where: Filter | None) -> dict[str, float]:
        rows = self._search_terms(words, lang, k, ["id"], where)
        return dict(zip(rows["id"].to_pylist(), rows["bm25"].to_pylist(), strict=True))

    @abstractmethod
    def _document_frequencies(self, terms: list[str], lang: str) -> list[int]:
        """For each of different terms, how many rows of a language have it."""

    @abstractmethod
    def _add_terms(self, keys: list[str], terms: TermCounts) -> None:
        """Give terms, a row for each key, to those rows that exist and have none."""

    @abstractmethod
    def _stats(self) -> dict[str, Any]:
        """``rows``, ``unindexed``, ``bytes`` and ``index`` of ``stats``."""

    def _existing_columns(self, columns: Sequence[str]) -> list[str]:
        """Check that columns exist; remove duplicates."""
        for name in columns:
            if name not in self.schema.names:
                raise Cr5Error(f"there is no column {quoted(name)}; choose from {', '.join(self.schema.names)}")
        return list(dict.fromkeys(columns))

    def _restriction(self, langs: Collection[str] | None, where: Where | None) -> Restriction:
        """The rows that a caller asks for; in no language if no row can match."""
        keys = None if langs is None else valid_keys(langs)
        if not where:
            return Restriction(keys, None)
        parsed = Filter.parse(where)
        if not parsed.conditions or self.has_fields():
            return Restriction(keys, parsed if parsed.conditions else None)
        return Restriction(keys if parsed.matches({}) else [], None)

    def _stored(self, columns: list[str]) -> list[str]:
        """The given columns that the store has."""
        return columns if FIELDS not in columns or self.has_fields() else [c for c in columns if c != FIELDS]

    def _with_fields(self, rows: Rows, columns: list[str]) -> Rows:
        """Rows with these columns; fields are empty where the store has none."""
        if rows.schema.names == columns:
            return rows
        if FIELDS in columns and FIELDS not in rows.schema.names:
            rows = rows.append_column(self.schema.field(FIELDS), pa.array([NO_FIELDS] * rows.num_rows, pa.string()))
        return rows.select(columns)


def _checked_words(words: Sequence[QueryWord] | QueryKeys, lang: str, k: int) -> QueryKeys:
    """The words of a query as arrays; an error if a weight, or k, is wrong."""
    whole_number("k", k, 1)
    return words if isinstance(words, QueryKeys) else QueryKeys.make(words, lang)


def write_header(rank: int, language_count: int) -> str:
    """A JSON header to be stored beside the rows: format version and widths."""
    return json.dumps({"cr5": FORMAT, "rank": rank, "extras": language_count})


def read_header(text: str | None, location: str, rank: int | None) -> pa.Schema:
    """The schema of the store at ``location`` from its header; check its format version, and its rank if given."""
    try:
        header = json.loads(text or "")
        number, stored_rank, language_count = int(header["cr5"]), int(header["rank"]), int(header["extras"])
    except (ValueError, TypeError, KeyError):
        raise Cr5Error(f"{location}: this is not a cr5 index; check the location") from None
    if number != FORMAT:
        raise Cr5Error(f"{location}: the index has format {number}, this version reads {FORMAT}; build the index again")
    if rank is not None and rank != stored_rank:
        raise Cr5Error(f"{location}: the vectors have rank {stored_rank}, not {rank}; use the model of the index")
    return make_schema(stored_rank, language_count)
