"""The settings of a server."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

LogFormat: TypeAlias = Literal["text", "json"]


@dataclass(frozen=True)
class ServerSettings:
    """How a server behaves."""

    api_key: str | None = None
    requests_per_minute: int | None = None  # the rate limit for one client address
    read_only: bool = False
    allowed_hosts: tuple[str, ...] = ()  # host names of requests that are answered, against DNS rebinding; empty: all
    timeout_seconds: float = 30.0  # limit for an answer
    max_body_bytes: int = 2_000_000
    threads: int = 8
    max_concurrent_requests: int = 256
    max_large_requests: int = 2  # requests with more than 100,000 characters that compute at the same time
    store: str | None = field(default=None, repr=False)  # the address of the index's database, if it needs a password
    metrics_folder: Path | None = None  # folder in which several workers share their metrics
    shutdown_seconds: float = 10.0  # how long a stopping server waits for a write, and for files that are being merged
    trusted_proxies: tuple[str, ...] = ()  # networks (CIDR) whose Forwarded and X-Forwarded-For name the client
    max_connections: int | None = None  # limit of one process; None: as many as the files that it may open allow
    max_connections_per_address: int | None = None  # None: half of max_connections
    max_buffered_bytes: int = 64_000_000  # limit for the bodies of all requests together
    header_timeout_seconds: float = 10.0  # limit for the header of a request
    body_timeout_seconds: float = 20.0  # limit for the body of a request
    idle_timeout_seconds: float = 75.0  # limit between two requests
    write_timeout_seconds: float = 20.0  # limit for a client that does not read its response
    discard_seconds: float = 2.0  # how long a refused body is discarded, so that the client gets its response
    stop_quiet_seconds: float = 0.2  # a stopping server accepts connections until none has come for this long,
    stop_accept_seconds: float = 2.0  # and at most for this long
    stop_idle_seconds: float = 1.0  # idle connections are closed this long after the server began to stop
    warm_up_retry_seconds: float = 5.0  # pause before a warm-up search that failed is tried again
    log_format: LogFormat = "text"
    log_file: Path | None = None  # file for the log; None: standard error
