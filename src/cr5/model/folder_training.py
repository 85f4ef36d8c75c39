"""Training to a folder: fit a model, with a checkpoint beside its folder, and save it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cr5.corpus.inputs import Documents
from cr5.errors import ClusterError, Cr5Error, Interrupted, ModelFileError, RankTooLargeError, warn
from cr5.model import Cr5
from cr5.model.reports import holds_finished_model
from cr5.progress import stop_on_interrupt
from cr5.storage.atomic import FULL_DISK_ERRNOS
from cr5.storage.model_files import check_model_folder
from cr5.storage.output_paths import sibling_path
from cr5.training.engines.registry import EngineName, open_engine


def checkpoint_path(output: Path) -> Path:
    """The checkpoint that ``train_model`` writes beside the folder of a model."""
    return sibling_path(output, "checkpoint")


def train_model(
    model: Cr5,
    documents: Documents,
    output: Path,
    *,
    resume: bool = False,
    update: bool = False,
    engine: EngineName = "cpu",
    engine_options: Mapping[str, Any] | None = None,
    **fit_options: Any,
) -> bool:
    """Fit a model on the named engine, and save it to a folder; return whether it was saved.

    With ``update``, a fitted model is continued with all documents, old and new, by ``Cr5.update``.
    During the fit a checkpoint is written beside the folder; ``resume`` continues from that of an interrupted run.
    ``engine_options`` are those of ``open_engine``, ``fit_options`` those of ``Cr5.fit``. A fit that was interrupted
    (``on_interrupt="return"``) keeps its checkpoint, and is not saved in place of a finished model; an interrupted
    update is not saved at all. Ctrl-C does not stop the save, unless it is pressed twice.
    """
    check_model_folder(output)
    checkpoint = checkpoint_path(output)
    if resume and not checkpoint.exists():
        raise Cr5Error(f"there is no checkpoint {checkpoint} to continue from; leave out `resume`")
    if checkpoint.exists() and not resume:
        raise Cr5Error(f"{checkpoint} is from an interrupted run; continue it with `resume=True`, or delete the file")
    output.parent.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = {"scratch_folder": output.parent, "threads": fit_options.get("threads")}
    options |= engine_options or {}
    try:
        with open_engine(engine, **options) as opened:
            fit, before = (model.update if update else model.fit), model.report
            fit(documents, engine=opened, checkpoint=checkpoint, **fit_options)
            if update and model.report == before:  # interrupted: a report says how long the fit took
                warn(f"nothing is saved in {output}: {_how_to_continue(checkpoint)}", Interrupted)
                return False
            return _save_trained(model, output, checkpoint)
    except RankTooLargeError:
        checkpoint.unlink(missing_ok=True)  # which a fit with another rank could not continue from
        raise
    except ClusterError as error:
        advice = f"then {_how_to_continue(checkpoint)}"
        if not checkpoint.exists():
            advice += ", because there is no checkpoint yet"
        raise ClusterError(error.problem, advice) from error
    except Cr5Error as error:
        if getattr(error.__cause__, "errno", None) not in FULL_DISK_ERRNOS:
            raise
        raise Cr5Error(f"{error}; then {_how_to_continue(checkpoint)}") from error


def add_language_to_model(
    model: Cr5,
    documents: Documents,
    lang: str,
    output: Path,
    *,
    engine: EngineName = "cpu",
    engine_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> str:
    """``Cr5.add_language`` on the named engine; the model is saved to a folder. Returns the code of the language.

    ``engine_options`` are those of ``open_engine``, ``options`` those of ``Cr5.add_language``.
    """
    check_model_folder(output)
    defaults: dict[str, Any] = {"scratch_folder": output.resolve().parent, "threads": options.get("threads")}
    try:
        with open_engine(engine, **(defaults | dict(engine_options or {}))) as opened:
            model.add_language(documents, lang, engine=opened, **options)
    except ClusterError as error:  # there is no checkpoint
        raise ClusterError(error.problem, "then run it again") from error
    with stop_on_interrupt():
        model.save(output)
    return model.find_language(lang)


def _save_trained(model: Cr5, output: Path, checkpoint: Path) -> bool:
    """Save a model and remove its checkpoint, or say where an interrupted one is and how it is continued."""
    again = _how_to_continue(checkpoint)
    interrupted = model.report["interrupted"]
    if interrupted and not checkpoint.exists():
        again += ", because there is no checkpoint before the ridge is chosen"
    if interrupted and holds_finished_model(output):
        message = f"{output} still has the finished model of an earlier run; the interrupted one is not saved: {again}"
        warn(message, Interrupted)
        return False
    try:
        with stop_on_interrupt():
            model.save(output)
    except ModelFileError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        raise ModelFileError(f"{error}; then {again}") from error
    if interrupted:
        message = f"the unfinished model is saved in {output}; to finish it, {again}"
        warn(message, Interrupted)
    else:
        checkpoint.unlink(missing_ok=True)
    return True


def _how_to_continue(checkpoint: Path) -> str:
    return "continue with `resume=True`" if checkpoint.exists() else "run it again from the beginning"
