"""The commands that measure: ``cr5 eval``."""

import secrets
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import typer

from cr5.cli.options import (
    Changes,
    Corpora,
    Json,
    Langs,
    Model,
    OnError,
    Preset,
    Rank,
    Ridge,
    changes_of,
    comma_separated,
    read_corpora,
    ridge_of,
    settings_of,
)
from cr5.cli.render import console, scores
from cr5.corpus.documents import Document, Skipped, write
from cr5.corpus.languages import find_language
from cr5.errors import Cr5Error
from cr5.evaluate.aligned import read_aligned
from cr5.evaluate.report.files import write_reports
from cr5.evaluate.runs import REGIMES, Regime, Run, compare, load_run
from cr5.evaluate.splits import MAX_CANDIDATES, MAX_QUERIES, MIN_QUERIES, Split, make_split, training_rows
from cr5.evaluate.systems import baselines
from cr5.evaluate.systems.own import cr5_system, pretrained, read_vectors
from cr5.evaluate.systems.space import Space, System
from cr5.evaluate.systems.word_vectors import Monolingual, read_dictionary, word_vectors
from cr5.evaluate.tasks.documents import CslsOver, HeldOutDocuments, evaluate_documents, hold_out
from cr5.evaluate.tasks.reproduce import DOCUMENT_WORDS, LOW_RESOURCE_CONCEPTS, QUERY_WORDS
from cr5.evaluate.tasks.reproduce import reproduce as reproduce_table
from cr5.evaluate.tasks.sentences import evaluate_sentences, space_of
from cr5.evaluate.tasks.words import evaluate_words, languages_of
from cr5.evaluate.texts import EvaluationCorpus, TokenisedTexts, read_texts
from cr5.features.tokeniser import Tokeniser
from cr5.model import Cr5
from cr5.progress import Progress, ProgressCallback, silent, stop_on_interrupt
from cr5.settings import Settings, settings

app = typer.Typer(
    help="Measure how well texts find their counterparts in other languages, beside baselines.",
    no_args_is_help=True,
    invoke_without_command=True,
)

CEILING = "ceiling (TF-IDF within the language)"
LOW_RESOURCE = 1000
SYSTEMS = {
    "cr5": "cr5",
    "wsdm19": "cr5 as in the paper",
    "floor": "shared tokens (floor)",
    "bm25": "BM25 over shared words",
    "lsi": "CL-LSI",
    "esa": "CL-ESA",
    "inverted": "inverted index",
    "words": "word vectors",
    "dictionary": "word vectors (dictionary)",
}
"""What --systems may name, and what the tables call it."""
USUAL = "cr5,floor,bm25,esa"
EXTRAS = {"lsi": "scikit-learn", "inverted": "scikit-learn", "words": "gensim", "dictionary": "gensim"}
MODULES = {"scikit-learn": "sklearn", "gensim": "gensim"}

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Folder to write run.json, scores.csv, report.md and report.html to."),
]
Train = Annotated[
    list[str] | None,
    typer.Option(help="Documents that baselines are trained on; those of the model, to be fair.", metavar="CORPUS"),
]
Dictionary = Annotated[
    list[Path] | None,
    typer.Option(
        help="Words of two languages, en-it.tsv: source<TAB>target, for the system dictionary.", metavar="FILE"
    ),
]
Details = Annotated[bool, typer.Option("--details", help="Print every system's figures, direction by direction.")]
Validation = Annotated[bool, typer.Option("--validation", help="Ask the validation queries, to choose settings by.")]
Beside = Annotated[
    str | None,
    typer.Option(help="With --train: what to measure beside the model.", metavar="NAMES", show_default="floor,words"),
]
CslsOverOption = Annotated[
    CslsOver,
    typer.Option(
        help="Texts that CSLS takes neighbourhoods over: the queries, or other held-out texts in their language."
    ),
]


