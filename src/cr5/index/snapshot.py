"""A snapshot of an index: one model, the documents encoded with it, and the background of both.

The folder of an index has ``index.json``, which names the active snapshot and its background, and for each snapshot a
folder ``generation-N`` with the model, the backgrounds and the files of the stores: one of documents, and one of the
passages of long documents. ``index.json`` is replaced atomically: a new snapshot is built beside the active one and
then becomes active.

The record has ``passages``: their settings, and whether all documents have them (``complete``). It is None in an index
that has none, and missing if an earlier version wrote the index.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar

from cr5.corpus.texts import one_path
from cr5.errors import Cr5Error, IndexBusyError, ModelFileError
from cr5.index.background import Background
from cr5.index.passages import PassageSettings
from cr5.index.stores.base import FOLDER_ADDRESS, Location, Store
from cr5.index.stores.registry import store_for
from cr5.model import Cr5
from cr5.storage.atomic import FULL_DISK_ERRNOS, Stamp, discard, file_stamp
from cr5.storage.json_files import read_json, write_json
from cr5.storage.locks import locked
from cr5.storage.model_files import has_model, open_model
from cr5.storage.output_paths import check_folder_writable, naming_os_errors

Result = TypeVar("Result")

FORMAT = 1
INDEX_FILE = "index.json"
LOCK_FILE = "lock"
# Names of format 1, inside the folder of a snapshot:
FOLDER_PREFIX = "generation-"
STORE_FOLDER, PASSAGES_FOLDER = "documents", "passages"
COMPLETE_FILE = "about.json"  # the record, written once a snapshot has its store and model
IDENTITY = ("generation", "model", "rank", "store", "table")  # the identity of a snapshot: its record never changes
STARTED_FILE = "begun.json"  # the record, written before the store is created, so that it can be dropped after a crash


class Snapshot(NamedTuple):
    """An open snapshot; ``record`` is its content of ``index.json``."""

    record: dict[str, Any]
    folder: Path
    store: Store
    model: Cr5
    background: Background
    passages: Store | None = None

    @property
    def stores(self) -> list[Store]:
        """The stores of the passages, if there is one, and of the documents."""
        return [self.store] if self.passages is None else [self.passages, self.store]

    @property
    def passage_settings(self) -> PassageSettings | None:
        """How documents are split into passages; None if they are not."""
        kept = self.record.get("passages")
        return PassageSettings(kept["words"], kept["overlap"]) if kept else None

    def pinned(self) -> "Snapshot":
        """A copy for one search, whose stores stay at the version that is newest now."""
        passages = None if self.passages is None else self.passages.pinned()
        return self._replace(store=self.store.pinned(), passages=passages)

    def search(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call a function with a pinned copy, and with arguments, as soon as the store lets this thread search."""
        with self.store.search_limit:
            return function(self.pinned(), *arguments)

    def close(self) -> None:
        """Close the stores."""
        for store in self.stores:
            store.close()

    def optimise(self) -> None:
        """Optimise the stores."""
        for store in self.stores:
            store.optimise()

    @property
    def number(self) -> int:
        """1 for a new index, one more for each reindexing."""
        return int(self.record["generation"])


def create_snapshot(
    index_folder: Path, model: Path, address: str | None, number: int, passages: PassageSettings | None
) -> Snapshot:
    """Create a snapshot without documents, which is not active yet."""
    folder = index_folder / f"{FOLDER_PREFIX}{number}"
    folder.mkdir()
    address = FOLDER_ADDRESS if address is None else address
    loaded, store_type = Cr5.load(model), store_for(address)
    rank, langs = loaded.rank, loaded.langs
    record = {"format": FORMAT, "generation": number, "model": model_digest(model), "background": None, "rank": rank}
    record |= store_type.new_record(address) | {"passages": _passages_record(passages, complete=True)}
    write_json(folder / STARTED_FILE, record)
    with ExitStack() as opened:
        store = store_type.create(_location(folder, record, address), rank=rank, language_count=len(langs))
        opened.callback(store.close)
        passage_store = None
        if passages is not None:
            passage_location = _location(folder, record, address, PASSAGES_FOLDER)
            passage_store = store_type.create(passage_location, rank=rank, language_count=len(langs))
            opened.callback(passage_store.close)
        _copy_model(model, folder / "model")
        write_json(folder / COMPLETE_FILE, record)
        loaded, background = Cr5.load(folder / "model"), Background.empty(langs, rank)
        opened.pop_all()
        return Snapshot(record, folder, store, loaded, background, passage_store)


