"""Models on the hub: what is downloaded, what a broken download leaves, what is pushed, and what errors say."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from fake_hub import TOKEN, FakeHub, Repo
from hub_fixtures import NAME, files_of
from local_server import Fault
from madeup import text

from cr5 import Cr5, Cr5Error
from cr5.cli import run
from cr5.errors import MissingPackageError
from cr5.exchange.hub import fetch, push
from cr5.storage.model_files import language_files

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # in the hub's library


def tensors(folder: Path, lang: str) -> tuple[str, bytes]:
    """The large file of a language."""
    (file,) = (file for file in language_files(folder, [lang]) if re.match(rf"{lang}-.*safetensors", file.name))
    return file.name, (folder / file.name).read_bytes()


def sample(lang: str) -> list[str]:
    """Two texts."""
    return [text(lang, range(i, i + 20)) for i in (0, 20)]


def message(repo: str = NAME, **options: object) -> str:
    """What an error of a download says, which is one sentence without a token."""
    with pytest.raises(Cr5Error) as caught:
        Cr5.from_pretrained(repo, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    assert TOKEN not in str(caught.value)
    return str(caught.value)


def test_a_model_of_the_hub_encodes_as_the_one_that_was_pushed(hub: FakeHub, model: Cr5) -> None:
    fetched = Cr5.from_pretrained(NAME)
    assert fetched.langs == model.langs
    for lang in model.langs:
        np.testing.assert_array_equal(fetched.encode(sample(lang), lang), model.encode(sample(lang), lang))


def test_only_the_files_of_the_chosen_languages_are_downloaded(hub: FakeHub, model: Cr5, model_folder: Path) -> None:
    first, second = model.langs[:2]
    assert Cr5.from_pretrained(NAME, first.upper()).langs == [first]
    fetched = {file.name for file in language_files(model_folder, [first])}
    asked = {Path(request.path).name for request in hub.requests_for("/resolve/", "GET")}
    assert asked == {"model.json", *fetched}
    Cr5.from_pretrained(NAME, [first, second])
    again = [Path(request.path).name for request in hub.requests_for("/resolve/", "GET")]
    assert len(again) == len(set(again))  # nothing twice


def test_a_connection_that_ends_early_is_continued_at_the_last_byte(hub: FakeHub, model_folder: Path) -> None:
    lang = Cr5.load(model_folder).langs[0]
    _, content = tensors(model_folder, lang)
    digest = hashlib.sha256(content).hexdigest()
    hub.fail(digest, Fault(drop=1000))
    Cr5.from_pretrained(NAME, lang)
    assert [request.headers.get("range") for request in hub.requests_for(digest)] == [None, "bytes=1000-"]


def test_a_download_that_failed_is_continued_by_the_next_call(hub: FakeHub, model_folder: Path) -> None:
    lang = Cr5.load(model_folder).langs[0]
    _, content = tensors(model_folder, lang)
    digest = hashlib.sha256(content).hexdigest()
    hub.fail(digest, Fault(drop=2000), *[Fault(drop=0)] * 10)
    assert "run it again to continue" in message(langs=lang)
    hub.faults.clear()
    hub.requests.clear()
    Cr5.from_pretrained(NAME, lang)
    assert [request.headers.get("range") for request in hub.requests_for(digest)] == ["bytes=2000-"]


def test_a_server_without_ranges_sends_the_file_again(hub: FakeHub, model_folder: Path, model: Cr5) -> None:
    lang = model.langs[0]
    digest = hashlib.sha256(tensors(model_folder, lang)[1]).hexdigest()
    hub.fail(digest, Fault(drop=2000), Fault(ranges=False))
    fetched = Cr5.from_pretrained(NAME, lang)
    np.testing.assert_array_equal(fetched.encode(sample(lang), lang), model.encode(sample(lang), lang))


@pytest.mark.parametrize("kind", ["altered", "shorter", "longer"])
def test_an_altered_file_is_an_error_and_does_not_stay(
    kind: str, hub: FakeHub, model_folder: Path, tmp_path: Path, model: Cr5
) -> None:
    lang = model.langs[0]
    name, content = tensors(model_folder, lang)
    altered = {"altered": content[:-1] + b"?", "shorter": content[:-1], "longer": content + b"?"}[kind]
    hub.fail(hashlib.sha256(content).hexdigest(), Fault(body=altered))
    assert name in message(langs=lang)
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.read_bytes() == altered]
    assert not list((tmp_path / "cache").rglob(name))
    assert Cr5.from_pretrained(NAME, lang).langs == [lang]  # the next download is whole


def test_a_file_that_was_cut_off_in_the_cache_is_downloaded_again(hub: FakeHub, model: Cr5, model_folder: Path) -> None:
    lang = model.langs[0]
    name, content = tensors(model_folder, lang)
    cached = fetch(NAME, [lang]) / name
    cached.resolve().write_bytes(content[:100])
    Cr5.from_pretrained(NAME, lang).encode(sample(lang), lang)
    assert cached.read_bytes() == content


def test_a_damaged_manifest_is_an_error_and_does_not_stay(hub: FakeHub, model_folder: Path, tmp_path: Path) -> None:
    good = files_of(model_folder)
    hub.repos[NAME].commit("main", good | {"model.json": good["model.json"].replace(b'"rank"', b'"rang"', 1)})
    assert "model.json" in message()
    assert not list((tmp_path / "cache").rglob("model.json"))


def test_a_new_revision_downloads_only_what_changed(hub: FakeHub, model: Cr5, model_folder: Path) -> None:
    first = Cr5.from_pretrained(NAME)
    hub.repos[NAME].commit("main", files_of(model_folder) | {"README.md": b"new"})
    hub.requests.clear()
    assert Cr5.from_pretrained(NAME).langs == first.langs
    assert hub.requests_for("/", "GET") == []  # what has the ETag of a file in the cache is not sent again


def test_a_revision_may_be_a_branch_or_a_commit(hub: FakeHub, model_folder: Path, model: Cr5) -> None:
    old = hub.repos[NAME].branches["main"]
    hub.repos[NAME].commit("other", files_of(model_folder))
    hub.repos[NAME].commit("main", {"README.md": b"empty"})
    assert Cr5.from_pretrained(NAME, revision=old).langs == model.langs
    assert Cr5.from_pretrained(NAME, revision="other").langs == model.langs
    assert "no model.json" in message()
    assert "revision='none'" in message(revision="none")


def test_what_is_in_the_cache_is_used_without_the_hub(
    hub: FakeHub, model: Cr5, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    first, second = model.langs[:2]
    Cr5.from_pretrained(NAME, first)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub.requests.clear()
    assert Cr5.from_pretrained(NAME, first).langs == [first]
    assert "HF_HUB_OFFLINE" in message(langs=second)
    assert "HF_HUB_OFFLINE" in message("owner/other")
    assert hub.requests == []


def test_an_unknown_or_private_model_is_named_with_the_way_out(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repos["owner/private"] = Repo(private=True)
    for repo in ("owner/none", "owner/private"):
        assert re.search(f"{repo}.* private.*HF_TOKEN", message(repo))
    assert "owner/name" in message("no-owner")
    assert "owner/name" in message("../../etc")
    monkeypatch.setenv("HF_TOKEN", "hf_" + "y" * 34)
    assert "401" in message()
    assert "y" * 34 not in message()
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert re.search("owner/none", message("owner/none"))
    assert "'xx'; it has aa, bb, cc" in message(langs="xx")


def test_a_token_is_sent_to_the_hub_and_not_to_where_it_stores_files(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repos[NAME].private = True
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    Cr5.from_pretrained(NAME)
    assert {request.headers.get("authorization") for request in hub.requests_for("/resolve/")} == {f"Bearer {TOKEN}"}
    assert hub.requests_for("/lfs/")
    assert {request.headers.get("authorization") for request in hub.requests_for("/lfs/")} == {None}


def test_a_pushed_model_has_its_files_and_a_card(
    hub: FakeHub, model: Cr5, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    url = model.push_to_hub("me/new", private=True, licence="cc-by-sa-4.0")
    repo = hub.repos["me/new"]
    assert url == f"{hub.url}/me/new/commit/{repo.branches['main']}"
    assert repo.private
    card = repo.files["README.md"].decode()
    assert set(repo.files) == {*files_of(model_folder), "README.md"}
    metadata = yaml.safe_load(card.split("---")[1])
    assert metadata["language"] == model.langs
    assert metadata["license"] == "cc-by-sa-4.0"
    assert metadata["library_name"] == "cr5"
    fetched = Cr5.from_pretrained("me/new")
    lang = model.langs[0]
    np.testing.assert_array_equal(fetched.encode(sample(lang), lang), model.encode(sample(lang), lang))


def test_a_push_replaces_the_files_of_the_earlier_model_and_no_others(
    hub: FakeHub, model: Cr5, documents: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    model.push_to_hub("me/new")
    repo = hub.repos["me/new"]
    repo.commit("main", repo.files | {"notes.txt": b"mine"})
    other = Cr5(**model.get_params() | {"rank": 5, "ridge": 1.0}).fit(documents)
    other.push_to_hub("me/new")
    assert repo.files["notes.txt"] == b"mine"
    assert len([name for name in repo.files if re.match(r"..-.*safetensors", name)]) == len(other.langs)
    assert Cr5.from_pretrained("me/new").rank == 5


def test_a_push_that_failed_is_continued_and_leaves_no_half_model(
    hub: FakeHub, model: Cr5, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.repos[NAME].commit("main", {})
    name, content = tensors(model_folder, model.langs[-1])
    digest = hashlib.sha256(content).hexdigest()
    hub.fail(digest, Fault(status=400))
    with pytest.raises(Cr5Error, match="run it again") as caught:
        push(model_folder, NAME)
    assert TOKEN not in str(caught.value)
    assert hub.repos[NAME].files == {}
    hub.requests.clear()
    push(model_folder, NAME)
    assert [request.path for request in hub.requests_for("/lfs/", "PUT")] == [f"/lfs/{digest}"]
    assert name in hub.repos[NAME].files


def test_a_push_without_a_valid_token_says_so(
    hub: FakeHub, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Cr5Error, match=r"me/new needs a token.*HF_TOKEN"):
        push(model_folder, "me/new")
    assert hub.requests == []
    monkeypatch.setenv("HF_TOKEN", "hf_" + "y" * 34)
    with pytest.raises(Cr5Error, match=r"401.*HF_TOKEN") as caught:
        push(model_folder, "me/new")
    assert "yyy" not in str(caught.value)
    assert hub.repos.keys() == {NAME}


def test_a_damaged_model_and_a_wrong_licence_are_not_pushed(
    hub: FakeHub, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with pytest.raises(Cr5Error, match="licence='My own'"):
        push(model_folder, "me/new", licence="My own")
    copy = tmp_path / "copy"
    copy.mkdir()
    for name, content in files_of(model_folder).items():
        (copy / name).write_bytes(content)
    name, content = tensors(model_folder, Cr5.load(model_folder).langs[0])
    (copy / name).write_bytes(content[:-1] + b"?")
    with pytest.raises(Cr5Error, match=name):
        push(copy, "me/new")
    assert hub.repos.keys() == {NAME}


def test_the_card_of_the_folder_is_pushed_as_it_is(
    hub: FakeHub, model: Cr5, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    model.save(tmp_path / "model")
    (tmp_path / "model" / "README.md").write_text("---\nlicense: mit\n---\nMy card")
    push(tmp_path / "model", "me/new", revision="draft")
    repo = hub.repos["me/new"]
    assert repo.commits[repo.branches["draft"]]["README.md"] == b"---\nlicense: mit\n---\nMy card"
    assert repo.files == {}
    with pytest.raises(Cr5Error, match=r"README.md.*`licence`"):
        push(tmp_path / "model", "me/new", licence="mit")


def test_commands_push_and_pull_a_model(
    hub: FakeHub,
    model: Cr5,
    model_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert run(["push", str(model_folder), "me/new", "--licence", "mit", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["url"].startswith(hub.url)
    lang = model.langs[1]
    assert run(["pull", "me/new", "-o", str(tmp_path / "pulled"), "--langs", lang]) == 0
    printed = capsys.readouterr()
    assert TOKEN not in printed.out + printed.err
    pulled = Cr5.load(tmp_path / "pulled")
    assert pulled.langs == [lang]
    np.testing.assert_array_equal(pulled.encode(sample(lang), lang), model.encode(sample(lang), lang))
    assert "library_name" in (tmp_path / "pulled" / "README.md").read_text()
    assert run(["pull", "me/none", "-o", str(tmp_path / "none")]) == 1
    error = capsys.readouterr().err
    assert error == (
        f"error: {hub.url} has no model me/none, or it is private; check the name, or log in with hf auth login, or "
        "set HF_TOKEN\n"
    )
    assert not (tmp_path / "none").exists()


def test_a_model_pulled_with_some_languages_has_no_facts_of_others(
    hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["pull", NAME, "-o", str(tmp_path / "one"), "--langs", "aa"]) == 0
    assert list(Cr5.load(tmp_path / "one").report["languages"]) == ["aa"]
    capsys.readouterr()
    assert run(["info", str(tmp_path / "one")]) == 0
    shown = capsys.readouterr().out
    assert "trained together with bb, cc, which this model does not have" in shown
    assert not any(line.startswith(" bb") for line in shown.splitlines())
    assert run(["pull", NAME, "-o", str(tmp_path / "two"), "--langs", ""]) == 2
    assert "no language is named" in capsys.readouterr().err
    with pytest.raises(Cr5Error, match="`langs` is empty"):
        Cr5.from_pretrained(NAME, [])


def test_an_endpoint_that_is_no_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "localhost:8000")
    with pytest.raises(Cr5Error, match=r"^HF_ENDPOINT='localhost:8000' is not an address; .*https://"):
        Cr5.from_pretrained(NAME)


def test_without_the_library_an_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingPackageError, match=r"cr5\[hub\]"):
        Cr5.from_pretrained(NAME)


@pytest.mark.slow
def test_the_environment_decides_as_for_the_hub_library(hub: FakeHub, model: Cr5, tmp_path: Path) -> None:
    hub.repos[NAME].private = True
    code = f"from cr5 import Cr5; print(Cr5.from_pretrained('{NAME}').langs)"
    environment = os.environ | {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": TOKEN}
    online = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert online.stdout.strip() == str(model.langs), online.stderr
    hub.requests.clear()
    environment |= {"HF_HUB_OFFLINE": "1"}
    offline = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert offline.stdout == online.stdout
    assert hub.requests == []
    assert TOKEN not in online.stderr + offline.stderr


@pytest.mark.slow
def test_a_process_killed_in_a_download_is_continued_by_the_next_one(
    hub: FakeHub, model: Cr5, model_folder: Path, tmp_path: Path
) -> None:
    lang = model.langs[0]
    name, content = tensors(model_folder, lang)
    code = f"""
import os, signal
from huggingface_hub import constants
from cr5 import Cr5

constants.DOWNLOAD_CHUNK_SIZE = 100

def kill(step):
    if step.note == {name!r} and step.done % 1 > 0.3:
        os.kill(os.getpid(), signal.SIGKILL)

Cr5.from_pretrained({NAME!r}, {lang!r}, progress=kill)
"""
    environment = os.environ | {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(tmp_path / "cache")}
    killed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    hub.requests.clear()
    fetched = Cr5.from_pretrained(NAME, lang)
    [request] = hub.requests_for(hashlib.sha256(content).hexdigest())
    assert int(request.headers["range"].removeprefix("bytes=").removesuffix("-")) > 0.3 * len(content)
    np.testing.assert_array_equal(fetched.encode(sample(lang), lang), model.encode(sample(lang), lang))
