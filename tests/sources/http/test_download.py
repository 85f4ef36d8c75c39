"""Files from servers that drop, lie and refuse: the right bytes in the end, or a clear error and nothing half done."""

import hashlib
import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from faulty import (
    AGENT,
    CONTENT,
    DEFAULTS,
    OTHER,
    TARGET,
    Answer,
    Server,
    files,
    get,
    message,
    serving,
    settle,
    sha1,
    whole,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cr5.errors import Cr5Error
from cr5.progress import Progress
from cr5.sources.http.client import StoppedError
from cr5.sources.http.download import Fetched, fetch

NO_ADDRESS = "is no address that can be fetched; it must be http:// or https:// and a host"


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(tmp_path, monkeypatch)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


# The straight way


def test_a_file_comes_whole_with_its_version_and_nothing_else_is_left(server: Server) -> None:
    found = get(server, digest=sha1(CONTENT))
    assert whole(found)
    assert found == Fetched(
        TARGET, server.url, 10240, sha1(CONTENT), '"1"', "Thu, 01 Jan 2026 00:00:00 GMT", 10240, 1, ()
    )


def test_the_server_is_told_who_asks_and_that_nothing_may_be_compressed(server: Server) -> None:
    get(server)
    ((method, path, headers),) = server.asked
    assert (method, path) == ("GET", "/dump.bz2")
    assert (headers["user-agent"], headers["accept-encoding"]) == (AGENT, "identity")


def test_an_empty_file_and_one_in_chunks_come_whole(server: Server) -> None:
    server.plan = [Answer(chunked=True)]
    assert whole(get(server))
    server.content = b""
    found = get(server, Path("empty"))
    assert (found.size, Path("empty").read_bytes()) == (0, b"")


@pytest.mark.parametrize("kind", ["md5", "sha1", "sha256"])
def test_every_kind_of_digest_is_checked_in_any_case(server: Server, kind: str) -> None:
    digest = f"{kind}:{hashlib.new(kind, CONTENT).hexdigest()}"
    assert get(server, digest=digest.upper()).digest == digest


def test_progress_counts_bytes_and_tells_the_speed(server: Server) -> None:
    seen: list[Progress] = []
    get(server, progress=seen.append, digest=sha1(CONTENT))
    assert [(p.stage, p.done, p.total) for p in seen if p.done == p.total] == [
        ("download", 10240, 10240),
        ("check", 10240, 10240),
    ]
    assert seen[0].note.startswith("dump.bz2, ")
    assert seen[0].note.endswith(" MB/s")


def test_a_link_stays_a_link(server: Server) -> None:
    Path("elsewhere").mkdir()
    Path("dump.bz2").symlink_to("elsewhere/real")
    get(server)
    assert Path("dump.bz2").is_symlink()
    assert Path("elsewhere/real").read_bytes() == CONTENT


# Broken connections


@pytest.mark.parametrize("reset", [False, True])
def test_a_dropped_connection_goes_on_where_it_stopped(server: Server, reset: bool) -> None:
    server.plan = [Answer(drop=4000, reset=reset)]
    found = get(server)
    assert whole(found)
    assert found.connections == 2
    if not reset:  # a reset may swallow bytes that were on their way
        assert server.ranges == ["all", "bytes=4000-"]
        assert server.asked[1][2]["if-range"] == '"1"'
        assert (found.received, found.notes) == (10240, ())


def test_a_dropped_chunk_goes_on(server: Server) -> None:
    server.plan = [Answer(chunked=True, drop=5100)]
    assert whole(get(server))
    assert server.ranges[0] == "all"
    assert server.ranges[1].startswith("bytes=5")


def test_a_silent_server_is_asked_again(server: Server) -> None:
    server.plan = [Answer(hang=True), Answer(hang=True, drop=7)]
    assert whole(get(server, timeout=1.0))
    assert server.ranges == ["all", "all", "bytes=7-"]


def test_the_pause_doubles_up_to_five_minutes_and_begins_anew_with_every_new_byte(server: Server) -> None:
    server.plan = [Answer(503)] * 3 + [Answer(drop=10)] + [Answer(503)] * 12
    seen: list[Progress] = []
    naps: list[float] = []
    assert whole(get(server, tries=14, sleep=naps.append, progress=seen.append))
    waits = [int(p.note.split("waiting ")[1].split(" s:")[0]) for p in seen if "waiting" in p.note]
    assert waits == [1, 2, 4, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300]
    assert sum(naps) == sum(waits)
    assert max(naps) <= 1  # so that stop is asked often


def test_a_server_that_brings_nothing_new_is_given_up_and_what_has_come_is_kept(server: Server) -> None:
    server.plan = [Answer(drop=4000)] + [Answer(502)] * 9
    assert message(server, tries=3) == (
        "URL: nothing new in 3 tries, at last the server answered 502 Bad Gateway; run it again later to go on; "
        "4.0 kB of 10.2 kB are kept"
    )
    assert files() == {"dump.bz2.part", "dump.bz2.part.json"}
    assert len(server.asked) == 3  # the first brought something and counts as the first of three
    server.plan = []
    assert whole(get(server))
    assert server.ranges[-1] == "bytes=4000-"


def test_where_nobody_listens_the_error_says_so() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/a"
        with pytest.raises(Cr5Error) as caught:
            fetch(url, TARGET, agent=AGENT, tries=2, sleep=lambda _: None)
    assert str(caught.value) == (
        f"{url}: nothing new in 2 tries, at last the connection failed, connection refused; run it again later to go "
        "on; nothing had come yet"
    )
    assert files() == set()


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_passing_trouble_passes(server: Server, status: int) -> None:
    server.plan = [Answer(status)]
    assert whole(get(server))


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_honoured_in_seconds_and_as_a_date(server: Server, status: int) -> None:
    naps: list[float] = []
    server.plan = [Answer(status, {"Retry-After": "120"})]
    get(server, Path("a"), sleep=naps.append)
    assert sum(naps) == 120
    server.plan = [Answer(status, {"Retry-After": formatdate(time.time() + 500, usegmt=True)})]
    get(server, Path("b"), sleep=naps.append)
    assert 610 < sum(naps) <= 620
    server.plan = [Answer(status, {"Retry-After": "soon"}), Answer(status, {"Retry-After": formatdate(0)})]
    get(server, Path("c"), sleep=naps.append)
    assert 613 < sum(naps) <= 623


def test_a_server_that_wants_hours_is_left_in_peace(server: Server) -> None:
    server.plan = [Answer(429, {"Retry-After": "7200"})]
    assert message(server) == (
        "URL: the server answers 429 Too Many Requests and asks to wait 120 minutes; run it then"
    )


faults = st.lists(
    st.one_of(
        st.builds(Answer, drop=st.integers(0, 3000)),
        st.builds(Answer, drop=st.integers(0, 3000), reset=st.booleans(), chunked=st.booleans()),
        st.builds(Answer, drop=st.integers(0, 3000), ranges=st.just(False)),
        st.builds(Answer, change=st.binary(max_size=3000), drop=st.integers(0, 3000), conditions=st.booleans()),
        st.builds(Answer, status=st.sampled_from([429, 500, 503])),
        st.just(Answer(headers={"Content-Range": "bytes 1-2/3"})),
    ),
    max_size=12,
)


@given(st.lists(st.tuples(st.integers(0, 3000), st.booleans()), max_size=12))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sequence_of_drops_yields_the_exact_bytes(server: Server, drops: list[tuple[int, bool]]) -> None:
    for name in files():
        Path(name).unlink()
    server.plan = [Answer(drop=drop, reset=reset) for drop, reset in drops]
    assert whole(get(server, tries=20, digest=sha1(CONTENT)))


@given(faults, st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sequence_of_faults_yields_the_bytes_of_one_version(
    server: Server, plan: list[Answer], again: bool
) -> None:
    """Without a digest; in one call, or one call for each try."""
    for name in files():
        Path(name).unlink()
    server.content, server.plan = CONTENT, list(plan)
    while again and server.plan and not TARGET.exists():
        with suppress(Cr5Error):
            get(server, tries=1)
    server.plan = server.plan if not TARGET.exists() else []
    found = get(server, tries=50)
    assert whole(found, found.path.read_bytes())
    assert found.path.read_bytes() == server.content


# Resuming


def test_what_an_earlier_call_left_is_gone_on_with(server: Server) -> None:
    server.plan = [Answer(drop=6000)]
    message(server, tries=1)
    assert Path("dump.bz2.part").read_bytes() == CONTENT[:6000]
    found = get(server, digest=sha1(CONTENT))
    assert whole(found)
    assert (found.received, server.ranges) == (4240, ["all", "bytes=6000-"])


def test_a_part_that_was_whole_is_only_checked_and_named(server: Server) -> None:
    Path("dump.bz2.part").write_bytes(CONTENT)
    record = {"url": server.url, "size": 10240, "etag": '"1"', "modified": "", "safe": 10240}
    Path("dump.bz2.part.json").write_text(json.dumps(record))
    assert whole(get(server, digest=sha1(CONTENT)))
    assert server.asked == []


@pytest.mark.parametrize(
    "record",
    [
        "",
        "[]",
        "{}",
        '{"safe": -5, "size": null}',
        '{"safe": 5, "size": "x"}',
        '{"url": "http://elsewhere/", "size": 9, "etag": "", "modified": "", "safe": 5}',
    ],
)
def test_a_part_without_its_record_or_of_another_address_is_begun_anew(server: Server, record: str) -> None:
    Path("dump.bz2.part").write_bytes(b"not the file")
    Path("dump.bz2.part.json").write_text(record)
    assert whole(get(server))
    assert server.ranges == ["all"]


def test_a_wrong_address_does_not_cost_the_part_of_the_right_one(server: Server) -> None:
    server.plan = [Answer(drop=6000), Answer(404)]
    message(server, tries=1)
    right, server.url = server.url, server.url + "x"
    assert message(server).startswith("URL: not there")
    server.url = right
    assert whole(get(server))
    assert server.ranges == ["all", "all", "bytes=6000-"]


def test_the_part_of_another_address_gives_way_to_the_first_byte(server: Server) -> None:
    server.plan = [Answer(drop=6000)]
    message(server, tries=1)
    server.url += "x"
    server.plan = [Answer(503), Answer(drop=100)]
    found = get(server)
    assert whole(found)
    assert found.notes == ("the part was of another address: begun anew",)
    assert server.ranges == ["all", "all", "all", "bytes=100-"]


def test_an_end_of_unknown_length_is_not_taken_for_the_end(server: Server) -> None:
    """Of a file in chunks nobody knows the size, and a server may send less than was asked for."""
    server.plan = [
        Answer(chunked=True, drop=5007),
        Answer(206, {"Content-Range": "bytes 5000-5009/*"}, body=CONTENT[5000:5010]),
        Answer(206, {"Content-Range": "bytes 5000-5009/10240"}, body=CONTENT[5000:5010]),
    ]
    assert whole(get(server))
    assert server.ranges == ["all", "bytes=5000-", "bytes=5000-", "bytes=5010-"]


def test_a_file_that_changed_is_begun_anew(server: Server) -> None:
    server.plan = [Answer(drop=4000), Answer(change=OTHER)]
    found = get(server)
    assert whole(found, OTHER)
    assert found.notes == ("changed on the server: begun anew",)
    assert found.etag == '"2"'


def test_a_change_is_seen_though_the_server_ignores_the_condition(server: Server) -> None:
    server.plan = [Answer(drop=4000), Answer(change=OTHER, conditions=False)]
    found = get(server)
    assert whole(found, OTHER)
    assert server.ranges == ["all", "bytes=4000-", "all"]


def test_a_file_that_became_shorter_is_begun_anew(server: Server) -> None:
    server.plan = [Answer(drop=4000), Answer(change=b"short", conditions=False)]
    found = get(server)
    assert whole(found, b"short")
    assert found.notes == ("the server's file is not longer than what has come: begun anew",)


def test_a_server_with_two_versions_in_turn_is_given_up(server: Server) -> None:
    server.plan = [Answer(change=content, drop=4000) for content in [CONTENT, OTHER] * 20]
    text = message(server, tries=4)
    assert text.startswith("URL: nothing new in 4 tries, at last the connection broke; run it again later to go on; ")
    assert len(server.asked) == 4


def test_a_server_that_ignores_ranges_begins_anew_and_it_is_said(server: Server) -> None:
    server.plan = [Answer(drop=4000), Answer(ranges=False)]
    seen: list[Progress] = []
    found = get(server, progress=seen.append)
    assert whole(found)
    assert found.notes == ("the server ignores ranges: begun anew",)
    assert "dump.bz2, the server ignores ranges: begun anew" in [p.note for p in seen]


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Range": "bytes 3999-10239/10240"},
        {"Content-Range": "bytes 4000-10240/10240"},
        {"Content-Range": "bytes 4000-3999/10240"},
        {"Content-Range": "items 1-2/3"},
        {"Content-Range": None},
        {"Content-Length": "77"},
    ],
)
def test_a_wrong_content_range_is_not_trusted(server: Server, headers: dict[str, str | None]) -> None:
    server.plan = [Answer(drop=4000), Answer(headers=headers)]
    found = get(server, Path("once"))
    assert found.path.read_bytes() == CONTENT
    assert server.ranges == ["all", "bytes=4000-", "bytes=4000-"]
    server.plan = [Answer(drop=4000), Answer(headers=headers), Answer(headers=headers)]
    found = get(server, Path("twice"))
    assert found.path.read_bytes() == CONTENT
    assert server.ranges[3:] == ["all", "bytes=4000-", "bytes=4000-", "all"]
    assert found.notes == ("the server answers ranges with other bytes: begun anew",)


