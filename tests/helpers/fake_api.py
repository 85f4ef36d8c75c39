"""A search server on this machine with made-up documents: the interface that the page asks, and how servers fail.

A word means what ``MEANINGS`` says in its language; documents are found by the meanings they share with the query.
"""

import json
import re
import threading
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import cr5
from cr5.retrieval.passages import passage

STATIC = Path(cr5.__file__).parent / "server" / "static"
FILES = {"/": "index.html", **{f"/static/{path.name}": path.name for path in STATIC.iterdir()}}
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}

MEANINGS: dict[str, dict[str, str]] = {
    "dog": {"en": "dog dogs", "it": "cane cani", "da": "hund hunde hunden", "vi": "chó", "ar": "الكلب كلب", "zh": "狗"},
    "house": {"en": "house", "it": "casa", "da": "hus huset", "vi": "nhà", "ar": "البيت", "he": "הבית", "zh": "家"},
    "guard": {"en": "guards guard", "it": "guardia", "da": "vogter", "vi": "canh", "ar": "يحرس", "he": "שומר"},
    "bread": {"en": "bread loaf", "it": "pane", "da": "brød brødet", "vi": "mì"},
    "moon": {"en": "moon", "it": "luna", "da": "måne månen", "vi": "trăng"},
    "storm": {"en": "storm", "it": "tempesta", "da": "storm stormen", "vi": "bão"},
}


class Entry(NamedTuple):
    """One made-up document."""

    id: str
    lang: str
    title: str
    text: str
    url: str = ""


DOCUMENTS = [
    Entry("en:dog", "en", "Dog", "A dog guards the house.\n\nMany dogs sleep by the door.", "https://example.org/dog"),
    Entry("it:dog", "it", "Cane", "Il cane fa la guardia alla casa e dorme vicino alla porta."),
    Entry("da:dog", "da", "Hund", "En hund vogter huset, og hunden sover ved døren."),
    Entry("vi:dog", "vi", "Chó", "Con chó canh nhà và ngủ bên cửa."),
    Entry("ar:dog", "ar", "الكلب", "الكلب يحرس البيت وينام قرب الباب."),
    Entry("he:guard", "he", "שומר הבית", "שומר הבית ישן ליד הדלת כל הלילה."),
    Entry("zh:dog", "zh", "狗", "狗在家门口睡觉。"),
    Entry("en:bread", "en", "Bread", "A loaf of bread is baked in every house."),
    Entry("it:bread", "it", "Pane", "Il pane si cuoce in ogni casa."),
    Entry("da:bread", "da", "Brød", "I hvert hus bages brødet om morgenen."),
    Entry("en:moon", "en", "Moon", "The moon lights the house at night.", "http://example.org/moon"),
    Entry("it:moon", "it", "Luna", "La luna illumina la casa di notte."),
    Entry("da:moon", "da", "Måne", "Månen lyser over huset om natten."),
    Entry("vi:moon", "vi", "Mặt trăng", "Mặt trăng soi sáng ngôi nhà ban đêm."),
]

# Whoever may write into an index may try this; ``pwned`` tells that it worked.
HOSTILE = [
    Entry("x/1?a=b&c#d", "en", "<img src=x onerror='window.pwned=1'> storm", "<script>window.pwned=1</script> storm",
          "javascript:window.pwned=1"),
    Entry("x/2", "en", "</h2><svg onload=window.pwned=1> storm", "storm <iframe srcdoc='<script>top.pwned=1</script>'>",
          "data:text/html,<script>window.pwned=1</script>"),
    Entry("x/3", "en\"><script>window.pwned=1</script>", "{{constructor.constructor('window.pwned=1')()}} storm",
          "storm <a href='javascript:window.pwned=1' onmouseover='window.pwned=1'>here</a>",
          " JaVaScRiPt:window.pwned=1"),
    Entry("\"><img src=x onerror=window.pwned=1>", "en", "storm", "storm <b>bold</b> <style>*{display:none}</style>",
          "https://example.org/\"><script>window.pwned=1</script>"),
]  # fmt: skip

WORD = re.compile(r"[^\W_]+")


def words(text: str, lang: str) -> list[str]:
    """The words of a text in lower case; of Chinese its characters."""
    found = WORD.findall(text.lower())
    return [letter for word in found for letter in word] if lang == "zh" else found


def meanings(text: str, lang: str) -> dict[str, str]:
    """word -> meaning, for the words that have one in the language."""
    lexicon = {word: meaning for meaning, langs in MEANINGS.items() for word in langs.get(lang, "").split()}
    return {word: lexicon[word] for word in words(text, lang) if word in lexicon}


def languages() -> list[str]:
    """All languages that have a word."""
    return sorted({lang for langs in MEANINGS.values() for lang in langs})


@dataclass(frozen=True)
class Fault:
    """One answer that differs from the right one."""

    status: int = 500
    body: bytes = b'{"error": "the index is being repaired"}'
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0  # seconds before anything is said; with status 200 the right answer follows
    until: threading.Event | None = None  # the same, until the test says so
    drop: bool = False  # the connection ends without an answer


