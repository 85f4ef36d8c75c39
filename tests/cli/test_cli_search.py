"""The commands that search: what they print, where to, and how they fail."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import madeup
import pytest

from cr5 import Cr5, Document, write
from cr5.cli import run
from cr5.cli.options import parse_where
from cr5.index import Index, IngestCounts, RecallEstimate, ingest

FEW = madeup.corpus(concepts=40)
QUERY = madeup.text("bb", [3, 4, 5])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpora") / "few.jsonl"
    write(path, FEW)
    return path


@pytest.fixture(scope="module")
def folder(corpus: Path, model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of these documents. Read-only."""
    path = tmp_path_factory.mktemp("indexes") / "index"
    assert run(["index", str(model_folder), str(corpus), "-o", str(path), "--json"]) == 0
    return path


@pytest.fixture(scope="module")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "other"
    Cr5(**(madeup.SETTINGS | {"rank": 10})).fit(FEW).save(path)
    return path


@pytest.fixture(autouse=True)
def _no_leftover(capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()  # what the fixtures printed


@pytest.fixture
def run_json(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: object) -> Any:
        assert run([*map(str, arguments), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return call


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command that must end well within 80 columns; returns its standard output and its standard error."""

    def call(*arguments: object) -> tuple[str, str]:
        assert run([*map(str, arguments)]) == 0
        caught = capsys.readouterr()
        assert all(len(line) <= 80 for line in caught.out.splitlines() if "Next:" not in line and "Index " not in line)
        return caught.out, caught.err

    return call


@pytest.fixture
def fails(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: object) -> str:
        assert run([*map(str, arguments)]) == 1
        caught = capsys.readouterr()
        assert caught.out == ""
        assert caught.err.count("\n") == 1
        return caught.err.removeprefix("error: ").removesuffix("\n")

    return call


@pytest.mark.parametrize("command", ["index", "search", "pairs"])
def test_the_help_has_an_example_and_fits_the_terminal(command: str, printed: Any) -> None:
    out, _ = printed(command, "-h")
    assert re.search(rf"^ +cr5 {command}\b", out.split("Example")[1], re.MULTILINE)
    assert "…" not in out


# Indexing


@pytest.mark.slow
def test_an_index_is_built_updated_and_documents_are_deleted(
    tmp_path: Path, model_folder: Path, corpus: Path, printed: Any, run_json: Any
) -> None:
    out, err = printed("index", model_folder, corpus, "-o", tmp_path / "index")
    assert "120 documents, rank 60" in out
    assert "added: 120 new, 0 replaced, 0 unchanged" in out
    assert "Next: cr5 search" in out
    assert err == ""
    more = [Document("Q000", "aa", FEW[3].text), Document("Q1", "fr", "le chien"), Document("Q2", "cc", "zzz")]
    write(tmp_path / "more.jsonl", more)
    out, err = printed("index", model_folder, tmp_path / "more.jsonl", "-o", tmp_path / "index")
    assert "added: 0 new, 1 replaced, 0 unchanged\nleft out: 1 in other languages, 1 without a word" in out
    assert "documents are left out: 1 document (cc 1) without a word that the model knows could not be found" in err
    assert "documents are left out: the index has no language fr; its languages are aa, bb, cc" in err
    out, _ = printed("index", "-o", tmp_path / "index", "--delete", "aa:Q000", "--delete", "nothing", "--check")
    assert "deleted: 1; not in the index: 1" in out
    assert "search is exact: there are too few documents for an approximate index" in out
    found = run_json("index", model_folder, corpus, "-o", tmp_path / "index", "--langs", "aa", "--check")
    assert found["added"] == vars(IngestCounts(new=1, unchanged=39))
    assert found["read"] == 40
    assert found["about"]["documents"] == {"aa": 40, "bb": 40, "cc": 40}
    assert found["check"] == {"recall": 1.0, "queries": 120, "k": 10, "kind": "none"}
    assert (found["deleted"], found["reindexed"], found["skipped"]) == (None, None, {})


@pytest.mark.slow
def test_another_model_needs_the_option_reindex(
    tmp_path: Path, model_folder: Path, other_model: Path, corpus: Path, run_json: Any, fails: Any, printed: Any
) -> None:
    index = tmp_path / "index"
    run_json("index", model_folder, corpus, "-o", index)
    assert fails("index", other_model, corpus, "-o", index) == (
        f"{index}: the index was built with another model than {other_model}; "
        "name that one, or encode all documents again with --reindex"
    )
    found = run_json("index", other_model, corpus, "-o", index, "--reindex")
    assert found["reindexed"]["new"] == 120
    assert found["added"]["unchanged"] == 120
    assert found["about"]["rank"] == 10
    assert run_json("index", other_model, "-o", index, "--reindex")["reindexed"] is None  # it has that model
    _, err = printed("index", other_model, "-o", index, "--reindex")
    assert f"{index}: the index was built with this model, so that nothing is encoded again" in err


def test_reindexing_names_the_option_that_deletes_documents_in_other_languages(
    tmp_path: Path, model_folder: Path, corpus: Path, run_json: Any, fails: Any
) -> None:
    index, smaller = tmp_path / "index", tmp_path / "smaller"
    run_json("index", model_folder, corpus, "-o", index)
    Cr5.load(model_folder).subset(langs=["aa", "bb"]).save(smaller)
    assert fails("index", smaller, "-o", index, "--reindex") == (
        "reindexing would delete 40 documents in languages that the model lacks (cc 40); use a model that has them, or "
        "delete them with --drop-languages cc"
    )
    assert fails("index", smaller, corpus, "-o", index, "--drop-languages", "cc").startswith("--drop-languages applies")
    found = run_json("index", smaller, "-o", index, "--reindex", "--drop-languages", "cc")
    assert (found["reindexed"]["unknown"], found["about"]["documents"]) == ({"cc": 40}, {"aa": 40, "bb": 40})


def test_a_model_that_was_trained_again_in_the_same_way_needs_no_reindexing(
    tmp_path: Path, model_folder: Path, corpus: Path, printed: Any, run_json: Any
) -> None:
    again = tmp_path / "again"
    copy = Cr5.load(model_folder)
    copy._report["seconds"] += 1.0  # as another run would take
    copy.save(again)
    assert (again / "model.json").read_bytes() != (model_folder / "model.json").read_bytes()
    run_json("index", model_folder, corpus, "-o", tmp_path / "index")
    out, err = printed("index", again, corpus, "-o", tmp_path / "index")
    assert "added: 0 new, 0 replaced, 120 unchanged" in out
    assert err == ""
    assert run_json("index", again, "-o", tmp_path / "index", "--reindex")["reindexed"] is None


@pytest.mark.slow
def test_invalid_lines_are_errors_or_are_counted(tmp_path: Path, model_folder: Path, printed: Any, fails: Any) -> None:
    path = tmp_path / "bad.jsonl"
    write(path, FEW[:6])
    with path.open("a") as file:
        file.write("{}\n")
    assert fails("index", model_folder, path, "-o", tmp_path / "index").startswith(f"{path}:7: ")
    out, err = printed("index", model_folder, path, "-o", tmp_path / "index", "--on-error", "skip")
    assert "6 documents" in out
    assert "skipped 1: " in err


def test_contradicting_arguments_are_errors_before_anything_is_written(
    tmp_path: Path, model_folder: Path, fails: Any
) -> None:
    index = tmp_path / "index"
    nothing = "there is nothing to index; name MODEL and DOCS, or pass --delete, --refresh or --check"
    assert fails("index", "-o", index) == nothing
    assert fails("index", "-o", index, "--reindex") == nothing
    assert fails("index", model_folder, "-o", index) == (
        f"MODEL is {model_folder}, but there are no DOCS to encode with it; name DOCS, or pass --reindex"
    )
    assert "leave out MODEL" in fails("index", model_folder, "-o", index, "--delete", "aa:Q000")
    for option in (["--group"], ["--sort", "year"], ["--prefer", "aa"]):
        assert f"{option[0]} does not apply to --mode dense" in fails("search", index, "x", "--mode", "dense", *option)
    missing = f"{index}: there is no index in this folder; "
    assert fails("index", "-o", index, "--check") == f"{missing}build one with cr5 index MODEL DOCS -o {index}"
    assert fails("search", index, "kaka") == f"{missing}check the path, or build the index first"
    use = "build an index with it, or name the folder of one"
    assert fails("search", model_folder, "kaka") == f"{model_folder} is a model, and not an index; {use}"
    file = tmp_path / "corpus.csv"
    file.touch()
    assert fails("search", file, "kaka") == f"{file} is a file, not a folder; name the folder of an index"
    assert fails("index", model_folder, "nofile.csv", "-o", index) == (
        "nofile.csv: no such file or folder; check the spelling"
    )
    assert not index.exists()


@pytest.mark.slow
def test_after_an_interruption_the_command_says_how_to_resume(
    tmp_path: Path,
    model_folder: Path,
    corpus: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ingest, "write_documents", interrupted)
    assert run(["index", str(model_folder), str(corpus), "-o", str(tmp_path / "index")]) == 130
    assert capsys.readouterr().err == "stopped; indexed documents are kept, run the same command again to resume\n"


def test_poor_recall_is_shown_with_a_warning(folder: Path, printed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Index, "check", lambda index: RecallEstimate(0.9, 200, 10, "HNSW"))
    out, err = printed("index", "-o", folder, "--check")
    assert "recall@10 0.900 over 200 queries, approximate against exact search" in out
    assert "recall is below 0.97" in err


# Searching


def test_a_search_shows_rank_id_title_score_and_text(folder: Path, printed: Any) -> None:
    out, err = printed("search", folder, QUERY, "-k", "3")
    rows = [line.split() for line in out.splitlines() if re.match(r" *\d ", line)]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert all(row[1][:4] in {f"{lang}:Q" for lang in madeup.LANGS} for row in rows)
    assert all(row[1].startswith(f"{row[2]}:") for row in rows)  # titles are "aa 7"
    assert re.search(r"language of the query: bb \(confidence \d+ %\); set another with --lang", out)
    assert err == ""
    assert "read as" not in printed("search", folder, QUERY, "--lang", "bb")[0]


def test_documents_without_a_title_show_their_whole_id_and_their_text_once(
    tmp_path: Path, model_folder: Path, printed: Any
) -> None:
    name = "a-name/" + "x" * 25
    write(tmp_path / "few.jsonl", [Document(name if d.concept == "Q000" else d.concept, d.lang, d.text) for d in FEW])
    printed("index", model_folder, tmp_path / "few.jsonl", "-o", tmp_path / "index")
    out, _ = printed("search", tmp_path / "index", FEW[0].text, "--in", FEW[0].lang, "-k", "1")
    lines = [line for line in out.splitlines() if line.strip()]
    assert lines[0].split() == ["id", "score", "text"]
    assert "".join(line[4:25].strip() for line in lines[2:4]) == f"{FEW[0].lang}:{name}"
    out, _ = printed("pairs", tmp_path / "index", "--between", "aa,bb", "-k", "40")
    assert all(f"{lang}:Q00{number}" in out for lang in ("aa", "bb") for number in range(1, 10))


def test_the_json_of_a_search_has_the_hits_of_the_index(folder: Path, run_json: Any) -> None:
    options = ("--mode", "dense", "--measure", "cosine", "--offset", "2", "--explain")
    found = run_json("search", folder, QUERY, "--in", "aa,cc", "-k", "4", *options)
    index = Index.open(folder)
    result = index.search(QUERY, k=4, offset=2, langs=["aa", "cc"], mode="dense", measure="cosine")
    query, hits = result.query, result.hits
    index.close()
    assert (found["lang"], found["confidence"], found["guessed"]) == (query.lang, query.confidence, True)
    assert (found["tokens"], found["suggestion"], found["mode"]) == (query.tokens, None, "dense")
    assert [(hit["id"], hit["score"]) for hit in found["hits"]] == [(hit.id, hit.score) for hit in hits]
    assert {hit["lang"] for hit in found["hits"]} <= {"aa", "cc"}
    words = set(QUERY.split())
    assert all(pair[0] in words for hit in found["hits"] for pair in hit["pairs"])
    assert all(hit["snippet"].strip("… ")[:20] in hit["text"] for hit in found["hits"])


def test_explain_lists_the_parts_of_scores_and_pairs_of_words(folder: Path, printed: Any, run_json: Any) -> None:
    out, _ = printed("search", folder, QUERY, "--explain", "-k", "2")
    assert out.count(f"{QUERY.split()[0]} ~ ") + out.count(f"{QUERY.split()[1]} ~ ") >= 1
    hit = run_json("search", folder, QUERY, "-k", "2")["hits"][0]
    assert any(f"{name} {value:.2f}" in out for name, value in hit["parts"].items())
    assert hit["score"] == pytest.approx(sum(hit["parts"].values()), abs=1e-6)
    assert hit["words"]


def test_a_grouped_search_shows_one_document_of_each_concept(folder: Path, printed: Any, run_json: Any) -> None:
    found = run_json("search", folder, QUERY, "-k", "3", "--group", "--prefer", "cc")["hits"]
    assert len({hit["concept"] for hit in found}) == 3
    assert all({version["lang"] for version in hit["versions"]} | {hit["lang"]} == {"aa", "bb", "cc"} for hit in found)
    out, _ = printed("search", folder, QUERY, "-k", "3", "--group", "--prefer", "cc")
    others = ", ".join(f"{version['lang']} {version['title']}" for version in found[0]["versions"])
    assert f"also {others}" in out
    second, _ = printed("search", folder, QUERY, "-k", "1", "--offset", "1", "--group", "--prefer", "cc")
    assert re.search(rf"^ 2 +{found[1]['id']} ", second, re.MULTILINE)


@pytest.mark.parametrize(
    ("conditions", "where"),
    [
        (["year>=2000", "year<2010"], {"year": {">=": 2000, "<": 2010}}),
        (["kind = manual"], {"kind": "manual"}),
        (["kind==manual"], {"kind": "manual"}),
        (['code="007"', "old!=true"], {"code": "007", "old": {"!=": True}}),
        (['tags=["a", "b"]'], {"tags": ["a", "b"]}),
        (["title=a=b"], {"title": "a=b"}),
        ([], None),
    ],
)
def test_conditions_on_fields_are_written_with_operators(conditions: list[str], where: dict[str, Any] | None) -> None:
    assert parse_where(conditions) == where


def test_a_search_is_restricted_and_ordered_by_fields(tmp_path: Path, model_folder: Path, run_json: Any) -> None:
    documents = [Document(f"Q{year}", "bb", QUERY, fields={"year": year}) for year in (2001, 1999, 2010)]
    write(tmp_path / "few.jsonl", documents)
    run_json("index", model_folder, tmp_path / "few.jsonl", "-o", tmp_path / "index")
    found = run_json("search", tmp_path / "index", QUERY, "--where", "year>=2000", "--sort", "-year")["hits"]
    assert [hit["fields"] for hit in found] == [{"year": 2010}, {"year": 2001}]


def test_the_fields_of_an_index_are_shown_and_an_unknown_one_is_named(
    tmp_path: Path, model_folder: Path, run_json: Any, printed: Any, fails: Any
) -> None:
    fields: list[dict[str, Any]] = [{"year": 1, "tags": ["a"], "by": {"name": "b"}}, {"year": "old", "\x1b": None}]
    write(tmp_path / "few.jsonl", [Document(f"Q{i}", "bb", QUERY, fields=each) for i, each in enumerate(fields)])
    index = tmp_path / "index"
    run_json("index", model_folder, tmp_path / "few.jsonl", "-o", index)
    listed = "'\\x1b' (null), by.name (strings), tags (strings), year (numbers and strings)"
    assert f"fields: {listed}\n" in " ".join(printed("info", index)[0].split()) + "\n"
    assert run_json("info", index)["fields"]["tags"] == "strings"
    assert fails("search", index, QUERY, "--where", "yaer>1", "--where", "tags=a") == (
        f"no document matches --where yaer>1 --where tags=a; there is no field 'yaer'; the fields are {listed}"
    )
    assert fails("search", index, QUERY, "--where", "tags>1").endswith(f"tags>1; the fields are {listed}")


def test_a_wrong_condition_is_an_error(folder: Path, fails: Any) -> None:
    for condition in ("year", "=2000", " >2"):
        assert f"--where {condition!r} is not a condition" in fails("search", folder, "kaka", "--where", condition)
    for second in ("year=2001", "year>1"):
        message = fails("search", folder, "kaka", "--where", "year=2000", "--where", second)
        assert f"--where {second!r} contradicts an earlier condition on year" in message
    assert "--where" in fails("search", folder, "kaka", "--where", 'year>["a"]')


def test_like_searches_for_the_text_of_a_file(folder: Path, tmp_path: Path, run_json: Any, fails: Any) -> None:
    (tmp_path / "like.txt").write_text(FEW[0].text)
    assert run_json("search", folder, "--like", tmp_path / "like.txt", "-k", "1")["hits"][0]["concept"] == "Q000"
    message = "give either a text to search for or --like FILE"
    assert fails("search", folder) == message
    assert fails("search", folder, "kaka", "--like", tmp_path / "like.txt") == message
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    missing = tmp_path / "missing.txt"
    assert fails("search", folder, "--like", missing) == f"{missing}: no such file or directory; check the path"
    assert fails("search", folder, "--like", tmp_path) == f"{tmp_path}: is a directory; name a file in it"
    assert fails("search", folder, "--like", tmp_path / "latin.txt") == (
        f"{tmp_path / 'latin.txt'}: byte 0xe9 at position 4 is not UTF-8; "
        "convert the file, e.g. with iconv -f windows-1252 -t utf-8"
    )


def test_a_query_without_a_word_is_an_error(folder: Path, fails: Any, tmp_path: Path) -> None:
    for query in ("", "  ", "?!"):
        assert fails("search", folder, query) == "the query has no letter or digit; give words to search for"
    (tmp_path / "blank.txt").write_text("\n")
    assert fails("search", folder, "--like", tmp_path / "blank.txt") == (
        f"{tmp_path / 'blank.txt'} has no letter or digit; give words to search for"
    )


def test_a_search_without_hits_says_why(folder: Path, printed: Any, fails: Any, run_json: Any) -> None:
    assert printed("search", folder, "zzz Zzzz", "--lang", "aa") == (
        "",
        "warning: nothing found; the query was read as aa: zzz, zzzz, of which the model knows none; try other words\n",
    )
    assert "set its language with --lang" in printed("search", folder, "zzz")[1]
    many = printed("search", folder, QUERY, "--min-score", "1.1", "--in", "aa", "--in", "bb")[1]
    assert re.search(
        r"; the best score is \d\.\d\d, and --min-score leaves out those below 1.1; leave out --min-s", many
    )
    rare = f"{FEW[0].text.split()[0]} zzz yyyy xxxx wwww vvvv uuuu tttt"
    low = printed("search", folder, rare, "--lang", FEW[0].lang, "--sort", "-year")[1].strip()
    assert re.search(r"; the best score is 0\.\d\d, and --sort leaves out those below 0.3; leave out --sort$", low)
    assert "leave out --offset" in printed("search", folder, QUERY, "--offset", "900")[1]
    assert "the documents have no fields" in fails("search", folder, QUERY, "--where", "yaer>=2000")
    problem = "--sort names the field 'yaer', which no document of the index has; the documents have no fields"
    assert printed("search", folder, QUERY, "--sort", "-yaer")[1] == f"warning: {problem}\n"
    assert run_json("search", folder, QUERY, "--sort", "-yaer")["warnings"] == [problem]
    both = ("search", folder, QUERY, "--in", "aa", "--in", "bb", "-k", "50")
    assert {hit["lang"] for hit in run_json(*both)["hits"]} == {"aa", "bb"}
    assert "without the quotation marks" in printed("search", folder, f'"{" ".join(QUERY.split()[::-1])} zzz"')[1]
    assert fails("search", folder, "kaka", "--in", "xx") == (
        "the index has no language 'xx'; its languages are aa, bb, cc"
    )


def test_a_search_in_an_empty_index_says_that_it_is_empty(tmp_path: Path, model_folder: Path, printed: Any) -> None:
    index = tmp_path / "index"
    Index.create(index, model_folder).close()
    empty = f"warning: {index}: the index has no documents; add some with cr5 index MODEL DOCS -o {index}\n"
    assert printed("search", index, QUERY) == ("", empty)
    assert printed("search", index, QUERY, "--where", "year>=2000") == ("", empty)


def test_control_characters_in_documents_are_not_printed(tmp_path: Path, model_folder: Path, printed: Any) -> None:
    bad = Document("Q0", "aa", "\x1b[31m[bold]evil[/bold]\u202e " + FEW[0].text, "[red]\x1b]0;title\x07")
    write(tmp_path / "bad.jsonl", [bad])
    printed("index", model_folder, tmp_path / "bad.jsonl", "-o", tmp_path / "index")
    out, _ = printed("search", tmp_path / "index", FEW[0].text, "--explain")
    assert "[red] ]0;title" in out
    assert not set("\x1b\x07\u202e") & set(out)


# Pairs


def test_pairs_are_listed_with_their_words(folder: Path, printed: Any, run_json: Any, fails: Any) -> None:
    out, _ = printed("pairs", folder, "--between", "aa,cc", "-k", "3")
    assert " ~ " in out
    found = run_json("pairs", folder, "--between", "aa,cc", "-k", "10")
    assert len(found["pairs"]) == 10
    assert all(pair["a"]["lang"] == "aa" and pair["b"]["lang"] == "cc" and pair["words"] for pair in found["pairs"])
    assert sum(pair["a"]["concept"] == pair["b"]["concept"] for pair in found["pairs"]) >= 9
    assert (
        fails("pairs", folder, "--between", "aa")
        == "--between aa does not name two languages; write, for example, --between it,en"
    )


# PostgreSQL


def test_an_index_is_shown(folder: Path, run_json: Any, printed: Any) -> None:
    about = Index.open(folder).about()
    assert run_json("info", folder) == {"index": str(folder), "about": about, "fields": {}}
    text, _ = printed("info", folder)
    assert f"{len(FEW)} documents, rank {about['rank']}" in text
    for lang, count in about["documents"].items():
        assert re.search(rf"{lang} +{count}\b", text)


@pytest.mark.services
def test_an_index_in_postgresql_gives_the_same_hits_as_one_in_a_folder(
    tmp_path: Path, url: str, model_folder: Path, corpus: Path, folder: Path, run_json: Any, printed: Any
) -> None:
    out, _ = printed("index", model_folder, corpus, "-o", tmp_path / "index", "--store", url)
    assert "MB in PostgreSQL" in out
    in_server = run_json("search", tmp_path / "index", QUERY, "-k", "5")
    in_folder = run_json("search", folder, QUERY, "-k", "5")
    assert [hit["id"] for hit in in_server["hits"]] == [hit["id"] for hit in in_folder["hits"]]
    assert run_json("index", model_folder, corpus, "-o", tmp_path / "index")["added"]["unchanged"] == 120


def test_passages_are_counted_and_their_length_is_chosen_once(
    tmp_path: Path, model_folder: Path, corpus: Path, run_json: Any, printed: Any, fails: Any
) -> None:
    folder = tmp_path / "passages"
    out, _ = printed("index", model_folder, corpus, "-o", folder, "--passage-words", "20")
    assert "120 documents, 360 passages, rank" in out
    assert run_json("index", model_folder, corpus, "-o", folder, "--passage-words", "20")["about"]["passages"] == 360
    assert "have 20 words, not 30" in fails("index", model_folder, corpus, "-o", folder, "--passage-words", "30")


def test_an_index_of_an_earlier_version_is_brought_up_to_date(tmp_path: Path, run_json: Any, printed: Any) -> None:
    saved = Path(__file__).parents[1] / "data" / "index-format-1" / "index"
    shutil.copytree(saved, tmp_path / "old")
    _, warning = printed("index", "-o", tmp_path / "old", "--delete", "missing")
    said = " ".join(warning.split())
    assert "30 documents cannot be found by their words" in said
    assert f"cr5 index -o {tmp_path}/old --refresh".replace(" ", "") in warning.replace("\n", "").replace(" ", "")
    _, warning = printed("search", tmp_path / "old", "words", "--lang", "aa")
    assert "30 documents cannot be found by their words" in " ".join(warning.split())
    about = run_json("index", "-o", tmp_path / "old", "--refresh")["about"]
    assert (about["full_text"], about["outdated"]) == (30, None)


def test_a_query_that_is_not_utf_8_is_refused_with_its_byte(tmp_path: Path, model_folder: Path, fails: Any) -> None:
    assert fails("search", tmp_path / "index", "caf\udce9") == (
        "the query is not UTF-8, it has the byte 0xe9; set the terminal to UTF-8, or use --like"
    )


def test_the_next_command_quotes_the_folder(tmp_path: Path, model_folder: Path, corpus: Path, printed: Any) -> None:
    index = tmp_path / "my index"
    out, _ = printed("index", model_folder, corpus, "-o", index)
    assert f"Next: cr5 search '{index}' \"WORDS\"" in out
