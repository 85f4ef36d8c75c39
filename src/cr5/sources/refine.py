"""On the way into a corpus: one code per language, a language for every text, and what is out of place."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from cr5 import languages
from cr5.corpus import Batch, CorpusError, Document, batches
from cr5.duplicates import Duplicates
from cr5.sources.files import Complain, refuse


@dataclass
class Account:
    """What passed by, per language, what became ``documents``, and what was out of place.

    ``guessed``: the source did not name the language; ``confidence`` sums how sure the guesses were. ``foreign``:
    texts evidently in another language than they say, counted by both. ``duplicates``: texts that nearly repeat
    one of another concept. ``renamed``: codes as the source wrote them.
    """

    passed: Counter[str] = field(default_factory=Counter)
    documents: Counter[str] = field(default_factory=Counter)
    guessed: Counter[str] = field(default_factory=Counter)
    confidence: dict[str, float] = field(default_factory=dict)
    foreign: Counter[tuple[str, str]] = field(default_factory=Counter)
    duplicates: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)

    def figures(self) -> dict[str, "Figures"]:
        """All of it by language."""
        langs = sorted({*self.documents, *self.guessed, *self.duplicates, *(lang for lang, _ in self.foreign)})
        return {
            lang: Figures(
                self.documents[lang],
                self.guessed[lang],
                self.confidence[lang] / self.guessed[lang] if self.guessed[lang] else None,
                {other: count for (declared, other), count in self.foreign.items() if declared == lang},
                self.duplicates[lang],
            )
            for lang in langs
        }

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {
            "languages": {lang: figures._asdict() for lang, figures in self.figures().items()},
            "renamed": self.renamed,
        }


class Figures(NamedTuple):
    """One language of an account."""

    documents: int
    guessed: int
    confidence: float | None
    foreign: dict[str, int]
    duplicates: int


def refine(
    documents: Iterable[Document],
    account: Account,
    *,
    langs: Collection[str] | None = None,
    drop_foreign: bool = False,
    dedupe: bool = False,
    complain: Complain = refuse,
) -> Iterator[Batch]:
    """Documents with their languages by BCP 47, in batches; what is out of place is counted and may be dropped.

    ``langs`` keeps these languages only, however they are spelled.
    """
    wanted = None if langs is None else {languages.normalise(lang) for lang in langs}
    seen = Duplicates()
    for batch in batches(_in_language(documents, account, wanted, drop_foreign, complain)):
        marked = seen.mark(batch.rows)
        rows = batch.rows.filter(pa.array(~marked)) if dedupe and marked.any() else batch.rows
        account.documents.update(rows["lang"].to_pylist())
        account.duplicates.update(batch.rows["lang"].filter(pa.array(marked)).to_pylist())
        if rows.num_rows:
            yield Batch(rows, batch.source, batch.lines if rows is batch.rows else batch.lines[~marked])


def _in_language(
    documents: Iterable[Document], account: Account, wanted: set[str] | None, drop_foreign: bool, complain: Complain
) -> Iterator[Document]:
    for document in documents:
        declared = document.lang
        if not declared.strip():
            guess = languages.guess(document.text)
            if guess.lang == languages.UNKNOWN:
                complain("language unknown", f"{document.concept}: the language of its text cannot be told; name it")
                continue
            lang = guess.lang
            account.guessed[lang] += 1
            account.confidence[lang] = account.confidence.get(lang, 0.0) + guess.confidence
        else:
            try:
                lang = _normalise(declared)
            except CorpusError as error:
                complain("no language code", f"{document.concept}: {error}")
                continue
            if lang != declared:
                account.renamed[declared] = lang
        account.passed[lang] += 1
        if wanted is not None and lang not in wanted:
            continue
        if declared and (evident := languages.is_foreign(document.text, lang)) is not None:
            account.foreign[lang, evident.lang] += 1
            account.examples.setdefault(lang, document.concept)
            if drop_foreign:
                continue
        yield Document(document.concept, lang, document.text, document.title, document.url)


_normalise = lru_cache(1024)(languages.normalise)
