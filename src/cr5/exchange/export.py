"""Exports: the words of a language and their vectors in the formats of other libraries, each written in one step."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from cr5._typing import Array
from cr5.errors import Cr5Error, one_of
from cr5.features.tokeniser import Tokeniser
from cr5.storage.atomic import atomic_folder, atomic_write
from cr5.storage.language_map import BLOCK_ROWS, LanguageMap
from cr5.storage.output_paths import check_output_file, check_parent

ExportFormat: TypeAlias = Literal[
    "word2vec", "word2vec-binary", "fasttext", "npz", "parquet", "sentence-transformers", "model2vec"
]
FOLDERS = ("sentence-transformers", "model2vec")
"""The formats that are folders; the others are files."""
TEXT_ROWS = 1024  # rows held as text at a time, about 20 bytes per number


class ExportedLanguage(NamedTuple):
    """One language: its words and their vectors, how texts are split, and the share of documents that has each word."""

    lang: str
    language: LanguageMap
    tokeniser: Tokeniser
    document_shares: Array


def check_target(path: Path, format: str) -> None:  # noqa: A002
    """Raise an error for an unknown format, or a path that it cannot be written to, before any work is done."""
    one_of("format", format, get_args(ExportFormat))
    if format not in FOLDERS:
        check_output_file(path, example=f"vectors.{format}")
    elif path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise Cr5Error(f"{path} exists already; the format {format} is a folder: name a new one, or delete this")
    else:
        check_parent(path)


def export(path: Path, format: ExportFormat, exported: ExportedLanguage) -> None:  # noqa: A002
    """Write a language to a path that ``check_target`` accepts; a file is replaced in one step."""
    if format in FOLDERS:
        from cr5.exchange.static_models import write_model2vec, write_sentence_transformers

        with atomic_folder(path) as folder:
            write = write_model2vec if format == "model2vec" else write_sentence_transformers
            write(folder, exported)
        return
    with atomic_write(path) as file:
        _WRITERS[format](file, exported)


def _write_text(file: BinaryIO, exported: ExportedLanguage) -> None:
    """A line with the numbers of words and dimensions, and for each word a line: the word and its numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    file.write(_header(exported.language))
    for words, vectors in _blocks(exported.language, TEXT_ROWS):
        columns = [pc.cast(pa.array(column), pa.string()) for column in vectors.T]  # the shortest exact decimals
        lines = pc.binary_join_element_wise(pa.array(words), *columns, " ")
        file.write("".join(f"{line}\n" for line in lines.to_pylist()).encode())


def _write_binary(file: BinaryIO, exported: ExportedLanguage) -> None:
    """The same, but the numbers of a word are little-endian float32."""
    file.write(_header(exported.language))
    for words, vectors in _blocks(exported.language):
        rows = vectors.astype("<f4", copy=False)
        file.write(b"".join(b"%s %s\n" % (word.encode(), row.tobytes()) for word, row in zip(words, rows, strict=True)))


def _write_npz(file: BinaryIO, exported: ExportedLanguage) -> None:
    language = exported.language
    words, vectors = np.array(language.words), language.vectors()
    np.savez_compressed(file, words=words, vectors=vectors, idf=language.idf, offset=language.offset)


def _write_parquet(file: BinaryIO, exported: ExportedLanguage) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rank = exported.language.offset.size
    schema = pa.schema(
        [("lang", pa.string()), ("word", pa.string()), ("idf", pa.float32()), ("vector", pa.list_(pa.float32(), rank))]
    )
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        start = 0
        for words, vectors in _blocks(exported.language):
            column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), rank)
            idf = pa.array(exported.language.idf[start : start + len(words)])
            writer.write_table(pa.table([[exported.lang] * len(words), words, idf, column], schema=schema))
            start += len(words)


_WRITERS: dict[str, Callable[[BinaryIO, ExportedLanguage], None]] = {
    "word2vec": _write_text,
    "word2vec-binary": _write_binary,
    "fasttext": _write_text,
    "npz": _write_npz,
    "parquet": _write_parquet,
}


def _header(language: LanguageMap) -> bytes:
    return f"{len(language.words)} {language.offset.size}\n".encode()


def _blocks(language: LanguageMap, step: int = BLOCK_ROWS) -> Iterator[tuple[list[str], Array]]:
    for i in range(0, len(language.words), step):
        block = slice(i, i + step)
        yield language.words[block], language.vectors(block)
