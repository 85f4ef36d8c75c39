"""The plan of a Wikipedia corpus: what is wanted, and the dumps that give it, chosen once."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from cr5.corpus import languages
from cr5.errors import Cr5Error
from cr5.progress import ProgressCallback, silent
from cr5.sources.wikipedia.dump_listing import DUMPS, HUB, Dump, File, find_dumps
from cr5.sources.wikipedia.local_dumps import find_local
from cr5.sources.wikipedia.publishing import Keep
from cr5.sources.wikipedia.shards import load_json, write_json
from cr5.sources.wikipedia.wiki import Kind, Wiki

Ids: TypeAlias = Literal["props", "sitelinks"]
"""Where a page's item is found: in its wiki's page_props, or in Wikidata's table of all wikis' pages."""

ALL = Keep()


@dataclass(frozen=True)
class Request:
    """What somebody wants: of which Wikipedias, in which form, as of when; all of it, or ``sample`` articles each."""

    codes: tuple[str, ...]
    kind: Kind = "cirrus"
    date: str | None = None
    ids: Ids = "props"
    sample: int | None = None
    keep: Keep = ALL
    mirror: str = DUMPS
    hub: str = HUB
    dumps: Path | None = None  # files that are here already: nothing is fetched

    @property
    def wikis(self) -> list[Wiki]:
        """The Wikipedias, each with its language."""
        return [Wiki(code, languages.wikipedia_language(code)) for code in self.codes]

    def check(self) -> None:
        """Refuse what makes no corpus."""
        langs = [wiki.lang for wiki in self.wikis]
        if not langs:
            raise Cr5Error("no language given; name some, e.g. --langs da,en,it,vi")
        if twice := [lang for lang in langs if langs.count(lang) > 1]:
            raise Cr5Error(f"language {twice[0]} is named twice; name it once")
        if self.keep.shared and len(langs) < 2:
            raise Cr5Error("--concepts shared needs two languages or more; name another, or keep all concepts")
        if self.sample and self.ids == "sitelinks":
            raise Cr5Error("--ids sitelinks needs Wikidata's whole table, which is too much for a sample; leave it out")


def plan(
    request: Request, work: Path, *, agent: str, pause: float = 1.0, progress: ProgressCallback = silent
) -> list[Dump]:
    """The dump of every wiki: the one that an earlier run began with, or the newest that is complete."""
    found = {wiki.code: dump for wiki in request.wikis if (dump := _begun(request, work, wiki)) is not None}
    missing = [wiki for wiki in request.wikis if wiki.code not in found]
    for dump in _find(request, missing, agent, pause, progress) if missing else []:
        if dump.props is None and request.kind != "cirrus" and request.ids == "props":
            raise Cr5Error(
                f"{dump.wiki.name}: there is no page_props with the items of its pages; pass --ids sitelinks"
            )
        (work / dump.wiki.code).mkdir(exist_ok=True)
        write_json(
            work / dump.wiki.code / "plan.json",
            {
                "source": request.kind,
                "ids": request.ids,
                "sample": request.sample,
                "date": dump.date,
                "files": dump.files,
                "props": dump.props,
            },
        )
        found[dump.wiki.code] = dump
    return [found[wiki.code] for wiki in request.wikis]


def _begun(request: Request, work: Path, wiki: Wiki) -> Dump | None:
    known = load_json(work / wiki.code / "plan.json", work / wiki.code)
    if known is None:
        return None
    for name, value in {"source": request.kind, "ids": request.ids, "sample": request.sample}.items():
        if known[name] != value:
            raise Cr5Error(
                f"{work.parent}: begun with {_option(name, known[name])}, not {_option(name, value)}; go on as it was "
                "begun, or name another folder"
            )
    if request.date not in (None, known["date"]):
        raise Cr5Error(
            f"{work.parent}: begun with the dump of {known['date']} for {wiki.code}, not {request.date}; leave out "
            "--date to go on, or name another folder"
        )
    files = tuple(File(*file) for file in known["files"])
    return Dump(wiki, request.kind, known["date"], files, File(*known["props"]) if known["props"] else None)


def _option(name: str, value: object) -> str:
    return f"--{name} {value}" if value is not None else f"no --{name}"


def _find(request: Request, wikis: Sequence[Wiki], agent: str, pause: float, progress: ProgressCallback) -> list[Dump]:
    if request.dumps is not None:
        return find_local(wikis, request.kind, request.dumps, request.date)
    return find_dumps(
        wikis,
        request.kind,
        date=request.date,
        mirror=request.mirror,
        hub=request.hub,
        agent=agent,
        progress=progress,
        pause=pause,
    )
