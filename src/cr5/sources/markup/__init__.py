"""Markup of pages: the plain text of HTML, Markdown and reStructuredText, one paragraph per line.

Everything that is not running text is dropped: menus, scripts, code, formulas, form controls. Where markup is broken,
its characters are removed and the words are kept. Time is linear in the length of any input: no regular
expression backtracks, and a search that failed once is not repeated.
"""

import os
from collections.abc import Callable

from cr5.sources.markup.encoding import decode, decode_page
from cr5.sources.markup.html import html_text
from cr5.sources.markup.markdown import markdown_text
from cr5.sources.markup.restructuredtext import rst_text
from cr5.storage.compressed import split_suffix

__all__ = ["CONVERTERS", "FORMATS", "decode", "decode_page", "extension", "html_text", "markdown_text", "rst_text"]


def _plain_text(data: str) -> tuple[str, str]:
    lines = (" ".join(line.split()) for line in data.splitlines())
    return "", "\n".join(line for line in lines if line)


CONVERTERS: dict[str, Callable[[str], tuple[str, str]]] = {
    "html": html_text,
    "markdown": markdown_text,
    "rst": rst_text,
    "text": _plain_text,
}
"""For each format, a function from a page to its title and its text."""
FORMATS = {
    ".html": "html", ".htm": "html", ".xhtml": "html", ".md": "markdown", ".markdown": "markdown", ".mdx": "markdown",
    ".rst": "rst", ".txt": "text",
}  # fmt: skip
"""The formats of pages by the extensions of their names."""


def extension(name: str) -> str:
    """How a name ends but for a compression, in lower case: Guide.HTML.gz -> .html."""
    return os.path.splitext(split_suffix(name)[0])[1].lower()  # noqa: PTH122 - many times faster than a Path
