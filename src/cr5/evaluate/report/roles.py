"""Which systems a report is about, and which are only marks to compare with."""


def is_cr5(system: str) -> bool:
    """Whether a system is cr5, rather than something it is compared with."""
    return system.lower().startswith("cr5")


def is_upper_bound(system: str) -> bool:
    """Whether a system is an upper bound, which does not compete with the others."""
    return "ceiling" in system.lower()
