"""The exception that becomes an HTTP error response."""

from collections.abc import Mapping


class HttpError(Exception):
    """An error response: an HTTP status, a message of one sentence, and additional headers."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})
