"""An evaluation of search in a terminal."""

from rich.text import Text

from cr5.cli.render.console import out, plain_table
from cr5.evaluate.known_items.runs import ALL, EXPLANATION, HEADER, SearchRun, cells, tables


def search_tables(run: SearchRun) -> None:
    """Print success@1, @3, @10 and MRR by type and by language, of search and of BM25, and the notes."""
    out.print(Text(f"Search in {run.title}, {run.facts['query_set']} queries", "bold"))
    out.print(Text(EXPLANATION, "dim"))
    for title, rows in tables(run):
        table = plain_table("", *HEADER, left=HEADER[:1])
        table.show_edge, table.padding = False, (0, 1, 0, 0)
        for column in table.columns:
            column.no_wrap = True
        for name, row in rows:
            table.add_row(Text(name), *cells(row), style="bold" if name == ALL else "")
        out.print()
        out.print(Text(title, "bold"))
        table.width = out.measure(table, options=out.options.update(max_width=1000)).maximum
        out.print(table, crop=False)
    for note in run.notes:
        out.print(Text(f"note: {note}", "dim"))
