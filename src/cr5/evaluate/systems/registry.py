"""The registry of systems: an entry for each, with its key, its name in tables, its role and its factory.

To add a baseline, write one module with a function of the ``System`` protocol, and append its entry at the end of
``SYSTEMS``: the place of a system there is its colour in reports, which must not change.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Literal, NamedTuple, TypeAlias

from cr5.corpus.texts import one_or_several
from cr5.errors import Cr5Error, MissingPackageError
from cr5.evaluate.dictionaries import WordPairs
from cr5.evaluate.systems.bm25 import bm25
from cr5.evaluate.systems.cr5_system import cr5_system
from cr5.evaluate.systems.esa import cl_esa
from cr5.evaluate.systems.fitted_system import FittedSystem, System
from cr5.evaluate.systems.inverted_indexing import inverted
from cr5.evaluate.systems.lsi import cl_lsi
from cr5.evaluate.systems.shared_tokens import shared_tokens
from cr5.evaluate.systems.views import SharedTraining, character_ngrams, cr5_dense, cr5_views
from cr5.evaluate.systems.within_language import within_language
from cr5.evaluate.systems.word_vectors import MonolingualVectors, word_vectors
from cr5.evaluate.texts import TokenisedTexts
from cr5.progress import ProgressCallback, no_progress
from cr5.settings import Settings, make_settings

SystemRole: TypeAlias = Literal["own", "baseline", "upper bound"]
"""What a system is in a comparison: cr5 itself, a baseline, or TF-IDF within one language, the upper bound.

It bounds what shared words find; a system that learns what words mean can exceed it.
"""


@dataclass(frozen=True)
class SystemOptions:
    """What the systems of an evaluation are made with, and what they share: word vectors, and a trained cr5."""

    settings: Settings
    dictionaries: Mapping[tuple[str, str], WordPairs]
    monolingual: MonolingualVectors
    shared: SharedTraining
    progress: ProgressCallback = no_progress


class Package(NamedTuple):
    """An optional dependency: its name for pip and the module that it installs."""

    name: str
    module: str


SKLEARN, GENSIM = Package("scikit-learn", "sklearn"), Package("gensim", "gensim")


@dataclass(frozen=True)
class SystemEntry:
    """One system: its key in ``systems``, its name in tables and files, its role, and how to make it."""

    key: str
    name: str
    role: SystemRole
    make: Callable[[SystemOptions], System]
    package: Package | None = None


def _paper_settings(chosen: Settings) -> Settings:
    """The preset of the paper with the chosen rank, ridge, document lengths, vocabulary limits and tokeniser."""
    limits = ("min_documents", "max_words", "min_unique", "max_unique")
    same = {name: getattr(chosen.weighting, name) for name in limits}
    return replace(make_settings("wsdm19", rank=chosen.rank, ridge=chosen.ridge, **same), tokeniser=chosen.tokeniser)


def _dictionary_word_vectors(options: SystemOptions) -> System:
    if not options.dictionaries:
        raise Cr5Error(f"it {_NO_DICTIONARY}")
    return word_vectors(options.monolingual, options.dictionaries)


_NO_DICTIONARY = "needs a bilingual dictionary; give one with `dictionary=en-it.tsv`"
SYSTEMS: dict[str, SystemEntry] = {
    entry.key: entry
    for entry in (
        SystemEntry("cr5", "cr5", "own", lambda o: cr5_views(o.settings, o.shared)),
        SystemEntry("cr5-dense", "cr5-dense", "own", lambda o: cr5_dense(o.settings, o.shared)),
        SystemEntry(
            "wsdm19", "cr5 as in the paper", "own",
            lambda o: cr5_system(_paper_settings(o.settings), o.progress),
        ),
        SystemEntry("chars", "character n-grams", "baseline", lambda o: character_ngrams),
        SystemEntry("lexicon", "induced lexicon", "baseline", lambda o: cr5_views(o.settings, o.shared, ["lexicon"])),
        SystemEntry("shared-tokens", "shared tokens", "baseline", lambda o: shared_tokens),
        SystemEntry("bm25", "BM25 over shared words", "baseline", lambda o: bm25),
        SystemEntry("lsi", "CL-LSI", "baseline", lambda o: cl_lsi, SKLEARN),
        SystemEntry("esa", "CL-ESA", "baseline", lambda o: cl_esa),
        SystemEntry("inverted", "inverted index", "baseline", lambda o: inverted, SKLEARN),
        SystemEntry("words", "word vectors", "baseline", lambda o: word_vectors(o.monolingual), GENSIM),
        SystemEntry(
            "dictionary", "word vectors (dictionary)", "baseline", _dictionary_word_vectors, GENSIM,
        ),
        SystemEntry(
            "upper-bound", "upper bound (TF-IDF within the language)", "upper bound",
            lambda o: within_language,
        ),
    )
}  # fmt: skip
EARLIER_KEYS = {"floor": "shared-tokens"}
"""Keys that earlier versions took -> today's keys."""
EARLIER_NAMES = {
    "shared tokens (floor)": "shared tokens",
    "ceiling (TF-IDF within the language)": "upper bound (TF-IDF within the language)",
}
"""Names in runs saved by earlier versions -> today's names."""
KEYS = tuple(key for key, entry in SYSTEMS.items() if entry.role != "upper bound")
"""The systems that can be chosen; the upper bound is added where it can be measured."""


