"""A query: a text with its language, tokens, vector and coverage, computed once and used by every step of a search."""

from dataclasses import dataclass, field

from cr5._typing import Array
from cr5.model import Cr5


@dataclass(frozen=True, slots=True)
class Query:
    """A text to search for.

    ``lang`` was either ``guessed``, with a ``confidence`` from 0 to 1, or given, with confidence 1. ``vector`` (rank)
    has length 1, or is all zeros if ``model``, which encoded the text, has no vector of any token. ``coverage`` is
    the share of the tokens that it knows.
    """

    text: str
    lang: str
    confidence: float
    guessed: bool
    tokens: list[str] = field(repr=False)
    vector: Array = field(compare=False, repr=False)
    coverage: float
    model: Cr5 = field(compare=False, repr=False)


def make_query(model: Cr5, query: str | Query, lang: str | None = None) -> Query:
    """Tokenise and encode a text in ``lang``, or in the language that the model guesses if it is None.

    A query is returned as it is, unless another model has encoded it.
    """
    if isinstance(query, Query):
        return query if query.model is model else make_query(model, query.text, None if query.guessed else query.lang)
    language, confidence = (lang, 1.0) if lang is not None else model.guess_language(query)
    tokens, vector, coverage = model.encode_text(query, language)
    return Query(query, language, confidence, lang is None, tokens, vector, coverage, model)
