"""Large files from HTTP servers: whole or not at all, and never the same byte twice without need."""

import errno
import fcntl
import hashlib
import http.client
import json
import os
import re
import shutil
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC
from email.message import Message
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, TypeAlias

from cr5.errors import UserError
from cr5.progress import Progress, Report, silent

CONNECTIONS = 2  # at once: what Wikimedia asks of its guests
Item: TypeAlias = tuple[str, Path, str | None]  # an address, where to, and "sha1:…" where it is published

_CHUNK = 1 << 18
_SYNC = 1 << 26  # so many bytes may be lost with the power, not with the process
_SPARE = 1 << 20  # given back on a full disk, so that the record of the rest finds room
_LONGEST_PAUSE, _LONGEST_WAIT = 300.0, 3600.0  # seconds: ours, and what a server may ask for
_REDIRECTS = 5
_PASSING = {408, 429, 500, 502, 503, 504}
_LENGTHS = {"md5": 32, "sha1": 40, "sha256": 64}


class StoppedError(UserError):
    """``stop`` became true; what had come by then is kept."""


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
    progress: Report = silent,
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
    _check(url, path, digest, agent)
    call = _Call(
        url, _real(path), digest.lower() if digest else None, agent, progress, tries, pause, timeout, sleep, stop
    )
    seen = _stamp(call.path)
    if there := call.present():
        return there
    with _open_part(call.path, url) as part:
        if _stamp(call.path) != seen and (there := call.present()):  # another process was faster
            return there
        return call.run(part)


def fetch_all(
    items: Sequence[Item],
    *,
    connections: int = CONNECTIONS,
    agent: str,
    progress: Report = silent,
    tries: int = 8,
    pause: float = 1.0,
    timeout: float = 60.0,
    sleep: Callable[[float], None] = time.sleep,
    stop: Callable[[], bool] = lambda: False,
) -> list[Fetched]:
    """Fetch every item, in order, over one or two connections; the first error ends all and keeps what has come."""
    if not 1 <= connections <= CONNECTIONS:
        raise UserError(f"{connections} connections at once are not polite; choose 1 or {CONNECTIONS}")
    for url, path, digest in items:
        _check(url, path, digest, agent)
    paths = [path.resolve() for _, path, _ in items]
    if twice := [path for path in paths if paths.count(path) > 1]:
        raise UserError(f"{twice[0]}: named twice; give every file a place of its own")

    left, results, errors = deque(range(len(items))), dict[int, Fetched](), list[BaseException]()
    lock, ended = threading.Lock(), threading.Event()
    shares = [0.0] * len(items)

    def work() -> None:
        while True:
            with lock:
                if ended.is_set() or not left:
                    return
                i = left.popleft()

            def report(step: Progress, i: int = i) -> None:
                with lock:
                    shares[i] = step.done / step.total if step.total and step.stage == "download" else shares[i]
                    whole = f" of {_bytes(step.total)}" if step.total else ""
                    so_far = f"{_bytes(step.done)}{whole}: " if step.done else ""
                    progress(Progress("download files", sum(shares), len(items), so_far + step.note))

            try:
                url, path, digest = items[i]
                found = fetch(
                    url,
                    path,
                    digest=digest,
                    agent=agent,
                    progress=report,
                    tries=tries,
                    pause=pause,
                    timeout=timeout,
                    sleep=sleep,
                    stop=lambda: ended.is_set() or stop(),
                )
                with lock:
                    results[i], shares[i] = found, 1.0
                    progress(Progress("download files", sum(shares), len(items), f"{path.name} is complete"))
            except BaseException as error:  # raised below, where somebody waits for it
                with lock:
                    errors.append(error)
                    ended.set()

    # Daemons: after a second Ctrl-C nobody waits for a silent server.
    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(connections, len(items)))]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)
    except BaseException:
        ended.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join(2.0)
        raise
    if errors:
        raise errors[0]
    return [results[i] for i in range(len(items))]


