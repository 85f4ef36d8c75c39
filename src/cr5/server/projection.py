"""A plane to draw documents in: the first two principal axes of an index's background."""

from typing import NamedTuple

import numpy as np

from cr5._typing import Array
from cr5.index.background import Background


class Plane(NamedTuple):
    """Its origin (rank) and its axes (rank x 2)."""

    centre: Array
    axes: Array

    @classmethod
    def of(cls, background: Background, rank: int) -> "Plane":
        """The plane in which a background spreads widest; everything is at 0, 0 where there is none."""
        vectors = np.concatenate([background.vectors[lang] for lang in background.langs])
        if not len(vectors) or rank < 2:
            return cls(np.zeros(rank, np.float32), np.zeros((rank, 2), np.float32))
        centre = vectors.mean(axis=0)
        spread = vectors - centre
        axes = np.linalg.eigh(spread.T @ spread)[1][:, :-3:-1]
        largest = axes[np.abs(axes).argmax(axis=0), [0, 1]]
        return cls(centre, np.asarray(axes * np.sign(largest), np.float32))  # a sign is free: the same map every time

    def place(self, vectors: Array) -> list[tuple[float, float]]:
        """Vectors (documents x rank) -> x and y of each."""
        return [(float(x), float(y)) for x, y in (vectors - self.centre) @ self.axes]
