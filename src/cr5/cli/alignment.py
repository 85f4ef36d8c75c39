"""The commands that find what documents in two languages have in common: ``align``, ``mine``, ``plagiarism``."""

import sys
from collections.abc import Iterable
from json import dumps
from pathlib import Path
from typing import Annotated, Literal

import typer

from cr5 import alignment
from cr5.alignment.align import two_languages
from cr5.alignment.documents import read_text
from cr5.alignment.formats import Level, match_json, match_page, mined_text, output_format
from cr5.alignment.mining import EXACT_UP_TO, MIN_SCORE, NEIGHBOURS, Candidates
from cr5.alignment.plagiarism import MIN_SCORE as REUSE_SCORE
from cr5.alignment.plagiarism import QUERY_HITS
from cr5.cli.messages import in_command_line_terms
from cr5.cli.options import Json, comma_separated
from cr5.cli.render import alignment as render
from cr5.cli.render import console
from cr5.cli.render.console import err, warn
from cr5.corpus.formats import READERS
from cr5.message_parts import plural
from cr5.model import Cr5

ModelOption = Annotated[Path, typer.Option(help="The folder of a model.", metavar="MODEL")]
TwoLangs = Annotated[
    str | None, typer.Option(help="The two languages, e.g. en,it.", metavar="CODES", show_default="guessed")
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="File to write, instead of standard output.", metavar="FILE")
]


def align(
    a: Annotated[Path, typer.Argument(help="A text, HTML or Markdown file, or a folder of such files.", metavar="A")],
    b: Annotated[Path, typer.Argument(help="Its counterpart in another language.", metavar="B")],
    model: ModelOption,
    langs: TwoLangs = None,
    free: Annotated[
        bool, typer.Option("--free", help="The sentences may be in another order; link those that fit best.")
    ] = False,
    level: Annotated[
        Level, typer.Option(help="What a row of TSV or TMX holds: sentences, or sections, which are paragraphs.")
    ] = "sentence",
    output: Output = None,
    form: Annotated[
        Literal["tsv", "tmx", "html"] | None,
        typer.Option("--format", help="Format of the output.", show_default="by the suffix of FILE, else tsv"),
    ] = None,
) -> None:
    """Align the sentences and sections of two documents in two languages.

    Of two folders, the files with the same name are aligned. The HTML page shows both documents side by side. Examples:

        cr5 align guide.en.txt guide.it.txt --model model

        cr5 align guide.en.txt guide.it.txt --model model --langs en,it -o guide.html

        cr5 align en/ it/ --model model -o memory.tmx
    """
    chosen = output_format(output, form, ("tsv", "tmx", "html"), (a, b))
    loaded = Cr5.load(model)
    with console.progress_bars() as progress:
        found = alignment.align_files(loaded, a, b, langs=comma_separated(langs), free=free, progress=progress)
    _write(output, alignment.alignment_text(found.texts, chosen, level=level))
    if found.unpaired:
        count, example = plural(len(found.unpaired), "file"), found.unpaired[0]
        err.print(f"note: {count} without a partner in the other folder, e.g. {example}", soft_wrap=True)
    if found.failed:
        why = in_command_line_terms(found.failed[0], ["align"])
        warn(f"{plural(len(found.failed), 'pair')} of files left out, e.g. because {why}")
    if output is not None:
        links = [link for text in found.texts for link in (text.sentences if level == "sentence" else text.sections)]
        linked = sum(bool(link.a and link.b) for link in links)
        _note(f"{linked:,} of {plural(len(links), 'row')} have text on both sides; written to {output}")


