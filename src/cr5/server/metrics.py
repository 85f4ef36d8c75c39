"""Metrics: what a server has done, in the text format of Prometheus.

A sample is kept under the name that it has in the text, labels included, so that those of several workers only need
to be added up.
"""

import json
import os
import resource
import secrets
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
MEDIA = "text/plain; version=0.0.4; charset=utf-8"
_KINDS = {
    "cr5_requests_total": ("counter", "Requests answered by all workers, up to a second ago by others."),
    "cr5_request_seconds": ("histogram", "Time from a request to the end of its answer, of the same requests."),
    "cr5_requests_in_flight": ("gauge", "Requests being answered by this worker."),
    "cr5_documents": ("gauge", "Documents in the index."),
    "cr5_index_generation": ("gauge", "Generation of the index that answers."),
    "process_resident_memory_bytes": ("gauge", "Memory of this worker."),
    "process_start_time_seconds": ("gauge", "When this worker started."),
}


class Metrics:
    """Counts of one worker; in ``folder`` lie those of all."""

    def __init__(self, folder: Path | None = None) -> None:
        self.in_flight = 0
        self._counts: Counter[str] = Counter()
        self._folder, self._saved, self._began = folder, 0.0, time.time()
        self._name = secrets.token_hex(8)  # the number of a process may be given to another one later

    def observe(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request; ``path`` is a route's, so that no client can make up new ones."""
        method = method if method in METHODS else "other"
        self._counts[sample("cr5_requests_total", method=method, path=path, status=str(status))] += 1
        for bound in BUCKETS:
            self._counts[sample("cr5_request_seconds_bucket", path=path, le=f"{bound:g}")] += seconds <= bound
        self._counts[sample("cr5_request_seconds_bucket", path=path, le="+Inf")] += 1
        self._counts[sample("cr5_request_seconds_count", path=path)] += 1
        self._counts[sample("cr5_request_seconds_sum", path=path)] += seconds  # type: ignore[assignment]

    def save(self) -> None:
        """Let the other workers know, if there are any and something is new."""
        total = sum(self._counts.values())
        if self._folder is None or total == self._saved:
            return
        temporary = self._folder / f".{self._name}.tmp"
        temporary.write_text(json.dumps(self._counts), encoding="utf-8")
        temporary.replace(self._folder / f"{self._name}.json")
        self._saved = total

    def text(self, documents: Mapping[str, int], generation: int) -> str:
        """Everything, as Prometheus reads it."""
        samples: dict[str, float] = dict(self._together())
        samples["cr5_requests_in_flight"] = self.in_flight
        samples |= {sample("cr5_documents", lang=lang): count for lang, count in documents.items()}
        samples["cr5_index_generation"] = generation
        samples["process_resident_memory_bytes"] = memory()
        samples["process_start_time_seconds"] = self._began
        lines = []
        for name, (kind, what) in _KINDS.items():
            lines += [f"# HELP {name} {what}", f"# TYPE {name} {kind}"]
            ends = ("", "_bucket", "_sum", "_count") if kind == "histogram" else ("",)
            names = {name + end for end in ends}
            lines += [f"{key} {value!r}" for key, value in samples.items() if key.partition("{")[0] in names]
        return "\n".join(lines) + "\n"

    def _together(self) -> Counter[str]:
        if self._folder is None:
            return self._counts
        self.save()
        total: Counter[str] = Counter()
        for path in sorted(self._folder.glob("*.json")):
            total.update(json.loads(path.read_text(encoding="utf-8")))
        return total


def sample(name: str, **labels: str) -> str:
    """The name of a sample with its labels."""
    escaped = {
        key: value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for key, value in labels.items()
    }
    return name + "{" + ",".join(f'{key}="{value}"' for key, value in escaped.items()) + "}"


def memory() -> int:
    """Bytes that this process has in memory; where the system does not tell, the most it ever had."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