def next_snapshot(index_folder: Path, active: Snapshot, model: Path, address: str | None) -> Snapshot:
    """The snapshot that is to replace the active one, with another model: what an interrupted call left, or a new one.

    What was made with yet another model must have been removed.
    """
    number = active.number + 1
    if unfinished := read_unfinished(index_folder, number):
        return open_snapshot(index_folder, unfinished, address)
    passages = active.passage_settings if "passages" in active.record else PassageSettings()
    return create_snapshot(index_folder, model, address or active.record["store"], number, passages)


@contextmanager
def removed_if_disk_full(index_folder: Path, address: str | None) -> Iterator[None]:
    """Remove the snapshot that is being made if the disk is full, so that it does not stay full."""
    try:
        with naming_os_errors(index_folder):
            yield
    except OSError as error:
        if error.errno in FULL_DISK_ERRNOS:
            with suppress(Exception):  # the first error is the one to raise
                remove_stale(index_folder, [read_index_file(index_folder)["generation"]], address)
        raise


def add_passage_store(active: Snapshot, address: str | None) -> dict[str, Any]:
    """Give an empty store for passages to the active snapshot, which an earlier version made; return its record."""
    location = _location(active.folder, active.record, address, PASSAGES_FOLDER)
    store_type = store_for(active.record["store"])
    store_type.drop(location)  # what is left of an interrupted call
    if location.folder.exists():
        discard(location.folder)
    store_type.create(location, rank=active.model.rank, language_count=len(active.model.langs)).close()
    return active.record | {"passages": _passages_record(PassageSettings(), complete=False)}


def mark_passages_complete(active: Snapshot) -> Snapshot:
    """The same snapshot with a record that says that all documents have their passages."""
    if active.passage_settings is None:
        return active
    return active._replace(
        record=active.record | {"passages": _passages_record(active.passage_settings, complete=True)}
    )


def create_first(index_folder: Path, model: Path, address: str | None, passages: PassageSettings | None) -> None:
    """Create the snapshot of a new index and make it active; if that fails, nothing of it is left."""
    remove_stale(index_folder, [], address)
    try:
        first = create_snapshot(index_folder, model, address, 1, passages)
        first.close()
        activate(index_folder, first.record)
    except BaseException:
        with suppress(Exception):  # the first error is the one to raise
            remove_stale(index_folder, [], address)
        raise


@contextmanager
def saved_model(model: Cr5 | Path | str, index_folder: Path) -> Iterator[Path]:
    """The folder of a model; one in memory is saved in a new folder beside the index, for as long as the context."""
    if not isinstance(model, Cr5):
        yield one_path(model, "model")
        return
    index_folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=index_folder.parent, prefix=".model-") as folder:
        try:
            model.save(Path(folder) / "model")
        except ModelFileError as error:
            if isinstance(error.__cause__, OSError):  # about the index, and not about a folder that is temporary
                error.__cause__.filename = str(index_folder)
                raise error.__cause__ from None
            raise
        yield Path(folder) / "model"


def open_snapshot(index_folder: Path, record: dict[str, Any], address: str | None) -> Snapshot:
    """Open the snapshot of a record."""
    folder = index_folder / f"{FOLDER_PREFIX}{record['generation']}"
    _check_readable(folder)
    model = Cr5.load(folder / "model")
    background = _load_background(folder, record, model)
    if address not in (None, FOLDER_ADDRESS) and record["store"] == FOLDER_ADDRESS:
        raise Cr5Error(f"{index_folder}: the documents are in this folder, not on a server; leave out `store`")
    store = store_for(record["store"]).open(_location(folder, record, address), rank=record["rank"])
    try:
        return Snapshot(record, folder, store, model, background, _open_passages(folder, record, address))
    except BaseException:
        store.close()
        raise


