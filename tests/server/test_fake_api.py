"""The fake server of the page's tests responds as the real server does: same schema, same parameters, same statuses."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import jsonschema  # type: ignore[import-untyped]
import pytest
from fake_api import DOCUMENTS, HOSTILE, FakeApi
from starlette.testclient import TestClient

from cr5.index import Index
from cr5.server.app import create_app
from cr5.server.settings import ServerSettings

REQUESTS = {
    "/info": ["/info"],
    "/search": [
        "/search?q=cane&k=10",
        "/search?q=zzz&lang=da",
        "/search?q=casa&lang=it&in=da,en&k=20&mode=dense&measure=cosine",
        "/search?q=casa&group=concept&prefer=da&offset=1&where={}",
    ],
    "/similar": ["/similar?id=en:dog&in=it&k=10&measure=csls"],
    "/explain": [
        "/explain?q=cane&lang=it&id=en:dog",
        "/explain?of=it:dog&id=en:dog",
        "/explain?q=zzz&lang=it&id=en:dog",
    ],
    "/documents/{id}": ["/documents/en:dog", "/documents/x%2F1%3Fa%3Db%26c%23d"],
}
ERRORS = {
    422: ["/search?q=luna&lang=xx", "/search?q=luna&prefer=xx"],
    404: ["/documents/missing", "/similar?id=missing", "/explain?q=luna&lang={lang}&id=missing"],
}


@pytest.fixture(scope="module")
def server(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """The real server, with an index that has no documents."""
    index = Index.create(tmp_path_factory.mktemp("fake") / "index", model_folder)
    with TestClient(create_app(index, ServerSettings(read_only=True))) as client:
        yield client


@pytest.fixture(scope="module")
def openapi(server: TestClient) -> dict[str, Any]:
    """The OpenAPI description of the real server."""
    description: dict[str, Any] = server.get("/openapi.json").json()
    return description


def respond(request: str) -> tuple[int, Any]:
    """Status and content of the fake's response."""
    versions = [document._replace(about=document.id.partition(":")[2]) for document in DOCUMENTS]
    with FakeApi([*versions, *HOSTILE]) as fake:
        response = httpx2.get(fake.url.rstrip("/") + request)
        return response.status_code, response.json()


def exact(schema: Any) -> Any:
    """A schema that requires every property and allows no other, so that nothing can be missing or superfluous."""
    if isinstance(schema, list):
        return [exact(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {name: exact(value) for name, value in schema.items()}
    if "properties" in changed:
        changed |= {"additionalProperties": False, "required": list(changed["properties"])}
    return changed


def response_schema(openapi: dict[str, Any], path: str, status: int) -> dict[str, Any]:
    response = openapi["paths"][path]["get"]["responses"][str(status)]
    return {**response["content"]["application/json"]["schema"], "components": exact(openapi["components"])}


@pytest.mark.parametrize(("path", "request_path"), [(path, one) for path, many in REQUESTS.items() for one in many])
def test_a_response_of_the_fake_fits_the_schema_of_the_server(
    openapi: dict[str, Any], path: str, request_path: str
) -> None:
    status, content = respond(request_path)
    assert status == 200
    jsonschema.validate(content, response_schema(openapi, path, 200))


def test_a_response_with_another_field_or_without_one_would_be_noticed(openapi: dict[str, Any]) -> None:
    _, content = respond("/search?q=cane")
    schema = response_schema(openapi, "/search", 200)
    for wrong in [content | {"more": 1}, {name: content[name] for name in content if name != "at"}]:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)
    del content["hits"][0]["snippet"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, schema)


@pytest.mark.parametrize(("path", "request_path"), [(path, one) for path, many in REQUESTS.items() for one in many])
def test_the_parameters_of_the_fake_are_those_of_the_server(
    openapi: dict[str, Any], path: str, request_path: str
) -> None:
    declared = {parameter["name"] for parameter in openapi["paths"][path]["get"].get("parameters", [])}
    assert {name for name, _ in parse_qsl(urlsplit(request_path).query)} <= declared


@pytest.mark.parametrize(("status", "request_path"), [(status, one) for status, many in ERRORS.items() for one in many])
def test_an_error_of_the_fake_is_that_of_the_server(
    server: TestClient, openapi: dict[str, Any], status: int, request_path: str
) -> None:
    real = server.get(request_path.format(lang="aa"))
    fake_status, content = respond(request_path.format(lang="it"))
    assert (fake_status, real.status_code) == (status, status)
    jsonschema.validate(content, response_schema(openapi, "/search", status))
    assert content["error"].partition(";")[0] == real.json()["error"].partition(";")[0]
