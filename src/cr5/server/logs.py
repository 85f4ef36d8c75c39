"""The log of a server: text or JSON lines, bounded, and without what clients have sent, except refused host names."""

import json
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from cr5.errors import Cr5Error
from cr5.server.settings import LogFormat
from cr5.storage.locks import locked

REQUEST_LINES_PER_SECOND = 200
MAX_KINDS = 1000  # kinds of messages that are counted at a time
MAX_LOG_BYTES, OLDER_LOGS = 10_000_000, 5  # size of a log file, and how many full ones are kept
REQUEST_LOG, EVENT_LOG = "cr5.server.requests", "cr5.server.events"
LOGGERS = ("cr5.server", "cr5.index", "uvicorn", "asyncio")


def configure(log_format: LogFormat, file: Path | None = None) -> None:
    """Send the log of the server to standard error or a file: problems, and in JSON also every request and event."""
    handler = logging.StreamHandler(sys.stderr) if file is None else RotatingFile(file)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    handler.addFilter(RepetitionFilter())
    for name in LOGGERS:
        logger = logging.getLogger(name)
        for replaced in logger.handlers:
            if isinstance(replaced, RotatingFile):
                replaced.close()
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.WARNING)
    for name in (REQUEST_LOG, EVENT_LOG):
        logging.getLogger(name).setLevel(logging.INFO if log_format == "json" else logging.WARNING)


class RotatingFile(logging.StreamHandler[Any]):
    """Appends to a file that several processes share; when it is full, it is renamed, and a new one begins.

    FILE.1 is the newest of the ``older`` files that are kept. A file that another process has renamed or removed is
    opened again, so that logrotate may be used as well. What cannot be written, because the disk is full for example,
    goes to standard error.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_LOG_BYTES, older: int = OLDER_LOGS) -> None:
        self.path, self._max_bytes, self._older = path, max_bytes, older
        try:
            super().__init__(self._open())
        except OSError as error:
            reason = (error.strerror or "").lower()
            raise Cr5Error(f"`log_file={path}` cannot be written ({reason}); choose another file") from None

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, to standard error if the file cannot be written."""
        line = f"{self.format(record)}\n"
        try:
            if self._is_full_or_replaced():
                with locked(self.path.with_name(f"{self.path.name}.lock")):  # one process renames
                    self._reopen()
            self.stream.write(line.encode(errors="replace"))  # unbuffered: lines of other processes do not mix with it
        except (OSError, Cr5Error):
            sys.stderr.write(line)

    def flush(self) -> None:
        """Nothing is buffered."""

    def close(self) -> None:
        """Close the file."""
        self.stream.close()
        super().close()

    def _open(self) -> Any:
        return self.path.open("ab", buffering=0)

    def _is_full_or_replaced(self) -> bool:
        opened = os.fstat(self.stream.fileno())
        try:
            return opened.st_size >= self._max_bytes or not os.path.samestat(opened, self.path.stat())
        except FileNotFoundError:
            return True

    def _reopen(self) -> None:
        if self.path.exists() and self.path.stat().st_size >= self._max_bytes:
            names = [self.path, *(self.path.with_name(f"{self.path.name}.{i + 1}") for i in range(self._older))]
            for newer, older in reversed(list(pairwise(names))):
                if newer.exists():
                    newer.replace(older)
        self.stream.close()
        self.stream = self._open()


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
    """Where an exception was raised, its type, and what the operating system says about which path.

    Any other message is left out, which may quote what a client has sent.
    """
    if not record.exc_info or record.exc_info[1] is None:
        return []
    error = record.exc_info[1]
    frames = [
        f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in traceback.extract_tb(error.__traceback__)
    ]
    system = (error.strerror, error.filename) if isinstance(error, OSError) else ()
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    return [*frames, f"  {': '.join([name, *map(str, filter(None, system))])}"]
