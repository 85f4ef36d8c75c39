"""Requests that try to mislead the server, or to make it work without end: smuggling, bombs, paths, deep JSON."""

import gzip
import json
import re
import shutil
import subprocess
import sys
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import pairwise
from pathlib import Path
from typing import Any

import madeup
import pytest
from documentation import ROOT
from hypothesis import given
from hypothesis import strategies as st
from raw_server import RawServer, raw_server, statuses, wait_until
from serving import JSON, QUERY, StartServer, error_message
from starlette.testclient import TestClient

from cr5 import Cr5
from cr5.index import Index, IndexedDocument, Query, filters
from cr5.server import handlers
from cr5.server.errors import HttpError, validation_error
from cr5.server.large_requests import batches
from cr5.server.limits import LONG_QUERY_CHARS, MAX_EXPLAINED_CHARS, MAX_REQUEST_CHARS

pytestmark = pytest.mark.slow

SMUGGLED = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
POST = b"POST /search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def served(index_folder: Path) -> Iterator[RawServer]:
    with raw_server(index_folder, body_timeout_seconds=1) as server:
        yield server


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nTransfer-Encoding:\r\n chunked\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: 5, 6\r\n",
        b"Content-Length: +5\r\n",
        b"Content-Length: 0x5\r\n",
        b"Content-Length: 5\r\nTransfer-Encoding: identity\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Content-Length : 5\r\n",
    ],
)
def test_a_request_whose_length_is_ambiguous_is_refused_and_nothing_after_it_is_answered(
    served: RawServer, headers: bytes
) -> None:
    answer = served.send(POST + headers + b"\r\n0\r\n\r\n" + SMUGGLED)
    assert statuses(answer) == [400]
    assert b"connection: close" in answer.lower()
    assert b"cr5_requests" not in answer


def test_a_malformed_chunk_is_refused_and_nothing_after_it_is_answered(served: RawServer) -> None:
    for chunk in (b"xyz\r\n", b"5;a\r\nab\r\n", b"-1\r\n", b"ffffffffffffffffffffff\r\n", b"3\r\nabcde\r\n"):
        assert statuses(served.send(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + SMUGGLED)) == [400]


def test_a_request_in_the_body_of_a_get_is_not_answered(served: RawServer) -> None:
    head = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(SMUGGLED)}\r\n\r\n".encode()
    assert statuses(served.send(head + SMUGGLED)) == [200]


def test_a_folded_header_is_one_value(served: RawServer) -> None:
    assert served.get("/health", "X-Folded: a\r\n b")[0] == 200
    assert served.get("/health", "X-Folded: a\r\n Content-Length: 5")[0] == 200


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "zstd", "GZIP", "gzip, gzip"])
def test_a_compressed_body_is_refused_unread(start_server: StartServer, encoding: str) -> None:
    bomb = gzip.compress(b" " * 10_000_000)
    answer = start_server().post("/search", content=bomb, headers=JSON | {"content-encoding": encoding})
    assert "send it without compression" in error_message(answer, 415)


def test_a_huge_request_is_refused_and_its_client_gets_the_response(served: RawServer) -> None:
    body = b'{"q": "' + b"a" * 3_000_000 + b'"}'
    declared = served.send(POST + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    chunked = served.send(POST + f"Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n".encode() + body)
    for answer in (declared, chunked):
        assert statuses(answer) == [413]
        assert b"the body is larger than 2,000,000 bytes" in answer
    assert statuses(served.send(b"GET /health HTTP/1.1\r\nX: " + b"a" * 200_000)) == [400]
    assert served.get("/health")[0] == 200


def test_a_page_of_another_origin_can_neither_read_nor_write(client: TestClient) -> None:
    foreign = {"origin": "https://evil.test"}
    assert not [name for name in client.get("/info", headers=foreign).headers if name.startswith("access-control")]
    preflight = client.options("/documents", headers=foreign | {"access-control-request-method": "POST"})
    assert preflight.status_code == 405
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):  # without preflight
        sent = client.post("/documents", content=b"{}", headers=foreign | {"content-type": content_type})
        assert sent.status_code == 415


