"""The checkpoint of a fit: a file from which an interrupted fit continues."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from cr5._typing import Array
from cr5.errors import Cr5Error, OutputWarning, warn
from cr5.message_parts import reason
from cr5.storage.atomic import atomic_path
from cr5.storage.tensor_files import write_tensors


@dataclass
class Checkpoint:
    """One file, replaced at most every ``interval_seconds``; ``fingerprint`` identifies the corpus and settings.

    ``settings``, as JSON, only tell what differs in a fit that has another fingerprint.
    """

    path: Path
    fingerprint: str
    interval_seconds: float = 30.0
    settings: Mapping[str, Any] = field(default_factory=dict)
    last_save: float = field(default_factory=time.monotonic)

    def save(self, fetch: Callable[[], dict[str, Array]], state: dict[str, Any], *, force: bool = False) -> None:
        """Write the Z that ``fetch`` returns; unless ``force`` is set, only if the last save is not recent.

        If that fails, because the disk is full for example, the earlier checkpoint stays.
        """
        if not force and time.monotonic() - self.last_save < self.interval_seconds:
            return
        metadata = {"cr5": json.dumps({"fingerprint": self.fingerprint, "settings": self.settings, **state})}
        arrays = fetch()
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
        settings = state.pop("settings", {})
        if state.pop("fingerprint", None) != self.fingerprint:
            then, now = _flat(settings), _flat(self.settings)
            names = [name for name in then.keys() & now.keys() if then[name] != now[name]]
            changes = [f"`{name}` was {then[name]} and is {now[name]}" for name in sorted(names)]
            differing = f" ({', '.join(changes)})" if changes else ""
            raise Cr5Error(
                f"{self.path} belongs to other documents or settings{differing}; delete it to start again, "
                "or give the documents and settings of the interrupted fit"
            )
        return Z, state


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by their names alone, as JSON reads them back."""
    flat: dict[str, Any] = {}
    for name, value in json.loads(json.dumps(settings)).items():
        flat |= value if isinstance(value, dict) else {name: value}
    return flat
