"""The schemas of requests and responses, which also make up the OpenAPI description."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticKnownError
from typing_extensions import TypedDict  # which pydantic needs before Python 3.12

from cr5.corpus.fields import MAX_FIELDS
from cr5.index import Mode
from cr5.retrieval.top_k import Measure
from cr5.server import limits


def _no_boolean(error_type: Literal["int_type", "float_type"]) -> BeforeValidator:
    """A check that a value is not true or false, which Python takes for 1 and 0."""

    def check(value: object) -> object:
        if isinstance(value, bool):
            raise PydanticKnownError(error_type)
        return value

    return BeforeValidator(check)


_NO_CONTROL_PATTERN = r"^[^\x00-\x1f\x7f-\x9f]*$"  # of ids, concepts and languages
_URL_PATTERN = r"^(https?://[^\x00-\x20]*)?$"
Id: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=limits.MAX_QUERY_CHARS, description="The id of a document, as in a hit.")
]
QueryText: TypeAlias = Annotated[str, Field(max_length=limits.MAX_QUERY_CHARS)]
Lang: TypeAlias = Annotated[
    str | None,
    Field(max_length=limits.MAX_LANGUAGE_CHARS, description="Language of the query; guessed if missing or empty."),
]
LanguageCode: TypeAlias = Annotated[str, Field(max_length=limits.MAX_LANGUAGE_CHARS)]
SearchIn: TypeAlias = Annotated[
    str | None,
    Field(
        max_length=limits.MAX_QUERY_CHARS, alias="in", description="Languages to search, e.g. da,en; all by default."
    ),
]
Text: TypeAlias = Annotated[str, Field(max_length=limits.MAX_TEXT_CHARS)]
Integer: TypeAlias = Annotated[int, _no_boolean("int_type")]
Number: TypeAlias = Annotated[float, _no_boolean("float_type")]
HitCount: TypeAlias = Annotated[Integer, Field(ge=1, le=limits.MAX_HITS, description="The number of hits.")]


class StrictRequest(BaseModel):
    """A request that rejects unknown names; an error names the first one only, since each costs time and memory."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_further_unknown_names(cls, value: Any) -> Any:
        if not isinstance(value, dict) or len(value) <= len(cls.model_fields):
            return value
        names = {field.alias or name for name, field in cls.model_fields.items()}
        first = next(name for name in value if name not in names)
        return {name: item for name, item in value.items() if name in names or name == first}


# Requests


class TextSearch(StrictRequest):
    """What a search by a text takes, however it is sent."""

    q: Annotated[QueryText, Field(min_length=1, description="Any text; a part in double quotes is a phrase.")]
    lang: Lang = None
    k: HitCount = 10
    offset: Annotated[
        Integer,
        Field(ge=0, le=limits.MAX_DEPTH - 1, description=f"Hits to skip; k + offset is at most {limits.MAX_DEPTH:,}."),
    ] = 0
    mode: Annotated[
        Mode,
        Field(description="Words and vectors together; vectors alone; or words alone, in the language of the query."),
    ] = "hybrid"
    measure: Annotated[Measure, Field(description="How vectors are compared.")] = "csls"
    group: Annotated[
        Literal["concept"] | None, Field(description="One hit for each concept, with its other documents as versions.")
    ] = None
    prefer: Annotated[
        LanguageCode | None,
        Field(description="The language that comes first among hits and versions of nearly equal score."),
    ] = None
    min_score: Annotated[Number, Field(allow_inf_nan=False, description="The lowest score of a hit.")] = 0.0
    sort: Annotated[
        str | None,
        Field(
            max_length=limits.MAX_QUERY_CHARS,
            pattern="^-?[^-]|^--.",
            description="A field to sort the hits by, -year for the largest first; by score if missing.",
        ),
    ] = None


class SearchRequest(TextSearch):
    """A search for documents by a text, in the query string."""

    search_in: SearchIn = None
    where: Annotated[
        str | None,
        Field(
            max_length=limits.MAX_QUERY_CHARS,
            description='Conditions on the fields of documents, a JSON object: {"year": {">=": 2000}}.',
        ),
    ] = None


