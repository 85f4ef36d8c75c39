"""What a user says the names of languages in a source mean: ``lang={"english": "en"}``."""

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from cr5.corpus.languages import is_registered
from cr5.errors import CorpusError, Cr5Warning, warn
from cr5.sources.source import ParameterHelp

NamedLanguages: TypeAlias = Annotated[
    Mapping[str, str] | None,
    ParameterHelp(
        "A name that stands for a language in the input, e.g. --lang english=en; may be repeated.", metavar="NAME=CODE"
    ),
]
"""The parameter ``lang`` of readers whose files or attributes name languages."""


class LanguageNames:
    """Names and the codes that they stand for."""

    def __init__(self, codes: Mapping[str, str] | None) -> None:
        self.codes = dict(codes or {})
        self._unused = set(self.codes)
        for name, code in self.codes.items():
            if not is_registered(code):
                raise CorpusError(
                    f"`lang={name}={code}`: {code!r} is not a language code; give one such as en or pt-BR"
                )

    def code(self, name: str) -> str:
        """The code that a name stands for; any other name as it is."""
        self._unused.discard(name)
        return self.codes.get(name, name)

    def split_end(self, file_name: str) -> tuple[str, str]:
        """A file name that ends in one of the names, as the name of the text and the code; "" if it does not."""
        plain = file_name.removesuffix(".txt")
        for name in sorted(self.codes, key=len, reverse=True):
            if plain == name or plain.endswith((f".{name}", f"-{name}", f"_{name}")):
                return plain[: -len(name) - 1] or "text", self.code(name)
        return "", ""

    def start_of(self, file_name: str) -> str:
        """The code of the name that a file name begins with, "" if there is none."""
        for name in sorted(self.codes, key=len, reverse=True):
            if file_name.startswith((f"{name}.", f"{name}-", f"{name}_")):
                return self.code(name)
        return ""

    def warn_of_unused(self, what: str) -> None:
        """Warn of names that no input has; ``what`` is where they were looked for."""
        if self._unused:
            names = ", ".join(f"{name!r}" for name in sorted(self._unused))
            warn(f"{what} has {names} of `lang`; check the spelling", Cr5Warning)
