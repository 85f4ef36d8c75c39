"""Markup: HTML, Markdown and reStructuredText, and the plain text in them, a paragraph a line.

What a page does not say in running words is dropped: menus, scripts, code, formulas, form controls.
Broken markup loses its signs and keeps its words. Time is linear in the length, whatever the text: no
regular expression goes back over what it has read, and what was once looked for in vain is not looked for again.
"""

import codecs
import html
import re
from collections import Counter
from collections.abc import Iterator

__all__ = ["decode", "html_text", "markdown_text", "rst_text"]


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


_VOID = _names("area base br col embed hr img input link meta param source track wbr")
_RAW = _names("iframe noembed noframes script style textarea title xmp")  # a tag inside means nothing
_DROPPED = _names(
    "aside audio button canvas datalist fieldset footer head label legend math menu nav noscript object pre rp rt "
    "select svg template video"
)
_BLOCKS = _names(
    "address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset "
    "figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr legend li main menu nav ol option p "
    "pre search section summary table tbody tfoot thead title tr ul"
)
# What an element ends by its start, where that stands open right around it.
_ENDS = dict.fromkeys(_BLOCKS - {"br"}, frozenset({"p", "head"})) | {
    "li": frozenset({"p", "li"}),
    "dt": frozenset({"p", "dt", "dd"}),
    "dd": frozenset({"p", "dt", "dd"}),
    "td": frozenset({"p", "td", "th"}),
    "th": frozenset({"p", "td", "th"}),
    "tr": frozenset({"p", "td", "th", "tr"}),
    "tbody": frozenset({"p", "td", "th", "tr", "thead", "tbody"}),
}
_ASIDE_ROLES = frozenset({"navigation", "search", "banner", "contentinfo", "complementary"})
_ALL, _ARTICLE, _MAIN = range(3)  # the parts of a page, the best last
_DEPTH = 64  # how many elements an inline end tag looks through for its start

_TAG = re.compile(r"<(/?+)([a-zA-Z][^\s/>]*+)((?:[^>=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+'|(?![\"'])))*+)>")
_TAG_WITHOUT_QUOTES = re.compile(r"<(/?+)([a-zA-Z][^\s/>]*+)([^>]*+)>")
_ATTRIBUTE = re.compile(r"([^\s=\"'/]++)(?:\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'>]++)))?+")
_TELLING = re.compile(r"hidden|none|role")  # in attributes that are worth a look
_NOT_SHOWN = re.compile(r"display\s*+:\s*+none|visibility\s*+:\s*+hidden", re.IGNORECASE)
_END = {name: re.compile(rf"</{name}(?=[\s/>])[^>]*+>", re.IGNORECASE) for name in _RAW}

_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"\s*<\?xml[^>]{0,100}?encoding\s*=\s*[\"']([\w.:-]+)", re.IGNORECASE)
# Longer marks first: that of UTF-32 begins with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_SEVEN_BITS = ("iso2022", "hz", "utf-7", "utf_7")  # encodings whose bytes pass for ASCII
_WIDER = {"iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932"}


def decode(data: bytes) -> str:
    """A page's characters: by its byte order mark, else UTF-8, else in the encoding that the page itself names.

    A page that names another and is UTF-8 all the same was converted and not edited. Raises ``UnicodeDecodeError``.
    """
    for mark, name in _MARKS.items():
        if data.startswith(mark):
            return data.decode(name)
    named = _named_encoding(data)
    if named is not None and named.startswith(_SEVEN_BITS):
        return data.decode(named)
    try:
        return data.decode()
    except UnicodeDecodeError:
        if named is None or named == "utf-8":
            raise
    return data.decode(named)


def _named_encoding(data: bytes) -> str | None:
    """The encoding as Python calls it, or as browsers do, who take narrow ones for the wider ones around them."""
    found = _XML_ENCODING.match(data, 0, 300) or _CHARSET.search(data, 0, 2048)
    if found is None:
        return None
    try:
        name = codecs.lookup(found[1].decode("ascii", "replace")).name
        b"".decode(name)  # some codecs are not for text
    except LookupError:
        return None
    return None if name.startswith(("utf-16", "utf-32")) else _WIDER.get(name, name)  # it was read as ASCII


# HTML


