"""Matches of a suspect text on the terminal."""

from rich.text import Text

from cr5.alignment import Passage, Suspect
from cr5.cli.render.console import out
from cr5.cli.render.search import printable, without_control_characters
from cr5.message_parts import plural

SHOWN_PAIRS, SHOWN_OTHERS = 6, 3  # word pairs, and other sources, shown for a match


def match_report(suspect: Suspect) -> None:
    """Print every match: both passages with the words that contributed in bold, and pairs of words."""
    for number, match in enumerate(suspect.matches, 1):
        if number > 1:
            out.print()
        first, last = match.suspect.sentences[0] + 1, match.suspect.sentences[-1] + 1
        where = f"sentence {first}" if first == last else f"sentences {first} to {last}"
        title = printable(match.source.title) or match.source.concept
        out.print(
            f"{number}. similarity {match.score:.2f}, {where}, source: {title} ({match.source.id})",
            style="bold",
            soft_wrap=True,
        )
        for lang, passage in ((suspect.text.lang, match.suspect), (match.source.lang, match.passage)):
            out.print(Text(f"{lang}  ", style="dim") + _marked(passage), soft_wrap=False)
        pairs = ", ".join(f"{pair.word_a} ~ {pair.word_b}" for pair in match.pairs[:SHOWN_PAIRS])
        others = ", ".join(f"{document.id} {score:.2f}" for document, score in match.others[:SHOWN_OTHERS])
        for line in (pairs, others and f"also in {others}"):
            if line:
                out.print(Text(line, style="dim"), soft_wrap=True)
    matched = (
        f"{100 * suspect.matched_share:.0f} % of the text in {plural(len(suspect.matches), 'passage')} with a source"
    )
    out.print(f"{matched}; {plural(suspect.documents, 'document')} compared", style="dim")


def _marked(passage: Passage) -> Text:
    text = Text(without_control_characters(passage.text))
    for begin, end in passage.words:
        text.stylize("bold", begin, end)
    return text
