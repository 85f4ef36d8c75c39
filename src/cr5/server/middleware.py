"""The middleware around the application, through which every request and every response passes."""

import asyncio
import json
import logging
import math
import time
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cr5.errors import quoted
from cr5.server.access import RateLimiter, client_of, has_key, host_of
from cr5.server.errors import HttpError
from cr5.server.metrics import Metrics
from cr5.server.openai_api import error_response
from cr5.server.settings import ServerSettings

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
log = logging.getLogger("cr5.server")


def too_busy() -> HttpError:
    """The error for a request that finds too many others waiting."""
    return HttpError(503, "the server is handling too many requests; try again later", {"Retry-After": "1"})


class AccessMiddleware:
    """Checks who sends a request and how large it is, adds security headers to every response and counts both.

    The details of an unexpected error go to the log only.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings, metrics: Metrics) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics
        per_minute = settings.requests_per_minute
        self._rate_limiter = RateLimiter(per_minute) if per_minute else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an HTTP request; other ASGI scopes are passed on as they are."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": _with_security_headers(message.get("headers", []))}
            await send(message)

        self._metrics.in_flight += 1
        try:
            try:
                self._check_access(scope)
                await self._app(scope, await self._read_body(scope, receive), send_with_headers)
            except HttpError as error:
                await send_error(error, scope["path"], send_with_headers)
            except Exception:
                log.exception("%s %s failed", scope["method"], quote(scope["path"]))
                if status:  # the response has begun: the server closes the connection
                    raise
                failure = HttpError(500, "internal server error; the server's log has the details")
                await send_error(failure, scope["path"], send_with_headers)
        finally:
            self._metrics.in_flight -= 1
            route = getattr(scope.get("route"), "path", "other")
            self._metrics.observe(scope["method"], route, status, time.perf_counter() - started)

    def _check_access(self, scope: Scope) -> None:
        """Raise an error for a request that the settings do not allow."""
        settings, headers, path = self._settings, dict(scope["headers"]), scope["path"]
        host = host_of(headers.get(b"host", b"").decode("latin-1"))
        if settings.allowed_hosts and host not in settings.allowed_hosts:
            raise HttpError(
                421,
                f"this server does not answer to the host name {quoted(host)}; start it with --allow-host to add it",
            )
        if self._metrics.in_flight > settings.max_concurrent_requests:
            raise too_busy()
        if path == "/health":
            return
        static = path.startswith("/static/")  # not rate-limited: the page loads some twenty files at once
        if self._rate_limiter and not static:
            seconds = math.ceil(self._rate_limiter.acquire(client_of((scope.get("client") or ("",))[0])))
            if seconds:
                message = f"more than {self._rate_limiter.per_minute:,} requests per minute; wait {seconds} s"
                raise HttpError(429, message, {"Retry-After": str(seconds)})
        if path == "/" or static or settings.api_key is None:
            return
        if not has_key(headers, settings.api_key):
            message = "the API key is missing or wrong; send it as Authorization: Bearer KEY or as X-API-Key"
            raise HttpError(401, message, {"WWW-Authenticate": "Bearer"})

    async def _read_body(self, scope: Scope, receive: Receive) -> Receive:
        """Read the complete body, up to the limit, and return a receive callable that delivers it in one message."""
        headers, limit = dict(scope["headers"]), self._settings.max_body_bytes
        if b"content-length" not in headers and b"transfer-encoding" not in headers:
            return receive
        too_large = HttpError(413, f"the body is larger than {limit:,} bytes; split it into several requests")
        length = headers.get(b"content-length", b"")
        if length.isdigit() and (len(length) > 18 or int(length) > limit):
            raise too_large
        body, more = bytearray(), True
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                while more:
                    message = await receive()
                    body += message.get("body", b"")
                    more = message["type"] == "http.request" and message.get("more_body", False)
                    if len(body) > limit:
                        raise too_large
        except TimeoutError:
            seconds = self._settings.timeout_seconds
            raise HttpError(
                408,
                f"the body did not arrive within {seconds:g} s; send it faster, or send less",
                {"Connection": "close"},
            ) from None
        messages: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def replay() -> Message:
            return messages.pop() if messages else await receive()

        return replay


async def send_error(error: HttpError, path: str, send: Send) -> None:
    """Send an error as JSON: {"error": message}, or in the format of OpenAI's API under /v1."""
    status, body = error_response(error) if path.startswith("/v1/") else (error.status, {"error": error.message})
    content = json.dumps(body, ensure_ascii=True).encode()
    headers = {
        "content-type": "application/json", "content-length": str(len(content)), "cache-control": "no-store",
    } | error.headers  # fmt: skip
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": content})


def _with_security_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of a response together with those that every response has."""
    added = {name.encode(): value.encode() for name, value in SECURITY_HEADERS.items()}
    names = {name.lower() for name, _ in headers}
    if b"cache-control" not in names:
        added[b"cache-control"] = b"no-cache" if b"etag" in names else b"no-store"
    return [*((name, value) for name, value in headers if name.lower() not in added), *added.items()]
