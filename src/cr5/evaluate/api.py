"""The Python interface of the evaluation: ``documents``, ``held_out_texts``, ``sentences`` and ``words``."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args

from cr5.corpus.documents import Document
from cr5.corpus.inputs import Documents
from cr5.corpus.skipped import OnError, Skipped
from cr5.corpus.texts import one_or_several
from cr5.corpus.writing import write
from cr5.errors import Cr5Error, one_of, whole_number
from cr5.evaluate.aligned_sentences import read_aligned
from cr5.evaluate.dictionaries import read_dictionaries
from cr5.evaluate.output import keeping_run
from cr5.evaluate.preparation import (
    Paths,
    Systems,
    check_output,
    choose_baselines,
    choose_regimes,
    corpus_name,
    describe_preprocessing,
    path_list,
    prepare_documents,
    reject_if_given,
    settings_of,
    title,
)
from cr5.evaluate.report.files import write_reports
from cr5.evaluate.report.formatting import describe_failures
from cr5.evaluate.runs import CslsOver, Regime, Run
from cr5.evaluate.splits import LOW_RESOURCE, Split
from cr5.evaluate.systems.precomputed import as_system, read_vectors
from cr5.evaluate.systems.pretrained import load_systems
from cr5.evaluate.systems.registry import KEYS, SYSTEMS, SystemEntry, choose_systems, make_systems
from cr5.evaluate.tasks.documents import evaluate_documents
from cr5.evaluate.tasks.sentences import SENTENCE_QUERIES, SEPARATE_SHARE, evaluate_sentences
from cr5.evaluate.tasks.words import evaluate_words
from cr5.model import Cr5
from cr5.progress import ProgressCallback, no_progress
from cr5.settings import Settings
from cr5.storage.atomic import created_folder
from cr5.storage.atomic import replace as replace_file
from cr5.storage.output_paths import naming_os_errors

DOCUMENT_SYSTEMS = ("cr5", "cr5-dense", "chars", "shared-tokens", "bm25", "esa")


def documents(
    corpus: Documents,
    *,
    systems: Systems = DOCUMENT_SYSTEMS,
    regimes: Regime | Sequence[Regime] | Literal["all"] = ("joint",),
    settings: Settings | Cr5 | Mapping[str, Any] | None = None,
    langs: str | Sequence[str] | None = None,
    seed: int | None = None,
    queries: int | None = None,
    candidates: int | None = None,
    split: Split | str | Path | None = None,
    validation: bool = False,
    comparable: bool = False,
    mask_shared: bool = False,
    csls_over: CslsOver = "queries",
    low_resource: int | None = None,
    pivot: str | None = None,
    bridge: str | None = None,
    drop: bool = False,
    dictionary: Paths = (),
    vectors: Mapping[str, str | Path] | None = None,
    name: str | None = None,
    output: str | Path | None = None,
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
    progress: ProgressCallback = no_progress,
    should_stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Hold documents out, train systems without them, and measure how well the documents find their counterparts.

    A system that cannot run is in ``failed`` of the run, with the reason, and the others are measured. Cr5Error is
    raised if nothing could be measured.

    Parameters
    ----------
    corpus
        Documents in two or more languages, as ``Cr5.fit`` takes them.
    systems
        What to train and measure: keys of ``cr5.evaluate.SYSTEMS``, such as "cr5" or "bm25", your own ``SystemEntry``,
        or "all".
    regimes
        What to train on. "joint": all languages together. "pairwise": the concepts that both languages of a pair
        have. "low-resource": ``low_resource`` of these. "transitive": the two languages share no training concept,
        but each shares some with a third, the pivot. Several, or "all".
    settings
        The settings of cr5: a dict such as {"rank": 100}, a ``Cr5``, or ``Settings``. The other systems use its rank,
        seed and tokeniser, and the limits of different words apply to the documents of all systems.
    langs
        Only these languages. With ``comparable`` their order decides which paragraphs a language gets.
    seed
        Seed of the split, 0 by default.
    queries
        Test queries of a language pair, 1000 by default and at most a tenth of the concepts that it shares.
    candidates
        Candidates of a language, 200,000 by default and at most two fifths of its concepts.
    split
        A stored split, or its file (split.json), instead of a new one; it determines the three values above.
    validation
        Use the validation queries, which are there for choosing settings, instead of the test queries.
    comparable
        Turn a parallel corpus with one paragraph a line into a comparable one: of L languages, language i keeps the
        paragraphs i, i + L, … An upper bound is then measured as well, TF-IDF within the query language.
    mask_shared
        Remove from held-out documents the words that their counterparts in other languages have as well.
    csls_over
        The texts over which CSLS takes the neighbourhoods of candidates: "queries", or "background", other held-out
        texts in the query language.
    low_resource
        Training concepts of a pair in the regime "low-resource", 1000 by default.
    pivot
        The third language in the regime "transitive"; by default the one that shares most with both.
    bridge
        The earlier name of ``pivot``.
    drop
        In the regime "transitive", drop the concepts that both languages have, as in the paper, instead of assigning
        each to one of the two.
    dictionary
        Bilingual dictionaries for the system "dictionary": files named like en-it.tsv with source, tab, target.
    vectors
        Vectors computed elsewhere, as further systems: a name and a folder with en.npy or en.parquet, …, whose row i
        belongs to line i of what ``held_out_texts`` writes.
    name
        The name of the corpus in reports; by default the names of its files.
    output
        Folder for run.json, scores.csv, report.md, report.html and split.json.
    on_error, skipped
        With ``on_error="skip"``, unusable lines and files are skipped and counted in ``skipped``.
    progress
        Called with a ``Progress`` at every step.
    should_stop
        Called before each training. Once it returns true, the run has what was measured by then; if nothing was,
        KeyboardInterrupt is raised.
    """
    one_of("csls_over", csls_over, get_args(CslsOver))
    settings = settings_of(settings)
    chosen_regimes = choose_regimes(regimes)
    if "low-resource" not in chosen_regimes:
        reject_if_given("only applies to the regime low-resource", low_resource=low_resource)
    pivot = bridge if pivot is None else pivot
    if "transitive" not in chosen_regimes:
        reject_if_given("only applies to the regime transitive", pivot=pivot, drop=drop)
    dictionaries = read_dictionaries(path_list(dictionary))
    entries = choose_systems(systems, bool(dictionaries))
    fitted_systems = {system: read_vectors(Path(folder)) for system, folder in (vectors or {}).items()}
    if not entries and not fitted_systems:
        raise Cr5Error(f"`systems` is empty; the systems are {', '.join(KEYS)}, or all")
    check_output(output)
    started = time.perf_counter()
    skipped = Skipped() if skipped is None else skipped
    held_out = prepare_documents(
        corpus, settings, langs=langs, seed=seed, queries=queries, candidates=candidates, split=split,
        validation=validation, comparable=comparable, mask_shared=mask_shared, csls_over=csls_over, on_error=on_error,
        skipped=skipped, progress=progress, should_stop=should_stop,
    )  # fmt: skip
    for fitted in fitted_systems.values():
        for lang, texts in held_out.texts.items():
            fitted.embed(texts, lang)  # fail early if the vectors do not fit the texts
    trainable = make_systems(entries, settings, held_out.training_texts(), dictionaries, progress)
    trainable |= {system: as_system(fitted) for system, fitted in fitted_systems.items()}
    if comparable and not mask_shared:
        trainable |= make_systems([SYSTEMS["upper-bound"]], settings, {})
    run = evaluate_documents(
        held_out,
        trainable,
        title=title(name or corpus_name(corpus), list(held_out.corpus.languages)),
        preprocessing=describe_preprocessing(held_out.corpus, mask_shared),
        regimes=chosen_regimes,
        rank=settings.nominal_rank,
        seed=settings.seed,
        low_resource=LOW_RESOURCE if low_resource is None else low_resource,
        pivot=pivot,
        drop_shared=drop,
        facts={"settings": settings.to_json(), "skipped": skipped.counts},
        progress=progress,
        should_stop=should_stop,
    )
    if not run.scores and should_stop():
        raise KeyboardInterrupt
    return _finish(run, entries, started, output, held_out.split)


