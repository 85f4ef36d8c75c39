"""``cr5 model``: the commands that make models of trained ones, and show how large they are."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from cr5.cli import options
from cr5.cli.options import comma_separated, parse_ridge
from cr5.cli.render import console
from cr5.cli.render import models as render
from cr5.corpus.skipped import OnError, Skipped
from cr5.errors import Cr5Error
from cr5.model import Cr5
from cr5.model.folder_training import add_language_to_model
from cr5.storage.model_files import check_model_folder

app = typer.Typer(
    help="Derive a model from trained ones: select, merge or add languages, or quantise.", no_args_is_help=True
)


@app.command()
def subset(
    model: options.Model,
    langs: Annotated[str, typer.Option(help="Languages to keep, e.g. en,it.", metavar="CODES")],
    output: options.ModelOutput,
    json: options.Json = False,
) -> None:
    """Write a model with some of the languages of another; their vectors stay the same.

    Example:

        cr5 model subset model --langs en,it -o small
    """
    _check_output(output, model)
    chosen = comma_separated(langs) or []  # the files of other languages may be damaged
    _save(Cr5.load(model, chosen).subset(chosen), output, json)


@app.command()
def merge(
    model: options.Model,
    other: Annotated[
        Path, typer.Argument(help="The folder of another model made from the same training.", metavar="OTHER")
    ],
    output: options.ModelOutput,
    json: options.Json = False,
) -> None:
    """Write a model with the languages of two models that were made from the same one.

    Models that were trained separately cannot be merged, because their vectors cannot be compared. Example:

        cr5 model merge small more -o both
    """
    _check_output(output, model, other)
    _save(Cr5.load(model).merge(Cr5.load(other)), output, json)


@app.command()
def quantise(
    model: options.Model,
    output: options.ModelOutput,
    bits: Annotated[int, typer.Option(help="Bits of each number in the word vectors: 16 or 8.", metavar="16|8")],
    json: options.Json = False,
) -> None:
    """Write a smaller model, with word vectors in numbers of 16 or 8 bits instead of 32.

    Example:

        cr5 model quantise model -o small --bits 8
    """
    _check_output(output, model)
    _save(Cr5.load(model).quantise(bits), output, json)  # type: ignore[arg-type]


@app.command()
def sizes(model: options.Model, json: options.Json = False) -> None:
    """Show how large each language of a model is.

    Example:

        cr5 model sizes model
    """
    _show(Cr5.load(model), model, json)


@app.command("add-language")
@options.takes_engine_options
def add_language(
    model: options.Model,
    corpora: options.Corpora,
    lang: Annotated[str, typer.Option(help="The language to add, e.g. vi.", metavar="CODE")],
    output: options.ModelOutput,
    ridge: Annotated[
        str | None,
        typer.Option(help="Strength of the ridge penalty.", show_default="that of the model", metavar="NUMBER|auto"),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Allow a language that the model has already: learn it again.")
    ] = False,
    on_error: Annotated[
        OnError | None, typer.Option(help="What to do with unusable input: stop with an error, or skip and count it.")
    ] = None,
    threads: options.Threads = None,
    engine: options.Engine = "cpu",
    engine_options: dict[str, Any] | None = None,
    json: options.Json = False,
) -> None:
    """Learn one more language; the vectors of texts in the other languages stay the same.

    The documents in the new language have concepts that the model was trained on. If the model has no concept targets
    (see cr5 train --extendable), CORPUS must have documents of the same concepts in languages of the model, too.
    Example:

        cr5 model add-language model corpus/vi.jsonl --lang vi -o larger-model
    """
    loaded, skipped, start = Cr5.load(model), Skipped(), time.perf_counter()
    with console.progress_bars(json) as progress:
        code = add_language_to_model(
            loaded,
            corpora,
            lang,
            output,
            engine=engine,
            engine_options=engine_options,
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
    render.added_language(loaded, code, output, seconds)


def _check_output(output: Path, *sources: Path) -> None:
    """Raise an error if a folder cannot be written, or has a model that the new one is derived from."""
    check_model_folder(output)
    for source in sources:
        if source.exists() and output.exists() and output.samefile(source):
            raise Cr5Error(
                f"{output} is the folder of a model that the new one is derived from, and would be replaced; "
                "name another folder with -o"
            )


def _save(made: Cr5, output: Path, json: bool) -> None:
    made.save(output)
    _show(Cr5.load(output), output, json)


def _show(model: Cr5, path: Path, json: bool) -> None:
    if json:
        console.as_json({"model": str(path), "sizes": {lang: size._asdict() for lang, size in model.sizes().items()}})
    else:
        render.model_sizes(model, path)
