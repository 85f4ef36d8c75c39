"""Publishing: from the extracted shards of a language to its files in the corpus."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cr5._typing import Ints
from cr5.corpus.documents import SCHEMA
from cr5.corpus.duplicates import Duplicates
from cr5.corpus.texts import shared_numbers
from cr5.sources.wikipedia.corpus_folder import ORIGIN_KEY, check_run, corpus_file, read_origin
from cr5.sources.wikipedia.plan import WikipediaRequest
from cr5.sources.wikipedia.work_files import reading_table, write_table


class PublishingTask(NamedTuple):
    """A language to publish, on any machine that sees the same files."""

    lang: str
    shards: tuple[str, ...]
    output: str
    request: WikipediaRequest
    shared_items: str | None  # a .npy file with the sorted items that two languages share
    run: str  # if the manifest names another run, nothing more is written


class PublishedLanguage(NamedTuple):
    """The files of a language with their numbers of documents, and how many articles were filtered out.

    ``unshared`` articles have a concept that no other language has; ``foreign`` ones are counted by their language.
    """

    files: dict[str, int]
    articles: int
    unshared: int | None
    foreign: dict[str, int]
    duplicates: int | None


def find_shared_items(languages: Mapping[str, Sequence[Path]]) -> Ints:
    """The sorted items that at least two languages have, from the shards of each."""
    per_language = [np.concatenate([_items(path) for path in paths]) for paths in languages.values() if paths]
    return shared_numbers(per_language or [np.empty(0, np.int64)])


def publish(task: PublishingTask) -> PublishedLanguage:
    """Write the files of a language; files that an earlier run made from the same shards are left as they are."""
    request, output = task.request, Path(task.output)
    shared_items = np.load(task.shared_items, mmap_mode="r") if task.shared_items else None
    # Identifies the filter in the digests of published files; its text must never change.
    signature = f"Keep(shared={request.concepts == 'shared'}, own={request.drop_foreign}, unlike={request.dedupe})"
    digest = hashlib.sha256(signature.encode())
    if shared_items is not None:
        digest.update(shared_items.data)
    duplicates = Duplicates() if request.dedupe else None
    files: dict[str, int] = {}
    totals, foreign = Counter[str](), Counter[str]()
    for number, shard in enumerate(task.shards):
        path = corpus_file(output, task.lang, number)
        status = Path(shard).stat()
        # The digest covers all shards so far: which texts are duplicates depends on those before them.
        digest.update(f"{Path(shard).name} {status.st_size} {status.st_mtime_ns}\n".encode())
        origin_digest = digest.hexdigest()
        published = _published_counts(path, origin_digest)
        if published is not None and duplicates is None:
            counts, rows = published, None
        else:
            with reading_table(Path(shard)):
                table = pq.read_table(shard)
            counts, rows = _filtered(table, request.drop_foreign, shared_items, duplicates)
        totals.update({name: count for name, count in counts.items() if name != "foreign"})
        foreign.update(counts["foreign"])
        if counts["documents"]:
            files[path.name] = counts["documents"]
        if rows is not None and published != counts:
            check_run(output, task.run)
            if rows.num_rows:
                write_table(path, rows, {ORIGIN_KEY: json.dumps({"about": origin_digest, "counts": counts}).encode()})
            else:
                path.unlink(missing_ok=True)
    unshared = totals["alone"] if request.concepts == "shared" else None
    repeated = totals["duplicates"] if request.dedupe else None
    return PublishedLanguage(files, totals["articles"], unshared, dict(foreign), repeated)


def _filtered(
    table: pa.Table, drop_foreign: bool, shared_items: Ints | None, duplicates: Duplicates | None
) -> tuple[dict[str, Any], pa.Table]:
    """The counts of a shard, as they are stored, and the rows that are kept; "alone" articles are the unshared ones."""
    counts: dict[str, Any] = {"articles": table.num_rows, "alone": 0, "duplicates": 0}
    if shared_items is not None:
        items = _item_numbers(table["concept"])
        is_shared = np.searchsorted(shared_items, items, "right") > np.searchsorted(shared_items, items)
        rows = table.filter(pa.array(is_shared))
        counts["alone"], table = table.num_rows - rows.num_rows, rows
    by_language = pc.value_counts(table["foreign"]).to_pylist()
    counts["foreign"] = {entry["values"]: entry["counts"] for entry in by_language if entry["values"]}
    if drop_foreign:
        table = table.filter(pc.equal(table["foreign"], ""))
    rows = table.select(SCHEMA.names)
    if duplicates is not None and rows.num_rows:
        batch = rows.combine_chunks().to_batches()[0]
        is_duplicate = duplicates.mark(batch)
        counts["duplicates"] = int(is_duplicate.sum())
        rows = rows.filter(pa.array(~is_duplicate))
    counts["documents"] = rows.num_rows
    return counts, rows


def _published_counts(path: Path, origin_digest: str) -> dict[str, Any] | None:
    """The counts of a file that was published from the same shards with the same filter, or None."""
    origin = read_origin(path)
    return origin["counts"] if origin and origin["about"] == origin_digest else None


def _items(path: Path) -> Ints:
    with reading_table(path):
        concepts = pq.read_table(path, columns=["concept"])["concept"]
    return np.unique(_item_numbers(concepts))


def _item_numbers(concepts: pa.ChunkedArray) -> Ints:
    """Q42 -> 42."""
    numbers: Ints = pc.cast(pc.utf8_slice_codeunits(concepts, 1), pa.int64()).to_numpy()
    return numbers
