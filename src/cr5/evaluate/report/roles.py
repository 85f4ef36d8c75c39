"""Which systems a report is about, and which are only marks to compare with."""

from cr5.evaluate.systems.registry import role_of


def is_cr5(system: str) -> bool:
    """Whether a system is cr5, rather than something it is compared with."""
    return role_of(system) == "own"


def is_upper_bound(system: str) -> bool:
    """Whether a system is an upper bound, which does not compete with the others."""
    return role_of(system) == "ceiling"
