"""How many examples a property is tested with."""

from hypothesis import settings

QUICK_EXAMPLES = 10  # in make test-fast


def up_to(examples: int) -> int:
    """A number of examples, limited in make test-fast: a number that a test names would override its profile."""
    return min(examples, QUICK_EXAMPLES) if settings().max_examples == QUICK_EXAMPLES else examples
