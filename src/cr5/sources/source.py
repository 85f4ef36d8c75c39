"""The description of a source: its reader of documents, and what the command line says about it.

A reader is a function that returns an iterator of documents. Its first parameter is the input, a path or several; its
options are keyword-only, each annotated with a ``ParameterHelp``. It makes documents with an ``Accounting``, which
counts every file and document, and may take ``langs`` to open only files of these languages. The option of the command
has the name, the type and the default of the parameter. The help ends with "Example:", an empty line, and a call of the
command as an indented paragraph; of several calls, each is a paragraph:

    def read_notes(
        paths: Annotated[Sequence[Path], ParameterHelp("Files or folders.", metavar="PATH")],
        *,
        join: Annotated[int, ParameterHelp("Notes that make one document.", metavar="N", minimum=1)] = 1,
        accounting: Accounting | None = None,
    ) -> Iterator[Document]: ...

    NOTES = Source("notes", read_notes, help=...)
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from cr5.corpus.documents import Document


@dataclass(frozen=True)
class ParameterHelp:
    """What the command line shows about a parameter of a reader.

    ``show_default`` is printed instead of the default; ``option`` is the option's name if it is not the parameter's. A
    parameter that is a sequence may be given several times, and one that is a mapping as KEY=VALUE, several times.
    """

    help: str
    metavar: str | None = None
    minimum: int | None = None
    show_default: str | None = None
    option: str | None = None


@dataclass(frozen=True)
class Source:
    """A reader and the help of its command.

    ``short_documents_advice`` says how to get longer documents, where they are too short to train on: "join more lines
    with `join`". ``skipped_advice`` says how to read files that were skipped for a reason.
    """

    name: str
    read: Callable[..., Iterator[Document]]
    help: str
    short_documents_advice: str = ""
    skipped_advice: Mapping[str, str] = field(default_factory=dict)

    @property
    def parameters(self) -> Mapping[str, tuple[inspect.Parameter, ParameterHelp]]:
        """The described parameters of the reader, the input first."""
        described = {}
        for name, parameter in inspect.signature(self.read).parameters.items():
            for metadata in get_args(parameter.annotation)[1:]:
                if isinstance(metadata, ParameterHelp):
                    described[name] = parameter, metadata
        return described

    def reader_arguments(self, options: Mapping[str, Any], langs: list[str] | None) -> dict[str, Any]:
        """The keyword arguments of a call of the reader: its options, and ``langs`` if it has that parameter."""
        takes_langs = "langs" in inspect.signature(self.read).parameters
        return {**options, "langs": langs} if takes_langs else dict(options)
