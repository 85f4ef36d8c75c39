"""The stages of a pretraining: each is recorded when it is finished, and an interrupted one is continued."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cr5.corpus.reading import MANIFEST
from cr5.errors import Cr5Error
from cr5.evaluate.report.files import write_reports
from cr5.exchange.hub import check_push, push
from cr5.exchange.model_card import CARD, check_licence, model_card, read_run
from cr5.model import Cr5
from cr5.model.folder_training import checkpoint_path, train_model
from cr5.pretraining.forecast import Forecast, check_resources, forecast
from cr5.pretraining.held_out import evaluate_held_out, hold_out, training_batches
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.sources.http.client import make_user_agent
from cr5.sources.wikipedia.build import build
from cr5.sources.wikipedia.executor import open_executor
from cr5.sources.wikipedia.plan import WikipediaRequest
from cr5.storage.atomic import atomic_write
from cr5.storage.json_files import read_json, write_json
from cr5.storage.locks import locked
from cr5.storage.model_files import check_model_folder, has_model, open_model
from cr5.storage.output_paths import sibling_path

STAGES = ("corpus", "held-out", "training", "evaluation", "card", "push")
FORMAT = 1
_FIXED = ("langs", "source", "date", "ids", "sample", "concepts", "drop_foreign", "dedupe")


@dataclass(frozen=True)
class Pretrained:
    """A finished pretraining: the folder of the model, the means of its evaluation, and where it was pushed to."""

    output: Path
    evaluation: Path
    means: list[dict[str, Any]]
    url: str | None


def work_path(output: Path) -> Path:
    """The folder next to the model with the corpus, the held-out articles, the evaluation and the record of stages."""
    return sibling_path(output, "pretraining")


def _has_begun(output: Path) -> bool:
    """Whether a pretraining to this folder was begun before."""
    return (work_path(output) / "state.json").exists()


def pretrain(
    request: WikipediaRequest,
    output: Path,
    *,
    settings: Mapping[str, Any] | None = None,
    repo: str | None = None,
    private: bool | None = None,
    licence: str | None = None,
    memory: int | None = None,
    threads: int | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    user_agent: str | None = None,
    confirm: Callable[[Forecast], bool] = lambda forecast: True,
    progress: ProgressCallback = no_progress,
) -> Pretrained | None:
    """Make a Wikipedia corpus, train a model on it, evaluate it, write its card and, with ``repo``, push it to the hub.

    A call that was interrupted, at any point, is continued by the same call. Before it begins, ``confirm`` is called
    with what it will take; if it returns False, nothing is done and None is returned. ``settings`` are the arguments of
    ``Cr5``. Up to 2,000 concepts are not trained on: their articles are what the model is evaluated with. ``executor``
    extracts the dumps; by default, ``workers`` processes do. ``memory`` limits the fit, in bytes.
    """
    given, agent = dict(settings or {}), user_agent or make_user_agent()
    model = Cr5(**given)
    check_licence(licence)
    if repo is not None:
        check_push(repo)
    request.check()
    if len(request.langs) < 2:
        raise Cr5Error(f"`langs={','.join(request.langs)}` is one language; a model needs at least two")
    work = work_path(output)
    begun = _has_begun(output)
    if not begun:
        check_model_folder(output)
        if has_model(output):
            raise Cr5Error(f"{output} has a model already; name another folder")
        limits: dict[str, Any] = {"memory": memory, "threads": threads, "workers": workers}
        expected = forecast(request, work / "corpus", model.settings, **limits, user_agent=agent, progress=progress)
        if not confirm(expected):
            return None
        check_resources(expected, output, memory)
    work.mkdir(parents=True, exist_ok=True)
    with locked(work / "lock", error_if_locked=Cr5Error(f"{output}: another process is pretraining it; wait for it")):
        run = _Pretraining(request, output, work, model, given, progress)
        run.begin()
        run.run_stage("corpus", lambda: run.make_corpus(executor, workers, agent))
        run.run_stage("held-out", lambda: {"concepts": hold_out(run.corpus, run.held_out, progress)})
        run.run_stage("training", lambda: run.train(memory, threads))
        run.run_stage("evaluation", run.evaluate)
        named = {"repo": repo, "licence": licence}
        run.run_stage("card", lambda: run.write_card(repo, licence), repeat=run.recorded("card", named) != named)
        pushed = None
        if repo is not None:

            def upload() -> dict[str, Any]:
                return {"repo": repo, "url": push(output, repo, private=private, progress=progress)}

            pushed = run.run_stage("push", upload, repeat=run.recorded("push").get("repo") != repo)["url"]
    return Pretrained(output, run.evaluation, read_run(run.evaluation)["means"], pushed)


def _shown(value: Any) -> Any:
    """A value as the caller writes it: a list as da,it."""
    return ",".join(value) if isinstance(value, list) else value


class _Pretraining:
    """The files of a pretraining and its record, state.json, which is replaced whenever a stage is finished."""

    def __init__(
        self,
        request: WikipediaRequest,
        output: Path,
        work: Path,
        model: Cr5,
        settings: Mapping[str, Any],
        progress: ProgressCallback,
    ) -> None:
        self.request, self.output, self.model, self.progress = request, output, model, progress
        self.corpus, self.held_out, self.evaluation = (
            work / "corpus", work / "held-out.parquet", work / "evaluation",
        )  # fmt: skip
        self.path = work / "state.json"
        fixed = {name: getattr(request, name) for name in _FIXED} | {"settings": dict(settings)}
        self.state: dict[str, Any] = {"format": FORMAT, "request": fixed | {"langs": list(request.langs)}, "stages": {}}

    def begin(self) -> None:
        """Write the record, or read that of an earlier call, whose arguments must be the same."""
        if not self.path.exists():
            write_json(self.path, self.state)
            return
        try:
            state = read_json(self.path)
            earlier, wanted = state["request"], self.state["request"]
            found_format = state["format"]
            changed = [name for name in wanted if earlier[name] != wanted[name]]
        except (ValueError, KeyError, TypeError) as error:
            raise Cr5Error(f"{self.path} is damaged; delete {self.path.parent} to begin again") from error
        if found_format != FORMAT:
            raise Cr5Error(
                f"{self.path} has the format {found_format!r}, but this version reads {FORMAT}; continue with the "
                f"version that wrote it, or delete {self.path.parent} to begin again"
            )
        if changed:
            name = changed[0]
            raise Cr5Error(
                f"{self.output} was begun with `{name}={_shown(earlier[name])}`, not `{name}={_shown(wanted[name])}`; "
                "use the same again to continue, or name another folder"
            )
        self.state = state

    def recorded(self, name: str, keys: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What the record has about a finished stage, all of it or some keys; empty if it is not finished."""
        found: dict[str, Any] = self.state["stages"].get(name, {})
        return found if keys is None else {key: found[key] for key in keys if key in found}

    def run_stage(self, name: str, work: Callable[[], dict[str, Any]], repeat: bool = False) -> dict[str, Any]:
        """Do a stage unless it is finished, and record what it returns; the later ones then have to be repeated."""
        if not self.recorded(name) or repeat:
            self.progress(Progress("pretrain", STAGES.index(name), len(STAGES), name))
            facts = work()
            done = {earlier: self.state["stages"][earlier] for earlier in STAGES[: STAGES.index(name)]}
            finished = {"finished": datetime.now(UTC).isoformat(timespec="seconds")}
            self.state["stages"] = done | {name: finished | facts}
            write_json(self.path, self.state)
        return self.recorded(name)

    def make_corpus(self, executor: Executor | None, workers: int | None, user_agent: str) -> dict[str, Any]:
        """Download, extract and align; continues by itself."""
        with open_executor(workers) if executor is None else nullcontext(executor) as opened:
            build(self.request, self.corpus, executor=opened, user_agent=user_agent, progress=self.progress)
        return {}

    def train(self, memory: int | None, threads: int | None) -> dict[str, Any]:
        """Train on all articles but the held-out ones, from the checkpoint if there is one."""
        if not self._has_finished_model():
            train_model(
                self.model,
                training_batches(self.corpus, self.held_out),
                self.output,
                resume=checkpoint_path(self.output).exists(),
                engine_options={"memory": memory},
                threads=threads,
                progress=self.progress,
            )
        checkpoint_path(self.output).unlink(missing_ok=True)  # of a run that was killed after it had saved the model
        opened = open_model(self.output)
        return {"digest": opened.digest(*opened.langs)}

    def _has_finished_model(self) -> bool:
        """Whether a run that was killed before it recorded this stage has saved the model."""
        return has_model(self.output) and not open_model(self.output).metadata["report"]["interrupted"]

    def evaluate(self) -> dict[str, Any]:
        """Compare the held-out articles."""
        run = evaluate_held_out(Cr5.load(self.output), self.held_out, self.progress)
        write_reports(run, self.evaluation)
        return {}

    def write_card(self, repo: str | None, licence: str | None) -> dict[str, Any]:
        """Write README.md into the folder of the model."""
        card = model_card(
            open_model(self.output), name=repo or self.output.name, repo=repo, licence=licence,
            corpus=_describe_corpus(read_json(self.corpus / MANIFEST)), run=read_run(self.evaluation),
        )  # fmt: skip
        with atomic_write(self.output / CARD) as file:
            file.write(card.encode())
        return {"repo": repo, "licence": licence}


def _describe_corpus(manifest: Mapping[str, Any]) -> str:
    """A sentence about a Wikipedia corpus: which dumps, of which dates, and how they are aligned."""
    names = {"cirrus": "search-index dumps", "xml": "XML dumps", "parquet": "Parquet export"}
    dates: dict[str, list[str]] = {}
    for facts in manifest["languages"].values():
        dates.setdefault(facts["dump"], []).append(facts["wiki"])
    listed = "; ".join(f"{date}: {', '.join(wikis)}" for date, wikis in sorted(dates.items()))
    sample = f" the first {manifest['sample']:,} articles of each," if manifest["sample"] else ""
    return (
        f"Articles of Wikipedia,{sample} from Wikimedia's {names[manifest['dumps']]} ({listed}), aligned by their "
        "Wikidata items; the articles of the held-out concepts were not trained on."
    )