@app.callback()
def root(
    context: typer.Context,
    comparison: Annotated[
        tuple[Path, Path] | None,
        typer.Option("--compare", help="Put two runs side by side: folders written with -o.", metavar="A B"),
    ] = None,
    systems: Annotated[
        str | None, typer.Option(help="With --compare: one system of A and one of B, by name.", metavar="NAME,NAME")
    ] = None,
    json: Json = False,
) -> None:
    """Measure how well texts find their counterparts in other languages, beside baselines.

    Examples:

        cr5 eval documents corpus/ -o results

        cr5 eval sentences model europarl.en europarl.it

        cr5 eval words model en-it.tsv

        cr5 eval --compare results other-results
    """
    if comparison is None:
        if context.invoked_subcommand is None:
            raise Cr5Error("name what to measure: documents, sentences or words; or two runs with --compare A B")
        return
    if context.invoked_subcommand is not None:
        raise Cr5Error(f"--compare stands alone; leave out {context.invoked_subcommand}")
    names = comma_separated(systems)
    names = None if names is None else [SYSTEMS.get(name, name) for name in names]
    if names is not None and len(names) != 2:
        raise Cr5Error(f"--systems is {systems!r}; with --compare it must be two names, one of each run")
    runs = load_run(comparison[0]), load_run(comparison[1])
    rows = compare(*runs, (names[0], names[1]) if names else None)
    if json:
        console.as_json([row.to_json() for row in rows])
    else:
        scores.comparison_table(rows)


