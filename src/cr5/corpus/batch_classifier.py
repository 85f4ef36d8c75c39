"""Classification of many texts at a time by the model of ``py3langid``, a naive Bayes classifier of byte n-grams.

``py3langid`` finds the n-grams of a text byte by byte with a finite-state machine. Here all texts take each step
together, in arrays; a single text is read byte by byte as well.
"""

from collections import Counter
from collections.abc import Sequence
from math import log1p, sqrt
from typing import TYPE_CHECKING

import numpy as np

from cr5._typing import Array, Ints, Sparse
from cr5.corpus.normal_forms import normal_form

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier


class BatchClassifier:
    """``probabilities`` of the labels of an identifier that was opened with ``norm_probs=True``."""

    def __init__(self, identifier: "LanguageIdentifier") -> None:
        classes, self.labels = list(identifier.nb_classes), identifier.labels
        # A label may have several classes, one for each script, whose probabilities are added.
        self._classes_by_label = np.equal.outer(classes, self.labels).astype(np.float32)
        self._label_of_class = self._classes_by_label.argmax(axis=1)
        self._weights = np.asarray(identifier.nb_ptc, np.float32)  # features x classes
        self._bias = np.asarray(identifier.nb_pc, np.float32)
        self._next = np.asarray(identifier.tk_nextmove)
        self._row_start = np.asarray(identifier.tk_row, np.int64) << 8  # a row has the next state for each byte
        self._feature = np.asarray(identifier.tk_output, np.int32)  # state -> the feature that ends there, or -1
        # The same without the overhead of NumPy for single elements.
        self._next_states, self._row_starts = self._next.data, self._row_start.astype(np.int32).data
        self._features = self._feature.data

    def probabilities(self, texts: Sequence[bytes]) -> Array:
        """Texts in UTF-8, perhaps cut within a character -> texts x labels, float32; every row sums to 1.

        softmax((log(1 + feature counts) weights + bias) / sqrt(bytes)), and equal for all classes without a feature.
        """
        encoded = [_normalise(text) for text in texts]
        counts = self._count_features(encoded)
        counts.data = np.log1p(counts.data)
        scores = counts @ self._weights + self._bias
        scores[np.diff(counts.indptr) == 0] = 0
        lengths = np.array([len(text) or 1 for text in encoded])
        scores *= (1 / np.sqrt(lengths)).astype(np.float32)[:, None]
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        return np.asarray(shares @ self._classes_by_label)

    def probabilities_of_one(self, text: bytes) -> Array:
        """What ``probabilities`` computes for one text, without the overhead of a batch."""
        encoded, state = _normalise(text), 0
        following, starts, features = self._next_states, self._row_starts, self._features
        found = [feature for byte in encoded if (feature := features[state := following[starts[state] + byte]]) >= 0]
        if not found:
            return np.asarray(self._classes_by_label.sum(axis=0) / len(self._classes_by_label))
        counts = Counter(found)
        weights = self._weights.take(list(counts), axis=0)
        scores = np.array([*map(log1p, counts.values())], np.float32) @ weights + self._bias
        scores *= 1 / sqrt(len(encoded))
        shares = np.exp(scores - scores.max())
        probabilities = np.bincount(self._label_of_class, shares / shares.sum(), minlength=len(self.labels))
        return probabilities.astype(np.float32)

    def _count_features(self, encoded: Sequence[bytes]) -> Sparse:
        """Texts x features: how often each n-gram of the model occurs in each text."""
        from scipy.sparse import csr_array

        shape = len(encoded), len(self._weights)
        features = self._feature[self._walk(encoded)].ravel()
        found = np.flatnonzero(features >= 0)
        keys, counts = np.unique(found % shape[0] * shape[1] + features[found], return_counts=True)
        rows, features = np.divmod(keys, shape[1])
        offsets = np.searchsorted(rows, np.arange(shape[0] + 1))
        return csr_array((counts.astype(np.float32), features, offsets), shape=shape)

    def _walk(self, encoded: Sequence[bytes]) -> Ints:
        """Steps x texts: the state after each byte; 0, the initial state, after the end of a text."""
        lengths = np.array([len(text) for text in encoded])
        width = int(lengths.max(initial=0))
        padded = np.frombuffer(b"".join(text.ljust(width) for text in encoded), np.uint8).reshape(len(encoded), width)
        order = np.argsort(-lengths, kind="stable")  # those that are not at their end are the first ones
        letters = np.ascontiguousarray(padded[order].T)
        remaining = np.searchsorted(-lengths[order], -np.arange(width), side="left")
        states = np.zeros((width, len(encoded)), self._next.dtype)
        start = np.full(len(encoded), self._row_start[0])
        for step, count in enumerate(remaining.tolist()):
            states[step, :count] = self._next[start[:count] + letters[step, :count]]
            start[:count] = self._row_start[states[step, :count]]
        result = np.empty_like(states)
        result[:, order] = states
        return result


def _normalise(text: bytes) -> bytes:
    """NFC, and lower case if all is upper case."""
    decoded = text.decode("utf-8", "ignore")
    return normal_form("NFC", decoded.lower() if decoded.isupper() else decoded).encode()
