"""The models that the paper's authors published: read, converted, encoded, indexed."""

import gzip
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from published_files import random_vectors, write_lines, write_published

from cr5 import Cr5, Cr5Error, Document, Index, ModelFileError, Skipped
from cr5.cli import run
from cr5.exchange import published_vectors
from cr5.exchange.published_vectors import WHITE_SPACE, convert_published, published_models
from cr5.progress import Progress

ENGLISH = random_vectors(["the", "dog", "barks", "new york", "don't", "beer", "München"], 4, 1)
ITALIAN = random_vectors(["il", "cane", "abbaia", "birra"], 4, 2)
TEXTS = ["The dog barks; THE dog!", "beer", "", "nothing known here", "the the the dog"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_published(tmp_path / "files", "joint_4", {"en": ENGLISH, "it": ITALIAN})


def summed(text: str) -> np.ndarray:
    """The oracle: lower-cased words, the sum of their vectors as often as they occur, at length 1."""
    words = Counter("".join(c if c.isalnum() else " " for c in text.lower()).split())
    vectors = [count * np.array(ENGLISH[word]) for word, count in words.items() if word in ENGLISH]
    total = np.sum(vectors, axis=0) if vectors else np.zeros(4)
    return total / (np.linalg.norm(total) or 1)


def test_a_text_is_the_sum_of_its_word_vectors_at_length_1(folder: Path) -> None:
    model = Cr5.load_published(folder, "joint_4", langs=["it", "en"])
    assert model.langs == ["it", "en"]
    assert model.rank == 4
    expected = np.array([summed(text) for text in TEXTS])
    np.testing.assert_allclose(model.encode(TEXTS, "en"), expected, atol=1e-6)
    for text, vector in zip(TEXTS, expected, strict=True):  # one text takes another way than several
        np.testing.assert_allclose(model.encode(text, "en"), vector, atol=1e-6)
    np.testing.assert_array_equal(model.word_vectors("it"), np.array(list(ITALIAN.values()), np.float32))


def test_words_with_white_space_are_left_out_and_counted(folder: Path) -> None:
    skipped = Skipped()
    model = Cr5.load_published(folder, "joint_4", skipped=skipped)
    assert "new york" not in model.words("en")
    assert skipped.counts == {WHITE_SPACE: 1}
    assert "joint_4_en.txt.gz:4: " in skipped.first
    facts = model.report["languages"]["en"]
    assert facts["skipped"] == {WHITE_SPACE: 1}
    assert facts["not_tokens"] == 2  # don't and München
    assert model.report["languages"]["it"]["skipped"] == {}


def test_a_converted_and_a_saved_model_encode_the_same_bits(folder: Path, tmp_path: Path) -> None:
    direct = Cr5.load_published(folder, "joint_4")
    direct.save(tmp_path / "saved")
    report = convert_published(folder, "joint_4", tmp_path / "converted", progress=lambda p: None)
    assert report["languages"] == direct.report["languages"]
    for name in ("saved", "converted"):
        loaded = Cr5.load(tmp_path / name)
        assert loaded.settings == direct.settings
        np.testing.assert_array_equal(loaded.encode(TEXTS, "en"), direct.encode(TEXTS, "en"))
        np.testing.assert_array_equal(loaded.encode("il cane", "it"), direct.encode("il cane", "it"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["converted", "files", "saved"]  # no scratch files


def test_a_published_model_cannot_be_trained_further(folder: Path) -> None:
    model = Cr5.load_published(folder, "joint_4")
    for call in (model.update, lambda documents: model.add_language(documents, "da")):
        with pytest.raises(Cr5Error, match="published word vectors"):
            call([])


def test_only_the_languages_that_are_asked_for_are_read(folder: Path) -> None:
    (folder / "joint_4_it.txt.gz").write_bytes(b"damaged")
    assert Cr5.load_published(folder, "joint_4", "en").langs == ["en"]
    with pytest.raises(ModelFileError, match=r"joint_4_it\.txt\.gz: .*not a gzip"):
        Cr5.load_published(folder, "joint_4")


def test_blocks_of_any_size_give_the_same_model(folder: Path) -> None:
    whole = published_vectors.read_published(folder, "joint_4", "en").languages["en"]
    first_line = len(gzip.decompress((folder / "joint_4_en.txt.gz").read_bytes()).split(b"\n")[0]) + 1
    for size in (first_line, 100, 131):
        read = published_vectors.read_published(folder, "joint_4", "en", block_bytes=size).languages["en"]
        assert read.words == whole.words
        np.testing.assert_array_equal(read.map, whole.map)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_plain_files_byte_order_marks_and_windows_line_ends_are_read(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "joint_4_en.txt").write_bytes("dog 1 -2e-3\r\ncat .5 6.\r\n".encode(encoding))
    model = Cr5.load_published(tmp_path, "joint_4")
    assert model.words("en") == ["dog", "cat"]
    np.testing.assert_array_equal(model.word_vectors("en"), np.array([[1, -2e-3], [0.5, 6]], np.float32))


def test_names_of_models_may_contain_languages(tmp_path: Path) -> None:
    for name in ("pairwise_2_en-it", "joint_28"):
        write_published(tmp_path, name, {"en": ENGLISH, "it": ITALIAN})
    (tmp_path / "README.txt").write_text("other files are ignored")
    models = published_models(tmp_path)
    assert {name: list(files) for name, files in models.items()} == {
        "joint_28": ["en", "it"],
        "pairwise_2_en-it": ["en", "it"],
    }
    assert Cr5.load_published(tmp_path, "pairwise_2_en-it", "ita").langs == ["it"]


def test_what_is_not_there_is_an_error_that_lists_what_is(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"'joint_28'.* are joint_4"):
        Cr5.load_published(folder, "joint_28")
    with pytest.raises(ModelFileError, match=r"joint_4_fr.*en, it"):
        Cr5.load_published(folder, "joint_4", ["en", "fr"])
    with pytest.raises(ModelFileError, match="no file"):
        Cr5.load_published(tmp_path, "joint_4")
    with pytest.raises(ModelFileError, match="no folder"):
        Cr5.load_published(tmp_path / "absent", "joint_4")
    with pytest.raises(ModelFileError, match="`langs` is empty"):
        Cr5.load_published(folder, "joint_4", [])


GOOD = b"the 1 2 3\ndog 4 5 6\ncat 7 8 9\n"


@pytest.mark.parametrize(
    ("line", "message", "reason"),
    [
        (b"beer 1 2\n", "2 numbers instead of 3", "lines with too few numbers"),
        (b"\n", "0 numbers instead of 3", "lines with too few numbers"),
        (b"beer 1 2 x\n", "'x' is not a number", "lines with something else than numbers"),
        (b"beer 1  3\n", "'' is not a number", "lines with something else than numbers"),
        (b"beer 1 nan 3\n", "'nan' is not a number", "lines with something else than numbers"),
        (b"beer 1 1e60 3\n", "'1e60' is not a number", "lines with something else than numbers"),
        (b"beer 1 \xff 3\n", "is not a number", "lines with something else than numbers"),
        (b"dog 1 2 3\n", "the word 'dog' is in an earlier line", "words that occur again"),
        (b" 1 2 3\n", "no word", "lines without a word"),
        (b"m\xfcnchen 1 2 3\n", "is not UTF-8", "lines that are not UTF-8"),
    ],
)
def test_a_line_that_cannot_be_used_is_an_error_with_its_number_or_skipped(
    tmp_path: Path, line: bytes, message: str, reason: str
) -> None:
    path = write_lines(tmp_path / "joint_4_en.txt.gz", GOOD + line + b"end 1 1 1\n")
    with pytest.raises(ModelFileError) as caught:
        Cr5.load_published(tmp_path, "joint_4")
    assert f"{path}:4: " in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    skipped = Skipped()
    model = Cr5.load_published(tmp_path, "joint_4", on_error="skip", skipped=skipped)
    assert model.words("en") == ["the", "dog", "cat", "end"]
    assert skipped.counts == {reason: 1}
    assert message in skipped.first


@pytest.mark.parametrize("content", [b"3 3\n" + GOOD, b"word2vec 3 3\n" + GOOD, b"x 2 2\nthe 1 2\ndog 4 5\n"])
def test_a_header_of_word2vec_text_is_an_error_that_says_so_or_skipped(tmp_path: Path, content: bytes) -> None:
    path = write_lines(tmp_path / "joint_4_en.txt.gz", content)
    with pytest.raises(ModelFileError) as caught:
        Cr5.load_published(tmp_path, "joint_4")
    assert f"{path}:1: " in str(caught.value)
    assert "header of word2vec text" in str(caught.value)
    skipped = Skipped()
    model = Cr5.load_published(tmp_path, "joint_4", on_error="skip", skipped=skipped)
    assert model.words("en") == [line.split()[0].decode() for line in content.splitlines()[1:]]
    assert skipped.counts == {"headers of word2vec text": 1}


@pytest.mark.parametrize("line", [b"word2vec 3 2\n", b"word2vec 2 3\n", b"42 2 2\n"])
def test_a_word_with_whole_numbers_is_not_taken_for_a_header(tmp_path: Path, line: bytes) -> None:
    write_lines(tmp_path / "joint_4_en.txt.gz", line + b"the 1 2\ndog 4 5\ncat 7 8\nend 1 1\n")
    assert len(Cr5.load_published(tmp_path, "joint_4").words("en")) == 5


def test_of_a_word_that_occurs_again_the_last_line_is_used(tmp_path: Path) -> None:
    write_lines(tmp_path / "joint_4_en.txt.gz", GOOD + b"dog 1 2 3\n")
    model = Cr5.load_published(tmp_path, "joint_4", on_error="skip")
    assert model.word_vectors("en").tolist() == [[1, 2, 3], [1, 2, 3], [7, 8, 9]]
    convert_published(tmp_path, "joint_4", tmp_path / "out", on_error="skip")
    np.testing.assert_array_equal(Cr5.load(tmp_path / "out").word_vectors("en"), model.word_vectors("en"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(GOOD * 9, mtime=0)[:-12], "truncated"),
        (gzip.compress(b"", mtime=0), "no words"),
        (gzip.compress(b"dog\ncat\n", mtime=0), "no numbers"),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error_with_its_name(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "joint_4_en.txt.gz").write_bytes(content)
    with pytest.raises(ModelFileError, match=rf"joint_4_en\.txt\.gz.*{message}"):
        Cr5.load_published(tmp_path, "joint_4", on_error="skip")


def test_the_rank_of_a_few_lines_is_found_although_words_contain_spaces_and_numbers(tmp_path: Path) -> None:
    write_lines(tmp_path / "a_en.txt.gz", b"New York 1 2 3\nSan Marino 4 5 6\n")
    with pytest.raises(ModelFileError, match="no words that can be used"):  # which no token is equal to
        Cr5.load_published(tmp_path, "a")
    write_lines(tmp_path / "b_en.txt.gz", b"New York 1 2 3\ndog 4 5 6\n")
    assert Cr5.load_published(tmp_path, "b").word_vectors("en").tolist() == [[4, 5, 6]]
    write_lines(tmp_path / "c_en.txt.gz", b"Apollo 11 1 2 3\ndog 4 5 6\n")
    with pytest.raises(ModelFileError, match=r"c_en\.txt\.gz: .*4 numbers.* 3; .*`rank`"):
        Cr5.load_published(tmp_path, "c")
    assert Cr5.load_published(tmp_path, "c", rank=3).word_vectors("en").tolist() == [[4, 5, 6]]
    convert_published(tmp_path, "c", tmp_path / "out", rank=3)
    assert Cr5.load(tmp_path / "out").rank == 3


def test_files_of_different_ranks_are_not_mixed(folder: Path) -> None:
    write_published(folder, "joint_4", {"vi": random_vectors(["chó", "mèo"], 5)})
    with pytest.raises(ModelFileError, match=r"joint_4_vi\.txt\.gz has 5 numbers.*joint_4_en\.txt\.gz 4"):
        Cr5.load_published(folder, "joint_4")


def test_progress_goes_from_file_to_file_until_all_bytes_are_read(folder: Path) -> None:
    seen: list[Progress] = []
    Cr5.load_published(folder, "joint_4", progress=seen.append)
    total = sum(path.stat().st_size for path in folder.iterdir())
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    assert (seen[-1].done, seen[-1].total) == (total, total)


def test_neither_the_text_nor_all_vectors_are_in_memory_during_a_conversion(tmp_path: Path) -> None:
    vectors = random_vectors([f"word{i}" for i in range(1000)], 600)
    write_published(tmp_path / "files", "joint_4", {"en": vectors, "it": vectors})
    published_vectors.read_published(tmp_path / "files", "joint_4", "en")  # imports what it needs
    tracemalloc.start()
    published_vectors.read_published(tmp_path / "files", "joint_4", scratch=tmp_path, block_bytes=2**15)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1000 * 600 * 4  # the float32 vectors of one of the languages, whose text is five times as large


def test_a_conversion_that_fails_leaves_an_earlier_model_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    convert_published(folder, "joint_4", tmp_path / "out", "en")
    write_lines(folder / "joint_4_it.txt.gz", GOOD + b"dog\n")
    with pytest.raises(ModelFileError, match=r"it\.txt\.gz:4"):
        convert_published(folder, "joint_4", tmp_path / "out")
    assert Cr5.load(tmp_path / "out").langs == ["en"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files", "out"]
    with pytest.raises(ModelFileError, match="holds other files"):
        convert_published(folder, "joint_4", folder)


def test_an_index_takes_a_published_model(folder: Path, tmp_path: Path) -> None:
    model = Cr5.load_published(folder, "joint_4")
    documents = [Document("dog", "en", "the dog barks"), Document("beer", "it", "birra"), Document("dog", "it", "cane")]
    with Index.create(tmp_path / "index", model) as index:
        assert index.add(documents).new == 3
        hits = index.search("the dog barks", "en").hits
        assert hits[0].id == "en:dog"
        [dense] = index.search("cane", "it", mode="dense", measure="cosine", k=1).hits
        assert (dense.id, round(dense.cosine, 5)) == ("it:dog", 1.0)


def test_the_command_converts_and_info_shows_what_there_is(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["convert", str(folder), "joint_4", "-o", str(tmp_path / "out"), "--langs", "it,en"]) == 0
    caught = capsys.readouterr()
    assert "words with white space, which no token has" in caught.err
    assert "written to" in caught.out
    assert run(["info", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    assert "published word vectors joint_4, rank 4" in shown
    assert [line.split()[:4] for line in shown.splitlines() if line.split()[:1] == ["en"]] == [["en", "6", "2", "1"]]
    assert run(["convert", str(folder), "joint_5", "-o", str(tmp_path / "other")]) == 1
    message = (
        f"there is no published model 'joint_5'; those in {folder} are joint_4 (files are named MODEL_LANG.txt.gz)"
    )
    assert capsys.readouterr().err == f"error: {message}\n"
