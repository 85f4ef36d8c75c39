"""A model on disk: a folder with ``model.json`` and, for each language, a safetensors file, a list of words and, if the
model has them, a list of n-grams. A model that can be extended has one more safetensors file, with concept targets.

Every file except ``model.json`` is named after its content, so saving changes nothing until it replaces ``model.json``
in one step: after a crash before that, the old model is there, and after a crash later, the new one.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from mmap import ACCESS_READ, mmap
from pathlib import Path
from threading import RLock
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np

from cr5._typing import Array
from cr5.errors import ModelFileError, NotFittedError
from cr5.message_parts import format_bytes, reason
from cr5.storage.atomic import atomic_path, created_folder, discard, replace, sync
from cr5.storage.concept_targets import ConceptTargets
from cr5.storage.language_map import LanguageMap, SubwordMap
from cr5.storage.lexicon_files import FOLDER as LEXICONS
from cr5.storage.locks import locked
from cr5.storage.model_manifest import (
    FILE_PATTERN,
    FORMAT,
    KIND,
    MANIFEST,
    REMEDY,
    LanguageEntry,
    ModelFile,
    TargetsEntry,
    check_manifest,
    digest,
    dump,
    parse_manifest,
    read_manifest,
)
from cr5.storage.output_paths import check_folder_writable
from cr5.storage.tensor_files import map_tensors, write_tensors

_LOCK = ".lock"
_SAVING = ".saving"
_CODE_PATTERN = re.compile(r"[A-Za-z0-9_-]+")
_MAPS = {"map", "subword_map"}


class LanguageSize(NamedTuple):
    """The words and n-grams of a language in a model, the bytes of its files, and the bits of a number of its map."""

    words: int
    ngrams: int
    bytes: int
    bits: int = 32


class ModelFolder:
    """An open model: ``metadata`` as it was saved, and languages, which are read on first use."""

    def __init__(
        self,
        path: Path,
        metadata: dict[str, Any],
        entries: dict[str, LanguageEntry],
        targets: TargetsEntry | None = None,
    ) -> None:
        self.path, self.metadata, self._entries, self._targets = path, metadata, entries, targets
        self._words: dict[str, list[str]] = {}
        self._languages: dict[str, LanguageMap] = {}
        self._locks = {lang: RLock() for lang in entries}

    @property
    def langs(self) -> list[str]:
        """The languages that were opened."""
        return list(self._entries)

    def sizes(self) -> dict[str, LanguageSize]:
        """How large each language is."""
        return {
            lang: LanguageSize(entry.word_count, entry.ngram_count, sum(file.bytes for file in entry.files), entry.bits)
            for lang, entry in self._entries.items()
        }

    def language(self, lang: str) -> LanguageMap:
        """The map of a language, read and checked once; its arrays are read-only views of the file."""
        with self._locks[lang]:
            if lang not in self._languages:
                words = self.words(lang)
                with _naming_language(self.path, lang, self._entries):
                    self._languages[lang] = _read_language(self.path, self._entries[lang], words)
            return self._languages[lang]

    def words(self, lang: str) -> list[str]:
        """The vocabulary of a language, read and checked once; its tensors, which are much larger, are not read."""
        with self._locks[lang]:
            if lang not in self._words:
                entry = self._entries[lang]
                with _naming_language(self.path, lang, self._entries):
                    self._words[lang] = _read_strings(self.path, entry.vocabulary, entry.word_count, "words")
            return self._words[lang]

    def targets(self) -> ConceptTargets | None:
        """The concept targets, read and checked; None if the model was saved without them, or copied without them."""
        if self._targets is None or not (self.path / self._targets.tensors.name).exists():
            return None
        try:
            file = _open_checked(self.path, self._targets.tensors)
        except ModelFileError as error:
            raise ModelFileError(f"{error}, or delete it, and the model has no concept targets") from error
        with file:
            arrays = _map_tensors(file, _target_shapes(self._targets.concepts, self._targets.rank))
            return ConceptTargets(*arrays.values())

    def digest(self, *langs: str) -> str:
        """A digest of the files of some languages."""
        return digest({lang: [file.sha256 for file in self._entries[lang].files] for lang in langs})


FindLanguage: TypeAlias = Callable[[str, Collection[str]], str | None]


def _find_exactly(lang: str, langs: Collection[str]) -> str | None:
    return lang if lang in langs else None


def language_files(
    path: Path, langs: Sequence[str] | None = None, find: FindLanguage = _find_exactly
) -> list[ModelFile]:
    """The files that model.json names: of all languages or of some, and of the concept targets.

    Only model.json has to be there.
    """
    _, entries, targets = check_manifest(path, read_manifest(path))
    files = [file for entry in _choose(path, entries, langs, find).values() for file in entry.files]
    return files + ([targets.tensors] if targets else [])


def verify_file(path: Path, file: ModelFile) -> None:
    """Raise an error unless a file of the model in a folder has its size and digest."""
    _open_checked(path, file).close()


def is_language_file(name: str) -> bool:
    """Whether a file is named like that of a language, of this model or of an earlier one."""
    return FILE_PATTERN.fullmatch(name) is not None


def open_model(path: Path, langs: Sequence[str] | None = None, find: FindLanguage = _find_exactly) -> ModelFolder:
    """Open a model, or some of its languages; the files of the others may be missing.

    ``find`` returns the one of the model's languages that one of ``langs`` means.
    """
    path = path.resolve()  # reading later must survive a change of directory and of symbolic links
    while True:
        manifest = read_manifest(path)
        metadata, entries, targets = check_manifest(path, manifest)
        entries = _choose(path, entries, langs, find)
        try:
            for lang, entry in entries.items():
                with _naming_language(path, lang, entries):
                    for file in entry.files:
                        _check_size(path, file)
        except ModelFileError:
            if read_manifest(path) == manifest:
                raise
            continue  # another process saved in the meantime and removed the old files
        return ModelFolder(path, metadata, entries, targets)


@contextmanager
def _naming_language(path: Path, lang: str, entries: Mapping[str, LanguageEntry]) -> Iterator[None]:
    """Let errors about the files of a language say which one it is, and how to do without it."""
    try:
        yield
    except ModelFileError as error:
        others = ",".join(other for other in entries if other != lang)
        advice = f"; or do without {lang}: cr5 model subset {path} --langs {others} -o NEW" if others else ""
        raise ModelFileError(f"the language {lang} is damaged: {error}{advice}") from error


def _choose(
    path: Path, entries: dict[str, LanguageEntry], langs: Sequence[str] | None, find: FindLanguage
) -> dict[str, LanguageEntry]:
    """The entries of some languages, or of all."""
    if langs is None:
        return entries
    wanted = {}
    for lang in langs:
        if (found := find(lang, entries)) is None:
            raise ModelFileError(f"{path} has no language {lang!r}; it has {', '.join(entries)}")
        wanted[found] = entries[found]
    if not wanted:
        raise ModelFileError(f"`langs` is empty; name some of {', '.join(entries)}")
    return wanted


def save(
    path: Path, metadata: dict[str, Any], languages: Mapping[str, LanguageMap], targets: ConceptTargets | None = None
) -> None:
    """Write a model to a new folder, or replace the model in it; concurrent saves wait for each other.

    ``metadata`` may hold anything that JSON can. If the disk is full or read-only, an earlier model stays, and nothing
    else does.
    """
    path = path.resolve()
    try:
        metadata = json.loads(dump(metadata))  # as it will be read
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"the metadata is not JSON: {error}; use strings, finite numbers, lists, dicts") from error
    if not languages:
        raise NotFittedError
    for lang, language in languages.items():
        _check_language(lang, language)
    check_model_folder(path)
    try:
        with created_folder(path, path / _LOCK), locked(path / _LOCK):
            _remove_stale_files(path)
            try:
                _write(path, metadata, languages, targets)
                shutil.rmtree(path / LEXICONS, ignore_errors=True)  # of the model that was replaced
            finally:
                _remove_stale_files(path)
    except OSError as error:
        size = format_bytes(
            sum(array.nbytes for language in languages.values() for array in _arrays(language).values())
        )
        raise ModelFileError(
            f"{path}: the model of {size} cannot be saved, {reason(error)}; free disk space, or save it elsewhere"
        ) from error


def _write(
    path: Path, metadata: dict[str, Any], languages: Mapping[str, LanguageMap], targets: ConceptTargets | None
) -> None:
    from importlib.metadata import version

    saving = path / _SAVING  # a folder, because the safetensors library creates temporary files itself
    saving.mkdir()
    strings, tensors = saving / "strings.txt", saving / "tensors.safetensors"
    entries: dict[str, dict[str, Any]] = {}
    for lang, language in languages.items():
        files, entry = {}, {"words": len(language.words), "rank": language.offset.size}
        entry |= {} if language.scale is None else {"bits": language.bits}
        lists = {"words": language.words} | ({"ngrams": language.ngrams} if language.subwords else {})
        for name, items in lists.items():
            strings.write_bytes("".join(f"{item}\n" for item in items).encode())
            files[name] = _move_to_content_name(strings, path, lang)._asdict()
            entry[name] = len(items)
        write_tensors(_arrays(language), tensors)
        files["tensors"] = _move_to_content_name(tensors, path, lang)._asdict()
        entries[lang] = entry | {"files": files}
    number = 2 if all(language.scale is None for language in languages.values()) else FORMAT
    content = {"format": number, "kind": KIND, "cr5": version("cr5"), "languages": entries, "header": metadata}
    if targets is not None:
        count, rank = targets.values.shape
        arrays = (targets.hashes, targets.values, targets.scale, targets.intercept)
        write_tensors(dict(zip(_target_shapes(0, 0), arrays, strict=True)), tensors)
        files = {"tensors": _move_to_content_name(tensors, path, "concepts")._asdict()}
        content["targets"] = {"concepts": count, "rank": rank, "files": files}
    sync(path)  # the names of the other files must survive a power failure before model.json refers to them
    with atomic_path(path / MANIFEST, temporary=saving / MANIFEST) as file:  # replaces the old model
        file.write_bytes(dump(content | {"sha256": digest(content)}, indent=2) + b"\n")


def _move_to_content_name(part: Path, path: Path, lang: str) -> ModelFile:
    sha256 = file_digest(part)
    sync(part)
    result = ModelFile(f"{lang}-{sha256[:12]}{part.suffix}", part.stat().st_size, sha256)
    target = path / result.name
    # A file with this content may be that of the model which is being saved: mapped, so that Windows keeps it.
    if not target.exists() or file_digest(target) != sha256:
        replace(part, target)
    return result


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove_stale_files(path: Path) -> None:
    """Remove the files of earlier and interrupted saves: those named like ours that model.json does not mention."""
    if (path / _SAVING).exists():
        shutil.rmtree(path / _SAVING)
    sync(path)  # a file is removed only after the model.json that no longer mentions it is on disk
    mentioned: set[str] = set()
    if (path / MANIFEST).is_file():
        try:
            _, entries, targets = check_manifest(path, read_manifest(path))
        except ModelFileError:
            return  # a damaged model.json may still be repaired by hand, as long as its files exist
        mentioned = {file.name for entry in entries.values() for file in entry.files}
        mentioned |= {targets.tensors.name} if targets else set()
    for file in list(path.iterdir()):
        if FILE_PATTERN.fullmatch(file.name) and file.name not in mentioned and file.is_file():
            discard(file)


def check_model_folder(path: Path) -> None:
    """Raise an error if a folder cannot be written, or holds anything but a model of this format."""
    path = path.resolve()
    if path.exists() and not path.is_dir():
        raise ModelFileError(f"{path} is a file; save the model to a new or empty folder")
    if (path / MANIFEST).is_file():
        try:
            parse_manifest(path, read_manifest(path))
        except ModelFileError as error:
            raise ModelFileError(f"cannot save over {path}, which this cr5 did not write; save elsewhere") from error
    elif path.exists():
        names = sorted(file.name for file in path.iterdir())
        others = [name for name in names if name not in (_LOCK, _SAVING) and not FILE_PATTERN.fullmatch(name)]
        if others:
            raise ModelFileError(f"{path} holds other files, such as {others[0]}; save to a new or empty folder")
    check_folder_writable(path)


def has_model(path: Path) -> bool:
    """Whether a folder has a model, complete or damaged."""
    return (path / MANIFEST).exists()


def can_name_file(lang: str) -> bool:
    """Whether a language code can be part of a file name."""
    return bool(_CODE_PATTERN.fullmatch(lang))


def check_code(lang: str) -> None:
    """Raise an error for a language code that cannot be part of a file name."""
    if not can_name_file(lang):
        raise ModelFileError(f"language {lang!r} cannot name a file; use only letters a to z, digits, - and _")


def language_size(language: LanguageMap) -> LanguageSize:
    """How large a language would be in a file, but for the file's header."""
    strings = sum(len(string.encode()) + 1 for string in [*language.words, *language.ngrams])
    arrays = sum(array.nbytes for array in _arrays(language).values())
    return LanguageSize(len(language.words), len(language.ngrams), strings + arrays, language.bits)


