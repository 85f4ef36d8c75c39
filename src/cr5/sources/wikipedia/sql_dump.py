"""An SQL dump: the rows of a table in a file that mysqldump wrote, as Wikimedia publishes them.

The file streams by. Regular expressions do the work on a chunk at a time, whatever is cut
off at its end waits for the next one, and values become Python's column by column.
"""

import codecs
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import BinaryIO, NamedTuple, TypeAlias, cast

from cr5.errors import CorpusError
from cr5.sources.files import reading

Value: TypeAlias = str | int | float | bytes | None

MAX_ROW = 2**26  # characters: a server refuses longer rows unless told otherwise
_MAX_HEAD = 2**17  # characters of a statement before its first row
_CHUNK = 2**15  # larger ones leave the cache and keep the garbage collector busy

# Every quantifier is possessive, so nothing here goes back over what it has read.
_NAME = r"(?:`(?:[^`]|``)++`|[\w$]++)"
_QUOTED = r"'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+'"
_VALUE = rf"(?:[-+.0-9A-Za-z]++|{_QUOTED}|_\w++\s*+{_QUOTED})"  # _binary 'x'
# What a row, the comma behind it, or a value may look like where the chunk ends.
_CUT_VALUE = r"(?:(?:_\w*+\s*+)?'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+(?:\\|')?|[-+.0-9A-Za-z_]*+\s*+)"
_CUT_ROW = re.compile(rf"(?:\((?:{_VALUE}, ?+)*+{_CUT_VALUE}(?:\)\s*+,?)?)?\s*+\Z", re.DOTALL)

# Line ends within strings are written as \n: a statement is where a line starts.
_STATEMENT = re.compile(r"\n(?:INSERT|REPLACE|CREATE)\b", re.IGNORECASE)
_CREATE = re.compile(
    rf"\nCREATE\s++TABLE\s++(?:IF\s++NOT\s++EXISTS\s++)?(?:{_NAME}\s*+\.\s*+)?({_NAME})\s*+"
    r"\(\r?+((?:\n[ \t]++[^\n]*+)*+)\n\)",
    re.IGNORECASE,
)
_INSERT = re.compile(
    rf"\n(?:INSERT|REPLACE)\s++(?:IGNORE\s++)?INTO\s++(?:{_NAME}\s*+\.\s*+)?({_NAME})\s*+"
    rf"(?:\(((?:\s*+{_NAME}\s*+,?)*+)\)\s*+)?VALUES\s*+(?=\()",
    re.IGNORECASE,
)
_COLUMN = re.compile(r"\n\s*+(`(?:[^`]|``)++`)")  # keys and constraints start with a word instead
_ANY_NAME = re.compile(_NAME)

_ESCAPED = re.compile(r"\\(.)|''", re.DOTALL)
_MEANING = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_", None: "'"}
_FLOAT = re.compile(r"[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?", re.ASCII)
_HEX = re.compile(r"0[xX](?:[0-9a-fA-F]{2})*+")


class PageProps(NamedTuple):
    """What page_props tells about pages, by their ids."""

    items: dict[int, str]
    disambiguations: set[int]


def rows(
    stream: BinaryIO,
    table: str,
    columns: Sequence[str],
    source: str = "",
    *,
    where: Mapping[str, Collection[str]] | None = None,
    chunk: int = _CHUNK,
) -> Iterator[tuple[Value, ...]]:
    """The named columns of a table's rows, in the order asked for.

    Text is str, or bytes where it is not UTF-8 (a title cut within a character); hexadecimal
    literals are bytes. ``where`` passes over rows in which a column has none of the given words,
    much faster than the caller could. ``source`` names the file in messages, by default as the
    stream does; ``chunk`` is how many bytes are read at a time. Memory does not grow with the file.
    """
    source = source or str(getattr(stream, "name", "") or "the dump")
    return chain.from_iterable(_Dump(stream, table, list(columns), dict(where or {}), source, chunk).batches())


