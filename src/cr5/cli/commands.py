"""The commands, one function each."""

import socket
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from cr5 import __version__, demo
from cr5.cli import corpora, evaluation, search
from cr5.cli.options import (
    Changes,
    Corpora,
    Json,
    Lang,
    Langs,
    Model,
    OnError,
    Preset,
    Rank,
    Ridge,
    changes_of,
    read_corpora,
    ridge_of,
)
from cr5.cli.render import console
from cr5.cli.render.console import out
from cr5.cli.serve import serve
from cr5.corpus.documents import Document, Skipped
from cr5.errors import Cr5Error
from cr5.index.index import Index
from cr5.model import Cr5
from cr5.storage import vector_files as vectors_file
from cr5.storage.model_files import check_target
from cr5.training.engines.registry import Name as EngineName
from cr5.training.engines.registry import open_engine, size
from cr5.training.pipeline import NotConverged

app = typer.Typer(
    name="cr5",
    help="Place documents of any language into one vector space, learned from your own corpus.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(corpora.app, name="corpus")
app.add_typer(evaluation.app, name="eval")


def _version(wanted: bool) -> None:
    if wanted:
        out.print(f"cr5 {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")]


@app.callback()
def _root(version: Version = False) -> None:
    pass


@app.command("demo")
def run_demo(
    no_serve: Annotated[bool, typer.Option("--no-serve", help="End after the tables.")] = False,
    json: Json = False,
    seeds: Annotated[int, typer.Option(min=1, help="Number of random splits to average over.")] = demo.SEEDS,
) -> None:
    """Train on the built-in encyclopedia, measure on concepts never seen, and search across languages.

    Takes some seconds; then a page to search with is served until Ctrl-C. Example:

        cr5 demo
    """
    began = time.perf_counter()
    documents = demo.encyclopedia()
    with console.progress_bars(json) as progress:
        found = demo.trials(documents, seeds, progress)
        first = found[0].trained[0].report
        model = Cr5(ridge=first["ridge"], **demo.SETTINGS).fit(documents, progress=progress)
    searches = [(lang, text, demo.find(model, documents, text, lang)) for lang, text in demo.QUERIES]
    mean = demo.means(found)
    if json:
        console.as_json(
            {
                "version": __version__,
                "documents": len(documents),
                "held_out": demo.HELD_OUT,
                "seeds": seeds,
                "settings": model.settings.to_json(),
                "ridge": first["ridge"],
                "ridge_path": first["ridge_path"],
                "mean": mean,
                "trials": [
                    {"seed": seed} | demo.figures(trial) | {"scores": [score.to_json() for score in trial.scores]}
                    for seed, trial in enumerate(found)
                ],
                "fit": {
                    key: model.report[key]
                    for key in ("energy", "residual", "steps", "products", "seconds", "converged")
                },
                "searches": [
                    {"lang": a, "query": b, "hits": [hit.__dict__ for hit in hits]} for a, b, hits in searches
                ],
                "seconds": time.perf_counter() - began,
            }
        )
        return
    console.demo_report(documents, found, model, mean, searches, time.perf_counter() - began)
    if not no_serve:
        _serve_demo(model, documents)


def _serve_demo(model: Cr5, documents: list[Document]) -> None:
    """The encyclopedia as a page to search with."""
    with tempfile.TemporaryDirectory(prefix="cr5-demo-") as folder:
        place = Path(folder)
        model.save(place / "model")
        try:
            index = Index.create(place / "index", place / "model")
            index.add(documents)
            index.close()
            out.print("\nOpen this in a browser, and type cane or chó:", style="bold")
            serve(place / "index", port=_free(8000), read_only=True)
        except Cr5Error as error:
            console.warn(f"no page to search with: {error}")


