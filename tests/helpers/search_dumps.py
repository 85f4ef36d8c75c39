"""Miniature CirrusSearch dumps and Parquet exports, in the published format."""

import bz2
import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from cr5.sources.wikipedia.wiki import Wiki

DANISH = Wiki("da", "da")


class Page(NamedTuple):
    """A page: its id, title and text, and further fields of the search index."""

    id: int
    title: str
    text: str | None
    item: str | None = None
    templates: Sequence[str] = ()
    namespace: int = 0


def action(page: Page, wiki: Wiki = DANISH, *, classic: bool = True) -> str:
    """The action line of a page."""
    about = {"_type": "_doc", "_id": str(page.id)}
    if not classic:
        about = {"_index": f"{wiki.name}_content", "_id": str(page.id)}
    return json.dumps({"index": about}, separators=(",", ":"))


def source(page: Page, wiki: Wiki = DANISH, **more: Any) -> str:
    """The line with the fields of a page; ``more`` adds or replaces some."""
    fields: dict[str, Any] = {
        "template": [f"Skabelon:{name}" for name in page.templates],
        "source_text": f"'''{page.title}''' {{{{Infoboks|text=nej}}}} [[Kategori:Alt]]",
        "language": wiki.code,
        "title": page.title,
        "version": 100 + page.id,
        "heading": ["Historie", "Se også"],
        "incoming_links": 7,
        "text": page.text,
        "category": ["Alt"],
        "redirect": [{"namespace": 0, "title": f"{page.title} (omdirigering)"}],
        "auxiliary_text": ["Fra tabellen \\ ved siden af"],
        "namespace": page.namespace,
        "wiki": wiki.name,
        "popularity_score": 1.5e-7,
    }
    if page.item is not None:
        fields["wikibase_item"] = page.item
    # Some JSON writers escape what is not ASCII, others do not: test both.
    return json.dumps(fields | more, ensure_ascii=page.id % 2 == 0, separators=(",", ":"))


def bulk(pages: Iterable[Page], wiki: Wiki = DANISH, *, classic: bool = True) -> bytes:
    """Pages as lines of an Elasticsearch bulk request."""
    lines = [f"{action(page, wiki, classic=classic)}\n{source(page, wiki)}\n" for page in pages]
    return "".join(lines).encode()


def write_classic(folder: Path, pages: Iterable[Page], wiki: Wiki = DANISH, date: str = "20251229") -> Path:
    """Write a dump as it was published until the end of 2025: one file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{wiki.name}-{date}-cirrussearch-content.json.gz"
    path.write_bytes(gzip.compress(bulk(pages, wiki), mtime=0))
    return path


def write_shards(
    folder: Path, pages: Sequence[Page], wiki: Wiki = DANISH, date: str = "20260816", shards: int = 2
) -> list[Path]:
    """Write a dump as it has been published since 2025: a folder of files."""
    folder = folder / f"index_name={wiki.name}_content"
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{wiki.name}_content-{date}-{n:05}.json.bz2" for n in range(shards)]
    for n, path in enumerate(paths):
        path.write_bytes(bz2.compress(bulk(pages[n::shards], wiki, classic=False)))
    return paths


def write_export(
    folder: Path, pages: Sequence[Page], wiki: Wiki = DANISH, date: str = "20231101", files: int = 1, group: int = 1000
) -> list[Path]:
    """Write a Parquet export as on the Hugging Face Hub; ``group`` is the number of rows of a row group."""
    folder = folder / f"{date}.{wiki.code}"
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"train-{n:05}-of-{files:05}.parquet" for n in range(files)]
    for n, path in enumerate(paths):
        rows = pages[n::files]
        columns = {
            "id": [str(page.id) for page in rows],
            "url": [wiki.url(page.title) for page in rows],
            "title": [page.title for page in rows],
            "text": [page.text for page in rows],
        }
        schema = pa.schema([(name, pa.string()) for name in columns])
        pq.write_table(pa.table(columns, schema), path, row_group_size=group)
    return paths
