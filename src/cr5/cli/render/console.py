"""How results look in a terminal."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from cr5.corpus.documents import Document, Skipped
from cr5.demo import FLOOR, HELD_OUT, MODEL, Hit
from cr5.evaluate.runs import Run
from cr5.evaluate.statistics import CUTOFFS
from cr5.model import Cr5
from cr5.progress import Progress, ProgressCallback
from cr5.retrieval.explanations import Explanation
from cr5.sources.clean import SourceSummary
from cr5.sources.wikipedia.build import Built
from cr5.sources.wikipedia.wiki import PAGES
from cr5.training.inspection import Inspection

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def _table(title: str, *columns: str, left: tuple[str, ...] = ()) -> Table:
    """A table without frame; columns are numbers, on the right, but for those in ``left``."""
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="left" if name in left else "right")
    return table


@contextmanager
def progress_bars(quiet: bool = False) -> Iterator[ProgressCallback]:
    """Draw one bar for the stage at hand, on standard error and only on a terminal."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Bars(*columns, console=err, transient=True, disable=quiet or not err.is_terminal) as bars:
        tasks: dict[str, Any] = {}
        shown: list[str] = []

        def report(progress: Progress) -> None:
            if progress.stage not in tasks:
                tasks[progress.stage] = bars.add_task(progress.stage, total=progress.total, note="")
            if shown != [progress.stage]:
                shown[:] = [progress.stage]
                for stage, task in tasks.items():
                    bars.update(task, visible=stage == progress.stage)
            bars.update(tasks[progress.stage], completed=progress.done, total=progress.total, note=progress.note)

        yield report


def as_json(values: Any) -> None:
    """Plain values on standard output, one JSON object."""
    json.dump(values, sys.stdout, ensure_ascii=False, indent=2)
    sys.stdout.write("\n")


def warn(message: str) -> None:
    """A line on standard error."""
    err.print(Text.assemble(("warning: ", "bold yellow"), message), soft_wrap=True)


def skipped_lines(skipped: Skipped) -> None:
    """What was left out, and one example for each reason."""
    for reason, count in skipped.counts.items():
        warn(f"skipped {count:,}: {reason} (first: {skipped.examples[reason]})")


def demo_table(run: Run) -> None:
    """Precision for every direction, beside the floor and chance."""
    columns = ("", "cosine P@1", "P@5", "P@10", "CSLS P@1", "P@5", "P@10", "floor P@1")
    table = _table("Held-out retrieval, %", *columns, left=columns[:1])
    parts = [run.of(MODEL, "joint", "cosine"), run.of(MODEL, "joint", "csls"), run.of(FLOOR, "joint", "cosine")]
    for cosine, csls, floor in zip(*parts, strict=True):
        figures = [score.precision(k) for score in (cosine, csls) for k in CUTOFFS] + [floor.precision()]
        table.add_row(f"{cosine.source} > {cosine.target}", *(f"{figure:.1f}" for figure in figures))
    table.add_section()
    mean = {(m.system, m.measure): m.precision for m in run.means()}
    means = [mean[MODEL, m][k] for m in ("cosine", "csls") for k in CUTOFFS] + [mean[FLOOR, "cosine"][1]]
    table.add_row("mean", *(f"{figure:.1f}" for figure in means), style="bold")
    out.print(table)
    queries, candidates = len(parts[0][0].ranks), parts[0][0].candidates
    out.print(
        f"{queries} queries among {candidates} candidates; chance {100 / candidates:.1f}; "
        "floor: TF-IDF over the strings that two languages share",
        style="dim",
    )


def path_table(report: dict[str, Any]) -> None:
    """The ridge path of a training report."""
    table = _table("Ridge path", "ridge", "P@1 CSLS", "MRR", "energy", "steps", "seconds", "")
    for point in report["ridge_path"]:
        chosen = point["ridge"] == report["ridge"]
        table.add_row(
            f"{point['ridge']:g}",
            f"{100 * point['precision']:.1f}",
            f"{100 * point['reciprocal_rank']:.1f}",
            f"{point['energy']:.1f}",
            str(point["steps"]),
            f"{point['seconds']:.1f}",
            "chosen" if chosen else "",
            style="bold" if chosen else "",
        )
    out.print(table)


