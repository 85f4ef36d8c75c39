"""The container file: what each line has to be, and, where there is an engine, that it builds and answers."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.request import urlopen

import pytest
import running
from documentation import ROOT
from raw_server import until

from cr5.cli.app import load_command

FILE = ROOT / "Containerfile"
FILLING = "from cr5.index import Index; from cr5.server import warm_up; warm_up.fill_cache(Index.open('{index}'))"


def instructions() -> list[tuple[str, str]]:
    """The instructions of the container file with their arguments, continued lines joined."""
    text = FILE.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(name, arguments.strip()) for name, _, arguments in (line.partition(" ") for line in lines)]


def test_each_line_of_the_container_file_is_what_a_server_needs() -> None:
    lines = instructions()
    assert [name for name, _ in lines] == [
        "FROM", "COPY", "RUN",
        "FROM", "COPY", "RUN", "ENV", "RUN", "RUN", "VOLUME", "USER", "WORKDIR", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK",
        "ENTRYPOINT", "CMD",
    ]  # fmt: skip
    of = {name: arguments for name, arguments in lines[3:] if name != "RUN"}  # of the second stage, which is the image
    wheel, install, compiled, user = [arguments for name, arguments in lines if name == "RUN"]
    assert lines[0][1] == f"{of['FROM']} AS build"
    assert of["FROM"].startswith("python:3.")
    assert lines[1][1] == ". /src"
    assert wheel.endswith("--no-deps --wheel-dir /wheels /src")
    assert of["COPY"] == "--from=build /wheels /wheels"
    assert "/wheels/cr5-*.whl)[serve]" in install
    assert of["ENV"] == "NUMBA_CACHE_DIR=/opt/cr5-cache"
    assert "cr5 search" in compiled  # fills the cache
    [filling] = re.findall(r'python -c "([^"]*)"', compiled)
    assert filling.replace("/tmp/i", "{index}") == FILLING
    assert "chmod -R a+rwX /opt/cr5-cache" in compiled
    assert of["VOLUME"] == "/opt/cr5-cache"  # starts with what the image has there, and can be written when that cannot
    assert "--uid 10001" in user
    assert int(of["USER"]) == 10001  # a number, so that an orchestrator can see that it is not root
    assert of["WORKDIR"] == "/data"
    assert of["EXPOSE"] == "8000"
    assert of["STOPSIGNAL"] == "SIGTERM"
    check = json.loads(of["HEALTHCHECK"].partition("CMD ")[2])
    assert "http://127.0.0.1:8000/health" in check[-1]
    compile(check[-1], "healthcheck", "exec")
    assert json.loads(of["ENTRYPOINT"]) == ["cr5"]
    command = json.loads(of["CMD"])
    context = load_command("serve").make_context("serve", command[1:])
    assert command[0] == "serve"
    assert context.params["read_only"] is True
    assert (context.params["host"], context.params["port"], context.params["log_format"]) == ("0.0.0.0", 8000, "json")


def test_an_image_is_built_from_what_the_package_needs_and_nothing_else() -> None:
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    files = {project["project"]["readme"], *project["project"]["license-files"]}
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    needed = {Path(name).parts[0] for name in [*files, *packages]} | {"pyproject.toml"}
    assert patterns[0] == "*"
    assert {pattern[1:] for pattern in patterns if pattern.startswith("!")} == needed
    assert patterns[-1] == "**/__pycache__"


@pytest.mark.slow
def test_a_server_with_the_cache_of_the_container_file_compiles_nothing(index_folder: Path, tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    program = FILLING.format(index=index_folder)
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.nbi")}
    assert any("edit_distances" in file.name for file in before)
    assert any("copy_kept" in file.name for file in before)
    with running.server(index_folder, env=environment) as (_, address):
        until(lambda: answers(f"{address}/ready"))
        assert answers(f"{address}/search?q=abcdefg")
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.nbi")} == before


@pytest.mark.services
@pytest.mark.slow
def test_the_container_answers_as_another_user_on_a_read_only_file_system(index_folder: Path) -> None:
    engine = next((name for name in ("docker", "podman") if works(name)), None)
    if engine is None:
        pytest.skip("no container engine works here")
    subprocess.run([engine, "build", "-t", "cr5-test", "-f", str(FILE), str(ROOT)], check=True, timeout=280)
    options = [
        "--rm",
        "-d",
        "--read-only",
        "--tmpfs",
        "/tmp",
        "-p",
        "127.0.0.1::8000",
        "-v",
        f"{index_folder}:/data/index",
    ]
    started = subprocess.run([engine, "run", *options, "cr5-test"], check=True, capture_output=True, text=True)
    container = started.stdout.strip()
    try:
        port = subprocess.run([engine, "port", container, "8000"], check=True, capture_output=True, text=True).stdout
        address = f"http://{port.splitlines()[0].strip()}"
        until(lambda: answers(f"{address}/ready"))
        assert answers(f"{address}/search?q=a")
    finally:
        subprocess.run([engine, "stop", container], check=True, capture_output=True)


def works(engine: str) -> bool:
    if not shutil.which(engine):
        return False
    return subprocess.run([engine, "info"], capture_output=True, check=False, timeout=60).returncode == 0


def answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
