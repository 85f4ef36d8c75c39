"""The commands that train and use a model."""

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from cr5.cli import options
from cr5.cli.options import (
    comma_separated,
    decode_text,
    parse_changes,
    parse_rank,
    parse_ridge,
    read_corpora,
)
from cr5.cli.render import console
from cr5.cli.render import models as render
from cr5.cli.render.console import err
from cr5.corpus.skipped import OnError as CorpusErrors
from cr5.corpus.skipped import Skipped, skipped_list
from cr5.errors import Cr5Error
from cr5.message_parts import quoted
from cr5.model import Cr5
from cr5.model.folder_training import checkpoint_path, train_model
from cr5.storage import vector_files
from cr5.storage.array_files import write_array


@options.takes_engine_options
def train(
    corpora: options.Corpora,
    output: options.ModelOutput,
    langs: options.Langs = None,
    preset: options.Preset = "default",
    rank: options.Rank = None,
    ridge: options.Ridge = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Random seed.", show_default="0")] = None,
    setting: options.SettingChanges = None,
    from_model: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Warm start: begin with the vectors of this model, and use its settings; CORPUS must contain the "
            "documents that it was trained on and the new ones.",
            metavar="MODEL",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from an interrupted run's checkpoint.")] = False,
    on_error: Annotated[
        CorpusErrors | None,
        typer.Option(
            help="What to do with unusable input, including concepts in only one language: stop with an error, or skip "
            "and count it.",
            show_default="raise, but skip concepts in only one language",
        ),
    ] = None,
    skipped_file: options.SkippedList = None,
    threads: options.Threads = None,
    engine: options.Engine = "cpu",
    engine_options: dict[str, Any] | None = None,
    extendable: Annotated[
        bool,
        typer.Option(
            "--extendable",
            help="Save a vector per concept, which cr5 model add-language needs. By default, they are saved if they "
            "increase the size of the model by at most 20 %.",
        ),
    ] = False,
    no_extendable: Annotated[bool, typer.Option("--no-extendable", help="Never save a vector per concept.")] = False,
    json: options.Json = False,
) -> None:
    """Learn a model from documents in several languages.

    Every document has a concept (what it is about, the same in all languages), a language and a text. Ctrl-C, or
    SIGTERM, stops the training. Once the corpus has been read, the unfinished model is saved, unless MODEL already
    contains a finished one, or --from continues one. Once the ridge has been chosen, there is also a checkpoint, from
    which --resume continues.
    Examples:

        cr5 train corpus/ -o model

        cr5 train en.jsonl it.jsonl.gz -o model --rank 200 --ridge 1

        cr5 train builtin -o model --rank 200 --set min_documents=2

        cr5 train corpus/ -o model --memory 4GB

        cr5 train corpus/ new-documents/ -o new-model --from model

        cr5 train corpus/ -o model --engine dask --scheduler tcp://10.0.0.1:8786
    """
    changes = parse_changes(setting, rank=parse_rank(rank), seed=seed, ridge=parse_ridge(ridge))
    if from_model is not None and (changes or preset != "default"):
        name = next(iter(changes), "preset")
        raise Cr5Error(f"--from continues with the settings of {from_model}; leave out `{name}`, or --from")
    if extendable and no_extendable:
        raise Cr5Error("--extendable and --no-extendable contradict each other; leave out one of them")
    model = Cr5(preset, **changes) if from_model is None else Cr5.load(from_model)
    start = time.perf_counter()
    try:
        with skipped_list(skipped_file, corpora) as on_skip, console.progress_bars(json) as progress:
            skipped = Skipped(on_skip=on_skip)
            saved = train_model(
                model,
                read_corpora(corpora, langs, on_error or "raise", skipped),
                output,
                resume=resume,
                update=from_model is not None,
                engine=engine,
                engine_options=engine_options,
                on_error=on_error,
                skipped=skipped,
                threads=threads,
                progress=progress,
                on_interrupt="return",
                extendable=extendable or (False if no_extendable else None),
            )
    except KeyboardInterrupt:
        resumable = checkpoint_path(output).exists()
        advice = "run the same command with --resume to continue" if resumable else f"{output} is as it was before"
        err.print(f"stopped; {advice}", style="yellow", soft_wrap=True)
        sys.exit(130)
    seconds = time.perf_counter() - start
    is_trained = saved or from_model is None  # after an interrupted update, the model is the earlier one
    if json:
        about = {"model": str(output), "saved": saved, "seconds": seconds}
        console.as_json(about | {"skipped": skipped.counts, "report": model.report if is_trained else None})
    else:
        console.skipped_lines(skipped)
        if is_trained:
            render.training_report(model, output if saved else None, seconds)
    if not saved or model.report["interrupted"]:
        sys.exit(130)


