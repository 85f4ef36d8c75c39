"""``cr5 model``: the commands that change a trained model."""

import time
from pathlib import Path
from typing import Annotated

import typer

from cr5.cli.options import Corpora, Json, Model, parse_bytes, parse_ridge
from cr5.cli.render import console, models
from cr5.corpus.skipped import OnError, Skipped
from cr5.model import Cr5
from cr5.model_training import add_language_to_model
from cr5.training.engines.registry import EngineName

app = typer.Typer(help="Change a trained model: add a language.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Without a callback, a group with one command would become that command."""


@app.command("add-language")
def add_language(
    model: Model,
    corpora: Corpora,
    lang: Annotated[str, typer.Option(help="The language to add, e.g. vi.", metavar="CODE")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write the model to.", metavar="MODEL")],
    ridge: Annotated[
        str | None,
        typer.Option(help="Strength of the ridge penalty.", show_default="that of the model", metavar="NUMBER|auto"),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Learn a language of the model anew.")] = False,
    on_error: Annotated[
        OnError | None, typer.Option(help="What to do with unusable input: stop with an error, or skip and count it.")
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="Threads that read the corpus, count words and compute.", show_default="all cores"),
    ] = None,
    engine: Annotated[
        EngineName,
        typer.Option(help="Where to compute: all cores of this machine, an NVIDIA GPU, or a Dask cluster."),
    ] = "cpu",
    memory: Annotated[
        str | None, typer.Option(help="Memory limit of the fit, e.g. 4GB; the rest goes to disk.", metavar="SIZE")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="With --engine dask: a running scheduler, e.g. tcp://10.0.0.1:8786.", metavar="ADDRESS"),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="With --engine dask: worker processes to start here.", show_default="one per core"),
    ] = None,
    json: Json = False,
) -> None:
    """Learn one more language; the vectors of texts in the other languages stay the same.

    The documents in the new language have concepts that the model was trained on. If the model was trained
    with --no-extendable, CORPUS must have documents of the same concepts in languages of the model, too. Example:

        cr5 model add-language model corpus/vi.jsonl --lang vi -o larger-model
    """
    loaded, skipped, start = Cr5.load(model), Skipped(), time.perf_counter()
    budget = None if memory is None else parse_bytes(memory)
    with console.progress_bars(json) as progress:
        code = add_language_to_model(
            loaded,
            corpora,
            lang,
            output,
            engine=engine,
            engine_options={"memory": budget, "scheduler": scheduler, "workers": workers},
            ridge=parse_ridge(ridge),
            replace=replace,
            on_error=on_error,
            skipped=skipped,
            threads=threads,
            progress=progress,
        )
    seconds = time.perf_counter() - start
    if json:
        about = {"model": str(output), "lang": code, "seconds": seconds, "skipped": skipped.counts}
        console.as_json(about | {"report": loaded.report})
        return
    console.skipped_lines(skipped)
    models.added_language(loaded, code, output, seconds)
