"""Access control: API key, host name and rate limit."""

import hmac
import ipaddress
import time
from collections.abc import Callable, Mapping

REMEMBERED_CLIENTS = 10_000


class RateLimiter:
    """A token bucket for every client: it holds ``per_minute`` tokens and refills evenly over a minute.

    Only the ``max_clients`` clients seen last are remembered.
    """

    def __init__(
        self, per_minute: int, clock: Callable[[], float] = time.monotonic, *, max_clients: int = REMEMBERED_CLIENTS
    ) -> None:
        self.per_minute, self._clock, self._max_clients = per_minute, clock, max_clients
        self._buckets: dict[str, tuple[float, float]] = {}  # client -> (tokens, time); least recently seen first

    def acquire(self, client: str) -> float:
        """Take a token and return 0, or return the seconds until the next token is available."""
        now = self._clock()
        tokens, last_seen = self._buckets.pop(client, (float(self.per_minute), now))
        tokens = min(self.per_minute, tokens + (now - last_seen) * self.per_minute / 60)
        self._buckets[client] = (tokens - 1 if tokens >= 1 else tokens, now)
        while len(self._buckets) > self._max_clients:
            del self._buckets[next(iter(self._buckets))]
        return 0.0 if tokens >= 1 else (1 - tokens) * 60 / self.per_minute


def client_of(address: str) -> str:
    """The client an IP address belongs to: the address itself or, for IPv6, its /64 network.

    A single IPv6 customer is usually given a whole /64 network and could otherwise use a new address every time.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network(f"{parsed}/64", strict=False)) if parsed.version == 6 else address


def host_of(header: str) -> str:
    """A Host header without its port: [::1]:8000 -> ::1."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def has_key(headers: Mapping[bytes, bytes], key: str) -> bool:
    """Whether the request headers (lower-case names) contain the API key; compared in constant time."""
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    given = token.strip() if scheme.lower() == b"bearer" else headers.get(b"x-api-key", b"")
    return hmac.compare_digest(given, key.encode())