@pytest.mark.parametrize(
    "path",
    [
        "/static/../settings.py", "/static/..%2fsettings.py", "/static/%2e%2e/settings.py", "/static/%00",
        "/static//etc", "/static/..%5c..%5cpasswd", "//static/app.js", "/STATIC/app.js", "/static/app.js/",
        "/./static/app.js",
        "/%2e", "/documents/../static", "/documents/%ff%fe", "/documents/%c0%ae%c0%ae", "/documents/%ed%a0%80",
        "/documents/%e2%80%ae%f0%9f%98%80", "/documents/" + "a" * 10_000, "/documents/aa:Q001%00",
        "/documents/'%20OR%201=1",
    ],
)  # fmt: skip
def test_paths_and_ids_that_name_nothing_are_not_found(served: RawServer, path: str) -> None:
    status, answer = served.get(path)
    assert status == 404
    assert b"BSD" not in answer
    assert b"root:" not in answer


def test_an_absolute_or_empty_target_reaches_no_other_host(served: RawServer) -> None:
    for target in (b"http://evil.test/health", b"evil.test:443", b"*"):
        assert statuses(
            served.send(b"GET " + target + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        ) == [404]


def test_deeply_nested_json_is_an_error_of_the_client(client: TestClient) -> None:
    for text in ("[" * 100_000, '{"a":' * 100_000, '{"q": "a", "where": ' + '{"a":' * 50_000 + "1" + "}" * 50_001):
        assert client.post("/search", content=text, headers=JSON).status_code in (400, 422)
    nested = "[" * 3000 + "]" * 3000
    assert client.get("/search", params={"q": "a", "where": nested}).status_code == 422


@pytest.mark.parametrize(
    "query",
    ['"' * 10_000, "a" * 10_000, "a " * 5000, "(" * 5000 + ")" * 5000, "a-" * 5000, "ab" * 5000, "\u0301" * 10_000,
     " \t" * 5000, "aaaaaaaaaaaaaaaaaaaaaaaaa!" * 380, '"a ' * 3333, "1." * 5000, "'" * 10_000, "\uff0e" * 10_000],
)  # fmt: skip
def test_a_query_that_is_hard_to_parse_is_answered_within_the_time_limit(client: TestClient, query: str) -> None:
    assert client.post("/search", json={"q": query}).status_code == 200


@pytest.mark.parametrize("path", ["/embed", "/v1/embeddings", "/documents", "/search"])
def test_a_text_of_marks_that_are_not_in_order_is_normalised_in_parts(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    client, normalize = start_server(), unicodedata.normalize

    def checked(form: Any, text: str) -> str:
        assert not re.search("[\u0301\u0323]{200}", text), "takes a time that grows with the square of the length"
        return normalize(form, text)

    monkeypatch.setattr(unicodedata, "normalize", checked)
    text = QUERY + "\u0301\u0323" * 4000
    body = {"q": text, "lang": "aa"} if path == "/search" else texts_for(path, [text])
    assert client.post(path, json=body).status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "status", "fact"),
    [
        ("/search", {"q": "a"} | {f"x{i}": i for i in range(1000)}, 422, "'x0' is not a parameter"),
        ("/search", {"q": "a", "in": [1] * 1000}, 422, "in.0 is 1; it must be a string"),
        ("/embed", {"lang": "aa", "texts": [1] * 1000}, 422, "texts.0 is 1; it must be a string"),
        ("/documents", {"documents": [1] * 1000}, 422, "documents.0 is 1"),
        ("/documents", {"documents": [{f"x{i}": i for i in range(1000)}]}, 422, "documents.0.concept is missing"),
        ("/v1/embeddings", {"input": [[1]] * 1000}, 400, "input.0 is not a string"),
    ],
)  # fmt: skip
def test_a_body_with_many_errors_is_refused_at_the_first(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any], status: int, fact: str
) -> None:
    counts = list[int]()

    def counted(errors: Sequence[Any]) -> HttpError:
        counts.append(len(errors))
        return validation_error(errors)

    monkeypatch.setattr("cr5.server.app.validation_error", counted)
    answer = client.post(path, json=body)
    assert answer.status_code == status
    assert fact in answer.text
    assert counts[0] <= 4


def test_a_filter_of_too_many_fields_is_refused_before_it_is_parsed(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "_parse_condition", None)
    answer = client.post("/search", json={"q": QUERY, "where": {f"field{i}": i for i in range(1000)}})
    assert error_message(answer, 422) == "where has 1,000 conditions; the most are 32"


