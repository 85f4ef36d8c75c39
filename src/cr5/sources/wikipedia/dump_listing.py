"""Listings of the dumps that Wikimedia and the Hugging Face Hub publish: which files to download, from where."""

import html
import json
import re
import urllib.parse
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar, Unpack

from cr5.errors import Cr5Error
from cr5.message_parts import quoted
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.sources.http.client import NotFoundError, RetryOptions, ShortResponse, get
from cr5.sources.wikipedia.dump_reader import DumpFormat
from cr5.sources.wikipedia.wiki import Wiki

MIRROR_URL, HUB_URL = "https://dumps.wikimedia.org", "https://huggingface.co"

_LIST_OF_WIKIS = "https://meta.wikimedia.org/wiki/List_of_Wikipedias"
_MAX_DATES = 12  # dates that are searched for a complete dump
_MAX_HUB_PAGES = 50  # pages of one listing
_HUB_DATASET = "datasets/wikimedia/wikipedia"
_SEARCH_INDEX, _OLD_SEARCH_INDEX = "other/cirrus_search_index", "other/cirrussearch"
# Every quantifier is bounded, so that the time is linear in the page. After the link come its date and size.
_LINK = re.compile(
    r"""<a\b[^<>]{0,300}?\shref\s{0,9}=\s{0,9}["']([^"'<>]{1,500})["'][^<>]{0,300}>(?:[^<>]{0,500}</a>([^<>]{0,200}))?""",
    re.IGNORECASE,
)
T = TypeVar("T")


class DumpFile(NamedTuple):
    """A published file: its address, a name that is safe in a folder, and its digest ("sha1:…") if one is published.

    A local file has no address, and its path as its name.
    """

    url: str
    name: str
    size: int | None
    digest: str | None


class Dump(NamedTuple):
    """The dump of a Wikipedia at a date; ``props`` is its page_props table, ``notes`` say why it is not the newest."""

    wiki: Wiki
    dump_format: DumpFormat
    date: str
    files: tuple[DumpFile, ...]
    props: DumpFile | None
    notes: tuple[str, ...] = ()


def find_dumps(
    wikis: Sequence[Wiki],
    dump_format: DumpFormat,
    *,
    date: str | None = None,
    mirror: str = MIRROR_URL,
    hub: str = HUB_URL,
    user_agent: str,
    progress: ProgressCallback = no_progress,
    **retry_options: Unpack[RetryOptions],
) -> list[Dump]:
    """The newest complete dump of every wiki, or the one of ``date`` ("20261101").

    "cirrus" and "xml" dumps are on ``mirror``, the "parquet" export is on ``hub``. The page_props table has the date
    of an "xml" dump; for the others the newest one is used, and only "cirrus" can do without.
    """
    find = {"cirrus": _find_search_index, "xml": _find_xml, "parquet": _find_parquet}[dump_format]
    _check_date(date)
    dumps: list[Dump] = []

    def report(step: Progress) -> None:
        progress(Progress("find dumps", len(dumps), len(wikis), step.note))

    site = _Site(mirror, hub, lambda url: get(url, user_agent=user_agent, progress=report, **retry_options))
    for wiki in wikis:
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", wiki.code):
            raise site.unknown_wiki(wiki)
        progress(Progress("find dumps", len(dumps), len(wikis), wiki.name))
        dumps.append(find(site, wiki, date))
    return dumps


def find_sitelinks(*, mirror: str = MIRROR_URL, user_agent: str) -> DumpFile:
    """Wikidata's newest complete table wb_items_per_site, with all titles of all wikis."""
    site = _Site(mirror, HUB_URL, lambda url: get(url, user_agent=user_agent))

    def find_at(date: str) -> DumpFile | None:
        return _table(site, "wikidatawiki", date, "wb_items_per_site")

    if not (dates := site.dates("wikidatawiki")):
        raise Cr5Error(f"{site.mirror} has no dumps of wikidatawiki; use another `mirror`")
    _, file, _ = _choose_date("wb_items_per_site of wikidatawiki", dates, None, find_at)
    return file


