"""The warm-up of a server: requests like those of its first clients, which load and compile what these need."""

import logging

from cr5.errors import Cr5Error
from cr5.index import Index
from cr5.index.warm_up import compile_writes
from cr5.server import handlers, openai_api, schemas
from cr5.server.handlers import EXAMPLE_CHARS
from cr5.server.readiness import Readiness
from cr5.server.settings import ServerSettings
from cr5.server.state import ServerState

log = logging.getLogger("cr5.server")


def warm_up(state: ServerState, readiness: Readiness, settings: ServerSettings) -> None:
    """Answer requests in each language until all have been answered, or until the server stops.

    A failed request, for example because the database is not up yet, is retried.
    """
    while not readiness.stopping.is_set():
        try:
            for lang in state.index.langs:
                if readiness.stopping.is_set():
                    return
                _answer_requests(state, lang)
            if not settings.read_only:
                _prepare_writes(state)
        except Exception as error:
            if isinstance(error, Cr5Error):
                log.error("%s", error)
            elif not readiness.stopping.is_set():
                seconds = settings.warm_up_retry_seconds
                log.warning("a warm-up request failed; trying again in %g s", seconds, exc_info=True)
            readiness.stopping.wait(settings.warm_up_retry_seconds)
        else:
            readiness.set_warm()
            return


def fill_cache(index: Index) -> None:
    """Compile everything once, so that servers that start later find it in the cache (see ``Containerfile``)."""
    state = ServerState(index)
    for lang in index.langs:
        _answer_requests(state, lang)
    compile_writes(index)


def _answer_requests(state: ServerState, lang: str) -> None:
    """Search for a text of the index, also with a spelling mistake; and what a client may do with a hit."""
    text = _text(state.index, lang)
    request = schemas.SearchBody(q=text, lang=lang, group="concept")
    hits = handlers.search(state, request).hits
    for changes in ({"lang": None}, {"q": misspelt(text)}, {"mode": "dense", "group": None}):
        handlers.search(state, request.model_copy(update=changes))
    for hit in hits[:1]:
        handlers.similar(state, schemas.SimilarRequest(id=hit["id"]))
        handlers.explain(state, schemas.ExplainRequest(id=hit["id"], q=text, lang=lang))
    handlers.embed(state, schemas.EmbedRequest(texts=[text], lang=lang))
    openai_api.embeddings(state, schemas.EmbeddingsRequest(input=text, allow_zeros=True))


def _text(index: Index, lang: str) -> str:
    """The title of some document in a language, or the beginning of its text."""
    sample = index.background.vectors.get(lang)
    hits = [] if sample is None else index.nearest(sample[:1], lang, k=1, langs=[lang])
    for hit in (hit for found in hits for hit in found):
        return hit.title or handlers.beginning(hit.text, EXAMPLE_CHARS)
    return "a text"


def misspelt(text: str) -> str:
    """The longest word of a text with the letter in its middle three times, which hardly any language has."""
    word = max(text.split() or [text], key=len)
    middle = len(word) // 2
    return word[:middle] + 3 * word[middle : middle + 1] + word[middle + 1 :]


def _prepare_writes(state: ServerState) -> None:
    try:
        compile_writes(state.index)
    except OSError as error:  # no space for temporary files; the first write is slower then
        log.warning("the first write will be slow, because no temporary file can be written (%s)", error.strerror)
