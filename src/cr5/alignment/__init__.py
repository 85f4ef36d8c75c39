"""From documents to alignments: aligned texts, parallel sentences in two collections, and reused passages.

``align`` and ``align_files`` link the sentences and sections of two texts, ``mine`` finds parallel sentences in two
collections, and ``find_reused`` the passages of a text that documents of an index say in other languages.
"""

from cr5.alignment.align import AlignedFiles, AlignedTexts, align, align_files
from cr5.alignment.documents import SplitText, split_text
from cr5.alignment.formats import alignment_text, write_text
from cr5.alignment.inputs import Sentences, open_sources, read_sentences
from cr5.alignment.links import Link, align_units
from cr5.alignment.mining import ParallelSentences, mine
from cr5.alignment.plagiarism import Match, Passage, Suspect, find_reused

__all__ = [
    "AlignedFiles",
    "AlignedTexts",
    "Link",
    "Match",
    "ParallelSentences",
    "Passage",
    "Sentences",
    "SplitText",
    "Suspect",
    "align",
    "align_files",
    "align_units",
    "alignment_text",
    "find_reused",
    "mine",
    "open_sources",
    "read_sentences",
    "split_text",
    "write_text",
]
