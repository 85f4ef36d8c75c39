"""The command ``cr5 reproduce``."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from cr5.cli.evaluation import Output, check_own_systems, measured
from cr5.cli.options import Json, Langs, OnError, Rank, SettingChanges, comma_separated, parse_changes, parse_rank
from cr5.cli.render import console, scores, table1
from cr5.corpus.skipped import Skipped
from cr5.errors import Cr5Error
from cr5.evaluate.splits import MAX_CANDIDATES, MAX_QUERIES, MIN_QUERIES
from cr5.evaluate.tasks.reproduce import (
    DOCUMENT_WORDS,
    LOW_RESOURCE_CONCEPTS,
    QUERY_WORDS,
    PaperData,
    PublishedRuns,
    reproduce_published,
)
from cr5.evaluate.tasks.reproduce import reproduce as reproduce_table
from cr5.model import Cr5


def reproduce(
    paper: Annotated[Literal["wsdm19"], typer.Argument(help="The paper to reproduce.", metavar="wsdm19")],
    data: Annotated[
        Path,
        typer.Argument(
            help="Folder with word_indices, concept_indices and sparse_matrices (Zenodo record 3359814).",
            metavar="FOLDER",
        ),
    ],
    output: Output = None,
    langs: Langs = None,
    rank: Rank = None,
    setting: SettingChanges = None,
    queries: Annotated[
        int,
        typer.Option(
            min=MIN_QUERIES,
            help="Test queries per language pair, at most a tenth of the concepts that the pair shares.",
        ),
    ] = MAX_QUERIES,
    candidates: Annotated[int, typer.Option(min=1, help="Candidates per language.")] = MAX_CANDIDATES,
    candidates_train: Annotated[
        bool,
        typer.Option(
            "--candidates-train", help="Train on candidates, as the authors' scripts do and the paper does not."
        ),
    ] = False,
    document_words: Annotated[
        tuple[int, int],
        typer.Option(
            "--document-words",
            "--documents",
            help="Smallest and largest number of words of the authors' vocabulary (the frequent words) in a document.",
            metavar="LOW HIGH",
        ),
    ] = DOCUMENT_WORDS,
    query_words: Annotated[
        tuple[int, int],
        typer.Option(
            "--query-words",
            "--asked",
            help="Smallest and largest number of words of the authors' vocabulary in a query.",
            metavar="LOW HIGH",
        ),
    ] = QUERY_WORDS,
    low_resource: Annotated[
        int, typer.Option(min=2, help="Training concepts of the low-resource section.", metavar="N")
    ] = LOW_RESOURCE_CONCEPTS,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split.")] = 0,
    published: Annotated[
        Path | None,
        typer.Option(
            help="Train nothing, and measure the word vectors in this folder that the authors published.",
            metavar="FOLDER",
        ),
    ] = None,
    model_name: Annotated[
        str | None, typer.Option(help="With --published: the model, e.g. joint_4.", metavar="MODEL_NAME")
    ] = None,
    sentences: Annotated[
        list[Path] | None,
        typer.Option(
            help="With --published: aligned sentences, as for cr5 eval sentences; may be repeated.", metavar="FILE"
        ),
    ] = None,
    words: Annotated[
        list[Path] | None,
        typer.Option(
            help="With --published: a dictionary, as for cr5 eval words; may be repeated.", metavar="DICTIONARY"
        ),
    ] = None,
    on_error: OnError = "raise",
    json: Json = False,
) -> None:
    """Repeat the paper's document retrieval on the authors' data, and print the results next to its Table 1.

    Examples:

        cr5 reproduce wsdm19 data/ -o results

        cr5 reproduce wsdm19 data/ --published downloads/ --model-name joint_4
    """
    skipped, chosen_langs = Skipped(), comma_separated(langs)
    paper_data = PaperData(
        data,
        langs=chosen_langs,
        document_words=document_words,
        query_words=query_words,
        queries=queries,
        candidates=candidates,
        candidates_train=candidates_train,
        seed=seed,
        on_error=on_error,
        skipped=skipped,
    )
    if published is not None or model_name or sentences or words:
        if published is None or not model_name:
            raise Cr5Error("published vectors need both --published FOLDER and --model-name, e.g. joint_4")
        if rank or setting or candidates_train:
            raise Cr5Error("--rank, --set and --candidates-train are for training; leave them out with --published")
        with console.progress_bars(json) as progress:
            model = Cr5.load_published(
                published, model_name, chosen_langs, on_error=on_error, skipped=skipped, progress=progress
            )
            runs, unwritten = measured(
                reproduce_published,
                paper_data,
                model,
                sentences=sentences or (),
                words=words or (),
                output=output,
                progress=progress,
            )
        _show_published(runs, None if unwritten else output, json, skipped)
        if unwritten:
            raise unwritten
        return
    overrides = parse_changes(setting, rank=parse_rank(rank))
    with console.progress_bars(json) as progress:
        run, unwritten = measured(
            reproduce_table,
            paper_data,
            low_resource=low_resource,
            overrides=overrides,
            output=output,
            progress=progress,
        )
    if json:
        console.as_json(run.to_json())
    else:
        console.skipped_lines(skipped)
        table1.reproduction_table(run)
        scores.written_files(None if unwritten else output, run.task)
    if unwritten:
        raise unwritten
    check_own_systems(run)


def _show_published(runs: PublishedRuns, output: Path | None, json: bool, skipped: Skipped) -> None:
    by_task = runs.by_task()
    if json:
        console.as_json({task: run.to_json() for task, run in by_task.items()})
        return
    console.skipped_lines(skipped)
    for task, run in by_task.items():
        if task == "documents":
            table1.reproduction_table(run)
        else:
            console.out.print()
            scores.run_tables(run, has_files=output is not None)
        scores.written_files(output and output / task, task)
