"""Near-duplicates: marked as the exact Jaccard similarity says, whatever the batches look like."""

import time
import unicodedata
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from datasketch import MinHash, MinHashLSH
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import up_to

from cr5.corpus.documents import SCHEMA
from cr5.corpus.duplicates import Duplicates, bands
from cr5.corpus.minhash import BINS, SHINGLE
from cr5.errors import Cr5Error

Row = tuple[str, str, str]  # concept, language, text

relaxed = settings(max_examples=up_to(60), deadline=None)
ALPHABETS = {
    "en": "abcdefghijklmnopqrstuvwxyz",
    "ru": "абвгдежзийклмнопрстуфхцчшщъыьэюя",
    "zh": "".join(map(chr, range(0x4E00, 0x5000))),
    "got": "".join(map(chr, range(0x10330, 0x1034B))),  # four bytes each
}


def batch(rows: list[Row]) -> pa.RecordBatch:
    concepts, langs, texts = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    titles = [f"about {concept}" for concept in concepts]
    return pa.record_batch([concepts, langs, texts, titles, [""] * len(rows)], schema=SCHEMA)


def marks(rows: list[Row], threshold: float = 0.8, seed: int = 0) -> list[bool]:
    return [bool(mark) for mark in Duplicates(threshold, seed=seed).mark(batch(rows))]


def twins(*texts: str) -> list[bool]:
    """The marks of texts in one language, each of its own concept."""
    return marks([(f"c{i}", "en", text) for i, text in enumerate(texts)])


def written(rng: np.random.Generator, length: int, alphabet: str = ALPHABETS["en"]) -> str:
    return "".join(rng.choice(list(alphabet), length))


def shingles(text: str) -> set[bytes]:
    """The definition in the module, character by character."""
    plain: list[str] = []
    for sign in text:
        kind = unicodedata.category(sign)[0]
        low = "0" if kind == "N" else sign.lower() if kind in "LM" else " "
        if low not in " 0" or low not in plain[-1:]:
            plain.append(low)
    data = "".join(plain).strip().encode()
    return {data[i : i + SHINGLE] for i in range(len(data) - SHINGLE + 1)}


def jaccard(one: str, other: str) -> float:
    a, b = shingles(one), shingles(other)
    return len(a & b) / len(a | b)


def family(rng: np.random.Generator, similarity: float, length: int, alphabet: str) -> tuple[str, str]:
    """Two texts that share a piece of such a length that their shingle sets have about this similarity."""
    shared = int(length * 2 * similarity / (1 + similarity))
    text = written(rng, shared, alphabet)
    return text + written(rng, length - shared, alphabet), text + written(rng, length - shared, alphabet)


@pytest.mark.parametrize("lang", ALPHABETS)
@pytest.mark.parametrize("threshold", [0.5, 0.8, 0.9])
def test_well_above_the_threshold_is_marked_and_well_below_is_not(lang: str, threshold: float) -> None:
    rng = np.random.default_rng(1)
    for similarity in np.linspace(0.2, 1, 33):
        one, other = family(rng, similarity, 500, ALPHABETS[lang])
        J = jaccard(one, other)
        error = 4 * np.sqrt(threshold * (1 - threshold) / BINS)
        if abs(J - threshold) > error:
            assert marks([("a", lang, one), ("b", lang, other)], threshold) == [False, bool(threshold < J)]


@pytest.mark.slow
@pytest.mark.parametrize("length", [100, 300, 1000])
@pytest.mark.parametrize("similarity", [0.75, 0.8, 0.85])
def test_around_the_threshold_as_many_are_marked_as_the_binomial_distribution_says(
    length: int, similarity: float
) -> None:
    rng = np.random.default_rng(2)
    pairs = [family(rng, similarity, length, ALPHABETS["en"]) for _ in range(300)]
    expected = []
    for one, other in pairs:
        J = jaccard(one, other)
        agreeing = rng.binomial(BINS, J, 400) / BINS
        expected.append((agreeing >= 0.8).mean())
    rows = [(f"{i}{side}", "en", text) for i, pair in enumerate(pairs) for side, text in enumerate(pair)]
    found = np.array(marks(rows))
    assert not found[::2].any()
    assert abs(found[1::2].mean() - np.mean(expected)) < 0.1  # 300 pairs: 3 errors and a half; bands lose one in 100


