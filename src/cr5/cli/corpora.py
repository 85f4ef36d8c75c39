"""``cr5 corpus``: the commands that make corpora, inspect them and convert them."""

import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal

import typer

from cr5 import __version__
from cr5.cli.messages import in_command_line_terms
from cr5.cli.options import (
    Corpora,
    Json,
    Langs,
    OnError,
    Preset,
    SettingChanges,
    comma_separated,
    parse_settings,
    read_corpora,
)
from cr5.cli.render import console
from cr5.cli.render import corpora as rendering
from cr5.cli.render.console import err
from cr5.cli.source_commands import Dedupe, DropForeign, Output, add_source_command
from cr5.corpus.skipped import Skipped
from cr5.corpus.writing import write
from cr5.errors import plural
from cr5.sources.registry import SOURCES
from cr5.sources.wikipedia import build as wikipedia_build
from cr5.sources.wikipedia.dump_listing import HUB_URL, MIRROR_URL
from cr5.sources.wikipedia.dump_reader import DumpFormat
from cr5.sources.wikipedia.executor import open_executor
from cr5.sources.wikipedia.plan import ItemSource, WikipediaRequest
from cr5.training.inspection import inspect as inspect_corpus

app = typer.Typer(help="Make a corpus from existing data, or inspect one.", no_args_is_help=True)
MAKE = "Make a corpus"
USE = "Use an existing corpus"

CONTACT = "https://pypi.org/project/cr5"


@app.command(rich_help_panel=MAKE)
def wikipedia(
    langs: Annotated[str, typer.Option(help="Wikipedias by their codes, e.g. da,en,it,vi.", metavar="CODES")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.", metavar="FOLDER")],
    source: Annotated[
        DumpFormat | None,
        typer.Option(
            help="Dump format. cirrus: the search index, plain text. xml: the pages, wikitext. parquet: an export on "
            "the Hugging Face hub, plain text.",
            show_default="cirrus; xml with --sample",
        ),
    ] = None,
    date: Annotated[
        str | None, typer.Option(help="Date of the dumps.", show_default="the newest", metavar="YYYYMMDD")
    ] = None,
    concepts: Annotated[
        Literal["all", "shared"], typer.Option(help="Keep all concepts, or only those in two languages or more.")
    ] = "all",
    sample: Annotated[
        int | None, typer.Option(min=1, help="Only the first N articles of each language, to try it out.", metavar="N")
    ] = None,
    drop_foreign: DropForeign = False,
    dedupe: Dedupe = False,
    ids: Annotated[
        ItemSource,
        typer.Option(
            help="Where the Wikidata items of pages come from. props: each wiki's page_props table. sitelinks: "
            "Wikidata's own table of sitelinks."
        ),
    ] = "props",
    dumps: Annotated[
        Path | None, typer.Option(help="Read the dumps from this folder; download nothing.", metavar="FOLDER")
    ] = None,
    mirror: Annotated[
        str,
        typer.Option(
            help="Where Wikimedia's dumps are.", metavar="URL", show_default=MIRROR_URL.removeprefix("https://")
        ),
    ] = MIRROR_URL,
    hub: Annotated[
        str,
        typer.Option(help="Where the Parquet export is.", metavar="URL", show_default=HUB_URL.removeprefix("https://")),
    ] = HUB_URL,
    contact: Annotated[
        str | None,
        typer.Option(
            help="Your address, sent in the user agent so that server administrators can reach you.",
            envvar="CR5_CONTACT",
            metavar="MAIL|URL",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Worker processes on this machine.", show_default="one per core"),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Extract on a Dask cluster, e.g. tcp://10.0.0.1:8786.", metavar="ADDRESS"),
    ] = None,
    json: Json = False,
) -> None:
    """Wikipedia in any languages, aligned by Wikidata: download, extract, align.

    You can stop it at any time: the same command continues where it stopped.
    Downloads and unfinished work are in FOLDER/.work; delete that when the
    corpus is complete. Examples:

        cr5 corpus wikipedia --langs da,it,vi --sample 2000 -o tryout

        cr5 corpus wikipedia --langs da,en,it,vi -o wiki

        cr5 corpus wikipedia --langs da,en -o wiki --source xml --dumps dumps/

        cr5 corpus wikipedia --langs da,en -o wiki --scheduler tcp://node1:8786
    """
    request = WikipediaRequest(
        langs=tuple(comma_separated(langs) or ()),
        source=source or ("xml" if sample else "cirrus"),
        date=date,
        ids=ids,
        sample=sample,
        concepts=concepts,
        drop_foreign=drop_foreign,
        dedupe=dedupe,
        mirror=mirror.rstrip("/"),
        hub=hub.rstrip("/"),
        dumps=dumps,
    )
    user_agent = f"cr5/{__version__} ({contact or CONTACT})"
    start = time.perf_counter()
    previous = signal.signal(signal.SIGTERM, _interrupt)  # a terminated run can be continued too
    try:
        with open_executor(workers, scheduler) as executor, console.progress_bars(json) as progress:
            built = wikipedia_build.build(request, output, executor=executor, user_agent=user_agent, progress=progress)
    except KeyboardInterrupt:
        err.print("stopped; run the same command again to continue", style="yellow")
        sys.exit(130)
    finally:
        signal.signal(signal.SIGTERM, previous)
    seconds = time.perf_counter() - start
    if json:
        console.as_json({"corpus": str(output), "seconds": seconds} | wikipedia_build.manifest_facts(request, built))
        return
    rendering.wikipedia_report(built, seconds)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


for source in SOURCES.values():
    add_source_command(app, source, MAKE)


@app.command("inspect", rich_help_panel=USE)
def inspect(
    corpora: Corpora,
    langs: Langs = None,
    preset: Preset = "default",
    setting: SettingChanges = None,
    on_error: OnError = "raise",
    json: Json = False,
) -> None:
    """Print documents and words per language, shared concepts, duplicates and what training would drop.

    Example:

        cr5 corpus inspect corpus/
    """
    chosen = parse_settings(preset, setting)
    skipped = Skipped()
    with console.progress_bars(json) as progress:
        inspection = inspect_corpus(
            read_corpora(corpora, langs, on_error, skipped), chosen.tokeniser, chosen.weighting, progress=progress
        )
    if json:
        console.as_json(inspection.to_json() | {"skipped": skipped.counts})
        return
    rendering.inspection_tables(inspection, chosen.weighting)
    for note in inspection.notes:
        console.warn(in_command_line_terms(note, app, ["inspect"]))
    console.skipped_lines(skipped)


@app.command("convert", rich_help_panel=USE)
def convert(
    corpora: Corpora,
    output: Output,
    langs: Langs = None,
    on_error: OnError = "raise",
) -> None:
    """Rewrite a corpus in another format.

    Example:

        cr5 corpus convert corpus/*.csv -o corpus.parquet
    """
    skipped = Skipped()
    count = write(output, read_corpora(corpora, langs, on_error, skipped))
    console.skipped_lines(skipped)
    err.print(f"{plural(count, 'document')} written" + ("" if output == "-" else f" to {output}"))
