"""What the wrong first answers of an evaluation have in common: texts in another language than declared, and hubs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cr5._typing import Ints
from cr5.corpus.identification import Guess, find_foreign_language
from cr5.evaluate.texts import EvaluationCorpus

SAMPLED_TEXTS = 1000  # candidates of a language whose actual language is identified, and as many wrong answers
HUB_QUERIES, HUB_SHARE = 5, 0.01  # a hub is the wrong first answer to at least this number and this share of queries
LISTED_HUBS = 3


@dataclass
class WrongAnswers:
    """The candidates of one language that come first for queries which they do not answer, and how often they do."""

    queries: int = 0  # all that look for candidates of this language
    counts: Counter[int] = field(default_factory=Counter)

    @property
    def hubs(self) -> list[tuple[int, int]]:
        """The candidates that are the wrong answer to many queries, and to how many; the most frequent first."""
        least = max(HUB_QUERIES, HUB_SHARE * self.queries)
        return [(row, count) for row, count in self.counts.most_common() if count >= least]


def describe_wrong_answers(
    corpus: EvaluationCorpus,
    rows: Mapping[str, Ints],
    answers: Mapping[str, WrongAnswers],
    seed: int,
    sampled_texts: int = SAMPLED_TEXTS,
) -> list[str]:
    """Notes on candidates in another language than declared, and on hubs, by language.

    ``rows`` are the candidates of every language as rows of ``corpus``. The language of ``sampled_texts`` of
    them, drawn at random, is guessed, and that of as many of the most frequent wrong answers.
    """
    notes = []
    for lang, wrong in answers.items():
        if lang not in corpus.raw_texts:
            continue
        texts, titles = corpus.raw_texts[lang], corpus.languages[lang].titles
        frequent = [row for row, _ in wrong.counts.most_common(sampled_texts)]
        sample = np.random.default_rng(seed).permutation(len(rows[lang]))[:sampled_texts].tolist()
        foreign: dict[int, Guess] = {}
        for row in dict.fromkeys([*frequent, *sample]):
            guess = find_foreign_language(texts[int(rows[lang][row])].as_py(), lang)
            if guess is not None:
                foreign[row] = guess
        named = {row: titles[int(rows[lang][row])] for row in [*foreign, *(row for row, _ in wrong.hubs)]}
        if foreign:
            notes.append(_note_foreign(lang, sample, len(rows[lang]), foreign, wrong, named))
        if hubs := [(row, count) for row, count in wrong.hubs if row not in foreign]:
            notes.append(_note_hubs(lang, hubs, wrong, named))
    return notes


def _note_foreign(
    lang: str,
    sample: Sequence[int],
    candidates: int,
    foreign: Mapping[int, Guess],
    wrong: WrongAnswers,
    titles: Mapping[int, str],
) -> str:
    drawn = f" drawn from {candidates:,}" if len(sample) < candidates else ""
    in_sample = sum(row in foreign for row in sample)
    languages = Counter(guess.lang for guess in foreign.values()).most_common(3)
    listed = ", ".join(code for code, _ in languages)
    failed, affected = wrong.counts.total(), sum(wrong.counts[row] for row in foreign)
    text = (
        f"{lang}: {in_sample:,} of {len(sample):,} candidates{drawn} ({100 * in_sample / len(sample):.1f} %) are "
        f"evidently in another language ({listed}; such as “{titles[next(iter(foreign))]}”)"
    )
    if affected:
        text += f", and such texts are the first answer to {affected:,} of {failed:,} failed queries"
    return f"{text}; make the corpus with `drop_foreign` to leave out untranslated texts"


def _note_hubs(lang: str, hubs: Sequence[tuple[int, int]], wrong: WrongAnswers, titles: Mapping[int, str]) -> str:
    listed = ", ".join(f"“{titles[row]}” for {count:,}" for row, count in hubs[:LISTED_HUBS])
    more = f" (and {len(hubs) - LISTED_HUBS:,} more such candidates)" if len(hubs) > LISTED_HUBS else ""
    return (
        f"{lang}: frequent wrong answers (hubs) come first for {sum(count for _, count in hubs):,} of "
        f"{wrong.queries:,} queries: "
        f"{listed}{more}"
    )