def _check_language(lang: str, language: LanguageMap) -> None:
    check_code(lang)
    words, rank = language.words, language.offset.size
    if not words or not rank:
        raise ModelFileError(f"language {lang} has {len(words)} words and rank {rank}; both must be at least 1")
    arrays = _arrays(language)
    for name, (kind, shape) in _tensor_shapes(len(words), rank, len(language.ngrams), language.bits).items():
        array = arrays[name]
        if array.dtype != kind or array.shape != shape:
            raise ModelFileError(f"{name} of {lang} is {array.dtype} {array.shape}; make it {kind} {shape}")
        if name not in _MAPS and not np.isfinite(array).all():  # the maps are too large to check
            raise ModelFileError(f"{name} of {lang} is not finite; check the training data")
    _check_strings("word", words, lang)
    _check_strings("n-gram", language.ngrams, lang)


def _check_strings(kind: str, strings: list[str], lang: str) -> None:
    seen: set[str] = set()
    for string in strings:
        if string.encode(errors="replace").decode().split() != [string]:
            raise ModelFileError(f"{kind} {string!r} of {lang} is empty, has white space or is not Unicode; drop it")
        if string in seen:
            raise ModelFileError(f"{kind} {string!r} of {lang} occurs twice; keep one of them")
        seen.add(string)


