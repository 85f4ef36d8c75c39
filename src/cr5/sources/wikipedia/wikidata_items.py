"""Items: which one of Wikidata a page of a wiki has, as a table on disk that many processes share.

A folder holds sorted keys, page ids or digests of titles, with a value beside each, memory-mapped
when opened, and a JSON that says what they were made from.
"""

import json
import re
import shutil
from array import array
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from cr5.errors import CorpusError
from cr5.sources.files import ErrorHandler, opened, raise_error
from cr5.sources.wikipedia.sql_dump import rows
from cr5.storage.atomic import sync

Find: TypeAlias = Callable[[int, str], tuple[str, bool] | None]
"""From a page's id and title to its item, "Q42", and whether it is a disambiguation; None where neither is known."""

_Rows: TypeAlias = Iterable[tuple[int, int]]
_Keys: TypeAlias = NDArray[np.int64]

_FORMAT = 1
_ABOUT, _KEYS, _VALUES = "items.json", "keys.i64", "values.i64"
_ITEM = re.compile(r"Q([1-9][0-9]{0,17})")
_BLOCK = 1 << 16  # rows that are sorted out at a time


class Items:
    """A table as it lies on disk; a copy in another process opens it there."""

    def __init__(self, folder: Path, about: dict[str, Any], keys: _Keys, values: _Keys) -> None:
        self.folder, self.about = folder, about
        self._keys, self._values, self._by_title = keys, values, about["kind"] == "sitelinks"

    @classmethod
    def open(cls, folder: Path) -> "Items":
        """The table in a folder, without reading it."""
        folder = folder.absolute()  # a worker elsewhere may stand in another folder
        try:
            about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
            if about["format"] != _FORMAT:
                raise ValueError
            keys, values = (_mapped(folder / name, about["rows"]) for name in (_KEYS, _VALUES))
        except (OSError, ValueError, TypeError, KeyError):
            raise CorpusError(f"{folder}: no table of items in this folder; delete it and build it anew") from None
        return cls(folder, about, keys, values)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def partial(self) -> bool:
        """Whether it was made from the head of a file."""
        return bool(self.about["partial"])

    @property
    def last(self) -> int:
        """The largest key, -1 where there is none: pages behind it are unknown to a partial table."""
        return int(self._keys[-1]) if len(self._keys) else -1

    def __reduce__(self) -> tuple[Any, ...]:
        return Items.open, (self.folder,)

    def find(self, page: int, title: str) -> tuple[str, bool] | None:
        """A page's item and whether it is a disambiguation: ("Q42", False), or ("", True) for one without item."""
        key = digest(title) if self._by_title else page
        if not 0 <= key < 2**63:
            return None
        row = int(self._keys.searchsorted(np.int64(key)))
        if row == len(self._keys) or self._keys[row] != key:
            return None
        number, flag = divmod(int(self._values[row]), 2)
        return f"Q{number}" if number else "", bool(flag)


def from_page_props(
    path: Path, folder: Path, *, partial: bool = False, handle_error: ErrorHandler = raise_error
) -> Items:
    """Build the table of a wiki's page_props.sql.gz, by page ids; it knows disambiguations.

    A page with two items has the last. A file that is cut short is an error; with ``partial`` the
    rows before the cut, or any other fault, are all there is. Takes 28 bytes of memory a row.
    """
    with opened(path) as stream:
        found = _page_props(stream, str(path), handle_error)
        return _build(found, folder, path, partial, {"kind": "page_props"})


def from_sitelinks(
    path: Path, site: str, folder: Path, *, partial: bool = False, handle_error: ErrorHandler = raise_error
) -> Items:
    """Build the table of a site ("dawiki") from Wikidata's wb_items_per_site.sql.gz, by titles.

    It knows no disambiguations. A title with two items has the last. ``partial`` and memory: as above.
    """
    with opened(path) as stream:
        found = _sitelinks(stream, site, str(path), handle_error)
        return _build(found, folder, path, partial, {"kind": "sitelinks", "site": site})


def digest(title: str) -> int:
    """A title as a key of 63 bits, with spaces or underscores: of ten million, two agree once in 200,000 wikis."""
    name = title.replace("_", " ").encode("utf-8", "replace")
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "little") >> 1


# Rows: a key, and twice the number of an item, plus one for a disambiguation


