"""The paper's experiment on the data that its authors published: Table 1, sections b to e, once more.

Documents have 50 to 1,000 frequent words, queries 100 to 700, as in the authors' scripts. Candidates are
kept out of training, as the paper says; the scripts let them train, and so does ``candidates_train``.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cr5.corpus.documents import Skipped
from cr5.errors import CorpusError
from cr5.evaluate.published import PUBLISHED, RIDGE, Counted, Pair, languages, read
from cr5.evaluate.runs import REGIMES, Regime, Run, merge
from cr5.evaluate.splits import MAX_CANDIDATE_SHARE, MAX_CANDIDATES, MAX_QUERIES, Split, make_split
from cr5.evaluate.systems.own import cr5_system
from cr5.evaluate.tasks.documents import HeldOutDocuments, evaluate_documents, hold_out
from cr5.evaluate.texts import EvaluationCorpus, TokenisedTexts
from cr5.features.tokeniser import Tokeniser
from cr5.progress import ProgressCallback, silent
from cr5.settings import settings

DOCUMENTS, ASKED = (50, 1000), (100, 700)  # frequent words of a document, and of one that is asked with
CUT = 10_000
LANGS = ("da", "en", "it", "vi")
BRIDGE = "en"


def reproduce(
    folder: Path,
    *,
    langs: list[str] | None = None,
    documents: tuple[int, int] = DOCUMENTS,
    asked: tuple[int, int] = ASKED,
    queries: int = MAX_QUERIES,
    candidates: int = MAX_CANDIDATES,
    candidates_train: bool = False,
    low_resource: int = CUT,
    seed: int = 0,
    changes: Mapping[str, Any] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    skipped: Skipped | None = None,
    progress: ProgressCallback = silent,
) -> tuple[Run, Split]:
    """Train and ask in all four regimes, with the published ridge where it is known, otherwise a chosen one.

    ``langs`` are those of the paper where the data has them, otherwise all. ``changes`` are settings.
    """
    there = languages(folder)
    chosen = langs or [lang for lang in LANGS if lang in there]
    if langs is None and len(chosen) < 2:
        chosen = there
    if len(chosen) < 2:
        raise CorpusError(f"there is one language only to ask about ({', '.join(chosen)}); two or more are needed")
    names, found = read(folder, chosen, on_error=on_error, skipped=skipped, progress=progress)
    digest = _digest(found)
    material, query_corpus = (_material(names, found, bounds, digest) for bounds in (documents, asked))
    share = 1.0 if candidates_train else MAX_CANDIDATE_SHARE
    split = make_split(
        material, seed=seed, queries=queries, candidates=candidates, query_corpus=query_corpus, candidate_share=share,
        candidates_train=candidates_train,
    )  # fmt: skip
    held = hold_out(material, split)
    title = f"{Path(folder).name}: {', '.join(chosen)}"
    runs = [
        _part(held, regime, pair, low_resource, seed, dict(changes or {}), title, progress)
        for regime in REGIMES
        for pair in _pairs(regime, held)
    ]
    run = merge(runs, title)
    run.facts.update(
        {
            "documents": list(documents),
            "asked": list(asked),
            "low-resource": low_resource,
            "candidates_train": candidates_train,
            "changes": dict(changes or {}),
        }
    )
    return run, split


def _pairs(regime: str, held: HeldOutDocuments) -> list[Pair | None]:
    """What is trained by itself: joint training is one, the others take the paper's pairs, or all if it has none."""
    if regime == "joint":
        return [None]
    every = [pair.langs for pair in held.split.pairs]
    if regime == "transitive" and len(held.split.langs) < 3:
        return []
    return [pair for pair in every if _printed(pair, regime)] or list(every)


def _printed(pair: Pair, regime: str) -> bool:
    return pair in PUBLISHED[regime] or pair[::-1] in PUBLISHED[regime]


def _part(
    held: HeldOutDocuments,
    regime: Regime,
    pair: Pair | None,
    low_resource: int,
    seed: int,
    changes: dict[str, Any],
    title: str,
    progress: ProgressCallback,
) -> Run:
    known = RIDGE.get(regime, {})
    ridge = _known_ridge(known, held.split.langs, pair)
    # The documents have been chosen by their frequent words; no other limit is to apply.
    plain = {"min_unique": 0, "max_unique": 10**9, "ridge": ridge}
    own = settings("wsdm19", **plain | changes)
    bridge = BRIDGE if BRIDGE in held.split.langs else None
    return evaluate_documents(
        held, {"cr5 as in the paper": cr5_system(own, progress=progress)}, title=title, regimes=[regime],
        pairs=None if pair is None else [pair], rank=own.rank, seed=seed, low_resource=low_resource, bridge=bridge,
        drop_shared=True, progress=progress,
    )  # fmt: skip


def _known_ridge(known: Mapping[Pair, float], langs: list[str], pair: Pair | None) -> float | Literal["auto"]:
    """The published ridge, where these are the languages that it was used for."""
    if pair is None:
        return next(iter(known.values())) if known and set(langs) == set(LANGS) else "auto"
    return known.get(pair, known.get(pair[::-1], "auto"))


def _material(names: list[str], found: Mapping[str, Counted], bounds: tuple[int, int], digest: str) -> EvaluationCorpus:
    """The documents with so many frequent words."""
    kept: dict[str, TokenisedTexts] = {
        lang: own.rows(np.flatnonzero((own.frequent >= bounds[0]) & (own.frequent <= bounds[1])))
        for lang, own in found.items()
    }
    return EvaluationCorpus(names, kept, digest, Tokeniser(pretokenised=True), {}, False)


def _digest(found: Mapping[str, Counted]) -> str:
    digest = hashlib.sha256()
    for lang, own in sorted(found.items()):
        matrix = own.counts.matrix
        for part in (own.concepts, matrix.indptr, matrix.indices, matrix.data):
            digest.update(lang.encode() + np.ascontiguousarray(part).astype(np.int64).tobytes())
    return digest.hexdigest()[:16]
