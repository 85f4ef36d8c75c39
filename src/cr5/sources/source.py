"""The description of a source: its reader of documents, and what the command line says about it.

A reader is a generator function. Its first parameter is the input, a path or several; its options are keyword-only,
each annotated with a ``Parameter``. It reports unusable input to ``handle_error``, and may take ``langs`` to open
only files of these languages. The option of the command has the name, the type and the default of the parameter:

    def read_notes(
        paths: Annotated[Sequence[Path], Parameter("Files or folders.", metavar="PATH")],
        *,
        join: Annotated[int, Parameter("Notes that make one document.", metavar="N", minimum=1)] = 1,
        handle_error: ErrorHandler = raise_error,
    ) -> Iterator[Document]: ...

    NOTES = Source("notes", read_notes, help="Notes with a heading per language. Example: ...")
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from cr5.corpus.documents import Document


@dataclass(frozen=True)
class Parameter:
    """What the command line shows about a parameter of a reader.

    ``show_default`` is printed instead of the default. A parameter that is a sequence may be given several times, and
    one that is a mapping as KEY=VALUE, several times.
    """

    help: str
    metavar: str | None = None
    minimum: int | None = None
    show_default: str | None = None


@dataclass(frozen=True)
class Source:
    """A reader and the help of its command.

    ``longer_documents`` says how the reader makes longer documents, for users whose documents are too short to train
    on: "join more lines with `join`".
    """

    name: str
    read: Callable[..., Iterator[Document]]
    help: str
    longer_documents: str = ""

    @property
    def parameters(self) -> Mapping[str, tuple[inspect.Parameter, Parameter]]:
        """The described parameters of the reader, the input first."""
        described = {}
        for name, parameter in inspect.signature(self.read).parameters.items():
            for note in get_args(parameter.annotation)[1:]:
                if isinstance(note, Parameter):
                    described[name] = parameter, note
        return described

    @property
    def takes_langs(self) -> bool:
        """Whether the reader opens only files of the languages that are wanted."""
        return "langs" in inspect.signature(self.read).parameters

    def options(self, langs: list[str] | None, given: Mapping[str, Any]) -> dict[str, Any]:
        """The keyword arguments of a call of the reader."""
        return {**given, "langs": langs} if self.takes_langs else dict(given)