def test_a_request_for_too_much_is_refused(client: TestClient) -> None:
    for parameters in ({"k": 101}, {"k": 10**30}, {"k": -1}, {"offset": 10**9}, {"k": 100, "offset": 901}):
        answer = client.post("/search", content=json.dumps({"q": "a"} | parameters), headers=JSON)
        assert answer.status_code == 422


def test_an_explanation_reads_a_bounded_part_of_two_long_documents(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, explain, lengths = start_server(), Index.explain, list[int]()

    def measured(index: Index, query: Query, document: IndexedDocument) -> Any:
        lengths.extend([len(" ".join(query.tokens)), len(document.text)])
        return explain(index, query, document)

    monkeypatch.setattr(Index, "explain", measured)
    text = "lo ".join(str(number) for number in range(120_000))[:600_000]
    added = client.post("/documents", json={"documents": [{"concept": "long", "lang": "aa", "text": text}]})
    assert added.status_code == 200
    for parameters in ({"q": text[:10_000], "lang": "aa"}, {"of": "aa:long"}):
        assert client.get("/explain", params={"id": "aa:long", **parameters}).status_code == 200
    assert max(lengths) == MAX_EXPLAINED_CHARS


def test_an_explanation_that_takes_too_long_is_answered_with_503(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()

    def held(*given: Any, **more: Any) -> None:
        assert release.wait(60)
        raise ValueError

    client = start_server(timeout_seconds=0.2)
    monkeypatch.setattr(handlers, "explain", held)
    answer = client.get("/explain", params={"id": "aa:Q001", "q": "a"})
    assert "not finished within 0.2 s" in error_message(answer, 503)
    assert answer.headers["retry-after"] == "5"
    release.set()


@pytest.mark.filterwarnings("ignore::cr5.Cr5Warning")
@pytest.mark.parametrize("path", ["/embed", "/documents", "/v1/embeddings"])
def test_a_request_with_too_many_characters_is_refused(start_server: StartServer, path: str) -> None:
    client = start_server()
    for texts, status in ((["a" * (MAX_REQUEST_CHARS // 2 + 1)] * 2, 413), (["a" * 1000] * 2, 200)):
        answer = client.post(path, json=texts_for(path, texts))
        assert answer.status_code == status
        if status == 413:
            assert "has 1,000,002 characters in all; send at most 1,000,000" in answer.text


@pytest.mark.filterwarnings("ignore::cr5.Cr5Warning")
@pytest.mark.parametrize("path", ["/embed", "/v1/embeddings"])
def test_large_requests_that_compute_at_the_same_time_are_limited(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    client, encode, begun, release = (
        start_server(max_large_requests=1),
        Cr5.encode,
        threading.Event(),
        threading.Event(),
    )

    def held(model: Cr5, texts: Sequence[str], *more: Any) -> Any:
        if sum(map(len, texts)) > 2000:
            begun.set()
            assert release.wait(60)
        return encode(model, texts, *more)

    monkeypatch.setattr(Cr5, "encode", held)
    large, small = texts_for(path, [QUERY * 10_000]), texts_for(path, [QUERY])
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, path, json=large)
        assert begun.wait(60)
        second = client.post(path, json=large)
        assert second.status_code == 503
        assert second.headers["retry-after"] == "5"
        assert "too many large requests" in second.text
        assert client.post(path, json=small).status_code == 200
        release.set()
        assert first.result().status_code == 200
    assert client.post(path, json=large).status_code == 200


def test_long_queries_keep_no_short_one_waiting(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    client, search, release = start_server(threads=4, max_concurrent_requests=32), handlers.search, threading.Event()
    waiting = threading.Semaphore(0)

    def slow(state: Any, request: Any) -> Any:
        if len(request.q) > LONG_QUERY_CHARS:
            waiting.release()
            assert release.wait(60)
        return search(state, request)

    monkeypatch.setattr(handlers, "search", slow)
    body = {"q": "a " * LONG_QUERY_CHARS, "lang": "aa"}
    with ThreadPoolExecutor(9) as senders:
        answers = [senders.submit(client.post, "/search", json=body) for _ in range(9)]
        assert waiting.acquire(timeout=60)
        refused = next(answer for answer in as_completed(answers, 60)).result()
        assert "too many requests" in error_message(refused, 503)
        assert client.get("/search", params={"q": QUERY}).status_code == 200
        release.set()
        assert sorted(answer.result().status_code for answer in answers) == [200] * 8 + [503]


def test_searches_whose_clients_have_gone_are_not_computed(index_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search, computed, began, release = handlers.search, list[str](), threading.Event(), threading.Event()
    request = f"GET /search?q={QUERY.split()[0]} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()

    def slow(state: Any, parameters: Any) -> Any:
        computed.append(parameters.q)
        began.set()
        assert release.wait(60)
        return search(state, parameters)

    with raw_server(index_folder, threads=1) as server:
        assert wait_until(lambda: server.get("/ready")[0] == 200)
        monkeypatch.setattr(handlers, "search", slow)
        with server.connect() as first:
            first.sendall(request)
            assert began.wait(60)
            others = [server.connect() for _ in range(20)]
            for other in others:
                other.sendall(request)
            assert server.get("/health")[0] == 200  # accepted after them
            for other in others:
                other.close()
            assert wait_until(lambda: len(server.server.table) == 1)
            release.set()
            assert b"200" in first.recv(65536).split(b"\r\n")[0]
            assert server.get(f"/search?q={QUERY.split()[0]}")[0] == 200
    assert len(computed) == 2


@pytest.mark.parametrize("sort", ["-", ""])
def test_an_empty_field_to_sort_by_is_explained(client: TestClient, sort: str) -> None:
    message = error_message(client.get("/search", params={"q": QUERY, "sort": sort}), 422)
    assert "sort" in message
    assert "must name a field" in message


def texts_for(path: str, texts: list[str]) -> dict[str, Any]:
    """The body of a request with some texts."""
    if path == "/documents":
        return {"documents": [{"concept": f"c{i}", "lang": "aa", "text": text} for i, text in enumerate(texts)]}
    return {"input": texts, "allow_zeros": True} if path.startswith("/v1") else {"lang": "aa", "texts": texts}


MAX_PEAK_MEGABYTES = 140  # 27 to 82 were measured, and about 220 for all texts at once
PEAK = """
import json, random, re, sys, warnings
from pathlib import Path
from starlette.testclient import TestClient
from cr5.errors import Cr5Warning
from cr5.index import Index
from cr5.server.app import create_app
from cr5.server.readiness import Readiness

def megabytes(name):
    return int(re.search(name + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

warnings.simplefilter("ignore", Cr5Warning)
folder, path, syllables = sys.argv[1:]
chance, readiness = random.Random(0), Readiness()
texts = [" ".join("".join(chance.choices(syllables.split(), k=8)) for _ in range(430)) for _ in range(120)]
with TestClient(create_app(Index.open(folder), readiness=readiness)) as client:
    assert readiness.warm.wait(200)
    bodies = {
        "/embed": {"lang": "aa", "texts": texts},
        "/v1/embeddings": {"input": texts, "allow_zeros": True},
        "/documents": {"documents": [{"concept": f"c{i}", "lang": "aa", "text": t} for i, t in enumerate(texts)]},
    }
    before = megabytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    answer = client.post(path, json=bodies[path])
    assert answer.status_code == 200, answer.text
    print(round(megabytes("VmHWM") - before))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak memory of a process can be reset on Linux")
@pytest.mark.parametrize("path", ["/embed", "/v1/embeddings", "/documents"])
def test_a_large_request_of_words_that_are_all_different_takes_little_memory(
    index_folder: Path, tmp_path: Path, path: str
) -> None:
    folder = tmp_path / "index"
    shutil.copytree(index_folder, folder)
    command = [sys.executable, "-c", PEAK, str(folder), path, " ".join(madeup.SYLLABLES["aa"])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < MAX_PEAK_MEGABYTES


@given(st.lists(st.integers(0, 12), max_size=20))
def test_batches_are_all_texts_in_order_and_of_bounded_length(lengths: list[int]) -> None:
    texts = [chr(97 + i) * length for i, length in enumerate(lengths)]
    found = list(batches(texts, 10))
    assert [text for batch in found for text in batch] == texts
    assert all(len(batch) == 1 or len("".join(batch)) <= 10 for batch in found)
    assert all(len("".join([*first, second[0]])) > 10 for first, second in pairwise(found))


def test_each_attack_of_the_documentation_has_a_test_that_exists() -> None:
    page = (ROOT / "docs" / "explanation" / "security.md").read_text(encoding="utf-8")
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "server").glob("test_*.py"))
    names = re.findall(r"`(test_\w+)`", page)
    assert len(names) > 30
    assert [name for name in names if f"def {name}(" not in code] == []
