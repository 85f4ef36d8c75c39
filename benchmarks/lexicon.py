"""Lexicons: seconds, memory and size for generated vocabularies, and how many translations of dictionaries they find.

python benchmarks/lexicon.py --sizes 20000 50000 --model model --dictionaries ../shared/data/dictionaries

One JSON object a figure. Generated words have vectors of the given rank; a word of one language and its translation
have vectors with a cosine of about 0.7 and spellings that share a beginning. The peer, at sizes of at most 20,000,
computes all scores with NumPy and SciPy, in blocks of words. ``same`` is the share of words whose ten best
translations are those of the peer. ``gflops`` counts the products of vectors alone, beside a NumPy product of the same
vectors; whatever else runs on the machine slows down both. With a model, P@1 of the lexicon is compared with CSLS over
the queries, as in ``cr5 eval words``, for the words of a dictionary that the model knows.
"""

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from cr5 import Cr5
from cr5._typing import Array, Ints
from cr5.evaluate.dictionaries import dictionary_languages
from cr5.evaluate.tasks.words import answer_ranks, read_word_queries
from cr5.features.ngrams import character_ngrams
from cr5.features.tfidf import tfidf_rows
from cr5.machine import available_cores
from cr5.retrieval.csls import csls_penalty, neighbourhood_means
from cr5.retrieval.lexicon import MAX_WORDS, NGRAM_COLUMNS, NGRAM_LENGTHS, Lexicon, WordVectors, make_lexicon
from cr5.retrieval.vectors import unit_rows
from cr5.storage.lexicon_files import write_lexicon

LARGEST_PEER = 20_000  # words: it needs about 2 GB
PEER_BLOCK = 1_000
SYLLABLES = [first + vowel for first in "bcdfglmnprstvz" for vowel in "aeiou"]
ENDINGS = {"aa": ("tion", "ity", "ing", "ed", "s"), "bb": ("zione", "ità", "endo", "ato", "i")}


def say(**figures: Any) -> None:
    rounded = {name: round(value, 4) if isinstance(value, float) else value for name, value in figures.items()}
    print(json.dumps(rounded), flush=True)


def generate(size: int, rank: int) -> tuple[WordVectors, WordVectors]:
    random = np.random.default_rng(0)
    meanings = unit_rows(random.standard_normal((size, rank)).astype(np.float32))
    stems = random.integers(0, len(SYLLABLES), (size, 3))
    languages = []
    for endings in ENDINGS.values():
        noise = unit_rows(random.standard_normal((size, rank)).astype(np.float32))
        words = ["".join(SYLLABLES[i] for i in stem) + endings[stem[0] % 5] + str(n) for n, stem in enumerate(stems)]
        languages.append(WordVectors(words, unit_rows(meanings + 0.65 * noise)))
    return languages[0], languages[1]


def brute_force(source: WordVectors, target: WordVectors) -> Ints:
    """The ten best translations of each word, by the definition of the score."""
    a, b = (character_ngrams(words, NGRAM_LENGTHS, NGRAM_COLUMNS) for words in (source.words, target.words))
    frequency = np.bincount(a.indices, minlength=NGRAM_COLUMNS) + np.bincount(b.indices, minlength=NGRAM_COLUMNS)
    idf = np.log((1 + len(source.words) + len(target.words)) / (1 + frequency)) + 1
    a, b = tfidf_rows(a, idf, "raw"), tfidf_rows(b, idf, "raw").T.tocsr()
    cosines: Array = unit_rows(source.vectors) @ unit_rows(target.vectors).T
    means = np.empty(len(target.words), np.float32)
    for i in range(0, len(means), PEER_BLOCK):
        means[i : i + PEER_BLOCK] = np.partition(cosines[:, i : i + PEER_BLOCK], -10, axis=0)[-10:].mean(axis=0)
    best = []
    for i in range(0, len(source.words), PEER_BLOCK):
        scores = 2 * cosines[i : i + PEER_BLOCK] - means + 0.3 * (a[i : i + PEER_BLOCK] @ b).toarray()
        chosen = np.argpartition(-scores, 10, axis=1)[:, :10]
        order = np.argsort(-np.take_along_axis(scores, chosen, axis=1), axis=1)
        best.append(np.take_along_axis(chosen, order, axis=1))
    return np.concatenate(best)


