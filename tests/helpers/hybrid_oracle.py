"""The relevance of hybrid search by dense matrices, one document after the other."""

from collections import Counter
from itertools import pairwise

import madeup
import numpy as np
from bm25_oracle import Words, bm25, inverse_document_frequencies, words_of

from cr5 import Cr5, Document
from cr5._typing import Array
from cr5.index import hybrid
from cr5.index.passages import PassageSettings, passage_spans
from cr5.index.query_words import CERTAIN_BOOST, FEW_WORDS, KNOWN_WORD_FORMS
from cr5.index.terms import QueryWord
from cr5.retrieval.word_forms import TermDictionary, find_forms, with_regular_forms


def logistic(z: float) -> float:
    return float(1 / (1 + np.exp(-(z - hybrid.CENTRE) / hybrid.WIDTH)))


def bounded(value: float) -> float:
    excess = max(value - hybrid.LINEAR_UP_TO, 0) / hybrid.CURVATURE
    return float(min(value, hybrid.LINEAR_UP_TO) + (1 - hybrid.LINEAR_UP_TO) * (1 - np.exp(-excess)))


def saturating(words: list[QueryWord]) -> list[QueryWord]:
    weights = np.array([word.weight for word in words])
    scale = max(1, weights.sum() ** 2 / (weights**2).sum() / FEW_WORDS)
    return [QueryWord(word.weight, {term: scale * boost for term, boost in word.terms.items()}) for word in words]


def mean_of_ten(cosines: Array) -> float:
    return float(np.sort(cosines)[-10:].mean())


