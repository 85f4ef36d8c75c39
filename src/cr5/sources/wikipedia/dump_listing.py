"""What Wikimedia and the Hugging Face hub publish of a Wikipedia, and where: the files to fetch, not their content."""

import html
import json
import re
import urllib.parse
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar, Unpack

from cr5.errors import Cr5Error
from cr5.progress import Progress, ProgressCallback, silent
from cr5.sources.http.client import MissingError, Page, Patience, get
from cr5.sources.wikipedia.wiki import Kind, Wiki

DUMPS, HUB = "https://dumps.wikimedia.org", "https://huggingface.co"

_CODES = "https://meta.wikimedia.org/wiki/List_of_Wikipedias"
_DATES = 12  # so many are looked at before it is given up
_PAGES = 50  # of one list of the hub
_EXPORT = "datasets/wikimedia/wikipedia"
_CIRRUS, _CLASSIC = "other/cirrus_search_index", "other/cirrussearch"
# Bounded everywhere, so that no page takes longer than its length deserves. Behind the link: date and size.
_LINK = re.compile(
    r"""<a\b[^<>]{0,300}?\shref\s{0,9}=\s{0,9}["']([^"'<>]{1,500})["'][^<>]{0,300}>(?:[^<>]{0,500}</a>([^<>]{0,200}))?""",
    re.IGNORECASE,
)
T = TypeVar("T")


class File(NamedTuple):
    """A published file: its address, a name for it that is safe in a folder, and "sha1:…" where there is one."""

    url: str
    name: str
    size: int | None
    digest: str | None


class Dump(NamedTuple):
    """A Wikipedia at a date. ``props`` is its page_props, or None; ``notes`` say why it is not the newest."""

    wiki: Wiki
    kind: Kind
    date: str
    files: tuple[File, ...]
    props: File | None
    notes: tuple[str, ...] = ()


def find_dumps(
    wikis: Sequence[Wiki],
    kind: Kind,
    *,
    date: str | None = None,
    mirror: str = DUMPS,
    hub: str = HUB,
    agent: str,
    progress: ProgressCallback = silent,
    **patience: Unpack[Patience],
) -> list[Dump]:
    """The newest complete dump of every wiki, or the one of ``date`` ("20261101").

    "cirrus" is the search index, "xml" the articles' wikitext, both from ``mirror``, and "parquet" the texts exported
    to ``hub``. The page_props beside them is of the same date for "xml" and else the newest; only "cirrus" can do
    without. ``patience`` is for ``server.get``.
    """
    find = {"cirrus": _cirrus, "xml": _xml, "parquet": _parquet}[kind]
    _check_date(date)
    found: list[Dump] = []

    def report(step: Progress) -> None:
        progress(Progress("find dumps", len(found), len(wikis), step.note))

    site = _Site(mirror, hub, lambda url: get(url, agent=agent, progress=report, **patience))
    for wiki in wikis:
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", wiki.code):
            raise site.unknown(wiki)
        progress(Progress("find dumps", len(found), len(wikis), wiki.name))
        found.append(find(site, wiki, date))
    return found


def find_sitelinks(
    *,
    date: str | None = None,
    mirror: str = DUMPS,
    agent: str,
    progress: ProgressCallback = silent,
    **patience: Unpack[Patience],
) -> File:
    """Wikidata's wb_items_per_site, the newest that is complete or the one of ``date``: all titles of all wikis."""
    _check_date(date)
    site = _Site(mirror, HUB, lambda url: get(url, agent=agent, progress=progress, **patience))

    def look(date: str) -> File | None:
        return _table(site, "wikidatawiki", date, "wb_items_per_site")

    if not (dates := site.dates("wikidatawiki")):
        raise Cr5Error(f"{site.mirror} has no dumps of wikidatawiki; take another mirror")
    _, found, notes = _choose("wb_items_per_site of wikidatawiki", dates, date, look)
    for note in notes:
        progress(Progress("look up", 0, None, note))
    return found


