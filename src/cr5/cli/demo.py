"""The command ``cr5 demo``."""

import socket
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from cr5 import demo
from cr5.cli.options import Json
from cr5.cli.render import console
from cr5.cli.render.console import out
from cr5.cli.render.demo import demo_report, search_line
from cr5.cli.serve import serve
from cr5.corpus.documents import Document
from cr5.data import BUILTIN
from cr5.errors import Cr5Error
from cr5.evaluate.tasks.search.task import search as evaluate_search
from cr5.index import Index
from cr5.model import Cr5


def run_demo(
    no_serve: Annotated[bool, typer.Option("--no-serve", help="Print the tables only; do not serve a page.")] = False,
    json: Json = False,
    seeds: Annotated[int, typer.Option(min=1, help="Number of random splits to average over.")] = demo.SEEDS,
) -> None:
    """Train on the built-in encyclopedia, evaluate on held-out concepts, and search across languages.

    This takes about a minute. Then a search page is served until you press Ctrl-C. Example:

        cr5 demo
    """
    with console.progress_bars(json) as progress:
        result = demo.run_demo(seeds, progress)
    if json:
        console.as_json(result.to_json())
        return
    demo_report(result)
    if not no_serve:
        _serve_demo(result.model, result.documents)


def _serve_demo(model: Cr5, documents: list[Document]) -> None:
    """Serve a search page over the encyclopedia."""
    with tempfile.TemporaryDirectory(prefix="cr5-demo-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        model.save(root / "model")
        try:
            index = Index.create(root / "index", root / "model")
            index.add(documents)
            with console.progress_bars(False) as progress:
                search_line(evaluate_search(index, query_file=BUILTIN, progress=progress))
            index.close()
            out.print("\nOpen this in a browser, and type cane or chó:", style="bold")
            serve(root / "index", port=_free_port(8000), read_only=True)
        except Cr5Error as error:
            console.warn(f"the search page cannot be served: {error}")


def _free_port(port: int) -> int:
    """Return the port if it is free, otherwise 0, which lets the system choose one."""
    with socket.socket() as probe:
        if sys.platform != "win32":  # where it would let two servers use the same port
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port
