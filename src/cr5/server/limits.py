"""Limits: what a client may ask of the server, how often, and how it is told no."""

import hmac
import ipaddress
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

QUERY = 10_000  # characters of a query
TEXT = 1_000_000  # characters of a text
TEXTS = 256  # texts or documents of a call
MOST = 100  # hits of a call
CONCEPT, TITLE, URL, CODE = 200, 1000, 2000, 80  # characters of a document's other parts
ADDRESSES = 10_000  # clients that are remembered


@dataclass(frozen=True)
class ServerSettings:
    """How a server behaves; ``store`` is the address of the index's database where it has a password.

    ``rate``: requests a minute from one address. ``hosts``: names that it answers to, all where there is none; a page
    of another site that points its own name at 127.0.0.1 is so refused. ``waiting``: requests at a time. ``figures``:
    a folder in which several workers add up their metrics.
    """

    api_key: str | None = None
    rate: int | None = None
    read_only: bool = False
    hosts: tuple[str, ...] = ()
    timeout: float = 30.0
    body: int = 2_000_000
    threads: int = 8
    waiting: int = 256
    store: str | None = field(default=None, repr=False)
    figures: Path | None = None


class RefusedError(Exception):
    """An answer that is no: a status of HTTP, one sentence, and headers."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, dict(headers or {})


class RateLimit:
    """A bucket of ``rate`` tokens for every client, filled evenly over a minute."""

    def __init__(self, rate: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self._clock = rate, clock
        self._buckets: dict[str, tuple[float, float]] = {}  # the longest unseen first: tokens left, and when

    def wait(self, client: str) -> float:
        """Take a token: 0, or the seconds until there will be one."""
        now = self._clock()
        left, then = self._buckets.pop(client, (float(self.rate), now))
        left = min(self.rate, left + (now - then) * self.rate / 60)
        self._buckets[client] = (left - 1 if left >= 1 else left, now)
        while len(self._buckets) > ADDRESSES:
            del self._buckets[next(iter(self._buckets))]
        return 0.0 if left >= 1 else (1 - left) * 60 / self.rate


def client_of(address: str) -> str:
    """Whom an address belongs to: itself, or its network of 64 bits where one household has as many as it likes."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network(f"{found}/64", strict=False)) if found.version == 6 else address


def host_of(header: str) -> str:
    """A Host header without its port: [::1]:8000 -> ::1."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def has_key(headers: Mapping[bytes, bytes], key: str) -> bool:
    """Whether the headers, by lower-case names, hold the key; takes as long for a near miss as for nonsense."""
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    given = token.strip() if scheme.lower() == b"bearer" else headers.get(b"x-api-key", b"")
    return hmac.compare_digest(given, key.encode())
