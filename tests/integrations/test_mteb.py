"""MTEB: the encoder finds the languages that a task names, and mteb itself accepts it where it is installed."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import madeup
import numpy as np
import pytest

from cr5 import Cr5, Document
from cr5.integrations.mteb import Cr5Encoder

BITEXT = SimpleNamespace(type="BitextMining", hf_subsets_to_langscripts={"aa-bb": ["aa-Latn", "bb-Cyrl"]})
RETRIEVAL = SimpleNamespace(type="Retrieval", hf_subsets_to_langscripts={"default": ["aa-Latn", "bb-Cyrl", "cc-Grek"]})


def encode(encoder: Cr5Encoder, texts: list[str], task: Any, subset: str) -> Any:
    """Encode texts in batches of three, as a data loader does."""
    batches = [{"text": texts[i : i + 3]} for i in range(0, len(texts), 3)]
    return encoder.encode(batches, task_metadata=task, hf_split="test", hf_subset=subset, batch_size=3)


def test_a_side_of_a_bitext_is_encoded_in_its_language(model: Cr5, documents: list[Document]) -> None:
    encoder, held_out = Cr5Encoder(model), madeup.split(documents)[1]
    sides = {lang: madeup.texts(held_out, lang) for lang in ("aa", "bb")}
    # A text in another language does not change the language of its side.
    texts = [*sides["aa"], sides["bb"][0]]
    np.testing.assert_array_equal(encode(encoder, texts, BITEXT, "aa-bb"), model.encode(texts, "aa"))
    a, b = (encode(encoder, sides[lang], BITEXT, "aa-bb") for lang in ("aa", "bb"))
    found = encoder.similarity(a, b).argmax(axis=1)
    assert (found == np.arange(len(a))).mean() > 0.5
    np.testing.assert_allclose(encoder.similarity_pairwise(a, b), np.diag(encoder.similarity(a, b)), rtol=1e-5)


def test_texts_of_a_retrieval_task_may_be_in_several_languages(model: Cr5, documents: list[Document]) -> None:
    held_out = madeup.split(documents)[1][:12]
    vectors = encode(Cr5Encoder(model), [d.text for d in held_out], RETRIEVAL, "default")
    expected = model.encode([d.text for d in held_out], [d.lang for d in held_out])
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_a_given_language_is_not_guessed_and_no_text_is_no_row(model: Cr5, model_folder: Path) -> None:
    encoder = Cr5Encoder(model_folder, lang="bb")
    texts = [madeup.text("aa", range(9))]
    np.testing.assert_array_equal(encode(encoder, texts, RETRIEVAL, "default"), model.encode(texts, "bb"))
    assert encode(Cr5Encoder(model), [], BITEXT, "aa-bb").shape == (0, model.rank)
    unknown = SimpleNamespace(type="STS", hf_subsets_to_langscripts={"default": ["zz-Latn"]})
    np.testing.assert_array_equal(encode(Cr5Encoder(model), texts, unknown, "default"), model.encode(texts, "aa"))


def test_mteb_accepts_the_encoder(model: Cr5) -> None:
    pytest.importorskip("mteb", reason="mteb is not installed")
    from mteb.models import EncoderProtocol

    encoder = Cr5Encoder(model)
    assert isinstance(encoder, EncoderProtocol)
    assert encoder.mteb_model_meta.embed_dim == model.rank
