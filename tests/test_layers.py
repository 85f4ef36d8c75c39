"""The architecture: which package may import which, and what belongs where."""

import ast
from functools import cache
from pathlib import Path

import pytest

import cr5

SOURCE = Path(cr5.__file__).parent

# From the bottom to the top. A package or module imports only from lower layers; within a package modules are free.
LAYERS = [
    ["_typing", "errors", "message_parts", "progress", "templates", "data"],
    ["hashing", "machine"],
    ["storage"],
    ["corpus"],
    ["features"],
    ["settings", "sources", "retrieval"],
    ["training", "exchange"],
    ["model"],
    ["index"],
    ["alignment"],
    ["evaluate", "server", "integrations", "compat"],
    ["demo", "pretraining"],
    ["cli"],
    ["__main__"],
]
LAYER_OF = {name: number for number, names in enumerate(LAYERS) for name in names}
MODULES = {path.relative_to(SOURCE).with_suffix("").parts: path for path in SOURCE.rglob("*.py")}
HARDWARE = {"numba", "llvmlite", "cupy", "cupyx", "dask", "distributed"}
KERNELS = {("machine", "compiler"), ("machine", "cluster"), ("sources", "wikipedia", "executor")}
LONGEST_MODULE = 500


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


def imports(path: Path) -> set[str]:
    """The dotted names of modules that a module imports, anywhere in it."""
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} if node.module == "cr5" else {node.module}
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def packages_of_cr5(path: Path) -> set[str]:
    own = {name.split(".")[1] for name in imports(path) if name.startswith("cr5.")}
    return own - {"__version__"}


def test_every_package_has_a_layer() -> None:
    assert {parts[0] for parts in MODULES} - {"__init__"} == set(LAYER_OF)


@pytest.mark.parametrize("parts", sorted(parts for parts in MODULES if parts != ("__init__",)), ids="/".join)
def test_a_module_imports_only_from_lower_layers(parts: tuple[str, ...]) -> None:
    for other in packages_of_cr5(MODULES[parts]) - {parts[0]}:
        assert LAYER_OF[other] < LAYER_OF[parts[0]], f"{'/'.join(parts)} must not import {other}"


def test_only_engines_and_kernels_import_what_computes_elsewhere() -> None:
    for parts, path in MODULES.items():
        if parts[:2] != ("training", "engines") and parts not in KERNELS:
            assert not {name.split(".")[0] for name in imports(path)} & HARDWARE, parts


def test_only_the_command_line_prints() -> None:
    for parts, path in MODULES.items():
        calls = [n for n in nodes(path) if isinstance(n, ast.Call)]
        printed = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]
        assert not printed or parts[0] == "cli", parts


def test_nothing_is_pickled() -> None:
    for parts, path in MODULES.items():
        assert "pickle" not in imports(path), parts


def test_no_module_is_too_long() -> None:
    sources = [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.js")]
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in sources}
    assert {name: length for name, length in lengths.items() if length > LONGEST_MODULE} == {}
