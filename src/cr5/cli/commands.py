"""The commands that train and use a model."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from cr5.cli.options import (
    Corpora,
    Json,
    Lang,
    Langs,
    Model,
    Preset,
    Rank,
    Ridge,
    SettingChanges,
    comma_separated,
    decode_text,
    parse_bytes,
    parse_changes,
    parse_rank,
    parse_ridge,
    read_corpora,
)
from cr5.cli.render import console, models
from cr5.cli.render.console import err
from cr5.corpus.skipped import OnError as CorpusErrors
from cr5.corpus.skipped import Skipped
from cr5.errors import Cr5Error
from cr5.model import Cr5
from cr5.model_training import checkpoint_path, train_model
from cr5.storage import vector_files
from cr5.training.engines.registry import EngineName


def train(
    corpora: Corpora,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write the model to.", metavar="MODEL")],
    langs: Langs = None,
    preset: Preset = "default",
    rank: Rank = None,
    ridge: Ridge = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of everything random.", show_default="0")] = None,
    setting: SettingChanges = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from an interrupted run's checkpoint.")] = False,
    on_error: Annotated[
        CorpusErrors | None,
        typer.Option(
            help="Input that cannot be used: stop with an error, also at a concept in one language only, or skip and "
            "count it.",
            show_default="raise, but skip and count concepts in one language only",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="Threads that read the corpus, count words and compute.", show_default="all cores"),
    ] = None,
    engine: Annotated[
        EngineName,
        typer.Option(help="Where to compute: all cores of this machine, an NVIDIA GPU, or a Dask cluster."),
    ] = "cpu",
    memory: Annotated[
        str | None, typer.Option(help="Limit the memory of the fit; the rest goes to disk.", metavar="4GB")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="With --engine dask: a running scheduler, e.g. tcp://10.0.0.1:8786.", metavar="ADDRESS"),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="With --engine dask: worker processes to start here.", show_default="one per core"),
    ] = None,
    json: Json = False,
) -> None:
    """Learn a model from documents in several languages.

    Every document has a concept (what it is about, the same in all languages), a language and a text.
    Ctrl-C after the corpus is read stops the training and saves the model as it is,
    unless MODEL has a finished one already. Once the ridge is chosen, there is a
    checkpoint from which --resume continues; before, run it again. Examples:

        cr5 train corpus/ -o model

        cr5 train en.jsonl it.jsonl.gz -o model --rank 200 --ridge 1

        cr5 train builtin -o model --rank 200 --set min_documents=2

        cr5 train corpus/ -o model --memory 4GB

        cr5 train corpus/ -o model --engine dask --scheduler tcp://10.0.0.1:8786
    """
    model = Cr5(preset, **parse_changes(setting, rank=parse_rank(rank), seed=seed, ridge=parse_ridge(ridge)))
    skipped = Skipped()
    start = time.perf_counter()
    budget = None if memory is None else parse_bytes(memory)
    try:
        with console.progress_bars(json) as progress:
            saved = train_model(
                model,
                read_corpora(corpora, langs, on_error or "raise", skipped),
                output,
                resume=resume,
                engine=engine,
                engine_options={"memory": budget, "scheduler": scheduler, "workers": workers},
                on_error=on_error,
                skipped=skipped,
                threads=threads,
                progress=progress,
                on_interrupt="return",
            )
    except KeyboardInterrupt:
        resumable = checkpoint_path(output).exists()
        advice = "run the same command with --resume to continue" if resumable else f"{output} is as it was before"
        err.print(f"stopped; {advice}", style="yellow", soft_wrap=True)
        sys.exit(130)
    seconds = time.perf_counter() - start
    if json:
        about = {"model": str(output), "saved": saved, "seconds": seconds}
        console.as_json(about | {"skipped": skipped.counts, "report": model.report})
    else:
        console.skipped_lines(skipped)
        models.training_report(model, output if saved else None, seconds)
    if model.report["interrupted"]:
        sys.exit(130)


def encode(
    model: Model,
    lang: Annotated[
        str | None, typer.Option(help="Language of the lines, e.g. it.", metavar="CODE", show_default="guessed")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write here (.npy or .parquet) instead of standard output.")
    ] = None,
    coverage: Annotated[bool, typer.Option("--coverage", help="With .parquet: add the share of known words.")] = False,
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
    texts = decode_text(sys.stdin.buffer.read(), "standard input", lang).replace("\r\n", "\n").split("\n")
    if not texts[-1]:
        texts.pop()
    langs = [guess.lang for guess in loaded.guess_languages(texts)] if lang is None else lang
    vectors = loaded.encode(texts, langs)
    empty = int((~vectors.any(axis=1)).sum())
    if output is None:
        vector_files.write_stream(sys.stdout.buffer, vectors)
    else:
        vector_files.write(output, vectors, texts, loaded.coverage(texts, langs) if coverage else None)
    if texts and lang is None:
        models.guessed_languages(langs)
    if empty:
        word = "word" if lang is None else f"{lang} word"
        console.warn(
            f"{empty:,} of {len(texts):,} texts contain no {word} that the model knows; their vectors are zero"
        )


def similar(
    model: Model,
    word: Annotated[str, typer.Argument(help="A word.", metavar="WORD")],
    lang: Lang,
    to: Annotated[
        str | None, typer.Option(help="Languages to look in, e.g. en,da.", show_default="all others", metavar="CODES")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Words per language.")] = 10,
    json: Json = False,
) -> None:
    """Show the nearest words of other languages to a word.

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
    for target, words in neighbours.items():
        models.similar_words(word, lang, target, words)


