"""The model card: README.md of a model, with the metadata that the Hugging Face Hub reads."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cr5.errors import Cr5Error
from cr5.message_parts import format_bytes
from cr5.settings import without_groups
from cr5.storage.json_files import read_json
from cr5.storage.model_files import ModelFolder

CARD = "README.md"
_MAX_SYSTEMS = 8  # rows of the table of figures


def model_card(
    model: ModelFolder,
    *,
    name: str,
    repo: str | None = None,
    corpus: str | None = None,
    licence: str | None = None,
    run: Mapping[str, Any] | None = None,
) -> str:
    """The card of a saved model.

    ``corpus`` is a sentence about the training data, ``run`` the content of run.json of an evaluation, and ``repo`` is
    where the model will be on the hub.
    """
    check_licence(licence)
    report, settings = model.metadata["report"], model.metadata["settings"]
    parts = [
        _metadata(model, licence),
        f"# {name}",
        f"Documents in {len(model.langs)} languages ({', '.join(model.langs)}) as vectors of one space with "
        f"{settings['rank']} dimensions: texts about the same thing have similar vectors, whatever their language. "
        "It is a model of [cr5](https://pypi.org/project/cr5): a linear map of word counts for each language, "
        "learned by reduced-rank ridge regression.",
        _usage(model, repo),
        _training_data(model, report, corpus),
        _settings(settings, report),
        _figures(run),
        _limits(report),
        f"## Licence\n\n{licence or 'The owner of this model has not named a licence.'}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def check_licence(licence: str | None) -> None:
    """Raise an error for a licence that is not an identifier such as the hub lists them."""
    if licence is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", licence):
        raise Cr5Error(f"`licence={licence!r}` is not an identifier of a licence; write it like mit or cc-by-sa-4.0")


def read_run(path: str | Path) -> dict[str, Any]:
    """The content of run.json, given the file or its folder."""
    file = Path(path) / "run.json" if Path(path).is_dir() else Path(path)
    try:
        run = read_json(file)
        if isinstance(run["means"], list):
            return run
    except FileNotFoundError:
        raise Cr5Error(f"`evaluation={str(path)!r}` has no run.json; name a folder that cr5 eval wrote") from None
    except (ValueError, KeyError):
        pass
    raise Cr5Error(f"`evaluation={str(path)!r}` is not a run; name a folder that cr5 eval wrote")


def _metadata(model: ModelFolder, licence: str | None) -> str:
    # JSON strings are YAML strings; without quotation marks the language "no" would be a Boolean.
    values: dict[str, Any] = {"language": model.langs}
    if licence is not None:
        values["license"] = licence
    values |= {
        "library_name": "cr5",
        "pipeline_tag": "sentence-similarity",
        "tags": ["cr5", "crosslingual", "document-embeddings", "feature-extraction"],
    }
    lines = (f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in values.items())
    return "\n".join(["---", *lines, "---"])


def _usage(model: ModelFolder, repo: str | None) -> str:
    opened = f'Cr5.from_pretrained("{repo}")' if repo else 'Cr5.load("MODEL")'
    install = "pip install 'cr5[hub]'" if repo else "pip install cr5"
    a, b = (*model.langs, model.langs[0])[:2]
    return (
        f"## Use\n\n```\n{install}\n```\n\n```python\nfrom cr5 import Cr5\n\nmodel = {opened}\n"
        f'a = model.encode(["…"], lang="{a}")\nb = model.encode(["…"], lang="{b}")\n'
        "a @ b.T  # cosines\n```"
    )


def _training_data(model: ModelFolder, report: Mapping[str, Any], corpus: str | None) -> str:
    sizes = model.sizes()
    rows = []
    for lang in model.langs:
        size = sizes[lang]
        documents = report["languages"].get(lang, {}).get("documents", 0)
        rows.append(f"| {lang} | {documents:,} | {size.words:,} | {size.ngrams:,} | {format_bytes(size.bytes)} |")
    table = "\n".join(["| language | documents | words | n-grams | size |", "|---|--:|--:|--:|--:|", *rows])
    about = f"{corpus} " if corpus else ""
    return f"## Training data\n\n{about}{report['concepts']:,} concepts are in two languages or more.\n\n{table}"


def _settings(settings: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    state = "converged" if report["converged"] else "did not converge"
    version = report.get("versions", {}).get("cr5")
    made = f", cr5 {version}" if version else ""
    listed = ", ".join(f"`{name}={value}`" for name, value in sorted(without_groups(settings).items()))
    return (
        f"## Settings\n\nPreset {settings['preset']}, rank {settings['rank']}, ridge {report['ridge']:g}; the solver "
        f"{state} after {report['steps']} steps{made}.\n\n{listed}"
    )


def _figures(run: Mapping[str, Any] | None) -> str:
    if not run or not run["means"]:
        return ""
    rows = [
        f"| {mean['system']} | {mean['regime']} | {mean['measure']} | {mean['precision']['1']:.1f} "
        f"| {mean['reciprocal_rank']:.1f} |"
        for mean in sorted(run["means"], key=lambda mean: -mean["precision"]["1"])[:_MAX_SYSTEMS]
    ]
    header = ["| system | trained | measure | P@1 | MRR |", "|---|---|---|--:|--:|"]
    directions = max(mean["directions"] for mean in run["means"])
    return (
        f"## Figures\n\nRetrieval across languages, {run['title']}: in percent, means over {directions} "
        "directions.\n\n" + "\n".join([*header, *rows])
    )


def _limits(report: Mapping[str, Any]) -> str:
    notes = [
        "A text is a bag of words: their order does not count, and a text of one or two words has little to go by.",
        "Words outside the vocabulary count only by their character n-grams; other languages do not work.",
        "It reflects its training documents: which subjects and people they cover, and what they say about them.",
        "Sentence encoders that were trained on parallel sentences find translations of single sentences better.",
    ]
    if not report["converged"]:
        notes.insert(0, "The fit had not converged when it ended.")
    return "## Limits\n\n" + "\n".join(f"- {note}" for note in notes)
