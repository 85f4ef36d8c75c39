"""How well documents are aligned, and how well passages that were translated from other documents are found.

python benchmarks/alignment.py MODEL DATA --task align
python benchmarks/alignment.py MODEL DATA --task plagiarism

align: documents of 60 consecutive rows of ``europarl-sentences`` (en-it). On each side a tenth of the rows is missing
and an eighth is joined with the next one. A link is right if it has exactly the units that share rows. Precision,
recall and F1 in percent on the links of 20 validation and 40 test documents, for several variants.

plagiarism: the sources are 1,500 Italian documents of 12 rows. A suspect has 12 English rows of elsewhere and, in three
of four suspects, 1 to 4 consecutive rows of one or two sources. Precision and recall in percent are of characters:
those of matches, and those of the rows that were taken, with their source. The threshold is the one with the best F1 on
validation suspects.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from cr5 import Cr5, Document, Index
from cr5.alignment import Link, align_units, find_reused, links
from cr5.alignment.inputs import PASSAGE_WORDS
from cr5.alignment.plagiarism import MIN_SCORE
from data import say

LANGS = "en", "it"
ROWS, VALIDATION, TEST = 60, 20, 40  # of a document; documents
MISSING, JOINED = 0.1, 0.12
SOURCE_ROWS, SOURCES, SUSPECTS = 12, 1_500, 60

Sides = tuple[tuple[int, ...], tuple[int, ...]]


class Pair(NamedTuple):
    """The units of a document in both languages, and the links between them."""

    a: list[str]
    b: list[str]
    gold: set[Sides]


def noisy(texts: Sequence[str], first: int, random: np.random.Generator) -> tuple[list[str], list[list[int]]]:
    """The units of one side and the rows in each: some rows are missing, and some are joined with the next."""
    units, rows, row = [], [], first
    while row < first + ROWS:
        size = 2 if random.random() < JOINED and row + 1 < first + ROWS else 1
        if random.random() >= MISSING:
            units.append(" ".join(texts[row : row + size]))
            rows.append(list(range(row, row + size)))
        row += size
    return units, rows


def gold_links(rows_a: Sequence[Sequence[int]], rows_b: Sequence[Sequence[int]]) -> set[Sides]:
    """Units that share rows, directly or through others."""
    unit_of_b = {row: j for j, rows in enumerate(rows_b) for row in rows}
    groups: list[tuple[set[int], set[int]]] = []
    for i, rows in enumerate(rows_a):
        own, others = {i}, {unit_of_b[row] for row in rows if row in unit_of_b}
        for group in [group for group in groups if group[1] & others]:
            groups.remove(group)
            own, others = own | group[0], others | group[1]
        groups.append((own, others))
    return {(tuple(sorted(own)), tuple(sorted(others))) for own, others in groups if others}


def pairs(texts: tuple[Sequence[str], Sequence[str]], first: int, number: int) -> list[Pair]:
    """Documents from row ``first`` on, one for every 1,000 rows."""
    found = []
    for begin in range(first, first + 1_000 * number, 1_000):
        random = np.random.default_rng(begin)
        (a, rows_a), (b, rows_b) = noisy(texts[0], begin, random), noisy(texts[1], begin, random)
        found.append(Pair(a, b, gold_links(rows_a, rows_b)))
    return found


def shuffled(pair: Pair) -> Pair:
    """The same with the second side in random order."""
    order = np.random.default_rng(0).permutation(len(pair.b)).tolist()
    place = {old: new for new, old in enumerate(order)}
    gold = {(a, tuple(sorted(place[j] for j in b))) for a, b in pair.gold}
    return Pair(pair.a, [pair.b[i] for i in order], gold)


def f1(right: float, found: float, wanted: float) -> list[float]:
    """Precision, recall and F1 in percent."""
    precision, recall = right / max(found, 1), right / max(wanted, 1)
    return [round(100 * x, 1) for x in (precision, recall, 2 * precision * recall / max(precision + recall, 1e-9))]


def score(documents: Sequence[Pair], align: Callable[[Pair], list[Link]]) -> list[float]:
    """Precision, recall and F1 of the links of documents."""
    found = [{link.sides for link in align(pair) if link.a and link.b} for pair in documents]
    right = sum(len(pair.gold & own) for pair, own in zip(documents, found, strict=True))
    return f1(right, sum(map(len, found)), sum(len(pair.gold) for pair in documents))


def align_task(model: Cr5, texts: tuple[Sequence[str], Sequence[str]]) -> dict[str, Any]:
    """The variants: all of it, without the lengths, and one link for each sentence."""

    def aligned(pair: Pair, **options: Any) -> list[Link]:
        return align_units(model, pair.a, LANGS[0], pair.b, LANGS[1], **options)

    parts = {"validation": pairs(texts, 0, VALIDATION), "test": pairs(texts, 100_000, TEST)}
    result: dict[str, Any] = {"links": sum(len(pair.gold) for pair in parts["test"])}
    for name, documents in parts.items():
        weight = links.LENGTH_WEIGHT
        result[name] = {
            "default": score(documents, aligned),
            "1-1 only": score(documents, lambda pair: aligned(pair, moves=((1, 1),))),
            "without 1-3 and 2-2": score(documents, lambda pair: aligned(pair, moves=((1, 1), (1, 2), (2, 1)))),
            "in any order (free), units shuffled": score(
                list(map(shuffled, documents)), lambda pair: aligned(pair, free=True)
            ),
        }
        links.LENGTH_WEIGHT = 0.0
        result[name]["without lengths"] = score(documents, aligned)
        links.LENGTH_WEIGHT = weight
    return result


def plagiarism_task(model: Path, texts: tuple[Sequence[str], Sequence[str]]) -> dict[str, Any]:
    """Precision, recall and F1 of characters, on validation and test suspects."""
    english, italian = texts
    sources = [
        Document(f"S{i}", "it", "\n".join(italian[i * SOURCE_ROWS : (i + 1) * SOURCE_ROWS])) for i in range(SOURCES)
    ]
    matches: dict[str, list[tuple[float, float, float]]] = {}  # similarity, characters, and those that are right
    wanted: dict[str, float] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        Index.create(Path(folder) / "index", model, passage_words=PASSAGE_WORDS) as index,
    ):
        index.add(sources)
        for number in range(2 * SUSPECTS):
            random = np.random.default_rng([number, 5])
            part = ("validation", "test")[number % 2]
            begin = 60_000 + 500 * number
            lines: list[tuple[str, str]] = [(text, "") for text in english[begin : begin + SOURCE_ROWS]]
            for _ in range(random.integers(1, 3) if number % 4 else 0):
                source, size = int(random.integers(SOURCES)), int(random.integers(1, 5))
                first = source * SOURCE_ROWS + int(random.integers(SOURCE_ROWS - size))
                place = int(random.integers(len(lines)))
                lines[place:place] = [(text, f"S{source}") for text in english[first : first + size]]
            found = find_reused(index, "\n".join(text for text, _ in lines), lang="en", langs="it", min_score=0)
            for match in found.matches:
                taken = [lines[found.text.paragraphs[i]][1] == match.source.concept for i in match.suspect.sentences]
                sizes = [len(found.text.sentences[i]) for i in match.suspect.sentences]
                right = sum(size for size, own in zip(sizes, taken, strict=True) if own)
                matches.setdefault(part, []).append((match.score, sum(sizes), right))
            wanted[part] = wanted.get(part, 0) + sum(len(text) for text, source in lines if source)
            say(f"suspect {number + 1}: {len(found.matches)} matches")

    def at(part: str, threshold: float) -> list[float]:
        kept = [match for match in matches[part] if match[0] >= threshold]
        return f1(sum(match[2] for match in kept), sum(match[1] for match in kept), wanted[part])

    thresholds = np.arange(0.05, 0.6, 0.01).round(2).tolist()
    best = max(thresholds, key=lambda threshold: at("validation", threshold)[2])
    tried = {f"{threshold:.2f}": at("validation", threshold) for threshold in thresholds[::5]}
    figures = {part: {"best": at(part, best), "default": at(part, MIN_SCORE)} for part in ("validation", "test")}
    return {"threshold": best, "default threshold": MIN_SCORE, "validation by threshold": tried} | figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path, help="folder with the corpora")
    parser.add_argument("--task", choices=["align", "plagiarism"], default="align")
    given = parser.parse_args()
    table = pq.read_table(given.data / "europarl-sentences" / "en-it.parquet")
    texts = table["en"].to_pylist(), table["it"].to_pylist()
    result = align_task(Cr5.load(given.model), texts) if given.task == "align" else plagiarism_task(given.model, texts)
    print(json.dumps({"benchmark": given.task} | result), flush=True)


if __name__ == "__main__":
    main()