def measure(size: int, rank: int) -> None:
    source, target = generate(size, rank)
    began = time.perf_counter()
    lexicon = make_lexicon(source, target)
    figures: dict[str, float] = {"seconds": time.perf_counter() - began}
    figures["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    figures["right"] = float((lexicon.indices[:, 0] == np.arange(len(lexicon.indices))).mean())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lexicons" / "aa.bb.safetensors"
        write_lexicon(path, "", lexicon.indices, lexicon.probabilities)
        figures["megabytes"] = path.stat().st_size / 1e6
    used = min(size, MAX_WORDS)
    figures["gflops"] = 2 * used**2 * rank / figures["seconds"] / 1e9
    few = source.vectors[:PEER_BLOCK]
    began = time.perf_counter()
    for _ in range(3):
        few @ target.vectors[:used].T
    figures["gflops_of_products_alone"] = 3 * 2 * len(few) * used * rank / (time.perf_counter() - began) / 1e9
    if size <= LARGEST_PEER:
        began = time.perf_counter()
        expected = brute_force(source, target)
        figures["peer_seconds"] = time.perf_counter() - began
        figures["same"] = float((lexicon.indices == expected).all(axis=1).mean())
    say(benchmark="lexicon", words=size, rank=rank, threads=available_cores(), **figures)


def compare(model: Cr5, path: Path) -> None:
    """P@1 and P@10 of a dictionary's words that the model knows: by the lexicon, and by CSLS over these words."""
    queries = read_word_queries(path, model.settings.tokeniser)
    began = time.perf_counter()
    lexicon = model.lexicon(queries.source, queries.target)
    seconds = time.perf_counter() - began
    column_of = {word: i for i, word in enumerate(lexicon.target_words)}
    rows, answers = [], []
    for word, translations in zip(queries.tokens, queries.answers, strict=True):
        known = sorted({column_of[answer] for answer in translations if answer in column_of})
        if word in lexicon.index and known:
            rows.append(lexicon.index[word])
            answers.append(np.array(known))
    vectors, candidates = (unit_rows(model.word_vectors(lang)) for lang in (queries.source, queries.target))
    penalty = csls_penalty(neighbourhood_means(candidates, vectors[rows]))
    ranks = answer_ranks(vectors[rows], candidates, answers, penalty=penalty)
    say(
        benchmark="dictionary", dictionary=path.name, queries=len(queries.words), known=len(rows), seconds=seconds,
        **{f"lexicon_{k}": _share_found(lexicon, rows, answers, k) for k in (1, 10)},
        **{f"csls_{k}": float((ranks <= k).mean()) for k in (1, 10)},
    )  # fmt: skip


def _share_found(lexicon: Lexicon, rows: list[int], answers: list[Ints], k: int) -> float:
    found = [np.isin(lexicon.indices[row, :k], right).any() for row, right in zip(rows, answers, strict=True)]
    return float(np.mean(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[20_000, 50_000, 200_000])
    parser.add_argument("--rank", type=int, default=300)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--dictionaries", type=Path, help="a folder with files such as en-it.test.tsv")
    parser.add_argument("--part", default="test")
    given = parser.parse_args()
    few = generate(300, 8)
    make_lexicon(*few)  # compiles
    for size in given.sizes:
        measure(size, given.rank)
    if given.model and given.dictionaries:
        model = Cr5.load(given.model)
        for path in sorted(given.dictionaries.glob(f"*.{given.part}.tsv")):
            if set(dictionary_languages(path)) <= set(model.langs):
                compare(model, path)


if __name__ == "__main__":
    main()
