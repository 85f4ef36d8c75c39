"""A fake of the server for tests of the page: made-up documents, and faults on demand.

Documents are found by the meanings that their words share with those of the query, according to ``MEANINGS``. That its
responses have the form of the real server's is tested in ``tests/server/test_fake_api.py``.
"""

import json
import re
import sys
import threading
import time
import traceback
import urllib.parse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple

import cr5
from cr5.retrieval.snippets import snippet
from cr5.server import token_rules
from cr5.server.headers import SECURITY_HEADERS

STATIC = Path(cr5.__file__).parent / "server" / "static"
FILES = {f"/static/{path.name}": path.name for path in STATIC.iterdir()}
FILES |= {"/": "index.html", f"/static/{token_rules.FILE_NAME}": token_rules.FILE_NAME}
CONTENT_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}

MEANINGS: dict[str, dict[str, str]] = {
    "dog": {"en": "dog dogs", "it": "cane cani", "da": "hund hunde hunden", "vi": "chó", "ar": "الكلب كلب", "zh": "狗"},
    "house": {"en": "house", "it": "casa", "da": "hus huset", "vi": "nhà", "ar": "البيت", "he": "הבית", "zh": "家"},
    "guard": {"en": "guards guard", "it": "guardia", "da": "vogter", "vi": "canh", "ar": "يحرس", "he": "שומר"},
    "bread": {"en": "bread loaf", "it": "pane", "da": "brød brødet", "vi": "mì"},
    "moon": {"en": "moon", "it": "luna", "da": "måne månen", "vi": "trăng"},
    "storm": {"en": "storm", "it": "tempesta", "da": "storm stormen", "vi": "bão"},
}


class FakeDocument(NamedTuple):
    """A made-up document."""

    id: str
    lang: str
    title: str
    text: str
    url: str = ""
    about: str = ""  # its concept; empty: its own
    fields: Mapping[str, Any] = MappingProxyType({})

    @property
    def concept(self) -> str:
        """What it is about; documents without a common concept have their ids."""
        return self.about or self.id

    def public(self) -> dict[str, Any]:
        """What hits and the response of /documents have in common."""
        values = {name: getattr(self, name) for name in ("id", "concept", "lang", "title", "url")}
        return values | {"fields": dict(self.fields)}


DOCUMENTS = [
    FakeDocument(
        "en:dog", "en", "Dog", "A dog guards the house.\n\nMany dogs sleep by the door.", "https://example.org/dog"
    ),
    FakeDocument("it:dog", "it", "Cane", "Il cane fa la guardia alla casa e dorme vicino alla porta."),
    FakeDocument("da:dog", "da", "Hund", "En hund vogter huset, og hunden sover ved døren."),
    FakeDocument("vi:dog", "vi", "Chó", "Con chó canh nhà và ngủ bên cửa."),
    FakeDocument("ar:dog", "ar", "الكلب", "الكلب يحرس البيت وينام قرب الباب."),
    FakeDocument("he:guard", "he", "שומר הבית", "שומר הבית ישן ליד הדלת כל הלילה."),
    FakeDocument("zh:dog", "zh", "狗", "狗在家门口睡觉。"),
    FakeDocument("en:bread", "en", "Bread", "A loaf of bread is baked in every house."),
    FakeDocument("it:bread", "it", "Pane", "Il pane si cuoce in ogni casa."),
    FakeDocument("da:bread", "da", "Brød", "I hvert hus bages brødet om morgenen."),
    FakeDocument("en:moon", "en", "Moon", "The moon lights the house at night.", "http://example.org/moon"),
    FakeDocument("it:moon", "it", "Luna", "La luna illumina la casa di notte."),
    FakeDocument("da:moon", "da", "Måne", "Månen lyser over huset om natten."),
    FakeDocument("vi:moon", "vi", "Mặt trăng", "Mặt trăng soi sáng ngôi nhà ban đêm."),
]

# Attacks by someone who may add documents; a script that runs sets ``window.pwned``.
HOSTILE = [
    FakeDocument(
        "x/1?a=b&c#d",
        "en",
        "<img src=x onerror='window.pwned=1'> storm",
        "<script>window.pwned=1</script> storm",
        "javascript:window.pwned=1",
    ),
    FakeDocument(
        "x/2",
        "en",
        "</h2><svg onload=window.pwned=1> storm",
        "storm <iframe srcdoc='<script>top.pwned=1</script>'>",
        "data:text/html,<script>window.pwned=1</script>",
    ),
    FakeDocument(
        "x/3",
        'en"><script>window.pwned=1</script>',
        "{{constructor.constructor('window.pwned=1')()}} storm",
        "storm <a href='javascript:window.pwned=1' onmouseover='window.pwned=1'>here</a>",
        " JaVaScRiPt:window.pwned=1",
    ),
    FakeDocument(
        '"><img src=x onerror=window.pwned=1>',
        "en",
        "storm",
        "storm <b>bold</b> <style>*{display:none}</style>",
        'https://example.org/"><script>window.pwned=1</script>',
    ),
]

