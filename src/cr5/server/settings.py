"""The settings of a server, and the limits on what one request may contain."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

LogFormat: TypeAlias = Literal["text", "json"]

MAX_QUERY_CHARS = 10_000
MAX_TEXT_CHARS = 1_000_000
MAX_TEXTS = 256  # texts or documents in one request
MAX_EMBEDDINGS = 2048  # texts in one request of an OpenAI client, as OpenAI has it
MAX_HITS = 100  # of one response
MAX_DEPTH = 1000  # hits that can be had by paging: k + offset
MAX_LANGUAGES = 1000  # in a list of languages
MAX_CONCEPT_CHARS = 200
MAX_TITLE_CHARS = 1000
MAX_URL_CHARS = 2000
MAX_LANGUAGE_CHARS = 80


@dataclass(frozen=True)
class ServerSettings:
    """How a server behaves.

    ``requests_per_minute`` is the rate limit for one client address. ``allowed_hosts`` are the host names that the
    server answers to (empty: all of them); this protects against DNS rebinding. ``store`` is the address of the index's
    database, if that needs a password. ``metrics_folder`` is where several workers share their metrics.
    ``shutdown_seconds`` is how long a server that is stopping waits for a write, and for files that are being merged.

    ``trusted_proxies`` are networks (CIDR) whose ``Forwarded`` and ``X-Forwarded-For`` headers name the client.
    ``log_file`` is where the log is written instead of standard error.
    ``max_connections`` and ``max_connections_per_address`` limit the connections of one process; by default they follow
    from the number of files that it may open. ``max_buffered_bytes`` limits the bodies of all requests together.

    Timeouts: ``timeout_seconds`` for an answer, ``header_timeout_seconds`` for the header of a request,
    ``body_timeout_seconds`` for its body, ``idle_timeout_seconds`` between requests, ``write_timeout_seconds`` for a
    client that does not read its response. ``discard_seconds`` is how long the rest of a refused body is discarded, so
    that the client gets its response. A server that is stopping accepts connections until none has arrived for
    ``stop_quiet_seconds``, at most for ``stop_accept_seconds``, and closes idle ones after ``stop_idle_seconds``.
    """

    api_key: str | None = None
    requests_per_minute: int | None = None
    read_only: bool = False
    allowed_hosts: tuple[str, ...] = ()
    timeout_seconds: float = 30.0
    max_body_bytes: int = 2_000_000
    threads: int = 8
    max_concurrent_requests: int = 256
    store: str | None = field(default=None, repr=False)
    metrics_folder: Path | None = None
    shutdown_seconds: float = 10.0
    trusted_proxies: tuple[str, ...] = ()
    max_connections: int | None = None
    max_connections_per_address: int | None = None
    max_buffered_bytes: int = 64_000_000
    header_timeout_seconds: float = 10.0
    body_timeout_seconds: float = 20.0
    idle_timeout_seconds: float = 75.0
    write_timeout_seconds: float = 20.0
    discard_seconds: float = 2.0
    stop_quiet_seconds: float = 0.2
    stop_accept_seconds: float = 2.0
    stop_idle_seconds: float = 1.0
    log_format: LogFormat = "text"
    log_file: Path | None = None
