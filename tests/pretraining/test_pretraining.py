"""Pretraining on miniature dumps of a local mirror: its stages, what an interruption leaves, and what it forecasts."""

import bz2
import gzip
import json
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import dumps
import pytest
import search_dumps
import yaml
from fake_hub import TOKEN, FakeHub
from local_server import Fault
from mirror import Mirror, publish_search_index, publish_xml

from cr5 import Cr5, Cr5Error, demo, read, write
from cr5.cli import run
from cr5.model.folder_training import checkpoint_path
from cr5.pretraining import Forecast, Pretrained, forecast, pretrain
from cr5.pretraining.forecast import check_resources, estimate
from cr5.pretraining.held_out import hold_out, training_batches
from cr5.pretraining.stages import STAGES, work_path
from cr5.progress import Progress
from cr5.settings import make_settings
from cr5.sources.wikipedia.dump_listing import Dump, DumpFile
from cr5.sources.wikipedia.plan import WikipediaRequest
from cr5.sources.wikipedia.wiki import Wiki
from cr5.storage.json_files import write_json
from cr5.storage.model_files import open_model

pytestmark = [
    pytest.mark.slow,  # every test builds a corpus
    pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning"),  # in the hub's library
]

LANGS = ("da", "en", "it")
DATE = "20261101"
CONCEPTS = 120
SETTINGS: dict[str, Any] = {"rank": 20, "ridge": 1.0, "min_documents": 2}


class KilledError(BaseException):
    """Ends a run at a chosen point, as nothing catches it."""


def without_names(text: str) -> str:
    """The second to fifth sentence of an article, in which languages share few names."""
    return " ".join(re.split(r"(?<=[.!?])\s+", text)[1:5])


@pytest.fixture(scope="module")
def mirror() -> Iterator[Mirror]:
    """A mirror with three small Wikipedias, made of the built-in encyclopedia."""
    everything = demo.encyclopedia()
    concepts = sorted({document.concept for document in everything})[:CONCEPTS]
    with Mirror() as server:
        for lang in LANGS:
            own = {document.concept: document for document in everything if document.lang == lang}
            pages = [
                search_dumps.Page(10 + i, own[concept].title, without_names(own[concept].text), f"Q{i + 1}")
                for i, concept in enumerate(concepts)
            ]
            wiki = Wiki(lang, lang)
            items = [(page.id, "wikibase_item", str(page.item), None) for page in pages]
            publish_xml(server, wiki.name, DATE, {}, gzip.compress(dumps.page_props_sql(items, wiki.name)))
            parts = [search_dumps.bulk(half, wiki) for half in (pages[:60], pages[60:])]
            publish_search_index(server, wiki.name, DATE, [bz2.compress(part) for part in parts])
        yield server


@pytest.fixture
def request_(mirror: Mirror) -> WikipediaRequest:
    return WikipediaRequest(LANGS, mirror=mirror.url)


def make(request: WikipediaRequest, output: Path, **options: Any) -> Pretrained:
    """Pretrain with small settings, in this process."""
    with ThreadPoolExecutor(1) as executor:
        chosen: dict[str, Any] = {"settings": SETTINGS, "executor": executor, "threads": 1} | options
        made = pretrain(request, output, **chosen)
    assert made is not None
    return made


def facts(output: Path) -> dict[str, Any]:
    """What a run leaves, without times."""
    opened, work = open_model(output), work_path(output)
    scores = json.loads((work / "evaluation" / "run.json").read_text())["scores"]
    return {
        "model": opened.digest(*opened.langs),
        "ranks": [score["ranks"] for score in scores],
        "card": (output / "README.md").read_text(),
        "held out": sorted((d.concept, d.lang) for d in read(work / "held-out.parquet")),
        "stages": list(json.loads((work / "state.json").read_text())["stages"]),
        "files": sorted(path.name for path in output.iterdir()),
        "beside": sorted(path.name for path in output.parent.iterdir()),
    }


@pytest.fixture(scope="module")
def reference(mirror: Mirror, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Counter[str]]:
    """What a run without interruptions leaves, and how often it reports each kind of progress."""
    output, reports = tmp_path_factory.mktemp("reference") / "model", Counter[str]()
    make(WikipediaRequest(LANGS, mirror=mirror.url), output, progress=lambda step: reports.update([step.stage]))
    return facts(output), reports


def test_a_model_is_trained_on_all_but_the_held_out_articles_and_finds_these(
    request_: WikipediaRequest, tmp_path: Path
) -> None:
    made = make(request_, tmp_path / "model", licence="cc-by-sa-4.0")
    model = Cr5.load(tmp_path / "model")
    assert model.langs == list(LANGS)
    assert model.report["concepts"] == CONCEPTS - 12
    assert len(facts(tmp_path / "model")["held out"]) == 3 * 12
    best = {mean["system"]: mean["precision"]["1"] for mean in made.means}
    assert best["cr5"] > best["shared tokens"]
    card = (tmp_path / "model" / "README.md").read_text()
    assert yaml.safe_load(card.split("---")[1])["license"] == "cc-by-sa-4.0"
    assert f"({DATE}: dawiki, enwiki, itwiki)" in card
    assert f"| {made.means[0]['precision']['1']:.1f} |" in card


