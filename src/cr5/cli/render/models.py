"""Models on the terminal: how training ended, the neighbours of words, explanations."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from rich.columns import Columns
from rich.table import Table
from rich.text import Text

from cr5.cli.messages import settings_as_options
from cr5.cli.render.console import err, out, plain_table, print_by_language
from cr5.cli.render.usage import usage_columns, usage_figures, usage_lines
from cr5.message_parts import format_bytes, plural
from cr5.model import Cr5
from cr5.model.reports import describe_residual
from cr5.retrieval.explanations import Explanation
from cr5.storage.model_files import LanguageSize
from cr5.training.selection import few_concepts_warnings

# A word is shown next to a view if the view's cosine drops by at least so much without it, and by this share of itself.
MIN_FALL, MIN_FALL_SHARE = 0.001, 0.01
MAX_TABLES_BELOW = 4  # tables of nearest words that stand below each other; more of them stand side by side
MIN_PROBABILITY = 0.0005  # smallest probability of a translation that is shown, since they have three digits
TOTALS = ("words", "ngrams", "bytes")  # figures that are added up over all languages


def path_table(report: dict[str, Any]) -> None:
    """Print the ridge path of a training report."""
    table = plain_table("Ridge path", "ridge", "log likelihood", "error", "P@1", "MRR", "steps", "seconds", "")
    for point in report["ridge_path"]:
        chosen = point["ridge"] == report["ridge"]
        likelihood, error = (point.get(name) for name in ("log_likelihood", "standard_error"))  # not in older reports
        table.add_row(
            f"{point['ridge']:g}",
            "" if likelihood is None else f"{likelihood:.3f}",
            "" if error is None else f"{error:.3f}",
            f"{100 * point['precision']:.1f}",
            f"{100 * point['reciprocal_rank']:.1f}",
            str(point["steps"]),
            f"{point['seconds']:.1f}",
            "chosen" if chosen else "",
            style="bold" if chosen else "",
        )
    out.print(table)
    if text := _path_explanation(report):
        out.print(text, style="dim")


def added_language(model: Cr5, lang: str, path: Path, seconds: float) -> None:
    """Print what an added language was learned from and how its fit ended."""
    report, size = model.report, model.sizes()[lang]
    fit, facts = report["added_languages"][lang], report["languages"][lang]
    if fit["ridge_path"]:
        path_table(fit)
    out.print(
        f"{lang}: {facts['documents']:,} of {plural(facts['documents_read'], 'document')} used, "
        f"{plural(fit['concepts'], 'concept')}, {plural(size.words, 'word')}, {format_bytes(size.bytes)}; "
        f"ridge {fit['ridge']:g}, residual {describe_residual(fit['residual'])} "
        f"after {plural(fit['steps'], 'step')}, {seconds:.1f} s"
    )
    if fit["ridge_note"]:
        out.print(fit["ridge_note"])
    out.print(f"model with {', '.join(model.langs)}: {path}", soft_wrap=True)


def _path_explanation(report: dict[str, Any]) -> str:
    """What the columns of the ridge path mean; "" for reports written by earlier versions, without the queries."""
    queries, shares = report.get("ridge_queries"), report.get("ridge_shares") or [1.0]
    if not queries:
        return ""
    searched = f"{queries:,} held-out queries"
    if len(shares) > 1:
        removed = " and ".join(f"{100 * (1 - share):.0f} %" for share in shares[1:])
        searched += (
            f", each also repeated with {removed} of the words removed, so that P@1 and MRR are lower than for whole "
            "documents"
        )
    searched += "; P@1 and MRR: means over all directions, also those of languages with few documents"
    return f"{searched}; error: standard error of the difference from the best ridge; steps: solver steps"


def training_report(model: Cr5, path: Path | None, seconds: float | None) -> None:
    """Print what a model was trained on and how its fit ended; ``path`` is None if it is not saved."""
    report, chosen = model.report, model.settings
    if "published" in report:
        _published_report(model, str(path), seconds)
        return
    usage = report.get("corpus") or _older_usage(report)
    _print_languages(model, usage, "Interrupted model, not saved" if path is None else f"Model {path}")
    if report["ridge_path"]:
        path_table(report)
    if report.get("ridge_note"):
        out.print(report["ridge_note"])
    if seconds is None:  # otherwise training has warned of it
        for few in few_concepts_warnings(report["concepts"], chosen.weighting.min_documents):
            out.print(settings_as_options(str(few)))
    if "corpus" in report:
        usage_lines(usage, chosen.weighting)
    for lang, fit in report.get("added_languages", {}).items():
        out.print(f"added: {lang}, {plural(fit['concepts'], 'concept')}, ridge {fit['ridge']:g}")
    out.print(view_weights_line(model))
    unfinished = "interrupted" if report.get("interrupted") else "not converged"
    state = "converged" if report["converged"] else unfinished
    out.print(
        f"preset {chosen.preset}, rank {model.rank}, ridge {report['ridge']:g}, "
        f"{plural(report['concepts'], 'concept')}; "
        f"energy {report['energy']:.2f}, residual {describe_residual(report['residual'])} "
        f"after {plural(report['steps'], 'step')} ({state}), "
        f"{report['seconds']:.1f} s"
    )
    is_exact = report["converged"] and (report["residual"] or 0) > chosen.tol
    rounding = "; here it ended above that, because rounding errors of float32 leave nothing to gain"
    out.print(
        "energy: the sum of the eigenvalues, which measures how much of the concepts the vectors explain; residual: "
        f"the relative error of the solution; the fit ends when it is below {chosen.tol:g} (--set tol)"
        f"{rounding if is_exact else ''}",
        style="dim",
    )
    if path is not None:
        _written(model, str(path), seconds)


def _print_languages(model: Cr5, usage: dict[str, Any], title: str) -> None:
    """Print what each language was trained on and how large it is, and which languages the model does not have."""
    report, sizes = model.report, model.sizes()
    columns = ("lang", "read", *usage_columns(usage), "used", "nonzeros", "words", "n-grams", "size")
    rows = []
    absent = [lang for lang, documents in usage["languages"].items() if documents["used"] and lang not in sizes]
    for lang, documents in usage["languages"].items():
        if lang not in absent:
            facts, size = report["languages"].get(lang, {"nonzeros": 0}), sizes.get(lang, LanguageSize(0, 0, 0))
            figures = (documents["read"], *usage_figures(usage, lang), facts["nonzeros"], size.words, size.ngrams)
            rows.append([lang, *(f"{figure:,}" for figure in figures), format_bytes(size.bytes)])
    print_by_language(title, columns, rows)
    if absent:
        out.print(f"trained together with {', '.join(absent)}, which this model does not have")
    if any(size.bits < 32 for size in sizes.values()):
        bits = ", ".join(f"{lang} {size.bits}" for lang, size in sizes.items())
        out.print(f"quantised, bits of each number: {bits}")


def _published_report(model: Cr5, path: str, seconds: float | None) -> None:
    """Print what a model has whose word vectors the paper's authors published."""
    name, sizes = model.report["published"], model.sizes()
    table = plain_table(f"Model {path}", "lang", "words", "not tokens", "left out", "size", left=("lang",))
    for lang in sizes:
        facts = model.report["languages"][lang]
        figures = (facts["words"], facts["not_tokens"], sum(facts["skipped"].values()))
        table.add_row(lang, *(f"{figure:,}" for figure in figures), format_bytes(sizes[lang].bytes))
    out.print(table)
    out.print(
        f"published word vectors {name}, rank {model.rank}; the vector of a text is the sum of those of its words, at "
        "length 1"
    )
    out.print(
        "not tokens: words that the tokeniser never makes of a text, such as those with an apostrophe or a capital",
        style="dim",
    )
    _written(model, path, seconds)


