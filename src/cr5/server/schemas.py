"""The schemas of requests and responses, which also make up the OpenAPI description."""

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from cr5.retrieval.top_k import Measure
from cr5.server import settings as limits

_NO_NUL_PATTERN = r"^[^\x00]*$"  # stores cannot hold NUL characters
_URL_PATTERN = r"^(https?://[^\x00-\x20]*)?$"
Id: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=limits.MAX_QUERY_CHARS, description="The id of a document, as in a hit.")
]
QueryText: TypeAlias = Annotated[str, Field(max_length=limits.MAX_QUERY_CHARS)]
Lang: TypeAlias = Annotated[
    str | None,
    Field(max_length=limits.MAX_LANGUAGE_CHARS, description="Language of the query; guessed if missing or empty."),
]
SearchIn: TypeAlias = Annotated[
    str | None,
    Field(
        max_length=limits.MAX_QUERY_CHARS, alias="in", description="Languages to search, e.g. da,en; all by default."
    ),
]
Text: TypeAlias = Annotated[str, Field(max_length=limits.MAX_TEXT_CHARS)]
Count: TypeAlias = Annotated[int, Field(ge=1, le=limits.MAX_HITS, description="The number of hits.")]


class StrictRequest(BaseModel):
    """A request that rejects unknown names."""

    model_config = ConfigDict(extra="forbid")


# Requests


class SearchRequest(StrictRequest):
    """A search for documents by a text."""

    q: Annotated[QueryText, Field(min_length=1, description="Any text.")]
    lang: Lang = None
    search_in: SearchIn = None
    k: Count = 10
    measure: Measure = "csls"


class SimilarRequest(StrictRequest):
    """A search for documents by a document of the index."""

    id: Id
    search_in: SearchIn = None
    k: Count = 10
    measure: Measure = "csls"


class ExplainRequest(StrictRequest):
    """The document ``id`` to be compared with the text ``q`` or with the document ``of``."""

    id: Id
    q: Annotated[QueryText | None, Field(description="A text; give this or `of`.")] = None
    lang: Lang = None
    of: Annotated[
        str | None, Field(max_length=limits.MAX_QUERY_CHARS, description="Another document; give this or `q`.")
    ] = None


class NewDocument(StrictRequest):
    """A document to add; it replaces the document with the same concept and language, if there is one."""

    concept: Annotated[str, Field(min_length=1, max_length=limits.MAX_CONCEPT_CHARS, pattern=_NO_NUL_PATTERN)]
    lang: Annotated[str, Field(min_length=1, max_length=limits.MAX_LANGUAGE_CHARS, pattern=_NO_NUL_PATTERN)]
    text: Annotated[Text, Field(min_length=1)]
    title: Annotated[str, Field(max_length=limits.MAX_TITLE_CHARS)] = ""
    url: Annotated[
        str, Field(max_length=limits.MAX_URL_CHARS, pattern=_URL_PATTERN, description="An http or https address.")
    ] = ""


class NewDocuments(StrictRequest):
    """Documents to add to the index."""

    documents: Annotated[list[NewDocument], Field(min_length=1, max_length=limits.MAX_TEXTS)]


class EmbedRequest(StrictRequest):
    """Texts of one language to embed."""

    texts: Annotated[list[Text], Field(min_length=1, max_length=limits.MAX_TEXTS)]
    lang: Annotated[str, Field(max_length=limits.MAX_LANGUAGE_CHARS)]


class EmbeddingsRequest(BaseModel):
    """Texts to embed, in the format of OpenAI's API.

    The language of each text is guessed, unless ``model`` names one: "cr5:it".
    """

    model_config = ConfigDict(extra="ignore")  # clients of OpenAI send more parameters

    input: Annotated[list[Text], Field(min_length=1, max_length=limits.MAX_TEXTS)] | Text
    model: Annotated[str, Field(max_length=limits.MAX_QUERY_CHARS)] = "cr5"
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None


# Responses


class ErrorResponse(BaseModel):
    """What is wrong, and what to do about it."""

    error: str


class DocumentFields(BaseModel):
    """What hits and documents have in common."""

    id: str
    concept: str
    lang: str
    title: str
    url: str


class HitResponse(DocumentFields):
    """A document that was found; x and y are its position on the map."""

    snippet: str
    score: float
    cosine: float
    x: float
    y: float


class SearchResponse(BaseModel):
    """Hits, best first; ``known`` is the share of the query's words in the vocabulary, ``at`` its map position.

    A query without a letter or digit finds nothing, and its ``lang`` is empty.
    """

    query: str
    lang: str
    guessed: bool
    confidence: float
    known: float
    measure: Measure
    milliseconds: float
    hits: list[HitResponse]
    at: tuple[float, float]


class ExplainResponse(BaseModel):
    """Words with their contributions to the similarity; a pair is one word of the query and one of the document.

    ``snippet`` is the passage of the document that contains its most important words. For a text longer than 6,000
    characters, the words come from the part most similar to the other text; ``similarity`` is that of the full text.
    """

    similarity: float
    snippet: str
    query_words: list[tuple[str, float]]
    document_words: list[tuple[str, float]]
    pairs: list[tuple[str, str, float]]


class DocumentResponse(DocumentFields):
    """A document as it was added."""

    text: str


class AddResponse(BaseModel):
    """The number of documents that were new, replaced an older version (``renewed``) or were the same as before.

    By language, documents that were left out: ``blank`` have no word in the vocabulary, ``unknown`` are in a language
    that the model does not know.
    """

    new: int
    renewed: int
    unchanged: int
    blank: dict[str, int]
    unknown: dict[str, int]


class DeleteResponse(BaseModel):
    """The number of documents deleted: 1, or 0 if there was none with the id."""

    deleted: int


class EmbedResponse(BaseModel):
    """Unit vectors (zeros for a text without a known word), and the share of each text's words in the vocabulary."""

    vectors: list[list[float]]
    known: list[float]


class EmbeddingItem(BaseModel):
    """One vector: numbers, or base64 of little-endian float32."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """The number of words in the input."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsResponse(BaseModel):
    """Vectors in the format of OpenAI's API."""

    object: Literal["list"] = "list"
    data: list[EmbeddingItem]
    model: str
    usage: Usage


class ExampleResponse(BaseModel):
    """A title that the page offers as a first query."""

    lang: str
    text: str


class InfoResponse(BaseModel):
    """The contents of the index; ``documents`` by language."""

    version: str
    documents: dict[str, int]
    languages: list[str]
    rank: int
    measures: list[Measure]
    writable: bool
    examples: list[ExampleResponse]


class HealthResponse(BaseModel):
    """The server runs and can read its index; ``generation`` is the number of the active snapshot."""

    status: Literal["ok"] = "ok"
    version: str
    generation: int
