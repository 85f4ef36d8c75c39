"""A large file from an HTTP server: whole or not at all, and never the same byte twice without need."""

import hashlib
import http.client
import re
import shutil
import time
import urllib.parse
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from cr5.errors import Cr5Error
from cr5.progress import Progress, ProgressCallback, silent
from cr5.sources.http.client import (
    BrokenError,
    StoppedError,
    Version,
    answer,
    check_request,
    encoding,
    length,
    read,
    refusal,
    rest,
)
from cr5.sources.http.partial_file import Part, amount, beside, load_record, open_part, save_record

_CHUNK = 1 << 18
_LENGTHS = {"md5": 32, "sha1": 40, "sha256": 64}


@dataclass(frozen=True)
class Fetched:
    """A whole file and how it came.

    ``digest`` was checked, or is None; ``received`` are the bytes of this call, 0 for a file that was there;
    ``notes`` say what went otherwise than straight on.
    """

    path: Path
    url: str
    size: int
    digest: str | None
    etag: str
    modified: str
    received: int
    connections: int
    notes: tuple[str, ...]


def fetch(
    url: str,
    path: Path,
    *,
    digest: str | None = None,
    agent: str,
    progress: ProgressCallback = silent,
    tries: int = 8,
    pause: float = 1.0,
    timeout: float = 60.0,
    sleep: Callable[[float], None] = time.sleep,
    stop: Callable[[], bool] = lambda: False,
) -> Fetched:
    """Bring the file at ``url`` to ``path``, going on where an earlier call stopped.

    Until it is whole and checked it is ``path``.part. ``agent`` must name a contact. The ``pause`` in seconds doubles
    after each of ``tries`` without a new byte; ``timeout`` is the longest silence. What ends it keeps what has come.
    """
    check(url, path, digest, agent)
    path = path.resolve() if path.is_symlink() else path  # a link stays a link
    call = _Call(url, path, digest.lower() if digest else None, agent, progress, tries, pause, timeout, sleep, stop)
    seen = _stamp(path)
    if there := call.present():
        return there
    with open_part(path, url) as part:
        if _stamp(path) != seen and (there := call.present()):  # another process was faster
            return there
        return call.run(part)


def check(url: str, path: Path, digest: str | None, agent: str) -> None:
    """Refuse what cannot be fetched, before anything is asked or written."""
    check_request(url, agent)
    if digest is not None:
        _check_digest(digest)
    if path.is_dir():
        raise Cr5Error(f"{path}: this is a folder; name a file")
    if not path.parent.is_dir():
        raise Cr5Error(f"{path}: the folder {path.parent} does not exist; create it first")


def _check_digest(digest: str) -> None:
    """Refuse what no file can have."""
    kind, _, value = digest.lower().partition(":")
    if len(value) != _LENGTHS.get(kind) or not re.fullmatch("[0-9a-f]+", value):
        raise Cr5Error(f"digest '{digest}' is none; write md5:, sha1: or sha256: and its hexadecimal digits")


def _stamp(path: Path) -> tuple[int, int, int] | None:
    with suppress(FileNotFoundError):
        status = path.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns
    return None


# One call


