"""The shapes of requests and answers, as OpenAPI shows them."""

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from cr5.retrieval.top_k import Measure
from cr5.server.limits import CODE, CONCEPT, MOST, QUERY, TEXT, TEXTS, TITLE, URL

# No store can hold a NUL character.
_WITHOUT_NUL = r"^[^\x00]*$"
Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=QUERY, description="As a hit names it.")]
Query: TypeAlias = Annotated[str, Field(max_length=QUERY)]
Lang: TypeAlias = Annotated[
    str | None, Field(max_length=CODE, description="Language of the query; guessed where it is missing or empty.")
]
Among: TypeAlias = Annotated[
    str | None, Field(max_length=QUERY, alias="in", description="Languages to look in, e.g. da,en; all by default.")
]
Text: TypeAlias = Annotated[str, Field(max_length=TEXT)]
Count: TypeAlias = Annotated[int, Field(ge=1, le=MOST, description="How many hits.")]


class Asked(BaseModel):
    """A request; a name that it does not know is a mistake."""

    model_config = ConfigDict(extra="forbid")


# Requests


class SearchRequest(Asked):
    """Find documents for a text."""

    q: Annotated[Query, Field(min_length=1, description="Any text.")]
    lang: Lang = None
    among: Among = None
    k: Count = 10
    measure: Measure = "csls"


class SimilarRequest(Asked):
    """Find documents like one of the index."""

    id: Id
    among: Among = None
    k: Count = 10
    measure: Measure = "csls"


class ExplainRequest(Asked):
    """Why a document is near a text ``q``, or near the document ``of``."""

    id: Id
    q: Annotated[Query | None, Field(description="A text; or else give of.")] = None
    lang: Lang = None
    of: Annotated[str | None, Field(max_length=QUERY, description="Another document; or else give q.")] = None


class NewDocument(Asked):
    """A text about a concept in a language; it takes the place of the one with the same concept and language."""

    concept: Annotated[str, Field(min_length=1, max_length=CONCEPT, pattern=_WITHOUT_NUL)]
    lang: Annotated[str, Field(min_length=1, max_length=CODE, pattern=_WITHOUT_NUL)]
    text: Annotated[Text, Field(min_length=1)]
    title: Annotated[str, Field(max_length=TITLE)] = ""
    url: Annotated[
        str, Field(max_length=URL, pattern=r"^(https?://[^\x00-\x20]*)?$", description="Of http or https.")
    ] = ""


class NewDocuments(Asked):
    """Documents to put into the index."""

    documents: Annotated[list[NewDocument], Field(min_length=1, max_length=TEXTS)]


class EmbedRequest(Asked):
    """Texts of one language."""

    texts: Annotated[list[Text], Field(min_length=1, max_length=TEXTS)]
    lang: Annotated[str, Field(max_length=CODE)]


class EmbeddingsRequest(BaseModel):
    """Texts as OpenAI's interface takes them. ``model`` may fix the language: "cr5:it"; it is guessed otherwise."""

    model_config = ConfigDict(extra="ignore")  # others' clients send more than they need

    input: Annotated[list[Text], Field(min_length=1, max_length=TEXTS)] | Text
    model: Annotated[str, Field(max_length=QUERY)] = "cr5"
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    user: str | None = None


# Answers


class Problem(BaseModel):
    """What is wrong, and what to do."""

    error: str


class HitShape(BaseModel):
    """A document that was found; x and y are its place on the map."""

    id: str
    concept: str
    lang: str
    title: str
    url: str
    snippet: str
    score: float
    cosine: float
    x: float
    y: float


class Found(BaseModel):
    """Hits, best first; ``known`` is the share of the query's words known to the model, ``at`` its place on the map.

    A query without a letter or digit finds nothing, and ``lang`` is empty.
    """

    query: str
    lang: str
    guessed: bool
    confidence: float
    known: float
    measure: Measure
    milliseconds: float
    hits: list[HitShape]
    at: tuple[float, float]


class Explained(BaseModel):
    """Words and what they add to the similarity; pairs are one word of the query and one of the document.

    ``snippet`` is the passage of the document where those of its words stand that add most. Of a text longer than 6,000
    characters, the words are those of the part that is nearest to the other text; ``similarity`` is that of the whole.
    """

    similarity: float
    snippet: str
    query_words: list[tuple[str, float]]
    document_words: list[tuple[str, float]]
    pairs: list[tuple[str, str, float]]


class DocumentShape(BaseModel):
    """A document as it was given."""

    id: str
    concept: str
    lang: str
    title: str
    url: str
    text: str


class AddedShape(BaseModel):
    """What became of documents. ``blank``: no word known; ``unknown``: no such language; both by language."""

    new: int
    renewed: int
    unchanged: int
    blank: dict[str, int]
    unknown: dict[str, int]


class Deleted(BaseModel):
    """How many documents there were with the id."""

    deleted: int


class Embedded(BaseModel):
    """Unit vectors, zeros for a text without a known word, and the share of words known."""

    vectors: list[list[float]]
    known: list[float]


class Embedding(BaseModel):
    """One vector, as numbers or as base64 of little-endian float32."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """Words of the input."""

    prompt_tokens: int
    total_tokens: int


class Embeddings(BaseModel):
    """Vectors as OpenAI's interface gives them."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: Usage


class Example(BaseModel):
    """A title to begin with."""

    lang: str
    text: str


class Info(BaseModel):
    """What the index holds."""

    version: str
    documents: dict[str, int]
    languages: list[str]
    rank: int
    measures: list[Measure]
    writable: bool
    examples: list[Example]


class Health(BaseModel):
    """That the server is there and its index can be read."""

    status: Literal["ok"] = "ok"
    version: str
    generation: int
