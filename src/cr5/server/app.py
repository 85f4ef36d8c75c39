"""The ASGI application: routes, thread pools and error handlers."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from functools import partial
from importlib.metadata import version
from typing import Any, TypeAlias, TypeVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from cr5.errors import CorpusError, Cr5Error, DiskFullError
from cr5.index import Index
from cr5.message_parts import quoted
from cr5.server import handlers, openai_api, schemas
from cr5.server.disconnects import unless_gone
from cr5.server.errors import INVALID_JSON, HttpError, validation_error
from cr5.server.large_requests import LargeRequests, require_few_characters
from cr5.server.limits import LONG_QUERY_CHARS
from cr5.server.metrics import CONTENT_TYPE, Metrics
from cr5.server.middleware import OPEN_PATHS, RequestMiddleware, too_busy
from cr5.server.query_parameters import declare_parameters, parse_parameters
from cr5.server.readiness import Readiness
from cr5.server.reference import render_reference
from cr5.server.settings import ServerSettings
from cr5.server.state import ServerState
from cr5.server.static_files import StaticFiles
from cr5.server.warm_up import warm_up

INDEX_CHECK_SECONDS = 10  # time limit of an answer to /ready
ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ErrorResponse, "description": description}
    for status, description in {
        400: "The body is not valid JSON", 401: "The API key is missing or wrong", 403: "The server is read-only",
        404: "No such document", 408: "The body arrived too slowly", 413: "The body is too large",
        415: "The body is not declared as JSON", 421: "Not a host name of this server", 422: "A value is not valid",
        429: "Too many requests", 500: "Internal server error", 503: "Too busy, or not finished in time",
        507: "The disk is full",
    }.items()
}  # fmt: skip
OPENAI_ERROR_RESPONSES = {
    status: response | {"model": schemas.OpenAIErrorResponse} for status, response in ERROR_RESPONSES.items()
}
Result = TypeVar("Result")
Handler: TypeAlias = Callable[[ServerState], BaseModel]
log = logging.getLogger("cr5.server")


def create_app(index: Index, settings: ServerSettings | None = None, readiness: Readiness | None = None) -> FastAPI:
    """The application that serves an index, and closes it at shutdown."""
    settings, readiness = settings or ServerSettings(), readiness or Readiness()
    state, metrics, files = ServerState(index), Metrics(settings.metrics_folder), StaticFiles()
    pools, large = _Pools(settings), LargeRequests(settings.max_large_requests)
    release = version("cr5")
    body_paths: set[str] = set()  # of requests whose body is read

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        warming = threading.Thread(target=warm_up, args=(state, readiness, settings), name="cr5-warm-up")
        warming.start()
        try:
            yield
        finally:
            readiness.stopping.set()
            await pools.shutdown()
            await asyncio.to_thread(warming.join)
            await asyncio.to_thread(index.close, wait_seconds=settings.shutdown_seconds)

    app = FastAPI(
        title="cr5",
        version=release,
        description="Documents of any language in one vector space: search, compare and embed them.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=ERROR_RESPONSES,
    )
    app.router.route_class = _JsonRoute
    app.add_middleware(RequestMiddleware, settings=settings, metrics=metrics, body_paths=body_paths)
    app.exception_handler(Cr5Error)(_handle_library_error)
    app.exception_handler(RequestValidationError)(_handle_invalid_request)
    app.exception_handler(HTTPException)(_handle_framework_error)

    async def read(handler: Handler) -> Response:
        return await pools.read(partial(handler, state))

    async def search_for(request: schemas.SearchRequest | schemas.SearchBody) -> Response:
        is_long = len(request.q) > LONG_QUERY_CHARS
        return await pools.read(partial(handlers.search, state, request), is_long=is_long)

    async def encode(handler: Handler, texts: Sequence[str] = (), name: str = "") -> Response:
        require_few_characters(texts, name)
        work = unless_gone(partial(handler, state))
        return await _respond(pools.encoders, settings.timeout_seconds, work, large.admit(texts))

    async def write(handler: Callable[[Index], BaseModel], texts: Sequence[str] = ()) -> Response:
        if settings.read_only:
            raise HttpError(403, "this server is read-only; start it without --read-only to add or delete documents")
        require_few_characters(texts, "documents")
        work = partial(state.write, handler, lock_timeout_seconds=settings.timeout_seconds / 2)
        return await _respond(pools.writer, settings.timeout_seconds, work, large.admit(texts))

    @app.get("/search", response_model=schemas.SearchResponse, openapi_extra=declare_parameters(schemas.SearchRequest))
    async def search(request: Request) -> Response:
        """Find documents in any language for a text in any language."""
        return await search_for(parse_parameters(schemas.SearchRequest, request))

    @app.post("/search", response_model=schemas.SearchResponse)
    async def search_by_body(request: schemas.SearchBody) -> Response:
        """Find documents in any language, with the parameters in a body."""
        return await search_for(request)

    @app.get(
        "/similar", response_model=schemas.SearchResponse, openapi_extra=declare_parameters(schemas.SimilarRequest)
    )
    async def similar(request: Request) -> Response:
        """Find documents similar to a document of the index."""
        return await read(partial(handlers.similar, request=parse_parameters(schemas.SimilarRequest, request)))

    @app.get(
        "/explain", response_model=schemas.ExplainResponse, openapi_extra=declare_parameters(schemas.ExplainRequest)
    )
    async def explain(request: Request) -> Response:
        """Name the words that make a document similar to a text, or to another document."""
        return await read(partial(handlers.explain, request=parse_parameters(schemas.ExplainRequest, request)))

    @app.get("/documents/{id:path}", response_model=schemas.DocumentResponse)
    async def document(id: str) -> Response:  # noqa: A002
        """Get a document."""
        return await read(partial(handlers.document, document_id=id))

    @app.post("/documents", response_model=schemas.AddResponse)
    async def add(request: schemas.NewDocuments) -> Response:
        """Add documents to the index, or replace them."""
        return await write(partial(handlers.add, request=request), [item.text for item in request.documents])

    @app.delete("/documents/{id:path}", response_model=schemas.DeleteResponse)
    async def delete(id: str) -> Response:  # noqa: A002
        """Delete a document from the index, if there is one with this id."""
        return await write(partial(handlers.delete, document_id=id))

    @app.post("/embed", response_model=schemas.EmbedResponse)
    async def embed(request: schemas.EmbedRequest) -> Response:
        """Turn texts of one language into vectors."""
        return await encode(partial(handlers.embed, request=request), request.texts, "texts")

    @app.post("/v1/embeddings", response_model=schemas.EmbeddingsResponse, responses=OPENAI_ERROR_RESPONSES)
    async def embeddings(request: schemas.EmbeddingsRequest) -> Response:
        """Turn texts into vectors, compatible with clients of OpenAI's API."""
        texts = [request.input] if isinstance(request.input, str) else request.input
        return await encode(partial(openai_api.embeddings, request=request), texts, "input")

    @app.get("/v1/models", response_model=schemas.ModelsResponse, responses=OPENAI_ERROR_RESPONSES)
    async def models() -> Response:
        """List the names that a request for embeddings accepts as its model."""
        return await encode(openai_api.models)

    @app.get("/v1/models/{name:path}", response_model=schemas.ModelResponse, responses=OPENAI_ERROR_RESPONSES)
    async def model(name: str) -> Response:
        """Get one model of the list."""
        return await encode(partial(openai_api.model, name=name))

    @app.get("/info", response_model=schemas.InfoResponse)
    async def info() -> Response:
        """Describe the contents of the index."""
        return await read(partial(handlers.info, version=release, writable=not settings.read_only))

    @app.get("/health", response_model=schemas.HealthResponse)
    async def health() -> Response:
        """Tell that the server process works, whether or not its index can be read."""
        response = schemas.HealthResponse(version=release, generation=index.snapshot_number)
        return Response(response.model_dump_json(), media_type="application/json")

    @app.get("/ready", response_model=schemas.ReadyResponse)
    async def ready() -> Response:
        """Tell whether the server has loaded what a search needs, can read its index, and is not stopping."""
        readiness.check()
        return await pools.check_index(partial(handlers.ready, state))

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def prometheus() -> Response:
        """Report metrics to Prometheus."""
        text = await _run(pools.readers, settings.timeout_seconds, lambda: handlers.exposition(state, metrics))
        return Response(text, media_type=CONTENT_TYPE)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(render_reference(app.openapi()))

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        return files.response("index.html", request)

    @app.get("/static/{name:path}", include_in_schema=False)
    async def static(name: str, request: Request) -> Response:
        return files.response(name, request)

    body_paths.update(route.path for route in app.routes if isinstance(route, APIRoute) and route.body_field)
    if settings.api_key is not None:
        _declare_api_key(app)
    return app


