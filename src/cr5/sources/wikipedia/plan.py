"""The plan of a Wikipedia corpus: what was requested, and the dump of each wiki, chosen once and then kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from cr5.corpus import languages
from cr5.errors import Cr5Error
from cr5.progress import ProgressCallback, no_progress
from cr5.sources.wikipedia.dump_listing import HUB_URL, MIRROR_URL, Dump, DumpFile, find_dumps
from cr5.sources.wikipedia.dump_reader import DumpFormat
from cr5.sources.wikipedia.local_dumps import find_local_dumps
from cr5.sources.wikipedia.wiki import Wiki
from cr5.sources.wikipedia.work_files import load_json
from cr5.storage.json_files import write_json

ItemSource: TypeAlias = Literal["props", "sitelinks"]
"""Where the Wikidata item of a page is looked up: in the wiki's page_props, or in Wikidata's table of sitelinks."""


@dataclass(frozen=True)
class WikipediaRequest:
    """What to build: of which Wikipedias (by their codes), from which dumps, and which articles to keep.

    ``sample`` takes only that many articles of each. ``dumps`` is a folder with dumps that were downloaded before; with
    it, nothing is downloaded.
    """

    langs: tuple[str, ...]
    source: DumpFormat = "cirrus"
    date: str | None = None
    ids: ItemSource = "props"
    sample: int | None = None
    concepts: Literal["all", "shared"] = "all"
    drop_foreign: bool = False
    dedupe: bool = False
    mirror: str = MIRROR_URL
    hub: str = HUB_URL
    dumps: Path | None = None

    @property
    def wikis(self) -> list[Wiki]:
        """The Wikipedias, each with its language."""
        return [Wiki(languages.wikipedia_code(code), languages.wikipedia_language(code)) for code in self.langs]

    def check(self) -> None:
        """Raise a ``Cr5Error`` if the fields contradict each other."""
        langs = [wiki.lang for wiki in self.wikis]
        if not langs:
            raise Cr5Error("no language was given; name some in `langs`, e.g. da,en,it,vi")
        if repeated := [lang for lang in langs if langs.count(lang) > 1]:
            raise Cr5Error(f"language {repeated[0]} occurs twice in `langs`; name it once")
        if self.concepts == "shared" and len(langs) < 2:
            raise Cr5Error('`concepts="shared"` needs at least two languages; add one, or use `concepts="all"`')
        if self.sample and self.ids == "sitelinks":
            raise Cr5Error(
                '`ids="sitelinks"` needs Wikidata\'s complete table, which is too large for a `sample`; '
                'use `ids="props"`'
            )


def choose_dumps(
    request: WikipediaRequest, work: Path, *, user_agent: str, progress: ProgressCallback = no_progress
) -> list[Dump]:
    """The dump of every wiki: the one that an earlier run chose, or the newest complete one, which is recorded."""
    chosen = {wiki.code: dump for wiki in request.wikis if (dump := _load_plan(request, work, wiki)) is not None}
    missing = [wiki for wiki in request.wikis if wiki.code not in chosen]
    for dump in _find_dumps(request, missing, user_agent, progress) if missing else []:
        if dump.props is None and request.source != "cirrus" and request.ids == "props":
            raise Cr5Error(
                f"{dump.wiki.name}: there is no page_props table with the Wikidata items of its pages; "
                'use `ids="sitelinks"`'
            )
        (work / dump.wiki.code).mkdir(exist_ok=True)
        write_json(
            work / dump.wiki.code / "plan.json",
            {
                "source": request.source,
                "ids": request.ids,
                "sample": request.sample,
                "date": dump.date,
                "files": dump.files,
                "props": dump.props,
            },
        )
        chosen[dump.wiki.code] = dump
    return [chosen[wiki.code] for wiki in request.wikis]


def _load_plan(request: WikipediaRequest, work: Path, wiki: Wiki) -> Dump | None:
    plan = load_json(work / wiki.code / "plan.json", delete=work / wiki.code)
    if plan is None:
        return None
    for name, value in {"source": request.source, "ids": request.ids, "sample": request.sample}.items():
        if plan[name] != value:
            raise Cr5Error(
                f"{work.parent}: this corpus was begun with {_setting(name, plan[name])}, not {_setting(name, value)}; "
                "use the same again to resume, or name another folder"
            )
    if request.date not in (None, plan["date"]):
        raise Cr5Error(
            f"{work.parent}: this corpus was begun with the dump of {plan['date']} for {wiki.code}, not with "
            f"`date={request.date}`; leave out `date` to resume, or name another folder"
        )
    files = tuple(DumpFile(*file) for file in plan["files"])
    return Dump(wiki, request.source, plan["date"], files, DumpFile(*plan["props"]) if plan["props"] else None)


def _setting(name: str, value: object) -> str:
    return f"`{name}={value}`" if value is not None else f"no `{name}`"


def _find_dumps(
    request: WikipediaRequest, wikis: Sequence[Wiki], user_agent: str, progress: ProgressCallback
) -> list[Dump]:
    if request.dumps is not None:
        return find_local_dumps(wikis, request.source, request.dumps, request.date)
    return find_dumps(
        wikis, request.source, date=request.date, mirror=request.mirror, hub=request.hub, user_agent=user_agent,
        progress=progress,
    )  # fmt: skip
