"""Translation memories: files in TMX 1.1 to 1.4b, where every unit has a segment in each of several languages.

The file streams through expat; memory holds one unit, or as many as are joined. External files are never loaded, and
declared entities are rejected, because a few nested ones can expand beyond any memory.
"""

import html.entities
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Annotated, NamedTuple, TypeAlias
from xml.parsers import expat

from cr5.corpus.documents import Document
from cr5.errors import CorpusError
from cr5.sources.files import ErrorHandler, raise_error
from cr5.sources.input_files import InputFile, find_files, unique_names
from cr5.sources.source import Parameter, Source

CHUNK_BYTES = 1 << 16
MAX_UNIT_BYTES = 1 << 24
_MAX_DEPTH = 1000  # of nested elements
_MAX_NAMES = 10_000  # of elements and attributes; expat keeps all of them in memory
_MARKUP = {"bpt", "ept", "it", "ph", "ut"}  # their content is markup of the original document
_SPACES = {"ph", "ut", "sub"}  # line breaks, pictures, footnotes: they separate words


class _Unit(NamedTuple):
    """A unit: its number in the file, from 1, and its segments, each with its language."""

    number: int
    segments: list[tuple[str, str]]


class _Problem(NamedTuple):
    """A problem, with the arguments of an ``ErrorHandler``."""

    reason: str
    message: str


_Item: TypeAlias = _Unit | _Problem


def read_tmx(
    paths: Annotated[Sequence[Path], Parameter("Files or folders.", metavar="PATH")],
    *,
    join: Annotated[int, Parameter("Units that make one document.", metavar="N", minimum=1)] = 20,
    handle_error: ErrorHandler = raise_error,
    chunk_bytes: int = CHUNK_BYTES,
    max_unit_bytes: int = MAX_UNIT_BYTES,
) -> Iterator[Document]:
    """Read documents from TMX files, also in folders and zips.

    ``join`` consecutive units make one document in each language; its concept is the name of the file and the number
    of the first unit, "memory:12", because a tuid need not be unique. With ``join=1``, several segments of a language
    in one unit are several documents. From a damaged file, the units before the damage are read;
    a unit of more than ``max_unit_bytes`` counts as damage.
    """
    if join < 1:
        raise CorpusError(f"`join={join}` is less than 1; join 1 unit or more into a document")
    files = _files(paths, handle_error)
    if not files:
        raise CorpusError(f"no TMX file in {', '.join(map(str, paths)) or 'an empty list'}; its name must end in .tmx")
    names = unique_names(list(files))
    return chain.from_iterable(
        _documents(name, _units(file, chunk_bytes, max_unit_bytes), join, handle_error)
        for name, file in sorted(zip(names, files.values(), strict=True))
    )


# Units


def _documents(name: str, items: Iterable[_Item], join: int, handle_error: ErrorHandler) -> Iterator[Document]:
    block: list[_Unit] = []
    for item in items:
        if isinstance(item, _Problem):
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


def _units(file: InputFile, chunk_bytes: int, max_unit_bytes: int) -> Iterator[_Item]:
    """The units of a file and the problems in it, in order."""
    parser = _Parser(str(file), max_unit_bytes)
    try:
        with file.open() as stream:
            yield from parser.read(stream, chunk_bytes)
    except CorpusError as error:
        yield from parser.items
        yield _Problem("unreadable file", str(error))


