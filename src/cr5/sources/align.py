"""From extracted shards to a corpus: which articles are kept, and the manifest that tells."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cr5._typing import Ints
from cr5.corpus import MANIFEST, SCHEMA
from cr5.duplicates import Duplicates
from cr5.sources.shards import write_json, write_table

_SEAL = b"cr5"


class Keep(NamedTuple):
    """Which articles stay: of concepts that two languages have, in their own language, unlike all before them."""

    shared: bool = False
    own: bool = False
    unlike: bool = False


class Edition(NamedTuple):
    """One language's shards on their way into a corpus, by whoever can see the files."""

    lang: str
    shards: tuple[str, ...]
    output: str
    keep: Keep
    shared: str | None  # a file with the items that two languages have


class Published(NamedTuple):
    """What became of a language: its files with their documents, and how many articles were what."""

    files: dict[str, int]
    articles: int
    alone: int | None
    foreign: dict[str, int]
    duplicates: int | None


def shared_items(languages: Mapping[str, Sequence[Path]]) -> Ints:
    """The items that two languages or more have, sorted."""
    found = [np.unique(np.concatenate([_items(path) for path in paths])) for paths in languages.values() if paths]
    items, counts = np.unique(np.concatenate(found or [np.empty(0, np.int64)]), return_counts=True)
    return items[counts > 1]


def publish(edition: Edition) -> Published:
    """Write a language's files; those that an earlier run wrote from the same shards stay as they are."""
    keep, output = edition.keep, Path(edition.output)
    shared = np.load(edition.shared, mmap_mode="r") if edition.shared else None
    seal = hashlib.sha256(repr(keep).encode() + (b"" if shared is None else shared.tobytes())).hexdigest()
    duplicates = Duplicates() if keep.unlike else None
    files: dict[str, int] = {}
    counts: list[dict[str, Any]] = []
    for number, source in enumerate(edition.shards):
        path = output / f"{edition.lang}-{number:05d}.parquet"
        about = f"{seal} {Path(source).name} {Path(source).stat().st_size}"
        known = _known(path, about)
        if known is not None and duplicates is None:
            counted, rows = known, None
        else:
            counted, rows = _chosen(pq.read_table(source), keep, shared, duplicates)
        counts.append(counted)
        if counted["documents"]:
            files[path.name] = counted["documents"]
        if rows is not None and known != counted and (rows.num_rows or path.exists()):
            if rows.num_rows:
                write_table(path, rows, {_SEAL: json.dumps({"about": about, "counts": counted}).encode()})
            else:
                path.unlink()
    foreign: dict[str, int] = {}
    for counted in counts:
        for lang, count in counted["foreign"].items():
            foreign[lang] = foreign.get(lang, 0) + count
    return Published(
        files,
        sum(counted["articles"] for counted in counts),
        sum(counted["alone"] for counted in counts) if keep.shared else None,
        foreign,
        sum(counted["duplicates"] for counted in counts) if keep.unlike else None,
    )


def _chosen(
    table: pa.Table, keep: Keep, shared: Ints | None, duplicates: Duplicates | None
) -> tuple[dict[str, Any], pa.Table]:
    """A shard's counts, and the rows that stay."""
    counted: dict[str, Any] = {"articles": table.num_rows, "alone": 0, "duplicates": 0}
    if shared is not None:
        rows = table.filter(pa.array(np.isin(_numbers(table["concept"]), shared)))
        counted["alone"], table = table.num_rows - rows.num_rows, rows
    named = pc.value_counts(table["foreign"]).to_pylist()
    counted["foreign"] = {entry["values"]: entry["counts"] for entry in named if entry["values"]}
    if keep.own:
        table = table.filter(pc.equal(table["foreign"], ""))
    rows = table.select(SCHEMA.names)
    if duplicates is not None and rows.num_rows:
        batch = rows.combine_chunks().to_batches()[0]
        marked = duplicates.mark(batch)
        counted["duplicates"] = int(marked.sum())
        rows = rows.filter(pa.array(~marked))
    counted["documents"] = rows.num_rows
    return counted, rows


def _known(path: Path, about: str) -> dict[str, Any] | None:
    """The counts of a file that was written from this shard in this way."""
    if not path.exists():
        return None
    seal = json.loads((pq.read_schema(path).metadata or {}).get(_SEAL, b"{}"))
    counts: dict[str, Any] | None = seal.get("counts") if seal.get("about") == about else None
    return counts


def _items(path: Path) -> Ints:
    return np.unique(_numbers(pq.read_table(path, columns=["concept"])["concept"]))


def _numbers(concepts: pa.ChunkedArray) -> Ints:
    """Q42 -> 42."""
    numbers: Ints = pc.cast(pc.utf8_slice_codeunits(concepts, 1), pa.int64()).to_numpy()
    return numbers


# The manifest


def begin(output: Path, about: Mapping[str, Any]) -> None:
    """Say that a corpus is being written."""
    write_json(output / MANIFEST, {"complete": False, **about})


def finish(output: Path, about: Mapping[str, Any], files: Mapping[str, int]) -> None:
    """Say that it is whole, without files of ours that no longer belong to it."""
    for path in output.glob("*.parquet"):
        if path.name not in files and _SEAL in (pq.read_schema(path).metadata or {}):
            path.unlink()
    write_json(output / MANIFEST, {"complete": True, **about, "files": dict(files)})
