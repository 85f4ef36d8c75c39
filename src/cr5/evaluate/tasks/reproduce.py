"""The reproduction of the paper's Table 1, sections b to e, on the data that its authors published.

Documents have 50 to 1,000 frequent words, queries 100 to 700, as in the authors' scripts. Candidates are held out
from training, as the paper says; the scripts train on them, and so does ``candidates_train``. The models that the
authors published can be measured on the same documents, and on sentences and words.
"""

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from cr5.corpus.languages import find_language
from cr5.corpus.skipped import OnError, Skipped
from cr5.errors import CorpusError
from cr5.evaluate.aligned_sentences import read_aligned
from cr5.evaluate.output import keeping_run
from cr5.evaluate.paper_data.reader import CountedTexts, languages, read
from cr5.evaluate.paper_data.table1 import PUBLISHED, RIDGE
from cr5.evaluate.preparation import check_output
from cr5.evaluate.report.files import write_reports
from cr5.evaluate.runs import REGIMES, LanguagePair, Regime, Run, merge
from cr5.evaluate.splits import MAX_CANDIDATE_SHARE, MAX_CANDIDATES, MAX_QUERIES, make_split
from cr5.evaluate.systems.cr5_system import Cr5VectorSystem, cr5_system, model_system
from cr5.evaluate.systems.precomputed import as_system
from cr5.evaluate.systems.pretrained import PretrainedSystems
from cr5.evaluate.tasks.documents import HeldOutDocuments, evaluate_documents, hold_out
from cr5.evaluate.tasks.sentences import evaluate_sentences
from cr5.evaluate.tasks.words import evaluate_words
from cr5.evaluate.texts import EvaluationCorpus, TokenisedTexts
from cr5.features.tokeniser import Tokeniser
from cr5.model import Cr5
from cr5.progress import ProgressCallback, no_progress
from cr5.settings import make_settings

DOCUMENT_WORDS, QUERY_WORDS = (50, 1000), (100, 700)  # the fewest and the most frequent words
LOW_RESOURCE_CONCEPTS = 10_000
PAPER_LANGS = ("da", "en", "it", "vi")
PIVOT = "en"  # the third language of transitive training


@dataclass(frozen=True)
class PaperData:
    """The authors' data in a folder, and how it is read and split.

    ``langs`` are by default those of the paper that the data has, or all if these are fewer than two. Documents and
    queries have ``document_words`` and ``query_words`` frequent words, from the fewest to the most.
    """

    folder: Path
    langs: list[str] | None = None
    document_words: tuple[int, int] = DOCUMENT_WORDS
    query_words: tuple[int, int] = QUERY_WORDS
    queries: int = MAX_QUERIES
    candidates: int = MAX_CANDIDATES
    candidates_train: bool = False
    seed: int = 0
    on_error: OnError = "raise"
    skipped: Skipped | None = None

    def title(self, langs: Sequence[str]) -> str:
        return f"{self.folder.name}: {', '.join(langs)}"

    def facts(self) -> dict[str, Any]:
        return {"documents": list(self.document_words), "asked": list(self.query_words)}

    def choose_languages(self, available: list[str]) -> list[str]:
        """The languages to evaluate, of those that are available; raises CorpusError if these are fewer than two."""
        chosen = [find_language(lang, available) or lang for lang in self.langs or ()] or [
            lang for lang in PAPER_LANGS if lang in available
        ]
        if self.langs is None and len(chosen) < 2:
            chosen = available
        if len(chosen) < 2:
            raise CorpusError(
                f"there is only one language ({', '.join(chosen)}), and at least two are needed; name two or more in "
                "`langs`, or add the files of another"
            )
        return chosen

    def hold_out(self, langs: list[str], progress: ProgressCallback) -> HeldOutDocuments:
        """Read the documents in these languages, draw a split, and hold the documents of the split out."""
        names, texts = read(self.folder, langs, on_error=self.on_error, skipped=self.skipped, progress=progress)
        digest = _digest(texts)
        limits = self.document_words, self.query_words
        corpus, query_corpus = (_corpus(names, texts, words, digest) for words in limits)
        split = make_split(
            corpus,
            seed=self.seed,
            queries=self.queries,
            candidates=self.candidates,
            query_corpus=query_corpus,
            candidate_share=1.0 if self.candidates_train else MAX_CANDIDATE_SHARE,
            candidates_train=self.candidates_train,
        )
        return hold_out(corpus, split)


def reproduce(
    data: PaperData,
    *,
    low_resource: int = LOW_RESOURCE_CONCEPTS,
    overrides: Mapping[str, Any] | None = None,
    output: Path | None = None,
    progress: ProgressCallback = no_progress,
) -> Run:
    """Train and evaluate in all four regimes, with the published ridge where it is known, otherwise a chosen one.

    ``overrides`` are settings that differ from the paper's. Reports are written into the folder ``output``.
    """
    check_output(output)
    started = time.perf_counter()
    chosen = data.choose_languages(languages(data.folder))
    held_out = data.hold_out(chosen, progress)
    title = data.title(chosen)

    def evaluate_part(regime: Regime, pair: LanguagePair | None) -> Run:
        # The documents have been chosen by their frequent words; no other limit may apply.
        no_limits = {"min_unique": 0, "max_unique": 10**9, "ridge": _published_ridge(regime, chosen, pair)}
        of_part = make_settings("wsdm19", **no_limits | dict(overrides or {}))
        return evaluate_documents(
            held_out,
            {"cr5 as in the paper": cr5_system(of_part, progress)},
            title=title,
            regimes=[regime],
            pairs=None if pair is None else [pair],
            rank=of_part.nominal_rank,
            seed=data.seed,
            low_resource=low_resource,
            pivot=PIVOT if PIVOT in chosen else None,
            drop_shared=True,
            progress=progress,
        )

    run = merge([evaluate_part(regime, pair) for regime in REGIMES for pair in _pairs(regime, held_out)], title)
    run.facts.update(
        data.facts()
        | {
            "low-resource": low_resource,
            "candidates_train": data.candidates_train,
            "changes": dict(overrides or {}),
            "seconds": time.perf_counter() - started,
        }
    )
    if output is not None:
        with keeping_run(run, output, "write_reports"):
            write_reports(run, output, held_out.split)
    return run


