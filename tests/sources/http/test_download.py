"""Downloads from a faulty server: broken connections are resumed, and the bytes are right in the end."""

import hashlib
import json
import socket
import time
from contextlib import suppress
from email.utils import formatdate
from pathlib import Path

import pytest
from faulty import CONTENT, OTHER, TARGET, Server, files, get, is_complete, message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from local_server import USER_AGENT, Fault, sha1
from properties import up_to

from cr5.errors import Cr5Error
from cr5.progress import Progress
from cr5.sources.http.client import StoppedError
from cr5.sources.http.download import FetchedFile, fetch

# Without faults


def test_nothing_is_left_beside_a_complete_file(server: Server) -> None:
    fetched = get(server, digest=sha1(CONTENT))
    assert is_complete(fetched)
    assert fetched == FetchedFile(TARGET, ())


def test_requests_name_the_user_agent_and_refuse_compression(server: Server) -> None:
    get(server)
    ((method, path, headers),) = server.requests
    assert (method, path) == ("GET", "/dump.bz2")
    assert (headers["user-agent"], headers["accept-encoding"]) == (USER_AGENT, "identity")


def test_empty_and_chunked_files_are_complete(server: Server) -> None:
    server.planned = [Fault(chunked=True)]
    assert is_complete(get(server))
    server.content = b""
    get(server, Path("empty"))
    assert Path("empty").read_bytes() == b""


@pytest.mark.parametrize("algorithm", ["md5", "sha1", "sha256"])
def test_digests_are_checked_in_upper_and_lower_case(server: Server, algorithm: str) -> None:
    digest = f"{algorithm}:{hashlib.new(algorithm, CONTENT).hexdigest()}"
    assert is_complete(get(server, digest=digest.upper()))


def test_progress_reports_bytes_and_speed(server: Server) -> None:
    seen: list[Progress] = []
    get(server, progress=seen.append, digest=sha1(CONTENT))
    assert [(p.stage, p.done, p.total) for p in seen if p.done == p.total] == [
        ("download", 10240, 10240),
        ("check", 10240, 10240),
    ]
    assert seen[0].note.startswith("dump.bz2, ")
    assert seen[0].note.endswith(" MB/s")


def test_a_symbolic_link_stays_a_link(server: Server) -> None:
    Path("elsewhere").mkdir()
    Path("dump.bz2").symlink_to("elsewhere/real")
    get(server)
    assert Path("dump.bz2").is_symlink()
    assert Path("elsewhere/real").read_bytes() == CONTENT


# Broken connections


@pytest.mark.parametrize("reset", [False, True])
def test_a_dropped_connection_is_resumed_where_it_stopped(server: Server, reset: bool) -> None:
    server.planned = [Fault(drop=4000, reset=reset)]
    fetched = get(server)
    assert is_complete(fetched)
    assert len(server.requests) == 2
    if not reset:  # a reset may discard bytes that were in transit
        assert server.ranges == ["all", "bytes=4000-"]
        assert server.requests[1][2]["if-range"] == '"1"'
        assert fetched.notes == ()


def test_a_dropped_chunked_response_is_resumed(server: Server) -> None:
    server.planned = [Fault(chunked=True, drop=5100)]
    assert is_complete(get(server))
    assert server.ranges[0] == "all"
    assert server.ranges[1].startswith("bytes=5")


@pytest.mark.slow
def test_a_request_to_a_silent_server_is_repeated(server: Server) -> None:
    server.planned = [Fault(hang=True), Fault(hang=True, drop=7)]
    assert is_complete(get(server, timeout=1.0))
    assert server.ranges == ["all", "all", "bytes=7-"]


