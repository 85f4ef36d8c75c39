"""Where sentences end."""

import pytest

from cr5.features.sentences import sentence_spans, split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        ("Dr. Smith met Mr. Rossi. They ate.", ["Dr. Smith met Mr. Rossi.", "They ate."]),
        ("J. S. Bach wrote it. We play it.", ["J. S. Bach wrote it.", "We play it."]),
        ("Am 3. Oktober war es. In 1999. The end.", ["Am 3. Oktober war es.", "In 1999.", "The end."]),
        ("Birds, fish, etc. are animals. Yes.", ["Birds, fish, etc. are animals.", "Yes."]),
        ("Heading\nText goes on. And on", ["Heading", "Text goes on.", "And on"]),
        ("一つ。二つ！「三つ。」四つ", ["一つ。", "二つ！", "「三つ。」", "四つ"]),
        ("यह एक है। यह दो है।", ["यह एक है।", "यह दो है।"]),
        ("  \n ", []),
        ("", []),
    ],
)
def test_sentences_end_at_punctuation_and_line_breaks_but_not_after_abbreviations(
    text: str, sentences: list[str]
) -> None:
    assert split_sentences(text) == sentences
    assert [text[begin:end] for begin, end in sentence_spans(text)] == sentences
