"""Exports: other libraries read the words and vectors of the model, and static models encode nearly as it does."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import madeup
import numpy as np
import pyarrow.parquet as pq
import pytest
from madeup import LANGS

from cr5 import Cr5, Cr5Error, Document
from cr5.errors import Cr5Warning
from cr5.exchange import export as exports
from cr5.exchange.export import FOLDERS, ExportedLanguage, ExportFormat
from cr5.exchange.static_models import mean_vectors, tokenizer_json
from cr5.features.tokeniser import Tokeniser
from cr5.model.memory_languages import MemoryLanguages
from cr5.storage.language_map import LanguageMap

FORMATS = get_args(ExportFormat)
HELD_OUT = madeup.split(madeup.corpus())[1]
TEXTS = {lang: madeup.texts(HELD_OUT, lang) for lang in LANGS}


@pytest.fixture(params=[32, 8])
def shaped(request: pytest.FixtureRequest, model: Cr5) -> Cr5:
    """The model, and the quantised one."""
    return model if request.param == 32 else model.quantise(request.param)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("format", ["word2vec", "word2vec-binary", "fasttext"])
def test_gensim_reads_the_words_and_vectors(shaped: Cr5, format: Any, tmp_path: Path) -> None:  # noqa: A002
    models = pytest.importorskip("gensim.models")
    shaped.export(tmp_path / "words", format=format, lang="BB")
    found = models.KeyedVectors.load_word2vec_format(tmp_path / "words", binary=format == "word2vec-binary")
    assert found.index_to_key == shaped.words("bb")
    np.testing.assert_array_equal(found.vectors, shaped.word_vectors("bb"), strict=True)


@pytest.mark.parametrize("format", ["word2vec", "fasttext"])
def test_text_formats_keep_the_rules_of_fasttext(
    model: Cr5,
    format: Any,  # noqa: A002
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A header, and then tokens between spaces and line ends, as the streams of C++ read them."""
    monkeypatch.setattr(exports, "TEXT_ROWS", 100)  # the vocabulary takes several blocks
    model.export(tmp_path / "aa.vec", format=format, lang="aa")
    content = (tmp_path / "aa.vec").read_bytes()
    lines = content.decode().split("\n")
    assert lines.pop() == ""
    assert lines[0] == f"{len(model.words('aa'))} {model.rank}"
    rows = [line.split(" ") for line in lines[1:]]
    assert [row[0] for row in rows] == model.words("aa")
    assert {len(row) for row in rows} == {1 + model.rank}
    numbers = np.array([row[1:] for row in rows], np.float32)
    np.testing.assert_array_equal(numbers, model.word_vectors("aa"))
    assert content.split() == [token.encode() for line in lines for token in line.split(" ")]


def test_the_binary_format_has_the_bytes_of_word2vec(model: Cr5, tmp_path: Path) -> None:
    model.export(tmp_path / "words.bin", format="word2vec-binary", lang="cc")
    vectors = model.word_vectors("cc")
    expected = f"{len(vectors)} {model.rank}\n".encode()
    for name, row in zip(model.words("cc"), vectors, strict=True):
        expected += name.encode() + b" " + row.astype("<f4").tobytes() + b"\n"
    assert (tmp_path / "words.bin").read_bytes() == expected


def test_numpy_and_parquet_files_have_words_weights_and_vectors(
    shaped: Cr5, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "BLOCK_ROWS", 100)
    shaped.export(tmp_path / "words.npz", format="npz", lang="aa")
    shaped.export(tmp_path / "words.parquet", format="parquet", lang="aa")
    language, vectors = shaped._language("aa"), shaped.word_vectors("aa")
    with np.load(tmp_path / "words.npz", allow_pickle=False) as arrays:
        assert arrays["words"].tolist() == language.words
        np.testing.assert_array_equal(arrays["vectors"], vectors, strict=True)
        np.testing.assert_array_equal(arrays["idf"], language.idf)
        np.testing.assert_array_equal(arrays["offset"], language.offset)
    table = pq.read_table(tmp_path / "words.parquet")
    assert table.column_names == ["lang", "word", "idf", "vector"]
    assert set(table["lang"].to_pylist()) == {"aa"}
    assert table["word"].to_pylist() == language.words
    np.testing.assert_array_equal(np.array(table["vector"].to_pylist(), np.float32), vectors)
    np.testing.assert_array_equal(np.array(table["idf"].to_pylist(), np.float32), language.idf)


# Static models


def read_static(folder: Path) -> Callable[[list[str]], Any]:
    """Encode with model2vec."""
    model2vec = pytest.importorskip("model2vec")
    return model2vec.StaticModel.from_pretrained(folder).encode  # type: ignore[no-any-return]