def _written(model: Cr5, path: str, seconds: float | None) -> None:
    if seconds is not None:
        example = f"cr5 similar {quote(path)} WORD --lang {model.langs[0]}"
        advice = "" if model.report.get("interrupted") else f"; try: {example}"
        out.print(f"written to {path} in {seconds:.1f} s{advice}", soft_wrap=True)


def model_sizes(model: Cr5, path: Path) -> None:
    """Print how large each language of a model is, and all together."""
    sizes = model.sizes()
    out.print(f"Model {path}", style="bold", soft_wrap=True)  # a title would be as narrow as the table
    table = plain_table("", "lang", "words", "n-grams", "bits", "size", left=("lang",))
    for lang, size in sizes.items():
        table.add_row(lang, f"{size.words:,}", f"{size.ngrams:,}", str(size.bits), format_bytes(size.bytes))
    table.add_section()
    words, ngrams, size_in_bytes = (sum(getattr(size, name) for size in sizes.values()) for name in TOTALS)
    table.add_row("all", f"{words:,}", f"{ngrams:,}", "", format_bytes(size_in_bytes))
    out.print(table)


def view_weights_line(model: Cr5) -> str:
    """The weight of each view, and where that of the strings comes from."""
    report = model.report
    weights = ", ".join(f"{name} {weight:g}" for name, weight in model.view_weights.items())
    if "view_weights" not in report:
        origin = "the same in all models written by earlier versions"
    elif report["strings_weight_path"]:
        origin = "chosen by retrieval of held-out documents"
    elif model.settings.strings_weight == "auto":
        origin = f"expected for {plural(report['concepts'], 'concept')}"
    else:
        origin = "set by strings_weight"
    return f"weights of the views: {weights} ({origin})"


