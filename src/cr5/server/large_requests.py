"""The limits on requests with many characters: how large one may be, and how many compute at the same time."""

import mmap
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cr5.server.errors import HttpError
from cr5.server.limits import BATCH_CHARS, LARGE_REQUEST_CHARS, MAX_REQUEST_CHARS

BYTES_PER_CHAR = 400  # upper bound of the memory for a request: for words that are all different and not in the model
MIN_BYTES = 64_000_000


class LargeRequests:
    """Counts the large requests that are being computed; ``most`` is how many there may be."""

    def __init__(self, most: int) -> None:
        self._free = threading.BoundedSemaphore(most)

    @contextmanager
    def admit(self, texts: Sequence[str]) -> Iterator[None]:
        """For the time in which a request with these texts is computed; an error if it is not to be."""
        chars = sum(map(len, texts))
        is_large = chars > LARGE_REQUEST_CHARS
        if is_large and not self._free.acquire(blocking=False):
            message = "the server is computing too many large requests; try again later, or send fewer texts at once"
            raise HttpError(503, message, {"Retry-After": "5"})
        try:
            require_memory(MIN_BYTES + BYTES_PER_CHAR * chars)
            yield
        finally:
            if is_large:
                self._free.release()


def require_few_characters(texts: Sequence[str], name: str) -> None:
    """Raise an error for texts that are too long together; ``name`` is the field of the request that has them."""
    chars = sum(map(len, texts))
    if chars > MAX_REQUEST_CHARS:
        message = f"{name} has {chars:,} characters in all; send at most {MAX_REQUEST_CHARS:,} in one request"
        raise HttpError(413, message, param=name)


def require_memory(size: int) -> None:
    """Raise a MemoryError if the system refuses this process that many bytes more.

    Compiled libraries end the process if they get no memory. The memory limit of a container is not noticed: it refuses
    nothing, and kills a process that uses more.
    """
    try:
        mmap.mmap(-1, size).close()
    except (OSError, ValueError):
        raise MemoryError from None


def batches(texts: Sequence[str], max_chars: int = BATCH_CHARS) -> Iterator[Sequence[str]]:
    """Consecutive texts of that many characters together, or a single longer one."""
    begin = chars = 0
    for end, text in enumerate(texts):
        if end > begin and chars + len(text) > max_chars:
            yield texts[begin:end]
            begin, chars = end, 0
        chars += len(text)
    if begin < len(texts):
        yield texts[begin:]