class _Pools:
    """Threads for each kind of work, so that none of them can hold up the others.

    Encoding needs no store, so it goes on while readers wait for a database. Searches with long queries, which compute
    for up to a second, have threads of their own. There is one writer, because an index takes one write at a time.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self.readers = ThreadPoolExecutor(settings.threads, "cr5-reader")
        self.long_readers = ThreadPoolExecutor(max(1, settings.threads // 4), "cr5-long-reader")
        self.encoders = ThreadPoolExecutor(settings.threads, "cr5-encoder")
        self.index_checker = ThreadPoolExecutor(1, "cr5-index-check")
        self.writer = ThreadPoolExecutor(1, "cr5-writer")
        self._reading = {self.readers: 0, self.long_readers: 0}
        self._index_check: asyncio.Future[Response] | None = None
        # Reads that wait for a slow store must not use up all requests that the server accepts.
        most = settings.max_concurrent_requests
        self._max_reading = {self.readers: max(settings.threads, most // 2), self.long_readers: max(1, most // 4)}

    async def read(self, work: Callable[[], BaseModel], *, is_long: bool = False) -> Response:
        """The response of work in a reader thread, unless too many requests are waiting for one."""
        pool = self.long_readers if is_long else self.readers
        if self._reading[pool] >= self._max_reading[pool]:
            raise too_busy()
        self._reading[pool] += 1
        try:
            return await _respond(pool, self._settings.timeout_seconds, unless_gone(work))
        finally:
            self._reading[pool] -= 1

    async def check_index(self, work: Callable[[], BaseModel]) -> Response:
        """The response of a check of the index; requests that arrive while one is running share its result."""
        if self._index_check is None or self._index_check.done():
            seconds = min(INDEX_CHECK_SECONDS, self._settings.timeout_seconds)
            self._index_check = asyncio.ensure_future(_respond(self.index_checker, seconds, work))
        return await asyncio.shield(self._index_check)

    async def shutdown(self) -> None:
        """Cancel what has not begun, and wait a while for a write to finish."""
        for pool in (self.readers, self.long_readers, self.encoders, self.index_checker):
            pool.shutdown(wait=False, cancel_futures=True)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.to_thread(self.writer.shutdown), self._settings.shutdown_seconds)


async def _run(pool: Executor, seconds: float, work: Callable[[], Result]) -> Result:
    """The result of work in a thread; after some seconds the request fails, though the thread cannot be stopped."""
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.get_running_loop().run_in_executor(pool, work)
    except TimeoutError:
        message = f"not finished within {seconds:g} s; request less, or try again later"
        raise HttpError(503, message, {"Retry-After": "5"}) from None


async def _respond(
    pool: Executor, seconds: float, work: Callable[[], BaseModel], admitted: AbstractContextManager[None] | None = None
) -> Response:
    """The result of work in a thread, as JSON, which that thread writes as well; all of it while it is ``admitted``."""

    def run() -> str:
        with admitted or nullcontext():
            return work().model_dump_json()

    content = await _run(pool, seconds, run)
    return Response(content, media_type="application/json")


class _JsonRoute(APIRoute):
    """A route that checks the content type of a body before the body is parsed, and answers HEAD as it answers GET.

    The server leaves the body out of the response to HEAD. The OpenAPI schema has the methods of the route only.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return super().matches(_as_get(scope))

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await super().handle(_as_get(scope) if "GET" in (self.methods or ()) else scope, receive, send)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def checked(request: Request) -> Response:
            if self.body_field is not None:
                content_type = request.headers.get("content-type", "")
                if content_type.partition(";")[0].strip().lower() != "application/json":
                    problem = f"is {quoted(content_type)}" if content_type else "is missing"
                    raise HttpError(415, f"the content type of the body {problem}; send application/json")
            return await handle(request)

        return checked


