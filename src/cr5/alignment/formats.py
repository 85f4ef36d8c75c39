"""Formats of results: alignments as TSV, TMX or a page in HTML; parallel sentences and matches likewise."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args
from xml.sax.saxutils import escape, quoteattr

from jinja2 import Environment

from cr5 import __version__
from cr5.alignment.align import AlignedTexts
from cr5.alignment.documents import SplitText
from cr5.alignment.inputs import Sentences
from cr5.alignment.links import Link
from cr5.alignment.mining import ParallelSentences
from cr5.alignment.plagiarism import Passage, Suspect
from cr5.errors import Cr5Error, one_of
from cr5.index import IndexedDocument
from cr5.message_parts import plural
from cr5.storage.atomic import atomic_write
from cr5.storage.output_paths import check_not_input, check_output_file
from cr5.templates import read_asset, template_environment

Level: TypeAlias = Literal["sentence", "section"]
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SPACES = re.compile(r"\s+")


def output_format(path: Path | None, chosen: str | None, formats: Sequence[str], inputs: Sequence[Path] = ()) -> str:
    """The format that was chosen, or that the suffix of a file names; the first one without a file.

    A file that cannot be written, or is one of the inputs, is an error, before any work is done.
    """
    if chosen is not None:
        one_of("form", chosen, formats)
    if path is not None:
        check_output_file(path)
        check_not_input(path, inputs)
    if chosen is not None or path is None:
        return chosen or formats[0]
    suffix = path.suffix.lower().removeprefix(".")
    suffix = "html" if suffix == "htm" else suffix
    if suffix not in formats:
        listed = ", ".join(f".{name}" for name in formats)
        raise Cr5Error(f"{path} has none of the suffixes {listed}; rename it")
    return suffix


def write_text(path: Path, parts: Iterable[str]) -> None:
    """Write a text to a file that appears when it is complete."""
    with atomic_write(path) as file:
        for part in parts:
            file.write(part.encode("utf-8", "replace"))


class ParallelTexts(NamedTuple):
    """Texts in two languages that say the same, and their score."""

    text_a: str
    lang_a: str
    text_b: str
    lang_b: str
    score: float


def alignment_text(texts: Sequence[AlignedTexts], form: str, *, level: Level = "sentence") -> Iterator[str]:
    """Alignments as "tsv", "tmx" or "html", in parts; ``level`` is that of the rows, and the page shows both."""
    one_of("level", level, get_args(Level))
    if form == "html":
        yield page("alignment.html.jinja", texts=[_page_values(text) for text in texts])
    elif form == "tmx":
        rows = ((text, link) for text in texts for link in _links(text, level) if link.a and link.b)
        yield from tmx(
            ParallelTexts(
                _joined(text.a, link.a, level), text.a.lang, _joined(text.b, link.b, level), text.b.lang, link.score
            )
            for text, link in rows
        )
    else:
        several = len(texts) > 1
        yield tsv_line([*["document"] * several, "a", "b", "score", "text_a", "text_b"])
        for text in texts:
            for link in _links(text, level):
                numbers = (",".join(str(unit + 1) for unit in units) for units in (link.a, link.b))
                score = f"{link.score:.3f}" if link.a and link.b else ""
                cells = _joined(text.a, link.a, level), _joined(text.b, link.b, level)
                yield tsv_line([*[text.a.name] * several, *numbers, score, *cells])


def mined_text(pairs: Sequence[ParallelSentences], a: Sentences, b: Sentences, form: str) -> Iterator[str]:
    """Parallel sentences as "tsv", with their numbers from 1, or as "tmx", in parts."""
    texts = [ParallelTexts(a.texts[x].strip(), a.lang, b.texts[y].strip(), b.lang, score) for x, y, score in pairs]
    if form == "tmx":
        yield from tmx(texts)
        return
    yield tsv_line(["score", "a", "b", "text_a", "text_b"])
    for pair, text in zip(pairs, texts, strict=True):
        yield tsv_line([f"{pair.score:.3f}", str(pair.a + 1), str(pair.b + 1), text.text_a, text.text_b])


def match_page(suspect: Suspect) -> str:
    """A page of the matches of a suspect text, with the words that contributed marked."""

    def parts(passage: Passage) -> Iterator[tuple[str, bool]]:
        end = 0
        for begin, stop in passage.words:
            yield passage.text[end:begin], False
            yield passage.text[begin:stop], True
            end = stop
        yield passage.text[end:], False

    matches = [
        {"match": match, "suspect": list(parts(match.suspect)), "passage": list(parts(match.passage))}
        for match in suspect.matches
    ]
    return page("matches.html.jinja", suspect=suspect, matches=matches)


def match_json(suspect: Suspect) -> dict[str, Any]:
    """The matches of a suspect text as plain values; numbers of sentences are from 1."""

    def passage(each: Passage) -> dict[str, Any]:
        numbers = [number + 1 for number in each.sentences]
        return {"sentences": numbers, "text": each.text, "words": [each.text[a:b] for a, b in each.words]}

    def source(each: IndexedDocument) -> dict[str, str]:
        return {name: getattr(each, name) for name in ("id", "concept", "lang", "title", "url")}

    return {
        "suspect": suspect.text.name,
        "lang": suspect.text.lang,
        "sentences": len(suspect.text.sentences),
        "documents_compared": suspect.documents,
        "matched_share": suspect.matched_share,
        "matches": [
            {
                "score": match.score,
                "suspect": passage(match.suspect),
                "source": source(match.source) | passage(match.passage),
                "pairs": [pair._asdict() for pair in match.pairs],
                "others": [source(other) | {"score": score} for other, score in match.others],
            }
            for match in suspect.matches
        ],
    }


def tsv_line(cells: Iterable[str]) -> str:
    """A row of a table; tabs and line breaks within cells become spaces."""
    return "\t".join(_SPACES.sub(" ", cell) for cell in cells) + "\n"


def tmx(pairs: Iterable[ParallelTexts]) -> Iterator[str]:
    """A translation memory in TMX 1.4, a unit for each pair, with its score as a property."""
    yield (
        '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n'
        f'<header creationtool="cr5" creationtoolversion="{__version__}" segtype="sentence" o-tmf="plain text" '
        'adminlang="en" srclang="*all*" datatype="plaintext"/>\n<body>\n'
    )
    for pair in pairs:
        segments = "".join(
            f"<tuv xml:lang={quoteattr(lang)}><seg>{escape(_NOT_XML.sub(' ', text))}</seg></tuv>"
            for text, lang in ((pair.text_a, pair.lang_a), (pair.text_b, pair.lang_b))
        )
        yield f'<tu><prop type="score">{pair.score:.3f}</prop>{segments}</tu>\n'
    yield "</body>\n</tmx>\n"


def page(template: str, **values: Any) -> str:
    """A page that needs no other file and no network; the template escapes all values."""
    return _environment().get_template(template).render(version=__version__, **values)


@cache
def _environment() -> Environment:
    environment = template_environment("cr5.alignment")
    environment.globals |= {"style_sheet": read_asset(environment, "page.css"), "plural": plural}
    return environment


def _links(text: AlignedTexts, level: Level) -> list[Link]:
    return text.sentences if level == "sentence" else text.sections


def _joined(text: SplitText, units: Sequence[int], level: Level) -> str:
    if level == "sentence":
        return text.joined(units)
    paragraphs = text.paragraph_texts()
    return " ".join(paragraphs[unit] for unit in units)


def _page_values(text: AlignedTexts) -> dict[str, Any]:
    """The links of sentences in blocks of one section each, and how many have a counterpart."""
    section_of = [
        {paragraph: number for number, section in enumerate(text.sections) for paragraph in section.sides[side]}
        for side in (0, 1)
    ]
    blocks: list[tuple[int, list[Link]]] = []
    for link in text.sentences:
        side, units = (0, link.a) if link.a else (1, link.b)
        section = section_of[side][(text.a, text.b)[side].paragraphs[units[0]]]
        if not blocks or blocks[-1][0] != section:
            blocks.append((section, []))
        blocks[-1][1].append(link)
    return {
        "a": text.a,
        "b": text.b,
        "blocks": [(text.sections[number], links) for number, links in blocks],
        "linked": [sum(len(link.sides[side]) for link in text.sentences if link.a and link.b) for side in (0, 1)],
    }
