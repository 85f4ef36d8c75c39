"""Where cr5 runs: quick to import; without a home or a writable package; after forks, on threads, on Windows."""

import ast
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

import madeup
import pytest

import cr5
from cr5 import Cr5
from cr5.cli import run as run_command
from cr5.cli.app import COMMANDS, load_command

PACKAGE = Path(cr5.__file__).parent
HELPERS = Path(__file__).parent / "helpers"
STRANGER = 54321  # a user that has neither a name nor a home, as in a container


def run(code: str, *arguments: object, python: str = sys.executable, **options: Any) -> str:
    """Run a program in a process of its own and return what it prints."""
    filters = ("error", "ignore::DeprecationWarning", "ignore:only 110 shared concepts")
    command = [python, *(f"-W{filter_}" for filter_ in filters), "-c", dedent(code), *map(str, arguments)]
    paths = os.pathsep.join([str(PACKAGE.parent), str(HELPERS)])
    variables = os.environ | {"PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8"}
    everything: dict[str, Any] = {"env": variables, "timeout": 300, "cwd": HELPERS, "encoding": "utf-8"} | options
    ended = subprocess.run(command, capture_output=True, **everything)
    assert ended.returncode == 0, f"exit code {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
    return str(ended.stdout)


# Imports


def loaded_by(code: str, *arguments: object) -> set[str]:
    """The modules that a program has loaded at its end, with the packages that they belong to."""
    modules = run(f"{dedent(code)}\nimport sys\nprint('modules', *sys.modules)", *arguments).splitlines()[-1].split()
    return {name.rsplit(".", count)[0] for name in modules for count in range(name.count(".") + 1)}


def test_importing_the_package_loads_no_large_library() -> None:
    loaded = loaded_by("import cr5")
    assert not loaded & {"numba", "llvmlite", "pyarrow", "scipy", "numpy", "rich", "typer", "cr5.model", "cr5.training"}


def test_the_class_of_models_loads_no_large_library() -> None:
    loaded = loaded_by("from cr5 import Cr5, Cr5Error, Skipped, evaluate; model = Cr5(rank=5)")
    assert not loaded & {
        "numba", "llvmlite", "scipy", "pyarrow", "langcodes", "py3langid", "safetensors", "filelock", "rich", "typer",
    }  # fmt: skip


def test_all_names_of_the_package_together_load_no_compiler() -> None:
    loaded = loaded_by(
        "from cr5 import Cr5, Document, Index, read, write, evaluate, Cr5Error, CpuEngine, GpuEngine, DaskEngine"
    )
    assert not loaded & {
        "numba", "llvmlite", "scipy", "cupy", "dask", "distributed", "lancedb", "psycopg", "py3langid", "jinja2",
    }  # fmt: skip


@pytest.mark.slow
def test_encoding_loads_nothing_that_only_training_needs(model_folder: Path, model: Cr5) -> None:
    loaded = loaded_by(
        """
        import sys
        from cr5 import Cr5
        print(Cr5.load(sys.argv[1]).encode(["kakaka lokaka"], "aa").shape)
        """,
        model_folder,
    )
    assert "cr5.storage.model_files" in loaded
    assert not loaded & {
        "cr5.training", "cr5.corpus.reading", "numba", "llvmlite", "dask", "distributed", "sklearn", "py3langid",
        "safetensors", "pyarrow.parquet", "pyarrow.json", "rich", "typer",
    }  # fmt: skip


def test_an_interrupt_while_the_command_is_imported_ends_it_quietly() -> None:
    program = """
        import sys
        from cr5.cli import main

        class Interrupt:
            def find_spec(self, name, path, target=None):
                if name == "typer":
                    raise KeyboardInterrupt

        assert "typer" not in sys.modules
        sys.meta_path.insert(0, Interrupt())
        main()
    """
    ended = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True, timeout=300)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "stopped\n")


def test_the_list_of_commands_has_their_summaries() -> None:
    for name, target in COMMANDS.items():
        assert (load_command(name).help or "").split("\n\n")[0].replace("\n", " ") == target.summary


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_the_help_and_the_version_need_no_large_library(argument: str) -> None:
    loaded = loaded_by(f"from cr5.cli import run\nrun([{argument!r}])")
    assert not loaded & {"numba", "llvmlite", "scipy", "pyarrow", "sklearn", "lancedb", "fastapi", "py3langid"}


