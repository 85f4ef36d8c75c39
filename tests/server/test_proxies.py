"""Which client a request behind a proxy comes from, and whose request ids are used."""

import pytest
from serving import StartServer
from starlette.testclient import TestClient

from cr5.errors import Cr5Error
from cr5.server.access import TrustedProxies, client_of, parse_network

PROXIES = TrustedProxies(["10.0.0.0/8", "::1", "192.0.2.7"])


@pytest.mark.parametrize(
    ("address", "headers", "client"),
    [
        ("203.0.113.9", [("X-Forwarded-For", "198.51.100.1")], "203.0.113.9"),  # not a trusted proxy
        ("10.0.0.1", [("X-Forwarded-For", "198.51.100.1")], "198.51.100.1"),
        ("10.0.0.1", [("X-Forwarded-For", "6.6.6.6, 198.51.100.1")], "198.51.100.1"),  # the client sent the first
        ("10.0.0.1", [("X-Forwarded-For", "6.6.6.6, 198.51.100.1, 10.2.3.4")], "198.51.100.1"),
        ("10.0.0.1", [("X-Forwarded-For", "6.6.6.6"), ("X-Forwarded-For", "198.51.100.1")], "198.51.100.1"),
        ("10.0.0.1", [("X-Forwarded-For", "198.51.100.1:4711")], "198.51.100.1"),
        ("10.0.0.1", [("X-Forwarded-For", "[2001:db8::1]:4711")], "2001:db8::1"),
        ("10.0.0.1", [("X-Forwarded-For", "2001:db8::1")], "2001:db8::1"),
        ("::1", [("Forwarded", 'for="[2001:db8::1]:80";proto=https, for=192.0.2.7')], "2001:db8::1"),
        ("::ffff:10.0.0.1", [("Forwarded", "proto=http;For=198.51.100.1;by=x")], "198.51.100.1"),
        ("10.0.0.1", [("Forwarded", "for=6.6.6.6"), ("X-Forwarded-For", "198.51.100.1")], "10.0.0.1"),  # they differ
        ("10.0.0.1", [("Forwarded", "for=198.51.100.1"), ("X-Forwarded-For", "198.51.100.1")], "198.51.100.1"),
        ("10.0.0.1", [("Forwarded", "for=unknown")], "10.0.0.1"),
        ("10.0.0.1", [("X-Forwarded-For", "6.6.6.6, garbage")], "10.0.0.1"),
        ("10.0.0.1", [("X-Forwarded-For", "10.0.0.2")], "10.0.0.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("not an address", [("X-Forwarded-For", "198.51.100.1")], "not an address"),
    ],
)
def test_the_client_is_the_rightmost_address_that_is_no_trusted_proxy(
    address: str, headers: list[tuple[str, str]], client: str
) -> None:
    raw = [(name.lower().encode(), value.encode()) for name, value in headers]
    assert PROXIES.client(address, raw) == client


def test_an_ipv4_client_of_an_ipv6_socket_is_that_client() -> None:
    assert client_of("::ffff:198.51.100.1") == "198.51.100.1"


def test_a_network_that_is_none_is_an_error() -> None:
    with pytest.raises(Cr5Error, match=r"`trust_proxy=10\.0\.0\.0/99` is not a network"):
        parse_network("10.0.0.0/99")
    assert str(parse_network("10.1.2.3/8")) == "10.0.0.0/8"


def from_address(client: TestClient, address: str) -> TestClient:
    """A client of the same application with another address."""
    return TestClient(client.app, client=(address, 1))


def test_clients_behind_a_trusted_proxy_have_a_rate_limit_each(start_server: StartServer) -> None:
    app = start_server(requests_per_minute=1, trusted_proxies=("10.0.0.0/8",))
    proxy, other = from_address(app, "10.0.0.1"), from_address(app, "203.0.113.9")
    for number in range(3):
        assert proxy.get("/info", headers={"x-forwarded-for": f"198.51.100.{number}"}).status_code == 200
    assert proxy.get("/info", headers={"x-forwarded-for": "6.6.6.6, 198.51.100.1"}).status_code == 429
    assert other.get("/info", headers={"x-forwarded-for": "1.1.1.1"}).status_code == 200
    assert other.get("/info", headers={"x-forwarded-for": "2.2.2.2"}).status_code == 429


def test_a_request_id_is_believed_from_trusted_proxies_only(start_server: StartServer) -> None:
    app = start_server(trusted_proxies=("10.0.0.0/8",))
    proxy, other = from_address(app, "10.0.0.1"), from_address(app, "203.0.113.9")
    assert proxy.get("/health", headers={"x-request-id": "a-1.B_2"}).headers["x-request-id"] == "a-1.B_2"
    ids = [other.get("/health", headers={"x-request-id": "a"}).headers["x-request-id"]]
    ids += [proxy.get("/nowhere", headers={"x-request-id": bad}).headers["x-request-id"] for bad in ("a b", "x" * 65)]
    assert len(set(ids)) == 3
    assert all(len(request_id) == 16 for request_id in ids)
