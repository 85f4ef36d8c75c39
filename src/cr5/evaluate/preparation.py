"""Preparing an evaluation: corpus, split, baselines, output folder."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, TypeAlias

from cr5.corpus.documents import Batch
from cr5.corpus.inputs import Documents, in_batches
from cr5.corpus.languages import canonical_code
from cr5.corpus.skipped import OnError, Skipped
from cr5.corpus.texts import one_or_several
from cr5.errors import Cr5Error, Cr5TypeError, whole_number
from cr5.evaluate.dictionaries import read_dictionaries
from cr5.evaluate.report.formatting import list_languages
from cr5.evaluate.runs import REGIMES, CslsOver, Regime
from cr5.evaluate.splits import MAX_CANDIDATES, MAX_QUERIES, MIN_QUERIES, QuerySet, Split, make_split
from cr5.evaluate.systems.pretrained import Baselines
from cr5.evaluate.systems.registry import SystemEntry, choose_systems
from cr5.evaluate.tasks.documents import HeldOutDocuments, hold_out
from cr5.evaluate.texts import EvaluationCorpus, read_texts
from cr5.features.tokeniser import Tokeniser
from cr5.message_parts import with_article
from cr5.model import Cr5
from cr5.progress import ProgressCallback
from cr5.settings import Settings, make_settings
from cr5.storage.output_paths import check_folder_writable

Paths: TypeAlias = str | Path | Sequence[str | Path]
Systems: TypeAlias = str | Sequence[str | SystemEntry]
"""A key of the registry, several, your own entries, or "all"."""
DEFAULT_BASELINES = ("shared-tokens", "words")  # default baselines for a given model


def path_list(paths: Paths) -> list[str | Path]:
    """One path or several as a list; raises Cr5TypeError for anything else, such as a table."""
    several = list(paths) if isinstance(paths, Sequence | Iterator) and not isinstance(paths, str) else [paths]
    for path in several:
        if not isinstance(path, str | Path):
            raise Cr5TypeError(
                f"a path or several are needed, not {with_article(type(path).__name__)}; write it to a file first"
            )
    return several


def settings_of(given: Settings | Cr5 | Mapping[str, Any] | None) -> Settings:
    """Settings from any of the forms in which the evaluation takes them."""
    if given is None or isinstance(given, Mapping):
        return make_settings(**given or {})
    settings = given.settings if isinstance(given, Cr5) else given
    if not isinstance(settings, Settings):
        raise Cr5TypeError(
            f"`settings` must be a dict of settings, a Cr5 or Settings, not {with_article(type(given).__name__)}"
        )
    return settings


def choose_regimes(regimes: Regime | Sequence[Regime] | Literal["all"]) -> list[Regime]:
    """The regimes in their usual order; raises Cr5Error for an unknown one or none."""
    names = one_or_several(regimes)
    if names == ["all"]:
        return list(REGIMES)
    for name in names:
        if name not in REGIMES:
            raise Cr5Error(f"there is no regime {name!r}; the regimes are {', '.join(REGIMES)}, or all")
    if not names:
        raise Cr5Error(f"`regimes` is empty; the regimes are {', '.join(REGIMES)}, or all")
    return [regime for regime in REGIMES if regime in names]


def reject_if_given(explanation: str, **parameters: object) -> None:
    """Raise Cr5Error for parameters that would be ignored: all that are not None, False or empty."""
    for name, value in parameters.items():
        if value is not None and value is not False and value != ():
            raise Cr5Error(f"`{name}` {explanation}; leave it out")


def corpus_name(corpus: Documents) -> str:
    """The names of the first three files of a corpus; "documents" if it is not in files."""
    if not isinstance(corpus, str | Path | Sequence):
        return "documents"
    paths = [corpus] if isinstance(corpus, str | Path) else list(corpus)
    names = [Path(path).name or str(path) for path in paths[:3] if isinstance(path, str | Path)]
    return ", ".join(names) + (", …" if len(paths) > 3 else "") if names else "documents"


def title(name: str, langs: Sequence[str]) -> str:
    """The title of a run: the name of its corpus and its languages."""
    return f"{name}: {list_languages(langs)}"


def describe_preprocessing(corpus: EvaluationCorpus, masked: bool) -> str:
    """What was done to the texts, for signatures."""
    parts = [f"comparable {'-'.join(corpus.languages)}" if corpus.comparable else "whole documents"]
    parts += ["shared words masked"] if masked else []
    default = asdict(Tokeniser())
    parts += [f"{name}={value}" for name, value in asdict(corpus.tokeniser).items() if value != default[name]]
    return ", ".join(parts)


def prepare_documents(
    corpus: Documents,
    settings: Settings,
    *,
    langs: str | Sequence[str] | None,
    seed: int | None,
    queries: int | None,
    candidates: int | None,
    split: Split | str | Path | None,
    validation: bool = False,
    comparable: bool,
    mask_shared: bool,
    csls_over: CslsOver = "queries",
    on_error: OnError,
    skipped: Skipped | None,
    progress: ProgressCallback,
    should_stop: Callable[[], bool] = lambda: False,
) -> HeldOutDocuments:
    """Read a corpus, draw or load its split, and hold the documents of the split out."""
    if split is not None:
        source = "" if isinstance(split, Split) else f" {split}"
        reject_if_given(f"is determined by the split{source}", seed=seed, queries=queries, candidates=candidates)
    seed = 0 if seed is None else whole_number("seed", seed)
    queries = MAX_QUERIES if queries is None else whole_number("queries", queries, MIN_QUERIES)
    candidates = MAX_CANDIDATES if candidates is None else whole_number("candidates", candidates)
    stored = split if isinstance(split, Split) or split is None else Split.load(split)
    chosen = [canonical_code(lang) for lang in one_or_several(langs)] if langs is not None else None
    chosen = stored.langs if chosen is None and stored else chosen
    if stored and comparable and chosen != stored.langs:
        raise Cr5Error(
            "with `comparable=True` the order of the languages decides which paragraphs each gets; "
            f"use `langs={','.join(stored.langs)}`, the order of the split"
        )

    def batches() -> Iterator[Batch]:
        for batch in in_batches(corpus, on_error=on_error, skipped=skipped):
            if should_stop():
                raise KeyboardInterrupt
            yield batch

    texts = read_texts(batches(), settings.tokeniser, langs=chosen, comparable=comparable, progress=progress)
    used = stored or make_split(
        texts,
        seed=seed,
        queries=queries,
        candidates=candidates,
        min_unique=settings.weighting.min_unique,
        max_unique=settings.weighting.max_unique,
    )
    query_set: QuerySet = "validation" if validation else "test"
    return hold_out(texts, used, query_set=query_set, csls_over=csls_over, mask_shared=mask_shared)


def choose_baselines(train: Documents | None, systems: Systems | None, dictionary: Paths) -> Baselines | None:
    """The systems to compare with a model, if any; raises Cr5Error if some are named without documents to train on."""
    if train is None:
        explanation = "needs documents to train on, which `train` names"
        reject_if_given(explanation, systems=systems, dictionary=dictionary or None)
        return None
    dictionaries = read_dictionaries(path_list(dictionary))
    entries = choose_systems(DEFAULT_BASELINES if systems is None else systems, bool(dictionaries))
    return Baselines(train, entries, dictionaries)


def check_output(output: str | Path | None) -> None:
    """Check, before any work is done, that the folder for results can be written to, or created."""
    if output is not None:
        check_folder_writable(Path(output))