def open_active(index_folder: Path, address: str | None, previous: Snapshot | None = None) -> tuple[Stamp, Snapshot]:
    """The active snapshot, and the stamp of ``index.json``; what has not changed is taken from ``previous``."""
    while True:
        stamp = index_stamp(index_folder)
        try:
            record = read_index_file(index_folder)
            if previous is None or any(record[name] != previous.record[name] for name in IDENTITY):
                return stamp, open_snapshot(index_folder, record, address)
            background = _load_background(previous.folder, record, previous.model)
            passages = previous.passages or _open_passages(previous.folder, record, address)
            return stamp, previous._replace(record=record, background=background, passages=passages)
        except Exception:
            if stamp == index_stamp(index_folder):  # otherwise the snapshot was replaced while it was being opened
                raise


def make_empty_folder(index_folder: Path) -> None:
    """Make a folder unless it exists; check that it is empty, except for what an interrupted run left."""
    check_folder_writable(index_folder)
    index_folder.mkdir(parents=True, exist_ok=True)
    for path in index_folder.iterdir():
        if path.name != LOCK_FILE and not path.name.startswith((FOLDER_PREFIX, f".{INDEX_FILE}.")):
            raise Cr5Error(f"{index_folder}: the folder is not empty ({path.name}); use a new folder for the index")


def read_unfinished(index_folder: Path, number: int) -> dict[str, Any] | None:
    """The record of a snapshot whose store and model exist, but which never became active; None without any."""
    path = index_folder / f"{FOLDER_PREFIX}{number}" / COMPLETE_FILE
    return read_json(path) if path.exists() else None


def remove_stale(index_folder: Path, kept: Collection[int], address: str | None) -> None:
    """Remove all snapshots but some, and temporary files that killed writers left."""
    for path in index_folder.glob(f".{INDEX_FILE}.*"):
        discard(path)
    for folder in sorted(index_folder.glob(f"{FOLDER_PREFIX}*")):
        if folder.name.removeprefix(FOLDER_PREFIX) in map(str, kept):
            for path in folder.glob(".*.tmp"):
                discard(path)
            continue
        if (folder / STARTED_FILE).exists():
            record = read_json(folder / STARTED_FILE)
            for name in (STORE_FOLDER, PASSAGES_FOLDER):
                store_for(record["store"]).drop(_location(folder, record, address, name))
        discard(folder)


def _check_readable(snapshot_folder: Path) -> None:
    """Raise an error that names a file or folder of a snapshot that this user cannot read; many are read only later."""
    folder_mode, effective = os.R_OK | os.X_OK, os.access in os.supports_effective_ids
    needed = [(snapshot_folder, folder_mode)]
    for place, folders, files in os.walk(snapshot_folder):
        folders[:] = [name for name in folders if not name.startswith(".")]  # others are locks and unfinished files
        needed += [(Path(place, name), folder_mode) for name in folders]
        needed += [(Path(place, name), os.R_OK) for name in files if not name.startswith(".")]
    for path, mode in needed:
        if not os.access(path, mode, effective_ids=effective) and path.exists():
            user = f"uid {os.geteuid()}" if hasattr(os, "geteuid") else "this user"
            raise Cr5Error(f"{path}: permission denied; make it readable for {user}")


def read_index_file(index_folder: Path) -> dict[str, Any]:
    """The content of ``index.json``: the record of the active snapshot."""
    try:
        record = read_json(index_folder / INDEX_FILE)
        number = record["format"]
        if number == FORMAT and not {*IDENTITY, "background"} <= record.keys():
            raise KeyError
    except FileNotFoundError:
        if has_model(index_folder):
            raise Cr5Error(
                f"{index_folder} is a model, and not an index; build an index with it, or name the folder of one"
            ) from None
        raise Cr5Error(
            f"{index_folder}: there is no index in this folder; check the path, or build the index first"
        ) from None
    except NotADirectoryError:
        raise Cr5Error(f"{index_folder} is a file, not a folder; name the folder of an index") from None
    except (ValueError, KeyError):
        raise Cr5Error(f"{index_folder}: its {INDEX_FILE} is damaged; build the index again") from None
    if number != FORMAT:
        raise Cr5Error(
            f"{index_folder}: the index has format {number}, this version reads {FORMAT}; build the index again"
        )
    return record


def index_stamp(index_folder: Path) -> Stamp:
    """A value that changes whenever ``index.json`` is replaced."""
    return file_stamp(f"{index_folder}{os.sep}{INDEX_FILE}")  # a Path would take as long to join as the file to stat


