"""The filters of a LanceDB table as masks of slots, kept for the filters that were used last.

A row never changes under its slot, and a slot is never given to another row. A mask that was made from one version of
the table is therefore right for every later version, up to the rows that have been written since.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cr5._typing import Mask
from cr5.corpus.fields import FIELDS
from cr5.index.filters import Filter

MAX_MASKS = 16  # filters whose masks are kept; a mask has a byte for each slot
BATCH_ROWS = 2**14  # rows read at a time, with their fields


@dataclass
class _CachedMask:
    """The slots whose rows match a filter, as of a version of the table."""

    version: int = 0
    mask: Mask = field(default_factory=lambda: np.zeros(0, bool))
    lock: threading.Lock = field(default_factory=threading.Lock)


class SlotMasks:
    """The masks of the most recent filters; ``open_version`` opens a version of the table."""

    def __init__(self, open_version: Callable[[int], Any]) -> None:
        self._open_version = open_version
        self._lock, self._cached = threading.Lock(), OrderedDict[str, _CachedMask]()

    def get(self, where: Filter, version: int) -> Mask:
        """True at the slots of all rows of a version that match a filter; slots of other rows may be either."""
        with self._lock:
            cached = self._cached.setdefault(where.key, _CachedMask())
            self._cached.move_to_end(where.key)
            if len(self._cached) > MAX_MASKS:
                self._cached.popitem(last=False)
        with cached.lock:
            if version < cached.version:  # rows that have been deleted since then may be unknown
                return self._extend(np.zeros(0, bool), where, version)
            if version > cached.version:
                cached.mask, cached.version = self._extend(cached.mask, where, version), version
            return cached.mask

    def _extend(self, mask: Mask, where: Filter, version: int) -> Mask:
        """A mask with the rows from its end on as well."""
        search = self._open_version(version).search().select(["slot", FIELDS]).where(f"slot >= {len(mask)}")
        slots, matching = [np.empty(0, np.int64)], [np.empty(0, bool)]
        for batch in search.to_batches(batch_size=BATCH_ROWS):
            slots.append(batch["slot"].to_numpy())
            matching.append(where.mask(batch[FIELDS].to_pylist()))
        all_slots = np.concatenate(slots)
        extended = np.zeros(max(len(mask), int(all_slots.max(initial=-1)) + 1), bool)
        extended[: len(mask)] = mask
        extended[all_slots] = np.concatenate(matching)
        return extended