WORD = re.compile(r"[^\W_]+")


def words(text: str, lang: str) -> list[str]:
    """The words of a text in lower case; for Chinese, its characters."""
    matches = WORD.findall(text.lower())
    return [character for word in matches for character in word] if lang == "zh" else matches


def meanings(text: str, lang: str) -> dict[str, str]:
    """word -> meaning, for the words of a text that have one in the language."""
    lexicon = {word: meaning for meaning, langs in MEANINGS.items() for word in langs.get(lang, "").split()}
    return {word: lexicon[word] for word in words(text, lang) if word in lexicon}


def languages() -> list[str]:
    """All languages that occur in ``MEANINGS``."""
    return sorted({lang for langs in MEANINGS.values() for lang in langs})


@dataclass(frozen=True)
class Fault:
    """A response that replaces or delays the regular one."""

    status: int = 500
    body: bytes = b'{"error": "the index is being repaired"}'
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0  # seconds before the response; with status 200 the regular one follows
    until: threading.Event | None = None  # delays the response until it is set
    drop: bool = False  # closes the connection without a response


class FakeApi:
    """A server on 127.0.0.1 while its context is open.

    ``faults``: by path, one for each of the next requests; ``requests``: the paths requested so far; ``suggestions``:
    what was probably meant, by query; ``passages``: the part that matches, by document.
    """

    def __init__(self, documents: Sequence[FakeDocument] = DOCUMENTS, *, key: str = "") -> None:
        self.documents = {document.id: document for document in documents}
        self.key = key
        self.faults: dict[str, list[Fault]] = {}
        self.requests: list[str] = []
        self.suggestions: dict[str, str] = {}
        self.passages: dict[str, tuple[int, int]] = {}
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

    def respond(self, path: str, parameters: Mapping[str, str]) -> tuple[int, Any]:
        """Status and JSON for a request."""
        if path == "/info":
            return 200, self._info()
        if path == "/search":
            return self._search(parameters)
        requested = [parameters.get("id", ""), parameters.get("of", "")] if path in ("/similar", "/explain") else [path]
        ids = [urllib.parse.unquote(one.removeprefix("/documents/")) for one in requested if one]
        for document_id in ids:
            if document_id not in self.documents:
                message = f"there is no document {document_id!r} in the index; use an id that a search returned"
                return 404, {"error": message}
        document = self.documents[ids[0]]
        if path == "/similar":
            found = self._nearest(document.text, document.lang, parameters, document.id)
            return 200, {**found, "query": document.title, "guessed": False, "confidence": 1.0, "mode": "dense"}
        if path == "/explain":
            other = self.documents[ids[1]] if len(ids) > 1 else None
            text, lang = (other.text, other.lang) if other else (parameters["q"], parameters["lang"])
            return 200, explain(text, lang, document, self.passages.get(document.id))
        return 200, document.public() | {"text": document.text}

    def _info(self) -> dict[str, Any]:
        documents = list(self.documents.values())
        return {
            "version": "0.0.0",
            "documents": dict(sorted(Counter(document.lang for document in documents).items())),
            "languages": languages(),
            "rank": 6,
            "measures": ["csls", "cosine"],
            "writable": False,
            "examples": [{"lang": document.lang, "text": document.title} for document in documents[:4]],
        }

    def _search(self, parameters: Mapping[str, str]) -> tuple[int, Any]:
        query, lang = parameters.get("q", ""), parameters.get("lang", "")
        for code in filter(None, (lang, parameters.get("prefer"))):
            if code not in languages():
                return 422, {"error": f"the index has no language {code!r}; its languages are {', '.join(languages())}"}
        guess = lang or max(languages(), key=lambda other: (len(meanings(query, other)), other == "en"))
        return 200, {
            **self._nearest(query, guess, parameters),
            "guessed": not lang,
            "confidence": 1.0 if lang else 0.98,
        }

    def _nearest(self, text: str, lang: str, parameters: Mapping[str, str], excluded_id: str = "") -> dict[str, Any]:
        langs = set(filter(None, parameters.get("in", "").split(",")))
        where = json.loads(parameters.get("where", "{}"))
        query_meanings = set(meanings(text, lang).values())
        hits: list[dict[str, Any]] = []
        for number, document in enumerate(self.documents.values()):
            # hostile documents have titles with "storm", but their languages do not exist
            shared = query_meanings & (
                {*meanings(f"{document.title} {document.text}", document.lang).values()} or {"storm"}
            )
            wanted = not langs or document.lang in langs
            wanted = wanted and all(document.fields.get(name) == value for name, value in where.items())
            if shared and document.id != excluded_id and wanted:
                cosine = len(shared) / len(query_meanings) * (0.9 - number / 100)
                x, y = len(document.text) / 90, (number * 7 % 11) / 11
                begin, end = self.passages.get(document.id, (0, len(document.text)))
                matched = [
                    word for word, meaning in meanings(document.text, document.lang).items() if meaning in shared
                ]
                hits.append(document.public() | {
                    "snippet": snippet(document.text, [(word, 1.0) for word in matched], 160, 40, begin, end),
                    "score": cosine - 0.1, "cosine": cosine, "x": x, "y": y, "versions": [],
                    "parts": {"words": cosine / 2, "vectors": cosine / 2 - 0.1},
                    "passage": [begin, end], "words": matched,
                })  # fmt: skip
        preferred = parameters.get("prefer", "")
        hits.sort(key=lambda hit: (-hit["score"], hit["lang"] != preferred))
        if parameters.get("group") == "concept":
            hits = self._grouped(hits, preferred)
        total, known = words(text, lang), meanings(text, lang)
        by_subword = [word for word in total if word not in known and meanings(word[:4], lang)]
        shares = {"known": len(known) / max(1, len(total)), "by_subword": len(by_subword) / max(1, len(total))}
        offset = int(parameters.get("offset", "0"))
        return {
            "query": text, "lang": lang, **shares, "measure": parameters.get("measure", "csls"),
            "mode": parameters.get("mode", "hybrid"), "tokens": total, "suggestion": self.suggestions.get(text),
            "warnings": [],
            "milliseconds": 3.2, "hits": hits[offset : offset + int(parameters.get("k", "10"))], "at": [0.4, 0.5],
        }  # fmt: skip

    def _grouped(self, hits: list[dict[str, Any]], preferred: str) -> list[dict[str, Any]]:
        """One hit for each concept, in the preferred language if it was found in that, with its other versions."""
        groups: dict[str, list[dict[str, Any]]] = {}
        for hit in hits:
            groups.setdefault(hit["concept"], []).append(hit)
        grouped = []
        for concept, group in groups.items():
            best = next((hit for hit in group if hit["lang"] == preferred), group[0])
            scores = {hit["id"]: hit["score"] for hit in group}
            versions = [
                {"id": other.id, "lang": other.lang, "title": other.title, "score": scores.get(other.id)}
                for other in self.documents.values()
                if other.concept == concept and other.id != best["id"]
            ]
            grouped.append(best | {"versions": versions})
        return grouped


