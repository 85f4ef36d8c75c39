"""The bytes that Dask workers send each other in a step of the solver, by a formula."""

from typing import NamedTuple

from cr5.training.engines.dask import DaskEngine


class ReceivedRows(NamedTuple):
    """Rows that one worker receives in a step of the solver."""

    concepts: int  # rows of concepts, for its documents
    sums: int  # concept sums of other workers' documents
    words: int  # rows of words that other workers hold, for its shards
    products: int  # partial sums of X'U, for the words that it holds


def received_rows(engine: DaskEngine) -> list[ReceivedRows]:
    """The rows that every worker of an engine receives in a step of the solver."""
    result = []
    language_slots = {(shard.info.language, shard.slot) for shard in engine.shards}
    for here in range(len(engine.workers.slots)):
        local = [shard for shard in engine.shards if shard.slot == here]
        remote = [shard for shard in engine.shards if shard.slot != here]
        word_slots = list(zip(engine.words.slots, engine.words.sizes, strict=True))
        result.append(
            ReceivedRows(
                concepts=sum(int(shard.first[-1]) - shard.occurring(here) for shard in local),
                sums=sum(shard.occurring(here) for shard in remote),
                words=sum(word_slots[lang][1] for lang, slot in language_slots if slot == here != word_slots[lang][0]),
                products=sum(
                    word_slots[lang][1] for lang, slot in language_slots if slot != here == word_slots[lang][0]
                ),
            )
        )
    return result


def bytes_per_step(
    received: ReceivedRows, columns: int, active: int, older: int, itemsize: int, matrices: bool = True
) -> int:
    """Bytes per worker and step: (columns (concepts + products) + active (sums + words)) itemsize, and V.

    columns: of Z; active: of W; older: of P. V are the small matrices of the step, columns x (columns +
    older + active + 1), which every worker receives except the one that holds them (``matrices=False``).
    """
    rows = columns * (received.concepts + received.products) + active * (received.sums + received.words)
    return itemsize * (rows + matrices * columns * (columns + older + active + 1))