class SearchBody(TextSearch):
    """A search for documents by a text, in the body."""

    search_in: Annotated[
        Annotated[str, Field(max_length=limits.MAX_QUERY_CHARS)]
        | Annotated[list[LanguageCode], Field(max_length=limits.MAX_LANGUAGES, fail_fast=True)]
        | None,
        Field(alias="in", description="Languages to search, a list or e.g. da,en; all by default."),
    ] = None
    where: Annotated[
        dict[str, Any] | None, Field(description='Conditions on the fields of documents: {"year": {">=": 2000}}.')
    ] = None


class SimilarRequest(StrictRequest):
    """A search for documents by a document of the index."""

    id: Id
    search_in: SearchIn = None
    k: HitCount = 10
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
    """A document to add; it replaces the document with the same id, if there is one.

    Without ``id``, this is the language and concept, such as it:Q144, with a number (it:Q144#2) for further documents
    of the request with the same ones. Either all documents of a request have an id, or none.
    """

    id: Annotated[
        str | None,
        Field(min_length=1, max_length=limits.MAX_QUERY_CHARS, pattern=_NO_CONTROL_PATTERN, description="Its own id."),
    ] = None

    concept: Annotated[str, Field(min_length=1, max_length=limits.MAX_CONCEPT_CHARS, pattern=_NO_CONTROL_PATTERN)]
    lang: Annotated[str, Field(min_length=1, max_length=limits.MAX_LANGUAGE_CHARS, pattern=_NO_CONTROL_PATTERN)]
    text: Annotated[Text, Field(min_length=1)]
    title: Annotated[str, Field(max_length=limits.MAX_TITLE_CHARS)] = ""
    url: Annotated[
        str, Field(max_length=limits.MAX_URL_CHARS, pattern=_URL_PATTERN, description="An http or https address.")
    ] = ""
    fields: Annotated[
        dict[str, Any],
        Field(
            default_factory=dict,
            max_length=MAX_FIELDS,
            description="Strings, numbers, true, false, null, lists of these and objects of these; 64 KiB at most.",
        ),
    ]


class NewDocuments(StrictRequest):
    """Documents to add to the index."""

    documents: Annotated[list[NewDocument], Field(min_length=1, max_length=limits.MAX_TEXTS, fail_fast=True)]


class EmbedRequest(StrictRequest):
    """Texts of one language to embed."""

    texts: Annotated[list[Text], Field(min_length=1, max_length=limits.MAX_TEXTS, fail_fast=True)]
    lang: Annotated[str, Field(max_length=limits.MAX_LANGUAGE_CHARS)]


class EmbeddingsRequest(BaseModel):
    """Texts to embed, in the format of OpenAI's API.

    The language of each text is guessed, unless ``model`` names one: "cr5:it". A text without a word or n-gram that the
    model knows is an error, unless ``allow_zeros`` is true.
    """

    model_config = ConfigDict(extra="ignore")  # clients of OpenAI send more parameters

    input: Annotated[list[Text], Field(min_length=1, max_length=limits.MAX_EMBEDDINGS, fail_fast=True)] | Text
    model: Annotated[str, Field(max_length=limits.MAX_QUERY_CHARS)] = "cr5"
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[Integer | None, Field(description="None, or the rank of the model.")] = None
    allow_zeros: Annotated[
        bool, Field(description="Whether a text without a known word gets a vector of zeros; otherwise it is an error.")
    ] = False


# Responses


class ErrorResponse(BaseModel):
    """What is wrong, and what to do about it."""

    error: str


