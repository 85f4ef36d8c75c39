"""Every source but Wikipedia: the time and memory that ``cr5 corpus …`` takes. One JSON object per source.

python benchmarks/sources.py [--megabytes 50]

The texts are synthetic: words of two languages with Zipfian frequencies, in sentences of 8 to 30 words, written in
the format of each source. ``mb_s`` refers to the bytes of the input. ``check_mb_s``, for comparison, is the speed of
language identification and near-duplicate detection alone on the same documents, which every source applies after its
reader: where both are close, the reader costs little.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np

from cr5 import demo
from cr5.corpus.documents import Document
from cr5.corpus.reading import read
from cr5.sources.clean import SourceSummary, clean

LANGS = ("en", "it")


def sentences(lang: str, size: int, seed: int) -> Iterator[str]:
    """Sentences of about ``size`` bytes in total, of real words, so that the language can be guessed."""
    words = sorted({word for d in demo.encyclopedia() if d.lang == lang for word in d.text.split()})
    rng = np.random.default_rng(seed)
    rng.shuffle(words)
    rare = [f"{a}{b}".lower() for a, b in zip(words, words[7:], strict=False)]
    words += [word for word in rare if word.isalpha()]
    while size > 0:
        ranks = rng.zipf(1.2, int(rng.integers(8, 30))) % len(words)
        sentence = " ".join(words[i] for i in ranks)
        size -= len(sentence.encode())
        yield sentence


def moses(folder: Path, texts: dict[str, list[str]]) -> list[str]:
    for lang, lines in texts.items():
        (folder / f"made.en-it.{lang}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [str(folder)]


def tmx(folder: Path, texts: dict[str, list[str]]) -> list[str]:
    with (folder / "memory.tmx").open("w", encoding="utf-8") as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4"><header srclang="en"/><body>\n')
        for pair in zip(*texts.values(), strict=True):
            parts = (
                f'<tuv xml:lang="{lang}"><seg>{escape(s)}</seg></tuv>' for lang, s in zip(texts, pair, strict=True)
            )
            file.write(f"<tu>{''.join(parts)}</tu>\n")
        file.write("</body></tmx>\n")
    return [str(folder)]


def europarl(folder: Path, texts: dict[str, list[str]]) -> list[str]:
    for lang, lines in texts.items():
        (folder / lang).mkdir()
        for session in range(0, len(lines), 2000):
            speeches = [lines[i : i + 20] for i in range(session, min(session + 2000, len(lines)), 20)]
            body = "".join(
                f'<SPEAKER ID="{n}" NAME="Nobody">'
                + "".join(f'<P id="{k}"><s id="1">{escape(s)}</s></P>\n' for k, s in enumerate(speech))
                + "</SPEAKER>\n"
                for n, speech in enumerate(speeches)
            )
            day = session // 2000
            name = f"ep-{day // 336:02d}-{day // 28 % 12 + 1:02d}-{day % 28 + 1:02d}.xml"
            content = f'<?xml version="1.0" encoding="utf-8"?>\n<text><CHAPTER ID="1">\n{body}</CHAPTER></text>\n'
            (folder / lang / name).write_text(content, encoding="utf-8")
    return [str(folder)]


def gettext(folder: Path, texts: dict[str, list[str]]) -> list[str]:
    with (folder / "it.po").open("w", encoding="utf-8") as file:
        file.write('msgid ""\nmsgstr ""\n"Language: it\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n')
        for n, (source, target) in enumerate(zip(*texts.values(), strict=True)):
            file.write(f'#: source{n // 20}.c:{n}\nmsgid "{n} {source}"\nmsgstr "{target}"\n\n')
    return [str(folder), "--by", "reference"]


def folder(folder: Path, texts: dict[str, list[str]]) -> list[str]:
    for lang, lines in texts.items():
        (folder / lang).mkdir()
        for n in range(0, len(lines), 20):
            body = "".join(f"<p>{escape(line)}</p>\n" for line in lines[n : n + 20])
            menu = "<nav><ul>" + "<li><a href='/'>Menu</a></li>" * 30 + "</ul></nav>"
            page = f"<!DOCTYPE html><html><head><title>{n}</title></head><body>{menu}<main>{body}</main></body></html>"
            (folder / lang / f"{n}.html").write_text(page, encoding="utf-8")
    return [str(folder)]


def bible(folder: Path, texts: dict[str, list[str]]) -> list[str]:
    size = len(texts["en"])
    verses = [f"B{n // 30000:02d} {n // 30 % 1000 + 1}:{n % 30 + 1}" for n in range(size)]
    (folder / "vref.txt").write_text("\n".join(verses) + "\n")
    for lang, lines in texts.items():
        (folder / f"{lang}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [str(folder / f"{lang}.txt") for lang in texts] + ["--references", str(folder / "vref.txt")]


def table(folder: Path, texts: dict[str, list[str]]) -> list[str]:
    with (folder / "made.tsv").open("w", encoding="utf-8") as file:
        file.write("story\tenglish\titaliano\n")
        for n, pair in enumerate(zip(*texts.values(), strict=True)):
            file.write(f"{n}\t" + "\t".join(pair) + "\n")
    return [str(folder / "made.tsv"), "--concept-column", "story", "--wide", "en=english", "--wide", "it=italiano"]


SOURCES: list[Callable[[Path, dict[str, list[str]]], list[str]]] = [
    moses, tmx, europarl, gettext, folder, bible, table,
]  # fmt: skip


def run(command: list[str]) -> tuple[float, float, str]:
    """Run a command; return the seconds, the peak memory in GB, and the output."""
    start, peak = time.perf_counter(), 0
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output)
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            # getrusage would include the memory of this process at the time of the fork.
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
            peak = max(peak, int(lines.get("VmHWM", "0 kB").split()[0]))
            time.sleep(0.05)
        if process.returncode:
            sys.exit(f"{' '.join(command)} failed")
        output.seek(0)
        return time.perf_counter() - start, peak / 1e6, output.read()


def check(documents: list[Document]) -> float:
    """MB/s of the checks after a reader, without their compilation."""
    for _ in clean(documents[:10], SourceSummary()):
        pass
    start = time.perf_counter()
    for _ in clean(documents, SourceSummary()):
        pass
    return sum(len(d.text.encode()) for d in documents) / (time.perf_counter() - start) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=50.0, help="size of the texts in both languages together")
    options = parser.parse_args()
    texts = {lang: list(sentences(lang, int(options.megabytes * 5e5), i)) for i, lang in enumerate(LANGS)}
    shortest = min(map(len, texts.values()))
    texts = {lang: lines[:shortest] for lang, lines in texts.items()}
    for source in SOURCES:
        with tempfile.TemporaryDirectory() as name:
            place, output = Path(name) / "in", Path(name) / "corpus.parquet"
            place.mkdir()
            arguments = source(place, texts)
            size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file()) / 1e6
            cr5 = [sys.executable, "-c", "from cr5.cli import main; main()", "corpus", source.__name__]
            seconds, memory, printed = run([*cr5, *arguments, "-o", str(output), "--json"])
            found = list(read(output))
            assert json.loads(printed)["documents"]["written"] == len(found)
            figures = {
                "source": source.__name__,
                "mb": size,
                "documents": len(found),
                "seconds": seconds,
                "mb_s": size / seconds,
                "check_mb_s": check(found),
                "peak_gb": memory,
            }
            print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