def test_a_part_that_nobody_asked_for_is_not_trusted(server: Server) -> None:
    server.plan = [Answer(206, {"Content-Range": "bytes 5-10239/10240"}, body=CONTENT[5:])]
    assert whole(get(server))


@pytest.mark.parametrize("checked", [False, True])
def test_without_any_version_only_a_digest_allows_to_go_on(server: Server, checked: bool) -> None:
    unnamed: dict[str, str | None] = {"ETag": 'W/"1"', "Last-Modified": None}
    server.plan = [Answer(drop=4000, headers=unnamed), Answer(headers=unnamed)]
    found = get(server, digest=sha1(CONTENT) if checked else None)
    assert whole(found)
    assert server.ranges == ["all", "bytes=4000-" if checked else "all"]
    assert len(found.notes) == (0 if checked else 1)
    assert "if-range" not in server.asked[1][2]


def test_a_weak_tag_leaves_the_date_to_tell_versions_apart(server: Server) -> None:
    server.plan = [Answer(drop=4000, headers={"ETag": 'W/"1"'}), Answer(headers={"ETag": None})]
    assert whole(get(server))
    assert server.asked[1][2]["if-range"] == server.modified


def test_an_interrupt_keeps_what_has_come(server: Server) -> None:
    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    server.plan = [Answer(drop=5000, hang=True)]
    with pytest.raises(KeyboardInterrupt):
        get(server, progress=interrupt)
    server.release.set()
    assert Path("dump.bz2.part").read_bytes() == CONTENT[: Path("dump.bz2.part").stat().st_size] != b""
    assert whole(get(server))


