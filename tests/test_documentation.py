"""What the documentation shows is what happens."""

import doctest
import os
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
from documentation import ROOT, commands, run, same
from fake_hub import TOKEN, FakeHub
from published_files import random_vectors, write_published

from cr5 import Cr5
from cr5.cli import run as run_command
from cr5.storage.locks import locked

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the commands of the tutorial have run, once for all test processes; their output is checked."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    path, finished = base / "tutorial", base / "tutorial.finished"
    with locked(base / "tutorial.lock"):
        if not finished.exists():
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
            for line, output in commands((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")):
                printed = run(line, path)
                assert same(output, printed), f"$ {line}\n{printed}"
            finished.touch()
    return path


def failed_examples(page: str) -> int:
    session = doctest.DocTestParser().get_doctest((ROOT / page).read_text(encoding="utf-8"), {}, page, page, 0)
    assert session.examples
    return doctest.DocTestRunner(verbose=False).run(session).failed


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_python_sessions_print_what_the_page_shows(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert failed_examples(page) == 0


def test_python_sessions_of_a_guide_print_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert failed_examples("docs/how-to/dataframe.md") == 0


def test_commands_and_python_sessions_of_the_guide_to_growing_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = "docs/how-to/grow.md"
    for line, output in commands((ROOT / page).read_text(encoding="utf-8")):
        printed = run(line, tmp_path)
        assert same(output, printed), f"$ {line}\n{printed}"
    monkeypatch.chdir(tmp_path)
    assert failed_examples(page) == 0


@pytest.mark.parametrize("page", ["docs/how-to/frameworks.md", "docs/how-to/search.md"])
def test_python_sessions_of_guides_with_an_index_print_what_they_show(
    page: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("model", "index"):
        shutil.copytree(folder / name, tmp_path / name)
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    monkeypatch.chdir(tmp_path)
    assert failed_examples(page) == 0


@pytest.mark.usefixtures("restored_loggers")
def test_servers_of_the_guide_start_with_its_options(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cr5.server import process

    started: list[Any] = []
    monkeypatch.setattr(process, "serve", lambda *arguments: started.append(arguments))
    monkeypatch.chdir(folder)
    page = (ROOT / "docs/how-to/serve.md").read_text(encoding="utf-8")
    lines = re.findall(r"^ {4}((?:CR5_API_KEY=\w+ )?cr5 serve index.*?)(?: {2,}.*)?$", page, re.M)
    assert len(lines) == 3
    for line in lines:
        variables, _, arguments = line.partition("cr5 ")
        with monkeypatch.context() as patched:
            if variables:
                patched.setenv(*variables.strip().split("=", 1))
            assert run_command([*arguments.split(), "--port", "0"]) == 0
    (_, _, plain, one), (_, _, public, four), (_, _, proxied, _) = started
    assert (plain.api_key, plain.read_only, one) == (None, False, 1)
    assert (public.api_key, public.requests_per_minute, public.read_only, four) == ("secret", 120, True, 4)
    assert ("search.example.org" in proxied.allowed_hosts, proxied.trusted_proxies) == (True, ("127.0.0.1/32",))


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # in the hub's library
def test_models_are_pushed_and_pulled_as_the_guide_does(
    folder: Path, hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs/how-to/share.md").read_text(encoding="utf-8")
    [push] = re.findall(r"^ {4}cr5 (push .*)$", page, re.M)
    [pull] = re.findall(r"^ {4}cr5 (pull .*)$", page, re.M)
    [name] = re.findall(r"from_pretrained\((.*?\])\)", page)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.chdir(folder)
    assert run_command(push.split()) == 0
    monkeypatch.chdir(tmp_path)
    assert run_command(pull.split()) == 0
    assert Cr5.load("model").langs == ["da", "en"]
    assert eval(f"Cr5.from_pretrained({name})", {"Cr5": Cr5}).langs == ["da", "en"]


def test_python_sessions_of_the_guide_to_published_models_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {"it": ["il", "cane", "abbaia", "una", "birra"], "en": ["the", "dog"]}
    write_published(tmp_path / "downloads", "joint_4", {lang: random_vectors(of, 300) for lang, of in words.items()})
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():  # the page changes the filter
        assert failed_examples("docs/how-to/old-models.md") == 0


@pytest.mark.parametrize("page", ["docs/how-to/models.md", "docs/how-to/export.md", "docs/how-to/align.md"])
def test_commands_and_python_sessions_of_guides_print_what_they_show(
    page: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page.endswith("export.md"):
        pytest.importorskip("gensim")
    shutil.copytree(folder / "model", tmp_path / "model")
    for line, output in commands((ROOT / page).read_text(encoding="utf-8")):
        printed = run(line, tmp_path)
        assert same(output, printed), f"$ {line}\n{printed}"
    monkeypatch.chdir(tmp_path)
    assert failed_examples(page) == 0


def test_commands_of_the_tutorial_print_what_the_page_shows(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {"model", "index"}


@pytest.mark.parametrize(
    ("shown", "printed", "agree"),
    [
        ("cosine 0.71 in 2.3 s", "cosine  0.72 in 10 s", True),
        ("cosine 0.71", "cosine 0.81", False),
        ("1,600 articles", "1,600 articles", True),
        ("Hund 0.71", "Cane 0.71", False),
        ("ridge steps seconds\n30 3 1.5 chosen\n10 1 0.5", "ridge steps seconds\n30 3 9.5 chosen\n10 1 4.5", True),
        ("ridge steps seconds\n30 3 1.5", "ridge steps seconds\n30 9 1.5", False),
        ("beer 0.7", "beer 0.7\nwine 0.6", False),
    ],
)
def test_outputs_agree_if_only_times_and_last_digits_differ(shown: str, printed: str, agree: bool) -> None:
    assert same(shown, printed) == agree


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_of_pages_outside_the_site_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)", (ROOT / page).read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
