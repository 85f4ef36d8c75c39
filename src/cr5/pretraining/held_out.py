"""Articles that a pretrained model is not trained on: chosen by a hash of their concept, and compared afterwards."""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa

from cr5._typing import Ints
from cr5.corpus.documents import Batch
from cr5.corpus.reading import read, read_batches
from cr5.corpus.texts import shared_numbers
from cr5.corpus.writing import write
from cr5.errors import Cr5Error
from cr5.evaluate.aligned_sentences import AlignedSentences
from cr5.evaluate.runs import Run
from cr5.evaluate.systems.pretrained import PretrainedSystems, load_systems
from cr5.evaluate.systems.registry import SYSTEMS
from cr5.evaluate.systems.shared_tokens import shared_tokens
from cr5.evaluate.tasks.sentences import evaluate_sentences
from cr5.evaluate.texts import read_texts
from cr5.hashing import hash_texts
from cr5.model import Cr5
from cr5.progress import Progress, ProgressCallback, no_progress

MAX_CONCEPTS = 2000
MAX_SHARE = 0.1  # largest share of the concepts that two languages or more have
MIN_CONCEPTS = 10


def hold_out(corpus: Path, target: Path, progress: ProgressCallback = no_progress) -> int:
    """Write the documents of some concepts, which two languages or more have, to a file; return how many concepts.

    Which ones depends only on the names of the concepts that are shared, not on the order of the files.
    """
    hashes: dict[str, list[Ints]] = {}
    for number, batch in enumerate(read_batches(corpus)):
        progress(Progress("hold out", number, None, batch.source))
        own = _hashes(batch)
        langs = np.array(batch.rows["lang"].to_pylist())
        for lang in np.unique(langs):
            hashes.setdefault(str(lang), []).append(own[langs == lang])
    shared = shared_numbers(map(np.concatenate, hashes.values()))
    chosen = shared[: min(MAX_CONCEPTS, int(MAX_SHARE * len(shared)))]
    if len(chosen) < MIN_CONCEPTS:
        raise Cr5Error(
            f"{corpus} has {len(shared):,} concepts in two languages or more, and {MIN_CONCEPTS / MAX_SHARE:.0f} are "
            "needed to hold some out; increase `sample`, or add languages"
        )
    write(target, (document for batch in _select(corpus, chosen, True) for document in batch.documents()))
    return len(chosen)


def training_batches(corpus: Path, held_out: Path) -> Iterator[Batch]:
    """The documents of a corpus without those whose concepts are held out."""
    chosen = np.unique(np.concatenate([_hashes(batch) for batch in read_batches(held_out)]))
    return _select(corpus, chosen, False)


def _select(corpus: Path, chosen: Ints, held_out: bool) -> Iterator[Batch]:
    for batch in read_batches(corpus):
        rows = np.flatnonzero(np.isin(_hashes(batch), chosen, kind="sort") == held_out)
        if len(rows):
            yield Batch(batch.rows.take(pa.array(rows)), batch.source, batch.lines[rows])


def _hashes(batch: Batch) -> Ints:
    return hash_texts(
        batch.rows["concept"].to_pylist()
    ).byteswap()  # big-endian: their order decides which are held out


def evaluate_held_out(model: Cr5, held_out: Path, progress: ProgressCallback = no_progress) -> Run:
    """How often a held-out article's counterpart is ranked first among all held-out articles of the other language."""
    texts: dict[str, dict[str, str]] = {lang: {} for lang in model.langs}
    for document in read(held_out, langs=model.langs):
        texts[document.lang].setdefault(document.concept, document.text)
    pairs = []
    for a, b in combinations(model.langs, 2):
        both = sorted(texts[a].keys() & texts[b].keys())
        if len(both) >= MIN_CONCEPTS:
            aligned = [texts[a][concept] for concept in both], [texts[b][concept] for concept in both]
            pairs.append(AlignedSentences((a, b), aligned, str(held_out.name)))
    if not pairs:
        raise Cr5Error(f"no two languages share {MIN_CONCEPTS} held-out concepts; increase `sample`")
    tokeniser = model.settings.tokeniser
    counted = read_texts(read_batches(held_out, langs=model.langs), tokeniser).languages
    baseline = {SYSTEMS["shared-tokens"].name: shared_tokens(counted, rank=model.rank, seed=0)}
    fitted_systems = {**load_systems(model, model.langs, None, progress).fitted_systems, **baseline}
    sizes = [len(pair) for pair in pairs]
    most = f"{min(sizes):,} to {max(sizes):,}" if min(sizes) < max(sizes) else f"{max(sizes):,}"
    return evaluate_sentences(
        PretrainedSystems(fitted_systems, tokeniser), pairs, queries=MAX_CONCEPTS, separate=0.0,
        title=f"{most} held-out articles of each pair of languages", progress=progress,
    )  # fmt: skip
