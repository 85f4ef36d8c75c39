"""The texts of an evaluation: every language's documents as tokens, with their concepts and titles."""

import hashlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from cr5._typing import Ints, Mask
from cr5.corpus.documents import Batch
from cr5.errors import CorpusError
from cr5.features.counts import WordCounts, count_tokens
from cr5.features.tokeniser import Tokeniser, Tokens, as_arrow
from cr5.machine import available_cores
from cr5.progress import Progress, ProgressCallback, silent

CHUNK = 2000  # texts that a thread splits into words at a time


@dataclass(frozen=True)
class TokenisedTexts:
    """Some documents of one language: their words in order, and for each its concept number and its title."""

    tokens: Tokens
    concepts: Ints
    titles: list[str]

    def __len__(self) -> int:
        return len(self.concepts)

    @cached_property
    def counts(self) -> WordCounts:
        """How often every word occurs in every document."""
        return count_tokens(self.tokens)

    def rows(self, chosen: Ints) -> "TokenisedTexts":
        """Some of the documents."""
        words, ids, offsets = self.tokens
        lengths = np.diff(offsets)[chosen]
        ends = np.cumsum(lengths)
        places = np.arange(lengths.sum()) + np.repeat(offsets[:-1][chosen] - (ends - lengths), lengths)
        return TokenisedTexts(
            Tokens(words, ids[places], np.concatenate([[0], ends])),
            self.concepts[chosen],
            [self.titles[i] for i in chosen],
        )

    def keep(self, kept: Mask) -> "TokenisedTexts":
        """The same documents, some of their tokens."""
        words, ids, offsets = self.tokens
        before = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])
        return replace(self, tokens=Tokens(words, ids[kept], before[offsets]))


@dataclass(frozen=True)
class EvaluationCorpus:
    """All documents that an evaluation may use; ``concepts`` gives the names behind the numbers.

    ``digest`` stands for the corpus as it was read, ``raw`` holds its texts. Where the languages of a parallel
    corpus are made ``comparable``, the documents are parts of these.
    """

    concepts: list[str]
    languages: dict[str, TokenisedTexts]
    digest: str
    tokeniser: Tokeniser
    raw: dict[str, pa.StringArray]
    comparable: bool

    def sized(self, smallest: int, largest: int) -> "EvaluationCorpus":
        """Only documents of ``smallest`` to ``largest`` different words."""
        unique = {lang: texts.counts.unique for lang, texts in self.languages.items()}
        kept = {lang: np.flatnonzero((own >= smallest) & (own <= largest)) for lang, own in unique.items()}
        return replace(
            self,
            languages={lang: texts.rows(kept[lang]) for lang, texts in self.languages.items()},
            raw={lang: texts.take(pa.array(kept[lang])) for lang, texts in self.raw.items()},
        )

    def written(self, lang: str, rows: Ints, facing: str | None = None) -> list[str]:
        """Some documents of a language as text; where comparable, the paragraphs that it, or ``facing``, keeps."""
        texts = self.raw[lang].take(pa.array(rows)).to_pylist()
        turn = list(self.languages).index(facing or lang)
        return [_every(text, turn, len(self.languages)) for text in texts] if self.comparable else texts

    def part(self, lang: str, facing: str, rows: Ints) -> TokenisedTexts:
        """Some documents of a language, but of each the paragraphs that language ``facing`` keeps."""
        own = self.languages[lang]
        tokens = _tokenise(self.written(lang, rows, facing), lang, self.tokeniser)
        return TokenisedTexts(tokens, own.concepts[rows], [own.titles[i] for i in rows])