def test_held_out_concepts_are_not_trained_on_whatever_the_order_of_files(tmp_path: Path) -> None:
    documents = demo.encyclopedia()
    for name, order in (("a", documents), ("b", documents[::-1])):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "corpus.jsonl", order)
        assert hold_out(tmp_path / name, tmp_path / f"{name}.parquet") == 40
    held_out = [{(d.concept, d.lang) for d in read(tmp_path / f"{name}.parquet")} for name in "ab"]
    assert held_out[0] == held_out[1]
    trained = {
        (d.concept, d.lang) for b in training_batches(tmp_path / "a", tmp_path / "a.parquet") for d in b.documents()
    }
    assert trained == {(d.concept, d.lang) for d in documents} - held_out[0]
    assert not {concept for concept, _ in trained} & {concept for concept, _ in held_out[0]}


def test_a_run_killed_inside_every_stage_is_continued_and_gives_the_same(
    request_: WikipediaRequest, tmp_path: Path, reference: tuple[dict[str, Any], Counter[str]]
) -> None:
    expected, reports = reference
    assert {"find dumps", "extract", "publish", "hold out", "fit", "evaluate"} <= set(reports)
    order = [stage for stage in reports if stage != "pretrain"]
    output = tmp_path / "model"
    for target in [(stage, count) for stage in order for count in (1, 2)]:
        seen = Counter[str]()

        def killing(step: Progress, target: tuple[str, int] = target, seen: Counter[str] = seen) -> None:
            seen[step.stage] += 1
            reached = order.index(step.stage) if step.stage in order else -1, seen[step.stage]
            if reached >= (order.index(target[0]), target[1]):
                raise KilledError(target)

        with pytest.raises(KilledError):
            make(request_, output, progress=killing)
    make(request_, output)
    assert facts(output) == expected