def html_text(data: str) -> tuple[str, str]:
    """A page's title, or its first heading, and its text: that of <main>, <article> or role=main where there is one.

    What the attribute ``hidden`` hides stays, apart from its neighbours: in documentation it waits for a script
    that shows one of several platforms or tabs. What a style or ``aria-hidden`` hides is dropped.
    """
    page = _Page()
    page.read(data)
    text = next((text for part in reversed(page.parts) if (text := _lines("".join(part)))), "")
    return page.title or page.heading, text


class _Page:
    """A page as it is read: the elements that stand open, and the text of its parts so far."""

    def __init__(self, whole: bool = False) -> None:
        self.whole = whole  # it has no parts
        self.title = self.heading = ""
        self.parts: list[list[str]] = [[], [], []]
        self.part, self.dropped = _ALL, False
        self.stack: list[tuple[str, int, bool, int]] = []  # a name, what was before, and how much text the part had
        self.open: Counter[str] = Counter()
        self.endless: set[str] = set()  # raw elements that do not end any more

    def read(self, data: str) -> None:
        tag, here = _TAG, 0
        cdata = True  # whether there may be an end of such a section
        while (start := data.find("<", here)) >= 0:
            if start > here:
                self.add(data[here:start])
            after = data[start + 1 : start + 2]
            if found := tag.match(data, start):
                closing, name, attributes = found.groups()
                name, here = name.lower(), found.end()
                if closing:
                    self.end(name)
                elif name in _RAW:
                    here = self.raw(name, attributes, data, here)
                else:
                    self.begin(name, attributes)
            elif data.startswith("<!--", start):
                here = _behind(data, "-->", start + 2)  # <!--> is one, too
            elif cdata and data.startswith("<![CDATA[", start):
                cdata = (end := data.find("]]>", start)) >= 0
                if cdata:
                    self.add(data[start + 9 : end].replace("&", "&amp;"))
                here = end + 3 if cdata else start
            elif after in ("!", "?") or (after == "/" and not data[start + 2 : start + 3].isalpha()):
                here = _behind(data, ">", start)
            elif after == "/" or (after.isascii() and after.isalpha()):
                here = start if tag is _TAG else len(data)  # a quote, then a tag without an end
                tag = _TAG_WITHOUT_QUOTES
            else:
                self.add("<")
                here = start + 1
        self.add(data[here:])

    def raw(self, name: str, attributes: str, data: str, here: int) -> int:
        """Pass over an element that has no tags inside; return where it ends."""
        if attributes.endswith("/") or name in self.endless:
            return here
        end = _END[name].search(data, here)
        if end is None:
            self.endless.add(name)
            return len(data) if name in ("script", "style") else here
        if name == "title" and not self.title and not self.open["svg"]:
            self.title = _line(html.unescape(data[here : end.start()]))
        return end.end()

    def begin(self, name: str, attributes: str) -> None:
        if ends := _ENDS.get(name):
            while self.stack and self.stack[-1][0] in ends:
                self.pop()
        part, dropped = self.part, self.dropped or name in _DROPPED
        if name == "main":
            part = _MAIN
        elif name == "article":
            part = max(part, _ARTICLE)
        elif name == "header":
            dropped = dropped or part == _ALL  # that of an article has its title
        if name in _BLOCKS:
            self.add("\0")
        elif name in ("td", "th"):
            self.add(" ")
        if attributes and _TELLING.search(attributes):
            known = {
                match[1].lower(): match[2] or match[3] or match[4] or "" for match in _ATTRIBUTE.finditer(attributes)
            }
            if "hidden" in known:
                self.add(" ")
            dropped = (
                dropped
                or known.get("aria-hidden") == "true"
                or known.get("role") in _ASIDE_ROLES
                or _NOT_SHOWN.search(known.get("style", "")) is not None
            )
            if known.get("role") == "main":
                part = _MAIN
        if name in _VOID or attributes.endswith("/"):
            return
        self.stack.append((name, self.part, self.dropped, len(self.parts[self.part])))
        self.open[name] += 1
        self.part, self.dropped = _ALL if self.whole else part, dropped

    def end(self, name: str) -> None:
        if name in _BLOCKS:
            self.add("\0")  # to the part that ends here, and below to the one around it
        if self.open[name] and (name in _BLOCKS or name in _DROPPED or self.is_near(name)):
            while self.pop() != name:
                pass
        if name in _BLOCKS:
            self.add("\0")

    def is_near(self, name: str) -> bool:
        """Whether an inline element stands open with no block inside it: its end must not end those."""
        for other, *_ in self.stack[: -_DEPTH - 1 : -1]:
            if other == name:
                return True
            if other in _BLOCKS:
                return False
        return False

    def pop(self) -> str:
        name, part, dropped, start = self.stack.pop()
        if name == "h1" and not self.heading:
            self.heading = _line("".join(self.parts[part][start:]).replace("\0", " "))
        self.part, self.dropped = part, dropped
        self.open[name] -= 1
        return name

    def add(self, text: str) -> None:
        """Take in text; \\0 is the end of a line."""
        if not self.dropped:
            self.parts[self.part].append(html.unescape(text) if "&" in text else text)


