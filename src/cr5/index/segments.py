"""Segments: the rows of an index in files that never change; a manifest names the files in use.

A writer adds files, replaces the manifest atomically, and deletes the files that it does not name. A reader keeps the
version that it has opened. Rows that are added form a new segment; neighbouring segments of similar size are merged, so
that there are few segments and a row is rewritten a few times only.
"""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from cr5._typing import Ints, Mask
from cr5.errors import Cr5Error
from cr5.storage.atomic import Stamp, discard, file_stamp
from cr5.storage.json_files import read_json, write_json

FORMAT = 1


class Segment(Protocol):
    """Rows with slots, numbers that are never reused; ``size`` is what merging it costs."""

    @property
    def slots(self) -> Ints: ...

    @property
    def size(self) -> int: ...


S = TypeVar("S", bound=Segment)
Opened = TypeVar("Opened")


class SegmentedIndex(ABC, Generic[S]):
    """One version of an index, which stays readable when its files are replaced and deleted.

    Rows are numbered across all segments: those of segment i from ``offsets[i]`` to ``offsets[i + 1]``.
    """

    manifest_name: ClassVar[str]
    segments_key: ClassVar[str]  # in the manifest
    file_name: ClassVar[str]  # of a segment

    def __init__(self, folder: Path, previous: "SegmentedIndex[S] | None" = None) -> None:
        self.folder, self.manifest = folder, read_json(folder / self.manifest_name)
        number = self.manifest.get("format", FORMAT)
        if number > FORMAT:
            raise Cr5Error(
                f"{folder} was written by a newer cr5 (format {number}, this one reads {FORMAT}); upgrade cr5"
            )
        # The segments that the previous version has as well keep what has been computed of them.
        opened = dict(previous.named_segments) if previous else {}
        self.named_segments: list[tuple[str, S]] = [
            (name, opened.get(name) or self.load(folder / name)) for name in self.manifest[self.segments_key]
        ]
        self.segments = [segment for _, segment in self.named_segments]
        self.offsets = np.cumsum([0, *(len(segment.slots) for segment in self.segments)])

    @cached_property
    def slots(self) -> Ints:
        """The slot of every row."""
        return np.concatenate([np.empty(0, np.int64), *(segment.slots for segment in self.segments)])

    def by_segment(self, rows: Ints) -> Iterator[tuple[S, Ints, Ints]]:
        """For each segment that has some of the rows: their positions in ``rows``, and their numbers in the segment."""
        if len(self.segments) == 1:
            yield self.segments[0], np.arange(len(rows)), rows
            return
        segments = np.searchsorted(self.offsets, rows, side="right") - 1
        for i in np.unique(segments).tolist():
            positions = np.flatnonzero(segments == i)
            yield self.segments[i], positions, rows[positions] - self.offsets[i]

    @classmethod
    @abstractmethod
    def load(cls, path: Path) -> S:
        """Map a file into memory."""

    @classmethod
    @abstractmethod
    def write(cls, segment: S, path: Path) -> None:
        """Write a file atomically."""

    @classmethod
    @abstractmethod
    def merge(cls, segments: Sequence[S]) -> S:
        """One segment with the rows of several."""

    # Writing, by one process at a time

    @classmethod
    def add(cls, segments: list[tuple[str, S]], new: S | None, max_size: int) -> None:
        """Append a segment, if there is one, and merge the last ones as long as they are of similar size."""
        if new is not None:
            segments.append(("", new))
        while len(segments) > 1 and _should_merge(segments[-2][1], segments[-1][1], max_size):
            segments[-2:] = [("", cls.merge([segment for _, segment in segments[-2:]]))]

    @classmethod
    def write_new(cls, segment: S, folder: Path) -> str:
        """Write a segment to a new file; return its name."""
        name = cls.file_name.format(secrets.token_hex(4))
        cls.write(segment, folder / name)
        return name

    @classmethod
    def activate(cls, folder: Path, manifest: Mapping[str, Any], segments: Sequence[tuple[str, S]]) -> None:
        """Write the segments without a name, and publish a manifest of all."""
        names = [name or cls.write_new(segment, folder) for name, segment in segments]
        cls.publish(folder, {**manifest, cls.segments_key: names})

    @classmethod
    def publish(cls, folder: Path, manifest: Mapping[str, Any]) -> None:
        """Replace the manifest, then delete the files that it does not name."""
        write_json(folder / cls.manifest_name, manifest, temporary=folder / f"{cls.manifest_name}.part")
        kept = {cls.manifest_name, *cls.files(manifest)}
        for path in folder.iterdir():
            if path.name not in kept:
                discard(path)

    @classmethod
    def files(cls, manifest: Mapping[str, Any]) -> list[str]:
        """The names of the files in use."""
        return list(manifest[cls.segments_key])

    @classmethod
    def merge_concurrently(
        cls, folder: Path, staging_folder: Path, activating: Callable[[], AbstractContextManager[None]], max_size: int
    ) -> None:
        """Merge neighbouring segments of similar size, which ``add`` may have left because they are large.

        Others may write meanwhile, except within ``activating()``. The merged segment is written to the folder
        ``staging_folder``, on the same disk, and moved from there.
        """
        while pair := cls._similar_neighbours(folder, max_size):
            staging_folder.mkdir(exist_ok=True)
            merged = cls.write_new(cls.merge(list(pair.values())), staging_folder)
            with activating():
                manifest = read_json(folder / cls.manifest_name)
                names = manifest[cls.segments_key]
                if set(pair) <= set(names):  # otherwise another writer has rewritten them
                    (staging_folder / merged).replace(folder / merged)
                    first = names.index(next(iter(pair)))
                    names[first : first + 2] = [merged]
                    cls.publish(folder, manifest)
            discard(staging_folder)

    @classmethod
    def _similar_neighbours(cls, folder: Path, max_size: int) -> dict[str, S] | None:
        """Two neighbouring segments, by name, that should be merged; None without any."""
        segments = cls(folder).named_segments if (folder / cls.manifest_name).exists() else []
        for first, second in reversed(list(pairwise(segments))):
            if _should_merge(first[1], second[1], max_size):
                return dict([first, second])
        return None