class _Site:
    """The two servers, and the responses that were read from them already."""

    def __init__(self, mirror: str, hub: str, read: Callable[[str], ShortResponse]) -> None:
        self.mirror, self.hub, self.read = mirror.rstrip("/"), hub.rstrip("/"), read
        self.responses: dict[str, ShortResponse | None] = {}

    def response(self, url: str) -> ShortResponse | None:
        """The response, or None if the server has no such page."""
        if url not in self.responses:
            try:
                self.responses[url] = self.read(url)
            except NotFoundError:
                self.responses[url] = None
        return self.responses[url]

    def listing(self, folder: str) -> dict[str, int | None]:
        """The names in a folder, subfolders with a trailing slash, and their sizes where these are exact."""
        url, sizes = f"{self.mirror}/{folder}/", dict[str, int | None]()
        page = self.response(url)
        for link, text_after in _LINK.findall(page.body.decode(errors="replace")) if page else []:
            try:
                target = urllib.parse.urljoin(url, html.unescape(link))
            except ValueError:  # not an address
                continue
            # "=" may be written as %3D. Links to parents, other sites or deeper folders do not belong to this folder.
            name = urllib.parse.unquote(target).removeprefix(urllib.parse.unquote(url))
            if re.fullmatch(r"[\w.=-]+/?", name, re.ASCII):
                size = re.search(r"\s([0-9]{1,15})\s*+\Z", text_after)
                sizes[name] = int(size[1]) if size else None
        return sizes

    def dates(self, folder: str) -> list[str]:
        """The dates in a folder, newest first."""
        return _newest_first(name[:-1] for name in self.listing(folder) if re.fullmatch(r"[0-9]{8}/", name))

    def json(self, url: str) -> Any:
        """The parsed JSON, or None if the server has no such page."""
        return None if (page := self.response(url)) is None else _parse_json(url, page)

    def tree(self, folder: str) -> list[dict[str, Any]]:
        """The entries of a folder on the hub ("" or "/20231101.da"), from all pages of its listing."""
        first_url, entries = f"{self.hub}/api/{_HUB_DATASET}/tree/main{folder}", list[dict[str, Any]]()
        url = first_url
        for _ in range(_MAX_HUB_PAGES):
            if (page := self.response(url)) is None:
                return []
            listed = _parse_json(url, page)
            entries += map(_dict, listed if isinstance(listed, list) else [])
            if page.next_url is None:
                return entries
            url = f"{first_url}?{page.next_url.partition('?')[2]}"  # stay on the same host
        raise Cr5Error(f"{first_url}: the listing has more than {_MAX_HUB_PAGES} pages; check `hub`")

    def unknown_wiki(self, wiki: Wiki) -> Cr5Error:
        return Cr5Error(
            f"{self.mirror} has no Wikipedia with the code '{wiki.code}'; check `langs` ({_LIST_OF_WIKIS}) and `mirror`"
        )


def _check_date(date: str | None) -> None:
    if date is not None and not re.fullmatch(r"[0-9]{8}", date):
        raise Cr5Error(f"`date={date}` is not a date; write year, month and day, as in 20261101")


def _newest_first(dates: Iterable[str]) -> list[str]:
    return sorted(set(dates), reverse=True)


def _choose_date(
    what: str, dates: Sequence[str], date: str | None, find_at: Callable[[str], T | None]
) -> tuple[str, T, tuple[str, ...]]:
    """The given date, or the first one at which ``what`` is complete; what was found there; and notes on the choice."""
    if date is not None and date not in dates:
        raise Cr5Error(f"there is no {what} at {date}; use one of {', '.join(dates[:_MAX_DATES])} as `date`")
    candidates = [date] if date is not None else dates[:_MAX_DATES]
    for i, candidate in enumerate(candidates):
        if (found := find_at(candidate)) is not None:
            skipped = ", ".join(candidates[:i])
            return candidate, found, (f"no complete {what} at {skipped}; using {candidate}",) if i else ()
    others = [other for other in dates[:_MAX_DATES] if other not in candidates]
    remedy = f"another `date`: {', '.join(others)}" if others else "another `mirror`"
    raise Cr5Error(f"there is no complete {what} at {', '.join(candidates)}; wait, or use {remedy}")


# Database dumps, published twice a month


