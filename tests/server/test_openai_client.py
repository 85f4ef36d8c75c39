"""OpenAI's client with a server: vectors, models, and the exceptions that errors become."""

import base64
from pathlib import Path
from typing import Any

import madeup
import numpy as np
import pytest
import running
from serving import JSON, QUERY, StartServer
from starlette.testclient import TestClient

from cr5 import Cr5
from cr5.index import Index
from cr5.server import openai_api

openai: Any = pytest.importorskip("openai")  # which cr5 does not need

TEXTS = [madeup.text("aa", [3, 4, 5]), madeup.text("bb", [6, 7]), madeup.text("aa", [8])]
LANGS = ["aa", "bb", "aa"]
KEY = "swordfish"


def openai_client(server: TestClient, key: str = KEY) -> Any:
    return openai.OpenAI(base_url="http://testserver/v1", api_key=key, http_client=server, max_retries=0)


@pytest.fixture(scope="module")
def api(client: TestClient) -> Any:
    return openai_client(client)


def raised(kind: Any, call: Any, *given: Any, **named: Any) -> Any:
    """The exception of a call: its message, type, param and code are those of the body."""
    with pytest.raises(kind) as caught:
        call(*given, **named)
    error: Any = caught.value
    assert type(error) is kind
    assert set(error.body) == {"message", "type", "param", "code"}
    assert (error.type, error.param, error.code) == (error.body["type"], error.body["param"], error.body["code"])
    return error


# Vectors


@pytest.mark.services
def test_a_text_gets_the_vector_of_the_model_over_the_network(model: Cr5, model_folder: Path, tmp_path: Path) -> None:
    Index.create(tmp_path / "index", model_folder).close()
    with (
        running.server(tmp_path / "index", "--api-key", KEY) as (_, address),
        openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0) as client,
    ):
        found = client.embeddings.create(model="cr5", input=TEXTS[0])  # asks for base64 and unpacks it by itself
        stranger = client.with_options(api_key="guess")
        assert raised(openai.AuthenticationError, stranger.models.list).code == "invalid_api_key"
    [item] = found.data
    np.testing.assert_allclose(item.embedding, model.encode(TEXTS[:1], "aa")[0], atol=1e-6)
    assert (found.model, found.object, item.index, item.object) == ("cr5", "list", 0, "embedding")
    assert (found.usage.prompt_tokens, found.usage.total_tokens) == (3, 3)


@pytest.mark.parametrize("form", [{}, {"encoding_format": "float"}, {"encoding_format": "base64"}])
def test_texts_get_vectors_in_their_order_in_either_format(api: Any, model: Cr5, form: dict[str, Any]) -> None:
    data = api.embeddings.create(model="cr5", input=TEXTS, user="me", **form).data
    assert [item.index for item in data] == [0, 1, 2]
    for item, text, lang in zip(data, TEXTS, LANGS, strict=True):
        vector: Any = item.embedding
        if isinstance(vector, str):  # as it came: whoever asks for base64 unpacks it
            vector = np.frombuffer(base64.b64decode(vector), "<f4")
        np.testing.assert_allclose(vector, model.encode([text], lang)[0], atol=1e-6)


def test_2048_texts_are_one_request_and_more_are_too_many(api: Any, model: Cr5) -> None:
    texts = [madeup.word("aa", number % madeup.MEANINGS) for number in range(2048)]
    data = api.embeddings.create(model="cr5:aa", input=texts).data
    np.testing.assert_allclose([item.embedding for item in data], model.encode(texts, "aa"), atol=1e-6)
    error = raised(openai.BadRequestError, api.embeddings.create, model="cr5", input=[*texts, "a"])
    assert "input has 2,049 items; send at most 2,048" in str(error)
    assert error.param == "input"


def test_dimensions_must_be_those_of_the_model(api: Any, model: Cr5) -> None:
    rank = model.rank
    [item] = api.embeddings.create(model="cr5:aa", input=TEXTS[0], dimensions=rank).data
    assert len(item.embedding) == rank
    error = raised(openai.BadRequestError, api.embeddings.create, model="cr5", input=TEXTS[0], dimensions=16)
    assert error.body["message"] == f"dimensions is 16, but the model has {rank}; leave it out"
    assert error.param == "dimensions"
    error = raised(openai.BadRequestError, api.embeddings.create, model="cr5", input=TEXTS[0], dimensions=True)
    assert "dimensions is true" in error.body["message"]


