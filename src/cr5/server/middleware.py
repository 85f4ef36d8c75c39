"""The middleware around the application, through which every request and every response passes."""

import asyncio
import json
import logging
import math
import re
import secrets
import time
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cr5.message_parts import quoted
from cr5.server.access import RateLimiter, TrustedProxies, client_of, has_key, host_of
from cr5.server.connection import PROBES_ONLY
from cr5.server.disconnects import CLIENT_IS_GONE, DisconnectError, client_is_gone
from cr5.server.errors import HttpError, system_error
from cr5.server.headers import SECURITY_HEADERS
from cr5.server.logs import REQUEST_LOG
from cr5.server.metrics import METHODS, Metrics
from cr5.server.openai_api import error_response
from cr5.server.settings import ServerSettings

OPEN_PATHS = ("/health", "/ready")  # need no key and no allowed host, and are answered when the server is busy
PAGES = ("/", "/docs", "/openapi.json")  # need no key, which a browser does not send: they tell nothing of the index
REQUEST_ID = re.compile(rb"[\w.-]{1,64}", re.ASCII)
_SECURITY_HEADERS = {name.encode(): value.encode() for name, value in SECURITY_HEADERS.items()}
log = logging.getLogger("cr5.server")
request_log = logging.getLogger(REQUEST_LOG)


def too_busy() -> HttpError:
    """The error for a request that finds too many others waiting."""
    return HttpError(503, "the server is handling too many requests; try again later", {"Retry-After": "1"})