@pytest.mark.slow
def test_no_module_imports_what_only_posix_has() -> None:
    from windows import HIDDEN_MODULES

    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not HIDDEN_MODULES & {name.split(".")[0] for name in names}, path


# Containers


@cache
def python_for_strangers() -> str | None:
    """An interpreter of this version that any user may run."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        try:
            subprocess.run([candidate, "-c", "import ssl"], check=True, capture_output=True, **as_stranger())
        except (OSError, subprocess.SubprocessError):
            continue
        return candidate
    return None


def as_stranger() -> dict[str, Any]:
    """Options of a process: it belongs to a user without a name if we may choose one."""
    if not hasattr(os, "getuid") or os.getuid() != 0:
        return {}
    return {"user": STRANGER, "group": STRANGER, "extra_groups": []}


@pytest.fixture
def container() -> Iterator[tuple[Path, Path]]:
    """A read-only folder with the package, and a folder to work in."""
    with tempfile.TemporaryDirectory() as folder:
        site, work = Path(folder) / "site", Path(folder) / "work"
        shutil.copytree(PACKAGE, site / "cr5", ignore=shutil.ignore_patterns("__pycache__"))
        work.mkdir()
        if as_stranger():
            os.chown(work, STRANGER, STRANGER)
        Path(folder).chmod(0o755)
        for path in [site, *site.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        yield site, work
        for path in [site, *site.rglob("*")]:
            path.chmod(0o755)


SESSION = """
    import sys
    from pathlib import Path
    from cr5 import Cr5
    from cr5.cli import run
    from cr5.index import Index

    for command in (
        "train builtin -o model --rank 20 --ridge 1 --set subwords=false --langs en,it",
        "info model",
        "similar model birra --lang it --to en",
        "index model builtin -o index --langs en,it",
        "search index cane",
    ):
        assert run(command.split()) == 0, command
    assert Cr5.load("model").encode(["cane"], "it").any()
    with_index = Index.open("index")
    print(sum(with_index.count().values()), len(with_index.search("birra", "it").hits))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "getuid"), reason="Windows has no such containers")
def test_a_read_only_package_runs_for_a_user_without_name_and_home(container: tuple[Path, Path]) -> None:
    python = python_for_strangers()
    if python is None:
        pytest.skip("other users may not run this Python")
    site, work = container
    paths = os.pathsep.join([str(site), sysconfig.get_path("purelib")])
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": paths, "TMPDIR": "/nonexistent"}
    printed = run(SESSION, python=python, cwd=work, env=variables, **as_stranger()).splitlines()
    documents, hits = map(int, printed[-1].split())
    assert (documents, hits) == (800, 10)
    root_as_home = variables | {"HOME": "/"}
    run(COMMAND, "search", "index", "cane", python=python, cwd=work, env=root_as_home, **as_stranger())
    assert {path.name for path in work.iterdir()} == {"model", "index"}  # no folder called ~
    assert not list(site.rglob("__pycache__"))


# Forks and threads


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no forks")
@pytest.mark.slow
def test_a_forked_process_fits_after_its_parent_has_fitted_encoded_and_searched() -> None:
    printed = run(
        """
        import multiprocessing
        import warnings
        from concurrent.futures import ProcessPoolExecutor
        import numpy as np
        from cr5 import Cr5, read
        from cr5.retrieval.top_k import nearest

        documents = list(read("builtin", langs=["en", "it"]))
        texts = [document.text for document in documents if document.lang == "it"]

        def fit(_):
            vectors = Cr5(rank=20, ridge=1.0, min_documents=2, subwords=False).fit(documents).encode(texts, "it")
            return vectors, nearest(vectors, vectors, 2).indices

        expected = fit(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later: a process with threads forks
            with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
                for found in pool.map(fit, range(3)):
                    np.testing.assert_array_equal(found[0], expected[0])
                    np.testing.assert_array_equal(found[1], expected[1])
        print(len(texts), "texts")
        """
    )
    assert printed == "400 texts\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no forks")
