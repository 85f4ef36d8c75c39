"""The warm-up: once /ready says so, typical requests load and compile nothing more."""

import gc
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import madeup
import pytest
from serving import QUERY

from cr5.index import Index
from cr5.server import process
from cr5.server.readiness import Readiness
from cr5.server.settings import ServerSettings
from cr5.server.warm_up import misspelt

pytestmark = pytest.mark.slow

PROGRAM = """
import sys
from numba.core.dispatcher import Dispatcher
from starlette.testclient import TestClient
from cr5.errors import Cr5Warning
from cr5.index import Index
from cr5.server import app
from cr5.server.readiness import Readiness
from cr5.server.settings import ServerSettings
import warnings
warnings.simplefilter("ignore", Cr5Warning)

def compiled():
    modules = [module for name, module in sys.modules.items() if name.startswith("cr5")]
    loops = {value for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)}
    return {loop.py_func.__qualname__: len(loop.overloads) for loop in loops if loop.overloads}

folder, word, text, is_warmed = sys.argv[1:]
if is_warmed == "False":
    app.warm_up = lambda state, readiness, settings: readiness.set_warm()
readiness = Readiness()
with TestClient(app.create_app(Index.open(folder), ServerSettings(), readiness)) as client:
    assert readiness.warm.wait(200)
    before, modules = compiled(), {name for name in sys.modules if name.startswith(("cr5", "filelock"))}
    hits = client.get("/search", params={"q": text}).json()["hits"]
    one = hits[0]["id"]
    answers = [
        client.get("/search", params={"q": word[1] + word[0] + word[2:]}),
        client.get("/search", params={"q": "zzqxj wvwvw", "lang": "aa", "k": 100}),
        *(client.get("/search", params={"q": text, "mode": mode}) for mode in ("dense", "lexical")),
        client.get("/search", params={"q": text, "measure": "cosine", "in": "bb", "group": "concept"}),
        client.get("/similar", params={"id": one}),
        client.get("/explain", params={"id": one, "q": text}),
        client.post("/embed", json={"lang": "aa", "texts": [text, word]}),
        client.post("/v1/embeddings", json={"input": [text]}),
        *(client.post("/documents", json={"documents": [{"concept": c, "lang": "aa", "text": text + t}]})
          for c, t in [("x", ""), ("y", ""), ("x", " " + word)]),
        client.delete("/documents/aa:x"),
        client.get("/search", params={"q": word}),
    ]
    assert [answer.status_code for answer in answers] == [200] * len(answers), [answer.text for answer in answers]
    after = compiled()
    print("compiled", sorted(name for name in after if after[name] != before.get(name)))
    print("loaded", sorted({name for name in sys.modules if name.startswith(("cr5", "filelock"))} - modules))
"""


@pytest.mark.parametrize("is_warmed", [True, False])
def test_the_first_requests_after_ready_compile_and_load_nothing(
    index_folder: Path, tmp_path: Path, is_warmed: bool
) -> None:
    folder = tmp_path / "index"
    shutil.copytree(index_folder, folder)
    word = max(QUERY.split(), key=len)
    command = [sys.executable, "-c", PROGRAM, str(folder), word, QUERY, str(is_warmed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    if is_warmed:
        assert lines == {"compiled": "[]", "loaded": "[]"}
    else:
        assert "edit_distances" in lines["compiled"]
        assert "copy_kept" in lines["compiled"]


def test_the_misspelt_word_of_the_warm_up_is_in_no_language(index_folder: Path) -> None:
    assert misspelt("a wolf") == "wolllf"
    assert misspelt("") == ""
    with Index.open(index_folder) as index:
        found = index.search(misspelt(madeup.text("aa", [3])), "aa")
        assert found.query.coverage.known < 1


class WarmServer:
    """A server that is warm at once, and then stops."""

    def __init__(self, config: object, settings: object, readiness: Readiness, **options: object) -> None:
        self._readiness = readiness

    def run(self, sockets: object) -> None:
        self._readiness.set_warm()


def test_the_garbage_collector_passes_over_the_objects_of_the_start(
    index_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(index: Index, *others: Any) -> None:
        index.close()

    monkeypatch.setattr(process, "create_app", closed)
    monkeypatch.setattr(process, "HttpServer", WarmServer)
    monkeypatch.setattr("cr5.server.logs.configure", lambda *_: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with socket.socket() as listening:
        process.ServerProcess(index_folder, ServerSettings())(listening)
    try:
        assert gc.get_freeze_count() > 10_000
    finally:
        gc.unfreeze()
