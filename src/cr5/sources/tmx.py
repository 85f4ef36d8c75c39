"""Translation memories: files in TMX 1.1 to 1.4b, where every unit has a segment in each of several languages.

The file streams through expat; memory holds one unit, or as many as are joined. External files are never loaded, and
declared entities are rejected, because a few nested ones can expand beyond any memory.
"""

import html.entities
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Annotated, NamedTuple, TypeAlias
from xml.parsers import expat

from cr5.corpus.documents import Document
from cr5.errors import CorpusError, whole_number
from cr5.message_parts import quoted
from cr5.sources.accounting import Accounting
from cr5.sources.input_files import InputFile, find_files, same_text_error, unique_names
from cr5.sources.language_names import LanguageNames, NamedLanguages
from cr5.sources.source import ParameterHelp, Source

CHUNK_BYTES = 1 << 16
MAX_UNIT_BYTES = 1 << 24
_MAX_DEPTH = 1000  # nesting depth of elements
_MAX_NAMES = 10_000  # names of elements and attributes; expat keeps all of them in memory
_MARKUP = {"bpt", "ept", "it", "ph", "ut"}  # their content is markup of the original document
_SPACES = {"ph", "ut", "sub"}  # line breaks, pictures, footnotes: they separate words


class _Unit(NamedTuple):
    """A unit: its number in the file, from 1, and its segments, each with its language."""

    number: int
    segments: list[tuple[str, str]]


class _Problem(NamedTuple):
    """A problem in a unit, with the arguments of ``Accounting.unusable_part``."""

    reason: str
    message: str


_Item: TypeAlias = _Unit | _Problem


def read_tmx(
    paths: Annotated[Sequence[Path], ParameterHelp("Files or folders.", metavar="PATH")],
    *,
    join: Annotated[int, ParameterHelp("Translation units that make one document.", metavar="N", minimum=1)] = 20,
    lang: NamedLanguages = None,
    accounting: Accounting | None = None,
) -> Iterator[Document]:
    """Read documents from TMX files, also in folders and zips.

    ``join`` consecutive units make one document in each language; its concept is the name of the file and the number of
    the first unit, "memory:12", because a tuid need not be unique. With ``join=1``, several segments of a language in
    one unit are several documents. ``lang`` says what the values of xml:lang mean that are no codes. From a damaged
    file, the units before the damage are read; a unit of more than ``MAX_UNIT_BYTES`` is treated as damage.
    """
    whole_number("join", join, 1)
    accounting, codes = accounting or Accounting(), LanguageNames(lang)
    files = _files(paths, accounting)
    if not files:
        raise CorpusError(f"no TMX file in {', '.join(map(str, paths)) or 'an empty list'}; its name must end in .tmx")
    names = unique_names(list(files))
    for name, file in sorted(zip(names, files.values(), strict=True)):
        yield from _documents(name, file, join, codes, accounting)
    codes.warn_of_unused("no xml:lang")


# Units


def _documents(
    name: str, file: InputFile, join: int, codes: LanguageNames, accounting: Accounting
) -> Iterator[Document]:
    block: list[_Unit] = []
    damage: CorpusError | None = None
    with accounting.reading(file):
        for item in _units(file, codes):
            if isinstance(item, CorpusError):
                damage = item
            elif isinstance(item, _Problem):
                accounting.unusable_part(*item)
            else:
                block.append(item)
                if len(block) == join:
                    yield from _joined(name, file, block, accounting)
                    block = []
        yield from _joined(name, file, block, accounting)
        if damage is not None:
            raise damage


def _joined(name: str, file: InputFile, block: list[_Unit], accounting: Accounting) -> Iterator[Document]:
    segments = [segment for unit in block for segment in unit.segments]
    if len(block) > 1:
        texts: dict[str, list[str]] = defaultdict(list)
        for lang, text in segments:
            texts[lang].append(text)
        segments = [(lang, "\n".join(filter(None, parts))) for lang, parts in texts.items()]
    for lang, text in segments:
        place = (
            f"{file}: unit {block[0].number:,}"
            if len(block) == 1
            else f"{file}: units {block[0].number:,} to {block[-1].number:,}"
        )
        yield from accounting.document(f"{name}:{block[0].number}", lang, text, place=place, check_lang=True)


def _units(file: InputFile, codes: LanguageNames) -> Iterator[_Item | CorpusError]:
    """The units of a file and the problems in it, in order; last the error that ends it early."""
    parser = _Parser(str(file), codes)
    try:
        with file.open() as stream:
            yield from parser.read(stream)
    except CorpusError as error:
        yield from parser.items
        yield error


