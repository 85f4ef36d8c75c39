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
        CountryCode,
        Cr5Error,
        Cr5Warning,
        DeprecatedInterface,
        DiskFullError,
        DocumentsLeftOut,
        DocumentsReplaced,
        EncodingGuessed,
        FewDocuments,
        FewKnownWords,
        FitNeeded,
        InputSkipped,
        Interrupted,
        LanguageFallback,
        LanguageLeftOut,
        ModelFileError,
        NotConverged,
        NotFittedError,
        OutputWarning,
        RankLowered,
        RepeatedDocuments,
        SeveralCodes,
        UnknownField,
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
    "CpuEngine": "cr5.training.engines.cpu",
    "Cr5": "cr5.model",
    "DaskEngine": "cr5.training.engines.dask",
    "Document": "cr5.corpus.documents",
    "Explanation": "cr5.retrieval.explanations",
    "Fit": "cr5.training.solver",
    "GpuEngine": "cr5.training.engines.gpu",
    "Index": "cr5.index.index",
    "Lexicon": "cr5.retrieval.lexicon",
    "Skipped": "cr5.corpus.skipped",
    "read": "cr5.corpus.reading",
    "read_batches": "cr5.corpus.reading",
    "reduced_rank_ridge": "cr5.training.solver",
    "write": "cr5.corpus.writing",
}  # the modules of the public names that are not in cr5.errors

__all__ = [
    "ColumnsNotKept", "CorpusError", "CountryCode", "CpuEngine", "Cr5", "Cr5Error", "Cr5Warning", "DaskEngine",
    "DeprecatedInterface", "DiskFullError", "Document", "DocumentsLeftOut", "DocumentsReplaced",
    "EncodingGuessed", "Explanation", "FewDocuments", "FewKnownWords", "Fit", "FitNeeded", "GpuEngine", "Index",
    "InputSkipped", "Interrupted", "LanguageFallback", "LanguageLeftOut", "Lexicon", "ModelFileError", "NotConverged",
    "NotFittedError", "OutputWarning", "RankLowered", "RepeatedDocuments", "SeveralCodes", "Skipped", "UnknownField",
    "WorkersLost", "evaluate", "read", "read_batches", "reduced_rank_ridge", "write",
]  # fmt: skip

if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name == "__version__":
            from importlib.metadata import version

            value = version("cr5")
        elif name == "evaluate":
            value = _import_on_first_use("cr5.evaluate")
        elif name in {*__all__, "LanguageBorrowed"}:  # the earlier name of LanguageFallback
            value = getattr(import_module(_MODULES.get(name, "cr5.errors")), name)
        else:
            raise AttributeError(f"module 'cr5' has no attribute {name!r}")
        globals()[name] = value
        return value

    def _import_on_first_use(name: str) -> Any:
        """A module that is loaded when one of its names is first used."""
        import sys
        from importlib.util import LazyLoader, find_spec, module_from_spec

        if name not in sys.modules:
            spec = find_spec(name)
            spec.loader = LazyLoader(spec.loader)
            sys.modules[name] = module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        return sys.modules[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
