"""A Wikipedia edition: its code, its language, and the documents that its pages become."""

import urllib.parse
from typing import NamedTuple

from cr5.corpus.documents import Document


class Wiki(NamedTuple):
    """A Wikipedia edition: ``code`` is its subdomain ("zh-min-nan"), ``lang`` its BCP 47 language ("nan")."""

    code: str
    lang: str

    @property
    def name(self) -> str:
        """The name of its database, with which its dump files begin: "zh_min_nanwiki"."""
        return self.code.replace("-", "_") + "wiki"

    def url(self, title: str) -> str:
        """The address of a page."""
        path = urllib.parse.quote(title.replace(" ", "_"), safe="/:@!$*(),;'~-._")
        return f"https://{self.code}.wikipedia.org/wiki/{path}"

    def document(self, item: str, title: str, text: str, url: str = "") -> Document:
        """Make a document of a page; its concept is a Wikidata item ("Q42")."""
        return Document(item, self.lang, text, title, url or self.url(title))