class _Site:
    """The servers, and the pages of them that were read already."""

    def __init__(self, mirror: str, hub: str, read: Callable[[str], Page]) -> None:
        self.mirror, self.hub, self.read = mirror.rstrip("/"), hub.rstrip("/"), read
        self.pages: dict[str, Page | None] = {}

    def page(self, url: str) -> Page | None:
        """None: the server has no such page."""
        if url not in self.pages:
            try:
                self.pages[url] = self.read(url)
            except MissingError:
                self.pages[url] = None
        return self.pages[url]

    def listing(self, folder: str) -> dict[str, int | None]:
        """The names in a folder, those of folders with a slash behind them, and sizes where they are told exactly."""
        url, found = f"{self.mirror}/{folder}/", dict[str, int | None]()
        page = self.page(url)
        for link, behind in _LINK.findall(page.body.decode(errors="replace")) if page else []:
            try:
                target = urllib.parse.urljoin(url, html.unescape(link))
            except ValueError:  # as good as none
                continue
            # "=" may be written as %3D; links that lead up, elsewhere or further down are not of this folder.
            name = urllib.parse.unquote(target).removeprefix(urllib.parse.unquote(url))
            if re.fullmatch(r"[\w.=-]+/?", name, re.ASCII):
                size = re.search(r"\s([0-9]{1,15})\s*+\Z", behind)
                found[name] = int(size[1]) if size else None
        return found

    def dates(self, folder: str) -> list[str]:
        """The dates in a folder, newest first."""
        return _newest_first(name[:-1] for name in self.listing(folder) if re.fullmatch(r"[0-9]{8}/", name))

    def json(self, url: str) -> Any:
        """None where the server has no such page."""
        return None if (page := self.page(url)) is None else _json(url, page)

    def tree(self, folder: str) -> list[dict[str, Any]]:
        """The entries of a folder on the hub ("" or "/20231101.da"), from as many pages as it takes."""
        first, found = f"{self.hub}/api/{_EXPORT}/tree/main{folder}", list[dict[str, Any]]()
        url = first
        for _ in range(_PAGES):
            if (page := self.page(url)) is None:
                return []
            entries = _json(url, page)
            found += map(_dict, entries if isinstance(entries, list) else [])
            if page.next is None:
                return found
            url = f"{first}?{page.next.partition('?')[2]}"  # never another host
        raise Cr5Error(f"{first}: a list of more than {_PAGES} pages; check the address of the hub")

    def unknown(self, wiki: Wiki) -> Cr5Error:
        return Cr5Error(
            f"{self.mirror} has no Wikipedia with the code '{wiki.code}'; check the code ({_CODES}) and the mirror"
        )


def _check_date(date: str | None) -> None:
    if date is not None and not re.fullmatch(r"[0-9]{8}", date):
        raise Cr5Error(f"date '{date}' is none; write year, month and day, as in 20261101")


def _newest_first(dates: Iterable[str]) -> list[str]:
    return sorted(set(dates), reverse=True)


def _choose(
    what: str, dates: Sequence[str], date: str | None, look: Callable[[str], T | None]
) -> tuple[str, T, tuple[str, ...]]:
    """The first date at which something is complete, or the given one; what it is, and what to say about it."""
    if date is not None and date not in dates:
        raise Cr5Error(f"there is no {what} at {date}; the dates are {', '.join(dates[:_DATES])}")
    tried = [date] if date is not None else dates[:_DATES]
    for i, here in enumerate(tried):
        if (found := look(here)) is not None:
            return here, found, (f"no complete {what} at {', '.join(tried[:i])}; took {here}",) if i else ()
    others = [other for other in dates[:_DATES] if other not in tried]
    way_out = f"another date: {', '.join(others)}" if others else "another mirror"
    raise Cr5Error(f"there is no complete {what} at {', '.join(tried)}; wait, or take {way_out}")


