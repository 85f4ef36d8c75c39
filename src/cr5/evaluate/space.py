"""The seam between systems and tasks: a trained system places texts into a space."""

from collections.abc import Mapping
from typing import Any, Protocol

from cr5.errors import UserError
from cr5.evaluate.texts import Texts
from cr5.neighbours import Rows


class NotApplicableError(UserError):
    """A system that cannot be trained on, or asked about, what it is given; its text says why."""


class Space:
    """Where a trained system puts texts. Similarity is the inner product of rows.

    Most systems place a text by itself: they define ``embed``. A system whose rows depend on the other
    language, or on who asks, defines ``pair`` instead. ``report`` holds plain values about the training.
    """

    report: Mapping[str, Any] = {}

    def embed(self, texts: Texts, lang: str) -> Rows:
        """One row a text, of length 1 where the system compares by cosine."""
        raise NotImplementedError

    def pair(self, queries: Texts, source: str, candidates: Texts, target: str) -> tuple[Rows, Rows]:
        """The rows of queries and candidates, to be compared with each other."""
        return self.embed(queries, source), self.embed(candidates, target)


class System(Protocol):
    """What can be trained: documents by language, whose concept numbers tell which are about the same."""

    def __call__(self, training: Mapping[str, Texts], *, rank: int, seed: int) -> Space: ...
