"""Word vectors: skip-gram in every language, turned onto a pivot language, averaged into documents.

The family of baselines that the paper measures itself against (Conneau et al., "Word translation without
parallel data"; Litschko et al., "Unsupervised cross-lingual information retrieval"), trained on the same
texts as everyone else. Concept numbers are not looked at: languages meet in a dictionary of words, or in
the strings that they share.
"""

import hashlib
import json
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cr5._typing import Array, Ints
from cr5.errors import CorpusError, Cr5Error
from cr5.evaluate.systems.space import NotApplicableError, Space, System
from cr5.evaluate.texts import TokenisedTexts
from cr5.features.tfidf import remap_columns, tfidf_rows
from cr5.features.tokeniser import Tokens
from cr5.machine import available_cores
from cr5.retrieval.csls import csls, csls_penalty, neighbourhood_means
from cr5.retrieval.top_k import nearest
from cr5.retrieval.vectors import row_products, unit_rows

Pairs = Sequence[tuple[str, str]]

PIVOT = "en"
SEEDS = 20  # pairs of words, at the least, to turn one language onto another
FREQUENT, ROUNDS = 10_000, 5  # words that refinement looks at, and how often
_LONGEST = 10_000  # tokens of a sentence that gensim looks at
_JOBS = 100  # at the least, into which an epoch is cut: between two of them the rate of learning falls


@dataclass(frozen=True)
class SkipGram:
    """How vectors are learned from running text; what is not named here is as gensim has it.

    An epoch is one pass over a language's tokens. Small corpora are passed over more often, until
    ``tokens`` are seen, but never more often than ``max_epochs`` times: of 370,000 tokens, 10 epochs gave
    P@1 86 on validation documents, 30 gave 96. Twice as many negative words gave the documents no more.
    """

    window: int = 5
    negative: int = 5
    sample: float = 1e-4
    rate: float = 0.025
    min_count: int = 3
    max_words: int = 200_000
    tokens: int = 20_000_000
    min_epochs: int = 5
    max_epochs: int = 30


class Alignment(NamedTuple):
    """How one language was turned onto another: W, dimensions x dimensions, orthogonal.

    ``csls`` is the mean CSLS of the dictionary that W induces, ``rounds`` the refinements that made it better.
    """

    W: Array
    csls: float
    rounds: int


class _Language(NamedTuple):
    """Words, most frequent first; their place; their unit vectors and their IDF."""

    words: list[str]
    place: dict[str, int]
    vectors: Array
    idf: Array


class WordSpace(Space):
    """Documents as the IDF-weighted mean of the unit vectors of their words, and the words themselves."""

    def __init__(self, languages: Mapping[str, _Language], report: Mapping[str, Any]) -> None:
        self._languages = languages
        self.report = report

    @property
    def langs(self) -> list[str]:
        return list(self._languages)

    def words(self, lang: str) -> list[str]:
        """The words of a language, most frequent first."""
        return self._language(lang).words

    def vectors(self, lang: str) -> Array:
        """The unit vector of every word, in the same order: words x dimensions, float32."""
        return self._language(lang).vectors

    def embed(self, texts: TokenisedTexts, lang: str) -> Array:
        """Unit rows; a text without a known word stays at 0."""
        language = self._language(lang)
        counts = texts.counts
        columns = np.fromiter((language.place.get(word, -1) for word in counts.words), np.int32, len(counts.words))
        X = tfidf_rows(remap_columns(counts.matrix, columns, len(language.words)), language.idf, "raw")
        return unit_rows(X @ language.vectors)

    def _language(self, lang: str) -> _Language:
        if lang not in self._languages:
            raise NotApplicableError(f"there are no word vectors of language {lang}, but of {_listed(self._languages)}")
        return self._languages[lang]


