"""Translation memories: files in TMX 1.1 to 1.4b, in which every unit holds a segment in several languages.

The file streams through expat: memory holds one unit, or as many as are joined. Nothing that the file asks for is
loaded, and no entity that it declares is believed, as a few nested ones can grow beyond any memory.
"""

import html.entities
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple, TypeAlias
from xml.parsers import expat

from cr5.corpus.documents import Document
from cr5.errors import CorpusError
from cr5.sources.files import ErrorHandler, raise_error
from cr5.sources.input_files import InputFile, find_files, unique_names

_CHUNK = 1 << 16
_LONGEST = 1 << 24  # bytes of a unit
_DEEPEST = 1000  # elements in one another
_NAMES = 10_000  # of elements and attributes: expat forgets none of them
_CODES = {"bpt", "ept", "it", "ph", "ut"}  # they hold markup of the original
_GAPS = {"ph", "ut", "sub"}  # where words may end: line breaks, pictures, footnotes


class _Unit(NamedTuple):
    """A unit: its number in the file, from 1, and its segments, each with its language."""

    number: int
    segments: list[tuple[str, str]]


class _Fault(NamedTuple):
    """What a reader complains of."""

    reason: str
    message: str


_Item: TypeAlias = _Unit | _Fault


def read_tmx(paths: Sequence[Path], *, join: int = 1, handle_error: ErrorHandler = raise_error) -> Iterator[Document]:
    """Documents of TMX files, and of all that lie in folders and zips.

    A unit's concept is its file's name and its number there, "memory:12", as a tuid need not be unique. Several
    segments of a language are several documents. With ``join`` above 1, so many consecutive units are a document in
    each language, with the number of the first. A file that is damaged gives the units before the damage.
    """
    if join < 1:
        raise CorpusError(f"{join} units cannot be joined to a document; pass 1 or more")
    files = _files(paths, handle_error)
    if not files:
        raise CorpusError(f"no TMX file in {', '.join(map(str, paths)) or 'nothing'}; its name should end in .tmx")
    names = unique_names(list(files))
    return chain.from_iterable(
        _documents(name, _units(file), join, handle_error)
        for name, file in sorted(zip(names, files.values(), strict=True))
    )


# Units


def _documents(name: str, items: Iterable[_Item], join: int, handle_error: ErrorHandler) -> Iterator[Document]:
    block: list[_Unit] = []
    for item in items:
        if isinstance(item, _Fault):
            handle_error(*item)
            continue
        block.append(item)
        if len(block) == join:
            yield from _joined(name, block)
            block = []
    yield from _joined(name, block)


def _joined(name: str, block: list[_Unit]) -> Iterator[Document]:
    segments = [segment for unit in block for segment in unit.segments]
    if len(block) > 1:
        texts: dict[str, list[str]] = defaultdict(list)
        for lang, text in segments:
            texts[lang].append(text)
        segments = [(lang, "\n".join(parts)) for lang, parts in texts.items()]
    for lang, text in segments:
        yield Document(f"{name}:{block[0].number}", lang, text)


def _units(file: InputFile) -> Iterator[_Item]:
    """The units of a file, and what is wrong with it where it is found."""
    memory = _Memory(str(file))
    try:
        with file.open() as stream:
            yield from memory.read(stream)
    except CorpusError as error:
        yield from memory.items
        yield _Fault("unreadable file", str(error))


