"""Small problems run on one thread: waking a second one takes longer than the work."""

import os
import signal

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["COLUMNS"] = "80"  # the tables of the command line are as wide as on a small terminal

from pathlib import Path

import hypothesis
import madeup
import pytest
from properties import QUICK_EXAMPLES

from cr5 import Cr5, Document

pytest_plugins = [
    "browser_fixtures",
    "command_line_fixtures",
    "corpus_sources_fixtures",
    "engine_blocks_fixtures",
    "faulty_fixtures",
    "framework_fixtures",
    "hub_fixtures",
    "index_documents_fixtures",
    "limits_fixtures",
    "server_fixtures",
    "small_wikipedia_fixtures",
    "store_fixtures",
    "watchdog",
]

# A job in the background begins with Ctrl-C ignored, and so would every process that a test starts to interrupt it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What lands must not depend on luck: the same examples every time. Without this profile they are new every time.
hypothesis.settings.register_profile("steady", max_examples=50, derandomize=True, deadline=None)
hypothesis.settings.register_profile("quick", max_examples=QUICK_EXAMPLES, deadline=None)  # for make test-fast


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option of the test of rolling restarts."""
    parser.addoption("--restart-seconds", type=float, default=15, help="how long rolling restarts are tested")


@pytest.fixture(scope="session")
def documents() -> list[Document]:
    """All documents of the made-up languages."""
    return madeup.corpus()


@pytest.fixture(scope="session")
def model(documents: list[Document]) -> Cr5:
    """A model of the made-up languages that has not seen the held-out concepts. Only to be read."""
    return Cr5(**madeup.SETTINGS).fit(madeup.split(documents)[0])


@pytest.fixture(scope="session")
def model_folder(model: Cr5, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model on disk."""
    path = tmp_path_factory.mktemp("models") / "madeup"
    model.save(path)
    return path
