"""``cr5 serve``: serve an index over HTTP."""

import logging
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Literal

import typer

from cr5.cli.messages import in_command_line_terms
from cr5.cli.options import IndexFolder, Store
from cr5.cli.render import console
from cr5.cli.render.search import warn_if_outdated
from cr5.cli.running import error_message
from cr5.errors import Cr5Error, MissingPackageError
from cr5.index import Index
from cr5.message_parts import plural, reason

log, events = logging.getLogger("cr5.server"), logging.getLogger("cr5.server.events")
KEY_VARIABLE, KEY_FILE_VARIABLE = "CR5_API_KEY", "CR5_API_KEY_FILE"


def serve(
    index: IndexFolder,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 for all addresses of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 chooses a free one.")] = 8000,
    api_key: Annotated[
        str | None,
        typer.Option(envvar=KEY_VARIABLE, help="Key that clients must send.", metavar="KEY", show_envvar=True),
    ] = None,
    api_key_file: Annotated[
        Path | None,
        typer.Option(envvar=KEY_FILE_VARIABLE, help="File that contains the key.", metavar="FILE", show_envvar=True),
    ] = None,
    rate: Annotated[str | None, typer.Option(help="Rate limit for one client address.", metavar="N/min")] = None,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Number of server processes.")] = 1,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse to add or delete documents.")] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Name under which clients reach the server, beside those of this machine; may be repeated. With an "
            "address that other machines reach, any name is accepted without this option.",
            metavar="NAME",
        ),
    ] = None,
    trust_proxy: Annotated[
        list[str] | None,
        typer.Option(
            help="Network of proxies whose Forwarded and X-Forwarded-For headers name the client; may be repeated.",
            metavar="CIDR",
        ),
    ] = None,
    log_format: Annotated[
        Literal["text", "json"],
        typer.Option(
            help="Format of the log. text: warnings and errors; json: these, every request, start and end, as JSON."
        ),
    ] = "text",
    log_file: Annotated[
        Path | None,
        typer.Option(
            help="Write the log to this file instead of standard error; at 10 MB it is renamed, and the last 5 stay."
        ),
    ] = None,
    store: Store = None,
) -> None:
    """Serve an index over HTTP: a search page for people, and an API for programs, described at /docs.

    Ctrl-C stops the server. Examples:

        cr5 serve index

        CR5_API_KEY=secret cr5 serve index --host 0.0.0.0 --port 80 --rate 120/min --workers 4 --read-only
    """
    try:
        from cr5.server import logs, process
        from cr5.server.access import parse_host_name, parse_network
        from cr5.server.settings import ServerSettings
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("cr5"):
            raise
        raise MissingPackageError(f"the server needs {error.name}; install it with: pip install 'cr5[serve]'") from None
    with json_lines() if log_format == "json" else nullcontext():
        local = process.is_loopback(host)
        names = [parse_host_name(name) for name in allow_host or ()]
        settings = ServerSettings(
            api_key=read_key(api_key, api_key_file),
            requests_per_minute=None if rate is None else parse_rate(rate),
            read_only=read_only,
            allowed_hosts=(*process.LOOPBACK_HOSTS, host.lower(), *names) if local or names else (),
            store=store,
            trusted_proxies=tuple(str(parse_network(network)) for network in trust_proxy or ()),
            log_format=log_format,
            log_file=log_file,
        )
        opened = Index.open(index, store=store)  # reports a problem with the index before the server listens
        about = opened.about()
        opened.close()
        logs.configure(log_format, log_file)
        shows_text = log_format == "text" or log_file is not None  # standard error is not a log of JSON lines
        warn = console.warn if log_format == "text" else log.warning
        warn_if_outdated(index, about, warn)
        with process.listen(host, port) as listening:
            if not local and settings.api_key is None:
                warn(
                    f"{host} can be reached from other machines, and there is no API key, so anyone there can "
                    f"{'read' if read_only else 'read and change'} the index; set --api-key, or leave out --host"
                )
            url, documents = process.url(listening), about["documents"]
            languages = ", ".join(documents) or "no language yet"
            served = f"serving {plural(about['rows'], 'document')} ({languages}) at {url}"
            if shows_text:
                console.err.print(f"{served} (Ctrl-C stops it)", soft_wrap=True)
            fields = {"event": "start", "url": url, "documents": documents, "workers": workers}
            events.info(served, extra={"fields": fields})
            process.serve(listening, index, settings, workers)
        if shows_text:
            console.err.print("stopped")
        events.info("stopped", extra={"fields": {"event": "stop"}})


@contextmanager
def json_lines() -> Iterator[None]:
    """Within the block, the warnings and the error of the command are written to the log as JSON lines."""
    from cr5.server import logs

    logs.configure("json")
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: log.warning(in_command_line_terms(str(message), ["serve"]))
        try:
            yield
        except (Cr5Error, OSError, MemoryError, ImportError) as error:
            if os.environ.get("CR5_DEBUG"):
                raise
            logs.configure("json")  # on standard error, where the end of a command is looked for
            log.error(error_message(error, ["serve"]))
            raise typer.Exit(1) from None


def read_key(api_key: str | None, file: Path | None) -> str | None:
    """The key of the options and of the variables for them; None if there is none.

    A variable without a value is an error: the key is missing where it should have come from, and without it the
    server would be open to everybody.
    """
    from cr5.server.access import parse_key

    if api_key is not None and file is not None:
        raise Cr5Error("both `api_key` and `api_key_file` are given; leave out one of them")
    if api_key is not None:
        return parse_key(api_key, KEY_VARIABLE if os.environ.get(KEY_VARIABLE) == api_key else "`api_key`")
    if file is not None:
        try:
            return parse_key(file.read_text(encoding="utf-8"), f"`api_key_file={file}`")
        except OSError as error:
            raise Cr5Error(f"`api_key_file={file}` cannot be read ({reason(error)}); name another file") from None
        except UnicodeDecodeError:
            raise Cr5Error(f"`api_key_file={file}` is not UTF-8; write the key as text") from None
    for variable in (KEY_VARIABLE, KEY_FILE_VARIABLE):
        if variable in os.environ:
            raise Cr5Error(f"{variable} is set, but empty; give it a value, or unset it for a server without a key")
    return None


def parse_rate(text: str) -> int:
    """Requests per minute: 120 or 120/min -> 120."""
    match = re.fullmatch(r"([1-9][0-9]{0,8})(?:/min)?", text.strip())
    if not match:
        raise typer.BadParameter(f"{text!r} is not of the form N/min, e.g. 120/min", param_hint="--rate")
    return int(match[1])
