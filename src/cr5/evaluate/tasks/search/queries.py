"""Queries made from the documents of an index: their texts, which documents are right, and what BM25 receives."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from cr5.evaluate.tasks.search import query_texts
from cr5.evaluate.tasks.search.documents import LanguageDocuments, scan_texts
from cr5.hashing import hash_texts
from cr5.index import Index

QueryType: TypeAlias = Literal[
    "title", "sentence-short", "sentence-medium", "sentence-long", "string", "keywords", "question", "typo"
]
_OF_SENTENCES = "a sentence of the version in that language, an upper bound, not a translation"
REFERENCES: dict[QueryType, str] = {
    "title": "the title of the version in that language",
    "sentence-short": _OF_SENTENCES,
    "sentence-medium": _OF_SENTENCES,
    "sentence-long": _OF_SENTENCES,
    "string": "the same string, which the version in that language contains",
    "keywords": "the keywords of the version in that language, an upper bound, not a translation",
    "question": "the same question in that language, about the title of the version in it",
    "typo": "the title of the version in that language, without a typo",
}
"""The types of queries, and what BM25 receives instead of a query in another language."""
BY_TITLE = ("title", "question", "typo")  # queries that are made from a title alone
CHARACTERS: dict[str, tuple[float, float]] = {
    "sentence-short": (0, query_texts.SHORT_CHARACTERS - 1),
    "sentence-medium": (query_texts.SHORT_CHARACTERS, query_texts.MEDIUM_CHARACTERS),
    "sentence-long": (query_texts.MEDIUM_CHARACTERS + 1, float("inf")),
}
"""The smallest and the largest length of the documents from which sentences are taken."""
TRIED_DOCUMENTS = 4  # documents that are tried for each query that is wanted
TRIED_FOR_STRINGS = 20  # the same for strings, because few documents have a code of their own
TRIED_CODES = 10  # codes of a document that are tried
HASHES = 2.0**64  # the number of different hashes of a text


@dataclass(frozen=True)
class SearchQuery:
    """A query and the documents that answer it.

    ``text`` in the language ``source`` searches documents in ``target``, of which those in ``answers`` are right.
    ``reference`` is what BM25 receives: the same text within a language, otherwise its translation or what comes
    nearest to one.
    """

    type: str
    text: str
    source: str
    target: str
    concept: str
    answers: frozenset[str]
    reference: str


def is_validation(concept: str) -> bool:
    """Whether queries about a concept are validation queries; those about the other half are test queries."""
    return bool(int(hash_texts([f"search: {concept}"])[0]) >> 32 & 1)


@dataclass(frozen=True)
class _Candidate:
    """A document and the text that was made from it, which may turn out to be ambiguous."""

    row: int
    position: float
    text: str


@dataclass(frozen=True)
class QueryMaker:
    """Makes queries out of the documents of an index; the same for the same index and seed.

    ``queries`` of each type and language are made, of documents in the validation or in the test half of the concepts.
    """

    index: Index
    languages: Mapping[str, LanguageDocuments]
    queries: int
    validation: bool
    seed: int

    @cached_property
    def half(self) -> dict[str, list[int]]:
        """The documents of this half, by language."""
        return {
            lang: [i for i, concept in enumerate(documents.concepts) if is_validation(concept) == self.validation]
            for lang, documents in self.languages.items()
        }

    def make(self, types: Sequence[QueryType]) -> list[SearchQuery]:
        """Queries of these types in all languages, within the language and, where there are versions, across."""
        candidates = {
            (lang, query_type): self._candidates(lang, query_type) for lang in self.languages for query_type in types
        }
        occurrences = self._occurrences(candidates)
        result = []
        for (lang, query_type), found in candidates.items():
            documents, own = self.languages[lang], list[tuple[_Candidate, SearchQuery]]()
            for candidate in found:
                answers = self._answers(documents, query_type, candidate, occurrences)
                if answers and len(own) < self.queries and candidate.row not in {other.row for other, _ in own}:
                    concept, text = documents.concepts[candidate.row], candidate.text
                    query = SearchQuery(query_type, text, lang, lang, concept, frozenset(answers), text)
                    own.append((candidate, query))
            result += [query for _, query in own]
            result += self._across(query_type, own, occurrences)
        return result

    def _candidates(self, lang: str, query_type: QueryType) -> list[_Candidate]:
        """Texts of one type, of documents in random order; of strings, codes come first, then numbers, then words."""
        documents = self.languages[lang]
        rows = [i for i in self.half[lang] if _is_eligible(documents, i, query_type)]
        tried = TRIED_FOR_STRINGS if query_type == "string" else TRIED_DOCUMENTS
        order = self._hashes("order", documents, query_type, rows)
        drawn = [i for _, i in sorted(zip(order, rows, strict=True))[: tried * self.queries]]
        stored = self._texts([documents.ids[i] for i in drawn])
        found = []
        for i, number in zip(drawn, self._hashes("position", documents, query_type, drawn), strict=True):
            position = number / HASHES
            for text in _make(documents, query_type, documents.titles[i], stored[documents.ids[i]], position):
                found.append(_Candidate(i, position, text))
        if query_type == "string":
            found.sort(key=lambda candidate: (candidate.text.isalpha(), not any(map(str.isalpha, candidate.text))))
        return found

    def _hashes(self, purpose: str, documents: LanguageDocuments, query_type: str, rows: Sequence[int]) -> list[int]:
        """A random number for each document, the same every time."""
        hashes: list[int] = hash_texts(
            [f"{self.seed} {purpose} {query_type} {documents.ids[i]}" for i in rows]
        ).tolist()
        return hashes

    def _texts(self, ids: Sequence[str]) -> dict[str, str]:
        return {document.id: document.text for document in self.index.get(ids)} if ids else {}

    def _occurrences(
        self, candidates: Mapping[tuple[str, QueryType], Iterable[_Candidate]]
    ) -> dict[tuple[str, str], set[str]]:
        """The documents, by language and text, that contain the sentences and strings of the candidates.

        A string may be in the text, the title or the concept, all of which are searched.
        """
        sentences: dict[str, set[str]] = {lang: set() for lang in self.languages}
        strings = set[str]()  # the same in every language, in whatever case
        for (lang, query_type), found in candidates.items():
            if query_type.startswith("sentence"):
                sentences[lang].update(candidate.text for candidate in found)
            elif query_type == "string":
                strings.update(candidate.text.casefold() for candidate in found)
        if not strings and not any(sentences.values()):
            return {}
        result: dict[tuple[str, str], set[str]] = {}
        for document_id, lang, concept, title, text in scan_texts(self.index, list(self.languages)):
            contained = sentences[lang].intersection(query_texts.split_at_stops(text)) if sentences[lang] else set()
            if strings:
                contained |= strings.intersection(map(str.casefold, query_texts.codes(f"{concept}\n{title}\n{text}")))
            for part in contained:
                result.setdefault((lang, part), set()).add(document_id)
        return result

    def _answers(
        self,
        documents: LanguageDocuments,
        query_type: QueryType,
        candidate: _Candidate,
        occurrences: Mapping[tuple[str, str], set[str]],
    ) -> set[str]:
        """The ids of the right answers: the document, others with its text or title; none if it is ambiguous."""
        rows = _equivalent(documents, query_type, [candidate.row])
        answers = {documents.ids[i] for i in rows}
        if query_type.startswith("sentence") or (query_type == "string" and not candidate.text.isalpha()):
            key = documents.lang, candidate.text.casefold() if query_type == "string" else candidate.text
            return answers if occurrences.get(key, set()) <= answers else set()
        return answers

    def _across(
        self,
        query_type: QueryType,
        own: Sequence[tuple[_Candidate, SearchQuery]],
        occurrences: Mapping[tuple[str, str], set[str]],
    ) -> list[SearchQuery]:
        """The same queries, each for documents in one other language; the other languages take turns."""
        result = []
        for number, (candidate, query) in enumerate(own):
            others = [lang for lang in self.languages if lang != query.source]
            start = number % max(len(others), 1)
            for lang in others[start:] + others[:start]:
                documents = self.languages[lang]
                rows = documents.rows_of_concept.get(query.concept, [])
                reference = self._reference(query_type, documents, rows, candidate, occurrences) if rows else None
                if reference:
                    answers = self._answers_across(query_type, query, documents)
                    result.append(
                        SearchQuery(query.type, query.text, query.source, lang, query.concept, answers, reference)
                    )
                    break
        return result

    def _answers_across(
        self, query_type: QueryType, query: SearchQuery, documents: LanguageDocuments
    ) -> frozenset[str]:
        """The documents in another language of the concepts of all right answers, and those with the same title."""
        own = self.languages[query.source]
        concepts = {own.concepts[own.row_of_id[answer]] for answer in query.answers}
        rows = [row for concept in concepts for row in documents.rows_of_concept.get(concept, [])]
        return frozenset(documents.ids[i] for i in _equivalent(documents, query_type, rows))

    def _reference(
        self,
        query_type: QueryType,
        documents: LanguageDocuments,
        rows: Sequence[int],
        candidate: _Candidate,
        occurrences: Mapping[tuple[str, str], set[str]],
    ) -> str | None:
        """What BM25 receives in another language; see ``REFERENCES``."""
        row, title = rows[0], documents.titles[rows[0]]
        if query_type == "typo":
            return title or None
        if query_type == "string":
            ids = {documents.ids[i] for i in rows}
            found = occurrences.get((documents.lang, candidate.text.casefold()), set())
            if candidate.text.isalpha():
                found = _documents_with_word(documents, candidate.text)
            return candidate.text if found and found <= ids else None
        text = self._texts([documents.ids[row]])[documents.ids[row]]
        return next(iter(_make(documents, query_type, title, text, candidate.position)), None)


def _equivalent(documents: LanguageDocuments, query_type: QueryType, rows: Iterable[int]) -> set[int]:
    """Documents and those that no query of the type can tell from them.

    These have the same text or, if the queries are made from titles, the same title.
    """
    result = set[int]()
    for row in rows:
        result.update(documents.rows_of_text[documents.text_hashes[row]])
        if query_type in BY_TITLE and documents.titles[row]:
            result.update(documents.rows_of_title[documents.key(documents.titles[row])])
    return result


def _is_eligible(documents: LanguageDocuments, row: int, query_type: QueryType) -> bool:
    """Whether a document may have a query of a type, as far as its title and length tell."""
    if query_type in BY_TITLE:
        return bool(documents.titles[row]) and (query_type != "question" or query_texts.has_questions(documents.lang))
    low, high = CHARACTERS.get(query_type, (1, float("inf")))
    return low <= int(documents.characters[row]) <= high


def _make(documents: LanguageDocuments, query_type: QueryType, title: str, text: str, position: float) -> Iterable[str]:
    """The texts of a type that can be made from a document: one or none, and several strings."""
    if query_type == "string":
        found = query_texts.codes(f"{title}\n{text}")
        start = int(position * len(found))
        return [*(found[start:] + found[:start])[:TRIED_CODES], *query_texts.rare_words(documents, text)]
    makers: dict[str, Callable[[], str | None]] = {
        "title": lambda: title or None,
        "question": lambda: query_texts.question(documents, title, position),
        "typo": lambda: query_texts.typo(documents, title, position),
        "keywords": lambda: query_texts.keywords(documents, text),
    }
    made = makers.get(query_type, lambda: query_texts.sentence(documents, text, position))()
    return [made] if made else []


def _documents_with_word(documents: LanguageDocuments, word: str) -> set[str]:
    """The ids of the documents that contain a word."""
    if word not in documents.column:
        return set()
    rows = documents.counts.matrix[:, [documents.column[word]]].nonzero()[0]
    return {documents.ids[i] for i in rows}
