"""A corpus written in the form of the authors' published data."""

import gzip
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from cr5 import Document
from cr5.evaluate.paper_data.reader import FILE_NAMES
from cr5.features.tokeniser import Tokeniser


def write_miniature(folder: str | Path, documents: Iterable[Document], tokeniser: Tokeniser) -> int:
    """Write documents, of which no two have concept and language in common; return how many contain words."""
    by_lang: dict[str, list[Document]] = {}
    for document in documents:
        by_lang.setdefault(document.lang, []).append(document)
    for name in FILE_NAMES:
        (Path(folder) / name).mkdir(parents=True, exist_ok=True)
    return sum(_write_language(Path(folder), lang, own, tokeniser) for lang, own in by_lang.items())


def _write_language(folder: Path, lang: str, documents: list[Document], tokeniser: Tokeniser) -> int:
    words, ids, offsets = tokeniser([document.text for document in documents], lang)
    total = np.bincount(ids, minlength=len(words))
    by_frequency = sorted(range(len(words)), key=lambda i: (-total[i], words[i]))
    number = {i: n for n, i in enumerate(by_frequency, 1)}
    index = [f"{number[i]}\t{total[i]}\t{words[i]}\n" for i in by_frequency]
    concepts, entries = [], []
    for i, document in enumerate(documents):
        concepts.append(f"{document.concept}\t{' '.join(document.title.split())}\n")
        counts = Counter(number[j] for j in ids[offsets[i] : offsets[i + 1]].tolist())
        entries += [f"{document.concept} {n} {count}\n" for n, count in sorted(counts.items())]
    contents = {"word_indices": index, "concept_indices": concepts, "sparse_matrices": entries}
    for name, lines in contents.items():
        path, data = folder / name / FILE_NAMES[name].format(lang), "".join(lines).encode()
        if name == "sparse_matrices":
            path, data = path.with_name(f"{path.name}.gz"), gzip.compress(data, mtime=0)
        path.write_bytes(data)
    return int((np.diff(offsets) > 0).sum())