# The dumps of a database, twice a month


def _xml(site: _Site, wiki: Wiki, date: str | None) -> Dump:
    def look(date: str) -> tuple[tuple[File, ...], File] | None:
        files, props = _articles(site, wiki.name, date), _table(site, wiki.name, date, "page_props")
        return (files, props) if files and props else None

    if not (dates := site.dates(wiki.name)):
        raise site.unknown(wiki)
    date, (files, props), notes = _choose(f"XML dump of {wiki.name}", dates, date, look)
    return Dump(wiki, "xml", date, files, props, notes)


def _articles(site: _Site, wiki: str, date: str) -> tuple[File, ...]:
    """The articles in parts, which can be fetched two at a time, or in one file; nothing while they are not done."""
    pattern = re.compile(
        rf"{wiki}-{date}-pages-articles-multistream([0-9]{{0,9}})\.xml(?:-p([0-9]{{1,15}})p[0-9]{{1,15}})?\.bz2"
    )
    for job in ("articlesmultistreamdump", "articlesmultistreamdumprecombine"):
        parts: dict[tuple[int, int], File] = {}
        for file in _done(site, wiki, date, job):
            if match := pattern.fullmatch(file.name):
                parts[int(match[1] or 0), int(match[2] or 0)] = file
            elif "-multistream-index" not in file.name:
                raise Cr5Error(
                    f"{site.mirror}/{wiki}/{date}/dumpstatus.json: a file of {job} is named {_short(file.name)}, "
                    "unlike the articles of any dump; take another date or mirror"
                )
        whole = parts.pop((0, 0), None)
        if parts:
            return tuple(parts[key] for key in sorted(parts))
        if whole:
            return (whole,)
    return ()


def _table(site: _Site, wiki: str, date: str, table: str) -> File | None:
    """A table of the database, if it is done."""
    name, job = f"{wiki}-{date}-{table}.sql.gz", table.replace("_", "") + "table"
    return next((file for file in _done(site, wiki, date, job) if file.name == name), None)


def _newest_props(site: _Site, wiki: Wiki) -> File | None:
    tables = (_table(site, wiki.name, date, "page_props") for date in site.dates(wiki.name)[:_DATES])
    return next(filter(None, tables), None)


def _done(site: _Site, wiki: str, date: str, job: str) -> list[File]:
    """The files of a job, none while it is not done. Their names are as the server gives them."""
    folder = f"{site.mirror}/{wiki}/{date}"
    told = _dict(_dict(_dict(site.json(f"{folder}/dumpstatus.json")).get("jobs")).get(job))
    files = _dict(told.get("files")) if told.get("status") == "done" else {}
    # The address in the report is one on Wikimedia's own server; a mirror has folders of its own above it.
    return [
        File(
            f"{folder}/{name}",
            name,
            _size(_dict(info)),
            _digest("sha1", 40, _dict(info).get("sha1")) or _digest("md5", 32, _dict(info).get("md5")),
        )
        for name, info in files.items()
    ]


# The search index, once a week


def _cirrus(site: _Site, wiki: Wiki, date: str | None) -> Dump:
    in_parts, in_one = site.dates(_CIRRUS), site.dates(_CLASSIC)

    def look(date: str) -> tuple[File, ...] | None:
        return (
            (date in in_parts and _parts(site, wiki, date)) or (date in in_one and _classic(site, wiki, date)) or None
        )

    if not (dates := _newest_first(in_parts + in_one)):
        raise Cr5Error(f"{site.mirror} has no search index of any wiki; take another mirror")
    if not site.dates(wiki.name) and not any(map(look, dates[:_DATES])):
        raise site.unknown(wiki)
    date, files, notes = _choose(f"search index of {wiki.name}", dates, date, look)
    return Dump(wiki, "cirrus", date, files, _newest_props(site, wiki), notes)


