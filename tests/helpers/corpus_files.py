"""Files of corpora, and the errors of reading them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, settings

from cr5.corpus.documents import Document
from cr5.corpus.reading import read_batches
from cr5.errors import CorpusError

GOOD = [Document("Q1", "en", "the universe"), Document("Q1", "de", "das Weltall", "Universum", "https://a/b")]
FORMATS = ".jsonl, .csv and .tsv, which .gz, .bz2 or .xz may follow, and .parquet"
LINE = '{"concept": "Q1", "lang": "en", "text": "a"}\n'
relaxed = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def put(name: str, content: str | bytes) -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name


def put_parquet(name: str, **columns: object) -> str:
    pq.write_table(pa.table(columns), name)
    return name


SKIP_LINES = ', or leave such lines out with `on_error="skip"`'


def message(*paths: str) -> str:
    with pytest.raises(CorpusError) as caught:
        list(read_batches(paths))
    return str(caught.value).removesuffix(SKIP_LINES)
