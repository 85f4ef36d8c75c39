"""Plagiarism detection: passages of a suspect text that are in other documents, in other languages.

Groups of consecutive sentences are queries to an index of the sources. The sentences of the suspect are compared with
those of the documents that were found, by all views; sentences that are each other's best and stand out are linked, and
links that follow each other on both sides make a match.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from cr5.alignment.documents import SplitText, split_text, text_language
from cr5.alignment.links import Link, Units, align_units
from cr5.corpus.texts import one_or_several
from cr5.errors import Cr5Error, whole_number
from cr5.index import Index, IndexedDocument
from cr5.model import Cr5
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.retrieval.explanations import WordPairContribution
from cr5.retrieval.function_words import is_function_word
from cr5.retrieval.snippets import word_spans
from cr5.retrieval.text_similarity import pair_similarities

QUERY_SENTENCES = 2  # sentences per query; it begins with the last sentence of the query before it
QUERY_HITS = 3  # documents, and passages, used per query
MAX_DOCUMENTS = 300  # documents compared with a text: those that most queries find
MIN_SCORE = 0.25
MAX_GAP = 1  # unlinked sentences allowed between two links of a match
MIN_MATCH_CHARACTERS = 40  # a shorter match, such as a heading, is not evidence of copying
MIN_WORDS = 4  # length of a sentence that is linked; a shorter one may be a heading of its neighbours
EXPLAINED_WORDS = 12


class Passage(NamedTuple):
    """Consecutive sentences of a text, numbered from 0, and their text with the places of words that matched."""

    sentences: tuple[int, ...]
    text: str
    words: list[tuple[int, int]]


@dataclass(frozen=True)
class Match:
    """A passage of the suspect text and the passage of a source that says the same.

    ``score`` is the similarity of both passages by all views; ``pairs`` are words that contribute most to that of their
    vectors. ``others`` are sources of the same sentences in other languages, with their scores, best first.
    """

    score: float
    suspect: Passage
    source: IndexedDocument
    passage: Passage
    pairs: list[WordPairContribution]
    others: list[tuple[IndexedDocument, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Suspect:
    """A text with its matches, in the order of the text."""

    text: SplitText
    matches: list[Match]
    documents: int

    @property
    def matched_share(self) -> float:
        """The share of its characters that are in a match."""
        matched = {i for match in self.matches for i in match.suspect.sentences}
        lengths = [len(sentence) for sentence in self.text.sentences]
        return sum(lengths[i] for i in matched) / sum(lengths)


class _Candidate(NamedTuple):
    """Sentences of the suspect and of a source that may be a match."""

    score: float
    own: tuple[int, ...]
    other: tuple[int, ...]
    document: IndexedDocument
    text: SplitText


def find_reused(
    index: Index,
    text: str,
    *,
    lang: str | None = None,
    langs: str | Collection[str] | None = None,
    min_score: float = MIN_SCORE,
    hits: int = QUERY_HITS,
    name: str = "",
    progress: ProgressCallback = no_progress,
) -> Suspect:
    """The passages of a text that documents of an index say in other languages.

    ``lang`` is the language of the text, guessed by default, and ``langs`` are those of the sources, by default all
    others. A match has a similarity of at least ``min_score``. More ``hits`` for each query find more and take longer.
    """
    model = index.model
    own = split_text(text, text_language(model, text, lang, name, "lang"), name)
    among = [code for code in model.langs if code != own.lang]
    if langs is not None:
        among = [model.find_language(code) for code in one_or_several(langs)]
    if not among:
        raise Cr5Error(f"the model has no other language than {own.lang}; name it in `langs` to look for copies in it")
    documents = _find_documents(index, own, among, whole_number("hits", hits, 1), progress)
    found: list[_Candidate] = []
    for number, code in enumerate(sorted({document.lang for document in documents})):
        found += _candidates(model, own, [each for each in documents if each.lang == code], min_score)
        progress(Progress("compare", number + 1, len(among)))
    found.sort(key=lambda each: (-each.score * sum(len(own.sentences[i]) for i in each.own) ** 0.5, each.own))
    matches = [_match(model, own, *chosen) for chosen in _best_matches(found)]
    return Suspect(own, sorted(matches, key=lambda match: match.suspect.sentences), len(documents))


def _find_documents(
    index: Index, text: SplitText, langs: Sequence[str], hits: int, progress: ProgressCallback
) -> list[IndexedDocument]:
    """The documents that most queries find, each once: by words and vectors, and by the vectors of their passages."""
    count: Counter[str] = Counter()
    starts = range(max(len(text.sentences) - QUERY_SENTENCES + 1, 1))
    queries = [" ".join(text.sentences[start : start + QUERY_SENTENCES]) for start in starts]
    for number, vector in enumerate(index.model.encode(queries, text.lang)):
        if number % QUERY_SENTENCES == 0:  # these take longer
            count.update(hit.id for hit in index.search(queries[number], text.lang, k=hits, langs=langs).hits)
        count.update({passage.document_id for passage in index.nearest_passages(vector, k=hits, langs=langs)})
        progress(Progress("search", number + 1, len(starts)))
    return index.get([document_id for document_id, _ in count.most_common(MAX_DOCUMENTS)])


def _candidates(
    model: Cr5, own: SplitText, documents: Sequence[IndexedDocument], min_score: float
) -> Iterator[_Candidate]:
    """The passages that a text has in common with documents of one language: each sentence with the best of all."""
    others = [split_text(document.text, document.lang, document.id) for document in documents]
    starts = [0, *accumulate(len(other.sentences) for other in others)]
    sentences = [sentence for other in others for sentence in other.sentences]
    long_own, long_others = (
        _with_enough_words(model, own.sentences, own.lang),
        _with_enough_words(model, sentences, others[0].lang),
    )
    if not long_own or not long_others:
        return
    chosen = [own.sentences[i] for i in long_own], [sentences[i] for i in long_others]
    links = align_units(model, chosen[0], own.lang, chosen[1], others[0].lang, free=True)
    of_document: dict[int, list[Link]] = defaultdict(list)
    for link in links:
        if link.a and link.b:
            number = bisect_right(starts, long_others[link.b[0]]) - 1
            rows = (long_others[unit] for unit in link.b)
            units = tuple(row - starts[number] for row in rows if row < starts[number + 1])
            of_document[number].append(Link(tuple(long_own[unit] for unit in link.a), units, link.score))
    found = [(number, *group) for number, own_links in of_document.items() for group in _groups(own_links)]
    if not found:
        return
    texts = [own.joined(x) for _, x, _ in found], [others[number].joined(y) for number, _, y in found]
    a, b = Units(texts[0], own.lang, model), Units(texts[1], others[0].lang, model)
    scores = pair_similarities(model.scorer(), a.counts, a.lang, b.counts, b.lang)
    for (number, x, y), score, text in zip(found, scores.tolist(), texts[0], strict=True):
        if score >= min_score and len(text) >= MIN_MATCH_CHARACTERS:
            yield _Candidate(score, x, y, documents[number], others[number])


def _with_enough_words(model: Cr5, sentences: Sequence[str], lang: str) -> list[int]:
    """The positions of the sentences that have at least ``MIN_WORDS`` words."""
    counts = np.diff(model.settings.tokeniser(list(sentences), lang).offsets)
    return [int(i) for i in np.flatnonzero(counts >= MIN_WORDS)]


def _groups(links: Sequence[Link]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Links that follow each other on both sides, in either order, with gaps of at most ``MAX_GAP`` sentences."""
    groups: list[tuple[list[int], list[int]]] = []
    for link in sorted(links):
        for own, other in groups:
            near = min(link.a) - max(own) <= MAX_GAP + 1
            gaps = min(link.b) - max(other), min(other) - max(link.b)
            if near and max(gaps) <= MAX_GAP + 1:
                own += link.a
                other += link.b
                break
        else:
            groups.append((list(link.a), list(link.b)))
    return [(tuple(range(min(own), max(own) + 1)), tuple(range(min(other), max(other) + 1))) for own, other in groups]