def _find_xml(site: _Site, wiki: Wiki, date: str | None) -> Dump:
    def find_at(date: str) -> tuple[tuple[DumpFile, ...], DumpFile] | None:
        files, props = _article_files(site, wiki.name, date), _table(site, wiki.name, date, "page_props")
        return (files, props) if files and props else None

    if not (dates := site.dates(wiki.name)):
        raise site.unknown_wiki(wiki)
    date, (files, props), notes = _choose_date(f"XML dump of {wiki.name}", dates, date, find_at)
    return Dump(wiki, "xml", date, files, props, notes)


def _article_files(site: _Site, wiki: str, date: str) -> tuple[DumpFile, ...]:
    """The articles in parts, which can be downloaded in parallel, or else in one file; empty until they are done."""
    pattern = re.compile(
        rf"{wiki}-{date}-pages-articles-multistream([0-9]{{0,9}})\.xml(?:-p([0-9]{{1,15}})p[0-9]{{1,15}})?\.bz2"
    )
    for job in ("articlesmultistreamdump", "articlesmultistreamdumprecombine"):
        parts: dict[tuple[int, int], DumpFile] = {}
        for file in _files_of_job(site, wiki, date, job):
            if match := pattern.fullmatch(file.name):
                parts[int(match[1] or 0), int(match[2] or 0)] = file
            elif "-multistream-index" not in file.name:
                raise Cr5Error(
                    f"{site.mirror}/{wiki}/{date}/dumpstatus.json: a file of {job} has the unexpected name "
                    f"{quoted(file.name)}; use another `date` or `mirror`"
                )
        undivided = parts.pop((0, 0), None)
        if parts:
            return tuple(parts[key] for key in sorted(parts))
        if undivided:
            return (undivided,)
    return ()


def _table(site: _Site, wiki: str, date: str, table: str) -> DumpFile | None:
    """A table of the database, or None until it is done."""
    name, job = f"{wiki}-{date}-{table}.sql.gz", table.replace("_", "") + "table"
    return next((file for file in _files_of_job(site, wiki, date, job) if file.name == name), None)


def _newest_props(site: _Site, wiki: Wiki) -> DumpFile | None:
    tables = (_table(site, wiki.name, date, "page_props") for date in site.dates(wiki.name)[:_MAX_DATES])
    return next(filter(None, tables), None)


def _files_of_job(site: _Site, wiki: str, date: str, job: str) -> list[DumpFile]:
    """The files of a dump job, under the names that the server gives them; none until the job is done."""
    folder = f"{site.mirror}/{wiki}/{date}"
    report = _dict(_dict(_dict(site.json(f"{folder}/dumpstatus.json")).get("jobs")).get(job))
    files = _dict(report.get("files")) if report.get("status") == "done" else {}
    # The report's addresses are those of Wikimedia's own server; a mirror may have the files in another folder.
    return [
        DumpFile(
            f"{folder}/{name}",
            name,
            _size(_dict(info)),
            _digest("sha1", 40, _dict(info).get("sha1")) or _digest("md5", 32, _dict(info).get("md5")),
        )
        for name, info in files.items()
    ]


# The search index, published weekly


def _find_search_index(site: _Site, wiki: Wiki, date: str | None) -> Dump:
    dates_in_parts, dates_in_one_file = site.dates(_SEARCH_INDEX), site.dates(_OLD_SEARCH_INDEX)

    def find_at(date: str) -> tuple[DumpFile, ...] | None:
        return (
            (date in dates_in_parts and _search_index_parts(site, wiki, date))
            or (date in dates_in_one_file and _old_search_index(site, wiki, date))
            or None
        )

    if not (dates := _newest_first(dates_in_parts + dates_in_one_file)):
        raise Cr5Error(f"{site.mirror} has no search index of any wiki; use another `mirror`")
    if not site.dates(wiki.name) and not any(map(find_at, dates[:_MAX_DATES])):
        raise site.unknown_wiki(wiki)
    date, files, notes = _choose_date(f"search index of {wiki.name}", dates, date, find_at)
    return Dump(wiki, "cirrus", date, files, _newest_props(site, wiki), notes)