def parse_checksums(text: str) -> dict[str, str]:
    """Name -> "sha1:…" of a published list: ``da39a3…  name`` a line, or ``SHA1 (name) = da39a3…``."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        plain = re.fullmatch(r"([0-9A-Fa-f]+)\s[\s*]?(.*\S)\s*", line)
        tagged = re.fullmatch(r"\w+ \((.+)\)\s*=\s*([0-9A-Fa-f]+)\s*", line)
        value, name = plain.groups() if plain else tagged.groups()[::-1] if tagged else ("", "")
        kind = next((kind for kind, length in _LENGTHS.items() if length == len(value)), None)
        if kind is None:
            raise UserError(
                f"checksums, line {number}: '{_short(line)}' is no md5, sha1 or sha256 and a name; check it"
            )
        name, digest = name.strip().removeprefix("./"), f"{kind}:{value.lower()}"
        if found.setdefault(name, digest) != digest:
            raise UserError(f"checksums, line {number}: {name} has another checksum above; keep one kind in one list")
    return found


# What is given


def _check(url: str, path: Path, digest: str | None, agent: str) -> None:
    if not re.search(r"\S@\S|https?://\S", agent):
        raise UserError(f"user agent '{agent}' names no contact; add an address, as in 'cr5 (you@example.org)'")
    if not (agent.isascii() and agent.isprintable()):
        raise UserError(f"user agent {agent!r} cannot be sent; use plain letters in one line")
    _address(url)
    if digest is not None:
        kind, _, value = digest.lower().partition(":")
        if not re.fullmatch(f"[0-9a-f]{{{_LENGTHS.get(kind, 1)}}}", value) or kind not in _LENGTHS:
            raise UserError(f"digest '{digest}' is none; write md5:, sha1: or sha256: and its hexadecimal digits")
    if path.is_dir():
        raise UserError(f"{path}: this is a folder; name a file")
    if not path.parent.is_dir():
        raise UserError(f"{path}: the folder {path.parent} does not exist; create it first")


def _address(url: str) -> urllib.parse.SplitResult:
    with suppress(ValueError):  # a wrong port
        parts = urllib.parse.urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
        if usable and parts.port != 0 and url.isprintable() and " " not in parts.netloc:
            quoted = {
                part: urllib.parse.quote(getattr(parts, part), "%/:=&?~+!$,;'@()*[]") for part in ("path", "query")
            }
            return parts._replace(fragment="", **quoted)
    raise UserError(f"{url!r} is no address that can be fetched; it must be http:// or https:// and a host")


def _real(path: Path) -> Path:
    return path.resolve() if path.is_symlink() else path  # a link stays a link


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    with suppress(FileNotFoundError):
        status = path.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns
    return None


# What a server says


class _BrokenError(Exception):
    """A try that failed and may be repeated, at the earliest after ``wait`` seconds."""

    def __init__(self, reason: str, wait: float = 0.0):
        super().__init__(reason)
        self.wait = wait


@dataclass(frozen=True)
class _Version:
    """What tells one state of a file on a server from another. Empty and None: unknown."""

    size: int | None = None
    etag: str = ""
    modified: str = ""

    @property
    def validator(self) -> str:
        """What If-Range takes: a weak tag promises the same meaning, not the same bytes."""
        return self.etag if self.etag.startswith('"') else self.modified

    def differs(self, other: "_Version") -> bool:
        """Whether anything that both know contradicts."""
        return (
            (None not in (self.size, other.size) and self.size != other.size)
            or bool(self.etag and other.etag and self.etag != other.etag)
            or bool(self.modified and other.modified and self.modified != other.modified)
        )


def _version(headers: Message, size: int | None) -> _Version:
    return _Version(size, headers.get("ETag", "").strip(), headers.get("Last-Modified", "").strip())


def _number(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"[0-9]{1,18}", text.strip()) else None


def _retry_after(text: str | None) -> float:
    """Seconds, from a number or a date."""
    if (seconds := _number(text)) is not None:
        return float(seconds)
    with suppress(ValueError, TypeError, OverflowError):
        date = parsedate_to_datetime(text or "")
        return max(0.0, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - time.time())
    return 0.0


def _opener() -> urllib.request.OpenerDirector:
    """Proxies from the environment; neither redirects nor errors are handled behind our back."""
    opener = urllib.request.OpenerDirector()
    for handler in (urllib.request.ProxyHandler, urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
        opener.add_handler(handler())
    return opener


@contextmanager
def _answer(url: str, headers: dict[str, str], timeout: float, method: str) -> Iterator[http.client.HTTPResponse]:
    """The answer at the end of all redirects, whatever its status."""
    opener, here = _opener(), _address(url)
    for _ in range(_REDIRECTS + 1):
        request = urllib.request.Request(here.geturl(), headers=headers, method=method)
        try:
            response: http.client.HTTPResponse = opener.open(request, timeout=timeout)
        except UnicodeError as error:
            raise UserError(f"{here.netloc!r} is no host name; check the address") from error
        except (OSError, http.client.HTTPException) as error:
            raise _unreachable(url, error) from error
        with response:
            if response.status not in (301, 302, 303, 307, 308):
                yield response
                return
            there = urllib.parse.urljoin(here.geturl(), response.headers.get("Location", ""))
        try:
            target = _address(there)
        except UserError:
            raise UserError(f"{url}: redirected to {there!r}, which is no http address; check the address") from None
        if target.scheme != here.scheme and target.scheme != "https":
            raise UserError(f"{url}: redirected from https to {there}, which anybody can read; check the address")
        here = target
    raise UserError(f"{url}: redirected more than {_REDIRECTS} times, last to {here.geturl()}; check the address")


def _unreachable(url: str, error: Exception) -> Exception:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return UserError(f"{url}: the certificate is not trusted; check the address and this machine's clock")
    return _BrokenError(_reason(reason))


def _reason(error: object) -> str:
    if isinstance(error, TimeoutError):
        return "the server was silent for too long"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection broke"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"the connection failed, {text[:1].lower() + text[1:]}" if text else "the connection failed"


def _status(url: str, agent: str, response: http.client.HTTPResponse) -> Exception:
    """What a status other than 200 and 206 means."""
    status = f"{response.status} {response.reason}".strip()
    if response.status in _PASSING:
        wait = _retry_after(response.headers.get("Retry-After"))
        if wait > _LONGEST_WAIT:
            return UserError(
                f"{url}: the server answers {status} and asks to wait {wait / 60:,.0f} minutes; run it then"
            )
        return _BrokenError(f"the server answered {status}", wait)
    if response.status in (404, 410):
        return UserError(f"{url}: not there, the server answers {status}; check the address, or take a newer dump")
    if response.status in (401, 403):
        return UserError(f"{url}: the server answers {status}; check the address and the contact in '{agent}'")
    return UserError(f"{url}: the server answers {status}, which does not help; check the address or try later")


# A file on its way


@dataclass
class _Part:
    """The bytes so far, locked against other processes, and a record of which file they are part of."""

    path: Path
    url: str
    file: Any
    version: _Version = _Version()
    position: int = 0
    safe: int = 0  # bytes that the record vouches for: they are on the disk
    foreign: bool = False  # of another address: kept until the first byte of this one comes
    finished: bool = False

    @property
    def record(self) -> Path:
        return _beside(self.path, ".json")

    def load(self) -> None:
        """Take up what is there, as far as the record vouches for it."""
        known = _load(self.record)
        size, safe = known.get("size"), known.get("safe")
        if isinstance(size, int | None) and isinstance(safe, int):
            self.version = _Version(size, str(known.get("etag", "")), str(known.get("modified", "")))
            self.safe = self.position = max(0, min(safe, os.fstat(self.file.fileno()).st_size))
            self.foreign = known.get("url") != self.url
        with self.on_disk():
            self.file.truncate(self.position)

    def begin(self, version: _Version) -> None:
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
        _save(self.record, {"url": self.url, **asdict(self.version), "safe": self.position})
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
            raise UserError(f"{self.path}: {_full(error)} and run it again to go on; {self.kept()}") from error

    def kept(self) -> str:
        whole = f" of {_bytes(self.version.size)}" if self.version.size is not None else ""
        return (
            f"{_bytes(self.position)}{whole} are kept" if self.position and not self.foreign else "nothing had come yet"
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
                fcntl.flock(self.file, fcntl.LOCK_UN)  # a forked process may have it open as well
            self.file.close()

    def finish(self, final: Path) -> None:
        with self.on_disk():
            os.fsync(self.file.fileno())
        try:
            self.path.replace(final)
        except OSError as error:
            raise UserError(f"{final}: cannot be written, {_lower(error)}; check its permissions") from error
        self.finished = True
        self.record.unlink(missing_ok=True)
        folder = os.open(final.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the name must last as well
        finally:
            os.close(folder)


@contextmanager
def _open_part(final: Path, url: str) -> Iterator[_Part]:
    path = _beside(final, ".part")
    while True:
        try:
            file = path.open("ab", buffering=0)  # unbuffered: what fails, fails here and not at close
        except OSError as error:
            raise UserError(f"{path}: cannot be written, {_lower(error)}; check its permissions") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Between opening and locking another process may have finished it: then this is not the part any more.
            with suppress(FileNotFoundError):
                if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                    break
        except BlockingIOError as error:
            file.close()
            raise UserError(f"{path}: another process is fetching this file; wait until it ends") from error
        except OSError as error:
            file.close()
            raise UserError(f"{path}: cannot be locked, {_lower(error)}; choose another disk") from error
        file.close()
    part = _Part(path, url, file)
    try:
        part.load()
        yield part
    finally:
        part.close()


def _load(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads(path.read_bytes())
        if isinstance(found, dict):
            return found
    return {}


def _save(path: Path, values: dict[str, Any]) -> None:
    temporary = _beside(path, ".tmp")
    try:
        with temporary.open("wb") as file:
            file.write(json.dumps(values, indent=1).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _full(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "no space left on the disk; free some"
    if error.errno == errno.EFBIG:
        return "too large for this disk or for ulimit -f; choose another place"
    return f"cannot be written, {_lower(error)}; mend it"


def _lower(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _bytes(count: float | None) -> str:
    """12,300,000 -> 12.3 MB."""
    count = count or 0
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} bytes"


def _short(line: str) -> str:
    return line if len(line) <= 40 else line[:40] + "…"


# One call


@dataclass
class _Call:
    """One fetch: its settings, and what happened so far."""

    url: str
    path: Path
    digest: str | None
    agent: str
    progress: Report
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
        record = _beside(self.path, ".fetched.json")
        known, stamp = _load(record), _stamp(self.path)
        if stamp is None:
            return None
        size = stamp[1]
        ours = (known.get("size"), known.get("mtime")) == stamp[1:]
        was = _Version(size, str(known.get("etag", "")), str(known.get("modified", ""))) if ours else _Version(size)
        if self.digest:
            kind = self.digest.partition(":")[0]
            checked = str(known.get("digest")) if ours else ""
            if not checked.startswith(f"{kind}:"):
                checked = self.hash(self.path, kind, size)
            if checked == self.digest:
                return self.done(was, size, checked)
            if not ours:
                raise UserError(
                    f"{self.path}: this file was not fetched by cr5 and its {kind} is not the published one; "
                    "move it away to fetch it"
                )
            self.say(f"its {kind} is not the published one any more: begun anew")
            return None
        try:
            with self.ask("HEAD", {}) as response:
                if response.status != 200:
                    raise _status(self.url, self.agent, response)
                now = _version(response.headers, _number(response.headers.get("Content-Length")))
        except (_BrokenError, UserError) as error:
            if not ours:
                raise UserError(
                    f"{self.path}: this file was not fetched by cr5 and cannot be compared with the server's: "
                    f"{error}; move it away to fetch it"
                ) from error
            self.say(f"kept as it was, because the server could not be asked: {error}")
            return self.done(was, size, known.get("digest"))
        if not ours:
            if now.size == size:
                self.say("it was there already, as long as the server's; its content was not checked")
                return self.done(now, size, None)
            raise UserError(
                f"{self.path}: this file was not fetched by cr5 and has {size:,} bytes, the server's "
                f"{'an unknown number' if now.size is None else format(now.size, ',')}; move it away to fetch it"
            )
        # Two machines behind one name may tag the same file differently; its date and size are the same then.
        same_date = was.modified and was.modified == now.modified
        if known.get("url") == self.url and not replace(was, etag="" if same_date else was.etag).differs(now):
            return self.done(was, size, known.get("digest"))
        self.say("not what the server has any more: begun anew")
        return None

    def done(self, version: _Version, size: int, digest: str | None) -> Fetched:
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
        record = _beside(self.path, ".fetched.json")
        if _load(record) != values:
            with suppress(OSError):  # the file is there; without a record it is only checked again
                _save(record, values)
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

    def run(self, part: _Part) -> Fetched:
        """Try until the file is whole and right, or until ``tries`` in a row brought nothing new."""
        furthest = failures = 0
        wrong: str | None = None
        self.anew = "the part was of another address" if part.foreign else ""
        while True:
            try:
                if self.anew or not (part.position and part.position == part.version.size):
                    self.attempt(part)
            except _BrokenError as problem:
                # Begun anew, a file must get further than before: else two versions in turn would go on for ever.
                failures = 1 if self.received and part.position > furthest else failures + 1
                furthest = max(furthest, part.position if self.received else 0)
                if failures >= self.tries:
                    raise UserError(
                        f"{self.url}: nothing new in {self.tries} tries, at last {problem}; run it again later to go "
                        f"on; {part.kept()}"
                    ) from problem
                self.wait(part, max(problem.wait, min(self.pause * 2.0 ** (failures - 1), _LONGEST_PAUSE)), problem)
                continue
            if self.digest:
                kind = self.digest.partition(":")[0]
                found = self.hash(part.path, kind, part.position)
                if found != self.digest:
                    wanted, got = self.digest.partition(":")[2], found.partition(":")[2]
                    part.begin(_Version())
                    if wrong is not None:
                        raise UserError(
                            f"{self.url}: its {kind} is {got}, not {wanted}, also when fetched again; nothing is "
                            "kept; take another mirror, or another dump"
                        )
                    wrong, furthest, failures = got, 0, 0
                    self.say(f"its {kind} was wrong: begun anew")
                    continue
            part.finish(self.path)
            return self.done(part.version, part.position, self.digest)

    def attempt(self, part: _Part) -> None:
        """One connection: to the end of the file, or _BrokenError."""
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
                raise _BrokenError("the file changed on the server")
            elif response.status == 206:
                raise _BrokenError("the server sent a part of the file that was not asked for")
            elif response.status == 200:
                left = self.begins(part, response)
            else:
                raise _status(self.url, self.agent, response)
            self.room(part)
            self.receive(part, response, left)

    def ask(self, method: str, headers: dict[str, str]) -> Any:
        self.connections += 1
        always = {"User-Agent": self.agent, "Accept": "*/*", "Accept-Encoding": "identity"}
        return _answer(self.url, always | headers, self.timeout, method)

    def plain(self, response: http.client.HTTPResponse) -> None:
        """Refuse what was compressed on the way: neither its size nor its ranges are the file's."""
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        # Some servers give a stored .gz this label; it is the file as it is.
        stored = encoding in ("gzip", "x-gzip") and urllib.parse.urlsplit(self.url).path.endswith((".gz", ".tgz"))
        if encoding not in ("", "identity") and not stored:
            raise UserError(
                f"{self.url}: the server sends it as {encoding}, which was not asked for; take another mirror, or "
                f"fetch it by other means to {self.path}"
            )

    def begins(self, part: _Part, response: http.client.HTTPResponse) -> int | None:
        """The whole file is coming; returns its size, if known."""
        size = None if response.chunked else _number(response.headers.get("Content-Length"))
        if size is None and not response.chunked and not self.digest:
            raise UserError(
                f"{self.url}: the server does not tell how long it is, so that a broken connection would look like "
                "its end; give its digest"
            )
        version = _version(response.headers, size)
        if part.position:
            changed = "changed on the server" if part.version.differs(version) else "the server ignores ranges"
            self.say(f"{self.anew or changed}: begun anew")
        self.anew = ""
        part.begin(version)
        return size

    def goes_on(self, part: _Part, response: http.client.HTTPResponse) -> int:
        """The rest is coming, if it is the rest of the same file; returns how many bytes."""
        said = response.headers.get("Content-Range", "").strip()
        numbers = re.fullmatch(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)", said)
        start, end = (int(numbers[1]), int(numbers[2])) if numbers else (-1, -1)
        size = _number(numbers[3]) if numbers else None
        size = part.version.size if size is None else size
        if size is not None and start == part.position <= end < size:
            length = _number(response.headers.get("Content-Length"))
            if response.chunked or length in (None, end - start + 1):
                if part.version.differs(_version(response.headers, size)):
                    self.anew = "changed on the server"
                    raise _BrokenError("the file changed on the server")
                part.version = replace(part.version, size=size)
                return end - start + 1
        self.wrong_ranges += 1
        if self.wrong_ranges > 1:  # once may be an accident, and a beginning costs gigabytes
            self.anew = "the server answers ranges with other bytes"
        raise _BrokenError(f"the server sent '{_short(said)}' in place of the bytes from {part.position} on")

    def room(self, part: _Part) -> None:
        """Better now than after a night."""
        missing = (part.version.size or 0) - part.position
        if missing > (free := shutil.disk_usage(self.path.parent).free):
            raise UserError(
                f"{part.path}: {_bytes(missing)} are still to come and the disk has room for {_bytes(free)}; free some "
                f"and run it again to go on; {part.kept()}"
            )

    def receive(self, part: _Part, response: http.client.HTTPResponse, left: int | None) -> None:
        began, before = time.monotonic(), part.position
        while left != 0:
            if self.stop():
                raise self.stopped(part)
            try:
                data = response.read1(_CHUNK if left is None else min(left, _CHUNK))
            except (OSError, http.client.HTTPException) as error:
                raise _BrokenError(_reason(error)) from error
            if not data:
                break
            part.append(data)
            self.received += len(data)
            left = None if left is None else left - len(data)
            speed = (part.position - before) / max(time.monotonic() - began, 0.1) / 1e6
            self.report("download", part.position, part.version.size, f"{self.path.name}, {speed:.1f} MB/s")
        size = part.version.size
        if left or (size is not None and part.position != size):
            raise _BrokenError("the connection broke")
        part.version = replace(part.version, size=part.position)

    def wait(self, part: _Part, seconds: float, why: Exception) -> None:
        note = f"{self.path.name}, waiting {seconds:.0f} s: {why}"
        self.report("download", part.position, part.version.size, note, now=True)
        while seconds > 0:
            if self.stop():
                raise self.stopped(part)
            self.sleep(min(seconds, 1.0))
            seconds -= 1.0

    def stopped(self, part: _Part) -> StoppedError:
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