def test_the_retry_delay_doubles_up_to_five_minutes_and_is_reset_by_every_new_byte(server: Server) -> None:
    server.planned = [Fault(503)] * 3 + [Fault(drop=10)] + [Fault(503)] * 12
    seen: list[Progress] = []
    sleeps: list[float] = []
    assert is_complete(get(server, max_attempts=14, sleep=sleeps.append, progress=seen.append))
    waits = [int(p.note.split("waiting ")[1].split(" s:")[0]) for p in seen if "waiting" in p.note]
    assert waits == [1, 2, 4, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300]
    assert sum(sleeps) == sum(waits)
    assert max(sleeps) <= 1  # so that should_stop is called often


def test_attempts_without_a_new_byte_end_in_an_error_that_keeps_the_partial_file(server: Server) -> None:
    server.planned = [Fault(drop=4000)] + [Fault(502)] * 9
    assert message(server, max_attempts=3) == (
        "URL: nothing new after 3 attempts, the last error: the server answered 502 Bad Gateway; run it again later to "
        "resume; 4.0 kB of 10.2 kB are kept"
    )
    assert files() == {"dump.bz2.part", "dump.bz2.part.json"}
    assert len(server.requests) == 3  # the first one brought new bytes and is the first of three
    server.planned = []
    assert is_complete(get(server))
    assert server.ranges[-1] == "bytes=4000-"


@pytest.mark.usefixtures("isolated_folder")
def test_a_refused_connection_is_reported() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/a"
        with pytest.raises(Cr5Error) as caught:
            fetch(url, TARGET, user_agent=USER_AGENT, max_attempts=2, sleep=lambda _: None)
    assert str(caught.value).startswith(f"{url}: nothing new after 2 attempts")
    assert "connection refused" in str(caught.value)
    assert files() == set()


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_transient_statuses_are_retried(server: Server, status: int) -> None:
    server.planned = [Fault(status)]
    assert is_complete(get(server))


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_honoured_as_seconds_and_as_a_date(server: Server, status: int) -> None:
    sleeps: list[float] = []
    server.planned = [Fault(status, {"Retry-After": "120"})]
    get(server, Path("a"), sleep=sleeps.append)
    assert sum(sleeps) == 120
    server.planned = [Fault(status, {"Retry-After": formatdate(time.time() + 500, usegmt=True)})]
    get(server, Path("b"), sleep=sleeps.append)
    assert 610 < sum(sleeps) <= 620
    server.planned = [Fault(status, {"Retry-After": "soon"}), Fault(status, {"Retry-After": formatdate(0)})]
    get(server, Path("c"), sleep=sleeps.append)
    assert 613 < sum(sleeps) <= 623


def test_a_retry_after_of_hours_is_an_error(server: Server) -> None:
    server.planned = [Fault(429, {"Retry-After": "7200"})]
    assert "429 Too Many Requests and asks to wait 120 minutes" in message(server)


faults = st.lists(
    st.one_of(
        st.builds(Fault, drop=st.integers(0, 3000)),
        st.builds(Fault, drop=st.integers(0, 3000), reset=st.booleans(), chunked=st.booleans()),
        st.builds(Fault, drop=st.integers(0, 3000), ranges=st.just(False)),
        st.builds(Fault, change=st.binary(max_size=3000), drop=st.integers(0, 3000), conditions=st.booleans()),
        st.builds(Fault, status=st.sampled_from([429, 500, 503])),
        st.just(Fault(headers={"Content-Range": "bytes 1-2/3"})),
    ),
    max_size=12,
)