def lexicon(
    model: Model,
    source: Annotated[str, typer.Argument(help="Language of the words, e.g. en.", metavar="SOURCE")],
    target: Annotated[str, typer.Argument(help="Language to translate to, e.g. it.", metavar="TARGET")],
    words: Annotated[list[str], typer.Argument(help="Words.", metavar="WORDS...")],
    k: Annotated[int, typer.Option("-k", min=1, max=10, help="Translations per word.")] = 5,
    json: Json = False,
) -> None:
    """Show the most probable translations of words.

    The lexicon of two languages is made when it is first asked for, and kept in the folder of the model. Example:

        cr5 lexicon model en it beer dog
    """
    loaded = Cr5.load(model, langs=[source, target])
    translations = dict(zip(words, loaded.translate_words(words, source, target, k), strict=True))
    if json:
        console.as_json({"source": source, "target": target, "translations": translations})
        return
    for word, found in translations.items():
        models.translations(word, source, target, found)


def explain(
    model: Model,
    text_a: Annotated[str, typer.Argument(help="A text, or @FILE.", metavar="TEXT_A")],
    text_b: Annotated[str, typer.Argument(help="Another text, or @FILE.", metavar="TEXT_B")],
    lang_a: Annotated[str, typer.Option("--lang-a", "-a", help="Language of the first text.", metavar="CODE")],
    lang_b: Annotated[str, typer.Option("--lang-b", "-b", help="Language of the second text.", metavar="CODE")],
    k: Annotated[int, typer.Option("-k", min=1, help="Words to show.")] = 10,
    json: Json = False,
) -> None:
    """Show the words that make two texts similar, with the contribution of each to the cosine, and of each view.

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
    models.explanation(explanation, lang_a, lang_b)


def info(model: Model, json: Json = False) -> None:
    """Show the languages and settings of a model, and how its training ended.

    Example:

        cr5 info model
    """
    loaded = Cr5.load(model)
    if json:
        sizes = {lang: size._asdict() for lang, size in loaded.sizes().items()}
        settings = loaded.settings.to_json()
        console.as_json({"langs": loaded.langs, "sizes": sizes, "settings": settings, "report": loaded.report})
        return
    models.training_report(loaded, model, None)


def _text(given: str, lang: str) -> str:
    if not given.startswith("@"):
        return given
    return decode_text(Path(given[1:]).read_bytes(), given[1:], lang)
