"""The parameters of a query string are declared and checked as FastAPI does it for a model."""

from typing import Annotated, Any

import pytest
from fastapi import FastAPI, Query, Request
from fastapi.testclient import TestClient
from pydantic import BaseModel

from cr5.server import schemas
from cr5.server.query_parameters import declare_parameters, parse_parameters

MODELS: list[type[BaseModel]] = [schemas.SearchRequest, schemas.SimilarRequest, schemas.ExplainRequest]
QUERIES = [
    "q=dog", "id=1", "q=d%C3%B3g+a&lang=", "q=dog&k=3&k=5", "id=1&in=da,en", "q=%FF", "id=%00&of=2",
    "", "q=", "q=dog&k=x", "id=1&k=", "q=dog&k=0&offset=-1", "q=dog&search_in=da", "id=1&unknown=2",
    "q=dog&unknown=2&unknown=3", "q=dog&mode=best&measure=cosine",
]  # fmt: skip


def oracle(model: type[BaseModel]) -> FastAPI:
    app = FastAPI()

    @app.get("/")
    async def answer(parameters: Annotated[model, Query()]) -> Any:  # type: ignore[valid-type]
        return parameters.model_dump()  # type: ignore[attr-defined]

    return app


def with_own_functions(model: type[BaseModel]) -> FastAPI:
    app = FastAPI()

    @app.get("/", openapi_extra=declare_parameters(model))
    async def answer(request: Request) -> Any:
        return parse_parameters(model, request).model_dump()

    return app


@pytest.mark.parametrize("model", MODELS)
def test_parameters_and_errors_are_those_of_fastapi(model: type[BaseModel]) -> None:
    own, expected = TestClient(with_own_functions(model)), TestClient(oracle(model))
    statuses = set()
    for query in QUERIES:
        found, wanted = own.get(f"/?{query}"), expected.get(f"/?{query}")
        assert found.status_code == wanted.status_code, query
        problems = [[(e["type"], e["loc"], e["msg"]) for e in r.json().get("detail", [])] for r in (found, wanted)]
        assert problems[0] == problems[1] if found.status_code == 422 else found.json() == wanted.json()
        statuses.add(found.status_code)
    assert statuses == {200, 422}


@pytest.mark.parametrize("model", MODELS)
def test_the_description_is_that_of_fastapi(model: type[BaseModel]) -> None:
    own, expected = (make(model).openapi()["paths"]["/"]["get"] for make in (with_own_functions, oracle))
    assert own["parameters"] == expected["parameters"]
