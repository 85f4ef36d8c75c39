"""Request handlers: a request and the server's state -> a response."""

import base64
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from cr5._typing import Array
from cr5.corpus.documents import Document
from cr5.corpus.languages import find_language
from cr5.errors import quoted
from cr5.index import Index, IndexedDocument, Query, SearchResult
from cr5.retrieval.passages import passage
from cr5.server import schemas
from cr5.server.errors import HttpError
from cr5.server.metrics import Metrics
from cr5.server.settings import MAX_TEXT_CHARS
from cr5.server.state import ServerState

Point: TypeAlias = tuple[float, float]
RankedRequest: TypeAlias = schemas.SearchRequest | schemas.SimilarRequest

SNIPPET_CHARS = 300  # of the beginning of a text, shown with a hit
PASSAGE_CHARS, PASSAGE_CONTEXT_CHARS = 200, 60  # of the passage that explains a hit, and before its first match
EXAMPLE_CHARS = 80


def search(state: ServerState, request: schemas.SearchRequest) -> schemas.SearchResponse:
    """The documents nearest to a text; none for a text without a letter or digit, which has no language either."""
    started, index = time.perf_counter(), state.index
    langs = _parse_languages(index, request.search_in)
    lang = _find_language(index, request.lang) if request.lang else None
    if not any(character.isalnum() for character in request.q):
        return _search_response(request, started, request.q, lang or "")
    result = index.search(request.q, lang, k=request.k, langs=langs, measure=request.measure)
    return _result_response(state, request, started, request.q, result)


def similar(state: ServerState, request: schemas.SimilarRequest) -> schemas.SearchResponse:
    """The documents nearest to a document of the index."""
    started, index = time.perf_counter(), state.index
    langs, document = _parse_languages(index, request.search_in), _get(index, request.id)
    result = index.similar(request.id, k=request.k, langs=langs, measure=request.measure)
    return _result_response(state, request, started, document.title or snippet(document.text), result)


def explain(state: ServerState, request: schemas.ExplainRequest) -> schemas.ExplainResponse:
    """The words that make a document similar to a text or to another document."""
    index = state.index
    if bool(request.q) == bool(request.of):
        raise HttpError(422, "give either q (a text) or of (the id of a document), and not both")
    lang = _find_language(index, request.lang) if request.lang else None
    document = _get(index, request.id)
    document = replace(document, text=document.text[:MAX_TEXT_CHARS])
    if request.of:
        other = _get(index, request.of)
        query = index.query(other.text[:MAX_TEXT_CHARS], other.lang)
    else:
        query = index.query(request.q or "", lang)
    explanation = index.explain(query, document)
    return schemas.ExplainResponse(
        similarity=explanation.similarity,
        snippet=passage(
            document.text, explanation.words_b, PASSAGE_CHARS, PASSAGE_CONTEXT_CHARS, explanation.begin, explanation.end
        ),
        query_words=list(explanation.words_a),
        document_words=list(explanation.words_b),
        pairs=list(explanation.pairs),
    )


def document(state: ServerState, document_id: str) -> schemas.DocumentResponse:
    """A document by its id."""
    found = _get(state.index, document_id)
    return schemas.DocumentResponse(**_document_fields(found), text=found.text)


def add(index: Index, request: schemas.NewDocuments) -> schemas.AddResponse:
    """Add documents to the index, or replace them."""
    for number, item in enumerate(request.documents):
        for name in ("concept", "lang", "text"):
            if not getattr(item, name).strip():
                raise HttpError(422, f"documents.{number}.{name} is blank; send more than white space")
    added = index.add(Document(**item.model_dump()) for item in request.documents)
    return schemas.AddResponse(**vars(added))


def delete(index: Index, document_id: str) -> schemas.DeleteResponse:
    """Delete a document from the index."""
    return schemas.DeleteResponse(deleted=index.delete([document_id]))


def embed(state: ServerState, request: schemas.EmbedRequest) -> schemas.EmbedResponse:
    """The vectors of texts in one language."""
    model, lang = state.index.model, _find_language(state.index, request.lang)
    return schemas.EmbedResponse(
        vectors=model.encode(request.texts, lang).tolist(),
        known=model.coverage(request.texts, lang).tolist(),
    )


