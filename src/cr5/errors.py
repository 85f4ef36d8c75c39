"""Errors that the caller can correct, and warnings; it is enough to show their message, without a traceback.

A message states what is wrong, with the value, and what to do. It names parameters of the Python interface in
backticks (`rank`, `on_error="skip"`); the command line shows them as its options (--rank, --on-error skip).
"""

import operator
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_PACKAGE = str(Path(__file__).parent)


class Cr5Error(ValueError):
    """An input is unusable; the message names it and says what to do."""


class Cr5TypeError(Cr5Error, TypeError):
    """An argument has the wrong type, or its name is unknown."""


class CorpusError(Cr5Error):
    """A corpus or one of its files is unusable; the message names the file and the line."""


class RankTooLargeError(Cr5Error):
    """The documents span fewer dimensions than the rank, as the fit has found; its checkpoint is of no use."""


class ModelFileError(Cr5Error):
    """A model folder is missing, damaged or in another format."""


class IndexBusyError(Cr5Error):
    """Another process is writing the index."""


class NotFittedError(Cr5Error, AttributeError):
    """The model has not been fitted; every method that needs a fitted model raises the same error."""

    def __init__(self, message: str = "the model is not fitted and has no languages; fit the model first") -> None:
        super().__init__(message)


class ClusterError(Cr5Error):
    """A cluster cannot go on: its scheduler or all of its workers are lost, or out of memory.

    ``problem`` says what has happened and what to do about the cluster, ``advice`` how the fit is continued after that.
    """

    def __init__(
        self, problem: str, advice: str = "then run the fit again with the same `checkpoint` to continue"
    ) -> None:
        super().__init__(f"{problem}, {advice}")
        self.problem, self.advice = problem, advice


class MissingPackageError(Cr5Error, ImportError):
    """An optional package is not installed; the message names the extra that installs it."""


class Cr5Warning(UserWarning):
    """The base of all warnings: the result is usable, but the message says what limits it and what would help."""


class NotConverged(Cr5Warning):
    """The solver stopped before its residual was within the tolerance."""


class Interrupted(NotConverged):
    """Ctrl-C ended a fit early; the model is what the solver had reached by then."""


class RankLowered(Cr5Warning):
    """The corpus is too small for the default rank, and a smaller one is used."""


class LanguageLeftOut(Cr5Warning):
    """A language has no document that can be trained on, and is not part of the model."""


class FewDocuments(Cr5Warning):
    """The corpus, or one of its languages, shares too few concepts to learn much from."""


class RepeatedDocuments(Cr5Warning):
    """Some documents have exactly the same words as another document in their language."""


class SeveralCodes(Cr5Warning):
    """A corpus has one language under several codes, such as en and en-US."""


class LanguageBorrowed(Cr5Warning):
    """The model does not have the language of a text, and encodes it by a close language that it has."""


class FewKnownWords(Cr5Warning):
    """The model knows so few of the words of texts that it finds little of what they have in common."""


class DeprecatedInterface(Cr5Warning):
    """A name of the paper's authors' libraries is used; the message has the name of today."""


class DocumentsLeftOut(Cr5Warning):
    """The limits on document length (``min_unique``, ``max_unique``) leave out most documents of the corpus."""


class ColumnsNotKept(Cr5Warning):
    """A table or record has columns beside those of a document, which are not stored with it."""


class WorkersLost(Cr5Warning):
    """Workers or the scheduler of a cluster do not answer; the fit waits for them, and ends if none comes back."""


class OutputWarning(Cr5Warning):
    """A file that is not essential, such as a checkpoint, could not be written."""


def reason(error: OSError) -> str:
    """What the operating system says about a failure, as messages show it: "permission denied"."""
    return (error.strerror or str(error)).lower()


def quoted(text: str) -> str:
    """A text as messages show it: in quotes, shortened to 60 characters, with control characters escaped."""
    return repr(text if len(text) <= 60 else text[:60] + "…")


def one_of(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise an error that names the parameter and its choices, unless the value is one of them."""
    if value not in choices:
        listed = " or ".join(f'"{choice}"' for choice in choices)
        raise Cr5Error(f"`{name}={value!r}` must be {listed}")


def format_bytes(count: float | None) -> str:
    """12300000 -> 12.3 MB."""
    count = count or 0
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} bytes"


def plural(count: int, noun: str) -> str:
    """A count with its noun: 1 step, 2 steps."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def whole_number(name: str, value: Any, minimum: int = 0) -> int:
    """Convert an integer of any library to Python's int; raise an error that names the parameter for anything else."""
    try:
        number = operator.index(value)
    except TypeError:
        raise Cr5TypeError(f"`{name}={value!r}` must be a whole number of at least {minimum}") from None
    if number < minimum:
        raise Cr5Error(f"`{name}={number}` must be a whole number of at least {minimum}")
    return number


def warn(message: str | Warning, category: type[Warning] | None = None) -> None:
    """Issue a warning that points at the first line outside this package: that of the caller's own code."""
    level, frame = 1, sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)
