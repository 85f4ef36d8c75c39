"""Listings of dumps on servers that fail or send nonsense."""

import bz2
import gzip
import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dump_listings import ARTICLES, DA, find, message, props_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from local_server import USER_AGENT, Fault, sha1
from mirror import (
    TREE,
    Mirror,
    publish_jobs,
    publish_parquet,
    publish_search_index,
    publish_xml,
)
from properties import up_to

from cr5.errors import Cr5Error
from cr5.message_parts import quoted
from cr5.progress import Progress
from cr5.sources.http.client import ShortResponse, StoppedError
from cr5.sources.http.queue import QueuedFile, fetch_all
from cr5.sources.wikipedia import dump_listing
from cr5.sources.wikipedia.dump_listing import find_dumps
from cr5.sources.wikipedia.dump_reader import DumpFormat

# Servers that fail


def test_transient_errors_are_retried(mirror: Mirror) -> None:
    publish_xml(mirror, "dawiki", "20261101", {ARTICLES: b"articles"}, b"props")
    mirror.fail("/dawiki/", Fault(429, {"Retry-After": "7"}), Fault(503), Fault(drop=40))
    mirror.fail("/dawiki/20261101/dumpstatus.json", Fault(drop=0), Fault(drop=30))
    slept: list[float] = []
    seen: list[Progress] = []
    assert find(mirror, "xml", DA, sleep=slept.append, progress=seen.append)[0].date == "20261101"
    assert sum(slept) == (7 + 2 + 4) + (1 + 2)
    assert seen[0] == Progress("find dumps", 0, 1, "dawiki")
    assert seen[1].note == f"{mirror.url}/dawiki/, waiting 7 s: the server answered 429 Too Many Requests"
    assert {(step.stage, step.done, step.total) for step in seen} == {("find dumps", 0, 1)}


def test_a_mirror_that_does_not_answer_is_an_error(mirror: Mirror) -> None:
    with Mirror() as gone:
        pass
    text = message(mirror, "xml", DA, mirror=gone.url)
    assert text.startswith(f"{gone.url}/dawiki/: ")
    assert "connection refused" in text
    assert message(mirror, "xml", DA, mirror="dumps.example").startswith("'dumps.example/dawiki/' is not an address")
    mirror.fail("/dawiki/", Fault(302, {"Location": "file:///etc/"}))
    assert message(mirror, "xml", DA).startswith("URL/dawiki/: redirected to 'file:///etc/'")


