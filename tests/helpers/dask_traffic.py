"""The bytes that Dask workers send each other in a step of the solver, by a formula."""

from typing import Any, NamedTuple

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


def received_bytes(dask_worker: Any) -> int:
    """The bytes that a worker has received from others, as Dask counts them; run on the worker."""
    return int(sum(entry["total"] for entry in dask_worker.transfer_incoming_log))


class StepTraffic:
    """A progress callback of a fit: after every step, the columns of its arrays and what each worker has received."""

    def __init__(self, engine: DaskEngine) -> None:
        self.engine = engine
        self.columns: list[dict[str, int]] = []
        self.totals: list[list[int]] = []

    def __call__(self, progress: Any) -> None:
        types, totals = self.engine.words.types, self.engine.workers.client.run(received_bytes)
        if "W" not in types:
            return  # after the last step without a tolerance, the residual is not computed
        older = types.get("P", (0,))[0]
        self.columns.append({"columns": types["Z"][0], "active": types["W"][0], "older": older})
        self.totals.append([totals[worker] for worker in self.engine.workers.slots])

    def steps(self, itemsize: int, last: int = 12) -> list[tuple[dict[str, int], list[int], list[int]]]:
        """Columns, predicted and reported bytes by worker, from the second step on.

        The first step has no P; with step ``last``, a restart comes on top.
        """
        moved, result = received_rows(self.engine), []
        for step in range(1, min(len(self.totals), last) - 1):
            before, after, sizes = self.totals[step], self.totals[step + 1], self.columns[step]
            predicted = [
                bytes_per_step(rows, **sizes, itemsize=itemsize, matrices=i > 0) for i, rows in enumerate(moved)
            ]
            result.append((sizes, predicted, [new - old for old, new in zip(before, after, strict=True)]))
        return result
