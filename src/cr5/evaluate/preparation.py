"""Preparing an evaluation: corpus, split, baselines, output folder."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from cr5.corpus.documents import Batch
from cr5.corpus.inputs import Documents, in_batches
from cr5.corpus.languages import canonical_code, find_language
from cr5.corpus.skipped import OnError, Skipped
from cr5.corpus.texts import one_or_several
from cr5.errors import Cr5Error, Cr5TypeError, whole_number
from cr5.evaluate.dictionaries import WordPairs
from cr5.evaluate.report.formatting import list_languages
from cr5.evaluate.run_builder import RunBuilder
from cr5.evaluate.runs import REGIMES, TRAINED_ELSEWHERE, CslsOver, FailedSystem, Regime
from cr5.evaluate.splits import MAX_CANDIDATES, MAX_QUERIES, Split, make_split
from cr5.evaluate.systems.cr5_system import model_space
from cr5.evaluate.systems.registry import SystemEntry, choose_systems, make_systems
from cr5.evaluate.systems.space import Space
from cr5.evaluate.systems.views import Cr5Views
from cr5.evaluate.tasks.documents import HeldOutDocuments, hold_out
from cr5.evaluate.texts import EvaluationCorpus, read_texts
from cr5.features.tokeniser import Tokeniser
from cr5.model import Cr5
from cr5.progress import Progress, ProgressCallback
from cr5.settings import Settings, make_settings
from cr5.storage.targets import check_writable

Paths: TypeAlias = str | Path | Sequence[str | Path]
Systems: TypeAlias = str | Sequence[str | SystemEntry]
"""A key of the registry, several, entries of one's own, or "all"."""
DEFAULT_BASELINES = ("shared-tokens", "words")  # that are compared with a given model


@dataclass(frozen=True)
class SplitOptions:
    """How a corpus is read and split; ``cr5.evaluate.documents`` describes the options."""

    langs: str | Sequence[str] | None = None
    seed: int | None = None
    queries: int | None = None
    candidates: int | None = None
    split: Split | str | Path | None = None
    validation: bool = False
    comparable: bool = False
    mask_shared: bool = False
    csls_over: CslsOver = "queries"
    on_error: OnError = "raise"

    def __post_init__(self) -> None:
        for name in ("seed", "queries", "candidates"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, whole_number(name, value))  # a split is stored as JSON


def path_list(paths: Paths) -> list[str | Path]:
    """One path or several as a list; raises Cr5TypeError for anything else, such as a table."""
    if not isinstance(paths, str | Path | Sequence | Iterator):
        raise Cr5TypeError(f"a path or several are needed, not a {type(paths).__name__}; write it to a file first")
    return [paths] if isinstance(paths, str | Path) else list(paths)


def settings_of(given: Settings | Cr5 | Mapping[str, Any] | None) -> Settings:
    """Settings from any of the forms in which the evaluation takes them."""
    if given is None or isinstance(given, Mapping):
        return make_settings(**given or {})
    settings = given.settings if isinstance(given, Cr5) else given
    if not isinstance(settings, Settings):
        raise Cr5TypeError(f"`settings` must be a dict of settings, a Cr5 or Settings, not a {type(given).__name__}")
    return settings


def choose_regimes(regimes: Regime | Sequence[Regime] | Literal["all"]) -> list[Regime]:
    """The regimes in their usual order; raises Cr5Error for an unknown one or none."""
    names = list(REGIMES) if regimes == "all" else one_or_several(regimes)
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


def variant(corpus: EvaluationCorpus, masked: bool) -> str:
    """What was done to the texts, for signatures."""
    parts = [f"comparable {'-'.join(corpus.languages)}" if corpus.comparable else "whole documents"]
    parts += ["shared words masked"] if masked else []
    default = asdict(Tokeniser())
    parts += [f"{name}={value}" for name, value in asdict(corpus.tokeniser).items() if value != default[name]]
    return ", ".join(parts)