def test_should_stop_ends_the_search(mirror: Mirror) -> None:
    with pytest.raises(StoppedError, match="/dawiki/: stopped"):
        find(mirror, "xml", DA, should_stop=lambda: True)


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"jobs": {"articlesm', b"\xff", b"[" * 100_000])
def test_a_damaged_report_is_an_error(mirror: Mirror, body: bytes) -> None:
    publish_xml(mirror, "dawiki", "20261101", {ARTICLES: b"articles"}, b"props")
    mirror.files["/dawiki/20261101/dumpstatus.json"] = body
    assert message(mirror, "xml", DA).startswith("URL/dawiki/20261101/dumpstatus.json: not JSON")


EVIL = ["../../.bashrc", "/etc/passwd", "..", "a\0b", "a\nb.bz2", f"dawiki-20261101-{ARTICLES}/../../x", "\ud800"]


@pytest.mark.parametrize("name", EVIL)
def test_a_file_name_that_leaves_its_folder_is_refused(mirror: Mirror, name: str) -> None:
    publish_xml(mirror, "dawiki", "20261101", {ARTICLES: b"articles"}, b"props")
    path = "/dawiki/20261101/dumpstatus.json"
    report = json.loads(mirror.files[path])
    report["jobs"]["articlesmultistreamdump"]["files"][name] = {"size": 1}
    mirror.files[path] = json.dumps(report).encode()
    assert message(mirror, "xml", DA).startswith(
        f"URL{path}: a file of articlesmultistreamdump has the unexpected name {quoted(name)};"
    )
    publish_parquet(mirror, "da", "20231101", [b"part"])
    entries = [{"type": "file", "path": f"20231101.da/{name}.parquet", "size": 1}]
    mirror.fail(f"{TREE}/20231101.da", Fault(body=json.dumps(entries).encode()))
    assert message(mirror, "parquet", DA).startswith(
        f"URL/datasets/wikimedia/wikipedia: a file of 20231101.da has the unexpected name {quoted(name + '.parquet')};"
    )


def test_a_long_name_is_shortened_in_the_message(mirror: Mirror) -> None:
    publish_jobs(mirror, "dawiki", "20261101", {"articlesmultistreamdump": {"x" * 10_000: b""}})
    assert len(message(mirror, "xml", DA)) < 300


def test_invalid_sizes_and_checksums_are_ignored(mirror: Mirror) -> None:
    publish_xml(mirror, "dawiki", "20261101", {ARTICLES: b"articles"}, b"props")
    path, name = "/dawiki/20261101/dumpstatus.json", f"dawiki-20261101-{ARTICLES}"
    md5 = hashlib.md5(b"articles").hexdigest()
    for info, expected in [
        ({}, (None, None)),
        (None, (None, None)),
        ({"size": "8", "sha1": 5, "md5": "abc"}, (None, None)),
        ({"size": -1, "sha1": "z" * 40, "md5": md5}, (None, f"md5:{md5}")),
        ({"size": True, "md5": md5.upper()}, (None, f"md5:{md5}")),
    ]:
        report = json.loads(mirror.files[path])
        report["jobs"]["articlesmultistreamdump"]["files"] = {name: info}
        mirror.files[path] = json.dumps(report).encode()
        (file,) = find(mirror, "xml", DA)[0].files
        assert (file.size, file.digest) == expected


# Arbitrary mirrors


DATES = st.integers(20, 28).map(lambda day: f"202611{day}")
STATES = st.sampled_from(["done", "done", "in-progress", "waiting", "failed", "skipped"])


@pytest.fixture(scope="module")
def shared() -> Iterator[Mirror]:
    with Mirror() as mirror:
        yield mirror


@pytest.mark.slow
@given(
    states=st.dictionaries(DATES, STATES, max_size=4),
    indexes=st.dictionaries(DATES, st.tuples(st.integers(1, 4), st.booleans()), max_size=3),
    classic=st.sets(DATES, max_size=2),
    wanted=st.none() | DATES,
)
@settings(max_examples=up_to(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_exactly_the_complete_dumps_are_found(
    shared: Mirror,
    states: dict[str, str],
    indexes: dict[str, tuple[int, bool]],
    classic: set[str],
    wanted: str | None,
) -> None:
    shared.files = {"/other/cirrussearch/DEPRECATED.txt": b"over"}
    for date, state in states.items():
        publish_xml(shared, "dawiki", date, {ARTICLES: date.encode()}, b"props", state)
    for date, (count, complete) in indexes.items():
        publish_search_index(shared, "dawiki", date, [b"x"] * count, complete=complete)
    for date in classic:
        publish_search_index(shared, "dawiki", date, [b"y"], "classic")

    done = [date for date in sorted(states, reverse=True) if states[date] == "done" and wanted in (None, date)]
    if done:
        (dump,) = find(shared, "xml", DA, date=wanted)
        assert (dump.date, dump.files[0].digest) == (done[0], sha1(done[0].encode()))
        assert bool(dump.notes) == (wanted is None and done[0] != max(states))
    else:
        message(shared, "xml", DA, date=wanted)

    parts = dict.fromkeys(classic, 1) | {date: count for date, (count, complete) in indexes.items() if complete}
    if dates := [date for date in sorted(parts, reverse=True) if wanted in (None, date)]:
        (dump,) = find(shared, "cirrus", DA, date=wanted)
        assert (dump.date, len(dump.files)) == (dates[0], parts[dates[0]])
        assert all(file.url.removeprefix(shared.url) in shared.files for file in dump.files)
        newest = max((date for date in states if states[date] == "done"), default=None)
        assert dump.props == (newest and props_of(shared, "dawiki", newest))
    else:
        message(shared, "cirrus", DA, date=wanted)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["jobs", "articlesmultistreamdump", "pagepropstable", "status", "files", "type", "path", "lfs"]
            )
            | st.text(max_size=5),
            inner | st.sampled_from(["done", "file", "directory", "20231101.da", "20231101.da/a.parquet"]),
            max_size=4,
        )
    ),
    max_leaves=12,
).map(lambda value: json.dumps(value).encode())
HTML = st.lists(
    st.sampled_from(
        ["<a", " href=", '"', "'", ">", "</a>", "20261101/", "_SUCCESS", "%3D", "&#61;", "http://[", "\n", " 5"]
    )
    | st.text(max_size=5),
    max_size=20,
).map(lambda parts: "".join(parts).encode())