class _Parser:
    """The parser of one file; ``items`` has the units and problems of the last chunk."""

    def __init__(self, source: str, max_unit_bytes: int) -> None:
        self.source, self.max_unit_bytes = source, max_unit_bytes
        self.items: list[_Item] = []
        self.number = self.depth = 0
        self.bytes_since = 0  # since a unit started or ended
        self.segments: list[tuple[str, str]] = []
        self.lang: str | None = None  # of the current tuv; None outside, "" if it has none
        self.inside: list[bool] = []  # for every open element from <seg> on: whether its text belongs to the segment
        self.pieces: list[str] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.root
        self.parser.EndElementHandler = self.end
        self.parser.EntityDeclHandler = self.declared
        self.parser.SkippedEntityHandler = self.skipped

    def read(self, stream: IO[bytes], chunk_bytes: int) -> Iterator[_Item]:
        for chunk in chain(iter(lambda: stream.read(chunk_bytes), b""), [b""]):
            self.parse(chunk)
            yield from self.items
            self.items.clear()

    def parse(self, chunk: bytes) -> None:
        """Append the units and problems of a chunk to ``items``; an empty chunk is the end of the file."""
        try:
            self.parser.Parse(chunk, not chunk)
        except expat.ExpatError as error:
            words = expat.ErrorString(error.code)
            words = words if chunk else f"cut short, {words}"
            raise self.broken(f"{words}; correct it there or export it again", error.lineno, error.offset) from None
        except CorpusError:
            raise
        except (ValueError, LookupError) as error:  # an encoding that expat does not know
            raise self.broken(f"{error}; convert it to UTF-8") from None
        self.bytes_since += len(chunk)
        if self.bytes_since > self.max_unit_bytes:
            raise self.broken(
                f"no unit ends within {self.max_unit_bytes >> 20} MB; correct it there or export it again"
            )
        if len(self.parser.intern) > _MAX_NAMES:
            raise self.broken(f"more than {_MAX_NAMES} different element names; pass a TMX file")

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
        if self.depth > _MAX_DEPTH:
            raise self.broken(f"more than {_MAX_DEPTH} nested elements; correct it there or export it again")
        name = name.lower()
        if self.inside:
            self.inside.append(name == "sub" or (name not in _MARKUP and self.inside[-1]))
            self.update_handler(name)
        elif name == "seg":
            if self.lang:
                self.inside.append(True)
                self.update_handler(name)
        elif name == "tuv":
            self.lang = (attributes.get("xml:lang") or attributes.get("lang") or "").strip()
            if not self.lang:
                where = f"{self.source}:{self.parser.CurrentLineNumber}"
                self.items.append(_Problem("no language", f"{where}: a <tuv> without xml:lang; add its language there"))
        elif name == "tu":
            self.number += 1
            self.bytes_since = 0
            self.segments, self.lang = [], None

    def end(self, name: str) -> None:
        self.depth -= 1
        name = name.lower()
        if self.inside:
            self.inside.pop()
            if self.inside:
                self.update_handler(name)
                return
            self.parser.CharacterDataHandler = None
            if text := " ".join("".join(self.pieces).split()):
                self.segments.append((self.lang or "", text))
            self.pieces = []
        elif name == "tuv":
            self.lang = None
        elif name == "tu":
            self.bytes_since = 0
            self.items.append(_Unit(self.number, self.segments))
            self.segments = []

    def update_handler(self, name: str) -> None:
        """Collect text or ignore it, after an element has started or ended."""
        if name in _SPACES:
            self.pieces.append(" ")
        self.parser.CharacterDataHandler = self.pieces.append if self.inside[-1] else None

    def declared(self, name: str, *_: object) -> None:
        raise self.broken(f"declares the entity '{name[:40]}', which may expand without limit; write its text instead")

    def skipped(self, name: str, parameter: bool) -> None:
        """Replace an entity of an external DTD by its meaning in HTML."""
        if self.inside and self.inside[-1]:
            self.pieces.append(html.entities.html5.get(f"{name};", " "))
            if f"{name};" not in html.entities.html5:
                where = f"{self.source}:{self.parser.CurrentLineNumber}"
                self.items.append(
                    _Problem("unknown entity", f"{where}: '&{name[:40]};' is unknown; write its text instead")
                )


# Files


def _stem(name: str) -> str:
    return name[:-4] if name.lower().endswith(".tmx") else name


def _files(paths: Sequence[Path], handle_error: ErrorHandler) -> dict[tuple[tuple[str, ...], str], InputFile]:
    """All TMX files of these paths, by folder and name; a file that is given itself may have any name."""
    files: dict[tuple[tuple[str, ...], str], InputFile] = {}
    for file in find_files(paths, handle_error):
        if not file.name.lower().endswith(".tmx") and (file.member or file.path not in paths):
            continue
        other = files.setdefault((file.folder, _stem(file.name)), file)
        if other != file:
            raise CorpusError(f"{file}: seems to be the same text as {other}; keep one of them")
    return files


TMX = Source(
    "tmx",
    read_tmx,
    help="""Translation memories: .tmx, .tmx.gz, or in a .zip.

    A segment alone teaches little, so those of 20 units are joined.
    Examples:

        cr5 corpus tmx memory.tmx -o corpus.parquet

        cr5 corpus tmx en-it.tmx.gz da-en.tmx.gz --join 50 -o corpus.parquet
    """,
    longer_documents="join more units with `join`",
)