def _behind(data: str, end: str, here: int) -> int:
    found = data.find(end, here)
    return len(data) if found < 0 else found + len(end)


def _lines(text: str) -> str:
    """Text without needless space and empty lines, where \\0 ends a line."""
    return "\n".join(line for part in text.split("\0") if (line := _line(part)))


def _line(text: str) -> str:
    return " ".join(text.replace("\xad", "").split())  # a soft hyphen parts no words


# Markdown

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
_SIGN = re.compile(r"[!-/:-@\[-`{-~]")
_NO_TAG = re.compile(r"<(?!!--|[a-zA-Z/!?][^<>]*+>)")


def markdown_text(data: str) -> tuple[str, str]:
    """A page's title, from its front matter or first heading, and its text under that title.

    Of links and images the text stays, and code within a line; blocks of code are dropped, as are shortcodes.
    HTML inside is read as such.
    """
    data = data.replace("\r\n", "\n").replace("\r", "\n")
    title = ""
    if front := _FRONT_MATTER.match(data):
        title = _front_title(front[1] or front[2] or "")
        data = data[front.end() :]
    page = _Page(whole=True)
    page.read("".join(_markdown_blocks(data.split("\n"))))
    text = _lines("".join(page.parts[_ALL]))
    if title and text and not text.startswith(title):
        text = f"{title}\n{text}"
    return title or page.heading, text


def _front_title(matter: str) -> str:
    found = _TITLE.search(matter)
    if found is None:
        return ""
    value = found[1].strip()
    if value in (">", ">-", "|", "|-"):  # it stands below
        value = (found[2] or "").strip()
    quote = value[:1]
    if quote in ("'", '"') and len(value) > 1 and value.endswith(quote):
        value = value[1:-1].replace(2 * quote if quote == "'" else '\\"', quote)
    return _line(value)


def _markdown_blocks(lines: list[str]) -> Iterator[str]:
    """Paragraphs, headings, items and rows as HTML, each without markup of its own."""
    waiting: list[str] = []  # lines of a paragraph
    fence = ""
    blank, indented, table, module = True, False, False, False  # indented: such lines are text, as in a list

    def block(name: str = "p") -> Iterator[str]:
        if waiting:
            yield f"<{name}>{_inline(' '.join(waiting))}</{name}>"
            waiting.clear()

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
        if module or (not waiting and _MODULE.match(line)):
            module = True
            continue
        if margin >= 4 and not waiting and not indented:
            continue  # code
        if item := _ITEM.match(bare):
            if not _is_rule(bare):
                yield from block()
                bare, indented = bare[item.end() :].strip(), True
        elif blank and margin == 0 and not quote:
            indented = False
        blank = False
        if found := _FENCE.match(bare):
            yield from block()
            fence = found[0]
        elif heading := _HEADING.match(bare):
            yield from block()
            waiting.append(bare[heading.end() :].rstrip("#"))
            yield from block("h1" if len(heading[1]) == 1 else "h2")
        elif _is_rule(bare):
            yield from block("h1" if bare[0] == "=" else "p")
        elif "|" in bare and "-" in bare and not bare.strip("|-: "):
            waiting[:] = [row.replace("|", " ") for row in waiting]
            yield from block()
            table = True
        elif table or bare.startswith("|"):
            yield from block()
            waiting.append(bare.replace("|", " "))
            yield from block()
        elif admonition := _ADMONITION.match(bare):
            yield from block()
            waiting.append(bare[admonition.end() :].strip(' "[]'))
            yield from block()
            indented = indented or bare[0] != ":"
        elif not waiting and (definition := _DEFINITION.match(bare)):
            if definition[1]:  # a footnote
                waiting.append(bare[definition.end() :])
                indented = True
        elif bare:
            waiting.append(bare)
    yield from block()


