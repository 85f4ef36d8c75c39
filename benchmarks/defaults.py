"""Do the defaults lose anywhere? The default by all views and by its vectors, words alone, the paper, and baselines.

python benchmarks/defaults.py ../shared/data --cases speeches-en-it msdocs sentences --validation

Every case is a corpus, a task and a regime, measured on the same test queries (or validation queries, to choose
settings by). Prints one JSON object for every case and regime: P@1 in percent by CSLS, mean of all directions, of every
system; the best of the others; and the paired difference of the full default to it with its 95 % interval and p-value.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cr5 import Cr5, evaluate
from cr5.evaluate.comparison import compare
from cr5.evaluate.runs import Run
from cr5.evaluate.systems.registry import SYSTEMS, SystemEntry
from cr5.settings import Settings, make_settings

BASELINES = ("shared-tokens", "bm25", "esa", "chars", "lexicon")
OWN = ("cr5", "cr5-dense")


class Case(NamedTuple):
    """A corpus with some of its languages, and what is asked of it."""

    folder: str
    langs: str
    regimes: tuple[str, ...] = ("joint",)
    comparable: bool = False
    low_resource: int = 1000


DOCUMENTS = {
    "speeches-en-it": Case("europarl-speeches", "en,it", ("joint", "low-resource"), comparable=True),
    "speeches-en-de": Case("europarl-speeches", "en,de", ("joint", "low-resource"), comparable=True),
    "speeches": Case("europarl-speeches", "en,it,de", ("joint", "transitive"), comparable=True),
    "msdocs": Case("msdocs", "en,it,da,vi", ("joint", "pairwise"), comparable=True),
    "msdocs-parallel": Case("msdocs", "en,it,da,vi", ("joint", "low-resource", "transitive"), low_resource=300),
    "msdocs-scripts": Case("msdocs", "en,sw,ru,ja,ar,el,tr", comparable=True),
    "libreoffice": Case("libreoffice-help", "en,it,ru,el,ja", ("joint", "pairwise"), comparable=True),
    "libreoffice-parallel": Case("libreoffice-help", "en,it,ru,el,ja", ("joint", "low-resource"), low_resource=300),
    "ddtp": Case("ddtp", "en,da,it"),
    "builtin": Case("", "en,it,da,vi", ("joint", "low-resource"), low_resource=100),
}
MODELS = {
    "speeches": Case("europarl-speeches", "en,it,de"),
    "msdocs": Case("msdocs", "en,it,da,vi"),
    "libreoffice": Case("libreoffice-help", "en,it,ru,el"),
}
THREE_LETTERS = {"en": "eng", "it": "ita", "de": "deu", "da": "dan", "vi": "vie", "ru": "rus", "el": "ell"}


def old_settings(settings: Settings) -> Settings:
    """The default without subwords, and with idf^1.5."""
    return replace(settings, weighting=replace(settings.weighting, subwords=False, idf_power=1.5))


OLD = SystemEntry(
    "old", "words alone", "own", lambda o: SYSTEMS["cr5-dense"].make(replace(o, settings=old_settings(o.settings)))
)


def corpus(data: Path, case: Case) -> str | list[Path]:
    """What ``evaluate.documents`` reads."""
    return [data / case.folder / f"{lang}.parquet" for lang in case.langs.split(",")] if case.folder else "builtin"


def documents(data: Path, name: str, case: Case, validation: bool) -> Iterator[dict[str, Any]]:
    """One row for every regime."""
    run = evaluate.documents(
        corpus(data, case),
        systems=(*OWN, OLD, "wsdm19", *BASELINES),
        regimes=case.regimes,
        langs=case.langs.split(","),
        comparable=case.comparable,
        low_resource=case.low_resource if "low-resource" in case.regimes else None,
        validation=validation,
    )
    for regime in case.regimes:
        yield {"task": "documents", "case": name, "regime": regime, **row(run, regime)}


def row(run: Run, regime: str) -> dict[str, Any]:
    """P@1 of every system in a regime, and how the full default compares with the best of the others."""
    own = {name: (run, name) for name in dict.fromkeys(s.system for s in run.scores if s.regime == regime)}
    return figures(own, regime) | {"not_run": [f"{failed.system}: {failed.reason}" for failed in run.failed]}


def figures(systems: dict[str, tuple[Run, str]], regime: str) -> dict[str, Any]:
    """The same for systems by label, each of a run and with its name there; the full default is labelled "cr5"."""
    means = {label: p_at_1(run, name, regime) for label, (run, name) in systems.items()}
    upper_bound = means.pop(SYSTEMS["upper-bound"].name, None)
    best = max((label for label in means if label != "cr5"), key=means.__getitem__)
    compared = compare(systems[best][0], systems["cr5"][0], (systems[best][1], systems["cr5"][1]))
    difference = next(c for c in compared if c.regime == regime and c.measure == "csls").at_1  # the mean comes first
    return {
        "p_at_1": {label: round(value, 2) for label, value in means.items()},
        "upper_bound": upper_bound and round(upper_bound, 2),
        "ratio_to_upper_bound": upper_bound and round(means["cr5"] / upper_bound, 3),
        "best_other": best,
        "difference": round(difference.value, 2),
        "interval": [round(end, 2) for end in difference.interval],
        "p_value": round(float(difference.p_value), 4),
    }


def p_at_1(run: Run, system: str, regime: str) -> float:
    """The mean of all directions."""
    scores = [s for s in run.scores if (s.system, s.regime, s.measure) == (system, regime, "csls")]
    return float(np.mean([score.precision(1) for score in scores]))


def models(data: Path, name: str, case: Case, folder: Path) -> dict[str, Path]:
    """Models of a whole corpus by words alone, by the settings of the paper and by the default, saved."""
    saved = {}
    for label, settings in {
        "new": make_settings(), "old": old_settings(make_settings()), "paper": make_settings("wsdm19", min_unique=1)
    }.items():  # fmt: skip
        model = Cr5()
        model._reset(settings, {})
        model.fit(corpus(data, case))
        saved[label] = folder / f"{name}-{label}"
        model.save(saved[label])
    return saved


def transfer(data: Path, name: str, case: Case, validation: bool) -> Iterator[dict[str, Any]]:
    """Models of a corpus, asked for sentences of other corpora and for words."""
    langs = case.langs.split(",")
    tests = {
        "tatoeba": [
            data / "tatoeba" / f"{THREE_LETTERS[x]}-eng.{THREE_LETTERS[y]}" for x in langs[1:] for y in (x, "en")
        ]
    }
    if "it" in langs:
        tests["europarl-sentences"] = [data / "europarl-sentences" / "en-it.parquet"]
    pairs = [(x, y) for x, y in product(langs, langs) if "en" in (x, y) and x != y]
    words = [path for x, y in pairs if (path := data / "dictionaries" / f"{x}-{y}.test.tsv").exists()]
    with tempfile.TemporaryDirectory() as folder:
        saved = models(data, name, case, Path(folder))
        for test, files in tests.items():
            runs = {label: evaluate.sentences(path, files, validation=validation) for label, path in saved.items()}
            yield {
                "task": "sentences",
                "case": f"{name} -> {test}",
                **figures(by_label(runs), runs["new"].scores[0].regime),
            }
        runs = {label: evaluate.words(path, words) for label, path in saved.items()}
        yield {
            "task": "words",
            "case": f"{name} -> dictionaries",
            **figures(by_label(runs), runs["new"].scores[0].regime),
        }


def by_label(runs: dict[str, Run]) -> dict[str, tuple[Run, str]]:
    """The systems of the new model by their names, and the vectors of the others by their labels."""
    new = {name: (runs["new"], name) for name in dict.fromkeys(s.system for s in runs["new"].scores)}
    vectors = SYSTEMS["cr5-dense"].name
    return new | {label: (run, vectors) for label, run in runs.items() if label != "new"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cases", nargs="*", choices=[*DOCUMENTS], default=[*DOCUMENTS])
    parser.add_argument("--models", nargs="*", choices=[*MODELS], default=[*MODELS], help="for sentences and words")
    parser.add_argument("--validation", action="store_true", help="validation queries, to choose settings by")
    chosen = parser.parse_args()
    for name in chosen.cases:
        started = time.perf_counter()
        for each in documents(chosen.data, name, DOCUMENTS[name], chosen.validation):
            print(json.dumps(each | {"seconds": round(time.perf_counter() - started)}), flush=True)
    for name in chosen.models:
        started = time.perf_counter()
        for each in transfer(chosen.data, name, MODELS[name], chosen.validation):
            print(json.dumps(each | {"seconds": round(time.perf_counter() - started)}), flush=True)


if __name__ == "__main__":
    main()
