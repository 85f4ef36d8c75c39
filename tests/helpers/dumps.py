"""Miniature Wikimedia dumps: made-up content in exactly the published format.

The results are not compressed; use ``gzip`` or ``bz2`` where the published file is. Only ``multistream`` is already.
"""

import bz2
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

NAMESPACES = {
    -2: "Media", -1: "Speciel", 0: "", 1: "Diskussion", 2: "Bruger", 3: "Brugerdiskussion", 4: "Wikipedia",
    5: "Wikipedia-diskussion", 6: "Fil", 7: "Fildiskussion", 8: "MediaWiki", 9: "MediaWiki-diskussion",
    10: "Skabelon", 11: "Skabelondiskussion", 12: "Hjælp", 13: "Hjælp-diskussion", 14: "Kategori",
    15: "Kategoridiskussion", 100: "Portal", 101: "Portaldiskussion", 828: "Modul", 829: "Moduldiskussion",
}  # fmt: skip


class Page(NamedTuple):
    """A page of a wiki; ``redirect`` is the title of its target if it is a redirect."""

    id: int
    title: str
    text: str
    namespace: int = 0
    redirect: str = ""
    model: str = "wikitext"
    earlier: tuple[str, ...] = ()  # texts of earlier revisions, which only "history" dumps have


# pages-articles.xml


def pages_xml(pages: Iterable[Page], lang: str = "da", namespaces: Mapping[int, str] = NAMESPACES) -> bytes:
    """The content of ``dawiki-20261101-pages-articles.xml``."""
    return header(lang, namespaces) + b"".join(map(page_xml, pages)) + FOOTER


def multistream(
    pages: Iterable[Page], lang: str = "da", namespaces: Mapping[int, str] = NAMESPACES, per_stream: int = 100
) -> bytes:
    """``dawiki-20261101-pages-articles-multistream.xml.bz2``: the header, groups of pages, and the end."""
    return b"".join(map(bz2.compress, streams(pages, lang, namespaces, per_stream)))


def streams(
    pages: Iterable[Page], lang: str = "da", namespaces: Mapping[int, str] = NAMESPACES, per_stream: int = 100
) -> list[bytes]:
    """The uncompressed streams of a multistream file."""
    written = list(map(page_xml, pages))
    groups = [b"".join(written[i : i + per_stream]) for i in range(0, len(written), per_stream)]
    return [header(lang, namespaces), *groups, FOOTER]


FOOTER = b"</mediawiki>\n"


def header(lang: str = "da", namespaces: Mapping[int, str] = NAMESPACES) -> bytes:
    """Everything before the first page: the name of the wiki and of its namespaces."""
    schema = "http://www.mediawiki.org/xml/export-0.11"
    listed = "".join(
        f'      <namespace key="{key}" case="first-letter"' + (f">{escape(name)}</namespace>\n" if name else " />\n")
        for key, name in namespaces.items()
    )
    return f"""\
<mediawiki xmlns="{schema}/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" \
xsi:schemaLocation="{schema}/ {schema}.xsd" version="0.11" xml:lang="{lang}">
  <siteinfo>
    <sitename>Wikipedia</sitename>
    <dbname>{lang.replace("-", "_")}wiki</dbname>
    <base>https://{lang}.wikipedia.org/wiki/Forside</base>
    <generator>MediaWiki 1.46.0-wmf.3</generator>
    <case>first-letter</case>
    <namespaces>
{listed}    </namespaces>
  </siteinfo>
""".encode()


def page_xml(page: Page) -> bytes:
    """One <page>."""
    redirect = f'    <redirect title="{_escaped(page.redirect)}" />\n' if page.redirect else ""
    texts = [*page.earlier, page.text]
    revisions = "".join(_revision(page, 10 * page.id + i, text) for i, text in enumerate(texts))
    return f"""\
  <page>
    <title>{_escaped(page.title)}</title>
    <ns>{page.namespace}</ns>
    <id>{page.id}</id>
{redirect}{revisions}  </page>
""".encode()


def _revision(page: Page, number: int, text: str) -> str:
    code = "text/x-wiki" if page.model == "wikitext" else "application/json"
    size, check = len(text.encode()), _sha1(text)
    content = f">{_escaped(text)}</text>" if text else " />"
    return f"""\
    <revision>
      <id>{number}</id>
      <parentid>{number - 1}</parentid>
      <timestamp>2026-10-{1 + page.id % 30:02}T12:34:56Z</timestamp>
      <contributor>
        <username>Nogen &amp; Co</username>
        <id>{page.id + 7}</id>
      </contributor>
      <minor />
      <comment>/* Se også */ &lt;text&gt; rettet, jf. [[{_escaped(page.title)}]]</comment>
      <origin>{number}</origin>
      <model>{page.model}</model>
      <format>{code}</format>
      <text bytes="{size}" sha1="{check}" xml:space="preserve"{content}
      <sha1>{check}</sha1>
    </revision>
"""


