"""A local server with the layout of Wikimedia's dumps and of the Hugging Face Hub, whose answers can be made to fail.

``publish_…`` puts made-up files where they are published; a ``Fault`` makes one answer go wrong.
"""

import hashlib
import json
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Literal

from local_server import FileHandler, LocalServer

MODIFIED = "Sun, 01 Nov 2026 12:00:00 GMT"
TREE = "/api/datasets/wikimedia/wikipedia/tree/main"
RESOLVE = "/datasets/wikimedia/wikipedia/resolve/main"
STORE = "/lfs"  # where the hub redirects requests for a file


class Mirror(LocalServer):
    """A server with ``files`` by path; folders are listed as nginx does."""

    def __init__(self, *, page: int = 1000) -> None:
        super().__init__(_Handler)
        self.files: dict[str, bytes] = {}
        self.page = page  # entries per page of a listing of the hub

    @property
    def user_agents(self) -> set[str]:
        """The user agents of all requests."""
        return {request.headers.get("user-agent", "") for request in self.requests}


class _Handler(FileHandler):
    local: Mirror

    def reply(self, path: str) -> None:
        files, stored = self.local.files, path.removeprefix(STORE)
        if self.fault.body is not None and stored not in files:
            return self.send(200, {}, self.fault.body)
        if path.startswith(RESOLVE) and path in files:
            return self.send(302, {"Location": urllib.parse.quote(STORE + path)}, b"")
        if path == TREE or path.startswith(TREE + "/"):
            return self.tree(path)
        if stored in files:
            tag = f'"{hashlib.sha1(files[stored]).hexdigest()[:12]}"'
            return self.send_file(files[stored], {"ETag": tag, "Last-Modified": MODIFIED, "Accept-Ranges": "bytes"})
        if path.endswith("/"):
            if names := _names(files, path):
                return self.send(200, {"Content-Type": "text/html"}, _listing(path, names, files))
        elif _names(files, path + "/"):
            return self.send(301, {"Location": urllib.parse.quote(path) + "/"}, b"")
        return self.send(404, {}, b"<html><body>404 Not Found</body></html>")

    def tree(self, path: str) -> None:
        """A page of the listing of a folder of the hub, as JSON."""
        mirror, folder = self.local, RESOLVE + path.removeprefix(TREE) + "/"
        entries = [_entry(folder + name, mirror.files) for name in _names(mirror.files, folder)]
        if not entries:
            return self.send(404, {}, b'{"error":"Entry not found"}')
        begin = int(urllib.parse.parse_qs(self.query).get("cursor", ["0"])[0])
        sent = {"Content-Type": "application/json"}
        if begin + mirror.page < len(entries):
            sent["Link"] = f'<{mirror.url}{urllib.parse.quote(path)}?cursor={begin + mirror.page}>; rel="next"'
        return self.send(200, sent, json.dumps(entries[begin : begin + mirror.page]).encode())


def _names(files: Mapping[str, bytes], folder: str) -> list[str]:
    """The names in a folder, subfolders with a trailing slash."""
    below = (path.removeprefix(folder) for path in files if path.startswith(folder))
    return sorted({name.partition("/")[0] + ("/" if "/" in name else "") for name in below})


def _listing(path: str, names: Sequence[str], files: Mapping[str, bytes]) -> bytes:
    title = f"Index of {escape(path)}"
    lines = [f"<html>\n<head><title>{title}</title></head>\n<body>\n<h1>{title}</h1><hr><pre>"]
    lines.append('<a href="../">../</a>')
    for name in names:
        size = "-" if name.endswith("/") else str(len(files[path + name]))
        lines.append(f'<a href="{urllib.parse.quote(name)}">{escape(name)}</a>  01-Nov-2026 12:00  {size:>19}')
    return "\n".join([*lines, "</pre><hr></body>\n</html>\n"]).encode()