def model_digest(model: Path) -> str:
    """A digest that identifies a model: that of its ``model.json``, which has the digests of all its files."""
    try:
        return hashlib.blake2b((model / "model.json").read_bytes(), digest_size=16).hexdigest()
    except FileNotFoundError:
        raise Cr5Error(f"{model}: there is no model in this folder; check the path, or train one first") from None


def is_model_of(snapshot: Snapshot, model: Path, further_languages: bool) -> bool:
    """Whether the model in a folder encodes as that of a snapshot does, whose languages it has, or further ones, too.

    That is the case if its languages have the same files, and it has the same settings: a model that was trained again
    in the same way may differ in its report.
    """
    if snapshot.record["model"] == model_digest(model):
        return True
    larger, smaller = open_model(model), open_model(snapshot.folder / "model")
    further, missing = set(larger.langs) - set(smaller.langs), set(smaller.langs) - set(larger.langs)
    if missing or (further and not further_languages):
        return False
    same_settings = larger.metadata["settings"] == smaller.metadata["settings"]
    return same_settings and larger.digest(*smaller.langs) == smaller.digest(*smaller.langs)


def writer_lock(index_folder: Path) -> AbstractContextManager[None]:
    """Hold the writer lock of an index, or raise an error if another process or thread holds it."""
    busy = IndexBusyError(f"{index_folder}: another process or thread is writing this index; wait until it ends")
    return locked(index_folder / LOCK_FILE, error_if_locked=busy)


def activate(index_folder: Path, record: Mapping[str, Any]) -> None:
    """Replace ``index.json``: the snapshot of this record becomes the active one."""
    write_json(index_folder / INDEX_FILE, record)


def about(active: Snapshot) -> dict[str, Any]:
    """What ``Index.about`` returns."""
    stats = active.store.stats() | {"passages": 0}
    if active.passages is not None:
        passages = active.passages.stats()
        stats |= {"passages": passages["rows"], "bytes": stats["bytes"] + passages["bytes"]}
    own = {"generation": active.number, "background": active.background.sizes}
    return {"documents": active.store.count()} | own | stats | {"outdated": _describe_missing(active, stats)}


def _describe_missing(active: Snapshot, stats: Mapping[str, Any]) -> str | None:
    """What is missing from an index written by an earlier version, and how to add it; None if nothing is."""
    missing, kept = stats["rows"] - stats["full_text"], active.record.get("passages", {"complete": False})
    lacks = [f"{missing:,} documents cannot be found by their words"] if missing else []
    if kept is not None and not kept["complete"] and stats["rows"]:
        lacks.append("long documents cannot be found by their passages")
    if not stats["fields"]:
        lacks.append("documents cannot have fields")
    return f"{', and '.join(lacks)}; bring the index up to date with `refresh`" if lacks else None


def _location(folder: Path, record: Mapping[str, Any], address: str | None, name: str = STORE_FOLDER) -> Location:
    """Where a store of a snapshot is; ``address`` takes precedence, since it may have a password."""
    table = record["table"]
    if table is not None and name != STORE_FOLDER:
        table = f"{table}_{name}"
    return Location(folder / name, address or record["store"], table)


def _open_passages(folder: Path, record: Mapping[str, Any], address: str | None) -> Store | None:
    if not record.get("passages"):
        return None
    location = _location(folder, record, address, PASSAGES_FOLDER)
    return store_for(record["store"]).open(location, rank=record["rank"])


def _passages_record(settings: PassageSettings | None, *, complete: bool) -> dict[str, Any] | None:
    return None if settings is None else asdict(settings) | {"complete": complete}


def _load_background(folder: Path, record: Mapping[str, Any], model: Cr5) -> Background:
    if record["background"] is None:
        return Background.empty(model.langs, model.rank)
    return Background.load(folder / record["background"], model.langs)


def _copy_model(model: Path, folder: Path) -> None:
    """Hard-link the files of a model, which never change; copy them if the folder is on another disk."""
    folder.mkdir()
    for source in model.iterdir():
        if source.name.startswith(".") or not source.is_file():
            continue
        try:
            os.link(source, folder / source.name)
        except OSError:
            try:
                shutil.copy2(source, folder / source.name)
            except OSError as error:
                error.filename, error.filename2 = error.filename2 or error.filename, None  # the one that is written
                raise
