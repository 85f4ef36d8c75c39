"""Collections to mine, as sentences, and the documents that a suspect text is compared with, as an index."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from cr5.alignment.documents import read_text, split_text, text_files, text_language
from cr5.corpus.documents import Document
from cr5.corpus.formats import READERS, split_format
from cr5.corpus.languages import find_language
from cr5.corpus.reading import read
from cr5.data import BUILTIN
from cr5.errors import CorpusError, Cr5Error
from cr5.features.tokeniser import has_letter_or_digit
from cr5.index import Index
from cr5.message_parts import in_languages
from cr5.model import Cr5
from cr5.progress import ProgressCallback, no_progress
from cr5.sources.markup import FORMATS, extension

PASSAGE_WORDS = 30  # passage length of a temporary index: about the sentence or two that a query has


class Sentences(NamedTuple):
    """The sentences of a collection and their language."""

    texts: list[str]
    lang: str


def read_sentences(model: Cr5, path: Path | str, lang: str | None = None, *, split: bool = False) -> Sentences:
    """The sentences of a collection: of a text file, its lines; of a corpus or a folder, those of its documents.

    A text file may have any ending but those of corpora and of HTML, Markdown or reStructuredText, which are documents:
    text.txt, text.en, text. Its lines are split into sentences with ``split``. ``lang`` is guessed by default; of a
    corpus in several languages, it has to be given.
    """
    path = Path(path)
    is_corpus = str(path) == BUILTIN or split_format(path.name)[0] in READERS
    is_page = FORMATS.get(extension(path.name), "text") != "text"
    is_text = path.exists() and not (path.is_dir() or is_corpus or is_page)  # also a pipe, as of <(…) in a shell
    if is_text and not split:
        text = read_text(path, lang)
        found = Sentences(text.removesuffix("\n").split("\n"), text_language(model, text, lang, str(path)))
    else:
        documents = list(read_documents(model, path, lang))
        langs = sorted({document.lang for document in documents})
        if len(langs) > 1:
            raise Cr5Error(f"{path} has documents in {', '.join(langs)}; name the language to use with `langs`")
        texts = [
            sentence
            for document in documents
            for sentence in split_text(document.text, document.lang, document.concept).sentences
        ]
        found = Sentences(texts, langs[0] if langs else "")
    if not any(has_letter_or_digit(text) for text in found.texts):
        raise Cr5Error(f"{path} has no sentence{f' in {lang}' if lang else ''}; give one sentence a line, or documents")
    return found


def read_documents(model: Cr5, path: Path | str, lang: str | None = None) -> Iterator[Document]:
    """Documents of a corpus, or of text files, whose names are the concepts; only those in ``lang`` if it is given.

    A folder is a corpus if it has a file in one of the formats of corpora. The language of text files is ``lang``, or
    guessed for each.
    """
    path, name = Path(path), str(path)
    is_corpus = name == BUILTIN or split_format(path.name)[0] in READERS
    if path.is_dir():
        is_corpus = any(split_format(file.name)[0] in READERS for file in path.rglob("*"))
    elif not path.exists() and not is_corpus:
        raise CorpusError(f"{path}: no such file or folder; check the spelling")
    if is_corpus:
        wanted = None if lang is None else model.find_language(lang)
        for document in read(name):
            code = find_language(document.lang, model.langs)
            if code is not None and wanted in (None, code):
                yield Document(document.concept, code, document.text, document.title, document.url)
        return
    files = text_files(path) if path.is_dir() else [path]
    for file in files:
        text = read_text(file, lang)
        if has_letter_or_digit(text):
            concept = file.relative_to(path).as_posix() if path.is_dir() else file.name
            yield Document(concept, text_language(model, text, lang, str(file)), text, file.name)


@contextmanager
def open_sources(
    path: Path | str, model: Path | str | None = None, *, progress: ProgressCallback = no_progress
) -> Iterator[Index]:
    """The index in a folder, or a temporary index of documents (see ``read_documents``), built with a model."""
    if Index.exists(path):
        with Index.open(path) as index:
            if model is not None and not index.built_with(model):
                raise Cr5Error(f"{path}: the index was built with another model than `model={model}`; leave it out")
            yield index
        return
    if model is None:
        raise Cr5Error(f"{path} is not an index; name the model to read its documents with in `model`")
    loaded = Cr5.load(model)
    documents = list(read_documents(loaded, path))
    if not documents:
        raise CorpusError(f"{path} has no documents {in_languages(loaded.langs)}; give others, or another model")
    with (
        TemporaryDirectory(prefix="cr5-sources-") as folder,
        Index.create(Path(folder) / "index", model, passage_words=PASSAGE_WORDS) as index,
    ):
        index.add(documents, progress=progress)
        yield index