def held_out_texts(
    corpus: Documents,
    folder: str | Path,
    *,
    settings: Settings | Cr5 | Mapping[str, Any] | None = None,
    langs: str | Sequence[str] | None = None,
    seed: int | None = None,
    queries: int | None = None,
    candidates: int | None = None,
    split: Split | str | Path | None = None,
    comparable: bool = False,
    mask_shared: bool = False,
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
    progress: ProgressCallback = no_progress,
) -> dict[str, int]:
    """Write the texts that ``documents`` compares, en.jsonl, …, so that another program can encode them: all, or none.

    Returns the number of texts of each language. The parameters are those of ``documents``, which takes the
    resulting files as ``vectors``.
    """
    held_out = prepare_documents(
        corpus, settings_of(settings), langs=langs, seed=seed, queries=queries, candidates=candidates, split=split,
        comparable=comparable, mask_shared=mask_shared, on_error=on_error, skipped=skipped, progress=progress,
    )  # fmt: skip
    with created_folder(Path(folder)), TemporaryDirectory(dir=folder, prefix=".texts-") as unfinished:
        for lang, texts in held_out.texts.items():
            names = [held_out.filtered_corpus.concepts[i] for i in texts.concepts]
            rows = map(Document, names, [lang] * len(names), held_out.plain_texts(lang), texts.titles)
            with naming_os_errors(Path(folder), files_inside=True):
                write(Path(unfinished) / f"{lang}.jsonl", rows)
        for path in Path(unfinished).iterdir():
            replace_file(path, Path(folder) / path.name)
    return {lang: len(texts) for lang, texts in held_out.texts.items()}