@app.command()
def documents(
    corpora: Corpora,
    output: Output = None,
    langs: Langs = None,
    regime: Annotated[
        str, typer.Option(help=f"What to train on: {', '.join(REGIMES)}, several with commas, or all.", metavar="NAMES")
    ] = "joint",
    systems: Annotated[
        str, typer.Option(help=f"What to measure: {', '.join(SYSTEMS)}, several with commas, or all.", metavar="NAMES")
    ] = USUAL,
    preset: Preset = "default",
    rank: Rank = None,
    ridge: Ridge = None,
    setting: Changes = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the split.", show_default="0")] = None,
    queries: Annotated[
        int | None,
        typer.Option(
            min=MIN_QUERIES,
            help="Test queries a pair, at most a tenth of what it shares.",
            show_default=f"{MAX_QUERIES}",
        ),
    ] = None,
    candidates: Annotated[
        int | None,
        typer.Option(
            min=MIN_QUERIES,
            help="Candidates a language, at most two fifths of its concepts.",
            show_default=f"{MAX_CANDIDATES}",
        ),
    ] = None,
    split: Annotated[
        Path | None, typer.Option(help="Use this split (split.json of another run) instead of making one.")
    ] = None,
    validation: Validation = False,
    comparable: Annotated[
        bool, typer.Option("--comparable", help="Give each language other paragraphs (lines) of a parallel document.")
    ] = False,
    mask_shared: Annotated[
        bool, typer.Option("--mask-shared", help="Take out words that another language's version has as well.")
    ] = False,
    csls_over: CslsOverOption = "queries",
    low_resource: Annotated[
        int | None,
        typer.Option(
            min=2, help="Concepts that a pair trains on in the regime low-resource.", metavar="N", show_default="1000"
        ),
    ] = None,
    bridge: Annotated[
        str | None,
        typer.Option(
            help="The third language in the regime transitive.", show_default="what shares most", metavar="CODE"
        ),
    ] = None,
    drop: Annotated[
        bool, typer.Option("--drop", help="In the regime transitive: drop concepts that both have, as in the paper.")
    ] = False,
    dictionary: Dictionary = None,
    vectors: Annotated[
        list[str] | None,
        typer.Option(help="Vectors from elsewhere: a folder with en.npy or en.parquet, …", metavar="NAME=FOLDER"),
    ] = None,
    texts: Annotated[
        Path | None, typer.Option(help="Only write the texts that are compared, en.jsonl, …, to encode elsewhere.")
    ] = None,
    on_error: OnError = "raise",
    details: Details = False,
    json: Json = False,
) -> None:
    """Hold documents out, train without them, and see whether they find each other across languages.

    Examples:

        cr5 eval documents corpus/ -o results

        cr5 eval documents corpus/ --langs en,it,da --regime all --systems all -o results

        cr5 eval documents speeches/ --comparable --split results/split.json
    """
    chosen = settings_of(preset, setting, rank=rank, ridge=ridge_of(ridge))
    regimes = _regimes(regime)
    if split:
        _refuse(f"--split {split} has its own", seed=seed, queries=queries, candidates=candidates)
    if "low-resource" not in regimes:
        _refuse("only the regime low-resource takes", low_resource=low_resource)
    if "transitive" not in regimes:
        _refuse("only the regime transitive takes", bridge=bridge, drop=drop or None)
    if texts:
        _refuse("--texts only writes texts and takes no", output=output, json=json or None)
    _systems(systems, chosen, dictionary, vectors, {})  # complain before an hour is spent
    if output:
        _make(output)
    skipped = Skipped()
    began = time.perf_counter()
    stored = Split.load(split) if split else None
    order = comma_separated(langs) or (stored.langs if stored else None)
    if stored and comparable and order != stored.langs:
        same = ",".join(stored.langs)
        raise Cr5Error(f"with --comparable the order of languages decides who gets which paragraph; use --langs {same}")
    with console.progress_bars(json) as progress:
        batches = read_corpora(corpora, ",".join(order) if order else None, on_error, skipped)
        material = read_texts(batches, chosen.tokeniser, langs=order, comparable=comparable, progress=progress)
        used = stored or make_split(
            material,
            seed=seed or 0,
            queries=queries or MAX_QUERIES,
            candidates=candidates or MAX_CANDIDATES,
            smallest=chosen.weighting.min_unique,
            largest=chosen.weighting.max_unique,
        )
        asked = hold_out(
            material, used, role="validation" if validation else "test", csls_over=csls_over, mask_shared=mask_shared
        )
        if texts:
            _write_texts(asked, texts)
            return
        free = training_rows(used, asked.filtered_corpus, "joint")
        untouched = {lang: asked.filtered_corpus.languages[lang].rows(rows) for lang, rows in free.items()}
        named = _systems(systems, chosen, dictionary, vectors, untouched, progress, asked.texts)
        with stop_on_interrupt() as stop:
            run = evaluate_documents(
                asked,
                named,
                title=_title(corpora, list(material.languages)),
                variant=_variant(material, mask_shared),
                regimes=regimes,
                rank=chosen.rank,
                seed=chosen.seed,
                low_resource=low_resource or LOW_RESOURCE,
                bridge=bridge,
                drop_shared=drop,
                ceiling=(CEILING, baselines.within) if comparable and not mask_shared else None,
                facts={"settings": chosen.to_json(), "skipped": skipped.counts},
                progress=progress,
                stop=stop,
            )
            stopped = stop()
    _finish(run, output, json, began, skipped, details, used)
    if stopped:
        console.warn("interrupted; what was measured by then is kept")
        sys.exit(130)


def _variant(material: EvaluationCorpus, masked: bool) -> str:
    """What was done to the texts, for signatures."""
    parts = [f"comparable {'-'.join(material.languages)}" if material.comparable else "whole documents"]
    parts += ["shared words masked"] if masked else []
    usual = asdict(Tokeniser())
    parts += [f"{name}={value}" for name, value in asdict(material.tokeniser).items() if value != usual[name]]
    return ", ".join(parts)


def _refuse(reason: str, **options: object) -> None:
    """Complain about options that would be ignored."""
    for name, value in options.items():
        if value is not None:
            raise Cr5Error(f"{reason} --{name.replace('_', '-')}; leave it out")


