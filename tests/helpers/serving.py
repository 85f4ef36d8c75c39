"""What the tests of the server share."""

from collections.abc import Callable

import httpx2
import madeup
from starlette.testclient import TestClient

from cr5.server.headers import SECURITY_HEADERS

JSON = {"content-type": "application/json"}
QUERY = madeup.text("aa", [3, 4, 5])
StartServer = Callable[..., TestClient]


def error_message(response: httpx2.Response, status: int) -> str:
    """The message of an error response, whose status, format and headers are checked."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert {name: response.headers.get(name) for name in SECURITY_HEADERS} == SECURITY_HEADERS
    [(key, message)] = response.json().items()
    assert key == "error"
    return str(message)