def test_a_request_to_stop_keeps_what_has_come(server: Server) -> None:
    server.plan = [Answer(drop=5000), Answer(503, {"Retry-After": "100"})]
    naps: list[float] = []
    assert message(server, kind=StoppedError, sleep=naps.append, stop=lambda: len(naps) > 5) == (
        "dump.bz2.part: stopped, 5.0 kB of 10.2 kB are kept; run it again to go on"
    )
    assert message(server, kind=StoppedError, stop=lambda: True, path=Path("other")) == (
        "other.part: stopped, nothing had come yet; run it again to go on"
    )
    assert whole(get(server))
    assert server.ranges[-1] == "bytes=5000-"


# Wrong bytes


def test_a_body_shorter_than_announced_is_never_taken_for_whole(server: Server) -> None:
    server.plan = [Answer(headers={"Content-Length": "10300"})] * 30
    text = message(server, tries=3)
    assert text == (
        "URL: nothing new in 3 tries, at last the connection broke; run it again later to go on; "
        "10.2 kB of 10.3 kB are kept"
    )


def test_of_a_body_longer_than_announced_the_announced_bytes_are_the_file(server: Server) -> None:
    server.plan = [Answer(extra=b"and more")]
    assert whole(get(server))


def test_a_length_that_cuts_the_file_is_found_by_its_digest(server: Server) -> None:
    server.plan = [Answer(headers={"Content-Length": "10000"})]
    found = get(server, digest=sha1(CONTENT))
    assert whole(found)
    assert found.notes == ("its sha1 was wrong: begun anew",)


