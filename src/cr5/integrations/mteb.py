"""A model as an encoder of MTEB, the benchmark of text embeddings (mteb 2.x); mteb itself is imported by its caller."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cr5._typing import Array
from cr5.corpus.languages import find_language
from cr5.errors import MissingPackageError
from cr5.model import Cr5


class Cr5Encoder:
    """A model, its folder, or its name on the Hugging Face Hub, with the interface of MTEB's encoders.

    All texts are in ``lang``; without it, languages are guessed among those that the task names for its subset. In a
    bitext-mining task, each side is in one language: the one that most of its texts are guessed to be in. The vector of
    a text without a known word or n-gram is zero.
    """

    def __init__(
        self,
        model_name: Cr5 | str | Path,
        revision: str | None = None,
        *,
        device: str | None = None,
        lang: str | None = None,
        **kwargs: Any,
    ) -> None:
        if isinstance(model_name, Cr5):
            self.model = model_name
        elif Path(model_name).is_dir():
            self.model = Cr5.load(model_name)
        else:
            self.model = Cr5.from_pretrained(str(model_name), revision=revision)
        self.name = "cr5/model" if isinstance(model_name, Cr5) else "/".join(["cr5", *Path(model_name).parts][-2:])
        self.revision, self.lang = revision, lang

    def encode(
        self,
        inputs: Iterable[Mapping[str, Sequence[str]]],
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        prompt_type: Any = None,
        **kwargs: Any,
    ) -> Array:
        """Batches with the key "text" -> texts x rank, float32, of length 1."""
        texts = [text for batch in inputs for text in batch["text"]]
        return self.model.encode(texts, self._langs(texts, task_metadata, hf_subset))

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Array:
        """The cosine of every row of the first with every row of the second."""
        a, b = (np.atleast_2d(np.asarray(rows, np.float32)) for rows in (embeddings1, embeddings2))
        cosines: Array = a @ b.T
        return cosines

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Array:
        """The cosine of every row of the first with the same row of the second."""
        a, b = (np.atleast_2d(np.asarray(rows, np.float32)) for rows in (embeddings1, embeddings2))
        return np.asarray((a * b).sum(axis=1), np.float32)

    @property
    def mteb_model_meta(self) -> Any:
        """What MTEB writes about the model into its results."""
        try:
            from mteb.models.model_meta import ModelMeta
        except ModuleNotFoundError as error:
            raise MissingPackageError("the metadata of MTEB need mteb; install it with pip install mteb") from error
        facts = {
            "name": self.name,
            "revision": self.revision or "no_revision",
            "embed_dim": self.model.rank,
            "framework": ["NumPy"],
            "similarity_fn_name": "cosine",
            "use_instructions": False,
            "open_weights": True,
        }
        return ModelMeta.create_empty(facts)

    def _langs(self, texts: list[str], task_metadata: Any, subset: str) -> list[str | None] | str | None:
        """The language of all texts, or one for each; None where the task does not help."""
        if self.lang is not None or not texts:
            return self.lang
        by_subset = getattr(task_metadata, "hf_subsets_to_langscripts", {})
        codes = (code.partition("-")[0] for code in by_subset.get(subset, ()))
        known = {found for code in codes if (found := find_language(code, self.model.langs)) is not None}
        if len(known) == 1:
            return known.pop()
        guesses = self.model.guess_languages(texts, sorted(known) or None)
        if getattr(task_metadata, "type", "") == "BitextMining":
            return Counter(guess.lang for guess in guesses).most_common(1)[0][0]
        return [guess.lang for guess in guesses]
