"""The projection onto the page's map: the first two principal components of a sample of the index."""

from typing import NamedTuple

import numpy as np

from cr5._typing import Array


class Projection(NamedTuple):
    """(x - mean) @ axes: vectors (n x rank) -> points (n x 2); ``mean`` has shape (rank), ``axes`` (rank x 2)."""

    mean: Array
    axes: Array

    @classmethod
    def fit(cls, vectors: Array) -> "Projection":
        """The two directions in which vectors (n x rank) vary most; without vectors every point is (0, 0)."""
        rank = vectors.shape[1]
        if not len(vectors) or rank < 2:
            return cls(np.zeros(rank, np.float32), np.zeros((rank, 2), np.float32))
        mean = vectors.mean(axis=0)
        centred = vectors - mean
        axes = np.linalg.eigh(centred.T @ centred)[1][:, :-3:-1]
        # The sign of an eigenvector is arbitrary: its largest component is made positive, so that the map is stable.
        largest = axes[np.abs(axes).argmax(axis=0), [0, 1]]
        return cls(mean, np.asarray(axes * np.sign(largest), np.float32))

    def transform(self, vectors: Array) -> list[tuple[float, float]]:
        """The point (x, y) of each row of vectors (n x rank)."""
        return [(x, y) for x, y in ((vectors - self.mean) @ self.axes).tolist()]
