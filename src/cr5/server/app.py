"""The application: which path gives which answer."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Match

from cr5.corpus.identification import guess
from cr5.errors import CorpusError, Cr5Error, quoted
from cr5.index import Index
from cr5.server import handlers
from cr5.server.limits import RefusedError, ServerSettings
from cr5.server.messages import sentence
from cr5.server.metrics import MEDIA, Metrics
from cr5.server.middleware import Gate
from cr5.server.reference import reference
from cr5.server.schemas import (
    AddedShape,
    Deleted,
    DocumentShape,
    Embedded,
    Embeddings,
    EmbeddingsRequest,
    EmbedRequest,
    Explained,
    ExplainRequest,
    Found,
    Health,
    Info,
    NewDocuments,
    Problem,
    SearchRequest,
    SimilarRequest,
)
from cr5.server.state import Atlas

HERE = Path(__file__).parent
SOON = 10  # seconds to tell whether the server can answer, and for a write that goes on when all else has ended
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": what}
    for status, what in {
        400: "No JSON", 401: "API key missing or wrong", 403: "The server is read-only", 404: "No such document",
        408: "The body came too slowly", 413: "The body is too big", 415: "The body is not declared as JSON",
        421: "The server has another name", 422: "A value that does not fit", 429: "Too many requests",
        500: "A fault of the server", 503: "Too busy, or not done in time",
    }.items()
}  # fmt: skip
Result = TypeVar("Result")
log = logging.getLogger("cr5.server")


def create_app(index: Index, settings: ServerSettings | None = None) -> FastAPI:
    """The server of an index, which it closes in the end."""
    settings = settings or ServerSettings()
    atlas, metrics = Atlas(index), Metrics(settings.figures)
    readers = ThreadPoolExecutor(settings.threads, "cr5-reader")
    encoders = ThreadPoolExecutor(settings.threads, "cr5-encoder")  # which go on where readers wait for a database
    prober = ThreadPoolExecutor(1, "cr5-prober")
    writer = ThreadPoolExecutor(1, "cr5-writer")  # one at a time, and none in the way of the readers
    release = version("cr5")
    reading, most = 0, max(settings.threads, settings.waiting * 3 // 4)  # so that the gate stays open for the others

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        saving = asyncio.create_task(_save(metrics))
        readers.submit(guess, "what a first query would have to wait for")
        try:
            yield
        finally:
            saving.cancel()
            with suppress(asyncio.CancelledError):
                await saving
            metrics.save()
            for pool in (readers, encoders, prober):
                pool.shutdown(wait=False, cancel_futures=True)
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.to_thread(writer.shutdown), SOON)
            index.close()

    app = FastAPI(
        title="cr5",
        version=release,
        description="Documents of any language in one vector space: search, compare and embed them.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=REFUSALS,
    )
    app.router.route_class = _JsonRoute
    app.add_middleware(Gate, settings=settings, metrics=metrics)
    app.exception_handler(Cr5Error)(_unusable)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(HTTPException)(_other)
    files = _files()

    async def answer(pool: Executor, seconds: float, function: Callable[[Atlas], BaseModel]) -> Response:
        return _json(await _in_time(pool, seconds, lambda: function(atlas).model_dump_json()))

    async def read(function: Callable[[Atlas], BaseModel]) -> Response:
        nonlocal reading
        if reading >= most:
            raise RefusedError(503, "too many requests wait already; try again later", {"Retry-After": "1"})
        reading += 1
        try:
            return await answer(readers, settings.timeout, function)
        finally:
            reading -= 1

    async def encode(function: Callable[[Atlas], BaseModel]) -> Response:
        return await answer(encoders, settings.timeout, function)

    async def write(function: Callable[[Index], BaseModel]) -> Response:
        if settings.read_only:
            raise RefusedError(403, "this server only reads; start it without --read-only to write")
        patience = settings.timeout / 2
        return _json(
            await _in_time(writer, settings.timeout, lambda: atlas.change(function, patience).model_dump_json())
        )

    @app.get("/search", response_model=Found)
    async def search(asked: Annotated[SearchRequest, Query()]) -> Response:
        """Find documents in any language for a text in any language."""
        return await read(partial(handlers.search, asked=asked))

    @app.get("/similar", response_model=Found)
    async def similar(asked: Annotated[SimilarRequest, Query()]) -> Response:
        """Find documents like one of the index."""
        return await read(partial(handlers.similar, asked=asked))

    @app.get("/explain", response_model=Explained)
    async def explain(asked: Annotated[ExplainRequest, Query()]) -> Response:
        """Name the words that make a document similar to a text, or to another document."""
        return await read(partial(handlers.explain, asked=asked))

    @app.get("/documents/{id:path}", response_model=DocumentShape)
    async def document(id: str) -> Response:  # noqa: A002
        """Get a document."""
        return await read(partial(handlers.document, name=id))

    @app.post("/documents", response_model=AddedShape)
    async def add(asked: NewDocuments) -> Response:
        """Put documents into the index, or renew them."""
        return await write(partial(handlers.add, asked=asked))

    @app.delete("/documents/{id:path}", response_model=Deleted)
    async def delete(id: str) -> Response:  # noqa: A002
        """Take a document out of the index."""
        return await write(partial(handlers.delete, name=id))

    @app.post("/embed", response_model=Embedded)
    async def embed(asked: EmbedRequest) -> Response:
        """Turn texts of one language into vectors."""
        return await encode(partial(handlers.embed, asked=asked))

    @app.post("/v1/embeddings", response_model=Embeddings)
    async def embeddings(asked: EmbeddingsRequest) -> Response:
        """Turn texts into vectors, as clients of OpenAI's interface ask for it."""
        return await encode(partial(handlers.embeddings, asked=asked))

    @app.get("/info", response_model=Info)
    async def info() -> Response:
        """What the index holds."""
        return await read(partial(handlers.info, version=release, writable=not settings.read_only))

    @app.get("/health", response_model=Health)
    async def health() -> Response:
        """Whether the server can answer."""
        return await answer(prober, min(SOON, settings.timeout), partial(handlers.health, version=release))

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def figures() -> Response:
        """What the server has done, for Prometheus."""
        text = await _in_time(readers, settings.timeout, lambda: handlers.figures(atlas, metrics))
        return Response(text, media_type=MEDIA)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(reference(app.openapi()))

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def page(request: Request) -> Response:
        return _file(files, "index.html", request)

    @app.api_route("/static/{name:path}", methods=["GET", "HEAD"], include_in_schema=False)
    async def static(name: str, request: Request) -> Response:
        return _file(files, name, request)

    if settings.api_key is not None:
        _declare_key(app)
    return app


