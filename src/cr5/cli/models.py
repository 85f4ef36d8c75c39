"""``cr5 model``: the commands that make models of trained ones, and show how large they are; and ``cr5 export``."""

import time
from pathlib import Path
from typing import Annotated

import typer

from cr5.cli.options import (
    Corpora,
    Engine,
    Json,
    Memory,
    Model,
    Scheduler,
    Threads,
    Workers,
    comma_separated,
    parse_bytes,
    parse_ridge,
)
from cr5.cli.render import console
from cr5.cli.render import models as rendering
from cr5.corpus.skipped import OnError, Skipped
from cr5.exchange.export import ExportFormat, check_target
from cr5.model import Cr5
from cr5.model.training import add_language_to_model
from cr5.storage.model_files import check_model_folder

app = typer.Typer(help="Make a model of trained ones: fewer languages, more, or smaller numbers.", no_args_is_help=True)

Output = Annotated[Path, typer.Option("--output", "-o", help="Folder to write the model to.", metavar="MODEL")]


@app.command()
def subset(
    model: Model,
    langs: Annotated[str, typer.Option(help="Languages to keep, e.g. en,it.", metavar="CODES")],
    output: Output,
    json: Json = False,
) -> None:
    """Write a model with some of the languages of another; their vectors stay the same.

    Example:

        cr5 model subset model --langs en,it -o small
    """
    check_model_folder(output)
    chosen = comma_separated(langs) or []  # the files of other languages may be damaged
    _save(Cr5.load(model, chosen).subset(chosen), output, json)


@app.command()
def merge(
    model: Model,
    other: Annotated[Path, typer.Argument(help="Another folder, of a model of the same space.", metavar="OTHER")],
    output: Output,
    json: Json = False,
) -> None:
    """Write a model with the languages of two models that were made of one.

    Models that were trained separately cannot be merged, because their vectors cannot be compared. Example:

        cr5 model merge small more -o both
    """
    check_model_folder(output)
    _save(Cr5.load(model).merge(Cr5.load(other)), output, json)


@app.command()
def quantise(
    model: Model,
    output: Output,
    bits: Annotated[int, typer.Option(help="Bits of each number of the word vectors: 16 or 8.", metavar="16|8")],
    json: Json = False,
) -> None:
    """Write a smaller model, with word vectors in numbers of 16 or 8 bits instead of 32.

    Example:

        cr5 model quantise model -o small --bits 8
    """
    check_model_folder(output)
    _save(Cr5.load(model).quantise(bits), output, json)  # type: ignore[arg-type]


@app.command()
def sizes(model: Model, json: Json = False) -> None:
    """Show how large each language of a model is.

    Example:

        cr5 model sizes model
    """
    _show(Cr5.load(model), model, json)


@app.command("add-language")
def add_language(
    model: Model,
    corpora: Corpora,
    lang: Annotated[str, typer.Option(help="The language to add, e.g. vi.", metavar="CODE")],
    output: Output,
    ridge: Annotated[
        str | None,
        typer.Option(help="Strength of the ridge penalty.", show_default="that of the model", metavar="NUMBER|auto"),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Learn a language of the model again.")] = False,
    on_error: Annotated[
        OnError | None, typer.Option(help="What to do with unusable input: stop with an error, or skip and count it.")
    ] = None,
    threads: Threads = None,
    engine: Engine = "cpu",
    memory: Memory = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
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
    rendering.added_language(loaded, code, output, seconds)


def export(
    model: Model,
    format: Annotated[  # noqa: A002
        ExportFormat, typer.Option(help="Format to write, see above.", metavar="FORMAT")
    ],
    lang: Annotated[str, typer.Option(help="Language to export, e.g. it.", metavar="CODE")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File or new folder to write.", metavar="FILE")],
) -> None:
    """Write the words of a language and their vectors in a format of other libraries.

    Formats: word2vec (text), word2vec-binary and fasttext (.vec) for gensim and
    others; npz for NumPy; parquet for pandas, polars and DuckDB. The formats
    sentence-transformers and model2vec are folders, with models that encode texts
    without cr5, nearly as it does. Examples:

        cr5 export model --format word2vec --lang it -o it.vec

        cr5 export model --format model2vec --lang en -o en-model2vec
    """
    check_target(output, format)
    loaded = Cr5.load(model, langs=[lang])
    loaded.export(output, format=format, lang=lang)
    [(code, size)] = loaded.sizes().items()
    console.out.print(
        f"written to {output}: {size.words:,} words of {code}, vectors of {loaded.rank} dimensions", soft_wrap=True
    )


def _save(made: Cr5, output: Path, json: bool) -> None:
    made.save(output)
    _show(Cr5.load(output), output, json)


def _show(model: Cr5, path: Path, json: bool) -> None:
    if json:
        console.as_json({"model": str(path), "sizes": {lang: size._asdict() for lang, size in model.sizes().items()}})
    else:
        rendering.model_sizes(model, path)
