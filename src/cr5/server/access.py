"""Access control: API key, host name, rate limit, and the client behind a proxy."""

import hmac
import ipaddress
import re
import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from cr5.errors import Cr5Error

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
    parsed = _parse_address(address)
    if parsed is None:
        return address
    return str(ipaddress.ip_network(f"{parsed}/64", strict=False)) if parsed.version == 6 else str(parsed)


class TrustedProxies:
    """Networks of proxies whose forwarding headers are trusted."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self._networks = [parse_network(network) for network in networks]

    def includes(self, address: str) -> bool:
        """Whether an address is that of a trusted proxy."""
        parsed = _parse_address(address) if self._networks else None
        return parsed is not None and any(parsed in network for network in self._networks)

    def client(self, address: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """The client of a request from an address: the rightmost one that is not a trusted proxy.

        A header is used only if it comes from a trusted proxy. If ``Forwarded`` and ``X-Forwarded-For`` name different
        clients, one of them comes from the client itself. Then, and if the header names no client, the proxy is taken
        for the client.
        """
        if not self.includes(address):
            return address
        lists: dict[bytes, list[str]] = {b"forwarded": [], b"x-forwarded-for": []}
        for name, value in headers:
            if name in lists:
                lists[name] += value.decode("latin-1").split(",")
        forwarded = [_forwarded_for(element) for element in lists[b"forwarded"]]
        found = {self._nearest(hops, address) for hops in (forwarded, lists[b"x-forwarded-for"]) if hops}
        return found.pop() if len(found) == 1 else address

    def _nearest(self, hops: list[str], proxy: str) -> str:
        for hop in reversed(hops):
            parsed = _parse_address(_without_port(hop.strip()))
            if parsed is None:
                return proxy
            if not self.includes(str(parsed)):
                return str(parsed)
        return proxy


def parse_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """A network in CIDR notation, or a single address."""
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        raise Cr5Error(
            f"`trust_proxy={text}` is not a network or an address; write it as 10.0.0.0/8 or as 127.0.0.1"
        ) from None


@lru_cache(4096)
def _parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address; an IPv4 address inside an IPv6 one is that IPv4 address."""
    try:
        parsed = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed


def _forwarded_for(element: str) -> str:
    """The value of ``for`` in an element of a Forwarded header; "" if there is none."""
    for pair in element.split(";"):
        name, _, value = pair.partition("=")
        if name.strip().lower() == "for":
            return value.strip().strip('"')
    return ""


def _without_port(address: str) -> str:
    """An address of a proxy header without its port: [::1]:80 -> ::1, 10.0.0.1:80 -> 10.0.0.1."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.partition(":")[0] if address.count(":") == 1 else address


def host_of(header: str) -> str:
    """A Host header without its port: [::1]:8000 -> ::1."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def parse_host_name(text: str) -> str:
    """A host name or an address as requests have it: in lower case, and an international name in its ASCII form."""
    name = text.strip().removeprefix("[").removesuffix("]")
    if _parse_address(name) is not None:
        return name.lower()
    try:
        ascii_name = name.encode("idna").decode().lower()
    except UnicodeError:
        ascii_name = ""
    if not re.fullmatch(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?", ascii_name):
        raise Cr5Error(
            f"`allow_host={text}` is not a host name; write it without scheme, port and path, as search.example.org"
        )
    return ascii_name


def parse_key(text: str, source: str) -> str:
    """An API key from a ``source``, without the blanks and line ends around it, which a header cannot contain."""
    key = text.strip()
    if not key:
        raise Cr5Error(f"{source} is empty; choose a key that is hard to guess, or leave out {source}")
    if not key.isprintable():
        raise Cr5Error(f"{source} has a line end or another control character inside the key; remove it")
    return key


def has_key(headers: Mapping[bytes, bytes], key: str) -> bool:
    """Whether the request headers (lower-case names) contain the API key; compared in constant time."""
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    given = token.strip() if scheme.lower() == b"bearer" else headers.get(b"x-api-key", b"")
    return hmac.compare_digest(given, key.encode())
