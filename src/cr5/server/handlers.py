"""Answers: from an index and a request to what is sent back."""

import base64
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TypeAlias

import numpy as np

from cr5._typing import Array
from cr5.corpus.documents import Document
from cr5.corpus.identification import Guess
from cr5.errors import quoted
from cr5.index import Background, Index, IndexedDocument, SearchHit
from cr5.model import Cr5
from cr5.retrieval.passages import passage, reason
from cr5.server.limits import TEXT, RefusedError
from cr5.server.metrics import Metrics
from cr5.server.schemas import (
    AddedShape,
    Deleted,
    DocumentShape,
    Embedded,
    Embedding,
    Embeddings,
    EmbeddingsRequest,
    EmbedRequest,
    Example,
    Explained,
    ExplainRequest,
    Found,
    Health,
    HitShape,
    Info,
    NewDocuments,
    SearchRequest,
    SimilarRequest,
    Usage,
)
from cr5.server.state import Atlas

Place: TypeAlias = tuple[float, float]

SNIPPET = 300  # characters of a text that a hit shows
PASSAGE, BEFORE = 200, 60  # and of the passage that explains it, which is read as a whole, and before its first word
TITLE = 80  # and of a title that is an example


def search(atlas: Atlas, asked: SearchRequest) -> Found:
    """The documents nearest to a text; a text without a letter or digit has no language that could be guessed."""
    began, index = time.perf_counter(), atlas.index
    among = _among(index, asked.among)
    _check(index, [asked.lang] if asked.lang else [])
    if not any(letter.isalnum() for letter in asked.q):
        return _found(asked, began, asked.q, Guess(asked.lang or "", 0.0))
    result = index.search(asked.q, asked.lang or None, k=asked.k, langs=among, measure=asked.measure)
    query = result.query
    places = _places(atlas, result.background, query.vector, result.hits)
    guess = Guess(query.lang, query.confidence)
    return _found(asked, began, asked.q, guess, query.coverage, result.hits, places, guessed=query.guessed)


def similar(atlas: Atlas, asked: SimilarRequest) -> Found:
    """The documents nearest to one of the index."""
    began, index = time.perf_counter(), atlas.index
    among, entry = _among(index, asked.among), _entry(index, asked.id)
    result = index.similar(asked.id, k=asked.k, langs=among, measure=asked.measure)
    places = _places(atlas, result.background, result.query.vector, result.hits)
    title, known = entry.title or snippet(entry.text), result.query.coverage
    return _found(asked, began, title, Guess(entry.lang, 1.0), known, result.hits, places)


def explain(atlas: Atlas, asked: ExplainRequest) -> Explained:
    """The words that make a document similar to a text or a document; of long texts, those of the nearest part."""
    index = atlas.index
    if bool(asked.q) == bool(asked.of):
        raise RefusedError(422, "give either q, a text, or of, the id of a document")
    _check(index, [asked.lang] if asked.lang else [])
    entry = _entry(index, asked.id)
    if asked.of:
        other = _entry(index, asked.of)
        text, lang = other.text, other.lang
    else:
        text = asked.q or ""
        lang = asked.lang or index.model.guess_language(text).lang
    why = reason(index.model, text[:TEXT], lang, entry.text[:TEXT], entry.lang)
    return Explained(
        similarity=why.similarity,
        snippet=passage(entry.text, why.words_b, PASSAGE, BEFORE, why.begin, why.end),
        query_words=list(why.words_a),
        document_words=list(why.words_b),
        pairs=list(why.pairs),
    )


def document(atlas: Atlas, name: str) -> DocumentShape:
    """A document by its id."""
    entry = _entry(atlas.index, name)
    return DocumentShape(**asdict(entry) | {"url": safe(entry.url)})


def add(index: Index, asked: NewDocuments) -> AddedShape:
    """Put documents into the index."""
    for number, item in enumerate(asked.documents):
        for name in ("concept", "lang", "text"):
            if not getattr(item, name).strip():
                raise RefusedError(422, f"documents.{number}.{name} is blank; fill it in")
    added = index.add(Document(**item.model_dump()) for item in asked.documents)
    return AddedShape(**vars(added))


def delete(index: Index, name: str) -> Deleted:
    """Take a document out of the index."""
    return Deleted(deleted=index.delete([name]))


def embed(atlas: Atlas, asked: EmbedRequest) -> Embedded:
    """The vectors of texts in one language."""
    _check(atlas.index, [asked.lang])
    model = atlas.index.model
    return Embedded(
        vectors=model.encode(asked.texts, asked.lang).tolist(), known=model.coverage(asked.texts, asked.lang).tolist()
    )


