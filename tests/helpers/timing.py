"""How long something takes at best: a busy machine, or one that collects garbage, only ever adds."""

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
