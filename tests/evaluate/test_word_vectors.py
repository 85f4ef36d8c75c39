"""Word vectors: alignments with a known solution, languages that are copies of each other, dictionary files."""

import json
import sys
from pathlib import Path
from typing import Any

import madeup
import numpy as np
import pytest
from ranks import counterpart_ranks

from cr5._typing import Array, Ints
from cr5.errors import CorpusError, Cr5Error
from cr5.evaluate.dictionaries import read_dictionary
from cr5.evaluate.systems import word_vectors as module
from cr5.evaluate.systems.fitted_system import FittedSystem, NotApplicableError
from cr5.evaluate.systems.procrustes import mutual_neighbours, procrustes, refine
from cr5.evaluate.systems.word_vectors import (
    MonolingualVectors,
    SkipGram,
    TokenLists,
    WordVectorSystem,
    centred_unit_rows,
    word_vectors,
)
from cr5.evaluate.texts import TokenisedTexts, mask_shared_words
from cr5.features.tokeniser import Tokeniser, Tokens
from cr5.retrieval.block_products import WeightedView
from cr5.retrieval.top_k import search_views

QUICK = SkipGram(sample=1e-2, rate=0.05, max_epochs=12)
RANK = 30
GROUPS = 60  # of words that are said together
TRAINING, HELD_OUT = 300, 100  # documents a language


def unit(n: int, size: int, seed: int = 0) -> Array:
    X = np.random.default_rng(seed).standard_normal((n, size))
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def rotation(size: int, seed: int = 1) -> Array:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))[0]


def texts(lang: str, strings: list[str]) -> TokenisedTexts:
    return TokenisedTexts(Tokeniser()(strings, lang), np.arange(len(strings)), strings)


def speak(lang: str, concepts: Ints, names: bool = True) -> TokenisedTexts:
    """Texts that are not translations: a concept is three groups of four words, which occur in nine runs of eight.

    The running text shows which words and which groups belong together. With ``names`` every eighth word is the same
    string in all languages.
    """
    pytest.importorskip("gensim")  # these texts are there to be trained on
    strings = []
    for concept in concepts.tolist():
        groups = np.random.default_rng(concept).choice(GROUPS, 3, replace=False)
        random = np.random.default_rng([concept, *lang.encode()])
        meanings = [4 * group + random.integers(4, size=8) for group in random.permutation(np.repeat(groups, 3))]
        words = [
            f"name{m}" if names and m % 8 == 0 else madeup.word(lang, m) for m in np.concatenate(meanings).tolist()
        ]
        strings.append(" ".join(words))
    return TokenisedTexts(Tokeniser()(strings, lang), concepts, strings)


def corpus(names: bool) -> dict[str, TokenisedTexts]:
    return {lang: speak(lang, np.arange(TRAINING), names) for lang in ("aa", "bb")}


def precision(fitted: FittedSystem) -> float:
    """P@1 from aa to bb, in percent, of held-out documents that share no string."""
    held = mask_shared_words({lang: speak(lang, TRAINING + np.arange(HELD_OUT)) for lang in ("aa", "bb")})
    A, B = (fitted.embed(texts, lang) for lang, texts in held.items())
    ranks = counterpart_ranks(A, held["aa"].concepts, B, held["bb"].concepts, measure="csls")
    return 100 * float((ranks == 1).mean())


@pytest.fixture(scope="module")
def fitted() -> WordVectorSystem:
    """Learned from texts that share names and nothing else."""
    training = corpus(names=True)
    found = word_vectors(MonolingualVectors(training, QUICK))(training, rank=RANK, seed=0)
    assert isinstance(found, WordVectorSystem)
    return found


def pairs(random: np.random.Generator | None = None) -> list[tuple[str, str]]:
    """A dictionary of all words; with ``random`` a wrong one."""
    meanings = np.arange(4 * GROUPS)
    others = meanings if random is None else random.permutation(meanings)
    return [
        (madeup.word("aa", a), madeup.word("bb", b)) for a, b in zip(meanings.tolist(), others.tolist(), strict=True)
    ]


# Alignment


def test_procrustes_finds_the_rotation_between_two_copies() -> None:
    X, Q = unit(50, 12), rotation(12)
    np.testing.assert_allclose(procrustes(X, X @ Q), Q, atol=1e-12)


