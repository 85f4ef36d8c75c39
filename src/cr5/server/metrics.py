"""Metrics of a server for Prometheus.

Several workers add up their request counts through the multi-process mode of ``prometheus_client``: each process
writes its counts to files in the folder that ``PROMETHEUS_MULTIPROC_DIR`` names (the library reads this variable when
it is imported, so the supervisor sets it before it starts the workers), and each can read those of all.

These files are mapped, and a process that writes to a mapped page for which the disk has no space is killed. Therefore
a worker writes the files once in full before they are mapped. If the disk is full, it counts in its memory, alone.
"""

import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, values
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

SHARED_FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
BUCKETS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SHARED_FILE_BYTES = 2**18  # more than all methods, routes and statuses need, so that a file never grows
log = logging.getLogger("cr5.server")
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """The metrics of one application; ``folder`` is where all its workers share their counts, if there are several."""

    def __init__(self, folder: Path | None = None) -> None:
        self.in_flight = 0
        if folder is not None and not _reserve(folder):
            folder, values.ValueClass = None, values.MutexValue
        self._started = time.time()
        registry = CollectorRegistry()
        self._requests = Counter(
            "cr5_requests", "Requests answered by all workers.", ["method", "path", "status"], registry=registry
        )
        self._seconds = Histogram(
            "cr5_request_seconds",
            "Time from a request to the end of its response, all workers.",
            ["path"],
            buckets=BUCKETS_SECONDS,
            registry=registry,
        )
        self._counts: Collector = registry if folder is None else MultiProcessCollector(None, str(folder))  # type: ignore[no-untyped-call]

    def observe(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request; ``method`` and ``path`` have few values, so that clients cannot create new label values."""
        self._requests.labels(method, path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def exposition(self, documents: Mapping[str, int], snapshot: int) -> str:
        """All metrics in the text format of Prometheus; ``documents`` by language."""
        families = [*_stable(self._counts.collect()), *self._gauges(documents, snapshot)]
        return generate_latest(_Families(families)).decode()

    def _gauges(self, documents: Mapping[str, int], snapshot: int) -> Iterator[Metric]:
        yield GaugeMetricFamily("cr5_requests_in_flight", "Requests being answered by this worker.", self.in_flight)
        by_language = GaugeMetricFamily("cr5_documents", "Documents in the index.", labels=["lang"])
        for lang, count in documents.items():
            by_language.add_metric([lang], count)
        yield by_language
        yield GaugeMetricFamily("cr5_index_generation", "Number of the active snapshot of the index.", snapshot)
        yield GaugeMetricFamily("process_resident_memory_bytes", "Memory of this worker.", resident_memory())
        yield GaugeMetricFamily("process_start_time_seconds", "When this worker started.", self._started)


def _reserve(folder: Path) -> bool:
    """Write the files of this process in full; False if the disk has no space for them."""
    files = [folder / f"{kind}_{os.getpid()}.db" for kind in ("counter", "histogram")]
    try:
        for file in files:
            file.write_bytes(bytes(SHARED_FILE_BYTES))
    except OSError as error:
        for file in files:
            file.unlink(missing_ok=True)
        log.warning(
            "this worker counts its own requests only, because %s cannot be written (%s)", folder, error.strerror
        )
        return False
    return True


class _Families(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


def _stable(families: Iterable[Metric]) -> Iterator[Metric]:
    """The families in a fixed order, with ``le="1"`` instead of ``le="1.0"`` and without ``_created`` samples."""
    for family in sorted(families, key=lambda family: family.type):
        family.samples = [
            sample._replace(labels=sample.labels | {"le": sample.labels["le"].removesuffix(".0")})
            if "le" in sample.labels
            else sample
            for sample in family.samples
            if not sample.name.endswith("_created")
        ]
        yield family


def resident_memory() -> int:
    """The resident memory of this process in bytes; where the system does not report it, its maximum so far, or 0."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return 0
    maximum = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return maximum if sys.platform == "darwin" else maximum * 1024
