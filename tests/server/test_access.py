"""Access control: API key, rate limit and host names."""

import hmac

import pytest
from serving import StartServer, error_message

from cr5.server import process
from cr5.server.access import RateLimiter, client_of, has_key, host_of


def test_everything_but_pages_and_health_needs_the_api_key(start_server: StartServer) -> None:
    client = start_server(api_key="sécret")
    for path in ["/health", "/", "/static/app.js", "/docs", "/static/reference.css", "/openapi.json"]:
        assert client.get(path).status_code == 200
    message = "the API key is missing or wrong; send it as Authorization: Bearer KEY or as X-API-Key"
    right = "sécret".encode()
    for path in ["/info", "/search?q=a", "/metrics", "/docs/x", "/nowhere", "/documents/x"]:
        assert error_message(client.get(path), 401) == message
        for wrong in [{b"X-API-Key": b"x"}, {b"Authorization": right}, {b"Authorization": b"Basic " + right}]:
            assert error_message(client.get(path, headers=wrong), 401) == message
    for given in [
        {b"X-API-Key": right},
        {b"Authorization": b"Bearer " + right},
        {b"Authorization": b"bearer  " + right},
    ]:
        assert client.get("/info", headers=given).status_code == 200
    assert error_message(client.post("/documents", content=b"{"), 401) == message
    assert error_message(client.post("/docs", content=b"{}"), 401) == message
    schema = client.get("/openapi.json").json()
    assert schema["security"] == [{"bearer": []}, {"header": []}]
    assert client.get("/info").headers["www-authenticate"] == "Bearer"


def test_keys_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return False

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert not has_key({b"x-api-key": b"near"}, "nearly")
    assert compared == [(b"near", b"nearly")]


def test_a_client_over_the_rate_limit_has_to_wait(start_server: StartServer) -> None:
    client = start_server(requests_per_minute=3)
    assert [client.get("/").status_code for _ in range(3)] == [200] * 3
    answer = client.get("/info")
    assert error_message(answer, 429) == "more than 3 requests per minute; wait 20 s"
    assert answer.headers["retry-after"] == "20"
    assert client.get("/health").status_code == 200


def test_tokens_refill_evenly_and_each_client_has_its_own() -> None:
    now = [0.0]
    limit = RateLimiter(60, lambda: now[0])
    assert [limit.acquire("a") for _ in range(61)] == [0.0] * 60 + [1.0]
    assert limit.acquire("b") == 0
    now[0] = 1.0
    assert (limit.acquire("a"), limit.acquire("a")) == (0.0, 1.0)
    now[0] = 1000.0
    assert [limit.acquire("a") for _ in range(61)] == [0.0] * 60 + [1.0]


def test_clients_are_remembered_in_bounded_memory() -> None:
    limit = RateLimiter(1, max_clients=10)
    for number in range(100):
        limit.acquire(str(number))
    assert len(limit._buckets) == 10


def test_a_client_is_an_ipv4_address_or_an_ipv6_network() -> None:
    assert client_of("10.0.0.1") == "10.0.0.1"
    assert client_of("2001:db8::1") == client_of("2001:db8::ffff:2") == "2001:db8::/64"
    assert client_of("testclient") == "testclient"


def test_a_host_name_that_is_not_allowed_is_refused(
    start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    client = start_server(allowed_hosts=process.LOOPBACK_HOSTS)
    assert error_message(client.get("/info", headers={"host": "evil.test:8000"}), 421) == (
        "this server does not answer to the host name 'evil.test'; start it with --allow-host to add it"
    )
    assert "refused a request for the host name 'evil.test', which --allow-host does not name" in caplog.text
    for path in ["/health", "/ready"]:
        assert client.get(path, headers={"host": "10.88.0.2:8000"}).status_code != 421
        assert client.post(path, headers={"host": "evil.test"}).status_code == 421
    for host in ["127.0.0.1:8000", "LOCALHOST", "[::1]:8000"]:
        assert client.get("/info", headers={"host": host}).status_code == 200
    assert host_of("[::1]") == "::1"