@pytest.mark.slow
@given(st.data(), st.sampled_from(["xml", "cirrus", "parquet"]))
@settings(max_examples=up_to(300), deadline=None)
def test_nonsense_from_a_server_raises_only_cr5_errors(data: st.DataObject, dump_format: DumpFormat) -> None:
    one_date = b'<a href="20261101/"></a>'

    def nonsense(url: str, **options: Any) -> ShortResponse:
        return ShortResponse(data.draw(st.binary(max_size=20) | JSON | HTML | st.just(one_date)), None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dump_listing, "get", nonsense)
        try:
            found = find_dumps([DA], dump_format, mirror="http://a", hub="http://b", user_agent=USER_AGENT)
        except Cr5Error:
            return
    for dump in found:
        for file in dump.files:
            assert Path(file.name).name == file.name
            assert file.name.isprintable()


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", ["<a", "<a href=", "<a href='", '<a href="20261101/"', "<a href='x'>", " href=' ", "<", "&"]
)
def test_the_time_is_linear_for_a_page_of_unfinished_links(monkeypatch: pytest.MonkeyPatch, unit: str) -> None:
    body = (unit * (1_000_000 // len(unit))).encode()
    monkeypatch.setattr(dump_listing, "get", lambda url, **options: ShortResponse(body, None))
    began = time.process_time()
    with pytest.raises(Cr5Error):
        find_dumps([DA], "xml", mirror="http://a", user_agent=USER_AGENT)
    assert time.process_time() - began < 5


# Together with the download


@pytest.mark.parametrize("dump_format", ["xml", "cirrus", "parquet"])
def test_the_files_found_can_be_downloaded_from_a_faulty_server(
    mirror: Mirror, tmp_path: Path, dump_format: DumpFormat
) -> None:
    content = bz2.compress(bytes(range(256)) * 50)
    publish_xml(mirror, "dawiki", "20261101", {ARTICLES: content}, gzip.compress(b"props"))
    publish_search_index(mirror, "dawiki", "20261116", [content, content[::-1]])
    publish_parquet(mirror, "da", "20231101", [content, content[::-1]])
    (dump,) = find(mirror, dump_format, DA)
    assert dump.props
    files = [*dump.files, dump.props]
    first = dump.files[0].url.removeprefix(mirror.url)
    mirror.fail(first, Fault(503), Fault(429, {"Retry-After": "1"}))
    stored = f"/lfs{first}" if dump_format == "parquet" else first
    mirror.fail(stored, Fault(drop=100), Fault(ranges=False, drop=150), Fault(drop=0), Fault(delay=0.01))
    if dump_format == "xml":
        mirror.fail(stored, Fault(body=b"?" * len(content)))
    queued = [QueuedFile(file.url, tmp_path / file.name, file.digest) for file in files]
    fetched = fetch_all(queued, user_agent=USER_AGENT, sleep=lambda _: None)
    assert [one.path.name for one in fetched] == [file.name for file in files]
    for file, one in zip(files, fetched, strict=True):
        assert one.path.read_bytes() == mirror.files[file.url.removeprefix(mirror.url)]
        assert file.size == one.path.stat().st_size
    assert mirror.most_open <= 2
    assert mirror.user_agents == {USER_AGENT}
