"""Reader of SQL dumps: the rows of a table in a file that mysqldump wrote, as Wikimedia publishes them.

The file is read in chunks. Regular expressions parse one chunk at a time, an incomplete row at its end is kept for
the next chunk, and values are converted to Python's types column by column.
"""

import codecs
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import BinaryIO, TypeAlias, cast

from cr5.errors import CorpusError
from cr5.sources.files import corpus_errors

Value: TypeAlias = str | int | float | bytes | None

MAX_ROW_CHARACTERS = 2**26  # MySQL does not accept longer rows by default
CHUNK_BYTES = 2**15  # larger chunks fall out of the cache and keep the garbage collector busy
_LONG_ROW_CHARACTERS = 2**15
_MAX_HEADER_CHARACTERS = 2**17  # longest text of a statement before its first row

# Every quantifier is possessive, so that no expression backtracks.
_NAME = r"(?:`(?:[^`]|``)++`|[\w$]++)"
_QUOTED = r"'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+'"
_VALUE = rf"(?:[-+.0-9A-Za-z]++|{_QUOTED}|_\w++\s*+{_QUOTED})"  # _binary 'x'
# The beginning of a row, where a chunk ends before the comma after the row.
_CUT_VALUE = r"(?:(?:_\w*+\s*+)?'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+(?:\\|')?|[-+.0-9A-Za-z_]*+\s*+)"
_CUT_ROW = re.compile(rf"(?:\((?:{_VALUE}, ?+)*+{_CUT_VALUE}(?:\)\s*+,?)?)?\s*+\Z", re.DOTALL)

# Line breaks within strings are written as \n, so a statement begins where a line begins.
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
_COLUMN = re.compile(r"\n\s*+(`(?:[^`]|``)++`)")  # keys and constraints begin with a word instead
_ANY_NAME = re.compile(_NAME)

_ESCAPED = re.compile(r"\\(.)|''", re.DOTALL)
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_", None: "'"}
_FLOAT = re.compile(r"[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?", re.ASCII)
_HEX = re.compile(r"0[xX](?:[0-9a-fA-F]{2})*+")


def read_rows(
    stream: BinaryIO,
    table: str,
    columns: Sequence[str],
    source: str = "",
    *,
    where: Mapping[str, Collection[str]] | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    max_row_characters: int = MAX_ROW_CHARACTERS,
) -> Iterator[tuple[Value, ...]]:
    """Yield the rows of a table, with the named columns in the given order.

    Text is str, or bytes if it is not UTF-8 (a title cut within a character); hexadecimal literals are bytes.
    ``where`` keeps only rows in which each of its columns has one of the given values, much faster than the caller
    could. ``source`` names the file in messages, by default the stream's name. Memory does not grow with the file:
    it is read in chunks of ``chunk_bytes``, and a row of more than ``max_row_characters`` is an error.
    """
    source = source or str(getattr(stream, "name", "") or "the dump")
    dump = _Dump(stream, table, list(columns), dict(where or {}), source, chunk_bytes, max_row_characters)
    return chain.from_iterable(dump.batches())


