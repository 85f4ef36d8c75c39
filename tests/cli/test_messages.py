"""Messages of the library, shown by the command line."""

import pytest

from cr5.cli.app import app
from cr5.cli.messages import in_command_line_terms


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
    assert in_command_line_terms(message, app, ["train", "corpus/", "--output", "model"]) == shown


@pytest.mark.parametrize(
    ("arguments", "message", "shown"),
    [
        (["eval", "documents", "builtin"], "raise `csls_over`", "raise --csls-over"),
        (["eval", "documents", "builtin"], "pass `mask_shared=True`", "pass --mask-shared"),
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
            "`other` is of another space; use `subset`",
            "OTHER is of another space; use cr5 model subset",
        ),
        (["model", "add-language"], "train with `fit`", "train with cr5 train"),
        (["align", "a", "b"], "find sentences with `mine`; `langs=en`", "find sentences with cr5 mine; --langs en"),
        (["convert"], "`rank=3`", "--rank 3"),
        ([], "raise `rank`", "raise rank"),
    ],
)
def test_only_options_of_the_running_command_are_named(arguments: list[str], message: str, shown: str) -> None:
    assert in_command_line_terms(message, app, arguments) == shown
