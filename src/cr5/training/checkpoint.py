"""The checkpoint of a fit: a file from which an interrupted fit continues."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from cr5._typing import Array
from cr5.errors import Cr5Error, OutputWarning, reason, warn
from cr5.storage.atomic import atomic_path
from cr5.storage.tensor_files import write_tensors


@dataclass
class Checkpoint:
    """One file, replaced at most every ``interval_seconds``; ``fingerprint`` identifies the corpus and settings."""

    path: Path
    fingerprint: str
    interval_seconds: float = 30.0
    last_save: float = field(default_factory=time.monotonic)

    def save(self, fetch: Callable[[], dict[str, Array]], state: dict[str, Any], *, force: bool = False) -> None:
        """Write the Z that ``fetch`` returns; unless ``force`` is set, only if the last save is not recent.

        If that fails, because the disk is full for example, the earlier checkpoint stays.
        """
        if not force and time.monotonic() - self.last_save < self.interval_seconds:
            return
        metadata = {"cr5": json.dumps({"fingerprint": self.fingerprint, **state})}
        # Safetensors writes an array's memory as it is, whatever the order of its axes.
        arrays = {lang: np.ascontiguousarray(Z) for lang, Z in fetch().items()}
        try:
            with atomic_path(self.path, temporary=self.path.with_name(self.path.name + ".part")) as part:
                write_tensors(arrays, part, metadata)
        except OSError as error:
            message = (
                f"the checkpoint {self.path} cannot be written: {reason(error)}; the fit goes on without a new one"
            )
            warn(message, OutputWarning)
        self.last_save = time.monotonic()

    def load(self) -> tuple[dict[str, Array], dict[str, Any]] | None:
        """Z and the state of an earlier run, or None if there is no file."""
        if not self.path.exists():
            return None
        try:
            with safe_open(self.path, framework="numpy") as file:
                state = dict(json.loads((file.metadata() or {})["cr5"]))
                Z = {lang: file.get_tensor(lang) for lang in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
            raise Cr5Error(f"{self.path} cannot be read as a checkpoint; delete it to start again") from error
        if state.pop("fingerprint", None) != self.fingerprint:
            raise Cr5Error(
                f"{self.path} belongs to other documents or settings; delete it to start again, "
                "or give the documents and settings of the interrupted fit"
            )
        return Z, state
