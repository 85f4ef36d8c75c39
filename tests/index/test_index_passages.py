"""Passages of long documents: how a text is split, and that their rows follow the documents in both stores."""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import madeup
import numpy as np
import pyarrow as pa
import pytest
from bm25_oracle import Words, assert_best, bm25
from hypothesis import example, given, settings
from hypothesis import strategies as st
from properties import up_to

from cr5 import CorpusError, Cr5, Document, Skipped
from cr5.corpus.fields import FIELDS
from cr5.corpus.inputs import in_batches
from cr5.errors import Cr5Error, FewKnownWords
from cr5.hashing import hash_texts
from cr5.index import Index, IngestCounts, snapshot
from cr5.index.background import Background
from cr5.index.passage_ingest import SPLIT_COLUMNS, write_passages
from cr5.index.passages import (
    _WORD,
    PassageSettings,
    nearest_passages,
    parse_passage_id,
    passage_settings,
    passage_spans,
    search_passage_terms,
)
from cr5.index.stores.base import Store
from cr5.index.stores.registry import store_for
from cr5.index.stores.rows import MAX_KEY_BYTES
from cr5.index.terms import QueryWord
from cr5.storage.json_files import write_json

SMALL = PassageSettings(20, 4)


def words(text: str) -> int:
    return sum(1 for _ in _WORD.finditer(text))


# Splitting a text

PIECES = st.sampled_from(
    ["word ", "a. ", "b! ", "\n", "\n\n", "  ", "语言", "。", "ภาษา", "x" * 100, "'s ", "...", "\x1f", "\0"]
)
LONG_TEXTS = st.lists(PIECES, max_size=400).map("".join) | st.text(max_size=600)


@settings(max_examples=up_to(200))
@given(LONG_TEXTS, st.sampled_from([SMALL, PassageSettings(10, 0), PassageSettings(10, 3), PassageSettings(21, 7)]))
@example("word " * 1000, PassageSettings())
@example("." * 5000, PassageSettings())
@example("\n \n" * 500 + "word " * 300 + "\n \n" * 500, PassageSettings())
def test_passages_cover_a_long_text_in_order_and_overlap_by_few_words(text: str, setting: PassageSettings) -> None:
    spans = passage_spans(text, setting)
    assert spans == passage_spans(text, setting)
    assert (not spans) == (words(text) <= 1.5 * setting.words)
    if spans:
        assert (spans[0][0], spans[-1][1]) == (0, len(text))
    for begin, end in spans:
        assert 0 < words(text[begin:end]) <= 2 * setting.words
        assert text[begin:end].strip()
    for (begin, end), (next_begin, next_end) in pairwise(spans):
        assert begin < next_begin <= end < next_end
        assert words(text[next_begin:end]) <= setting.overlap + 1  # a run without spaces may be cut within a word


def test_passages_begin_and_end_with_sentences_and_paragraphs_if_these_are_near() -> None:
    sentence = "One two three four five six seven eight nine ten. "
    text = sentence * 40
    for begin, end in passage_spans(text, PassageSettings(100, 20)):
        assert text[begin:end].startswith("One")
        assert text[begin:end].endswith("ten. ")
    paragraphs = "\n\n".join([sentence * 9] * 3)  # 270 words
    assert [end for _, end in passage_spans(paragraphs, PassageSettings(100, 20))] == [
        len(sentence * 9) + 2, 2 * len(sentence * 9) + 4, len(paragraphs),
    ]  # fmt: skip