class _Parser:
    """The parser of one file; ``items`` has the units and problems of the last chunk."""

    def __init__(self, source: str, codes: LanguageNames) -> None:
        self.source, self.codes = source, codes
        self.items: list[_Item] = []
        self.number = self.depth = 0
        self.unit_bytes = 0  # since a unit started or ended
        self.segments: list[tuple[str, str]] = []
        self.lang: str | None = None  # of the current tuv; None outside, "" if it has none
        self.is_text: list[bool] = []  # for every open element from <seg> on: whether its text belongs to the segment
        self.pieces: list[str] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.root
        self.parser.EndElementHandler = self.end
        self.parser.EntityDeclHandler = self.reject_entity
        self.parser.SkippedEntityHandler = self.replace_entity

    def read(self, stream: IO[bytes]) -> Iterator[_Item]:
        for chunk in chain(iter(lambda: stream.read(CHUNK_BYTES), b""), [b""]):
            self.parse(chunk)
            yield from self.items
            self.items.clear()

    def parse(self, chunk: bytes) -> None:
        """Append the units and problems of a chunk to ``items``; an empty chunk is the end of the file."""
        try:
            self.parser.Parse(chunk, not chunk)
        except expat.ExpatError as error:
            problem = expat.ErrorString(error.code) if chunk else f"truncated, {expat.ErrorString(error.code)}"
            remedy = "correct it there or export it again"
            raise self.parse_error(f"{problem}; {remedy}", error.lineno, error.offset) from None
        except CorpusError:
            raise
        except (ValueError, LookupError) as error:  # an encoding that expat does not know
            raise self.parse_error(f"{error}; convert it to UTF-8") from None
        self.unit_bytes += len(chunk)
        if self.unit_bytes > MAX_UNIT_BYTES:
            raise self.parse_error(
                f"no unit ends within {MAX_UNIT_BYTES >> 20} MB; correct it there or export it again"
            )
        if len(self.parser.intern) > _MAX_NAMES:
            raise self.parse_error(f"more than {_MAX_NAMES} different element names; pass a TMX file")

    def parse_error(self, explanation: str, line: int = 0, column: int = -1) -> CorpusError:
        line = line or self.parser.CurrentLineNumber
        column = self.parser.CurrentColumnNumber if column < 0 else column
        return CorpusError(f"{self.source}:{line}:{column + 1}: {explanation}")

    @property
    def place(self) -> str:
        return f"{self.source}:{self.parser.CurrentLineNumber}"

    def root(self, name: str, attributes: dict[str, str]) -> None:
        if name.lower() != "tmx":
            raise self.parse_error(f"the first element is <{name[:40]}>, not <tmx>; pass a TMX file")
        self.depth = 1
        self.parser.StartElementHandler = self.start

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.parse_error(f"more than {_MAX_DEPTH} nested elements; correct it there or export it again")
        name = name.lower()
        if self.is_text:
            self.is_text.append(name == "sub" or (name not in _MARKUP and self.is_text[-1]))
            self.update_handler(name)
        elif name == "seg":
            if self.lang:
                self.is_text.append(True)
                self.update_handler(name)
        elif name == "tuv":
            self.lang = self.codes.code((attributes.get("xml:lang") or attributes.get("lang") or "").strip())
            if not self.lang:
                message = "a <tuv> without xml:lang; add its language there"
                self.items.append(_Problem("no language", f"{self.place}: {message}"))
        elif name == "tu":
            self.number += 1
            self.unit_bytes = 0
            self.segments, self.lang = [], None

    def end(self, name: str) -> None:
        self.depth -= 1
        name = name.lower()
        if self.is_text:
            self.is_text.pop()
            if self.is_text:
                self.update_handler(name)
                return
            self.parser.CharacterDataHandler = None
            self.segments.append((self.lang or "", " ".join("".join(self.pieces).split())))
            self.pieces = []
        elif name == "tuv":
            self.lang = None
        elif name == "tu":
            self.unit_bytes = 0
            self.items.append(_Unit(self.number, self.segments))
            self.segments = []

    def update_handler(self, name: str) -> None:
        """Collect text or ignore it, after an element has started or ended."""
        if name in _SPACES:
            self.pieces.append(" ")
        self.parser.CharacterDataHandler = self.pieces.append if self.is_text[-1] else None

    def reject_entity(self, name: str, *_: object) -> None:
        raise self.parse_error(
            f"declares the entity {quoted(name)}, which may expand without limit; write its text instead"
        )

    def replace_entity(self, name: str, parameter: bool) -> None:
        """Replace an entity of an external DTD by its meaning in HTML."""
        if self.is_text and self.is_text[-1]:
            self.pieces.append(html.entities.html5.get(f"{name};", " "))
            if f"{name};" not in html.entities.html5:
                message = f"the entity {quoted(name)} is unknown; write its text instead"
                self.items.append(_Problem("unknown entity", f"{self.place}: {message}"))


# Files


def _stem(name: str) -> str:
    return name[:-4] if name.lower().endswith(".tmx") else name


def _files(paths: Sequence[Path], accounting: Accounting) -> dict[tuple[tuple[str, ...], str], InputFile]:
    """All TMX files of these paths, by folder and name; a file that is given itself may have any name."""
    files: dict[tuple[tuple[str, ...], str], InputFile] = {}
    for file in find_files(paths, accounting):
        if not file.name.lower().endswith(".tmx") and (file.member or file.path not in paths):
            accounting.skip_extension(file, file.name)
            continue
        other = files.setdefault((file.folder, _stem(file.name)), file)
        if other != file:
            raise same_text_error(file, other)
    return files


TMX = Source(
    "tmx",
    read_tmx,
    help="""Translation memories: .tmx, .tmx.gz, or in a .zip.

    The segments of 20 translation units are joined into a document.
    Examples:

        cr5 corpus tmx memory.tmx -o corpus.parquet

        cr5 corpus tmx en-it.tmx.gz da-en.tmx.gz --join 50 -o corpus.parquet
    """,
    short_documents_advice="join more units with `join`",
)
