"""LangChain and Haystack search the built-in corpus with the vectors of a model."""

import asyncio
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from haystack import Document as Entry
from haystack import Pipeline
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from langchain_core.documents import Document as Page
from langchain_core.vectorstores import InMemoryVectorStore

import cr5.integrations.haystack
import cr5.integrations.langchain
import cr5.integrations.llamaindex
import cr5.integrations.sklearn
from cr5 import Cr5, Document, demo
from cr5.errors import Cr5Error
from cr5.integrations.haystack import Cr5DocumentEmbedder, Cr5TextEmbedder
from cr5.integrations.langchain import Cr5Embeddings

pytestmark = pytest.mark.usefixtures("no_network")

DOG = {("da", "Hund"), ("en", "Dog"), ("it", "Cane"), ("vi", "Chó")}
FOREIGN = ["il cane dorme", "the dog sleeps", "con chó ngủ", "hunden sover"]


@pytest.fixture(scope="module")
def corpus() -> list[Document]:
    return demo.encyclopedia()


@pytest.fixture(scope="module")
def folder(corpus: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "encyclopedia"
    Cr5(**demo.SETTINGS, ridge=1.0).fit(corpus).save(path)
    return path


@pytest.fixture(scope="module")
def articles(corpus: list[Document]) -> list[Document]:
    """The articles on dogs, and every eighth concept: guessing takes milliseconds a text."""
    concepts = sorted({document.concept for document in corpus})[::8]
    return [document for document in corpus if document.concept in {"Q144", *concepts}]


@pytest.fixture(scope="module")
def haystack_documents(articles: list[Document]) -> list[Entry]:
    return [
        Entry(content=document.text, meta={"lang": document.lang, "title": document.title}) for document in articles
    ]


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(Cr5Error) as caught:
        call()
    return str(caught.value)


# LangChain


@pytest.mark.slow
def test_langchain_finds_articles_in_all_languages(folder: Path, articles: list[Document]) -> None:
    store = InMemoryVectorStore(Cr5Embeddings(folder))
    store.add_documents([Page(d.text, metadata={"lang": d.lang, "title": d.title}) for d in articles])
    for query in ("cane", "chó"):
        found = store.similarity_search(query, k=4)
        assert {(page.metadata["lang"], page.metadata["title"]) for page in found} == DOG


def test_embeddings_are_those_of_the_model_in_the_language_guessed(folder: Path) -> None:
    model, embeddings = Cr5.load(folder), Cr5Embeddings(str(folder))
    expected = [model.encode([text], model.guess_language(text).lang)[0] for text in FOREIGN]
    assert {model.guess_language(text).lang for text in FOREIGN} == {"da", "en", "it", "vi"}
    np.testing.assert_allclose(embeddings.embed_documents(FOREIGN), expected, atol=1e-6)
    np.testing.assert_allclose(embeddings.embed_query(FOREIGN[0]), expected[0], atol=1e-6)
    assert embeddings.embed_documents([]) == []


def test_a_given_language_is_used(folder: Path) -> None:
    model = Cr5.load(folder)
    embeddings = Cr5Embeddings(model, "it")
    np.testing.assert_allclose(embeddings.embed_documents(FOREIGN), model.encode(FOREIGN, "it"), atol=1e-6)
    assert refused(lambda: Cr5Embeddings(model, "fr").embed_query("chien")) == (
        "the model has no language 'fr'; its languages are da, en, it, vi"
    )


def test_a_text_without_a_known_word_is_an_error_that_names_it(folder: Path) -> None:
    embeddings = Cr5Embeddings(folder)
    store = InMemoryVectorStore(embeddings)
    store.add_texts(["the dog"])
    assert refused(lambda: store.similarity_search("xyzzy")) == (
        "`texts[0]` is 'xyzzy', which has no word or n-gram that the model knows; leave it out, or create the "
        "component with `allow_zeros=True` for a vector of zeros"
    )
    assert "`texts[1]` is 'xyzzy'" in refused(lambda: store.add_texts(["the dog", "xyzzy"]))
    entries = [Entry(content="the dog"), Entry(content="xyzzy")]
    assert "`documents[1]` is 'xyzzy'" in refused(lambda: Cr5DocumentEmbedder(folder).run(documents=entries))
    assert "'xyzzy'" in refused(lambda: Cr5TextEmbedder(folder).run(text="xyzzy"))


def test_vectors_of_zeros_have_to_be_allowed(folder: Path) -> None:
    embeddings = Cr5Embeddings(folder, allow_zeros=True)
    assert [any(vector) for vector in embeddings.embed_documents(["the dog", "xyzzy"])] == [True, False]
    embedder = Cr5DocumentEmbedder(folder, allow_zeros=True)
    [entry] = Cr5DocumentEmbedder.from_dict(embedder.to_dict()).run(documents=[Entry(content="xyzzy")])["documents"]
    assert not any(entry.embedding or [1.0])
    store = InMemoryVectorStore(embeddings)
    store.add_texts(["the dog"])
    with pytest.raises(ValueError, match="NaN"):  # the reason why they are refused otherwise
        store.similarity_search("xyzzy")


def test_embeddings_may_be_awaited(folder: Path) -> None:
    embeddings = Cr5Embeddings(folder)
    assert asyncio.run(embeddings.aembed_query("cane")) == embeddings.embed_query("cane")


def test_a_single_string_instead_of_a_list_is_an_error(folder: Path) -> None:
    with pytest.raises(TypeError) as caught:
        Cr5Embeddings(folder).embed_documents("cane")  # type: ignore[arg-type]
    assert str(caught.value) == "`texts` is 'cane'; give a list of strings, or one column of a table"


# Haystack


def searching(folder: Path, store: InMemoryDocumentStore) -> Pipeline:
    pipeline = Pipeline()
    pipeline.add_component("embedder", Cr5TextEmbedder(folder))
    pipeline.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=4))
    pipeline.connect("embedder.embedding", "retriever.query_embedding")
    return pipeline


