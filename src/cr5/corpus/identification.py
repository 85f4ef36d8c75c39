"""Language identification: which language a text is in, and whether that contradicts the declared one.

The model is ``py3langid``, which needs no network. It judges up to three excerpts of a text.
"""

import io
import lzma
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cr5._typing import Array
from cr5.corpus.batch_classifier import BatchClassifier
from cr5.corpus.languages import bcp47_code, is_registered, primary_subtag, script

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

UNKNOWN = "und"  # BCP 47 for "undetermined"
MIN_FOREIGN_PROBABILITY = 0.9  # lowest probability of the other language, in every excerpt of a foreign text
MIN_FOREIGN_LETTERS = 60  # letters in the excerpts of a foreign text; fewer are a heading or a list of names
EXCERPTS, EXCERPT_SIZE = 3, 300  # the size limits both the characters and the bytes of UTF-8
FEW_TEXTS = 8  # up to this many texts are classified one by one, which takes less time

# Languages that the identifier confuses, or that it does not know and assigns to the others of their group.
_SIMILAR = [
    "da nb nn no", "fo is", "de gsw lb nds", "af fy nl", "en pcm sco", "ar arz ary", "fa prs", "ckb ku kmr sdh",
    "an ast es ext gl lad mwl pt", "ca oc", "fr oc wa", "gcf gcr ht", "it lij lmo nap scn vec",
    "bs cnr hr sh sr", "bg mk sr", "be ru rue uk", "cs sk", "lt ltg lv", "ga gd",
    "az crh gag tk tr", "ba kk ky tt", "uz uzs", "bho gom hi mai mr ne sa", "as bn",
    "ace bjn id jv min ms su", "bcl fil tl", "cmn gan hsn lzh wuu yue zh",
    "nso st tn", "nr ss xh zu", "he hbo", "el grc", "gn gug", "ff fuv",
]  # fmt: skip
_NOT_EVIDENCE = {"la", "zxx"}  # Latin may be names of species; zxx is the code for text in no language
# Languages that the identifier does not know and that are not written in one script only.
_ANY_SCRIPT = {"cdo", "cr", "hak", "iu", "ks", "mni", "nan", "sat", "sd", "shi", "und"}
_SECOND_SCRIPTS = {"sr-Latn", "uz-Cyrl", "zh-Hant"}  # scripts that the identifier knows besides the usual one


class Guess(NamedTuple):
    """A language as a BCP 47 code, and the confidence in it, from 0 to 1."""

    lang: str
    confidence: float


def guess(text: str) -> Guess:
    """The most probable language of a text, judged by three excerpts of it; "und" for a text without letters.

    ``confidence`` is the probability that the identifier gives the language, averaged over the excerpts, with zero
    for an excerpt that looks like another language, so it is low for a text in several languages. It is a cautious
    estimate: of single sentences with a confidence of 0.3, 0.5 and 0.7, about 60, 80 and 97 % are right, and of those
    above 0.8 nearly all.
    """
    excerpts = _excerpts(text)
    probabilities: dict[str, float] = {}
    for excerpt in excerpts:
        lang, probability = _classify(excerpt)
        probabilities[lang] = probabilities.get(lang, 0.0) + probability
    if not probabilities:
        return Guess(UNKNOWN, 0.0)
    lang = max(probabilities, key=probabilities.__getitem__)
    return Guess(lang, probabilities[lang] / len(excerpts))


def find_foreign_language(text: str, declared: str) -> Guess | None:
    """The language of a text if it is evidently not the declared one (a normalised code); else None.

    It is evident if every excerpt shows the same language, together with those similar to it, with a probability of
    ``MIN_FOREIGN_PROBABILITY`` or more; ``confidence`` is the average. Similar languages (da and nb, hr and sr, gl and
    pt) never contradict each other, and a language that the identifier does not know is contradicted only by another
    script. For a text in its declared language, only the first excerpt is classified.
    """
    excerpts = _excerpts(text)
    guesses: list[Guess] = []
    for excerpt in excerpts:
        guessed = _classify(excerpt)
        if not _contradicts(guessed.lang, declared):
            return None
        if guessed.confidence < MIN_FOREIGN_PROBABILITY:
            guessed = _sum_over_similar(excerpt, guessed.lang)
        guesses.append(guessed)
        if guessed.confidence < MIN_FOREIGN_PROBABILITY or guessed.lang not in _similar(guesses[0].lang):
            return None
    if sum(map(str.isalpha, "".join(excerpts))) < MIN_FOREIGN_LETTERS:
        return None
    most_confident = max(guesses, key=lambda guessed: guessed.confidence)
    return Guess(most_confident.lang, sum(guessed.confidence for guessed in guesses) / len(guesses))


