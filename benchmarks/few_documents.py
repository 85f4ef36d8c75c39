"""How many documents does a language need beside others that have many? Prints one JSON object per corpus and seed.

python benchmarks/few_documents.py ../shared/data

The last language of a corpus trains with n documents, the others with all of theirs. Held-out documents of that
language are searched in the others and the other way round: P@1 in percent by CSLS, as validation (one half of the
held-out concepts) and test. Beside it: the words of the language that the model knows, the share of its held-out
tokens that these cover, and P@1 by the tokens that two languages share, which needs no training.
"""

from itertools import permutations
from typing import Any

import numpy as np

from cr5.features.tfidf import NO_LIMIT, Weighting, make_vocabulary, merge_frequencies, word_frequencies
from cr5.training.counted_corpus import CountedCorpus
from data import counterpart_ranks, say
from short_texts import SOURCES, Rule, fit, ranks_of, run, split

SIZES = (10, 20, 50, 100, 200, 500, 1_000, 2_000, 4_000)
CORPORA = ("speeches", "sentences", "msdocs", "libreoffice-help", "ddtp", "builtin")
RIDGE = 3.0


def with_few(corpus: CountedCorpus, lang: str, size: int, seed: int) -> CountedCorpus:
    """Only ``size`` documents of a language, of concepts that another language has."""
    shared = (corpus.document_counts() > 0).sum(axis=1) > 1
    usable = np.flatnonzero(shared[corpus.languages[lang].concepts])
    rows = {name: np.arange(len(d)) for name, d in corpus.languages.items()}
    rows[lang] = np.sort(np.random.default_rng([seed, 8]).permutation(usable)[:size])
    return corpus.select_rows(rows)


def shared_tokens(training: CountedCorpus, test: CountedCorpus, lang: str) -> float:
    """P@1 by TF-IDF over one vocabulary for all languages, from and to a language."""
    counts = [documents.local_counts for documents in training.languages.values()]
    frequencies = merge_frequencies(map(word_frequencies, counts))
    vocabulary = make_vocabulary(
        frequencies, Weighting(idf_power=1.0, min_documents=0, max_words=len(frequencies.words), subwords=False)
    )
    rows = {name: vocabulary.transform(documents.local_counts) for name, documents in test.languages.items()}
    found = []
    for a, b in permutations(test.languages, 2):
        if lang in (a, b):
            asked = np.isin(test.languages[a].concepts, test.languages[b].concepts)
            concepts = test.languages[a].concepts[asked], test.languages[b].concepts
            ranks = counterpart_ranks(rows[a][asked], concepts[0], rows[b], concepts[1], measure="csls")
            found.append(100 * float((ranks == 1).mean()))
    return round(float(np.mean(found)), 1)


def measure(name: str, corpus: CountedCorpus, seed: int) -> dict[str, Any]:
    """P@1 of the directions from and to the last language, by its number of training documents."""
    lang = SOURCES[name].langs[-1]
    training, test, validation = split(corpus, seed)
    available = len(training.languages[lang])
    lines = []
    for size in (*(size for size in SIZES if size < available), available):
        few = with_few(training, lang, size, seed)
        settings, languages, _ = fit(few, Rule(1, NO_LIMIT), RIDGE)
        facts = {"documents": size, "words": len(languages[lang].words) if lang in languages else 0}
        counts = test.languages[lang].local_counts
        known = np.isin(counts.words, languages[lang].words if lang in languages else [])
        facts["coverage"] = round(float((counts.matrix @ known).sum() / counts.matrix.sum()), 3)
        directions = list(permutations(test.languages, 2))
        ranks = list(ranks_of(settings, languages, test))
        for half, wanted in (("validation", True), ("test", False)):
            found: dict[str, list[float]] = {"own": [], "others": []}
            for direction, (concepts, _, rank) in zip(directions, ranks, strict=True):
                chosen = np.isin(concepts, validation) == wanted
                found["own" if lang in direction else "others"].append(100 * float((rank[chosen] == 1).mean()))
            facts[half] = {key: round(float(np.mean(values)), 1) for key, values in found.items() if values}
        lines.append(facts)
        say(f"{name}, seed {seed}: {facts}")
    baseline = shared_tokens(training, test, lang)
    return {
        "benchmark": "few documents",
        "corpus": name,
        "seed": seed,
        "lang": lang,
        "shared_tokens": baseline,
        "sizes": lines,
    }


if __name__ == "__main__":
    run(measure, __doc__, CORPORA)
