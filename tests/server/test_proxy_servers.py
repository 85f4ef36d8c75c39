"""nginx, Caddy and systemd take the examples of docs/how-to/serve.md as they are, apart from ports, paths and TLS."""

import json
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest
import running
from documentation import ROOT
from raw_server import until

from cr5.index import Index
from cr5.server.process import listen

pytestmark = [pytest.mark.services, pytest.mark.slow]

NGINX = """
daemon off;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{example}
}}
"""
CADDY = "{{\n    admin off\n    auto_https off\n    default_bind 127.0.0.1\n}}\n{example}\n"


def example(first_line: str) -> str:
    """The example of the page that begins with a line, without its indentation."""
    page = (ROOT / "docs/how-to/serve.md").read_text(encoding="utf-8")
    begin = page.index(f"\n    {first_line}\n") + 1
    lines = []
    for line in page[begin:].splitlines():
        if line and not line.startswith("    "):
            break
        lines.append(line)
    return textwrap.dedent("\n".join(lines))


def changed(text: str, changes: dict[str, str]) -> str:
    """A text with some parts replaced, each of which must be there."""
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return text


def free_port() -> int:
    with listen("127.0.0.1", 0) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def proxy(name: str, folder: Path, backend: str) -> Iterator[int]:
    """The port of a proxy in front of a server."""
    program, port = shutil.which(name), free_port()
    if program is None:
        pytest.skip(f"{name} is not installed")
    if name == "nginx":
        server = changed(example("upstream cr5 {"), {"127.0.0.1:8000": backend, "443 ssl": f"127.0.0.1:{port}"})
        content = NGINX.format(folder=folder, example=re.sub(r" *ssl_certificate.*;\n", "", server))
        command = [program, "-p", str(folder), "-c", str(folder / "configuration")]
    else:
        changes = {"127.0.0.1:8000": backend, "search.example.org {": f"http://search.example.org:{port} {{"}
        content = CADDY.format(example=changed(example("search.example.org {"), changes))
        command = [program, "run", "--adapter", "caddyfile", "--config", str(folder / "configuration")]
    (folder / "configuration").write_text(content)
    environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
    log = folder / "proxy.log"
    with log.open("wb") as written:
        process = subprocess.Popen(command, env=environment, stderr=written)
    try:
        until(lambda: process.poll() is not None or answers(port))
        assert process.poll() is None, log.read_text()
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def answers(port: int) -> bool:
    """Whether the server behind a proxy is ready; a port without a proxy does not answer either."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/ready", headers={"Host": "search.example.org"})
        return connection.getresponse().status == 200
    except ConnectionError:
        return False
    finally:
        connection.close()


def send(port: int, client: str, method: str = "GET", body: bytes | None = None, *, lying: bool = False) -> int:
    """The status of a request for /info from an address of this machine, which may claim to be another."""
    lies = {"X-Forwarded-For": "9.9.9.9", "Forwarded": "for=9.9.9.9"} if lying else {}
    connection = HTTPConnection("127.0.0.1", port, timeout=60, source_address=(client, 0))
    try:
        connection.request(method, "/info", body, {"Host": "search.example.org"} | lies)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.skipif(sys.platform != "linux", reason="other addresses of the loopback interface have to be configured")
@pytest.mark.parametrize("name", ["nginx", "caddy"])
def test_clients_behind_the_documented_proxy_have_a_rate_limit_each_and_cannot_choose_their_address(
    name: str, model_folder: Path, tmp_path: Path
) -> None:
    Index.create(tmp_path / "index", model_folder).close()
    log = tmp_path / "log"
    options = ("--allow-host", "search.example.org", "--rate", "3/min", "--trust-proxy", "127.0.0.1")
    more = ("--log-format", "json", "--log-file", log)
    with (
        running.server(tmp_path / "index", *options, *more) as (_, address),
        proxy(name, tmp_path, address.removeprefix("http://")) as port,
    ):
        assert [send(port, "127.0.0.2") for _ in range(3)] == [200] * 3
        assert send(port, "127.0.0.2", lying=True) == 429
        assert [send(port, "127.0.0.3", lying=True) for _ in range(4)] == [200] * 3 + [429]
        if name == "nginx":  # Caddy may answer 502, because the server refuses the request before it has read the body
            assert send(port, "127.0.0.4", "POST", b" " * 2_200_000) == 413
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    requests = [line for line in lines if line.get("path") == "/info" and line["status"] == 200]
    assert [line["client"] for line in requests] == ["127.0.0.2"] * 3 + ["127.0.0.3"] * 3


def test_systemd_accepts_the_documented_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "cr5.service"
    unit.write_text(changed(example("# /etc/systemd/system/cr5.service"), {"/opt/cr5/bin/cr5": sys.executable}))
    done = subprocess.run([program, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "cr5.service" in line]) == (0, [])
