"""The metrics for Prometheus."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from serving import StartServer

from cr5.server.metrics import SHARED_FOLDER_VARIABLE


def test_metrics_count_requests_by_route(start_server: StartServer) -> None:
    client = start_server()
    for path in ["/health", "/documents/aa:Q001", "/documents/aa:Q002", "/documents/none", "/nowhere/1", "/nowhere/2"]:
        client.get(path)
    client.request("BREW", "/pot")
    answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families.values()
        for sample in family.samples
    }

    def value(name: str, **labels: str) -> float:
        return samples[(name, *sorted(labels.items()))]

    document = "/documents/{id:path}"
    assert value("cr5_requests_total", method="GET", path=document, status="200") == 2
    assert value("cr5_requests_total", method="GET", path=document, status="404") == 1
    assert value("cr5_requests_total", method="GET", path="other", status="404") == 2
    assert value("cr5_requests_total", method="other", path="other", status="404") == 1
    assert value("cr5_request_seconds_bucket", path="/health", le="+Inf") == 1
    assert value("cr5_request_seconds_bucket", path="/health", le="30") == 1
    assert value("cr5_request_seconds_count", path=document) == 3
    assert value("cr5_request_seconds_sum", path=document) > 0
    assert value("cr5_documents", lang="bb") == 150
    assert value("cr5_index_generation") == 1
    assert value("cr5_requests_in_flight") == 1
    assert value("process_resident_memory_bytes") > 10**7
    assert time.time() - 3600 < value("process_start_time_seconds") <= time.time()
    assert {name: family.type for name, family in families.items()} == {
        "cr5_requests": "counter",
        "cr5_request_seconds": "histogram",
        "cr5_requests_in_flight": "gauge",
        "cr5_documents": "gauge",
        "cr5_index_generation": "gauge",
        "process_resident_memory_bytes": "gauge",
        "process_start_time_seconds": "gauge",
    }


@pytest.mark.slow
def test_the_metrics_of_all_worker_processes_are_added_up(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from cr5.server.metrics import Metrics
metrics = Metrics(Path(sys.argv[1]))
metrics.observe("GET", "/", 200, 0.02)
print(metrics.exposition({}, 1))
"""
    environment = os.environ | {SHARED_FOLDER_VARIABLE: str(tmp_path)}
    command = [sys.executable, "-c", program, str(tmp_path)]
    for _ in range(2):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert 'cr5_requests_total{method="GET",path="/",status="200"} 2.0' in lines
    assert 'cr5_request_seconds_bucket{le="0.01",path="/"} 0.0' in lines
    assert 'cr5_request_seconds_bucket{le="0.025",path="/"} 2.0' in lines
    assert 'cr5_request_seconds_bucket{le="1",path="/"} 2.0' in lines
    assert 'cr5_request_seconds_sum{path="/"} 0.04' in lines
    assert "# HELP cr5_requests_total Requests answered by all workers." in lines


FULL = """
import os, sys
from pathlib import Path
from cr5.server.metrics import METHODS, SHARED_FILE_BYTES, Metrics

folder = Path(sys.argv[1])

def fill():
    with open(folder / "filling", "ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            pass

if sys.argv[2] == "before":
    fill()
metrics = Metrics(folder)
if sys.argv[2] == "after":
    fill()
for method in [*METHODS, "other"]:
    for path in range(30):
        for status in (200, 400, 401, 404, 405, 503):
            metrics.observe(method, f"/a/path/of/typical/length/{path}", status, 0.01)
sizes = {file.stat().st_size for file in folder.glob("*.db")}
assert sizes == ({SHARED_FILE_BYTES} if sys.argv[2] == "after" else set())
print(metrics.exposition({}, 1))
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_worker_whose_disk_is_full_is_not_killed_and_counts_its_requests(small_disk: Path, when: str) -> None:
    environment = os.environ | {SHARED_FOLDER_VARIABLE: str(small_disk)}
    command = [sys.executable, "-c", FULL, str(small_disk), when]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("cr5_requests_total{") == 8 * 30 * 6
    assert ("counts its own requests only" in done.stderr) == (when == "before")
