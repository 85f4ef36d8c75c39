"""A synthetic dump of a large Wikipedia: how fast and in how much memory it becomes a corpus. One JSON object per line.

python benchmarks/wikipedia.py [--gigabytes 2] [--kind xml|cirrus] [--folder FOLDER]

Articles consist of Danish words with Zipfian frequencies and of as much markup as on Wikipedia: templates, footnotes,
tables, links, files. Some thousand different articles are written in streams of a hundred, as in the published files,
and the streams are repeated until the file has its size. Pages therefore occur several times, which makes no
difference to time and memory. Then ``cr5 corpus wikipedia --dumps`` runs twice: once to the end, and once killed in
the middle and run again, which must give the same corpus without writing any shard twice.

For comparison: the speed of bzip2 alone, an upper bound for every reader of the file, and that of gensim's
``filter_wiki``, which also converts wikitext to plain text, on the same articles.
"""

import argparse
import bz2
import gzip
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np

from cr5 import demo
from cr5.corpus.reading import read_batches
from cr5.sources.wikipedia.wikitext import plain_text

STREAMS, PAGES_PER_STREAM = 120, 100  # number of different streams
DATE = "20261101"
HEADER = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="da">
  <siteinfo>
    <sitename>Wikipedia</sitename>
    <dbname>dawiki</dbname>
    <base>https://da.wikipedia.org/wiki/Forside</base>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="6" case="first-letter">Fil</namespace>
      <namespace key="14" case="first-letter">Kategori</namespace>
    </namespaces>
  </siteinfo>