def test_procrustes_is_orthogonal_and_no_other_rotation_comes_nearer() -> None:
    X, Y = unit(40, 6), unit(40, 6, seed=1)
    W = procrustes(X, Y)
    np.testing.assert_allclose(W @ W.T, np.eye(6), atol=1e-12)
    least = np.linalg.norm(X @ W - Y)
    assert all(np.linalg.norm(X @ rotation(6, seed) - Y) > least for seed in range(200))
    # At the optimum, and only there, W'X'Y is symmetric and positive.
    M = W.T @ X.T @ Y
    np.testing.assert_allclose(M, M.T, atol=1e-12)
    assert np.linalg.eigvalsh(M).min() > 0


def test_mutual_neighbours_are_those_of_the_formula() -> None:
    X, Y = unit(60, 5).astype(np.float32), unit(50, 5, seed=1).astype(np.float32)
    C = X @ Y.T
    rx, ry = (np.sort(M, axis=1)[:, -10:].mean(axis=1) for M in (C, C.T))
    S = 2 * C - rx[:, None] - ry
    pairs = [(i, j) for i, j in enumerate(S.argmax(axis=1).tolist()) if S[:, j].argmax() == i]
    rows, others, csls = mutual_neighbours(X, Y)
    assert list(zip(rows.tolist(), others.tolist(), strict=True)) == pairs
    assert csls == pytest.approx(np.mean([S[pair] for pair in pairs]), abs=1e-6)


def copies(noise: float) -> tuple[Array, Array]:
    """Unit vectors, and the same turned and blurred: noise is its length beside that of a vector."""
    X = unit(600, 20).astype(np.float32)
    Y = X @ rotation(20) + noise * unit(600, 20, seed=2)
    return X, (Y / np.linalg.norm(Y, axis=1, keepdims=True)).astype(np.float32)


def translated(X: Array, Y: Array, W: Array) -> float:
    found = search_views([WeightedView(X @ W.astype(np.float32), Y)], 1, measure="csls").indices[:, 0]
    return 100 * float((found == np.arange(len(X))).mean())


def test_refinement_makes_few_seeds_as_good_as_all_words() -> None:
    X, Y = copies(noise=0.5)
    W = procrustes(X[:20], Y[:20])
    alignment = refine(X, Y, W)
    assert translated(X, Y, W) < 80
    assert translated(X, Y, alignment.W) > 95
    assert 0 < alignment.rounds <= 5
    np.testing.assert_allclose(alignment.W @ alignment.W.T, np.eye(20), atol=1e-10)


def test_refinement_returns_the_best_of_its_rounds() -> None:
    X, Y = copies(noise=0.5)
    W = procrustes(X[:20], Y[:20])
    found = [refine(X, Y, W, rounds) for rounds in range(6)]
    assert found[0].W is W
    assert [alignment.csls for alignment in found] == sorted(alignment.csls for alignment in found)
    for alignment in found:
        assert mutual_neighbours(X @ alignment.W.astype(np.float32), Y)[2] == alignment.csls


def test_normalised_vectors_have_length_1_and_nothing_in_common() -> None:
    X = centred_unit_rows(unit(500, 8) * np.arange(1, 501)[:, None] + 3)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1)
    assert np.linalg.norm(X.mean(axis=0)) < 0.1


# The system


@pytest.mark.slow
def test_held_out_documents_are_found_by_the_names_in_the_training_texts(fitted: WordVectorSystem) -> None:
    assert precision(fitted) > 80


@pytest.mark.slow
def test_held_out_documents_are_found_by_a_dictionary_and_at_chance_by_a_shuffled_one() -> None:
    training = corpus(names=False)
    vectors = MonolingualVectors(training, QUICK)
    right, wrong = (
        word_vectors(vectors, {("aa", "bb"): dictionary})(training, rank=RANK, seed=0)
        for dictionary in (pairs(), pairs(np.random.default_rng(0)))
    )
    assert precision(right) > 80
    assert precision(wrong) <= 10  # chance is 1; 50 wrong dictionaries scored 0 to 6
    assert right.report["kind"] == {"bb": "dictionary"}
    assert right.report["seeds"] == {"bb": 4 * GROUPS}


