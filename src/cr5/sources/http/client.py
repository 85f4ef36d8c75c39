"""An HTTP server, asked politely: it is told who asks, what passes is waited for, and every redirect is looked at."""

import http.client
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import NamedTuple, TypedDict

from cr5.errors import Cr5Error
from cr5.progress import Progress, ProgressCallback, silent

_CHUNK = 1 << 18
_LONGEST_PAUSE, _LONGEST_WAIT = 300.0, 3600.0  # seconds: ours, and what a server may ask for
_REDIRECTS = 5
_PAGE = 1 << 24  # bytes of the longest page
_PASSING = {408, 429, 500, 502, 503, 504}


class StoppedError(Cr5Error):
    """``stop`` became true; what had come by then is kept."""


class MissingError(Cr5Error):
    """The server is there and says that the file is not."""


class BrokenError(Exception):
    """A try that failed and may be repeated, at the earliest after ``wait`` seconds."""

    def __init__(self, reason: str, wait: float = 0.0):
        super().__init__(reason)
        self.wait = wait

    def pause(self, first: float, failures: int) -> float:
        """Seconds until the next try: doubled with every failure, and no less than the server wants."""
        return max(self.wait, min(first * 2.0 ** (failures - 1), _LONGEST_PAUSE))


class Patience(TypedDict, total=False):
    """The options of whoever asks a server, for those who hand them on."""

    tries: int
    pause: float
    timeout: float
    sleep: Callable[[float], None]
    stop: Callable[[], bool]


class Page(NamedTuple):
    """A short answer, and where the server says that it goes on, if it does."""

    body: bytes
    next: str | None


@dataclass(frozen=True)
class Version:
    """What tells one state of a file on a server from another. Empty and None: unknown."""

    size: int | None = None
    etag: str = ""
    modified: str = ""

    @classmethod
    def of(cls, headers: Message, size: int | None) -> "Version":
        return cls(size, headers.get("ETag", "").strip(), headers.get("Last-Modified", "").strip())

    @property
    def validator(self) -> str:
        """What If-Range takes: a weak tag promises the same meaning, not the same bytes."""
        return self.etag if self.etag.startswith('"') else self.modified

    def differs(self, other: "Version") -> bool:
        """Whether anything that both know contradicts."""
        return (
            (None not in (self.size, other.size) and self.size != other.size)
            or bool(self.etag and other.etag and self.etag != other.etag)
            or bool(self.modified and other.modified and self.modified != other.modified)
        )


# A page


def get(
    url: str,
    *,
    agent: str,
    progress: ProgressCallback = silent,
    tries: int = 5,
    pause: float = 1.0,
    timeout: float = 60.0,
    sleep: Callable[[float], None] = time.sleep,
    stop: Callable[[], bool] = lambda: False,
) -> Page:
    """What stands at ``url``, which must be short: a listing, a report. Nothing is kept.

    ``agent`` must name a contact. The ``pause`` in seconds doubles after each of ``tries``; ``timeout`` is the longest
    silence.
    """
    check_request(url, agent)
    for failures in range(1, tries + 1):
        if stop():
            break
        try:
            return _page(url, agent, timeout)
        except BrokenError as problem:
            if failures == tries:
                raise Cr5Error(
                    f"{url}: nothing came in {tries} tries, at last {problem}; check the address and the network, or "
                    "run it again later"
                ) from problem
            seconds = problem.pause(pause, failures)
            progress(Progress("look up", 0, None, f"{url}, waiting {seconds:.0f} s: {problem}"))
            if not rest(seconds, sleep, stop):
                break
    raise StoppedError(f"{url}: stopped; run it again to go on")


def _page(url: str, agent: str, timeout: float) -> Page:
    """One try, or BrokenError."""
    ends = time.monotonic() + 5 * timeout  # one that says a byte now and then is not silent
    body = bytearray()
    with answer(url, agent, timeout) as response:
        if response.status != 200:
            raise refusal(url, agent, response)
        if compressed := encoding(response):
            raise Cr5Error(f"{url}: the server sends it as {compressed}, which was not asked for; take another mirror")
        while data := read(response):
            body += data
            if len(body) > _PAGE:
                raise Cr5Error(f"{url}: longer than {_PAGE / 1e6:.1f} MB, which no listing is; check the address")
            if time.monotonic() > ends:
                raise BrokenError("the server was too slow")
        if length(response) not in (None, len(body)):
            raise BrokenError("the connection broke")
        links = response.headers.get("Link", "")
    following = re.search(r'<([^<>]*+)>\s*+;\s*+rel="?next\b', links)
    return Page(bytes(body), _join(url, following[1]) if following else None)


def rest(seconds: float, sleep: Callable[[float], None], stop: Callable[[], bool]) -> bool:
    """Whether nobody asked to stop meanwhile."""
    while seconds > 0:
        if stop():
            return False
        sleep(min(seconds, 1.0))
        seconds -= 1.0
    return True


# What is asked


