"""HTML: the title and the text of a page."""

import html
import re
from collections import Counter


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


_VOID = _set("area base br col embed hr img input link meta param source track wbr")
_RAW = _set("iframe noembed noframes script style textarea title xmp")  # their content has no tags
_DROPPED = _set(
    "aside audio button canvas datalist fieldset footer head label legend math menu nav noscript object pre rp rt "
    "select svg template video"
)
_BLOCKS = _set(
    "address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset "
    "figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr legend li main menu nav ol option p "
    "pre search section summary table tbody tfoot thead title tr ul"
)
# Open elements that the start of an element closes.
_CLOSES = dict.fromkeys(_BLOCKS - {"br"}, frozenset({"p", "head"})) | {
    "li": frozenset({"p", "li"}),
    "dt": frozenset({"p", "dt", "dd"}),
    "dd": frozenset({"p", "dt", "dd"}),
    "td": frozenset({"p", "td", "th"}),
    "th": frozenset({"p", "td", "th"}),
    "tr": frozenset({"p", "td", "th", "tr"}),
    "tbody": frozenset({"p", "td", "th", "tr", "thead", "tbody"}),
}
_NAVIGATION_ROLES = frozenset({"navigation", "search", "banner", "contentinfo", "complementary"})
_ALL, _ARTICLE, _MAIN = range(3)  # the parts of a page, the most relevant last
_MAX_INLINE_DEPTH = 64  # open elements among which an inline end tag is matched

_TAG = re.compile(r"<(/?+)([a-zA-Z][^\s/>]*+)((?:[^>=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+'|(?![\"'])))*+)>")
_TAG_WITHOUT_QUOTES = re.compile(r"<(/?+)([a-zA-Z][^\s/>]*+)([^>]*+)>")
_ATTRIBUTE = re.compile(r"([^\s=\"'/]++)(?:\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'>]++)))?+")
_RELEVANT_ATTRIBUTE = re.compile(r"hidden|none|role")
_NOT_SHOWN = re.compile(r"display\s*+:\s*+none|visibility\s*+:\s*+hidden", re.IGNORECASE)
_END = {name: re.compile(rf"</{name}(?=[\s/>])[^>]*+>", re.IGNORECASE) for name in _RAW}


def html_text(data: str) -> tuple[str, str]:
    """The title of a page, or its first heading, and its text: that of <main>, <article> or role=main if there is one.

    Elements with the attribute ``hidden`` are kept: in documentation, a script shows one of them for the chosen
    platform or tab. Elements that a style or ``aria-hidden`` hides are dropped.
    """
    page = HtmlPage()
    page.read(data)
    text = next((text for part in reversed(page.parts) if (text := text_lines("".join(part)))), "")
    return page.title or page.heading, text


