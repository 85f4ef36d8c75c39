"""A warm start: the folded maps of an earlier model, in the vocabularies of a new fit."""

from collections.abc import Mapping

import numpy as np

from cr5._typing import Array
from cr5.corpus.texts import find_numbers
from cr5.features.subwords import Subwords
from cr5.features.tfidf import Vocabulary
from cr5.storage.language_map import LanguageMap, in_single_precision


def folded_start(vocabularies: Mapping[str, Vocabulary], languages: Mapping[str, LanguageMap]) -> dict[str, Array]:
    """Per language words x rank: what each word of the new vocabulary contributes to a text in the earlier model.

    A word that is new is encoded by its n-grams; without them, and in a new language, it begins with zero.
    """
    rank = next(iter(languages.values())).offset.size
    return {
        lang: _rows(vocabulary, languages[lang])
        if lang in languages
        else np.zeros((len(vocabulary.words), rank), np.float32)
        for lang, vocabulary in vocabularies.items()
    }


def _rows(vocabulary: Vocabulary, language: LanguageMap) -> Array:
    index = {word: i for i, word in enumerate(language.words)}
    old = find_numbers(vocabulary.words, index)
    known, subwords = old >= 0, language.subwords
    result = np.zeros((len(old), language.offset.size), np.float32)
    # A word adds tf * idf * its row to the vector of a text, and the idf has changed.
    result[known] = language.vectors(old[known]) * (language.idf[old[known]] / vocabulary.idf[known])[:, None]
    if subwords is not None and not known.all():
        new = [vocabulary.words[i] for i in np.flatnonzero(~known).tolist()]
        rows = Subwords(subwords.ngrams, subwords.weights, subwords.squares).weigh(new)
        ngrams = in_single_precision(subwords.map, subwords.scale, slice(None))
        result[~known] = (rows @ ngrams) / vocabulary.idf[~known][:, None]
    return result