class _Memory:
    """A file as it is parsed: ``items`` are the units and faults of the chunk at hand."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.items: list[_Item] = []
        self.number = self.depth = 0
        self.since = 0  # bytes since a unit began or ended
        self.segments: list[tuple[str, str]] = []
        self.lang: str | None = None  # of the segment that may come: None outside a tuv, or in one without
        self.inside: list[bool] = []  # for every open element from seg on, whether its text is a part of the segment
        self.pieces: list[str] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.root
        self.parser.EndElementHandler = self.end
        self.parser.EntityDeclHandler = self.declared
        self.parser.SkippedEntityHandler = self.skipped

    def read(self, stream: IO[bytes]) -> Iterator[_Item]:
        for chunk in chain(iter(lambda: stream.read(_CHUNK), b""), [b""]):
            self.parse(chunk)
            yield from self.items
            self.items.clear()

    def parse(self, chunk: bytes) -> None:
        """Fill ``items`` from a chunk; an empty one is the end."""
        try:
            self.parser.Parse(chunk, not chunk)
        except expat.ExpatError as error:
            words = expat.ErrorString(error.code)
            words = words if chunk else f"cut short, {words}"
            raise self.broken(f"{words}; mend it there or export it again", error.lineno, error.offset) from None
        except CorpusError:
            raise
        except (ValueError, LookupError) as error:  # of encodings that expat does not know
            raise self.broken(f"{error}; convert it to UTF-8") from None
        self.since += len(chunk)
        if self.since > _LONGEST:
            raise self.broken(f"no unit ends within {_LONGEST >> 20} MB; mend it there or export it again")
        if len(self.parser.intern) > _NAMES:
            raise self.broken(f"more than {_NAMES} names of elements; pass a TMX file")

    def broken(self, explanation: str, line: int = 0, column: int = -1) -> CorpusError:
        line = line or self.parser.CurrentLineNumber
        column = self.parser.CurrentColumnNumber if column < 0 else column
        return CorpusError(f"{self.source}:{line}:{column + 1}: {explanation}")

    def root(self, name: str, attributes: dict[str, str]) -> None:
        if name.lower() != "tmx":
            raise self.broken(f"the first element is <{name[:40]}>, not <tmx>; pass a TMX file")
        self.depth = 1
        self.parser.StartElementHandler = self.start

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.broken(f"more than {_DEEPEST} elements in one another; mend it there or export it again")
        name = name.lower()
        if self.inside:
            self.inside.append(name == "sub" or (name not in _CODES and self.inside[-1]))
            self.listen(name)
        elif name == "seg":
            if self.lang:
                self.inside.append(True)
                self.listen(name)
        elif name == "tuv":
            self.lang = (attributes.get("xml:lang") or attributes.get("lang") or "").strip()
            if not self.lang:
                place = f"{self.source}:{self.parser.CurrentLineNumber}"
                self.items.append(_Fault("no language", f"{place}: a <tuv> without xml:lang; say its language there"))
        elif name == "tu":
            self.number += 1
            self.since = 0
            self.segments, self.lang = [], None

    def end(self, name: str) -> None:
        self.depth -= 1
        name = name.lower()
        if self.inside:
            self.inside.pop()
            if self.inside:
                self.listen(name)
                return
            self.parser.CharacterDataHandler = None
            if text := " ".join("".join(self.pieces).split()):
                self.segments.append((self.lang or "", text))
            self.pieces = []
        elif name == "tuv":
            self.lang = None
        elif name == "tu":
            self.since = 0
            self.items.append(_Unit(self.number, self.segments))
            self.segments = []

    def listen(self, name: str) -> None:
        """Take in text, or stop taking it in, where an element begins or ends."""
        if name in _GAPS:
            self.pieces.append(" ")
        self.parser.CharacterDataHandler = self.pieces.append if self.inside[-1] else None

    def declared(self, name: str, *_: object) -> None:
        raise self.broken(f"an entity is declared, '{name[:40]}', and could grow without end; write its text instead")

    def skipped(self, name: str, parameter: bool) -> None:
        """Understand an entity that a DTD elsewhere may declare, as HTML does."""
        if self.inside and self.inside[-1]:
            self.pieces.append(html.entities.html5.get(f"{name};", " "))
            if f"{name};" not in html.entities.html5:
                place = f"{self.source}:{self.parser.CurrentLineNumber}"
                self.items.append(
                    _Fault("unknown entity", f"{place}: '&{name[:40]};' is unknown; write its text instead")
                )


# Files


def _bare(name: str) -> str:
    return name[:-4] if name.lower().endswith(".tmx") else name


def _files(paths: Sequence[Path], handle_error: ErrorHandler) -> dict[tuple[tuple[str, ...], str], InputFile]:
    """All TMX files that the paths name, once each, by folder and name, hidden ones not.

    A file that is named itself may be called otherwise.
    """
    found: dict[tuple[tuple[str, ...], str], InputFile] = {}
    for file in find_files(paths, handle_error):
        if not file.name.lower().endswith(".tmx") and (file.member or file.path not in paths):
            continue
        other = found.setdefault((file.folder, _bare(file.name)), file)
        if other != file:
            raise CorpusError(f"{file}: the same text as {other}, it seems; keep one of them")
    return found
