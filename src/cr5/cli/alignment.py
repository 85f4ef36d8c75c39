"""The commands that find what documents in several languages have in common: alignments."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import typer

from cr5 import alignment
from cr5.alignment.formats import Level, output_format
from cr5.cli.options import comma_separated
from cr5.cli.render import console
from cr5.cli.render.console import err
from cr5.errors import plural
from cr5.model import Cr5

Model = Annotated[Path, typer.Option(help="A folder that cr5 train wrote.", metavar="MODEL")]
TwoLangs = Annotated[
    str | None, typer.Option(help="The two languages, e.g. en,it.", metavar="CODES", show_default="guessed")
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="File to write, instead of standard output.", metavar="FILE"),
]


def align(
    a: Annotated[Path, typer.Argument(help="A text, HTML or Markdown file, or a folder of such files.", metavar="A")],
    b: Annotated[Path, typer.Argument(help="Its counterpart in another language.", metavar="B")],
    model: Model,
    langs: TwoLangs = None,
    free: Annotated[
        bool, typer.Option("--free", help="The sentences may be in another order; link those that fit best.")
    ] = False,
    level: Annotated[
        Level, typer.Option(help="Rows of TSV and TMX are sentences or sections, i.e. paragraphs.")
    ] = "sentence",
    output: Output = None,
    form: Annotated[
        Literal["tsv", "tmx", "html"] | None,
        typer.Option("--format", help="Format of the output.", show_default="by the suffix of FILE, else tsv"),
    ] = None,
) -> None:
    """Align the sentences and sections of two documents in two languages.

    Of two folders, the files with the same name are aligned. The HTML page
    shows both documents side by side. Examples:

        cr5 align guide.en.txt guide.it.txt --model model

        cr5 align guide.en.txt guide.it.txt --model model --langs en,it -o guide.html

        cr5 align en/ it/ --model model -o memory.tmx
    """
    chosen = output_format(output, form, ("tsv", "tmx", "html"))
    loaded = Cr5.load(model)
    with console.progress_bars() as progress:
        found = alignment.align_files(loaded, a, b, langs=comma_separated(langs), free=free, progress=progress)
    _write(output, alignment.alignment_text(found.texts, chosen, level=level))
    if found.unpaired:
        count, example = plural(len(found.unpaired), "file"), found.unpaired[0]
        err.print(f"note: {count} without a partner in the other folder, e.g. {example}", soft_wrap=True)
    if output is not None:
        links = [link for text in found.texts for link in text.sentences]
        linked = sum(bool(link.a and link.b) for link in links)
        _note(f"{linked:,} of {plural(len(links), 'row')} have sentences on both sides; written to {output}")


def _write(output: Path | None, parts: Iterable[str]) -> None:
    if output is not None:
        alignment.write_text(output, parts)
        return
    for part in parts:
        sys.stdout.write(part)


def _note(text: str) -> None:
    err.print(text, style="dim", soft_wrap=True)