def inspection_tables(found: Inspection) -> None:
    """A corpus in figures."""
    columns = ("lang", "docs", "concepts", "words", "repeated", "short", "long", "alone", "trained")
    table = _table("Documents and words", *columns, left=columns[:1])
    for lang, facts in found.languages.items():
        figures = (
            facts.documents, facts.concepts, facts.unique_words, facts.duplicates,
            facts.too_short, facts.too_long, facts.alone, facts.trained,
        )  # fmt: skip
        table.add_row(lang, *(f"{figure:,}" for figure in figures))
    out.print(table)
    names = list(found.languages)
    shared = _table("Concepts that two languages share", "", *names, left=("",))
    for a in names:
        shared.add_row(a, *("" if a == b else f"{found.shared[a][b]:,}" for b in names))
    out.print(shared)
    out.print(f"{found.concepts:,} concepts, {found.concepts_shared:,} of them in two languages or more")
    out.print(
        "words: different ones; repeated: texts that were there before; short, long, alone: documents that training "
        "would leave out for too few or too many different words, or because no other language has their concept",
        style="dim",
    )
    for lang, facts in found.languages.items():
        if facts.several:
            out.print(
                f"{lang}: {facts.several:,} concepts have several documents; their rows are summed into the concept"
            )


def source_summary(
    summary: SourceSummary,
    output: str,
    seconds: float,
    *,
    drop_foreign: bool,
    dedupe: bool,
    min_unique: int,
    longer: str,
) -> None:
    """What a source became; on standard error where the corpus itself goes to standard output.

    ``longer`` says what to do about short documents.
    """
    to = err if output == "-" else out
    figures = summary.by_language()
    columns = {
        "docs": {lang: f"{facts.documents:,}" for lang, facts in figures.items()},
        "guessed": {lang: f"{facts.guessed:,}" for lang, facts in figures.items() if facts.guessed},
        "sure": {lang: f"{facts.confidence:.0%}" for lang, facts in figures.items() if facts.confidence is not None},
        "foreign": {lang: f"{sum(facts.foreign.values()):,}" for lang, facts in figures.items() if facts.foreign},
        "similar": {lang: f"{facts.duplicates:,}" for lang, facts in figures.items() if facts.duplicates},
        "short": {lang: f"{facts.short:.0%}" for lang, facts in figures.items() if (facts.short or 0) >= 0.005},
    }
    shown = {name: cells for name, cells in columns.items() if cells}
    table = _table("", "lang", *shown, left=("lang",))
    for lang in figures:
        table.add_row(lang, *(cells.get(lang, "") for cells in shown.values()))
    to.print("Corpus" if output == "-" else f"Corpus {output}", style="bold", soft_wrap=True)
    to.print(table)
    to.print(
        f"{summary.documents.total():,} documents" + ("" if output == "-" else f" written to {output}")
        + f" in {seconds:.1f} s; {summary.concepts:,} concepts, {summary.shared:,} in two languages or more"
    )  # fmt: skip
    for line in _remarks(summary, drop_foreign, dedupe):
        to.print(line, style="dim")
    if "short" in shown:
        to.print(
            f"short: fewer different words than the {min_unique} that training asks for, by a sample; {longer}",
            style="dim",
        )
    if not summary.shared:
        warn("no concept is in two languages, so nothing can be learned from it alone; check --langs and the names")
    elif output != "-":
        to.print(f"\nNext: cr5 corpus inspect {output}; cr5 train {output} -o model", style="bold", soft_wrap=True)


def _remarks(summary: SourceSummary, drop_foreign: bool, dedupe: bool) -> Iterator[str]:
    """What the columns mean, and what can be done about them."""
    if summary.renamed:
        first = [f"{code} is {lang}" for code, lang in sorted(summary.renamed.items())]
        yield f"codes: {', '.join(first[:5])}" + (f" and {len(first) - 5:,} more" if len(first) > 5 else "")
    if summary.guessed:
        yield "guessed: the source names no language; sure: how sure the guesses are, on average"
    if summary.foreign:
        (lang, other), count = summary.foreign.most_common(1)[0]
        yield (
            f"foreign: evidently in another language ({lang}: {count:,} in {other}, such as "
            f"{summary.examples[lang, other]}); {'left out' if drop_foreign else 'leave them out with --drop-foreign'}"
        )
    if summary.duplicates:
        done = "left out" if dedupe else "leave them out with --dedupe"
        yield f"similar: nearly repeat a text of another concept; {done}"


def wikipedia_report(built: Built, seconds: float) -> None:
    """What became of every Wikipedia."""
    columns = ("lang", "dump", "pages", "articles", "foreign", "similar", "alone", "docs")
    table = _table(f"Corpus {built.output}", *columns, left=columns[:2])
    for lang, language in built.languages.items():
        published = language.published
        figures = (
            language.done.tally[PAGES], published.articles, sum(published.foreign.values()), published.duplicates,
            published.alone, language.documents,
        )  # fmt: skip
        table.add_row(lang, language.dump.date, *("" if figure is None else f"{figure:,}" for figure in figures))
    out.print(table)
    total = sum(language.documents for language in built.languages.values())
    out.print(f"{total:,} documents, {built.shared:,} concepts in two languages or more, {seconds:,.1f} s")
    out.print(
        "articles: pages that are no redirect or disambiguation and have an item of Wikidata; foreign: evidently in "
        "another language; similar: nearly repeat another; alone: of a concept that no other language has",
        style="dim",
    )
    for lang, language in built.languages.items():
        for reason, count in language.done.faults.counts.items():
            warn(f"{lang}: skipped {count:,}: {reason} (first: {language.done.faults.examples[reason]})")
    for note in built.notes:
        err.print(f"note: {note}", style="dim", soft_wrap=True)
    out.print(
        f"\nNext: cr5 corpus inspect {built.output}; cr5 train {built.output} -o model", style="bold", soft_wrap=True
    )


