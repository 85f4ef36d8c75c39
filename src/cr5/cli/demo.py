"""The command ``cr5 demo``."""

import socket
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from cr5 import __version__, demo
from cr5.cli.options import Json
from cr5.cli.render import console
from cr5.cli.render.console import out
from cr5.cli.render.demo import demo_report
from cr5.cli.serve import serve
from cr5.corpus.documents import Document
from cr5.errors import Cr5Error
from cr5.index import Index
from cr5.model import Cr5


def run_demo(
    no_serve: Annotated[bool, typer.Option("--no-serve", help="Stop after the tables; serve no page.")] = False,
    json: Json = False,
    seeds: Annotated[int, typer.Option(min=1, help="Number of random splits to average over.")] = demo.SEEDS,
) -> None:
    """Train on the built-in encyclopedia, evaluate on held-out concepts, and search across languages.

    Takes a few seconds; then serves a search page until Ctrl-C. Example:

        cr5 demo
    """
    start = time.perf_counter()
    documents = demo.encyclopedia()
    with console.progress_bars(json) as progress:
        runs = demo.evaluate_splits(documents, seeds, progress)
        first = runs[0].trained[0].report
        model = Cr5(ridge=first["ridge"], **demo.SETTINGS).fit(documents, progress=progress)
    searches = [(lang, text, demo.search_documents(model, documents, text, lang)) for lang, text in demo.QUERIES]
    mean = demo.mean_precision(runs)
    if json:
        console.as_json(
            {
                "version": __version__,
                "documents": len(documents),
                "held_out": demo.HELD_OUT,
                "seeds": seeds,
                "settings": model.settings.to_json(),
                "ridge": first["ridge"],
                "ridge_path": first["ridge_path"],
                "mean": mean,
                "trials": [
                    {"seed": seed}
                    | demo.precision_at_1(trial)
                    | {"scores": [score.to_json() for score in trial.scores]}
                    for seed, trial in enumerate(runs)
                ],
                "fit": {
                    key: model.report[key]
                    for key in ("energy", "residual", "steps", "products", "seconds", "converged")
                },
                "searches": [
                    {"lang": a, "query": b, "hits": [hit.__dict__ for hit in hits]} for a, b, hits in searches
                ],
                "seconds": time.perf_counter() - start,
            }
        )
        return
    demo_report(documents, runs, model, mean, searches, time.perf_counter() - start)
    if not no_serve:
        _serve_demo(model, documents)


def _serve_demo(model: Cr5, documents: list[Document]) -> None:
    """Serve a search page over the encyclopedia."""
    with tempfile.TemporaryDirectory(prefix="cr5-demo-") as folder:
        root = Path(folder)
        model.save(root / "model")
        try:
            index = Index.create(root / "index", root / "model")
            index.add(documents)
            index.close()
            out.print("\nOpen this in a browser, and type cane or chó:", style="bold")
            serve(root / "index", port=_free_port(8000), read_only=True)
        except Cr5Error as error:
            console.warn(f"the search page cannot be served: {error}")


def _free_port(port: int) -> int:
    """Return the port if it is free, otherwise 0, which lets the system choose one."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port
