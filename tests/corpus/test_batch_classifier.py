"""The classifier of many texts, and of one text at a time, compared with ``py3langid``."""

import numpy as np

from cr5.corpus.identification import _bytes, _classifier, _identifier

TEXTS = [
    "",
    " ",
    "the dog sleeps",
    "THE DOG",
    "hunden sover i dag",
    "il cane dorme",
    "con chó đang ngủ",
    "犬が寝ている",
    "12",
]


def test_one_text_has_the_probabilities_that_it_has_in_a_batch_and_in_py3langid() -> None:
    classifier, texts = _classifier(), [_bytes(text) for text in [*TEXTS, "ż" * 200]]
    batch = classifier.probabilities(texts)
    for text, row in zip(texts, batch, strict=True):
        found, ranked = classifier.probabilities_of_one(text), dict(_identifier().rank(text))
        np.testing.assert_allclose(found, row, atol=1e-6)
        np.testing.assert_allclose(found, [ranked[label] for label in classifier.labels], atol=1e-6)
        np.testing.assert_allclose(found.sum(), 1, rtol=1e-5)
