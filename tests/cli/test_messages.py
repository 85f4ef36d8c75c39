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
        ("raise `csls_over`", "raise --csls-over"),
        ("pass `mask_shared=True`", "pass --mask-shared"),
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
    assert in_command_line_terms(message, app) == shown
