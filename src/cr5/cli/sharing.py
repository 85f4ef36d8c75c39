"""The commands that exchange models with the Hugging Face hub: ``cr5 pull`` and ``cr5 push``."""

from pathlib import Path
from typing import Annotated

import typer

from cr5.cli.options import Json, Langs, Model, comma_separated
from cr5.cli.render import console
from cr5.cli.render.console import err, out
from cr5.exchange import hub

Repo = Annotated[str, typer.Argument(help="A model on the hub, owner/name.", metavar="REPO")]
Revision = Annotated[str | None, typer.Option(help="Branch, tag or commit.", show_default="main", metavar="NAME")]
Private = Annotated[
    bool | None,
    typer.Option(
        "--private/--public", help="Who can see a new repository.", show_default="as the owner's settings say"
    ),
]
Licence = Annotated[
    str | None, typer.Option(help="Licence in the model card, e.g. mit or cc-by-sa-4.0.", metavar="IDENTIFIER")
]


def pull(
    repo: Repo,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write the model to.", metavar="MODEL")],
    langs: Langs = None,
    revision: Revision = None,
    cache_dir: Annotated[
        Path | None, typer.Option(help="Where to download to.", show_default="the hub's cache", metavar="FOLDER")
    ] = None,
    json: Json = False,
) -> None:
    """Download a model from the Hugging Face hub, or only some of its languages.

    An interrupted download is continued by the same command. Examples:

        cr5 pull owner/name -o model

        cr5 pull owner/name -o model --langs da,en
    """
    with console.progress_bars(json) as progress:
        fetched = hub.pull(
            repo, output, comma_separated(langs), revision=revision, cache_dir=cache_dir, progress=progress
        )
    if json:
        console.as_json({"model": str(output), "langs": fetched})
        return
    out.print(f"{', '.join(fetched)} of {repo} written to {output}; try: cr5 info {output}", soft_wrap=True)


def push(
    model: Model,
    repo: Repo,
    private: Private = None,
    licence: Licence = None,
    evaluation: Annotated[
        Path | None, typer.Option(help="Figures for the model card: a folder that cr5 eval wrote.", metavar="RUN")
    ] = None,
    revision: Revision = None,
    json: Json = False,
) -> None:
    """Upload a model to the Hugging Face hub, with a model card.

    README.md in MODEL is the card; without one, it is made from the training report. Log in with
    hf auth login, or set HF_TOKEN. An interrupted upload is continued by the same command. Examples:

        cr5 push model owner/name --licence cc-by-sa-4.0

        cr5 push model owner/name --private --evaluation results
    """
    with console.progress_bars(json) as progress:
        url = hub.push(
            model, repo, private=private, licence=licence, evaluation=evaluation, revision=revision, progress=progress
        )
    if json:
        console.as_json({"model": str(model), "repo": repo, "url": url})
        return
    out.print(url, soft_wrap=True)
    err.print(f'others can use it with Cr5.from_pretrained("{repo}"), or cr5 pull {repo} -o MODEL', soft_wrap=True)
