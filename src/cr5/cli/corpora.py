"""The commands that make corpora, and look into them."""

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal

import typer

from cr5 import __version__
from cr5.cli.options import Changes, Corpora, Json, Langs, OnError, Preset, comma_separated, read_corpora, settings_of
from cr5.cli.render import console
from cr5.cli.render import corpora as rendering
from cr5.cli.render.console import err
from cr5.corpus.documents import Batch, Document
from cr5.corpus.languages import normalise
from cr5.corpus.skipped import Skipped
from cr5.corpus.writing import write
from cr5.errors import Cr5Error
from cr5.progress import Progress
from cr5.settings import settings
from cr5.sources.bible import read_bible
from cr5.sources.clean import SourceSummary, clean
from cr5.sources.europarl import read_europarl
from cr5.sources.files import ErrorHandler, raise_error
from cr5.sources.folder import read_folder
from cr5.sources.gettext import read_gettext
from cr5.sources.moses import read_moses
from cr5.sources.table import read_table
from cr5.sources.tmx import read_tmx
from cr5.sources.wikipedia import build as encyclopedias
from cr5.sources.wikipedia.dump_listing import DUMPS, HUB
from cr5.sources.wikipedia.executor import open_executor
from cr5.sources.wikipedia.plan import Ids, Request
from cr5.sources.wikipedia.publishing import Keep
from cr5.sources.wikipedia.wiki import Kind
from cr5.training.inspection import inspect as inspect_corpus

app = typer.Typer(help="Make a corpus from what you have, or look into one.", no_args_is_help=True)
SOURCES = "Make a corpus"
AT_HAND = "Use one that is there"
TRAIN_SHORTER = "train with a lower --set min_unique=N"

Output = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        help="File to write: .parquet, .jsonl, .csv or .tsv, the last three also .gz or .xz; - for JSONL on standard "
        "output.",
        metavar="FILE",
    ),
]
Paths = Annotated[list[Path], typer.Argument(help="Files or folders.", metavar="PATH", show_default=False)]
DropForeign = Annotated[
    bool, typer.Option("--drop-foreign", help="Leave out texts that are evidently in another language than they say.")
]
Dedupe = Annotated[
    bool, typer.Option("--dedupe", help="Leave out texts that nearly repeat one of another concept in their language.")
]


CONTACT = "https://pypi.org/project/cr5"


