"""Corpora on the terminal: what a source became, and a corpus in figures."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from shlex import quote

from cr5.cli.render.console import err, out, plain_table, print_by_language, print_table, skipped_lines, warn, width
from cr5.cli.render.usage import usage_columns, usage_figures, usage_lines
from cr5.corpus.country_codes import country_code_warning
from cr5.corpus.languages import regional_codes
from cr5.corpus.skipped import Skipped
from cr5.features.tfidf import Weighting
from cr5.message_parts import in_languages, plural
from cr5.sources.accounting import EXTENSION, Accounting, is_extension
from cr5.sources.clean import SourceSummary
from cr5.sources.wikipedia.build import WikipediaCorpus
from cr5.sources.wikipedia.dump_reader import PAGES
from cr5.training.inspection import Inspection

MIN_CONFIDENCE = 0.3  # mean over guessed languages; of single sentences with this confidence, 40 % are wrong


def inspection_tables(inspection: Inspection, weighting: Weighting, skipped: Skipped) -> None:
    """Print the figures of a corpus, of which ``skipped`` could not be read."""
    usage = inspection.usage.to_json() | {"skipped": skipped.counts}
    columns = ("lang", "docs", "concepts", "words", "repeated", *usage_columns(usage), "used")
    rows = []
    for lang, facts in inspection.languages.items():
        figures = (facts.documents, facts.concepts, facts.unique_words, facts.duplicates, *usage_figures(usage, lang))
        rows.append([lang, *(f"{figure:,}" for figure in figures)])
    print_by_language("Documents and words", columns, rows)
    _shared_concepts(inspection.shared)
    out.print(
        f"{plural(inspection.concepts, 'concept')}, {inspection.concepts_shared:,} of them in two languages or more"
    )
    out.print("words: different words; repeated: exact duplicates; used: documents to train on", style="dim")
    usage_lines(usage, weighting)
    for lang, facts in inspection.languages.items():
        if facts.several:
            out.print(f"{lang}: {plural(facts.several, 'concept')} with several documents, whose rows are summed")


def _shared_concepts(shared: Mapping[str, Mapping[str, int]]) -> None:
    """Print how many concepts every two languages share; if that is too wide, the least and the most of each."""
    table = plain_table("", "", *shared, left=("",))
    for a in shared:
        table.add_row(a, *("" if a == b else f"{shared[a][b]:,}" for b in shared))
    if width(table) <= out.width:
        print_table("Shared concepts", table)
        return
    rows = []
    for a, counts in shared.items():
        others = sorted((count, b) for b, count in counts.items() if b != a)
        (least, least_lang), (most, most_lang) = others[0], others[-1]
        mean = sum(count for count, _ in others) / len(others)
        rows.append([a, f"{least:,} {least_lang}", f"{mean:,.0f}", f"{most:,} {most_lang}"])
    print_by_language("Shared concepts", ("lang", "least", "mean", "most"), rows)
    out.print(
        "least, mean, most: of the concepts shared with one other language; --json or a wider terminal shows all pairs",
        style="dim",
    )


def source_summary(
    summary: SourceSummary,
    output: str,
    seconds: float,
    *,
    drop_foreign: bool,
    dedupe: bool,
    min_unique: int,
    longer: str,
    skipped_advice: Mapping[str, str],
    warnings: Iterable[str],
) -> None:
    """Print what became of a source; on standard error where the corpus itself goes to standard output.

    ``longer`` says how to get longer documents, ``skipped_advice`` how to read files that were skipped.
    """
    to = err if output == "-" else out
    figures = summary.by_language()
    columns = {
        "docs": {lang: f"{facts.documents:,}" for lang, facts in figures.items()},
        "skipped": {lang: f"{sum(facts.skipped.values()):,}" for lang, facts in figures.items() if facts.skipped},
        "guessed": {lang: f"{facts.guessed:,}" for lang, facts in figures.items() if facts.guessed},
        "confidence": {
            lang: f"{facts.confidence:.0%}" for lang, facts in figures.items() if facts.confidence is not None
        },
        "foreign": {lang: f"{sum(facts.foreign.values()):,}" for lang, facts in figures.items() if facts.foreign},
        "near-dup": {lang: f"{facts.duplicates:,}" for lang, facts in figures.items() if facts.duplicates},
        "short": {lang: f"{facts.short:.0%}" for lang, facts in figures.items() if (facts.short or 0) >= 0.005},
    }
    shown = {name: cells for name, cells in columns.items() if cells}
    table = plain_table("", "lang", *shown, left=("lang",))
    for lang in figures:
        table.add_row(lang, *(cells.get(lang, "") for cells in shown.values()))
    to.print("Corpus" if output == "-" else f"Corpus {output}", style="bold", soft_wrap=True)
    to.print(table)
    to.print(
        plural(summary.documents.total(), "document") + ("" if output == "-" else f" written to {output}")
        + f" in {seconds:.1f} s; {plural(summary.concepts, 'concept')}, {summary.shared:,} in two languages or more"
    )  # fmt: skip
    for line in _accounts(summary.accounting, skipped_advice):
        to.print(line, soft_wrap=True)
    for line in _remarks(summary, drop_foreign, dedupe):
        to.print(line, style="dim")
    if "short" in shown:
        to.print(
            f"short: fewer than {min_unique} different words, estimated from a sample; by default cr5 trains on these, "
            "too, and only the preset wsdm19 does not" + (f"; to get longer ones, {longer}" if longer else ""),
            style="dim",
        )
    for warning in warnings:
        warn(warning)
    if summary.shared and output != "-":
        next_steps(output)


def next_steps(corpus: str) -> None:
    """Print what is usually done with a new corpus."""
    path = quote(corpus)
    out.print(f"\nNext: cr5 corpus inspect {path}; cr5 train {path} -o model", style="bold", soft_wrap=True)


def _accounts(accounting: Accounting, advice: Mapping[str, str]) -> Iterator[str]:
    """Where every file and document is: read or written, or skipped and why."""
    files, extensions = accounting.skipped_files, accounting.extensions()
    yield from _account("files", accounting.files_found, "found", accounting.files_read, "read", files, advice)
    if extensions:
        named = ", ".join(
            f"{'no extension' if name == 'none' else name} {count:,}" for name, count in list(extensions.items())[:8]
        )
        more = f" and {len(extensions) - 8} more" if len(extensions) > 8 else ""
        yield f"  {sum(extensions.values()):,}: other extensions, {named}{more}{_then(advice, EXTENSION)}"
    written, read = accounting.written.total(), accounting.documents_read
    yield from _account("documents", read, "read", written, "written", accounting.skipped_documents, advice)
    for reason, count in accounting.skipped_parts.counts.items():
        yield f"parts of documents skipped, {count:,}: {reason} (first: {accounting.skipped_parts.examples[reason]})"
    for encoding, count in accounting.guessed_encodings.counts.items():
        first = accounting.guessed_encodings.examples[encoding]
        yield f"encoding guessed, {plural(count, 'file')}: {encoding} (first: {first})"
    if kinds := accounting.field_kinds:
        listed = [f"{name} ({' and '.join(sorted(kinds[name])) or 'empty'})" for name in kinds]
        yield f"fields: {', '.join(listed)}"


def conversion(output: str, written: int, files: Skipped, documents: Skipped) -> None:
    """Print what became of the documents of a corpus that was converted, and which files were skipped."""
    skipped_lines(files)
    err.print(f"{plural(written, 'document')} written" + ("" if output == "-" else f" to {output}"), soft_wrap=True)
    for line in _account("documents", written + documents.total, "read", written, "written", documents, {}):
        err.print(line, soft_wrap=True)


def conversion_facts(output: str, written: int, files: Skipped, documents: Skipped) -> dict[str, object]:
    """The same as plain values, named as ``Accounting.to_json`` does."""
    read = {"read": written + documents.total, "written": written}
    return {
        "corpus": output,
        "files": {"skipped": files.counts, "examples": files.examples},
        "documents": read | {"skipped": documents.counts, "examples": documents.examples},
    }


def _account(
    noun: str, total: int, seen: str, kept: int, done: str, skipped: Skipped, advice: Mapping[str, str]
) -> Iterator[str]:
    rest = f", {skipped.total:,} skipped" if skipped.total else ""
    yield f"{noun}: {total:,} {seen}, {kept:,} {done}{rest}"
    for reason, count in sorted(skipped.counts.items(), key=lambda item: -item[1]):
        if not is_extension(reason):
            yield f"  {count:,}: {reason} (first: {skipped.examples[reason]}){_then(advice, reason)}"


def _then(advice: Mapping[str, str], reason: str) -> str:
    return f"; {advice[reason]}" if reason in advice else ""


def source_warnings(summary: SourceSummary, wanted: Collection[str]) -> Iterator[str]:
    """What seems to be wrong with a corpus that was made; ``wanted`` are the languages that it should have."""
    figures = summary.by_language()
    written = [lang for lang, facts in figures.items() if facts.documents]
    if empty := [lang for lang, facts in figures.items() if not facts.documents]:
        yield f"no documents are left {in_languages(empty)}; see above what was skipped"
    if len(written) > 1 and summary.hardly_shared:
        names = "; ".join(f"{lang}: {', '.join(found)}" for lang, found in list(summary.example_concepts.items())[:4])
        yield (
            f"{summary.shared or 'none'} of the {summary.concepts:,} concepts "
            f"{'is' if summary.shared < 2 else 'are'} in two languages, probably because their names do not match "
            f"({names}); check the options that say where a path or row has its concept and its language"
        )
    elif not summary.shared and not empty:
        yield "no concept is in two languages, so nothing can be learned from this alone; check --langs and the names"
    sure = {lang: facts.confidence for lang, facts in figures.items() if facts.confidence is not None}
    if unsure := [f"{lang} {share:.0%}" for lang, share in sure.items() if share < MIN_CONFIDENCE]:
        yield (
            f"languages were guessed with little confidence, on average: {', '.join(unsure)}; "
            "name the language of these documents in the source, or keep others with --langs"
        )
    for codes in regional_codes(written):
        yield f"{' and '.join(codes)} will be learned as different languages; give them one code unless you mean that"
    yield from filter(None, map(country_code_warning, written))
    commas = summary.accounting.decimal_commas
    for name, count in commas.counts.items():
        yield (
            f"{name}: {plural(count, 'value')} with a comma, such as {commas.examples[name]}, stored as a string; "
            "write numbers as 1234.5, so that they can be compared"
        )
    if missing := summary.missing(wanted):
        yield f"there are no documents {in_languages(missing)}; the source has {', '.join(sorted(summary.read))}"


def _remarks(summary: SourceSummary, drop_foreign: bool, dedupe: bool) -> Iterator[str]:
    """Explain the columns, and what can be done about them."""
    if summary.renamed:
        first = [f"{code} is {lang}" for code, lang in sorted(summary.renamed.items())]
        yield f"codes: {', '.join(first[:5])}" + (f" and {len(first) - 5:,} more" if len(first) > 5 else "")
    if summary.guessed:
        yield "guessed: the source names no language; confidence: of the guesses, on average"
    if summary.foreign:
        (lang, other), count = summary.foreign.most_common(1)[0]
        done = "left out" if drop_foreign else "leave them out with --drop-foreign"
        example = summary.foreign_examples[lang, other]
        yield f"foreign: evidently in another language ({lang}: {count:,} in {other}, such as {example}); {done}"
    if summary.duplicates:
        done = "left out" if dedupe else "leave them out with --dedupe"
        yield f"near-dup: near-duplicates of a text of another concept; {done}"


def wikipedia_report(built: WikipediaCorpus, seconds: float) -> None:
    """Print what became of every Wikipedia."""
    columns = ("lang", "dump", "pages", "articles", "foreign", "near-dup", "alone", "docs")
    table = plain_table(f"Corpus {built.output}", *columns, left=columns[:2])
    for lang, language in built.languages.items():
        published = language.published
        figures = (
            language.extracted.page_counts[PAGES], published.articles, sum(published.foreign.values()),
            published.duplicates, published.unshared, language.documents,
        )  # fmt: skip
        table.add_row(lang, language.dump.date, *("" if figure is None else f"{figure:,}" for figure in figures))
    out.print(table)
    total = sum(language.documents for language in built.languages.values())
    out.print(
        f"{plural(total, 'document')}, {plural(built.shared_concepts, 'concept')} in two languages or more, "
        f"{seconds:,.1f} s"
    )
    out.print(
        "articles: pages with a Wikidata item that are neither redirects nor disambiguation pages; foreign: evidently "
        "in another language; near-dup: near-duplicates of another article; alone: no other language has the concept",
        style="dim",
    )
    for lang, language in built.languages.items():
        skipped_lines(language.extracted.faults, f"{lang}: ")
    for note in built.notes:
        err.print(f"note: {note}", style="dim", soft_wrap=True)
    next_steps(str(built.output))