def display_name(system: str) -> str:
    """The name of a system in tables, given its key or this name."""
    system = EARLIER_KEYS.get(system, system)
    return SYSTEMS[system].name if system in SYSTEMS else EARLIER_NAMES.get(system, system)


def find_entry(name: str) -> SystemEntry | None:
    """The entry of a system, given its name in a run.

    A run may hold a registered system several times, as "cr5" and "cr5 (training IDF)": the names begin with its key.
    """
    exact = (entry for entry in SYSTEMS.values() if name == entry.name)
    return next(exact, SYSTEMS.get("".join(name.split()[:1])))


def role_of(name: str) -> SystemRole:
    """The role of a system, given its name in a run; "baseline" for one that is not registered."""
    entry = find_entry(name)
    return entry.role if entry else "baseline"


def choose_systems(systems: str | Sequence[str | SystemEntry], has_dictionary: bool) -> list[SystemEntry]:
    """The entries of these systems; raises Cr5Error for an unknown key.

    "all" are all that can be chosen; "dictionary" cannot run without a dictionary, and a dictionary adds this system.
    """
    chosen = one_or_several(systems)
    if chosen == ["all"]:
        return [SYSTEMS[key] for key in KEYS]
    if has_dictionary and "dictionary" not in chosen:
        chosen.append("dictionary")
    return [_entry(system, has_dictionary) for system in chosen]


def _entry(system: str | SystemEntry, has_dictionary: bool) -> SystemEntry:
    if isinstance(system, SystemEntry):
        return system
    system = EARLIER_KEYS.get(system, system)
    if system not in KEYS:
        raise Cr5Error(f"there is no system {system!r}; the systems are {', '.join(KEYS)}, or all")
    if system == "dictionary" and not has_dictionary:
        raise Cr5Error(f"the system dictionary {_NO_DICTIONARY}")
    return SYSTEMS[system]


def make_systems(
    entries: Sequence[SystemEntry],
    settings: Settings,
    texts: Mapping[str, TokenisedTexts],
    dictionaries: Mapping[tuple[str, str], WordPairs] | None = None,
    progress: ProgressCallback = no_progress,
) -> dict[str, System]:
    """Systems by their names in tables. Word vectors are learned from ``texts``, once for each language.

    One that cannot be made, such as one whose optional dependency is missing, raises its error when it is trained.
    """
    options = SystemOptions(settings, dictionaries or {}, MonolingualVectors(texts), SharedTraining(progress), progress)
    return {entry.name: _make(entry, options) for entry in entries}


def _make(entry: SystemEntry, options: SystemOptions) -> System:
    try:
        if entry.package and find_spec(entry.package.module) is None:
            raise MissingPackageError(f"it needs {entry.package.name}; install it with pip install 'cr5[eval]'")
        return entry.make(options)
    except Exception as error:
        failure = error

    def fail(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> FittedSystem:
        raise failure

    return fail