def identify(texts: Sequence[str]) -> Array:
    """Texts x ``identified_languages``: the probability of each, from the beginning of a text; every row sums to 1."""
    excerpts, classifier = [_bytes(text[:EXCERPT_SIZE]) for text in texts], _classifier()
    if len(texts) > FEW_TEXTS:
        return classifier.probabilities(excerpts)
    rows = [classifier.probabilities_of_one(excerpt) for excerpt in excerpts]
    return np.array(rows).reshape(len(texts), len(classifier.labels))


def identify_one(text: str) -> Array:
    """The row that ``identify`` has for one text."""
    return _classifier().probabilities_of_one(_bytes(text[:EXCERPT_SIZE]))


def identified_languages() -> list[str]:
    """The languages that the identifier knows."""
    return [bcp47_code(label) for label in _identifier().labels]


def _excerpts(text: str) -> list[str]:
    """Up to three evenly spaced parts of a text, those with letters."""
    text = text.strip()
    count = min(EXCERPTS, -(-len(text) // EXCERPT_SIZE))
    last = max(len(text) - EXCERPT_SIZE, 0)
    starts = [last * i // max(count - 1, 1) for i in range(count)]
    excerpts = [text[start : start + EXCERPT_SIZE] for start in starts]
    return [excerpt for excerpt in excerpts if any(map(str.isalpha, excerpt))]


def _classify(excerpt: str) -> Guess:
    label, probability = _identifier().classify(_bytes(excerpt))
    return Guess(bcp47_code(label), probability)


def _sum_over_similar(excerpt: str, lang: str) -> Guess:
    """The probability that an excerpt is in a language or in one similar to it."""
    similar = _similar(lang)
    return Guess(
        lang, sum(share for label, share in _identifier().rank(_bytes(excerpt)) if bcp47_code(label) in similar)
    )


def _bytes(excerpt: str) -> bytes:
    return excerpt.encode("utf-8", "replace")[:EXCERPT_SIZE]


@cache
def _identifier() -> "LanguageIdentifier":
    from py3langid.langid import MODEL_DIR, MODEL_FILE, LanguageIdentifier

    # LanguageIdentifier.from_model_file needs 68 MB for a temporary file, which a container may not have.
    with lzma.open(MODEL_DIR / MODEL_FILE) as file, np.load(io.BytesIO(file.read()), allow_pickle=False) as tables:
        return LanguageIdentifier(
            tables["ptc"],
            tables["pc"],
            tables["classes"].tolist(),
            memoryview(tables["nextmove"]),  # which yields Python integers, not NumPy ones
            tables["out_feat"].tolist(),
            norm_probs=True,
            tk_row=memoryview(tables["nextmove_row"]),
        )


@cache
def _classifier() -> BatchClassifier:
    return BatchClassifier(_identifier())


@cache
def _similar(lang: str) -> frozenset[str]:
    return frozenset([lang]).union(*(group for group in map(str.split, _SIMILAR) if lang in group))


@cache
def _contradicts(lang: str, declared: str) -> bool:
    """Whether a text that looks like ``lang`` cannot be in the declared language."""
    if lang in _NOT_EVIDENCE or not is_registered(declared):
        return False
    primary, declared_script = primary_subtag(declared), script(declared)
    usual = declared_script == script(primary) or f"{primary}-{declared_script}" in _SECOND_SCRIPTS
    if usual and not _similar(primary).isdisjoint(identified_languages()):
        return lang not in _similar(primary)
    return declared_script not in ("", script(lang)) and primary not in _ANY_SCRIPT
