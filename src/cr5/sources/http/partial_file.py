"""A partially downloaded file: the bytes received so far, and a record of the version that they belong to."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any

from cr5.errors import Cr5Error
from cr5.message_parts import format_bytes, reason
from cr5.sources.http.client import FileVersion
from cr5.storage.atomic import sync
from cr5.storage.json_files import read_json, write_json
from cr5.storage.locks import try_lock, unlock

SYNC_BYTES = 1 << 26  # the most that a power failure can lose; the end of the process loses nothing
RESERVED_BYTES = 1 << 20  # freed when the disk is full, so that the record can be written


@dataclass
class PartialFile:
    """The file ``NAME.part``, locked against other processes, and its record ``NAME.part.json``."""

    path: Path
    url: str
    file: FileIO
    version: FileVersion = field(default_factory=FileVersion)
    position: int = 0
    synced: int = 0  # bytes that are on the disk, according to the record
    is_from_other_url: bool = False  # kept until the first byte from this address arrives
    is_finished: bool = False

    @property
    def record(self) -> Path:
        """The path of the record."""
        return self.path.with_name(f"{self.path.name}.json")

    def load(self) -> None:
        """Restore the state of an earlier download, and drop bytes that the record does not cover."""
        values: dict[str, Any] = {}
        with suppress(OSError, ValueError):  # no record, or a damaged one
            values = read_json(self.record)
        size, synced = values.get("size"), values.get("safe")
        if isinstance(size, int | None) and isinstance(synced, int):
            self.version = FileVersion(size, str(values.get("etag", "")), str(values.get("modified", "")))
            self.synced = self.position = max(0, min(synced, os.fstat(self.file.fileno()).st_size))
            self.is_from_other_url = values.get("url") != self.url
        with self._disk_errors():
            self.file.truncate(self.position)

    def restart(self, version: FileVersion) -> None:
        """Drop all bytes, to receive ``version`` from its beginning."""
        self.position = self.synced = 0  # first: after an interrupt the record must not cover the old bytes
        self.version, self.is_from_other_url = version, False
        with self._disk_errors():
            self.file.truncate(0)
            self._save()

    def append(self, data: bytes) -> None:
        """Write bytes to the end of the file."""
        with self._disk_errors():
            view = memoryview(data)
            while view:
                written = self.file.write(view)
                self.position += written
                view = view[written:]
            if self.position - self.synced >= SYNC_BYTES:
                self._sync()

    def _sync(self) -> None:
        os.fsync(self.file.fileno())
        self._save()

    def _save(self) -> None:
        temporary = self.record.with_name(f"{self.record.name}.tmp")
        write_json(self.record, {"url": self.url, **asdict(self.version), "safe": self.position}, temporary=temporary)
        self.synced = self.position

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        """Within this block an ``OSError`` becomes a ``Cr5Error``, after as many bytes as possible were kept."""
        try:
            yield
        except OSError as error:
            self.position = max(self.synced, self.position - RESERVED_BYTES)
            try:
                self.file.truncate(self.position)
                self._sync()
            except OSError:
                self.position = self.synced
            raise Cr5Error(
                f"{self.path}: {_write_error(error)} and run it again to resume; {self.describe()}"
            ) from error

    def describe(self) -> str:
        """How much is kept, for messages."""
        if not self.position or self.is_from_other_url:
            return "nothing was received yet"
        total_text = f" of {format_bytes(self.version.size)}" if self.version.size is not None else ""
        return f"{format_bytes(self.position)}{total_text} are kept"

    def close(self) -> None:
        """Sync what was received; remove the files if that is nothing."""
        try:
            if self.is_finished:
                pass  # files of these names belong to another process now
            elif self.position == 0:
                self.record.unlink(missing_ok=True)
                self.path.unlink(missing_ok=True)
            elif self.position != self.synced:
                with self._disk_errors():
                    self._sync()
        finally:
            with suppress(OSError):
                unlock(self.file)
            self.file.close()

    def finish(self, final: Path) -> None:
        """Give the complete file its final name."""
        with self._disk_errors():
            os.fsync(self.file.fileno())
        try:
            self.path.replace(final)
        except OSError as error:
            raise Cr5Error(f"{final}: cannot be written, {reason(error)}; check its permissions") from error
        self.is_finished = True
        self.record.unlink(missing_ok=True)
        sync(final.parent)


@contextmanager
def open_partial(final: Path, url: str) -> Iterator[PartialFile]:
    """The new or existing partial file of ``final``, locked for this process."""
    path = partial_path(final)
    while True:
        try:
            file = path.open("ab", buffering=0)  # unbuffered, so that errors occur here and not when it is closed
        except OSError as error:
            raise Cr5Error(f"{path}: cannot be written, {reason(error)}; check its permissions") from error
        try:
            if not try_lock(file):
                raise Cr5Error(f"{path}: another process is downloading this file; wait until it ends")
            # Another process may have finished the file between opening and locking: then the path names another one.
            with suppress(FileNotFoundError):
                if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                    break
        except Cr5Error:
            file.close()
            raise
        except OSError as error:
            file.close()
            raise Cr5Error(f"{path}: cannot be locked, {reason(error)}; use another disk") from error
        file.close()
    partial = PartialFile(path, url, file)
    try:
        partial.load()
        yield partial
    finally:
        partial.close()


def partial_path(final: Path) -> Path:
    """dump.bz2 -> dump.bz2.part."""
    return final.with_name(f"{final.name}.part")


def _write_error(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "no space left on the disk; free some"
    if error.errno == errno.EFBIG:
        return "too large for this disk or for ulimit -f; use another disk"
    return f"cannot be written, {reason(error)}; check the disk"