def _as_get(scope: Scope) -> Scope:
    return {**scope, "method": "GET"} if scope.get("method") == "HEAD" else scope


def _declare_api_key(app: FastAPI) -> None:
    """Add to the OpenAPI schema how the API key is sent."""
    schema = app.openapi()
    schema.setdefault("components", {})["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    schema["security"] = [{"bearer": []}, {"header": []}]
    for path in OPEN_PATHS:
        schema["paths"][path]["get"]["security"] = []


# Error handlers: they raise an HttpError, which the middleware turns into a response.


async def _handle_invalid_request(_: Request, error: RequestValidationError) -> Response:
    raise validation_error(error.errors())


async def _handle_library_error(_: Request, error: Cr5Error) -> Response:
    """A CorpusError is about documents that were sent; parameters have been checked, so others are about the index."""
    if isinstance(error, CorpusError):
        raise HttpError(422, str(error))
    if isinstance(error, DiskFullError):  # which the middleware answers like other errors of the system
        raise error
    log.error("%s", error)
    message = "the index cannot be used at the moment; the server's log has the details"
    raise HttpError(503, message, {"Retry-After": "5"})


async def _handle_framework_error(request: Request, error: HTTPException) -> Response:
    path = quoted(request.url.path)
    if error.status_code == 404:
        raise HttpError(404, f"there is nothing at {path}; see /docs")
    if error.status_code == 405:
        methods = ", ".join(_allowed_methods(request))
        message = f"{path} does not accept {quoted(request.method)[1:-1]}; use {methods}"
        raise HttpError(405, message, {"Allow": methods})
    if error.status_code == 400:
        raise HttpError(400, INVALID_JSON)
    raise HttpError(error.status_code, "the request cannot be answered; see /docs")


def _allowed_methods(request: Request) -> list[str]:
    """All methods that some route accepts at the path of a request; HEAD wherever GET is."""
    routes = [route for route in request.app.routes if route.matches(request.scope)[0] != Match.NONE]
    methods = {method for route in routes for method in getattr(route, "methods", None) or ()}
    return sorted(methods | {"HEAD"} if "GET" in methods else methods)