class HtmlPage:
    """A page while it is parsed: its open elements, and the text of its parts.

    With ``has_parts=False`` all text belongs to one part, whatever elements it is in.
    """

    def __init__(self, has_parts: bool = True) -> None:
        self.has_parts = has_parts
        self.title = self.heading = ""
        self.parts: list[list[str]] = [[], [], []]
        self.part, self.dropped = _ALL, False
        self.stack: list[tuple[str, int, bool, int]] = []  # name; part, dropped and length of the part before it
        self.open: Counter[str] = Counter()
        self.unclosed: set[str] = set()  # raw elements without an end tag in the rest of the page

    def read(self, data: str) -> None:
        tag, position = _TAG, 0
        cdata = True  # whether the rest may contain the end of such a section
        while (start := data.find("<", position)) >= 0:
            if start > position:
                self.add(data[position:start])
            after = data[start + 1 : start + 2]
            if match := tag.match(data, start):
                closing, name, attributes = match.groups()
                name, position = name.lower(), match.end()
                if closing:
                    self.end(name)
                elif name in _RAW:
                    position = self.skip_raw_element(name, attributes, data, position)
                else:
                    self.start(name, attributes)
            elif data.startswith("<!--", start):
                position = _after(data, "-->", start + 2)  # <!--> is a comment too
            elif cdata and data.startswith("<![CDATA[", start):
                cdata = (end := data.find("]]>", start)) >= 0
                if cdata:
                    self.add(data[start + 9 : end].replace("&", "&amp;"))
                position = end + 3 if cdata else start
            elif after in ("!", "?") or (after == "/" and not data[start + 2 : start + 3].isalpha()):
                position = _after(data, ">", start)
            elif after == "/" or (after.isascii() and after.isalpha()):
                position = start if tag is _TAG else len(data)  # an unclosed quote, then an unclosed tag
                tag = _TAG_WITHOUT_QUOTES
            else:
                self.add("<")
                position = start + 1
        self.add(data[position:])

    def skip_raw_element(self, name: str, attributes: str, data: str, position: int) -> int:
        """Skip an element whose content has no tags; return where it ends."""
        if attributes.endswith("/") or name in self.unclosed:
            return position
        end = _END[name].search(data, position)
        if end is None:
            self.unclosed.add(name)
            return len(data) if name in ("script", "style") else position
        if name == "title" and not self.title and not self.open["svg"]:
            self.title = one_line(html.unescape(data[position : end.start()]))
        return end.end()

    def start(self, name: str, attributes: str) -> None:
        if closed := _CLOSES.get(name):
            while self.stack and self.stack[-1][0] in closed:
                self.pop()
        part, dropped = self.part, self.dropped or name in _DROPPED
        if name == "main":
            part = _MAIN
        elif name == "article":
            part = max(part, _ARTICLE)
        elif name == "header":
            dropped = dropped or part == _ALL  # the header of an article contains its title
        if name in _BLOCKS:
            self.add("\0")
        elif name in ("td", "th"):
            self.add(" ")
        if attributes and _RELEVANT_ATTRIBUTE.search(attributes):
            values = {
                match[1].lower(): match[2] or match[3] or match[4] or "" for match in _ATTRIBUTE.finditer(attributes)
            }
            if "hidden" in values:
                self.add(" ")
            dropped = (
                dropped
                or values.get("aria-hidden") == "true"
                or values.get("role") in _NAVIGATION_ROLES
                or _NOT_SHOWN.search(values.get("style", "")) is not None
            )
            if values.get("role") == "main":
                part = _MAIN
        if name in _VOID or attributes.endswith("/"):
            return
        self.stack.append((name, self.part, self.dropped, len(self.parts[self.part])))
        self.open[name] += 1
        self.part, self.dropped = part if self.has_parts else _ALL, dropped

    def end(self, name: str) -> None:
        if name in _BLOCKS:
            self.add("\0")  # in the part that ends here; below, in the enclosing one
        if self.open[name] and (name in _BLOCKS or name in _DROPPED or self.is_open_inline(name)):
            while self.pop() != name:
                pass
        if name in _BLOCKS:
            self.add("\0")

    def is_open_inline(self, name: str) -> bool:
        """Whether an inline element is open with no block inside it, which its end tag must not close."""
        for other, *_ in self.stack[: -_MAX_INLINE_DEPTH - 1 : -1]:
            if other == name:
                return True
            if other in _BLOCKS:
                return False
        return False

    def pop(self) -> str:
        name, part, dropped, start = self.stack.pop()
        if name == "h1" and not self.heading:
            self.heading = one_line("".join(self.parts[part][start:]).replace("\0", " "))
        self.part, self.dropped = part, dropped
        self.open[name] -= 1
        return name

    def add(self, text: str) -> None:
        """Append text to the current part; \\0 ends a line."""
        if not self.dropped:
            self.parts[self.part].append(html.unescape(text) if "&" in text else text)


def _after(data: str, end: str, position: int) -> int:
    start = data.find(end, position)
    return len(data) if start < 0 else start + len(end)


def text_lines(text: str) -> str:
    """Normalise spaces and drop empty lines, where \\0 ends a line."""
    return "\n".join(line for part in text.split("\0") if (line := one_line(part)))


def one_line(text: str) -> str:
    """Join text to one line, with single spaces."""
    return " ".join(text.replace("\xad", "").split())  # a soft hyphen does not separate words