def _arrays(language: LanguageMap) -> dict[str, Array]:
    """The tensors of a language by their names in the file, where a scale is called a unit."""
    arrays = {"idf": language.idf, "map": language.map, "offset": language.offset}
    arrays |= {} if language.scale is None else {"unit": language.scale}
    if (subwords := language.subwords) is None:
        return arrays
    names = {"weights": subwords.weights, "map": subwords.map, "unit": subwords.scale, "squares": subwords.squares}
    return arrays | {f"subword_{name}": array for name, array in names.items()}


def _tensor_shapes(words: int, rank: int, ngrams: int, bits: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The type and shape of each tensor of a language."""
    kind = {16: "float16", 8: "int8"}.get(bits, "float32")
    tensors = {"idf": ("float32", (words,)), "map": (kind, (words, rank)), "offset": ("float32", (rank,))}
    if bits < 32:
        tensors["unit"] = ("float32", (words if bits == 8 else 1,))
    if not ngrams:
        return tensors
    return tensors | {
        "subword_weights": ("float32", (ngrams,)),
        "subword_map": ("int8" if bits == 8 else "float16", (ngrams, rank)),
        "subword_unit": ("float32", (ngrams if bits == 8 else 1,)),
        "subword_squares": ("float32", (words,)),
    }


def _target_shapes(concepts: int, rank: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The type and shape of each tensor of the concept targets."""
    return {
        "hashes": ("uint64", (concepts,)),
        "values": ("float16", (concepts, rank)),
        "unit": ("float32", (1,)),
        "intercept": ("float32", (rank,)),
    }


def _check_size(path: Path, file: ModelFile) -> None:
    try:
        size = (path / file.name).stat().st_size
    except FileNotFoundError:
        remedy = "restore it, or open the model again if it was just saved"
        raise ModelFileError(f"{path / file.name} is missing; {remedy}") from None
    if size != file.bytes:
        raise ModelFileError(f"{path / file.name} has {size} bytes instead of {file.bytes}; {REMEDY}")


def _open_checked(path: Path, file: ModelFile) -> BinaryIO:
    _check_size(path, file)
    opened = (path / file.name).open("rb")
    # Memory-mapped, because reading the bytes into a buffer first takes a fifth longer.
    with mmap(opened.fileno(), 0, access=ACCESS_READ) if file.bytes else nullcontext(b"") as content:
        sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != file.sha256:
        opened.close()
        raise ModelFileError(f"{path / file.name} has been changed; {REMEDY}")
    return opened


def _read_strings(path: Path, file: ModelFile, count: int, kind: str) -> list[str]:
    with _open_checked(path, file) as opened:
        strings = opened.read().decode(errors="replace").split("\n")
    if strings.pop() or len(strings) != count:
        raise ModelFileError(f"{path / file.name} is not a list of {count} {kind}; {REMEDY}")
    return strings


def _read_language(path: Path, entry: LanguageEntry, words: list[str]) -> LanguageMap:
    with _open_checked(path, entry.tensors) as file:
        arrays = _map_tensors(file, _tensor_shapes(entry.word_count, entry.rank, entry.ngram_count, entry.bits))
    for name in arrays.keys() - _MAPS:
        if not np.isfinite(arrays[name]).all():
            raise ModelFileError(f"{name} in {path / entry.tensors.name} is not finite; {REMEDY}")
    subwords = None
    if entry.ngrams:
        ngrams = _read_strings(path, entry.ngrams, entry.ngram_count, "n-grams")
        subwords = SubwordMap(ngrams, *(arrays[f"subword_{name}"] for name in ("weights", "map", "unit", "squares")))
    return LanguageMap(words, arrays["idf"], arrays["map"], arrays["offset"], subwords, arrays.get("unit"))


def _map_tensors(file: BinaryIO, expected: dict[str, tuple[str, tuple[int, ...]]]) -> dict[str, Array]:
    """The arrays of a language, checked."""
    try:
        arrays = map_tensors(file)
        for name, (kind, shape) in expected.items():
            if arrays[name].dtype != np.dtype(kind).newbyteorder("<") or arrays[name].shape != shape:
                raise ValueError("shape")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        needed = ", ".join(f"{name} {kind} {shape}" for name, (kind, shape) in expected.items())
        raise ModelFileError(f"{file.name} does not hold the tensors {needed}; {REMEDY}") from error
    return {name: arrays[name] for name in expected}
