"""The names of the authors' libraries compute what these computed."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from published_files import random_vectors, write_published

from cr5 import Cr5, Cr5Error, DeprecatedInterface
from cr5.compat import Cr5_Model, Cr5Model
from cr5.exchange.published_vectors import convert_published

ENGLISH = random_vectors(["the", "dog", "barks", "beer"], 4, 1)
ITALIAN = random_vectors(["il", "cane", "abbaia", "birra"], 4, 2)
TOKENS = ["the", "dog", "the", "unknown", "barks"]

pytestmark = pytest.mark.filterwarnings("ignore::cr5.errors.DeprecatedInterface")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_published(tmp_path / "files", "joint_4", {"en": ENGLISH, "it": ITALIAN})


def old_embedding(tokens: list[str]) -> np.ndarray:
    """The definition: the sum of the vectors of known tokens, divided by the length of the vector of their counts."""
    counts = Counter(token for token in tokens if token in ENGLISH)
    total = np.sum([n * np.array(ENGLISH[token]) for token, n in counts.items()], axis=0)
    return np.asarray(total / np.sqrt(sum(n * n for n in counts.values())))


def test_the_first_library_sums_the_vectors_of_tokens(folder: Path) -> None:
    model = Cr5_Model(folder, "joint_4")
    model.load_langs(["en", "it"])
    vector = model.get_document_embedding(TOKENS, "en")
    np.testing.assert_allclose(vector, old_embedding(TOKENS), rtol=1e-6)
    rows = model.transform(["The dog; the unknown barks", "nothing"], "en")
    np.testing.assert_allclose(rows, [old_embedding(TOKENS), np.zeros(4)], rtol=1e-6)
    assert model.transform([], "en").shape == (0, 4)
    assert model.tokenize("The dog!") == ["the", "dog"]
    modern = Cr5.load_published(folder, "joint_4").encode("The dog; the unknown barks", "en")
    np.testing.assert_allclose(vector / np.linalg.norm(vector), modern, atol=1e-6)


def test_what_is_not_loaded_or_known_is_an_error(folder: Path) -> None:
    model = Cr5_Model(str(folder), "joint_4")
    model.load_langs(["en"])
    with pytest.raises(Cr5Error, match=r"'it' is not loaded; call load_langs"):
        model.get_document_embedding(["cane"], "it")
    with pytest.raises(Cr5Error, match="none of the 2 tokens is a word of en"):
        model.get_document_embedding(["cane", "gatto"], "en")


def test_the_later_library_embeds_texts_and_finds_documents(folder: Path, tmp_path: Path) -> None:
    model = Cr5Model("joint_4", model_dir=folder)
    text = " ".join(TOKENS)
    vector = model.get_document_embedding(text, "en", in_memory_model=True)
    assert vector.dtype == np.float32
    np.testing.assert_allclose(vector, old_embedding(TOKENS), rtol=1e-5)
    documents = tmp_path / "documents.tsv"
    documents.write_text("Beer\tQ44\tbeer\nDog\tQ144\tthe dog\nbroken line\nNone\tQ0\tnothing\n", encoding="utf-8")
    for normalize in (True, False):
        model.create_index_in_memory(documents, "en", normalize=normalize)
        found, size = model.search_similar_documents_in_memory("the dog", "en", "en", normalize=normalize)
        assert (found, size) == ([("Dog", "Q144"), ("Beer", "Q44")], 2)
    with pytest.raises(Cr5Error, match="no index of language 'it'"):
        model.search_similar_documents_in_memory("the dog", "en", "it")


def test_a_converted_model_is_opened_too(folder: Path, tmp_path: Path) -> None:
    convert_published(folder, "joint_4", tmp_path / "model")
    expected = Cr5Model("joint_4", folder).get_document_embedding("the dog", "en")
    np.testing.assert_array_equal(
        Cr5Model("joint_4", tmp_path / "model").get_document_embedding("the dog", "en"), expected
    )
    first = Cr5_Model(tmp_path / "model", "joint_4")
    first.load_langs(["en"])
    np.testing.assert_allclose(first.get_document_embedding(["the", "dog"], "en"), expected, rtol=1e-6)


def test_every_name_warns_with_what_replaces_it(folder: Path) -> None:
    with pytest.warns(DeprecatedInterface, match=r"Cr5_Model .*Cr5\.load_published\(folder, name, langs\)"):
        model = Cr5_Model(folder, "joint_4")
    with pytest.warns(DeprecatedInterface, match=r"load_langs .*Cr5\.load_published"):
        model.load_langs(["en"])
    with pytest.warns(DeprecatedInterface, match=r"get_document_embedding .*encode\(text, lang\)") as caught:
        model.get_document_embedding(["dog"], "en")
    assert caught[0].filename == __file__
    with pytest.warns(DeprecatedInterface, match=r"transform .*encode\(texts, lang\)"):
        model.transform(["dog"], "en")
    with pytest.warns(DeprecatedInterface, match="Cr5Model"):
        later = Cr5Model("joint_4", folder)
    for method in ("store_model_in_db", "create_search_indexes_on_disk", "search_similar_documents_on_disk"):
        with pytest.raises(Cr5Error, match=r"cr5 convert|Index\."):
            getattr(later, method)("en")
    with pytest.raises(Cr5Error, match="`model_dir` is missing"):
        Cr5Model("joint_4", level_db_dir=folder)