@pytest.mark.parametrize("stage", STAGES[:-1])
def test_a_run_killed_before_and_after_the_record_of_a_stage_gives_the_same(
    stage: str,
    request_: WikipediaRequest,
    tmp_path: Path,
    reference: tuple[dict[str, Any], Counter[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = tmp_path / "model"

    def killing(path: Path, values: dict[str, Any], *, after: bool = False) -> None:
        is_stage = list(values["stages"])[-1:] == [stage]
        if not is_stage or after:
            write_json(path, values)
        if is_stage:
            raise KilledError(stage)

    for after in (False, True):
        monkeypatch.setattr(
            "cr5.pretraining.stages.write_json", lambda path, values, after=after: killing(path, values, after=after)
        )
        with pytest.raises(KilledError):
            make(request_, output)
    monkeypatch.undo()
    make(request_, output)
    assert facts(output) == reference[0]


def test_a_process_killed_in_the_middle_of_training_is_continued_from_its_checkpoint(
    mirror: Mirror, request_: WikipediaRequest, tmp_path: Path
) -> None:
    (tmp_path / "killed").mkdir()
    output = tmp_path / "killed" / "model"
    # A checkpoint is there once the ridge is chosen.
    settings = SETTINGS | {"ridge": "auto", "tol": 1e-4, "max_steps": 1000}
    code = f"""
import os, signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from cr5.pretraining import pretrain
from cr5.sources.wikipedia.plan import WikipediaRequest

def kill(step):
    if Path({str(checkpoint_path(output))!r}).exists():
        os.kill(os.getpid(), signal.SIGKILL)

request = WikipediaRequest({LANGS!r}, mirror={mirror.url!r})
pretrain(request, Path({str(output)!r}), settings={settings!r}, threads=1, executor=ThreadPoolExecutor(1),
         progress=kill)
"""
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert checkpoint_path(output).exists()
    assert list(json.loads((work_path(output) / "state.json").read_text())["stages"]) == ["corpus", "held-out"]
    make(request_, output, settings=settings)
    (tmp_path / "whole").mkdir()
    make(request_, tmp_path / "whole" / "model", settings=settings)
    continued, whole = facts(output), facts(tmp_path / "whole" / "model")
    for exact in ("held out", "stages", "beside"):
        assert continued[exact] == whole[exact]
    assert continued["model"] == whole["model"]


def test_a_finished_run_does_nothing_again_but_a_new_card_and_a_push(
    request_: WikipediaRequest,
    tmp_path: Path,
    hub: FakeHub,
    mirror: Mirror,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    output, reports = tmp_path / "model", list[str]()
    make(request_, output)
    before = (output / "model.json").read_bytes()
    mirror.requests.clear()
    make(request_, output, progress=lambda step: reports.append(step.note))
    assert reports == []
    hub.fail("/api/models/me/wiki/commit/main", Fault(status=500))
    with pytest.raises(Cr5Error, match="me/wiki"):
        make(request_, output, repo="me/wiki", licence="mit")
    made = make(request_, output, repo="me/wiki", licence="mit", progress=lambda step: reports.append(step.stage))
    assert made.url == f"{hub.url}/me/wiki/commit/{hub.repos['me/wiki'].branches['main']}"
    assert set(reports) == {"pretrain", "check", "upload"}
    assert 'license: "mit"' in hub.repos["me/wiki"].files["README.md"].decode()
    assert make(request_, output, repo="me/wiki", licence="mit").url == made.url
    assert (output / "model.json").read_bytes() == before
    assert mirror.requests == []
    assert Cr5.from_pretrained("me/wiki").langs == list(LANGS)


def test_other_wishes_and_folders_with_a_model_are_refused(
    request_: WikipediaRequest, tmp_path: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(request_, tmp_path / "model")
    with pytest.raises(Cr5Error, match=r"`sample=None`, not `sample=5`"):
        make(replace(request_, sample=5), tmp_path / "model")
    with pytest.raises(Cr5Error, match=r"`settings="):
        make(request_, tmp_path / "model", settings=SETTINGS | {"rank": 10})
    path = work_path(tmp_path / "model") / "state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    with pytest.raises(Cr5Error, match="has the format 99"):
        make(request_, tmp_path / "model")
    (tmp_path / "model").rename(tmp_path / "other")
    with pytest.raises(Cr5Error, match="has a model already"):
        make(request_, tmp_path / "other")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with pytest.raises(Cr5Error, match="me/wiki needs a token"):  # before hours of work, not after them
        make(request_, tmp_path / "new", repo="me/wiki")
    with pytest.raises(Cr5Error, match=r"`langs=da`"):
        make(WikipediaRequest(("da",)), tmp_path / "new")
    assert not work_path(tmp_path / "new").exists()


def dump(lang: str, size: int, props: int = 0) -> Dump:
    files = (DumpFile("https://example.org/a", "a", size, None), DumpFile("https://example.org/b", "b", None, None))
    return Dump(Wiki(lang, lang), "cirrus", DATE, files, DumpFile("https://example.org/p", "p", props, None))


def test_the_forecast_grows_with_the_dumps_and_shrinks_with_cores() -> None:
    request, settings = WikipediaRequest(("da", "en")), make_settings()
    dumps_ = [dump("da", 10**9, 10**7), dump("en", 39 * 10**9)]
    one = estimate(dumps_, request, settings, threads=2, workers=2)
    assert one.download == 40 * 10**9 + 10**7
    assert one.dumps["da"] == (DATE, 10**9 + 10**7)
    assert one.unknown == 2
    assert "2 files" in str(one)
    assert 6.5e6 < one.articles < 7.5e6
    assert one.corpus_hours == pytest.approx((40.01e9 / 5e6) / 3600)  # the download, which takes longer than extraction
    four = estimate(dumps_, request, settings, threads=8, workers=8)
    assert four.training_hours == pytest.approx(one.training_hours / 4)
    bounded = estimate(dumps_, request, settings, memory=8 * 10**9)
    assert bounded.memory < one.memory
    assert bounded.disk > one.disk
    sampled = estimate(dumps_, replace(request, sample=1000), settings)
    assert sampled.articles == 2000
    assert sampled.download < 10**9
    assert (
        estimate(dumps_, request, make_settings(ridge=1.0)).training_hours
        < estimate(dumps_, request, settings).training_hours
    )
    assert one.to_json()["hours"] == one.hours


def test_what_the_machine_does_not_have_is_an_error_before_it_begins(tmp_path: Path) -> None:
    needed = Forecast({}, 10, 0, 0, 10**15, 1.0, 1.0, 0)
    with pytest.raises(Cr5Error, match=r"1000000.0 GB of memory.*`memory=\d+`"):
        check_resources(needed, tmp_path, None)
    check_resources(needed, tmp_path, 10**9)
    with pytest.raises(Cr5Error, match="free some space"):
        check_resources(replace(needed, disk=10**18), tmp_path, 10**9)


def test_the_forecast_of_published_dumps_leaves_nothing_behind(request_: WikipediaRequest, tmp_path: Path) -> None:
    expected = forecast(request_, tmp_path / "corpus", make_settings(), user_agent="cr5 (https://example.org)")
    assert set(expected.dumps) == set(LANGS)
    assert expected.download > 0
    assert list(tmp_path.iterdir()) == []
    assert pretrain(request_, tmp_path / "model", confirm=lambda forecast: False) is None
    assert list(tmp_path.iterdir()) == []


def test_the_command_asks_unless_it_is_told_not_to(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--rank", "20", "--ridge", "1", "--set", "min_documents=2", "--workers", "1", "--threads", "1"]
    output = tmp_path / "model"
    command = ["pretrain", "--wikipedia", ",".join(LANGS), "-o", str(output), "--mirror", mirror.url, *small]
    assert run(command) == 1
    assert "begin with --yes" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda text, err: False)
    assert run(command) == 1
    assert "nothing was done" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert run([*command, "--yes"]) == 0
    printed = capsys.readouterr()
    assert "min for the corpus" in printed.err
    assert f"written to {output}" in printed.out
    assert run([*command, "--json"]) == 0  # it has begun, and asks no more
    assert json.loads(capsys.readouterr().out)["model"] == str(output)
