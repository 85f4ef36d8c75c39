"""Systems that were trained before they are queried: a model, and the baselines that it is compared with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from cr5.corpus.inputs import Documents, in_batches
from cr5.corpus.languages import canonical_code, find_language
from cr5.errors import Cr5Error, NotFittedError
from cr5.evaluate.dictionaries import WordPairs
from cr5.evaluate.run_builder import RunBuilder
from cr5.evaluate.runs import PRETRAINED, FailedSystem
from cr5.evaluate.systems.cr5_system import model_system
from cr5.evaluate.systems.fitted_system import FittedSystem
from cr5.evaluate.systems.registry import SYSTEMS, SystemEntry, make_systems
from cr5.evaluate.systems.views import Cr5Views
from cr5.evaluate.texts import read_texts
from cr5.features.tokeniser import Tokeniser
from cr5.model import Cr5
from cr5.progress import Progress, ProgressCallback


@dataclass(frozen=True)
class PretrainedSystems:
    """A model and its baselines as fitted systems, and the tokeniser that all of them read texts with.

    ``entries`` are those of all these systems. ``details`` is what signatures say about the training of the baselines,
    ``failed`` those that could not be trained. ``facts`` say how many documents in every language they were trained
    on, and why not on the others.
    """

    fitted_systems: Mapping[str, FittedSystem]
    tokeniser: Tokeniser
    entries: Sequence[SystemEntry] = ()
    details: Mapping[str, str] = field(default_factory=dict)
    failed: Sequence[FailedSystem] = ()
    facts: Mapping[str, dict[str, dict[str, int]]] = field(default_factory=dict)


class Baselines(NamedTuple):
    """Systems to train and to compare with a model: on which documents, and with which dictionaries."""

    documents: Documents
    entries: Sequence[SystemEntry]
    dictionaries: Mapping[tuple[str, str], WordPairs]


def load_systems(
    model: Cr5 | str | Path, langs: Sequence[str], baselines: Baselines | None, progress: ProgressCallback
) -> PretrainedSystems:
    """A model, with all views and with its vectors alone, and baselines, which are trained here."""
    model = model if isinstance(model, Cr5) else Cr5.load(model)
    if not model.langs:
        raise NotFittedError
    known = [lang for lang in model.langs if find_language(lang, langs) is not None]
    if not known:
        raise Cr5Error(
            f"the model has none of the languages {', '.join(langs)}; its languages are {', '.join(model.langs)}"
        )
    dense = model_system(model, known)
    fitted_systems: dict[str, FittedSystem] = {"cr5": Cr5Views(dense, model.lexicon), "cr5-dense": dense}
    tokeniser, entries = model.settings.tokeniser, [SYSTEMS["cr5"], SYSTEMS["cr5-dense"]]
    if baselines is None:
        return PretrainedSystems(fitted_systems, tokeniser, entries)
    codes = [canonical_code(lang) for lang in known]
    corpus = read_texts(in_batches(baselines.documents), tokeniser, langs=codes, progress=progress)
    weighting = model.settings.weighting
    texts = corpus.with_unique_words(weighting.min_unique, weighting.max_unique).languages
    systems = make_systems(baselines.entries, model.settings, texts, baselines.dictionaries, progress)
    builder, details = RunBuilder(), {}
    for i, (system, fit) in enumerate(systems.items()):
        name = f"{system} (trained here)" if system in fitted_systems else system
        progress(Progress("train", i, len(systems), system))
        with builder.record_failure(name, PRETRAINED, known):
            fitted_systems[name] = fit(texts, rank=model.rank, seed=model.settings.seed)
            details[name] = f"trained on {corpus.digest}"
    counted = {}
    for lang, documents in corpus.languages.items():
        short = int((documents.counts.unique_words < weighting.min_unique).sum())
        kept = len(texts[lang])
        counted[lang] = {"read": len(documents), "trained": kept, "short": short, "long": len(documents) - kept - short}
    entries += baselines.entries
    return PretrainedSystems(fitted_systems, tokeniser, entries, details, builder.failed, {"training": counted})
