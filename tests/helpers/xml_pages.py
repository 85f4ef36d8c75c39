"""Pages of XML dumps, as written and as read."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import dumps
import pytest
from hypothesis import HealthCheck, settings
from properties import up_to

from cr5.sources.files import ErrorHandler, raise_error
from cr5.sources.wikipedia import xml_dump
from cr5.sources.wikipedia.dump_reader import FileRange
from cr5.sources.wikipedia.wiki import Wiki

DANISH = Wiki("da", "da")
ITEMS = {1: "Q64", 3: "Q144", 4: "Q9", 5: "Q10", 9: "Q11", 10: "Q12", 11: "Q13", 12: "Q14"}

MINIATURE = [
    dumps.Page(
        1,
        "København",
        "{{Infoboks by\n| navn = København\n| kort = {{Kort|{{{bredde|200}}}|tekst={{lang|da|\n|}}}}\n}}\n"
        "[[Fil:Havn.jpg|thumb|En [[havn]]]]\n'''København''' er [[Danmark]]s hovedstad.<ref>{{Kilde|x}}</ref>\n"
        "[[Kategori:Byer]]",
    ),
    dumps.Page(2, "Kbh", "#OMDIRIGERING [[København]]", redirect="København"),
    dumps.Page(3, 'Hund & "kat" <3', "Tegnet 𝄞 og 𠜎 &nbsp;&lt; er &quot;her&quot;.", earlier=("Før.", "")),
    dumps.Page(4, "Merkur", "'''Merkur''' kan være\n* [[Merkur (planet)]]"),
    dumps.Page(5, "Mars", "Kan være\n* [[Mars (planet)]]\n{{Flertydig}}"),
    dumps.Page(6, "Slettet emne", "Denne side har intet emne."),
    dumps.Page(7, "Skabelon:Kort", "{{{1}}}", namespace=10),
    dumps.Page(8, "Bruger:Nogen", "Hej.", namespace=2),
    dumps.Page(9, "Brudt", "En {{skabelon uden slut og [[et link uden slut og '''fed"),
    dumps.Page(10, "Tom", ""),
    dumps.Page(11, "Kun skabelon", "{{Kort}}"),
    dumps.Page(12, "Data", '{"a": 1}', model="json"),
    dumps.Page(13, "Gammel", "#REDIRECT [[Hund]]"),
]
relaxed = settings(max_examples=up_to(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Page(NamedTuple):
    """The last revision of a page; ``model`` names the markup of its text."""

    id: int
    namespace: int
    title: str
    redirect: bool
    model: str
    text: str


def read_pages(file_range: FileRange, handle_error: ErrorHandler = raise_error) -> Iterator[Page]:
    """Every page of a range, of any namespace."""
    for raw in xml_dump._raw_pages(file_range, handle_error):
        header = xml_dump._page_header(raw, file_range, handle_error)
        if header and (content := xml_dump._page_content(raw, header.title, file_range, handle_error)):
            yield Page(*header, *content)


def read(path: Path, content: bytes, handle_error: ErrorHandler = raise_error) -> list[Page]:
    path.write_bytes(content)
    return list(read_pages(FileRange(str(path)), handle_error=handle_error))


@contextmanager
def chunks_of(text_bytes: int, packed_bytes: int | None = None) -> Iterator[None]:
    """Files are read in chunks of these sizes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xml_dump, "TEXT_CHUNK_BYTES", text_bytes)
        if packed_bytes:
            patch.setattr(xml_dump, "PACKED_CHUNK_BYTES", packed_bytes)
        yield


def as_read(page: dumps.Page) -> Page:
    return Page(page.id, page.namespace, page.title, bool(page.redirect), page.model, page.text)


def find(number: int, title: str) -> tuple[str, bool] | None:
    return (ITEMS[number], title == "Merkur") if number in ITEMS else None


# Damage


def damaged(stream: bytes) -> bytes:
    middle = len(stream) // 2
    return stream[:middle] + bytes(byte ^ 0x55 for byte in stream[middle : middle + 4]) + stream[middle + 4 :]