def _should_merge(first: Segment, second: Segment, max_size: int) -> bool:
    return first.size < 2 * second.size and first.size + second.size <= max_size


class ReopenedFolder(Generic[Opened]):
    """What was opened from the folder of a manifest, opened again whenever the manifest has been replaced.

    ``open_folder`` gets the folder and what was opened before: files that are still in use need not be opened again.
    """

    def __init__(
        self, manifest: Path, open_folder: Callable[[Path, Opened | None], Opened], damage_message: str
    ) -> None:
        self.manifest, self._open, self._damage_message = manifest, open_folder, damage_message
        self._opened: tuple[Stamp, Opened | None] = (None, None)

    def get(self) -> Opened | None:
        """What is active now; None without a manifest."""
        while True:
            opened_stamp, opened = self._opened
            stamp = file_stamp(self.manifest)
            if opened_stamp == stamp:
                return opened
            try:
                self._opened = stamp, self._open(self.manifest.parent, opened) if stamp else None
            except Cr5Error:
                raise
            except (FileNotFoundError, EOFError, ValueError, KeyError, TypeError):
                if stamp == file_stamp(self.manifest):  # otherwise it has just been replaced
                    raise Cr5Error(f"{self.manifest.parent}: {self._damage_message}") from None


def slots_exist(exists: Mask, slots: Ints) -> Mask:
    """Whether each of the slots exists; those beyond ``exists`` do not."""
    live = np.zeros(len(slots), bool)
    known = slots < len(exists)
    live[known] = exists[slots[known]]
    return live
