"""Evaluation: how well texts find their counterparts in other languages, compared with baselines.

``documents``, ``sentences`` and ``words`` run an evaluation and return a ``Run``; ``compare`` compares two. ``search``
measures the search in an index and returns a ``SearchRun``.
"""

from cr5.evaluate.api import documents, held_out_texts, sentences, words
from cr5.evaluate.comparison import Comparison, compare
from cr5.evaluate.report.files import write_reports
from cr5.evaluate.runs import FailedSystem, Run, Score, load_run, save_run
from cr5.evaluate.splits import Split
from cr5.evaluate.systems.fitted_system import FittedSystem, System
from cr5.evaluate.systems.registry import SYSTEMS, SystemEntry
from cr5.evaluate.tasks.search.run import SearchRun
from cr5.evaluate.tasks.search.task import search

__all__ = [
    "SYSTEMS",
    "Comparison",
    "FailedSystem",
    "FittedSystem",
    "Run",
    "Score",
    "SearchRun",
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
