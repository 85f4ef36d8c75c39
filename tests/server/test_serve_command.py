"""The command cr5 serve."""

import json
import re
import signal
import warnings
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

import httpx2
import pytest
import running
import typer
from raw_server import until
from serving import error_message

from cr5.cli.render import console
from cr5.cli.running import run_command
from cr5.cli.serve import json_lines, serve
from cr5.errors import Cr5Error, Cr5Warning
from cr5.server import process
from cr5.server.settings import ServerSettings

pytestmark = pytest.mark.usefixtures("restored_loggers")


@pytest.mark.services
def test_the_server_listens_on_loopback_answers_and_stops_gracefully(index_folder: Path) -> None:
    server, line = running.start(index_folder, "--port", 0)
    try:
        assert line.startswith("serving 450 documents (aa, bb, cc) at http://127.0.0.1:")
        [port] = re.findall(r"127\.0\.0\.1:(\d+)/", line)
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
            long = quote("\U0001f600" * 10_000)
            with urlopen(f"http://127.0.0.1:{port}/search?q={long}", timeout=120) as answered:
                assert answered.status == 200
            answer = client.get("/info")
            assert answer.json()["writable"] is True
            assert "server" not in answer.headers
            assert error_message(client.get("/info", headers={"host": "evil.test"}), 421)
            server.send_signal(signal.SIGHUP)
            assert client.get("/health").status_code == 200
        with pytest.raises(Cr5Error) as taken:
            process.listen("127.0.0.1", int(port))
        assert str(taken.value) == (
            f"`port={port}` of 127.0.0.1 is in use; stop the program that uses it, or choose another `port`"
        )
        server.send_signal(signal.SIGTERM)
        assert server.wait(120) == 0
    finally:
        server.kill()
        _, rest = server.communicate()
    refused, hangup, end = rest.splitlines()
    assert "evil.test" in refused
    assert "SIGHUP has no effect on a single worker" in hangup
    assert end == "stopped"


@pytest.mark.services
def test_everything_that_a_server_with_a_json_log_writes_is_json(index_folder: Path, tmp_path: Path) -> None:
    server, line = running.start(index_folder, "--host", "0.0.0.0", "--port", 0, "--log-format", "json")
    try:
        assert server.stderr is not None
        warning, start = json.loads(line), json.loads(server.stderr.readline())
        until(lambda: answers(start["url"].replace("0.0.0.0", "127.0.0.1") + "health"))
        server.send_signal(signal.SIGHUP)
        lines = map(json.loads, iter(server.stderr.readline, ""))
        assert next(line["level"] for line in lines if "SIGHUP" in line["message"]) == "warning"
        server.send_signal(signal.SIGTERM)
        assert server.wait(120) == 0
    finally:
        server.kill()
        _, rest = server.communicate()
    assert (warning["level"], warning["message"][:7]) == ("warning", "0.0.0.0")
    assert (start["level"], start["event"], start["workers"]) == ("info", "start", 1)
    assert start["message"] == f"serving 450 documents (aa, bb, cc) at {start['url']}"
    assert start["documents"] == {"aa": 150, "bb": 150, "cc": 150}
    *_, stop = map(json.loads, rest.splitlines())
    assert (stop["message"], stop["event"]) == ("stopped", "stop")


def answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=120) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--api-key", " "], "--api-key is empty; choose a key that is hard to guess, or leave out --api-key"),
        (["--log-file", "none/server.log"], "--log-file none/server.log cannot be written (no such file or directory)"),
    ],
)
def test_a_server_with_a_json_log_that_cannot_start_says_why_in_json(
    index_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: list[str], message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(index_folder)
    assert run_command(["serve", str(index_folder), "--port", "0", "--log-format", "json", *arguments]) == 1
    [line] = map(json.loads, capsys.readouterr().err.splitlines())
    assert (line["level"], line["message"][: len(message)]) == ("error", message)


def test_a_log_file_that_cannot_be_written_is_reported_before_the_server_is_said_to_serve(
    index_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "none" / "server.log"
    assert run_command(["serve", str(index_folder), "--port", "0", "--log-file", str(file)]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line == f"error: --log-file {file} cannot be written (no such file or directory); choose another file"


@pytest.mark.filterwarnings("always")
def test_warnings_while_a_server_with_a_json_log_starts_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    with json_lines():
        warnings.warn(Cr5Warning("`store` is 100 % odd"), stacklevel=1)
        warnings.warn("another", stacklevel=1)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["level"], line["message"]) for line in lines] == [
        ("warning", "--store is 100 % odd"), ("warning", "another"),
    ]  # fmt: skip


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(Cr5Error) as raised:
        process.listen("192.0.2.1", 0)
    assert (
        str(raised.value)
        == "`host=192.0.2.1` is not an address of this machine; use `host=127.0.0.1` or one that it has"
    )
    assert [process.is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "x.test")] == [
        True, True, True, False, False,
    ]  # fmt: skip


def run(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[ServerSettings]]:
    """What the command prints and would serve with."""
    said: list[str] = []
    served: list[ServerSettings] = []
    monkeypatch.setattr(console.err, "print", lambda text, **_: said.append(str(text)))
    monkeypatch.setattr(process, "serve", lambda listening, folder, settings, workers: served.append(settings))
    app = typer.Typer()
    app.command()(serve)
    app(arguments, standalone_mode=False)
    return said, served