def check_request(url: str, agent: str) -> None:
    """Refuse what no server should be asked."""
    if not re.search(r"\S@\S|https?://\S", agent):
        raise Cr5Error(f"user agent '{agent}' names no contact; add an address, as in 'cr5 (you@example.org)'")
    if not (agent.isascii() and agent.isprintable()):
        raise Cr5Error(f"user agent {agent!r} cannot be sent; use plain letters in one line")
    _address(url)


def _address(url: str) -> urllib.parse.SplitResult:
    with suppress(ValueError):  # a wrong port
        parts = urllib.parse.urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
        if usable and parts.port != 0 and url.isprintable() and " " not in parts.netloc:
            quoted = {
                part: urllib.parse.quote(getattr(parts, part), "%/:=&?~+!$,;'@()*[]") for part in ("path", "query")
            }
            return parts._replace(fragment="", **quoted)
    raise Cr5Error(f"{url!r} is no address that can be fetched; it must be http:// or https:// and a host")


def _join(base: str, link: str) -> str:
    try:
        return urllib.parse.urljoin(base, link)
    except ValueError:  # half of an IPv6 address
        return link


# What is answered


@contextmanager
def answer(
    url: str, agent: str, timeout: float, method: str = "GET", headers: Mapping[str, str] = {}
) -> Iterator[http.client.HTTPResponse]:
    """The answer at the end of all redirects, whatever its status; BrokenError if there is none."""
    opener, here = _opener(), _address(url)
    sent = {"User-Agent": agent, "Accept": "*/*", "Accept-Encoding": "identity", **headers}
    for _ in range(_REDIRECTS + 1):
        request = urllib.request.Request(here.geturl(), headers=sent, method=method)
        try:
            response: http.client.HTTPResponse = opener.open(request, timeout=timeout)
        except UnicodeError as error:
            raise Cr5Error(f"{here.netloc!r} is no host name; check the address") from error
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise Cr5Error(
                    f"{url}: the certificate is not trusted; check the address and this machine's clock"
                ) from error
            raise BrokenError(_reason(reason)) from error
        with response:
            if response.status not in (301, 302, 303, 307, 308):
                yield response
                return
            there = _join(here.geturl(), response.headers.get("Location", ""))
        try:
            target = _address(there)
        except Cr5Error:
            raise Cr5Error(f"{url}: redirected to {there!r}, which is no http address; check the address") from None
        if target.scheme != here.scheme and target.scheme != "https":
            raise Cr5Error(f"{url}: redirected from https to {there}, which anybody can read; check the address")
        here = target
    raise Cr5Error(f"{url}: redirected more than {_REDIRECTS} times, last to {here.geturl()}; check the address")


def _opener() -> urllib.request.OpenerDirector:
    """Proxies from the environment; neither redirects nor errors are handled behind our back."""
    opener = urllib.request.OpenerDirector()
    for handler in (urllib.request.ProxyHandler, urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
        opener.add_handler(handler())
    return opener


def read(response: http.client.HTTPResponse, left: int | None = None) -> bytes:
    """The next bytes, at most ``left``; none at the end, and BrokenError where the connection fails."""
    try:
        return response.read1(_CHUNK if left is None else min(left, _CHUNK))
    except (OSError, http.client.HTTPException) as error:
        raise BrokenError(_reason(error)) from error


def _reason(error: object) -> str:
    if isinstance(error, TimeoutError):
        return "the server was silent for too long"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection broke"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"the connection failed, {text[:1].lower() + text[1:]}" if text else "the connection failed"


def length(response: http.client.HTTPResponse) -> int | None:
    """How many bytes are announced, if it is told."""
    return None if response.chunked else _number(response.headers.get("Content-Length"))


def encoding(response: http.client.HTTPResponse) -> str:
    """How the bytes were compressed on the way; empty if they are the file's own."""
    told = response.headers.get("Content-Encoding", "").strip().lower()
    return "" if told == "identity" else told


def refusal(url: str, agent: str, response: http.client.HTTPResponse) -> Exception:
    """What a status other than 200 and 206 means."""
    status = f"{response.status} {response.reason}".strip()
    if response.status in _PASSING:
        wait = _retry_after(response.headers.get("Retry-After"))
        if wait > _LONGEST_WAIT:
            return Cr5Error(
                f"{url}: the server answers {status} and asks to wait {wait / 60:,.0f} minutes; run it then"
            )
        return BrokenError(f"the server answered {status}", wait)
    if response.status in (404, 410):
        return MissingError(f"{url}: not there, the server answers {status}; check the address, or take a newer dump")
    if response.status in (401, 403):
        return Cr5Error(f"{url}: the server answers {status}; check the address and the contact in '{agent}'")
    return Cr5Error(f"{url}: the server answers {status}, which does not help; check the address or try later")


def _retry_after(text: str | None) -> float:
    """Seconds, from a number or a date."""
    if (seconds := _number(text)) is not None:
        return float(seconds)
    with suppress(ValueError, TypeError, OverflowError):
        date = parsedate_to_datetime(text or "")
        return max(0.0, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - time.time())
    return 0.0


def _number(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"[0-9]{1,18}", text.strip()) else None