def encode(
    model: options.Model,
    lang: Annotated[
        str | None, typer.Option(help="Language of the lines, e.g. it.", metavar="CODE", show_default="guessed")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write (.npy or .parquet) instead of standard output.", metavar="FILE"
        ),
    ] = None,
    coverage: Annotated[
        bool,
        typer.Option(
            "--coverage",
            help="With .parquet: add the columns known, by_subword and unknown: the shares of a line's words that are "
            "in the vocabulary, encoded by their n-grams, or neither.",
        ),
    ] = False,
) -> None:
    """Encode the lines of standard input as unit vectors, one row per line.

    Examples:

        cr5 encode model < lines.txt > vectors.npy

        cr5 encode model --lang it -o vectors.parquet < lines.txt
    """
    if output is not None:
        vector_files.check_vector_file(output)
    if coverage and (output is None or output.suffix != ".parquet"):
        raise Cr5Error("--coverage needs a .parquet file to write to; name one with -o")
    if output is None and sys.stdout.isatty():
        raise Cr5Error("standard output is a terminal; redirect the vectors with > vectors.npy, or name a file with -o")
    loaded = Cr5.load(model, langs=None if lang is None else [lang])
    # Not splitlines(): a form feed, for example, does not end a line.
    guess_or_code = lang or (lambda text: loaded.guess_language(text).lang)
    given = decode_text(sys.stdin.buffer.read(), "standard input", guess_or_code)
    texts = given.replace("\r\n", "\n").split("\n")
    if not texts[-1]:
        texts.pop()
    langs = [guess.lang for guess in loaded.guess_languages(texts)] if lang is None else lang
    vectors = loaded.encode(texts, langs)
    has_vector = np.asarray(vectors.any(axis=1))
    empty = int((~has_vector).sum())
    if output is None:
        write_array(sys.stdout.buffer, vectors)
    else:
        shares = loaded.coverage_parts(texts, langs)._asdict() if coverage else None
        vector_files.write(output, vectors, texts, shares)
    if has_vector.any() and lang is None:
        render.guessed_languages(code for code, is_encoded in zip(langs, has_vector, strict=True) if is_encoded)
    if empty:
        word = "word" if lang is None else f"{lang} word"
        console.warn(
            f"{empty:,} of {len(texts):,} texts contain no {word} or n-gram that the model knows; "
            "their vectors are zero"
        )


