"""Counted corpora for training."""

from collections.abc import Sequence
from typing import Any

import madeup

from cr5 import Document
from cr5.corpus.inputs import in_batches
from cr5.features.tokeniser import Tokeniser
from cr5.settings import Settings, make_settings
from cr5.training.counted_corpus import CountedCorpus, count_corpus


def counted(documents: Sequence[Document]) -> CountedCorpus:
    return count_corpus(in_batches(documents), Tokeniser())


def chosen(**changes: Any) -> Settings:
    return make_settings(**madeup.SETTINGS | changes)
