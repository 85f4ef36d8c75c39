"""Responses match the OpenAPI schema, whatever is requested."""

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis.errors import Unsatisfiable
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from cr5.index import Index
from cr5.server.app import create_app

pytestmark = pytest.mark.slow


# A language or an id that is well-formed may still be unknown.
NOT_MEANT = [positive_data_acceptance]
REFUSED = {"checks": {"negative_data_rejection": {"expected-statuses": [400, 404, 413, 415, 422]}}}


@pytest.mark.filterwarnings("ignore::cr5.Cr5Warning")
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_responses_to_valid_and_invalid_requests_match_the_schema(
    index_folder: Path, tmp_path: Path, mode: GenerationMode
) -> None:
    folder = tmp_path / "index"
    shutil.copytree(index_folder, folder)
    config = schemathesis.Config.from_dict(REFUSED)
    schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(Index.open(folder)), config=config)
    operations: list[Any] = [result.ok() for result in schema.get_all_operations()]  # type: ignore[union-attr]
    assert len(operations) == 15
    for operation in operations:

        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        @hypothesis.settings(
            max_examples=20,
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        def holds(case: Any) -> None:
            case.call_and_validate(excluded_checks=NOT_MEANT)

        with suppress(*[Unsatisfiable] * (mode == GenerationMode.NEGATIVE)):  # some cannot be asked wrongly
            holds()
