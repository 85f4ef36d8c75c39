"""The log: JSON lines with request ids, bounded, and without keys and texts."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from serving import StartServer

from cr5.server import handlers, logs


@pytest.fixture(autouse=True)
def _loggers() -> Iterator[None]:
    """The loggers are as before after a test."""
    loggers = [logging.getLogger(name) for name in (*logs.LOGGERS, logs.REQUEST_LOG)]
    before = [(logger.handlers, logger.propagate, logger.level) for logger in loggers]
    yield
    for logger, (handlers_before, propagate, level) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers_before, propagate
        logger.setLevel(level)


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