def embeddings(state: ServerState, request: schemas.EmbeddingsRequest) -> schemas.EmbeddingsResponse:
    """The vectors of texts in any language, in the format of OpenAI's API."""
    model, texts = state.index.model, [request.input] if isinstance(request.input, str) else request.input
    rank = model.rank
    if request.dimensions not in (None, rank):
        raise HttpError(422, f"dimensions is {request.dimensions}, but the model has {rank}; leave it out")
    lang = request.model.removeprefix("cr5:") if request.model.startswith("cr5:") else None
    if lang is not None:
        lang = _find_language(state.index, lang)
    langs = [guess.lang for guess in model.guess_languages(texts)] if lang is None else [lang] * len(texts)
    vectors = model.encode(texts, langs)
    words = 0
    for lang in set(langs):
        texts_in_lang = [text for text, text_lang in zip(texts, langs, strict=True) if text_lang == lang]
        words += len(model.settings.tokeniser(texts_in_lang, lang).ids)
    as_base64 = request.encoding_format == "base64"
    data = [
        schemas.EmbeddingItem(index=i, embedding=to_base64(row) if as_base64 else row.tolist())
        for i, row in enumerate(vectors)
    ]
    usage = schemas.Usage(prompt_tokens=words, total_tokens=words)
    return schemas.EmbeddingsResponse(data=data, model=request.model, usage=usage)


def info(state: ServerState, version: str, writable: bool) -> schemas.InfoResponse:
    """What the index contains."""
    index = state.index
    return schemas.InfoResponse(
        version=version,
        documents=index.count(),
        languages=index.langs,
        rank=index.model.rank,
        measures=["csls", "cosine"],
        writable=writable,
        examples=[
            schemas.ExampleResponse(lang=example.lang, text=snippet(example.title, EXAMPLE_CHARS))
            for example in index.example_queries()
        ],
    )


def health(state: ServerState, version: str) -> schemas.HealthResponse:
    """Read from the index, to see that it can be read."""
    state.index.get(["health"])
    return schemas.HealthResponse(version=version, generation=state.index.snapshot_number)


def exposition(state: ServerState, metrics: Metrics) -> str:
    """All metrics in the text format of Prometheus."""
    return metrics.exposition(state.index.count(), state.index.snapshot_number)


def to_base64(vector: Array) -> str:
    """A vector as base64 of little-endian float32, the format that OpenAI's clients decode."""
    return base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()


def snippet(text: str, max_chars: int = SNIPPET_CHARS) -> str:
    """The beginning of a text in one line, cut at the end of a word."""
    line = " ".join(text[: 2 * max_chars].split())
    if len(line) <= max_chars and len(text) <= 2 * max_chars:
        return line
    words, space, _ = line[:max_chars].rpartition(" ")
    return (words if space else line[:max_chars]) + "…"


def web_url(url: str) -> str:
    """An http or https address; "" for any other, such as javascript:, so that it cannot become a link."""
    return url if url.lower().startswith(("http://", "https://")) else ""


def _result_response(
    state: ServerState, request: RankedRequest, started: float, text: str, result: SearchResult
) -> schemas.SearchResponse:
    """The response for the result of a search; ``text`` is what the page shows as its query."""
    query, projection = result.query, state.projection(result.background)
    query_point, *hit_points = projection.transform(np.stack([query.vector, *(hit.vector for hit in result.hits)]))
    hits = [
        schemas.HitResponse(
            **_document_fields(hit), snippet=snippet(hit.text), score=hit.score, cosine=hit.cosine, x=x, y=y
        )
        for hit, (x, y) in zip(result.hits, hit_points, strict=True)
    ]
    return _search_response(request, started, text, query.lang, query, hits, query_point)


def _search_response(
    request: RankedRequest,
    started: float,
    text: str,
    lang: str,
    query: Query | None = None,
    hits: Sequence[schemas.HitResponse] = (),
    query_point: Point = (0.0, 0.0),
) -> schemas.SearchResponse:
    return schemas.SearchResponse(
        query=text,
        lang=lang,
        guessed=query is not None and query.guessed,
        confidence=query.confidence if query else 0.0,
        known=query.coverage if query else 0.0,
        measure=request.measure,
        milliseconds=round(1000 * (time.perf_counter() - started), 3),
        hits=list(hits),
        at=query_point,
    )


def _document_fields(document: IndexedDocument) -> dict[str, str]:
    fields = {name: getattr(document, name) for name in schemas.DocumentFields.model_fields}
    return fields | {"url": web_url(document.url)}


def _parse_languages(index: Index, codes: str | None) -> list[str] | None:
    """The languages of a comma-separated list; None if it is empty."""
    langs = [_find_language(index, code.strip()) for code in (codes or "").split(",") if code.strip()]
    return list(dict.fromkeys(langs)) or None


def _find_language(index: Index, code: str) -> str:
    """The language of the index that a code in any spelling means."""
    lang = find_language(code, index.langs)
    if lang is None:
        raise HttpError(422, f"the index has no language {quoted(code)}; its languages are {', '.join(index.langs)}")
    return lang


def _get(index: Index, document_id: str) -> IndexedDocument:
    for document in index.get([document_id]):
        return document
    raise HttpError(404, f"there is no document {quoted(document_id)} in the index; use an id that a search returned")