class RequestMiddleware:
    """Checks who sends a request and how large it is, adds security headers to every response and counts both.

    A body is read after these checks, and only for paths that take one (``body_paths``). Otherwise, or if the request
    is refused before, the connection is closed after the response. The details of an unexpected error go to the log
    only.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings, metrics: Metrics, body_paths: Collection[str]) -> None:
        self._app, self._settings, self._metrics, self._body_paths = app, settings, metrics, body_paths
        per_minute = settings.requests_per_minute
        self._rate_limiter = RateLimiter(per_minute) if per_minute else None
        self._trusted_proxies = TrustedProxies(settings.trusted_proxies)
        self._running = 0  # requests that have been read, and are being answered
        self._buffered = 0  # bytes of the bodies of all requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an HTTP request; other ASGI scopes are passed on as they are."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _Request(scope, self._trusted_proxies)
        started, status = time.perf_counter(), 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message.get("headers", []), (b"x-request-id", request.id.encode())]
                if request.has_unread_body:
                    headers.append((b"connection", b"close"))
                message = {**message, "headers": _with_security_headers(headers)}
            await send(message)

        self._metrics.in_flight += 1
        try:
            await self._answer(request, receive, send_with_headers)
        except DisconnectError:
            pass
        except HttpError as error:
            await send_error(error, scope["path"], send_with_headers)
        except Exception as error:
            failure = system_error(error, writes_index=request.writes_index)
            if failure is not None:
                reason = str(error.__cause__ or error) if isinstance(error, OSError) else failure.message
                log.error("%s failed: %s", request.route, reason, extra={"request_id": request.id})
            else:
                log.exception("%s failed", request.route, extra={"request_id": request.id})
            if status:  # the response has begun: the server closes the connection
                raise
            failure = failure or HttpError(500, "internal server error; the server's log has the details")
            await send_error(failure, scope["path"], send_with_headers)
        finally:
            self._metrics.in_flight -= 1
            self._buffered -= request.buffered
            seconds = time.perf_counter() - started
            self._metrics.observe(request.known_method, request.path_of_route, status, seconds)
            if request_log.isEnabledFor(logging.INFO):
                fields = {
                    "method": request.known_method, "path": request.path_of_route, "status": status,
                    "milliseconds": round(1000 * seconds, 3), "client": request.client,
                }  # fmt: skip
                request_log.info("request", extra={"request_id": request.id, "fields": fields})

    async def _answer(self, request: "_Request", receive: Receive, send: Send) -> None:
        self._check_access(request)
        if request.path in OPEN_PATHS:
            await self._app(request.scope, _no_body, send)
            return
        self._check_load()
        if request.scope.get("state", {}).get(PROBES_ONLY):
            raise too_busy()
        if request.path in self._body_paths and request.method == "POST":
            receive = await self._read_body(request, receive)
            self._check_load()
        elif request.has_unread_body:
            receive = _no_body
        if is_gone := request.scope.get("state", {}).get(CLIENT_IS_GONE):
            client_is_gone.set(is_gone)
        self._running += 1
        try:
            await self._app(request.scope, receive, send)
        finally:
            self._running -= 1

    def _check_load(self) -> None:
        if self._running >= self._settings.max_concurrent_requests:
            raise too_busy()

    def _check_access(self, request: "_Request") -> None:
        """Raise an error for a request that the settings do not allow."""
        settings, headers, path = self._settings, request.headers, request.path
        reads = request.method in ("GET", "HEAD")
        is_probe = path in OPEN_PATHS and reads
        host = host_of(headers.get(b"host", b"").decode("latin-1"))
        if settings.allowed_hosts and host not in settings.allowed_hosts and not is_probe:
            log.warning("refused a request for the host name %s, which --allow-host does not name", quoted(host))
            raise HttpError(
                421,
                f"this server does not answer to the host name {quoted(host)}; start it with --allow-host to add it",
            )
        if b"content-length" in headers and b"transfer-encoding" in headers:
            raise HttpError(400, "the request has both Content-Length and Transfer-Encoding; send one of them")
        if is_probe:
            return
        static = path.startswith("/static/") and reads  # not rate-limited: the page loads some twenty files at once
        if self._rate_limiter and not static:
            seconds = math.ceil(self._rate_limiter.acquire(client_of(request.client)))
            if seconds:
                message = f"more than {self._rate_limiter.per_minute:,} requests per minute; wait {seconds} s"
                raise HttpError(429, message, {"Retry-After": str(seconds)})
        if (path in PAGES and reads) or static or settings.api_key is None:
            return
        if not has_key(headers, settings.api_key):
            message = "the API key is missing or wrong; send it as Authorization: Bearer KEY or as X-API-Key"
            raise HttpError(401, message, {"WWW-Authenticate": "Bearer"})

    async def _read_body(self, request: "_Request", receive: Receive) -> Receive:
        """Read the complete body, up to the limit, and return a receive callable that delivers it in one message."""
        headers, limit, seconds = request.headers, self._settings.max_body_bytes, self._settings.body_timeout_seconds
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            encoding = quoted(headers[b"content-encoding"].decode("latin-1"))
            raise HttpError(415, f"the content encoding of the body is {encoding}; send it without compression")
        too_large = HttpError(413, f"the body is larger than {limit:,} bytes; split it into several requests")
        length = headers.get(b"content-length", b"")
        if length.isdigit() and (len(length) > 18 or int(length) > limit):
            raise too_large
        body, more = bytearray(), True
        try:
            async with asyncio.timeout(seconds):
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise DisconnectError
                    chunk = message.get("body", b"")
                    body += chunk
                    request.buffered += len(chunk)
                    self._buffered += len(chunk)
                    more = message.get("more_body", False)
                    if len(body) > limit:
                        raise too_large
                    if self._buffered > self._settings.max_buffered_bytes:
                        raise too_busy()
        except TimeoutError:
            message_text = f"the body did not arrive within {seconds:g} s; send it faster, or send less"
            raise HttpError(408, message_text) from None
        request.has_unread_body = False
        messages: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def replay() -> Message:
            return messages.pop() if messages else await receive()

        return replay


class _Request:
    """A request as the checks see it: its client, its id, and whether its body is still to be read."""

    def __init__(self, scope: Scope, trusted_proxies: TrustedProxies) -> None:
        self.scope, self.method, self.path = scope, scope["method"], scope["path"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        address = (scope.get("client") or ("",))[0]
        self.client = trusted_proxies.client(address, scope["headers"])
        given = self.headers.get(b"x-request-id", b"")
        is_trusted = REQUEST_ID.fullmatch(given) and trusted_proxies.includes(address)
        self.id = given.decode() if is_trusted else secrets.token_hex(8)
        self.has_unread_body = (
            b"transfer-encoding" in self.headers or self.headers.get(b"content-length", b"0").strip(b"0") != b""
        )
        self.buffered = 0

    @property
    def path_of_route(self) -> str:
        """The path of the route, so that neither the log nor the metrics contain what a client has sent."""
        return str(getattr(self.scope.get("route"), "path", "other"))

    @property
    def known_method(self) -> str:
        """The method, or "other" if a client has made it up."""
        return self.method if self.method in METHODS else "other"

    @property
    def writes_index(self) -> bool:
        """Whether this is a request to add or delete documents."""
        return self.path_of_route.startswith("/documents") and self.method in ("POST", "DELETE")

    @property
    def route(self) -> str:
        """Method and path, for the log."""
        return f"{self.known_method} {self.path_of_route}"


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


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
    added = dict(_SECURITY_HEADERS)
    names = {name.lower() for name, _ in headers}
    if b"cache-control" not in names:
        added[b"cache-control"] = b"no-cache" if b"etag" in names else b"no-store"
    return [*((name, value) for name, value in headers if name.lower() not in added), *added.items()]
