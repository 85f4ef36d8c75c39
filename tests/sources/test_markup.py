"""Markup: the text of a page, one paragraph per line, in time linear in its length."""

import codecs
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import up_to
from timing import seconds

from cr5.sources.markup import decode, html_text, markdown_text, rst_text

READERS = [html_text, markdown_text, rst_text]
PIECES = [
    *"<>/!?=\"'&;#[](){}|*_~`\\-+.:\n\t a1é",
    "<a b=\">\" ", "<a ='", "<!--", "-->", "<![CDATA[", "]]>", "</", "<p>", "</p>", "<b></i>", "<i><div></i>", "</div>",
    "<script>", "</script", "<title>", "<textarea>", "<svg>", "<main>", "<table><tr><td>", "<p hidden", "<x role=main>",
    "[a](", "[a](b(", "![", "[^", "[!", "{{<", "{%", "```\n", "~~~", "> ", "- ", "1. ", "# ", "---\n", "title: ", "**a",
    "|-", "&#", "&amp;", ":::", "!!! ", "import ", ".. x::\n", ":a:`", "::\n", "|x|", "    ",
]  # fmt: skip
garbage = st.lists(st.sampled_from(PIECES), max_size=60).map("".join)
words = st.lists(st.text("abcdefghijkæøåßжд漢字", min_size=1, max_size=6), min_size=1, max_size=6).map(" ".join)
paragraphs = st.lists(words, min_size=1, max_size=6)
relaxed = settings(max_examples=up_to(100), deadline=None)

PAGE = """<!DOCTYPE html>
<html lang="it"><head>
<meta http-equiv="Content-Type" content="text/html; charset=utf-8">
<title>Righe &amp; colonne</title>
<style>p { color: red }</style><script>if (a < b) document.write("<p>no</p>");</script>
</head><body>
<header><a href="/">Guida</a></header><aside><label for="x">Contenuto</label></aside><nav><ul><li>Menu</ul></nav>
<div id="DisplayArea">
<a name="bm1"></a><h1 id="hd1">Righe e
   colonne</h1>
<p class="paragraph">Scegliete <span class="menuitem">Foglio&nbsp;- Inserisci</span>, o premete
<span class="switch"><span hidden="true" class="MAC">Comando</span><span hidden="true">Ctrl</span></span>+I.</p>
<!-- <p>a comment</p> --><pre>x = 1</pre>
<table><tr><td><p>Cella</p></td><td>A1</td></tr><tr><td>uno<td>due</table>
<ul><li>primo<li>secondo</ul>Fine<br>davvero
<svg><title>icon</title><text>no</text></svg><p style="display: none">no</p><i aria-hidden="true">no</i>
</div><footer><p>Help content debug info</p></footer></body></html>
"""


# HTML


def test_a_help_page_becomes_its_paragraphs() -> None:
    title, text = html_text(PAGE)
    assert title == "Righe & colonne"
    assert text.split("\n") == [
        "Righe e colonne", "Scegliete Foglio - Inserisci, o premete Comando Ctrl+I.", "Cella", "A1", "uno due", "primo",
        "secondo", "Fine", "davvero",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>a<main><p>b</main><p>c", "b"),
        ("<p>a<article><header><h1>b</h1></header>c</article><article>d</article>e", "b\nc\nd"),
        ("<article>a<main>b</main></article>", "b"),
        ("<p>a<div role=main>b<p>c</div>d", "b\nc"),
        ("<p>a<main> </main>", "a"),
        ("a<nav>b<b>c</nav>d", "a\nd"),
        ("<div role='navigation'>a</div>b", "b"),
        ("<div>a<nav>b</div>c", "a\nc"),
        ("<b><p>a</b>b</p>c", "ab\nc"),
        ("a</b></i>b</p>c", "ab\nc"),
        ("<p style='display:none'>a<p>b", "b"),
        ("<div/>a<br/>b<script src=x />c", "a\nbc"),
        ("<p>a &lt;b&gt; &amp;amp; &#233;&#xe9;&eacute; &unknown; & 1 < 2 <3", "a <b> &amp; ééé &unknown; & 1 < 2 <3"),
        ("so&shy;lo", "solo"),
        ("<![CDATA[a & <b>]]>c", "a & <b>c"),
        ("a<![CDATA[b>c", "ac"),
        ("a<!-->b<!-- c > d -- > e --!>f", "ab"),
        ("a<?php b ?>c<!ELEMENT x>d</ x>e", "acde"),
        ("a<a href='x>y' title=\"</a>\">b</a>", "ab"),
        ('a<a href="b>c <i>d</i>', "ac d"),
        ("a<b", "a"),
        ("a<script>b", "a"),
        ("a<textarea>b", "ab"),
        ("<head><meta x><p>a", "a"),
        ("<ruby>漢<rp>(</rp><rt>kan</rt></ruby>字", "漢字"),
        ("<form><select><option>a</select>b<button>c</button></form>", "b"),
        ("<noscript>a</noscript><template>b</template>c", "c"),
        ("", ""),
    ],
)
def test_html_gives_its_running_text_only(page: str, text: str) -> None:
    assert html_text(page)[1] == text


