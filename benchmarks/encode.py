"""How fast a model encodes on one core. Prints one JSON object.

python benchmarks/encode.py MODEL --lang en --corpus ../shared/data/msdocs --guess en,it,da,vi

Texts of 8 and of 15 words and whole documents, one at a time and 1,024 at a time, and beside it the same texts by
model2vec, if that is installed. With ``--guess``: texts of 15 words in these languages, and in all languages of the
model, whose language is guessed. Without ``--corpus`` the texts are drawn from the model's own
vocabulary (rank r as often as 1/r), documents of 300 words. The measuring process may use one core and no second
thread; what is compared is measured in turns, by processor time, so that other processes disturb it less.
"""

import argparse
import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from cr5 import Cr5

ONE = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "ARROW_NUM_THREADS"), "1"
)
COUNT = 4096  # texts to choose from
ROUNDS, SECONDS = 7, 0.4  # of each measurement, of which the median is printed, and how long one takes at least
PEER_TOKENS, PEER_RANK = 30_000, 256  # the size of a published model of model2vec, potion-base-8M

Encoder: TypeAlias = Callable[[list[str]], object]


def measure(model_path: Path, lang: str, corpus: str | None, guess: str | None) -> dict[str, Any]:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    began = time.perf_counter()
    import pyarrow as pa

    from cr5 import Cr5, __version__
    from cr5.features.counts import count_words

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    imported = time.perf_counter()
    model = Cr5.load(model_path, langs=[lang])
    loaded = time.perf_counter()
    model.encode([""], lang)
    first = time.perf_counter()
    words = model.words(lang)
    documents = from_corpus(corpus, lang) if corpus else drawn(words, 300)
    result: dict[str, Any] = {
        "benchmark": "encode",
        "signature": f"{model_path.name} {lang}|{corpus or 'drawn from the vocabulary'}|{len(documents)} texts|"
        f"{len(words)} words|rank {model.rank}|1 core|cr5 {__version__}",
        "seconds": {"import": imported - began, "load": loaded - imported, "first_language": first - loaded},
    }
    encoders: dict[str, Encoder] = {"cr5": lambda texts: model.encode(texts, lang)}
    if importlib.util.find_spec("model2vec"):
        encoders["model2vec"] = model2vec(documents)
    for name, length in (("8 words", 8), ("15 words", 15), ("documents", None)):
        texts = beginnings(documents, length) if corpus or length is None else drawn(words, length)
        tokens = int(count_words(texts, lang, model.settings.tokeniser).matrix.sum()) / len(texts)
        for batch in (1, 1024):
            result[f"{name}, batch {batch}"] = {"tokens_per_text": tokens} | rates(encoders, texts, batch)
    if corpus and guess:
        result["guessed"] = guessed(model_path, guess.split(","), corpus)
    return result


def guessed(model_path: Path, langs: list[str], corpus: str) -> dict[str, Any]:
    """Speed over some languages of a model and over all of them."""
    from cr5 import Cr5

    models = Cr5.load(model_path, langs), Cr5.load(model_path)
    return {f"{len(model.langs)} languages": guessed_among(model, corpus) for model in models}


def guessed_among(model: "Cr5", corpus: str) -> dict[str, Any]:
    """Texts of 15 words in the languages of a model: guessing alone, guessing and encoding, and encoding alone."""
    pairs = [(text, lang) for lang in model.langs for text in beginnings(from_corpus(corpus, lang), 15)]
    random.Random(0).shuffle(pairs)
    texts, lang_of = [text for text, _ in pairs[: 2 * COUNT]], dict(pairs)
    began = time.perf_counter()
    model.guess_languages([""])
    built = time.perf_counter() - began
    model.encode(texts)  # opens all languages
    guesses = model.guess_languages(texts)
    encoders: dict[str, Encoder] = {
        "guess": model.guess_languages,
        "guess and encode": model.encode,
        "encode": lambda some: model.encode(some, [lang_of[text] for text in some]),
    }
    return {
        "seconds_to_build": built,
        "words": sum(len(model.words(lang)) for lang in model.langs),
        "right": sum(guess.lang == lang_of[text] for guess, text in zip(guesses, texts, strict=True)) / len(texts),
        **{f"batch {size}": rates(encoders, texts, size) for size in (1, 1024)},
    }


def model2vec(documents: list[str]) -> Encoder:
    """A model of model2vec with word pieces of these documents and random vectors: its speed depends on sizes only."""
    import numpy as np
    from model2vec import StaticModel
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    tokeniser = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokeniser.normalizer, tokeniser.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=PEER_TOKENS, special_tokens=["[UNK]", "[PAD]"], show_progress=False)
    tokeniser.train_from_iterator(documents, trainer)
    shape = tokeniser.get_vocab_size(), PEER_RANK
    model = StaticModel(np.random.default_rng(0).standard_normal(shape).astype(np.float32), tokeniser, normalize=True)
    return lambda texts: model.encode(texts, use_multiprocessing=False)


def rates(encoders: dict[str, Encoder], texts: list[str], batch: int) -> dict[str, Any]:
    """Of each encoder the median of texts a second and milliseconds a text, measured in turns."""
    found: dict[str, list[float]] = {name: [] for name in encoders}
    for _ in range(ROUNDS):
        for name, encode in encoders.items():
            found[name].append(rate(encode, texts, batch))
    medians = {name: statistics.median(rounds) for name, rounds in found.items()}
    return {name: {"texts_per_second": speed, "ms_per_text": 1000 / speed} for name, speed in medians.items()}


def rate(encode: Encoder, texts: list[str], batch: int) -> float:
    """Texts a second of processor time, over at least SECONDS and one whole batch."""
    done, i, began = 0, 0, time.process_time()
    while (passed := time.process_time() - began) < SECONDS:
        some = texts[i : i + batch]
        encode(some)
        done += len(some)
        i = i + batch if i + batch < len(texts) else 0
    return done / passed


def beginnings(texts: list[str], words: int | None) -> list[str]:
    """The first words of texts, or all of them."""
    return texts if words is None else [" ".join(text.split()[:words]) for text in texts]


def from_corpus(corpus: str, lang: str) -> list[str]:
    from itertools import islice

    from cr5 import read

    texts = [document.text for document in islice(read(corpus, langs=[lang]), COUNT)]
    if not texts:
        sys.exit(f"{corpus} has no document in {lang}; name another corpus or language")
    return texts


def drawn(words: list[str], length: int) -> list[str]:
    import numpy as np

    weight = 1 / np.arange(1, len(words) + 1)
    chosen = np.random.default_rng(0).choice(len(words), (COUNT, length), p=weight / weight.sum())
    return [" ".join(words[i] for i in row) for row in chosen]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--lang", required=True)
    parser.add_argument("--corpus", help="documents to encode")
    parser.add_argument("--guess", help="some languages of the model, to guess those of texts of the corpus")
    parser.add_argument("--here", action="store_true", help="measure in this process, as its environment is")
    given = parser.parse_args()
    if given.here:
        print(json.dumps(measure(given.model, given.lang, given.corpus, given.guess)))
        return
    # Libraries count their threads when they are loaded, so the measuring process begins with one.
    command = [sys.executable, __file__, *sys.argv[1:], "--here"]
    sys.exit(subprocess.run(command, check=False, env=os.environ | ONE).returncode)


if __name__ == "__main__":
    main()
