"""The HTTP client against a faulty server: a response is complete, or an error says why not."""

import io
import time
from ssl import SSLCertVerificationError
from typing import Any
from urllib.error import URLError

import pytest
from faulty import CONTENT, DEFAULTS, Server, files
from local_server import USER_AGENT, Fault

from cr5.errors import Cr5Error
from cr5.progress import Progress
from cr5.sources.http.client import NotFoundError, ShortResponse, StoppedError, get


def request(server: Server, **options: Any) -> ShortResponse:
    return get(server.url, **DEFAULTS | options)


def error_message(server: Server, error: type[Cr5Error] = Cr5Error, **options: Any) -> str:
    with pytest.raises(error) as caught:
        request(server, **options)
    return str(caught.value).replace(server.url, "URL")


def test_a_response_is_complete_and_leaves_nothing_on_the_disk(server: Server) -> None:
    assert request(server) == ShortResponse(CONTENT, None)
    server.planned = [Fault(chunked=True), Fault(body=b""), Fault(302, {"Location": "/other"}, body=b"")]
    assert [request(server).body for _ in range(3)] == [CONTENT, b"", CONTENT]
    assert {headers["user-agent"] for _, _, headers in server.requests} == {USER_AGENT}
    assert files() == set()


def test_a_request_is_retried_after_transient_errors(server: Server) -> None:
    slept: list[float] = []
    seen: list[Progress] = []
    server.planned = [Fault(429, {"Retry-After": "3"}), Fault(503), Fault(drop=99), Fault(drop=0, reset=True)]
    assert request(server, sleep=slept.append, progress=seen.append).body == CONTENT
    assert sum(slept) == 3 + 2 + 4 + 8
    assert [step.note.replace(server.url, "URL") for step in seen[:3]] == [
        "URL, waiting 3 s: the server answered 429 Too Many Requests",
        "URL, waiting 2 s: the server answered 503 Service Unavailable",
        "URL, waiting 4 s: the connection was closed early",
    ]


def test_a_request_fails_after_its_last_attempt(server: Server) -> None:
    server.planned = [Fault(503)] * 5
    text = error_message(server)
    assert text.startswith("URL: ")
    assert "5 attempts" in text
    assert "503 Service Unavailable" in text
    assert len(server.requests) == 5


def test_a_missing_page_raises_its_own_exception(server: Server) -> None:
    server.planned = [Fault(404)]
    assert "404 Not Found" in error_message(server, NotFoundError)


def test_a_response_that_is_too_long_is_refused(server: Server) -> None:
    server.planned = [Fault(body=bytes(100_000)), Fault(body=bytes(100_001))]
    assert request(server, max_bytes=100_000).body == bytes(100_000)
    assert "longer than 0.1 MB" in error_message(server, max_bytes=100_000)


def test_a_response_that_is_too_slow_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(0, 10**9, 300))
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    assert "the server was too slow" in error_message(server, timeout=5.0)


def test_a_response_with_a_content_encoding_is_refused(server: Server) -> None:
    server.planned = [Fault(headers={"Content-Encoding": "br"})]
    assert "encoding br" in error_message(server)


def test_should_stop_ends_the_wait_for_a_retry(server: Server) -> None:
    assert error_message(server, StoppedError, should_stop=lambda: True).startswith("URL: stopped")
    server.planned = [Fault(503, {"Retry-After": "3000"})]
    slept: list[float] = []
    error_message(server, StoppedError, sleep=slept.append, should_stop=lambda: len(slept) == 3)
    assert (len(slept), len(server.requests)) == (3, 1)


def test_no_request_is_sent_without_a_contact_or_to_a_file_address(server: Server) -> None:
    with pytest.raises(Cr5Error, match=r"^user agent 'cr5' names no contact; "):
        request(server, user_agent="cr5")
    with pytest.raises(Cr5Error, match=r"^'file:///etc/passwd' is not an address"):
        get("file:///etc/passwd", user_agent=USER_AGENT)
    assert server.requests == []


@pytest.mark.parametrize(
    ("link", "next_url"),
    [
        ('<http://a/b?cursor=1>; rel="next"', "http://a/b?cursor=1"),
        ('<x>; rel="prev", </c?d>; rel=next', "BASE/c?d"),
        ("<http://[x>; rel=next", "http://[x"),
        ('<x>; rel="previous"', None),
        ("next", None),
    ],
)
def test_the_next_page_is_read_from_the_link_header(server: Server, link: str, next_url: str | None) -> None:
    server.planned = [Fault(headers={"Link": link})]
    base = server.url.removesuffix("/dump.bz2")
    assert request(server).next_url == (next_url and next_url.replace("BASE", base))


# Redirects


def test_circular_redirects_and_redirects_to_other_protocols_are_refused(server: Server) -> None:
    server.planned = [Fault(302, {"Location": "/dump.bz2"})] * 99
    assert error_message(server).startswith("URL: redirected more than 5 times, last to URL")
    assert len(server.requests) == 6
    for place in ("file:///etc/passwd", "ftp://a/b", "http://[x"):
        server.planned = [Fault(302, {"Location": place})]
        assert error_message(server).startswith(f"URL: redirected to '{place}'")


class Moved(io.BytesIO):
    status, headers = 302, {"Location": "http://b/c"}


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (Moved(), "https://a/b: redirected from https to http://b/c"),
        (
            URLError(SSLCertVerificationError(1, "certificate verify failed")),
            "https://a/b: the certificate is not trusted",
        ),
        (UnicodeError("label too long"), "'a' is not a host name"),
    ],
)
def test_unsafe_hosts_are_refused_without_a_retry(
    monkeypatch: pytest.MonkeyPatch, outcome: Exception | Moved, text: str
) -> None:
    class Opener:
        def open(self, request: Any, timeout: float) -> Moved:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

    monkeypatch.setattr("cr5.sources.http.client._opener", Opener)
    with pytest.raises(Cr5Error) as caught:
        get("https://a/b", user_agent=USER_AGENT)
    assert str(caught.value).startswith(text)
