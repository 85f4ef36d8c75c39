"""The log of a server: text or JSON lines, bounded, and without what clients have sent."""

import json
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from cr5.server.settings import LogFormat

REQUEST_LINES_PER_SECOND = 200
MAX_KINDS = 1000  # of messages that are counted at a time
REQUEST_LOG = "cr5.server.requests"
LOGGERS = ("cr5.server", "cr5.index", "uvicorn", "asyncio")


def configure(log_format: LogFormat) -> None:
    """Send the log of the server to standard error: problems, and in JSON also a line for every request."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    handler.addFilter(RepetitionFilter())
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.WARNING)
    logging.getLogger(REQUEST_LOG).setLevel(logging.INFO if log_format == "json" else logging.WARNING)


class RepetitionFilter(logging.Filter):
    """Lets a message pass once a second, and then says how many were left out; requests pass more often.

    Messages are the same if their text before formatting and the type of their exception are.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock, self._lock = clock, threading.Lock()
        self._seen: dict[tuple[Any, ...], tuple[float, int]] = {}  # kind -> (begin of its second, messages in it)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written; ``record.left_out`` is the number of those like it that were not."""
        allowed = REQUEST_LINES_PER_SECOND if record.name == REQUEST_LOG else 1
        kind = (record.name, record.msg, record.exc_info[0] if record.exc_info else None)
        with self._lock:
            now = self._clock()
            begin, count = self._seen.pop(kind, (now, 0))
            record.left_out = 0
            if now - begin >= 1:
                record.left_out = max(0, count - allowed)
                begin, count = now, 0
            self._seen[kind] = (begin, count + 1)
            while len(self._seen) > MAX_KINDS:
                del self._seen[next(iter(self._seen))]
            return count < allowed


class TextFormatter(logging.Formatter):
    """A line with time, level, message and the id of the request; then where an exception was raised."""

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record."""
        request, left_out = getattr(record, "request_id", None), getattr(record, "left_out", 0)
        notes = [f"request {request}"] if request else []
        notes += [f"{left_out} more like this left out"] if left_out else []
        line = f"{self.formatTime(record)} {record.levelname.lower()}: {record.getMessage().strip()}"
        line += f" ({'; '.join(notes)})" if notes else ""
        return "\n".join([line, *_frames(record)])


class JsonFormatter(logging.Formatter):
    """One JSON object in a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The JSON of a record."""
        fields = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage().strip(),
            "request_id": getattr(record, "request_id", None),
            **getattr(record, "fields", {}),
            "left_out": getattr(record, "left_out", 0) or None,
            "exception": _frames(record) or None,
        }
        return json.dumps({name: value for name, value in fields.items() if value is not None})


def _frames(record: logging.LogRecord) -> list[str]:
    """Where an exception was raised, and its type; its message is left out, which may quote what a client has sent."""
    if not record.exc_info or record.exc_info[1] is None:
        return []
    error = record.exc_info[1]
    frames = [
        f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in traceback.extract_tb(error.__traceback__)
    ]
    return [*frames, f"  {type(error).__module__}.{type(error).__qualname__}"]