def _page_props(stream: IO[bytes], source: str, handle_error: ErrorHandler) -> Iterator[tuple[int, int]]:
    columns = ["pp_page", "pp_propname", "pp_value"]
    names = {"pp_propname": ["wikibase_item", "disambiguation"]}
    for page, name, value in rows(cast(Any, stream), "page_props", columns, source, where=names):
        if not isinstance(page, int) or not 0 <= page < 2**63:
            handle_error("no page id", f"{source}: {page!r} is no page id; download it again")
        elif name == "disambiguation":
            yield page, 1
        elif isinstance(value, str) and (item := _ITEM.fullmatch(value)):
            yield page, 2 * int(item[1])
        else:
            handle_error("no item", f"{source}: {value!r} of page {page} is no item of Wikidata; download it again")


def _sitelinks(stream: IO[bytes], site: str, source: str, handle_error: ErrorHandler) -> Iterator[tuple[int, int]]:
    columns = ["ips_item_id", "ips_site_page"]
    for item, title in rows(cast(Any, stream), "wb_items_per_site", columns, source, where={"ips_site_id": [site]}):
        if not isinstance(item, int) or not 0 < item < 10**18:
            handle_error("no item", f"{source}: {item!r} is no number of an item; download it again")
        elif isinstance(title, str):  # not one that was cut within a character
            yield digest(title), 2 * item


# Building and opening


def _build(found: _Rows, folder: Path, path: Path, partial: bool, about: dict[str, Any]) -> Items:
    """Write a table under a temporary name; it stands under its own when it is complete and on disk, or not at all."""
    folder = folder.absolute()
    if folder.exists() and not (folder / _ABOUT).exists():
        raise CorpusError(f"{folder}: exists and is no table of items; name another folder, or delete it")
    keys, values = _collected(found, partial)
    part, old = folder.with_name(f".{folder.name}.part"), folder.with_name(f".{folder.name}.old")
    _tidy(folder, part, old)
    try:
        part.mkdir(parents=True)
        count = 0
        with (part / _KEYS).open("wb") as first, (part / _VALUES).open("wb") as second:
            for some, theirs in _sorted(keys, values):
                first.write(some.astype("<i8").tobytes())
                second.write(theirs.astype("<i8").tobytes())
                count += len(some)
        about = {"format": _FORMAT, **about, "source": path.name, "bytes": path.stat().st_size, "partial": partial}
        with (part / _ABOUT).open("w", encoding="utf-8") as file:
            json.dump(about | {"rows": count}, file, indent=1)
        for written in (part / _KEYS, part / _VALUES, part / _ABOUT, part):
            sync(written)
        if folder.exists():
            folder.rename(old)  # a folder cannot replace another that has files
        part.rename(folder)
        sync(folder.parent)  # the name must last as well
    except OSError as error:
        raise CorpusError(f"{folder}: cannot be written, {str(error.strerror).lower()}; check the disk") from None
    finally:
        _tidy(folder, part, old)
    return Items.open(folder)


def _tidy(folder: Path, part: Path, old: Path) -> None:
    """Put the old table back if no new one has come, and remove what is left."""
    if old.exists() and not folder.exists():
        old.rename(folder)
    for left in (part, old):
        shutil.rmtree(left, ignore_errors=True)


def _collected(found: _Rows, partial: bool) -> tuple[_Keys, _Keys]:
    keys, values = array("q"), array("q")
    try:
        for key, value in found:
            keys.append(key)
            values.append(value)
    except CorpusError:
        if not partial or not keys:
            raise
    return np.asarray(keys), np.asarray(values)  # the same memory


def _sorted(keys: _Keys, values: _Keys) -> Iterator[tuple[_Keys, _Keys]]:
    """Blocks of the table in the order of its keys, each once: with the last item given, and any flag."""
    order = np.argsort(keys, kind="stable")
    held = np.empty(0, np.int64), np.empty(0, np.int64)  # the last row waits for others of its key
    for start in range(0, len(order), _BLOCK):
        chosen = order[start : start + _BLOCK]
        some, theirs = _merged(np.append(held[0], keys[chosen]), np.append(held[1], values[chosen]))
        yield some[:-1], theirs[:-1]
        held = some[-1:], theirs[-1:]
    yield held


def _merged(keys: _Keys, values: _Keys) -> tuple[_Keys, _Keys]:
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    with_item = np.where(values > 1, np.arange(len(values)), -1)
    last = np.maximum.reduceat(with_item, starts)
    flags = np.bitwise_or.reduceat(values & 1, starts)
    items: _Keys = np.where(last < 0, 0, values[last] & ~1)
    return keys[starts], items | flags


def _mapped(path: Path, count: int) -> _Keys:
    if path.stat().st_size != 8 * count:
        raise ValueError
    # An empty file cannot be mapped. The view is a plain array, which is faster to search than a memmap.
    return np.asarray(np.memmap(path, "<i8", "r")) if count else np.empty(0, np.int64)