def test_a_page_without_a_title_has_its_first_heading() -> None:
    assert html_text("<h1>A <i>b</i>\n c</h1><h1>d</h1>") == ("A b c", "A b c\nd")
    assert html_text("<svg><title>x</title></svg><p>y") == ("", "y")


@given(st.text(max_size=20), paragraphs)
@relaxed
def test_random_html_pages_come_back_equal(title: str, texts: list[str]) -> None:
    title = " ".join(title.replace("\xad", "").replace("\0", "").replace("\r", " ").split())
    escaped = title.replace("&", "&amp;").replace("<", "&lt;")
    body = "".join(f"<p class=x>{text}</p>\n" for text in texts)
    found = html_text(f"<!DOCTYPE html><title>{escaped}</title><body><nav>no</nav>{body}</body>")
    assert found == (title, "\n".join(texts))


# Markdown

DOCUMENT = """---
title: "Pods \\"and\\" more"
weight: 3
---
import Tabs from '@theme/Tabs';

## Heading {#id}

A *paragraph* with **bold**text, `code <b> *x*` and [a
link](http://x.y/(z) "t"), ![alt](img.png) [![badge](c)](d) [ref][1], snake_case a < b, 2 * 3, x<y.[^1]

    indented code

- item one
  continued

    its second paragraph
1. [ ] task

> [!NOTE]
> Quoted text.

| a | b |
|---|---|
| c | d |

x | y
--|--
1 | 2

```python
code
```

[1]: http://foo
[^1]: A footnote.

{{< note >}}Shown{{< /note >}} by {{< glossary_tooltip text="pod" term_id="pod" >}} {% raw %}<b>html</b>
<!-- a comment

over <b> paragraphs -->

Under
-----
:::tip Advice
inside
:::

!!! note "Called"
    Indented text.

\\*no emphasis\\* &amp; &copy; <https://a.b>
"""


def test_a_markdown_page_becomes_its_paragraphs() -> None:
    title, text = markdown_text(DOCUMENT)
    assert title == 'Pods "and" more'
    assert text.split("\n") == [
        'Pods "and" more', "Heading",
        "A paragraph with boldtext, code <b> *x* and a link, alt badge ref, snake_case a < b, 2 * 3, x<y.",
        "item one continued", "its second paragraph", "task", "Quoted text.", "a b", "c d", "x y", "1 2", "A footnote.",
        "Shown by pod html", "Under", "Advice", "inside", "Called", "Indented text.", "*no emphasis* & ©",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("page", "title", "text"),
    [
        ("+++\ntitle = 'It''s'\n+++\na", "It's", "It's\na"),
        ("---\ntitle: >-\n  Below\n---\na", "Below", "Below\na"),
        ("---\ndraft: true\n---\n# A\n\nb", "A", "A\nb"),
        ("---\ntitle: A\n---\n# A\n\nb", "A", "A\nb"),
        ("---\ntitle: A\n---\n\n", "A", ""),
        ("---\na", "", "a"),
        ("A\n===\nb", "A", "A\nb"),
        ("a\r\nb\r\n\r\nc", "", "a b\nc"),
        ("这是**粗体**文字", "", "这是粗体文字"),
        ("~~~\ncode\n```\n~~~\na", "", "a"),
        ("```\ncode", "", ""),
        ("a `` x `` b ` c", "", "a x b ` c"),
        ("<div>\n\n*a*\n\n</div><script>\n\nb\n\n</script>c", "", "a\nc"),
        ("[!INCLUDE [x](y.md)]a [b]", "", "a [b]"),
        ("* * *\na\n\n***\n- b\n- - -", "", "a\nb"),
    ],
)
def test_markdown_gives_its_running_text_only(page: str, title: str, text: str) -> None:
    assert markdown_text(page) == (title, text)


