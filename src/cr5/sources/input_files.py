"""Input files of a source: files, all files below a folder, and the members of zips."""

import os
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain, count
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from cr5.errors import CorpusError
from cr5.message_parts import reason
from cr5.sources.accounting import HIDDEN, Accounting
from cr5.sources.files import corpus_errors, open_source
from cr5.storage.compressed import broken_link, split_suffix

LINKED = "link to a folder that is read already"


class InputFile(NamedTuple):
    """A file, or a member of a zip."""

    path: Path
    member: str | None = None

    def __str__(self) -> str:
        return str(self.path) if self.member is None else f"{self.path}: {self.member}"

    @property
    def folder(self) -> tuple[str, ...]:
        """The folders above it; a zip is a folder too."""
        if self.member is None:
            return self.path.resolve().parent.parts
        return self.path.resolve().parts + PurePosixPath(self.member).parent.parts

    @property
    def name(self) -> str:
        """Its name without the suffix of a compression: train.en."""
        if self.member is not None:
            return PurePosixPath(self.member).name
        return split_suffix(self.path.name)[0]

    def open(self, archive: zipfile.ZipFile | None = None) -> AbstractContextManager[IO[bytes]]:
        """Open it for reading decompressed bytes; ``archive`` is its zip if that is open already."""
        return open_source(self.path, self.member, archive)


def find_files(paths: Sequence[Path], accounting: Accounting) -> Iterator[InputFile]:
    """Yield every file once: the given ones, those below folders and those in zips, without hidden ones."""
    seen: set[tuple[Path, str | None]] = set()
    for path in chain.from_iterable(files_below(path, accounting) for path in paths):
        resolved = path.resolve()
        if path.suffix.lower() != ".zip":
            if (resolved, None) not in seen:
                seen.add((resolved, None))
                yield InputFile(path)
            else:
                accounting.skip_file(path, "given twice")
            continue
        try:
            members = _members(path)
        except CorpusError as error:
            accounting.unusable_file(path, "unreadable file", str(error))
            continue
        accounting.replace_by_members(path)
        for member in members:
            if (resolved, member) in seen:
                continue
            seen.add((resolved, member))
            accounting.count_found(file := InputFile(path, member))
            if PurePosixPath(member).name.startswith("."):
                accounting.skip_file(file, HIDDEN)
            else:
                yield file


def matching_files(path: Path, file_name: re.Pattern[str], expected: str, accounting: Accounting) -> list[Path]:
    """A file itself, or the files below a folder whose names match; ``expected`` describes these in messages."""
    if not path.is_dir():
        accounting.count_found(path)
        return [path]
    files = []
    for file in files_below(path, accounting):
        if file_name.fullmatch(file.name):
            files.append(file)
        else:
            accounting.skip_extension(file, file.name)
    if not files:
        raise CorpusError(f"{path}: no {expected}")
    return files


def files_below(path: Path, accounting: Accounting) -> list[Path]:
    """A file itself, or all files below a folder, sorted, but hidden ones and the one that is being written.

    Real folders come first; a link to a folder is followed only if nothing else leads there, and counted if not.
    """
    if not path.is_dir():
        if not path.exists():
            raise CorpusError(f"{path}: {broken_link(path) or 'no such file or folder; check the spelling'}")
        accounting.count_found(path)
        return [path]

    files: list[Path] = []
    entered: set[Path] = set()
    links = [path]
    while links:
        following: list[Path] = []
        for link in links:
            if link.resolve() in entered:
                accounting.count_found(link)
                accounting.skip_file(link, LINKED)
            else:
                files += _real_files(link, path, accounting, entered, following)
        links = sorted(following)
    return sorted(files, key=lambda file: file.parts)


def _real_files(
    start: Path, root: Path, accounting: Accounting, entered: set[Path], links: list[Path]
) -> Iterator[Path]:
    """The files below ``start`` in folders that were not ``entered`` yet; ``links`` gets the linked folders."""

    def fail(error: OSError) -> None:
        accounting.unreadable_folder(f"{error.filename}: cannot be read, {reason(error)}; check its permissions")

    for folder, subfolders, names in os.walk(start, onerror=fail):
        current = Path(folder)
        is_hidden = any(part.startswith(".") for part in current.relative_to(root).parts)
        if (real := current.resolve()) in entered:
            subfolders.clear()
            continue
        if not is_hidden:  # a visible link may lead to a hidden folder
            entered.add(real)
        linked = [name for name in subfolders if (current / name).is_symlink()]
        for name in [*names, *linked]:
            file = current / name
            if accounting.is_output(file):
                continue
            if name in linked and not is_hidden and not name.startswith("."):
                links.append(file)
                continue
            accounting.count_found(file)
            if is_hidden or name.startswith("."):
                accounting.skip_file(file, HIDDEN)
            elif not file.is_file() and file.exists():  # a pipe would block
                accounting.skip_file(file, "not a regular file")
            else:
                yield file


def same_text_error(file: InputFile, other: InputFile) -> CorpusError:
    """The error of two files that have the same name and language in one folder, such as a.en and a.en.gz."""
    return CorpusError(f"{file}: seems to be the same text as {other}; keep one of them")


def unique_names(files: Sequence[tuple[tuple[str, ...], str]]) -> list[str]:
    """A unique name for each pair of folder and file name: the name, after as few of its folders as are needed."""
    folders_of: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for folder, name in files:
        folders_of[name].append(folder)
    depths = {
        name: next(n for n in count() if len({_tail(folder, n) for folder in folders}) == len(folders))
        for name, folders in folders_of.items()
    }
    return ["/".join([*_tail(folder, depths[name]), name]) for folder, name in files]


def _tail(parts: tuple[str, ...], length: int) -> tuple[str, ...]:
    return parts[max(len(parts) - length, 0) :]


def _members(path: Path) -> list[str]:
    with corpus_errors(str(path)), zipfile.ZipFile(path) as archive:
        infos = [info for info in archive.infolist() if info.filename and not info.is_dir()]
    for info in infos:
        if info.flag_bits & 1:
            raise CorpusError(f"{path}: {info.filename} is encrypted; unpack it with its password and pass the files")
    return sorted({info.filename for info in infos})
