"""A cache of what searches compute from the texts of documents, for recent texts, which are often found again."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

Result = TypeVar("Result")

SHORT_CHARACTERS, MAX_CHARACTERS = 100, 4000  # the results of longer texts are not cached
RECENT_SHORT, RECENT_TEXTS = 2**13, 2**11  # titles do not replace texts


def cached_for_recent_texts(function: Callable[..., Result], texts: int = RECENT_TEXTS) -> Callable[..., Result]:
    """A function of a text and of other hashable arguments whose results, which must be immutable, are cached.

    ``texts`` is for how many texts that are not short.
    """
    short, recent = lru_cache(RECENT_SHORT)(function), lru_cache(texts)(function)

    @wraps(function)
    def cached(text: str, *rest: Any) -> Result:
        if len(text) <= SHORT_CHARACTERS:
            return short(text, *rest)
        return recent(text, *rest) if len(text) <= MAX_CHARACTERS else function(text, *rest)

    return cached