def test_a_text_without_a_known_word_is_an_error_that_names_it_unless_zeros_are_allowed(api: Any) -> None:
    error = raised(openai.BadRequestError, api.embeddings.create, model="cr5:aa", input=[TEXTS[0], "жжж", ""])
    assert (error.code, error.param, error.type) == ("no_known_word", "input.1", "invalid_request_error")
    assert "input.1 is 'жжж'" in error.body["message"]
    assert "allow_zeros" in error.body["message"]
    error = raised(openai.BadRequestError, api.embeddings.create, model="cr5:aa", input="")
    assert (error.param, error.body["message"][:14]) == ("input", "input is '', w")
    given = {"model": "cr5:aa", "input": [TEXTS[0], "жжж"], "extra_body": {"allow_zeros": True}}
    known, unknown = api.embeddings.create(**given).data
    assert any(known.embedding)
    assert not any(unknown.embedding)


# Models


def test_the_models_are_one_that_guesses_and_one_for_each_language(api: Any) -> None:
    models = api.models.list().data
    assert [model.id for model in models] == ["cr5", "cr5:aa", "cr5:bb", "cr5:cc"]
    for model in models:
        assert api.models.retrieve(model.id) == model
        assert (model.object, model.owned_by) == ("model", "cr5")
        assert model.created > 1_700_000_000
        assert api.embeddings.create(model=model.id, input=" ".join(TEXTS), extra_body={"allow_zeros": True}).data


@pytest.mark.parametrize("name", ["text-embedding-3-small", "cr5:zz", "cr5:", "cr5-aa", "", "a/b"])
def test_an_unknown_model_is_not_found(api: Any, name: str) -> None:
    error = raised(openai.NotFoundError, api.embeddings.create, model=name, input=TEXTS[0])
    assert (error.code, error.param) == ("model_not_found", "model")
    assert error.body["message"] == f"there is no model {name!r}; the models are cr5, cr5:aa, cr5:bb, cr5:cc"
    if name:
        assert raised(openai.NotFoundError, api.models.retrieve, name).body == error.body


# Errors


def test_input_that_is_not_text_is_a_bad_request(api: Any) -> None:
    for given, fact in [
        ([[1, 2]], "lists of token ids are not supported"), ([], "input is empty"), (None, "input"), ("\0" * 2, "input")
    ]:  # fmt: skip
        error = raised(openai.BadRequestError, api.embeddings.create, model="cr5", input=given)
        assert fact in error.body["message"]
        assert error.type == "invalid_request_error"
        assert error.param.startswith("input")


def test_a_body_that_is_too_large_or_not_json_is_refused(client: TestClient, api: Any) -> None:
    error = raised(openai.APIStatusError, api.embeddings.create, model="cr5", input=["a" * 1_000_000] * 2)
    assert (error.status_code, error.code) == (413, "request_too_large")
    assert "larger than 2,000,000 bytes" in str(error)
    for content, headers, status in [(b"{", JSON, 400), (b"{}", {}, 415)]:
        answer = client.post("/v1/embeddings", content=content, headers=headers)
        assert (answer.status_code, answer.json()["error"]["type"]) == (status, "invalid_request_error")


def test_an_unknown_path_or_method_is_an_error_in_the_same_format(client: TestClient, api: Any) -> None:
    error = raised(openai.NotFoundError, api.chat.completions.create, model="cr5", messages=[])
    assert error.code == "unknown_url"
    answer = client.get("/v1/embeddings")
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "method_not_supported")


def test_a_wrong_key_is_refused(start_server: StartServer) -> None:
    server = start_server(api_key=KEY)
    assert openai_client(server).models.list().data
    error = raised(openai.AuthenticationError, openai_client(server, "guess").models.list)
    assert (error.code, error.type) == ("invalid_api_key", "invalid_request_error")
    assert error.body["message"] == (
        "the API key is missing or wrong; send it as Authorization: Bearer KEY or as X-API-Key"
    )


def test_too_many_requests_are_a_rate_limit_error_that_the_client_waits_for(start_server: StartServer) -> None:
    api = openai_client(start_server(requests_per_minute=2))
    assert [len(api.models.list().data) for _ in range(2)] == [4, 4]
    error = raised(openai.RateLimitError, api.models.list)
    assert (error.code, error.type, error.response.headers["retry-after"]) == ("rate_limit_exceeded", "requests", "30")


def test_a_busy_or_broken_server_is_an_internal_server_error(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = openai_client(start_server(max_concurrent_requests=0))
    error = raised(openai.InternalServerError, busy.embeddings.create, model="cr5", input=QUERY)
    assert (error.status_code, error.code, error.type) == (503, "service_unavailable", "server_error")

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("disk on fire")

    monkeypatch.setattr(openai_api, "models", fail)
    broken = openai_client(start_server())
    error = raised(openai.InternalServerError, broken.models.list)
    assert (error.status_code, error.code, error.type) == (500, None, "server_error")
    assert "fire" not in str(error)
