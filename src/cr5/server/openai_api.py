"""The paths under /v1, which answer clients of OpenAI's API: embeddings, models and errors in its format."""

import base64
from typing import Any

import numpy as np

from cr5._typing import Array
from cr5.corpus.languages import find_text_language
from cr5.corpus.texts import positions
from cr5.index import Index
from cr5.index.snapshot import INDEX_FILE
from cr5.message_parts import quoted
from cr5.server import schemas
from cr5.server.errors import HttpError
from cr5.server.state import ServerState

MODEL = "cr5"  # guesses the language of each text; "cr5:it" encodes all of them as Italian
ERROR_CODES = {
    401: "invalid_api_key", 404: "unknown_url", 405: "method_not_supported", 413: "request_too_large",
    429: "rate_limit_exceeded", 503: "service_unavailable",
}  # fmt: skip


def embeddings(state: ServerState, request: schemas.EmbeddingsRequest) -> schemas.EmbeddingsResponse:
    """The vectors of texts in any language; a text without a known word is an error unless ``allow_zeros``."""
    model, texts = state.index.model, [request.input] if isinstance(request.input, str) else request.input
    rank = model.rank
    if request.dimensions not in (None, rank):
        message = f"dimensions is {request.dimensions}, but the model has {rank}; leave it out"
        raise HttpError(422, message, param="dimensions")
    lang = _language(state.index, request.model)
    langs = [guess.lang for guess in model.guess_languages(texts)] if lang is None else [lang] * len(texts)
    vectors = model.encode(texts, langs)
    if not request.allow_zeros:
        _require_known_words(request.input, langs, vectors)
    tokeniser = model.settings.tokeniser
    words = sum(len(tokeniser([texts[i] for i in rows], code).ids) for code, rows in positions(langs).items())
    as_base64 = request.encoding_format == "base64"
    data = [
        schemas.EmbeddingItem(index=i, embedding=to_base64(row) if as_base64 else row.tolist())
        for i, row in enumerate(vectors)
    ]
    usage = schemas.Usage(prompt_tokens=words, total_tokens=words)
    return schemas.EmbeddingsResponse(data=data, model=request.model, usage=usage)


def models(state: ServerState) -> schemas.ModelsResponse:
    """The model that guesses languages, and one for each language."""
    created = _created(state.index)
    return schemas.ModelsResponse(
        data=[schemas.ModelResponse(id=name, created=created) for name in _model_names(state.index)]
    )


def model(state: ServerState, name: str) -> schemas.ModelResponse:
    """One of the models."""
    _language(state.index, name)
    return schemas.ModelResponse(id=name, created=_created(state.index))


def error_response(error: HttpError) -> tuple[int, dict[str, Any]]:
    """The status and the body of an error as OpenAI's API has them: values that are not valid are status 400."""
    status = 400 if error.status == 422 else error.status
    kind = "requests" if status == 429 else "invalid_request_error" if status < 500 else "server_error"
    code = error.code or ERROR_CODES.get(status)
    return status, {"error": {"message": error.message, "type": kind, "param": error.param, "code": code}}


def to_base64(vector: Array) -> str:
    """A vector as base64 of little-endian float32, the format that OpenAI's clients decode."""
    return base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()


def _require_known_words(given: list[str] | str, langs: list[str], vectors: Array) -> None:
    """An error that names the first text whose vector is zero."""
    zero = np.flatnonzero(~vectors.any(axis=1)).tolist()
    if zero:
        first = zero[0]
        name, text = ("input", given) if isinstance(given, str) else (f"input.{first}", given[first])
        message = (
            f"{name} is {quoted(text)}, which has no word or n-gram that the model knows in {langs[first]}; "
            'leave it out, or send "allow_zeros": true for a vector of zeros'
        )
        raise HttpError(422, message, code="no_known_word", param=name)


def _model_names(index: Index) -> list[str]:
    return [MODEL, *(f"{MODEL}:{lang}" for lang in index.langs)]


def _language(index: Index, name: str) -> str | None:
    """The language that the name of a model fixes, in any spelling; None for the model that guesses it."""
    prefix, colon, code = name.partition(":")
    lang = find_text_language(code, index.langs) if colon else None
    if prefix != MODEL or (colon and lang is None):
        listed = ", ".join(_model_names(index))
        message = f"there is no model {quoted(name)}; the models are {listed}"
        raise HttpError(404, message, code="model_not_found", param="model")
    return lang


def _created(index: Index) -> int:
    """When the index was last brought up to date, in seconds since 1970."""
    return int((index.folder / INDEX_FILE).stat().st_mtime)