def _entry(path: str, files: Mapping[str, bytes]) -> dict[str, Any]:
    name = path.removeprefix(RESOLVE + "/")
    if name.endswith("/"):
        name = name.removesuffix("/")
        return {"type": "directory", "oid": hashlib.sha1(name.encode()).hexdigest(), "size": 0, "path": name}
    content = files[path]
    entry: dict[str, Any] = {
        "type": "file",
        "oid": hashlib.sha1(content).hexdigest(),
        "size": len(content),
        "path": name,
    }
    if name.endswith(".parquet"):
        entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
    return entry


# Published files


def publish_xml(
    mirror: Mirror, wiki: str, date: str, files: Mapping[str, bytes], props: bytes | None, status: str = "done"
) -> None:
    """Publish dumps of a wiki ("dawiki"), by the ends of their names: "pages-articles-multistream.xml.bz2".

    If there are parts ("pages-articles-multistream1.xml-p1p5.bz2"), the combined file belongs to another dump job.
    """
    in_parts = any(re.search(r"\d\.xml-p\d", name) for name in files)
    jobs: dict[str, dict[str, bytes]] = {}
    for name, content in files.items():
        recombined = in_parts and not re.search(r"-p\d+p\d+\.", name)
        jobs.setdefault("articlesmultistreamdump" + "recombine" * recombined, {})[name] = content
    if props is not None:
        jobs["pagepropstable"] = {"page_props.sql.gz": props}
    publish_jobs(mirror, wiki, date, jobs, status)


def publish_sitelinks(mirror: Mirror, date: str, table: bytes, status: str = "done") -> None:
    """Publish Wikidata's wb_items_per_site."""
    publish_jobs(mirror, "wikidatawiki", date, {"wbitemspersitetable": {"wb_items_per_site.sql.gz": table}}, status)


def publish_jobs(
    mirror: Mirror, wiki: str, date: str, jobs: Mapping[str, Mapping[str, bytes]], status: str = "done"
) -> None:
    """Publish a wiki's dumps and the report on them; a job that is not "done" has no files yet."""
    folder = f"/{wiki}/{date}/"
    report: dict[str, Any] = {}
    for job, files in jobs.items():
        listed: dict[str, Any] = {}
        for end, content in files.items():
            name = f"{wiki}-{date}-{end}"
            listed[name] = {}
            if status == "done":
                mirror.files[folder + name] = content
                listed[name] = {
                    "size": len(content),
                    "url": folder + name,
                    "md5": hashlib.md5(content).hexdigest(),
                    "sha1": hashlib.sha1(content).hexdigest(),
                }
        report[job] = {"status": status, "updated": "2026-11-01 12:00:00", "files": listed}
    mirror.files[f"{folder}dumpstatus.json"] = json.dumps({"version": "0.8", "jobs": report}).encode()


def publish_search_index(
    mirror: Mirror,
    wiki: str,
    date: str,
    parts: Sequence[bytes],
    layout: Literal["new", "classic"] = "new",
    complete: bool = True,
) -> None:
    """Publish a wiki's search index: bz2 parts and, if ``complete``, _SUCCESS; or one gz in the classic layout."""
    if layout == "new":
        folder = f"/other/cirrus_search_index/{date}/index_name={wiki}_content/"
        for i, part in enumerate(parts):
            mirror.files[f"{folder}{wiki}_content-{date}-{i:05}.json.bz2"] = part
        if complete:
            mirror.files[f"{folder}_SUCCESS"] = b""
        return
    (part,) = parts
    for below in (date, "current"):  # a link to the newest one
        mirror.files[f"/other/cirrussearch/{below}/{wiki}-{date}-cirrussearch-content.json.gz"] = part


def publish_parquet(mirror: Mirror, code: str, date: str, parts: Sequence[bytes]) -> None:
    """Publish a Wikipedia's export on the hub; ``code`` is its subdomain, "zh-min-nan"."""
    for i, part in enumerate(parts):
        mirror.files[f"{RESOLVE}/{date}.{code}/train-{i:05}-of-{len(parts):05}.parquet"] = part
