"""What the exported static models lose: P@1 of held-out documents by cr5 and by model2vec on the export.

python benchmarks/exports.py ../shared/data builtin europarl-comparable

trains and tests as ``benchmarks/quantised.py`` does, by vectors alone: with documents, and with their first 15 words.
Prints one JSON object a corpus. sentence-transformers computes the same as model2vec.
"""

import os
import statistics
import tempfile
from itertools import combinations
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from data import measure_corpora
from quantised import held_out, train
from similarity import LANGS, concepts_of, precision, with_csls

SHORT_TEXT_WORDS = 15


def measure(data: Path, name: str) -> dict[str, Any]:
    """P@1 by cosine and by CSLS, mean of all pairs of languages and both directions."""
    from model2vec import StaticModel

    concepts = concepts_of(data, name)
    model = train(concepts, name)
    encoders: dict[str, dict[str, Any]] = {"cr5": {lang: _encoder(model, lang) for lang in model.langs}}
    with tempfile.TemporaryDirectory() as folder:
        for lang in model.langs:
            model.export(Path(folder) / lang, format="model2vec", lang=lang)
        encoders["model2vec"] = {lang: StaticModel.from_pretrained(Path(folder) / lang).encode for lang in model.langs}
    found: dict[str, list[float]] = {}
    for a, b in combinations(model.langs, 2):
        whole = held_out(concepts, a, b)
        short = [[" ".join(text.split()[:SHORT_TEXT_WORDS]) for text in side] for side in whole]
        for kind, texts in (("documents", whole), ("15 words", short)):
            for system, encode in encoders.items():
                scores = encode[a](list(texts[0])) @ encode[b](list(texts[1])).T
                found.setdefault(f"{kind}, {system}, cosine", []).append(precision(scores))
                found.setdefault(f"{kind}, {system}, CSLS", []).append(precision(with_csls(scores)))
    means = {key: round(statistics.mean(values), 2) for key, values in found.items()}
    return {"benchmark": "exports", "corpus": name, "rank": model.rank, "p1": means}


def _encoder(model: Any, lang: str) -> Any:
    return lambda texts: model.encode(texts, lang)


if __name__ == "__main__":
    measure_corpora(__doc__, measure, ["builtin", *LANGS])
