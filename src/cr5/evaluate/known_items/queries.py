"""Known-item queries: their texts and languages, which documents are right, and what BM25 receives."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from cr5.evaluate.known_items import texts
from cr5.evaluate.known_items.documents import LanguageDocuments, scan_texts
from cr5.evaluate.known_items.query_files import QuerySet
from cr5.index import Index
from cr5.index.hashing import hash_texts

QueryType: TypeAlias = Literal[
    "title", "sentence-short", "sentence-medium", "sentence-long", "string", "keywords", "question", "typo"
]
REFERENCES: dict[QueryType, str] = {
    "title": "the title of the version in that language",
    "sentence-short": "a sentence of the version in that language, an upper bound, not a translation",
    "sentence-medium": "a sentence of the version in that language, an upper bound, not a translation",
    "sentence-long": "a sentence of the version in that language, an upper bound, not a translation",
    "string": "the same string, which the version in that language contains",
    "keywords": "the keywords of the version in that language, an upper bound, not a translation",
    "question": "the same question in that language, about the title of the version in it",
    "typo": "the title of the version in that language, without a typo",
}
"""The types of queries, and what BM25 receives instead of a query in another language."""
BY_TITLE = ("title", "question", "typo")  # queries that are made of a title alone
TRIED_DOCUMENTS = 4  # documents of which a query is made, for each query that is wanted
TRIED_FOR_STRINGS = 20  # the same for strings, because few documents have a code of their own
TRIED_CODES = 10  # of a document
HASHES = 2.0**64  # the number of different hashes of a text


@dataclass(frozen=True)
class KnownItemQuery:
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
    """A document and the text that was made of it, which may turn out to be ambiguous."""

    row: int
    position: float
    text: str


class QueryMaker:
    """Makes queries out of the documents of an index; the same for the same index and seed."""

    def __init__(
        self, index: Index, languages: Mapping[str, LanguageDocuments], *, queries: int, validation: bool, seed: int
    ) -> None:
        self.index, self.languages, self.queries, self.validation, self.seed = (
            index, languages, queries, validation, seed
        )  # fmt: skip
        self.half = {
            lang: [i for i, concept in enumerate(documents.concepts) if is_validation(concept) == validation]
            for lang, documents in languages.items()
        }

    def make(self, types: Sequence[QueryType]) -> list[KnownItemQuery]:
        """Queries of these types in all languages, within the language and, where there are versions, across."""
        candidates = {
            (lang, query_type): self._candidates(lang, query_type) for lang in self.languages for query_type in types
        }
        occurrences = self._occurrences(candidates)
        result = []
        for (lang, query_type), found in candidates.items():
            documents, own = self.languages[lang], list[tuple[_Candidate, KnownItemQuery]]()
            for candidate in found:
                answers = self._answers(documents, query_type, candidate, occurrences)
                if answers and len(own) < self.queries and candidate.row not in {other.row for other, _ in own}:
                    concept, text = documents.concepts[candidate.row], candidate.text
                    query = KnownItemQuery(query_type, text, lang, lang, concept, frozenset(answers), text)
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
        """The documents, by language and text, that contain the sentences and strings of the candidates."""
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
        for document_id, lang, _, title, text in scan_texts(self.index, list(self.languages)):
            contained = sentences[lang].intersection(texts.split_sentences(text)) if sentences[lang] else set()
            if strings:
                contained |= strings.intersection(map(str.casefold, texts.codes(f"{title}\n{text}")))
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
        own: Sequence[tuple[_Candidate, KnownItemQuery]],
        occurrences: Mapping[tuple[str, str], set[str]],
    ) -> list[KnownItemQuery]:
        """The same queries, each for documents in one other language, the languages in turn."""
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
                        KnownItemQuery(query.type, query.text, query.source, lang, query.concept, answers, reference)
                    )
                    break
        return result

    def _answers_across(
        self, query_type: QueryType, query: KnownItemQuery, documents: LanguageDocuments
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


def hand_written_queries(
    languages: Mapping[str, LanguageDocuments], rows: Iterable[tuple[str, str, str, str]], query_set: QuerySet
) -> list[KnownItemQuery]:
    """Queries (text, language, concept, kind) for their concept's documents in every language that has any.

    In another language, BM25 receives the title of the document.
    """
    result = []
    for text, source, concept, kind in rows:
        half = "validation" if is_validation(concept) else "test"
        if source not in languages or query_set not in ("all", half):
            continue
        for target, documents in languages.items():
            found = documents.rows_of_concept.get(concept, [])
            reference = text if target == source else next((documents.titles[i] for i in found), "")
            if found and reference:
                answers = frozenset(documents.ids[i] for i in found)
                result.append(KnownItemQuery(kind, text, source, target, concept, answers, reference))
    return result


def _equivalent(documents: LanguageDocuments, query_type: QueryType, rows: Iterable[int]) -> set[int]:
    """Documents and those that no query of the type can tell from them: with the same text or, for
    queries made of titles, with the same title."""
    result = set[int]()
    for row in rows:
        result.update(documents.rows_of_text[documents.text_hashes[row]])
        if query_type in BY_TITLE and documents.titles[row]:
            result.update(documents.rows_of_title[documents.key(documents.titles[row])])
    return result


def _is_eligible(documents: LanguageDocuments, row: int, query_type: QueryType) -> bool:
    """Whether a document may have a query of a type, as far as its title and length tell."""
    if query_type in BY_TITLE:
        return bool(documents.titles[row]) and (query_type != "question" or texts.has_questions(documents.lang))
    characters = int(documents.characters[row])
    limits: dict[str, tuple[float, float]] = {
        "sentence-short": (0, texts.SHORT_CHARACTERS - 1),
        "sentence-medium": (texts.SHORT_CHARACTERS, texts.MEDIUM_CHARACTERS),
        "sentence-long": (texts.MEDIUM_CHARACTERS + 1, float("inf")),
    }
    low, high = limits.get(query_type, (1, float("inf")))
    return low <= characters <= high


def _make(documents: LanguageDocuments, query_type: QueryType, title: str, text: str, position: float) -> Iterable[str]:
    """The texts of a type that can be made of a document: one or none, and several strings."""
    if query_type == "string":
        found = texts.codes(f"{title}\n{text}")
        start = int(position * len(found))
        return [*(found[start:] + found[:start])[:TRIED_CODES], *texts.rare_words(documents, text)]
    makers: dict[str, Callable[[], str | None]] = {
        "title": lambda: title or None,
        "question": lambda: texts.question(documents, title, position),
        "typo": lambda: texts.typo(documents, title, position),
        "keywords": lambda: texts.keywords(documents, text),
    }
    made = makers.get(query_type, lambda: texts.sentence(documents, text, position))()
    return [made] if made else []


def _documents_with_word(documents: LanguageDocuments, word: str) -> set[str]:
    """The ids of the documents that contain a word."""
    if word not in documents.column:
        return set()
    rows = documents.counts.matrix[:, [documents.column[word]]].nonzero()[0]
    return {documents.ids[i] for i in rows}