class _Dump:
    """A dump while it is read; ``text`` has been read but not parsed yet."""

    def __init__(
        self,
        stream: BinaryIO,
        table: str,
        columns: list[str],
        where: dict[str, Collection[str]],
        source: str,
        chunk_bytes: int,
        max_row_characters: int,
    ) -> None:
        self.chunk_bytes, self.max_row_characters = chunk_bytes, max_row_characters
        self.stream, self.table, self.columns, self.where, self.source = stream, table, columns, where, source
        self.decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.text, self.ended = "\n", False  # a line break, because a line begins here
        self.columns_of: dict[str, list[str]] = {}

    def batches(self) -> Iterator[Iterable[tuple[Value, ...]]]:
        while (columns := self.next_insert()) is not None:
            yield from self.statement(columns)
        if self.table not in self.columns_of:
            others = ", ".join(f"`{name}`" for name in list(self.columns_of)[:5])
            contains = f"it contains {others}" if others else "and no other table either"
            raise CorpusError(
                f"{self.source}: no table `{self.table}` in this file, {contains}; "
                f"use the file whose name ends in {self.table}.sql.gz"
            )

    def read_more(self) -> bool:
        """Read another chunk; return False if there is none."""
        if self.ended:
            return False
        with corpus_errors(self.source):
            # A long row is read in doubling steps, or it would be scanned too many times.
            data = self.stream.read(max(self.chunk_bytes, len(self.text) - _LONG_ROW_CHARACTERS))
        self.ended = not data
        self.text += self.decoder.decode(data, final=self.ended)
        return True

    def next_insert(self) -> list[str] | None:
        """Advance to the first row of the table's next INSERT; return the columns in their order there, or None."""
        position = 0
        while True:
            start = _STATEMENT.search(self.text, position)
            if start is None:
                self.text, position = self.text[-16:], 0  # may be the beginning of a statement
                if not self.read_more():
                    return None
                continue
            position = start.start()
            if created := _CREATE.match(self.text, position):
                name, position = _unquoted(created[1]), created.end()
                self.columns_of[name] = [_unquoted(column) for column in _COLUMN.findall(created[2])]
                if name == self.table:
                    self.check(self.columns_of[name])
            elif insert := _INSERT.match(self.text, position):
                name, position = _unquoted(insert[1]), insert.end()
                listed = [_unquoted(column) for column in _ANY_NAME.findall(insert[2] or "")]
                created_columns = self.columns_of.setdefault(name, listed)
                columns = listed or created_columns
                if name == self.table:
                    if not columns:
                        raise CorpusError(
                            f"{self.source}: the rows of `{name}` come without their CREATE TABLE, "
                            f"which names the columns; use the complete dump"
                        )
                    self.check(columns)
                    self.text = self.text[position:]
                    return columns
            elif len(self.text) - position > _MAX_HEADER_CHARACTERS:
                position += 1  # a statement of another kind
            else:
                self.text, position = self.text[position:], 0
                if not self.read_more():
                    position = 1

    def check(self, names: list[str]) -> None:
        for column in [*self.columns, *self.where]:
            if column not in names:
                raise CorpusError(
                    f"{self.source}: table `{self.table}` has no column {column}, "
                    f"only {', '.join(names)}; use a dump of the usual layout"
                )

    def statement(self, columns: list[str]) -> Iterator[Iterable[tuple[Value, ...]]]:
        """The rows of an INSERT up to its semicolon."""
        pattern, group_numbers = self.pattern(columns)
        while True:
            self.text = self.text.lstrip()  # the chunk before may have ended after a comma
            matches = cast(list[tuple[str, ...]], pattern.findall(self.text))
            rest = ""
            while matches and not matches[-1][0]:  # the rest of the text, or the empty match after it
                rest = matches.pop()[-1] or rest
            is_utf8 = _is_encodable(self.text)
            self.text = rest
            if matches:
                groups = list(zip(*matches, strict=True))
                yield zip(*(self.convert(groups[n], groups[n + 1], is_utf8) for n in group_numbers), strict=True)
            if rest.startswith(";"):
                self.text = rest[1:]
                return
            if not _CUT_ROW.match(rest) or len(rest) > self.max_row_characters:
                raise self.unreadable(rest)
            if not self.read_more():
                raise CorpusError(f"{self.source}: truncated within the rows of `{self.table}`; download it again")

    def pattern(self, order: list[str]) -> tuple[re.Pattern[str], list[int]]:
        """An expression that matches a row, and the number of the first of the two groups of each wanted column.

        The first group of a column matches a string without escapes, the second any other literal. A group before
        them matches in every row; a group after them matches the rest of the text where no row is left. Since that is
        a match too, nothing between rows can be skipped.
        """
        wanted = sorted({order.index(column) for column in self.columns}) or [0]
        conditions = {
            order.index(column): rf"(?:_\w++\s*+)?'(?:{'|'.join(map(re.escape, values))})'[,)]"
            for column, values in self.where.items()
        }
        kept = [rf"(?:'([^'\\]*+)'(?=[,)])|({_VALUE}))" if n in wanted else _VALUE for n in range(len(order))]
        for n, condition in conditions.items():
            kept[n] = f"(?={condition}){kept[n]}"
        skipped = [", ?+".join([_VALUE] * n + [rf"(?!{other}){_VALUE}"]) for n, other in conditions.items()]
        end = r"\)\s*+(?:,\s*+|(?=;))"
        skip = rf"(?:\((?:{'|'.join(skipped)})(?:, ?+{_VALUE})*+{end})*+" if skipped else ""
        pattern = re.compile(rf"{skip}(?:(\(){', ?+'.join(kept)}{end}|(.*))", re.DOTALL)
        return pattern, [1 + 2 * wanted.index(order.index(column)) for column in self.columns]

    def convert(self, texts: tuple[str, ...], others: tuple[str, ...], is_utf8: bool) -> Sequence[Value]:
        """The values of a column's literals; fast if all are plain strings or all integers, else one by one."""
        if is_utf8 and not any(others):
            return texts
        try:
            return list(map(int, others))
        except ValueError:
            value = self.value
        if not is_utf8:
            others = tuple(other or f"'{text}'" for text, other in zip(texts, others, strict=True))
        return [value(other) if other else text for text, other in zip(texts, others, strict=True)]

    def value(self, literal: str) -> Value:
        if literal[-1] == "'":
            text = literal[literal.index("'") + 1 : -1]
            if "\\" in text or "'" in text:
                text = _ESCAPED.sub(_unescape, text)
            return text if _is_encodable(text) else text.encode("utf-8", "surrogateescape")
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


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name[0] == "`" else name


def _is_encodable(text: str) -> bool:
    """Whether the bytes of this text were all UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unescape(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[1])
