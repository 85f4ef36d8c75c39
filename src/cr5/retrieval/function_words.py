"""Function words: articles, pronouns, prepositions, conjunctions, auxiliary verbs and question words, by language.

They say how the other words of a query belong together, not what it is about. In a large encyclopedia their document
frequency shows this; in a small collection "why" and "hvilken" are as rare as the words that matter. The list is in
``function_words.txt``: a line for each language, its words as the tokeniser writes them. It leaves out words that are
often something else, and parts of compounds in languages such as Vietnamese, whose tokens are syllables.
"""

from functools import cache
from importlib import resources

from cr5.corpus.languages import primary_subtag

LIST = "function_words.txt"
SAME_LIST = {"no": "nb", "nn": "nb", "ms": "id", "bs": "hr", "yue": "zh", "wuu": "zh"}


def is_function_word(word: str, lang: str) -> bool:
    """Whether a token is a function word of a language; never in a language without a list."""
    code = primary_subtag(lang)
    return word in _lists().get(SAME_LIST.get(code, code), ())


@cache
def _lists() -> dict[str, frozenset[str]]:
    lines = resources.files("cr5.retrieval").joinpath(LIST).read_text(encoding="utf-8").splitlines()
    return {lang: frozenset(words.split()) for lang, _, words in (line.partition(":") for line in lines)}
