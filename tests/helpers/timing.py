"""How long something takes at best, and how many calls: a busy machine, or one that collects garbage, only adds."""

import sys
import time
from collections.abc import Callable


def seconds(work: Callable[[], object], enough: float = 0.0, tries: int = 3) -> float:
    """Seconds of the processor: the best of several tries, the last of which is the first below ``enough``."""
    best = float("inf")
    for _ in range(tries):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
        if best < enough:
            break
    return best


def calls(work: Callable[[], object]) -> int:
    """How many functions, of Python and of C, some work calls: its overhead, which no other process changes."""
    count = 0

    def add(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    work()  # what is read or made only once
    before = sys.getprofile()
    sys.setprofile(add)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
