"""``cr5 corpus``: the commands that make corpora, inspect them and convert them."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from cr5.cli import wikipedia_options
from cr5.cli.interrupts import saying_how_to_resume
from cr5.cli.messages import in_command_line_terms
from cr5.cli.options import (
    Corpora,
    Json,
    Langs,
    OnError,
    Preset,
    SettingChanges,
    SkippedList,
    parse_settings,
    read_corpora,
)
from cr5.cli.render import console
from cr5.cli.render import corpora as render
from cr5.cli.source_commands import Dedupe, DropForeign, Output, add_source_command, check_json_output
from cr5.cli.wikipedia_options import wikipedia_request
from cr5.corpus.skipped import FILE_REASONS, Skipped, skipped_list
from cr5.corpus.writing import write
from cr5.sources.http.client import make_user_agent
from cr5.sources.registry import SOURCES
from cr5.sources.wikipedia import build as wikipedia_build
from cr5.sources.wikipedia.dump_listing import HUB_URL, MIRROR_URL
from cr5.sources.wikipedia.executor import open_executor
from cr5.sources.wikipedia.plan import ItemSource
from cr5.training.inspection import inspect as inspect_corpus

app = typer.Typer(help="Make a corpus from existing data, or inspect one.", no_args_is_help=True)
MAKE_PANEL = "Make a corpus"
USE_PANEL = "Use an existing corpus"


@app.command(rich_help_panel=MAKE_PANEL)
def wikipedia(
    langs: wikipedia_options.Wikipedias,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.", metavar="FOLDER")],
    source: wikipedia_options.DumpSource = None,
    date: wikipedia_options.DumpDate = None,
    concepts: Annotated[
        Literal["all", "shared"], typer.Option(help="Keep all concepts, or only those in two languages or more.")
    ] = "all",
    sample: wikipedia_options.Sample = None,
    drop_foreign: DropForeign = False,
    dedupe: Dedupe = False,
    ids: Annotated[
        ItemSource,
        typer.Option(
            help="Where the Wikidata items of pages come from. props: each wiki's page_props table. sitelinks: "
            "Wikidata's own table of sitelinks."
        ),
    ] = "props",
    dumps: wikipedia_options.Dumps = None,
    mirror: wikipedia_options.Mirror = MIRROR_URL,
    hub: Annotated[
        str,
        typer.Option(help="Where the Parquet export is.", metavar="URL", show_default=HUB_URL.removeprefix("https://")),
    ] = HUB_URL,
    contact: wikipedia_options.Contact = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes on this machine.", show_default="one per core")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Extract on a Dask cluster, e.g. tcp://10.0.0.1:8786.", metavar="ADDRESS")
    ] = None,
    json: Json = False,
) -> None:
    """Wikipedia in any languages, aligned by Wikidata: download, extract, align.

    You can stop it at any time: the same command continues where it stopped. Downloads and unfinished work are in
    FOLDER/.work; delete that when the corpus is complete. Examples:

        cr5 corpus wikipedia --langs da,it,vi --sample 2000 -o tryout

        cr5 corpus wikipedia --langs da,en,it,vi -o wiki

        cr5 corpus wikipedia --langs da,en -o wiki --source xml --dumps dumps/

        cr5 corpus wikipedia --langs da,en -o wiki --scheduler tcp://node1:8786
    """
    request = replace(
        wikipedia_request(langs, source, date, sample, dumps, mirror),
        ids=ids,
        concepts=concepts,
        drop_foreign=drop_foreign,
        dedupe=dedupe,
        hub=hub.rstrip("/"),
    )
    start = time.perf_counter()
    with (
        saying_how_to_resume(),
        open_executor(workers, scheduler) as executor,
        console.progress_bars(json) as progress,
    ):
        built = wikipedia_build.build(
            request, output, executor=executor, user_agent=make_user_agent(contact), progress=progress
        )
    seconds = time.perf_counter() - start
    if json:
        console.as_json({"corpus": str(output), "seconds": seconds} | wikipedia_build.manifest_facts(request, built))
        return
    render.wikipedia_report(built, seconds)


for source in SOURCES.values():
    add_source_command(app, source, MAKE_PANEL)


@app.command("inspect", rich_help_panel=USE_PANEL)
def inspect(
    corpora: Corpora,
    langs: Langs = None,
    preset: Preset = "default",
    setting: SettingChanges = None,
    on_error: OnError = "raise",
    skipped_file: SkippedList = None,
    json: Json = False,
) -> None:
    """Print documents and words per language, shared concepts, duplicates, and what training would leave out.

    Example:

        cr5 corpus inspect corpus/
    """
    chosen = parse_settings(preset, setting)
    with skipped_list(skipped_file, corpora) as on_skip, console.progress_bars(json) as progress:
        skipped = Skipped(on_skip=on_skip)
        inspection = inspect_corpus(
            read_corpora(corpora, langs, on_error, skipped).with_fields(),
            chosen.tokeniser,
            chosen.weighting,
            on_error=on_error,
            skipped=skipped,
            progress=progress,
        )
    notes = [in_command_line_terms(note, ["corpus", "inspect"]) for note in inspection.notes]
    if json:
        console.as_json(inspection.to_json() | {"notes": notes, "skipped": skipped.counts})
        return
    render.inspection_tables(inspection, chosen.weighting, skipped)
    for note in notes:
        console.warn(note)
    console.skipped_lines(skipped)


@app.command("convert", rich_help_panel=USE_PANEL)
def convert(
    corpora: Corpora,
    output: Output,
    langs: Langs = None,
    on_error: OnError = "raise",
    skipped_file: SkippedList = None,
    json: Json = False,
) -> None:
    """Rewrite a corpus in another format.

    Example:

        cr5 corpus convert corpus/*.csv -o corpus.parquet
    """
    check_json_output(json, output)
    with skipped_list(skipped_file, corpora) as on_skip:
        skipped = Skipped(on_skip=on_skip)
        count = write(output, read_corpora(corpora, langs, on_error, skipped))
    files, documents = skipped.split(FILE_REASONS)
    if json:
        console.as_json(render.conversion_facts(output, count, files, documents))
    else:
        render.conversion(output, count, files, documents)