class PublishedRuns(NamedTuple):
    """What a published model reaches on documents, and on sentences and words if there are files of these."""

    documents: Run
    sentences: Run | None
    words: Run | None

    def by_task(self) -> dict[str, Run]:
        """The runs by task, without those that were not asked for."""
        return {task: run for task, run in self._asdict().items() if run is not None}


def reproduce_published(
    data: PaperData,
    model: Cr5,
    *,
    sentences: Sequence[Path] = (),
    words: Sequence[Path] = (),
    output: Path | None = None,
    progress: ProgressCallback = no_progress,
) -> PublishedRuns:
    """Measure a model that ``Cr5.load_published`` read, by its vectors alone, on the documents of ``reproduce``.

    ``sentences`` are line-aligned files, ``words`` dictionaries, as ``evaluate.sentences`` and ``evaluate.words`` take
    them. The model may have been trained on documents that are queries or candidates here: which ones its authors held
    out is not known, and a note says so. Reports are written into a folder for each task below ``output``.
    """
    check_output(output)
    known = [lang for lang in languages(data.folder) if find_language(lang, model.langs) is not None]
    chosen, name = data.choose_languages(known), "cr5 as published"
    held_out = data.hold_out(chosen, progress)
    fitted = _published_system(model, chosen)
    run = evaluate_documents(
        held_out,
        {name: as_system(fitted)},
        title=data.title(chosen),
        regimes=["pairwise" if model.report["published"].startswith("pairwise") else "joint"],
        rank=model.rank,
        seed=data.seed,
        progress=progress,
    )
    run.notes.append(
        f"{model.report['published']} was trained on documents of this data, and its authors have not said on which: "
        "queries and candidates may be among them"
    )
    # How many concepts two languages share here says nothing about the training of the model.
    run = replace(run, scores=[replace(score, shared=None) for score in run.scores])
    run.facts.update(data.facts() | {"model": model.report})
    pretrained = PretrainedSystems({name: _published_system(model, model.langs)}, model.settings.tokeniser)
    runs = PublishedRuns(
        run,
        evaluate_sentences(pretrained, read_aligned(sentences, model.langs), progress=progress) if sentences else None,
        evaluate_words(pretrained, words, progress=progress) if words else None,
    )
    if output is not None:
        for task, of_task in runs.by_task().items():
            with keeping_run(runs, output / task, "write_reports"):
                write_reports(of_task, output / task, held_out.split if task == "documents" else None)
    return runs


def _published_system(model: Cr5, langs: Sequence[str]) -> Cr5VectorSystem:
    fitted = model_system(model, [model.find_language(lang) for lang in langs])
    fitted.replaceable_idf = False  # published vectors are not weighted by IDF
    return fitted


def _pairs(regime: str, held_out: HeldOutDocuments) -> list[LanguagePair | None]:
    """The pairs to train on their own: the paper's, or all if it has none of these; None for joint training."""
    if regime == "joint":
        return [None]
    if regime == "transitive" and len(held_out.split.langs) < 3:
        return []
    every = [pair.langs for pair in held_out.split.pairs]
    printed = PUBLISHED[regime]
    return [pair for pair in every if pair in printed or pair[::-1] in printed] or list(every)


def _published_ridge(regime: str, langs: list[str], pair: LanguagePair | None) -> float | Literal["auto"]:
    known = RIDGE.get(regime, {})
    if pair is None:
        return next(iter(known.values())) if known and set(langs) == set(PAPER_LANGS) else "auto"
    return known.get(pair, known.get(pair[::-1], "auto"))


def _corpus(
    names: list[str], texts: Mapping[str, CountedTexts], limits: tuple[int, int], digest: str
) -> EvaluationCorpus:
    low, high = limits
    kept: dict[str, TokenisedTexts] = {
        lang: documents.select_rows(np.flatnonzero((documents.frequent >= low) & (documents.frequent <= high)))
        for lang, documents in texts.items()
    }
    return EvaluationCorpus(names, kept, digest, Tokeniser(pretokenised=True), {}, False)


def _digest(texts: Mapping[str, CountedTexts]) -> str:
    digest = hashlib.sha256()
    for lang, documents in sorted(texts.items()):
        matrix = documents.counts.matrix
        for array in (documents.concepts, matrix.indptr, matrix.indices, matrix.data):
            digest.update(lang.encode() + np.ascontiguousarray(array).astype(np.int64).tobytes())
    return digest.hexdigest()[:16]