@given(st.lists(st.tuples(st.integers(0, 3000), st.booleans()), max_size=12))
@settings(max_examples=up_to(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sequence_of_drops_yields_the_exact_bytes(server: Server, drops: list[tuple[int, bool]]) -> None:
    for name in files():
        Path(name).unlink()
    server.planned = [Fault(drop=drop, reset=reset) for drop, reset in drops]
    assert is_complete(get(server, max_attempts=20, digest=sha1(CONTENT)))


@given(faults, st.booleans())
@settings(max_examples=up_to(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sequence_of_faults_yields_the_bytes_of_one_version(
    server: Server, answers: list[Fault], one_call_per_attempt: bool
) -> None:
    """Without a digest; in one call, or in one call per attempt."""
    for name in files():
        Path(name).unlink()
    server.content, server.planned = CONTENT, list(answers)
    while one_call_per_attempt and server.planned and not TARGET.exists():
        with suppress(Cr5Error):
            get(server, max_attempts=1)
    server.planned = server.planned if not TARGET.exists() else []
    fetched = get(server, max_attempts=50)
    assert is_complete(fetched, fetched.path.read_bytes())
    assert fetched.path.read_bytes() == server.content


# Resuming


def test_an_earlier_call_is_resumed(server: Server) -> None:
    server.planned = [Fault(drop=6000)]
    message(server, max_attempts=1)
    assert Path("dump.bz2.part").read_bytes() == CONTENT[:6000]
    fetched = get(server, digest=sha1(CONTENT))
    assert is_complete(fetched)
    assert server.ranges == ["all", "bytes=6000-"]


def test_a_partial_file_that_is_complete_is_only_checked_and_renamed(server: Server) -> None:
    Path("dump.bz2.part").write_bytes(CONTENT)
    record = {"url": server.url, "size": 10240, "etag": '"1"', "modified": "", "safe": 10240}
    Path("dump.bz2.part.json").write_text(json.dumps(record))
    assert is_complete(get(server, digest=sha1(CONTENT)))
    assert server.requests == []


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
def test_a_partial_file_without_a_record_or_from_another_address_is_restarted(server: Server, record: str) -> None:
    Path("dump.bz2.part").write_bytes(b"not the file")
    Path("dump.bz2.part.json").write_text(record)
    assert is_complete(get(server))
    assert server.ranges == ["all"]


def test_a_wrong_address_does_not_lose_the_partial_file_of_the_right_one(server: Server) -> None:
    server.planned = [Fault(drop=6000), Fault(404)]
    message(server, max_attempts=1)
    right, server.url = server.url, server.url + "x"
    assert message(server).startswith("URL: not found")
    server.url = right
    assert is_complete(get(server))
    assert server.ranges == ["all", "all", "bytes=6000-"]


def test_a_partial_file_from_another_address_is_replaced_by_the_first_byte(server: Server) -> None:
    server.planned = [Fault(drop=6000)]
    message(server, max_attempts=1)
    server.url += "x"
    server.planned = [Fault(503), Fault(drop=100)]
    fetched = get(server)
    assert is_complete(fetched)
    assert fetched.notes == ("the partial file came from another address: restarted",)
    assert server.ranges == ["all", "all", "all", "bytes=100-"]


def test_a_range_shorter_than_requested_does_not_end_the_file(server: Server) -> None:
    """The size of a chunked file is unknown, and a server may send less than was requested."""
    server.planned = [
        Fault(chunked=True, drop=5007),
        Fault(206, {"Content-Range": "bytes 5000-5009/*"}, body=CONTENT[5000:5010]),
        Fault(206, {"Content-Range": "bytes 5000-5009/10240"}, body=CONTENT[5000:5010]),
    ]
    assert is_complete(get(server))
    assert server.ranges == ["all", "bytes=5000-", "bytes=5000-", "bytes=5010-"]


def test_a_changed_file_is_restarted(server: Server) -> None:
    server.planned = [Fault(drop=4000), Fault(change=OTHER)]
    fetched = get(server)
    assert is_complete(fetched, OTHER)
    assert fetched.notes == ("changed on the server: restarted",)


def test_a_change_is_noticed_even_if_the_server_ignores_if_range(server: Server) -> None:
    server.planned = [Fault(drop=4000), Fault(change=OTHER, conditions=False)]
    fetched = get(server)
    assert is_complete(fetched, OTHER)
    assert server.ranges == ["all", "bytes=4000-", "all"]


def test_a_file_that_became_shorter_is_restarted(server: Server) -> None:
    server.planned = [Fault(drop=4000), Fault(change=b"short", conditions=False)]
    fetched = get(server)
    assert is_complete(fetched, b"short")
    assert fetched.notes == ("the server's file is not longer than what was received: restarted",)


def test_a_server_that_alternates_between_two_versions_is_given_up(server: Server) -> None:
    server.planned = [Fault(change=content, drop=4000) for content in [CONTENT, OTHER] * 20]
    text = message(server, max_attempts=4)
    assert text.startswith("URL: nothing new after 4 attempts, the last error: the connection was closed early")
    assert len(server.requests) == 4


def test_a_server_that_ignores_ranges_restarts_the_file_with_a_note(server: Server) -> None:
    server.planned = [Fault(drop=4000), Fault(ranges=False)]
    seen: list[Progress] = []
    fetched = get(server, progress=seen.append)
    assert is_complete(fetched)
    assert fetched.notes == ("the server ignores ranges: restarted",)
    assert "dump.bz2, the server ignores ranges: restarted" in [p.note for p in seen]


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
    server.planned = [Fault(drop=4000), Fault(headers=headers)]
    fetched = get(server, Path("once"))
    assert fetched.path.read_bytes() == CONTENT
    assert server.ranges == ["all", "bytes=4000-", "bytes=4000-"]
    server.planned = [Fault(drop=4000), Fault(headers=headers), Fault(headers=headers)]
    fetched = get(server, Path("twice"))
    assert fetched.path.read_bytes() == CONTENT
    assert server.ranges[3:] == ["all", "bytes=4000-", "bytes=4000-", "all"]
    assert fetched.notes == ("the server answers ranges with other bytes: restarted",)


def test_a_range_that_was_not_requested_is_not_trusted(server: Server) -> None:
    server.planned = [Fault(206, {"Content-Range": "bytes 5-10239/10240"}, body=CONTENT[5:])]
    assert is_complete(get(server))


@pytest.mark.parametrize("checked", [False, True])
def test_without_a_validator_only_a_digest_allows_resuming(server: Server, checked: bool) -> None:
    unnamed: dict[str, str | None] = {"ETag": 'W/"1"', "Last-Modified": None}
    server.planned = [Fault(drop=4000, headers=unnamed), Fault(headers=unnamed)]
    fetched = get(server, digest=sha1(CONTENT) if checked else None)
    assert is_complete(fetched)
    assert server.ranges == ["all", "bytes=4000-" if checked else "all"]
    assert len(fetched.notes) == (0 if checked else 1)
    assert "if-range" not in server.requests[1][2]


def test_with_a_weak_etag_the_date_is_the_validator(server: Server) -> None:
    server.planned = [Fault(drop=4000, headers={"ETag": 'W/"1"'}), Fault(headers={"ETag": None})]
    assert is_complete(get(server))
    assert server.requests[1][2]["if-range"] == server.modified


def test_an_interrupt_keeps_the_partial_file(server: Server) -> None:
    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    server.planned = [Fault(drop=5000, hang=True)]
    with pytest.raises(KeyboardInterrupt):
        get(server, progress=interrupt)
    server.release.set()
    assert Path("dump.bz2.part").read_bytes() == CONTENT[: Path("dump.bz2.part").stat().st_size] != b""
    assert is_complete(get(server))


def test_should_stop_keeps_the_partial_file(server: Server) -> None:
    server.planned = [Fault(drop=5000), Fault(503, {"Retry-After": "100"})]
    sleeps: list[float] = []
    assert message(server, error=StoppedError, sleep=sleeps.append, should_stop=lambda: len(sleeps) > 5) == (
        "dump.bz2.part: stopped, 5.0 kB of 10.2 kB are kept; run it again to resume"
    )
    assert message(server, error=StoppedError, should_stop=lambda: True, path=Path("other")) == (
        "other.part: stopped, nothing was received yet; run it again to resume"
    )
    assert is_complete(get(server))
    assert server.ranges[-1] == "bytes=5000-"