@dataclass
class _Call:
    """One fetch: its settings, and what happened so far."""

    url: str
    path: Path
    digest: str | None
    agent: str
    progress: ProgressCallback
    tries: int
    pause: float
    timeout: float
    sleep: Callable[[float], None]
    stop: Callable[[], bool]
    notes: list[str] = field(default_factory=list)
    received: int = 0
    connections: int = 0
    wrong_ranges: int = 0
    anew: str = ""  # why the part is of no use: it is kept until the first byte of the new one comes
    reported: float = 0.0

    # A file that is there

    def present(self) -> Fetched | None:
        """The file, if it is there and right; None if it must be fetched. A file of somebody else is not touched."""
        record = beside(self.path, ".fetched.json")
        known, stamp = load_record(record), _stamp(self.path)
        if stamp is None:
            return None
        size = stamp[1]
        ours = (known.get("size"), known.get("mtime")) == stamp[1:]
        was = Version(size, str(known.get("etag", "")), str(known.get("modified", ""))) if ours else Version(size)
        if self.digest:
            kind = self.digest.partition(":")[0]
            checked = str(known.get("digest")) if ours else ""
            if not checked.startswith(f"{kind}:"):
                checked = self.hash(self.path, kind, size)
            if checked == self.digest:
                return self.done(was, size, checked)
            if not ours:
                raise Cr5Error(
                    f"{self.path}: this file was not fetched by cr5 and its {kind} is not the published one; "
                    "move it away to fetch it"
                )
            self.say(f"its {kind} is not the published one any more: begun anew")
            return None
        try:
            with self.ask("HEAD", {}) as response:
                if response.status != 200:
                    raise refusal(self.url, self.agent, response)
                now = Version.of(response.headers, length(response))
        except (BrokenError, Cr5Error) as error:
            if not ours:
                raise Cr5Error(
                    f"{self.path}: this file was not fetched by cr5 and cannot be compared with the server's: "
                    f"{error}; move it away to fetch it"
                ) from error
            self.say(f"kept as it was, because the server could not be asked: {error}")
            return self.done(was, size, known.get("digest"))
        if not ours:
            if now.size == size:
                self.say("it was there already, as long as the server's; its content was not checked")
                return self.done(now, size, None)
            raise Cr5Error(
                f"{self.path}: this file was not fetched by cr5 and has {size:,} bytes, the server's "
                f"{'an unknown number' if now.size is None else format(now.size, ',')}; move it away to fetch it"
            )
        # Two machines behind one name may tag the same file differently; its date and size are the same then.
        same_date = was.modified and was.modified == now.modified
        if known.get("url") == self.url and not replace(was, etag="" if same_date else was.etag).differs(now):
            return self.done(was, size, known.get("digest"))
        self.say("not what the server has any more: begun anew")
        return None

    def done(self, version: Version, size: int, digest: str | None) -> Fetched:
        """Write down what the file is, so that the next run need not ask."""
        stamp = _stamp(self.path)
        values = {
            "url": self.url,
            "size": size,
            "mtime": stamp[2] if stamp else 0,
            "digest": digest,
            "etag": version.etag,
            "modified": version.modified,
        }
        record = beside(self.path, ".fetched.json")
        if load_record(record) != values:
            with suppress(OSError):  # the file is there; without a record it is only checked again
                save_record(record, values)
        return Fetched(
            self.path,
            self.url,
            size,
            digest,
            version.etag,
            version.modified,
            self.received,
            self.connections,
            tuple(self.notes),
        )

    def hash(self, path: Path, kind: str, size: int) -> str:
        found = hashlib.new(kind, usedforsecurity=False)
        done = 0
        with path.open("rb") as file:
            while data := file.read(_CHUNK):
                if self.stop():
                    raise StoppedError(f"{self.path}: stopped while it was checked; run it again to go on")
                found.update(data)
                done += len(data)
                self.report("check", done, size, kind)
        return f"{kind}:{found.hexdigest()}"

    # A file to be fetched

    def run(self, part: Part) -> Fetched:
        """Try until the file is whole and right, or until ``tries`` in a row brought nothing new."""
        furthest = failures = 0
        wrong: str | None = None
        self.anew = "the part was of another address" if part.foreign else ""
        while True:
            try:
                if self.anew or not (part.position and part.position == part.version.size):
                    self.attempt(part)
            except BrokenError as problem:
                # Begun anew, a file must get further than before: else two versions in turn would go on for ever.
                failures = 1 if self.received and part.position > furthest else failures + 1
                furthest = max(furthest, part.position if self.received else 0)
                if failures >= self.tries:
                    raise Cr5Error(
                        f"{self.url}: nothing new in {self.tries} tries, at last {problem}; run it again later to go "
                        f"on; {part.kept()}"
                    ) from problem
                self.wait(part, problem.pause(self.pause, failures), problem)
                continue
            if self.digest:
                kind = self.digest.partition(":")[0]
                found = self.hash(part.path, kind, part.position)
                if found != self.digest:
                    wanted, got = self.digest.partition(":")[2], found.partition(":")[2]
                    part.begin(Version())
                    if wrong is not None:
                        raise Cr5Error(
                            f"{self.url}: its {kind} is {got}, not {wanted}, also when fetched again; nothing is "
                            "kept; take another mirror, or another dump"
                        )
                    wrong, furthest, failures = got, 0, 0
                    self.say(f"its {kind} was wrong: begun anew")
                    continue
            part.finish(self.path)
            return self.done(part.version, part.position, self.digest)

    def attempt(self, part: Part) -> None:
        """One connection: to the end of the file, or BrokenError."""
        if self.stop():
            raise self.stopped(part)
        headers = {}
        if part.position and not (part.version.validator or self.digest):
            self.anew = self.anew or "the server names no version of the file, so that the rest might be another's"
        if part.position and not self.anew:
            headers["Range"] = f"bytes={part.position}-"
            if part.version.validator:
                headers["If-Range"] = part.version.validator
        with self.ask("GET", headers) as response:
            if response.status in (200, 206):
                self.plain(response)
            if response.status == 206 and headers:
                left: int | None = self.goes_on(part, response)
            elif response.status == 416 and headers:
                self.anew = "the server's file is not longer than what has come"
                raise BrokenError("the file changed on the server")
            elif response.status == 206:
                raise BrokenError("the server sent a part of the file that was not asked for")
            elif response.status == 200:
                left = self.begins(part, response)
            else:
                raise refusal(self.url, self.agent, response)
            self.room(part)
            self.receive(part, response, left)

    def ask(self, method: str, headers: dict[str, str]) -> AbstractContextManager[http.client.HTTPResponse]:
        self.connections += 1
        return answer(self.url, self.agent, self.timeout, method, headers)

    def plain(self, response: http.client.HTTPResponse) -> None:
        """Refuse what was compressed on the way: neither its size nor its ranges are the file's."""
        compressed = encoding(response)
        # Some servers give a stored .gz this label; it is the file as it is.
        stored = compressed in ("gzip", "x-gzip") and urllib.parse.urlsplit(self.url).path.endswith((".gz", ".tgz"))
        if compressed and not stored:
            raise Cr5Error(
                f"{self.url}: the server sends it as {compressed}, which was not asked for; take another mirror, or "
                f"fetch it by other means to {self.path}"
            )

    def begins(self, part: Part, response: http.client.HTTPResponse) -> int | None:
        """The whole file is coming; returns its size, if known."""
        size = length(response)
        if size is None and not response.chunked and not self.digest:
            raise Cr5Error(
                f"{self.url}: the server does not tell how long it is, so that a broken connection would look like "
                "its end; give its digest"
            )
        version = Version.of(response.headers, size)
        if part.position:
            changed = "changed on the server" if part.version.differs(version) else "the server ignores ranges"
            self.say(f"{self.anew or changed}: begun anew")
        self.anew = ""
        part.begin(version)
        return size

    def goes_on(self, part: Part, response: http.client.HTTPResponse) -> int:
        """The rest is coming, if it is the rest of the same file; returns how many bytes."""
        said = response.headers.get("Content-Range", "").strip()
        numbers = re.fullmatch(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)", said)
        if numbers:
            start, end = int(numbers[1]), int(numbers[2])
            size = part.version.size if numbers[3] == "*" else int(numbers[3])
            right = size is not None and start == part.position <= end < size
            if right and length(response) in (None, end - start + 1):
                if part.version.differs(Version.of(response.headers, size)):
                    self.anew = "changed on the server"
                    raise BrokenError("the file changed on the server")
                part.version = replace(part.version, size=size)
                return end - start + 1
        self.wrong_ranges += 1
        if self.wrong_ranges > 1:  # once may be an accident, and a beginning costs gigabytes
            self.anew = "the server answers ranges with other bytes"
        raise BrokenError(f"the server sent '{said:.40}' in place of the bytes from {part.position} on")

    def room(self, part: Part) -> None:
        """Better now than after a night."""
        missing = (part.version.size or 0) - part.position
        if missing > (free := shutil.disk_usage(self.path.parent).free):
            raise Cr5Error(
                f"{part.path}: {amount(missing)} are still to come and the disk has room for {amount(free)}; free some "
                f"and run it again to go on; {part.kept()}"
            )

    def receive(self, part: Part, response: http.client.HTTPResponse, left: int | None) -> None:
        began, before = time.monotonic(), part.position
        while left != 0:
            if self.stop():
                raise self.stopped(part)
            if not (data := read(response, left)):
                break
            part.append(data)
            self.received += len(data)
            left = None if left is None else left - len(data)
            speed = (part.position - before) / max(time.monotonic() - began, 0.1) / 1e6
            self.report("download", part.position, part.version.size, f"{self.path.name}, {speed:.1f} MB/s")
        size = part.version.size
        if left or (size is not None and part.position != size):
            raise BrokenError("the connection broke")
        part.version = replace(part.version, size=part.position)

    def wait(self, part: Part, seconds: float, why: Exception) -> None:
        note = f"{self.path.name}, waiting {seconds:.0f} s: {why}"
        self.report("download", part.position, part.version.size, note, now=True)
        if not rest(seconds, self.sleep, self.stop):
            raise self.stopped(part)

    def stopped(self, part: Part) -> StoppedError:
        return StoppedError(f"{part.path}: stopped, {part.kept()}; run it again to go on")

    # What is told

    def say(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)
        self.report("download", 0, None, f"{self.path.name}, {note}", now=True)

    def report(self, stage: str, done: int, total: int | None, note: str, now: bool = False) -> None:
        """At most four times a second, and at the end."""
        if now or done == total or time.monotonic() - self.reported >= 0.25:
            self.reported = time.monotonic()
            self.progress(Progress(stage, done, total, note))
