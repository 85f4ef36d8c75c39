"""A download queue: files in order over few connections, until all are complete or the first one fails."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Unpack

from cr5.errors import Cr5Error
from cr5.message_parts import format_bytes
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.sources.http.client import RetryOptions
from cr5.sources.http.download import FetchedFile, check_download, fetch

MAX_CONNECTIONS = 2  # simultaneous connections; Wikimedia allows no more


class QueuedFile(NamedTuple):
    """A file to download: its address, where to write it, and its digest ("sha1:…") if one is published."""

    url: str
    path: Path
    digest: str | None


def fetch_all(
    files: Sequence[QueuedFile],
    *,
    user_agent: str,
    progress: ProgressCallback = no_progress,
    on_complete: Callable[[Path], None] = lambda path: None,
    connections: int = MAX_CONNECTIONS,
    **retry_options: Unpack[RetryOptions],
) -> list[FetchedFile]:
    """Download all files in order, over some ``connections``; the first error stops all and keeps what was received.

    ``on_complete`` is called with the path of every complete file, in the thread that downloaded it.
    """
    for url, path, digest in files:
        check_download(url, path, digest, user_agent)
    paths = [file.path.resolve() for file in files]
    if repeated := [path for path in paths if paths.count(path) > 1]:
        raise Cr5Error(f"{repeated[0]}: two files are to be written here; give each its own path")

    waiting, results, errors = deque(range(len(files))), dict[int, FetchedFile](), list[BaseException]()
    lock, ended = threading.Lock(), threading.Event()
    fractions = [0.0] * len(files)
    should_stop = retry_options.get("should_stop", lambda: False)
    retry_options["should_stop"] = lambda: ended.is_set() or should_stop()

    def report(i: int, step: Progress) -> None:
        with lock:
            fractions[i] = step.done / step.total if step.total and step.stage == "download" else fractions[i]
            total_text = f" of {format_bytes(step.total)}" if step.total else ""
            so_far = f"{format_bytes(step.done)}{total_text}: " if step.done else ""
            progress(Progress("download files", sum(fractions), len(files), so_far + step.note))

    def take() -> int | None:
        with lock:
            return waiting.popleft() if waiting and not ended.is_set() else None

    def work() -> None:
        while (i := take()) is not None:
            try:
                url, path, digest = files[i]
                fetched = fetch(
                    url, path, digest=digest, user_agent=user_agent, progress=partial(report, i), **retry_options
                )
                with lock:
                    results[i], fractions[i] = fetched, 1.0
                    progress(Progress("download files", sum(fractions), len(files), f"{path.name} is complete"))
                on_complete(path)
            except BaseException as error:  # raised below, in the caller's thread
                with lock:
                    errors.append(error)
                    ended.set()

    # Daemon threads: after a second Ctrl-C the process does not wait for a silent server.
    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(connections, len(files)))]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)
    except BaseException:
        ended.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join(2.0)
        raise
    if errors:
        raise errors[0]
    return [results[i] for i in range(len(files))]
