"""What a pretraining will take, estimated from the sizes of the dumps: disk, memory and hours."""

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cr5.errors import Cr5Error
from cr5.machine import available_cores, available_memory
from cr5.message_parts import format_bytes
from cr5.progress import ProgressCallback, no_progress
from cr5.settings import Settings
from cr5.sources.wikipedia.corpus_folder import work_folder
from cr5.sources.wikipedia.dump_listing import Dump
from cr5.sources.wikipedia.plan import WikipediaRequest, choose_dumps
from cr5.storage.output_paths import check_free_space

DOWNLOAD_BYTES_PER_SECOND = 5e6  # assumed
# Compressed bytes of a dump per article (English Wikipedia), and those that one core extracts per second.
ARTICLE_BYTES = {"cirrus": 5600.0, "xml": 3600.0, "parquet": 1800.0}
EXTRACTED_BYTES_PER_SECOND = {"cirrus": 5e6, "xml": 2e6, "parquet": 10e6}
CORPUS_BYTES_PER_ARTICLE = 1800.0
NONZEROS_PER_ARTICLE = 150.0
# A fit at the scale of the paper, 195 million nonzeros of 4 languages: 193 s on 2 cores, 14.4 GB, or 20 GB of scratch
# files. N-grams take 1.6 times as long, and the choice of the ridge takes about four fits.
FIT_CORE_SECONDS_PER_NONZERO = 2 * 193 / 195e6
FIT_BYTES_PER_NONZERO = 14.4e9 / 195e6
SCRATCH_BYTES_PER_NONZERO = 20e9 / 195e6
SUBWORDS_FACTOR, RIDGE_FACTOR = 1.6, 4.0
PROCESS_BYTES = 1_000_000_000  # interpreters, libraries, and the extraction of one part in each worker


@dataclass(frozen=True)
class Forecast:
    """Bytes to download, the largest disk space and memory, and the hours of the corpus and of the training.

    ``dumps`` has the date and the bytes of the dump of every Wikipedia; ``unknown`` counts files whose size is not
    published and that are not part of the sums.
    """

    dumps: dict[str, tuple[str, int]]
    articles: int
    download: int
    disk: int
    memory: int
    corpus_hours: float
    training_hours: float
    unknown: int

    @property
    def hours(self) -> float:
        """The whole time."""
        return self.corpus_hours + self.training_hours

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"hours": self.hours}

    def __str__(self) -> str:
        without = f"; {self.unknown} files have no published size and are not counted" if self.unknown else ""
        return (
            f"about {self.articles:,} articles: download {format_bytes(self.download)}, disk "
            f"{format_bytes(self.disk)}, memory {format_bytes(self.memory)}, {_time(self.corpus_hours)} "
            f"for the corpus and {_time(self.training_hours)} for training and evaluation{without}"
        )


def forecast(
    request: WikipediaRequest,
    corpus: Path,
    settings: Settings,
    *,
    memory: int | None = None,
    threads: int | None = None,
    workers: int | None = None,
    user_agent: str,
    progress: ProgressCallback = no_progress,
) -> Forecast:
    """Look the dumps up, or take those of a corpus that was begun, and estimate from their sizes."""
    request.check()
    with tempfile.TemporaryDirectory(prefix="cr5-") as empty:
        work = work_folder(corpus) if work_folder(corpus).is_dir() else Path(empty)
        dumps = choose_dumps(request, work, user_agent=user_agent, progress=progress)
    return estimate(dumps, request, settings, memory=memory, threads=threads, workers=workers)


def estimate(
    dumps: list[Dump],
    request: WikipediaRequest,
    settings: Settings,
    *,
    memory: int | None = None,
    threads: int | None = None,
    workers: int | None = None,
) -> Forecast:
    """The forecast for these dumps; a sample reads only as much of them as its articles need."""
    found, articles, bytes_read, unknown = {}, 0, 0, 0
    for dump in dumps:
        files = [*dump.files, *([dump.props] if dump.props else [])]
        unknown += sum(file.size is None for file in files)
        texts = sum(_size(file) for file in dump.files)
        props = _size(dump.props) if dump.props else 0
        count = round(texts / ARTICLE_BYTES[request.source])
        if request.sample is not None and request.sample < count:
            texts, count = round(request.sample * ARTICLE_BYTES[request.source]), request.sample
        found[dump.wiki.code] = (dump.date, texts + props)
        articles, bytes_read = articles + count, bytes_read + texts + props
    download = 0 if request.dumps else bytes_read
    nonzeros = NONZEROS_PER_ARTICLE * articles
    weighting, rank = settings.weighting, settings.nominal_rank
    model = len(dumps) * rank * (4 * weighting.max_words + 2 * weighting.max_subwords * weighting.subwords)
    fit_bytes = FIT_BYTES_PER_NONZERO * nonzeros
    budget = fit_bytes if memory is None else min(memory, fit_bytes)
    scratch = SCRATCH_BYTES_PER_NONZERO * nonzeros if budget < fit_bytes else 0
    extraction = bytes_read / EXTRACTED_BYTES_PER_SECOND[request.source] / (workers or available_cores())
    factor = (SUBWORDS_FACTOR if weighting.subwords else 1) * (RIDGE_FACTOR if settings.ridge == "auto" else 1)
    fit = FIT_CORE_SECONDS_PER_NONZERO * nonzeros * factor / (threads or available_cores())
    return Forecast(
        dumps=found,
        articles=articles,
        download=download,
        disk=round(download + 2 * CORPUS_BYTES_PER_ARTICLE * articles + max(2 * model, model + scratch)),
        memory=round(budget + PROCESS_BYTES),
        corpus_hours=max(download / DOWNLOAD_BYTES_PER_SECOND, extraction) / 3600,
        training_hours=fit / 3600,
        unknown=unknown,
    )


def _time(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1 else f"{max(1, round(60 * hours))} min"


def _size(file: Any) -> int:
    if file.url:
        return file.size or 0
    return file.size or Path(file.name).stat().st_size  # a local file


def check_resources(expected: Forecast, output: Path, memory: int | None) -> None:
    """Raise an error if the disk or the memory is evidently too small."""
    check_free_space(output, expected.disk, "the pretraining")
    if memory is None and expected.memory > (there := available_memory()):
        raise Cr5Error(
            f"training needs about {format_bytes(expected.memory)} of memory, and {format_bytes(there)} are free; "
            f"limit it with `memory={round(0.6 * there / 1e9) * 10**9 or 10**9}`, and the rest goes to disk"
        )
