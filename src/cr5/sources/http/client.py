"""An HTTP client: it sends a contact in the user agent, retries transient failures, and checks every redirect."""

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

from cr5 import __version__
from cr5.errors import Cr5Error
from cr5.progress import Progress, ProgressCallback, no_progress

PROJECT_URL = "https://pypi.org/project/cr5"
_CHUNK_BYTES = 1 << 18
FIRST_RETRY_SECONDS = 1.0  # pause before the second attempt; doubled for each further one
_MAX_RETRY_SECONDS = 300.0  # longest pause between two attempts, unless the server asks for more
_MAX_RETRY_AFTER_SECONDS = 3600.0  # longest pause that a server may ask for
_MAX_REDIRECTS = 5
_TRANSIENT_STATUSES = {408, 429, 500, 502, 503, 504}
MAX_SHORT_RESPONSE_BYTES = 1 << 24


def make_user_agent(contact: str | None = None) -> str:
    """The user agent of cr5, with somebody's mail address or page, by default the page of the project."""
    return f"cr5/{__version__} ({contact or PROJECT_URL})"


class StoppedError(Cr5Error):
    """``should_stop`` returned true; what had been received is kept."""


class NotFoundError(Cr5Error):
    """The server answered that the file does not exist."""


class TransientError(Exception):
    """An attempt failed and may be repeated, after ``retry_after`` seconds at the earliest."""

    def __init__(self, reason: str, retry_after: float = 0.0):
        super().__init__(reason)
        self.retry_after = retry_after

    def delay(self, failures: int) -> float:
        """Seconds until the next attempt: doubled with every failure, and never less than the server asked for."""
        return max(self.retry_after, min(FIRST_RETRY_SECONDS * 2.0 ** (failures - 1), _MAX_RETRY_SECONDS))


class RetryOptions(TypedDict, total=False):
    """The optional arguments of ``get`` and ``fetch``, for functions that pass them on."""

    max_attempts: int
    timeout: float
    sleep: Callable[[float], None]
    should_stop: Callable[[], bool]


class ShortResponse(NamedTuple):
    """A response body that was read at once, and the address of the next page if the server names one."""

    body: bytes
    next_url: str | None


@dataclass(frozen=True)
class FileVersion:
    """What distinguishes one version of a file on a server from another; None and "" mean unknown."""

    size: int | None = None
    etag: str = ""
    modified: str = ""

    @classmethod
    def of(cls, headers: Message, size: int | None) -> "FileVersion":
        """The version that response headers describe."""
        return cls(size, headers.get("ETag", "").strip(), headers.get("Last-Modified", "").strip())

    @property
    def validator(self) -> str:
        """The value for If-Range; a weak ETag does not promise identical bytes and is not used."""
        return self.etag if self.etag.startswith('"') else self.modified

    def differs(self, other: "FileVersion") -> bool:
        """Whether anything that is known about both differs."""
        return (
            (None not in (self.size, other.size) and self.size != other.size)
            or bool(self.etag and other.etag and self.etag != other.etag)
            or bool(self.modified and other.modified and self.modified != other.modified)
        )


# Short responses


def get(
    url: str,
    *,
    user_agent: str,
    progress: ProgressCallback = no_progress,
    max_attempts: int = 5,
    timeout: float = 60.0,
    max_bytes: int = MAX_SHORT_RESPONSE_BYTES,
    sleep: Callable[[float], None] = time.sleep,
    should_stop: Callable[[], bool] = lambda: False,
) -> ShortResponse:
    """Return what is at ``url``, a listing or a report of at most ``max_bytes``.

    ``user_agent`` must name a contact. ``timeout`` is the longest time in seconds that the server may send nothing.
    """
    check_request(url, user_agent)
    for failures in range(1, max_attempts + 1):
        if should_stop():
            break
        try:
            return _read_short(url, user_agent, timeout, max_bytes)
        except TransientError as error:
            if failures == max_attempts:
                raise Cr5Error(
                    f"{url}: no response after {max_attempts} attempts, the last error: {error}; check the address and "
                    "the network, or try again later"
                ) from error
            seconds = error.delay(failures)
            progress(Progress("look up", 0, None, f"{url}, waiting {seconds:.0f} s: {error}"))
            if not wait(seconds, sleep, should_stop):
                break
    raise StoppedError(f"{url}: stopped; run it again to continue")


def _read_short(url: str, user_agent: str, timeout: float, max_bytes: int) -> ShortResponse:
    """One attempt; raise a ``TransientError`` if it may be repeated."""
    deadline = time.monotonic() + 5 * timeout  # a server that sends a byte now and then never times out
    body = bytearray()
    with open_response(url, user_agent, timeout) as response:
        if response.status != 200:
            raise status_error(url, user_agent, response)
        if encoding := content_encoding(response):
            raise Cr5Error(
                f"{url}: the server sends it with the encoding {encoding}, which was not requested; use another server"
            )
        while data := read_chunk(response):
            body += data
            if len(body) > max_bytes:
                size = f"{max_bytes / 1e6:.1f} MB"
                raise Cr5Error(f"{url}: longer than {size}, so not a listing; check the address")
            if time.monotonic() > deadline:
                raise TransientError("the server was too slow")
        if content_length(response) not in (None, len(body)):
            raise TransientError("the connection was closed early")
        links = response.headers.get("Link", "")
    next_link = re.search(r'<([^<>]*+)>\s*+;\s*+rel="?next\b', links)
    return ShortResponse(bytes(body), _join(url, next_link[1]) if next_link else None)


def wait(seconds: float, sleep: Callable[[float], None], should_stop: Callable[[], bool]) -> bool:
    """Sleep; return False at once if ``should_stop`` returns true meanwhile."""
    while seconds > 0:
        if should_stop():
            return False
        sleep(min(seconds, 1.0))
        seconds -= 1.0
    return True


