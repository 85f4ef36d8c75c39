"""Every setting of a model, its default, and the named presets."""

from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, Literal

from cr5.errors import UserError
from cr5.features import Weighting
from cr5.solve import Intercept
from cr5.text import Tokeniser


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
        for name, low in (("rank", 1), ("max_steps", 1), ("tol", 0), ("seed", 0)):
            if not getattr(self, name) >= low:  # nor not a number
                raise UserError(f"{name} is {getattr(self, name)}; it must be at least {low}")
        if self.ridge != "auto" and (isinstance(self.ridge, str) or not self.ridge > 0):
            raise UserError(f"ridge is {self.ridge}; it must be above 0, or auto")
        for part, name, allowed in (
            (self, "intercept", ("language", "shared")),
            (self, "metric", ("orthonormal", "signal")),
            (self.weighting, "tf", ("raw", "log")),
            (self.weighting, "idf", ("plain", "smooth")),
        ):
            if getattr(part, name) not in allowed:
                raise UserError(f"{name} is {getattr(part, name)!r}; it must be one of {', '.join(allowed)}")

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


def settings(preset: str = "default", **changes: Any) -> Settings:
    """A preset with some settings changed; those of the weighting and tokeniser are named directly."""
    if preset not in PRESETS:
        raise UserError(f"there is no preset {preset!r}; the presets are {', '.join(PRESETS)}")
    chosen = PRESETS[preset]
    names = {part: {f.name for f in fields(cls)} for part, cls in (("weighting", Weighting), ("tokeniser", Tokeniser))}
    own = {f.name for f in fields(Settings)} - {"preset", *names}
    for name in changes:
        known = own.union(*names.values())
        if name not in known:
            hint = get_close_matches(name, known, 1)
            raise UserError(f"there is no setting {name!r}" + (f"; did you mean {hint[0]}?" if hint else ""))
    nested = {
        part: replace(getattr(chosen, part), **{k: v for k, v in changes.items() if k in of})
        for part, of in names.items()
    }
    return replace(chosen, **nested, **{k: v for k, v in changes.items() if k in own})
