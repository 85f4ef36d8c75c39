"""From documents to alignments: aligned texts, parallel sentences in two collections, and reused passages."""

from cr5.alignment.align import AlignedFiles, AlignedTexts, align, align_files
from cr5.alignment.documents import SplitText, split_text
from cr5.alignment.formats import alignment_text, write_text
from cr5.alignment.links import Link, align_units

__all__ = [
    "AlignedFiles",
    "AlignedTexts",
    "Link",
    "SplitText",
    "align",
    "align_files",
    "align_units",
    "alignment_text",
    "split_text",
    "write_text",
]
