"""The report of a fit: the identifier of the space, the ridge, an interruption, the entries of an added language."""

from collections.abc import Mapping, Sequence
from typing import Any

from cr5.errors import CorpusError, Cr5Error, FewDocuments, warn
from cr5.hashing import json_digest
from cr5.message_parts import plural
from cr5.settings import Settings


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


def describe_interruption(report: Mapping[str, Any], tol: float) -> str:
    """How far a fit had come when it was interrupted, from its report and its tolerance."""
    steps = report["steps"]
    when = f"after {plural(steps, 'step')}" if steps else "before its first step"
    ridge = f"; {report['ridge_note']}" if report["ridge_note"] and not steps else ""
    residual = f"the residual is {report['residual']:.3g}, the tolerance {tol:g}"
    return f"the fit was interrupted {when} and has not converged: {residual}{ridge}"


def check_enlarged(reports: Mapping[str, Any], langs: Sequence[str], documents: Mapping[str, int]) -> None:
    """Raise an error if a language of a model has no documents; warn if it has fewer than the reports say."""
    # Reports of older models do not have what was read.
    before = {lang: reports[lang].get("documents_read", reports[lang]["documents"]) for lang in langs}
    missing = [lang for lang in before if lang not in documents]
    if missing:
        raise CorpusError(
            f"there are no documents in {', '.join(missing)}, which the model was trained on; give all documents, old "
            "and new"
        )
    fewer = [f"{lang} {documents[lang]:,} instead of {read:,}" for lang, read in before.items()
             if documents[lang] < read]  # fmt: skip
    if fewer:
        message = f"there are fewer documents than the model was trained on ({', '.join(fewer)})"
        warn(f"{message}; give all documents, old and new", FewDocuments)


def with_language(report: dict[str, Any], lang: str, added: dict[str, Any]) -> dict[str, Any]:
    """The report of a model, changed to include that of an added language."""
    report["languages"][lang] = added["language"]
    report.setdefault("added_languages", {})[lang] = added["fit"]
    if "corpus" in report:  # reports of older models do not have it
        report["corpus"]["languages"][lang] = added["corpus"]
    return report