def sentences(
    model: Cr5 | str | Path,
    files: Paths,
    *,
    langs: str | Sequence[str] | None = None,
    queries: int = SENTENCE_QUERIES,
    separate: float = SEPARATE_SHARE,
    train: Documents | None = None,
    systems: Systems | None = None,
    dictionary: Paths = (),
    validation: bool = False,
    csls_over: CslsOver = "queries",
    seed: int = 0,
    output: str | Path | None = None,
    progress: ProgressCallback = no_progress,
) -> Run:
    """Measure how well sentences find their translations, with a model that was trained on other texts.

    Parameters
    ----------
    model
        A fitted model, or the folder of a saved one.
    files
        Line-aligned files NAME.en and NAME.it, Parquet files with a column for each language, or folders of these.
    langs
        Only pairs of these languages.
    queries
        Queries of a language pair; all its sentences are candidates.
    separate
        Share of the sentences of a pair from which only IDF weights are computed, if it has 10,000 sentences or more;
        a value of 1 or more is a number of sentences. The model is evaluated with these weights, and with its own.
    train
        A corpus to train ``systems`` on; for a fair comparison, the one that the model was trained on.
    systems
        Systems to compare the model with, as in ``documents``; ("shared-tokens", "words") by default. Needs ``train``.
    dictionary
        Bilingual dictionaries for the system "dictionary". Needs ``train``.
    validation
        Use the validation queries, which are there for choosing settings, instead of the test queries.
    csls_over
        As in ``documents``.
    seed
        Seed of the sample of sentences.
    output
        Folder for run.json, scores.csv, report.md and report.html.
    progress
        Called with a ``Progress`` at every step.
    """
    one_of("csls_over", csls_over, get_args(CslsOver))
    baselines = choose_baselines(train, systems, dictionary)
    check_output(output)
    started = time.perf_counter()
    paths = path_list(files)
    pairs = read_aligned(paths, None if langs is None else one_or_several(langs))
    tested_langs = sorted({lang for pair in pairs for lang in pair.langs})
    pretrained = load_systems(model, tested_langs, baselines, progress)
    run = evaluate_sentences(
        pretrained,
        pairs,
        queries=whole_number("queries", queries),
        separate=separate,
        seed=whole_number("seed", seed),
        csls_over=csls_over,
        query_set="validation" if validation else "test",
        title=title(corpus_name(paths), tested_langs),
        progress=progress,
    )
    return _finish(run, pretrained.entries, started, output)


def words(
    model: Cr5 | str | Path,
    dictionaries: Paths,
    *,
    train: Documents | None = None,
    systems: Systems | None = None,
    dictionary: Paths = (),
    csls_over: CslsOver = "queries",
    output: str | Path | None = None,
    progress: ProgressCallback = no_progress,
) -> Run:
    """Measure how well words find their translations among all words of the other language.

    The model is measured as its lexicon compares words, by vectors and spelling ("cr5"), and by its vectors alone
    ("cr5-dense").

    Parameters
    ----------
    model
        A fitted model, or the folder of a saved one.
    dictionaries
        The test words: files named like en-it.test.tsv, each for one direction, with source, tab, target. A source
        word may have several translations, one on each line.
    train, systems, dictionary
        As in ``sentences``; ``dictionary`` has words to train with, not to test.
    csls_over
        The words over which CSLS takes the neighbourhoods of candidates: "queries", or "background", the most
        frequent other words of the query language.
    output
        Folder for run.json, scores.csv, report.md and report.html.
    progress
        Called with a ``Progress`` at every step.
    """
    one_of("csls_over", csls_over, get_args(CslsOver))
    baselines = choose_baselines(train, systems, dictionary)
    check_output(output)
    started = time.perf_counter()
    paths = path_list(dictionaries)
    langs = sorted({lang for pair in read_dictionaries(paths) for lang in pair})
    pretrained = load_systems(model, langs, baselines, progress)
    run_title = title(corpus_name(paths), langs)
    run = evaluate_words(pretrained, paths, csls_over=csls_over, title=run_title, progress=progress)
    return _finish(run, pretrained.entries, started, output)


def _finish(
    run: Run, entries: Sequence[SystemEntry], started: float, output: str | Path | None, split: Split | None = None
) -> Run:
    """Add roles and duration to a run, and write its files; raises Cr5Error if nothing could be measured."""
    if not run.scores:
        raise Cr5Error("; ".join([*describe_failures(run.failed), *run.notes]) or "nothing could be measured")
    run.facts["seconds"] = time.perf_counter() - started
    run = replace(run, roles={entry.name: entry.role for entry in entries})
    if output is not None:
        with keeping_run(run, output, "write_reports"):
            write_reports(run, output, split)
    return run
