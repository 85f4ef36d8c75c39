"""What the components share: documents of other libraries <-> documents of an index; texts -> vectors.

A document of another library is an id, a text and metadata. The metadata lang, concept, title and url become those of
the document in the index, all other metadata its fields.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from cr5.corpus.languages import find_text_language
from cr5.corpus.skipped import OnError, check_on_error
from cr5.corpus.texts import describe, one_or_several, text_list
from cr5.errors import Cr5Error, Cr5TypeError, one_of
from cr5.hashing import digest
from cr5.index import Index, IndexedDocument, SearchHit
from cr5.index.filters import Filter
from cr5.message_parts import quoted
from cr5.model import Cr5

Content: TypeAlias = Literal["text", "passage"]
"""Which part of a document a retriever returns: its text, or the passage that matches the query best."""
NameAndCondition: TypeAlias = tuple[str, Any]
"""A field and what it has to be, as in ``where``."""

DOCUMENT_METADATA = ("lang", "concept", "title", "url")


class Entry(NamedTuple):
    """A document of another library; one without an id gets a digest of its text and metadata."""

    id: str | None
    text: str
    metadata: Mapping[str, Any]


def open_index(index: Index | str | Path) -> Index:
    """An index, or the one in a folder."""
    return index if isinstance(index, Index) else Index.open(index)


def load_model(model: Cr5 | str | Path) -> Cr5:
    """A model, or the one in a folder."""
    return model if isinstance(model, Cr5) else Cr5.load(model)


def encode_texts(
    model: Cr5,
    texts: Sequence[str],
    langs: Sequence[str | None] | str | None,
    *,
    allow_zeros: bool,
    name: str = "texts",
) -> list[list[float]]:
    """Texts -> a vector of length 1 for each, in its language, or the one that the model guesses.

    A text without a word that the model knows raises an error that gives its position in the parameter ``name``. With
    ``allow_zeros`` its vector is zero: the cosine with such a vector is undefined, and some libraries fail on it.
    """
    texts = text_list(texts)
    vectors = model.encode(texts, langs)
    zero = np.flatnonzero(~vectors.any(axis=1)).tolist()
    if zero and not allow_zeros:
        first = zero[0]
        raise Cr5Error(
            f"`{name}[{first}]` is {quoted(texts[first])}, which has no word or n-gram that the model knows; leave it "
            "out, or create the component with `allow_zeros=True` for a vector of zeros"
        )
    return [vector.tolist() for vector in vectors]


def entry_id(entry: Entry) -> str:
    """The id of a document in the index."""
    if entry.id:
        return entry.id
    metadata = json.dumps(dict(entry.metadata), sort_keys=True, default=str)
    return digest(f"{entry.text}\0{metadata}", 16).hex()


def write(index: Index, entries: Sequence[Entry], on_error: OnError = "raise") -> list[str]:
    """Write documents into an index, replacing those with the same ids; returns the ids of those that it now contains.

    The language of a document without one is guessed, and its concept is its id. Documents that cannot be used are an
    error, or left out with ``on_error="skip"``.
    """
    check_on_error(on_error)
    last = {entry_id(entry): entry for entry in entries}
    records = [_record(document_id, entry) for document_id, entry in last.items()]
    _guess_languages(index, records)
    if on_error == "raise":
        for document_id, record in zip(last, records, strict=True):
            if isinstance(record["lang"], str) and find_text_language(record["lang"], index.langs) is None:
                known = ", ".join(index.langs)
                raise Cr5Error(
                    f"document {quoted(document_id)} is in {quoted(record['lang'])}; the languages of the index are "
                    f"{known}"
                )
    written = index.add(records, ids=list(last), on_error=on_error).total
    if written < len(last):
        existing = {document.id for document in index.get(list(last))}
        missing = next((document_id for document_id in last if document_id not in existing), None)
        if on_error == "raise" and missing is not None:
            raise Cr5Error(
                f"document {quoted(missing)} is {quoted(last[missing].text)}, which has no word or n-gram that the "
                f'model knows; leave it out, or set `on_error="skip"` ({written:,} of {len(last):,} are written)'
            )
        return [document_id for document_id in map(entry_id, entries) if document_id in existing]
    return list(map(entry_id, entries))


def metadata_of(document: IndexedDocument) -> dict[str, Any]:
    """The metadata of a document: its fields, language, title and address, and its concept unless that is its id."""
    own = {name: getattr(document, name) for name in DOCUMENT_METADATA if getattr(document, name)}
    if document.concept == document.id:
        del own["concept"]
    if isinstance(document, SearchHit) and document.versions:
        own["versions"] = [{"id": each.id, "lang": each.lang, "title": each.title} for each in document.versions]
    return {**document.fields, **own}


def content_of(hit: SearchHit, content: Content) -> str:
    """The text of a hit, or its best passage; all of the text of a hit that has none, as with ``mode="dense"``."""
    one_of("content", content, get_args(Content))
    begin, end = hit.passage
    return hit.text[begin:end] if content == "passage" and end else hit.text


def search(
    index: Index,
    query: str,
    conditions: Iterable[NameAndCondition],
    langs: str | Iterable[str] | None,
    **parameters: Any,
) -> list[SearchHit]:
    """The hits of ``Index.search`` that meet all conditions; the other parameters are its own."""
    allowed, where = split_conditions(index, conditions, langs)
    return [] if allowed == [] else index.search(query, langs=allowed, where=where, **parameters).hits


def split_conditions(
    index: Index, conditions: Iterable[NameAndCondition], langs: str | Iterable[str] | None = None
) -> tuple[list[str] | None, Filter]:
    """The languages to search in, None for all, and the filter on fields, from ``langs`` and the conditions."""
    filters: dict[bool, list[Any]] = {True: [], False: []}
    for name, condition in conditions:
        if name in DOCUMENT_METADATA and name != "lang":
            raise Cr5Error(
                f"a filter on {name!r} is not possible; filter by 'lang' or by metadata other than "
                f"{', '.join(DOCUMENT_METADATA[1:])}"
            )
        filters[name == "lang"] += Filter.parse({name: condition}).conditions
    where, chosen = Filter(tuple(filters[False])), Filter(tuple(filters[True]))
    if langs is None and not chosen.conditions:
        return None, where
    given = (
        index.langs
        if langs is None
        else [find_text_language(lang, index.langs) or lang for lang in one_or_several(langs)]
    )
    return [lang for lang in given if chosen.matches({"lang": lang})], where


def conditions_of(where: Mapping[str, Any] | None, name: str) -> list[NameAndCondition]:
    """The conditions of a parameter that is a mapping as in ``where``."""
    if where is not None and not isinstance(where, Mapping):
        raise Cr5TypeError(
            f"`{name}` is {describe(where)}; give a mapping from metadata to conditions, {{'year': 2019}}"
        )
    for key in where or {}:
        if str(key).startswith("$"):
            raise Cr5Error(f"`{name}` has {key!r}, which is not supported; all conditions of a filter have to be met")
    return list((where or {}).items())


def _record(document_id: str, entry: Entry) -> dict[str, Any]:
    own = {name: entry.metadata.get(name) for name in DOCUMENT_METADATA}
    fields = {name: value for name, value in entry.metadata.items() if name not in DOCUMENT_METADATA}
    concept = document_id if own["concept"] is None else own["concept"]
    return own | {"concept": concept, "text": entry.text, "fields": fields}


def _guess_languages(index: Index, records: Sequence[dict[str, Any]]) -> None:
    unknown = [record for record in records if record["lang"] is None and isinstance(record["text"], str)]
    guesses = index.model.guess_languages([record["text"] for record in unknown])
    for record, guess in zip(unknown, guesses, strict=True):
        record["lang"] = guess.lang
