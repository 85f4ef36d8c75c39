"""Request handlers: a request and the server's state -> a response."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from cr5.corpus.documents import Document
from cr5.corpus.languages import find_text_language, no_such_language
from cr5.errors import Cr5Error
from cr5.index import Index, IndexedDocument, Mode, Query, SearchHit, SearchResult
from cr5.index.filters import Filter
from cr5.message_parts import one_line, quoted
from cr5.retrieval.snippets import snippet
from cr5.retrieval.top_k import Measure
from cr5.server import schemas
from cr5.server.errors import HttpError
from cr5.server.large_requests import batches
from cr5.server.limits import MAX_DEPTH, MAX_EXPLAINED_CHARS
from cr5.server.metrics import Metrics
from cr5.server.state import ServerState

Point: TypeAlias = tuple[float, float]
TextRequest: TypeAlias = schemas.SearchRequest | schemas.SearchBody

SNIPPET_CHARS = 300  # length of the snippet of a hit
EXPLAINED_SNIPPET_CHARS = 200  # length of the snippet of an explanation
SNIPPET_LEAD_CHARS = 60  # length of the text before the first match in a snippet
EXAMPLE_CHARS = 80


def search(state: ServerState, request: TextRequest) -> schemas.SearchResponse:
    """The documents that match a text; none for a text without a letter or digit, which has no language either."""
    started, index = time.perf_counter(), state.index
    if request.k + request.offset > MAX_DEPTH:
        raise HttpError(422, f"k + offset is {request.k + request.offset:,}; it must be at most {MAX_DEPTH:,}")
    langs, where = _parse_languages(index, request.search_in), _parse_where(request.where)
    lang = _find_language(index, request.lang) if request.lang else None
    prefer = _find_language(index, request.prefer) if request.prefer else None
    if not any(character.isalnum() for character in request.q):
        return _search_response(request.mode, request.measure, started, request.q, lang or "")
    is_dense = request.mode == "dense"  # then these have no effect, as the interface promises
    result = index.search(
        request.q,
        lang,
        k=request.k,
        offset=request.offset,
        langs=langs,
        mode=request.mode,
        measure=request.measure,
        group=None if is_dense else request.group,
        prefer=None if is_dense else prefer,
        min_score=request.min_score,
        where=where,
        sort=None if is_dense else request.sort,
    )
    return _result_response(state, request.mode, request.measure, started, request.q, result)


def similar(state: ServerState, request: schemas.SimilarRequest) -> schemas.SearchResponse:
    """The documents nearest to a document of the index."""
    started, index = time.perf_counter(), state.index
    langs, document = _parse_languages(index, request.search_in), _get(index, request.id)
    result = index.similar(request.id, k=request.k, langs=langs, measure=request.measure)
    text = document.title or beginning(document.text)
    response = _result_response(state, "dense", request.measure, started, text, result)
    return response.model_copy(update={"tokens": []})  # of the whole document


def explain(state: ServerState, request: schemas.ExplainRequest) -> schemas.ExplainResponse:
    """The words that make a document similar to a text or to another document."""
    index = state.index
    if bool(request.q) == bool(request.of):
        raise HttpError(422, "give either q (a text) or of (the id of a document), and not both")
    lang = _find_language(index, request.lang) if request.lang else None
    document = _get(index, request.id)
    document = replace(document, text=document.text[:MAX_EXPLAINED_CHARS])
    if request.of:
        other = _get(index, request.of)
        query = index.query(other.text[:MAX_EXPLAINED_CHARS], other.lang)
    else:
        query = index.query(request.q or "", lang)
    explanation = index.explain(query, document)
    return schemas.ExplainResponse(
        similarity=explanation.similarity,
        passage=(explanation.begin, explanation.end),
        snippet=snippet(
            document.text,
            explanation.words_b,
            EXPLAINED_SNIPPET_CHARS,
            SNIPPET_LEAD_CHARS,
            explanation.begin,
            explanation.end,
        ),
        query_words=list(explanation.words_a),
        document_words=list(explanation.words_b),
        pairs=list(explanation.pairs),
    )


def document(state: ServerState, document_id: str) -> schemas.DocumentResponse:
    """A document by its id."""
    found = _get(state.index, document_id)
    fields = {name: getattr(found, name) for name in schemas.DocumentResponse.model_fields}
    return schemas.DocumentResponse(**fields | {"url": web_url(found.url)})


def add(index: Index, request: schemas.NewDocuments) -> schemas.AddResponse:
    """Add documents to the index, or replace them."""
    for number, item in enumerate(request.documents):
        for name in ("concept", "lang", "text"):
            if not getattr(item, name).strip():
                raise HttpError(422, f"documents.{number}.{name} is blank; send more than white space")
    documents = [Document(**item.model_dump(exclude={"id"})) for item in request.documents]
    return schemas.AddResponse(**vars(index.add(documents, ids=_given_ids(request.documents))))


def delete(index: Index, document_id: str) -> schemas.DeleteResponse:
    """Delete a document from the index."""
    return schemas.DeleteResponse(deleted=index.delete([document_id]))


def embed(state: ServerState, request: schemas.EmbedRequest) -> schemas.EmbedResponse:
    """The vectors of texts in one language."""
    model, lang = state.index.model, _find_language(state.index, request.lang)
    vectors, known, by_subword = list[list[float]](), list[float](), list[float]()
    for texts in batches(request.texts):
        coverage = model.coverage_parts(texts, lang)
        vectors += model.encode(texts, lang).tolist()
        known += coverage.known.tolist()
        by_subword += coverage.by_subword.tolist()
    return schemas.EmbedResponse(vectors=vectors, known=known, by_subword=by_subword)


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
            schemas.ExampleResponse(lang=example.lang, text=beginning(example.title, EXAMPLE_CHARS))
            for example in index.example_queries()
        ],
    )


def ready(state: ServerState) -> schemas.ReadyResponse:
    """Read from the index, to see that it can be read."""
    try:
        state.index.get(["health"])
    except Cr5Error:
        raise
    except Exception as error:
        raise Cr5Error(f"the index cannot be read: {one_line(str(error))}") from error
    return schemas.ReadyResponse()


def exposition(state: ServerState, metrics: Metrics) -> str:
    """All metrics in the text format of Prometheus."""
    return metrics.exposition(state.index.count(), state.index.snapshot_number)


def beginning(text: str, max_chars: int = SNIPPET_CHARS) -> str:
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
    state: ServerState, mode: Mode, measure: Measure, started: float, text: str, result: SearchResult
) -> schemas.SearchResponse:
    """The response for the result of a search; ``text`` is what the page shows as its query."""
    query, projection = result.query, state.projection(result.background)
    points = projection.transform(np.stack([query.vector, *(hit.vector for hit in result.hits)]))
    hits = [_hit_response(hit, *point) for hit, point in zip(result.hits, points[1:], strict=True)]
    return _search_response(mode, measure, started, text, query.lang, query, hits, points[0], result)


def _hit_response(hit: SearchHit, x: float, y: float) -> schemas.HitResponse:
    matched = [(word, 1.0) for word in hit.words]
    begin, end = hit.passage if hit.passage[1] else (0, len(hit.text))
    return {
        "id": hit.id,
        "concept": hit.concept,
        "lang": hit.lang,
        "title": hit.title,
        "url": web_url(hit.url),
        "fields": hit.fields,
        "snippet": snippet(hit.text, matched, SNIPPET_CHARS, SNIPPET_LEAD_CHARS, begin, end),
        "score": hit.score,
        "cosine": hit.cosine,
        "parts": hit.parts,
        "passage": (begin, end),
        "words": list(hit.words),
        "versions": [
            {"id": version.id, "lang": version.lang, "title": version.title, "score": version.score}
            for version in hit.versions
        ],
        "x": x,
        "y": y,
    }


def _search_response(
    mode: Mode,
    measure: Measure,
    started: float,
    text: str,
    lang: str,
    query: Query | None = None,
    hits: Sequence[schemas.HitResponse] = (),
    query_point: Point = (0.0, 0.0),
    result: SearchResult | None = None,
) -> schemas.SearchResponse:
    return schemas.SearchResponse.model_construct(
        query=text,
        lang=lang,
        guessed=query is not None and query.guessed,
        confidence=query.confidence if query else 0.0,
        tokens=query.tokens if query else [],
        known=query.coverage.known if query else 0.0,
        by_subword=query.coverage.by_subword if query else 0.0,
        suggestion=None if result is None else result.suggestion,
        warnings=[] if result is None else [problem.replace("`", "") for problem in result.warnings],
        mode=mode,
        measure=measure,
        milliseconds=round(1000 * (time.perf_counter() - started), 3),
        hits=list(hits),
        at=query_point,
    )


def _given_ids(documents: Sequence[schemas.NewDocument]) -> list[str] | None:
    """The ids of new documents, of which either all or none have one."""
    seen = set[str | None]()
    for number, document in enumerate(documents):
        if (document.id is None) != (documents[0].id is None):
            raise HttpError(422, f"documents.{number} differs from documents.0 in having an id; give all or none an id")
        if document.id is not None and document.id in seen:
            problem = f"documents.{number}.id is {quoted(document.id)}, which another document also has"
            raise HttpError(422, f"{problem}; give every document its own")
        seen.add(document.id)
    return [document.id for document in documents if document.id is not None] or None


def _parse_languages(index: Index, codes: str | Sequence[str] | None) -> list[str] | None:
    """The languages of a list, which may be a text with commas; None if it is empty."""
    listed = codes.split(",") if isinstance(codes, str) else codes or ()
    langs = [_find_language(index, code.strip()) for code in listed if code.strip()]
    return list(dict.fromkeys(langs)) or None


def _parse_where(where: str | Mapping[str, Any] | None) -> Filter | None:
    """The filter of an object, or of its JSON; None if there is none."""
    if not where:
        return None
    try:
        conditions: Any = json.loads(where) if isinstance(where, str) else where
    except (ValueError, RecursionError):
        message = f'where is {quoted(str(where))}, which is not JSON; send an object such as {{"year": 2019}}'
        raise HttpError(422, message, param="where") from None
    try:
        parsed = Filter.parse(conditions)
    except Cr5Error as error:
        raise HttpError(422, str(error).replace("`", ""), param="where") from None
    return parsed if parsed.conditions else None


def _find_language(index: Index, code: str) -> str:
    """The language of the index that a code in any spelling means, or a close one; responses say which it is."""
    lang = find_text_language(code, index.langs)
    if lang is None:
        raise HttpError(422, no_such_language("the index", quoted(code), index.langs))
    return lang


def _get(index: Index, document_id: str) -> IndexedDocument:
    for document in index.get([document_id]):
        return document
    raise HttpError(404, f"there is no document {quoted(document_id)} in the index; use an id that a search returned")