def test_a_wrong_digest_is_tried_once_more_from_the_start_and_then_an_error(server: Server) -> None:
    wanted, got = sha1(b"else"), sha1(CONTENT)
    assert message(server, digest=wanted) == (
        f"URL: its sha1 is {got[5:]}, not {wanted[5:]}, also when fetched again; nothing is kept; take another mirror, "
        "or another dump"
    )
    assert (server.ranges, files()) == (["all", "all"], set())


def test_a_part_that_was_damaged_is_healed_where_a_digest_is_given(server: Server) -> None:
    server.plan = [Answer(drop=6000)]
    message(server, tries=1)
    Path("dump.bz2.part").write_bytes(bytes(6000))
    assert whole(get(server, digest=sha1(CONTENT)))
    assert server.ranges == ["all", "bytes=6000-", "all"]


def test_a_body_without_length_needs_a_digest(server: Server) -> None:
    server.plan = [Answer(headers={"Content-Length": None})] * 2
    assert message(server) == (
        "URL: the server does not tell how long it is, so that a broken connection would look like its end; give its "
        "digest"
    )
    assert whole(get(server, digest=sha1(CONTENT)))


def test_a_body_that_is_compressed_unasked_is_refused(server: Server) -> None:
    server.plan = [Answer(headers={"Content-Encoding": "gzip"})]
    assert message(server) == (
        "URL: the server sends it as gzip, which was not asked for; take another mirror, or fetch it by other means to "
        "dump.bz2"
    )
    assert files() == set()


