"""A query: a text with its language, tokens, vector and coverage, computed once and used by every step of a search."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from cr5._typing import Array
from cr5.corpus.languages import find_language, find_text_language, no_such_language
from cr5.corpus.texts import one_or_several
from cr5.errors import Cr5Error
from cr5.index.snapshot import Snapshot
from cr5.message_parts import quoted
from cr5.model import Cr5
from cr5.model.language_encoder import Coverage
from cr5.model.trained_languages import warn_of_close_language

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


def index_language(snapshot: Snapshot, lang: str) -> str:
    """The language of the index that a code in any spelling means or, with a warning, a close one; else an error."""
    found = find_language(lang, snapshot.model.langs)
    if found is None and (found := find_text_language(lang, snapshot.model.langs)) is not None:
        warn_of_close_language(lang, found)
    if found is None:
        raise Cr5Error(no_such_language("the index", quoted(lang), snapshot.model.langs))
    return found


def index_languages(snapshot: Snapshot, langs: str | Collection[str] | None) -> list[str] | None:
    """The languages of the index that codes mean, each once; None for all languages."""
    if langs is None:
        return None
    return list(dict.fromkeys(index_language(snapshot, lang) for lang in one_or_several(langs)))


def encode_query(snapshot: Snapshot, query: str | Query, lang: str | None) -> Query:
    """Tokenise and encode a text in ``lang``, or in the language that the model guesses if it is None.

    A query is returned as it is, unless another model has encoded it.
    """
    model, language = snapshot.model, None if lang is None else index_language(snapshot, lang)
    if isinstance(query, Query):
        if query.model is model:
            return query
        language, query = None if query.guessed else query.lang, query.text
    guessed = language is None
    language, confidence = model.guess_language(query) if language is None else (language, 1.0)
    tokens, vector, coverage = model.encode_text(query, language)
    return Query(query, language, confidence, guessed, tokens, vector, coverage, model)