@app.command(rich_help_panel=SOURCES)
def wikipedia(
    langs: Annotated[str, typer.Option(help="Wikipedias by their codes, e.g. da,en,it,vi.", metavar="CODES")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.", metavar="FOLDER")],
    source: Annotated[
        Kind | None,
        typer.Option(
            help="The search index as plain text, the pages as wikitext, or an export on the Hugging Face hub.",
            show_default="cirrus, with --sample xml",
        ),
    ] = None,
    date: Annotated[
        str | None, typer.Option(help="Date of the dumps.", show_default="the newest", metavar="YYYYMMDD")
    ] = None,
    concepts: Annotated[
        Literal["all", "shared"], typer.Option(help="Keep all, or those that two languages or more have.")
    ] = "all",
    sample: Annotated[
        int | None, typer.Option(min=1, help="Only the first articles of each language, for a try-out.", metavar="N")
    ] = None,
    drop_foreign: DropForeign = False,
    dedupe: Dedupe = False,
    ids: Annotated[
        Ids,
        typer.Option(help="Wikidata items from each wiki's page_props, or from Wikidata's own table of sitelinks."),
    ] = "props",
    dumps: Annotated[
        Path | None, typer.Option(help="Take dumps from this folder and fetch nothing.", metavar="FOLDER")
    ] = None,
    mirror: Annotated[
        str,
        typer.Option(help="Where Wikimedia's dumps are.", metavar="URL", show_default=DUMPS.removeprefix("https://")),
    ] = DUMPS,
    hub: Annotated[
        str,
        typer.Option(help="Where the Parquet export is.", metavar="URL", show_default=HUB.removeprefix("https://")),
    ] = HUB,
    contact: Annotated[
        str | None,
        typer.Option(
            help="Your address for the servers' administrators, in the user agent.",
            envvar="CR5_CONTACT",
            metavar="MAIL|URL",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that extract here.", show_default="one a core")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Extract on a Dask cluster, e.g. tcp://10.0.0.1:8786.", metavar="ADDRESS"),
    ] = None,
    json: Json = False,
) -> None:
    """Wikipedia in any languages, aligned by Wikidata: download, extract, align.

    Stop it whenever you like: the same command goes on where it was.
    Downloads and what is half done lie in FOLDER/.work; delete that when
    the corpus is complete. Examples:

        cr5 corpus wikipedia --langs da,it,vi --sample 2000 -o tryout

        cr5 corpus wikipedia --langs da,en,it,vi -o wiki

        cr5 corpus wikipedia --langs da,en -o wiki --source xml --dumps dumps/

        cr5 corpus wikipedia --langs da,en -o wiki --scheduler tcp://node1:8786
    """
    request = Request(
        codes=tuple(comma_separated(langs) or ()),
        kind=source or ("xml" if sample else "cirrus"),
        date=date,
        ids=ids,
        sample=sample,
        keep=Keep(shared=concepts == "shared", own=drop_foreign, unlike=dedupe),
        mirror=mirror.rstrip("/"),
        hub=hub.rstrip("/"),
        dumps=dumps,
    )
    agent = f"cr5/{__version__} ({contact or CONTACT})"
    began = time.perf_counter()
    before = signal.signal(signal.SIGTERM, _interrupt)  # whoever ends a night's work keeps all of it
    try:
        with open_executor(workers, scheduler) as executor, console.progress_bars(json) as progress:
            built = encyclopedias.build(request, output, executor=executor, agent=agent, progress=progress)
    except KeyboardInterrupt:
        err.print("stopped; run the same command again to go on", style="yellow")
        sys.exit(130)
    finally:
        signal.signal(signal.SIGTERM, before)
    seconds = time.perf_counter() - began
    if json:
        console.as_json({"corpus": str(output), "seconds": seconds} | encyclopedias.about(request, built))
        return
    rendering.wikipedia_report(built, seconds)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@app.command(rich_help_panel=SOURCES)
def folder(
    root: Annotated[Path, typer.Argument(help="The folder.", metavar="FOLDER")],
    output: Output,
    pattern: Annotated[
        str, typer.Option(help="Where language and concept stand in a path; * is any part, ** any parts.")
    ] = "{lang}/{concept}",
    keep_repeated: Annotated[
        bool, typer.Option("--keep-repeated", help="Keep lines that most pages of a language have, such as menus.")
    ] = False,
    langs: Langs = None,
    drop_foreign: DropForeign = False,
    dedupe: Dedupe = False,
    on_error: OnError = "raise",
    json: Json = False,
) -> None:
    """A folder tree with one subfolder per language: HTML, Markdown or text.

    Pages of the same path are about the same: docs/en/install.html and
    docs/it/install.html. Elsewhere a pattern says what is what. Examples:

        cr5 corpus folder docs/ -o corpus.parquet

        cr5 corpus folder pages/ --pattern "{concept}.{lang}.md" -o corpus.jsonl
    """
    skipped, handle_error = _error_handler(on_error)
    chosen = comma_separated(langs)
    found = read_folder(root, pattern=pattern, keep_repeated=keep_repeated, langs=chosen, handle_error=handle_error)
    _make(found, output, skipped, langs, drop_foreign, dedupe, handle_error, json)


@app.command(rich_help_panel=SOURCES)
def moses(
    paths: Paths,
    output: Output,
    join: Annotated[
        int | None,
        typer.Option(min=1, help="Lines that make one document.", show_default="20, with --pivot 1", metavar="N"),
    ] = None,
    pivot: Annotated[
        str | None,
        typer.Option(help="Join several pairs where their lines in this language are equal.", metavar="CODE"),
    ] = None,
    langs: Langs = None,
    drop_foreign: DropForeign = False,
    dedupe: Dedupe = False,
    on_error: OnError = "raise",
    json: Json = False,
) -> None:
    """Line-aligned files as OPUS publishes them for Moses: plain, .gz, or in a .zip.

    Files belong together whose names differ in the language at their end.
    A sentence alone teaches little, so 20 are joined. Examples:

        cr5 corpus moses Europarl.en-it.en Europarl.en-it.it -o corpus.parquet

        cr5 corpus moses en-it.txt.zip --join 50 -o corpus.parquet

        cr5 corpus moses da-en.txt.zip en-it.txt.zip --pivot en -o corpus.parquet
    """
    skipped, handle_error = _error_handler(on_error)
    found = read_moses(paths, join=join or (1 if pivot else 20), pivot=pivot, handle_error=handle_error)
    longer = TRAIN_SHORTER if pivot else f"join more lines with --join, or {TRAIN_SHORTER}"
    _make(found, output, skipped, langs, drop_foreign, dedupe, handle_error, json, longer)


@app.command(rich_help_panel=SOURCES)
def tmx(
    paths: Paths,
    output: Output,
    join: Annotated[int, typer.Option(min=1, help="Units that make one document.", metavar="N")] = 20,
    langs: Langs = None,
    drop_foreign: DropForeign = False,
    dedupe: Dedupe = False,
    on_error: OnError = "raise",
    json: Json = False,
) -> None:
    """Translation memories: .tmx, .tmx.gz, or in a .zip.

    A segment alone teaches little, so those of 20 units are joined.
    Examples:

        cr5 corpus tmx memory.tmx -o corpus.parquet

        cr5 corpus tmx en-it.tmx.gz da-en.tmx.gz --join 50 -o corpus.parquet
    """
    skipped, handle_error = _error_handler(on_error)
    found = read_tmx(paths, join=join, handle_error=handle_error)
    longer = f"join more units with --join, or {TRAIN_SHORTER}"
    _make(found, output, skipped, langs, drop_foreign, dedupe, handle_error, json, longer)


@app.command(rich_help_panel=SOURCES)
def europarl(
    root: Annotated[Path, typer.Argument(help="A folder or .zip with a subfolder per language.", metavar="PATH")],
    output: Output,
    langs: Langs = None,
    drop_foreign: DropForeign = False,
    dedupe: Dedupe = False,
    on_error: OnError = "raise",
    json: Json = False,
) -> None:
    """Sessions of the European Parliament, XML or the older text form.

    Every speech is a document. Some files are damaged as they are published;
    --on-error skip passes over that and counts it. Example:

        cr5 corpus europarl Europarl/raw -o corpus.parquet --on-error skip
    """
    skipped, handle_error = _error_handler(on_error)
    found = read_europarl(root, langs=comma_separated(langs), handle_error=handle_error)
    _make(found, output, skipped, langs, drop_foreign, dedupe, handle_error, json)


@app.command(rich_help_panel=SOURCES)
def gettext(
    paths: Paths,
    output: Output,
    by: Annotated[
        Literal["message", "reference", "catalogue"],
        typer.Option(
            help="A document is a message, or all of a source file (reference), or a catalogue.", metavar="UNIT"
        ),
    ] = "message",
    source_lang: Annotated[str, typer.Option(help="Language of the messages themselves.", metavar="CODE")] = "en",
    langs: Langs = None,
    drop_foreign: DropForeign = False,
    dedupe: Dedupe = False,
    on_error: OnError = "raise",
    json: Json = False,
) -> None:
    """Message catalogues of gettext, .po and .mo.

    A message is often too short to learn from: take all messages of a source
    file as a document, or where no files are named (.mo), all of a catalogue.
    Examples:

        cr5 corpus gettext po/ --by reference -o corpus.parquet

        cr5 corpus gettext /usr/share/locale --by catalogue -o corpus.parquet
    """
    skipped, handle_error = _error_handler(on_error)
    found = read_gettext(paths, by=by, source_lang=source_lang, handle_error=handle_error)
    longer = f"join messages with --by reference or catalogue, or {TRAIN_SHORTER}"
    _make(found, output, skipped, langs, drop_foreign, dedupe, handle_error, json, longer)


@app.command(rich_help_panel=SOURCES)
def bible(
    paths: Paths,
    output: Output,
    references: Annotated[
        Path | None, typer.Option(help="The verse of every line, e.g. vref.txt.", metavar="FILE")
    ] = None,
    by: Annotated[Literal["verse", "chapter", "book"], typer.Option(help="What a document is.")] = "chapter",
    langs: Langs = None,
    drop_foreign: DropForeign = False,
    dedupe: Dedupe = False,
    on_error: OnError = "raise",
    json: Json = False,
) -> None:
    """Bibles with a verse a line, and a list that names the verses.

    A file's name begins with its language: eng-web.txt. Without a list every
    line begins with its reference and a tab. Examples:

        cr5 corpus bible verses/ --references vref.txt -o corpus.parquet

        cr5 corpus bible eng-web.tsv dan-1931.tsv --by book -o corpus.parquet
    """
    skipped, handle_error = _error_handler(on_error)
    found = read_bible(paths, references, by=by, handle_error=handle_error)
    longer = f"join verses with --by chapter or book, or {TRAIN_SHORTER}"
    _make(found, output, skipped, langs, drop_foreign, dedupe, handle_error, json, longer)


@app.command(rich_help_panel=SOURCES)
def table(
    paths: Annotated[list[Path], typer.Argument(help="Files.", metavar="FILE", show_default=False)],
    output: Output,
    concept_column: Annotated[str, typer.Option(help="What a row is about.", metavar="NAME")] = "concept",
    lang_column: Annotated[str, typer.Option(help="Its language; - has it guessed.", metavar="NAME")] = "lang",
    text_column: Annotated[
        list[str] | None,
        typer.Option(help="Its text; may be repeated, the texts are joined.", metavar="NAME", show_default="text"),
    ] = None,
    title_column: Annotated[str, typer.Option(help="Its title.", metavar="NAME")] = "title",
    url_column: Annotated[str, typer.Option(help="Its address.", metavar="NAME")] = "url",
    lang: Annotated[str | None, typer.Option(help="The language of all rows.", metavar="CODE")] = None,
    wide: Annotated[
        list[str] | None,
        typer.Option(help="One column a language, e.g. --wide it=testo; may be repeated.", metavar="CODE=NAME"),
    ] = None,
    langs: Langs = None,
    drop_foreign: DropForeign = False,
    dedupe: Dedupe = False,
    on_error: OnError = "raise",
    json: Json = False,
) -> None:
    """Tables with columns of any names: .csv, .tsv, .jsonl or .parquet.

    Rows that are about the same have the same concept. A wide table has all
    languages of it in one row, each in a column. Examples:

        cr5 corpus table news.csv --concept-column story -o corpus.parquet

        cr5 corpus table news.csv --text-column head --text-column body -o a.csv

        cr5 corpus table pairs.tsv --wide en=english --wide it=testo -o b.csv

        cr5 corpus table it.csv --lang it -o it.parquet
    """
    skipped, handle_error = _error_handler(on_error)
    found = read_table(
        paths,
        concept_column=concept_column,
        lang_column=None if lang_column == "-" else lang_column,
        text_column=text_column or ["text"],
        title_column=title_column,
        url_column=url_column,
        lang=lang or "",
        wide=dict(_pair(item) for item in wide) if wide else None,
        handle_error=handle_error,
    )
    _make(found, output, skipped, langs, drop_foreign, dedupe, handle_error, json)


def _pair(item: str) -> tuple[str, str]:
    code, equals, name = item.partition("=")
    if not (code and equals and name):
        raise typer.BadParameter(f"{item!r} is not of the form CODE=NAME", param_hint="--wide")
    return code, name


def _error_handler(on_error: str) -> tuple[Skipped, ErrorHandler]:
    skipped = Skipped()
    return skipped, skipped.add if on_error == "skip" else raise_error


def _make(
    documents: Iterator[Document],
    output: str,
    skipped: Skipped,
    langs: str | None,
    drop_foreign: bool,
    dedupe: bool,
    handle_error: ErrorHandler,
    json: bool,
    longer: str = TRAIN_SHORTER,
) -> None:
    """Write a source's documents as a corpus, and tell what it is; ``longer`` says what to do about short ones."""
    if json and output == "-":
        raise typer.BadParameter("standard output is the corpus already; name a file with -o", param_hint="--json")
    summary, wanted = SourceSummary(), comma_separated(langs)
    min_unique = settings().weighting.min_unique
    began = time.perf_counter()
    with console.progress_bars(json) as progress:

        def found() -> Iterator[Batch]:
            count = 0
            for batch in clean(
                documents, summary, langs=wanted, drop_foreign=drop_foreign, dedupe=dedupe, min_unique=min_unique,
                handle_error=handle_error,
            ):  # fmt: skip
                count += batch.rows.num_rows
                progress(Progress("documents", count, None))
                yield batch
            if not count:
                raise Cr5Error(_nothing(skipped, summary, wanted or []))

        count = write(output, found())
    seconds = time.perf_counter() - began
    if json:
        about = {"corpus": output, "documents": count, "seconds": seconds, "skipped": skipped.counts}
        console.as_json(about | summary.to_json())
        return
    rendering.source_summary(
        summary, output, seconds, drop_foreign=drop_foreign, dedupe=dedupe, min_unique=min_unique, longer=longer
    )
    console.skipped_lines(skipped)
    if missing := _missing(summary, wanted or []):
        console.warn(f"no document is in {', '.join(missing)}; there are {', '.join(sorted(summary.passed))}")


def _nothing(skipped: Skipped, summary: SourceSummary, wanted: list[str]) -> str:
    """Why no document is left."""
    if summary.passed and len(_missing(summary, wanted)) < max(len(wanted), 1):
        return "all documents are foreign or similar, so none is left; leave out --drop-foreign or --dedupe"
    if summary.passed:
        return f"no document is in {', '.join(wanted)}; there are {', '.join(sorted(summary.passed))}; change --langs"
    if skipped.total:
        return f"no document is left, {skipped.total:,} could not be used; the first: {skipped.first}"
    return "there is no text in what you named; check the files, and the options in -h"


def _missing(summary: SourceSummary, wanted: list[str]) -> list[str]:
    return [lang for lang in wanted if not summary.passed[normalise(lang)]]


# A corpus that is there


@app.command("inspect", rich_help_panel=AT_HAND)
def inspect(
    corpora: Corpora,
    langs: Langs = None,
    preset: Preset = "default",
    setting: Changes = None,
    on_error: OnError = "raise",
    json: Json = False,
) -> None:
    """Print documents and words per language, shared concepts, duplicates and what training would drop.

    Example:

        cr5 corpus inspect corpus/
    """
    chosen = settings_of(preset, setting)
    skipped = Skipped()
    with console.progress_bars(json) as progress:
        found = inspect_corpus(
            read_corpora(corpora, langs, on_error, skipped), chosen.tokeniser, chosen.weighting, progress=progress
        )
    if json:
        console.as_json(found.to_json() | {"skipped": skipped.counts})
        return
    rendering.inspection_tables(found)
    console.skipped_lines(skipped)


@app.command("convert", rich_help_panel=AT_HAND)
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
    err.print(f"{count:,} documents written" + ("" if output == "-" else f" to {output}"))
