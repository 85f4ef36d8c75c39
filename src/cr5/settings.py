"""Every setting of a model, its default, and the named presets."""

import math
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, Literal

from cr5._typing import Intercept
from cr5.errors import Cr5Error
from cr5.features.tfidf import Weighting
from cr5.features.tokeniser import Tokeniser


@dataclass(frozen=True)
class Settings:
    """What decides a model, next to the documents.

    metric "orthonormal": maps with orthonormal columns, as in the paper; "signal": eigenvector i
    scaled by sqrt(theta / (m - theta)), the ratio of what the documents of a concept (at most m)
    share along it to what they do not. ridge "auto" is chosen by retrieval on held-out concepts.
    """

    preset: str = "default"
    rank: int = 300
    ridge: float | Literal["auto"] = "auto"
    intercept: Intercept = "language"
    metric: Literal["orthonormal", "signal"] = "signal"
    tol: float = 0.05
    max_steps: int = 100
    seed: int = 0
    weighting: Weighting = field(default_factory=lambda: Weighting(tf="log", idf="smooth", idf_power=1.5))
    tokeniser: Tokeniser = field(default_factory=Tokeniser)

    def __post_init__(self) -> None:
        for part, name, low in (
            (self, "rank", 1),
            (self, "max_steps", 1),
            (self, "seed", 0),
            (self.weighting, "min_documents", 0),
            (self.weighting, "max_words", 1),
            (self.weighting, "min_unique", 0),
            (self.weighting, "max_unique", self.weighting.min_unique),
        ):
            value = getattr(part, name)
            if not isinstance(value, int) or value < low:
                raise Cr5Error(f"{name} is {value}; it must be a whole number of at least {low}")
        for part, name in ((self, "tol"), (self.weighting, "idf_power")):
            value = getattr(part, name)
            if isinstance(value, str) or not 0 <= value < math.inf:
                raise Cr5Error(f"{name} is {value}; it must be a number of at least 0")
        if self.ridge != "auto" and (isinstance(self.ridge, str) or not 0 < self.ridge < math.inf):
            raise Cr5Error(f"ridge is {self.ridge}; it must be a number above 0, or auto")
        for part, name, allowed in (
            (self, "intercept", ("language", "shared")),
            (self, "metric", ("orthonormal", "signal")),
            (self.weighting, "tf", ("raw", "log")),
            (self.weighting, "idf", ("plain", "smooth")),
        ):
            if getattr(part, name) not in allowed:
                raise Cr5Error(f"{name} is {getattr(part, name)!r}; it must be one of {', '.join(allowed)}")

    def to_json(self) -> dict[str, Any]:
        """Plain values, as they stand in a saved model."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Settings":
        """The settings that ``to_json`` wrote."""
        parts = {"weighting": Weighting(**values["weighting"]), "tokeniser": Tokeniser(**values["tokeniser"])}
        return cls(**(values | parts))


PRESETS = {
    "default": Settings(),
    "wsdm19": Settings(
        preset="wsdm19",
        intercept="shared",
        metric="orthonormal",
        weighting=Weighting(tf="raw", idf="plain", idf_power=1.0),
    ),
}


_KINDS = {bool: "true or false", int: "a whole number", float: "a number"}


def _fits(value: Any, default: Any) -> bool:
    """Whether a value is of its default's kind; where that is a word, the allowed ones are looked at later."""
    if isinstance(default, str):
        return True
    if isinstance(value, bool) or isinstance(default, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    return isinstance(value, int if isinstance(default, int) else int | float)


def settings(preset: str = "default", **changes: Any) -> Settings:
    """A preset with some settings changed; those of the weighting and tokeniser are named directly."""
    if preset not in PRESETS:
        raise Cr5Error(f"there is no preset {preset!r}; the presets are {', '.join(PRESETS)}")
    chosen = PRESETS[preset]
    names = {part: {f.name for f in fields(cls)} for part, cls in (("weighting", Weighting), ("tokeniser", Tokeniser))}
    own = {f.name for f in fields(Settings)} - {"preset", *names}
    for name in changes:
        known = own.union(*names.values())
        if name not in known:
            hint = get_close_matches(name, known, 1)
            raise Cr5Error(f"there is no setting {name!r}" + (f"; did you mean {hint[0]}?" if hint else ""))
        default = next(
            getattr(part, name) for part in (chosen, chosen.weighting, chosen.tokeniser) if hasattr(part, name)
        )
        if not _fits(changes[name], default):
            raise Cr5Error(f"{name} is {changes[name]!r}; it must be {_KINDS[type(default)]}")
    nested = {
        part: replace(getattr(chosen, part), **{k: v for k, v in changes.items() if k in of})
        for part, of in names.items()
    }
    return replace(chosen, **nested, **{k: v for k, v in changes.items() if k in own})