def test_bands_catch_what_they_promise_and_no_wider_band_would() -> None:
    for threshold in np.linspace(0.1, 1, 91):
        b, r = bands(threshold)
        p = threshold + (1 - threshold) / 256
        assert b * r <= BINS
        assert 1 - (1 - p**r) ** b >= 0.99
        assert 1 - (1 - p**r) ** (b - 1) < 0.99
        assert r == BINS or 1 - (1 - p ** (r + 1)) ** (BINS // (r + 1)) < 0.99
    assert bands(0.8) == (16, 6)


def test_the_marks_are_those_of_datasketch_on_the_same_shingles() -> None:
    rng = np.random.default_rng(3)
    rows: list[Row] = []
    for i in range(60):
        one, other = family(rng, rng.choice([0.3, 0.5, 0.62, 0.93, 0.97]), 400, ALPHABETS["en"])
        rows += [(f"{i}a", "en", one), (f"{i}b", "en", other)]
    rows = [rows[i] for i in rng.permutation(len(rows))]
    index, expected = MinHashLSH(num_perm=BINS, params=bands(0.8)), []
    signatures: dict[str, MinHash] = {}
    for concept, _, text in rows:
        signature = MinHash(BINS)
        signature.update_batch(list(shingles(text)))
        near = [key for key in index.query(signature) if signatures[key].jaccard(signature) >= 0.8]
        expected.append(bool(near))
        if not near:
            index.insert(concept, signature)
            signatures[concept] = signature
    assert marks(rows) == expected
    assert 15 < sum(expected) < 45


@pytest.mark.parametrize("seed", range(3))
def test_distinct_texts_are_not_marked(seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = [
        written(rng, length) for length in rng.integers(2, 9, 300).tolist()
    ]  # few words: phrases are shared by chance
    texts = [" ".join(rng.choice(words, rng.integers(1, 60))) for _ in range(1000)]
    unlike = [(f"c{i}", "en", text) for i, text in enumerate(dict.fromkeys(texts))]
    assert len(unlike) > 900
    assert not any(marks(unlike, seed=seed))


def test_texts_of_the_same_concept_or_another_language_are_never_marked() -> None:
    text = written(np.random.default_rng(4), 300)
    assert not any(marks([("a", "en", text), ("a", "en", text), ("a", "de", text), ("b", "fr", text)]))
    assert marks([("a", "en", text), ("a", "en", text), ("b", "en", text)]) == [False, False, True]
    assert marks([("a", "en", text), ("b", "en", text), ("a", "en", text)]) == [False, True, False]


def test_a_marked_text_is_not_remembered() -> None:
    rng = np.random.default_rng(5)
    text = written(rng, 2000)
    near = text[130:] + written(rng, 130)
    next_to_near = near[230:] + written(rng, 230)
    assert jaccard(text, near) > 0.86
    assert jaccard(text, next_to_near) < 0.71
    assert twins(text, near, next_to_near) == [False, True, False]
    close = near[100:] + written(rng, 100)
    assert jaccard(near, close) > 0.88
    assert twins(near, close, text) == [False, True, True]


def test_case_layout_and_figures_make_no_difference() -> None:
    text = "The 3 Rivers of Ärmelstadt carried 1,200 barges in 1907 – none of them\nreturned before Christmas Eve."
    other = "the 12 rivers of ÄRMELSTADT: carried 7,000 barges, in 1911; none of them returned (before) christmas eve"
    assert shingles(text) == shingles(other)
    assert twins(text, other) == [False, True]


def test_short_texts_are_marked_where_they_are_equal() -> None:
    assert twins("In 1907.", "In 1908.", "in 1907.", "In 1907.") == [False, False, False, True]
    assert twins("", "", "a", "a", "b") == [False, True, False, True, False]
    assert twins("𐌰", "𐌰", "𐌱", "中", "中") == [False, True, False, False, True]
    assert twins("1 2 3 " * 100, "4 5 6 " * 100, "1 2 3 " * 100) == [False, False, True]  # long, but of few shingles


def some_rows(seed: int, count: int) -> list[Row]:
    rng = np.random.default_rng(seed)
    texts = [written(rng, int(rng.integers(0, 200))) for _ in range(count // 2)]
    texts += [texts[i][rng.integers(0, 12) :] for i in rng.integers(0, len(texts), count - len(texts))]
    langs, concepts = rng.choice(["en", "da"], count), rng.integers(0, count // 2, count)
    return [(f"c{concepts[i]}", langs[i], texts[i]) for i in rng.permutation(count)]


@pytest.mark.slow
@relaxed
@given(st.lists(st.integers(0, 700), max_size=12), st.integers(0, 3))
def test_where_batches_end_makes_no_difference(cuts: list[int], seed: int) -> None:
    rows = some_rows(seed, 700)
    whole, parts = Duplicates(), Duplicates()
    at_once = whole.mark(batch(rows))
    ends = sorted({0, *cuts, len(rows)})
    table = batch(rows)
    by_parts = [parts.mark(table.slice(start, end - start)) for start, end in pairwise(ends)]  # with Arrow's offsets
    by_copies = Duplicates()
    copies = [by_copies.mark(batch(rows[start:end])) for start, end in pairwise(ends)]
    np.testing.assert_array_equal(np.concatenate(by_parts), at_once)
    np.testing.assert_array_equal(np.concatenate(copies), at_once)
    assert parts.nbytes == by_copies.nbytes == whole.nbytes
    assert at_once.sum() > 50


def test_tables_grow_and_forget_nothing() -> None:
    rng = np.random.default_rng(7)
    texts = [written(rng, 80) for _ in range(3000)]
    duplicates = Duplicates()
    assert not duplicates.mark(batch([(f"a{i}", "en", text) for i, text in enumerate(texts)])).any()
    assert duplicates.mark(batch([(f"b{i}", "en", text) for i, text in enumerate(texts)])).all()
    assert 264 <= duplicates.nbytes / 3000 <= 528


def test_the_seed_alone_decides_among_equals() -> None:
    rng = np.random.default_rng(8)
    pairs = [family(rng, 0.8, 300, ALPHABETS["en"]) for _ in range(100)]
    rows = [(f"{i}{side}", "en", text) for i, pair in enumerate(pairs) for side, text in enumerate(pair)]
    assert marks(rows, seed=1) == marks(rows, seed=1)
    assert marks(rows, seed=1) != marks(rows, seed=2)


def test_many_texts_of_one_template_take_no_time_and_their_repetitions_are_found() -> None:
    rng = np.random.default_rng(9)
    template = written(rng, 700)
    texts = [template + written(rng, 150) for _ in range(6000)]  # J = 0.7, far too much for pairs
    rows = [(f"a{i}", "en", text) for i, text in enumerate(texts)] + [("b", "en", text) for text in texts[-500:]]
    Duplicates().mark(batch(rows[:1]))  # compiled
    began = time.process_time()
    found = np.array(marks(rows))
    assert time.process_time() - began < 3
    assert found[:6000].mean() < 0.2
    assert found[6000:].mean() > 0.99


@relaxed
@given(st.lists(st.text(max_size=80) | st.binary(max_size=80), min_size=1, max_size=20))
def test_any_text_goes_and_its_equal_is_marked(texts: list[str | bytes]) -> None:
    data = [text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass") for text in texts]
    unchecked = pa.array(data * 2, pa.binary()).view(pa.string())  # also what is not UTF-8
    names = pa.array([str(i) for i in range(len(unchecked))])
    same = pa.array(["en"] * len(unchecked))
    found = Duplicates().mark(pa.record_batch([names, same, unchecked, names, names], schema=SCHEMA))
    assert found[len(texts) :].all()


def test_no_rows_have_no_marks_and_nothing_is_no_duplicate() -> None:
    assert Duplicates().mark(batch([])).shape == (0,)
    assert marks([("", "", "")]) == [False]
    assert Duplicates().mark(batch([("a", "en", "x")]).slice(1)).shape == (0,)


@pytest.mark.parametrize("threshold", [0.0, 1.5, float("nan")])
def test_a_threshold_out_of_range_is_refused(threshold: float) -> None:
    with pytest.raises(Cr5Error) as error:
        Duplicates(threshold)
    assert f"`threshold={threshold}` is not between 0.1 and 1" in str(error.value)
