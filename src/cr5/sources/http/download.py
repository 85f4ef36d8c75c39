"""The download of a large file from an HTTP server: atomic, checked, and resumed where it stopped."""

import hashlib
import http.client
import re
import shutil
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from cr5.errors import Cr5Error
from cr5.message_parts import format_bytes
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.sources.http.client import (
    FileVersion,
    StoppedError,
    TransientError,
    check_request,
    content_encoding,
    content_length,
    open_response,
    read_chunk,
    status_error,
    wait,
)
from cr5.sources.http.partial_file import PartialFile, open_partial
from cr5.storage.output_paths import check_output_file

_HASH_CHUNK_BYTES = 1 << 18
_DIGEST_LENGTHS = {"md5": 32, "sha1": 40, "sha256": 64}
_REPORT_SECONDS = 0.25  # interval between two progress reports


class FetchedFile(NamedTuple):
    """A complete file; ``notes`` describe everything unusual that happened."""

    path: Path
    notes: tuple[str, ...]


def fetch(
    url: str,
    path: Path,
    *,
    digest: str | None = None,
    user_agent: str,
    progress: ProgressCallback = no_progress,
    max_attempts: int = 8,
    timeout: float = 60.0,
    sleep: Callable[[float], None] = time.sleep,
    should_stop: Callable[[], bool] = lambda: False,
) -> FetchedFile:
    """Download the file at ``url`` to ``path`` unless it is there, resuming where an earlier call stopped.

    Until it is complete and its ``digest`` ("sha1:…") is checked, it is named ``path``.part. ``user_agent`` must name
    a contact. After ``max_attempts`` in a row without a new byte the call fails. ``timeout`` is the longest time in
    seconds that the server may send nothing. A power failure loses at most ``SYNC_BYTES``; if the disk is full,
    ``RESERVED_BYTES`` are freed so that the record can be written. Any other error, and a stop, keeps all that was
    received.
    """
    check_download(url, path, digest, user_agent)
    path = path.resolve() if path.is_symlink() else path  # a link stays a link
    digest = digest.lower() if digest else None
    if not path.exists():
        with open_partial(path, url) as partial:
            if not path.exists():  # otherwise another process was faster
                download = _Download(url, path, digest, user_agent, progress, max_attempts, timeout, sleep, should_stop)
                return FetchedFile(path, download.run(partial))
    return FetchedFile(path, ())


def check_download(url: str, path: Path, digest: str | None, user_agent: str) -> None:
    """Raise a ``Cr5Error`` for arguments of ``fetch`` that cannot work, before anything is requested or written."""
    check_request(url, user_agent)
    if digest is not None:
        _check_digest(digest)
    check_output_file(path)


def _check_digest(digest: str) -> None:
    algorithm, _, value = digest.lower().partition(":")
    if len(value) != _DIGEST_LENGTHS.get(algorithm) or not re.fullmatch("[0-9a-f]+", value):
        raise Cr5Error(f"`digest={digest}` is invalid; write md5:, sha1: or sha256: and its hexadecimal digits")


