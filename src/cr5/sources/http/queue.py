"""A queue of files to fetch: in order, over few connections, until all are whole or the first one fails."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias, Unpack

from cr5.errors import Cr5Error
from cr5.progress import Progress, ProgressCallback, silent
from cr5.sources.http.client import Patience
from cr5.sources.http.download import Fetched, check, fetch
from cr5.sources.http.partial_file import amount

CONNECTIONS = 2  # at once: what Wikimedia asks of its guests
Item: TypeAlias = tuple[str, Path, str | None]  # an address, where to, and "sha1:…" where it is published


def fetch_all(
    items: Sequence[Item],
    *,
    connections: int = CONNECTIONS,
    agent: str,
    progress: ProgressCallback = silent,
    arrived: Callable[[Path], None] = lambda path: None,
    **patience: Unpack[Patience],
) -> list[Fetched]:
    """Fetch every item, in order, over one or two connections; the first error ends all and keeps what has come.

    ``arrived`` is called with the path of every file that is whole, by the thread that fetched it. ``patience`` is for
    ``fetch``.
    """
    if not 1 <= connections <= CONNECTIONS:
        raise Cr5Error(f"{connections} connections at once are not polite; choose 1 or {CONNECTIONS}")
    for url, path, digest in items:
        check(url, path, digest, agent)
    paths = [path.resolve() for _, path, _ in items]
    if twice := [path for path in paths if paths.count(path) > 1]:
        raise Cr5Error(f"{twice[0]}: named twice; give every file a place of its own")

    left, results, errors = deque(range(len(items))), dict[int, Fetched](), list[BaseException]()
    lock, ended = threading.Lock(), threading.Event()
    shares = [0.0] * len(items)
    stop = patience.get("stop", lambda: False)
    patience["stop"] = lambda: ended.is_set() or stop()

    def report(i: int, step: Progress) -> None:
        with lock:
            shares[i] = step.done / step.total if step.total and step.stage == "download" else shares[i]
            whole = f" of {amount(step.total)}" if step.total else ""
            so_far = f"{amount(step.done)}{whole}: " if step.done else ""
            progress(Progress("download files", sum(shares), len(items), so_far + step.note))

    def take() -> int | None:
        with lock:
            return left.popleft() if left and not ended.is_set() else None

    def work() -> None:
        while (i := take()) is not None:
            try:
                url, path, digest = items[i]
                found = fetch(url, path, digest=digest, agent=agent, progress=partial(report, i), **patience)
                with lock:
                    results[i], shares[i] = found, 1.0
                    progress(Progress("download files", sum(shares), len(items), f"{path.name} is complete"))
                arrived(path)
            except BaseException as error:  # raised below, where somebody waits for it
                with lock:
                    errors.append(error)
                    ended.set()

    # Daemons: after a second Ctrl-C nobody waits for a silent server.
    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(connections, len(items)))]
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
    return [results[i] for i in range(len(items))]
