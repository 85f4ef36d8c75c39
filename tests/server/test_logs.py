"""The log: JSON lines with request ids, bounded, and without keys and texts."""

import errno
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from serving import StartServer

from cr5.errors import Cr5Error
from cr5.server import handlers, logs

pytestmark = pytest.mark.usefixtures("restored_loggers")


def test_every_request_is_a_json_line_with_its_id_and_without_key_or_text(
    start_server: StartServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any, **more: Any) -> None:
        raise ValueError("cannot parse the private words")

    client = start_server(api_key="secretkey")
    monkeypatch.setattr(handlers, "explain", fail)
    logs.configure("json")
    key = {"authorization": "Bearer secretkey"}
    answers = [
        client.get("/search", params={"q": "private words"}, headers=key),
        client.get("/explain", params={"q": "private words", "id": "aa:Q001"}, headers=key),
        client.get("/private words?q=private words", headers={"x-api-key": "secretkey2"}),
        client.post("/embed", json={"lang": "aa", "texts": ["private words"]}, headers=key),
    ]
    written = capsys.readouterr().err
    lines = [json.loads(line) for line in written.splitlines()]
    requests = [line for line in lines if line["message"] == "request"]
    assert [line["status"] for line in requests] == [200, 500, 401, 200]
    assert [line["path"] for line in requests] == ["/search", "/explain", "other", "/embed"]
    assert [line["request_id"] for line in requests] == [answer.headers["x-request-id"] for answer in answers]
    [problem] = [line for line in lines if line["level"] == "error"]
    assert problem["request_id"] == requests[1]["request_id"]
    assert problem["exception"][-1].strip() == "builtins.ValueError"
    assert "private" not in written
    assert "secretkey" not in written


@pytest.mark.filterwarnings("ignore::cr5.Cr5Warning")  # of documents that are left out
def test_no_part_of_a_request_reaches_the_log_or_makes_its_line_long(
    start_server: StartServer, capsys: pytest.CaptureFixture[str]
) -> None:
    client, short = start_server(), "PRIVATE" * 10
    logs.configure("json")
    client.request(short * 1000, "/search")
    client.get(
        f"/{short * 100}", headers={"x-request-id": short, "host": short, "x-forwarded-for": short, short: short}
    )
    for name in ("q", "lang", "in", "prefer", "sort", "where", "mode", "k", short):
        client.get("/search", params={"q": "a", name: short})
        client.post("/search", json={"q": "a", name: {short: short}})
    for name in ("concept", "lang", "text", "title", "url", "fields", short):
        for value in (short, {short: {short: short}}):
            client.post("/documents", json={"documents": [{"concept": "a", "lang": "aa", "text": "b", name: value}]})
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) >= 34
    assert [line for line in lines if len(line) >= 500] == []
    assert "PRIVATE" not in "".join(lines)
    assert json.loads(lines[0])["method"] == "other"


def test_the_log_says_what_the_operating_system_refused_and_where() -> None:
    try:
        raise OSError(errno.ENOSPC, "No space left on device", "/tmp/spill")
    except OSError as error:
        record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "problem", (), (OSError, error, error.__traceback__))
    last = logs.TextFormatter().format(record).splitlines()[-1]
    assert last.split(": ") == ["  builtins.OSError", "No space left on device", "/tmp/spill"]


def test_a_text_log_has_problems_only(capsys: pytest.CaptureFixture[str], start_server: StartServer) -> None:
    client = start_server()
    logs.configure("text")
    assert client.get("/search", params={"q": "a"}).status_code == 200
    assert capsys.readouterr().err == ""
    logging.getLogger("cr5.server").error("the disk is %s", "full", extra={"request_id": "abc"})
    assert capsys.readouterr().err.rstrip().endswith("error: the disk is full (request abc)")


def test_a_message_that_repeats_is_written_once_a_second_with_the_number_of_those_left_out() -> None:
    now = [0.0]
    repetition = logs.RepetitionFilter(lambda: now[0])

    def passes(message: str, name: str = "cr5.server") -> bool | int:
        record = logging.LogRecord(name, logging.ERROR, "", 0, message, (), None)
        return repetition.filter(record) and (record.__dict__["left_out"] or True)

    assert [passes("a"), passes("a"), passes("b"), passes("a")] == [True, False, True, False]
    now[0] = 1.0
    assert [passes("a"), passes("a")] == [2, False]
    assert sum(passes("request", logs.REQUEST_LOG) for _ in range(500)) == logs.REQUEST_LINES_PER_SECOND
    for number in range(3 * logs.MAX_KINDS):
        passes(str(number))
    assert len(repetition._seen) == logs.MAX_KINDS


def write(handler: logs.RotatingFile, number: int) -> None:
    handler.emit(logging.LogRecord("cr5.server", logging.ERROR, "", 0, f"line {number:03}", (), None))


def test_a_log_file_that_several_processes_write_is_bounded_and_loses_only_its_oldest_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    processes = [logs.RotatingFile(path, max_bytes=100, older=2) for _ in range(3)]  # each has opened the file
    for number in range(100):
        write(processes[number % 3], number)
    for process in processes:
        process.close()
    files = [tmp_path / "log.2", tmp_path / "log.1", path]
    assert sorted(tmp_path.iterdir()) == sorted([*files, tmp_path / "log.lock"])
    assert all(file.stat().st_size < 100 + len("line 000\n") for file in files)
    written = "".join(file.read_text() for file in files).splitlines()
    assert written == [f"line {number:03}" for number in range(100 - len(written), 100)]
    assert len(written) > 2 * 100 // len("line 000\n")


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be moved there")
def test_a_log_file_that_was_moved_is_opened_again(tmp_path: Path) -> None:
    handler = logs.RotatingFile(tmp_path / "log")
    write(handler, 1)
    (tmp_path / "log").rename(tmp_path / "moved")
    write(handler, 2)
    handler.close()
    assert [(tmp_path / name).read_text() for name in ("moved", "log")] == ["line 001\n", "line 002\n"]


def test_what_a_log_file_cannot_take_goes_to_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = logs.RotatingFile(tmp_path / "log")

    def fail(_: logs.RotatingFile) -> bool:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(logs.RotatingFile, "_is_full_or_replaced", fail)
    write(handler, 1)
    handler.close()
    assert capsys.readouterr().err == "line 001\n"
    with pytest.raises(Cr5Error, match=r"log_file=.*missing.*no such file"):
        logs.configure("json", tmp_path / "missing" / "log")
