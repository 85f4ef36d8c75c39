"""An index: input of other kinds, adding, replacing and deleting documents, and its folder."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import madeup
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from index_documents import FEW, contents, given, refused
from limits import ordinary_user

from cr5 import Cr5, Document, DocumentsReplaced, FewKnownWords, InputSkipped, LanguageLeftOut, Skipped, write
from cr5.errors import Cr5Error
from cr5.hashing import hash_texts
from cr5.index import Index, IngestCounts, IngestSettings
from cr5.index.ingest import in_model_languages


def test_an_index_has_a_length_and_says_what_it_holds(full: Index, tmp_path: Path, model_folder: Path) -> None:
    assert len(full) == 450
    assert repr(full) == f"Index({str(full.folder)!r}, store='LanceDB', rank=60, langs=['aa', 'bb', 'cc'])"
    with Index.create(tmp_path / "index", model_folder) as empty:
        assert len(empty) == 0
        assert empty
    assert repr(empty) == f"Index({str(tmp_path / 'index')!r}, closed)"


@pytest.mark.parametrize(
    ("ids", "problem"),
    [(5, "`ids` is 5"), (None, "`ids` is None"), (["aa:Q001", 5], "`ids[1]` is 5"), (b"x", "`ids` is b'x'")],
)
def test_ids_that_are_not_strings_are_named(full: Index, ids: Any, problem: str) -> None:
    assert refused(lambda: full.delete(ids)).startswith(problem)
    assert refused(lambda: full.get(ids)).startswith(problem)
    several: Any = {"aa:Q001"}
    assert [document.id for document in full.get(several)] == ["aa:Q001"]


# Input of other kinds


@pytest.mark.slow
def test_a_data_frame_and_a_model_in_memory_are_enough(documents: list[Document], model: Cr5, tmp_path: Path) -> None:
    frame, two, three = pd.DataFrame(documents), cast(int, np.int8(2)), cast(int, np.int64(3))
    with Index.create(tmp_path / "index", model) as index:
        assert index.add(frame).new == len(documents)
        assert index.add(pl.from_pandas(frame)).unchanged == len(documents)
        assert index.add(frame.drop(columns="url").to_dict("records")).unchanged == len(documents)
        text = documents[0].text
        plain = index.search(text, k=3).hits
        assert index.search(text, k=three).hits == plain
        assert [hit.id for hit in index.similar(plain[0].id, k=two).hits] == [
            hit.id for hit in index.similar(plain[0].id, k=2).hits
        ]
        smaller = Cr5(**(madeup.SETTINGS | {"rank": 20})).fit(frame)
        assert index.reindex(smaller).total == len(documents)
        assert index.model.rank == 20
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_rows_that_cannot_be_indexed_are_named_or_counted(model_folder: Path, tmp_path: Path) -> None:
    frame = pd.DataFrame({"concept": ["1", "2"], "lang": ["aa", "aa"], "text": [madeup.word("aa", 3), None]})
    with Index.create(tmp_path / "index", model_folder) as index:
        assert refused(lambda: index.add(frame)).startswith("`documents[1]`: field 'text' is ")
        skipped = Skipped()
        assert index.add(frame, on_error="skip", skipped=skipped).new == 1
        assert skipped.counts == {"missing field": 1}
        assert refused(lambda: index.search("x", k=2.5)) == "`k=2.5` must be a whole number of at least 0"  # type: ignore[arg-type]


def test_files_of_other_formats_in_a_folder_are_not_indexed_with_a_warning(model_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    write(tmp_path / "corpus/a.jsonl", [Document("1", "aa", madeup.word("aa", 3))])
    (tmp_path / "corpus/b.txt").touch()
    with Index.create(tmp_path / "index", model_folder) as index:
        with pytest.warns(InputSkipped, match="1: file of another format"):
            assert index.add(tmp_path / "corpus").new == 1
        skipped = Skipped()
        assert index.add(tmp_path / "corpus", skipped=skipped).unchanged == 1
        assert skipped.counts == {"file of another format": 1}


def test_a_model_that_is_not_fitted_makes_no_index(tmp_path: Path) -> None:
    assert refused(lambda: Index.create(tmp_path / "index", Cr5())).startswith("the model is not fitted")
    assert list(tmp_path.iterdir()) == []


# Writing


def test_documents_are_returned_as_added_and_adding_them_again_changes_nothing(index: Index) -> None:
    assert index.add(FEW) == IngestCounts(new=90)
    assert contents(index) == given(FEW)
    assert index.add(FEW) == IngestCounts(unchanged=90)
    assert contents(index) == given(FEW)
    assert [entry.title for entry in index.get(["bb:Q003", "nothing", "aa:Q001"])] == ["bb 3", "aa 1"]
    about = index.about()
    assert about["documents"] == {"aa": 30, "bb": 30, "cc": 30} == about["background"]
    assert about["rows"] == 90


def test_another_text_or_title_replaces_a_document(index: Index) -> None:
    index.add(FEW)
    changed = [replace(FEW[0], text=FEW[3].text), replace(FEW[1], title="new"), FEW[2]]
    assert index.add(changed) == IngestCounts(renewed=2, unchanged=1)
    assert contents(index) == given([*changed, *FEW[3:]])
    assert {hit.id for hit in index.search(FEW[3].text, "aa", k=2, langs=["aa"]).hits} == {"aa:Q000", "aa:Q001"}


def test_documents_without_known_words_are_counted_and_deleted(index: Index) -> None:
    index.add(FEW[:6])
    gone = [replace(FEW[0], text="zzz"), Document("Q1", "fr", "le chien"), Document("Q2", "bb", "zzz")]
    with (
        pytest.warns(LanguageLeftOut, match="no language fr; its languages are aa, bb, cc"),
        pytest.warns(FewKnownWords, match=r"2 documents \(aa 1, bb 1\) without a word that the model knows"),
    ):
        added = index.add(gone)
    assert (added.total, added.blank, added.unknown) == (0, {"aa": 1, "bb": 1}, {"fr": 1})
    assert contents(index) == given(FEW[1:6])


def test_of_several_unknown_languages_each_is_named_with_those_that_may_be_meant() -> None:
    rows = pa.table({"lang": ["fr", "pt", "en"]})
    with pytest.warns(LanguageLeftOut) as caught:
        in_model_languages(rows, ["en", "pt-BR", "pt-PT"], IngestCounts())
    assert str(caught[0].message).startswith(
        "documents are left out: the index has no languages fr, pt; its languages are en, pt-BR, pt-PT; "
        "use 'pt-BR' or 'pt-PT' for pt; correct the codes"
    )


def test_documents_that_a_further_model_knows_no_word_of_are_named(index: Index, documents: list[Document]) -> None:
    index.add(FEW[:6])
    other = [replace(d, text=d.text.upper()) for d in documents]
    model = Cr5(rank=20, ridge=1.0, min_documents=2, subwords=False, lowercase=False).fit(other)
    with pytest.warns(FewKnownWords, match=r"6 documents \(aa 2, bb 2, cc 2\) without a word that the model knows"):
        assert index.reindex(model).total == 0


def test_several_documents_of_one_concept_are_numbered(index: Index) -> None:
    several = [replace(FEW[0], title=str(i)) for i in range(3)] + [replace(FEW[0], concept="Q000#2", title="its own")]
    index.add(several)
    titles = {name: fields[3] for name, fields in contents(index).items()}
    assert titles == {"aa:Q000": "0", "aa:Q000#2": "1", "aa:Q000#3": "2", "aa:Q000#2#2": "its own"}
    assert index.add(several) == IngestCounts(unchanged=4)


def titles(index: Index) -> dict[str, str]:
    return {name: fields[3] for name, fields in contents(index).items()}


def of_one_concept(*names: str) -> list[Document]:
    return [replace(FEW[0], title=name) for name in names]


@pytest.mark.parametrize("rows", [1, 8192])
def test_documents_of_one_concept_keep_their_ids_however_they_are_added_again(
    tmp_path: Path, model_folder: Path, rows: int
) -> None:
    with Index.create(tmp_path / "index", model_folder, settings=IngestSettings(batch_rows=rows)) as index:
        several = of_one_concept("a", "b", "c")
        index.add(several)
        before = titles(index)
        assert before == {"aa:Q000": "a", "aa:Q000#2": "b", "aa:Q000#3": "c"}
        for again in (several[::-1], several[1:], several[2:], [several[2], several[0]]):
            assert index.add(again) == IngestCounts(unchanged=len(again))
            assert titles(index) == before
        index.delete("aa:Q000")
        assert index.add(several[1:2]) == IngestCounts(unchanged=1)
        assert index.add(several[1:]) == IngestCounts(unchanged=2)
        assert index.add(several) == IngestCounts(new=1, unchanged=2)
        assert titles(index) == before


@pytest.mark.parametrize("rows", [1, 8192])
def test_all_documents_of_a_concept_replace_its_earlier_ones_without_a_warning(
    tmp_path: Path, model_folder: Path, rows: int
) -> None:
    with Index.create(tmp_path / "index", model_folder, settings=IngestSettings(batch_rows=rows)) as index:
        index.add(of_one_concept("a"))
        assert index.add(of_one_concept("new")) == IngestCounts(renewed=1)
        index.add(of_one_concept("a", "b", "c"))
        assert index.add(of_one_concept("new", "a", "c", "d")).partly_replaced == {}
        assert sorted(titles(index).values()) == ["a", "c", "d", "new"]


@pytest.mark.parametrize("rows", [1, 8192])
def test_a_call_that_replaces_only_some_documents_of_a_concept_warns_of_it(
    tmp_path: Path, model_folder: Path, rows: int
) -> None:
    with Index.create(tmp_path / "index", model_folder, settings=IngestSettings(batch_rows=rows)) as index:
        index.add([*of_one_concept("a", "b", "c"), FEW[1]])
        with pytest.warns(DocumentsReplaced, match=r"others stay: 'aa:Q000' \(1 document\).*`ids`"):
            counts = index.add([*of_one_concept("b", "d"), replace(FEW[1], title="new")])
        assert (counts.renewed, counts.unchanged, counts.partly_replaced) == (2, 1, {"aa:Q000": 1})
        with pytest.warns(DocumentsReplaced, match="2 documents"):
            index.add(of_one_concept("zzz", "e")[1:])
        index.add(of_one_concept("f"), ids=["own"])
        assert titles(index)["own"] == "f"


@pytest.mark.parametrize("rows", [1, 8192])
def test_exact_copies_within_a_call_are_stored_once_and_counted(tmp_path: Path, model_folder: Path, rows: int) -> None:
    with Index.create(tmp_path / "index", model_folder, settings=IngestSettings(batch_rows=rows)) as index:
        assert index.add(of_one_concept("a", "b", "a", "a")) == IngestCounts(new=2, duplicates=2)
        assert index.add(of_one_concept("a", "a", "b")) == IngestCounts(unchanged=2, duplicates=1)
        assert titles(index) == {"aa:Q000": "a", "aa:Q000#2": "b"}
        assert index.add(of_one_concept("a", "a"), ids=["x", "y"]) == IngestCounts(new=2)


def test_copies_that_an_earlier_version_stored_stay(index: Index) -> None:
    index.add(of_one_concept("a", "a", "b"), ids=["aa:Q000", "aa:Q000#2", "aa:Q000#3"])
    assert index.add(of_one_concept("a", "a", "b")) == IngestCounts(unchanged=2, duplicates=1)
    assert titles(index) == {"aa:Q000": "a", "aa:Q000#2": "a", "aa:Q000#3": "b"}


def test_ids_may_be_given(index: Index) -> None:
    skipped = Skipped()
    texts = [FEW[0], replace(FEW[1], text=""), replace(FEW[0], title="another")]
    index.add(texts, ids=["a", "b", "c"], on_error="skip", skipped=skipped)
    assert [(document.id, document.title) for document in index.get(["a", "b", "c"])] == [
        ("a", FEW[0].title), ("c", "another")
    ]  # fmt: skip
    assert skipped.total == 1
    index.add([replace(FEW[1], title="new")], ids=["c"])
    assert [(document.lang, document.title) for document in index.get("c")] == [(FEW[1].lang, "new")]
    assert len(index) == 2


@pytest.mark.parametrize(
    ("ids", "facts"),
    [
        (["a"], ["`ids`", "1 ids"]),
        (["a", "b", "c"], ["`ids`", "3 ids", "2 documents"]),
        (["a", "a"], ["`ids[1]`", "'a'"]),
        (["a", ""], ["`ids[1]`", "''"]),
    ],
)
def test_ids_that_are_too_few_too_many_or_not_unique_are_errors(index: Index, ids: list[str], facts: list[str]) -> None:
    with pytest.raises(Cr5Error) as caught:
        index.add(FEW[:2], ids=ids)
    assert all(fact in str(caught.value) for fact in facts)
    assert len(index) == 0


def test_a_document_whose_language_is_no_longer_one_of_the_model_is_deleted(index: Index) -> None:
    index.add(FEW[:2], ids=["a", "b"])
    with pytest.warns(LanguageLeftOut, match="no language fr"):
        counts = index.add([replace(FEW[0], lang="fr"), FEW[1]], ids=["a", "b"])
    assert (counts.unknown, counts.unchanged) == ({"fr": 1}, 1)
    assert [document.id for document in index.get(["a", "b"])] == ["b"]
    assert index.search(FEW[0].text, "aa", k=90, langs=[FEW[0].lang]).hits == []


def test_nul_characters_become_spaces(index: Index) -> None:
    index.add([replace(FEW[0], text=FEW[0].text + "\0end", title="a\0b")])
    [entry] = index.get(["aa:Q000"])
    assert (entry.title, entry.text) == ("a b", FEW[0].text + " end")


def test_deleted_documents_are_not_found(index: Index) -> None:
    index.add(FEW)
    assert index.delete(["aa:Q000", "bb:Q000", "missing"]) == 2
    assert {hit.id for hit in index.search(FEW[0].text, "aa", k=90).hits} == set(given(FEW)) - {"aa:Q000", "bb:Q000"}


def test_the_background_grows_with_the_index_and_does_not_depend_on_the_order(
    tmp_path: Path, model_folder: Path
) -> None:
    settings = IngestSettings(batch_rows=7, sample_rows=12, min_sample_rows=1)
    samples = []
    for name, order in [("a", FEW), ("b", FEW[::-1])]:
        index = Index.create(tmp_path / name, model_folder, settings=settings)
        index.add(order[:6])
        small = index.about()["background"]
        index.add(order)
        assert set(small.values()) == {2}
        assert index.about()["background"] == {"aa": 12, "bb": 12, "cc": 12}
        index.refresh()
        assert len(list(index._active.folder.glob("background-*.npz"))) == 1
        samples.append(index._active.background)
        for batch in index._active.store.scan(("concept", "vector", "hubness")):
            vectors = np.array(batch["vector"].to_pylist(), np.float32)
            expected = index._active.background.hubness(vectors, hash_texts(batch["concept"].to_pylist()))
            np.testing.assert_allclose(np.array(batch["hubness"].to_pylist()), expected, atol=1e-6)
        index.close()
    for lang in madeup.LANGS:
        np.testing.assert_array_equal(samples[0].vectors[lang], samples[1].vectors[lang])


# Folders


def test_a_missing_or_damaged_index_is_an_error(tmp_path: Path, model_folder: Path) -> None:
    folder = tmp_path / "index"
    assert refused(lambda: Index.open(folder)).startswith(f"{folder}: there is no index in this folder")
    refused(lambda: Index.create(folder, tmp_path))  # there is no model
    assert not folder.exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    message = refused(lambda: Index.create(tmp_path / "full", model_folder))
    assert message.startswith(f"{tmp_path / 'full'}: the folder is not empty (thesis.tex)")
    index = Index.create(folder, model_folder)
    assert refused(lambda: Index.create(folder, model_folder)).startswith(f"{folder}: there is an index already")
    message = refused(lambda: Index.open(folder, store="postgresql://localhost/x"))
    assert message == f"{folder}: the documents are in this folder, not on a server; leave out `store`"
    record = json.loads((folder / "index.json").read_text())
    for content in ("", "[]", "{}", json.dumps({"format": 1}), json.dumps(record)[:-9]):
        (folder / "index.json").write_text(content)
        assert refused(lambda: Index.open(folder)).startswith(f"{folder}: its index.json is damaged")
    (folder / "index.json").write_text(json.dumps(record | {"format": 9}))
    assert refused(lambda: Index.open(folder)).startswith(f"{folder}: the index has format 9, this version reads 1")
    (folder / "index.json").write_text(json.dumps(record | {"store": "papyrus"}))
    assert "'papyrus'" in refused(lambda: Index.open(folder))
    index.close()


@pytest.mark.services
def test_no_password_is_stored(tmp_path: Path, model_folder: Path, url: str) -> None:
    secret = url.replace("postgres:@", "postgres:swordfish@")
    assert "swordfish" in secret
    index = Index.create(tmp_path / "index", model_folder, store=secret)
    index.add(FEW[:3])
    index.close()
    for path in tmp_path.rglob("*.json"):
        assert "swordfish" not in path.read_text()
    again = Index.open(tmp_path / "index")
    assert len(contents(again)) == 3
    again.close()


def test_an_index_contains_its_model_and_can_be_moved(tmp_path: Path, model_folder: Path, address: str | None) -> None:
    shutil.copytree(model_folder, tmp_path / "model")
    index = Index.create(tmp_path / "index", tmp_path / "model", store=address)
    index.add(FEW)
    index.close()
    shutil.rmtree(tmp_path / "model")
    (tmp_path / "index").rename(tmp_path / "moved")
    second = Index.create(tmp_path / "index", model_folder, store=address)
    moved = Index.open(tmp_path / "moved", store=address)
    assert contents(moved) == given(FEW)
    assert moved.search(FEW[0].text).hits[0].concept == "Q000"
    assert contents(second) == {}
    moved.close()
    second.close()


@pytest.mark.parametrize("part", ["documents", "**/*.lance/data/*", "model/*.txt", "model", ""])
def test_a_part_of_an_index_that_the_user_may_not_read_is_named_when_it_is_opened(
    index_folder: Path, part: str
) -> None:
    with TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = Path(place) / "index"
        shutil.copytree(index_folder, folder)
        for path in folder.rglob(".*"):
            path.chmod(0)  # locks and unfinished files are not read
        Index.open(folder).close()
        generation = folder / "generation-1"
        first = sorted(generation.glob(part))[0] if part else generation
        mode = first.stat().st_mode
        first.chmod(0)
        try:
            with ordinary_user() as user, pytest.raises(Cr5Error) as raised:
                Index.open(folder)
        finally:
            first.chmod(mode)
        assert str(raised.value) == f"{first}: permission denied; make it readable for uid {user}"
        with ordinary_user():
            Index.open(folder).close()
