"""From extracted shards to a corpus: which articles are kept, and the manifest that tells."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cr5._typing import Ints
from cr5.corpus.documents import SCHEMA
from cr5.corpus.duplicates import Duplicates
from cr5.corpus.reading import MANIFEST
from cr5.errors import Cr5Error
from cr5.sources.wikipedia.shards import load_json, whole, write_json, write_table

_SEAL = b"cr5"
_NAME = re.compile(r"([A-Za-z0-9-]+)-[0-9]{5}\.parquet")


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
    run: str  # as the manifest names it: for another's, nothing is written any more


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
    made_from = hashlib.sha256(repr(keep).encode())
    if shared is not None:
        made_from.update(shared.data)
    duplicates = Duplicates() if keep.unlike else None
    files: dict[str, int] = {}
    counts: list[dict[str, Any]] = []
    for number, source in enumerate(edition.shards):
        path = output / f"{edition.lang}-{number:05d}.parquet"
        status = Path(source).stat()
        # Of all shards so far: which texts repeat others depends on those before them.
        made_from.update(f"{Path(source).name} {status.st_size} {status.st_mtime_ns}\n".encode())
        about = made_from.hexdigest()
        known = _known(path, about)
        if known is not None and duplicates is None:
            counted, rows = known, None
        else:
            with whole(Path(source)):
                table = pq.read_table(source)
            counted, rows = _chosen(table, keep, shared, duplicates)
        counts.append(counted)
        if counted["documents"]:
            files[path.name] = counted["documents"]
        if rows is not None and known != counted:
            _check_run(output, edition.run)
            if rows.num_rows:
                write_table(path, rows, {_SEAL: json.dumps({"about": about, "counts": counted}).encode()})
            else:
                path.unlink(missing_ok=True)
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
        items = _numbers(table["concept"])
        rows = table.filter(pa.array(np.searchsorted(shared, items, "right") > np.searchsorted(shared, items)))
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
    """The counts of a file that was written from these shards in this way."""
    seal = _seal(path)
    return seal["counts"] if seal and seal["about"] == about else None


def _seal(path: Path) -> dict[str, Any] | None:
    """What ``publish`` wrote into a file, or None where it is not one of ours."""
    with suppress(pa.ArrowException, OSError, ValueError, KeyError, TypeError):
        seal = json.loads(pq.read_schema(path).metadata[_SEAL])
        return {"about": seal["about"], "counts": seal["counts"]}
    return None


def _items(path: Path) -> Ints:
    with whole(path):
        concepts = pq.read_table(path, columns=["concept"])["concept"]
    return np.unique(_numbers(concepts))


def _numbers(concepts: pa.ChunkedArray) -> Ints:
    """Q42 -> 42."""
    numbers: Ints = pc.cast(pc.utf8_slice_codeunits(concepts, 1), pa.int64()).to_numpy()
    return numbers


# The folder


def check_folder(output: Path, source: str, langs: Sequence[str], begun: bool) -> None:
    """Refuse a folder with files of somebody else where ours are to be; the manifest of a ``begun`` one is ours."""
    about: Any = {"source": source}
    with suppress(FileNotFoundError, NotADirectoryError):
        try:
            about = json.loads((output / MANIFEST).read_bytes())
        except ValueError:
            about = None
    if not begun and not (isinstance(about, dict) and about.get("source") == source):
        raise Cr5Error(f"{output / MANIFEST}: not of a corpus of this command; name another folder")
    for path in sorted(output.glob("*.parquet")):
        if (match := _NAME.fullmatch(path.name)) and match[1] in langs and _seal(path) is None:
            raise Cr5Error(f"{path}: damaged, or not written by this command; move it away, or name another folder")


def is_temporary(name: str) -> bool:
    """Whether a file of this name is one of ours that was half written."""
    match = re.fullmatch(r"\.(.+)\.[0-9a-f]{8}\.tmp", name)
    return match is not None and (match[1] == MANIFEST or _NAME.fullmatch(match[1]) is not None)


def begin(output: Path, source: str, run: str) -> None:
    """Say that a corpus is being written, and by which run."""
    write_json(output / MANIFEST, {"complete": False, "source": source, "run": run})


def _check_run(output: Path, run: str) -> None:
    """Stop where a later run has taken over: on a cluster, tasks outlive the one that gave them."""
    if (load_json(output / MANIFEST) or {}).get("run") != run:
        raise Cr5Error(f"{output}: another run has taken over")


def finish(output: Path, about: Mapping[str, Any], files: Mapping[str, int]) -> None:
    """Say that it is whole, without files of ours that no longer belong to it."""
    for path in output.glob("*.parquet"):
        if path.name not in files and _NAME.fullmatch(path.name) and _seal(path) is not None:
            path.unlink()
    write_json(output / MANIFEST, {"complete": True, **about, "files": dict(files)})