@pytest.mark.parametrize(("text", "passages"), [("语言和文字", 3), ("ภาษาและตัวอักษร", 3), ("word ", 2)])
def test_text_without_spaces_is_split_by_a_number_of_characters(text: str, passages: int) -> None:
    characters = {"语": 700, "ภ": 1500, "w": 5 * 250}[text[0]]
    assert len(passage_spans((text * 400)[:characters], PassageSettings())) == passages
    assert passage_spans((text * 400)[: characters // 3], PassageSettings()) == ()


def test_settings_that_cannot_be_used_are_named() -> None:
    assert passage_settings(0, None) is None
    assert passage_settings(100, None) == PassageSettings(100, 20)
    for numbers, message in [
        ((9, None), "`passage_words=9`"),
        ((-1, None), "`passage_words=-1`"),
        ((150, 51), "`passage_overlap=51` must be from 0 to 50"),
        ((150, -1), "`passage_overlap=-1`"),
    ]:
        with pytest.raises(Cr5Error, match=message):
            passage_settings(*numbers)


# Rows


@pytest.fixture(params=["lance", pytest.param("postgres", marks=pytest.mark.services)])
def address(request: pytest.FixtureRequest) -> str | None:
    """The address of the store; None for the folder of the index."""
    return str(request.getfixturevalue("url")) if request.param == "postgres" else None


@pytest.fixture
def index(tmp_path: Path, model_folder: Path, address: str | None) -> Iterator[Index]:
    with Index.create(tmp_path / "index", model_folder, store=address, passage_words=20) as made:
        yield made


SHORT = madeup.corpus(concepts=4)  # texts of 41 words: two passages of 20


def long_document(concept: int, lang: str = "aa", texts: int = 4) -> Document:
    """A document whose text is those of several short ones, with a title of its own."""
    own = [document.text for document in madeup.corpus(concepts=10) if document.lang == lang]
    return Document(f"L{concept}", lang, "\n\n".join(own[concept : concept + texts]), f"title{concept} {lang}")


LONG = [long_document(i, lang) for i in range(5) for lang in ("aa", "bb")]


def rows_of(index: Index) -> dict[str, dict[str, Any]]:
    """All rows of passages, by id."""
    store = index._active.passages
    assert store is not None
    rows = [row for batch in store.scan([*store.schema.names]) for row in batch.to_pylist()]
    return {row["id"]: row for row in rows}


def expected_ids(documents: list[Document], setting: PassageSettings = SMALL) -> dict[str, tuple[Document, str]]:
    """The ids of passages of documents, with the document and the text of each."""
    return {
        f"{d.lang}:{d.concept}\x1f{number}": (d, d.text[begin:end])
        for d in documents
        for number, (begin, end) in enumerate(passage_spans(d.text, setting), 1)
    }


def assert_up_to_date(index: Index, documents: list[Document]) -> None:
    """Every row is what the documents and the background of the index make it."""
    rows, expected = rows_of(index), expected_ids(documents)
    assert set(rows) == set(expected)
    for row_id, (document, text) in expected.items():
        row = rows[row_id]
        assert (row["concept"], row["lang"], row["title"], row["url"], row["text"]) == (
            document.concept, document.lang, "", "", "",
        )  # fmt: skip
        vector = index.model.encode([text], document.lang)
        np.testing.assert_allclose(row["vector"], vector[0], atol=1e-6)
        hubness = index.background.hubness(vector, hash_texts([document.concept]))
        np.testing.assert_allclose(row["hubness"], hubness[0], atol=1e-5)
    found = search_passage_terms(
        index._active, [QueryWord(1.0, {madeup.word("aa", i): 1.0}) for i in range(250)], "aa", 1000
    )
    assert {f"{document_id}\x1f{number}" for document_id, number in found} == {
        row_id for row_id, (document, _) in expected.items() if document.lang == "aa"
    }
    assert index.about()["passages"] == len(expected)


def test_passages_are_rows_with_their_own_vector_and_the_concept_of_the_document(index: Index) -> None:
    assert index.add([*LONG, *SHORT]) == IngestCounts(new=len(LONG) + len(SHORT))
    assert_up_to_date(index, [*LONG, *SHORT])
    assert index.count() == {"aa": 9, "bb": 9, "cc": 4}
    assert index.add(LONG) == IngestCounts(unchanged=len(LONG))


def test_the_passages_nearest_to_a_vector_are_found(index: Index, model: Cr5) -> None:
    index.add(LONG)
    expected = expected_ids(LONG)
    vectors = {row_id: model.encode([text], document.lang)[0] for row_id, (document, text) in expected.items()}
    query = vectors["bb:L2\x1f3"]
    for langs in (None, ["aa"]):
        found = nearest_passages(index._active, query, 7, langs)
        cosines = {row_id: vector @ query for row_id, vector in vectors.items() if langs is None or row_id[:2] in langs}
        np.testing.assert_allclose([hit.cosine for hit in found], sorted(cosines.values())[:-8:-1], atol=1e-5)
        for document_id, number, cosine, hubness in found:
            assert cosine == pytest.approx(cosines[f"{document_id}\x1f{number}"], abs=1e-5)
            np.testing.assert_allclose(hubness, rows_of(index)[f"{document_id}\x1f{number}"]["hubness"], atol=1e-6)
    assert parse_passage_id("bb:L2\x1f3") == ("bb:L2", 3)


def test_passages_are_ranked_by_bm25_of_their_words_and_those_of_the_title(index: Index, model: Cr5) -> None:
    index.add(LONG)
    tokenise = model.settings.tokeniser.words
    held = {
        row_id: Words(document.lang, Counter(tokenise(document.title, "aa") + tokenise(text, "aa")))
        for row_id, (document, text) in expected_ids(LONG).items()
    }
    terms = {"title3": 1.0, LONG[0].text.split()[0]: 2.0, LONG[4].text.split()[50]: 1.0}
    words = [QueryWord(weight, {term: 1.0}) for term, weight in terms.items()]
    for k in (3, 100):
        found = search_passage_terms(index._active, words, "aa", k)
        names = [f"{document_id}\x1f{number}" for document_id, number in found]
        assert_best(names, list(found.values()), bm25(held, words, "aa"), k)


def test_a_filter_chooses_passages_by_the_fields_of_their_document(index: Index) -> None:
    rows = [(f"aa:{d.concept}", d.title, d.text, d.concept, d.lang, d.concept) for d in LONG if d.lang == "aa"]
    columns = dict(zip(SPLIT_COLUMNS, map(list, zip(*rows, strict=True)), strict=False))
    columns[FIELDS] = [f'{{"number":{i}}}' for i in range(len(rows))]
    write_passages(index._active, columns, ())
    vector = index.query(LONG[0].text, "aa").vector
    words = [QueryWord(1.0, {word: 1.0}) for word in set(LONG[0].text.split())]
    for where, ids in (({"number": 3}, {"aa:L3"}), ({"number": {"<": 2}}, {"aa:L0", "aa:L1"}), ({"number": 9}, set())):
        assert {hit.document_id for hit in nearest_passages(index._active, vector, 50, where=where)} == ids
        found = search_passage_terms(index._active, words, "aa", 50, where=where)
        assert {document_id for document_id, _ in found} <= ids


def test_passages_follow_documents_that_change_or_are_deleted(index: Index) -> None:
    index.add([*LONG, *SHORT])
    shorter, longer = long_document(0, "aa", 2), long_document(1, "aa", 6)
    gone, brief = replace(LONG[4], text="zzz " * 100), replace(LONG[6], text=madeup.word("aa", 1))
    with pytest.warns(FewKnownWords, match="1 document "):
        index.add([shorter, longer, gone, brief])
    now = [shorter, longer, brief, *(d for d in LONG if d.concept not in ("L0", "L1", "L2", "L3") or d.lang == "bb")]
    assert_up_to_date(index, [*now, *SHORT])
    assert index.delete(["aa:L0", "bb:L4", "missing"]) == 2
    now = [d for d in now if (d.lang, d.concept) not in {("aa", "L0"), ("bb", "L4")}]
    assert_up_to_date(index, [*now, *SHORT])


def test_a_passage_without_a_known_word_has_no_row(index: Index) -> None:
    known = LONG[0].text
    document = replace(LONG[0], text=f"{known}\n\n{'zzz ' * 30}")
    index.add([replace(document, text=known + f"\n\n{known}"), LONG[1]])
    index.add([document])
    unknown = [row_id for row_id, (_, text) in expected_ids([document]).items() if not set(text.split()) - {"zzz"}]
    assert unknown
    assert set(rows_of(index)) == set(expected_ids([document, LONG[1]])) - set(unknown)


def test_reindexing_and_refreshing_keep_passages_and_their_settings(index: Index, model: Cr5, tmp_path: Path) -> None:
    index.add([*LONG, *SHORT])
    index.reindex(model)
    assert_up_to_date(index, [*LONG, *SHORT])
    index.refresh()
    assert_up_to_date(index, [*LONG, *SHORT])
    assert index.about()["outdated"] is None
    with Index.open(index.folder, store=index._address) as opened:
        assert opened._active.passage_settings == SMALL
        assert_up_to_date(opened, [*LONG, *SHORT])


def test_an_index_without_passages_has_none(tmp_path: Path, model_folder: Path, address: str | None) -> None:
    with Index.create(tmp_path / "index", model_folder, store=address, passage_words=0) as index:
        index.add(LONG)
        index.reindex(model_folder)
        index.refresh()
        assert (index.about()["passages"], index.about()["outdated"]) == (0, None)
        assert nearest_passages(index._active, index.query(LONG[0].text).vector, 3) == []
        assert search_passage_terms(index._active, [QueryWord(1.0, {LONG[0].text.split()[0]: 1.0})], "aa", 3) == {}
        assert index.delete("aa:L0") == 1


def test_an_id_may_have_the_greatest_length(index: Index) -> None:
    longest = replace(LONG[0], concept="x" * (MAX_KEY_BYTES - len("aa:")))
    index.add([longest])
    assert set(rows_of(index)) == set(expected_ids([longest]))


# Control characters, which separate the id of a document from the number of a passage


@pytest.mark.parametrize("character", ["\x1f", "\0", "\t", "\x7f", "\x9f"])
def test_a_concept_with_a_control_character_is_refused_or_counted(index: Index, character: str) -> None:
    wrong, skipped = replace(SHORT[0], concept=f"Q{character}1"), Skipped()
    for documents in ([wrong], [SHORT[3], wrong]):
        with pytest.raises(CorpusError, match=r"`documents\[\d\]`: field 'concept' is 'Q\\[^']+1', which has a"):
            index.add(documents)
    assert index.add([SHORT[3], wrong], on_error="skip", skipped=skipped).new == 1
    assert skipped.counts == {"control character": 1}
    with pytest.raises(Cr5Error, match=r"`ids\[0\]` is 'x\\[^']+', which has a control character"):
        index.add([SHORT[0]], ids=[f"x{character}"])
    with pytest.raises(CorpusError, match="field 'lang'"):
        index.add([replace(SHORT[0], lang=f"a{character}a")])


def test_a_document_of_an_earlier_version_with_a_separator_in_its_id_is_kept(index: Index, model: Cr5) -> None:
    old = replace(LONG[0], concept="L\x1f7")
    [batch] = in_batches([LONG[0]])
    rows = batch.rows.set_column(0, "concept", pa.array(["L\x1f7"]))
    index.add([batch._replace(rows=rows)])
    assert index.get("aa:L\x1f7")[0].concept == "L\x1f7"
    index.reindex(model)
    assert_up_to_date(index, [old])
    assert index.delete("aa:L\x1f7") == 1
    assert rows_of(index) == {}


# Killed writers


class Killed(BaseException):
    """An exception that no code catches."""


class Killer:
    """Ends a run before one of its writing steps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps, self.at = 0, 10**9
        places: list[tuple[Any, str]] = [(Store, name) for name in ("upsert", "delete", "set_all_hubness")]
        for place, name in [*places, (snapshot, "write_json"), (Background, "save")]:
            monkeypatch.setattr(place, name, self._killable(getattr(place, name)))

    def _killable(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            self.steps += 1
            if self.steps == self.at:
                raise Killed
            return step(*arguments, **options)

        return run

    def kill(self, run: Callable[[], Any], at: int) -> bool:
        """Run until a step; return whether the run was killed."""
        self.steps, self.at = 0, at
        try:
            run()
        except Killed:
            return True
        finally:
            self.at = 10**9
        return False


def assert_answers(index: Index, documents: list[Document]) -> None:
    """Documents are found, and of passages whatever belongs to the present text of a document."""
    with Index.open(index.folder, store=index._address) as opened:
        assert opened.search(documents[-1].text, documents[-1].lang, k=1).hits
        for hit in nearest_passages(opened._active, opened.query(documents[-1].text).vector, 100):
            for document in opened.get(hit.document_id):
                parts = passage_spans(document.text, SMALL)[hit.number - 1 : hit.number]
                assert all(document.text[begin:end] for begin, end in parts)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:documents are left out")  # zzz is not a word of the model
def test_a_killed_change_is_put_right_by_repeating_it_or_by_a_refresh(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = [*LONG[:4], *SHORT[:3]]
    new = [long_document(0, "aa", 2), long_document(0, "bb", 6), replace(LONG[2], text="zzz"), LONG[3], *SHORT[:3]]
    kept = [d for d in new if d.text != "zzz"]
    index.add(old)
    killer, at = Killer(monkeypatch), 0
    runs: list[tuple[Callable[[], Any], list[Document]]] = [
        (lambda: index.add(new), kept),
        (lambda: index.delete(["aa:L0", "bb:L1"]), [d for d in old if d not in (LONG[0], LONG[3])]),
    ]
    for run, wanted in runs:
        at, killed = 0, True
        while killed:
            at += 1
            index.add(old)
            killed = killer.kill(run, at)
            assert_answers(index, old)
            run()
            assert_up_to_date(index, wanted)
        assert at > 2
    index.add(old)
    killer.kill(runs[0][0], 2)
    index.refresh()
    assert_up_to_date(index, [d for d in old if d.text in {document.text for document in index.get(list_ids(old))}])


def list_ids(documents: list[Document]) -> list[str]:
    return [f"{d.lang}:{d.concept}" for d in documents]


def test_a_refresh_deletes_passages_without_their_document_and_writes_missing_ones(index: Index) -> None:
    index.add([*LONG, *SHORT])
    active = index._active
    assert active.passages is not None
    active.store.delete(["aa:L0"])
    active.passages.delete(["bb:L1\x1f2", "bb:L2\x1f1"])
    hits = nearest_passages(active, index.query(LONG[0].text, "aa").vector, 5)
    assert "aa:L0" in {hit.document_id for hit in hits}
    assert index.get("aa:L0") == []
    index.refresh()
    assert_up_to_date(index, [*LONG[1:], *SHORT])


# Indexes written by earlier versions


def make_old(index: Index) -> None:
    """Make an index as an earlier version did, without passages."""
    folder = index.folder
    record = json.loads((folder / "index.json").read_text())
    active = index._active
    assert active.passages is not None
    location = snapshot._location(active.folder, record, index._address, "passages")
    store_for(record["store"]).drop(location)
    shutil.rmtree(location.folder, ignore_errors=True)
    del record["passages"]
    write_json(folder / "index.json", record)


DEFAULT_LONG = [long_document(0, lang, 10) for lang in ("aa", "bb")]


def test_an_index_of_an_earlier_version_opens_and_gets_passages_when_it_is_refreshed(
    tmp_path: Path, model_folder: Path, address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Index.create(tmp_path / "index", model_folder, store=address) as made:
        made.add([*DEFAULT_LONG, *SHORT])
        make_old(made)
    killer, at, killed = Killer(monkeypatch), 0, True
    with (
        Index.open(tmp_path / "index", store=address) as index,
        Index.open(tmp_path / "index", store=address) as reader,
    ):
        assert index.search(DEFAULT_LONG[0].text, "aa", k=1).hits[0].id == "aa:L0"
        index.add([replace(DEFAULT_LONG[1], title="changed")])
        about = index.about()
        assert (about["passages"], about["outdated"]) == (
            0, "long documents cannot be found by their passages; bring the index up to date with `refresh`"
        )  # fmt: skip
        while killed:
            at += 1
            killed = killer.kill(index.refresh, at)
            assert reader.search(DEFAULT_LONG[0].text, "aa", k=1).hits[0].id == "aa:L0"
            assert (reader.about()["outdated"] is None) == (not killed)
        assert at > 4
        assert set(rows_of(reader)) == set(expected_ids(DEFAULT_LONG, PassageSettings())) != set()
        index.delete("aa:L0")
        assert set(rows_of(reader)) == set(expected_ids(DEFAULT_LONG[1:], PassageSettings()))


def test_an_index_of_an_earlier_version_gets_passages_when_it_is_reindexed(
    tmp_path: Path, model_folder: Path, address: str | None
) -> None:
    with Index.create(tmp_path / "index", model_folder, store=address) as index:
        index.add(DEFAULT_LONG)
        make_old(index)
        index.reindex(model_folder)
        assert set(rows_of(index)) == set(expected_ids(DEFAULT_LONG, PassageSettings()))
        assert index.about()["outdated"] is None