def _best_matches(found: Sequence[_Candidate]) -> list[tuple[_Candidate, list[_Candidate]]]:
    """The best matches that do not overlap in the suspect text, each with the others of the same sentences."""
    chosen: list[tuple[_Candidate, list[_Candidate]]] = []
    for candidate in found:
        for better, others in chosen:
            if 2 * len(set(candidate.own) & set(better.own)) >= len(candidate.own):
                others.append(candidate)
                break
        else:
            taken = {i for better, _ in chosen for i in better.own}
            if not taken & set(candidate.own):
                chosen.append((candidate, []))
    return chosen


def _match(model: Cr5, own: SplitText, found: _Candidate, others: Sequence[_Candidate]) -> Match:
    texts = own.joined(found.own), found.text.joined(found.other)
    reason = model.explain(texts[0], own.lang, texts[1], found.text.lang, EXPLAINED_WORDS, views=True)
    listed = [{word.word for word in words if word.value > 0} for words in (reason.words_a, reason.words_b)]
    for view in reason.views:
        for words, drops in zip(listed, (view.words_a, view.words_b), strict=True):
            words.update(drop.word for drop in drops)
    words_a, words_b = (
        sorted(word for word in words if not is_function_word(word, lang))
        for words, lang in zip(listed, (own.lang, found.text.lang), strict=True)
    )
    best: dict[str, _Candidate] = {}
    for other in others:
        if other.document.id != found.document.id:
            best.setdefault(other.document.id, other)
    return Match(
        found.score,
        Passage(found.own, texts[0], word_spans(texts[0], words_a)),
        found.document,
        Passage(found.other, texts[1], word_spans(texts[1], words_b)),
        [pair for pair in reason.pairs if pair.value > 0],
        [(other.document, other.score) for other in best.values()],
    )
