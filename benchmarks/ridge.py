"""The ridge that is chosen, compared with every fixed one. Prints one JSON object per corpus and seed.

python benchmarks/ridge.py ../shared/data --corpora msdocs ddtp --seeds 0 1 2

A share of the concepts is held out, as queries and candidates; a model is trained on the others with the ridge that
it chooses itself, and one with each ridge of the grid. Figures are in percent: P@1 of held-out documents by CSLS, mean
of all directions, and P@1 of words among those that the model knows, mean of the dictionaries. Word counts of a
corpus are kept under ``--cache``, so that its texts are read only once.

The vectors alone are measured. With ``--views``, all views together are measured as well, as ``cr5 eval documents``
ranks documents and ``cr5 eval words`` ranks words, and the first translation of the lexicon; the weight of the strings
is chosen with every ridge as the default chooses it. With ``--usage``, nothing is trained: it prints how many documents
and concepts the files have, and how many a trial takes, holds out, uses and leaves out, and why.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from scipy.sparse import load_npz, save_npz

from cr5._typing import Ints
from cr5.corpus.documents import Document
from cr5.corpus.inputs import in_batches
from cr5.corpus.reading import read
from cr5.evaluate.systems.cr5_system import Cr5VectorSystem
from cr5.evaluate.systems.fitted_system import WordSpellings
from cr5.evaluate.systems.views import Cr5Views
from cr5.evaluate.tasks.words import WordQueries, answer_ranks, read_word_queries
from cr5.features.counts import WordCounts
from cr5.model.language_encoder import LanguageEncoder
from cr5.retrieval.csls import csls_penalty, neighbourhood_means
from cr5.retrieval.lexicon import Lexicon, WordVectors, make_lexicon
from cr5.retrieval.top_k import retrieve_views
from cr5.retrieval.vectors import unit_rows
from cr5.settings import Settings, make_settings
from cr5.storage.language_map import LanguageMap
from cr5.training.counted_corpus import CountedCorpus, CountedDocuments, count_corpus
from cr5.training.engines.registry import open_engine
from cr5.training.pipeline import train
from cr5.training.ridge import RIDGES
from cr5.training.selection import select_documents
from data import counterpart_ranks, say

TEST_SHARE, MAX_TEST = 0.25, 1_500  # of the concepts
MAX_RANK_SHARE = 0.75  # of the training concepts: some of them are held out to choose the ridge
SETTINGS: dict[str, Any] = {"min_unique": 1}


class Source(NamedTuple):
    """Where a corpus is, which of its languages and how many of its concepts are used, and settings of its own."""

    folder: str
    langs: tuple[str, ...]
    most: int
    comparable: bool = False
    settings: dict[str, Any] = {}  # noqa: RUF012


SOURCES = {
    "speeches-comparable": Source("europarl-speeches", ("en", "it", "de"), 10_000, comparable=True),
    "speeches": Source("europarl-speeches", ("en", "it", "de"), 6_000),
    "sentences": Source("europarl-sentences", ("en", "it"), 20_000),
    "msdocs": Source("msdocs", ("en", "it", "da", "vi"), 10_000),
    "libreoffice-help": Source("libreoffice-help", ("en", "it", "da", "vi"), 10_000),
    "ddtp": Source("ddtp", ("en", "it", "da", "de"), 10_000),
    "builtin": Source("", ("en", "it", "da", "vi"), 10_000, settings={"min_documents": 2}),
}


def documents(data: Path, source: Source) -> Iterator[Document]:
    """The texts of a corpus: of ``most`` concepts that two languages share, drawn at random."""
    if not source.folder:
        yield from read("builtin")
        return
    columns = read_columns(data, source)
    shared = shared_concepts(columns)
    chosen = set(np.random.default_rng(0).permutation(np.array(shared, object))[: source.most].tolist())
    for i, (lang, (names, texts)) in enumerate(columns.items()):
        for name, text in zip(names, texts, strict=True):
            if name in chosen:
                part = "\n".join(text.split("\n")[i :: len(columns)]) if source.comparable else text
                yield Document(str(name), lang, part)


def read_columns(data: Path, source: Source) -> dict[str, tuple[list[Any], list[str]]]:
    """The concepts and texts of each language, as they are in the files."""
    folder = data / source.folder
    if source.folder == "europarl-sentences":
        [path] = folder.glob("*.parquet")
        rows = pq.read_table(path)
        return {lang: (rows["id"].to_pylist(), rows[lang].to_pylist()) for lang in source.langs}
    tables = {lang: pq.read_table(folder / f"{lang}.parquet") for lang in source.langs}
    return {lang: (table["concept"].to_pylist(), table["text"].to_pylist()) for lang, table in tables.items()}


def shared_concepts(columns: dict[str, tuple[list[Any], list[str]]]) -> list[Any]:
    """The concepts that two languages or more have, sorted."""
    known = [set(names) for names, _ in columns.values()]
    return sorted(name for name in set.union(*known) if sum(name in names for names in known) > 1)


def load_corpus(name: str, data: Path, cache: Path) -> CountedCorpus:
    """The word counts of a corpus, read from its texts the first time."""
    folder, source = cache / name, SOURCES[name]
    if not (folder / "corpus.json").exists():
        say(f"{name}: read")
        folder.mkdir(parents=True, exist_ok=True)
        texts = (document for document in documents(data, source) if document.text.strip())
        corpus = count_corpus(in_batches(texts), make_settings().tokeniser)
        facts: dict[str, Any] = {"concepts": corpus.concepts, "languages": {}}
        for lang, counted in corpus.languages.items():
            save_npz(folder / f"{lang}.npz", counted.local_counts.matrix)
            facts["languages"][lang] = {
                "words": counted.local_counts.words,
                "concepts": counted.concepts.tolist(),
            }
        (folder / "corpus.json").write_text(json.dumps(facts), encoding="utf-8")
    facts = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
    languages = {}
    for lang, values in facts["languages"].items():
        concepts = np.array(values["concepts"], np.int64)
        nowhere = np.zeros(len(concepts), np.int64)
        counts = WordCounts(values["words"], load_npz(folder / f"{lang}.npz"))
        languages[lang] = CountedDocuments(counts, concepts, nowhere, nowhere)
    return CountedCorpus(facts["concepts"], [name], languages)


def split(corpus: CountedCorpus, seed: int, most: int) -> tuple[CountedCorpus, CountedCorpus]:
    """The training documents of ``most`` concepts at most, and those of the held-out concepts among them."""
    shared = np.flatnonzero((corpus.document_counts() > 0).sum(axis=1) > 1)
    shared = np.sort(np.random.default_rng(0).permutation(shared)[:most])
    count = min(int(TEST_SHARE * len(shared)), MAX_TEST)
    used, held = np.zeros((2, len(corpus.concepts)), bool)
    used[shared] = True
    held[np.random.default_rng(1000 + seed).permutation(shared)[:count]] = True
    parts = []
    for mask in (used & ~held, held):
        languages = {lang: d.select_rows(np.flatnonzero(mask[d.concepts])) for lang, d in corpus.languages.items()}
        parts.append(CountedCorpus(corpus.concepts, corpus.sources, languages))
    return parts[0], parts[1]


def document_precision(languages: dict[str, LanguageMap], settings: Settings, test: CountedCorpus) -> dict[str, float]:
    """P@1 by cosine and CSLS of held-out documents among themselves, mean of all directions."""
    vectors = {}
    for lang, language in languages.items():
        vectors[lang] = LanguageEncoder(language, settings.weighting).vectors(test.languages[lang].local_counts)
    precisions: dict[str, list[float]] = {"cosine": [], "csls": []}
    for a, b in permutations(vectors, 2):
        for measure, values in precisions.items():
            concepts = test.languages[a].concepts, test.languages[b].concepts
            ranks = counterpart_ranks(vectors[a], concepts[0], vectors[b], concepts[1], measure=measure)
            if len(ranks):
                values.append(100 * float((ranks == 1).mean()))
    return {measure: float(np.mean(values)) for measure, values in precisions.items()}


def view_precision(views: Cr5Views, test: CountedCorpus) -> dict[str, float]:
    """P@1 by cosine and CSLS of held-out documents among themselves by all views, mean of all directions."""
    counts = {lang: documents.local_counts.drop_unused_words() for lang, documents in test.languages.items()}
    precisions: dict[str, list[float]] = {"cosine": [], "csls": []}
    for a, b in permutations(counts, 2):
        concepts = test.languages[a].concepts, test.languages[b].concepts
        queries = np.flatnonzero(np.isin(*concepts))
        rows = [v.select_queries(queries) for v in views.scorer.weighted_views(counts[a], a, counts[b], b)]
        if len(queries):
            for measure, found in retrieve_views(rows, concepts[0][queries], concepts[1], k=0).items():
                precisions[measure].append(100 * float((found.ranks == 1).mean()))
    return {measure: float(np.mean(values)) for measure, values in precisions.items()}


def known_words(languages: dict[str, LanguageMap], queries: WordQueries) -> tuple[list[int], list[Ints]]:
    """The words of a dictionary that the model knows with a translation; these translations."""
    source, target = languages[queries.source], languages[queries.target]
    row_of, candidate_of = ({word: i for i, word in enumerate(language.words)} for language in (source, target))
    known = [
        (row_of[token], np.unique([candidate_of[answer] for answer in answers if answer in candidate_of]))
        for token, answers in zip(queries.tokens, queries.answers, strict=True)
        if token in row_of and any(answer in candidate_of for answer in answers)
    ]
    return [row for row, _ in known], [rows.astype(np.int64) for _, rows in known]


def word_precision(
    languages: dict[str, LanguageMap],
    dictionaries: Iterable[WordQueries],
    spellings_of: Callable[[str, str], WordSpellings | None] = lambda *langs: None,
) -> dict[str, float]:
    """P@1 by cosine and CSLS of the words that the model knows with a translation, mean of all dictionaries."""
    precisions: dict[str, list[float]] = {"words": [], "cosine": [], "csls": []}
    for queries in dictionaries:
        words, answers = known_words(languages, queries)
        vectors = unit_rows(languages[queries.source].map[words])
        candidates = unit_rows(languages[queries.target].map)
        spellings = spellings_of(queries.source, queries.target)
        spellings = spellings and spellings.select_rows(np.array(words))
        precisions["words"].append(len(words))
        for measure, penalty in (
            ("cosine", None),
            ("csls", csls_penalty(neighbourhood_means(candidates, vectors))),
        ):
            ranks = answer_ranks(vectors, candidates, answers, penalty=penalty, spellings=spellings)
            precisions[measure].append(100 * float((ranks == 1).mean()))
    return {measure: float(np.mean(values)) for measure, values in precisions.items()}


def lexicon_precision(views: Cr5Views, dictionaries: Iterable[WordQueries]) -> float:
    """P@1 of the lexicon, of the same words; the mean of all dictionaries."""
    precisions = []
    for queries in dictionaries:
        words, answers = known_words(views.model.languages, queries)
        first = views.lexicon(queries.source, queries.target).indices[words, 0]
        precisions.append(100 * np.mean([found in rows for found, rows in zip(first, answers, strict=True)]))
    return float(np.mean(precisions))


def measure_views(fitted: Cr5VectorSystem, test: CountedCorpus, dictionaries: list[WordQueries]) -> dict[str, Any]:
    """The figures of the default system, which compares documents by all views and words also by their spelling."""

    @cache
    def lexicon(source: str, target: str) -> Lexicon:
        return make_lexicon(*(WordVectors(fitted.words(lang), fitted.word_vectors(lang)) for lang in (source, target)))

    views = Cr5Views(fitted, lexicon)
    return {
        "strings_weight": views.scorer.weights["strings"],
        "documents": view_precision(views, test),
        "words": word_precision(dict(fitted.languages), dictionaries, views.word_spellings),
        "lexicon": lexicon_precision(views, dictionaries),
    }


def measure(
    name: str, corpus: CountedCorpus, seed: int, dictionaries: list[WordQueries], given: argparse.Namespace
) -> dict[str, Any]:
    """What the default chooses, and how it and every fixed ridge do."""
    training, test = split(corpus, seed, given.most)
    rank = min(given.rank, int(MAX_RANK_SHARE * len(set_of(training))))
    own = {"rank": rank} | SETTINGS | SOURCES[name].settings | {"seed": seed}
    lines: dict[str, Any] = {}
    for ridge in ("auto", *given.ridges):
        # A path of one ridge chooses it, and then the weight of the strings as the default does.
        only = given.views and ridge != "auto"
        settings = make_settings(ridge="auto" if only else ridge, **own)
        began = time.perf_counter()
        with open_engine(given.engine) as opened:
            languages, report = train(training, settings, engine=opened, ridges=(ridge,) if only else RIDGES)
        line = {
            "ridge": report["ridge"],
            "documents": document_precision(languages, settings, test),
            "words": word_precision(languages, dictionaries),
            "steps": report["steps"],
            "seconds": time.perf_counter() - began,
        }
        if given.views:
            line["views"] = measure_views(Cr5VectorSystem(languages, settings, report), test, dictionaries)
            line["seconds"] = time.perf_counter() - began
        if ridge == "auto":
            sizes = {lang: facts["documents"] for lang, facts in report["languages"].items()}
            line |= {key: report[key] for key in report if key.startswith(("ridge_", "path_"))}
            lines["used"] = {"concepts": report["concepts"], "documents": sizes, "test": len(set_of(test))}
        lines.setdefault("auto" if ridge == "auto" else "fixed", []).append(line)
        say(f"{name}, seed {seed}, {ridge}: {line['ridge']:g} {line['documents']} {line['words']} {line.get('views')}")
    return {"benchmark": "ridge", "corpus": name, "seed": seed} | lines | {"auto": lines["auto"][0]}


def facts_of_files(name: str, data: Path) -> dict[str, int]:
    """How many documents and concepts the files of a corpus have in its languages, and how many of them are shared."""
    source = SOURCES[name]
    if source.folder:
        columns = read_columns(data, source)
    else:
        columns = {lang: ([d.concept for d in read("builtin", langs=[lang])], []) for lang in source.langs}
    shared = set(shared_concepts(columns))
    concepts = [concept for names, _ in columns.values() for concept in names]
    return {
        "documents": len(concepts),
        "concepts": len(set(concepts)),
        "shared_documents": sum(concept in shared for concept in concepts),
        "shared_concepts": len(shared),
    }


def usage(name: str, corpus: CountedCorpus, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """What a trial holds out of a corpus, what is left to train on, and what the training uses and leaves out."""
    training, test = split(corpus, seed, given.most)
    weighting = make_settings(**SETTINGS | SOURCES[name].settings).weighting
    chosen = select_documents(training, weighting).usage
    return {
        "held_out": documents_and_concepts(test),
        "training": documents_and_concepts(training),
        "used": {"documents": chosen.documents.used, "concepts": chosen.concepts.used},
        "left_out": {lang: documents.left_out for lang, documents in chosen.languages.items()},
    }


def documents_and_concepts(corpus: CountedCorpus) -> dict[str, int]:
    return {"documents": sum(map(len, corpus.languages.values())), "concepts": len(set_of(corpus))}


def set_of(corpus: CountedCorpus) -> set[int]:
    return {c for documents in corpus.languages.values() for c in documents.concepts.tolist()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with the corpora and the dictionaries")
    parser.add_argument("--corpora", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ridges", type=float, nargs="*", default=RIDGES)
    parser.add_argument("--most", type=int, default=6_000, help="concepts of a corpus")
    parser.add_argument("--rank", type=int, default=300)
    parser.add_argument("--engine", default="cpu", choices=["cpu", "gpu"])
    parser.add_argument("--views", action="store_true", help="also measure all views together")
    parser.add_argument("--usage", action="store_true", help="print what is used and left out, and train nothing")
    parser.add_argument("--cache", type=Path, default=Path("build/ridge"))
    given = parser.parse_args()
    for name in given.corpora:
        corpus = load_corpus(name, given.data, given.cache)
        if given.usage:
            seeds = {seed: usage(name, corpus, seed, given) for seed in given.seeds}
            line = {"benchmark": "ridge", "corpus": name, "files": facts_of_files(name, given.data), "seeds": seeds}
            print(json.dumps(line), flush=True)
            continue
        pairs = permutations(SOURCES[name].langs, 2)
        paths = [given.data / "dictionaries" / f"{source}-{target}.test.tsv" for source, target in pairs]
        dictionaries = [read_word_queries(path, make_settings().tokeniser) for path in paths if path.exists()]
        for seed in given.seeds:
            print(json.dumps(measure(name, corpus, seed, dictionaries, given)), flush=True)


if __name__ == "__main__":
    main()
