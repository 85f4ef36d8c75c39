"""Documents to align: files of plain text, HTML, Markdown or reStructuredText, split into paragraphs and sentences."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from cr5.corpus.file_names import split_name
from cr5.corpus.identification import find_foreign_language
from cr5.corpus.tables import describe_utf8_error
from cr5.errors import CorpusError, Cr5Error
from cr5.features.sentences import COMPLETE_SENTENCE, split_sentences
from cr5.features.tokeniser import has_letter_or_digit
from cr5.model import Cr5
from cr5.sources.accounting import Accounting
from cr5.sources.files import open_source
from cr5.sources.input_files import files_below
from cr5.sources.markup import CONVERTERS, FORMATS, decode_page, extension
from cr5.storage.compressed import split_suffix

MIN_WRAPPED_CHARACTERS = 40  # a shorter line is a heading or an item of a list, and its break ends a sentence
SAMPLE_CHARACTERS = 20_000  # characters of a text from which its language is guessed
# word2vec text with its header, or without it a word and ten decimal numbers or more
_WORD_VECTORS = re.compile(r"\d+ \d+\s*\n\S+(?: -?\d\S*)+\s*(?:\n|$)|\S+(?: -?\d+\.\d\S*){10,}\s*(?:\n|$)")
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n\s*")


@dataclass(frozen=True)
class SplitText:
    """A text as its sentences; ``paragraphs`` has the number of the paragraph that each of them is in, from 0."""

    name: str
    lang: str
    sentences: list[str]
    paragraphs: list[int]

    def joined(self, sentences: Iterable[int]) -> str:
        """Some of the sentences as one text."""
        return " ".join(self.sentences[number] for number in sentences)

    def paragraph_texts(self) -> list[str]:
        """The sentences of every paragraph, joined."""
        parts: list[list[str]] = [[] for _ in range(max(self.paragraphs, default=-1) + 1)]
        for sentence, number in zip(self.sentences, self.paragraphs, strict=True):
            parts[number].append(sentence)
        return [" ".join(part) for part in parts]


def split_text(text: str, lang: str, name: str = "") -> SplitText:
    """The paragraphs and sentences of a text; an error if it has no letter or digit."""
    sentences, numbers, number = [], [], 0
    for paragraph in _paragraphs(text):
        found = [sentence for sentence in split_sentences(paragraph) if has_letter_or_digit(sentence)]
        sentences += found
        numbers += [number] * len(found)
        number += bool(found)
    if not sentences:
        raise Cr5Error(f"{name or 'the text'} has no sentence, not even a letter or digit; give a text with words")
    return SplitText(name, lang, sentences, numbers)


def read_text(path: Path, lang: str | None = None) -> str:
    """The plain text of a file by its suffix, also if it is compressed, in UTF-8 or an encoding that is evident."""
    with open_source(path) as stream:
        data = stream.read()
    try:
        text, _ = decode_page(data, lang or "")
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path}: {describe_utf8_error(error)}") from None
    if "\0" in text:
        raise CorpusError(f"{path} is not a text file; give plain text, HTML, Markdown or reStructuredText")
    if _WORD_VECTORS.match(text):
        raise CorpusError(f"{path} has word vectors, not a text; give plain text, HTML, Markdown or reStructuredText")
    page_format = FORMATS.get(extension(path.name), "text")
    return text.replace("\r\n", "\n") if page_format == "text" else CONVERTERS[page_format](text)[1]


def text_language(model: Cr5, text: str, lang: str | None, name: str, parameter: str = "langs") -> str:
    """The language of the model that a code means or that is guessed; an error for a language it does not know.

    ``parameter`` is the one that names the language.
    """
    if lang is not None:
        return model.find_language(lang)
    sample = text[:SAMPLE_CHARACTERS]
    guessed = model.guess_language(sample).lang
    if foreign := find_foreign_language(sample, guessed):
        raise Cr5Error(
            f"{name or 'the text'} seems to be in {foreign.lang}, and the languages of the model are "
            f"{', '.join(model.langs)}; if it is in one of these, name it with `{parameter}`"
        )
    return guessed


def read_split(model: Cr5, path: Path, lang: str | None = None) -> SplitText:
    """A file as its sentences, in a language that is guessed by default."""
    text = read_text(path, lang)
    if not has_letter_or_digit(text):
        raise Cr5Error(f"{path} has no sentence, not even a letter or digit; give a text with words")
    return split_text(text, text_language(model, text, lang, str(path)), str(path))


def text_files(folder: Path) -> list[Path]:
    """The files below a folder whose suffix is that of text, HTML, Markdown or reStructuredText, sorted."""
    found = [path for path in files_below(folder, Accounting()) if extension(path.name) in FORMATS]
    if not found:
        raise CorpusError(f"{folder}: no file in this folder ends in {', '.join(FORMATS)}")
    return found


def pair_files(a: Path, b: Path) -> tuple[list[tuple[Path, Path]], list[Path]]:
    """The files of two folders with the same name but for suffix and language, and those without a partner.

    Two files are one pair, whatever their names are.
    """
    if a.is_dir() != b.is_dir():
        folder, file = (a, b) if a.is_dir() else (b, a)
        raise Cr5Error(f"{folder} is a folder and {file} is a file; give two files or two folders")
    if not a.is_dir():
        return [(a, b)], []
    left, right = ({_stem(path, folder): path for path in text_files(folder)} for folder in (a, b))
    shared = [name for name in left if name in right]
    if not shared:
        examples = ", ".join(sorted(left)[:1] + sorted(right)[:1])
        raise CorpusError(f"{a} and {b} have no files of the same name, only names such as {examples}; rename them")
    alone = [path for own, other in ((left, right), (right, left)) for name, path in own.items() if name not in other]
    return [(left[name], right[name]) for name in shared], alone


def _stem(path: Path, folder: Path) -> str:
    """The name of a file below a folder without its suffixes and its language: guide.en.html.gz -> guide."""
    inner = path.relative_to(folder)
    name, suffix = split_suffix(inner.name)[0], extension(inner.name)
    name = name[: -len(suffix)] if suffix in FORMATS else name
    return (inner.parent / split_name(name)[0]).as_posix()


def _paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a text: between blank lines, or every line if there are none; wrapped lines are joined."""
    blocks = _BLANK_LINE.split(text.strip())
    has_blank_lines = len(blocks) > 1
    for block in blocks:
        joined = _unwrap([line.strip() for line in block.split("\n")], has_blank_lines)
        if has_blank_lines:
            yield "\n".join(joined)
        else:
            yield from joined


def _unwrap(lines: Sequence[str], has_blank_lines: bool) -> list[str]:
    """Lines, each joined with the next where the break is within a sentence.

    A break is within a sentence if a lower-case letter follows it, or, where blank lines separate paragraphs, if the
    line before it is long; the line before it is not a complete sentence.
    """
    joined = list(lines[:1])
    for before, line in pairwise(lines):
        is_long = has_blank_lines and len(before) >= MIN_WRAPPED_CHARACTERS
        if (is_long or line[:1].islower()) and before and not COMPLETE_SENTENCE.search(before):
            joined[-1] += f" {line}"
        else:
            joined.append(line)
    return joined
