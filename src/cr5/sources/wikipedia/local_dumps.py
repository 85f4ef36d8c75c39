"""Dumps that were downloaded before, found by the names under which they are published."""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from cr5.errors import Cr5Error
from cr5.sources.wikipedia.dump_listing import Dump, DumpFile
from cr5.sources.wikipedia.dump_reader import DumpFormat
from cr5.sources.wikipedia.wiki import Wiki

# Regular expressions for str.format; if files of several kinds are there, the first kind is used.
_NAMES: dict[DumpFormat, tuple[str, ...]] = {
    "cirrus": (r"{wiki}_content-(\d{{8}})-\d+\.json\.bz2", r"{wiki}-(\d{{8}})-cirrussearch-content\.json\.gz"),
    "xml": (
        r"{wiki}-(\d{{8}})-pages-articles-multistream\d+\.xml-p\d+p\d+\.bz2",
        r"{wiki}-(\d{{8}})-pages-articles-multistream\.xml\.bz2",
        r"{wiki}-(\d{{8}})-pages-articles\d+\.xml-p\d+p\d+\.bz2",
        r"{wiki}-(\d{{8}})-pages-articles\.xml\.bz2",
        r"{wiki}-(\d{{8}})-pages-articles\.xml",
    ),
    "parquet": (r"(\d{{8}})\.{code}/train-\d+-of-\d+\.parquet", r"{wiki}-(\d{{8}})-train-\d+-of-\d+\.parquet"),
}
_EXAMPLES: dict[DumpFormat, str] = {
    "cirrus": "{wiki}_content-20261101-00000.json.bz2",
    "xml": "{wiki}-20261101-pages-articles-multistream.xml.bz2",
    "parquet": "20231101.{code}/train-00000-of-00001.parquet",
}
_PAGE_PROPS = r"{wiki}-(\d{{8}})-page_props\.sql\.gz"
_SITELINKS = r"wikidatawiki-(\d{8})-wb_items_per_site\.sql\.gz"


def find_local_dumps(
    wikis: Sequence[Wiki], dump_format: DumpFormat, folder: Path, date: str | None = None
) -> list[Dump]:
    """The newest dump of every wiki in a folder or below it, or the one of ``date``."""
    paths = _files_below(folder)
    dumps = []
    for wiki in wikis:
        for pattern in _NAMES[dump_format]:
            dump_date, files = _newest(
                paths, pattern.format(wiki=re.escape(wiki.name), code=re.escape(wiki.code)), date
            )
            if files:
                break
        else:
            date_text = f" of {date}" if date else ""
            raise Cr5Error(
                f"{folder}: contains no {dump_format} dump of {wiki.name}{date_text}; keep the name under which it is "
                f"published, such as {_EXAMPLES[dump_format].format(wiki=wiki.name, code=wiki.code)}"
            )
        _check_parts(files)
        _, props = _newest(paths, _PAGE_PROPS.format(wiki=re.escape(wiki.name)))
        dump_files = tuple(map(_dump_file, files))
        dumps.append(Dump(wiki, dump_format, dump_date, dump_files, _dump_file(props[0]) if props else None))
    return dumps


def find_local_sitelinks(folder: Path) -> DumpFile:
    """Wikidata's table of the pages of all wikis."""
    _, files = _newest(_files_below(folder), _SITELINKS)
    if not files:
        raise Cr5Error(
            f'{folder}: contains no wikidatawiki-DATE-wb_items_per_site.sql.gz; add it, or use `ids="props"`'
        )
    return _dump_file(files[0])


def _files_below(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise Cr5Error(f"{folder}: no such folder; set `dumps` to the folder that holds the dumps")
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _newest(paths: Sequence[Path], pattern: str, date: str | None = None) -> tuple[str, list[Path]]:
    """The newest date or the given one, and its files; the parts of a dump are in the order of their numbers."""
    name = re.compile(rf"(?:.*/)?{pattern}")
    dated = [(match[1], path) for path in paths if (match := name.fullmatch(path.as_posix()))]
    chosen = date or max((file_date for file_date, _ in dated), default="")
    return chosen, sorted((path for file_date, path in dated if file_date == chosen), key=_natural_order)


def _check_parts(files: Sequence[Path]) -> None:
    """Raise a ``Cr5Error`` if a part of a dump is there twice or, as far as the names show, missing."""
    for previous, path in pairwise(files):
        if previous.name == path.name:
            raise Cr5Error(f"{path}: there is also {previous}; remove one of them")
    expected = 0
    for path in files:
        if match := re.search(r"-p(\d+)p(\d+)\.", path.name):
            begin, end = int(match[1]), int(match[2]) + 1
            gap = begin > max(expected, 1)
        elif match := re.search(r"-(\d{5})(?:-of-\d+)?\.", path.name):
            begin, end = int(match[1]), int(match[1]) + 1
            gap = begin > expected
        else:
            return
        if gap:
            raise Cr5Error(f"{path}: the part of the dump before this one is missing; add it")
        expected = end
    if (match := re.search(r"-of-(\d+)\.", files[-1].name)) and int(match[1]) != expected:
        raise Cr5Error(f"{files[-1]}: the part of the dump after this one is missing; add it")


def _natural_order(path: Path) -> list[tuple[int, str]]:
    """A sort key by which part 10 comes after part 9."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", path.name)]


def _dump_file(path: Path) -> DumpFile:
    return DumpFile("", str(path.resolve()), path.stat().st_size, None)
