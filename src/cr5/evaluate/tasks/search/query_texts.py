"""The texts of queries: each function makes one out of a document; none if the document does not allow it.

``position`` is a number from 0 to 1 that decides between several possibilities: the sentence at that part of a text.
"""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import log
from typing import TypeVar

from cr5.corpus.languages import primary_subtag
from cr5.evaluate.tasks.search.documents import LanguageDocuments
from cr5.features.sentences import SENTENCE_END

Item = TypeVar("Item")
SHORT_CHARACTERS, MEDIUM_CHARACTERS = 1500, 6000  # longest short and longest medium document
MIN_SENTENCE_WORDS, MAX_SENTENCE_CHARACTERS = 6, 300
KEYWORDS = 3
MIN_KEYWORD_CHARACTERS = 2
MIN_TYPO_LETTERS = 6  # length of a word from which it may be misspelled
MIN_STRING_CHARACTERS, MAX_STRING_CHARACTERS = 4, 60
RARE_WORDS = 3  # words of a document that are tried if it has no code of its own

QUESTIONS = {
    "en": ("what is {}", "how do I {}", "how does {} work", "where can I read about {}"),
    "it": ("che cos'è {}", "come si fa {}", "come funziona {}", "dove posso leggere qualcosa su {}"),
    "da": ("hvad er {}", "hvordan gør jeg {}", "hvordan virker {}", "hvor kan jeg læse om {}"),
    "vi": ("{} là gì", "làm thế nào để {}", "{} hoạt động như thế nào", "tôi có thể đọc về {} ở đâu"),
    "de": ("was ist {}", "wie kann ich {}", "wie funktioniert {}", "wo finde ich etwas über {}"),
    "fr": ("qu'est-ce que {}", "comment faire {}", "comment fonctionne {}", "où puis-je lire quelque chose sur {}"),
    "es": ("qué es {}", "cómo puedo {}", "cómo funciona {}", "dónde puedo leer algo sobre {}"),
    "ru": ("что такое {}", "как сделать {}", "как работает {}", "где можно прочитать про {}"),
}
"""The same questions in each language, in the same order."""

# Runs of letters, digits and underscores whose parts single dots may separate: setup.exe, 0x80070005, foo_bar. Only of
# alphabets with spaces between words; in other scripts, a code stands between words without a space.
_LETTERS = "A-Za-z0-9_\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0370-\u052f\u1e00-\u1eff"
_CODE = re.compile(rf"(?<![{_LETTERS}.])[{_LETTERS}]+(?:\.[{_LETTERS}]+)*(?![{_LETTERS}])")
_MISSING_SPACE = re.compile(r"[^\W\d_]+\.[^\W\d_]+")  # with a capital after the dot: the end of a sentence.The next one
_WORD = re.compile(r"[^\W\d_]+")


def split_at_stops(text: str) -> list[str]:
    """The sentences and lines of a text; every full stop before a space ends one.

    Unlike ``features.sentences.split_sentences``, which knows abbreviations: the same index and seed must give the same
    queries as those of published figures.
    """
    ends = [match.end() for match in SENTENCE_END.finditer(text)]
    return [part for begin, end in pairwise([0, *ends, len(text)]) if (part := text[begin:end].strip())]


def sentence(documents: LanguageDocuments, text: str, position: float) -> str | None:
    """A whole sentence of a text, neither very short nor very long."""
    usable = [
        part
        for part in split_at_stops(text)
        if len(part) <= MAX_SENTENCE_CHARACTERS and len(documents.key(part).split()) >= MIN_SENTENCE_WORDS
    ]
    return at_position(usable, position) if usable else None


def has_questions(lang: str) -> bool:
    """Whether there are questions in a language."""
    return primary_subtag(lang) in QUESTIONS


def question(documents: LanguageDocuments, title: str, position: float) -> str | None:
    """A question about a title, in the languages that have any."""
    templates = QUESTIONS.get(primary_subtag(documents.lang))
    return at_position(templates, position).format(title) if templates and title else None


def keywords(documents: LanguageDocuments, text: str) -> str | None:
    """The words of a text with the highest TF-IDF, best first."""
    size = len(documents.ids)
    counts = Counter(word for word in documents.key(text).split() if len(word) >= MIN_KEYWORD_CHARACTERS)
    weights = {word: count * log(size / max(documents.frequency(word), 1)) for word, count in counts.items()}
    best = sorted(weights, key=lambda word: (-weights[word], word))[:KEYWORDS]
    return " ".join(best) if len(best) == KEYWORDS and weights[best[-1]] > 0 else None


def typo(documents: LanguageDocuments, title: str, position: float) -> str | None:
    """A title with one edit in a long word: a letter left out, doubled or replaced, or two letters exchanged.

    None if that makes another word of the index.
    """
    words = [match for match in _WORD.finditer(title) if len(match[0]) >= MIN_TYPO_LETTERS]
    if not words:
        return None
    word = at_position(words, position)
    # The first and the last letter stay; further digits of the position decide which other letter, and the edit.
    rest = position * len(words) % 1
    i = 1 + int(rest * (len(word[0]) - 3))
    kind = int(rest * 1000) % 4
    a, b = word[0][i], word[0][i + 1]
    edited = {0: b, 1: a + a + b, 2: b + a, 3: ("e" if a != "e" else "a") + b}[kind]
    changed = word[0][:i] + edited + word[0][i + 2 :]
    if changed == word[0] or all(documents.frequency(part) for part in documents.key(changed).split()):
        return None
    return title[: word.start()] + changed + title[word.end() :]


def codes(text: str) -> list[str]:
    """The strings of a text with digits, underscores or dots, such as codes and names of functions; each once."""
    found = dict.fromkeys(_CODE.findall(text))
    return [code for code in found if MIN_STRING_CHARACTERS <= len(code) <= MAX_STRING_CHARACTERS and _is_code(code)]


def _is_code(text: str) -> bool:
    if _MISSING_SPACE.fullmatch(text):
        last = text.rpartition(".")[2]
        return not (last[0].isupper() and last[1:] == last[1:].lower())
    return not text.strip("_").isalpha()


def rare_words(documents: LanguageDocuments, text: str) -> list[str]:
    """The longest words of a text that no other document of the language contains."""
    words = dict.fromkeys(documents.key(text).split())
    own = [w for w in words if len(w) >= MIN_STRING_CHARACTERS and w.isalpha() and documents.frequency(w) == 1]
    return sorted(own, key=lambda word: (-len(word), word))[:RARE_WORDS]


def at_position(items: Sequence[Item], position: float) -> Item:
    """The item at a relative position."""
    return items[min(int(position * len(items)), len(items) - 1)]
