"""What the first writes of a process would have to load and compile, done before them."""

import tempfile
from pathlib import Path

import numpy as np

from cr5.hashing import hash_texts
from cr5.index.full_text import DocumentTerms, FullTextIndex, FullTextReader, extend, purge
from cr5.index.index import Index
from cr5.index.terms import count_terms


def compile_writes(index: Index) -> None:
    """Load and compile what the first addition and deletion need; writes to a temporary folder only."""
    import filelock  # noqa: F401

    index.background.hubness(np.zeros((1, index.model.rank), np.float32), hash_texts(["a"]))
    lang = index.model.langs[0]
    terms = count_terms([""], ["a"], ["a"], [lang], index.model.settings.tokeniser)
    with tempfile.TemporaryDirectory(prefix="cr5-") as name:
        folder = Path(name) / "words"
        for slot in range(2):
            extend(folder, DocumentTerms(np.array([slot]), [str(slot)], [lang], terms), slot + 1)
        exists = np.array([True, False])
        FullTextReader(FullTextIndex(folder), exists).document_frequencies(terms.keys, lang)
        purge(folder, exists, 0)
