"""reStructuredText: the title and the text of a page."""

import re

from cr5.sources.markup.html import one_line

_DIRECTIVE = re.compile(r"\.\.(?:[ \t]++|\Z)(?:\|[^|]*+\|[ \t]*+)?+(?:([\w:-]*[\w-])::)?")
_TEXT_DIRECTIVES = {
    "admonition", "attention", "caution", "danger", "deprecated", "epigraph", "error", "hint", "important", "note",
    "only", "pull-quote", "rubric", "seealso", "sidebar", "tip", "topic", "versionadded", "versionchanged", "warning",
}  # fmt: skip
_FIELD = re.compile(r":[^:`\s][^:`]*+:(?:[ \t]++|\Z)")
_RST_ITEM = re.compile(r"(?:[-*+•]|(?:\d{1,9}|#)[.)])[ \t]++|\|[ \t]++")
_ROLE = re.compile(r"(?::(?:[\w+.-]{1,40}+:){1,3}+)?+`([^`<]*+)(?:<[^`<>]*+>)?`(?:__?+)?|``([^`]++)``")
_STRONG = re.compile(r"\*++(?=\S)|(?<=\S)\*++|(?<=\w)_(?!\w)|\|(?=\w)|(?<=\w)\|_?+|\[#?+\w*+\]_")


def rst_text(data: str) -> tuple[str, str]:
    """The title of a page, which is its first heading, and its text without directives, code and table borders."""
    blocks: list[list[str]] = []  # lines of paragraphs
    title, continues = "", False
    margin, hidden = 0, False  # of the block that is dropped, if ``hidden``
    for line in data.splitlines():
        line = line.expandtabs(8)
        bare = line.strip()
        indent = len(line) - len(line.lstrip())
        if not bare:
            continues = False
            continue
        if hidden and indent > margin:
            continue
        hidden = False
        if directive := _DIRECTIVE.match(bare):
            margin, continues = indent, False
            hidden = directive[1] not in _TEXT_DIRECTIVES
            bare = "" if hidden else bare[directive.end() :].strip()
        elif not bare.strip("=-~^\"'`#*+.:_<>| ") and not bare.startswith("::"):
            if continues and not title and len(bare) > 1:
                title = " ".join(blocks[-1])
            continues = False
            continue
        elif _FIELD.match(bare):
            continue
        if bare.endswith("::"):
            margin, hidden = indent, True
            bare = bare[:-1]
        if item := _RST_ITEM.match(bare):
            bare, continues = bare[item.end() :], False
        bare = one_line(_STRONG.sub("", _ROLE.sub(lambda match: (match[1] or match[2] or "").strip(), bare)))
        if bare.strip(":"):
            if continues:
                blocks[-1].append(bare)
            else:
                blocks.append([bare])
            continues = True
    return title, "\n".join(map(" ".join, blocks))