@pytest.mark.parametrize("format", FOLDERS)
def test_static_models_encode_as_the_mean_of_weighted_words(model: Cr5, format: Any, tmp_path: Path) -> None:  # noqa: A002
    model.export(tmp_path / "static", format=format, lang="aa")
    language, row_of = model._language("aa"), {name: i for i, name in enumerate(model.words("aa"))}
    documents = model.report["languages"]["aa"]["documents"]
    frequency = model._languages.encoder("aa").vocabulary.document_frequency(documents)
    assert language.subwords is not None
    squares = language.idf.astype(float) ** 2 + language.subwords.squares
    length = np.sqrt((frequency * squares).sum() / documents)
    centre = length / (frequency.sum() / documents) * language.offset
    odd = [f"  {TEXTS['aa'][0].upper()}!? (“kalomix”)", "kalomix"]
    expected = []
    for text in [*TEXTS["aa"], TEXTS["aa"][0], ""]:
        rows = [row_of[token] for token in text.split() if token in row_of]
        vector = sum((language.idf[i] * language.map[i] - centre for i in rows), np.zeros(model.rank))
        expected.append(vector / (np.linalg.norm(vector) or 1))
    vectors = read_static(tmp_path / "static")([*TEXTS["aa"], *odd])
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_static_models_of_two_languages_share_a_space_nearly_that_of_the_model(model: Cr5, tmp_path: Path) -> None:
    vectors = {}
    for lang in ("aa", "bb"):
        model.export(tmp_path / lang, format="model2vec", lang=lang)
        vectors[lang] = read_static(tmp_path / lang)(TEXTS[lang])
        cosines = (vectors[lang] * model.encode(TEXTS[lang], lang)).sum(axis=1)
        assert cosines.min() > 0.9
    right = (vectors["aa"] @ vectors["bb"].T).argmax(axis=1) == np.arange(madeup.HELD_OUT)
    assert right.mean() > 0.9


def test_a_long_text_is_not_cut_off(model: Cr5, tmp_path: Path) -> None:
    model.export(tmp_path / "static", format="model2vec", lang="aa")
    encode, end = read_static(tmp_path / "static"), TEXTS["aa"][1]
    long = " ".join([*["kalomix"] * 2000, end])  # unknown words first
    np.testing.assert_allclose(encode([long]), encode([end]), atol=1e-6)


