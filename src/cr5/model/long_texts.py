"""Explanations of texts of any length: of a long one, the part that is nearest to the other text is explained."""

import re
from typing import NamedTuple

from cr5._typing import Array
from cr5.features.sentences import SENTENCE_END
from cr5.model.text_encoder import TextEncoder
from cr5.retrieval.explanations import Contribution, WordPairContribution
from cr5.retrieval.snippets import context_start

# Longer texts are explained in part: time and memory grow with the product of both texts' words.
MAX_EXPLAINED_CHARACTERS = 6_000
PART_CHARACTERS = 600  # length of the part of a longer text that is explained
MIN_SENTENCE_CHARACTERS = 40  # a shorter sentence is joined with the next
MAX_SENTENCE_CHARACTERS = 300  # a longer sentence is cut
MAX_SHIFT_CHARACTERS = 60  # largest shift of the end of a part to the end of a sentence or word


class LongTextExplanation(NamedTuple):
    """Why two texts of any length are similar: ``similarity`` is that of the full texts.

    The contributions are those of ``Cr5.explain``; for a text longer than ``MAX_EXPLAINED_CHARACTERS``, those of the
    part with the largest cosine to the other text. ``begin`` and ``end`` delimit the explained part of the second text.
    """

    similarity: float
    words_a: list[Contribution]
    words_b: list[Contribution]
    pairs: list[WordPairContribution]
    begin: int
    end: int


def explain_texts(
    model: TextEncoder,
    text_a: str,
    lang_a: str,
    text_b: str,
    lang_b: str,
    k: int = 10,
    *,
    vector_a: Array | None = None,
    vector_b: Array | None = None,
) -> LongTextExplanation:
    """Why two texts of any length are similar, in ``k`` words and pairs; the time is linear in their lengths.

    ``vector_a`` and ``vector_b`` are the vectors of the full texts, if they are known already.
    """
    vector_a = model.encode([text_a], lang_a)[0] if vector_a is None else vector_a
    vector_b = model.encode([text_b], lang_b)[0] if vector_b is None else vector_b
    begin_a, end_a = _nearest_part(model, text_a, lang_a, vector_b)
    begin, end = _nearest_part(model, text_b, lang_b, vector_a)
    part = model.explain(text_a[begin_a:end_a], lang_a, text_b[begin:end], lang_b, k)
    return LongTextExplanation(float(vector_a @ vector_b), part.words_a, part.words_b, part.pairs, begin, end)


def _nearest_part(model: TextEncoder, text: str, lang: str, vector: Array) -> tuple[int, int]:
    """The start and end of the part to explain: around the sentence with the largest cosine if the text is long."""
    if len(text) <= MAX_EXPLAINED_CHARACTERS:
        return 0, len(text)
    sentences = _sentences(text)
    best = int((model.encode([text[begin:end] for begin, end in sentences], lang) @ vector).argmax())
    begin = min(max(sum(sentences[best]) // 2 - PART_CHARACTERS // 2, 0), len(text) - PART_CHARACTERS)
    end = begin + PART_CHARACTERS
    space = re.compile(r"\s").search(text, end, end + MAX_SHIFT_CHARACTERS)
    return context_start(text, begin, MAX_SHIFT_CHARACTERS), space.start() if space else end


def _sentences(text: str) -> list[tuple[int, int]]:
    """The start and end of every sentence; the parts of a long one overlap by half."""
    sentences, begin = [], 0
    for end in [*(match.end() for match in SENTENCE_END.finditer(text)), len(text)]:
        while end - begin > MAX_SENTENCE_CHARACTERS:
            sentences.append((begin, begin + MAX_SENTENCE_CHARACTERS))
            begin += MAX_SENTENCE_CHARACTERS // 2
        if end - begin >= MIN_SENTENCE_CHARACTERS or end == len(text):
            sentences.append((begin, end))
            begin = end
    return sentences
