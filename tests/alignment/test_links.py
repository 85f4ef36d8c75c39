"""Links between units: the dynamic programme against an exhaustive search, gaps, merges, any order, long texts."""

from collections.abc import Iterator
from functools import cache
from itertools import pairwise, product

import madeup
import numpy as np
import pytest

from cr5 import Cr5
from cr5.alignment.links import MOVES, Link, Move, _best_path, _longest_chain, align_units
from cr5.errors import Cr5Error


def pairs(links: list[Link]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [link.sides for link in links if link.a and link.b]


# The dynamic programme


def all_alignments(n: int, m: int, moves: tuple[Move, ...]) -> Iterator[list[tuple[Move, int, int]]]:
    """Every way to align n units with m, as links with their places."""
    if n == m == 0:
        yield []
    for p, q in (*moves, (1, 0), (0, 1)):
        if p <= n and q <= m:
            for before in all_alignments(n - p, m - q, moves):
                yield [*before, ((p, q), n - p, m - q)]


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (1, 4), (3, 0), (0, 2)])
def test_no_alignment_has_a_larger_sum_of_values_than_the_one_found(shape: tuple[int, int]) -> None:
    n, m = shape
    random = np.random.default_rng(n + 10 * m)
    values = {(p, q): random.normal(size=(max(n - p + 1, 0), max(m - q + 1, 0))).astype(np.float32) for p, q in MOVES}
    found = _best_path(values, values, MOVES, (range(n), range(m)))
    total = sum(values[len(link.a), len(link.b)][link.a[0], link.b[0]] for link in found if link.a and link.b)
    best = max(sum(values[move][i, j] for move, i, j in each if 0 not in move) for each in all_alignments(n, m, MOVES))
    assert total == pytest.approx(best, abs=1e-5)
    for side, size in enumerate(shape):  # every unit once, in order
        assert [unit for link in found for unit in link.sides[side]] == list(range(size))


def test_the_longest_chain_is_as_long_as_that_of_an_exhaustive_search() -> None:
    random = np.random.default_rng(3)
    for _ in range(20):
        pairs = list(enumerate(random.permutation(8).tolist()))

        @cache
        def longest(k: int, pairs: tuple[tuple[int, int], ...] = tuple(pairs)) -> int:
            return 1 + max((longest(i) for i in range(k) if pairs[i][1] < pairs[k][1]), default=0)

        chain = _longest_chain(pairs)
        assert len(chain) == max(map(longest, range(8)))
        assert set(chain) <= set(pairs)
        assert all(a < c and b < d for (a, b), (c, d) in pairwise(chain))


# Made-up languages


def test_units_in_order_are_linked_with_their_translations(model: Cr5) -> None:
    said = madeup.sentence_meanings(12)
    links = align_units(model, madeup.sentences("aa", said), "aa", madeup.sentences("bb", said), "bb")
    assert pairs(links) == [((i,), (i,)) for i in range(12)]
    assert all(link.score > 0.2 for link in links)


def test_missing_units_have_no_counterpart_and_joined_ones_are_linked_with_both(model: Cr5) -> None:
    said = madeup.sentence_meanings(12)
    a = madeup.sentences("aa", [*said[:3], *said[4:]])  # without unit 3
    b = madeup.sentences("bb", [*said[:6], said[6] + said[7], *said[8:]])  # units 6 and 7 are one
    links = align_units(model, a, "aa", b, "bb")
    assert ((5, 6), (6,)) in pairs(links)
    assert [link.b for link in links if not link.a] == [(3,)]
    assert [link.a for link in links if not link.b] == []
    assert [unit for link in links for unit in link.b] == list(range(len(b)))


def test_a_link_is_as_similar_as_its_joined_texts(model: Cr5) -> None:
    said = madeup.sentence_meanings(6)
    a, b = madeup.sentences("aa", said), madeup.sentences("bb", [said[0] + said[1], *said[2:]])
    for link in align_units(model, a, "aa", b, "bb"):
        joined = " ".join(a[i] for i in link.a), " ".join(b[j] for j in link.b)
        assert link.score == pytest.approx(model.similarity(joined[0], "aa", joined[1], "bb"), abs=1e-4)


def test_a_long_text_that_is_cut_into_parts_has_the_same_links(model: Cr5) -> None:
    said = madeup.sentence_meanings(60)
    a, b = madeup.sentences("aa", [*said[:20], *said[21:]]), madeup.sentences("bb", [*said[:40], *said[42:]])
    whole = align_units(model, a, "aa", b, "bb")
    cut = align_units(model, a, "aa", b, "bb", max_cells=200)
    assert [link.sides for link in cut] == [link.sides for link in whole]
    assert len(pairs(whole)) == 57


def test_units_in_another_order_are_linked_only_if_the_order_is_free(model: Cr5) -> None:
    said = madeup.sentence_meanings(10)
    order = [7, 8, 9, 0, 1, 2, 3, 4, 5, 6]
    a, b = madeup.sentences("aa", said), madeup.sentences("bb", [said[i] for i in order])
    assert pairs(align_units(model, a, "aa", b, "bb", free=True)) == [((i,), (order.index(i),)) for i in range(10)]
    assert len(pairs(align_units(model, a, "aa", b, "bb"))) < 10


def test_a_free_alignment_joins_units_and_leaves_out_foreign_ones(model: Cr5) -> None:
    said = madeup.sentence_meanings(9)
    a = madeup.sentences("aa", [*said[1:], said[0]])
    b = madeup.sentences("bb", [said[8], said[4] + said[5], *said[:4], said[6]])  # without unit 7
    found = align_units(model, a, "aa", b, "bb", free=True)
    assert ((3, 4), (1,)) in pairs(found)
    assert [link.a for link in found if not link.b] == [(6,)]
    assert sorted(unit for link in found for unit in link.a) == list(range(len(a)))


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(("n", "m"), list(product((0, 1), repeat=2)))
def test_texts_of_no_or_one_unit_can_be_aligned(model: Cr5, free: bool, n: int, m: int) -> None:
    said = madeup.sentence_meanings(1)
    links = align_units(
        model, madeup.sentences("aa", said)[:n], "aa", madeup.sentences("bb", said)[:m], "bb", free=free
    )
    assert [link.sides for link in links] == ([((0,), (0,))] if n and m else [((0,) * n, (0,) * m)] if n or m else [])


def test_a_free_alignment_of_very_long_texts_names_the_way_out(model: Cr5) -> None:
    with pytest.raises(Cr5Error, match="`free=True`"):
        align_units(model, ["x"] * 10_000, "aa", ["y"] * 10_000, "bb", free=True)
