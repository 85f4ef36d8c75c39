"""The methods of a fitted model: vectors of texts, their languages and coverage, words, similarities, explanations."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from cr5._typing import Array, Ints
from cr5.corpus.identification import Guess
from cr5.corpus.texts import Texts, code_list, one_text, positions, text_list
from cr5.errors import Cr5Error, Cr5TypeError, NotFittedError, whole_number
from cr5.features.counts import WordCounts, are_few_and_short, count_words
from cr5.message_parts import plural, quoted
from cr5.model.language_encoder import Coverage, EncodedText
from cr5.model.trained_languages import TrainedLanguages
from cr5.retrieval.explanations import Explanation, VectorParts, explain_vectors
from cr5.retrieval.vectors import cosines_with
from cr5.settings import Rank, Settings
from cr5.storage.language_map import LanguageMap
from cr5.storage.model_files import LanguageSize

if TYPE_CHECKING:  # encoding needs nothing of this
    from cr5.retrieval.lexicon import Lexicon
    from cr5.retrieval.scorer import Scorer

CHUNK_TEXTS = 1024  # texts encoded at a time, to bound the memory for their tokens and counts
Langs: TypeAlias = str | Iterable[str | None] | None
"""The language of all texts, or one for each; where it is None, it is guessed."""
Translations: TypeAlias = list[tuple[str, float]]
Weights: TypeAlias = Mapping[str, float] | None


class TextEncoder:
    """The methods that only read a fitted model; ``Cr5`` adds training, saving and loading."""

    settings: Settings
    _languages: TrainedLanguages
    _report: dict[str, Any]

    @property
    def rank(self) -> int:
        """The dimensions of the vectors; with ``rank="auto"``, they are known once the model is fitted."""
        rank: Rank = self._report.get("rank", self.settings.rank)  # reports of older models have no rank
        if rank == "auto":
            raise NotFittedError
        return rank

    @property
    def view_weights(self) -> Mapping[str, float]:
        """The weight of each view in comparisons by all views; see the setting ``strings_weight``."""
        return self._languages.view_weights

    @property
    def langs(self) -> list[str]:
        """The languages that the model knows."""
        return self._languages.codes

    def find_language(self, lang: str) -> str:
        """The language of the model that a code means, in any spelling: "zh" for "cmn" or "ZH", "en" for "en_US".

        See ``cr5.corpus.languages.find_language``; a code of no language of the model is an error.
        """
        return self._languages.find(lang)

    def encode(self, texts: str | Texts, lang: Langs = None) -> Array:
        """One text -> its vector (rank); several -> texts x rank. Vectors are float32 and of length 1.

        ``texts`` may be any sequence of strings, a NumPy or Arrow array, or a column of a DataFrame. ``lang`` is
        the language of all texts, or one for each; where it is None, it is guessed (see ``guess_languages``). A
        language that the model does not have is encoded by a close one if there is such, nn by nb, with the warning
        ``LanguageFallback``; see ``cr5.corpus.languages.CLOSE_LANGUAGES``. Texts of any length are encoded in full.
        Words outside the vocabulary are encoded by their n-grams; the vector of a text without a known word or n-gram
        is zero.
        """
        if isinstance(texts, str):
            rows: Array = self._encode([texts], [None]) if lang is None else self.encode([texts], lang)
            return rows[0]  # type: ignore[no-any-return]
        texts = text_list(texts)
        if isinstance(lang, str):
            return self._encode(texts, [self._languages.find_for_text(lang)] * len(texts))
        result, codes = np.empty((len(texts), self.rank), np.float32), self._codes(texts, lang)
        rules = [None if code is None else self.settings.tokeniser.rules_key(code) for code in codes]
        for rows in positions(rules).values():
            result[rows] = self._encode([texts[row] for row in rows], [codes[row] for row in rows])
        return result

    @overload
    def coverage(self, texts: str, lang: Langs = None) -> float: ...  # type: ignore[overload-overlap]

    @overload
    def coverage(self, texts: Texts, lang: Langs = None) -> Array: ...

    def coverage(self, texts: str | Texts, lang: Langs = None) -> float | Array:
        """The share of each text's tokens that are words of the vocabulary; arguments as in ``encode``.

        It is 0 for an empty text. ``coverage_parts`` tells which of the other tokens have vectors.
        """
        return self.coverage_parts(texts, lang).known

    @overload
    def coverage_parts(self, texts: str, lang: Langs = None) -> Coverage[float]: ...  # type: ignore[overload-overlap]

    @overload
    def coverage_parts(self, texts: Texts, lang: Langs = None) -> Coverage[Array]: ...

    def coverage_parts(self, texts: str | Texts, lang: Langs = None) -> Coverage[float] | Coverage[Array]:
        """The shares of each text's tokens that the model knows, encodes by their n-grams, and does not know.

        Arguments are as in ``encode``; the three numbers or arrays add up to 1, or to 0 for an empty text.
        """
        if isinstance(texts, str):
            return Coverage(*(float(part[0]) for part in self.coverage_parts([texts], lang)))
        texts = text_list(texts)
        result = Coverage(*np.empty((3, len(texts)), np.float32))
        for code, rows in self._rows_by_language(texts, lang).items():
            parts = self._languages.encoder(code).coverage(self.settings.tokeniser([texts[row] for row in rows], code))
            for whole, part in zip(result, parts, strict=True):
                whole[rows] = part
        return result

    def encode_text(self, text: str, lang: str) -> EncodedText:
        """Tokenise a text once, for its vector as in ``encode`` and its coverage as in ``coverage_parts``."""
        lang = self._languages.find_for_text(lang)
        return self._languages.encoder(lang).encode_text(self.settings.tokeniser.words(one_text(text), lang))

    def sizes(self) -> dict[str, LanguageSize]:
        """How large each language is: its words, its n-grams, and the bytes of both with their vectors."""
        return self._languages.sizes()

    def words(self, lang: str) -> list[str]:
        """A language's vocabulary, most frequent word first."""
        return list(self._languages.words(self.find_language(lang)))

    def word_vectors(self, lang: str) -> Array:
        """words x rank: the vector of every word of ``words``, float32; the array cannot be written to.

        It is the model's own array, or a new one of a quantised language.
        """
        return self._languages.word_vectors(self.find_language(lang))

    def guess_languages(self, texts: Texts, langs: str | Iterable[str] | None = None) -> list[Guess]:
        """The most probable language of each text among ``langs``, by default all of the model, and its probability.

        A single known word is enough: of held-out single words of the built-in encyclopedia, 95 of 100 are guessed
        correctly, and 73 by a character-based identifier alone. A text that says nothing about its language, such as
        1234, gets the one with most words, with a low probability. The first guess among a set of languages reads their
        words and builds a table of them, which takes 12 to 16 bytes for each.
        """
        self._languages.check_fitted()
        if isinstance(texts, str):
            raise Cr5TypeError(f"`texts` is {quoted(texts)}; give a list of texts, or this one to `guess_language`")
        texts = text_list(texts)
        if not texts:
            return []
        guesser = self._languages.guesser(langs)
        if are_few_and_short(texts):
            return [guesser.guess(text) for text in texts]
        chunks = (texts[i : i + CHUNK_TEXTS] for i in range(0, len(texts), CHUNK_TEXTS))
        return [guess for chunk in chunks for guess in guesser(chunk).guesses]

    def guess_language(self, text: str, langs: str | Iterable[str] | None = None) -> Guess:
        """The most probable language of one text, as in ``guess_languages``."""
        return self._languages.guesser(langs).guess(one_text(text))

    def language_probabilities(self, text: str, langs: str | Iterable[str] | None = None) -> dict[str, float]:
        """The probability of every language among ``langs``, by default all of the model; see ``guess_languages``."""
        return self._languages.guesser(langs).read(one_text(text)).probabilities

    def similar_words(self, word: str, lang: str, to: str | None = None, k: int = 10) -> list[tuple[str, float]]:
        """The words of language ``to`` whose vectors have the largest cosine with a word of ``lang``.

        Without ``to``, they are other words of ``lang`` itself; call it once for each language to search several.
        """
        lang = self.find_language(lang)
        to = lang if to is None else self.find_language(to)
        k, source, target = whole_number("k", k), self._language(lang), self._language(to)
        tokens = self.settings.tokeniser([one_text(word, "word")], lang).words
        if len(tokens) > 1:
            raise Cr5Error(f"{word!r} has {len(tokens)} words, {', '.join(tokens)}; give one of them")
        row = self._languages.encoder(lang).vocabulary.index.get(tokens[0]) if tokens else None
        if row is None:
            raise Cr5Error(
                f"{word!r} is not one of the {len(source.words):,} words known in language {lang}; "
                "try a more frequent word or another form of it"
            )
        vector = source.vectors(np.array([row]))[0]
        cosines = np.concatenate([cosines_with(vector, block) for block in target.vector_blocks()])
        if lang == to:
            cosines[row] = -np.inf
        best = np.argsort(-cosines, kind="stable")[: min(k, len(cosines) - (lang == to))]
        return [(target.words[i], float(cosines[i])) for i in best]

    def lexicon(self, source: str, target: str) -> "Lexicon":
        """The most probable translations of every word of language ``source`` in language ``target``.

        It is made when it is first asked for, in seconds, or minutes for 100,000 words and more, and kept: in memory,
        and in the folder that the model was loaded from, if that can be written.
        """
        return self._languages.lexicon(self.find_language(source), self.find_language(target))

    @overload
    def translate_words(  # type: ignore[overload-overlap]
        self, words: str, source: str, target: str, k: int = 10
    ) -> Translations: ...

    @overload
    def translate_words(self, words: Texts, source: str, target: str, k: int = 10) -> list[Translations]: ...

    def translate_words(
        self, words: str | Texts, source: str, target: str, k: int = 10
    ) -> Translations | list[Translations]:
        """One word -> its k most probable translations and their probabilities; several -> such a list for each.

        The list is empty if the model has no such word. A lexicon has 10 translations of a word at most, see
        ``lexicon``.
        """
        if isinstance(words, str):
            return self.translate_words([words], source, target, k)[0]
        k, source, lexicon = whole_number("k", k), self.find_language(source), self.lexicon(source, target)
        tokens = [" ".join(self.settings.tokeniser.words(word, source)) for word in text_list(words, "words")]
        return [lexicon.translations(token, k) if token in lexicon.index else [] for token in tokens]

    def scorer(self, weights: Weights = None) -> "Scorer":
        """The scorer of word counts by all views (``cr5.retrieval.scorer``); see ``similarity``."""
        return self._languages.scorer(weights)

    @overload
    def similarity(  # type: ignore[overload-overlap]
        self, texts_a: str, lang_a: Langs, texts_b: str, lang_b: Langs, *, weights: Weights = None
    ) -> float: ...

    @overload
    def similarity(
        self, texts_a: str | Texts, lang_a: Langs, texts_b: str | Texts, lang_b: Langs, *, weights: Weights = None
    ) -> Array: ...

    def similarity(
        self, texts_a: str | Texts, lang_a: Langs, texts_b: str | Texts, lang_b: Langs, *, weights: Weights = None
    ) -> float | Array:
        """texts_a x texts_b: how similar texts are by all views: vectors, translated words and spelling.

        Texts and languages are given as in ``encode``. Of two texts it is a number, of one and several an array of one
        dimension. It is a weighted mean of the views' cosines: 1 for equal texts in one language, 0.03 +- 0.04 for
        documents that have nothing to do with each other, 0.4 to 0.5 for translations, 0.1 to 0.15 for documents about
        the same thing. The first call for two languages makes their lexicons, see ``lexicon``. ``weights`` replace
        some of ``view_weights``; the weight 0 switches a view off.
        """
        from cr5.retrieval.text_similarity import TextsOfLanguage, similarities_across_languages

        def counted(texts: str | Texts, langs: Langs, side: str) -> list[TextsOfLanguage]:
            texts = [texts] if isinstance(texts, str) else text_list(texts, f"texts_{side}")
            rows = self._rows_by_language(texts, langs, f"lang_{side}")
            return [TextsOfLanguage(*self._counts([texts[i] for i in at], lang), at) for lang, at in rows.items()]

        a, b = counted(texts_a, lang_a, "a"), counted(texts_b, lang_b, "b")
        found = similarities_across_languages(self._languages.scorer(weights), a, b)
        found = found[0] if isinstance(texts_a, str) else found
        found = found[..., 0] if isinstance(texts_b, str) else found
        return found if found.ndim else float(found)

    def explain(
        self, text_a: str, lang_a: str, text_b: str, lang_b: str, k: int = 10, *, views: bool = False
    ) -> Explanation:
        """The words that make two texts similar, with their contributions to the cosine; and what ``views`` add.

        Contributions add up to the cosine of the vectors. The words of a view are those without which its cosine drops
        most; these drops do not add up.
        """
        from cr5.retrieval.text_similarity import explain_views

        text_a, text_b, k = one_text(text_a, "text_a"), one_text(text_b, "text_b"), whole_number("k", k)
        explanation = explain_vectors(self._parts(text_a, lang_a), self._parts(text_b, lang_b), k)
        if not views:
            return explanation
        a, b = self._counts([text_a], lang_a), self._counts([text_b], lang_b)
        return explanation._replace(views=explain_views(self._languages.scorer(), *a, *b, k))

    def _counts(self, texts: list[str], lang: str) -> tuple[WordCounts, str]:
        lang = self._languages.find_for_text(lang)
        return count_words(texts, lang, self.settings.tokeniser), lang

    def _language(self, lang: str) -> LanguageMap:
        return self._languages.language(self.find_language(lang))

    def _parts(self, text: str, lang: str) -> VectorParts:
        lang = self._languages.find_for_text(lang)
        return self._languages.encoder(lang).parts(self.settings.tokeniser.words(text, lang))

    def _codes(self, texts: list[str], langs: Langs, name: str = "lang") -> list[str | None]:
        """The given language of each text, None where it is to be guessed."""
        self._languages.check_fitted()
        if isinstance(langs, str):
            return [self._languages.find_for_text(langs)] * len(texts)
        codes = code_list([None] * len(texts) if langs is None else langs, name)
        if len(codes) != len(texts):
            raise Cr5Error(
                f"`{name}` has {plural(len(codes), 'code')} for {plural(len(texts), 'text')}; give one for all texts, "
                "or one for each, None where it is to be guessed"
            )
        known = {code: self._languages.find_for_text(code) for code in set(codes) if code is not None}
        return [None if code is None else known[code] for code in codes]

    def _rows_by_language(self, texts: list[str], langs: Langs, name: str = "lang") -> dict[str, Ints]:
        """For each language, the positions of its texts, after guessing the languages that are not given."""
        codes = self._codes(texts, langs, name)
        unknown = [i for i, code in enumerate(codes) if code is None]
        for i, guess in zip(unknown, self.guess_languages([texts[i] for i in unknown]), strict=True):
            codes[i] = guess.lang
        return positions(map(str, codes))

    def _encode(self, texts: list[str], codes: Sequence[str | None]) -> Array:
        """Texts in languages that are tokenised by the same rules, or all None, to be guessed.

        Each text is tokenised once, for the guess and for the vector, together with those of other languages.
        """
        result, tokeniser = np.empty((len(texts), self.rank), np.float32), self.settings.tokeniser
        is_guessed = None in codes
        if are_few_and_short(texts):
            for i, (text, code) in enumerate(zip(texts, codes, strict=True)):
                read = self._languages.guesser().read(text) if code is None else None
                lang = read.guess.lang if read else str(code)
                words = read.tokens[lang] if read else tokeniser.words(text, lang)
                result[i] = self._languages.encoder(lang).vector(words)
            return result
        for i in range(0, len(texts), CHUNK_TEXTS):
            chunk, langs = texts[i : i + CHUNK_TEXTS], [str(code) for code in codes[i : i + CHUNK_TEXTS]]
            if is_guessed:
                guesses, counts = self._languages.guesser()(chunk)
                langs = [guess.lang for guess in guesses]
            else:
                counts = dict.fromkeys(langs, count_words(chunk, langs[0], tokeniser))
            for lang, rows in positions(langs).items():
                if len(rows) == len(chunk):
                    result[i : i + len(chunk)] = self._languages.encoder(lang).vectors(counts[lang])
                else:
                    selected = counts[lang].select_rows(rows).drop_unused_words()
                    result[i + rows] = self._languages.encoder(lang).vectors(selected)
        return result
