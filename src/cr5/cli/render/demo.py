"""The demo's report on the terminal."""

from cr5.cli.render.console import out, plain_table
from cr5.cli.render.models import path_table
from cr5.demo import BASELINE_NAME, DENSE_NAME, HELD_OUT, MODEL_NAME, Demo
from cr5.evaluate.runs import Run
from cr5.evaluate.statistics import CUTOFFS
from cr5.evaluate.tasks.search.run import SearchRun


def demo_table(run: Run) -> None:
    """Print precision for every direction, next to that of the vectors alone, the shared-token baseline and chance."""
    columns = ("", "CSLS P@1", "P@5", "P@10", "cosine P@1", "dense P@1", "baseline P@1")
    table = plain_table("Held-out retrieval, %", *columns, left=columns[:1])
    parts = [
        run.select(*group)
        for group in (
            (MODEL_NAME, "joint", "csls"),
            (MODEL_NAME, "joint", "cosine"),
            (DENSE_NAME, "joint", "csls"),
            (BASELINE_NAME, "joint", "cosine"),
        )
    ]
    for csls, *others in zip(*parts, strict=True):
        figures = [csls.precision(k) for k in CUTOFFS] + [score.precision() for score in others]
        table.add_row(f"{csls.source} > {csls.target}", *(f"{figure:.1f}" for figure in figures))
    table.add_section()
    mean = {(m.system, m.measure): m.precision for m in run.means()}
    others = [(MODEL_NAME, "cosine"), (DENSE_NAME, "csls"), (BASELINE_NAME, "cosine")]
    means = [mean[MODEL_NAME, "csls"][k] for k in CUTOFFS] + [mean[other][1] for other in others]
    table.add_row("mean", *(f"{figure:.1f}" for figure in means), style="bold")
    out.print(table)
    queries, candidates = len(parts[0][0].ranks), parts[0][0].candidates
    out.print(
        f"{queries} queries among {candidates} candidates; chance {100 / candidates:.1f}; "
        "dense: the vectors alone, CSLS; baseline: TF-IDF over the strings that two languages share",
        style="dim",
    )


def search_line(run: SearchRun) -> None:
    """Print how often a search finds the right article first, compared with BM25."""
    rows = {row.scope: row for row in run.overall()}
    own, across = rows["own language"], rows["across languages"]
    out.print(
        f"\nSearch, {own.queries} hand-written queries: the right article comes first for "
        f"[bold]{own.search.success[1]:.0f} %[/] in their own language (BM25 {own.bm25.success[1]:.0f} %), "
        f"[bold]{across.search.success[1]:.0f} %[/] in another language."
    )


def demo_report(result: Demo) -> None:
    """Print the results of the demo."""
    runs, mean = result.runs, result.mean
    concepts, langs = len({document.concept for document in result.documents}), ", ".join(result.model.langs)
    out.print(f"{len(result.documents):,} articles on {concepts} concepts in {langs}; none is a translation.")
    out.print(f"Trained on {concepts - HELD_OUT} concepts, tested on the other {HELD_OUT}.\n")
    path_table(runs[0].trained[0].report)
    out.print()
    demo_table(runs[0])
    out.print(
        f"\nMean P@1 of {len(runs)} such splits: "
        f"[bold]{mean['p1_cosine']:.1f}[/] cosine, [bold]{mean['p1_csls']:.1f}[/] CSLS "
        f"(vectors alone {mean['p1_dense_cosine']:.1f} and {mean['p1_dense_csls']:.1f}, "
        f"baseline {mean['p1_baseline']:.1f}, chance {mean['chance']:.1f})\n"
    )
    columns = ("query", "in", "article", "cosine")
    table = plain_table("Searches: the best article of each other language", *columns, left=columns[:3])
    for lang, text, hits in result.searches:
        for i, hit in enumerate(hits):
            table.add_row(f"{text} ({lang})" if i == 0 else "", hit.lang, hit.title, f"{hit.score:.2f}")
        table.add_section()
    out.print(table)
    out.print(f"\nDone in {result.seconds:.0f} s. Next:")
    for command, purpose in (
        ("cr5 train builtin -o model --rank 200 --set min_documents=2", "the same model, kept"),
        ("cr5 similar model vino --lang it", "a word's neighbours in other languages"),
        ("cr5 corpus inspect YOUR.jsonl", "look at your own documents"),
        ("cr5 train YOUR.jsonl -o mine", "and learn from them"),
    ):
        out.print(f"  {command}", style="bold", end="")
        out.print(f"   # {purpose}", style="dim")