class Monolingual:
    """Vectors of every language, each learned once, when it is first asked for, from its own texts.

    For systems that are trained on several sets of languages or concepts: what a language's words mean
    to each other does not depend on the others, and learning it is what takes time.
    """

    def __init__(
        self, texts: Mapping[str, TokenisedTexts], *, skip_gram: SkipGram | None = None, workers: int = 1
    ) -> None:
        self.texts, self.settings, self.workers = texts, skip_gram or SkipGram(), workers
        self._learned: dict[tuple[str, int, int], _Language] = {}

    def languages(self, langs: Iterable[str], rank: int, seed: int) -> dict[str, _Language]:
        """These languages, several of them learned side by side."""
        wanted = list(langs)
        missing = [lang for lang in wanted if (lang, rank, seed) not in self._learned]
        learn = _learner(self.settings, rank, seed, self.workers)
        with ThreadPoolExecutor(max(1, available_cores() // self.workers)) as pool:
            found = pool.map(learn, missing, [self.texts[lang] for lang in missing])
            self._learned |= {(lang, rank, seed): own for lang, own in zip(missing, found, strict=True)}
        return {lang: self._learned[lang, rank, seed] for lang in wanted}


def word_vectors(
    dictionaries: Mapping[tuple[str, str], Pairs] | None = None,
    *,
    monolingual: Monolingual | None = None,
    skip_gram: SkipGram | None = None,
    workers: int = 1,
) -> System:
    """A system: skip-gram vectors of every language, aligned with the pivot's by Procrustes and CSLS refinement.

    ``dictionaries`` are pairs of words by (source, target) language; of a language and the pivot both directions
    count. Without dictionaries, the strings that both vocabularies hold are the seeds. The pivot is English, or
    the first language by name. ``workers`` are threads a language: languages are learned side by side anyway,
    each on one thread, and a seed gives the same vectors again; with more threads it does not. With
    ``monolingual`` the vectors are those, instead of being learned from the training texts anew.
    """

    def train(training: Mapping[str, TokenisedTexts], *, rank: int, seed: int) -> WordSpace:
        started = time.perf_counter()
        pivot = PIVOT if PIVOT in training else min(training)
        source = monolingual or Monolingual(training, skip_gram=skip_gram, workers=workers)
        learned = source.languages(training, rank, seed)
        kinds: dict[str, str] = {}
        seeds: dict[str, int] = {}
        alignments: dict[str, Alignment] = {}
        for lang in training:
            if lang != pivot:
                kinds[lang], rows, pivot_rows = _seeds(lang, learned[lang], pivot, learned[pivot], dictionaries)
                seeds[lang] = len(rows)
                X, Y = learned[lang].vectors, learned[pivot].vectors
                alignments[lang] = refine(X[:FREQUENT], Y[:FREQUENT], procrustes(X[rows], Y[pivot_rows]))
        report = {
            "signature": f"rank {rank}, {_described(dictionaries)}",
            "pivot": pivot,
            "words": {lang: len(language.words) for lang, language in learned.items()},
            "kind": kinds,
            "seeds": seeds,
            "rounds": {lang: alignment.rounds for lang, alignment in alignments.items()},
            "csls": {lang: alignment.csls for lang, alignment in alignments.items()},
            "epochs": {lang: _epochs(len(source.texts[lang].tokens.ids), source.settings) for lang in training},
            "settings": {**asdict(source.settings), "dimensions": rank, "workers": source.workers},
            "seconds": time.perf_counter() - started,
        }
        turned = {
            lang: language._replace(vectors=unit_rows(language.vectors @ alignments[lang].W.astype(np.float32)))
            if lang in alignments
            else language
            for lang, language in learned.items()
        }
        return WordSpace(turned, report)

    return train


def procrustes(X: Array, Y: Array) -> Array:
    """The orthogonal W with the least |X W - Y|: W = U V', where X' Y = U S V'."""
    U, _, Vt = np.linalg.svd(X.astype(np.float64).T @ Y.astype(np.float64))
    return np.asarray(U @ Vt)


def refine(X: Array, Y: Array, W: Array, rounds: int = ROUNDS) -> Alignment:
    """Procrustes again, on the words that are each other's nearest by CSLS = 2 x'y - r(x) - r(y).

    X, Y: unit vectors of frequent words. Ends after ``rounds``, or where the mean CSLS of these pairs gets no
    better; the best W is returned.
    """
    rows, others, mean_csls = mutual(X @ W.astype(X.dtype), Y)
    best = Alignment(W, mean_csls, 0)
    for i in range(1, rounds + 1):
        if not len(rows):
            break
        W = procrustes(X[rows], Y[others])
        rows, others, mean_csls = mutual(X @ W.astype(X.dtype), Y)
        if mean_csls <= best.csls:
            break
        best = Alignment(W, mean_csls, i)
    return best


def mutual(X: Array, Y: Array) -> tuple[Ints, Ints, float]:
    """The rows of X and of Y that are each other's nearest by CSLS, and the mean CSLS of these pairs."""
    rx, ry = neighbourhood_means(X, Y), neighbourhood_means(Y, X)
    there = nearest(X, Y, 1, penalty=csls_penalty(ry)).indices[:, 0]
    back = nearest(Y, X, 1, penalty=csls_penalty(rx)).indices[:, 0]
    rows = np.flatnonzero(back[there] == np.arange(len(X)))
    others = there[rows]
    scores = csls(row_products(X[rows], Y[others]), rx[rows], ry[others])
    return rows, others, float(scores.mean(dtype=np.float64)) if len(rows) else -np.inf


def normalise(vectors: Array) -> Array:
    """Unit length, mean 0, unit length again: what is common to all words tells none of them apart.

    On validation documents that made cosine two points better and CSLS no worse.
    """
    vectors = unit_rows(vectors)
    return unit_rows(vectors - vectors.mean(axis=0))


def read_dictionary(path: Path) -> list[tuple[str, str]]:
    """Pairs of words, lower-cased as the tokeniser does it: source, tab, target; or two words with white space between.

    A word may stand on several lines, with another translation on each.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CorpusError(f"{path}: cannot be read, {reason}; check its name and permissions") from error
    pairs = []
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise CorpusError(
                f"{path}, line {number}: byte 0x{line[error.start]:02x} is not UTF-8; "
                "convert the file with iconv -t utf-8"
            ) from error
        if not text.strip():
            continue
        fields = [part.strip() for part in text.split("\t")] if "\t" in text.strip() else text.split()
        if len(fields) != 2:
            found = _count(len(fields), "word" if all(fields) else "column")
            raise CorpusError(f"{path}, line {number}: {found} instead of 2; write a word, a tab and its translation")
        pairs.append(fields)
    if not pairs:
        raise CorpusError(
            f"{path}: no pair of words in this file; write a word, a tab and its translation on each line"
        )
    sources, targets = (_lower(column) for column in zip(*pairs, strict=True))
    return list(zip(sources, targets, strict=True))


def _lower(words: Sequence[str]) -> list[str]:
    array = pa.array([unicodedata.normalize("NFKC", word).replace("\u00ad", "") for word in words], pa.large_string())
    return list(pc.utf8_lower(array).to_pylist())


class _Sentences:
    """Documents as gensim reads them, again and again: lists of words, none longer than it looks at."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens

    def __iter__(self) -> Iterator[list[str]]:
        words = np.array(self.tokens.words, dtype=object)
        offsets = self.tokens.offsets.tolist()
        for start, stop in pairwise(offsets):
            for first in range(start, stop, _LONGEST):
                yield words[self.tokens.ids[first : min(first + _LONGEST, stop)]].tolist()


def _learner(settings: SkipGram, rank: int, seed: int, workers: int) -> Callable[[str, TokenisedTexts], _Language]:
    """The function that learns a language."""
    try:
        from gensim.models import Word2Vec
    except ImportError as error:
        raise Cr5Error("word vectors need gensim; install it with pip install 'cr5[eval]'") from error

    def learn(lang: str, texts: TokenisedTexts) -> _Language:
        counts = np.bincount(texts.tokens.ids, minlength=1)
        if counts.max() < settings.min_count:
            raise NotApplicableError(
                f"no word of language {lang} occurs {settings.min_count} times in the training texts, "
                "too few for word vectors; add documents"
            )
        size = len(texts.tokens.ids)
        # A seed of its own: two languages that start from the same numbers would not be strangers.
        own_seed = int(np.random.SeedSequence([seed, *lang.encode()]).generate_state(1)[0])
        model = Word2Vec(
            _Sentences(texts.tokens),
            sg=1,
            vector_size=rank,
            window=settings.window,
            negative=settings.negative,
            sample=settings.sample,
            alpha=settings.rate,
            min_count=settings.min_count,
            max_final_vocab=settings.max_words,
            epochs=_epochs(size, settings),
            batch_words=int(np.clip(size // _JOBS, 100, _LONGEST)),
            seed=own_seed,
            workers=workers,
        )
        words = list(model.wv.index_to_key)
        column = {word: i for i, word in enumerate(texts.counts.words)}
        documents = np.bincount(texts.counts.matrix.indices, minlength=len(column))
        idf = np.log(len(texts) / documents[[column[word] for word in words]]).astype(np.float32)
        return _Language(words, dict(model.wv.key_to_index), normalise(model.wv.vectors), idf)

    return learn


def _epochs(size: int, settings: SkipGram) -> int:
    return int(np.clip(settings.tokens // max(size, 1), settings.min_epochs, settings.max_epochs))


def _described(dictionaries: Mapping[tuple[str, str], Pairs] | None) -> str:
    """Where the seeds come from, for a signature."""
    if dictionaries is None:
        return "identical strings"
    content = sorted((*langs, *pair) for langs, pairs in dictionaries.items() for pair in pairs)
    return "dictionary " + hashlib.sha256(json.dumps(content).encode()).hexdigest()[:8]


def _seeds(
    lang: str, own: _Language, pivot: str, other: _Language, dictionaries: Mapping[tuple[str, str], Pairs] | None
) -> tuple[str, Ints, Ints]:
    """Where the seeds come from, and their places in either vocabulary."""
    there, back = (dictionaries or {}).get((lang, pivot)), (dictionaries or {}).get((pivot, lang))
    if dictionaries is None:
        kind, pairs = "identical strings", [(word, word) for word in own.words]
    elif there is None and back is None:
        raise NotApplicableError(f"there is no dictionary of {lang} and {pivot}; give one to align their word vectors")
    else:
        kind, pairs = "dictionary", [*(there or []), *((target, source) for source, target in back or [])]
    known = [
        (own.place[word], other.place[translation])
        for word, translation in dict.fromkeys(pairs)
        if word in own.place and translation in other.place
    ]
    if len(known) < SEEDS:
        found = (
            f"the vocabularies of {lang} and {pivot} share {_count(len(known), 'string')}"
            if kind == "identical strings"
            else f"the vocabularies of {lang} and {pivot} hold {_count(len(known), 'pair')} of their dictionary"
        )
        raise NotApplicableError(
            f"{found}, too few to align word vectors, which takes {SEEDS}; give a larger dictionary"
        )
    rows, pivot_rows = np.array(known, np.int64).T
    return kind, rows, pivot_rows


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(sorted(names))
