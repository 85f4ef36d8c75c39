"""What encoding costs beside arithmetic: one text takes few calls, and many texts and languages hardly more."""

from typing import Any

import numpy as np
import pytest
from madeup import MEANINGS, text
from timing import calls

from cr5 import Cr5
from cr5._typing import Ints
from cr5.features import language_guess
from cr5.features.counts import FEW_TEXTS, WordCounts, count_words
from cr5.features.language_guess import JointVocabulary
from cr5.model import text_encoder

RNG = np.random.default_rng(0)
SHORT = [text("aa", RNG.integers(0, MEANINGS, 8).tolist()) for _ in range(1000)]


def test_one_short_text_is_encoded_without_the_calls_of_a_batch(model: Cr5) -> None:
    assert calls(lambda: model.encode(SHORT[0], "aa")) < 200 < calls(lambda: model.encode(SHORT[: FEW_TEXTS + 1], "aa"))


def test_a_batch_takes_a_few_calls_for_each_text(model: Cr5) -> None:
    assert calls(lambda: model.encode(SHORT, "aa")) < 10 * len(SHORT)


def test_texts_are_tokenised_and_looked_up_once_whatever_the_number_of_languages(
    model: Cr5, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = []

    def tokenise(*arguments: Any) -> WordCounts:
        done.append("tokenise")
        return count_words(*arguments)

    def find(*arguments: Any) -> tuple[Ints, Ints, Ints]:
        done.append("look up")
        return find_words(*arguments)

    find_words = JointVocabulary.find
    monkeypatch.setattr(language_guess, "count_words", tokenise)
    monkeypatch.setattr(text_encoder, "count_words", tokenise)
    monkeypatch.setattr(JointVocabulary, "find", find)
    assert model.encode(SHORT).all(axis=1).any()  # guessed among three languages that are tokenised alike
    assert done == ["tokenise", "look up"]
