"""Static models of other libraries: a tokenizer.json, and a vector for each word, whose mean is the vector of a text.

In cr5, the vector of a document is the sum of (1 + ln tf) idf z over its words, divided by the length of its TF-IDF
row, minus the offset of its language. A mean of fixed vectors can only approximate this. It weighs a word by tf instead
of 1 + ln tf, ignores words outside the vocabulary, and subtracts the offset that is right for a text as long as the
mean document.
"""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cr5._typing import Array
from cr5.errors import Cr5Warning, warn
from cr5.features.tokeniser import SOFT_HYPHEN, UNSPACED_RUN, WORD_CHARACTERS
from cr5.storage.tensor_files import write_tensors

if TYPE_CHECKING:
    from cr5.exchange.export import ExportedLanguage

_UNKNOWN = "[UNK]"
_SAMPLE_WORDS = 1000  # number of most frequent words that show whether a language is written without spaces


def write_model2vec(folder: Path, exported: "ExportedLanguage") -> None:
    """Write the files of a ``model2vec.StaticModel``, which sentence-transformers can open, too."""
    _write_embedding(folder, "embeddings", exported)
    config = {"model_type": "model2vec", "normalize": True, "max_length": None, "embedding_dtype": "float32"}
    _write_json(folder / "config.json", config)
    _write_json(folder / "modules.json", _modules("."))


def write_sentence_transformers(folder: Path, exported: "ExportedLanguage") -> None:
    """Write the files of a ``SentenceTransformer`` with a ``StaticEmbedding`` and a normalisation."""
    for name in ("0_StaticEmbedding", "1_Normalize"):
        (folder / name).mkdir()
    _write_embedding(folder / "0_StaticEmbedding", "embedding.weight", exported)
    _write_json(folder / "config_sentence_transformers.json", {"similarity_fn_name": "cosine"})
    _write_json(folder / "modules.json", _modules("0_StaticEmbedding"))


def mean_vectors(exported: "ExportedLanguage") -> Array:
    """(1 + words) x rank: zeros for unknown words, then idf z - c offset for each word, of which texts are means.

    c is the length of the mean document's TF-IDF row divided by its number of words, as it is known from the document
    frequencies: for texts of about this length, the mean has the direction that subtracting the offset gives.
    """
    language, shares = exported.language, exported.document_shares
    squares = np.square(language.idf, dtype=np.float64) + (language.subwords.squares if language.subwords else 0)
    words = float(shares.sum())
    share = np.sqrt(float(shares @ squares)) / words if words else 0.0
    rows = np.zeros((1 + len(language.words), language.offset.size), np.float32)
    np.multiply(language.vectors(), language.idf[:, None], out=rows[1:])
    rows[1:] -= np.float32(share) * language.offset
    return rows


def tokenizer_json(exported: "ExportedLanguage") -> dict[str, Any]:
    """What the library tokenizers reads: words are found by the same rules, but not in text without spaces."""
    words, tokeniser = exported.language.words, exported.tokeniser
    sample = [re.match(UNSPACED_RUN, word) is not None for word in words[:_SAMPLE_WORDS]]
    if not tokeniser.pretokenised and 2 * sum(sample) > len(sample):
        warn(
            f"{exported.lang} is written without spaces, and a tokenizer.json cannot find its words; "
            "put spaces between the words of texts before you encode them with the exported model",
            Cr5Warning,
        )
    unknown = _UNKNOWN
    while unknown in words:
        unknown = f"[{unknown}]"
    steps: list[dict[str, Any]] = []
    if tokeniser.normalise:
        steps += [{"type": "NFKC"}, {"type": "Replace", "pattern": {"String": SOFT_HYPHEN}, "content": ""}]
    if tokeniser.lowercase:
        steps.append({"type": "Lowercase"})
    separators = {"Regex": f"[^{WORD_CHARACTERS}]+"}
    split = {"type": "Split", "pattern": separators, "behavior": "Removed", "invert": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None if tokeniser.pretokenised else {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": {"type": "WhitespaceSplit"} if tokeniser.pretokenised else split,
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {unknown: 0} | {word: i for i, word in enumerate(words, 1)},
            "unk_token": unknown,
        },
    }


def _write_embedding(folder: Path, name: str, exported: "ExportedLanguage") -> None:
    _write_json(folder / "tokenizer.json", tokenizer_json(exported))
    write_tensors({name: mean_vectors(exported)}, folder / "model.safetensors")


def _modules(embedding: str) -> list[dict[str, Any]]:
    """The modules of a SentenceTransformer, by the names that all its versions with static embeddings know."""
    paths = {"StaticEmbedding": embedding, "Normalize": "1_Normalize"}
    return [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(paths.items())
    ]


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
