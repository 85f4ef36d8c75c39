"""OpenAI's client with a running server: vectors, and error messages."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import madeup
import numpy as np
import pytest
import running

from cr5 import Cr5
from cr5.index import Index

openai: Any = pytest.importorskip("openai")  # which cr5 does not need

pytestmark = pytest.mark.services

TEXTS = [madeup.text("aa", [3, 4, 5]), madeup.text("bb", [6, 7]), madeup.text("aa", [8])]
LANGS = ["aa", "bb", "aa"]
KEY = "swordfish"


@pytest.fixture(scope="module")
def address(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("openai") / "index"
    Index.create(folder, model_folder).close()
    with running.server(folder, "--api-key", KEY) as (_, address):
        yield f"{address}/v1"


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[Any]:
    with openai.OpenAI(base_url=address, api_key=KEY, max_retries=0) as client:
        yield client


def test_a_text_gets_the_vector_of_the_model(client: Any, model: Cr5) -> None:
    found = client.embeddings.create(model="cr5", input=TEXTS[0])  # asks for base64 and unpacks it by itself
    [item] = found.data
    np.testing.assert_allclose(item.embedding, model.encode(TEXTS[:1], "aa")[0], atol=1e-6)
    assert (found.model, found.object, item.index, item.object) == ("cr5", "list", 0, "embedding")
    assert (found.usage.prompt_tokens, found.usage.total_tokens) == (3, 3)


@pytest.mark.parametrize("form", [{}, {"encoding_format": "float"}, {"encoding_format": "base64"}])
def test_texts_get_vectors_in_their_order_in_either_format(client: Any, model: Cr5, form: dict[str, Any]) -> None:
    data = client.embeddings.create(model="cr5", input=TEXTS, **form).data
    assert [item.index for item in data] == [0, 1, 2]
    for item, text, lang in zip(data, TEXTS, LANGS, strict=True):
        vector: Any = item.embedding
        if isinstance(vector, str):  # as it came: whoever asks for base64 unpacks it
            vector = np.frombuffer(base64.b64decode(vector), "<f4")
        np.testing.assert_allclose(vector, model.encode([text], lang)[0], atol=1e-6)


def test_dimensions_must_be_those_of_the_model(client: Any, model: Cr5) -> None:
    rank = model.rank
    [item] = client.embeddings.create(model="cr5:aa", input=TEXTS[0], dimensions=rank).data
    assert len(item.embedding) == rank
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        client.embeddings.create(model="cr5", input=TEXTS[0], dimensions=16)
    assert refused.value.body == f"dimensions is 16, but the model has {rank}; leave it out"


def test_a_wrong_key_is_refused(address: str) -> None:
    stranger = openai.OpenAI(base_url=address, api_key="guess", max_retries=0)
    with stranger, pytest.raises(openai.AuthenticationError) as refused:
        stranger.embeddings.create(model="cr5", input="a")
    assert refused.value.body == (
        "the API key is missing or wrong; send it as Authorization: Bearer KEY or as X-API-Key"
    )
