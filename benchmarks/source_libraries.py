"""Why gettext catalogues and Markdown are parsed here and not by polib and markdown-it-py. One JSON object a parser.

python benchmarks/source_libraries.py [--megabytes 4]

Both parsers read the same made-up file in the same process, in turn. ``survivors`` counts, for each of five ways to
damage the second of three messages, how many of the other two are read, and ``reported`` how often the damage is
reported with its line. ``slow`` lists the pieces of markup that take over 1.5 s when repeated to 120 kB.
"""

import argparse
import io
import json
import random
import time
from collections.abc import Callable

import polib
from markdown_it import MarkdownIt

from cr5.sources.catalogue_files import read_po
from cr5.sources.markup import html_text, markdown_text

HEADER = 'msgid ""\nmsgstr ""\n"Language: it\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
DAMAGED = ['msgid "c\nmsgstr "d"', "<<<<<<< HEAD", 'msgid "c"', 'msgid "c"d"\nmsgstr "e"', 'msgid "c"\nmsgstr "\udcff"']
PIECES = ["[", "![", "[^", "[!", "[a](", "**a", "<![CDATA[", "::\n", "- ", "> ", "`", "*", "_", "<", "&", "|-", "    "]


def words(rng: random.Random, count: int) -> str:
    return " ".join(f"w{rng.randrange(10_000)}" for _ in range(count))


def catalogue(size: int) -> str:
    rng, parts, length = random.Random(1), [HEADER], 0
    while length < size:
        n = len(parts)
        parts.append(
            f'#: src/f{n // 20}.c:{n}\nmsgctxt "c"\nmsgid ""\n"{n} {words(rng, 12)}\\n"\n"{words(rng, 12)}"\n'
            f'msgstr ""\n"{words(rng, 12)}\\n"\n"{words(rng, 12)}"\n\n'
        )
        length += len(parts[-1])
    return "".join(parts)


def page(size: int) -> str:
    rng, parts, length = random.Random(1), [], 0
    while length < size:
        parts.append(
            f"## {words(rng, 4)}\n\n{words(rng, 60)} **{words(rng, 3)}** `x` [{words(rng, 2)}](http://x/)\n\n"
            f"- {words(rng, 12)}\n- {words(rng, 12)}\n\n```python\n{words(rng, 20)}\n```\n\n> {words(rng, 20)}\n\n"
            f"| {words(rng, 1)} | {words(rng, 1)} |\n|---|---|\n| {words(rng, 2)} | {words(rng, 2)} |\n\n"
        )
        length += len(parts[-1])
    return "".join(parts)


def with_cr5(content: bytes) -> tuple[list[str], list[str]]:
    problems: list[str] = []
    messages = list(read_po(io.BytesIO(content), "it.po", lambda reason, message: problems.append(message)))
    return [message.id for message in messages], problems


def with_polib(content: bytes) -> tuple[list[str], list[str]]:
    try:
        return [entry.msgid for entry in polib.pofile(content.decode())], []
    except (OSError, UnicodeDecodeError) as error:
        return [], [str(error)]


def with_markdown_it(text: str) -> tuple[str, str]:
    return html_text(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text))


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=4.0, help="size of the catalogue, and of the page")
    size = int(parser.parse_args().megabytes * 1e6)
    content, text = catalogue(size).encode(), page(size)
    damaged = [
        f'{HEADER}msgid "a"\nmsgstr "b"\n\n{entry}\n\nmsgid "e"\nmsgstr "f"\n'.encode("utf-8", "surrogateescape")
        for entry in DAMAGED
    ]
    for name, read in (("cr5", with_cr5), ("polib", with_polib)):
        duration = min(seconds(lambda read=read: read(content)) for _ in range(3))  # type: ignore[misc]
        found = [read(one) for one in damaged]
        figures = {"format": "gettext", "parser": name, "mb_s": len(content) / duration / 1e6}
        counts = {
            "survivors": [sum(name in ("a", "e") for name in ids) for ids, _ in found],
            "reported": sum("it.po:" in str(problems) or "(line" in str(problems) for _, problems in found),
        }
        print(json.dumps(figures | counts), flush=True)
    for name, convert in (("cr5", markdown_text), ("markdown-it-py", with_markdown_it)):
        duration = min(seconds(lambda convert=convert: convert(text)) for _ in range(3))  # type: ignore[misc]
        slow = [
            piece
            for piece in PIECES
            if seconds(lambda convert=convert, piece=piece: convert(piece * (120_000 // len(piece)))) > 1.5  # type: ignore[misc]
        ]
        figures = {"format": "markdown", "parser": name, "mb_s": len(text) / duration / 1e6}
        print(json.dumps(figures | {"slow": slow}), flush=True)


if __name__ == "__main__":
    main()
