"""Examples: short titles for the page to begin with, each of another concept, in as many languages as there can be."""

from typing import NamedTuple

from cr5.index.snapshot import Generation

EXAMPLES = 4
TRIED = 16  # documents of a language that are looked at
LONGEST, WORDS = 24, 3  # characters and words that a person would still type
USUAL = 7  # characters that are quickly typed, and enough to tell what it is about


class _Title(NamedTuple):
    id: str
    concept: str
    text: str


def choose(now: Generation) -> list[str]:
    """The ids of documents with such titles, the largest languages first.

    Only a few documents of the background are looked at, found by their vectors: as cheap as that many queries,
    however large the index is.
    """
    counts = now.store.count()
    langs = sorted((lang for lang in now.background.langs if counts.get(lang)), key=lambda lang: (-counts[lang], lang))
    left = {lang: _titles(now, lang) for lang in langs[:EXAMPLES]}
    chosen = dict[str, str]()  # concept -> id
    for _ in range(EXAMPLES):
        for titles in left.values():
            best = next((title for title in titles if title.concept not in chosen), None)
            if best and len(chosen) < EXAMPLES:
                chosen[best.concept] = best.id
    return list(chosen.values())


def _titles(now: Generation, lang: str) -> list[_Title]:
    """Titles that the model knows, those first that tell their language; of these the handiest."""
    sample = now.background.vectors[lang][:TRIED]
    found = now.store.nearest(sample, 1, langs=[lang], columns=("id", "concept", "title")) if len(sample) else []
    rows = [_Title(row["id"], row["concept"], row["title"].strip()) for table in found for row in table.to_pylist()]
    rows = [row for row in dict.fromkeys(rows) if len(row.text) <= LONGEST and len(row.text.split()) <= WORDS]
    texts = [row.text for row in rows]
    known = {other: now.model.coverage(texts, other) == 1 for other in now.model.langs} if rows else {}
    shared = {row: sum(bool(known[other][i]) for other in known) for i, row in enumerate(rows) if known[lang][i]}
    return sorted(shared, key=lambda row: (shared[row], abs(len(row.text) - USUAL), row.text))
