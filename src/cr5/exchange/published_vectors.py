"""The published models: word vectors that the paper's authors offer for download, as languages of a model.

A file ``MODEL_LANG.txt.gz``, or the same without compression, has one line for each word: the word, which may contain
spaces, and as many numbers as the vectors have dimensions, all separated by single spaces. The vector of a document is
the sum of the vectors of its words, each as often as it occurs: no IDF, no offset. (``cr5.evaluate.paper_data`` reads
the word counts of documents that the authors published, not these vectors.)
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from cr5._typing import Array
from cr5.corpus.documents import location
from cr5.corpus.languages import find_language
from cr5.corpus.skipped import OnError, Skipped, check_on_error
from cr5.corpus.tables import ReadLimits, line_blocks
from cr5.corpus.texts import one_or_several
from cr5.errors import ModelFileError, whole_number
from cr5.features.tokeniser import Tokeniser
from cr5.machine import package_versions
from cr5.message_parts import plural, quoted
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.settings import Settings, make_settings
from cr5.storage.compressed import READ_ERRORS, describe_error, open_decompressed, split_suffix
from cr5.storage.language_map import LanguageMap
from cr5.storage.model_files import check_model_folder, save
from cr5.storage.output_paths import existing_folder

BLOCK_BYTES = 2**24  # decompressed bytes that are parsed at a time
SAMPLED_LINES = 1_000  # lines of the first block from which the rank is derived
WHITE_SPACE = "words with white space, which no token has"
"""The reason under which words are counted that no token of a text can be equal to."""

_FILE = re.compile(r"(?P<model>.+)_(?P<lang>[A-Za-z][A-Za-z0-9-]*)\.txt(?:\.gz)?")
_NUMBER = re.compile(rb"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_HEADER = re.compile(rb"(?:\S+ )?([0-9]+) ([0-9]+)")  # of word2vec text: words and dimensions
_ADVICE = 'download the file again, or leave out such lines with `on_error="skip"`'


class PublishedModel(NamedTuple):
    """The parts of a model: settings by which texts are encoded, languages, and a report of what was read.

    ``report["languages"]`` has for each language its words, the lines that were left out by reason ("skipped"), and
    how many of its words the tokeniser never makes of a text ("not_tokens"). Nothing is known about the training:
    the number of documents is 0.
    """

    settings: Settings
    languages: dict[str, LanguageMap]
    report: dict[str, Any]


def published_models(folder: str | Path) -> dict[str, dict[str, Path]]:
    """The published models in a folder: by name, and by language, their files."""
    folder, models = Path(folder), dict[str, dict[str, Path]]()
    if not folder.is_dir():
        raise ModelFileError(f"there is no folder {folder}; name the one with files such as joint_4_en.txt.gz")
    for path in sorted(folder.iterdir()):  # .txt comes before .txt.gz, which replaces it
        if (match := _FILE.fullmatch(path.name)) and path.is_file():
            models.setdefault(match["model"], {})[match["lang"]] = path
    return models


def read_published(
    folder: str | Path,
    name: str,
    langs: str | Sequence[str] | None = None,
    rank: int | None = None,
    on_error: OnError = "raise",
    *,
    skipped: Skipped | None = None,
    progress: ProgressCallback = no_progress,
    scratch: Path | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> PublishedModel:
    """Read some languages of a published model, by default all that are in the folder, and no other file.

    Words with white space are left out and counted in ``skipped`` and in the report. Any other line that cannot be
    used is an error that names file and line, unless ``on_error="skip"``: then it is left out and counted as well. Of a
    word that occurs twice, the last line is used then, as in the authors' libraries. ``rank`` is how many numbers a
    word has, by default as many as most lines end in. The arrays are in memory, or, with ``scratch``, in files of that
    folder. ``block_bytes`` decompressed bytes are parsed at a time.
    """
    check_on_error(on_error)
    given = 0 if rank is None else whole_number("rank", rank, 1)
    counted = Skipped() if skipped is None else skipped
    files = _chosen_files(folder, name, langs)
    sizes = {lang: path.stat().st_size for lang, path in files.items()}
    languages, facts, found, before = dict[str, LanguageMap](), dict[str, dict[str, Any]](), 0, 0
    for lang, path in files.items():
        reader, memory = _Reader(path, on_error, given, block_bytes), bytearray()
        with (scratch / lang).open("wb") if scratch else nullcontext() as file:
            append = file.write if file else memory.extend
            for vectors, done in reader.read():
                append(vectors.tobytes())
                progress(Progress("read", before + done, sum(sizes.values()), f"{lang}: {len(reader.rows):,} words"))
        if found and reader.rank != found:
            first = next(iter(files.values()))
            raise ModelFileError(
                f"{path} has {reader.rank} numbers for a word, {first} {found}; use files of one model"
            )
        before, found, words = before + sizes[lang], reader.rank, list(reader.rows)
        flat = np.asarray(np.memmap(scratch / lang, np.float32, "r+")) if scratch else np.frombuffer(memory, np.float32)
        Z = flat.reshape(len(words), found)
        for row, vector in reader.replaced.items():
            Z[row] = vector
        languages[lang] = LanguageMap(words, np.ones(len(words), np.float32), Z, np.zeros(found, np.float32))
        facts[lang] = {
            "documents": 0,
            "words": len(words),
            "not_tokens": _count_not_tokens(words, lang),
            "skipped": reader.skipped.counts,
            "file": path.name,
            "sha256": _digest(words, Z),
        }
        counted.update(reader.skipped)
    settings = make_settings("wsdm19", rank=found, idf_power=0.0)  # idf^0 = 1
    report = {"published": name, "rank": found, "languages": facts, "versions": package_versions()}
    return PublishedModel(settings, languages, report)


def convert_published(
    folder: str | Path,
    name: str,
    output: str | Path,
    langs: str | Sequence[str] | None = None,
    *,
    rank: int | None = None,
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
    progress: ProgressCallback = no_progress,
) -> dict[str, Any]:
    """Write a published model in cr5's own format, which opens at once, and return its report; see ``read_published``.

    The arrays are written to scratch files next to ``output`` first, so that memory holds only a part of them; a
    model in the folder ``output`` is replaced when the new one is complete.
    """
    output = Path(output).resolve()
    check_model_folder(output)
    with TemporaryDirectory(prefix=f".{output.name}-", dir=existing_folder(output.parent)) as scratch:
        model = read_published(
            folder, name, langs, rank=rank, on_error=on_error, skipped=skipped, progress=progress,
            scratch=Path(scratch),
        )  # fmt: skip
        save(output, {"settings": model.settings.to_json(), "report": model.report}, model.languages)
        report = model.report
        del model  # Windows cannot remove files that are mapped into memory
    return report


def _chosen_files(folder: str | Path, name: str, langs: str | Sequence[str] | None) -> dict[str, Path]:
    models = published_models(folder)
    if name not in models:
        available = f"those in {folder} are {', '.join(models)}" if models else f"{folder} has no file of one"
        raise ModelFileError(f"there is no published model {name!r}; {available} (files are named MODEL_LANG.txt.gz)")
    files = models[name]
    if langs is None:
        return files
    chosen = {}
    for lang in one_or_several(langs):
        if (found := find_language(lang, files)) is None:
            known = ", ".join(files)
            raise ModelFileError(f"{folder} has no {name}_{lang}.txt.gz; the languages of {name} there are {known}")
        chosen[found] = files[found]
    if not chosen:
        raise ModelFileError(f"`langs` is empty; name languages of {name}: {', '.join(files)}")
    return chosen


class _Reader:
    """Reads one file: ``rows`` are the words and their rows, ``skipped`` the lines that were left out.

    ``rank`` is that of most lines in the first block unless it is given, not 0. ``replaced`` has the vectors of rows
    whose word occurs again.
    """

    def __init__(self, path: Path, on_error: OnError, rank: int, block_bytes: int) -> None:
        self.path, self.on_error, self.block_bytes = path, on_error, block_bytes
        self.rank, self.rows, self.skipped = rank, dict[str, int](), Skipped()
        self.replaced: dict[int, Array] = {}

    def read(self) -> Iterator[tuple[Array, int]]:
        """Blocks of vectors, new words x rank, and how many bytes of the file have been read so far."""
        try:
            with self.path.open("rb") as raw, open_decompressed(raw, split_suffix(self.path.name)[1]) as stream:
                limits = ReadLimits(self.block_bytes)
                for first, block in line_blocks(stream, self._report, self.block_bytes, limits):
                    block = block.replace(b"\r\n", b"\n").removesuffix(b"\n") + b"\n"
                    start = self._checked_start(block) if first == 1 else block
                    yield self._parse(start, first + (start is not block)), raw.tell()
        except READ_ERRORS as error:
            raise ModelFileError(f"{self.path}: {describe_error(error)}") from error
        if not self.rows:
            raise ModelFileError(f"{self.path} has no words that can be used; download it again, or check `rank`")

    def _checked_start(self, block: bytes) -> bytes:
        """The first block without a header, if that is to be skipped; sets the rank."""
        if not self.rank:
            self.rank = self._guess_rank(block.split(b"\n")[:-1])
        first, _, rest = block.partition(b"\n")
        header = _HEADER.fullmatch(first)
        if not rest or header is None or int(header[2]) != self.rank:
            return block
        if first.count(b" ") >= self.rank and int(header[1]) != rest.count(b"\n"):
            return block  # the line may be a word with its vector, and the first number is not that of the other lines
        line = quoted(first.decode(errors="replace"))
        problem = f"{location(str(self.path), 1)}: {line} looks like the header of word2vec text"
        if self.on_error == "raise":
            raise ModelFileError(
                f'{problem}, which published models do not have; remove the line, or use `on_error="skip"`'
            )
        self.skipped.add("headers of word2vec text", problem)
        return rest

    def _report(self, line: int | None, reason: str, explanation: str) -> None:
        message = f"{location(str(self.path), line)}: {explanation}"
        if self.on_error == "raise":
            raise ModelFileError(f"{message}; {_ADVICE}")
        self.skipped.add(reason, message)

    def _guess_rank(self, lines: list[bytes]) -> int:
        """The number of numbers at the end of most lines, of some that are evenly spaced."""
        counts = Counter(map(_numbers_at_end, lines[:: -(-len(lines) // SAMPLED_LINES)]))
        [(rank, votes), *others] = counts.most_common(2)
        if others and others[0][1] == votes:
            raise ModelFileError(
                f"{self.path}: as many lines end in {rank} numbers as in {others[0][0]}; give the right one as `rank`"
            )
        if not rank:
            raise ModelFileError(f"{location(str(self.path), 1)}: no numbers after the word; download the file again")
        return rank

    def _parse(self, block: bytes, first_line: int) -> Array:
        """The vectors of the words that are new in these lines."""
        view = np.frombuffer(block, np.uint8)
        ends, spaces = np.flatnonzero(view == ord("\n")), np.append(np.flatnonzero(view == ord(" ")), len(view))
        starts = np.concatenate([[0], ends[:-1] + 1])
        spaces_before = np.searchsorted(spaces, ends)
        numbers = spaces_before - np.searchsorted(spaces, starts)
        # The space after the word is the last but rank - 1 of its line.
        cuts = np.where(numbers >= self.rank, spaces.take(spaces_before - self.rank, mode="clip"), ends)
        faults: dict[int, tuple[str, str]] = {}
        words: dict[int, str] = {}
        for i, (start, cut) in enumerate(zip(starts.tolist(), cuts.tolist(), strict=True)):
            if numbers[i] < self.rank:
                problem = f"{plural(int(numbers[i]), 'number')} instead of {self.rank}"
                faults[i] = ("lines with too few numbers", problem)
            elif start == cut:
                faults[i] = ("lines without a word", "no word before the numbers")
            else:
                try:
                    words[i] = block[start:cut].decode()
                except UnicodeDecodeError:
                    faults[i] = (
                        "lines that are not UTF-8",
                        f"{quoted(block[start:cut].decode('latin-1'))} is not UTF-8",
                    )
        for i in [i for i, word in words.items() if word.split() != [word]]:
            faults[i] = (WHITE_SPACE, f"the word {quoted(words.pop(i))} contains white space")
        parts = {i: block[cuts[i] + 1 : ends[i]] for i in words}
        vectors = _parse_numbers(list(parts.values()), self.rank)
        if vectors is None:
            for i in [i for i, part in parts.items() if _not_a_number(part) is not None]:
                faults[i] = ("lines with something else than numbers", f"{_not_a_number(parts.pop(i))} is not a number")
            vectors = np.array([part.split(b" ") for part in parts.values()], np.float32).reshape(-1, self.rank)
        new = []
        for row, i in enumerate(parts):
            if words[i] in self.rows:
                faults[i] = ("words that occur again", f"the word {quoted(words[i])} is in an earlier line, too")
                self.replaced[self.rows[words[i]]] = vectors[row]
            else:
                self.rows[words[i]] = len(self.rows)
                new.append(row)
        for i, (reason, problem) in sorted(faults.items()):
            if reason == WHITE_SPACE:  # as many of the published words have
                self.skipped.add(reason, f"{location(str(self.path), first_line + i)}: {problem}")
            else:
                self._report(first_line + i, reason, problem)
        return vectors if len(new) == len(vectors) else vectors[new]


def _numbers_at_end(line: bytes) -> int:
    """How many fields of a line are numbers, from its end; the first field is the word, whatever it is."""
    fields = line.split(b" ")[:0:-1]
    return next((i for i, field in enumerate(fields) if not _NUMBER.fullmatch(field)), len(fields))


def _parse_numbers(parts: list[bytes], rank: int) -> Array | None:
    """Numbers separated by spaces, one row for each part; None if one of them is not a finite number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    data = b"".join(part + b" " for part in parts)
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord(" "))
    offsets = np.concatenate([[0], ends + 1])
    fields = pa.LargeStringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(data))
    try:
        numbers = pc.cast(pc.utf8_slice_codeunits(fields, 0, -1), pa.float32()).to_numpy()
    except pa.ArrowInvalid:
        return None
    return numbers.reshape(len(parts), rank) if np.isfinite(numbers).all() else None


def _not_a_number(part: bytes) -> str | None:
    """The first of the fields that is not a finite number."""
    with np.errstate(over="ignore"):
        wrong = (f for f in part.split(b" ") if not _NUMBER.fullmatch(f) or not np.isfinite(np.float32(f)))
        return next((quoted(field.decode(errors="replace")) for field in wrong), None)


def _count_not_tokens(words: list[str], lang: str) -> int:
    """How many words the tokeniser does not take as they are, such as those with a hyphen or a capital letter."""
    tokens, ids, offsets = Tokeniser()(words, lang)
    alone = np.flatnonzero(np.diff(offsets) == 1)
    return len(words) - sum(bool(tokens[ids[offsets[i]]] == words[i]) for i in alone.tolist())


def _digest(words: list[str], Z: Array) -> str:
    digest = hashlib.sha256("\n".join([*words, ""]).encode())
    digest.update(Z.data)
    return digest.hexdigest()[:16]