@given(paragraphs, st.sampled_from(["\n\n", "\n- ", "\n## ", "\n\n> ", "\n\n```\nx y\n```\n"]))
@relaxed
def test_random_markdown_pages_come_back_equal(texts: list[str], between: str) -> None:
    page = "# A title" + "".join(between + text.replace(" ", " **") for text in texts)
    assert markdown_text(page) == ("A title", "\n".join(["A title", *texts]))


# reStructuredText


def test_a_restructuredtext_page_becomes_its_paragraphs() -> None:
    page = """.. _label:

=====
Title
=====

Text with :ref:`a link <x>`, :py:func:`f`, ``code``, `site <http://a>`_ and *emphasis* [1]_
that continues.

.. note:: Be careful
   with this.

.. code-block:: python

   x = 1

   y = 2

Example::

    code

:field: value

- item
- another
"""
    assert rst_text(page) == (
        "Title",
        "Title\nText with a link, f, code, site and emphasis that continues.\nBe careful with this.\nExample:\n"
        "item\nanother",
    )


@given(paragraphs)
@relaxed
def test_random_restructuredtext_pages_come_back_equal(texts: list[str]) -> None:
    page = "Title\n=====\n\n" + "\n\n".join(text.replace(" ", "\n") for text in texts)
    assert rst_text(page) == ("Title", "\n".join(["Title", *texts]))


# Bytes


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("è漢".encode(), "è漢"),
        ("è".encode("utf-8-sig"), "è"),
        (codecs.BOM_UTF16_LE + "è".encode("utf-16-le"), "è"),
        (codecs.BOM_UTF32_BE + "è".encode("utf-32-be"), "è"),
        (b"<meta charset=iso-8859-1>\x93\xe8\x94", "<meta charset=iso-8859-1>“è”"),
        (b"<meta http-equiv=x content='text/html; charset=Shift_JIS'>" + "漢".encode("cp932"), None),
        (b"<?xml version='1.0' encoding='koi8-r'?>" + "ж".encode("koi8-r"), "<?xml version='1.0' encoding='koi8-r'?>ж"),
        (b"<meta charset=iso-2022-jp>" + "漢".encode("iso-2022-jp"), "<meta charset=iso-2022-jp>漢"),
        ("<meta charset=latin1>è".encode(), "<meta charset=latin1>è"),
        ("<meta charset=utf-16>è".encode(), "<meta charset=utf-16>è"),
        ("<meta charset=nonsense>è".encode(), "<meta charset=nonsense>è"),
        (b"<meta charset=zlib>a", "<meta charset=zlib>a"),
        (b"", ""),
    ],
)
def test_a_page_is_decoded_in_the_encoding_that_it_declares(data: bytes, text: str | None) -> None:
    assert decode(data) == text or (text is None and decode(data).endswith("漢"))


@pytest.mark.parametrize("data", [b"\xe8", b"<meta charset=utf-8>\xe8", b"<meta charset=nonsense>\xe8", b"\xff\xfea"])
def test_bytes_that_are_not_text_are_an_error(data: bytes) -> None:
    with pytest.raises(UnicodeDecodeError):
        decode(data)


@given(st.binary(max_size=60), st.sampled_from([b"", b"<meta charset=", b"\xff\xfe", b"<?xml encoding='"]))
@relaxed
def test_decoding_gives_text_or_a_unicode_error(data: bytes, start: bytes) -> None:
    with suppress(UnicodeDecodeError):
        assert isinstance(decode(start + data), str)


# Garbage


@pytest.mark.parametrize("reader", READERS)
@given(page=garbage | st.text())
@relaxed
def test_garbage_is_read_without_an_exception(reader: Callable[[str], tuple[str, str]], page: str) -> None:
    title, text = reader(page)
    assert "\n" not in title
    assert all(line and line == line.strip() for line in text.split("\n")) or not text


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_time_is_linear_whatever_is_repeated(reader: Callable[[str], tuple[str, str]]) -> None:
    for piece in PIECES:
        page = "a_" + piece * (120_000 // len(piece)) + "a"
        # Squared, it would be several times as much.
        assert seconds(partial(reader, page), 1.5) < 1.5, piece