@pytest.mark.slow
def test_the_report_has_plain_values_about_the_alignment(fitted: WordVectorSystem) -> None:
    report = json.loads(json.dumps(fitted.report))
    assert report["pivot"] == "aa"
    assert report["words"] == {"aa": 4 * GROUPS, "bb": 4 * GROUPS}
    assert (report["kind"], report["seeds"]) == ({"bb": "identical strings"}, {"bb": GROUPS // 2})
    assert 0 <= report["rounds"]["bb"] <= 5
    assert report["epochs"] == {"aa": 12, "bb": 12}
    assert report["settings"]["dimensions"] == RANK
    assert report["seconds"] > 0


@pytest.mark.slow
def test_words_come_with_unit_vectors_most_frequent_first(fitted: WordVectorSystem) -> None:
    words, vectors = fitted.words("bb"), fitted.word_vectors("bb")
    counts = speak("bb", np.arange(TRAINING)).counts
    total = dict(zip(counts.words, counts.matrix.sum(axis=0).tolist(), strict=True))
    assert [total[word] for word in words] == sorted(total.values(), reverse=True)
    assert vectors.shape == (len(words), RANK)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)


@pytest.mark.slow
def test_a_document_is_the_idf_weighted_mean_of_its_words(fitted: WordVectorSystem) -> None:
    a, b = madeup.word("aa", 1), madeup.word("aa", 2)
    counts = speak("aa", np.arange(TRAINING)).counts
    documents = (counts.matrix > 0).sum(axis=0)
    idf = {word: np.log(TRAINING / documents[counts.words.index(word)]) for word in (a, b)}
    vector = {word: fitted.word_vectors("aa")[fitted.words("aa").index(word)] for word in (a, b)}
    mean = 2 * idf[a] * vector[a] + idf[b] * vector[b]
    found = fitted.embed(texts("aa", [f"{a} unheard {b} {a}"]), "aa")
    np.testing.assert_allclose(found, [mean / np.linalg.norm(mean)], atol=1e-6)


@pytest.mark.slow
def test_a_text_without_a_known_word_is_zero(fitted: WordVectorSystem) -> None:
    found = fitted.embed(texts("aa", ["never heard of", "", madeup.word("aa", 1)]), "aa")
    assert not found[:2].any()
    assert np.linalg.norm(found[2]) == pytest.approx(1, abs=1e-6)
    assert fitted.embed(texts("aa", []), "aa").shape == (0, RANK)


@pytest.mark.slow
def test_a_seed_gives_the_same_vectors_again() -> None:
    training = {name: speak(lang, np.arange(60)) for name, lang in {"dd": "aa", "en": "bb", "it": "cc"}.items()}
    once, again, other = (
        word_vectors(MonolingualVectors(training, SkipGram(max_epochs=5)))(training, rank=8, seed=seed)
        for seed in (3, 3, 4)
    )
    for lang, held in training.items():
        np.testing.assert_array_equal(once.embed(held, lang), again.embed(held, lang))
        assert np.abs(np.asarray(once.embed(held, lang)) - other.embed(held, lang)).max() > 0.01
    assert once.report["pivot"] == "en"
    assert once.report["kind"] == {"dd": "identical strings", "it": "identical strings"}


def test_monolingual_vectors_are_learned_once_for_all_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    training = corpus(names=True)
    learned: list[str] = []
    learner = module._learner

    def counted(*given: Any) -> Any:
        learn = learner(*given)

        def one(lang: str, own: TokenisedTexts) -> Any:
            learned.append(lang)
            return learn(lang, own)

        return one

    monkeypatch.setattr(module, "_learner", counted)
    quick = SkipGram(max_epochs=1, min_epochs=1)
    once = MonolingualVectors(training, quick)
    few = {lang: own.select_rows(np.arange(50)) for lang, own in training.items()}
    fitted_systems = [word_vectors(once)(given, rank=5, seed=0) for given in (training, few)]
    assert sorted(learned) == ["aa", "bb"]
    separately = word_vectors(MonolingualVectors(training, quick))(training, rank=5, seed=0)
    for lang, own in training.items():
        for fitted in fitted_systems:
            np.testing.assert_array_equal(fitted.embed(own, lang), separately.embed(own, lang))


def test_long_documents_are_split_where_gensim_would_stop_reading() -> None:
    tokens = Tokens(["a", "b"], np.arange(25_000) % 2, np.array([0, 3, 3, 25_000]))
    sentences = list(TokenLists(tokens))
    assert [len(sentence) for sentence in sentences] == [3, 10_000, 10_000, 4_997]
    assert [word for sentence in sentences for word in sentence] == ["a", "b"] * 12_500


# Errors


def refusal(training: dict[str, TokenisedTexts], **dictionary: list[tuple[str, str]]) -> str:
    dictionaries = {("aa", lang): known for lang, known in dictionary.items()}
    system = word_vectors(MonolingualVectors(training, SkipGram(max_epochs=5)), dictionaries or None)
    with pytest.raises(NotApplicableError) as caught:
        system(training, rank=4, seed=0)
    return str(caught.value)


def test_languages_that_share_no_string_cannot_be_aligned() -> None:
    message = refusal({lang: speak(lang, np.arange(30), names=False) for lang in ("aa", "bb")})
    assert message.startswith("too few strings that both languages have")
    assert "bb and aa: 0 of at least 20" in message


def test_a_dictionary_of_other_languages_is_not_replaced_by_identical_strings() -> None:
    training = {lang: speak(lang, np.arange(30)) for lang in ("aa", "bb")}
    assert refusal(training, cc=pairs()).startswith("there is no dictionary of bb and aa")


def test_a_dictionary_of_other_words_does_not_help() -> None:
    known = (madeup.word("aa", 1), madeup.word("bb", 1))
    training = {lang: speak(lang, np.arange(30)) for lang in ("aa", "bb")}
    message = refusal(training, bb=[known, *[(f"a{i}", f"b{i}") for i in range(50)]])
    assert message.startswith("too few dictionary entries")
    assert "bb and aa: 1 of at least 20" in message


def test_a_language_of_rare_words_has_no_vectors() -> None:
    assert refusal({"aa": speak("aa", np.arange(30)), "bb": texts("bb", ["one two", "three", "two"])}) == (
        "no word of language bb occurs 3 times in the training texts, too few for word vectors; add documents"
    )
    assert refusal({"aa": texts("aa", [])}) == (
        "no word of language aa occurs 3 times in the training texts, too few for word vectors; add documents"
    )


@pytest.mark.slow
def test_a_language_that_was_not_trained_has_no_vectors(fitted: WordVectorSystem) -> None:
    with pytest.raises(NotApplicableError, match="language cc; the languages are aa, bb"):
        fitted.embed(texts("cc", [""]), "cc")


def test_without_gensim_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gensim", None)
    monkeypatch.delitem(sys.modules, "gensim.models", raising=False)
    training = {"aa": texts("aa", ["a"])}
    with pytest.raises(Cr5Error) as caught:
        word_vectors(MonolingualVectors(training))(training, rank=2, seed=0)
    assert str(caught.value) == "a system of word vectors needs gensim; install it with pip install 'cr5[eval]'"


# Dictionaries


def test_words_of_a_dictionary_are_normalised_as_by_the_tokeniser(tmp_path: Path) -> None:
    path = tmp_path / "en-it.tsv"
    path.write_bytes("\ufeffThe\til\r\nthe\tLA\n\n \t\nHouse   casa\nﬁre\tfuo\u00adco\nice cream\tgelato".encode())
    assert read_dictionary(path) == [
        ("the", "il"), ("the", "la"), ("house", "casa"), ("fire", "fuoco"), ("ice cream", "gelato"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"the\til\nhouse\n", ", line 2: 1 word instead of 2; write a word, a tab and its translation"),
        (b"\nthe il la\n", ", line 2: 3 words instead of 2; write a word, a tab and its translation"),
        (b"the\til\tla\n", ", line 1: 3 words instead of 2; write a word, a tab and its translation"),
        (b"\til\n", ", line 1: 1 word instead of 2; write a word, a tab and its translation"),
        (b"a\t\tb\n", ", line 1: 3 columns instead of 2; write a word, a tab and its translation"),
        (
            b"city\tcitt\xe0\n",
            ", line 1: byte 0xe0 at position 10 is not UTF-8; "
            "convert the file, e.g. with iconv -f windows-1252 -t utf-8",
        ),
        (b"\n \n", ": no word pairs in this file; write a word, a tab and its translation on each line"),
    ],
)
def test_a_malformed_dictionary_is_refused_with_advice(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "en-it.tsv"
    path.write_bytes(content)
    with pytest.raises(CorpusError) as caught:
        read_dictionary(path)
    assert str(caught.value) == f"{path}{message}"


def test_a_missing_dictionary_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError) as caught:
        read_dictionary(tmp_path / "none.tsv")
    assert str(caught.value) == (
        f"{tmp_path / 'none.tsv'}: cannot be read, no such file or directory; check its name and permissions"
    )
