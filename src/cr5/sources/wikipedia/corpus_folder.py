"""The folder of a Wikipedia corpus: its files, its manifest, its lock and its hidden work folder."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cr5.corpus.reading import MANIFEST
from cr5.errors import Cr5Error
from cr5.message_parts import reason
from cr5.sources.wikipedia.work_files import load_json
from cr5.storage.atomic import discard
from cr5.storage.json_files import read_json, write_json
from cr5.storage.locks import locked

SOURCE = "wikipedia"
ORIGIN_KEY = b"cr5"  # key in the schema metadata of a corpus file: what it was made from, and its counts
_WORK_FOLDER = ".work"
_CORPUS_FILE = re.compile(r"([A-Za-z0-9-]+)-[0-9]{5}\.parquet")
_TEMPORARY_FILE = re.compile(r"\.(.+)\.[0-9a-f]{8}\.tmp")


def work_folder(output: Path) -> Path:
    """The folder with the plans, downloads, item tables and shards of a corpus."""
    return output / _WORK_FOLDER


def corpus_file(output: Path, lang: str, number: int) -> Path:
    """The path of a language's file in the corpus."""
    return output / f"{lang}-{number:05d}.parquet"


def check_folder(output: Path, langs: Sequence[str]) -> None:
    """Raise a ``Cr5Error`` if files that we did not write are where those of ``langs`` or the manifest will be."""
    manifest: dict[str, Any] = {"source": SOURCE}
    with suppress(FileNotFoundError, NotADirectoryError):
        try:
            manifest = read_json(output / MANIFEST)
        except ValueError:
            manifest = {}
    is_ours = work_folder(output).exists() or manifest.get("source") == SOURCE
    if not is_ours:
        raise Cr5Error(f"{output / MANIFEST}: belongs to a corpus from another source; name another folder")
    for path in sorted(output.glob("*.parquet")):
        if (match := _CORPUS_FILE.fullmatch(path.name)) and match[1] in langs and read_origin(path) is None:
            raise Cr5Error(f"{path}: damaged, or not written by cr5; move it away, or name another folder")


@contextmanager
def locked_folder(output: Path) -> Iterator[None]:
    """Create the work folder and hold its lock, so that a second run of the same corpus is refused."""
    work = work_folder(output)
    try:
        work.mkdir(parents=True, exist_ok=True)
        (work / "lock").touch()
    except OSError as error:
        raise Cr5Error(f"{output}: cannot be written, {reason(error)}; name another folder") from error
    busy = Cr5Error(f"{output}: another run is writing this corpus; wait until it ends")
    with locked(work / "lock", error_if_locked=busy):
        yield


def remove_temporary_files(output: Path) -> None:
    """Remove half-written files and folders of a run that was killed."""
    ours = [path for path in output.glob(".*.tmp") if _is_our_temporary_file(path.name)]
    for path in [*ours, *work_folder(output).rglob("*.tmp")]:
        discard(path)


def _is_our_temporary_file(name: str) -> bool:
    match = _TEMPORARY_FILE.fullmatch(name)
    return match is not None and (match[1] == MANIFEST or _CORPUS_FILE.fullmatch(match[1]) is not None)


def read_origin(path: Path) -> dict[str, Any] | None:
    """What a corpus file was made from ("about") and its counts ("counts"), or None if we did not write it."""
    with suppress(pa.ArrowException, OSError, ValueError, KeyError, TypeError):
        origin = json.loads(pq.read_schema(path).metadata[ORIGIN_KEY])
        return {"about": origin["about"], "counts": origin["counts"]}
    return None


def begin_writing(output: Path, run: str) -> None:
    """Write a manifest that says the corpus is incomplete and which run is writing it."""
    write_json(output / MANIFEST, {"complete": False, "source": SOURCE, "run": run})


def check_run(output: Path, run: str) -> None:
    """Raise a ``Cr5Error`` if a later run has taken over: tasks on a cluster outlive the run that submitted them."""
    if (load_json(output / MANIFEST) or {}).get("run") != run:
        raise Cr5Error(f"{output}: another run has taken over; let it finish")


def finish_writing(output: Path, facts: Mapping[str, Any], files: Mapping[str, int]) -> None:
    """Remove our files that no longer belong to the corpus, and write the manifest of the complete one."""
    for path in output.glob("*.parquet"):
        if path.name not in files and _CORPUS_FILE.fullmatch(path.name) and read_origin(path) is not None:
            path.unlink()
    write_json(output / MANIFEST, {"complete": True, **facts, "files": dict(files)})
