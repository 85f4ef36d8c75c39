"""Mining: sentences of two unaligned collections that are translations of each other.

Candidates are the ``NEIGHBOURS`` nearest sentences of every sentence, in both directions. The score of a pair is

    t(a, b) - (r(a) + r(b)) / 2,    t(a, b) = s(a, b) - LENGTH_WEIGHT |ln(length of b / expected length)|

where s is the weighted sum of the cosines of all views, in units of the vectors' cosine, and r the mean of t over all
candidates of a sentence. Pairs are kept whose sentences are each other's best. The score says how much closer a pair is
than its neighbours, so that a sentence that is close to many has low scores.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from cr5._typing import Array, Ints
from cr5.alignment.links import LENGTH_PRIOR, MAX_LENGTH_RATIO
from cr5.corpus.texts import text_list
from cr5.errors import Cr5Error, FewKnownWords, one_of, warn, whole_number
from cr5.features.counts import count_words
from cr5.features.tokeniser import has_letter_or_digit
from cr5.model import Cr5
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.retrieval.block_products import WeightedView, multiply_pairs
from cr5.retrieval.both_directions import nearest_in_both_directions
from cr5.retrieval.clustering import kmeans, number_of_lists, sampling_step
from cr5.retrieval.scorer import Scorer
from cr5.retrieval.text_similarity import TYPICAL_DEVIATIONS
from cr5.retrieval.top_k import nearest, nearest_in_views

Candidates: TypeAlias = Literal["vectors", "views"]
NEIGHBOURS = 8
EXACT_UP_TO = 30_000  # exact search if the smaller side has at most this many sentences
PROBES = 64  # inverted lists that a sentence is compared with
MIN_SCORE = 0.4
MIN_KNOWN_WORDS, SAMPLED_SENTENCES = 0.8, 1_000  # a lower share of known words in this sample gives a warning
MAX_STRINGS_WEIGHT = 0.1  # single sentences share fewer strings than the documents that the weight was chosen for
LENGTH_WEIGHT = 0.3  # in units of the cosine; in links, similarities are in standard deviations
ENCODED_ROWS, SEARCHED_ROWS, SCORED_ROWS = 16_384, 65_536, 4_096  # sentences at a time
VECTOR_TYPE = np.float16  # of stored vectors: those of a million sentences take 600 MB


class ParallelSentences(NamedTuple):
    """The positions of two sentences, from 0, in the collections that were given, and the score of the pair."""

    a: int
    b: int
    score: float


class _Collection(NamedTuple):
    """The distinct sentences of a collection, the position where each first occurs, and their vectors."""

    lang: str
    texts: list[str]
    first: Ints
    vectors: Array


class _Search(NamedTuple):
    """How candidates are found; see ``mine``."""

    candidates: Candidates
    neighbours: int
    exact_up_to: int
    probes: int


class _Pairs(NamedTuple):
    """Candidate pairs, ordered by a."""

    a: Ints
    b: Ints


def mine(
    model: Cr5,
    sentences_a: Sequence[str],
    lang_a: str,
    sentences_b: Sequence[str],
    lang_b: str,
    *,
    min_score: float = MIN_SCORE,
    neighbours: int = NEIGHBOURS,
    candidates: Candidates = "vectors",
    exact_up_to: int = EXACT_UP_TO,
    probes: int = PROBES,
    rerank: bool = True,
    progress: ProgressCallback = no_progress,
) -> list[ParallelSentences]:
    """The sentences of two collections in different languages that are translations of each other, best first.

    A pair is kept if both sentences are each other's best and its score is at least ``min_score``; see the module. Of
    equal sentences, the first one is used. ``candidates`` are found by the vectors, or by all views of the model, which
    takes many times as long and finds more with a model that knows few of the words. If one side has at most
    ``exact_up_to`` different sentences, or by all views, every sentence is compared with every other; else those of
    ``sentences_b`` are in inverted lists, and a sentence is compared with those in its ``probes`` nearest lists.
    ``rerank=False`` scores by the vectors alone. Memory holds the sentences, two bytes for each number of their
    vectors, and the candidates.
    """
    lang_a, lang_b = model.find_language(lang_a), model.find_language(lang_b)
    if lang_a == lang_b:
        raise Cr5Error(f"both collections are in {lang_a}; give sentences in two languages, or name them with `langs`")
    one_of("candidates", candidates, get_args(Candidates))
    search = _Search(
        candidates,
        whole_number("neighbours", neighbours, 1),
        whole_number("exact_up_to", exact_up_to),
        whole_number("probes", probes, 1),
    )
    a, b = (
        _read_collection(model, text_list(sentences, name), lang, progress)
        for sentences, lang, name in ((sentences_a, lang_a, "sentences_a"), (sentences_b, lang_b, "sentences_b"))
    )
    if not a.texts or not b.texts:
        return []
    for collection in (a, b) if candidates == "vectors" else ():
        _warn_of_unknown_words(model, collection)
    pairs = _candidates(model, a, b, search, progress)
    if not len(pairs.a):
        return []
    similarity = _similarities(model, a, b, pairs, rerank, progress)
    scores = similarity - (_means(similarity, pairs.a) + _means(similarity, pairs.b)) / 2
    chosen = _mutual_best(scores, pairs)
    chosen = chosen[scores[chosen] >= min_score]
    chosen = chosen[np.argsort(-scores[chosen], kind="stable")]
    return [
        ParallelSentences(int(a.first[pairs.a[i]]), int(b.first[pairs.b[i]]), float(scores[i])) for i in chosen.tolist()
    ]


def _read_collection(model: Cr5, sentences: Sequence[str], lang: str, progress: ProgressCallback) -> _Collection:
    """The different sentences of a collection with a letter or digit; spaces do not make a difference."""
    unique: dict[str, int] = {}
    for number, sentence in enumerate(sentences):
        unique.setdefault(" ".join(sentence.split()), number)
    texts = [text for text in unique if has_letter_or_digit(text)]
    vectors = np.empty((len(texts), model.rank), VECTOR_TYPE)
    for begin in range(0, len(texts), ENCODED_ROWS):
        vectors[begin : begin + ENCODED_ROWS] = model.encode(texts[begin : begin + ENCODED_ROWS], lang)
        progress(Progress(f"encode {lang}", min(begin + ENCODED_ROWS, len(texts)), len(texts)))
    return _Collection(lang, texts, np.array([unique[text] for text in texts], np.int64), vectors)


def _warn_of_unknown_words(model: Cr5, collection: _Collection) -> None:
    """Warn if the model knows few of the words of some sentences, evenly spaced, of a collection."""
    step = -(-len(collection.texts) // SAMPLED_SENTENCES)
    known = float(model.coverage(collection.texts[::step], collection.lang).mean())
    if known < MIN_KNOWN_WORDS:
        message = (
            f"the model knows {known:.0%} of the words of the {collection.lang} sentences, and finds few pairs of them"
        )
        advice = 'give a model that was trained on such texts, or use `candidates="views"`'
        warn(f"{message}; {advice}", FewKnownWords)


# Candidates


def _candidates(model: Cr5, a: _Collection, b: _Collection, search: _Search, progress: ProgressCallback) -> _Pairs:
    """The nearest sentences of each, in both directions, except those without a known word."""
    if search.candidates == "views":
        of_a, of_b = (_nearest_in_views(model, *sides, search.neighbours, progress) for sides in ((a, b), (b, a)))
    else:
        lists = 1 if min(len(a.texts), len(b.texts)) <= search.exact_up_to else number_of_lists(len(b.texts))
        of_a, of_b = nearest_in_both_directions(
            a.vectors, b.vectors, search.neighbours, lists=lists, probes=min(search.probes, lists), progress=progress
        )
    rows, columns = ((side >= 0).nonzero() for side in (of_a, of_b))
    keys = np.unique(np.concatenate([rows[0] * len(b.texts) + of_a[rows], of_b[columns] * len(b.texts) + columns[0]]))
    found = _Pairs(*np.divmod(keys, len(b.texts)))
    known = np.asarray(a.vectors.any(axis=1))[found.a] & np.asarray(b.vectors.any(axis=1))[found.b]
    return _Pairs(found.a[known], found.b[known])


def _nearest_in_views(
    model: Cr5, queries: _Collection, others: _Collection, k: int, progress: ProgressCallback
) -> Ints:
    """queries x k: the positions of the nearest other sentences, by exact search."""
    found = np.empty((len(queries.texts), min(k, len(others.texts))), np.int64)
    counts = count_words(others.texts, others.lang, model.settings.tokeniser)
    scorer = _scorer(model)
    scales = scorer.scales(TYPICAL_DEVIATIONS)
    for begin in range(0, len(found), SEARCHED_ROWS):
        rows = slice(begin, begin + SEARCHED_ROWS)
        own = count_words(queries.texts[rows], queries.lang, model.settings.tokeniser)
        pairs = scorer.pairs(own, queries.lang, counts, others.lang)
        found[rows] = nearest_in_views([WeightedView(*pairs[name], scales[name]) for name in pairs], k).indices
        stage = f"search {queries.lang} to {others.lang}"
        progress(Progress(stage, min(begin + SEARCHED_ROWS, len(found)), len(found)))
    return found


# Scores


def _similarities(
    model: Cr5, a: _Collection, b: _Collection, pairs: _Pairs, rerank: bool, progress: ProgressCallback
) -> Array:
    """s(a, b) less what the lengths cost, for every pair."""
    total = np.empty(len(pairs.a), np.float32)
    logs = [np.log(np.array([len(text) for text in side.texts]) + LENGTH_PRIOR) for side in (a, b)]
    ratio = logs[1].mean() - logs[0].mean()
    for number, block in enumerate(blocks := _blocks(a, pairs)):
        rows, columns = pairs.a[block], pairs.b[block]
        vectors = a.vectors[rows].astype(np.float32), b.vectors[columns].astype(np.float32)
        similarity = np.einsum("ij,ij->i", *vectors)
        if rerank:
            similarity += _other_views(_scorer(model), model, a, b, rows, columns)
            lengths = np.abs(logs[1][columns] - logs[0][rows] - ratio)
            similarity -= LENGTH_WEIGHT * np.minimum(lengths, MAX_LENGTH_RATIO)
        total[block] = similarity
        progress(Progress("score", number + 1, len(blocks)))
    return total


def _blocks(a: _Collection, pairs: _Pairs) -> list[Ints]:
    """The positions of the pairs of similar sentences of a, in blocks ordered by a that share most candidates."""
    number = len(a.texts) // SCORED_ROWS
    clusters = np.zeros(len(a.texts), np.int64)
    if number > 1:
        step = sampling_step(len(a.texts), number)
        clusters = nearest(a.vectors, kmeans(a.vectors[::step].astype(np.float32), number), 1).indices[:, 0]
    place = np.empty(len(a.texts), np.int64)
    place[np.argsort(clusters, kind="stable")] = np.arange(len(a.texts))
    order = np.argsort(place[pairs.a], kind="stable")
    starts = np.searchsorted(place[pairs.a][order], np.arange(SCORED_ROWS, len(a.texts), SCORED_ROWS))
    return [np.sort(block) for block in np.split(order, starts) if len(block)]


def _other_views(scorer: Scorer, model: Cr5, a: _Collection, b: _Collection, rows: Ints, columns: Ints) -> Array:
    """What the views other than the vectors add to s(a, b), for pairs that are ordered by their rows."""
    total, scales = np.zeros(len(rows), np.float32), scorer.scales(TYPICAL_DEVIATIONS)
    own, own_places = np.unique(rows, return_inverse=True)
    others, places = np.unique(columns, return_inverse=True)
    counts = [
        count_words([side.texts[i] for i in chosen.tolist()], side.lang, model.settings.tokeniser)
        for side, chosen in ((a, own), (b, others))
    ]
    for name, (left, right) in scorer.only("lexicon", "strings").pairs(counts[0], a.lang, counts[1], b.lang).items():
        total += np.float32(scales[name]) * multiply_pairs(left, right, own_places, places)
    return total


def _scorer(model: Cr5) -> Scorer:
    return model.scorer({"strings": min(model.view_weights["strings"], MAX_STRINGS_WEIGHT)})


def _means(values: Array, rows: Ints) -> Array:
    """For every pair, the mean of the values of all pairs with the same row."""
    return np.asarray((np.bincount(rows, values) / np.maximum(np.bincount(rows), 1))[rows])


def _mutual_best(scores: Array, pairs: _Pairs) -> Ints:
    """The pairs whose sentences are each other's best; of equal scores, the first counts."""
    return np.asarray(np.intersect1d(_best_of_each(scores, pairs.a), _best_of_each(scores, pairs.b)))


def _best_of_each(scores: Array, rows: Ints) -> Ints:
    order = np.lexsort((np.arange(len(rows)), -scores, rows))
    return np.asarray(order[np.flatnonzero(np.diff(rows[order], prepend=-1))])
