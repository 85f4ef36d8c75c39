"""The ranks of counterparts, by one measure."""

import numpy as np
from ranked_vectors import retrieve

from cr5._typing import Ints
from cr5.retrieval.block_products import BlockSizes, Matrix
from cr5.retrieval.top_k import Measure


def counterpart_ranks(
    queries: Matrix,
    query_concepts: Ints,
    candidates: Matrix,
    candidate_concepts: Ints,
    *,
    measure: Measure = "cosine",
    sizes: BlockSizes | None = None,
) -> Ints:
    """The ranks that ``retrieve`` finds, of the queries whose concept some candidate has."""
    kept = np.isin(query_concepts, candidate_concepts)
    found = retrieve(queries[kept], query_concepts[kept], candidates, candidate_concepts, k=0, sizes=sizes)
    return found[measure].ranks
