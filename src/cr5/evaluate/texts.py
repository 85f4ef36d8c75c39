"""The texts of an evaluation: every language's documents as tokens, with their concepts and titles."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cr5._typing import Ints, Mask, Sparse
from cr5.corpus.documents import Batch
from cr5.corpus.languages import no_such_language
from cr5.corpus.texts import assign_numbers, find_numbers, shared_numbers
from cr5.errors import CorpusError
from cr5.features.counts import WordCounts, count_tokens
from cr5.features.tfidf import remap_columns
from cr5.features.tokeniser import Tokeniser, Tokens, as_arrow
from cr5.machine import available_cores
from cr5.progress import Progress, ProgressCallback, no_progress

TITLE_WIDTH = 60  # characters of a text that stand for a missing title


@dataclass(frozen=True)
class TokenisedTexts:
    """Some documents in one language: their tokens in order, and the concept number and title of each."""

    tokens: Tokens
    concepts: Ints
    titles: list[str]

    def __len__(self) -> int:
        return len(self.concepts)

    @cached_property
    def counts(self) -> WordCounts:
        return count_tokens(self.tokens)

    def select_rows(self, chosen: Ints) -> "TokenisedTexts":
        words, ids, offsets = self.tokens
        lengths = np.diff(offsets)[chosen]
        ends = np.cumsum(lengths)
        positions = np.arange(lengths.sum()) + np.repeat(offsets[:-1][chosen] - (ends - lengths), lengths)
        return TokenisedTexts(
            Tokens(words, ids[positions], np.concatenate([[0], ends])),
            self.concepts[chosen],
            [self.titles[i] for i in chosen],
        )

    def keep_tokens(self, kept: Mask) -> "TokenisedTexts":
        words, ids, offsets = self.tokens
        kept_before = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])
        return replace(self, tokens=Tokens(words, ids[kept], kept_before[offsets]))


@dataclass(frozen=True)
class EvaluationCorpus:
    """All documents that an evaluation may use.

    ``concepts`` are the names of the concept numbers, ``digest`` identifies the corpus as it was read, and
    ``raw_texts`` are its texts. If a parallel corpus was made ``comparable``, ``languages`` holds some paragraphs of
    these texts.
    """

    concepts: list[str]
    languages: dict[str, TokenisedTexts]
    digest: str
    tokeniser: Tokeniser
    raw_texts: dict[str, pa.StringArray]
    comparable: bool

    def with_unique_words(self, min_unique: int, max_unique: int) -> "EvaluationCorpus":
        """Only documents of ``min_unique`` to ``max_unique`` different words."""
        unique = {lang: texts.counts.unique_words for lang, texts in self.languages.items()}
        kept = {lang: np.flatnonzero((sizes >= min_unique) & (sizes <= max_unique)) for lang, sizes in unique.items()}
        return replace(
            self,
            languages={lang: texts.select_rows(kept[lang]) for lang, texts in self.languages.items()},
            raw_texts={lang: texts.take(pa.array(kept[lang])) for lang, texts in self.raw_texts.items()},
        )

    def plain_texts(self, lang: str, rows: Ints, paragraphs_of: str | None = None) -> list[str]:
        """Some documents of a language as plain text.

        In a comparable corpus these are the paragraphs that this language keeps, or those that language
        ``paragraphs_of`` keeps.
        """
        texts = self.raw_texts[lang].take(pa.array(rows)).to_pylist()
        first = list(self.languages).index(paragraphs_of or lang)
        return [_every_nth_line(text, first, len(self.languages)) for text in texts] if self.comparable else texts

    def with_paragraphs_of(self, lang: str, target: str, rows: Ints) -> TokenisedTexts:
        """Some documents of a language, with the paragraphs that language ``target`` keeps."""
        texts = self.languages[lang]
        tokens = _tokenise(self.plain_texts(lang, rows, target), lang, self.tokeniser)
        return TokenisedTexts(tokens, texts.concepts[rows], [texts.titles[i] for i in rows])


def read_texts(
    batches: Iterable[Batch],
    tokeniser: Tokeniser,
    *,
    langs: list[str] | None = None,
    comparable: bool = False,
    chunk_texts: int = 2000,
    progress: ProgressCallback = no_progress,
) -> EvaluationCorpus:
    """Read documents in ``langs``, by default all, into memory; tokenise ``chunk_texts`` at a time on all cores.

    ``comparable`` is for parallel corpora with one paragraph a line: language i of L keeps the paragraphs
    i, i + L, i + 2L, … of each document, so that no two languages have the same content.
    """
    columns_of: dict[str, list[list[str]]] = {}
    present: set[str] = set()
    count = 0
    for batch in batches:
        found = set(batch.rows["lang"].unique().to_pylist())
        present |= found
        rows = batch.rows
        if langs is not None and not found <= set(langs):
            rows = rows.filter(pc.is_in(rows["lang"], pa.array(langs, pa.string())))
        columns = [rows[name].to_pylist() for name in ("lang", "concept", "title", "text")]
        for lang, *values in zip(*columns, strict=True):
            for column, value in zip(columns_of.setdefault(lang, [[], [], []]), values, strict=True):
                column.append(value)
        count += len(columns[0])
        progress(Progress("read", count, None, f"{count:,} documents"))
    if not present:
        raise CorpusError("the corpus is empty; add documents in two or more languages")
    order = list(dict.fromkeys(langs or sorted(columns_of)))
    if missing := [lang for lang in order if lang not in columns_of]:
        raise CorpusError(no_such_language("the corpus", missing[0], sorted(present), "no document in language"))
    if len(order) < 2:
        raise CorpusError(
            f"an evaluation needs documents in two or more languages, and there is only {', '.join(order)}; add "
            "documents in another language, or change `langs`"
        )
    number = {name: i for i, name in enumerate(sorted({name for lang in order for name in columns_of[lang][0]}))}
    digest = _digest(order, columns_of)
    languages, raw_texts = {}, {}
    for i, lang in enumerate(order):
        names, titles, texts = columns_of.pop(lang)
        progress(Progress("tokenise", i, len(order), lang))
        raw_texts[lang] = as_arrow(texts)
        if comparable:
            texts = [_every_nth_line(text, i, len(order)) for text in texts]
        tokens = _tokenise(texts, lang, tokeniser, chunk_texts)
        titles = [title or _beginning(text) for title, text in zip(titles, texts, strict=True)]
        concepts = find_numbers(names, number)
        languages[lang] = TokenisedTexts(tokens, concepts, titles)
    return EvaluationCorpus(list(number), languages, digest, tokeniser, raw_texts, comparable)


def counts_by_column(counts: WordCounts, column: Mapping[str, int]) -> Sparse:
    """Texts x columns: the counts with each word in its column; words without one are left out."""
    return remap_columns(counts.matrix, find_numbers(counts.words, column, np.int32), len(column))


def mask_shared_words(texts: dict[str, TokenisedTexts]) -> dict[str, TokenisedTexts]:
    """Remove from every document the words that another language's document of the same concept has as well.

    A control: what remains cannot be found by names, numbers and loanwords.
    """
    number: dict[str, int] = {}
    words = {
        lang: assign_numbers(tokens.words, number)[tokens.ids]
        for lang, tokens in ((lang, documents.tokens) for lang, documents in texts.items())
    }
    keys = {
        lang: np.repeat(documents.concepts, np.diff(documents.tokens.offsets)) * len(number) + words[lang]
        for lang, documents in texts.items()
    }
    shared = shared_numbers(keys.values())
    return {lang: documents.keep_tokens(~np.isin(keys[lang], shared)) for lang, documents in texts.items()}


def _tokenise(texts: list[str], lang: str, tokeniser: Tokeniser, chunk_texts: int = 2000) -> Tokens:
    """Tokenise texts, chunk by chunk on all cores, into one vocabulary."""
    chunks = [texts[i : i + chunk_texts] for i in range(0, len(texts), chunk_texts)]
    id_of: dict[str, int] = {}
    ids, lengths = [np.zeros(0, np.int32)], [np.zeros(1, np.int64)]
    with ThreadPoolExecutor(available_cores()) as executor:
        for part in executor.map(partial(tokeniser, lang=lang), chunks):
            new_id = assign_numbers(part.words, id_of, np.int32)
            ids.append(new_id[part.ids])
            lengths.append(np.diff(part.offsets))
    return Tokens(list(id_of), np.concatenate(ids), np.cumsum(np.concatenate(lengths)))


def _every_nth_line(text: str, first: int, n: int) -> str:
    return "\n".join([line for line in text.split("\n") if line.strip()][first::n])


def _beginning(text: str) -> str:
    """The first words of a text, in place of a title."""
    first = " ".join(text[: 4 * TITLE_WIDTH].split())
    return first if len(first) <= TITLE_WIDTH else first[:TITLE_WIDTH].rsplit(" ", 1)[0] + " …"


def _digest(langs: list[str], columns_of: dict[str, list[list[str]]]) -> str:
    """A digest of the documents, independent of their order and of the files they are in."""

    def each() -> Iterator[bytes]:
        for lang in langs:
            for name, _, text in zip(*columns_of[lang], strict=True):
                parts = f"{len(lang)} {len(name)} {lang}{name}{text}".encode(errors="surrogatepass")
                yield hashlib.blake2b(parts, digest_size=16).digest()

    return hashlib.sha256(b"".join(sorted(each()))).hexdigest()[:16]