class OpenAIError(BaseModel):
    """An error as OpenAI's clients read it; ``param`` is the parameter that is wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIErrorResponse(BaseModel):
    """An error of the paths under /v1."""

    error: OpenAIError


class VersionResponse(TypedDict):
    """Another document of the concept of a hit; ``score`` is null if it was not found itself."""

    id: str
    lang: str
    title: str
    score: float | None


class HitResponse(TypedDict):
    """A document that was found; x and y are its position on the map.

    ``parts`` are what words, title and vectors add to the score, in the modes hybrid and lexical. ``passage`` is the
    part of the text that matched, [begin, end] in characters, and ``snippet`` about 300 characters of it. ``words`` are
    the words of the document that match those of the query, in lower case. ``versions`` are there with ``group``.
    """

    # A dict, because making an object of pydantic takes as long as finding a hit.
    id: str
    concept: str
    lang: str
    title: str
    url: str
    fields: dict[str, Any]
    snippet: str
    score: float
    cosine: float
    parts: dict[str, float]
    passage: tuple[int, int]
    words: list[str]
    versions: list[VersionResponse]
    x: float
    y: float


class SearchResponse(BaseModel):
    """Hits, best first; ``at`` is the map position of the query.

    ``tokens`` are the words of the query, as they were read, and empty in answers of /similar, whose query is a
    document. ``known`` and ``by_subword`` are the shares of them that are in the vocabulary, and that are encoded by
    their n-grams. ``suggestion`` is the query with its spelling corrected, if a word is in neither the index nor the
    model. ``warnings`` are sentences on fields that ``where`` or ``sort`` names and no document has. A query without a
    letter or digit finds nothing, and its ``lang`` is empty.
    """

    query: str
    lang: str
    guessed: bool
    confidence: float
    tokens: list[str]
    known: float
    by_subword: float
    suggestion: str | None
    warnings: list[str]
    mode: Mode
    measure: Measure
    milliseconds: float
    hits: list[HitResponse]
    at: tuple[float, float]


class ExplainResponse(BaseModel):
    """Words with their contributions to the similarity; a pair is one word of the query and one of the document.

    ``snippet`` is the passage of the document that contains its most important words. For a text longer than 6,000
    characters, the words come from the part most similar to the other text; ``passage`` is that part of the document,
    [begin, end] in characters, and ``similarity`` is that of the full text. Of documents, the first 100,000 characters
    are read.
    """

    similarity: float
    snippet: str
    passage: tuple[int, int]
    query_words: list[tuple[str, float]]
    document_words: list[tuple[str, float]]
    pairs: list[tuple[str, str, float]]


class DocumentResponse(BaseModel):
    """A document as it was added."""

    id: str
    concept: str
    lang: str
    title: str
    url: str
    fields: dict[str, Any]
    text: str


class AddResponse(BaseModel):
    """The number of documents that were new, had new content under the same id (``renewed``), or were ``unchanged``.

    Left out were ``duplicates``, exact copies of other documents of the request without ids, and, by language,
    documents without a word that the model knows (``blank``) or in a language that it does not have (``unknown``).
    ``borrowed``: languages that it does not have, and the fallback language, a close one, that it used for each.
    ``renamed``: codes of documents that the model has under another code. ``partly_replaced``: languages and concepts
    of documents without ids, of which the request replaced only some, and how many stay: check that none is lost, and
    give each an id.
    """

    new: int
    renewed: int
    unchanged: int
    duplicates: int
    blank: dict[str, int]
    unknown: dict[str, int]
    borrowed: dict[str, str]
    renamed: dict[str, str]
    partly_replaced: dict[str, int]


class DeleteResponse(BaseModel):
    """The number of documents deleted: 1, or 0 if there was none with the id."""

    deleted: int


class EmbedResponse(BaseModel):
    """Unit vectors (zeros for a text without a known word or n-gram), and shares of each text's words.

    ``known`` are those in the vocabulary, ``by_subword`` those that are encoded by their n-grams.
    """

    vectors: list[list[float]]
    known: list[float]
    by_subword: list[float]


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


class ModelResponse(BaseModel):
    """A model in the format of OpenAI's API; ``created`` is when the index was last brought up to date."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: Literal["cr5"] = "cr5"


class ModelsResponse(BaseModel):
    """The models in the format of OpenAI's API: ``cr5`` guesses the language of a text, ``cr5:it`` takes Italian."""

    object: Literal["list"] = "list"
    data: list[ModelResponse]


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


class ReadyResponse(BaseModel):
    """The server is ready, and can read its index."""

    status: Literal["ready"] = "ready"


class HealthResponse(BaseModel):
    """The server runs; ``generation`` is the number of the snapshot of the index that it has opened."""

    status: Literal["ok"] = "ok"
    version: str
    generation: int
