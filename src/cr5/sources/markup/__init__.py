"""Markup of pages: the plain text of HTML, Markdown and reStructuredText, one paragraph per line.

Everything that is not running text is dropped: menus, scripts, code, formulas, form controls. Where markup is broken,
its characters are removed and the words are kept. Time is linear in the length of any input: no regular
expression backtracks, and a search that failed once is not repeated.
"""

from cr5.sources.markup.encoding import WESTERN, decode, decode_western
from cr5.sources.markup.html import html_text
from cr5.sources.markup.markdown import markdown_text
from cr5.sources.markup.restructuredtext import rst_text

__all__ = ["WESTERN", "decode", "decode_western", "html_text", "markdown_text", "rst_text"]
