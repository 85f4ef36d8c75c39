"""model.json, the manifest of a model: its format, its languages and their files, a header, and a digest of it all."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from cr5.errors import ModelFileError

FORMAT = 3
"""The version of the layout: format 3 has quantised maps, format 1 had no n-grams. All are read; a model without
quantised maps is written in format 2, which earlier versions of cr5 can read."""

KIND = "cr5 model"
MANIFEST = "model.json"
FILE_PATTERN = re.compile(r"[A-Za-z0-9_-]+-[0-9a-f]{12}\.(safetensors|txt)")
REMEDY = "restore it or save the model again"


class ModelFile(NamedTuple):
    """A file of a language as model.json names it."""

    name: str
    bytes: int
    sha256: str


class LanguageEntry(NamedTuple):
    """The entry of a language in model.json."""

    word_count: int
    rank: int
    tensors: ModelFile
    vocabulary: ModelFile
    ngram_count: int = 0
    ngrams: ModelFile | None = None
    bits: int = 32

    @property
    def files(self) -> list[ModelFile]:
        """The files of the language."""
        return [file for file in (self.tensors, self.vocabulary, self.ngrams) if file]


class TargetsEntry(NamedTuple):
    """The entry of the concept targets in model.json."""

    concepts: int
    rank: int
    tensors: ModelFile


class Manifest(NamedTuple):
    """What model.json says: the header, the languages, and the concept targets, None without them."""

    header: dict[str, Any]
    languages: dict[str, LanguageEntry]
    targets: TargetsEntry | None


def dump(content: dict[str, Any], **layout: Any) -> bytes:
    """JSON in UTF-8."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, **layout).encode()


def digest(content: dict[str, Any]) -> str:
    """SHA-256 of the canonical JSON: sorted keys, no white space, UTF-8."""
    return hashlib.sha256(dump(content, sort_keys=True, separators=(",", ":"))).hexdigest()


def read_manifest(path: Path) -> bytes:
    """The bytes of model.json; an error that says what is there instead."""
    if not path.exists():
        raise ModelFileError(f"{path} does not exist; check the path, or save a model there first")
    advice = "name the folder that a model was saved to"
    if not path.is_dir():
        raise ModelFileError(f"{path} is a file, not a folder; {advice}")
    if not (path / MANIFEST).is_file():
        if (path / "index.json").is_file():
            raise ModelFileError(f"{path} is an index, and not a model; {advice}")
        raise ModelFileError(f"{path} is not a cr5 model: it holds no {MANIFEST}; {advice}")
    return (path / MANIFEST).read_bytes()


def parse_manifest(path: Path, manifest: bytes) -> dict[str, Any]:
    """The content of model.json if it is that of a model in this format; it may still be damaged."""
    try:
        parsed = json.loads(manifest.decode())
    except (ValueError, RecursionError) as error:
        state = "is empty" if not manifest.strip() else "is damaged or not JSON"
        raise ModelFileError(f"{path / MANIFEST} {state}; {REMEDY}") from error
    content: dict[str, Any] = parsed if isinstance(parsed, dict) else {}
    kind, number = content.get("kind"), content.get("format")
    if kind != KIND:
        problem = "is of another program" if kind is None else f"is of kind {kind!r}, not {KIND!r}"
        raise ModelFileError(f"{path / MANIFEST} {problem}; name a folder that cr5 saved")
    if isinstance(number, int) and number > FORMAT:
        versions = f"format {number}, this version reads formats up to {FORMAT}"
        raise ModelFileError(f"{path} was written by a newer cr5 ({versions}); upgrade cr5")
    return content


def check_manifest(path: Path, manifest: bytes) -> Manifest:
    """The content of model.json, verified by its digest."""
    content = parse_manifest(path, manifest)
    try:
        if content.pop("sha256") != digest(content) or content["format"] not in range(1, FORMAT + 1):
            raise ValueError("sha256")
        entries = {lang: _entry(**entry) for lang, entry in content["languages"].items()}
        targets = _targets_entry(**content["targets"]) if "targets" in content else None
        return Manifest(content["header"], entries, targets)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"{path / MANIFEST} has been edited or damaged; {REMEDY}") from error


def _entry(words: int, rank: int, files: dict[str, dict[str, Any]], ngrams: int = 0, bits: int = 32) -> LanguageEntry:
    parts = {name: ModelFile(**file) for name, file in files.items()}
    if bits not in (32, 16, 8):
        raise ValueError("bits")
    if not all(FILE_PATTERN.fullmatch(file.name) for file in parts.values()):
        raise ValueError("name")  # it could point outside the folder
    return LanguageEntry(
        words, rank, parts["tensors"], parts["words"], ngrams, parts["ngrams"] if ngrams else None, bits
    )


def _targets_entry(concepts: int, rank: int, files: dict[str, dict[str, Any]]) -> TargetsEntry:
    tensors = ModelFile(**files["tensors"])
    if not FILE_PATTERN.fullmatch(tensors.name):
        raise ValueError("name")
    return TargetsEntry(concepts, rank, tensors)
