"""The authors' published data: what is written in their form is read back, and errors name file, line and value."""

import gzip
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import madeup
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from miniature import write_miniature
from properties import up_to

from cr5.corpus.documents import Document
from cr5.corpus.inputs import in_batches
from cr5.corpus.skipped import Skipped
from cr5.errors import CorpusError
from cr5.evaluate.paper_data.indices import MISSING_WORD
from cr5.evaluate.paper_data.reader import CountedTexts, languages, read
from cr5.evaluate.paper_data.table1 import COLUMNS, PUBLISHED, RIDGE
from cr5.evaluate.texts import TokenisedTexts, mask_shared_words, read_texts
from cr5.features.tokeniser import Tokeniser
from cr5.progress import Progress

PAPER = Path(__file__).resolve().parents[3] / "shared" / "paper.tex"
WORDS = "d/word_indices/word_index_en.tsv"
CONCEPTS = "d/concept_indices/concept_index_en.tsv"
MATRIX = "d/sparse_matrices/sparse_matrix_en.txt.gz"
SKIP = '`on_error="skip"`'

WordCounts = dict[str, dict[str, int]]

some_texts = st.text(st.sampled_from("ab 0Ā'\"-\tßé语"), max_size=12)
some_documents = st.lists(
    st.builds(Document, st.from_regex("Q[0-9]{1,2}", fullmatch=True), st.sampled_from(["en", "it"]), some_texts),
    min_size=1,
    max_size=12,
    unique_by=lambda d: (d.concept, d.lang),
)


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs in a folder of its own, so that messages quote short paths."""
    monkeypatch.chdir(tmp_path)


def write_files(
    words: str | bytes = "1\t9\tthe\n2\t5\tbeer\n3\t1\tbread\n",
    concepts: str | bytes = "Q1\tBeer\nQ2\tBread\n",
    matrix: str | bytes = "Q1 1 5\nQ1 2 3\nQ2 1 4\nQ2 3 1\n",
) -> None:
    """Write the files of English; a matrix of bytes is not compressed."""
    for name, content in {WORDS: words, CONCEPTS: concepts, MATRIX: matrix}.items():
        data = content.encode() if isinstance(content, str) else content
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(gzip.compress(data) if name == MATRIX and isinstance(content, str) else data)


def word_counts(concepts: list[str], texts: TokenisedTexts) -> WordCounts:
    """The count of every word of every concept."""
    rows = texts.counts.matrix
    return {
        concepts[c]: {
            texts.counts.words[rows.indices[j]]: int(rows.data[j]) for j in range(rows.indptr[i], rows.indptr[i + 1])
        }
        for i, c in enumerate(texts.concepts)
    }


def read_english(skipped: Skipped | None = None, lowercase: bool = True) -> WordCounts:
    concepts, texts = read(
        "d", lowercase=lowercase, on_error="skip" if skipped is not None else "raise", skipped=skipped
    )
    return word_counts(concepts, texts["en"])


def error_of(*args: Any, **options: Any) -> str:
    """The message of the error that reading raises."""
    with pytest.raises(CorpusError) as caught:
        read(*(args or ("d",)), **options)
    return str(caught.value)


def check_both(reason: str, place: str, facts: Sequence[str], left: WordCounts) -> None:
    """A defect raises an error that begins with its place and states the facts, or is skipped and leaves ``left``."""
    message = error_of()
    assert message.startswith(f"{place}: ")
    for fact in (*facts, SKIP):
        assert fact in message
    skipped = Skipped()
    assert read_english(skipped) == left
    assert skipped.counts == {reason: 1}
    assert skipped.examples == {reason: message}


EXPECTED: WordCounts = {"Q1": {"the": 5, "beer": 3}, "Q2": {"the": 4, "bread": 1}}


# What is written is read back


def test_the_made_up_corpus_is_read_back_as_it_was_written() -> None:
    documents = madeup.corpus(concepts=40)
    assert write_miniature("d", documents, Tokeniser()) == len(documents)
    assert languages("d") == list(madeup.LANGS)
    corpus = read_texts(in_batches(documents), Tokeniser())
    concepts, texts = read("d", madeup.LANGS)
    assert concepts == corpus.concepts
    for lang in madeup.LANGS:
        assert word_counts(concepts, texts[lang]) == word_counts(concepts, corpus.languages[lang])
        titles = {concepts[c]: title for c, title in zip(texts[lang].concepts, texts[lang].titles, strict=True)}
        assert titles == {d.concept: d.title for d in documents if d.lang == lang}


@pytest.mark.slow
@given(some_documents)
@settings(max_examples=up_to(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_documents_are_read_back_with_the_same_counts(
    tmp_path_factory: pytest.TempPathFactory, documents: list[Document]
) -> None:
    folder = tmp_path_factory.mktemp("miniature")
    tokeniser = Tokeniser(pretokenised=True)
    filled = [d for d in documents if d.text.split()]
    assert write_miniature(folder, documents, tokeniser) == len(filled)
    langs = sorted({d.lang for d in filled})
    concepts, texts = read(folder, langs, lowercase=False)
    assert concepts == sorted({d.concept for d in filled})
    for lang in langs:
        split = {d.concept: d.text.split() for d in filled if d.lang == lang}
        expected = {concept: {word: words.count(word) for word in words} for concept, words in split.items()}
        assert word_counts(concepts, texts[lang]) == expected


def test_the_order_of_the_lines_and_the_size_of_the_blocks_do_not_matter() -> None:
    documents = madeup.corpus(["aa"], concepts=30)
    write_miniature("d", documents, Tokeniser())
    concepts, texts = read("d")
    path = Path("d/sparse_matrices/sparse_matrix_aa.txt.gz")
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join(np.random.default_rng(0).permutation(lines).tolist())))
    again, shuffled = read("d", block_bytes=300)
    assert again == concepts
    assert word_counts(concepts, shuffled["aa"]) == word_counts(concepts, texts["aa"])
    assert (shuffled["aa"].frequent == texts["aa"].frequent).all()


def test_counted_texts_behave_like_texts() -> None:
    write_miniature("d", madeup.corpus(concepts=20), Tokeniser())
    concepts, texts = read("d")
    counted = texts["aa"]
    tokenised = TokenisedTexts(counted.tokens, counted.concepts, counted.titles)
    assert len(counted) == len(tokenised) == 20
    assert (tokenised.counts.matrix != counted.counts.matrix).nnz == 0
    chosen = np.array([7, 3, 3])
    assert word_counts(concepts, counted.select_rows(chosen)) == word_counts(concepts, tokenised.select_rows(chosen))
    assert counted.select_rows(chosen).titles == [counted.titles[i] for i in chosen]
    masked = mask_shared_words({"one": counted, "two": counted})
    assert masked["one"].counts.matrix.nnz == 0


def test_frequent_words_are_counted_before_they_are_lowercased() -> None:
    write_files("1\t9\tthe\n2\t5\tThe\n3\t1\tbread\n4\t1\trare\n", matrix="Q1 1 5\nQ2 1 1\nQ1 2 3\nQ1 4 1\n")
    concepts, texts = read("d", frequent_words=3)
    assert isinstance(texts["en"], CountedTexts)
    assert word_counts(concepts, texts["en"]) == {"Q1": {"the": 8, "rare": 1}, "Q2": {"the": 1}}
    assert texts["en"].frequent.tolist() == [2, 1]
    assert texts["en"].counts.unique_words.tolist() == [2, 1]
    assert read_english(lowercase=False)["Q1"] == {"the": 5, "The": 3, "rare": 1}


def test_progress_runs_to_the_size_of_all_matrices() -> None:
    write_miniature("d", madeup.corpus(concepts=5), Tokeniser())
    reports: list[Progress] = []
    read("d", progress=reports.append)
    assert [report.note for report in reports] == list(madeup.LANGS)
    assert reports[-1].done == reports[-1].total == sum(p.stat().st_size for p in Path("d/sparse_matrices").iterdir())


# Files


def test_the_folder_of_the_authors_scripts_is_found() -> None:
    write_files()
    Path("data").mkdir()
    Path("d").rename("data/matlab_input")
    assert languages("data") == languages(".") == ["en"]


def test_uncompressed_files_are_read_under_either_name() -> None:
    write_files(matrix=b"Q1 1 5\nQ1 2 3\nQ2 1 4\nQ2 3 1\n")  # a browser has unpacked it
    assert read_english() == EXPECTED
    Path(MATRIX).rename(MATRIX.removesuffix(".gz"))
    assert languages("d") == ["en"]
    assert read_english() == EXPECTED


def test_missing_folders_and_files_are_reported() -> None:
    with pytest.raises(CorpusError, match=r"^d: no such folder"):
        languages("d")
    Path("d").mkdir()
    with pytest.raises(CorpusError, match=r"^d: there is no folder sparse_matrices"):
        languages("d")
    Path("d/sparse_matrices").mkdir()
    with pytest.raises(CorpusError, match=r"^d/sparse_matrices: there is no sparse_matrix_XX.* record 3359814"):
        languages("d")
    write_files()
    Path(CONCEPTS).unlink()
    with pytest.raises(CorpusError, match=f"^{CONCEPTS}: no such file; .*leave language en out"):
        languages("d")
    assert error_of("d", ["it"]).startswith("d/word_indices/word_index_it.tsv: no such file")


# Matrices


@pytest.mark.parametrize(
    "matrix",
    [
        "Q1 1 5\r\nQ1 2 3\r\nQ2 1 4\r\nQ2 3 1\r\n",
        "\n  \nQ1 1 5\n\nQ1 2 3\nQ2 1 4\n\t\nQ2 3 1",
        "concept word_id count\nQ1 1 5\nQ1 2 3\nQ2 1 4\nQ2 3 1\n",
        "Q1\t1\t5\n Q1  2 3 \nQ2 1 \t 4 \r\nQ2 3 1\n",
        "Q1 1 5.0\nQ1 2 3.0\nQ2 1.0 4\nQ2 3 1e+00\n",
        "Q1 1 +5\nQ1 2 3.\nQ2 1 4\nQ2 3 1\n",
        "Q1 1 5\nQ1 2 3\nQ2 1 4\nQ2 3 1\nQ9 999 0\n",
        "Q2 3 1\nQ1 1 2\nQ2 1 4\nQ1 2 3\nQ1 1 3\n",
        "\ufeffQ1 1 5\nQ1 2 3\nQ2 1 4\nQ2 3 1\n",
    ],
    ids=["crlf", "blank", "header", "spaces", "floats", "signs", "zero", "scattered", "mark"],
)
def test_harmless_variants_of_a_matrix_are_read_alike(matrix: str) -> None:
    write_files(matrix=matrix)
    assert read_english() == EXPECTED


def test_a_gzip_file_may_have_several_members() -> None:
    write_files(matrix=gzip.compress(b"Q1 1 5\nQ1 2") + gzip.compress(b" 3\nQ2 1 4\nQ2 3 1\n"))
    assert read_english() == EXPECTED


@pytest.mark.parametrize(
    ("line", "reason", "facts"),
    [
        ("Q1 2", "broken line", ["2 fields"]),
        ("Q1", "broken line", ["1 field"]),
        ("Q1 2 3 4", "broken line", ["4 fields"]),
        ("Q1 2 1\rQ1 2 1", "broken line", ["5 fields"]),
        ("Q1 beer 3", "broken line", ["word id 'beer'", "whole number"]),
        ("Q1 2 NA", "broken line", ["count 'NA'", "whole number"]),
        ("Q1 2 nan", "broken line", ["count 'nan'", "whole number"]),
        ("Q1 2 2.5", "broken line", ["count '2.5'", "whole number"]),
        ("Q1 2 -3", "negative count", ["count -3"]),
        ("Q1 2 3e9", "count too large", ["count 3000000000", "2147483647"]),
        ("Q1 0 3", "unknown word", ["word id 0 ", "word_index_en.tsv", "1 to 3"]),
        ("Q1 4 3", "unknown word", ["word id 4 ", "word_index_en.tsv", "1 to 3"]),
        ("Q1 -1 3", "unknown word", ["word id -1 ", "word_index_en.tsv", "1 to 3"]),
        ("Q9 1 3", "unknown concept", ["concept Q9", "concept_index_en.tsv"]),
    ],
)
def test_a_bad_line_is_reported_or_skipped(line: str, reason: str, facts: list[str]) -> None:
    write_files(matrix=f"Q1 1 5\nQ1 2 3\n\n{line}\nQ2 1 4\nQ2 3 1\n")
    check_both(reason, f"{MATRIX}:4", facts, EXPECTED)


def test_a_whole_message_states_place_value_and_remedy() -> None:
    write_files(matrix="Q1 1 5\nQ1 8 3\n")
    assert error_of() == (
        f"{MATRIX}:2: word id 8 is not in word_index_en.tsv, whose ids are 1 to 3; "
        'correct it, or leave such lines out with `on_error="skip"`'
    )


def test_invalid_utf8_in_a_matrix_is_reported_or_skipped() -> None:
    write_files(matrix=gzip.compress(b"Q1 1 5\nQ1 2 3\nQ2 1 4\nQ\xff 1 1\nQ2 3 1\n"))
    check_both("invalid UTF-8", f"{MATRIX}:4", ["byte 0xff at position 2"], EXPECTED)


def test_every_bad_line_of_a_long_file_is_reported_with_its_number() -> None:
    lines = ["Q1 1 1"] * 100
    lines[41], lines[77] = "Q1 1", "Q1 8 1"
    write_files(matrix="\n".join(lines))
    skipped = Skipped()
    concepts, texts = read("d", on_error="skip", skipped=skipped, block_bytes=64)
    assert word_counts(concepts, texts["en"]) == {"Q1": {"the": 98}}
    short, unknown = skipped.examples.values()
    assert short.startswith(f"{MATRIX}:42: 2 fields")
    assert unknown.startswith(f"{MATRIX}:78: word id 8")


def test_a_truncated_matrix_is_reported_or_read_up_to_its_end() -> None:
    random = np.random.default_rng(0)
    text = "".join(f"Q{q} {w} {c}\n" for q, w, c in random.integers([1, 1, 1], [3, 4, 10**6], (5000, 3)))
    write_files(matrix=gzip.compress(text.encode())[:-9000])
    message = error_of()
    assert message.startswith(f"{MATRIX}: truncated")
    skipped = Skipped()
    found = sum(sum(words.values()) for words in read_english(skipped).values())
    assert skipped.examples == {"unreadable file": message}
    sums = np.cumsum([int(line.split()[2]) for line in text.splitlines()]).tolist()
    assert found in sums[1000:-1]  # whole lines only


def test_a_damaged_matrix_is_reported() -> None:
    data = bytearray(gzip.compress(b"Q1 1 5\n" * 9))
    data[-6] ^= 1  # of the checksum
    write_files(matrix=bytes(data))
    assert error_of().startswith(f"{MATRIX}: corrupt")


@pytest.mark.parametrize("matrix", ["", "\n\n", "concept word_id count\n", b""])
def test_an_empty_matrix_is_reported(matrix: str | bytes) -> None:
    write_files(matrix=matrix)
    assert error_of().startswith(f"{MATRIX}: it contains no counts")


def test_a_matrix_without_a_usable_line_is_reported() -> None:
    write_files(matrix="Q1 7 1\nQ1 8 1\n")
    assert error_of("d", on_error="skip").startswith(f"{MATRIX}: none of its 2 lines can be used")


# Word indices


@pytest.mark.parametrize(
    "words",
    [
        "the\t1\nbeer\t2\nbread\t3\n",
        "1\tthe\n2\tbeer\n3\tbread\n",
        "1\tthe\t9\n2\tbeer\t5\n3\tbread\t1\n",
        "the\t1\t9\nbeer\t2\t9\nbread\t3\t1\n",
        "3\t1\tbread\n1\t9\tthe\n2\t5\tbeer\n",
        "1 9 the\n2  5 beer\n3 1 bread\n",
        "id\tcount\tword\r\n1\t9\tthe\r\n\r\n2\t5\tbeer\r\n3\t1\tbread",
        "\ufeff1\t9\tThe\n2\t5\tbeer\n3\t1\tbread\n4\t1\tthe\n",
        "1\t9\tthe\n2\t5\tbeer\n3\t1\tbread\n2000000000\t1\tx\n",
    ],
    ids=["word-id", "id-word", "id-word-n", "word-id-n", "unsorted", "spaces", "header", "duplicate word", "sparse"],
)
def test_the_columns_of_a_word_index_are_recognised(words: str) -> None:
    write_files(words)
    assert read_english() == EXPECTED


def test_ids_may_start_at_zero() -> None:
    write_files("0\t9\tthe\n1\t5\tbeer\n", matrix="Q1 0 5\nQ2 1 3\n")
    assert read_english() == {"Q1": {"the": 5}, "Q2": {"beer": 3}}


def test_words_may_contain_spaces_quotes_tabs_and_digits() -> None:
    write_files('1\t9\t"the\n2\t5\tnew york\n3\t1\ta\tb\n4\t1\t1984\n', matrix="Q1 1 1\nQ1 2 2\nQ1 3 3\nQ2 4 4\n")
    assert read_english() == {"Q1": {'"the': 1, "new york": 2, "a\tb": 3}, "Q2": {"1984": 4}}


def test_ids_without_a_word_share_a_placeholder() -> None:
    write_files("1\t9\tthe\n2\t5\n3\t1\t\u00a0\n4\t1\tbread\n5\t1\tbeer\n")
    assert read_english() == {"Q1": {"the": 5, MISSING_WORD: 3}, "Q2": {"the": 4, MISSING_WORD: 1}}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("", "empty"),
        ("the\nbeer\n", "only one column"),
        ("the\tx\nbeer\ty\n", "no column contains ids"),
        ("the\t7\nbeer\t7\n", "no column contains ids"),
        ("1\t1\n2\t2\n", "the ids could be in any of the columns 1, 2"),
        ("a\tb\t1\tb\t7\nc\td\t2\te\t7\n", "the words could be in any of the columns 1, 2, 4"),
    ],
)
def test_an_ambiguous_word_index_is_reported(words: str, problem: str) -> None:
    write_files(words)
    assert error_of().startswith(f"{WORDS}: {problem}")


MANY = "".join(f"{i}\t1\tw{i}\n" for i in range(4, 40))


def test_a_broken_id_is_reported_or_skipped() -> None:
    write_files(f"1\t9\tthe\n2\t5\tbeer\nx\t5\twine\n3\t1\tbread\n{MANY}")
    check_both("broken line", f"{WORDS}:3", ["id 'x'", "whole number"], EXPECTED)


def test_a_duplicate_id_is_reported_and_the_first_is_kept() -> None:
    write_files(f"1\t9\tthe\n2\t5\tbeer\n2\t5\twine\n3\t1\tbread\n{MANY}")
    check_both("duplicate id", f"{WORDS}:3", ["id 2", "line 2"], EXPECTED)


def test_invalid_utf8_in_a_word_is_reported_or_replaced() -> None:
    write_files(b"1\t9\tthe\n2\t5\tbe\xe9r\n3\t1\tbread\n")
    left = {"Q1": {"the": 5, "be\ufffdr": 3}, "Q2": {"the": 4, "bread": 1}}
    check_both("invalid UTF-8", f"{WORDS}:2", ["byte 0xe9 at position 7"], left)


# Concept indices


@pytest.mark.parametrize(
    "concepts",
    [
        "1\tQ1\tBeer\n2\tQ2\tBread\n",
        "Beer\tQ1\nBread\tQ2\n",
        "id\tname\nQ1\tBeer\nQ2\tBread\n",
        "7 Q1 Beer\n8 Q2 Bread\n",
    ],
)
def test_the_columns_of_a_concept_index_are_recognised(concepts: str) -> None:
    write_files(concepts=concepts)
    names, texts = read("d")
    assert names == ["Q1", "Q2"]
    assert texts["en"].titles == ["Beer", "Bread"]


def test_a_concept_without_a_title_gets_its_name_as_title() -> None:
    write_files(concepts="Q1\nQ2\n")
    assert read("d")[1]["en"].titles == ["Q1", "Q2"]


def test_concepts_that_languages_number_differently_are_matched_by_q_number() -> None:
    write_files(concepts="1\tQ7\tBeer\n2\tQ9\tBread\n", matrix="1 1 5\n2 2 3\n")
    for name in (WORDS, CONCEPTS, MATRIX):
        Path(name.replace("en.t", "it.t")).write_bytes(Path(name).read_bytes())
    assert read("d")[0] == ["1", "2"]  # the same numbers for the same things
    index = Path(CONCEPTS.replace("en.t", "it.t"))
    index.write_text("1\tQ9\tPane\n2\tQ7\tBirra\n")
    concepts, texts = read("d")
    assert concepts == ["Q7", "Q9"]
    assert dict(zip(texts["it"].concepts.tolist(), texts["it"].titles, strict=True)) == {0: "Birra", 1: "Pane"}
    for lang, index_text in {"da": "2\tQ7\tØl\n1\tQ7\tØl\n", "vi": "1\tBia\n2\tMì\n"}.items():
        for name in (WORDS, MATRIX):
            Path(name.replace("en.t", f"{lang}.t")).write_bytes(Path(name).read_bytes())
        Path(CONCEPTS.replace("en.t", f"{lang}.t")).write_text(index_text)
    assert len(read("d", ["da", "en"])[1]["da"]) == 2
    message = error_of()
    assert message.startswith("d/concept_indices/concept_index_vi.tsv: it has no column of Q-numbers")
    assert "leave language vi out" in message


def test_a_concept_index_of_other_data_is_reported() -> None:
    write_files(concepts="Q8\tWine\nQ9\tWater\n")
    message = error_of()
    assert message.startswith(f"{CONCEPTS}: no column contains the concepts of sparse_matrix_en.txt.gz (Q1, Q2, …)")


def test_a_concept_index_with_two_possible_columns_of_names_is_reported() -> None:
    write_files(concepts="1\t2\tBeer\n2\t1\tBread\n", matrix="1 1 5\n2 2 3\n")
    message = error_of()
    assert message.startswith(f"{CONCEPTS}: ")
    assert "columns 1, 2" in message


def test_a_duplicate_concept_is_reported_and_the_first_is_kept() -> None:
    write_files(concepts="Q1\tBeer\nQ2\tBread\nQ1\tWine\n")
    check_both("duplicate concept", f"{CONCEPTS}:3", ["concept Q1", "line 1"], EXPECTED)
    assert read("d", on_error="skip")[1]["en"].titles == ["Beer", "Bread"]


# Table 1


def test_every_row_has_a_score_for_every_column() -> None:
    assert len(COLUMNS) == 12
    for section, rows in PUBLISHED.items():
        for row in rows.values():
            assert len(row.scores) == 12
            assert all(0 < score < 100 for score in row.scores)
            assert (row.shared is None) == (section == "baseline")
            for i in range(0, 12, 3):
                assert sorted(row.scores[i : i + 3]) == list(row.scores[i : i + 3])


def test_every_known_ridge_belongs_to_a_row() -> None:
    for section, ridges in RIDGE.items():
        assert set(ridges) <= set(PUBLISHED[section])


@pytest.mark.skipif(not PAPER.exists(), reason="the paper is not here")
def test_the_table_equals_that_of_the_paper() -> None:
    table = PAPER.read_text().split(r"\label{tab:mastertable}")[1].split(r"\end{tabular}")[0]
    sections = re.split(r"\\textbf\{\([a-e]\)", table)[1:]
    assert len(sections) == len(PUBLISHED)
    for text, rows in zip(sections, PUBLISHED.values(), strict=True):
        found = {}
        for line in text.split(r"\\"):
            fields = [field.strip() for field in line.split("&")]
            if len(fields) == 16:
                shared = int(fields[15].replace("k", "000")) if fields[15] else None
                found[fields[1], fields[2]] = (tuple(map(float, fields[3:15])), shared)
        assert found == rows