class _JsonRoute(APIRoute):
    """A route that looks at the kind of a body before anybody reads it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def checked(request: Request) -> Response:
            if self.body_field is not None:
                given = request.headers.get("content-type", "")
                if given.partition(";")[0].strip().lower() != "application/json":
                    what = f"a body of type {quoted(given)}" if given else "a body without a type"
                    raise RefusedError(415, f"{what} is not read; send application/json")
            return await handle(request)

        return checked


def _declare_key(app: FastAPI) -> None:
    """Let the schema tell where the key goes."""
    schema = app.openapi()
    schema.setdefault("components", {})["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    schema["security"] = [{"bearer": []}, {"header": []}]
    schema["paths"]["/health"]["get"]["security"] = []


async def _save(metrics: Metrics) -> None:
    while True:
        await asyncio.sleep(1)
        await asyncio.to_thread(metrics.save)


async def _in_time(pool: Executor, seconds: float, work: Callable[[], Result]) -> Result:
    """What the work returns; a thread cannot be stopped, but nobody waits for it any longer."""
    try:
        return await asyncio.wait_for(asyncio.get_running_loop().run_in_executor(pool, work), seconds)
    except TimeoutError:
        sentence = f"not done within {seconds:g} s; ask for less, or try again later"
        raise RefusedError(503, sentence, {"Retry-After": "5"}) from None


def _json(content: str) -> Response:
    return Response(content, media_type="application/json")


class _File(NamedTuple):
    content: bytes
    kind: str
    tag: str


def _files() -> dict[str, _File]:
    """The files that may be fetched, by name: no path of a client is ever opened.

    They are read once, so that a release that is installed meanwhile does not mix with this one.
    """
    found = [*sorted((HERE / "static").glob("*")), HERE / "reference.css"]
    contents = {path: path.read_bytes() for path in found if path.is_file() and path.suffix in TYPES}
    return {
        path.name: _File(content, TYPES[path.suffix], f'"{sha256(content).hexdigest()[:32]}"')
        for path, content in contents.items()
    }


def _file(files: dict[str, _File], name: str, request: Request) -> Response:
    """A file, unless the client has it as it is: every file is asked for each time, so that old and new do not mix."""
    if name not in files:
        raise RefusedError(404, f"there is no file {quoted(name)}; the page is at /")
    content, kind, tag = files[name]
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    known = [given.strip().removeprefix("W/") for given in request.headers.get("if-none-match", "").split(",")]
    if tag in known:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=kind)


# What is wrong; a refusal goes on to the gate, and so does what nobody has foreseen.


async def _invalid(_: Request, error: RequestValidationError) -> Response:
    faults = error.errors()
    raise RefusedError(400 if faults[0]["type"] == "json_invalid" else 422, sentence(faults))


async def _unusable(_: Request, error: Cr5Error) -> Response:
    """Requests are checked before the index sees them: but for documents, what it finds fault with is its own state."""
    if isinstance(error, CorpusError):  # of documents that were sent
        raise RefusedError(422, str(error))
    log.error("%s", error)
    raise RefusedError(503, "the index cannot be used now; the log of the server tells why", {"Retry-After": "5"})


async def _other(request: Request, error: HTTPException) -> Response:
    path = quoted(request.url.path)
    if error.status_code == 404:
        raise RefusedError(404, f"there is nothing at {path}; see /docs")
    if error.status_code == 405:
        methods = ", ".join(_methods(request))
        raise RefusedError(
            405, f"{path} does not take {quoted(request.method)[1:-1]}; use {methods}", {"Allow": methods}
        )
    if error.status_code == 400:
        raise RefusedError(400, "the body is no JSON; send an object in UTF-8")
    raise RefusedError(error.status_code, "the request cannot be answered; see /docs")


def _methods(request: Request) -> list[str]:
    """All methods that some route takes at the path of a request."""
    routes = [route for route in request.app.routes if route.matches(request.scope)[0] != Match.NONE]
    return sorted({method for route in routes for method in getattr(route, "methods", None) or ()})
