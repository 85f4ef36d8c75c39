"""Messages of the library, shown by the command line."""

import errno
import json
from importlib import import_module
from pathlib import Path

import pytest

from cr5.cli import running
from cr5.cli.messages import in_command_line_terms
from cr5.errors import MissingPackageError, needs_package


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("`rank` is too large", "--rank is too large"),
        ("`rank=500` is more than 400; use `rank <= 399`", "--rank 500 is more than 400; use --rank <= 399"),
        ('pass `on_error="skip"`', "pass --on-error skip"),
        ("lower `min_unique`", "lower --set min_unique"),
        ("use `min_unique=1`", "use --set min_unique=1"),
        ("set `memory=2_000_000_000`", "set --memory 2GB"),
        (
            "`memory=1_500` is too small; use `memory>=512 * 2**20`",
            "--memory 1.5kB is too small; use --memory >= 512MiB",
        ),
        ("`unknown_name=3` stays", "unknown_name=3 stays"),
        ("nothing in backticks: rank=3", "nothing in backticks: rank=3"),
        ("text with ` a single backtick", "text with ` a single backtick"),
    ],
)
def test_parameters_in_backticks_become_options(message: str, shown: str) -> None:
    assert in_command_line_terms(message, ["train", "corpus/", "--output", "model"]) == shown


@pytest.mark.parametrize(
    ("arguments", "message", "shown"),
    [
        (["eval", "documents", "builtin"], "raise `csls_over`", "raise --csls-over"),
        (["eval", "documents", "builtin"], "pass `mask_shared=True`", "pass --mask-shared"),
        (["eval", "documents", "builtin"], "make it with `drop_foreign`", "make it with --drop-foreign"),
        (["eval", "words", "model"], "pass `mask_shared=True`", "pass mask_shared=True"),
        (["eval", "documents", "builtin"], "use `tol=0.1`", "use --set tol=0.1"),
        (["lexicon", "model", "en", "it", "word"], "`k=-1` is too small", "-k -1 is too small"),
        (["lexicon", "model"], "raise `memory`, `csls_over`, `min_unique=5`", "raise memory, csls_over, min_unique=5"),
        (["train"], "raise `csls_over`", "raise csls_over"),
        (["pull", "x"], "`repo='x'` is no name", "REPO x is no name"),
        (["push", "model", "x"], "`repo='x'` and `licence='y z'`", "REPO x and --licence y z"),
        (["pretrain"], "`langs=da` is one language; `repo='x'`", "--wikipedia da is one language; --push x"),
        (
            ["model", "merge", "a", "b"],
            "`other` has another vector space; use `subset`",
            "OTHER has another vector space; use cr5 model subset",
        ),
        (["model", "add-language"], "train with `fit`", "train with cr5 train"),
        (["align", "a", "b"], "find sentences with `mine`; `langs=en`", "find sentences with cr5 mine; --langs en"),
        (["convert"], "`rank=3`", "--rank 3"),
        ([], "raise `rank`", "raise rank"),
    ],
)
def test_only_options_of_the_running_command_are_named(arguments: list[str], message: str, shown: str) -> None:
    assert in_command_line_terms(message, arguments) == shown


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ImportError("libx.so: failed to map segment", name="scipy"), "scipy cannot be loaded (libx.so: failed to map"),
        (MemoryError(), "there is not enough memory; close"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "cannot allocate memory; close"),
    ],
)
def test_too_little_memory_is_one_line_with_advice(
    error: Exception, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(running, "app", fail)
    assert running.run_command(["info", "model"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"error: {words}")
    assert "raise the memory limit of the process or container" in printed


def test_a_package_that_is_installed_but_cannot_be_imported_is_not_called_missing() -> None:
    with pytest.raises(MissingPackageError, match="install it with"), needs_package("a", "nosuch", "b"):
        import_module("nosuch_package.part")
    with pytest.raises(ModuleNotFoundError, match=r"json\.nosuch") as caught, needs_package("a", "json", "b"):
        import_module("json.nosuch")
    assert not isinstance(caught.value, MissingPackageError)


def test_advice_to_skip_is_left_out_when_it_is_followed() -> None:
    for message, shown in (
        ('empty; remove it or pass `on_error="skip"`', "empty; remove it"),
        ('no digits; use letters, or leave such documents out with `on_error="skip"`', "no digits; use letters"),
        ("lower `rank`", "lower --rank"),
    ):
        for arguments in (["train", "corpus/", "--on-error", "skip"], ["train", "corpus/", "--on-error=skip"]):
            assert in_command_line_terms(message, arguments) == shown


def test_inspect_with_skip_counts_what_it_leaves_out_and_gives_no_advice_that_was_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [{"concept": f"c{i}", "lang": lang, "text": f"word {i}"} for i in range(3) for lang in ("en", "it")]
    lines += [{"concept": "c1", "lang": "de DE", "text": "x"}, {"concept": "c1", "lang": "en"}]
    nested = {"concept": "c1", "lang": "en", "text": "y", "fields": {"a": {"b": {"c": 1}}}}
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, [*lines, nested])))
    (tmp_path / "empty.csv").touch()
    assert running.run_command(["corpus", "inspect", str(tmp_path), "--on-error", "skip"]) == 0
    printed = capsys.readouterr()
    assert "6 documents read" in printed.out
    assert "also skipped, because they cannot be used: 1" in printed.out
    assert "skipped 1: empty file (first: " in printed.err
    assert "on-error" not in printed.err
    assert "on_error" not in printed.err
    assert "de DE" not in printed.out
    assert running.run_command(["corpus", "inspect", str(tmp_path), "--on-error", "skip", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert any("--set min_documents" in note for note in found["notes"])
    assert sum(found["skipped"].values()) == len(lines) + 1 - 6 + 1