def wikidata_ids(stream: BinaryIO, source: str = "") -> PageProps:
    """Wikidata's ids of a wiki's pages, and which of them are disambiguations, from its page_props."""
    items: dict[int, str] = {}
    disambiguations: set[int] = set()
    names = {"pp_propname": ["wikibase_item", "disambiguation"]}
    for page, name, value in rows(stream, "page_props", ["pp_page", "pp_propname", "pp_value"], source, where=names):
        if name == "disambiguation":
            disambiguations.add(cast(int, page))
        else:
            items[cast(int, page)] = cast(str, value)
    return PageProps(items, disambiguations)


def sitelinks(stream: BinaryIO, site: str, source: str = "") -> Iterator[tuple[str, str]]:
    """Wikidata's ids and titles of a site's pages ("dawiki"), from Wikidata's wb_items_per_site.

    Titles have spaces; those outside the main namespace start with its name, as on the site.
    """
    columns = ["ips_item_id", "ips_site_page"]
    for item, title in rows(stream, "wb_items_per_site", columns, source, where={"ips_site_id": [site]}):
        if isinstance(title, str):
            yield f"Q{item!s}", title.replace("_", " ")


class _Dump:
    """A dump as it is read: ``text`` is what has come and is not yet understood."""

    def __init__(
        self,
        stream: BinaryIO,
        table: str,
        columns: list[str],
        where: dict[str, Collection[str]],
        source: str,
        chunk: int,
    ) -> None:
        self.stream, self.table, self.columns, self.where = stream, table, columns, where
        self.source, self.chunk = source, chunk
        self.decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.text, self.ended = "\n", False  # a line starts here
        self.tables: dict[str, list[str]] = {}

    def batches(self) -> Iterator[Iterable[tuple[Value, ...]]]:
        while (order := self.next_insert()) is not None:
            yield from self.statement(order)
        if self.table not in self.tables:
            others = ", ".join(f"`{name}`" for name in list(self.tables)[:5])
            holds = f"it holds {others}" if others else "and nothing that a dump of tables has"
            raise CorpusError(
                f"{self.source}: no table `{self.table}` in this file, {holds}; "
                f"pass the file whose name ends in {self.table}.sql.gz"
            )

    def more(self) -> bool:
        """Read on, or tell that there is nothing more."""
        if self.ended:
            return False
        with reading(self.source):
            # A row longer than the usual chunk is read in steps that double, or it would be scanned again and again.
            data = self.stream.read(max(self.chunk, len(self.text) - _CHUNK))
        self.ended = not data
        self.text += self.decoder.decode(data, final=self.ended)
        return True

    def next_insert(self) -> list[str] | None:
        """Go to the first row of the table's next INSERT; return the columns as they stand in it."""
        here = 0
        while True:
            start = _STATEMENT.search(self.text, here)
            if start is None:
                self.text, here = self.text[-16:], 0  # may be the first half of such a line
                if not self.more():
                    return None
                continue
            here = start.start()
            if created := _CREATE.match(self.text, here):
                name, here = _plain(created[1]), created.end()
                self.tables[name] = [_plain(column) for column in _COLUMN.findall(created[2])]
                if name == self.table:
                    self.check(self.tables[name])
            elif insert := _INSERT.match(self.text, here):
                name, here = _plain(insert[1]), insert.end()
                listed = [_plain(column) for column in _ANY_NAME.findall(insert[2] or "")]
                known = self.tables.setdefault(name, listed)
                order = listed or known
                if name == self.table:
                    if not order:
                        raise CorpusError(
                            f"{self.source}: the rows of `{name}` come without their CREATE TABLE, "
                            f"which names the columns; pass the whole dump"
                        )
                    self.check(order)
                    self.text = self.text[here:]
                    return order
            elif len(self.text) - here > _MAX_HEAD:
                here += 1  # a statement of another kind
            else:
                self.text, here = self.text[here:], 0
                if not self.more():
                    here = 1

    def check(self, names: list[str]) -> None:
        for column in [*self.columns, *self.where]:
            if column not in names:
                raise CorpusError(
                    f"{self.source}: table `{self.table}` has no column {column}, "
                    f"only {', '.join(names)}; pass a dump of the usual layout"
                )

    def statement(self, order: list[str]) -> Iterator[Iterable[tuple[Value, ...]]]:
        """The rows up to the semicolon."""
        pattern, places = self.pattern(order)
        while True:
            self.text = self.text.lstrip()  # a chunk may have ended behind a comma
            found = cast(list[tuple[str, ...]], pattern.findall(self.text))
            rest = ""
            while found and not found[-1][0]:  # the rest, or the nothing behind it
                rest = found.pop()[-1] or rest
            clean = _encodable(self.text)
            self.text = rest
            if found:
                groups = list(zip(*found, strict=True))
                yield zip(*(self.convert(groups[place], groups[place + 1], clean) for place in places), strict=True)
            if rest.startswith(";"):
                self.text = rest[1:]
                return
            if not _CUT_ROW.match(rest) or len(rest) > MAX_ROW:
                raise self.unreadable(rest)
            if not self.more():
                raise CorpusError(f"{self.source}: cut off within the rows of `{self.table}`; download it again")

    def pattern(self, order: list[str]) -> tuple[re.Pattern[str], list[int]]:
        """What finds rows, and for each column which of its groups is the first of two.

        One holds text that stands for itself, the other any other literal. Before them comes a group
        that every row fills, behind them the rest of the text where there is no row: as that is a
        match too, nothing between rows can be passed over.
        """
        wanted = sorted({order.index(column) for column in self.columns}) or [0]
        words = {
            order.index(column): rf"(?:_\w++\s*+)?'(?:{'|'.join(map(re.escape, values))})'[,)]"
            for column, values in self.where.items()
        }
        kept = [rf"(?:'([^'\\]*+)'(?=[,)])|({_VALUE}))" if n in wanted else _VALUE for n in range(len(order))]
        for n, word in words.items():
            kept[n] = f"(?={word}){kept[n]}"
        passed = [", ?+".join([_VALUE] * n + [rf"(?!{word}){_VALUE}"]) for n, word in words.items()]
        end = r"\)\s*+(?:,\s*+|(?=;))"
        skip = rf"(?:\((?:{'|'.join(passed)})(?:, ?+{_VALUE})*+{end})*+" if passed else ""
        pattern = re.compile(rf"{skip}(?:(\(){', ?+'.join(kept)}{end}|(.*))", re.DOTALL)
        return pattern, [1 + 2 * wanted.index(order.index(column)) for column in self.columns]

    def convert(self, texts: tuple[str, ...], others: tuple[str, ...], clean: bool) -> Sequence[Value]:
        """A column's literals as values: in C where they are all plain text or all whole numbers, else one by one."""
        if clean and not any(others):
            return texts
        try:
            return list(map(int, others))
        except ValueError:
            value = self.value
        if not clean:
            others = tuple(other or f"'{text}'" for text, other in zip(texts, others, strict=True))
        return [value(other) if other else text for text, other in zip(texts, others, strict=True)]

    def value(self, literal: str) -> Value:
        if literal[-1] == "'":
            text = literal[literal.index("'") + 1 : -1]
            if "\\" in text or "'" in text:
                text = _ESCAPED.sub(_unescape, text)
            return text if _encodable(text) else text.encode("utf-8", "surrogateescape")
        if literal.upper() == "NULL":
            return None
        if _FLOAT.fullmatch(literal):
            return int(literal) if literal.lstrip("+-").isdigit() and len(literal) < 4000 else float(literal)
        if _HEX.fullmatch(literal):
            return bytes.fromhex(literal[2:])
        raise self.unreadable(literal)

    def unreadable(self, text: str) -> CorpusError:
        near = text[:40].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return CorpusError(f"{self.source}: cannot be read as rows of `{self.table}` near {near!r}; download it again")


def _plain(name: str) -> str:
    return name[1:-1].replace("``", "`") if name[0] == "`" else name


def _encodable(text: str) -> bool:
    """Whether all of it was UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unescape(match: re.Match[str]) -> str:
    return _MEANING.get(match[1], match[1])
