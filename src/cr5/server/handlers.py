"""Answers: from an index and a request to what is sent back."""

import base64
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TypeAlias

import numpy as np

from cr5._typing import Array
from cr5.corpus.documents import Document
from cr5.corpus.languages import Guess
from cr5.index import query
from cr5.index.index import Index
from cr5.index.query import Entry, Hit
from cr5.index.snapshot import Generation
from cr5.index.stores.base import matrix, shown
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

    def view(now: Generation) -> Found:
        guess, hits = query.search(now, asked.q, asked.lang or None, asked.k, among, asked.measure)
        places = _places(atlas, now, now.model.encode([asked.q], guess.lang), hits)
        known = float(now.model.coverage([asked.q], guess.lang)[0])
        return _found(asked, began, asked.q, guess, known, hits, places, guessed=not asked.lang)

    return atlas.ask(view)


def similar(atlas: Atlas, asked: SimilarRequest) -> Found:
    """The documents nearest to one of the index."""
    began, index = time.perf_counter(), atlas.index
    among, entry = _among(index, asked.among), _entry(index, asked.id)

    def view(now: Generation) -> Found:
        hits = query.similar(now, asked.id, asked.k, among, asked.measure)
        places = _places(atlas, now, matrix(now.store.get([asked.id], ("vector",))["vector"]), hits)
        known = float(now.model.coverage([entry.text], entry.lang)[0])
        return _found(asked, began, entry.title or snippet(entry.text), Guess(entry.lang, 1.0), known, hits, places)

    return atlas.ask(view)


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

    def view(now: Generation) -> Info:
        counts = now.store.count()
        return Info(
            version=version,
            documents=counts,
            languages=now.model.langs,
            rank=now.model.settings.rank,
            measures=["csls", "cosine"],
            writable=writable,
            examples=_examples(atlas, now),
        )

    return atlas.ask(view)


def health(atlas: Atlas, version: str) -> Health:
    """That the index can be read."""
    atlas.index.get(["health"])
    return Health(version=version, generation=atlas.ask(lambda now: int(now.about["generation"])))


def figures(atlas: Atlas, metrics: Metrics) -> str:
    """What Prometheus reads."""
    return atlas.ask(lambda now: metrics.text(now.store.count(), now.about["generation"]))


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
    hits: Sequence[Hit] = (),
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


def _hit(hit: Hit, place: Place) -> HitShape:
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


def _places(atlas: Atlas, now: Generation, query: Array, hits: Sequence[Hit]) -> list[Place]:
    """Where a query (its vector in a row, or no row if it was deleted since) is on the map, and where its hits are."""
    plane = atlas.plane(now)
    places = plane.place(np.stack([hit.vector for hit in hits])) if hits else []
    return [*(plane.place(query) or [(0.0, 0.0)]), *places]


def _among(index: Index, codes: str | None) -> list[str] | None:
    langs = [code.strip() for code in (codes or "").split(",") if code.strip()]
    _check(index, langs)
    return list(dict.fromkeys(langs)) or None


def _check(index: Index, langs: Sequence[str]) -> None:
    for lang in langs:
        if lang not in index.langs:
            raise RefusedError(
                422, f"the index has no language {shown(lang)}; its languages are {', '.join(index.langs)}"
            )


def _entry(index: Index, name: str) -> Entry:
    for entry in index.get([name]):
        return entry
    raise RefusedError(404, f"there is no document {shown(name)} in the index; name the id of one that a search finds")


def _examples(atlas: Atlas, now: Generation) -> list[Example]:
    """Titles to begin with; one whose document has been deleted since is left out."""
    rows = now.store.get(atlas.examples(now), ("lang", "title")).to_pylist()
    return [Example(lang=row["lang"], text=snippet(row["title"], TITLE)) for row in rows if row["title"].strip()]
