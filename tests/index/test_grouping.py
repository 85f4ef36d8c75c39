"""Grouping: versions of a concept, and nearly identical documents, are one hit."""

import numpy as np

from cr5.index.candidates import Candidate
from cr5.index.grouping import MIN_SHOWN_SHARE, group_versions

FIRST, SECOND = np.eye(2, dtype=np.float32)


def candidate(name: str, relevance: float, title: str = "", vector: np.ndarray = FIRST) -> Candidate:
    lang, concept = name.split(":")
    return Candidate(name, lang, vector, relevance, concept=concept, title=title)


def names(groups: list[list[Candidate]]) -> list[list[str]]:
    return [[member.id for member in group] for group in groups]


def test_each_concept_is_one_group_at_the_place_of_its_best_document() -> None:
    ranked = [candidate("aa:P", 0.9), candidate("bb:Q", 0.8), candidate("bb:P", 0.7), candidate("aa:Q", 0.6)]
    assert names(group_versions(ranked, [])) == [["aa:P", "bb:P"], ["bb:Q", "aa:Q"]]
    assert group_versions([], ["aa"]) == []


def test_the_first_preferred_language_is_shown_if_its_document_is_about_as_relevant() -> None:
    ranked = [candidate("aa:P", 1.0), candidate("bb:P", MIN_SHOWN_SHARE), candidate("cc:P", MIN_SHOWN_SHARE - 0.01)]
    assert names(group_versions(ranked, ["bb", "aa"])) == [["bb:P", "aa:P", "cc:P"]]
    assert names(group_versions(ranked, ["cc", "bb"])) == [["bb:P", "aa:P", "cc:P"]]
    assert names(group_versions(ranked, ["cc"])) == [["aa:P", "bb:P", "cc:P"]]


def test_documents_of_one_language_with_the_same_title_and_vector_are_one_group() -> None:
    near = np.array([1, 0.01], np.float32)
    ranked = [candidate("aa:P", 0.9, "t"), candidate("aa:Q", 0.8, "t", near), candidate("bb:Q", 0.7, "u", SECOND)]
    assert names(group_versions(ranked, [])) == [["aa:P", "aa:Q", "bb:Q"]]
    for other in (
        candidate("aa:Q", 0.8, "t", SECOND),
        candidate("aa:Q", 0.8, "another", near),
        candidate("bb:Q", 0.8, "t", near),
    ):
        assert names(group_versions([ranked[0], other], [])) == [["aa:P"], [other.id]]
    untitled = [candidate("aa:P", 0.9), candidate("aa:Q", 0.8)]
    assert names(group_versions(untitled, [])) == [["aa:P"], ["aa:Q"]]
