"""What values ``Cr5.similarity`` has, and what the fixed deviations of its views cost in retrieval.

python benchmarks/similarity.py ../shared/data builtin libreoffice-help msdocs

trains on half of the concepts of each corpus, and compares 1,000 texts of two languages with each other: of a quarter
of the concepts (validation, where the deviations of ``cr5.retrieval.text_similarity`` are varied) and of another
quarter (test); sentences of other corpora are halved in the same way. Prints one JSON object a corpus.
"""

from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from data import measure_corpora

LANGS = {
    "libreoffice-help": ["en", "ru", "ja"],
    "msdocs": ["en", "it", "da", "vi"],
    "europarl-speeches": ["en", "it"],
    "europarl-comparable": ["en", "it"],
}
CONCEPTS = 6_000  # of a corpus at most
TEXTS = 1_000  # of a language that are compared
TATOEBA = {"it": "ita", "da": "dan", "vi": "vie", "ru": "rus"}
GRID = {"lexicon": (0.015, 0.02, 0.03, 0.04), "strings": (0.005, 0.0075, 0.01, 0.015, 0.02)}


def concepts_of(data: Path, name: str) -> list[dict[str, str]]:
    """The texts of each concept by language, in random order; comparable: languages have different paragraphs."""
    from cr5 import read

    concepts: dict[str, dict[str, str]] = {}
    folder = data / name.replace("comparable", "speeches")
    paths = ["builtin"] if name == "builtin" else [folder / f"{lang}.parquet" for lang in LANGS[name]]
    for document in read([str(path) for path in paths]):
        text = document.text
        if name.endswith("comparable"):
            text = "\n".join(text.split("\n")[LANGS[name].index(document.lang) :: len(LANGS[name])])
        concepts.setdefault(document.concept, {})[document.lang] = text
    shared = sorted(concept for concept, texts in concepts.items() if len(texts) > 1)
    Random(7).shuffle(shared)
    return [concepts[concept] for concept in shared[:CONCEPTS]]


def sentences_of(data: Path, name: str, langs: list[str]) -> Iterator[tuple[str, str, str, list[str], list[str]]]:
    """Kind, two languages, and aligned sentences in both."""
    import pyarrow.parquet as pq

    if name.startswith("europarl"):
        rows = pq.read_table(data / "europarl-sentences" / "en-it.parquet").slice(0, 4 * TEXTS)
        yield "sentences", "en", "it", rows["en"].to_pylist()[::2], rows["it"].to_pylist()[::2]
    for lang in sorted(set(langs) & set(TATOEBA)):
        code = TATOEBA[lang]
        sides = ((data / "tatoeba" / f"{code}-eng.{side}").read_text().splitlines() for side in ("eng", code))
        yield "sentences of Tatoeba", "en", lang, *sides


def cosines(model: Any, a: list[str], lang_a: str, b: list[str], lang_b: str) -> dict[str, Any]:
    """For each view, texts of a x texts of b."""
    from cr5.retrieval.block_products import multiply_rows

    pairs = model._languages.scorer().pairs(*model._counts(a, lang_a), *model._counts(b, lang_b))
    return {view: multiply_rows(*pair) for view, pair in pairs.items()}


def weighted(views: dict[str, Any], deviations: dict[str, float]) -> Any:
    """The similarity, with these deviations of the views."""
    from cr5.retrieval.scorer import DEFAULT_WEIGHTS

    scales = {view: DEFAULT_WEIGHTS[view] / deviation for view, deviation in deviations.items()}
    return sum(scales[view] / sum(scales.values()) * found for view, found in views.items())


def precision(scores: Any) -> float:
    """P@1 in percent, mean of both directions."""
    right = np.arange(len(scores))
    return 50 * float((scores.argmax(axis=1) == right).mean() + (scores.argmax(axis=0) == right).mean())


def with_csls(scores: Any) -> Any:
    """CSLS of cosines, with 10 neighbours."""
    rows, columns = np.sort(scores, axis=1)[:, -10:].mean(axis=1), np.sort(scores, axis=0)[-10:].mean(axis=0)
    return 2 * scores - rows[:, None] - columns


def facts(views: dict[str, Any]) -> dict[str, float]:
    """Deviations, values of unrelated texts and of counterparts, and P@1 by several scores."""
    from cr5.retrieval.text_similarity import TYPICAL_DEVIATIONS

    own = {view: float(found.std(dtype=np.float64)) for view, found in views.items()}
    similarity = weighted(views, TYPICAL_DEVIATIONS)
    unrelated, counterparts = similarity[~np.eye(len(similarity), dtype=bool)], similarity.diagonal()
    limit = np.quantile(unrelated, 0.99)
    found = {f"deviation_{view}": deviation for view, deviation in own.items()} | {
        "unrelated": unrelated.mean(),
        "unrelated_deviation": unrelated.std(),
        "unrelated_99_percent": limit,
        "counterparts": counterparts.mean(),
        "counterparts_deviation": counterparts.std(),
        "counterparts_above_99_percent": (counterparts > limit).mean(),
        "p1_similarity": precision(similarity),
        "p1_own_deviations": precision(weighted(views, own)),
        "p1_scorer": precision(weighted({view: with_csls(found) for view, found in views.items()}, own)),
        "p1_vectors": precision(views["dense"]),
    }
    for lexicon, strings in product(*GRID.values()):
        varied = TYPICAL_DEVIATIONS | {"lexicon": lexicon, "strings": strings}
        found[f"p1 lexicon {lexicon} strings {strings}"] = precision(weighted(views, varied))
    return {name: round(float(value), 4) for name, value in found.items()}


def measure(data: Path, name: str) -> dict[str, Any]:
    """The facts of a corpus: mean over the pairs of languages, by part and kind of text."""
    from cr5 import Cr5
    from cr5.retrieval.scorer import DEFAULT_WEIGHTS

    concepts = concepts_of(data, name)
    half, parts = len(concepts) // 2, {"validation": 2, "test": 3}
    model = Cr5(strings_weight=DEFAULT_WEIGHTS["strings"]).fit(
        (str(i), lang, text) for i, texts in enumerate(concepts[:half]) for lang, text in texts.items()
    )
    found: dict[str, list[dict[str, float]]] = {}
    for part, quarter in parts.items():
        held_out = concepts[quarter * len(concepts) // 4 : (quarter + 1) * len(concepts) // 4]
        for a, b in combinations(model.langs, 2):
            both = [texts for texts in held_out if a in texts and b in texts][:TEXTS]
            views = cosines(model, [texts[a] for texts in both], a, [texts[b] for texts in both], b)
            found.setdefault(f"{part} documents", []).append(facts(views))
        for kind, a, b, texts_a, texts_b in sentences_of(data, name, model.langs):
            size = min(len(texts_a) // 2, TEXTS)
            rows = slice((quarter - 2) * size, (quarter - 1) * size)
            found.setdefault(f"{part} {kind}", []).append(facts(cosines(model, texts_a[rows], a, texts_b[rows], b)))
    means = {
        key: {name: round(float(np.mean([row[name] for row in rows])), 4) for name in rows[0]}
        for key, rows in found.items()
    }
    return {"benchmark": "similarity", "corpus": name, "concepts": half, **means}


if __name__ == "__main__":
    measure_corpora(__doc__, measure, ["builtin", *LANGS])
