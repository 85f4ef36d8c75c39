"""The seam between systems and tasks: a trained system places texts into a space."""

from collections.abc import Mapping
from typing import Any, Protocol

from cr5._typing import Ints
from cr5.errors import Cr5Error
from cr5.evaluate.texts import TokenisedTexts
from cr5.retrieval.block_products import Rows


class NotApplicableError(Cr5Error):
    """A system that cannot be trained on, or asked about, what it is given; its text says why."""


class Space:
    """Where a trained system puts texts. Similarity is the inner product of rows.

    Most systems place a text by itself: they define ``embed``. A system whose rows depend on the other
    language, or on who asks, defines ``pair`` instead. ``report`` holds plain values about the training, and
    under "signature" whatever sets this system apart from another of the same name.
    """

    report: Mapping[str, Any] = {}

    @property
    def langs(self) -> list[str] | None:
        """The languages that it was trained on; None where it takes any."""
        return None

    @property
    def signature(self) -> str:
        """The settings in a few words; nothing where there are none."""
        return str(self.report.get("signature", ""))

    def embed(self, texts: TokenisedTexts, lang: str) -> Rows:
        """One row a text, of length 1 where the system compares by cosine."""
        raise NotImplementedError

    def pair(self, queries: TokenisedTexts, source: str, candidates: TokenisedTexts, target: str) -> tuple[Rows, Rows]:
        """The rows of queries and candidates, to be compared with each other."""
        return self.embed(queries, source), self.embed(candidates, target)


class EmbeddingCache:
    """Texts of several languages in a space; a language is placed once where its rows are its own."""

    def __init__(
        self, space: Space, texts: Mapping[str, TokenisedTexts], codes: Mapping[str, str] | None = None
    ) -> None:
        self.space, self.texts, self.codes = space, texts, codes or {lang: lang for lang in texts}
        self._rows: dict[str, Rows] = {}

    def pair(self, source: str, chosen: Ints, target: str) -> tuple[Rows, Rows]:
        """The rows of some texts of one language, and of all texts of another, to be compared with each other."""
        if type(self.space).pair is not Space.pair:
            queries = self.texts[source].rows(chosen)
            return self.space.pair(queries, self.codes[source], self.texts[target], self.codes[target])
        for lang in (source, target):
            if lang not in self._rows:
                self._rows[lang] = self.space.embed(self.texts[lang], self.codes[lang])
        return self._rows[source][chosen], self._rows[target]


class System(Protocol):
    """What can be trained: documents by language, whose concept numbers tell which are about the same."""

    def __call__(self, training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> Space: ...