def _parts(site: _Site, wiki: Wiki, date: str) -> tuple[File, ...]:
    """As published since 2025: numbered parts, and when all are there, _SUCCESS."""
    folder, begin = f"{_CIRRUS}/{date}/index_name={wiki.name}_content", f"{wiki.name}_content-{date}-"
    there = site.listing(folder)
    names = sorted(name for name in there if re.fullmatch(rf"{begin}[0-9]{{5}}\.json\.bz2", name))
    if "_SUCCESS" not in there or names != [f"{begin}{i:05}.json.bz2" for i in range(len(names))]:
        return ()
    return tuple(File(f"{site.mirror}/{folder}/{name}", name, there[name], None) for name in names)


def _classic(site: _Site, wiki: Wiki, date: str) -> tuple[File, ...]:
    """As published until the end of 2025, and kept by mirrors: one file."""
    folder, name = f"{_CLASSIC}/{date}", f"{wiki.name}-{date}-cirrussearch-content.json.gz"
    there = site.listing(folder)
    return (File(f"{site.mirror}/{folder}/{name}", name, there[name], None),) if name in there else ()


# Texts that were exported to the hub


def _parquet(site: _Site, wiki: Wiki, date: str | None) -> Dump:
    def look(date: str) -> tuple[File, ...] | None:
        return _shards(site, wiki, date) or None

    folders = [str(entry.get("path")).partition(".") for entry in site.tree("") if entry.get("type") == "directory"]
    dates = _newest_first(
        date for date, _, code in folders if code == wiki.code and re.fullmatch(r"[0-9]{8}", date, re.ASCII)
    )
    if not dates:
        raise Cr5Error(f"{site.hub}/{_EXPORT} has no Wikipedia with the code '{wiki.code}'; check the code ({_CODES})")
    date, files, notes = _choose(f"export of {wiki.name}", dates, date, look)
    if (props := _newest_props(site, wiki)) is None:
        raise Cr5Error(
            f"{site.mirror} has no complete page_props of {wiki.name}, without which no page of the export has a "
            "concept; wait, or take another mirror"
        )
    return Dump(wiki, "parquet", date, files, props, notes)


def _shards(site: _Site, wiki: Wiki, date: str) -> tuple[File, ...]:
    """The files of an export, none if one of them is missing."""
    folder, found = f"{date}.{wiki.code}", dict[str, File]()
    for entry in site.tree(f"/{folder}"):
        name = str(entry.get("path")).removeprefix(f"{folder}/")
        if entry.get("type") != "file" or not name.endswith(".parquet"):
            continue
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,149}", name, re.ASCII):
            raise Cr5Error(f"{site.hub}/{_EXPORT}: a file of {folder} is named {_short(name)}; take another date")
        lfs = _dict(entry.get("lfs"))
        digest = _digest("sha256", 64, str(lfs.get("oid")).removeprefix("sha256:"))
        url = f"{site.hub}/{_EXPORT}/resolve/main/{folder}/{name}"
        found[name] = File(url, f"{wiki.name}-{date}-{name}", _size(entry), digest)
    counts = {int(match[1]) for name in found if (match := re.search(r"-of-([0-9]{1,9})\.parquet\Z", name))}
    if counts - {len(found)}:
        return ()
    return tuple(found[name] for name in sorted(found))


# What servers say, whatever it is


def _json(url: str, page: Page) -> Any:
    try:
        return json.loads(page.body)
    except (ValueError, RecursionError):
        raise Cr5Error(f"{url}: no JSON, or cut short; run it again later, or take another mirror") from None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _size(info: dict[str, Any]) -> int | None:
    size = info.get("size")
    return size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else None


def _digest(kind: str, length: int, value: Any) -> str | None:
    value = str(value).lower()
    return f"{kind}:{value}" if re.fullmatch(f"[0-9a-f]{{{length}}}", value) else None


def _short(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:80] + "…")
