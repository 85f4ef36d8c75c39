"""Servers that drop, lie and refuse: a page comes whole, or an error says why not."""

import io
import time
from collections.abc import Iterator
from pathlib import Path
from ssl import SSLCertVerificationError
from typing import Any
from urllib.error import URLError

import pytest
from faulty import AGENT, CONTENT, DEFAULTS, Answer, Server, files, serving, settle

from cr5.errors import Cr5Error
from cr5.progress import Progress
from cr5.sources.http.client import MissingError, Page, StoppedError, get


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(tmp_path, monkeypatch)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def page(server: Server, **options: Any) -> Page:
    return get(server.url, **DEFAULTS | options)


def page_message(server: Server, kind: type[Cr5Error] = Cr5Error, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        page(server, **options)
    return str(caught.value).replace(server.url, "URL")


def test_a_page_comes_whole_and_leaves_nothing_on_the_disk(server: Server) -> None:
    assert page(server) == Page(CONTENT, None)
    server.plan = [Answer(chunked=True), Answer(body=b""), Answer(302, {"Location": "/other"}, body=b"")]
    assert [page(server).body for _ in range(3)] == [CONTENT, b"", CONTENT]
    assert {headers["user-agent"] for _, _, headers in server.asked} == {AGENT}
    assert files() == set()


def test_a_page_is_asked_for_again_after_what_passes(server: Server) -> None:
    slept: list[float] = []
    seen: list[Progress] = []
    server.plan = [Answer(429, {"Retry-After": "3"}), Answer(503), Answer(drop=99), Answer(drop=0, reset=True)]
    assert page(server, sleep=slept.append, progress=seen.append).body == CONTENT
    assert sum(slept) == 3 + 2 + 4 + 8
    assert [step.note.replace(server.url, "URL") for step in seen[:3]] == [
        "URL, waiting 3 s: the server answered 429 Too Many Requests",
        "URL, waiting 2 s: the server answered 503 Service Unavailable",
        "URL, waiting 4 s: the connection broke",
    ]


def test_a_page_that_does_not_come_is_given_up(server: Server) -> None:
    server.plan = [Answer(503)] * 5
    assert page_message(server) == (
        "URL: nothing came in 5 tries, at last the server answered 503 Service Unavailable; check the address and the "
        "network, or run it again later"
    )
    assert len(server.asked) == 5


def test_a_page_that_is_not_there_is_an_error_of_its_own(server: Server) -> None:
    server.plan = [Answer(404)]
    assert page_message(server, MissingError) == (
        "URL: not there, the server answers 404 Not Found; check the address, or take a newer dump"
    )


def test_a_page_without_end_is_refused(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cr5.sources.http.client._PAGE", 100_000)
    server.plan = [Answer(body=bytes(100_000)), Answer(body=bytes(100_001))]
    assert page(server).body == bytes(100_000)
    assert page_message(server) == "URL: longer than 0.1 MB, which no listing is; check the address"


def test_a_page_that_trickles_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(0, 10**9, 300))
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    assert "at last the server was too slow" in page_message(server, timeout=5.0)


def test_a_page_that_was_compressed_on_the_way_is_refused(server: Server) -> None:
    server.plan = [Answer(headers={"Content-Encoding": "br"})]
    assert page_message(server) == "URL: the server sends it as br, which was not asked for; take another mirror"


def test_a_page_is_not_waited_for_after_a_request_to_stop(server: Server) -> None:
    assert page_message(server, StoppedError, stop=lambda: True) == "URL: stopped; run it again to go on"
    server.plan = [Answer(503, {"Retry-After": "3000"})]
    slept: list[float] = []
    page_message(server, StoppedError, sleep=slept.append, stop=lambda: len(slept) == 3)
    assert (len(slept), len(server.asked)) == (3, 1)


def test_nobody_is_asked_for_a_page_without_a_contact(server: Server) -> None:
    with pytest.raises(Cr5Error, match=r"^user agent 'cr5' names no contact; "):
        page(server, agent="cr5")
    with pytest.raises(Cr5Error, match=r"^'file:///etc/passwd' is no address that can be fetched; "):
        get("file:///etc/passwd", agent=AGENT)
    assert server.asked == []


@pytest.mark.parametrize(
    ("link", "place"),
    [
        ('<http://a/b?cursor=1>; rel="next"', "http://a/b?cursor=1"),
        ('<x>; rel="prev", </c?d>; rel=next', "BASE/c?d"),
        ("<http://[x>; rel=next", "http://[x"),
        ('<x>; rel="previous"', None),
        ("next", None),
    ],
)
def test_a_page_tells_where_it_goes_on(server: Server, link: str, place: str | None) -> None:
    server.plan = [Answer(headers={"Link": link})]
    base = server.url.removesuffix("/dump.bz2")
    assert page(server).next == (place and place.replace("BASE", base))


# Redirects


def test_redirects_in_a_circle_and_out_of_the_web_are_refused(server: Server) -> None:
    server.plan = [Answer(302, {"Location": "/dump.bz2"})] * 99
    assert page_message(server) == "URL: redirected more than 5 times, last to URL; check the address"
    assert len(server.asked) == 6
    for place in ("file:///etc/passwd", "ftp://a/b", "http://[x"):
        server.plan = [Answer(302, {"Location": place})]
        assert page_message(server) == f"URL: redirected to '{place}', which is no http address; check the address"


class Moved(io.BytesIO):
    status, headers = 302, {"Location": "http://b/c"}


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (Moved(), "https://a/b: redirected from https to http://b/c, which anybody can read; check the address"),
        (
            URLError(SSLCertVerificationError(1, "certificate verify failed")),
            "https://a/b: the certificate is not trusted; check the address and this machine's clock",
        ),
        (UnicodeError("label too long"), "'a' is no host name; check the address"),
    ],
)
def test_a_host_that_is_not_safe_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, outcome: Exception | Moved, text: str
) -> None:
    class Opener:
        def open(self, request: Any, timeout: float) -> Moved:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

    monkeypatch.setattr("cr5.sources.http.client._opener", Opener)
    with pytest.raises(Cr5Error) as caught:
        get("https://a/b", agent=AGENT)
    assert str(caught.value) == text
