"""The commands that bring models from and to other formats."""

import time
from pathlib import Path
from typing import Annotated

import typer

from cr5.cli.options import Json, Langs, OnError, comma_separated
from cr5.cli.render import console, models
from cr5.corpus.skipped import Skipped
from cr5.exchange.published_vectors import convert_published
from cr5.model import Cr5


def convert(
    folder: Annotated[
        Path, typer.Argument(help="Folder with files such as joint_4_en.txt.gz (Zenodo record 2597441).")
    ],
    name: Annotated[str, typer.Argument(help="The model, e.g. joint_4 or joint_28.", metavar="MODEL_NAME")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write the model to.", metavar="MODEL")],
    langs: Langs = None,
    rank: Annotated[
        int | None,
        typer.Option(min=1, help="Numbers of a word.", show_default="as many as most lines end in", metavar="NUMBER"),
    ] = None,
    on_error: OnError = "raise",
    json: Json = False,
) -> None:
    """Convert word vectors that the paper's authors published into a model.

    A vector of a text is then the sum of the vectors of its words, as in the authors' libraries, at length 1. Example:

        cr5 convert downloads/ joint_4 -o model --langs it,en
    """
    skipped, started = Skipped(), time.perf_counter()
    with console.progress_bars(json) as progress:
        report = convert_published(
            folder, name, output, comma_separated(langs), rank=rank, on_error=on_error, skipped=skipped,
            progress=progress,
        )  # fmt: skip
    seconds = time.perf_counter() - started
    if json:
        about = {"model": str(output), "seconds": seconds, "skipped": skipped.counts, "report": report}
        console.as_json(about)
        return
    console.skipped_lines(skipped)
    models.training_report(Cr5.load(output), output, seconds)
