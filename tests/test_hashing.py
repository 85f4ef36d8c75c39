"""Hashes of texts, and finding them."""

import numpy as np

from cr5.hashing import find_hashes, hash_texts


def test_hashes_are_found_by_their_positions_and_nothing_is_found_in_an_empty_array() -> None:
    known = np.sort(hash_texts(["dog", "cat", "fox"]))
    found = find_hashes(known, hash_texts(["cat", "cow", "dog", "fox"]))
    np.testing.assert_array_equal(known[found[[0, 2, 3]]], hash_texts(["cat", "dog", "fox"]))
    assert found[1] == -1
    assert find_hashes(known[:0], hash_texts(["cat", "cow"])).tolist() == [-1, -1]
    assert find_hashes(known, known[:0]).tolist() == []
