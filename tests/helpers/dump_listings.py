"""Listings of dumps on a mirror."""

from typing import Any

import pytest
from local_server import USER_AGENT, sha1
from mirror import Mirror

from cr5.errors import Cr5Error
from cr5.sources.wikipedia.dump_listing import Dump, DumpFile, find_dumps
from cr5.sources.wikipedia.dump_reader import DumpFormat
from cr5.sources.wikipedia.wiki import Wiki

DA, EN, NAN = Wiki("da", "da"), Wiki("en", "en"), Wiki("zh-min-nan", "nan")
ARTICLES = "pages-articles-multistream.xml.bz2"


def find(server: Mirror, dump_format: DumpFormat, *wikis: Wiki, **options: Any) -> list[Dump]:
    usual: dict[str, Any] = {"mirror": server.url, "hub": server.url, "sleep": lambda _: None}
    return find_dumps(wikis, dump_format, user_agent=USER_AGENT, **usual | options)


def message(server: Mirror, dump_format: DumpFormat, *wikis: Wiki, **options: Any) -> str:
    with pytest.raises(Cr5Error) as caught:
        find(server, dump_format, *wikis, **options)
    return str(caught.value).replace(server.url, "URL")


def props_of(mirror: Mirror, wiki: str, date: str, content: bytes = b"props") -> DumpFile:
    name = f"{wiki}-{date}-page_props.sql.gz"
    return DumpFile(f"{mirror.url}/{wiki}/{date}/{name}", name, len(content), sha1(content))
