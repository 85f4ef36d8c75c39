"""Every setting of a model with its meaning and default, and the named presets."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

from cr5._typing import Intercept
from cr5.errors import Cr5Error
from cr5.features.tfidf import Weighting
from cr5.features.tokeniser import Tokeniser


@dataclass(frozen=True)
class Settings:
    """All settings of a model; together with the documents they determine it."""

    preset: str = "default"
    rank: int = field(
        default=300,
        metadata={
            "meaning": "The dimensions of a vector; at most one less than the concepts that two languages share. "
            "Lower it for a small corpus, or to save memory and time."
        },
    )
    ridge: float | Literal["auto"] = field(
        default="auto",
        metadata={
            "meaning": 'The weight of the penalty on large maps. "auto" selects it by retrieval of held-out concepts; '
            "give a number to save the time of the selection, or if there are fewer than 40 shared concepts."
        },
    )
    intercept: Intercept = field(
        default="language",
        metadata={
            "meaning": '"language" subtracts the mean document of each language, "shared" one intercept for all, as in '
            "the paper."
        },
    )
    metric: Literal["orthonormal", "signal"] = field(
        default="signal",
        metadata={
            "meaning": '"orthonormal": maps with orthonormal columns, as in the paper. "signal": eigenvector i is '
            "scaled by sqrt(theta / (m - theta)), the ratio of what the documents of a concept (at most m) share along "
            "it to what they do not."
        },
    )
    tol: float = field(
        default=0.05,
        metadata={"meaning": "The relative residual at which the solver stops; lower it for a more exact solution."},
    )
    max_steps: int = field(
        default=100, metadata={"meaning": "Steps of the solver at most; raise it if a fit does not converge."}
    )
    seed: int = field(
        default=0, metadata={"meaning": "The seed of the solver's start and of the concepts held out for the ridge."}
    )
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
                raise Cr5Error(f"`{name}={value}` must be a whole number of at least {low}")
        for part, name in ((self, "tol"), (self.weighting, "idf_power")):
            value = getattr(part, name)
            if isinstance(value, str) or not 0 <= value < math.inf:
                raise Cr5Error(f"`{name}={value}` must be a number of at least 0")
        if self.ridge != "auto" and (isinstance(self.ridge, str) or not 0 < self.ridge < math.inf):
            raise Cr5Error(f'`ridge={self.ridge}` must be a number above 0, or "auto"')
        for part, name, allowed in (
            (self, "intercept", ("language", "shared")),
            (self, "metric", ("orthonormal", "signal")),
            (self.weighting, "tf", ("raw", "log")),
            (self.weighting, "idf", ("plain", "smooth")),
        ):
            if getattr(part, name) not in allowed:
                raise Cr5Error(f"`{name}={getattr(part, name)!r}` must be one of {', '.join(allowed)}")

    def to_json(self) -> dict[str, Any]:
        """Plain values, as a saved model holds them."""
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
    """Whether a value has the type of its default; the allowed values of a string are checked later."""
    if isinstance(default, str):
        return True
    if isinstance(value, bool) or isinstance(default, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    return isinstance(value, int if isinstance(default, int) else int | float)


def make_settings(preset: str = "default", **changes: Any) -> Settings:
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
            raise Cr5Error(f"`{name}={changes[name]!r}` must be {_KINDS[type(default)]}")
    nested = {
        part: replace(getattr(chosen, part), **{k: v for k, v in changes.items() if k in of})
        for part, of in names.items()
    }
    return replace(chosen, **nested, **{k: v for k, v in changes.items() if k in own})


class SettingRow(NamedTuple):
    """One setting for a reference table; ``paper`` is its value in the preset of the paper, "wsdm19"."""

    name: str
    default: str
    paper: str
    meaning: str


def setting_rows() -> Iterator[SettingRow]:
    """Every setting that ``make_settings`` takes, in the order of their definition."""
    default, paper = PRESETS["default"], PRESETS["wsdm19"]
    for ours, theirs in (
        (default, paper),
        (default.weighting, paper.weighting),
        (default.tokeniser, paper.tokeniser),
    ):
        for each in fields(ours):
            if meaning := each.metadata.get("meaning"):
                yield SettingRow(each.name, repr(getattr(ours, each.name)), repr(getattr(theirs, each.name)), meaning)