def embeddings(atlas: Atlas, asked: EmbeddingsRequest) -> Embeddings:
    """The vectors of texts, each in a language of its own."""
    model, texts = atlas.index.model, [asked.input] if isinstance(asked.input, str) else asked.input
    rank = model.settings.rank
    if asked.dimensions not in (None, rank):
        raise RefusedError(422, f"dimensions is {asked.dimensions}; this model has {rank}, leave it out")
    fixed = asked.model.removeprefix("cr5:") if asked.model.startswith("cr5:") else None
    if fixed is not None:
        _check(atlas.index, [fixed])
    vectors, words = encode(model, texts, [fixed] * len(texts))
    data = [
        Embedding(index=i, embedding=packed(row) if asked.encoding_format == "base64" else row.tolist())
        for i, row in enumerate(vectors)
    ]
    return Embeddings(data=data, model=asked.model, usage=Usage(prompt_tokens=words, total_tokens=words))


def info(atlas: Atlas, version: str, writable: bool) -> Info:
    """What the index holds."""
    index = atlas.index
    return Info(
        version=version,
        documents=index.count(),
        languages=index.langs,
        rank=index.model.settings.rank,
        measures=["csls", "cosine"],
        writable=writable,
        examples=[Example(lang=e.lang, text=snippet(e.title, TITLE)) for e in index.example_queries()],
    )


def health(atlas: Atlas, version: str) -> Health:
    """That the index can be read."""
    atlas.index.get(["health"])
    return Health(version=version, generation=atlas.index.snapshot_number)


def figures(atlas: Atlas, metrics: Metrics) -> str:
    """What Prometheus reads."""
    return metrics.text(atlas.index.count(), atlas.index.snapshot_number)


# Pure


def encode(model: Cr5, texts: Sequence[str], langs: Sequence[str | None]) -> tuple[Array, int]:
    """Texts, each of its language or, for None, of the one guessed -> texts x rank, and the number of words."""
    vectors, guesses = model.encode_mixed(texts, langs)
    words = 0
    for lang in {guess.lang for guess in guesses}:
        some = [text for text, guess in zip(texts, guesses, strict=True) if guess.lang == lang]
        words += len(model.settings.tokeniser(some, lang).ids)
    return vectors, words


def packed(vector: Array) -> str:
    """A vector as OpenAI's clients unpack it."""
    return base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()


def snippet(text: str, size: int = SNIPPET) -> str:
    """The beginning of a text in one line, cut behind a word."""
    line = " ".join(text[: 2 * size].split())
    if len(line) <= size and len(text) <= 2 * size:
        return line
    whole, space, _ = line[:size].rpartition(" ")
    return (whole if space else line[:size]) + "…"


def safe(url: str) -> str:
    """An address that may become a link; "" for any other, such as javascript:."""
    return url if url.lower().startswith(("http://", "https://")) else ""


# Parts


def _found(
    asked: SearchRequest | SimilarRequest,
    began: float,
    query: str,
    guess: Guess,
    known: float = 0.0,
    hits: Sequence[SearchHit] = (),
    places: Sequence[Place] = ((0.0, 0.0),),
    *,
    guessed: bool = False,
) -> Found:
    """Hits as they are sent back; ``places`` are those of the query and of each hit."""
    at, *others = places
    return Found(
        query=query,
        lang=guess.lang,
        guessed=guessed,
        confidence=guess.confidence,
        known=known,
        measure=asked.measure,
        milliseconds=round(1000 * (time.perf_counter() - began), 3),
        hits=[_hit(hit, place) for hit, place in zip(hits, others, strict=True)],
        at=at,
    )


def _hit(hit: SearchHit, place: Place) -> HitShape:
    x, y = place
    return HitShape(
        id=hit.id,
        concept=hit.concept,
        lang=hit.lang,
        title=hit.title,
        url=safe(hit.url),
        snippet=snippet(hit.text),
        score=hit.score,
        cosine=hit.cosine,
        x=x,
        y=y,
    )


def _places(atlas: Atlas, background: Background, query: Array, hits: Sequence[SearchHit]) -> list[Place]:
    """Where a query is on the map, and where its hits are."""
    return atlas.plane(background).place(np.stack([query, *(hit.vector for hit in hits)]))


def _among(index: Index, codes: str | None) -> list[str] | None:
    langs = [code.strip() for code in (codes or "").split(",") if code.strip()]
    _check(index, langs)
    return list(dict.fromkeys(langs)) or None


def _check(index: Index, langs: Sequence[str]) -> None:
    for lang in langs:
        if lang not in index.langs:
            raise RefusedError(
                422, f"the index has no language {quoted(lang)}; its languages are {', '.join(index.langs)}"
            )


def _entry(index: Index, name: str) -> IndexedDocument:
    for entry in index.get([name]):
        return entry
    raise RefusedError(404, f"there is no document {quoted(name)} in the index; name the id of one that a search finds")
