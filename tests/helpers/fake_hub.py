"""A local server that speaks the part of the Hugging Face Hub's protocol that downloads and pushes of models use.

Repositories are in memory, with every commit; large files are at another host name, as they are on the hub. A
``Fault`` makes one answer go wrong.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from local_server import Fault, FileHandler, LocalServer

TOKEN = "hf_" + "x" * 34
LFS_SUFFIXES = (".safetensors",)


@dataclass
class Repo:
    """A repository: its commits by their names, the newest commit of each branch, and whether it needs a token."""

    private: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.commit("main", {})

    def commit(self, branch: str, files: Mapping[str, bytes]) -> str:
        """Make these the files of a branch."""
        name = hashlib.sha1(f"{len(self.commits)}".encode()).hexdigest()
        self.commits[name] = dict(files)
        self.branches[branch] = name
        return name

    @property
    def files(self) -> dict[str, bytes]:
        """The files on the branch main."""
        return self.commits[self.branches["main"]]


class FakeHub(LocalServer):
    """A server with ``repos`` by name; the path of a large file's fault is its SHA-256."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.repos: dict[str, Repo] = {}
        self.stored: dict[str, bytes] = {}  # large files by their SHA-256

    def fault_of(self, method: str, target: str) -> Fault:
        return super().fault_of(method, target.removeprefix("/lfs/")) if method != "HEAD" else Fault()


class _Handler(FileHandler):
    local: FakeHub

    def reply(self, path: str) -> None:
        hub, body = self.local, self.content
        if match := re.fullmatch(r"/lfs/(\w+)", path):
            if self.command == "PUT":
                if hashlib.sha256(body).hexdigest() != match[1]:
                    return self.send(400, {}, b"")
                hub.stored[match[1]] = body
                return self.send(200, {}, b"")
            return self.send_file(hub.stored[match[1]], {"ETag": f'"{match[1]}"'})
        authorization = self.asked.get("authorization")
        if authorization not in (None, f"Bearer {TOKEN}"):
            return self.send(401, {"X-Error-Message": "Invalid credentials in Authorization header"}, b"")
        if path == "/api/validate-yaml":
            wrong = [] if yaml.safe_load(json.loads(body)["content"].split("---")[1]) else ["empty"]
            return self.json({"errors": [{"message": text} for text in wrong], "warnings": []})
        if path == "/api/repos/create":
            return self.create(json.loads(body), authorization)
        match = re.match(r"/(?:api/models/)?([\w.-]+/[\w.-]+?)(?:\.git)?(?=/|$)", path)
        repo = hub.repos.get(match[1]) if match else None
        if match is None or repo is None or (repo.private and not authorization):
            return self.send(404 if authorization else 401, {"X-Error-Code": "RepoNotFound"}, b"")
        if self.command in ("POST", "PUT") and not authorization:
            return self.send(403, {"X-Error-Message": "You need a token"}, b"")
        return self.repository(match[1], repo, path[match.end() :], body)

    def create(self, given: dict[str, Any], authorization: str | None) -> None:
        if not authorization:
            return self.send(401, {"X-Error-Message": "Invalid username or password."}, b"")
        name = f"{given['organization']}/{given['name']}"
        answer = json.dumps({"url": f"{self.local.url}/{name}", "id": name}).encode()
        if name in self.local.repos:
            return self.send(409, {}, answer)
        self.local.repos[name] = Repo(given.get("visibility") == "private" or bool(given.get("private")))
        return self.send(200, {}, answer)

    def repository(self, name: str, repo: Repo, action: str, body: bytes) -> None:
        kind, _, rest = action.lstrip("/").partition("/")
        if kind == "resolve":
            revision, _, file = rest.partition("/")
            return self.resolve(repo, revision, file)
        if action == "/info/lfs/objects/batch":
            return self.batch(json.loads(body))
        revision = rest.split("/")[0] or "main"
        if kind == "branch":
            repo.branches.setdefault(rest, repo.branches["main"])
            return self.send(200, {}, b"")
        if revision not in repo.branches and revision not in repo.commits:
            return self.send(404, {"X-Error-Code": "RevisionNotFound"}, b"")
        commit = repo.branches.get(revision, revision)
        if kind in ("", "revision"):
            siblings = [{"rfilename": file} for file in repo.commits[commit]]
            return self.json({"id": name, "sha": commit, "private": repo.private, "siblings": siblings})
        if kind == "tree":
            return self.json([_entry(file, content) for file, content in repo.commits[commit].items()])
        if kind == "preupload":
            return self.json(
                {"files": [_upload_mode(file, repo.commits[commit]) for file in json.loads(body)["files"]]}
            )
        if kind == "commit":
            return self.commit(name, repo, revision, body)
        return self.send(404, {}, b"")

    def resolve(self, repo: Repo, revision: str, file: str) -> None:
        if revision not in repo.branches and revision not in repo.commits:
            return self.send(404, {"X-Error-Code": "RevisionNotFound"}, b"")
        commit = repo.branches.get(revision, revision)
        sent = {"X-Repo-Commit": commit}
        if file not in repo.commits[commit]:
            return self.send(404, sent | {"X-Error-Code": "EntryNotFound"}, b"")
        content = repo.commits[commit][file]
        if not file.endswith(LFS_SUFFIXES):
            return self.send_file(content, sent | {"ETag": f'"{_git_name(content)}"'})
        digest = hashlib.sha256(content).hexdigest()
        self.local.stored[digest] = content
        location = f"http://localhost:{self.local.port}/lfs/{digest}"
        linked = {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(content)), "Location": location}
        return self.send(302, sent | linked, b"")

    def batch(self, given: dict[str, Any]) -> None:
        objects = []
        for item in given["objects"]:
            action = {"upload": {"href": f"{self.local.url}/lfs/{item['oid']}", "header": {}}}
            objects.append(item if item["oid"] in self.local.stored else item | {"actions": action})
        self.json({"transfer": "basic", "objects": objects}, "application/vnd.git-lfs+json")

    def commit(self, name: str, repo: Repo, branch: str, body: bytes) -> None:
        files = dict(repo.commits[repo.branches[branch]])
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.local.stored[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        oid = repo.commit(branch, files)
        self.json({"commitUrl": f"{self.local.url}/{name}/commit/{oid}", "commitOid": oid, "success": True})

    def json(self, values: Any, kind: str = "application/json") -> None:
        self.send(200, {"Content-Type": kind}, json.dumps(values).encode())


def _git_name(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _entry(file: str, content: bytes) -> dict[str, Any]:
    entry = {"type": "file", "path": file, "size": len(content), "oid": _git_name(content)}
    if file.endswith(LFS_SUFFIXES):
        entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
    return entry


def _upload_mode(file: dict[str, Any], there: Mapping[str, bytes]) -> dict[str, Any]:
    large = file["path"].endswith(LFS_SUFFIXES)
    answer = {"path": file["path"], "uploadMode": "lfs" if large else "regular", "shouldIgnore": False}
    if file["path"] in there:
        content = there[file["path"]]
        answer["oid"] = hashlib.sha256(content).hexdigest() if large else _git_name(content)
    return answer
