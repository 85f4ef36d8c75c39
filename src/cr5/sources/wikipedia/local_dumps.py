"""Dumps that are on disk already, found by the names under which they are published."""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from cr5.errors import Cr5Error
from cr5.sources.wikipedia.dump_listing import Dump, File
from cr5.sources.wikipedia.wiki import Kind, Wiki

_NAMES = {
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
_PROPS = r"{wiki}-(\d{{8}})-page_props\.sql\.gz"
_SITELINKS = r"wikidatawiki-(\d{8})-wb_items_per_site\.sql\.gz"


def find_local(wikis: Sequence[Wiki], kind: Kind, folder: Path, date: str | None = None) -> list[Dump]:
    """The newest dump of every wiki in a folder or below it, or the one of ``date``."""
    paths = _paths(folder)
    found = []
    for wiki in wikis:
        for pattern in _NAMES[kind]:
            when, files = _newest(paths, pattern.format(wiki=re.escape(wiki.name), code=re.escape(wiki.code)), date)
            if files:
                break
        else:
            at = f" of {date}" if date else ""
            raise Cr5Error(
                f"{folder}: no {kind} dump of {wiki.name}{at} in it; keep the name under which it is published, "
                f"such as {_EXAMPLES[kind].format(wiki=wiki.name, code=wiki.code)}"
            )
        _check_parts(files)
        _, props = _newest(paths, _PROPS.format(wiki=re.escape(wiki.name)))
        found.append(Dump(wiki, kind, when, tuple(map(_file, files)), _file(props[0]) if props else None))
    return found


def find_local_sitelinks(folder: Path) -> File:
    """Wikidata's table of the pages of all wikis."""
    _, found = _newest(_paths(folder), _SITELINKS)
    if not found:
        raise Cr5Error(f"{folder}: no wikidatawiki-DATE-wb_items_per_site.sql.gz in it; add it, or pass --ids props")
    return _file(found[0])


_EXAMPLES = {
    "cirrus": "{wiki}_content-20261101-00000.json.bz2",
    "xml": "{wiki}-20261101-pages-articles-multistream.xml.bz2",
    "parquet": "20231101.{code}/train-00000-of-00001.parquet",
}


def _paths(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise Cr5Error(f"{folder}: no such folder; name the one that holds the dumps")
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _newest(paths: Sequence[Path], pattern: str, date: str | None = None) -> tuple[str, list[Path]]:
    """The newest date or the given one, and its files; parts of a dump in the order of their numbers."""
    whole = re.compile(rf"(?:.*/)?{pattern}")
    dated = [(match[1], path) for path in paths if (match := whole.fullmatch(path.as_posix()))]
    chosen = date or max((at for at, _ in dated), default="")
    return chosen, sorted((path for at, path in dated if at == chosen), key=_numbers)


def _check_parts(files: Sequence[Path]) -> None:
    """Refuse a dump of which a part is missing, as far as the names tell, or is there twice."""
    for one, other in pairwise(files):
        if one.name == other.name:
            raise Cr5Error(f"{other}: there is also {one}; remove one of them")
    following = 0
    for path in files:
        if match := re.search(r"-p(\d+)p(\d+)\.", path.name):
            begin, end = int(match[1]), int(match[2]) + 1
            gap = begin > max(following, 1)
        elif match := re.search(r"-(\d{5})(?:-of-\d+)?\.", path.name):
            begin, end = int(match[1]), int(match[1]) + 1
            gap = begin > following
        else:
            return
        if gap:
            raise Cr5Error(f"{path}: a part of the dump before this one is missing; add it")
        following = end
    if (match := re.search(r"-of-(\d+)\.", files[-1].name)) and int(match[1]) != following:
        raise Cr5Error(f"{files[-1]}: a part of the dump behind this one is missing; add it")


def _numbers(path: Path) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", path.name)]


def _file(path: Path) -> File:
    return File("", str(path.resolve()), path.stat().st_size, None)
