"""Downloads of wrong bytes, errors of the server, and files that exist."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faulty import (
    CONTENT,
    DEFAULTS,
    OTHER,
    TARGET,
    USER_AGENT,
    Answer,
    Server,
    files,
    get,
    is_complete,
    isolate,
    message,
    serving,
    sha1,
)

from cr5.errors import Cr5Error
from cr5.progress import Progress
from cr5.sources.http.download import fetch

NO_ADDRESS = "is not an address that can be fetched"


@pytest.fixture(autouse=True)
def isolated_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def record() -> dict[str, Any]:
    """What is recorded about the complete file."""
    values: dict[str, Any] = json.loads(Path("dump.bz2.fetched.json").read_bytes())
    return values


# Wrong bytes


def test_a_body_shorter_than_announced_is_never_complete(server: Server) -> None:
    server.planned = [Answer(headers={"Content-Length": "10300"})] * 30
    assert message(server, max_attempts=3).endswith("10.2 kB of 10.3 kB are kept")


def test_bytes_beyond_the_announced_length_are_ignored(server: Server) -> None:
    server.planned = [Answer(extra=b"and more")]
    assert is_complete(get(server))


def test_a_wrong_content_length_is_noticed_by_the_digest(server: Server) -> None:
    server.planned = [Answer(headers={"Content-Length": "10000"})]
    fetched = get(server, digest=sha1(CONTENT))
    assert is_complete(fetched)
    assert fetched.notes == ("its sha1 was wrong: restarted",)


def test_a_wrong_digest_restarts_the_download_once_and_then_is_an_error(server: Server) -> None:
    wanted, got = sha1(b"else"), sha1(CONTENT)
    assert message(server, digest=wanted).startswith(f"URL: its sha1 is {got[5:]}, not {wanted[5:]}")
    assert (server.ranges, files()) == (["all", "all"], set())


def test_a_damaged_partial_file_is_noticed_by_the_digest(server: Server) -> None:
    server.planned = [Answer(drop=6000)]
    message(server, max_attempts=1)
    Path("dump.bz2.part").write_bytes(bytes(6000))
    assert is_complete(get(server, digest=sha1(CONTENT)))
    assert server.ranges == ["all", "bytes=6000-", "all"]


def test_a_body_without_content_length_needs_a_digest(server: Server) -> None:
    server.planned = [Answer(headers={"Content-Length": None})] * 2
    assert message(server).endswith("give its `digest`")
    assert is_complete(get(server, digest=sha1(CONTENT)))


def test_a_content_encoding_that_was_not_requested_is_refused(server: Server) -> None:
    server.planned = [Answer(headers={"Content-Encoding": "gzip"})]
    assert "encoding gzip" in message(server)
    assert files() == set()


def test_a_stored_gz_file_may_be_sent_with_the_encoding_gzip(server: Server) -> None:
    server.planned = [Answer(headers={"Content-Encoding": "x-gzip"})]
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
    server.planned = [Answer(status)] * 2
    assert message(server).startswith(text)
    assert (len(server.requests), files()) == (1, set())


def test_a_permanent_status_while_resuming_keeps_the_partial_file(server: Server) -> None:
    server.planned = [Answer(drop=5000), Answer(404)]
    message(server)
    assert Path("dump.bz2.part").read_bytes() == CONTENT[:5000]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed_with_the_range(server: Server, status: int) -> None:
    hop = Answer(status, {"Location": "/mirror/a b.bz2"})
    server.planned = [hop, Answer(drop=4000), hop]
    assert is_complete(get(server))
    assert [path for _, path, _ in server.requests] == ["/dump.bz2", "/mirror/a%20b.bz2"] * 2
    assert server.requests[3][2]["range"] == "bytes=4000-"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"user_agent": ""}, "user agent '' names no contact"),
        ({"user_agent": "cr5"}, "user agent 'cr5' names no contact"),
        ({"user_agent": "a@b\nX: y"}, "user agent 'a@b\\nX: y' cannot be sent"),
        ({"digest": "crc:12"}, "`digest=crc:12`"),
        ({"digest": "md5:12"}, "`digest=md5:12`"),
        ({"path": Path()}, ".: this is a folder; name a file"),
        ({"path": Path("no/a")}, "no/a: the folder no does not exist; create it first"),
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


def test_a_file_with_the_recorded_digest_is_neither_downloaded_nor_read_again(server: Server) -> None:
    get(server, digest=sha1(CONTENT))
    seen: list[Progress] = []
    fetched = get(server, digest=sha1(CONTENT), progress=seen.append)
    assert (is_complete(fetched), seen) == (True, [])
    assert record()["etag"] == '"1"'
    assert len(server.requests) == 1


def test_a_file_of_other_origin_with_the_right_digest_is_used(server: Server) -> None:
    TARGET.write_bytes(CONTENT)
    assert is_complete(get(server, digest=sha1(CONTENT)))
    assert server.requests == []


def test_a_file_of_other_origin_that_is_wrong_is_not_touched(server: Server) -> None:
    TARGET.write_bytes(b"mine")
    not_ours = "dump.bz2: this file was not downloaded by cr5 and "
    assert message(server, digest=sha1(CONTENT)).startswith(f"{not_ours}its sha1 is not the published one")
    assert message(server).startswith(f"{not_ours}has 4 bytes, the server's has 10,240")
    server.planned = [Answer(404)]
    text = message(server)
    assert text.startswith(f"{not_ours}cannot be compared")
    assert "404 Not Found" in text
    assert files() == {"dump.bz2"}


def test_a_file_of_other_origin_and_the_right_size_is_used_with_a_note(server: Server) -> None:
    TARGET.write_bytes(CONTENT)
    fetched = get(server)
    assert is_complete(fetched)
    assert fetched.notes == ("existed already, with the same size as on the server; its content was not checked",)


def test_without_a_digest_the_server_is_asked_for_its_version(server: Server) -> None:
    get(server)
    fetched = get(server)
    assert is_complete(fetched)
    assert [method for method, _, _ in server.requests] == ["GET", "HEAD"]
    server.planned = [Answer(headers={"ETag": '"of another machine"'})]
    get(server)
    assert server.ranges == ["all"]
    server.content, server.etag, server.modified = OTHER, '"2"', "Fri, 02 Jan 2026 00:00:00 GMT"
    fetched = get(server)
    assert is_complete(fetched, OTHER)
    assert fetched.notes == ("no longer what the server has: restarted",)


def test_a_checked_digest_is_remembered(server: Server) -> None:
    get(server, digest=sha1(CONTENT))
    get(server)
    assert record()["digest"] == sha1(CONTENT)
    requests_before = len(server.requests)
    get(server, digest=sha1(CONTENT))
    assert len(server.requests) == requests_before


@pytest.mark.parametrize("status", [404, 405, 503])
def test_an_existing_file_is_kept_when_the_server_fails(server: Server, status: int) -> None:
    get(server)
    server.planned = [Answer(status)]
    fetched = get(server)
    assert is_complete(fetched)
    assert fetched.notes[0].startswith("kept as it was, because the server could not be asked: ")


def test_a_new_digest_replaces_the_file_only_when_the_new_one_is_complete(server: Server) -> None:
    get(server, digest=sha1(CONTENT))
    server.planned = [Answer(change=OTHER, drop=50), Answer(404)]
    message(server, digest=sha1(OTHER))
    assert TARGET.read_bytes() == CONTENT
    assert is_complete(get(server, digest=sha1(OTHER)), OTHER)


def test_a_file_that_was_changed_locally_is_not_overwritten(server: Server) -> None:
    get(server, digest=sha1(CONTENT))
    TARGET.write_bytes(OTHER)
    assert message(server, digest=sha1(CONTENT)).startswith("dump.bz2: this file was not downloaded by cr5")