class DenseRelevance:
    """The relevance of every document, as the formulas in ``cr5.index.hybrid`` say."""

    def __init__(self, model: Cr5, documents: list[Document], passages: PassageSettings) -> None:
        self.model, self.passage_settings, self.ids = model, passages, [f"{d.lang}:{d.concept}" for d in documents]
        self.documents = dict(zip(self.ids, documents, strict=True))
        self.words, self.passages = words_of(model, documents), dict[str, Words]()
        for name, d in self.documents.items():
            for number, (begin, end) in enumerate(passage_spans(d.text, passages)):
                tokens = model.settings.tokeniser.words(f"{d.title}\n{d.text[begin:end]}", d.lang)
                self.passages[f"{name} {number}"] = Words(d.lang, Counter(tokens))
        self.vectors = {name: model.encode(d.text, d.lang) for name, d in self.documents.items()}
        self.vocabularies = {
            lang: TermDictionary(
                sorted({word for words in self.words.values() if words.lang == lang for word in words.counts})
            )
            for lang in madeup.LANGS
        }

    def cosines(self, vector: Array, lang: str, concept: str | None = None) -> Array:
        """With all documents of a language, but that of a concept."""
        others = [self.vectors[n] for n, d in self.documents.items() if d.lang == lang and d.concept != concept]
        return np.stack(others) @ vector

    def csls(self, vector: Array, lang: str, concept: str | None, name: str) -> float:
        """Of a text in a language and a document."""
        d = self.documents[name]
        of_text = mean_of_ten(self.cosines(vector, d.lang, concept))
        return (
            float(2 * vector @ self.vectors[name])
            - of_text
            - mean_of_ten(self.cosines(self.vectors[name], lang, d.concept))
        )

    def relevance(self, text: str, lang: str) -> dict[str, float]:
        tokens = list(dict.fromkeys(self.model.settings.tokeniser.words(text, lang)))
        query, query_words = self.model.encode(text, lang), []
        idf = inverse_document_frequencies(
            self.words, {w for words in self.words.values() for w in [*words.counts, *tokens]}, lang
        )
        vocabulary = self.vocabularies[lang]
        forms = {token: with_regular_forms([vocabulary], token, find_forms([vocabulary], token)) for token in tokens}
        likely = {
            token: token
            if not found or found[0].kind == "same"
            else max(found, key=lambda f: f.boost * idf[f.word]).word
            for token, found in forms.items()
        }
        weights = np.array([idf[likely[token]] for token in tokens])
        number = weights.sum() ** 2 / (weights**2).sum()
        certainties = [min(1, found[0].boost / CERTAIN_BOOST) ** 2 if found else 1 for found in forms.values()]
        for token, found in forms.items():
            reduced = {token: 1.0}
            for f in found:
                boost = KNOWN_WORD_FORMS * f.boost / number if likely[token] == token else f.boost
                reduced[f.word] = 1.0 if f.kind == "same" else boost * min(1, idf[f.word] / idf[likely[token]])
            query_words.append(QueryWord(idf[likely[token]], reduced))
        total = sum(word.weight for word in query_words)
        own, evidence = self.own_language(text, query_words, certainties, total, idf, query, lang)
        words = dict(zip(tokens, query_words, strict=True))
        limit = hybrid.NO_FEEDBACK_RELEVANCE * self.model.encode_text(text, lang)[2].known
        return own | self.other_languages(own, evidence, words, total, query, lang, limit)

    def own_language(
        self,
        text: str,
        words: list[QueryWord],
        certainties: list[float],
        total: float,
        idf: dict[str, float],
        query: Array,
        lang: str,
    ) -> tuple[dict[str, float], dict[str, float]]:
        scaled = [
            QueryWord(c * word.weight, word.terms) for word, c in zip(saturating(words), certainties, strict=True)
        ]
        by_document, by_passage = bm25(self.words, scaled, lang), bm25(self.passages, scaled, lang)
        scores, by_vectors, evidence, shares = {}, {}, {}, {}
        for name in [name for name, d in self.documents.items() if d.lang == lang]:
            scores[name] = self.csls(query, lang, None, name) if query.any() else 0
            W = max([by_document.get(name, 0), *(b for p, b in by_passage.items() if p.split()[0] == name)]) / total
            if W:
                title = self.title_match(self.documents[name].title, words, total, idf)
                evidence[name], shares[name] = W + (1 - W) * title**hybrid.TITLE_POWER, W
            elif query.any():
                by_vectors[name] = hybrid.DENSE_LIMIT * logistic(scores[name])
        for name in sorted(evidence, key=lambda name: (-evidence[name], name))[: hybrid.PAIR_DEPTH]:
            part = min(shares[name] / hybrid.PAIR_SHARE, 1)
            evidence[name] += hybrid.PAIR_BONUS * part * self.share_of_pairs(text, words, name)
        found = {name: bounded(value + hybrid.TIE_WEIGHT * scores[name]) for name, value in evidence.items()}
        if sum(value >= hybrid.ENOUGH_RELEVANCE for value in found.values()) >= 10:
            return found, evidence
        return found | by_vectors, evidence | by_vectors

    def share_of_pairs(self, text: str, words: list[QueryWord], name: str) -> float:
        d, tokens = self.documents[name], text.lower().split()
        weight = dict(zip(dict.fromkeys(tokens), (word.weight for word in words), strict=True))
        pairs = {(a, b): min(weight[a], weight[b]) for a, b in pairwise(tokens)}
        present = sum(value for (a, b), value in pairs.items() if f"{a} {b}" in f"{d.title} {d.text}".lower())
        if not pairs:
            return 0
        says = sum(pairs.values()) / max(weight.values()) if len(tokens) <= 4 else 1
        return min(says, 1) * present / sum(pairs.values())

    def title_match(self, title: str, words: list[QueryWord], total: float, idf: dict[str, float]) -> float:
        title_words = title.lower().split()
        terms = [{t: min(1, s / CERTAIN_BOOST) for t, s in word.terms.items()} for word in words]
        best = [max([0, *(boosts.get(t, 0) for t in title_words)]) for boosts in terms]
        of_query = sum(word.weight * boost for word, boost in zip(words, best, strict=True)) / total
        of_title = {t: max(boosts.get(t, 0) for boosts in terms) for t in title_words}
        places = [[i for i, t in enumerate(title_words) if t in boosts] for boosts in terms]
        order = [min(a) < max(b) for a, b in pairwise(filter(None, places))]
        in_order = (1 + np.mean(order)) / 2 if order else 1
        mass = sum(idf[t] for t in of_title)
        return float(of_query * in_order * sum(idf[t] * boost for t, boost in of_title.items()) / mass)

    def other_languages(
        self,
        own: dict[str, float],
        evidence: dict[str, float],
        words: dict[str, QueryWord],
        total: float,
        query: Array,
        lang: str,
        limit: float,
    ) -> dict[str, float]:
        best = sorted(own, key=lambda name: -evidence[name])[: hybrid.FEEDBACK_DOCUMENTS]
        raw = {name: np.exp(evidence[name] / hybrid.FEEDBACK_TEMPERATURE) for name in best}
        r = sum(raw[name] * own[name] for name in best) / (sum(raw.values()) or 1)
        s = min(r / hybrid.CONFIDENT_RELEVANCE, 1)
        weights = {name: s * raw[name] / sum(raw.values()) for name in best}
        of_query = (s * hybrid.QUERY_WEIGHT + (1 - s) * hybrid.UNCERTAIN_QUERY_WEIGHT) if query.any() else 0
        whole = sum(weights.values()) + of_query
        R = (s * r + of_query * hybrid.DENSE_LIMIT) / whole if whole else 0
        found = {}
        for name, d in self.documents.items():
            if d.lang == lang:
                continue
            idf = inverse_document_frequencies(self.words, words, d.lang)
            same = [QueryWord(min(idf[token], word.weight), {token: 1.0}) for token, word in words.items()]
            L = bm25({name: self.words[name]} | self.words, saturating(same), d.lang).get(name, 0) / total
            found[name] = hybrid.LITERAL_LIMIT * L
            if whole:
                z = sum(
                    w * self.csls(self.vectors[e], lang, self.documents[e].concept, name) for e, w in weights.items()
                )
                z = (z + (of_query * self.csls(query, lang, None, name) if of_query else 0)) / whole
                found[name] = max(R * logistic(z + hybrid.LITERAL_WEIGHT * L), found[name])
            if limit > R:
                found[name] = max([found[name], *(limit * p for p in self.by_passages(query, lang, name))])
        return found

    def by_passages(self, query: Array, lang: str, name: str) -> list[float]:
        """How likely a document is to be about a query by each of its passages."""
        d, found = self.documents[name], []
        for begin, end in passage_spans(d.text, self.passage_settings):
            vector = self.model.encode(d.text[begin:end], d.lang)
            of_query = mean_of_ten(self.cosines(query, d.lang))
            of_passage = mean_of_ten(self.cosines(vector, lang, d.concept))
            found.append(logistic(float(2 * query @ vector) - of_query - of_passage))
        return found
