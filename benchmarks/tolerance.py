"""Where the solver may stop: P@1 and energy at several tolerances, paired by query. Prints one JSON object per corpus.

python benchmarks/tolerance.py ../shared/data --tol 0.02 0.05 0.1

A share of the concepts is held out, as queries and candidates of both languages; every second one is a validation
query, to choose by, and the others are test queries. The features are those of the default, with n-grams, and the ridge
is the same at all tolerances. Figures are P@1 in percent by cosine and CSLS, mean of both directions, and its
difference from the first tolerance with the standard error over concepts. ``cpu`` is the processor time of the fit.
"""

import argparse
import json
import time
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from cr5._typing import Array
from cr5.model.language_encoder import LanguageEncoder
from cr5.settings import Settings, make_settings
from cr5.storage.language_map import LanguageMap
from cr5.training.counted_corpus import CountedCorpus
from cr5.training.pipeline import train
from data import counterpart_ranks, say
from ridge import MAX_RANK_SHARE, SETTINGS, SOURCES, Source, load_corpus, set_of, split

SOURCES |= {
    "speeches-en-it": Source("europarl-speeches", ("en", "it"), 10_000, comparable=True),
    "msdocs-comparable": Source("msdocs", ("en", "it"), 10_000, comparable=True),
    "libreoffice-comparable": Source("libreoffice-help", ("en", "it"), 10_000, comparable=True),
    "encyclopedia": Source("", ("en", "it"), 10_000, settings={"min_documents": 2}),
}
CORPORA = ("speeches-en-it", "msdocs-comparable", "libreoffice-comparable", "encyclopedia")


def found_first(languages: dict[str, LanguageMap], settings: Settings, test: CountedCorpus) -> dict[str, Array]:
    """By measure: for every concept the percentage of directions in which its counterpart is found first."""
    vectors = {
        lang: LanguageEncoder(language, settings.weighting).vectors(test.languages[lang].local_counts)
        for lang, language in languages.items()
    }
    found = {}
    for measure in ("cosine", "csls"):
        total, asked = np.zeros((2, len(test.concepts)))
        for a, b in permutations(vectors, 2):
            own, other = test.languages[a].concepts, test.languages[b].concepts
            ranks = counterpart_ranks(vectors[a], own, vectors[b], other, measure=measure)
            queries = own[np.isin(own, other)]
            np.add.at(total, queries, 100 * (ranks == 1))
            np.add.at(asked, queries, 1)
        found[measure] = np.where(asked > 0, total / np.maximum(asked, 1), np.nan)
    return found


def measure(name: str, corpus: CountedCorpus, given: argparse.Namespace) -> dict[str, Any]:
    """One line for every tolerance."""
    training, test = split(corpus, given.seed, given.most)
    rank = min(given.rank, int(MAX_RANK_SHARE * len(set_of(training))))
    held = np.array(sorted(set_of(test)))
    halves = {"validation": held[::2], "test": held[1::2]}
    lines: list[dict[str, Any]] = []
    first: dict[str, Array] = {}
    for tol in given.tol:
        settings = make_settings(
            tol=tol, rank=rank, ridge=given.ridge, seed=given.seed, **SETTINGS | SOURCES[name].settings
        )
        began = time.process_time()
        languages, report = train(training, settings)
        line: dict[str, Any] = {"tol": tol, "cpu": time.process_time() - began}
        line |= {key: report[key] for key in ("energy", "residual", "steps", "products")}
        found = found_first(languages, settings, test)
        first = first or found
        for half, concepts in halves.items():
            for by, values in found.items():
                mine = values[concepts][~np.isnan(values[concepts])]
                change = (values - first[by])[concepts][~np.isnan(values[concepts])]
                error = float(change.std(ddof=1) / np.sqrt(len(change)))
                line[f"{half}_{by}"] = {"p_at_1": float(mine.mean()), "change": float(change.mean()), "error": error}
        lines.append(line)
        say(f"{name}: {line}")
    facts = {"benchmark": "tolerance", "corpus": name, "rank": rank, "ridge": given.ridge, "queries": len(held)}
    return facts | {"tolerances": lines}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with the corpora")
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=CORPORA)
    parser.add_argument("--tol", type=float, nargs="+", default=[0.02, 0.05, 0.1])
    parser.add_argument("--most", type=int, default=8_000, help="concepts of a corpus")
    parser.add_argument("--rank", type=int, default=300)
    parser.add_argument("--ridge", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache", type=Path, default=Path("build/ridge"))
    given = parser.parse_args()
    for name in given.corpora:
        print(json.dumps(measure(name, load_corpus(name, given.data, given.cache), given)), flush=True)


if __name__ == "__main__":
    main()