def _escaped(text: str) -> str:
    return escape(text, {'"': "&quot;", "\r": "&#13;"})


def _sha1(text: str) -> str:
    """A checksum as MediaWiki writes it: 31 digits in base 36."""
    number, digits = int(hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(), 16), ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits.zfill(31)


# SQL tables


def page_props_sql(rows: Iterable[tuple[int, str, str, float | None]], database: str = "dawiki") -> bytes:
    """The content of ``dawiki-20261101-page_props.sql``; rows: page, "wikibase_item", "Q42", None."""
    layout = """\
  `pp_page` int(10) unsigned NOT NULL,
  `pp_propname` varbinary(60) NOT NULL,
  `pp_value` blob NOT NULL,
  `pp_sortkey` float DEFAULT NULL,
  PRIMARY KEY (`pp_page`,`pp_propname`),
  UNIQUE KEY `pp_propname_page` (`pp_propname`,`pp_page`),
  UNIQUE KEY `pp_propname_sortkey_page` (`pp_propname`,`pp_sortkey`,`pp_page`)
"""
    return _table(database, "page_props", layout, "ENGINE=InnoDB DEFAULT CHARSET=binary", list(rows))


def items_per_site_sql(rows: Iterable[tuple[int, str, str]]) -> bytes:
    """The content of ``wikidatawiki-20261101-wb_items_per_site.sql``; rows: 42, "dawiki", "Douglas Adams"."""
    numbered = [(number, *row) for number, row in enumerate(rows, 1)]
    layout = """\
  `ips_row_id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `ips_item_id` int(10) unsigned NOT NULL,
  `ips_site_id` varbinary(32) NOT NULL,
  `ips_site_page` varbinary(310) NOT NULL,
  PRIMARY KEY (`ips_row_id`),
  UNIQUE KEY `wb_ips_item_site_page` (`ips_site_id`,`ips_site_page`),
  KEY `wb_ips_item_id` (`ips_item_id`)
"""
    options = f"ENGINE=InnoDB AUTO_INCREMENT={len(numbered) + 1} DEFAULT CHARSET=binary"
    return _table("wikidatawiki", "wb_items_per_site", layout, options, numbered)


_ROWS_PER_INSERT = 500  # real ones fill a megabyte


def _table(
    database: str, name: str, layout: str, options: str, rows: Sequence[tuple[int | float | str | None, ...]]
) -> bytes:
    lines = ["(" + ",".join(map(_literal, row)) + ")" for row in rows]
    inserts = "".join(
        f"INSERT INTO `{name}` VALUES {','.join(lines[i : i + _ROWS_PER_INSERT])};\n"
        for i in range(0, len(lines), _ROWS_PER_INSERT)
    )
    return f"""\
/*M!999999\\- enable the sandbox mode */
-- MariaDB dump 10.19  Distrib 10.5.28-MariaDB, for debian-linux-gnu (x86_64)
--
-- Host: db1234.example.org    Database: {database}
-- ------------------------------------------------------
-- Server version\t10.6.20-MariaDB-log

/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40101 SET @OLD_CHARACTER_SET_RESULTS=@@CHARACTER_SET_RESULTS */;
/*!40101 SET @OLD_COLLATION_CONNECTION=@@COLLATION_CONNECTION */;
/*!40101 SET NAMES utf8mb4 */;
/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;
/*!40103 SET TIME_ZONE='+00:00' */;
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;
/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */;

--
-- Table structure for table `{name}`
--

DROP TABLE IF EXISTS `{name}`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `{name}` (
{layout}) {options};
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `{name}`
--

LOCK TABLES `{name}` WRITE;
/*!40000 ALTER TABLE `{name}` DISABLE KEYS */;
{inserts}/*!40000 ALTER TABLE `{name}` ENABLE KEYS */;
UNLOCK TABLES;
/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */;

/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;
/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;
/*!40014 SET UNIQUE_CHECKS=@OLD_UNIQUE_CHECKS */;
/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;
/*!40101 SET CHARACTER_SET_RESULTS=@OLD_CHARACTER_SET_RESULTS */;
/*!40101 SET COLLATION_CONNECTION=@OLD_COLLATION_CONNECTION */;
/*!40111 SET SQL_NOTES=@OLD_SQL_NOTES */;

-- Dump completed on 2026-11-01  1:02:03
""".encode()


def _literal(value: int | float | str | None) -> str:
    if value is None:
        return "NULL"
    if not isinstance(value, str):
        return repr(value)
    for sign, letter in [("\\", "\\"), ("\0", "0"), ("\n", "n"), ("\r", "r"), ("\x1a", "Z"), ('"', '"'), ("'", "'")]:
        value = value.replace(sign, "\\" + letter)
    return f"'{value}'"
