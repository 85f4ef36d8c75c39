"""The limits on what one request may contain."""

MAX_QUERY_CHARS = 10_000
LONG_QUERY_CHARS = 1000  # searches with longer queries have threads of their own
MAX_TEXT_CHARS = 1_000_000
MAX_REQUEST_CHARS = 1_000_000  # characters of all texts of one request
LARGE_REQUEST_CHARS = 100_000  # requests with more characters are limited in number
BATCH_CHARS = 50_000  # characters encoded at a time
MAX_EXPLAINED_CHARS = 100_000  # beginning of a document that an explanation reads
MAX_TEXTS = 256  # texts or documents in one request
MAX_EMBEDDINGS = 2048  # texts in one request of an OpenAI client, as OpenAI has it
MAX_HITS = 100  # hits in one response
MAX_DEPTH = 1000  # last hit that paging can reach: k + offset
MAX_LANGUAGES = 1000  # languages in a list
MAX_CONCEPT_CHARS = 200
MAX_TITLE_CHARS = 1000
MAX_URL_CHARS = 2000
MAX_LANGUAGE_CHARS = 80
