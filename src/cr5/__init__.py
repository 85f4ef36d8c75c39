"""Documents of any language in one vector space, learned from your own corpus with plain linear algebra."""

import os
from typing import TYPE_CHECKING, Any

# Idle threads of NumPy's OpenBLAS spin for a while before they sleep, and take the cores from ours meanwhile.
# The variable is read once, when NumPy is first imported.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

if TYPE_CHECKING:  # for editors and type checkers; at run time, a name is imported when it is first used
    from cr5 import evaluate
    from cr5.corpus.documents import Document
    from cr5.corpus.reading import read, read_batches
    from cr5.corpus.skipped import Skipped
    from cr5.corpus.writing import write
    from cr5.errors import (
        ColumnsNotKept,
        CorpusError,
        Cr5Error,
        Cr5Warning,
        DeprecatedInterface,
        DocumentsLeftOut,
        FewDocuments,
        FewKnownWords,
        Interrupted,
        LanguageBorrowed,
        LanguageLeftOut,
        ModelFileError,
        NotConverged,
        NotFittedError,
        OutputWarning,
        RankLowered,
        RepeatedDocuments,
        SeveralCodes,
        WorkersLost,
    )
    from cr5.index.index import Index
    from cr5.model import Cr5
    from cr5.retrieval.explanations import Explanation
    from cr5.retrieval.lexicon import Lexicon
    from cr5.training.engines.cpu import CpuEngine
    from cr5.training.engines.dask import DaskEngine
    from cr5.training.engines.gpu import GpuEngine
    from cr5.training.solver import Fit, reduced_rank_ridge

    __version__: str

_MODULES = {
    "ColumnsNotKept": "cr5.errors",
    "CorpusError": "cr5.errors",
    "CpuEngine": "cr5.training.engines.cpu",
    "Cr5": "cr5.model",
    "Cr5Error": "cr5.errors",
    "Cr5Warning": "cr5.errors",
    "DaskEngine": "cr5.training.engines.dask",
    "DeprecatedInterface": "cr5.errors",
    "Document": "cr5.corpus.documents",
    "DocumentsLeftOut": "cr5.errors",
    "FewDocuments": "cr5.errors",
    "Explanation": "cr5.retrieval.explanations",
    "Fit": "cr5.training.solver",
    "GpuEngine": "cr5.training.engines.gpu",
    "Index": "cr5.index.index",
    "Interrupted": "cr5.errors",
    "FewKnownWords": "cr5.errors",
    "LanguageBorrowed": "cr5.errors",
    "LanguageLeftOut": "cr5.errors",
    "Lexicon": "cr5.retrieval.lexicon",
    "ModelFileError": "cr5.errors",
    "NotConverged": "cr5.errors",
    "NotFittedError": "cr5.errors",
    "OutputWarning": "cr5.errors",
    "RankLowered": "cr5.errors",
    "RepeatedDocuments": "cr5.errors",
    "SeveralCodes": "cr5.errors",
    "Skipped": "cr5.corpus.skipped",
    "WorkersLost": "cr5.errors",
    "read": "cr5.corpus.reading",
    "read_batches": "cr5.corpus.reading",
    "reduced_rank_ridge": "cr5.training.solver",
    "write": "cr5.corpus.writing",
}  # the module of every public name

__all__ = [
    "ColumnsNotKept", "CorpusError", "CpuEngine", "Cr5", "Cr5Error", "Cr5Warning", "DaskEngine", "DeprecatedInterface",
    "Document", "DocumentsLeftOut", "Explanation", "FewDocuments", "FewKnownWords", "Fit", "GpuEngine", "Index",
    "Interrupted",
    "LanguageBorrowed", "LanguageLeftOut", "Lexicon", "ModelFileError", "NotConverged", "NotFittedError",
    "OutputWarning", "RankLowered", "RepeatedDocuments", "SeveralCodes", "Skipped", "WorkersLost",
    "evaluate", "read", "read_batches", "reduced_rank_ridge", "write",
]  # fmt: skip

if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name == "__version__":
            from importlib.metadata import version

            value = version("cr5")
        elif name == "evaluate":
            value = import_module("cr5.evaluate")
        elif name in _MODULES:
            value = getattr(import_module(_MODULES[name]), name)
        else:
            raise AttributeError(f"module 'cr5' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