def _make(folder: Path) -> None:
    """Make the folder for results now, not after an hour of work."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".{secrets.token_hex(4)}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        what = (error.strerror or str(error)).lower()
        raise Cr5Error(f"{folder} cannot be written to ({what}); name another folder with -o") from error


@app.command()
def sentences(
    model: Model,
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Line-aligned files NAME.en NAME.it, a Parquet file with a column for each language, or folders.",
            metavar="FILE...",
        ),
    ],
    output: Output = None,
    langs: Langs = None,
    queries: Annotated[int, typer.Option(min=1, help="Queries a pair; all sentences are candidates.")] = 2000,
    separate: Annotated[
        float, typer.Option(min=0, max=0.9, help="Share of the sentences that only serve for IDF weights.")
    ] = 0.25,
    train: Train = None,
    systems: Beside = None,
    dictionary: Dictionary = None,
    validation: Validation = False,
    csls_over: CslsOverOption = "queries",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split.")] = 0,
    details: Details = False,
    json: Json = False,
) -> None:
    """See whether sentences find their translations, by a model that was trained on other texts.

    Examples:

        cr5 eval sentences model europarl.en europarl.it -o results

        cr5 eval sentences model en-it.parquet --train corpus/ --systems floor,lsi,words
    """
    if not train:
        _refuse("without --train there is nothing to train:", systems=systems, dictionary=dictionary)
    if output:
        _make(output)
    began = time.perf_counter()
    pairs = read_aligned(files, comma_separated(langs))
    with console.progress_bars(json) as progress:
        loaded = Cr5.load(model)
        spoken = sorted({lang for pair in pairs for lang in pair.langs})
        spaces, about = _spaces(loaded, spoken, train, systems, dictionary, progress)
        run = evaluate_sentences(
            spaces,
            pairs,
            tokeniser=loaded.settings.tokeniser,
            queries=queries,
            separate=separate,
            seed=seed,
            csls_over=csls_over,
            role="validation" if validation else "test",
            title=_title([str(path) for path in files], spoken),
            about=about,
            progress=progress,
        )
    _finish(run, output, json, began, Skipped(), details)


@app.command()
def words(
    model: Model,
    dictionaries: Annotated[
        list[Path],
        typer.Argument(
            help="Test words, source<TAB>target, in files named like en-it.test.tsv.", metavar="DICTIONARY..."
        ),
    ],
    output: Output = None,
    train: Train = None,
    systems: Beside = None,
    dictionary: Dictionary = None,
    csls_over: CslsOverOption = "queries",
    details: Details = False,
    json: Json = False,
) -> None:
    """See whether words find their translations among all words of the other language.

    Examples:

        cr5 eval words model en-it.test.tsv it-en.test.tsv -o results

        cr5 eval words model en-it.test.tsv --train corpus/ --dictionary en-it.train.tsv
    """
    if not train:
        _refuse("without --train there is nothing to train:", systems=systems, dictionary=dictionary)
    if output:
        _make(output)
    began = time.perf_counter()
    for path in dictionaries:
        read_dictionary(path)  # complain before anything is trained
    with console.progress_bars(json) as progress:
        loaded = Cr5.load(model)
        asked = [(*_languages(path), path) for path in dictionaries]
        spoken = sorted({lang for source, target, _ in asked for lang in (source, target)})
        spaces, about = _spaces(loaded, spoken, train, systems, dictionary, progress)
        run = evaluate_words(
            spaces,
            asked,
            tokeniser=loaded.settings.tokeniser,
            csls_over=csls_over,
            title=_title([str(path) for path in dictionaries], spoken),
            about=about,
            progress=progress,
        )
    _finish(run, output, json, began, Skipped(), details)


def reproduce(
    paper: Annotated[Literal["wsdm19"], typer.Argument(help="The paper: wsdm19.")],
    data: Annotated[
        Path,
        typer.Argument(help="Folder with word_indices, concept_indices and sparse_matrices (Zenodo record 3359814)."),
    ],
    output: Output = None,
    langs: Langs = None,
    rank: Rank = None,
    setting: Changes = None,
    queries: Annotated[
        int, typer.Option(min=1, help="Test queries a pair, at most a tenth of what it shares.")
    ] = MAX_QUERIES,
    candidates: Annotated[int, typer.Option(min=1, help="Candidates a language.")] = MAX_CANDIDATES,
    candidates_train: Annotated[
        bool,
        typer.Option(
            "--candidates-train", help="Let candidates train, as the authors' scripts do and the paper does not."
        ),
    ] = False,
    documents: Annotated[
        tuple[int, int], typer.Option(help="Frequent words that a document must have.", metavar="LOW HIGH")
    ] = DOCUMENT_WORDS,
    asked: Annotated[
        tuple[int, int], typer.Option(help="Frequent words that a query must have.", metavar="LOW HIGH")
    ] = QUERY_WORDS,
    low_resource: Annotated[
        int, typer.Option(min=2, help="Concepts of the low-resource section.", metavar="N")
    ] = LOW_RESOURCE_CONCEPTS,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split.")] = 0,
    on_error: OnError = "raise",
    json: Json = False,
) -> None:
    """Run the paper's document retrieval on the authors' data, and print its Table 1 with our figures beside.

    Example:

        cr5 reproduce wsdm19 data/ -o results
    """
    if output:
        _make(output)
    skipped = Skipped()
    began = time.perf_counter()
    with console.progress_bars(json) as progress:
        run, split = reproduce_table(
            data,
            langs=comma_separated(langs),
            document_words=documents,
            query_words=asked,
            queries=queries,
            candidates=candidates,
            candidates_train=candidates_train,
            low_resource=low_resource,
            seed=seed,
            changes=changes_of(setting, rank=rank),
            on_error=on_error,
            skipped=skipped,
            progress=progress,
        )
    run.facts["seconds"] = time.perf_counter() - began
    if output:
        write_reports(run, output)
        split.save(output / "split.json")
    if json:
        console.as_json(run.to_json())
        return
    console.skipped_lines(skipped)
    scores.reproduction_table(run)
    _written(output)


def _spaces(
    model: Cr5,
    langs: list[str],
    train: list[str] | None,
    systems: str | None,
    dictionary: list[Path] | None,
    progress: ProgressCallback,
) -> tuple[dict[str, Space], dict[str, str]]:
    """The model, and what is trained beside it on the documents of --train; and what to say of these."""
    spoken = [lang for lang in model.langs if find_language(lang, langs) is not None]
    if not spoken:
        raise Cr5Error(f"the model has none of the languages {', '.join(langs)}; its own are {', '.join(model.langs)}")
    spaces: dict[str, Space] = {"cr5": space_of(model, spoken)}
    if not train:
        return spaces, {}
    batches = read_corpora(train, ",".join(spoken), "raise", Skipped())
    material = read_texts(batches, model.settings.tokeniser, langs=spoken, progress=progress)
    sized = material.sized(model.settings.weighting.min_unique, model.settings.weighting.max_unique)
    made = _systems(systems or "floor,words", model.settings, dictionary, None, sized.languages, progress)
    about = {}
    for name, system in made.items():
        own = f"{name} (trained here)" if name in spaces else name
        progress(Progress("train", len(spaces) - 1, len(made), name))
        spaces[own] = system(sized.languages, rank=model.settings.rank, seed=model.settings.seed)
        about[own] = f"trained on {material.digest}"
    return spaces, about


def _finish(
    run: Run,
    output: Path | None,
    json: bool,
    began: float,
    skipped: Skipped,
    details: bool,
    split: Split | None = None,
) -> None:
    if not run.scores:
        raise Cr5Error(run.notes[0] if run.notes else "nothing could be measured")
    run.facts["seconds"] = time.perf_counter() - began
    if output:
        write_reports(run, output)
    if output and split:
        split.save(output / "split.json")
    if json:
        console.as_json(run.to_json())
        return
    console.skipped_lines(skipped)
    scores.run_tables(run, details=details)
    _written(output)


def _written(output: Path | None) -> None:
    if output:
        console.out.print(f"written to {output}: report.html, report.md, scores.csv, run.json", style="dim")


def _regimes(text: str) -> list[Regime]:
    names = list(REGIMES) if text == "all" else comma_separated(text) or []
    for name in names:
        if name not in REGIMES:
            raise Cr5Error(f"there is no regime {name!r}; the regimes are {', '.join(REGIMES)}, or all")
    if not names:
        raise Cr5Error(f"--regime names none; the regimes are {', '.join(REGIMES)}, or all")
    return [regime for regime in REGIMES if regime in names]


def _systems(
    text: str,
    chosen: Settings,
    dictionary: list[Path] | None,
    vectors: list[str] | None,
    texts: Mapping[str, TokenisedTexts],
    progress: ProgressCallback = silent,
    held: Mapping[str, TokenisedTexts] | None = None,
) -> dict[str, System]:
    """The systems of --systems and --vectors, by the names that tables give them.

    Word vectors are learned once for each language, from ``texts``, whatever is trained on afterwards. Vectors
    from elsewhere must fit the texts that are ``held`` out.
    """
    names = (
        [name for name in SYSTEMS if name != "dictionary" or dictionary]
        if text == "all"
        else comma_separated(text) or []
    )
    if dictionary and "dictionary" not in names:
        names.append("dictionary")
    made: dict[str, System] = {}
    monolingual = Monolingual(texts)
    for name in names:
        if name not in SYSTEMS:
            raise Cr5Error(f"there is no system {name!r}; the systems are {', '.join(SYSTEMS)}, or all")
        if name in EXTRAS and find_spec(MODULES[EXTRAS[name]]) is None:
            raise Cr5Error(f"the system {name} needs {EXTRAS[name]}; install it with pip install 'cr5[eval]'")
        if name == "dictionary" and not dictionary:
            raise Cr5Error("the system dictionary needs a bilingual dictionary; name one with --dictionary en-it.tsv")
        made[SYSTEMS[name]] = _system(name, chosen, dictionary or [], monolingual, progress)
    for item in vectors or []:
        name, equals, folder = item.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{item!r} is not of the form NAME=FOLDER", param_hint="--vectors")
        space = read_vectors(Path(folder))
        for lang, own in (held or {}).items():
            space.embed(own, lang)  # complain now
        made[name] = pretrained(space)
    if not made:
        raise Cr5Error(f"--systems names none; the systems are {', '.join(SYSTEMS)}, or all")
    return made


def _system(
    name: str, chosen: Settings, dictionary: list[Path], monolingual: Monolingual, progress: ProgressCallback
) -> System:
    if name == "cr5":
        return cr5_system(chosen, progress=progress)
    if name == "wsdm19":
        weighting = chosen.weighting
        same = {part: getattr(weighting, part) for part in ("min_documents", "max_words", "min_unique", "max_unique")}
        paper = settings("wsdm19", rank=chosen.rank, ridge=chosen.ridge, **same)
        return cr5_system(replace(paper, tokeniser=chosen.tokeniser), progress=progress)
    plain: dict[str, System] = {
        "floor": baselines.shared_tokens,
        "bm25": baselines.bm25,
        "lsi": baselines.cl_lsi,
        "esa": baselines.cl_esa,
        "inverted": baselines.inverted,
    }
    if name in plain:
        return plain[name]
    if name == "words":
        return word_vectors(monolingual=monolingual)
    known = {_languages(path): read_dictionary(path) for path in dictionary}
    return word_vectors(known, monolingual=monolingual)


def _languages(path: Path) -> tuple[str, str]:
    found = languages_of(path)
    if found is None:
        raise Cr5Error(f"{path}: the name does not tell the languages; call it like en-it.tsv")
    return found


def _title(corpora: list[str], langs: list[str]) -> str:
    names = ", ".join(Path(path).name or path for path in corpora[:3]) + (", …" if len(corpora) > 3 else "")
    return f"{names}: {', '.join(langs) if len(langs) <= 8 else f'{len(langs)} languages'}"


def _write_texts(asked: HeldOutDocuments, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for lang, held in asked.texts.items():
        names = [asked.filtered_corpus.concepts[i] for i in held.concepts]
        written = asked.written(lang)
        write(folder / f"{lang}.jsonl", map(Document, names, [lang] * len(names), written, held.titles))
    sizes = ", ".join(f"{len(held):,} {lang}" for lang, held in asked.texts.items())
    console.err.print(f"{sizes} texts written to {folder}; encode them line by line and pass --vectors NAME=FOLDER")