def test_a_gz_that_is_labelled_as_such_is_the_file_itself(server: Server) -> None:
    server.plan = [Answer(headers={"Content-Encoding": "x-gzip"})]
    server.url = server.url.replace(".bz2", ".gz")
    assert whole(get(server))


# Refusals


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (404, "URL: not there, the server answers 404 Not Found; check the address, or take a newer dump"),
        (410, "URL: not there, the server answers 410 Gone; check the address, or take a newer dump"),
        (401, f"URL: the server answers 401 Unauthorized; check the address and the contact in '{AGENT}'"),
        (403, f"URL: the server answers 403 Forbidden; check the address and the contact in '{AGENT}'"),
        (400, "URL: the server answers 400 Bad Request, which does not help; check the address or try later"),
        (501, "URL: the server answers 501 Not Implemented, which does not help; check the address or try later"),
    ],
)
def test_a_refusal_is_final_and_leaves_nothing(server: Server, status: int, text: str) -> None:
    server.plan = [Answer(status)] * 2
    assert message(server) == text
    assert (len(server.asked), files()) == (1, set())


def test_a_refusal_in_the_middle_keeps_the_part(server: Server) -> None:
    server.plan = [Answer(drop=5000), Answer(404)]
    message(server)
    assert Path("dump.bz2.part").read_bytes() == CONTENT[:5000]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed_with_the_range(server: Server, status: int) -> None:
    hop = Answer(status, {"Location": "/mirror/a b.bz2"})
    server.plan = [hop, Answer(drop=4000), hop]
    assert whole(get(server))
    assert [path for _, path, _ in server.asked] == ["/dump.bz2", "/mirror/a%20b.bz2"] * 2
    assert server.asked[3][2]["range"] == "bytes=4000-"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"agent": ""}, "user agent '' names no contact; add an address, as in 'cr5 (you@example.org)'"),
        ({"agent": "cr5"}, "user agent 'cr5' names no contact; add an address, as in 'cr5 (you@example.org)'"),
        ({"agent": "a@b\nX: y"}, "user agent 'a@b\\nX: y' cannot be sent; use plain letters in one line"),
        ({"digest": "crc:12"}, "digest 'crc:12' is none; write md5:, sha1: or sha256: and its hexadecimal digits"),
        ({"digest": "md5:12"}, "digest 'md5:12' is none; write md5:, sha1: or sha256: and its hexadecimal digits"),
        ({"path": Path()}, ".: this is a folder; name a file"),
        ({"path": Path("no/a")}, "no/a: the folder no does not exist; create it first"),
        ({"url": "ftp://a/b"}, f"'ftp://a/b' {NO_ADDRESS}"),
        ({"url": "http:///b"}, f"'http:///b' {NO_ADDRESS}"),
        ({"url": "http://a:b/c"}, f"'http://a:b/c' {NO_ADDRESS}"),
        ({"url": "http://me:secret@a/c"}, f"'http://me:secret@a/c' {NO_ADDRESS}"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_first(change: dict[str, Any], text: str) -> None:
    with pytest.raises(Cr5Error) as caught:
        fetch(**DEFAULTS | {"url": "http://127.0.0.1:9/a", "path": TARGET} | change)
    assert str(caught.value) == text


# Files that are there


def test_a_file_with_the_right_digest_is_not_fetched_again_nor_even_read(server: Server) -> None:
    get(server, digest=sha1(CONTENT))
    seen: list[Progress] = []
    found = get(server, digest=sha1(CONTENT), progress=seen.append)
    assert (whole(found), found.received, found.connections, seen) == (True, 0, 0, [])
    assert found.etag == '"1"'
    assert len(server.asked) == 1


def test_a_file_from_elsewhere_with_the_right_digest_is_taken(server: Server) -> None:
    TARGET.write_bytes(CONTENT)
    assert whole(get(server, digest=sha1(CONTENT)))
    assert server.asked == []


def test_a_file_from_elsewhere_that_is_wrong_is_not_touched(server: Server) -> None:
    TARGET.write_bytes(b"mine")
    assert message(server, digest=sha1(CONTENT)) == (
        "dump.bz2: this file was not fetched by cr5 and its sha1 is not the published one; move it away to fetch it"
    )
    assert message(server) == (
        "dump.bz2: this file was not fetched by cr5 and has 4 bytes, the server's 10,240; move it away to fetch it"
    )
    server.plan = [Answer(404)]
    assert message(server) == (
        "dump.bz2: this file was not fetched by cr5 and cannot be compared with the server's: URL: not there, the "
        "server answers 404 Not Found; check the address, or take a newer dump; move it away to fetch it"
    )
    assert files() == {"dump.bz2"}


def test_a_file_from_elsewhere_of_the_right_length_is_taken_and_it_is_said(server: Server) -> None:
    TARGET.write_bytes(CONTENT)
    found = get(server)
    assert whole(found)
    assert found.notes == ("it was there already, as long as the server's; its content was not checked",)


def test_without_a_digest_the_server_is_asked_whether_it_has_another(server: Server) -> None:
    get(server)
    found = get(server)
    assert (whole(found), found.received) == (True, 0)
    assert [method for method, _, _ in server.asked] == ["GET", "HEAD"]
    server.plan = [Answer(headers={"ETag": '"of another machine"'})]
    assert get(server).received == 0
    server.content, server.etag, server.modified = OTHER, '"2"', "Fri, 02 Jan 2026 00:00:00 GMT"
    found = get(server)
    assert whole(found, OTHER)
    assert found.notes == ("not what the server has any more: begun anew",)


def test_a_check_is_remembered_by_calls_that_ask_for_none(server: Server) -> None:
    get(server, digest=sha1(CONTENT))
    assert get(server).digest == sha1(CONTENT)
    assert get(server, digest=sha1(CONTENT)).connections == 0


@pytest.mark.parametrize("status", [404, 405, 503])
def test_a_file_that_is_there_outlives_the_server(server: Server, status: int) -> None:
    get(server)
    server.plan = [Answer(status)]
    found = get(server)
    assert whole(found)
    assert found.notes[0].startswith("kept as it was, because the server could not be asked: ")


def test_a_new_checksum_brings_the_new_file_and_the_old_one_stays_until_then(server: Server) -> None:
    get(server, digest=sha1(CONTENT))
    server.plan = [Answer(change=OTHER, drop=50), Answer(404)]
    message(server, digest=sha1(OTHER))
    assert TARGET.read_bytes() == CONTENT
    assert whole(get(server, digest=sha1(OTHER)), OTHER)


def test_a_file_that_was_changed_here_is_hashed_and_not_overwritten(server: Server) -> None:
    get(server, digest=sha1(CONTENT))
    TARGET.write_bytes(OTHER)
    assert message(server, digest=sha1(CONTENT)).startswith("dump.bz2: this file was not fetched by cr5")