"""


def words(seed: int, count: int = 60_000) -> list[str]:
    """Danish words and compounds of them, because the language of every article is guessed."""
    known = sorted(
        {word for document in demo.encyclopedia() if document.lang == "da" for word in document.text.split()}
    )
    rng = np.random.default_rng(seed)
    rng.shuffle(known)
    made = (known[i].strip(".,") + known[j].strip(".,").lower() for i, j in rng.integers(len(known), size=(count, 2)))
    return [*known, *made][:count]


WORDS = words(0)


def article(rng: np.random.Generator) -> str:
    """A few kilobytes of wikitext."""
    ranks = rng.zipf(1.15, int(rng.lognormal(6.2, 0.8)) + 40) % len(WORDS)
    text = [WORDS[i] for i in ranks]
    image = f"[[Fil:{text[1]}.svg|thumb|[[{text[2]}]]]]"
    box = f"| navn = {text[0]}\n| areal = {{{{formatnum:{ranks.sum()}}}}}\n| kort = {image}"
    lines = [f"{{{{Infoboks by\n{box}\n}}}}"]
    at = 0
    while at < len(text):
        size = int(rng.integers(20, 90))
        part = text[at : at + size]
        for i in range(0, len(part), 9):
            part[i] = f"[[{part[i]}|{part[i]}er]]" if i % 2 else f"[[{part[i]}]]"
        if len(part) > 10:
            cited = f"{{{{cite web |url=https://example.org/{at} |title={' '.join(part[2:9])} |date=2020}}}}"
            part[10] += f'<ref name="n{at}">{cited}</ref>'
        lines.append(" ".join(part).capitalize() + ".")
        if rng.random() < 0.15:
            lines.append(f"== {part[0].strip('[]')} ==")
        if rng.random() < 0.08:
            rows = "\n".join(f"|-\n| {a} || {b}" for a, b in zip(part[::2], part[1::2], strict=False))
            lines.append(f'{{| class="wikitable"\n! a !! b\n{rows}\n|}}')
        at += size
    lines.append(f"{{{{reflist}}}}\n[[Kategori:{text[0]}]]\n[[Kategori:{text[1]}]]")
    return "\n\n".join(lines)


def page(number: int, text: str, redirect: bool) -> str:
    head = f"  <page>\n    <title>Side {number}</title>\n    <ns>0</ns>\n    <id>{number}</id>\n"
    if redirect:
        head, text = head + f'    <redirect title="Side {number + 1}" />\n', f"#REDIRECT [[Side {number + 1}]]"
    return (
        f"{head}    <revision>\n      <id>{10**6 + number}</id>\n      <timestamp>2026-10-01T00:00:00Z</timestamp>\n"
        f"      <contributor>\n        <username>Nogen</username>\n        <id>7</id>\n      </contributor>\n"
        "      <model>wikitext</model>\n      <format>text/x-wiki</format>\n"
        f'      <text bytes="{len(text.encode())}" sha1="0" xml:space="preserve">{escape(text)}</text>\n'
        "      <sha1>0</sha1>\n    </revision>\n  </page>\n"
    )


def record(number: int, text: str) -> str:
    plain = plain_text(text)
    fields = {
        "template": ["Skabelon:Infoboks by", "Skabelon:Cite web"] * 5, "source_text": text, "title": f"Side {number}",
        "text": plain, "opening_text": plain[:500], "namespace": 0, "wikibase_item": f"Q{number}", "language": "da",
        "outgoing_link": WORDS[number % 5000 : number % 5000 + 120], "incoming_links": 3, "wiki": "dawiki",
    }  # fmt: skip
    return f'{{"index":{{"_id":"{number}"}}}}\n{json.dumps(fields, ensure_ascii=False)}\n'


def stream(kind: str, number: int) -> tuple[bytes, int]:
    """A compressed stream of pages, and its uncompressed size."""
    rng = np.random.default_rng(number)
    numbers = range(number * PAGES_PER_STREAM + 1, (number + 1) * PAGES_PER_STREAM + 1)
    if kind == "xml":
        content = "".join(page(n, article(rng), redirect=n % 3 == 0) for n in numbers).encode()
    else:
        content = "".join(record(n, article(rng)) for n in numbers).encode()
    return bz2.compress(content), len(content)


def generate(folder: Path, kind: str, size: float) -> int:
    """Write a dump and its page_props; return its uncompressed size."""
    with ProcessPoolExecutor() as pool:
        streams = list(pool.map(stream, [kind] * STREAMS, range(STREAMS)))
    name = "dawiki-{}-pages-articles-multistream.xml.bz2" if kind == "xml" else "dawiki_content-{}-00000.json.bz2"
    plain = 0
    with (folder / name.format(DATE)).open("wb") as file:
        if kind == "xml":
            file.write(bz2.compress(HEADER.encode()))
        while file.tell() < size:
            for compressed, length in streams:
                file.write(compressed)
                plain += length
        if kind == "xml":
            file.write(bz2.compress(b"</mediawiki>\n"))
    rows = ",".join(f"({n},'wikibase_item','Q{n}',NULL)" for n in range(1, STREAMS * PAGES_PER_STREAM + 1))
    table = (
        "CREATE TABLE `page_props` (\n  `pp_page` int(10) unsigned NOT NULL,\n  `pp_propname` varbinary(60) NOT NULL,\n"
        "  `pp_value` blob NOT NULL,\n  `pp_sortkey` float DEFAULT NULL\n) ENGINE=InnoDB;\n"
        f"INSERT INTO `page_props` VALUES {rows};\n"
    )
    (folder / f"dawiki-{DATE}-page_props.sql.gz").write_bytes(gzip.compress(table.encode(), 1))
    return plain


def command(kind: str, dumps: Path, output: Path) -> list[str]:
    cr5 = [sys.executable, "-c", "from cr5.cli import main; main()"]
    return [
        *cr5,
        "corpus",
        "wikipedia",
        "--langs",
        "da",
        "--source",
        kind,
        "--dumps",
        str(dumps),
        "-o",
        str(output),
        "--json",
    ]


def shards(output: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (output / ".work").rglob("*.parquet")}


def digest(output: Path) -> str:
    found = hashlib.sha256()
    for batch in read_batches(output):
        found.update("\n".join(batch.rows["text"].to_pylist()).encode())
    return found.hexdigest()[:16]


def run_watched(command: list[str]) -> tuple[float, float, float, str]:
    """Run a command; return the seconds, the peak memory in GB of one process and of all together, and the output."""
    start, peak, total = time.perf_counter(), 0, 0
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL, start_new_session=True)
        while process.poll() is None:
            now = 0
            for status in Path("/proc").glob("[0-9]*/status"):
                with suppress(OSError, ValueError):
                    if os.getsid(int(status.parent.name)) != process.pid:
                        continue
                    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
                    peak = max(peak, int(lines.get("VmHWM", "0 kB").split()[0]))
                    now += int(lines.get("RssAnon", "0 kB").split()[0])
            total = max(total, now)
            time.sleep(0.1)
        if process.returncode:
            sys.exit(f"{' '.join(command)} failed")
        output.seek(0)
        return time.perf_counter() - start, peak / 1e6, total / 1e6, output.read()


def comparisons(kind: str, path: Path) -> dict[str, float]:
    """Uncompressed MB/s of one core: decompression alone, and wikitext to plain text."""
    start, size = time.perf_counter(), 0
    with bz2.open(path) as file:
        while size < 200e6 and (data := file.read(1 << 20)):
            size += len(data)
    found = {"bzip2_mb_s": size / (time.perf_counter() - start) / 1e6}
    if kind == "xml":
        rng = np.random.default_rng(1)
        texts = [article(rng) for _ in range(300)]
        total = sum(len(text.encode()) for text in texts) / 1e6
        start = time.perf_counter()
        for text in texts:
            plain_text(text)
        found["wikitext_mb_s"] = total / (time.perf_counter() - start)
        try:
            from gensim.corpora.wikicorpus import filter_wiki
        except ImportError:
            return found
        start = time.perf_counter()
        for text in texts:
            filter_wiki(text)
        found["gensim_filter_wiki_mb_s"] = total / (time.perf_counter() - start)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=2.0, help="size of the compressed file")
    parser.add_argument("--kind", choices=["xml", "cirrus"], default="xml")
    parser.add_argument("--folder", type=Path, help="where to work; by default a temporary folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        plain = generate(folder, options.kind, options.gigabytes * 1e9)
        [path] = [path for path in folder.iterdir() if path.suffix == ".bz2"]
        about = {
            "kind": options.kind,
            "compressed_gb": path.stat().st_size / 1e9,
            "plain_gb": plain / 1e9,
            "cores": os.cpu_count(),
        }
        figures = comparisons(options.kind, path)
        seconds, peak, total, printed = run_watched(command(options.kind, folder, folder / "whole"))
        made = json.loads(printed)["languages"]["da"]
        print(json.dumps(about | figures | {
            "seconds": seconds, "pages": made["pages"], "documents": made["documents"],
            "plain_mb_s": plain / seconds / 1e6, "compressed_mb_s": path.stat().st_size / seconds / 1e6,
            "of_bzip2": plain / seconds / 1e6 / figures["bzip2_mb_s"], "peak_gb_of_a_process": peak,
            "peak_gb_of_all": total,
        }), flush=True)  # fmt: skip

        output = folder / "again"
        process = subprocess.Popen(
            command(options.kind, folder, output),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(0.5 * seconds)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        before = shards(output)
        start = time.perf_counter()
        subprocess.run(command(options.kind, folder, output), check=True, capture_output=True)
        rest = time.perf_counter() - start
        after = shards(output)
        print(json.dumps({
            "killed_after": 0.5 * seconds, "shards_then": len(before), "shards_in_all": len(after),
            "seconds_of_the_rest": rest,
            "written_twice": sum(after.get(name) != time_ for name, time_ in before.items()),
            "same_corpus": digest(output) == digest(folder / "whole"),
        }), flush=True)  # fmt: skip
        shutil.rmtree(folder / "whole")


if __name__ == "__main__":
    main()