def explain(text: str, lang: str, document: FakeDocument, part: tuple[int, int] | None = None) -> dict[str, Any]:
    """The response of /explain for two texts."""
    left, right = meanings(text, lang), meanings(f"{document.title} {document.text}", document.lang)
    if not right:
        right = {"storm": "storm"}
    pairs = [[a, b, 0.12] for a in left for b in right if left[a] == right[b]]
    words = [(b, 0.2) for b in right if right[b] in left.values()]
    return {
        "similarity": 0.5, "snippet": snippet(document.text, words, 300, 80),
        "passage": list(part or (0, len(document.text))),
        "query_words": [[word, 0.3] for word in left], "document_words": words, "pairs": pairs,
    }  # fmt: skip


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore browsers that close a connection early; show any other error, which the page sees as no response."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            traceback.print_exc()


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        api = self.server.api
        address = urllib.parse.urlsplit(self.path)
        parameters = dict(urllib.parse.parse_qsl(address.query))
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
            content = path.read_bytes() if path.exists() else token_rules.token_rules().encode()
            self._send(200, f"{CONTENT_TYPES[path.suffix]}; charset=utf-8", content)
        elif api.key and self.headers.get("X-API-Key") != api.key:
            self._send(401, "application/json", b'{"error": "this server needs a key"}')
        else:
            status, content = api.respond(address.path, parameters)
            self._send(status, "application/json", json.dumps(content).encode())

    def _send(self, status: int, content_type: str, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        own_headers = {"Content-Type": content_type, "Content-Length": len(body)}
        for name, value in {**SECURITY_HEADERS, **(headers or {}), **own_headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""
