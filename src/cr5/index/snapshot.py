"""A generation of an index: one model, the documents encoded with it, and the background of both, in a folder.

The index's folder has ``index.json``, which names the generation and the background that count, and for each generation
a folder with the model, backgrounds and, if it is LanceDB's, the store. What counts is replaced in one step.
"""

import hashlib
import importlib
import json
import os
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from cr5.errors import Cr5Error, IndexBusyError
from cr5.index.background import Background
from cr5.index.stores import lance, postgres
from cr5.index.stores.base import Store
from cr5.model import Cr5
from cr5.storage import locks
from cr5.storage.atomic import replacing

FORMAT = 1
INDEX = "index.json"
_LOCK, _GENERATION, _ABOUT, _BEGUN = "lock", "generation-", "about.json", "begun.json"

Stamp: TypeAlias = tuple[int, int] | None


class Snapshot(NamedTuple):
    """What an index consists of at a time; ``about`` is what ``index.json`` says of it."""

    about: dict[str, Any]
    place: Path
    store: Store
    model: Cr5
    background: Background


def make(folder: Path, model: Path, store: str | None, number: int) -> Snapshot:
    """A new generation without documents. What is to be cleared away if this is killed is written down before."""
    place = folder / f"{_GENERATION}{number}"
    place.mkdir()
    opened = Cr5.load(model)
    about: dict[str, Any] = {"format": FORMAT, "generation": number, "model": identity(model), "background": None}
    about |= {"rank": opened.settings.rank, "store": "lance", "table": None}
    if store is not None:
        about |= {"table": f"cr5_{secrets.token_hex(8)}"}
        about |= {"store": _without_password(store, about["table"])}
    write(place / _BEGUN, about)
    rank, extras = opened.settings.rank, len(opened.langs)
    kept: Store
    if store is None:
        kept = lance.create(place / "documents", rank=rank, extras=extras)
    else:
        kept = postgres.create(store, about["table"], rank=rank, extras=extras)
    try:
        shutil.copytree(model, place / "model", ignore=shutil.ignore_patterns(".*"), copy_function=_link)
        write(place / _ABOUT, about)
        return Snapshot(about, place, kept, Cr5.load(place / "model"), Background.empty(opened.langs, rank))
    except BaseException:
        kept.close()
        raise


def open(folder: Path, about: dict[str, Any], store: str | None) -> Snapshot:  # noqa: A001
    """The generation that ``about`` says."""
    place = folder / f"{_GENERATION}{about['generation']}"
    model = Cr5.load(place / "model")
    background = _background(place, about, model)
    kept: Store
    if about["table"] is None:
        kept = lance.open(place / "documents", rank=about["rank"])
    else:
        kept = postgres.open(server(about, store) or "", about["table"], rank=about["rank"])
    return Snapshot(about, place, kept, model, background)


def current(folder: Path, store: str | None, before: Snapshot | None = None) -> tuple[Stamp, Snapshot]:
    """The generation that counts, of which ``before`` may have parts already."""
    while True:
        seen = stamp(folder)
        try:
            about = read(folder)
            if before is None or about["generation"] != before.about["generation"]:
                return seen, open(folder, about, store)
            return seen, before._replace(about=about, background=_background(before.place, about, before.model))
        except Exception:
            if seen == stamp(folder):  # else what it named has just been replaced
                raise


def refuse_others(folder: Path) -> None:
    """Only what a killed run left may lie where an index is to be made."""
    for path in folder.iterdir():
        if path.name != _LOCK and not path.name.startswith((_GENERATION, f".{INDEX}.")):
            raise Cr5Error(f"{folder}: not empty, there is {path.name}; name a new folder for the index")


def pending(folder: Path, number: int) -> dict[str, Any] | None:
    """What a generation is that was begun and never counted."""
    try:
        about: dict[str, Any] = json.loads((folder / f"{_GENERATION}{number}" / _ABOUT).read_text(encoding="utf-8"))
        return about
    except FileNotFoundError:
        return None


def sweep(folder: Path, kept: Collection[int], store: str | None) -> None:
    """Drop generations that do not count, and what writers left that were killed."""
    for path in folder.glob(f".{INDEX}.*"):
        path.unlink()
    for place in sorted(folder.glob(f"{_GENERATION}*")):
        if place.name.removeprefix(_GENERATION) in map(str, kept):
            for path in place.glob(".*.tmp"):
                path.unlink()
            continue
        if (place / _BEGUN).exists():
            about = json.loads((place / _BEGUN).read_text(encoding="utf-8"))
            if about["table"] is not None:
                database = postgres.Server(server(about, store) or "", about["table"])
                with database.connection() as connection:
                    connection.execute(database.sql("DROP TABLE IF EXISTS {documents}, {hubness}"))
                database.close()
        shutil.rmtree(place)


def server(about: Mapping[str, Any], address: str | None) -> str | None:
    """The server's address, which may have been given with a password; None for a folder."""
    return None if about["table"] is None else address or str(about["store"])


def read(folder: Path) -> dict[str, Any]:
    """What ``index.json`` says."""
    try:
        about: dict[str, Any] = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        number = about["format"]
        if number == FORMAT and not {"generation", "model", "background", "rank", "store", "table"} <= about.keys():
            raise KeyError
    except FileNotFoundError:
        raise Cr5Error(f"{folder}: no index in this folder; make one with cr5 index MODEL DOCS -o {folder}") from None
    except (ValueError, KeyError, TypeError):
        raise Cr5Error(f"{folder}: its {INDEX} is damaged; build the index again") from None
    if number != FORMAT:
        raise Cr5Error(f"{folder}: the index has format {number}, this version reads {FORMAT}; build it again")
    return about


def stamp(folder: Path) -> Stamp:
    """What changes whenever ``index.json`` is replaced."""
    try:
        found = (folder / INDEX).stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def identity(model: Path) -> str:
    """What tells a model from any other: the digest of what lists its files with theirs."""
    try:
        return hashlib.blake2b((model / "model.json").read_bytes(), digest_size=16).hexdigest()
    except FileNotFoundError:
        raise Cr5Error(f"{model}: no model in this folder; make one with cr5 train CORPUS -o {model}") from None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a second writer out."""
    busy = IndexBusyError(f"{folder}: another process is writing this index; wait until it ends")
    with locks.locked(folder / _LOCK, busy=busy):
        yield


def write(path: Path, values: Mapping[str, Any]) -> None:
    """Replace a file in one step."""
    with replacing(path) as file:
        file.write(json.dumps(values, indent=1).encode())


def _background(place: Path, about: Mapping[str, Any], model: Cr5) -> Background:
    if about["background"] is None:
        return Background.empty(model.langs, model.settings.rank)
    return Background.load(place / about["background"], model.langs)


def _without_password(url: str, table: str) -> str:
    postgres.Server(url, table)  # which knows what to say where the address is wrong or psycopg missing
    conninfo = importlib.import_module("psycopg.conninfo")
    parts = {key: value for key, value in conninfo.conninfo_to_dict(url).items() if "password" not in key}
    return str(conninfo.make_conninfo(**parts))


def _link(source: str, target: str) -> None:
    """A second name for a file of a model, which is never written again; a copy on another disk."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