def _free(port: int) -> int:
    """The port if it is free, else 0, which is any."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port


@app.command()
def train(
    corpus: Corpora,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write the model to.", metavar="MODEL")],
    langs: Langs = None,
    preset: Preset = "default",
    rank: Rank = None,
    ridge: Ridge = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of all that is random.", show_default="0")] = None,
    setting: Changes = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint of an interrupted run.")] = False,
    on_error: OnError = "raise",
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads that read and count.", show_default="all cores")
    ] = None,
    engine: Annotated[
        EngineName, typer.Option(help="Where to compute: all cores here, an NVIDIA card, or a Dask cluster.")
    ] = "cpu",
    memory: Annotated[
        str | None, typer.Option(help="Keep the fit within this much memory, the rest on disk.", metavar="4GB")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="With --engine dask: a scheduler that runs, e.g. tcp://10.0.0.1:8786.", metavar="ADDRESS"),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="With --engine dask: worker processes to start here.", show_default="one a core"),
    ] = None,
    json: Json = False,
) -> None:
    """Learn a model from documents in several languages.

    Every document has a concept (what it is about, the same in all languages), a language and a text.
    Ctrl-C during the fit ends it and saves the model as it is by then. Examples:

        cr5 train corpus/ -o model

        cr5 train en.jsonl it.jsonl.gz -o model --rank 200 --ridge 1

        cr5 train builtin -o model --rank 200 --set min_documents=2

        cr5 train corpus/ -o model --memory 4GB

        cr5 train corpus/ -o model --engine dask --scheduler tcp://10.0.0.1:8786
    """
    model = Cr5(preset, **changes_of(setting, rank=rank, seed=seed, ridge=ridge_of(ridge)))
    check_target(output)
    checkpoint = Path(f"{output}.checkpoint" if output.name else f"{output.resolve()}.checkpoint")
    if resume and not checkpoint.exists():
        raise Cr5Error(f"there is no {checkpoint} to go on from; leave out --resume")
    if checkpoint.exists() and not resume:
        raise Cr5Error(f"{checkpoint} is left from an interrupted run; go on with --resume, or delete it to begin anew")
    skipped = Skipped()
    began = time.perf_counter()
    batches = read_corpora(corpus, langs, on_error, skipped)
    output.parent.mkdir(parents=True, exist_ok=True)
    budget = None if memory is None else size(memory)
    options: dict[str, Any] = {"memory": budget, "scheduler": scheduler, "workers": workers, "scratch": output.parent}
    with (
        open_engine(engine, **options) as place,
        warnings.catch_warnings(),
        console.progress_bars(json) as progress,
    ):
        warnings.simplefilter("ignore", NotConverged)
        model.fit(
            batches,
            engine=place,
            skipped=skipped if on_error == "skip" else None,
            checkpoint=checkpoint,
            threads=threads,
            progress=progress,
        )
        model.save(output)
    checkpoint.unlink(missing_ok=True)
    seconds = time.perf_counter() - began
    if json:
        console.as_json({"model": str(output), "seconds": seconds, "skipped": skipped.counts, "report": model.report})
    else:
        console.skipped_lines(skipped)
        console.training_report(model, output, seconds)
    if model.report["warning"]:
        console.warn(model.report["warning"])
    if model.report["interrupted"]:
        console.warn(f"interrupted after {model.report['steps']} steps; the model saved is the best so far")
        sys.exit(130)


@app.command()
def encode(
    model: Model,
    lang: Lang,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write here (.npy or .parquet) instead of standard output.")
    ] = None,
    coverage: Annotated[bool, typer.Option("--coverage", help="With .parquet: add the share of known words.")] = False,
) -> None:
    """Turn lines of text on standard input into vectors, one unit row a line.

    Examples:

        cr5 encode model --lang it < lines.txt > vectors.npy

        cr5 encode model --lang it -o vectors.parquet < lines.txt
    """
    if output is not None:
        vectors_file.check_target(output)
    if coverage and (output is None or output.suffix != ".parquet"):
        raise Cr5Error("--coverage needs a .parquet file to go into; name one with -o")
    if output is None and sys.stdout.isatty():
        raise Cr5Error("vectors are not for a terminal; redirect them with > vectors.npy, or name a file with -o")
    loaded = Cr5.load(model, langs=[lang])
    try:
        # Not splitlines: a form feed or the like does not end a line.
        texts = sys.stdin.buffer.read().decode().replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        raise Cr5Error(
            f"standard input is not UTF-8 (byte {error.start}); convert it first, e.g. with iconv"
        ) from error
    if not texts[-1]:
        texts.pop()
    vectors = loaded.encode(texts, lang)
    zero = int((~vectors.any(axis=1)).sum())
    if output is None:
        vectors_file.write_stream(sys.stdout.buffer, vectors)
    else:
        vectors_file.write(output, vectors, texts, loaded.coverage(texts, lang) if coverage else None)
    if zero:
        console.warn(
            f"{zero:,} of {len(texts):,} texts have no word that the model knows in {lang}; their vectors are zero"
        )


@app.command()
def similar(
    model: Model,
    word: Annotated[str, typer.Argument(help="A word.", metavar="WORD")],
    lang: Lang,
    to: Annotated[
        str | None, typer.Option(help="Languages to look in, e.g. en,da.", show_default="all others", metavar="CODES")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Words per language.")] = 10,
    json: Json = False,
) -> None:
    """Show the words of other languages that are closest to a word.

    Example:

        cr5 similar model birra --lang it --to en,vi
    """
    loaded = Cr5.load(model)
    targets = to.split(",") if to else [other for other in loaded.langs if other != lang]
    found = {target: loaded.similar_words(word, lang, target, k) for target in targets}
    if json:
        console.as_json(
            {"word": word, "lang": lang, "similar": {t: [list(pair) for pair in words] for t, words in found.items()}}
        )
        return
    for target, words in found.items():
        console.similar_words(word, lang, target, words)


@app.command()
def explain(
    model: Model,
    text_a: Annotated[str, typer.Argument(help="A text, or @FILE.", metavar="TEXT_A")],
    text_b: Annotated[str, typer.Argument(help="Another text, or @FILE.", metavar="TEXT_B")],
    lang_a: Annotated[str, typer.Option("--lang-a", "-a", help="Language of the first text.", metavar="CODE")],
    lang_b: Annotated[str, typer.Option("--lang-b", "-b", help="Language of the second text.", metavar="CODE")],
    k: Annotated[int, typer.Option("-k", min=1, help="Words to name.")] = 10,
    json: Json = False,
) -> None:
    """Name the words that make two texts similar, with what each adds to the cosine.

    Example:

        cr5 explain model "il cane abbaia" "the dog barks" -a it -b en
    """
    found = Cr5.load(model).explain(_text(text_a), lang_a, _text(text_b), lang_b, k)
    if json:
        console.as_json(
            {
                "similarity": found.similarity,
                "words_a": [list(item) for item in found.words_a],
                "words_b": [list(item) for item in found.words_b],
                "pairs": [list(item) for item in found.pairs],
                "rest_a": found.rest_a,
                "rest_b": found.rest_b,
            }
        )
        return
    console.explanation(found, lang_a, lang_b)


@app.command()
def info(model: Model, json: Json = False) -> None:
    """Show what a model is made of: languages, settings, how its training ended.

    Example:

        cr5 info model
    """
    loaded = Cr5.load(model)
    if json:
        console.as_json({"langs": loaded.langs, "settings": loaded.settings.to_json(), "report": loaded.report})
        return
    console.training_report(loaded, model, None)


def _text(given: str) -> str:
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise Cr5Error(f"{given[1:]} is not UTF-8 (byte {error.start}); convert it first, e.g. with iconv") from error


search.register(app)
app.command()(serve)
app.command()(evaluation.reproduce)
