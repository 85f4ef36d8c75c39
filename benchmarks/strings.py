"""The strings view alone, with and without transliteration to Latin letters: does it help languages in other scripts?

python benchmarks/strings.py ../shared/data/msdocs ../shared/data/libreoffice-help --langs ru el ja ar vi

English texts keep every second line, and those of the other language the other lines. Nothing is trained; the
statistics of a language are those of its texts. Prints a JSON object for each pair with P@1 in percent by CSLS, the
mean of both directions. Needs ``pip install anyascii``.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from cr5.features.counts import WordCounts, count_words
from cr5.features.tokeniser import Tokeniser
from cr5.retrieval.strings import centred_pair, string_rows, string_statistics
from data import counterpart_ranks


def read_texts(folder: Path, lang: str) -> dict[str, str]:
    table = pq.read_table(folder / f"{lang}.parquet", columns=["concept", "text"])
    return dict(zip(*(column.to_pylist() for column in table.columns), strict=True))


def half(text: str, first: int) -> str:
    return "\n".join([line for line in text.split("\n") if line.strip()][first::2])


def precision(english: WordCounts, other: WordCounts, transliterate: bool) -> float:
    a, b = (string_statistics(counts, transliterate=transliterate) for counts in (english, other))
    pair = centred_pair(string_rows(english, a), a, string_rows(other, b), b)
    concepts = np.arange(pair[0].shape[0])
    ranks = [counterpart_ranks(*sides, measure="csls") for sides in (
        (pair[0], concepts, pair[1], concepts), (pair[1], concepts, pair[0], concepts)
    )]  # fmt: skip
    return round(100 * float((np.array(ranks) == 1).mean()), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--langs", nargs="+", default=["ru", "el", "ja", "ar", "vi"])
    parser.add_argument("--most", type=int, default=600, help="concepts")
    given = parser.parse_args()
    for folder in given.folders:
        english = {concept: half(text, 0) for concept, text in read_texts(folder, "en").items()}
        for lang in given.langs:
            if not (folder / f"{lang}.parquet").exists():
                continue
            other = {concept: half(text, 1) for concept, text in read_texts(folder, lang).items()}
            concepts = sorted(c for c in english.keys() & other.keys() if english[c] and other[c])[: given.most]
            counts = [
                count_words([texts[concept] for concept in concepts], code, Tokeniser())
                for texts, code in ((english, "en"), (other, lang))
            ]
            plain, latin = (precision(*counts, transliterate) for transliterate in (False, True))
            figures = {"corpus": folder.name, "lang": lang, "concepts": len(concepts), "plain": plain, "latin": latin}
            print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
