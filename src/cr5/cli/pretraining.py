"""The command ``cr5 pretrain``."""

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from cr5 import __version__
from cr5.cli.options import (
    Json,
    Preset,
    Rank,
    Ridge,
    SettingChanges,
    comma_separated,
    parse_bytes,
    parse_changes,
    parse_rank,
    parse_ridge,
)
from cr5.cli.render import console
from cr5.cli.render.console import err, out
from cr5.cli.sharing import Licence, Private
from cr5.errors import Cr5Error
from cr5.pretraining import Forecast
from cr5.pretraining import pretrain as run_pretraining
from cr5.sources.wikipedia.dump_listing import MIRROR_URL
from cr5.sources.wikipedia.dump_reader import DumpFormat
from cr5.sources.wikipedia.plan import WikipediaRequest

CONTACT = "https://pypi.org/project/cr5"


def pretrain(
    wikipedia: Annotated[str, typer.Option(help="Wikipedias by their codes, e.g. da,en,it,vi.", metavar="CODES")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write the model to.", metavar="MODEL")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Begin without asking.")] = False,
    push: Annotated[
        str | None, typer.Option(help="Push the model to the Hugging Face hub.", metavar="OWNER/NAME")
    ] = None,
    private: Private = None,
    licence: Licence = None,
    source: Annotated[
        DumpFormat | None,
        typer.Option(help="Dump format, as in cr5 corpus wikipedia.", show_default="cirrus; xml with --sample"),
    ] = None,
    date: Annotated[
        str | None, typer.Option(help="Date of the dumps.", show_default="the newest", metavar="YYYYMMDD")
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Only the first N articles of each language, to try it out.", metavar="N")
    ] = None,
    dumps: Annotated[
        Path | None, typer.Option(help="Read the dumps from this folder; download nothing.", metavar="FOLDER")
    ] = None,
    mirror: Annotated[
        str,
        typer.Option(
            help="Where Wikimedia's dumps are.", metavar="URL", show_default=MIRROR_URL.removeprefix("https://")
        ),
    ] = MIRROR_URL,
    contact: Annotated[
        str | None,
        typer.Option(
            help="Your address, sent in the user agent so that server administrators can reach you.",
            envvar="CR5_CONTACT",
            metavar="MAIL|URL",
        ),
    ] = None,
    preset: Preset = "default",
    rank: Rank = None,
    ridge: Ridge = None,
    setting: SettingChanges = None,
    memory: Annotated[
        str | None, typer.Option(help="Memory limit of the fit, e.g. 4GB; the rest goes to disk.", metavar="SIZE")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads that train.", show_default="all cores")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that extract the dumps.", show_default="one per core")
    ] = None,
    json: Json = False,
) -> None:
    """Make a model of Wikipedia in one command: download, train, evaluate, write its card, and publish it.

    Before it begins, it prints what disk, memory and time it will take, and asks. You can stop it at any time:
    the same command continues where it stopped. The corpus, the held-out articles and the
    evaluation are in MODEL.pretraining; delete that when the model is finished. Examples:

        cr5 pretrain --wikipedia da,it,vi --sample 2000 -o tryout --yes

        cr5 pretrain --wikipedia da,en,it,vi -o model --memory 8GB

        cr5 pretrain --wikipedia da,en,it,vi -o model --push owner/name --licence cc-by-sa-4.0
    """
    request = WikipediaRequest(
        langs=tuple(comma_separated(wikipedia) or ()),
        source=source or ("xml" if sample else "cirrus"),
        date=date,
        sample=sample,
        mirror=mirror.rstrip("/"),
        dumps=dumps,
    )

    def confirm(forecast: Forecast) -> bool:
        if not json:
            err.print(f"{forecast} (estimated)", soft_wrap=True)
        if yes:
            return True
        if not sys.stdin.isatty():
            raise Cr5Error("standard input is not a terminal that can be asked whether to begin; begin with --yes")
        return typer.confirm("Begin?", err=True)

    previous = signal.signal(signal.SIGTERM, _interrupt)  # a terminated run can be continued too
    try:
        with console.progress_bars(json) as progress:
            made = run_pretraining(
                request,
                output,
                settings={"preset": preset} | parse_changes(setting, rank=parse_rank(rank), ridge=parse_ridge(ridge)),
                repo=push,
                private=private,
                licence=licence,
                memory=None if memory is None else parse_bytes(memory),
                threads=threads,
                workers=workers,
                user_agent=f"cr5/{__version__} ({contact or CONTACT})",
                confirm=confirm,
                progress=progress,
            )
    except KeyboardInterrupt:
        err.print("stopped; run the same command again to continue", style="yellow")
        sys.exit(130)
    finally:
        signal.signal(signal.SIGTERM, previous)
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


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