def _older_usage(report: dict[str, Any]) -> dict[str, Any]:
    """The usage of a corpus by a model whose report does not have it yet: of documents, without reasons."""
    languages = {
        lang: {"read": facts["documents_read"], "used": facts["documents"], "left_out": {}}
        for lang, facts in report["languages"].items()
    }
    return {"documents": {"left_out": {}}, "languages": languages}


def explanation(explained: Explanation, lang_a: str, lang_b: str) -> None:
    """Print words and word pairs by contribution, strongest first."""
    out.print(f"cosine {explained.similarity:.3f}")
    value = "contribution"
    table = plain_table("", lang_a, value, lang_b, value, "pair", value, left=(lang_a, lang_b, "pair"))
    size = max(len(explained.words_a), len(explained.words_b), len(explained.pairs))
    for i in range(size):
        cells: list[str] = []
        for words in (explained.words_a, explained.words_b):
            cells += [words[i].word, f"{words[i].value:+.3f}"] if i < len(words) else ["", ""]
        pair = explained.pairs[i] if i < len(explained.pairs) else None
        cells += [f"{pair.word_a} ~ {pair.word_b}", f"{pair.value:+.3f}"] if pair else ["", ""]
        table.add_row(*cells)
    out.print(table)
    out.print(f"everything else: {explained.rest_a:+.3f} in {lang_a}, {explained.rest_b:+.3f} in {lang_b}", style="dim")
    if explained.views:
        total = explained.similarity_by_views
        columns = ("view", "share", "cosine", "largest drop when removed")
        table = plain_table(f"Similarity by all views {total:.3f}", *columns, left=(columns[0], columns[-1]))
        for view in explained.views:
            least = max(MIN_FALL, MIN_FALL_SHARE * view.cosine)
            sides = [
                ", ".join(word for word, fall in side[:3] if fall >= least) for side in (view.words_a, view.words_b)
            ]
            table.add_row(view.view, f"{view.share:.2f}", f"{view.cosine:.3f}", " ~ ".join(filter(None, sides)))
        out.print(table)
        out.print(
            "contribution: a word's part of the cosine of the vectors, which is the sum of all parts; largest drop "
            "when removed: the words whose removal lowers the cosine of a view most; these drops do not add up",
            style="dim",
        )


def guessed_languages(langs: Iterable[str]) -> None:
    """Print on standard error how many texts are guessed to be in each language."""
    counts = ", ".join(f"{lang} {count:,}" for lang, count in Counter(langs).most_common())
    err.print(f"languages guessed: {counts}; set one for all lines with --lang", style="dim", soft_wrap=True)


def translations(word: str, source: str, target: str, words: list[tuple[str, float]]) -> None:
    """Print the translations of a word with their probabilities."""
    if not words:
        out.print(f"{word} ({source}): not a word that the model knows; try another form of it", soft_wrap=True)
        return
    shown = [(other, share) for other, share in words if share >= MIN_PROBABILITY]
    out.print(_word_table(f"{word} ({source}) in {target}", "probability", shown or words[:1]))


def similar_words(word: str, lang: str, neighbours: Mapping[str, Sequence[tuple[str, float]]]) -> None:
    """Print the nearest words of other languages to a word; the tables of many languages stand side by side."""
    if len(neighbours) <= MAX_TABLES_BELOW:
        for target, words in neighbours.items():
            out.print(_word_table(f"{word} ({lang}) in {target}", "cosine", words))
        return
    out.print(Text(f"{word} ({lang}), by cosine", "bold"))
    out.print(Columns([_word_table("", "", words, target) for target, words in neighbours.items()], padding=(0, 2)))


def _word_table(title: str, figure: str, words: Sequence[tuple[str, float]], name: str = "word") -> Table:
    table = plain_table(title, name, figure, left=(name,))
    for word, value in words:
        table.add_row(Text(word), f"{value:.3f}")
    return table