def test_haystack_finds_articles_in_all_languages(folder: Path, haystack_documents: list[Entry]) -> None:
    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    store.write_documents(Cr5DocumentEmbedder(folder).run(documents=haystack_documents)["documents"])
    pipeline = searching(folder, store)
    for query in ("cane", "chó"):
        found = pipeline.run({"embedder": {"text": query}})["retriever"]["documents"]
        assert {(entry.meta["lang"], entry.meta["title"]) for entry in found} == DOG


def test_a_pipeline_can_be_saved_and_loaded(folder: Path) -> None:
    pipeline = Pipeline()
    pipeline.add_component("query", Cr5TextEmbedder(folder, "it"))
    pipeline.add_component("documents", Cr5DocumentEmbedder(folder))
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=["cr5.integrations.haystack"])
    assert again.to_dict() == pipeline.to_dict()
    given: dict[str, Any] = {"query": {"text": "cane"}, "documents": {"documents": [Entry(content="the dog")]}}
    assert again.run(given) == pipeline.run(given)


def test_the_parameters_of_an_embedder_are_its_folder_and_language(folder: Path) -> None:
    parameters = Cr5TextEmbedder(folder, "it").to_dict()
    assert parameters == {
        "type": "cr5.integrations.haystack.Cr5TextEmbedder",
        "init_parameters": {"model": str(folder), "lang": "it", "allow_zeros": False},
    }
    assert Cr5TextEmbedder.from_dict(parameters).to_dict() == parameters


def test_a_model_in_memory_embeds_but_cannot_be_saved(folder: Path) -> None:
    model = Cr5.load(folder)
    embedder = Cr5TextEmbedder(model)
    np.testing.assert_allclose(embedder.run(text="cane")["embedding"], model.encode(["cane"], "it")[0], atol=1e-6)
    assert refused(embedder.to_dict) == (
        "Cr5TextEmbedder has a model in memory, which cannot be written to a pipeline file; "
        "save the model and pass its folder as `model`"
    )


def test_the_language_of_a_document_is_its_own_or_the_given_or_the_guessed_one(folder: Path) -> None:
    model, text = Cr5.load(folder), "the dog and il cane"
    named, plain = Entry(content=text, meta={"lang": "it"}), Entry(content=text)
    cases = [(named, None, "it"), (named, "en", "it"), (plain, "it", "it"), (plain, None, "en")]
    assert model.guess_language(text).lang == "en"
    for entry, given, lang in cases:
        [embedded] = Cr5DocumentEmbedder(model, given).run(documents=[entry])["documents"]
        np.testing.assert_allclose(np.array(embedded.embedding), model.encode([text], lang)[0], atol=1e-6)
        assert (embedded.id, embedded.content, embedded.meta) == (entry.id, text, entry.meta)
        assert entry.embedding is None
    assert Cr5DocumentEmbedder(model).run(documents=[]) == {"documents": []}


def test_a_document_without_text_or_in_an_unknown_language_is_an_error(folder: Path) -> None:
    embedder = Cr5DocumentEmbedder(folder)
    assert refused(lambda: embedder.run(documents=[Entry(id="photo")])) == (
        "document 'photo' has no text to embed; leave it out, or set its content"
    )
    assert refused(lambda: embedder.run(documents=[Entry(content="chien", meta={"lang": "fr"})])) == (
        "the model has no language 'fr'; its languages are da, en, it, vi"
    )


@pytest.mark.parametrize(
    ("path", "library", "message"),
    [
        (
            cr5.integrations.langchain.__file__,
            "langchain_core.callbacks",
            "cr5.integrations.langchain needs LangChain; install it with pip install 'cr5[langchain]'",
        ),
        (
            cr5.integrations.haystack.__file__,
            "haystack",
            "cr5.integrations.haystack needs Haystack; install it with pip install 'cr5[haystack]'",
        ),
        (
            cr5.integrations.llamaindex.__file__,
            "llama_index.core.base.base_retriever",
            "cr5.integrations.llamaindex needs LlamaIndex; install it with pip install 'cr5[llamaindex]'",
        ),
        (
            cr5.integrations.sklearn.__file__,
            "sklearn.base",
            "Cr5Transformer needs scikit-learn; install it with pip install 'cr5[sklearn]'",
        ),
    ],
)
def test_a_missing_library_says_what_to_install(
    path: str, library: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (library, library.partition(".")[0]):
        monkeypatch.setitem(sys.modules, name, None)
    spec = importlib.util.spec_from_file_location("adapter", path)
    assert spec
    assert spec.loader
    loader, module = spec.loader, importlib.util.module_from_spec(spec)
    with pytest.raises(ImportError) as caught:
        loader.exec_module(module)
    assert isinstance(caught.value, Cr5Error)
    assert str(caught.value) == message