def _is_rule(line: str) -> bool:
    """Whether a line is one of signs, across the page or under a heading."""
    signs = line.replace(" ", "")
    return (signs[:1] in ("-", "*", "_") and len(signs) >= 3 and not signs.strip(signs[0])) or (
        line[:1] in ("=", "-") and not line.strip(line[0])
    )


def _inline(text: str) -> str:
    """A paragraph as HTML: signs that are meant as such stand in it as character references."""
    text = _LITERAL.sub(lambda found: _referred(found[1] or found[2]), text)
    if "{" in text:
        text = _SHORTCODE.sub(_shortcode_text, text)
    if "[" in text:
        text = _LINK.sub(r"\1", _LINK.sub(r"\1", _NOTE.sub("", text)))  # an image may be a link's text
    return _NO_TAG.sub("&lt;", _EMPHASIS.sub("", text))


def _referred(text: str) -> str:
    return _SIGN.sub(lambda sign: f"&#{ord(sign[0])};", text)


def _shortcode_text(found: re.Match[str]) -> str:
    said = _SHORTCODE_TEXT.search(found[1] or "")
    return said[1] if said else ""


# reStructuredText

_DIRECTIVE = re.compile(r"\.\.(?:[ \t]++|\Z)(?:\|[^|]*+\|[ \t]*+)?+(?:([\w:-]*[\w-])::)?")
_TALKING = _names(
    "admonition attention caution danger deprecated epigraph error hint important note only pull-quote rubric seealso "
    "sidebar tip topic versionadded versionchanged warning"
)
_FIELD = re.compile(r":[^:`\s][^:`]*+:(?:[ \t]++|\Z)")
_RST_ITEM = re.compile(r"(?:[-*+•]|(?:\d{1,9}|#)[.)])[ \t]++|\|[ \t]++")
_ROLE = re.compile(r"(?::(?:[\w+.-]{1,40}+:){1,3}+)?+`([^`<]*+)(?:<[^`<>]*+>)?`(?:__?+)?|``([^`]++)``")
_STRONG = re.compile(r"\*++(?=\S)|(?<=\S)\*++|(?<=\w)_(?!\w)|\|(?=\w)|(?<=\w)\|_?+|\[#?+\w*+\]_")


def rst_text(data: str) -> tuple[str, str]:
    """A page's title, which is its first heading, and its text without directives, code and tables' lines."""
    blocks: list[list[str]] = []  # lines of paragraphs
    title, going = "", False
    margin, hidden = 0, False  # of the block that is hidden, or that has to be looked into
    for line in data.splitlines():
        line = line.expandtabs(8)
        bare = line.strip()
        indent = len(line) - len(line.lstrip())
        if not bare:
            going = False
            continue
        if hidden and indent > margin:
            continue
        hidden = False
        if directive := _DIRECTIVE.match(bare):
            margin, going = indent, False
            hidden = directive[1] not in _TALKING
            bare = "" if hidden else bare[directive.end() :].strip()
        elif not bare.strip("=-~^\"'`#*+.:_<>| ") and not bare.startswith("::"):
            if going and not title and len(bare) > 1:
                title = " ".join(blocks[-1])
            going = False
            continue
        elif _FIELD.match(bare):
            continue
        if bare.endswith("::"):
            margin, hidden = indent, True
            bare = bare[:-1]
        if item := _RST_ITEM.match(bare):
            bare, going = bare[item.end() :], False
        bare = _line(_STRONG.sub("", _ROLE.sub(lambda found: (found[1] or found[2] or "").strip(), bare)))
        if bare.strip(":"):
            if going:
                blocks[-1].append(bare)
            else:
                blocks.append([bare])
            going = True
    return title, "\n".join(map(" ".join, blocks))