def training_report(model: Cr5, path: Path, seconds: float | None) -> None:
    """What a model was made from and how its fit ended."""
    report, chosen = model.report, model.settings
    table = _table(f"Model {path}", "lang", "documents", "words", "nonzeros", left=("lang",))
    for lang, facts in report["languages"].items():
        if lang in model.langs:
            table.add_row(lang, f"{facts['documents']:,}", f"{facts['words']:,}", f"{facts['nonzeros']:,}")
    out.print(table)
    if report["ridge_path"]:
        path_table(report)
    state = "converged" if report["converged"] else "not converged"
    out.print(
        f"preset {chosen.preset}, rank {chosen.rank}, ridge {report['ridge']:g}, {report['concepts']:,} concepts; "
        f"energy {report['energy']:.2f}, residual {report['residual']:.3g} after {report['steps']} steps ({state}), "
        f"{report['seconds']:.1f} s"
    )
    if seconds is not None:
        out.print(f"written to {path} in {seconds:.1f} s; try: cr5 similar {path} WORD --lang {model.langs[0]}")


def explanation(found: Explanation, lang_a: str, lang_b: str) -> None:
    """Words and pairs of words, strongest first."""
    out.print(f"cosine {found.similarity:.3f}")
    table = _table("", lang_a, "adds", lang_b, "adds", "pair", "adds", left=(lang_a, lang_b, "pair"))
    size = max(len(found.words_a), len(found.words_b), len(found.pairs))
    for i in range(size):
        cells: list[str] = []
        for words in (found.words_a, found.words_b):
            cells += [words[i].word, f"{words[i].value:+.3f}"] if i < len(words) else ["", ""]
        pair = found.pairs[i] if i < len(found.pairs) else None
        cells += [f"{pair.word_a} ~ {pair.word_b}", f"{pair.value:+.3f}"] if pair else ["", ""]
        table.add_row(*cells)
    out.print(table)
    out.print(f"all else: {found.rest_a:+.3f} in {lang_a}, {found.rest_b:+.3f} in {lang_b}", style="dim")


def demo_report(
    documents: list[Document],
    found: list[Run],
    model: Cr5,
    mean: dict[str, float],
    searches: list[tuple[str, str, list[Hit]]],
    seconds: float,
) -> None:
    """The demo on one screen or two."""
    concepts = len({document.concept for document in documents})
    out.print(f"{len(documents):,} articles on {concepts} concepts in {', '.join(model.langs)}; none is a translation.")
    out.print(f"Trained on {concepts - HELD_OUT} concepts, tested on the other {HELD_OUT}.\n")
    path_table(found[0].trained[0].report)
    out.print()
    demo_table(found[0])
    out.print(
        f"\nMean P@1 of {len(found)} such splits: "
        f"[bold]{mean['p1_cosine']:.1f}[/] cosine, [bold]{mean['p1_csls']:.1f}[/] CSLS "
        f"(floor {mean['p1_floor']:.1f}, chance {mean['chance']:.1f})\n"
    )
    columns = ("query", "in", "article", "cosine")
    table = _table("Searches: the best article of each other language", *columns, left=columns[:3])
    for lang, text, hits in searches:
        for i, hit in enumerate(hits):
            table.add_row(f"{text} ({lang})" if i == 0 else "", hit.lang, hit.title, f"{hit.score:.2f}")
        table.add_section()
    out.print(table)
    out.print(f"\nDone in {seconds:.0f} s. Next:")
    for command, purpose in (
        ("cr5 train builtin -o model --rank 200 --set min_documents=2", "the same model, kept"),
        ("cr5 similar model birra --lang it", "a word's neighbours in other languages"),
        ("cr5 corpus inspect YOUR.jsonl", "look at your own documents"),
        ("cr5 train YOUR.jsonl -o mine", "and learn from them"),
    ):
        out.print(f"  {command}", style="bold", end="")
        out.print(f"   # {purpose}", style="dim")


def similar_words(word: str, lang: str, target: str, words: list[tuple[str, float]]) -> None:
    """A word's neighbours in another language."""
    table = _table(f"{word} ({lang}) in {target}", "word", "cosine", left=("word",))
    for name, cosine in words:
        table.add_row(name, f"{cosine:.3f}")
    out.print(table)