def test_a_fork_while_another_thread_sets_the_threads_of_blas_does_not_wait_for_it() -> None:
    printed = run(
        """
        import os
        import signal
        from cr5 import machine

        machine._blas_limit.lock.acquire()  # as a thread does, which does not exist in the child
        if child := os.fork():
            print(os.waitpid(child, 0)[1])
        else:
            signal.alarm(60)
            with machine.one_blas_thread():
                os._exit(0)
        """
    )
    assert printed == "0\n"


@pytest.mark.slow
def test_several_threads_fit_at_the_same_time() -> None:
    printed = run(
        """
        from concurrent.futures import ThreadPoolExecutor
        import numpy as np
        from cr5 import Cr5, read

        documents = list(read("builtin", langs=["en", "it"]))
        texts = [document.text for document in documents if document.lang == "it"]

        def fit(_):
            return Cr5(rank=20, ridge=1.0, min_documents=2, subwords=False).fit(documents).encode(texts, "it")

        with ThreadPoolExecutor(3) as pool:
            first, *others = pool.map(fit, range(6))
        for other in others:
            np.testing.assert_array_equal(other, first)
        print(len(texts), "texts")
        """,
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent), "NUMBA_THREADING_LAYER": "workqueue"},
    )
    assert printed == "400 texts\n"


# Windows


@pytest.mark.skipif(sys.platform != "linux", reason="needs the files of /proc")
@pytest.mark.slow
def test_training_encoding_indexing_and_searching_need_nothing_that_windows_lacks(tmp_path: Path) -> None:
    """Files that are mapped cannot be replaced or deleted there, and folders cannot be synced."""
    printed = run(
        """
        import windows
        windows.simulate()

        from contextlib import closing
        import madeup
        from cr5 import Cr5
        from cr5.cli import run
        from cr5.index import Index
        from cr5.server.process import return_freed_memory

        training, held_out = madeup.split(madeup.corpus())
        Cr5(**madeup.SETTINGS).fit(training).save("model")
        loaded = Cr5.load("model")
        before = loaded.encode(madeup.texts(held_out, "aa"), "aa")
        loaded.save("model")  # over the files that are mapped
        with closing(Index.create("index", "model")) as index:
            index.add(training)
            searched = index.search(madeup.texts(held_out, "bb")[0], "bb").hits
            index.add(held_out)
            index.refresh()
            Cr5(**madeup.SETTINGS | {"rank": 50}).fit(training).save("model")  # the old one is still mapped
            assert (loaded.encode(madeup.texts(held_out, "aa"), "aa") == before).all()
            index.reindex("model")
            assert index.model.settings.rank == 50
            assert len(index.search(madeup.texts(held_out, "bb")[0], "bb").hits) == len(searched) == 10
        assert Cr5.load("model").settings.rank == 50
        for command in ("search index kakaka --lang aa", "info model", "train builtin -o other --rank 30 --ridge 1"):
            assert run(command.split()) == 0, command
        assert not return_freed_memory()
        print("done")
        """,
        cwd=tmp_path,
    )
    assert printed.splitlines()[-1] == "done"


COMMAND = "from cr5.cli import main; main()"
COMMANDS_IN_CP1252 = """
    import json, sys
    from cr5.cli import main

    for arguments in json.loads(sys.argv[1]):
        sys.argv[1:] = arguments
        try:
            main()
        except SystemExit as ended:
            assert not ended.code, arguments
        print("END")
"""


@pytest.mark.slow
def test_a_terminal_that_lacks_characters_shows_question_marks_and_the_same_json(
    model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    similar = ["similar", str(model_folder), madeup.word("bb", 3), "--lang", "bb", "--to", "cc"]
    commands = [similar, ["info", str(model_folder)], [*similar, "--json"]]
    variables = os.environ | {"PYTHONPATH": str(PACKAGE.parent), "PYTHONIOENCODING": "cp1252"}
    printed = run(COMMANDS_IN_CP1252, json.dumps(commands), env=variables, encoding="cp1252")
    words, facts, report, _ = printed.split("END\n")
    assert "?" in words
    assert "bb" in facts
    assert run_command([*similar, "--json"]) == 0
    assert json.loads(report) == json.loads(capsys.readouterr().out)
