"""Example queries: short titles of documents, each about another concept, in as many languages as possible."""

from typing import NamedTuple

from cr5.index.snapshot import Snapshot

EXAMPLES = 4
CANDIDATES_PER_LANGUAGE = 16
MAX_CHARACTERS, MAX_WORDS = 24, 3  # longest title that a person would still type
PREFERRED_CHARACTERS = 7  # a title of this length is quickly typed, and long enough to show what it is about


class ExampleQuery(NamedTuple):
    """The title of a document, to be offered as a query."""

    id: str
    concept: str
    lang: str
    title: str


def choose_examples(snapshot: Snapshot) -> list[ExampleQuery]:
    """Choose titles that the model knows, the languages with most documents first.

    Only a few documents of the background are read, found by their vectors, so that the cost does not depend on the
    size of the index.
    """
    counts = snapshot.store.count()
    langs = sorted(
        (lang for lang in snapshot.background.langs if counts.get(lang)), key=lambda lang: (-counts[lang], lang)
    )
    candidates = {lang: _candidates(snapshot, lang) for lang in langs[:EXAMPLES]}
    chosen = dict[str, ExampleQuery]()  # by concept
    for _ in range(EXAMPLES):
        for examples in candidates.values():
            best = next((example for example in examples if example.concept not in chosen), None)
            if best and len(chosen) < EXAMPLES:
                chosen[best.concept] = best
    return list(chosen.values())


def existing_examples(snapshot: Snapshot, examples: list[ExampleQuery]) -> list[ExampleQuery]:
    """The examples whose documents have not been deleted, with their present titles."""
    rows = snapshot.store.get([example.id for example in examples], ("id", "concept", "lang", "title")).to_pylist()
    return [ExampleQuery(**row) for row in rows if row["title"].strip()]


def _candidates(snapshot: Snapshot, lang: str) -> list[ExampleQuery]:
    """Short titles all of whose words the model knows; first those whose words occur in the fewest languages."""
    sample = snapshot.background.vectors[lang][:CANDIDATES_PER_LANGUAGE]
    columns = ("id", "concept", "lang", "title")
    tables = snapshot.store.nearest(sample, 1, langs=[lang], columns=columns) if len(sample) else []
    rows = [row for table in tables for row in table.select(columns).to_pylist()]
    examples = dict.fromkeys(ExampleQuery(**row | {"title": row["title"].strip()}) for row in rows)
    short = [e for e in examples if len(e.title) <= MAX_CHARACTERS and len(e.title.split()) <= MAX_WORDS]
    if not short:
        return []
    titles, model = [example.title for example in short], snapshot.model
    known = {other: model.coverage(titles, other) == 1 for other in model.langs}
    languages = {e: sum(bool(known[other][i]) for other in known) for i, e in enumerate(short) if known[lang][i]}
    return sorted(languages, key=lambda e: (languages[e], abs(len(e.title) - PREFERRED_CHARACTERS), e.title))
