"""The commands ``cr5 eval documents``, ``sentences``, ``words`` and ``search``, and ``cr5 eval --compare``."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import typer

from cr5 import evaluate
from cr5.cli import options
from cr5.cli.messages import in_command_line_terms
from cr5.cli.options import comma_separated, parse_rank, parse_ridge, parse_settings
from cr5.cli.render import console, scores
from cr5.corpus.skipped import Skipped
from cr5.errors import Cr5Error, ResultsNotWrittenError
from cr5.evaluate.api import DOCUMENT_SYSTEMS
from cr5.evaluate.preparation import DEFAULT_BASELINES
from cr5.evaluate.report.files import write_pages
from cr5.evaluate.report.formatting import describe_failures
from cr5.evaluate.runs import REGIMES, CslsOver, Regime, Run
from cr5.evaluate.splits import LOW_RESOURCE, MAX_CANDIDATES, MAX_QUERIES, MIN_QUERIES
from cr5.evaluate.systems.registry import KEYS
from cr5.evaluate.tasks.search.queries import QueryType
from cr5.evaluate.tasks.search.task import QUERIES, TYPES
from cr5.evaluate.tasks.sentences import SENTENCE_QUERIES, SEPARATE_SHARE
from cr5.index import Index
from cr5.progress import stop_on_interrupt

Result = TypeVar("Result")
app = typer.Typer(no_args_is_help=True, invoke_without_command=True)

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Folder to write run.json, scores.csv, report.md and report.html to."),
]
Train = Annotated[
    list[str] | None,
    typer.Option(
        help="Documents to train the baselines on; for a fair comparison, those that the model was trained on.",
        metavar="CORPUS",
    ),
]
Dictionary = Annotated[
    list[Path] | None,
    typer.Option(
        help="Word pairs for the system dictionary, source<TAB>target, in a file named like en-it.tsv.", metavar="FILE"
    ),
]
Details = Annotated[bool, typer.Option("--details", help="Print the figures of every system for every direction.")]
Validation = Annotated[bool, typer.Option("--validation", help="Use the validation queries, for choosing settings.")]
Baselines = Annotated[
    str | None,
    typer.Option(
        help=f"With --train: the systems to compare the model with ({', '.join(KEYS)}).",
        metavar="NAMES",
        show_default=", ".join(DEFAULT_BASELINES),
    ),
]
CslsOverOption = Annotated[
    CslsOver,
    typer.Option(
        help="Texts over which CSLS computes neighbourhood means: the queries, or other held-out texts in their "
        "language (background)."
    ),
]
CslsOverWords = Annotated[
    CslsOver,
    typer.Option(
        help="Words over which CSLS computes neighbourhood means: the queries, or the most frequent other words of "
        "their language (background)."
    ),
]


@app.callback()
def root(
    context: typer.Context,
    comparison: Annotated[
        tuple[Path, Path] | None,
        typer.Option("--compare", help="Compare two runs: folders written with -o.", metavar="A B"),
    ] = None,
    systems: Annotated[
        str | None,
        typer.Option(help="With --compare: the system of A and the system of B to compare.", metavar="NAME,NAME"),
    ] = None,
    json: options.Json = False,
) -> None:
    """Measure how well texts find their counterparts in other languages, and compare with baselines.

    Examples:

        cr5 eval documents corpus/ -o results

        cr5 eval sentences model europarl.en europarl.it

        cr5 eval words model en-it.tsv

        cr5 eval search index

        cr5 eval --compare results other-results
    """
    if comparison is None:
        if context.invoked_subcommand is None:
            raise Cr5Error("name what to measure: documents, sentences, words or search; or give two runs to --compare")
        return
    if context.invoked_subcommand is not None:
        raise Cr5Error(f"--compare cannot be combined with {context.invoked_subcommand}; leave one of them out")
    names = comma_separated(systems)
    if names is not None and len(names) != 2:
        raise Cr5Error(f"--systems is {systems!r}; with --compare it must be two names, one of each run")
    rows = evaluate.compare(*comparison, (names[0], names[1]) if names else None)
    if json:
        console.as_json([row.to_json() for row in rows])
    else:
        scores.comparison_table(rows)


@app.command()
def documents(
    corpora: options.Corpora,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder to write run.json, scores.csv, report.md, report.html and split.json to."
        ),
    ] = None,
    langs: options.Langs = None,
    regimes: Annotated[
        str,
        typer.Option(
            "--regime",
            help=f"What to train on: {', '.join(REGIMES)} (several separated by commas), or all.",
            metavar="NAMES",
        ),
    ] = "joint",
    systems: Annotated[
        str,
        typer.Option(
            help=f"What to measure: {', '.join(KEYS)} (several separated by commas), or all.",
            metavar="NAMES",
            show_default=", ".join(DOCUMENT_SYSTEMS),
        ),
    ] = ",".join(DOCUMENT_SYSTEMS),
    preset: options.Preset = "default",
    rank: options.Rank = None,
    ridge: options.Ridge = None,
    setting: options.SettingChanges = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the split.", show_default="0")] = None,
    queries: Annotated[
        int | None,
        typer.Option(
            min=MIN_QUERIES,
            help="Test queries per language pair, at most a tenth of the concepts that the pair shares.",
            show_default=f"{MAX_QUERIES}",
        ),
    ] = None,
    candidates: Annotated[
        int | None,
        typer.Option(
            min=MIN_QUERIES,
            help="Candidates per language, at most two fifths of its concepts.",
            show_default=f"{MAX_CANDIDATES}",
        ),
    ] = None,
    split: Annotated[
        Path | None, typer.Option(help="Use this split (split.json of another run) instead of a new one.")
    ] = None,
    validation: Validation = False,
    comparable: Annotated[
        bool,
        typer.Option("--comparable", help="Give each language different paragraphs (lines) of a parallel document."),
    ] = False,
    mask_shared: Annotated[
        bool,
        typer.Option(
            "--mask-shared",
            help="Remove the words that a held-out document shares with its counterpart in another language.",
        ),
    ] = False,
    csls_over: CslsOverOption = "queries",
    low_resource: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Training concepts of a pair in the regime low-resource.",
            metavar="N",
            show_default=f"{LOW_RESOURCE}",
        ),
    ] = None,
    pivot: Annotated[
        str | None,
        typer.Option(
            "--pivot",
            "--bridge",
            help="The third language in the regime transitive.",
            show_default="the one that shares most",
            metavar="CODE",
        ),
    ] = None,
    drop: Annotated[
        bool,
        typer.Option(
            "--drop-shared",
            "--drop",
            help="In the regime transitive: drop the concepts that both languages have, as in the paper.",
        ),
    ] = False,
    dictionary: Dictionary = None,
    vectors: Annotated[
        list[str] | None,
        typer.Option(
            help="Vectors of another encoder: a name for it, and a folder with en.npy or en.parquet, …",
            metavar="NAME=FOLDER",
        ),
    ] = None,
    held_out_texts: Annotated[
        Path | None,
        typer.Option(
            "--texts",
            help="Only write the held-out texts (en.jsonl, …) to this folder, for another encoder.",
            metavar="FOLDER",
        ),
    ] = None,
    on_error: options.OnError = "raise",
    details: Details = False,
    json: options.Json = False,
) -> None:
    """Hold documents out, train without them, and see whether they find each other across languages.

    Examples:

        cr5 eval documents corpus/ -o results

        cr5 eval documents corpus/ --langs en,it,da --regime all --systems all -o results

        cr5 eval documents speeches/ --comparable --split results/split.json
    """
    skipped = Skipped()
    split_options: dict[str, Any] = {
        "settings": parse_settings(preset, setting, rank=parse_rank(rank), ridge=parse_ridge(ridge)),
        "langs": comma_separated(langs), "seed": seed, "queries": queries, "candidates": candidates,
        "split": split, "comparable": comparable, "mask_shared": mask_shared, "on_error": on_error, "skipped": skipped,
    }  # fmt: skip
    if held_out_texts:
        if output or json:
            raise Cr5Error(f"--texts only writes texts; leave out {'--output' if output else '--json'}")
        with console.progress_bars() as progress:
            sizes = evaluate.held_out_texts(corpora, held_out_texts, progress=progress, **split_options)
        listed = ", ".join(f"{size:,} {lang}" for lang, size in sizes.items())
        console.err.print(
            f"{listed} texts written to {held_out_texts}; encode them line by line and pass --vectors NAME=FOLDER"
        )
        return
    with console.progress_bars(json) as progress, stop_on_interrupt() as should_stop:
        run, unwritten = measured(
            evaluate.documents,
            corpora,
            systems=comma_separated(systems) or [],
            regimes=cast(list[Regime], comma_separated(regimes) or []),
            validation=validation,
            csls_over=csls_over,
            low_resource=low_resource,
            pivot=pivot,
            drop=drop,
            dictionary=dictionary or (),
            vectors=dict(_named_folder(item) for item in vectors or []),
            output=output,
            progress=progress,
            should_stop=should_stop,
            **split_options,
        )
        interrupted = should_stop()
    _show(run, output, json, details, skipped, unwritten=unwritten)
    if interrupted:
        console.warn("interrupted; the results so far are kept")
        sys.exit(130)


@app.command()
def sentences(
    model: options.Model,
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Line-aligned files NAME.en NAME.it, a Parquet file with a column for each language, or folders.",
            metavar="FILE",
        ),
    ],
    output: Output = None,
    langs: options.Langs = None,
    queries: Annotated[
        int, typer.Option(min=1, help="Queries per language pair; all its sentences are candidates.")
    ] = SENTENCE_QUERIES,
    separate: Annotated[
        float, typer.Option(min=0, max=0.9, help="Share of the sentences that is used only to compute IDF weights.")
    ] = SEPARATE_SHARE,
    train: Train = None,
    systems: Baselines = None,
    dictionary: Dictionary = None,
    validation: Validation = False,
    csls_over: CslsOverOption = "queries",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split.")] = 0,
    details: Details = False,
    json: options.Json = False,
) -> None:
    """See whether sentences find their translations, with a model that was trained on other texts.

    Examples:

        cr5 eval sentences model europarl.en europarl.it -o results

        cr5 eval sentences model en-it.parquet --train corpus/ --systems shared-tokens,lsi,words
    """
    with console.progress_bars(json) as progress:
        run, unwritten = measured(
            evaluate.sentences,
            model,
            files,
            langs=comma_separated(langs),
            queries=queries,
            separate=separate,
            train=train,
            systems=comma_separated(systems),
            dictionary=dictionary or (),
            validation=validation,
            csls_over=csls_over,
            seed=seed,
            output=output,
            progress=progress,
        )
    _show(run, output, json, details, unwritten=unwritten)


@app.command()
def words(
    model: options.Model,
    dictionaries: Annotated[
        list[Path],
        typer.Argument(help="Test words, source<TAB>target, in files named like en-it.test.tsv.", metavar="DICTIONARY"),
    ],
    output: Output = None,
    train: Train = None,
    systems: Baselines = None,
    dictionary: Dictionary = None,
    csls_over: CslsOverWords = "queries",
    details: Details = False,
    json: options.Json = False,
) -> None:
    """See whether words find their translations among all words of the other language.

    Examples:

        cr5 eval words model en-it.test.tsv it-en.test.tsv -o results

        cr5 eval words model en-it.test.tsv --train corpus/ --dictionary en-it.train.tsv
    """
    with console.progress_bars(json) as progress:
        run, unwritten = measured(
            evaluate.words,
            model,
            dictionaries,
            train=train,
            systems=comma_separated(systems),
            dictionary=dictionary or (),
            csls_over=csls_over,
            output=output,
            progress=progress,
        )
    _show(run, output, json, details, unwritten=unwritten)


@app.command()
def search(
    index: options.IndexFolder,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write search.json, scores.csv and report.md to.")
    ] = None,
    langs: options.Langs = None,
    types: Annotated[
        str | None, typer.Option(help=f"Types of queries: {', '.join(TYPES)}.", metavar="NAMES", show_default="all")
    ] = None,
    queries: Annotated[
        int | None,
        typer.Option(
            min=1, help="Queries per type and language, and as many again across languages.", show_default=f"{QUERIES}"
        ),
    ] = None,
    query_file: Annotated[
        Path | None,
        typer.Option(
            help="Use the queries in this JSONL file (query, lang, concept, kind) instead; builtin for the queries "
            "that come with the built-in encyclopedia.",
            metavar="FILE",
        ),
    ] = None,
    validation: Annotated[
        bool | None,
        typer.Option(
            "--validation/--test",
            help="Which half of the concepts to query: validation for choosing settings, test for reporting.",
            show_default="test; all queries of a --query-file of your own",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed for sampling documents and sentences.", show_default="0")
    ] = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """See whether an index finds documents by queries whose answers are known, and compare with BM25.

    Queries are generated from the documents. Each searches its own language and, if its concept has documents in other
    languages, one of those. Examples:

        cr5 eval search index -o results

        cr5 eval search index --types title,typo --queries 200 --validation

        cr5 eval search index --query-file queries.jsonl
    """
    with console.progress_bars(json) as progress, Index.open(index, store=store) as opened:
        run, unwritten = measured(
            evaluate.search,
            opened,
            types=cast(list[QueryType] | None, comma_separated(types)),
            langs=comma_separated(langs),
            queries=queries,
            query_file=query_file,
            validation=validation,
            seed=seed,
            output=output,
            progress=progress,
        )
    if json:
        console.as_json(run.to_json())
    else:
        scores.search_tables(run)
        scores.written_files(None if unwritten else output, "search")
    if unwritten:
        raise unwritten


def measured(evaluation: Callable[..., Result], *arguments: Any, **options: Any) -> tuple[Result, Cr5Error | None]:
    """What an evaluation returns, and, if its files could not be written, the error to end with once that is shown."""
    try:
        return evaluation(*arguments, **options), None
    except ResultsNotWrittenError as error:
        advice = "the figures that are printed are complete; free some space, and run it again for the files"
        return error.run, Cr5Error(f"{error.problem}; {advice}")


def _show(
    run: Run,
    output: Path | None,
    json: bool,
    details: bool,
    skipped: Skipped | None = None,
    *,
    unwritten: Cr5Error | None,
) -> None:
    """Print a run, and name options of the command in its pages, which the library has written.

    At the end, raise ``unwritten`` if there is one, or Cr5Error if cr5 itself could not run.
    """

    def as_options(text: str) -> str:
        return in_command_line_terms(text, ["eval", run.task])

    if output is not None and unwritten is None:
        write_pages(run.with_messages(as_options), output)
    if json:
        console.as_json(run.to_json())
    else:
        if skipped:
            console.skipped_lines(skipped)
        scores.run_tables(run, details, as_options, has_files=output is not None)
        scores.written_files(None if unwritten else output, run.task)
    if unwritten:
        raise unwritten
    check_own_systems(run)


def check_own_systems(run: Run) -> None:
    """Raise Cr5Error, for the exit code of the command, if cr5 itself could not run in one of the regimes."""
    own = [failed for (name, _), group in run.not_measured().items() if run.role(name) == "own" for failed in group]
    if own:
        raise Cr5Error(f"{'; '.join(describe_failures(own))}. Everything else was measured")


def _named_folder(item: str) -> tuple[str, str]:
    name, equals, folder = item.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{item!r} is not of the form NAME=FOLDER", param_hint="--vectors")
    return name, folder