def mine(
    a: Annotated[
        Path,
        typer.Argument(
            help="A text file with any ending, one sentence a line; a corpus "
            f"({', '.join(READERS)}); or a folder of texts.",
            metavar="CORPUS_A",
        ),
    ],
    b: Annotated[Path, typer.Argument(help="The same in another language.", metavar="CORPUS_B")],
    model: ModelOption,
    langs: TwoLangs = None,
    split: Annotated[
        bool, typer.Option("--split", help="Split the lines of text files into sentences; documents always are.")
    ] = False,
    min_score: Annotated[float, typer.Option(help="Lowest score of a pair.", metavar="NUMBER")] = MIN_SCORE,
    neighbours: Annotated[
        int, typer.Option("-k", min=1, help="Nearest sentences to score for each sentence.", metavar="NUMBER")
    ] = NEIGHBOURS,
    candidates: Annotated[
        Candidates,
        typer.Option(
            help="How the nearest sentences are found: by vectors, or by all views, which takes longer and finds more "
            "if the model knows few of the words."
        ),
    ] = "vectors",
    exact_up_to: Annotated[
        int,
        typer.Option(
            min=0,
            help="Compare all pairs if one side has at most this many sentences; otherwise only those in the nearest "
            "inverted lists, which is much faster.",
            metavar="NUMBER",
        ),
    ] = EXACT_UP_TO,
    output: Output = None,
    form: Annotated[
        Literal["tsv", "tmx"] | None,
        typer.Option("--format", help="Format of the output.", show_default="by the suffix of FILE, else tsv"),
    ] = None,
) -> None:
    """Find parallel sentences in two collections that are not aligned.

    Each sentence of a pair is the best match of the other. The columns a and b are the numbers of the sentences, from
    1: of a text file, the numbers of its lines. The score says how much closer they are to each other than
    to their other neighbours: a higher --min-score keeps fewer pairs, which are more certain. Of identical sentences,
    only the first is used. Examples:

        cr5 mine news.en.txt news.it.txt --model model > pairs.tsv

        cr5 mine corpus.parquet corpus.parquet --model model --langs en,it -o pairs.tmx

        cr5 mine en/ it/ --model model --min-score 0.6 -o pairs.tsv
    """
    chosen = output_format(output, form, ("tsv", "tmx"), (a, b))
    loaded, codes = Cr5.load(model), two_languages(comma_separated(langs))
    with console.progress_bars() as progress:
        x, y = (
            alignment.read_sentences(loaded, path, lang, split=split) for path, lang in zip((a, b), codes, strict=True)
        )
        found = alignment.mine(
            loaded, x.texts, x.lang, y.texts, y.lang, min_score=min_score, neighbours=neighbours,
            candidates=candidates, exact_up_to=exact_up_to, progress=progress,
        )  # fmt: skip
    _write(output, mined_text(found, x, y, chosen))
    sizes = f"{len(x.texts):,} {x.lang} and {len(y.texts):,} {y.lang} sentences"
    _note(f"{plural(len(found), 'pair')} in {sizes}" + (f"; written to {output}" if output else ""))


def plagiarism(
    suspect: Annotated[Path, typer.Argument(help="A text, HTML or Markdown file.", metavar="SUSPECT")],
    sources: Annotated[
        Path,
        typer.Argument(
            help=f"An index; a corpus ({', '.join(READERS)}, builtin); or a text file or a folder of these.",
            metavar="SOURCES",
        ),
    ],
    model: Annotated[
        Path | None, typer.Option(help="The folder of a model; an index has its own.", metavar="MODEL")
    ] = None,
    lang: Annotated[
        str | None, typer.Option(help="Language of the suspect.", metavar="CODE", show_default="guessed")
    ] = None,
    langs: Annotated[
        str | None,
        typer.Option(help="Languages of the sources, e.g. it,da.", metavar="CODES", show_default="all others"),
    ] = None,
    min_score: Annotated[float, typer.Option(help="Lowest similarity of a match.", metavar="NUMBER")] = REUSE_SCORE,
    hits: Annotated[
        int, typer.Option(min=1, help="Documents to retrieve for every two neighbouring sentences.", metavar="NUMBER")
    ] = QUERY_HITS,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Page to write, .html, or .json.", metavar="FILE")
    ] = None,
    json: Json = False,
) -> None:
    """Find passages of a document that resemble passages of documents in other languages.

    Each match has a passage of the suspect, one of a source, their similarity and the words that contribute most to it.
    Examples:

        cr5 plagiarism essay.txt index

        cr5 plagiarism essay.txt sources/ --model model -o matches.html

        cr5 plagiarism essay.txt corpus.parquet --model model --langs it --json
    """
    chosen = output_format(output, None, ("html", "json"), (suspect, sources))
    with console.progress_bars(json) as progress, alignment.open_sources(sources, model, progress=progress) as index:
        found = alignment.find_reused(
            index, read_text(suspect, lang), lang=lang, langs=comma_separated(langs), min_score=min_score, hits=hits,
            name=str(suspect), progress=progress,
        )  # fmt: skip
    if output is not None:
        text = match_page(found) if chosen == "html" else dumps(match_json(found), ensure_ascii=False, indent=2) + "\n"
        alignment.write_text(output, [text])
    if json:
        console.as_json(match_json(found))
    elif output is None:
        render.match_report(found)
    else:
        _note(f"{plural(len(found.matches), 'passage')} with a source; written to {output}")


def _write(output: Path | None, parts: Iterable[str]) -> None:
    if output is not None:
        alignment.write_text(output, parts)
        return
    for part in parts:
        sys.stdout.write(part)


def _note(text: str) -> None:
    err.print(text, style="dim", soft_wrap=True)
