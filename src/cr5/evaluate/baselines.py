"""What a model has to beat."""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.sparse import vstack

from cr5._typing import Sparse
from cr5.features import Counts, Weighting, count, fit_features, select
from cr5.text import Tokeniser


def shared_tokens(training: Mapping[str, Sequence[str]], texts: Mapping[str, Sequence[str]]) -> dict[str, Sparse]:
    """The leak floor: TF-IDF rows over one vocabulary for all languages.

    Two texts are alike only where they share a string: a name, a number, a borrowed word. The IDF comes
    from the training texts; a word that they lack counts as one that occurs in none of them.
    """
    tokeniser = Tokeniser()
    counts = {lang: count([*training[lang], *texts[lang]], lang, tokeniser) for lang in texts}
    columns: dict[str, int] = {}
    for part in counts.values():
        for word in part.words:
            columns.setdefault(word, len(columns))
    aligned = {
        lang: select(part.matrix, np.array([columns[word] for word in part.words], np.int64), len(columns))
        for lang, part in counts.items()
    }
    seen = vstack([aligned[lang][: len(training[lang])] for lang in texts], format="csr")
    everything = Weighting(tf="log", idf="smooth", min_documents=0, max_words=len(columns))
    features = fit_features(Counts(list(columns), seen), everything)
    return {
        lang: features.transform(Counts(list(columns), matrix[len(training[lang]) :]))
        for lang, matrix in aligned.items()
    }