def test_a_server_open_to_other_machines_without_a_key_prints_a_warning(
    index_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, [settings] = run([str(index_folder), "--host", "0.0.0.0", "--port", "0", "--rate", "120/min"], monkeypatch)
    assert said[0] == (
        "warning: 0.0.0.0 can be reached from other machines, and there is no API key, so anyone there can read and "
        "change the index; set --api-key, or leave out --host"
    )
    assert (settings.requests_per_minute, settings.allowed_hosts, settings.read_only) == (120, (), False)
    said, [settings] = run(
        [str(index_folder), "--host", "0.0.0.0", "--port", "0", "--api-key", "k", "--read-only"], monkeypatch
    )
    assert len(said) == 2
    assert (settings.api_key, settings.read_only) == ("k", True)


def test_by_default_only_loopback_host_names_are_allowed(index_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, [settings] = run([str(index_folder), "--port", "0", "--allow-host", "search.test"], monkeypatch)
    assert set(settings.allowed_hosts) == {"localhost", "127.0.0.1", "::1", "search.test"}


def test_host_names_on_all_addresses_are_any_or_those_allowed_and_those_of_this_machine(
    index_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everywhere = [str(index_folder), "--host", "0.0.0.0", "--port", "0"]
    assert run(everywhere, monkeypatch)[1][0].allowed_hosts == ()
    names = ["--allow-host", "Search.Test", "--allow-host", "[fe80::1]", "--allow-host", "bücher.test"]
    _, [settings] = run([*everywhere, *names], monkeypatch)
    loopback = {"localhost", "127.0.0.1", "::1"}
    assert set(settings.allowed_hosts) == loopback | {"0.0.0.0", "search.test", "fe80::1", "xn--bcher-kva.test"}


@pytest.mark.parametrize("name", ["http://x.test/", "x.test:80", "*.x.test", "a b", "", "x..test"])
def test_a_host_name_with_more_than_the_name_is_refused(
    index_folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with pytest.raises(Cr5Error) as raised:
        run([str(index_folder), "--port", "0", "--allow-host", name], monkeypatch)
    assert str(raised.value) == (
        f"`allow_host={name}` is not a host name; write it without scheme, port and path, as search.example.org"
    )


def test_trusted_proxies_and_the_format_of_the_log_are_options(
    index_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, [settings] = run([str(index_folder), "--port", "0"], monkeypatch)
    assert (settings.trusted_proxies, settings.log_format, settings.log_file) == ((), "text", None)
    proxies = ["--trust-proxy", "10.1.2.3/8", "--trust-proxy", "::1"]
    log = ["--log-format", "json", "--log-file", str(tmp_path / "server.log")]
    _, [settings] = run([str(index_folder), "--port", "0", *proxies, *log], monkeypatch)
    assert (settings.trusted_proxies, settings.log_format) == (("10.0.0.0/8", "::1/128"), "json")
    assert settings.log_file == tmp_path / "server.log"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--trust-proxy", "proxy.test"],
            "`trust_proxy=proxy.test` is not a network or an address; write it as 10.0.0.0/8 or as 127.0.0.1",
        ),
        (["--api-key", " "], "`api_key` is empty; choose a key that is hard to guess, or leave out `api_key`"),
        (["--api-key", "a\nb"], "`api_key` has a line end or another control character inside the key; remove it"),
        (
            ["--api-key", "a", "--api-key-file", "b"],
            "both `api_key` and `api_key_file` are given; leave out one of them",
        ),
        (
            ["--api-key-file", "none.txt"],
            "`api_key_file=none.txt` cannot be read (no such file or directory); name another file",
        ),
        (["--rate", "fast"], "Invalid value for --rate: 'fast' is not of the form N/min, e.g. 120/min"),
        (
            ["--host", "no such host"],
            "`host=no such host` is not an address; use `host=127.0.0.1` or one of this machine",
        ),
    ],
)
def test_a_server_that_cannot_start_says_why(
    index_folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    with pytest.raises((Cr5Error, typer.BadParameter)) as raised:
        run([str(index_folder), *arguments], monkeypatch)
    assert getattr(raised.value, "format_message", raised.value.__str__)() == message


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        (
            "CR5_API_KEY",
            "",
            "CR5_API_KEY is set, but empty; give it a value, or unset it for a server without a key",
        ),
        (
            "CR5_API_KEY_FILE",
            "",
            "CR5_API_KEY_FILE is set, but empty; give it a value, or unset it for a server without a key",
        ),
        ("CR5_API_KEY", " \n", "CR5_API_KEY is empty; choose a key that is hard to guess, or leave out CR5_API_KEY"),
    ],
)
def test_a_variable_without_a_key_does_not_start_an_open_server(
    index_folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(Cr5Error) as raised:
        run([str(index_folder), "--port", "0"], monkeypatch)
    assert str(raised.value) == message
    _, [settings] = run([str(index_folder), "--port", "0", "--api-key", "k"], monkeypatch)
    assert settings.api_key == "k"


def test_a_key_is_what_clients_can_send_without_the_line_end_of_its_file(
    index_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "key"
    file.write_bytes("sécret key\r\n".encode())
    for variable, value in [("CR5_API_KEY", "sécret key\n"), ("CR5_API_KEY_FILE", str(file))]:
        with monkeypatch.context() as changed:
            changed.setenv(variable, value)
            _, [settings] = run([str(index_folder), "--port", "0"], changed)
        assert settings.api_key == "sécret key"
    for content, problem in [(b"\n", "is empty"), (b"\xff", "is not UTF-8")]:
        file.write_bytes(content)
        with pytest.raises(Cr5Error, match=problem):
            run([str(index_folder), "--port", "0", "--api-key-file", str(file)], monkeypatch)


def test_a_missing_index_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Cr5Error, match=f"{tmp_path}: .*no index"):
        run([str(tmp_path)], monkeypatch)
