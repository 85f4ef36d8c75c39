"""The house: which module may import which."""

import ast
from functools import cache
from pathlib import Path

import pytest

import cr5

SOURCE = Path(cr5.__file__).parent

# Top to bottom; a module imports only what stands above it. Names in one row do not know each other.
HOUSE = [
    ["_typing", "errors", "progress", "atomic", "encyclopedia"],
    ["formats", "vectors", "shelf"],
    ["corpus", "text"],
    ["features"],
    ["engine"],
    ["engine.kernels", "engine.ranking", "engine.shingles", "engine.crew"],
    ["engine.cpu"],
    ["engine.gpu", "engine.dask"],
    ["engine.choice"],
    ["languages", "duplicates", "sources"],
    ["sources.files", "sources.wiki", "sources.sqldump", "sources.wikitext", "sources.markup"],
    ["sources.server"],
    ["sources.part"],
    ["sources.download"],
    ["sources.queue"],
    ["sources.items", "sources.places"],
    ["sources.pages", "sources.cirrus", "sources.exports", "sources.wikimedia"],
    ["sources.moses", "sources.tmx", "sources.europarl", "sources.bible"],
    ["sources.gettext", "sources.folder", "sources.table"],
    ["sources.refine"],
    ["sources.local", "sources.shards"],
    ["sources.align"],
    ["sources.plan"],
    ["sources.harvest"],
    ["sources.sample"],
    ["sources.wikipedia"],
    ["solve"],
    ["neighbours"],
    ["tune"],
    ["collection", "settings"],
    ["checkpoint", "modelfile", "inspection"],
    ["training"],
    ["model"],
    ["passage", "adapters", "adapters.langchain", "adapters.haystack"],
    ["evaluate"],
    ["evaluate.texts", "evaluate.measures", "evaluate.aligned", "evaluate.listings"],
    ["evaluate.space", "evaluate.run", "evaluate.published"],
    ["evaluate.split", "evaluate.systems", "evaluate.baselines", "evaluate.wordvectors"],
    ["evaluate.documents"],
    ["evaluate.sentences", "evaluate.reproduce"],
    ["evaluate.words"],
    ["evaluate.tables"],
    ["evaluate.html"],
    ["evaluate.report"],
    ["index"],
    ["index.store", "index.background"],
    ["index.cells"],
    ["index.view"],
    ["index.lance", "index.postgres"],
    ["index.generation"],
    ["index.filling"],
    ["index.asking"],
    ["index.catalogue"],
    ["web", "web.limits", "web.metrics", "web.reference", "web.plane", "web.examples", "web.wording", "web.connection"],
    ["web.atlas", "web.shapes", "web.gate"],
    ["web.answers"],
    ["web.server"],
    ["web.process"],
    ["demo"],
    ["cli.show", "cli.options"],
    ["cli.figures"],
    ["cli.evaluation", "cli.corpora", "cli.search", "cli.serve"],
    ["cli.commands"],
    ["cli"],
]
FLOOR = {name: floor for floor, row in enumerate(HOUSE) for name in row}
ALLOWED_INSIDE_OUT = {  # the version, and the package of cli.show
    ("cli.commands", ""), ("cli.commands", "cli"), ("cli.corpora", ""), ("cli.corpora", "cli"),
}  # fmt: skip


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


def imports(path: Path) -> set[str]:
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "cr5":
            module = node.module.removeprefix("cr5").removeprefix(".")
            inner = [f"{module}.{alias.name}".removeprefix(".") for alias in node.names]
            found |= {name if name in FLOOR else module for name in inner}
        if isinstance(node, ast.Import):
            found |= {a.name.removeprefix("cr5").removeprefix(".") for a in node.names if a.name.split(".")[0] == "cr5"}
    return found


MODULES = {name_of(path): path for path in SOURCE.rglob("*.py") if name_of(path)}


def test_every_module_has_its_place_in_the_house() -> None:
    assert set(MODULES) == set(FLOOR)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_module_imports_only_what_stands_above_it(name: str) -> None:
    for other in imports(MODULES[name]):
        if (name, other) not in ALLOWED_INSIDE_OUT:
            assert FLOOR[other] < FLOOR[name], f"{name} must not import {other}"


def test_only_the_command_line_prints() -> None:
    for name, path in MODULES.items():
        calls = [n for n in nodes(path) if isinstance(n, ast.Call)]
        printed = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]
        assert not printed or name.startswith("cli"), f"{name} prints"


def test_nothing_is_pickled() -> None:
    for name, path in MODULES.items():
        found = [node for node in nodes(path) if isinstance(node, ast.Import)]
        assert "pickle" not in {alias.name for node in found for alias in node.names}, name
