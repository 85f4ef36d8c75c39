"""Wikis, their pages, and which of them become documents."""

import urllib.parse
from collections import Counter
from typing import Literal, NamedTuple, TypeAlias

from cr5.corpus.documents import Document

Kind: TypeAlias = Literal["cirrus", "xml", "parquet"]
"""The search index as plain text, the pages as wikitext, or an export as Parquet."""
Tally: TypeAlias = Counter[str]
"""How many pages there were, and for what reason some became no document: the names below."""

PAGES = "pages"
NAMESPACE, REDIRECT, DISAMBIGUATION = "other namespaces", "redirects", "disambiguations"
NO_ITEM, EMPTY = "without a Wikidata item", "without text"


class Wiki(NamedTuple):
    """A Wikipedia: its code there ("zh-min-nan"), and its language by BCP 47 ("nan")."""

    code: str
    lang: str

    @property
    def name(self) -> str:
        """As dumps are named: zh_min_nanwiki."""
        return self.code.replace("-", "_") + "wiki"

    def url(self, title: str) -> str:
        """Where a page stands."""
        path = urllib.parse.quote(title.replace(" ", "_"), safe="/:@!$*(),;'~-._")
        return f"https://{self.code}.wikipedia.org/wiki/{path}"

    def document(self, concept: str, title: str, text: str) -> Document:
        """A page as a document; its concept is an item of Wikidata, "Q42"."""
        return Document(concept, self.lang, text, title, self.url(title))


class Piece(NamedTuple):
    """What one worker reads: a file, or of one that can be split, what begins in a range of its bytes."""

    path: str
    begin: int = 0
    end: int | None = None