# Requests


def check_request(url: str, user_agent: str) -> None:
    """Raise a ``Cr5Error`` for an address or a user agent that must not be sent."""
    if not re.search(r"\S@\S|https?://\S", user_agent):
        raise Cr5Error(f"user agent '{user_agent}' names no contact; add an address, as in 'cr5 (you@example.org)'")
    if not (user_agent.isascii() and user_agent.isprintable()):
        raise Cr5Error(f"user agent {user_agent!r} cannot be sent; use printable ASCII on one line")
    _parse_address(url)


def _parse_address(url: str) -> urllib.parse.SplitResult:
    with suppress(ValueError):  # an invalid port
        parts = urllib.parse.urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
        if usable and parts.port != 0 and url.isprintable() and " " not in parts.netloc:
            quoted = {
                part: urllib.parse.quote(getattr(parts, part), "%/:=&?~+!$,;'@()*[]") for part in ("path", "query")
            }
            return parts._replace(fragment="", **quoted)
    raise Cr5Error(f"{url!r} is not an address that can be fetched; it must be http:// or https:// and a host")


def _join(base: str, link: str) -> str:
    try:
        return urllib.parse.urljoin(base, link)
    except ValueError:  # an incomplete IPv6 address
        return link


# Responses


@contextmanager
def open_response(
    url: str, user_agent: str, timeout: float, headers: Mapping[str, str] = {}
) -> Iterator[http.client.HTTPResponse]:
    """The response after all redirects, whatever its status; raise a ``TransientError`` if there is none."""
    opener, address = _opener(), _parse_address(url)
    sent = {"User-Agent": user_agent, "Accept": "*/*", "Accept-Encoding": "identity", **headers}
    for _ in range(_MAX_REDIRECTS + 1):
        request = urllib.request.Request(address.geturl(), headers=sent)
        try:
            response: http.client.HTTPResponse = opener.open(request, timeout=timeout)
        except UnicodeError as error:
            raise Cr5Error(f"{address.netloc!r} is not a host name; check the address") from error
        except (OSError, http.client.HTTPException) as error:
            cause = error.reason if isinstance(error, urllib.error.URLError) else error
            if isinstance(cause, ssl.SSLCertVerificationError):
                raise Cr5Error(
                    f"{url}: the certificate is not trusted; check the address and this machine's clock"
                ) from error
            raise TransientError(_reason(cause)) from error
        with response:
            if response.status not in (301, 302, 303, 307, 308):
                yield response
                return
            location = _join(address.geturl(), response.headers.get("Location", ""))
        try:
            target = _parse_address(location)
        except Cr5Error:
            raise Cr5Error(
                f"{url}: redirected to {location!r}, which is not an http address; check the address"
            ) from None
        if target.scheme not in (address.scheme, "https"):
            raise Cr5Error(f"{url}: redirected from https to {location}, which is not encrypted; check the address")
        address = target
    raise Cr5Error(f"{url}: redirected more than {_MAX_REDIRECTS} times, last to {address.geturl()}; check the address")


def _opener() -> urllib.request.OpenerDirector:
    """An opener that uses the proxies of the environment and handles neither redirects nor errors itself."""
    opener = urllib.request.OpenerDirector()
    for handler in (urllib.request.ProxyHandler, urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
        opener.add_handler(handler())
    return opener


def read_chunk(response: http.client.HTTPResponse, limit: int | None = None) -> bytes:
    """The next bytes, at most ``limit``; empty at the end; raise a ``TransientError`` if the connection fails."""
    try:
        return response.read1(_CHUNK_BYTES if limit is None else min(limit, _CHUNK_BYTES))
    except (OSError, http.client.HTTPException) as error:
        raise TransientError(_reason(error)) from error


def _reason(error: object) -> str:
    if isinstance(error, TimeoutError):
        return "the server was silent for too long"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection was closed early"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"the connection failed, {text[:1].lower() + text[1:]}" if text else "the connection failed"


def content_length(response: http.client.HTTPResponse) -> int | None:
    """The announced number of bytes, or None if there is none."""
    return None if response.chunked else _parse_number(response.headers.get("Content-Length"))


def content_encoding(response: http.client.HTTPResponse) -> str:
    """The compression that was applied for the transfer, or "" if there is none."""
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    return "" if encoding == "identity" else encoding


def status_error(url: str, user_agent: str, response: http.client.HTTPResponse) -> Exception:
    """The exception for a status other than 200 and 206."""
    status = f"{response.status} {response.reason}".strip()
    if response.status in _TRANSIENT_STATUSES:
        seconds = _retry_after(response.headers.get("Retry-After"))
        if seconds > _MAX_RETRY_AFTER_SECONDS:
            return Cr5Error(
                f"{url}: the server answers {status} and asks to wait {seconds / 60:,.0f} minutes; run it again then"
            )
        return TransientError(f"the server answered {status}", seconds)
    if response.status in (404, 410):
        return NotFoundError(f"{url}: not found, the server answers {status}; check the address, or use a newer dump")
    if response.status in (401, 403):
        return Cr5Error(f"{url}: the server answers {status}; check the address and the contact in '{user_agent}'")
    return Cr5Error(f"{url}: the server answers {status}; check the address or try again later")


def _retry_after(text: str | None) -> float:
    """The seconds of a Retry-After header, which is a number or a date."""
    if (seconds := _parse_number(text)) is not None:
        return float(seconds)
    with suppress(ValueError, TypeError, OverflowError):
        date = parsedate_to_datetime(text or "")
        return max(0.0, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - time.time())
    return 0.0


def _parse_number(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"[0-9]{1,18}", text.strip()) else None
