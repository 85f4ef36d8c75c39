"""Markdown: the title and the text of a page."""

import re
from collections.abc import Iterator

from cr5.sources.markup.html import HtmlPage, one_line, text_lines

_FRONT_MATTER = re.compile(
    r"\s*+(?:---[ \t]*+\n(.*?)^(?:---|\.\.\.)|\+\+\+[ \t]*+\n(.*?)^\+\+\+)[ \t]*+$", re.DOTALL | re.M
)
_TITLE = re.compile(r"^title[ \t]*+[:=][ \t]*+(.*)$(?:\n[ \t]++(.*)$)?", re.MULTILINE)
_QUOTE = re.compile(r"\s*+(?:>[ \t]?+)++")
_FENCE = re.compile(r"(?:`{3,}+(?=[^`]*+\Z)|~{3,}+)")
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:[ \t]++|\Z)(?:\[[ xX]\][ \t])?+|:[ \t]++")
_HEADING = re.compile(r"(#{1,6}+)(?:[ \t]++|\Z)")
_DEFINITION = re.compile(r"\*?+\[(\^?+)[^\[\]]++\]:(?!:)")
_ADMONITION = re.compile(r"(?::::++[ \t]*+\{?[\w-]*+\}?+|(?:!!!|\?\?\?\+?+)[ \t]++[\w-]++)")
_MODULE = re.compile(r"import\s(?:.*\sfrom\s++)?[\"'{*]|export\s++(?:default|const|let|var|function|async|class|\{|\*)")
_LITERAL = re.compile(r"\\([!-/:-@\[-`{-~])|(?<!`)`++([^`]++)`++")
_SHORTCODE = re.compile(r"\{\{([^{}]*+)\}\}|\{(?:%|/\*|[#:.])[^{}]*+\}")
_SHORTCODE_TEXT = re.compile(r"\btext=\"([^\"]*+)\"")
_NOTE = re.compile(r"\[\^[^\[\]]*+\]|\[![\w-]++(?:[ \t]*+\[[^\[\]]*+\]\([^()]*+\))?+\]")
_TARGET = r"(?:\([^()]*+(?:\([^()]*+\)[^()]*+)*+\)|\[[^\[\]]*+\])"
_LINK = re.compile(rf"!?+\[([^\[\]]*+)\]{_TARGET}")
_EMPHASIS = re.compile(
    r"(?:\*\*++|~~)(?=\S)|(?<=\S)(?:\*\*++|~~)|(?<!\w)(?:\*|_++)(?=\S)|(?<=\S)\*(?!\w)|(?<=[^\s_])_++(?!\w)"
)
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_NOT_A_TAG = re.compile(r"<(?!!--|[a-zA-Z/!?][^<>]*+>)")


def markdown_text(data: str) -> tuple[str, str]:
    """The title of a page, from its front matter or first heading, and its text, which starts with the title.

    The text of links and images and inline code are kept; code blocks and shortcodes are dropped. Embedded HTML is
    parsed.
    """
    data = data.replace("\r\n", "\n").replace("\r", "\n")
    title = ""
    if front := _FRONT_MATTER.match(data):
        title = _front_title(front[1] or front[2] or "")
        data = data[front.end() :]
    page = HtmlPage(has_parts=False)
    page.read("".join(_markdown_blocks(data.split("\n"))))
    text = text_lines("".join(page.parts[0]))
    if title and text and not text.startswith(title):
        text = f"{title}\n{text}"
    return title or page.heading, text


def _front_title(matter: str) -> str:
    match = _TITLE.search(matter)
    if match is None:
        return ""
    value = match[1].strip()
    if value in (">", ">-", "|", "|-"):  # the value is on the next line
        value = (match[2] or "").strip()
    quote = value[:1]
    if quote in ("'", '"') and len(value) > 1 and value.endswith(quote):
        value = value[1:-1].replace(2 * quote if quote == "'" else '\\"', quote)
    return one_line(value)


def _markdown_blocks(lines: list[str]) -> Iterator[str]:
    """Convert paragraphs, headings, list items and table rows to HTML, without inline markup."""
    pending: list[str] = []  # lines of the current paragraph
    fence = ""
    blank, indented, table, module = True, False, False, False  # indented: indented lines are text, as in a list

    def block(name: str = "p") -> Iterator[str]:
        if pending:
            yield f"<{name}>{_inline(' '.join(pending))}</{name}>"
            pending.clear()

    for line in lines:
        line = line.expandtabs(4)
        if quote := _QUOTE.match(line):
            line = line[quote.end() :]
        bare = line.strip()
        margin = len(line) - len(line.lstrip())
        if fence:
            if bare.startswith(fence) and not bare.strip(fence[0]):
                fence = ""
            continue
        if not bare:
            yield from block()
            blank, table, module = True, False, False
            continue
        if module or (not pending and _MODULE.match(line)):
            module = True
            continue
        if margin >= 4 and not pending and not indented:
            continue  # code
        if item := _ITEM.match(bare):
            if not _is_rule(bare):
                yield from block()
                bare, indented = bare[item.end() :].strip(), True
        elif blank and margin == 0 and not quote:
            indented = False
        blank = False
        if opening := _FENCE.match(bare):
            yield from block()
            fence = opening[0]
        elif heading := _HEADING.match(bare):
            yield from block()
            pending.append(bare[heading.end() :].rstrip("#"))
            yield from block("h1" if len(heading[1]) == 1 else "h2")
        elif _is_rule(bare):
            yield from block("h1" if bare[0] == "=" else "p")
        elif "|" in bare and "-" in bare and not bare.strip("|-: "):
            pending[:] = [row.replace("|", " ") for row in pending]
            yield from block()
            table = True
        elif table or bare.startswith("|"):
            yield from block()
            pending.append(bare.replace("|", " "))
            yield from block()
        elif admonition := _ADMONITION.match(bare):
            yield from block()
            pending.append(bare[admonition.end() :].strip(' "[]'))
            yield from block()
            indented = indented or bare[0] != ":"
        elif not pending and (definition := _DEFINITION.match(bare)):
            if definition[1]:  # a footnote
                pending.append(bare[definition.end() :])
                indented = True
        elif bare:
            pending.append(bare)
    yield from block()


def _is_rule(line: str) -> bool:
    """Whether a line is a horizontal rule or underlines a heading."""
    characters = line.replace(" ", "")
    return (characters[:1] in ("-", "*", "_") and len(characters) >= 3 and not characters.strip(characters[0])) or (
        line[:1] in ("=", "-") and not line.strip(line[0])
    )


def _inline(text: str) -> str:
    """Convert a paragraph to HTML: escaped characters become character references, other markup is removed."""
    text = _LITERAL.sub(lambda match: _as_references(match[1] or match[2]), text)
    if "{" in text:
        text = _SHORTCODE.sub(_shortcode_text, text)
    if "[" in text:
        text = _LINK.sub(r"\1", _LINK.sub(r"\1", _NOTE.sub("", text)))  # twice, as an image may be the text of a link
    return _NOT_A_TAG.sub("&lt;", _EMPHASIS.sub("", text))


def _as_references(text: str) -> str:
    return _PUNCTUATION.sub(lambda match: f"&#{ord(match[0])};", text)


def _shortcode_text(shortcode: re.Match[str]) -> str:
    text = _SHORTCODE_TEXT.search(shortcode[1] or "")
    return text[1] if text else ""
