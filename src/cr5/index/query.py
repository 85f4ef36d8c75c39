"""A query: a text with its language, tokens, vector and coverage, computed once and used by every step of a search."""

import re
from dataclasses import dataclass, field

from cr5._typing import Array
from cr5.model import Cr5
from cr5.model.language_encoder import Coverage

_QUOTED = re.compile(r'"([^"]+)"|“([^”]+)”|„([^“”]+)[“”]|«([^»]+)»')


@dataclass(frozen=True, slots=True)
class Query:
    """A text to search for.

    ``lang`` was either ``guessed``, with a ``confidence`` from 0 to 1, or given, with confidence 1. ``vector`` (rank)
    has length 1, or is all zeros if ``model``, which encoded the text, has no vector for any token. ``coverage`` has
    the shares of the tokens that it knows, encodes by their n-grams, and does not know.
    """

    text: str
    lang: str
    confidence: float
    guessed: bool
    tokens: list[str] = field(repr=False)
    vector: Array = field(compare=False, repr=False)
    coverage: Coverage[float]
    model: Cr5 = field(compare=False, repr=False)

    @property
    def phrases(self) -> tuple[tuple[str, ...], ...]:
        """The tokens of each part of the text in quotation marks, which a document must have word for word.

        There are none if less than half of the tokens are quoted: then the text is a sentence that quotes something.
        """
        parts = [next(filter(None, match.groups())) for match in _QUOTED.finditer(self.text)]
        tokens = [tuple(self.model.settings.tokeniser.words(part, self.lang)) for part in parts]
        quoted = sum(map(len, tokens))
        return tuple(phrase for phrase in tokens if phrase) if 2 * quoted >= len(self.tokens) else ()


def make_query(model: Cr5, query: str | Query, lang: str | None = None) -> Query:
    """Tokenise and encode a text in ``lang``, or in the language that the model guesses if it is None.

    A query is returned as it is, unless another model has encoded it.
    """
    if isinstance(query, Query):
        return query if query.model is model else make_query(model, query.text, None if query.guessed else query.lang)
    language, confidence = (lang, 1.0) if lang is not None else model.guess_language(query)
    tokens, vector, coverage = model.encode_text(query, language)
    return Query(query, language, confidence, lang is None, tokens, vector, coverage, model)