def similar(
    model: options.Model,
    word: Annotated[str, typer.Argument(help="A word.", metavar="WORD")],
    lang: Annotated[str, typer.Option(help="Language of the word, e.g. it.", metavar="CODE")],
    to: Annotated[
        str | None, typer.Option(help="Languages to look in, e.g. en,da.", show_default="all others", metavar="CODES")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Words per language.")] = 10,
    json: options.Json = False,
) -> None:
    """Show the words of other languages that are nearest to a word.

    Example:

        cr5 similar model birra --lang it --to en,vi
    """
    loaded = Cr5.load(model)
    lang = loaded.find_language(lang)
    targets = comma_separated(to) or [other for other in loaded.langs if other != lang]
    neighbours = {target: loaded.similar_words(word, lang, target, k) for target in targets}
    if json:
        console.as_json({"word": word, "lang": lang, "similar": neighbours})
        return
    render.similar_words(word, lang, neighbours)


def lexicon(
    model: options.Model,
    source: Annotated[str, typer.Argument(help="Language of the words, e.g. en.", metavar="SOURCE")],
    target: Annotated[str, typer.Argument(help="Language to translate to, e.g. it.", metavar="TARGET")],
    words: Annotated[list[str], typer.Argument(help="Words to translate.", metavar="WORD")],
    k: Annotated[int, typer.Option("-k", min=1, max=10, help="Translations per word.")] = 5,
    json: options.Json = False,
) -> None:
    """Show the most probable translations of words.

    The lexicon of two languages is computed when it is first needed and stored in the folder of the model. Example:

        cr5 lexicon model en it beer dog
    """
    loaded = Cr5.load(model, langs=[source, target])
    translations = dict(zip(words, loaded.translate_words(words, source, target, k), strict=True))
    if not any(translations.values()):
        listed = ", ".join(map(quoted, translations))
        raise Cr5Error(
            f"the model knows no {source} word among {listed}; try more frequent words, or other forms of them"
        )
    if json:
        console.as_json({"source": source, "target": target, "translations": translations})
        return
    for word, found in translations.items():
        render.translations(word, source, target, found)


def explain(
    model: options.Model,
    text_a: Annotated[str, typer.Argument(help="A text, or @FILE to read one.", metavar="TEXT_A")],
    text_b: Annotated[str, typer.Argument(help="Another text, or @FILE.", metavar="TEXT_B")],
    lang_a: Annotated[str, typer.Option("--lang-a", "-a", help="Language of the first text.", metavar="CODE")],
    lang_b: Annotated[str, typer.Option("--lang-b", "-b", help="Language of the second text.", metavar="CODE")],
    k: Annotated[int, typer.Option("-k", min=1, help="Words to show.")] = 10,
    json: options.Json = False,
) -> None:
    """Show which words make two texts similar, and how much each word and each view contributes.

    Example:

        cr5 explain model "il cane abbaia" "the dog barks" -a it -b en
    """
    texts = _text(text_a, lang_a), lang_a, _text(text_b, lang_b), lang_b
    explanation = Cr5.load(model).explain(*texts, k, views=True)
    if json:
        views = [view._asdict() for view in explanation.views]
        by_views = explanation.similarity_by_views
        console.as_json(explanation._asdict() | {"similarity_by_views": by_views, "views": views})
        return
    render.explanation(explanation, lang_a, lang_b)


def info(
    folder: Annotated[Path, typer.Argument(metavar="MODEL|INDEX", help="A folder that cr5 train or cr5 index wrote.")],
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Show what a model has learned, and how its training ended; or what an index holds.

    Examples:

        cr5 info model

        cr5 info index
    """
    if (folder / "index.json").exists() and not (folder / "model.json").exists():
        _index_info(folder, store, json)
        return
    loaded = Cr5.load(folder)
    if json:
        sizes = {lang: size._asdict() for lang, size in loaded.sizes().items()}
        settings = loaded.settings.to_json()
        console.as_json({"langs": loaded.langs, "sizes": sizes, "settings": settings, "report": loaded.report})
        return
    render.training_report(loaded, folder, None)


def _index_info(folder: Path, store: str | None, json: bool) -> None:
    from cr5.cli.render.search import index_report  # models are described without what a search needs
    from cr5.index import Index
    from cr5.index.field_names import field_kinds, list_fields

    with Index.open(folder, store=store) as index:
        about, store_label, kinds = index.about(), index.store_label, field_kinds(index.scan(("fields",)))
    if json:
        console.as_json({"index": str(folder), "about": about, "fields": kinds})
        return
    index_report(folder, about, store_label)
    if kinds:
        console.out.print(f"fields: {list_fields(kinds)}")


def _text(given: str, lang: str) -> str:
    if not given.startswith("@"):
        return given
    return decode_text(Path(given[1:]).read_bytes(), given[1:], lang)
