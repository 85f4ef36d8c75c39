"""The command ``cr5 reproduce``."""

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from cr5 import evaluate
from cr5.cli.evaluation import Output, check_own_systems, written
from cr5.cli.options import Json, Langs, OnError, Rank, SettingChanges, comma_separated, parse_changes, parse_rank
from cr5.cli.render import console, scores
from cr5.corpus.skipped import Skipped
from cr5.evaluate.preparation import check_output
from cr5.evaluate.splits import MAX_CANDIDATES, MAX_QUERIES
from cr5.evaluate.tasks.reproduce import DOCUMENT_WORDS, LOW_RESOURCE_CONCEPTS, QUERY_WORDS
from cr5.evaluate.tasks.reproduce import reproduce as reproduce_table


def reproduce(
    paper: Annotated[Literal["wsdm19"], typer.Argument(help="The paper.", metavar="wsdm19")],
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
            min=1, help="Test queries per language pair, at most a tenth of the concepts that the pair shares."
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
            help="Least and largest number of frequent words of a document.",
            metavar="LOW HIGH",
        ),
    ] = DOCUMENT_WORDS,
    query_words: Annotated[
        tuple[int, int],
        typer.Option(
            "--query-words",
            "--asked",
            help="Least and largest number of frequent words of a query.",
            metavar="LOW HIGH",
        ),
    ] = QUERY_WORDS,
    low_resource: Annotated[
        int, typer.Option(min=2, help="Training concepts of the low-resource section.", metavar="N")
    ] = LOW_RESOURCE_CONCEPTS,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split.")] = 0,
    on_error: OnError = "raise",
    json: Json = False,
) -> None:
    """Repeat the paper's document retrieval on the authors' data, and print the results next to its Table 1.

    Example:

        cr5 reproduce wsdm19 data/ -o results
    """
    check_output(output)
    skipped = Skipped()
    started = time.perf_counter()
    with console.progress_bars(json) as progress:
        run, split = reproduce_table(
            data,
            langs=comma_separated(langs),
            document_words=document_words,
            query_words=query_words,
            queries=queries,
            candidates=candidates,
            candidates_train=candidates_train,
            low_resource=low_resource,
            seed=seed,
            overrides=parse_changes(setting, rank=parse_rank(rank)),
            on_error=on_error,
            skipped=skipped,
            progress=progress,
        )
    run.facts["seconds"] = time.perf_counter() - started
    if output:
        evaluate.write_reports(run, output)
        split.save(output / "split.json")
    if json:
        console.as_json(run.to_json())
    else:
        console.skipped_lines(skipped)
        scores.reproduction_table(run)
        written(output)
    check_own_systems(run)
