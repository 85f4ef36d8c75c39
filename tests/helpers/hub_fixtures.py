"""A fixture with a local hub that the library of the Hugging Face Hub uses."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_hub import FakeHub, Repo

NAME = "owner/madeup"


@pytest.fixture
def hub(model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A hub with the model of the made-up languages, which the library of the hub uses, with an empty cache."""
    from huggingface_hub import constants

    with FakeHub() as server:
        template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
        for name, value in {
            "ENDPOINT": server.url,
            "HUGGINGFACE_CO_URL_TEMPLATE": template,
            "HF_HUB_CACHE": str(tmp_path / "cache"),
            "HF_TOKEN_PATH": str(tmp_path / "token"),
            "HF_HUB_DISABLE_XET": True,
            "HF_HUB_OFFLINE": False,
            "DOWNLOAD_CHUNK_SIZE": 100,
        }.items():
            monkeypatch.setattr(constants, name, value)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        # The library waits a second before it continues a download.
        monkeypatch.setattr("huggingface_hub.file_download.time", SimpleNamespace(sleep=lambda seconds: None))
        server.repos[NAME] = Repo()
        server.repos[NAME].commit("main", files_of(model_folder))
        yield server


def files_of(folder: Path) -> dict[str, bytes]:
    """The files of a model by their names."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name != ".lock"}
