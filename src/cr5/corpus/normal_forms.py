"""Normal forms of Unicode, in a time that grows in proportion to the length of a text."""

import re
import unicodedata
from typing import Literal

MAX_MARKS = 100  # consecutive marks that are put in order together
_JOINER = "\u034f"  # combining grapheme joiner: marks are not moved across it
# Python has no class for marks: these are all characters but letters and digits, and two letters that become marks.
_RUN = re.compile(rf"[\W\uff9e\uff9f]{{{MAX_MARKS + 1},}}")


def normal_form(form: Literal["NFC", "NFKC"], text: str) -> str:
    """``unicodedata.normalize``, but with a joiner after every ``MAX_MARKS`` of more consecutive marks than these.

    Unicode puts the marks after a letter in a certain order. Python sorts them by insertion, whose time grows with the
    square of their number, and no other thread runs meanwhile: 8 minutes for a million. The Stream-Safe Text Format of
    Unicode (UAX 15) prevents this in the same way; no language has that many marks on one letter.
    """
    if unicodedata.is_normalized(form, text):  # which is fast, and false as soon as marks are not in order
        return text
    return unicodedata.normalize(form, _RUN.sub(_with_joiners, text))


def _with_joiners(match: re.Match[str]) -> str:
    run = match[0]
    if not any(unicodedata.combining(unicodedata.normalize("NFKD", character)[-1]) for character in set(run)):
        return run
    return _JOINER.join(run[begin : begin + MAX_MARKS] for begin in range(0, len(run), MAX_MARKS))
