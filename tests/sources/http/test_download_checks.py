"""Downloads of wrong bytes, errors of the server, and files that exist."""

from pathlib import Path
from typing import Any

import pytest
from faulty import CONTENT, DEFAULTS, OTHER, TARGET, Server, files, get, is_complete, message
from local_server import USER_AGENT, Fault, sha1

from cr5.errors import Cr5Error
from cr5.progress import Progress
from cr5.sources.http.download import fetch

NO_ADDRESS = "is not an address that can be fetched"


# Wrong bytes


def test_a_body_shorter_than_announced_is_never_complete(server: Server) -> None:
    server.planned = [Fault(headers={"Content-Length": "10300"})] * 30
    assert message(server, max_attempts=3).endswith("10.2 kB of 10.3 kB are kept")


def test_bytes_beyond_the_announced_length_are_ignored(server: Server) -> None:
    server.planned = [Fault(extra=b"and more")]
    assert is_complete(get(server))


def test_a_wrong_content_length_is_noticed_by_the_digest(server: Server) -> None:
    server.planned = [Fault(headers={"Content-Length": "10000"})]
    fetched = get(server, digest=sha1(CONTENT))
    assert is_complete(fetched)
    assert fetched.notes == ("its sha1 was wrong: restarted",)


def test_a_wrong_digest_restarts_the_download_once_and_then_is_an_error(server: Server) -> None:
    wanted, got = sha1(b"else"), sha1(CONTENT)
    assert message(server, digest=wanted).startswith(f"URL: its sha1 is {got[5:]}, not {wanted[5:]}")
    assert (server.ranges, files()) == (["all", "all"], set())


def test_a_damaged_partial_file_is_noticed_by_the_digest(server: Server) -> None:
    server.planned = [Fault(drop=6000)]
    message(server, max_attempts=1)
    Path("dump.bz2.part").write_bytes(bytes(6000))
    assert is_complete(get(server, digest=sha1(CONTENT)))
    assert server.ranges == ["all", "bytes=6000-", "all"]


def test_a_body_without_content_length_needs_a_digest(server: Server) -> None:
    server.planned = [Fault(headers={"Content-Length": None})] * 2
    assert message(server).endswith("give its `digest`")
    assert is_complete(get(server, digest=sha1(CONTENT)))


def test_a_content_encoding_that_was_not_requested_is_refused(server: Server) -> None:
    server.planned = [Fault(headers={"Content-Encoding": "gzip"})]
    assert "encoding gzip" in message(server)
    assert files() == set()


def test_a_stored_gz_file_may_be_sent_with_the_encoding_gzip(server: Server) -> None:
    server.planned = [Fault(headers={"Content-Encoding": "x-gzip"})]
    server.url = server.url.replace(".bz2", ".gz")
    assert is_complete(get(server))


# Errors of the server and of the arguments


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (404, "URL: not found, the server answers 404 Not Found"),
        (410, "URL: not found, the server answers 410 Gone"),
        (401, f"URL: the server answers 401 Unauthorized; check the address and the contact in '{USER_AGENT}'"),
        (403, f"URL: the server answers 403 Forbidden; check the address and the contact in '{USER_AGENT}'"),
        (400, "URL: the server answers 400 Bad Request"),
        (501, "URL: the server answers 501 Not Implemented"),
    ],
)
def test_a_permanent_status_is_not_retried_and_leaves_nothing(server: Server, status: int, text: str) -> None:
    server.planned = [Fault(status)] * 2
    assert message(server).startswith(text)
    assert (len(server.requests), files()) == (1, set())


def test_a_permanent_status_while_resuming_keeps_the_partial_file(server: Server) -> None:
    server.planned = [Fault(drop=5000), Fault(404)]
    message(server)
    assert Path("dump.bz2.part").read_bytes() == CONTENT[:5000]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed_with_the_range(server: Server, status: int) -> None:
    hop = Fault(status, {"Location": "/mirror/a b.bz2"})
    server.planned = [hop, Fault(drop=4000), hop]
    assert is_complete(get(server))
    assert [path for _, path, _ in server.requests] == ["/dump.bz2", "/mirror/a%20b.bz2"] * 2
    assert server.requests[3][2]["range"] == "bytes=4000-"


@pytest.mark.usefixtures("isolated_folder")
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"user_agent": ""}, "user agent '' names no contact"),
        ({"user_agent": "cr5"}, "user agent 'cr5' names no contact"),
        ({"user_agent": "a@b\nX: y"}, "user agent 'a@b\\nX: y' cannot be sent"),
        ({"digest": "crc:12"}, "`digest=crc:12`"),
        ({"digest": "md5:12"}, "`digest=md5:12`"),
        ({"path": Path()}, ". cannot be written: it is a folder; name a file in it"),
        ({"path": Path("no/a")}, "no/a cannot be written: there is no folder no; create it first"),
        ({"url": "ftp://a/b"}, f"'ftp://a/b' {NO_ADDRESS}"),
        ({"url": "http:///b"}, f"'http:///b' {NO_ADDRESS}"),
        ({"url": "http://a:b/c"}, f"'http://a:b/c' {NO_ADDRESS}"),
        ({"url": "http://me:secret@a/c"}, f"'http://me:secret@a/c' {NO_ADDRESS}"),
    ],
)
def test_invalid_arguments_are_refused_before_any_request(change: dict[str, Any], text: str) -> None:
    with pytest.raises(Cr5Error) as caught:
        fetch(**DEFAULTS | {"url": "http://127.0.0.1:9/a", "path": TARGET} | change)
    assert str(caught.value).startswith(text)


# Files that exist


def test_a_complete_file_is_neither_asked_for_nor_changed(server: Server) -> None:
    get(server, digest=sha1(CONTENT))
    seen: list[Progress] = []
    server.content = OTHER
    assert is_complete(get(server, digest=sha1(CONTENT), progress=seen.append))
    assert (seen, len(server.requests)) == ([], 1)