def read_texts(
    batches: Iterable[Batch],
    tokeniser: Tokeniser,
    *,
    langs: list[str] | None = None,
    comparable: bool = False,
    progress: ProgressCallback = silent,
) -> EvaluationCorpus:
    """Read documents into memory and split them into words.

    ``comparable`` is for parallel corpora with a paragraph a line: language i of L keeps the paragraphs
    i, i + L, i + 2L, … of each document, so that no two languages say the same.
    """
    found: dict[str, list[list[str]]] = {}
    seen = 0
    for batch in batches:
        columns = [batch.rows[name].to_pylist() for name in ("lang", "concept", "title", "text")]
        for lang, *others in zip(*columns, strict=True):
            into = found.setdefault(lang, [[], [], []])
            for column, value in zip(into, others, strict=True):
                column.append(value)
        seen += len(columns[0])
        progress(Progress("read", seen, None, f"{seen:,} documents"))
    if not found:
        raise CorpusError("no documents found; give documents in two languages or more")
    order = list(dict.fromkeys(langs or sorted(found)))
    for lang in order:
        if lang not in found:
            there = ", ".join(sorted(found))
            raise CorpusError(f"the corpus has no document in language {lang}; its languages are {there}")
    if len(order) < 2:
        raise CorpusError(
            f"the corpus has documents in one language only ({', '.join(order)}); give two languages or more"
        )
    number = {name: i for i, name in enumerate(sorted({name for lang in order for name in found[lang][0]}))}
    digest = _digest(order, found)
    languages, raw = {}, {}
    for i, lang in enumerate(order):
        names, titles, texts = found.pop(lang)
        progress(Progress("split into words", i, len(order), lang))
        raw[lang] = as_arrow(texts)
        if comparable:
            texts = [_every(text, i, len(order)) for text in texts]
        tokens = _tokenise(texts, lang, tokeniser)
        titles = [title or _beginning(text) for title, text in zip(titles, texts, strict=True)]
        languages[lang] = TokenisedTexts(
            tokens, np.fromiter(map(number.__getitem__, names), np.int64, len(names)), titles
        )
    return EvaluationCorpus(list(number), languages, digest, tokeniser, raw, comparable)


def mask_shared_words(texts: dict[str, TokenisedTexts]) -> dict[str, TokenisedTexts]:
    """Take out of every document the words that another language's document of its concept has as well.

    What is left cannot be found by names, numbers and borrowed words: the control for what they give away.
    """
    number: dict[str, int] = {}
    words = {
        lang: np.array([number.setdefault(word, len(number)) for word in own.tokens.words], np.int64)[own.tokens.ids]
        for lang, own in texts.items()
    }
    keys = {
        lang: np.repeat(own.concepts, np.diff(own.tokens.offsets)) * len(number) + words[lang]
        for lang, own in texts.items()
    }
    distinct = [np.unique(key) for key in keys.values()]
    unique, languages = np.unique(np.concatenate(distinct), return_counts=True)
    shared = unique[languages > 1]
    return {lang: own.keep(~np.isin(keys[lang], shared)) for lang, own in texts.items()}


def _tokenise(texts: list[str], lang: str, tokeniser: Tokeniser) -> Tokens:
    """Split texts into words, chunk by chunk on all cores, over one vocabulary."""
    chunks = [texts[i : i + CHUNK] for i in range(0, len(texts), CHUNK)]
    column: dict[str, int] = {}
    ids, lengths = [np.zeros(0, np.int32)], [np.zeros(1, np.int64)]
    with ThreadPoolExecutor(available_cores()) as pool:
        for part in pool.map(partial(tokeniser, lang=lang), chunks):
            moved = np.fromiter((column.setdefault(w, len(column)) for w in part.words), np.int32, len(part.words))
            ids.append(moved[part.ids])
            lengths.append(np.diff(part.offsets))
    return Tokens(list(column), np.concatenate(ids), np.cumsum(np.concatenate(lengths)))


def _every(text: str, turn: int, step: int) -> str:
    return "\n".join([line for line in text.split("\n") if line.strip()][turn::step])


def _beginning(text: str, width: int = 60) -> str:
    """The first words of a text that has no title."""
    first = " ".join(text[: 4 * width].split())
    return first if len(first) <= width else first[:width].rsplit(" ", 1)[0] + " …"


def _digest(langs: list[str], found: dict[str, list[list[str]]]) -> str:
    """A digest of the documents, in whatever order and wherever they lie."""

    def each() -> Iterator[bytes]:
        for lang in langs:
            for name, _, text in zip(*found[lang], strict=True):
                parts = f"{len(lang)} {len(name)} {lang}{name}{text}".encode(errors="surrogatepass")
                yield hashlib.blake2b(parts, digest_size=16).digest()

    return hashlib.sha256(b"".join(sorted(each()))).hexdigest()[:16]