@dataclass
class _Download:
    """One call of ``fetch``: its arguments, and what has happened so far."""

    url: str
    path: Path
    digest: str | None
    user_agent: str
    progress: ProgressCallback
    max_attempts: int
    timeout: float
    sleep: Callable[[float], None]
    should_stop: Callable[[], bool]
    notes: list[str] = field(default_factory=list)
    received: int = 0
    wrong_ranges: int = 0
    restart_reason: str = ""  # why the partial file is useless; it is kept until the first byte of the new one arrives
    last_report: float = 0.0

    def run(self, partial: PartialFile) -> tuple[str, ...]:
        """Attempt until the file is complete and right, or until ``max_attempts`` in a row brought nothing new.

        Returns the notes on what happened.
        """
        furthest = failures = 0
        has_restarted = False  # because of a wrong digest
        self.restart_reason = "the partial file came from another address" if partial.is_from_other_url else ""
        while True:
            try:
                if self.restart_reason or not (partial.position and partial.position == partial.version.size):
                    self.attempt(partial)
            except TransientError as error:
                # A restarted file must get further than before, or a server with two versions would never finish.
                failures = 1 if self.received and partial.position > furthest else failures + 1
                furthest = max(furthest, partial.position if self.received else 0)
                if failures >= self.max_attempts:
                    raise Cr5Error(
                        f"{self.url}: nothing new after {self.max_attempts} attempts, the last error: {error}; run it "
                        f"again later to resume; {partial.describe()}"
                    ) from error
                self.wait(partial, error.delay(failures), error)
                continue
            if self.digest:
                algorithm, _, expected = self.digest.partition(":")
                actual = self.compute_digest(partial.path, algorithm, partial.position).partition(":")[2]
                if actual != expected:
                    partial.restart(FileVersion())
                    if has_restarted:
                        raise Cr5Error(
                            f"{self.url}: its {algorithm} is {actual}, not {expected}, even after a second download; "
                            "nothing is kept; use another mirror, or another dump"
                        )
                    has_restarted, furthest, failures = True, 0, 0
                    self.note(f"its {algorithm} was wrong: restarted")
                    continue
            partial.finish(self.path)
            return tuple(self.notes)

    def compute_digest(self, path: Path, algorithm: str, size: int) -> str:
        """The digest of a file, as "sha1:…"."""
        digest = hashlib.new(algorithm, usedforsecurity=False)
        done = 0
        with path.open("rb") as file:
            while data := file.read(_HASH_CHUNK_BYTES):
                if self.should_stop():
                    raise StoppedError(f"{self.path}: stopped while it was checked; run it again to continue")
                digest.update(data)
                done += len(data)
                self.report("check", done, size, algorithm)
        return f"{algorithm}:{digest.hexdigest()}"

    def attempt(self, partial: PartialFile) -> None:
        """Receive to the end of the file over one connection, or raise a ``TransientError``."""
        if self.should_stop():
            raise self.stopped(partial)
        headers = {}
        if partial.position and not (partial.version.validator or self.digest):
            self.restart_reason = (
                self.restart_reason or "the server names no version, so the rest could belong to another file"
            )
        if partial.position and not self.restart_reason:
            headers["Range"] = f"bytes={partial.position}-"
            if partial.version.validator:
                headers["If-Range"] = partial.version.validator
        with open_response(self.url, self.user_agent, self.timeout, headers) as response:
            if response.status in (200, 206):
                self.check_encoding(response)
            if response.status == 206 and headers:
                remaining: int | None = self.continue_with(partial, response)
            elif response.status == 416 and headers:
                self.restart_reason = "the server's file is not longer than what was received"
                raise TransientError("the file changed on the server")
            elif response.status == 206:
                raise TransientError("the server sent a part of the file that was not requested")
            elif response.status == 200:
                remaining = self.start_with(partial, response)
            else:
                raise status_error(self.url, self.user_agent, response)
            self.check_disk_space(partial)
            self.receive(partial, response, remaining)

    def check_encoding(self, response: http.client.HTTPResponse) -> None:
        """Refuse bytes that were compressed for the transfer: their size and ranges are not those of the file."""
        encoding = content_encoding(response)
        # Some servers send a stored .gz file with this header; the bytes are those of the file.
        is_stored = encoding in ("gzip", "x-gzip") and urllib.parse.urlsplit(self.url).path.endswith((".gz", ".tgz"))
        if encoding and not is_stored:
            raise Cr5Error(
                f"{self.url}: the server sends it with the encoding {encoding}, which was not requested; use another "
                f"mirror, or download it by other means to {self.path}"
            )

    def start_with(self, partial: PartialFile, response: http.client.HTTPResponse) -> int | None:
        """Prepare for a response with the whole file; return its size if known."""
        size = content_length(response)
        if size is None and not response.chunked and not self.digest:
            raise Cr5Error(
                f"{self.url}: the server does not say how long it is, so a connection that breaks would look like its "
                "end; give its `digest`"
            )
        version = FileVersion.of(response.headers, size)
        if partial.position:
            changed = "changed on the server" if partial.version.differs(version) else "the server ignores ranges"
            self.note(f"{self.restart_reason or changed}: restarted")
        self.restart_reason = ""
        partial.restart(version)
        return size

    def continue_with(self, partial: PartialFile, response: http.client.HTTPResponse) -> int:
        """Check that a partial response continues the same file; return how many bytes it has."""
        content_range = response.headers.get("Content-Range", "").strip()
        numbers = re.fullmatch(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)", content_range)
        if numbers:
            start, end = int(numbers[1]), int(numbers[2])
            size = partial.version.size if numbers[3] == "*" else int(numbers[3])
            is_right = size is not None and start == partial.position <= end < size
            if is_right and content_length(response) in (None, end - start + 1):
                if partial.version.differs(FileVersion.of(response.headers, size)):
                    self.restart_reason = "changed on the server"
                    raise TransientError("the file changed on the server")
                partial.version = replace(partial.version, size=size)
                return end - start + 1
        self.wrong_ranges += 1
        if self.wrong_ranges > 1:  # once may be an accident, and a restart costs gigabytes
            self.restart_reason = "the server answers ranges with other bytes"
        raise TransientError(f"the server sent '{content_range:.40}' instead of the bytes from {partial.position} on")

    def check_disk_space(self, partial: PartialFile) -> None:
        """Raise a ``Cr5Error`` now rather than after hours of downloading."""
        missing = (partial.version.size or 0) - partial.position
        if missing > (free := shutil.disk_usage(self.path.parent).free):
            raise Cr5Error(
                f"{partial.path}: {format_bytes(missing)} are still to come and the disk has {format_bytes(free)} "
                f"left; free some and run it again to resume; {partial.describe()}"
            )

    def receive(self, partial: PartialFile, response: http.client.HTTPResponse, remaining: int | None) -> None:
        """Append the body of a response; raise a ``TransientError`` if it ends early."""
        start_time, start_position = time.monotonic(), partial.position
        while remaining != 0:
            if self.should_stop():
                raise self.stopped(partial)
            if not (data := read_chunk(response, remaining)):
                break
            partial.append(data)
            self.received += len(data)
            remaining = None if remaining is None else remaining - len(data)
            speed = (partial.position - start_position) / max(time.monotonic() - start_time, 0.1) / 1e6
            self.report("download", partial.position, partial.version.size, f"{self.path.name}, {speed:.1f} MB/s")
        size = partial.version.size
        if remaining or (size is not None and partial.position != size):
            raise TransientError("the connection was closed early")
        partial.version = replace(partial.version, size=partial.position)

    def wait(self, partial: PartialFile, seconds: float, reason: Exception) -> None:
        note = f"{self.path.name}, waiting {seconds:.0f} s: {reason}"
        self.report("download", partial.position, partial.version.size, note, now=True)
        if not wait(seconds, self.sleep, self.should_stop):
            raise self.stopped(partial)

    def stopped(self, partial: PartialFile) -> StoppedError:
        return StoppedError(f"{partial.path}: stopped, {partial.describe()}; run it again to resume")

    # Reports

    def note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)
        self.report("download", 0, None, f"{self.path.name}, {note}", now=True)

    def report(self, stage: str, done: int, total: int | None, note: str, now: bool = False) -> None:
        """Report progress, but not more often than every ``_REPORT_SECONDS`` unless ``now`` or at the end."""
        if now or done == total or time.monotonic() - self.last_report >= _REPORT_SECONDS:
            self.last_report = time.monotonic()
            self.progress(Progress(stage, done, total, note))
