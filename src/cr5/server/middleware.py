"""The gate: every request comes in through it and every answer goes out through it.

It lets in whom the settings allow, bounds what comes in, puts the security headers on whatever goes out, counts, and
tells nothing of an error but that there was one.
"""

import asyncio
import json
import logging
import math
import time
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cr5.errors import quoted
from cr5.server.limits import RateLimit, RefusedError, ServerSettings, client_of, has_key, host_of
from cr5.server.metrics import Metrics

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
log = logging.getLogger("cr5.server")


class Gate:
    """An ASGI application around another."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, metrics: Metrics) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics
        self._rate = RateLimit(settings.rate) if settings.rate else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; a connection of another kind goes straight on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": _guarded(message.get("headers", []))}
            await send(message)

        self._metrics.in_flight += 1
        try:
            try:
                self._admit(scope)
                await self._app(scope, await self._read(scope, receive), send_on)
            except RefusedError as refusal:
                await refuse(refusal, send_on)
            except Exception:
                log.exception("%s %s failed", scope["method"], quote(scope["path"]))
                if status:  # it has begun: all that is left is to break it off
                    raise
                await refuse(RefusedError(500, "something went wrong in the server; its log tells what"), send_on)
        finally:
            self._metrics.in_flight -= 1
            route = getattr(scope.get("route"), "path", "other")
            self._metrics.observe(scope["method"], route, status, time.perf_counter() - began)

    def _admit(self, scope: Scope) -> None:
        """Refuse whom the settings do not let in."""
        settings, headers, path = self._settings, dict(scope["headers"]), scope["path"]
        host = host_of(headers.get(b"host", b"").decode("latin-1"))
        if settings.hosts and host not in settings.hosts:
            raise RefusedError(421, f"this server is not called {quoted(host)}; start it with --allow-host for that")
        if self._metrics.in_flight > settings.waiting:
            raise RefusedError(503, "too many requests wait already; try again later", {"Retry-After": "1"})
        if path == "/health":
            return
        page = path.startswith("/static/")  # some twenty files, of which the page asks for each
        if self._rate and not page and (seconds := self._rate.wait(client_of((scope.get("client") or ("",))[0]))):
            sentence = f"more than {self._rate.rate:,} requests a minute; wait {math.ceil(seconds)} s"
            raise RefusedError(429, sentence, {"Retry-After": str(math.ceil(seconds))})
        if path == "/" or page or settings.api_key is None:
            return
        if not has_key(headers, settings.api_key):
            sentence = "the API key is missing or wrong; send it as Authorization: Bearer KEY or as X-API-Key"
            raise RefusedError(401, sentence, {"WWW-Authenticate": "Bearer"})

    async def _read(self, scope: Scope, receive: Receive) -> Receive:
        """The body as a whole, so that its size is known before anybody looks at it."""
        headers, limit = dict(scope["headers"]), self._settings.body
        if b"content-length" not in headers and b"transfer-encoding" not in headers:
            return receive
        too_big = RefusedError(413, f"the body exceeds {limit:,} bytes; send it in parts")
        length = headers.get(b"content-length", b"")
        if length.isdigit() and (len(length) > 18 or int(length) > limit):
            raise too_big
        body, more = bytearray(), True
        try:
            async with asyncio.timeout(self._settings.timeout):
                while more:
                    message = await receive()
                    body += message.get("body", b"")
                    more = message["type"] == "http.request" and message.get("more_body", False)
                    if len(body) > limit:
                        raise too_big
        except TimeoutError:
            sentence = f"the body did not arrive within {self._settings.timeout:g} s; send it faster, or less"
            raise RefusedError(408, sentence, {"Connection": "close"}) from None
        whole: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        return replay


async def refuse(refusal: RefusedError, send: Send) -> None:
    """Send the sentence of a refusal."""
    content = json.dumps({"error": refusal.sentence}, ensure_ascii=True).encode()
    headers = {
        "content-type": "application/json", "content-length": str(len(content)), "cache-control": "no-store",
    } | refusal.headers  # fmt: skip
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": raw})
    await send({"type": "http.response.body", "body": content})


def _guarded(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Headers with those that every answer has."""
    ours = {name.encode(): value.encode() for name, value in HEADERS.items()}
    given = {name.lower() for name, _ in headers}
    if b"cache-control" not in given:
        ours[b"cache-control"] = b"no-cache" if b"etag" in given else b"no-store"
    return [*((name, value) for name, value in headers if name.lower() not in ours), *ours.items()]
