"""The report of a fit: the identifier of the space, the ridge, an interruption, the entries of an added language."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cr5.errors import CorpusError, Cr5Error, FewDocuments, ModelFileError, warn
from cr5.hashing import json_digest
from cr5.message_parts import in_languages, plural
from cr5.settings import Settings
from cr5.storage.model_files import has_model, open_model


def space_digest(settings: Settings, report: Mapping[str, Any]) -> str | None:
    """An identifier of a model's vector space; None if the report has none, and none follows from it.

    A fit records it, and models derived from that model keep it. For models written by earlier versions it is
    computed from the report: no two fits of different data or settings end with the same eigenvalues and residual.
    """
    if "space" in report or not report.get("eigenvalues"):
        return report.get("space")
    results = [report.get(name) for name in ("eigenvalues", "energy", "residual", "steps", "concepts", "ridge")]
    rank = report.get("rank", settings.rank)  # which may have been "auto" before the fit
    identity = settings.to_json() | {"rank": rank}
    return json_digest([identity, results], 16)


def ridge_of(report: Mapping[str, Any]) -> float:
    """The ridge that a model was trained with; an error if cr5 did not train it."""
    if "ridge" not in report:
        raise Cr5Error(
            "the model was not trained by cr5, but made from published word vectors, which cannot be trained further; "
            "train a model of your own with `fit`"
        )
    return float(report["ridge"])


def describe_interruption(
    report: Mapping[str, Any], tol: float, before: Mapping[str, Any], checkpoint: Path | None
) -> str:
    """How far a fit had come when it was interrupted, from its report and its tolerance.

    ``before``: the report of the model until then, which stays as it was if it was finished. The ``checkpoint`` is what
    the fit continues from then.
    """
    steps = report["steps"]
    when = f"after {plural(steps, 'step')}" if steps else "before its first step"
    ridge = f"; {report['ridge_note']}" if report["ridge_note"] and not steps else ""
    residual = f"the residual is {describe_residual(report['residual'])}, the tolerance {tol:g}"
    kept = ""
    if is_finished(before):
        kept = "; the model is the finished one of before, which an unfinished one does not replace"
        if checkpoint is not None and checkpoint.exists():
            kept += f"; the same fit with checkpoint={str(checkpoint)!r} continues"
    return f"the fit was interrupted {when} and has not converged: {residual}{ridge}{kept}"


def describe_residual(residual: float | None) -> str:
    """The residual in a report. With a tolerance of 0 that of the last step is not computed."""
    return "not computed" if residual is None else f"{residual:.3g}"


def is_finished(report: Mapping[str, Any]) -> bool:
    """Whether a report is that of a model whose fit was not interrupted; an empty one is that of no model."""
    return bool(report) and not report.get("interrupted")  # published models have nothing about it


def holds_finished_model(folder: Path) -> bool:
    """Whether a folder has a model whose fit was not interrupted, or one that cannot be read."""
    if not has_model(folder):
        return False
    try:
        return is_finished(open_model(folder).metadata["report"])
    except (ModelFileError, KeyError, TypeError, AttributeError):
        return True  # it may be one


def check_replaceable(folder: Path, report: Mapping[str, Any]) -> None:
    """Raise an error if a model with this report is unfinished, and would replace a finished one in the folder."""
    if not is_finished(report) and holds_finished_model(folder):
        raise Cr5Error(
            f"{folder} has a finished model, which an unfinished one does not replace; finish the fit, or save it to "
            "another folder"
        )


def check_enlarged(reports: Mapping[str, Any], langs: Sequence[str], documents: Mapping[str, int]) -> None:
    """Raise an error if a language of a model has no documents; warn if it has fewer than the reports say."""
    # Reports of older models do not have what was read.
    before = {lang: reports[lang].get("documents_read", reports[lang]["documents"]) for lang in langs}
    missing = [lang for lang in before if lang not in documents]
    if missing:
        raise CorpusError(
            f"there are no documents {in_languages(missing)}, which the model was trained on; give all documents, old "
            "and new"
        )
    fewer = [f"{lang} {documents[lang]:,} instead of {read:,}" for lang, read in before.items()
             if documents[lang] < read]  # fmt: skip
    if fewer:
        message = f"there are fewer documents than the model was trained on ({', '.join(fewer)})"
        warn(f"{message}; give all documents, old and new", FewDocuments)


def with_update(report: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """The report of an updated model: what was chosen by an earlier fit, and what the model was before."""
    names = ("ridge_path", "ridge_queries", "ridge_shares", "ridge_note", "strings_weight_path")
    updated = {name: before.get(name) for name in ("concepts", "energy", "languages")}
    return report | {name: before[name] for name in names if name in before} | {"updated": updated}


def with_language(report: dict[str, Any], lang: str, added: dict[str, Any]) -> dict[str, Any]:
    """The report of a model, changed to include that of an added language."""
    report["languages"][lang] = added["language"]
    report.setdefault("added_languages", {})[lang] = added["fit"]
    if "corpus" in report:  # reports of older models do not have it
        report["corpus"]["languages"][lang] = added["corpus"]
    return report
