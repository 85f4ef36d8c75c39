"""A file on its way: the bytes that have come, and beside them a record of what they are part of."""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any

from cr5.errors import Cr5Error
from cr5.sources.http.client import Version
from cr5.storage.atomic import replacing, sync
from cr5.storage.locks import try_lock, unlock

_SYNC = 1 << 26  # so many bytes may be lost with the power, not with the process
_SPARE = 1 << 20  # given back on a full disk, so that the record of the rest finds room


@dataclass
class Part:
    """The bytes so far, locked against other processes, and a record of which file they are part of."""

    path: Path
    url: str
    file: FileIO
    version: Version = field(default_factory=Version)
    position: int = 0
    safe: int = 0  # bytes that the record vouches for: they are on the disk
    foreign: bool = False  # of another address: kept until the first byte of this one comes
    finished: bool = False

    @property
    def record(self) -> Path:
        return beside(self.path, ".json")

    def load(self) -> None:
        """Take up what is there, as far as the record vouches for it."""
        known = load_record(self.record)
        size, safe = known.get("size"), known.get("safe")
        if isinstance(size, int | None) and isinstance(safe, int):
            self.version = Version(size, str(known.get("etag", "")), str(known.get("modified", "")))
            self.safe = self.position = max(0, min(safe, os.fstat(self.file.fileno()).st_size))
            self.foreign = known.get("url") != self.url
        with self.on_disk():
            self.file.truncate(self.position)

    def begin(self, version: Version) -> None:
        self.position = self.safe = 0  # before the version: an interrupt here must not vouch for the old bytes
        self.version, self.foreign = version, False
        with self.on_disk():
            self.file.truncate(0)
            self.save()

    def append(self, data: bytes) -> None:
        with self.on_disk():
            view = memoryview(data)
            while view:
                written = self.file.write(view)
                self.position += written
                view = view[written:]
            if self.position - self.safe >= _SYNC:
                self.keep()

    def keep(self) -> None:
        os.fsync(self.file.fileno())
        self.save()

    def save(self) -> None:
        save_record(self.record, {"url": self.url, **asdict(self.version), "safe": self.position})
        self.safe = self.position

    @contextmanager
    def on_disk(self) -> Iterator[None]:
        """An error of the disk becomes one of the user, after as much as possible was kept."""
        try:
            yield
        except OSError as error:
            self.position = max(self.safe, self.position - _SPARE)
            try:
                self.file.truncate(self.position)
                self.keep()
            except OSError:
                self.position = self.safe
            raise Cr5Error(f"{self.path}: {_full(error)} and run it again to go on; {self.kept()}") from error

    def kept(self) -> str:
        whole = f" of {amount(self.version.size)}" if self.version.size is not None else ""
        return (
            f"{amount(self.position)}{whole} are kept" if self.position and not self.foreign else "nothing had come yet"
        )

    def close(self) -> None:
        """Keep what has come; of nothing, leave no trace."""
        try:
            if self.finished:
                pass  # what bears these names now is another process's
            elif self.position == 0:
                self.record.unlink(missing_ok=True)
                self.path.unlink(missing_ok=True)
            elif self.position != self.safe:
                with self.on_disk():
                    self.keep()
        finally:
            with suppress(OSError):
                unlock(self.file)
            self.file.close()

    def finish(self, final: Path) -> None:
        with self.on_disk():
            os.fsync(self.file.fileno())
        try:
            self.path.replace(final)
        except OSError as error:
            raise Cr5Error(f"{final}: cannot be written, {_lower(error)}; check its permissions") from error
        self.finished = True
        self.record.unlink(missing_ok=True)
        sync(final.parent)  # the name must last as well


@contextmanager
def open_part(final: Path, url: str) -> Iterator[Part]:
    """The part of ``final``, begun or taken up, for this process alone."""
    path = beside(final, ".part")
    while True:
        try:
            file = path.open("ab", buffering=0)  # unbuffered: what fails, fails here and not at close
        except OSError as error:
            raise Cr5Error(f"{path}: cannot be written, {_lower(error)}; check its permissions") from error
        try:
            if not try_lock(file):
                raise Cr5Error(f"{path}: another process is fetching this file; wait until it ends")
            # Between opening and locking another process may have finished it: then this is not the part any more.
            with suppress(FileNotFoundError):
                if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                    break
        except Cr5Error:
            file.close()
            raise
        except OSError as error:
            file.close()
            raise Cr5Error(f"{path}: cannot be locked, {_lower(error)}; choose another disk") from error
        file.close()
    part = Part(path, url, file)
    try:
        part.load()
        yield part
    finally:
        part.close()


# Records


def beside(path: Path, suffix: str) -> Path:
    """dump.bz2 -> dump.bz2.part."""
    return path.with_name(path.name + suffix)


def load_record(path: Path) -> dict[str, Any]:
    """What was saved; nothing if there is no record, or none that can be read."""
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads(path.read_bytes())
        if isinstance(found, dict):
            return found
    return {}


def save_record(path: Path, values: dict[str, Any]) -> None:
    """On the disk whole, or not at all."""
    with replacing(path, via=beside(path, ".tmp")) as file:
        file.write(json.dumps(values, indent=1).encode() + b"\n")


# Words


def _full(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "no space left on the disk; free some"
    if error.errno == errno.EFBIG:
        return "too large for this disk or for ulimit -f; choose another place"
    return f"cannot be written, {_lower(error)}; mend it"


def _lower(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def amount(count: float | None) -> str:
    """12,300,000 -> 12.3 MB."""
    count = count or 0
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} bytes"