def prepare_documents(
    corpus: Documents,
    settings: Settings,
    options: SplitOptions,
    *,
    skipped: Skipped | None,
    progress: ProgressCallback,
    should_stop: Callable[[], bool] = lambda: False,
) -> HeldOutDocuments:
    """Read a corpus, draw or load its split, and hold the documents of the split out."""
    split, seed, queries, candidates = options.split, options.seed, options.queries, options.candidates
    if split is not None:
        explanation = f"is determined by the split {'' if isinstance(split, Split) else split}".rstrip()
        reject_if_given(explanation, seed=seed, queries=queries, candidates=candidates)
    stored = split if isinstance(split, Split) or split is None else Split.load(split)
    langs = [canonical_code(lang) for lang in one_or_several(options.langs)] if options.langs is not None else None
    langs = stored.langs if langs is None and stored else langs
    if stored and options.comparable and langs != stored.langs:
        raise Cr5Error(
            "with `comparable=True` the order of the languages decides which paragraphs each gets; "
            f"use `langs={','.join(stored.langs)}`, the order of the split"
        )

    def batches() -> Iterator[Batch]:
        for batch in in_batches(corpus, on_error=options.on_error, skipped=skipped):
            if should_stop():
                raise KeyboardInterrupt
            yield batch

    texts = read_texts(batches(), settings.tokeniser, langs=langs, comparable=options.comparable, progress=progress)
    used = stored or make_split(
        texts,
        seed=seed or 0,
        queries=MAX_QUERIES if queries is None else queries,
        candidates=MAX_CANDIDATES if candidates is None else candidates,
        min_unique=settings.weighting.min_unique,
        max_unique=settings.weighting.max_unique,
    )
    query_set: Literal["test", "validation"] = "validation" if options.validation else "test"
    return hold_out(texts, used, query_set=query_set, csls_over=options.csls_over, mask_shared=options.mask_shared)


def choose_baselines(train: Documents | None, systems: Systems | None, dictionary: Paths) -> list[SystemEntry]:
    """The systems to train beside a model; raises Cr5Error if some are named without documents to train them on."""
    if train is None:
        explanation = "needs documents to train on, which `train` names"
        reject_if_given(explanation, systems=systems, dictionary=dictionary or None)
        return []
    return choose_systems(DEFAULT_BASELINES if systems is None else systems, bool(path_list(dictionary)))


class LoadedSpaces(NamedTuple):
    """The spaces of a model and of baselines trained beside it.

    ``details`` is what signatures say about the training of the baselines, ``failed`` those that could not be trained.
    ``facts`` say how many documents in every language they were trained on, and why not on the others.
    """

    spaces: dict[str, Space]
    details: dict[str, str]
    failed: list[FailedSystem]
    facts: dict[str, dict[str, dict[str, int]]]


def load_spaces(
    model: Cr5,
    langs: Sequence[str],
    train: Documents | None,
    entries: Sequence[SystemEntry],
    dictionaries: Mapping[tuple[str, str], WordPairs],
    progress: ProgressCallback,
) -> LoadedSpaces:
    """The spaces of a model, with all views and with its vectors alone, and those of baselines trained on ``train``."""
    known = [lang for lang in model.langs if find_language(lang, langs) is not None]
    if not known:
        raise Cr5Error(
            f"the model has none of the languages {', '.join(langs)}; its languages are {', '.join(model.langs)}"
        )
    dense = model_space(model, known)
    spaces: dict[str, Space] = {"cr5": Cr5Views(dense, model.lexicon), "cr5-dense": dense}
    if train is None:
        return LoadedSpaces(spaces, {}, [], {})
    codes = [canonical_code(lang) for lang in known]
    corpus = read_texts(in_batches(train), model.settings.tokeniser, langs=codes, progress=progress)
    weighting = model.settings.weighting
    texts = corpus.with_unique_words(weighting.min_unique, weighting.max_unique).languages
    systems = make_systems(entries, model.settings, texts, dictionaries, progress)
    builder, details = RunBuilder(), {}
    for i, (system, fit) in enumerate(systems.items()):
        name = f"{system} (trained here)" if system in spaces else system
        progress(Progress("train", i, len(systems), system))
        with builder.record_failure(name, TRAINED_ELSEWHERE, known):
            spaces[name] = fit(texts, rank=model.rank, seed=model.settings.seed)
            details[name] = f"trained on {corpus.digest}"
    counted = {}
    for lang, of_lang in corpus.languages.items():
        short = int((of_lang.counts.unique_words < weighting.min_unique).sum())
        kept = len(texts[lang])
        counted[lang] = {"read": len(of_lang), "trained": kept, "short": short, "long": len(of_lang) - kept - short}
    return LoadedSpaces(spaces, details, builder.failed, {"training": counted})


def check_output(output: str | Path | None) -> None:
    """Create the folder for results and check that it can be written to, before any work is done."""
    if output is None:
        return
    check_writable(Path(output))
    Path(output).mkdir(parents=True, exist_ok=True)