def _search_index_parts(site: _Site, wiki: Wiki, date: str) -> tuple[DumpFile, ...]:
    """The layout since 2025: numbered parts, and a file _SUCCESS once all of them are there."""
    folder, prefix = f"{_SEARCH_INDEX}/{date}/index_name={wiki.name}_content", f"{wiki.name}_content-{date}-"
    sizes = site.listing(folder)
    names = sorted(name for name in sizes if re.fullmatch(rf"{prefix}[0-9]{{5}}\.json\.bz2", name))
    if "_SUCCESS" not in sizes or names != [f"{prefix}{i:05}.json.bz2" for i in range(len(names))]:
        return ()
    return tuple(DumpFile(f"{site.mirror}/{folder}/{name}", name, sizes[name], None) for name in names)


def _old_search_index(site: _Site, wiki: Wiki, date: str) -> tuple[DumpFile, ...]:
    """The layout until the end of 2025, which mirrors still have: one file."""
    folder, name = f"{_OLD_SEARCH_INDEX}/{date}", f"{wiki.name}-{date}-cirrussearch-content.json.gz"
    sizes = site.listing(folder)
    return (DumpFile(f"{site.mirror}/{folder}/{name}", name, sizes[name], None),) if name in sizes else ()


# The Parquet export on the hub


def _find_parquet(site: _Site, wiki: Wiki, date: str | None) -> Dump:
    def find_at(date: str) -> tuple[DumpFile, ...] | None:
        return _parquet_files(site, wiki, date) or None

    folders = [str(entry.get("path")).partition(".") for entry in site.tree("") if entry.get("type") == "directory"]
    dates = _newest_first(
        date for date, _, code in folders if code == wiki.code and re.fullmatch(r"[0-9]{8}", date, re.ASCII)
    )
    if not dates:
        raise Cr5Error(
            f"{site.hub}/{_HUB_DATASET} has no Wikipedia with the code '{wiki.code}'; check `langs` ({_LIST_OF_WIKIS})"
        )
    date, files, notes = _choose_date(f"export of {wiki.name}", dates, date, find_at)
    if (props := _newest_props(site, wiki)) is None:
        raise Cr5Error(
            f"{site.mirror} has no complete page_props of {wiki.name}, which the export needs for the Wikidata items "
            "of its pages; wait, or use another `mirror`"
        )
    return Dump(wiki, "parquet", date, files, props, notes)


def _parquet_files(site: _Site, wiki: Wiki, date: str) -> tuple[DumpFile, ...]:
    """The files of an export; none if one of them is missing."""
    folder, files = f"{date}.{wiki.code}", dict[str, DumpFile]()
    for entry in site.tree(f"/{folder}"):
        name = str(entry.get("path")).removeprefix(f"{folder}/")
        if entry.get("type") != "file" or not name.endswith(".parquet"):
            continue
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,149}", name, re.ASCII):
            raise Cr5Error(
                f"{site.hub}/{_HUB_DATASET}: a file of {folder} has the unexpected name {quoted(name)}; "
                "use another `date`"
            )
        lfs = _dict(entry.get("lfs"))
        digest = _digest("sha256", 64, str(lfs.get("oid")).removeprefix("sha256:"))
        url = f"{site.hub}/{_HUB_DATASET}/resolve/main/{folder}/{name}"
        files[name] = DumpFile(url, f"{wiki.name}-{date}-{name}", _size(entry), digest)
    counts = {int(match[1]) for name in files if (match := re.search(r"-of-([0-9]{1,9})\.parquet\Z", name))}
    if counts - {len(files)}:
        return ()
    return tuple(files[name] for name in sorted(files))


# Values from a server, which may be anything


def _parse_json(url: str, page: ShortResponse) -> Any:
    try:
        return json.loads(page.body)
    except (ValueError, RecursionError):
        raise Cr5Error(f"{url}: not JSON, or truncated; try again later, or use another `mirror`") from None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _size(info: dict[str, Any]) -> int | None:
    size = info.get("size")
    return size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else None


def _digest(algorithm: str, length: int, value: Any) -> str | None:
    value = str(value).lower()
    return f"{algorithm}:{value}" if re.fullmatch(f"[0-9a-f]{{{length}}}", value) else None
