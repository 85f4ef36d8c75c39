"""Language identification: which language a text is in, and whether that contradicts the declared one.

The model is ``py3langid``, which needs no network. It judges up to three windows of a text.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cr5._typing import Array
from cr5.corpus.batch_classifier import BatchClassifier
from cr5.corpus.languages import is_registered, normalise, primary_subtag, script

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

__all__ = [
    "MIN_FOREIGN_PROBABILITY",
    "UNKNOWN",
    "Guess",
    "find_foreign_language",
    "guess",
    "identified_languages",
    "identify",
]

UNKNOWN = "und"  # BCP 47 for "undetermined"
MIN_FOREIGN_PROBABILITY = 0.9  # of the other language, in every window of a foreign text
MIN_FOREIGN_LETTERS = 60  # in the windows of a foreign text; fewer are a heading or a list of names
WINDOWS, WINDOW_SIZE = 3, 300  # the size limits both the characters and the bytes of UTF-8
FEW_TEXTS = 8  # are classified one by one, which takes less time for so few

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
_SECOND_SCRIPTS = {"sr-Latn", "uz-Cyrl", "zh-Hant"}  # which the identifier knows besides the usual script


class Guess(NamedTuple):
    """A language as a BCP 47 code, and the confidence in it, from 0 to 1."""

    lang: str
    confidence: float


def guess(text: str) -> Guess:
    """The most probable language of a text, judged by three windows of it; "und" for a text without letters.

    ``confidence`` is the probability that the identifier gives the language, averaged over the windows, with zero
    for a window that looks like another language, so it is low for a text in several languages. It is a cautious
    estimate: of single sentences with a confidence of 0.3, 0.5 and 0.7, about 60, 80 and 97 % are right, and of those
    above 0.8 nearly all.
    """
    windows = _windows(text)
    votes: dict[str, float] = {}
    for window in windows:
        lang, probability = _classify(window)
        votes[lang] = votes.get(lang, 0.0) + probability
    if not votes:
        return Guess(UNKNOWN, 0.0)
    lang = max(votes, key=votes.__getitem__)
    return Guess(lang, votes[lang] / len(windows))


def find_foreign_language(text: str, declared: str) -> Guess | None:
    """The language of a text if it is evidently not the declared one (a normalised code); else None.

    It is evident if every window shows the same language, together with those similar to it, with a probability of
    ``MIN_FOREIGN_PROBABILITY`` or more; ``confidence`` is the average. Similar languages (da and nb, hr and sr, gl and
    pt) never contradict each other, and a language that the identifier does not know is contradicted only by another
    script. A text in its declared language costs one window.
    """
    windows = _windows(text)
    votes: list[Guess] = []
    for window in windows:
        vote = _classify(window)
        if not _contradicts(vote.lang, declared):
            return None
        if vote.confidence < MIN_FOREIGN_PROBABILITY:
            vote = _sum_over_similar(window, vote.lang)
        votes.append(vote)
        if vote.confidence < MIN_FOREIGN_PROBABILITY or vote.lang not in _similar(votes[0].lang):
            return None
    if sum(map(str.isalpha, "".join(windows))) < MIN_FOREIGN_LETTERS:
        return None
    most_confident = max(votes, key=lambda vote: vote.confidence)
    return Guess(most_confident.lang, sum(vote.confidence for vote in votes) / len(votes))


def identify(texts: Sequence[str]) -> Array:
    """Texts x ``identified_languages``: the probability of each, from the beginning of a text; every row sums to 1."""
    windows, labels = [_bytes(text[:WINDOW_SIZE]) for text in texts], _classifier().labels
    if len(texts) > FEW_TEXTS:
        return _classifier().probabilities(windows)
    ranked = [dict(_identifier().rank(window)) for window in windows]
    return np.array([[shares[label] for label in labels] for shares in ranked]).reshape(len(texts), len(labels))


def identified_languages() -> list[str]:
    """The languages that the identifier knows."""
    return [_code(label) for label in _classifier().labels]


def _windows(text: str) -> list[str]:
    """Up to three evenly spaced parts of a text, those with letters."""
    text = text.strip()
    count = min(WINDOWS, -(-len(text) // WINDOW_SIZE))
    last = max(len(text) - WINDOW_SIZE, 0)
    starts = [last * i // max(count - 1, 1) for i in range(count)]
    windows = [text[start : start + WINDOW_SIZE] for start in starts]
    return [window for window in windows if any(map(str.isalpha, window))]


def _classify(window: str) -> Guess:
    label, probability = _identifier().classify(_bytes(window))
    return Guess(_code(label), probability)


def _sum_over_similar(window: str, lang: str) -> Guess:
    """The probability that a window is in a language or in one similar to it."""
    similar = _similar(lang)
    return Guess(lang, sum(share for label, share in _identifier().rank(_bytes(window)) if _code(label) in similar))


def _bytes(window: str) -> bytes:
    return window.encode("utf-8", "replace")[:WINDOW_SIZE]


@cache
def _identifier() -> "LanguageIdentifier":
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@cache
def _classifier() -> BatchClassifier:
    return BatchClassifier(_identifier())


@cache
def _code(label: str) -> str:
    return normalise(label)


@cache
def _identifier_languages() -> frozenset[str]:
    return frozenset(map(_code, _identifier().labels))


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
    if usual and not _similar(primary).isdisjoint(_identifier_languages()):
        return lang not in _similar(primary)
    return declared_script not in ("", script(lang)) and primary not in _ANY_SCRIPT
