"""Evaluation: how well texts find their counterparts in other languages, beside baselines.

``documents``, ``sentences`` and ``words`` run an evaluation and return a ``Run``; ``compare`` compares two. ``search``
measures the search in an index and returns a ``SearchRun``.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers; at run time, a name is imported when it is first used
    from cr5.evaluate.api import documents, held_out_texts, sentences, words
    from cr5.evaluate.comparison import Comparison, compare
    from cr5.evaluate.known_items.api import search
    from cr5.evaluate.known_items.runs import SearchRun
    from cr5.evaluate.report.files import write_reports
    from cr5.evaluate.runs import FailedSystem, Run, Score, load_run, save_run
    from cr5.evaluate.splits import Split
    from cr5.evaluate.systems.registry import SYSTEMS, SystemEntry
    from cr5.evaluate.systems.space import Space, System

_MODULES = {
    "SYSTEMS": "systems.registry",
    "Comparison": "comparison",
    "FailedSystem": "runs",
    "Run": "runs",
    "Score": "runs",
    "SearchRun": "known_items.runs",
    "Space": "systems.space",
    "Split": "splits",
    "System": "systems.space",
    "SystemEntry": "systems.registry",
    "compare": "comparison",
    "documents": "api",
    "held_out_texts": "api",
    "load_run": "runs",
    "save_run": "runs",
    "search": "known_items.api",
    "sentences": "api",
    "words": "api",
    "write_reports": "report.files",
}  # the module of every public name

__all__ = [
    "SYSTEMS",
    "Comparison",
    "FailedSystem",
    "Run",
    "Score",
    "SearchRun",
    "Space",
    "Split",
    "System",
    "SystemEntry",
    "compare",
    "documents",
    "held_out_texts",
    "load_run",
    "save_run",
    "search",
    "sentences",
    "words",
    "write_reports",
]

if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name not in _MODULES:
            raise AttributeError(f"module 'cr5.evaluate' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"cr5.evaluate.{_MODULES[name]}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
