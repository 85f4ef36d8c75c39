"""The files of the page, served from memory."""

from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from cr5.message_parts import quoted
from cr5.server import token_rules
from cr5.server.errors import HttpError

FOLDER = Path(__file__).parent
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
}


class _File(NamedTuple):
    content: bytes
    content_type: str
    etag: str


class StaticFiles:
    """All files of the page by name; no path that a client sends is ever opened.

    They are read once, so that a page never mixes files of two releases while a new one is being installed.
    """

    def __init__(self) -> None:
        paths = [*sorted((FOLDER / "static").glob("*")), FOLDER / "reference.css"]
        contents = {path: path.read_bytes() for path in paths if path.is_file() and path.suffix in CONTENT_TYPES}
        contents[Path(token_rules.FILE_NAME)] = token_rules.token_rules().encode()
        self._files = {
            path.name: _File(content, CONTENT_TYPES[path.suffix], f'"{sha256(content).hexdigest()[:32]}"')
            for path, content in contents.items()
        }

    def response(self, name: str, request: Request) -> Response:
        """The file, or status 304 if the client already has this version: browsers check for a new one every time."""
        if name not in self._files:
            raise HttpError(404, f"there is no file {quoted(name)}; the page is at /")
        content, content_type, etag = self._files[name]
        headers = {"ETag": etag, "Cache-Control": "no-cache"}
        cached = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
        if etag in cached:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=content_type)
