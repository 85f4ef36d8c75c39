"""The command ``cr5 pretrain``."""

import sys
from typing import Annotated

import typer

from cr5.cli import options, wikipedia_options
from cr5.cli.exchange import Licence, Private
from cr5.cli.interrupts import saying_how_to_resume
from cr5.cli.options import parse_bytes, parse_changes, parse_rank, parse_ridge
from cr5.cli.render import console
from cr5.cli.render.console import err, out
from cr5.cli.wikipedia_options import wikipedia_request
from cr5.errors import Cr5Error
from cr5.pretraining import Forecast
from cr5.pretraining import pretrain as run_pretraining
from cr5.sources.http.client import make_user_agent
from cr5.sources.wikipedia.dump_listing import MIRROR_URL


def pretrain(
    wikipedia: wikipedia_options.Wikipedias,
    output: options.ModelOutput,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Begin without asking.")] = False,
    push: Annotated[
        str | None, typer.Option(help="Push the model to the Hugging Face Hub.", metavar="OWNER/NAME")
    ] = None,
    private: Private = None,
    licence: Licence = None,
    source: wikipedia_options.DumpSource = None,
    date: wikipedia_options.DumpDate = None,
    sample: wikipedia_options.Sample = None,
    dumps: wikipedia_options.Dumps = None,
    mirror: wikipedia_options.Mirror = MIRROR_URL,
    contact: wikipedia_options.Contact = None,
    preset: options.Preset = "default",
    rank: options.Rank = None,
    ridge: options.Ridge = None,
    setting: options.SettingChanges = None,
    memory: options.Memory = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads that train.", show_default="all cores")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that extract the dumps.", show_default="one per core")
    ] = None,
    json: options.Json = False,
) -> None:
    """Train a model on Wikipedia in one command: download, train, evaluate, write its card, and publish it.

    Before it begins, it prints how much disk space, memory and time it will take, and asks. You can stop it at any
    time: the same command continues where it stopped. The corpus, the held-out articles and the evaluation are in
    MODEL.pretraining; delete that when the model is finished. Examples:

        cr5 pretrain --wikipedia da,it,vi --sample 2000 -o tryout --yes

        cr5 pretrain --wikipedia da,en,it,vi -o model --memory 8GB

        cr5 pretrain --wikipedia da,en,it,vi -o model --push owner/name --licence cc-by-sa-4.0
    """

    def confirm(forecast: Forecast) -> bool:
        if not json:
            err.print(f"{forecast} (estimated)", soft_wrap=True)
        if yes:
            return True
        if not sys.stdin.isatty():
            raise Cr5Error("standard input is not a terminal that can be asked whether to begin; begin with --yes")
        return typer.confirm("Begin?", err=True)

    with saying_how_to_resume(), console.progress_bars(json) as progress:
        made = run_pretraining(
            wikipedia_request(wikipedia, source, date, sample, dumps, mirror),
            output,
            settings={"preset": preset} | parse_changes(setting, rank=parse_rank(rank), ridge=parse_ridge(ridge)),
            repo=push,
            private=private,
            licence=licence,
            memory=parse_bytes(memory),
            threads=threads,
            workers=workers,
            user_agent=make_user_agent(contact),
            confirm=confirm,
            progress=progress,
        )
    if made is None:
        err.print("nothing was done")
        sys.exit(1)
    if json:
        console.as_json({"model": str(made.output), "evaluation": made.means, "url": made.url})
        return
    for mean in made.means:
        out.print(
            f"{mean['system']}, {mean['measure']}: P@1 {mean['precision']['1']:.1f}, MRR {mean['reciprocal_rank']:.1f}"
        )
    out.print(f"written to {output}, with its card in {output / 'README.md'}", soft_wrap=True)
    if made.url:
        out.print(made.url, soft_wrap=True)
