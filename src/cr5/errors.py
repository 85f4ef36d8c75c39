"""Errors that the caller can correct, and warnings; it is enough to show their message, without a traceback.

A message states what is wrong, with the value, and what to do. It names parameters of the Python interface in
backticks (`rank`, `on_error="skip"`); the command line shows them as its options (--rank, --on-error skip).
"""

import contextlib
import errno
import operator
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_PACKAGE = str(Path(__file__).parent)
_INSIDE = (_PACKAGE, contextlib.__file__)  # where no line is one of the caller's


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
    """Another process, or another thread of this one, is writing the index."""


class DiskFullError(Cr5Error, OSError):
    """A disk is full; the message names the file or folder, and says what was kept and how to go on."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.errno = errno.ENOSPC


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


class ResultsNotWrittenError(Cr5Error):
    """An evaluation is complete, but its files cannot be written; ``run`` is what it would have returned.

    ``problem`` names the folder and the reason. Earlier files in the folder stay as they are.
    """

    def __init__(self, problem: str, advice: str, run: Any) -> None:
        super().__init__(f"{problem}; {advice}")
        self.problem, self.run = problem, run


class MissingPackageError(Cr5Error, ImportError):
    """An optional package is not installed; the message names the extra that installs it."""


class Cr5Warning(UserWarning):
    """The base of all warnings: the result is usable, but the message says what limits it and what would help."""


class NotConverged(Cr5Warning):
    """The solver stopped before its residual was within the tolerance."""


class Interrupted(NotConverged):
    """Ctrl-C ended a fit early; the model is what the solver had reached by then."""


class FitNeeded(Cr5Warning):
    """A setting that also governs encoding has been changed on a fitted model; it applies from the next fit on."""


class RankLowered(Cr5Warning):
    """The corpus is too small for the default rank, and a smaller one is used."""


class LanguageLeftOut(Cr5Warning):
    """The documents in a language are left out: none can be trained on, or the model of an index does not have it."""


class FewDocuments(Cr5Warning):
    """The corpus, or one of its languages, shares too few concepts to learn much from."""


class RepeatedDocuments(Cr5Warning):
    """Some documents have exactly the same words as another document in their language."""


class SeveralCodes(Cr5Warning):
    """A corpus has one language under several codes, such as en and en-US."""


class DocumentsReplaced(Cr5Warning):
    """Of the documents of an index that share language and concept, a call replaced some, and others stay."""


class UnknownField(Cr5Warning):
    """A filter or `sort` names a field that no document of the index has, or a filter compares it with another type."""


class CountryCode(Cr5Warning):
    """A language has the code of a country that is no language code: dk, where Danish is da."""


class LanguageFallback(Cr5Warning):
    """The model does not have the language of a text, and encodes it as text in a close language that it has."""


LanguageBorrowed = LanguageFallback  # its earlier name


class FewKnownWords(Cr5Warning):
    """The model knows so few of the words of texts that it finds little of what they have in common."""


class DeprecatedInterface(Cr5Warning):
    """A name of the paper's authors' libraries is used; the message names its replacement."""


class DocumentsLeftOut(Cr5Warning):
    """The limits on document length (``min_unique``, ``max_unique``) leave out most documents of the corpus."""


class InputSkipped(Cr5Warning):
    """Rows, lines or files that cannot be used were skipped: files of other formats in a folder, others if
    ``on_error="skip"`` asks for it."""


class ColumnsNotKept(Cr5Warning):
    """A table or record has columns other than those of a document, which are not stored with it."""


class EncodingGuessed(Cr5Warning):
    """A corpus file is not UTF-8, and is read in the encoding that it evidently has."""


class WorkersLost(Cr5Warning):
    """Workers or the scheduler of a cluster do not answer; the fit waits for them, and ends if none comes back."""


class OutputWarning(Cr5Warning):
    """A file that is not essential, such as a checkpoint, could not be written."""


@contextmanager
def needs_package(user: str, package: str, extra: str) -> Iterator[None]:
    """Within this block, which imports an optional package, let an error say how to install it."""
    try:
        yield
    except ImportError as error:
        if not isinstance(error, ModuleNotFoundError) or _is_installed(error.name or ""):
            raise  # for another reason, such as too little memory for its libraries
        raise MissingPackageError(f"{user} needs {package}; install it with pip install 'cr5[{extra}]'") from error


def _is_installed(module: str) -> bool:
    """Whether the package of a module is installed."""
    return find_spec(module.partition(".")[0] or " ") is not None


def one_of(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise an error that names the parameter and its choices, unless the value is one of them."""
    if value not in choices:
        listed = " or ".join(f'"{choice}"' for choice in choices)
        raise Cr5Error(f"`{name}={value!r}` must be {listed}")


def check_progress(progress: object) -> None:
    """Raise an error unless ``progress`` can be called with reports."""
    if not callable(progress):
        raise Cr5TypeError(f"`progress={progress!r}` must be a function of a Progress, such as print")


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
    while frame.f_code.co_filename.startswith(_INSIDE) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)
