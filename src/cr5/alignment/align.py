"""Alignment of documents: which sentences and sections of two texts in two languages say the same."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cr5.alignment.documents import SplitText, pair_files, read_split, split_text, text_language
from cr5.alignment.links import Link, Units, align_units
from cr5.errors import Cr5Error
from cr5.message_parts import plural
from cr5.model import Cr5
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.retrieval.text_similarity import pair_similarities

MIN_SECTION_SHARE = 0.5  # share of the shorter of two paragraphs, in characters, that must be linked with the other


@dataclass(frozen=True)
class AlignedTexts:
    """Two texts, the links between their sentences, and ``sections``, the links between their paragraphs."""

    a: SplitText
    b: SplitText
    sentences: list[Link]
    sections: list[Link]


class AlignedFiles(NamedTuple):
    """The alignments of pairs of files, the files without a partner in the other folder, and why others failed."""

    texts: list[AlignedTexts]
    unpaired: list[Path]
    failed: list[str]


def align(
    model: Cr5,
    text_a: str,
    text_b: str,
    *,
    langs: Sequence[str | None] | None = None,
    free: bool = False,
    names: tuple[str, str] = ("", ""),
) -> AlignedTexts:
    """Align the sentences and paragraphs of two texts in different languages.

    ``langs`` are the languages of both, which are guessed by default. The order of the sentences is taken to be the
    same, with some missing, joined or split, unless ``free``: see ``align_units``. Paragraphs are linked where at least
    half of the shorter one is linked with the other.
    """
    found = [
        split_text(text, text_language(model, text, lang, name), name)
        for text, lang, name in zip((text_a, text_b), two_languages(langs), names, strict=True)
    ]
    return _align(model, found[0], found[1], free)


def align_files(
    model: Cr5,
    a: Path | str,
    b: Path | str,
    *,
    langs: Sequence[str | None] | None = None,
    free: bool = False,
    progress: ProgressCallback = no_progress,
) -> AlignedFiles:
    """Align two files as ``align`` does, or the files of two folders that have the same name.

    Names are compared without their suffixes and languages: en/guide.html with it/guide.it.txt. Files may be plain
    text, HTML, Markdown or reStructuredText, compressed or not. A pair of files in folders that cannot be aligned, such
    as with an empty file, is left out, and ``failed`` says why.
    """
    pairs, unpaired = pair_files(Path(a), Path(b))
    codes, aligned, failed = two_languages(langs), list[AlignedTexts](), list[str]()
    for number, paths in enumerate(pairs):
        progress(Progress("align", number, len(pairs), paths[0].name))
        try:
            x, y = (read_split(model, path, lang) for path, lang in zip(paths, codes, strict=True))
            aligned.append(_align(model, x, y, free))
        except Cr5Error as error:
            if not Path(a).is_dir():
                raise
            failed.append(str(error))
    if not aligned:
        raise Cr5Error(f"none of {plural(len(pairs), 'pair')} of files can be aligned: {failed[0]}")
    return AlignedFiles(aligned, unpaired, failed)


def two_languages(langs: Sequence[str | None] | None) -> Sequence[str | None]:
    """Two codes, None for languages that are guessed."""
    langs = (None, None) if langs is None else langs
    if isinstance(langs, str) or len(langs) != 2:
        shown = langs if isinstance(langs, str) else ",".join(map(str, langs))
        raise Cr5Error(f"`langs={shown}` does not name two languages; give one for each text, such as en,it")
    return langs


def _align(model: Cr5, a: SplitText, b: SplitText, free: bool) -> AlignedTexts:
    if a.lang == b.lang:
        both = f"{a.name} and {b.name} are" if a.name and b.name else "both texts are"
        raise Cr5Error(f"{both} in {a.lang}; give texts in different languages, or name these with `langs`")
    links = align_units(model, a.sentences, a.lang, b.sentences, b.lang, free=free)
    return AlignedTexts(a, b, links, _sections(model, a, b, links))


def _sections(model: Cr5, a: SplitText, b: SplitText, links: Sequence[Link]) -> list[Link]:
    """Paragraphs that the links of their sentences join, in groups; every other paragraph is alone."""
    shared: dict[tuple[int, int], float] = defaultdict(float)
    order: dict[tuple[int, int], int] = {}  # the first link of each paragraph, by side and number
    for number, link in enumerate(links):
        for side, text in enumerate((a, b)):
            for unit in link.sides[side]:
                order.setdefault((side, text.paragraphs[unit]), number)
        pairs = [(i, j) for i in link.a for j in link.b]
        size = sum(len(a.sentences[i]) + len(b.sentences[j]) for i, j in pairs) / 2
        for i, j in pairs:
            shared[a.paragraphs[i], b.paragraphs[j]] += size / len(pairs)
    lengths = [list(map(len, text.paragraph_texts())) for text in (a, b)]
    groups = {paragraph: {paragraph} for paragraph in order}
    for (i, j), size in shared.items():
        if size >= MIN_SECTION_SHARE * min(lengths[0][i], lengths[1][j]):
            joined = groups[0, i] | groups[1, j]
            groups |= dict.fromkeys(joined, joined)
    unique = {frozenset(group) for group in groups.values()}
    sections = [
        [tuple(sorted(number for where, number in group if where == side)) for side in (0, 1)]
        for group in sorted(unique, key=lambda group: min(order[paragraph] for paragraph in group))
    ]
    scores = _section_scores(model, a, b, [section for section in sections if all(section)])
    return [Link(x, y, next(scores) if x and y else 0.0) for x, y in sections]


def _section_scores(
    model: Cr5, a: SplitText, b: SplitText, sections: Sequence[Sequence[tuple[int, ...]]]
) -> Iterator[float]:
    """The similarities of the joined paragraphs of sections."""
    texts = [
        [" ".join(paragraphs[number] for number in section[side]) for section in sections]
        for side, paragraphs in enumerate((a.paragraph_texts(), b.paragraph_texts()))
    ]
    x, y = (Units(side, text.lang, model) for side, text in zip(texts, (a, b), strict=True))
    return iter(pair_similarities(model.scorer(), x.counts, a.lang, y.counts, b.lang).tolist())
