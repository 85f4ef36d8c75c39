"""What ``import cr5`` offers, and what it leaves for later."""

import subprocess
import sys

import pytest

import cr5


def run(program: str) -> str:
    """What a program prints in a new Python process."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_everything_public_can_be_imported_from_the_package() -> None:
    from cr5 import CpuEngine, Cr5, Cr5Error, DaskEngine, Document, GpuEngine, Index, evaluate, read, write

    assert {evaluate.documents, read, write, Cr5, Document, Index, CpuEngine, GpuEngine, DaskEngine}
    assert issubclass(Cr5Error, ValueError)


def test_every_public_name_has_one_module_and_is_listed() -> None:
    assert set(cr5._MODULES) <= set(cr5.__all__)
    assert {*cr5.__all__, "__version__"} <= set(dir(cr5))
    for name in cr5.__all__:
        assert getattr(cr5, name).__name__.split(".")[-1] == name


def test_every_public_name_of_evaluation_can_be_imported() -> None:
    assert all(hasattr(cr5.evaluate, name) for name in cr5.evaluate.__all__)


@pytest.mark.slow
def test_a_star_import_brings_every_public_name() -> None:
    assert run("from cr5 import *; print(len({Cr5, Index, evaluate, read, write}))") == "5"


def test_nothing_is_loaded_before_it_is_used() -> None:
    assert run("import cr5, sys; print(sorted(m for m in sys.modules if m.startswith(('cr5.', 'numpy'))))") == "[]"


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(cr5, "Cr6")
    with pytest.raises(ImportError, match="cannot import name 'Cr6' from 'cr5'"):
        from cr5 import Cr6  # type: ignore[attr-defined]  # noqa: F401


def test_engines_can_be_imported_without_what_they_need() -> None:
    hidden = "import sys; sys.modules['distributed'] = sys.modules['dask'] = sys.modules['cupy'] = None; "
    tried = "\nfor engine in (GpuEngine, DaskEngine):\n  try: engine()\n  except ImportError as error: print(error)"
    assert run(hidden + "from cr5 import DaskEngine, GpuEngine" + tried).splitlines() == [
        "the gpu engine needs CuPy; install it with pip install 'cr5[gpu]'",
        "the dask engine needs Dask; install it with pip install 'cr5[dask]'",
    ]
