"""Grouping of candidates: versions of a concept in several languages, and nearly identical documents, are one hit."""

from collections.abc import Sequence

from cr5.index.candidates import Candidate

SAME_COSINE = 0.995  # documents in one language with the same title and at least this cosine are versions of one
MIN_SHOWN_SHARE = 0.8  # a preferred version below this share of the group's best relevance is not shown first


def group_versions(ranked: Sequence[Candidate], preferred: Sequence[str]) -> list[list[Candidate]]:
    """Groups of ranked candidates, ordered by the best of each; in a group, the candidate to show comes first.

    It is the best one in the first of the ``preferred`` languages that has one of nearly the best relevance.
    """
    groups: list[list[Candidate]] = []
    by_concept: dict[str, list[Candidate]] = {}
    by_title: dict[tuple[str, str], list[Candidate]] = {}
    for candidate in ranked:
        group, titled = by_concept.get(candidate.concept), by_title.setdefault((candidate.lang, candidate.title), [])
        if group is None and titled and candidate.title:
            same = (other for other in titled if float(other.vector @ candidate.vector) > SAME_COSINE)
            duplicate = next(same, None)
            group = by_concept[duplicate.concept] if duplicate else None
        if group is None:
            group = []
            groups.append(group)
        by_concept[candidate.concept] = group
        titled.append(candidate)
        group.append(candidate)
    return [_shown_first(group, preferred) for group in groups]


def _shown_first(group: list[Candidate], preferred: Sequence[str]) -> list[Candidate]:
    threshold = MIN_SHOWN_SHARE * group[0].relevance
    for lang in preferred if len(group) > 1 else ():
        for candidate in group:
            if candidate.lang == lang and candidate.relevance >= threshold:
                return [candidate, *(other for other in group if other is not candidate)]
    return group
