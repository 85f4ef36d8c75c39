"""Item tables: the Wikidata item of every page of a wiki, on disk, shared by many processes.

A folder holds sorted keys (page ids, or digests of titles) with a value for each, memory-mapped when opened, and a
JSON file that says what they were made from.
"""

import re
from array import array
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from cr5.errors import CorpusError
from cr5.sources.files import open_source
from cr5.sources.wikipedia.sql_dump import read_rows
from cr5.storage.atomic import atomic_folder
from cr5.storage.json_files import read_json, write_json

_Entries: TypeAlias = Iterable[tuple[int, int]]
"""Keys with values; a value is twice the number of an item, plus one for a disambiguation page."""
_Column: TypeAlias = NDArray[np.int64]

_FORMAT = 1
_HEADER, _KEYS, _VALUES = "items.json", "keys.i64", "values.i64"
_ITEM = re.compile(r"Q([1-9][0-9]{0,17})")
MERGE_BLOCK_ROWS = 1 << 16


class ItemTable:
    """An item table on disk."""

    def __init__(self, header: dict[str, Any], keys: _Column, values: _Column) -> None:
        self.header = header
        self._keys, self._values, self._by_title = keys, values, header["kind"] == "sitelinks"

    @classmethod
    def open(cls, folder: Path) -> "ItemTable":
        """Map the table in a folder into memory."""
        try:
            header = read_json(folder / _HEADER)
            if header["format"] != _FORMAT:
                raise ValueError
            keys, values = (_mapped(folder / name, header["rows"]) for name in (_KEYS, _VALUES))
        except (OSError, ValueError, TypeError, KeyError):
            raise CorpusError(f"{folder}: not an item table; delete this folder and build it again") from None
        return cls(header, keys, values)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def partial(self) -> bool:
        """Whether it was made from the beginning of a file."""
        return bool(self.header["partial"])

    @property
    def last_key(self) -> int:
        """The largest key, or -1 if there is none: a partial table knows nothing about larger page ids."""
        return int(self._keys[-1]) if len(self._keys) else -1

    def find(self, page: int, title: str) -> tuple[str, bool] | None:
        """Return a page's item ("Q42", or "" if it has none) and whether it is a disambiguation page, or None."""
        key = title_key(title) if self._by_title else page
        if not 0 <= key < 2**63:
            return None
        row = int(self._keys.searchsorted(np.int64(key)))
        if row == len(self._keys) or self._keys[row] != key:
            return None
        number, is_disambiguation = divmod(int(self._values[row]), 2)
        return f"Q{number}" if number else "", bool(is_disambiguation)


def from_page_props(path: Path, folder: Path, *, partial: bool = False) -> ItemTable:
    """Build a table by page ids from a wiki's page_props.sql.gz; it also marks disambiguation pages.

    If a page has two items, the last one is used. A file that is truncated or damaged is an error, unless ``partial``
    is true: then the rows before the cut are used. Takes 28 bytes of memory per row.
    """
    with open_source(path) as stream:
        columns = _collect(_page_props_entries(stream, str(path)), partial)
    return _write(columns, folder, path, {"kind": "page_props", "partial": partial})


def from_sitelinks(path: Path, site: str, folder: Path) -> ItemTable:
    """Build a table by titles for a site ("dawiki") from Wikidata's wb_items_per_site.sql.gz.

    It does not mark disambiguation pages. A file that is truncated or damaged is an error.
    """
    with open_source(path) as stream:
        columns = _collect(_sitelinks_entries(stream, site, str(path)))
    return _write(columns, folder, path, {"kind": "sitelinks", "site": site, "partial": False})


def title_key(title: str) -> int:
    """A 63-bit digest of a title, with spaces or underscores.

    In a wiki of ten million pages, two titles collide with a probability of 1 in 200,000.
    """
    name = title.replace("_", " ").encode("utf-8", "replace")
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "little") >> 1