class FakeApi:
    """A server on 127.0.0.1 while its block runs. ``faults``: by path, one a request; ``requests``: what was asked."""

    def __init__(self, documents: Sequence[Entry] = DOCUMENTS, *, key: str = "") -> None:
        self.documents = {entry.id: entry for entry in documents}
        self.key = key
        self.faults: dict[str, list[Fault]] = {}
        self.requests: list[str] = []
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"

    def __enter__(self) -> "FakeApi":
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, path: str, given: Mapping[str, str]) -> tuple[int, Any]:
        """Status and JSON for a request."""
        if path == "/info":
            return 200, self._info()
        if path == "/search":
            return self._search(given)
        if path == "/similar" and given.get("id") in self.documents:
            entry = self.documents[given["id"]]
            found = self._nearest(entry.text, entry.lang, given, entry.id)
            return 200, {**found, "query": entry.title, "guessed": False, "confidence": 1.0}
        if path == "/explain" and given.get("id") in self.documents:
            asked = self.documents.get(given.get("of", ""))
            text, lang = (asked.text, asked.lang) if asked else (given["q"], given["lang"])
            return 200, explain(text, lang, self.documents[given["id"]])
        name = urllib.parse.unquote(path.removeprefix("/documents/"))
        if path.startswith("/documents/") and name in self.documents:
            return 200, {**self.documents[name]._asdict(), "concept": name.partition(":")[2]}
        return 404, {"error": f"no document {name!r} in the index"}

    def _info(self) -> dict[str, Any]:
        langs = [entry.lang for entry in self.documents.values()]
        return {
            "version": "0.0.0", "documents": {lang: langs.count(lang) for lang in sorted(set(langs))},
            "languages": languages(), "rank": 6, "measures": ["csls", "cosine"], "writable": False,
            "examples": [{"lang": entry.lang, "text": entry.title} for entry in list(self.documents.values())[:4]],
        }  # fmt: skip

    def _search(self, given: Mapping[str, str]) -> tuple[int, Any]:
        query, lang = given.get("q", ""), given.get("lang", "")
        if lang and lang not in languages():
            return 422, {"error": f"the model has no language {lang!r}; its languages are {', '.join(languages())}"}
        guess = lang or max(languages(), key=lambda other: (len(meanings(query, other)), other == "en"))
        return 200, {**self._nearest(query, guess, given), "guessed": not lang, "confidence": 1.0 if lang else 0.98}

    def _nearest(self, text: str, lang: str, given: Mapping[str, str], itself: str = "") -> dict[str, Any]:
        wanted, asked = set(filter(None, given.get("in", "").split(","))), set(meanings(text, lang).values())
        hits: list[dict[str, Any]] = []
        for number, entry in enumerate(self.documents.values()):
            # "storm" is in the titles of documents whose language is no language
            shared = asked & ({*meanings(f"{entry.title} {entry.text}", entry.lang).values()} or {"storm"})
            if shared and entry.id != itself and (not wanted or entry.lang in wanted):
                cosine = len(shared) / len(asked) * (0.9 - number / 100)
                x, y = len(entry.text) / 90, (number * 7 % 11) / 11
                hits.append({
                    "id": entry.id, "concept": entry.id, "lang": entry.lang, "title": entry.title, "url": entry.url,
                    "snippet": entry.text[:160], "score": cosine - 0.1, "cosine": cosine, "x": x, "y": y,
                })  # fmt: skip
        hits.sort(key=lambda hit: -hit["score"])
        known = len(meanings(text, lang)) / max(1, len(words(text, lang)))
        return {
            "query": text, "lang": lang, "known": known, "measure": given.get("measure", "csls"), "milliseconds": 3.2,
            "hits": hits[: int(given.get("k", "10"))], "at": [0.4, 0.5],
        }  # fmt: skip


def explain(text: str, lang: str, entry: Entry) -> dict[str, Any]:
    """What the words of two texts did for each other."""
    left, right = meanings(text, lang), meanings(f"{entry.title} {entry.text}", entry.lang)
    if not right:
        right = {"storm": "storm"}
    pairs = [[a, b, 0.12] for a in left for b in right if left[a] == right[b]]
    words = [(b, 0.2) for b in right if right[b] in left.values()]
    return {
        "similarity": 0.5, "snippet": passage(entry.text, words, 300, 80),
        "query_words": [[word, 0.3] for word in left], "document_words": words, "pairs": pairs,
    }  # fmt: skip


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that has lost interest is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        api = self.server.api
        address = urllib.parse.urlsplit(self.path)
        given = dict(urllib.parse.parse_qsl(address.query))
        api.requests.append(self.path)
        faults = api.faults.get(address.path, [])
        fault = faults.pop(0) if faults else None
        if fault:
            time.sleep(fault.delay)
            if fault.until:
                fault.until.wait(60)
            if fault.drop:
                self.close_connection = True
                return
            if fault.status != 200:
                self._send(fault.status, "application/json", fault.body, fault.headers)
                return
        if address.path in FILES:
            path = STATIC / FILES[address.path]
            self._send(200, f"{KINDS[path.suffix]}; charset=utf-8", path.read_bytes())
        elif api.key and self.headers.get("X-API-Key") != api.key:
            self._send(401, "application/json", b'{"error": "this server needs a key"}')
        else:
            status, answer = api.answer(address.path, given)
            self._send(status, "application/json", json.dumps(answer).encode())

    def _send(self, status: int, kind: str, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, **(headers or {}), "Content-Type": kind, "Content-Length": len(body)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing is logged."""
