"""Evaluation: how well texts find their counterparts in other languages, beside baselines.

``documents``, ``sentences`` and ``words`` run an evaluation and return a ``Run``; ``compare`` compares two.
"""

from cr5.evaluate.api import documents, held_out_texts, sentences, words
from cr5.evaluate.comparison import Comparison, compare
from cr5.evaluate.report.files import write_reports
from cr5.evaluate.runs import Run, Score, load_run, save_run
from cr5.evaluate.splits import Split
from cr5.evaluate.systems.registry import SYSTEMS, SystemEntry
from cr5.evaluate.systems.space import Space, System

__all__ = [
    "SYSTEMS",
    "Comparison",
    "Run",
    "Score",
    "Space",
    "Split",
    "System",
    "SystemEntry",
    "compare",
    "documents",
    "held_out_texts",
    "load_run",
    "save_run",
    "sentences",
    "words",
    "write_reports",
]
