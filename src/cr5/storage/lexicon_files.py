"""Lexicon files in a model folder: a cache, which may be missing or out of date and is then computed again.

A file holds the arrays of one lexicon, and the digest of what it was made from.
"""

from pathlib import Path

import numpy as np

from cr5._typing import Array, Ints
from cr5.errors import OutputWarning, warn
from cr5.message_parts import reason
from cr5.storage.atomic import atomic_path

FOLDER = "lexicons"
"""The folder within that of a model."""


def lexicon_path(folder: Path, source: str, target: str) -> Path:
    """Where the lexicon from one language to another is; codes of languages have no dot."""
    return folder / FOLDER / f"{source}.{target}.safetensors"


def read_lexicon(path: Path, digest: str, sizes: tuple[int, int]) -> tuple[Ints, Array] | None:
    """The indices and probabilities of the first words, or None if none fit the digest and the vocabularies."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            if (file.metadata() or {}).get("digest") != digest:
                return None
            indices, probabilities = file.get_tensor("indices"), file.get_tensor("probabilities")
    except (OSError, SafetensorError):
        return None
    has_type = indices.dtype == np.int32 and probabilities.dtype == np.float16
    has_shape = indices.ndim == 2 and indices.shape == probabilities.shape and len(indices) <= sizes[0]
    in_range = has_type and has_shape and (not indices.size or (indices.min() >= 0 and indices.max() < sizes[1]))
    return (indices, probabilities) if in_range else None


def write_lexicon(path: Path, digest: str, indices: Ints, probabilities: Array) -> None:
    """Write a file in one step; if that is not possible, warn that the lexicon has to be made again next time."""
    from cr5.storage.tensor_files import write_tensors

    try:
        path.parent.mkdir(exist_ok=True)
        with atomic_path(path) as temporary:
            write_tensors({"indices": indices, "probabilities": probabilities}, temporary, {"digest": digest})
    except OSError as error:
        warn(
            f"{path}: the lexicon cannot be saved, {reason(error)}; it will be computed again when it is next needed",
            OutputWarning,
        )
