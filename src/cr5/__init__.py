"""Documents of any language in one vector space, learned from your own corpus with plain linear algebra."""

import os

# Idle threads of NumPy's OpenBLAS spin for a while before they sleep, and take the cores from ours meanwhile.
# The variable is read once, when NumPy is first imported.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

from importlib.metadata import version

from cr5.corpus.documents import Document
from cr5.corpus.reading import read, read_batches
from cr5.corpus.skipped import Skipped
from cr5.corpus.writing import write
from cr5.errors import CorpusError, Cr5Error, ModelFileError
from cr5.model import Cr5
from cr5.retrieval.explanations import Explanation
from cr5.training.pipeline import NotConverged
from cr5.training.solver import Fit, reduced_rank_ridge

__version__ = version("cr5")
__all__ = [
    "CorpusError", "Cr5", "Cr5Error", "Document", "Explanation", "Fit", "ModelFileError", "NotConverged", "Skipped",
    "read", "read_batches", "reduced_rank_ridge", "write",
]  # fmt: skip