def _page_props_entries(stream: IO[bytes], source: str) -> Iterator[tuple[int, int]]:
    columns = ["pp_page", "pp_propname", "pp_value"]
    names = {"pp_propname": ["wikibase_item", "disambiguation"]}
    for page, name, value in read_rows(cast(Any, stream), "page_props", columns, source, where=names):
        if not isinstance(page, int) or not 0 <= page < 2**63:
            raise CorpusError(f"{source}: {page!r} is not a page id; download it again")
        if name == "disambiguation":
            yield page, 1
        elif isinstance(value, str) and (item := _ITEM.fullmatch(value)):
            yield page, 2 * int(item[1])
        else:
            raise CorpusError(f"{source}: {value!r} of page {page} is not a Wikidata item; download it again")


def _sitelinks_entries(stream: IO[bytes], site: str, source: str) -> Iterator[tuple[int, int]]:
    columns, sites = ["ips_item_id", "ips_site_page"], {"ips_site_id": [site]}
    for item, title in read_rows(cast(Any, stream), "wb_items_per_site", columns, source, where=sites):
        if not isinstance(item, int) or not 0 < item < 10**18:
            raise CorpusError(f"{source}: {item!r} is not the number of a Wikidata item; download it again")
        if isinstance(title, str):  # bytes, if the title was cut within a character
            yield title_key(title), 2 * item


# Building and opening


def _write(columns: tuple[_Column, _Column], folder: Path, path: Path, header: dict[str, Any]) -> ItemTable:
    """Write a table to a folder, which must not exist yet and appears when it is complete and on disk."""
    folder = folder.absolute()
    if folder.exists() and any(folder.iterdir()):
        raise CorpusError(f"{folder}: exists already; name another folder, or delete it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(folder) as temporary:
        rows = 0
        with (temporary / _KEYS).open("wb") as key_file, (temporary / _VALUES).open("wb") as value_file:
            for block_keys, block_values in _sorted_blocks(*columns):
                key_file.write(block_keys.astype("<i8").tobytes())
                value_file.write(block_values.astype("<i8").tobytes())
                rows += len(block_keys)
        origin = {"source": path.name, "bytes": path.stat().st_size, "rows": rows}
        write_json(temporary / _HEADER, {"format": _FORMAT, **header, **origin})
    return ItemTable.open(folder)


def _collect(entries: _Entries, partial: bool = False) -> tuple[_Column, _Column]:
    keys, values = array("q"), array("q")
    try:
        for key, value in entries:
            keys.append(key)
            values.append(value)
    except CorpusError:
        if not partial or not keys:
            raise
    return np.asarray(keys), np.asarray(values)  # views of the same memory


def _sorted_blocks(keys: _Column, values: _Column) -> Iterator[tuple[_Column, _Column]]:
    """Blocks of the table sorted by key, each key once, with its last item and with the flag if any row has it."""
    order = np.argsort(keys, kind="stable")
    # The last row of a block is held back, because the next block may continue its key.
    held_key, held_value = np.empty(0, np.int64), np.empty(0, np.int64)
    for start in range(0, len(order), MERGE_BLOCK_ROWS):
        block = order[start : start + MERGE_BLOCK_ROWS]
        block_keys, block_values = _merged(np.append(held_key, keys[block]), np.append(held_value, values[block]))
        yield block_keys[:-1], block_values[:-1]
        held_key, held_value = block_keys[-1:], block_values[-1:]
    yield held_key, held_value


def _merged(keys: _Column, values: _Column) -> tuple[_Column, _Column]:
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    rows_with_item = np.where(values > 1, np.arange(len(values)), -1)
    last_rows = np.maximum.reduceat(rows_with_item, starts)
    flags = np.bitwise_or.reduceat(values & 1, starts)
    items: _Column = np.where(last_rows < 0, 0, values[last_rows] & ~1)
    return keys[starts], items | flags


def _mapped(path: Path, count: int) -> _Column:
    if path.stat().st_size != 8 * count:
        raise ValueError
    # An empty file cannot be mapped. A plain array view is faster to search than a memmap.
    return np.asarray(np.memmap(path, "<i8", "r")) if count else np.empty(0, np.int64)
