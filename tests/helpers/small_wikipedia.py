"""A small Wikipedia in two languages, published on a mirror."""

import bz2
import gzip
import tempfile
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import dumps
import search_dumps
from mirror import Mirror, publish_parquet, publish_search_index, publish_xml

from cr5 import Document, demo, read
from cr5.sources.wikipedia.build import WikipediaCorpus, build
from cr5.sources.wikipedia.plan import WikipediaRequest
from cr5.sources.wikipedia.wiki import Wiki

DATE = "20261101"
LANGS = ("da", "en", "it")
CONCEPTS = 30
USER_AGENT = "cr5/test (https://example.org)"


class InlineExecutor(Executor):
    """Runs every task at once; ``fail`` is called before it with its first argument and may raise."""

    def __init__(self, fail: Callable[[Any], None] = lambda argument: None) -> None:
        self.fail, self.done = fail, 0

    def submit(self, function: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            self.fail(arguments[0])
            future.set_result(function(*arguments, **options))
            self.done += 1
        except BaseException as error:
            future.set_exception(error)
        return future


def articles() -> dict[str, list[Document]]:
    """Some articles of every language; the first one of each has a concept that no other language has."""
    everything = demo.encyclopedia()
    concepts = sorted({document.concept for document in everything})
    found = {}
    for i, lang in enumerate(LANGS):
        chosen = [concepts[CONCEPTS + i], *concepts[:CONCEPTS]]
        by_concept = {document.concept: document for document in everything if document.lang == lang}
        numbers = {concept: concepts.index(concept) + 1 for concept in chosen}
        found[lang] = [Document(f"Q{numbers[c]}", lang, by_concept[c].text, by_concept[c].title, "") for c in chosen]
    return found


ARTICLES = articles()


def pages(lang: str) -> list[dumps.Page]:
    """The articles as pages, and some pages that are not articles."""
    written = [dumps.Page(10 * i + 10, a.title, a.text) for i, a in enumerate(ARTICLES[lang])]
    return [
        dumps.Page(1, "Forside", "#REDIRECT [[Hund]]", redirect="Hund"),
        dumps.Page(2, "Merkur", "Merkur kan være {{t}} [[en planet]].\n"),
        dumps.Page(3, "Ny", "Endnu uden emne på Wikidata."),
        dumps.Page(4, "Bruger:Nogen", "Hej.", namespace=2),
        *written,
    ]


def props(lang: str) -> list[tuple[int, str, str, float | None]]:
    rows: list[tuple[int, str, str, float | None]] = [
        (2, "disambiguation", "", None),
        (2, "wikibase_item", "Q900", None),
        (4, "wikibase_item", "Q901", None),
    ]
    return rows + [(10 * i + 10, "wikibase_item", a.concept, None) for i, a in enumerate(ARTICLES[lang])]


def props_gz(lang: str) -> bytes:
    return gzip.compress(dumps.page_props_sql(props(lang), f"{lang}wiki"))


def search_pages(lang: str) -> list[search_dumps.Page]:
    items = {page: value for page, name, value, _ in props(lang) if name == "wikibase_item"}
    return [search_dumps.Page(p.id, p.title, p.text, items.get(p.id), (), p.namespace) for p in pages(lang) if p.id > 1]


def publish(mirror: Mirror, layout: str, lang: str) -> None:
    """Publish one Wikipedia in one of its layouts."""
    wiki = Wiki(lang, lang)
    if layout == "xml":
        content = dumps.multistream(pages(lang), lang, per_stream=5)
        publish_xml(mirror, wiki.name, DATE, {"pages-articles-multistream.xml.bz2": content}, props_gz(lang))
        return
    if layout == "xml in parts":
        first, second = pages(lang)[:12], pages(lang)[12:]
        parts = {
            "pages-articles-multistream1.xml-p1p90.bz2": dumps.multistream(first, lang, per_stream=5),
            "pages-articles-multistream2.xml-p91p999.bz2": dumps.multistream(second, lang, per_stream=5),
        }
        publish_xml(mirror, wiki.name, DATE, parts, props_gz(lang))
        return
    publish_xml(mirror, wiki.name, DATE, {}, props_gz(lang))
    lines = search_dumps.bulk(search_pages(lang)[:20], wiki), search_dumps.bulk(search_pages(lang)[20:], wiki)
    if layout == "cirrus":
        publish_search_index(mirror, wiki.name, DATE, [bz2.compress(part) for part in lines])
    elif layout == "classic":
        publish_search_index(mirror, wiki.name, DATE, [gzip.compress(b"".join(lines))], layout="classic")
    else:
        with tempfile.TemporaryDirectory() as folder:
            paths = search_dumps.write_export(Path(folder), [p for p in search_pages(lang) if not p.namespace], wiki)
            publish_parquet(mirror, lang, DATE, [path.read_bytes() for path in paths])


def make(
    mirror: Mirror,
    output: Path,
    *,
    executor: Executor | None = None,
    **more: Any,
) -> WikipediaCorpus:
    request = WikipediaRequest(**({"langs": LANGS, "source": "xml", "mirror": mirror.url, "hub": mirror.url} | more))
    return build(request, output, executor=executor or InlineExecutor(), user_agent=USER_AGENT)


def documents(output: Path) -> set[tuple[str, str, str]]:
    return {(document.concept, document.lang, document.text) for document in read(output)}


EVERYTHING = {(a.concept, a.lang, a.text) for lang in LANGS for a in ARTICLES[lang]}
SHARED = {(a.concept, a.lang, a.text) for lang in LANGS for a in ARTICLES[lang][1:]}


# Resuming


def shard_times(output: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in sorted(output.rglob("*.parquet"))}
