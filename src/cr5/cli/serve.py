"""The command that serves an index."""

import re
from pathlib import Path
from typing import Annotated

import typer

from cr5.cli.render import console
from cr5.errors import Cr5Error
from cr5.index import Index


def serve(
    index: Annotated[Path, typer.Argument(help="A folder that cr5 index wrote.", metavar="INDEX")],
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 for all of this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 for any that is free.")] = 8000,
    api_key: Annotated[
        str | None,
        typer.Option(envvar="CR5_API_KEY", help="Key that clients must send.", metavar="KEY", show_envvar=True),
    ] = None,
    rate: Annotated[
        str | None, typer.Option(help="Requests a minute from one address, at most.", metavar="N/min")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes that answer.")] = 1,
    read_only: Annotated[bool, typer.Option("--read-only", help="Let nobody add or delete documents.")] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Name under which clients may call, beside localhost; may be repeated.", metavar="NAME"),
    ] = None,
    store: Annotated[
        str | None, typer.Option(help="Address of the index's PostgreSQL server, with the password.", metavar="URL")
    ] = None,
) -> None:
    """Serve an index over HTTP: a page to search with, and an interface for programs, described at /docs.

    Ctrl-C ends it. Examples:

        cr5 serve index

        CR5_API_KEY=secret cr5 serve index --host 0.0.0.0 --port 80 --rate 120/min --workers 4 --read-only
    """
    try:
        from cr5.server import process
        from cr5.server.limits import ServerSettings
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("cr5"):
            raise
        raise Cr5Error(f"the server needs {error.name}; install it with pip install 'cr5[serve]'") from None
    if api_key is not None and not api_key.strip():
        raise Cr5Error("the API key is empty; give one that nobody guesses, or leave out --api-key")
    local = process.is_loopback(host)
    hosts = tuple(name.lower() for name in ((*process.LOOPBACK, host) if local else ())) + tuple(allow_host or ())
    settings = ServerSettings(
        api_key=api_key, rate=None if rate is None else rate_of(rate), read_only=read_only, hosts=hosts, store=store
    )
    opened = Index.open(index, store=store)  # what is wrong with it is said before anything listens
    counts = opened.about()["documents"]
    opened.close()
    with process.listen(host, port) as listening:
        if not local and api_key is None:
            console.warn(
                f"{host} can be reached from other machines, and there is no API key: whoever reaches it may "
                f"{'read' if read_only else 'read and change'} the index; give --api-key, or leave out --host"
            )
        total, langs = sum(counts.values()), ", ".join(counts) or "no language yet"
        console.err.print(f"serving {total:,} documents ({langs}) at {process.address(listening)} (Ctrl-C ends it)")
        process.serve(listening, index, settings, workers)
    console.err.print("stopped")


def rate_of(text: str) -> int:
    """120 or 120/min -> 120."""
    found = re.fullmatch(r"([1-9][0-9]{0,8})(?:/min)?", text.strip())
    if not found:
        raise typer.BadParameter(f"{text!r} is not of the form N/min, e.g. 120/min", param_hint="--rate")
    return int(found[1])
