"""The options of the commands that read Wikipedia dumps."""

from pathlib import Path
from typing import Annotated

import typer

from cr5.cli.options import comma_separated
from cr5.sources.wikipedia.dump_listing import MIRROR_URL
from cr5.sources.wikipedia.dump_reader import DumpFormat
from cr5.sources.wikipedia.plan import WikipediaRequest

Wikipedias = Annotated[str, typer.Option(help="Wikipedias by their codes, e.g. da,en,it,vi.", metavar="CODES")]
DumpSource = Annotated[
    DumpFormat | None,
    typer.Option(
        help="Dump format. cirrus: the search index, plain text. xml: the pages, wikitext. parquet: an export on "
        "the Hugging Face Hub, plain text.",
        show_default="cirrus; xml with --sample",
    ),
]
DumpDate = Annotated[str | None, typer.Option(help="Date of the dumps.", show_default="the newest", metavar="YYYYMMDD")]
Sample = Annotated[
    int | None, typer.Option(min=1, help="Only the first N articles of each language, to try it out.", metavar="N")
]
Dumps = Annotated[
    Path | None, typer.Option(help="Read the dumps from this folder; download nothing.", metavar="FOLDER")
]
Mirror = Annotated[
    str,
    typer.Option(help="Where Wikimedia's dumps are.", metavar="URL", show_default=MIRROR_URL.removeprefix("https://")),
]
Contact = Annotated[
    str | None,
    typer.Option(
        help="Your address, sent in the user agent so that server administrators can reach you.",
        envvar="CR5_CONTACT",
        metavar="MAIL|URL",
    ),
]


def wikipedia_request(
    langs: str, source: DumpFormat | None, date: str | None, sample: int | None, dumps: Path | None, mirror: str
) -> WikipediaRequest:
    """What these options ask for; a sample is read from the XML dumps, unless another format is named."""
    return WikipediaRequest(
        langs=tuple(comma_separated(langs) or ()),
        source=source or ("xml" if sample else "cirrus"),
        date=date,
        sample=sample,
        mirror=mirror.rstrip("/"),
        dumps=dumps,
    )