def test_sentence_transformers_reads_both_folders(model: Cr5, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    for format_ in ("model2vec", "sentence-transformers"):
        model.export(tmp_path / format_, format=format_, lang="aa")
        vectors = library.SentenceTransformer(str(tmp_path / format_), device="cpu").encode([*TEXTS["aa"], "kalomix"])
        np.testing.assert_allclose(vectors[:-1], read_static(tmp_path / "model2vec")(TEXTS["aa"]), atol=1e-5)
        assert not vectors[-1].any()


def small_language(words: list[str]) -> LanguageMap:
    draw = np.random.default_rng(0).standard_normal
    idf, vectors, offset = (draw(shape).astype(np.float32) for shape in (len(words), (len(words), 2), 2))
    return LanguageMap(words, idf, vectors, offset)


@pytest.mark.parametrize(
    ("tokeniser", "text", "tokens"),
    [
        (
            Tokeniser(),
            "L’Été: ÉCOLE e\u0301te\u0301 co\u00adop ﬁn 3,5",
            ["l", "été", "école", "été", "coop", "fin", "3", "5"],
        ),
        (Tokeniser(), "ग्राम क्‍ष नीति|نمی‌خواهم", ["ग्राम", "क्‍ष", "नीति", "نمی‌خواهم"]),
        (Tokeniser(lowercase=False, normalise=False), "École ﬁn", ["École", "ﬁn"]),
        (Tokeniser(pretokenised=True), "C++ a-b\tÉ [UNK]", ["C++", "a-b", "É", "[UNK]"]),
    ],
)
def test_a_tokenizer_file_finds_the_words_that_the_model_finds(
    tokeniser: Tokeniser, text: str, tokens: list[str]
) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    assert tokeniser.words(text, "xx") == tokens
    language = small_language(sorted(set(tokens)))
    content = tokenizer_json(ExportedLanguage("xx", language, tokeniser, np.ones(len(language.words))))
    read = tokenizers.Tokenizer.from_str(json.dumps(content))
    assert read.encode(f"{text} unknown").tokens[:-1] == tokens
    assert read.encode("unknown").ids == [0]
    assert read.token_to_id(language.words[-1]) == len(language.words)


def test_a_language_without_spaces_is_exported_with_a_warning() -> None:
    exported = ExportedLanguage("zh", small_language(["中国", "北京", "a"]), Tokeniser(), np.ones(3))
    with pytest.warns(Cr5Warning, match="zh is written without spaces"):
        tokenizer_json(exported)


def test_a_language_of_which_the_report_says_nothing_can_be_exported(model: Cr5, tmp_path: Path) -> None:
    part = model.subset("aa")
    part._set_trained(MemoryLanguages({"aa": model._language("aa")}), part.report | {"languages": {}})
    part.export(tmp_path / "static", format="model2vec", lang="aa")
    assert np.isfinite(read_static(tmp_path / "static")(TEXTS["aa"])).all()


def test_without_document_frequencies_the_offset_is_left_out() -> None:
    language = small_language(["a", "b"])
    rows = mean_vectors(ExportedLanguage("xx", language, Tokeniser(), np.zeros(2)))
    np.testing.assert_allclose(rows, np.vstack([np.zeros(2), language.idf[:, None] * language.map]), rtol=1e-6)


# Targets


def test_a_file_is_replaced_and_a_folder_is_not(model: Cr5, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    model.export(tmp_path / "file", format="fasttext", lang="aa")
    assert (tmp_path / "file").read_bytes()[:3] == str(len(model.words("aa"))).encode()
    (tmp_path / "empty").mkdir()
    model.export(tmp_path / "empty", format="model2vec", lang="aa")
    before = contents(tmp_path)
    for target in ("empty", "file"):
        with pytest.raises(Cr5Error, match=f"{target} exists already"):
            model.export(tmp_path / target, format="sentence-transformers", lang="aa")
    with pytest.raises(Cr5Error, match="is a folder"):
        model.export(tmp_path / "empty", format="npz", lang="aa")
    assert contents(tmp_path) == before


def test_what_cannot_be_exported_is_refused(model: Cr5, tmp_path: Path) -> None:
    with pytest.raises(Cr5Error, match="`format='glove'` must be " + " or ".join(f'"{name}"' for name in FORMATS)):
        model.export(tmp_path / "x", format="glove", lang="aa")  # type: ignore[arg-type]
    with pytest.raises(Cr5Error, match="'xx'; its languages are aa, bb, cc"):
        model.export(tmp_path / "x", format="npz", lang="xx")
    with pytest.raises(Cr5Error, match=r"there is no folder .*none"):
        model.export(tmp_path / "none" / "x", format="npz", lang="aa")
    with pytest.raises(Cr5Error, match="not fitted"):
        Cr5().export(tmp_path / "x", format="npz", lang="aa")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("format", FORMATS)
def test_a_write_that_fails_leaves_nothing(
    model: Cr5,
    format: Any,  # noqa: A002
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cr5.storage.atomic.sync", fail)
    with pytest.raises(OSError, match="No space left"):
        model.export(tmp_path / "x", format=format, lang="aa")
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
@pytest.mark.parametrize("format", FOLDERS)
def test_whoever_may_read_the_folder_may_read_its_files(model: Cr5, format: Any, tmp_path: Path) -> None:  # noqa: A002
    model.export(tmp_path / "x", format=format, lang="aa")
    modes = {path.stat().st_mode for path in (tmp_path / "x").rglob("*") if path.is_file()}
    assert len(modes) == 1


def test_exporting_needs_no_optional_library(model_folder: Path, tmp_path: Path) -> None:
    """In a process where these libraries cannot be imported."""
    code = (
        "import sys\n"
        "for name in ('tokenizers', 'model2vec', 'gensim', 'torch', 'duckdb'): sys.modules[name] = None\n"
        "from cr5 import Cr5\n"
        f"model = Cr5.load({str(model_folder)!r})\n"
        f"for format in {FORMATS!r}: model.export({str(tmp_path)!r} + '/' + format, format=format, lang='aa')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)
    assert {path.name for path in tmp_path.iterdir()} == set(FORMATS)


def test_duckdb_joins_the_words_of_two_languages(model: Cr5, documents: list[Document], tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    for lang in ("aa", "bb"):
        model.export(tmp_path / f"{lang}.parquet", format="parquet", lang=lang)
    query = f"""
        SELECT a.word, arg_max(b.word, list_cosine_similarity(a.vector, b.vector))
        FROM '{tmp_path}/aa.parquet' a, '{tmp_path}/bb.parquet' b GROUP BY a.word
    """
    nearest = dict(duckdb.sql(query).fetchall())
    for name in model.words("aa")[:20]:
        assert nearest[name] == model.similar_words(name, "aa", "bb", 1)[0][0]
