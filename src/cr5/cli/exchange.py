"""The commands that bring models from and to other formats and places: ``convert``, ``export``, ``pull``, ``push``."""

import time
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from cr5.cli.options import Json, Langs, Model, ModelOutput, OnError, comma_separated
from cr5.cli.render import console
from cr5.cli.render import models as render
from cr5.cli.render.console import err, out
from cr5.corpus.skipped import Skipped
from cr5.exchange import hub
from cr5.exchange.export import ExportFormat, check_target
from cr5.exchange.published_vectors import convert_published
from cr5.model import Cr5

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


def convert(
    folder: Annotated[
        Path,
        typer.Argument(help="Folder with files such as joint_4_en.txt.gz (Zenodo record 2597441).", metavar="FOLDER"),
    ],
    name: Annotated[str, typer.Argument(help="The model, e.g. joint_4 or joint_28.", metavar="MODEL_NAME")],
    output: ModelOutput,
    langs: Langs = None,
    rank: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of dimensions of the word vectors.", show_default="that of most lines", metavar="NUMBER"
        ),
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
    render.training_report(Cr5.load(output), output, seconds)


def export(
    model: Model,
    format: Annotated[  # noqa: A002
        ExportFormat, typer.Option(help="Format to write, see above.", metavar="FORMAT")
    ],
    lang: Annotated[str, typer.Option(help="Language to export, e.g. it.", metavar="CODE")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File or new folder to write.", metavar="FILE")],
) -> None:
    """Write the words of a language and their vectors in a format of other libraries.

    Formats: word2vec (text), word2vec-binary and fasttext (.vec) for gensim and others; npz for NumPy; parquet for
    pandas, polars and DuckDB. The formats sentence-transformers and model2vec are folders, with models that encode
    texts without cr5, nearly as it does. Examples:

        cr5 export model --format word2vec --lang it -o it.vec

        cr5 export model --format model2vec --lang en -o en-model2vec
    """
    check_target(output, format)
    loaded = Cr5.load(model, langs=[lang])
    loaded.export(output, format=format, lang=lang)
    [(code, size)] = loaded.sizes().items()
    out.print(
        f"written to {output}: {size.words:,} words of {code}, vectors of {loaded.rank} dimensions", soft_wrap=True
    )


def pull(
    repo: Repo,
    output: ModelOutput,
    langs: Langs = None,
    revision: Revision = None,
    cache_dir: Annotated[
        Path | None, typer.Option(help="Where to download to.", show_default="the hub's cache", metavar="FOLDER")
    ] = None,
    json: Json = False,
) -> None:
    """Download a model from the Hugging Face Hub, or only some of its languages.

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
    out.print(f"{', '.join(fetched)} of {repo} written to {output}; try: cr5 info {quote(str(output))}", soft_wrap=True)


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
    """Upload a model to the Hugging Face Hub, with a model card.

    README.md in MODEL is the card; without one, it is made from the training report. Log in with hf auth login, or set
    HF_TOKEN. An interrupted upload is continued by the same command. Examples:

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
