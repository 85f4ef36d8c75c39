"""Every setting of a model with its meaning and default, and the named presets."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from cr5._typing import Intercept
from cr5.errors import Cr5Error, Cr5TypeError
from cr5.features import setting
from cr5.features.tfidf import NO_LIMIT, Weighting
from cr5.features.tokeniser import Tokeniser

Ridge: TypeAlias = float | Literal["auto"]
Weight: TypeAlias = float | Literal["auto"]
Metric: TypeAlias = Literal["orthonormal", "signal"]
Rank: TypeAlias = int | Literal["auto"]
DEFAULT_RANK = 300

# Settings that say how texts are read, weighted or compared after the fit, too; the others concern the fit alone.
ENCODING_SETTINGS = (
    "strings_weight", "tf", "idf", "idf_power", "subwords", "normalise", "lowercase", "segment", "segment_by",
    "pretokenised",
)  # fmt: skip
# Of settings whose least value is not 0; None for one that must be above 0.
_MINIMA = {"rank": 1, "ridge": None, "max_steps": 1, "max_words": 1}

# What other libraries call settings.
_OTHER_NAMES = {
    "alpha": "ridge", "dim": "rank", "dimensions": "rank", "max_features": "max_words", "max_iter": "max_steps",
    "min_df": "min_documents", "n_components": "rank", "random_state": "seed", "vector_size": "rank",
}  # fmt: skip


def _check(annotation: Any, value: Any, minimum: int | None) -> tuple[bool, str]:
    """Whether a value is one that its annotation allows, and which those are, in words."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if annotation in (Rank, Ridge, Weight):
        is_valid, requirement = _check(get_args(annotation)[0], value, minimum)
        return is_valid or value == "auto", f'{requirement}, or "auto"'
    if allowed := get_args(annotation):
        return value in allowed, f"one of {', '.join(allowed)}"
    if annotation is bool:
        return isinstance(value, bool), "true or false"
    if annotation is int:
        is_number = is_number and isinstance(value, int)
    type_name = "a whole number" if annotation is int else "a number"
    if minimum is None:
        return is_number and 0 < value < math.inf, f"{type_name} above 0"
    return is_number and minimum <= value < math.inf, f"{type_name} of at least {minimum}"


@dataclass(frozen=True)
class Settings:
    """All settings of a model; together with the documents they determine it."""

    preset: str = "default"
    rank: Rank = setting(  # noqa: RUF009
        "auto",
        f'The dimensions of a vector. "auto" is {DEFAULT_RANK}, or as many as a small corpus allows: one less than the '
        "concepts that two languages share and that are not held out for the ridge, no more than all languages have "
        "words, and than the documents span dimensions. Lower it to save memory and time.",
    )
    ridge: Ridge = setting(  # noqa: RUF009
        "auto",
        'The weight of the penalty on large maps. "auto" selects it by retrieval of held-out concepts, or takes 3 if '
        "there are fewer than 40 shared ones; give a number to save the time of the selection.",
    )
    intercept: Intercept = setting(  # noqa: RUF009
        "language",
        '"language": centre each language separately, also when encoding; "shared": centre all documents together '
        "in training only, as in the paper. Change it only to repeat the paper.",
    )
    metric: Metric = setting(  # noqa: RUF009
        "signal",
        '"orthonormal": maps with orthonormal columns, as in the paper. "signal": eigenvector i is scaled by '
        "sqrt(theta / (m - theta)), m the largest number of documents of a concept: the square root of its "
        "signal-to-noise ratio. Change it only to repeat the paper.",
    )
    tol: float = setting(
        0.05,
        "The relative residual at which the solver stops; lower it for a more exact solution, raise it to 0.1 to fit "
        "in two thirds of the time, at a loss of about a point of P@1. Rounding errors limit it to about 0.0001.",
    )
    max_steps: int = setting(100, "Maximum number of solver steps; raise it if a fit does not converge.")
    strings_weight: Weight = setting(  # noqa: RUF009
        "auto",
        "The weight of the strings view relative to the vectors where texts are compared by all views. "
        '"auto" chooses it by retrieval of the concepts held out for the ridge; without these, it follows from the '
        "number of shared concepts. It changes no vector. Give a number if the texts that you compare differ in kind "
        "from the training documents; 0 switches the view off.",
    )
    seed: int = setting(
        0,
        "The seed of the solver's start and of the concepts held out for the ridge; change it to see how much "
        "depends on chance.",
    )
    weighting: Weighting = field(default_factory=Weighting)
    tokeniser: Tokeniser = field(default_factory=Tokeniser)

    def __post_init__(self) -> None:
        minima = _MINIMA | {"max_unique": self.weighting.min_unique}
        for part in self._parts:
            for field_ in fields(part):
                if "meaning" in field_.metadata:
                    value = getattr(part, field_.name)
                    is_valid, requirement = _check(field_.type, value, minima.get(field_.name, 0))
                    if not is_valid:
                        of_minimum = (
                            " (`min_unique`)" if field_.name == "max_unique" and self.weighting.min_unique > 1 else ""
                        )
                        shown = repr(value).removesuffix(".0") if isinstance(value, float) else repr(value)
                        raise Cr5Error(f"`{field_.name}={shown}` must be {requirement}{of_minimum}")

    @property
    def _parts(self) -> tuple["Settings", Weighting, Tokeniser]:
        """The objects whose fields are settings."""
        return self, self.weighting, self.tokeniser

    def value(self, name: str) -> Any:
        """The value of a setting by its name."""
        return next(getattr(part, name) for part in self._parts if hasattr(part, name))

    @property
    def nominal_rank(self) -> int:
        """The rank as a number; "auto" is the default rank, which training lowers for a small corpus."""
        return DEFAULT_RANK if self.rank == "auto" else self.rank

    def to_json(self) -> dict[str, Any]:
        """Plain values, as a saved model holds them."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Settings":
        """The settings that ``to_json`` wrote; earlier versions segmented by language and had no n-grams."""
        tokeniser = Tokeniser(**({"segment_by": "language"} | values["tokeniser"]))
        weighting = Weighting(**({"subwords": False} | values["weighting"]))
        parts = {"weighting": weighting, "tokeniser": tokeniser}
        return cls(**(values | parts))


def without_groups(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What ``to_json`` returned, with the settings of the weighting and the tokeniser among the others."""
    parts = [value if isinstance(value, Mapping) else {name: value} for name, value in settings.items()]
    return {name: value for part in parts for name, value in part.items()}


PRESETS = {
    "default": Settings(),
    "wsdm19": Settings(
        preset="wsdm19",
        intercept="shared",
        metric="orthonormal",
        weighting=Weighting(tf="raw", idf="plain", idf_power=1.0, min_unique=50, max_unique=1_000, subwords=False),
    ),
}


def make_settings(preset: str = "default", **changes: Any) -> Settings:
    """A preset with some settings changed; those of the weighting and tokeniser are named directly.

    A setting that is None is that of the preset. NumPy's numbers are taken as Python's, and 100.0 as the whole number
    that it is, as grids of ``np.linspace`` have it.
    """
    if not isinstance(preset, str) or preset not in PRESETS:
        others = "" if isinstance(preset, str) else "; name other settings, as in `rank=300`"
        raise Cr5Error(f"there is no preset {preset!r}; the presets are {', '.join(PRESETS)}{others}")
    base = PRESETS[preset]
    nested_names = {part: {f.name for f in fields(getattr(base, part))} for part in ("weighting", "tokeniser")}
    top_names = {f.name for f in fields(Settings)} - {"preset", *nested_names}
    known = top_names.union(*nested_names.values())
    for name in changes:
        if name not in known:
            hint = [_OTHER_NAMES[name]] if name in _OTHER_NAMES else get_close_matches(name, known, 1)
            way_out = f"; did you mean {hint[0]}?" if hint else f"; the settings are {', '.join(sorted(known))}"
            raise Cr5TypeError(f"there is no setting {name!r}" + way_out)
    types = {field_.name: field_.type for part in base._parts for field_ in fields(part)}
    given = {name: _plain(value, types[name]) for name, value in changes.items() if value is not None}
    nested = {
        part: replace(getattr(base, part), **{name: given[name] for name in given if name in names})
        for part, names in nested_names.items()
    }
    return replace(base, **nested, **{name: given[name] for name in given if name in top_names})


def _plain(value: Any, annotation: Any) -> Any:
    """A value as Python has it: NumPy's as a plain one, and a whole number as an int where the setting is one."""
    value = value.item() if isinstance(value, np.generic) else value
    is_whole = annotation in (int, Rank) and isinstance(value, float) and value.is_integer()
    return int(value) if is_whole else value


def changed_settings(settings: Settings) -> dict[str, Any]:
    """The settings that differ from those of their preset, by name, as ``make_settings`` takes them."""
    base = PRESETS[settings.preset]
    names = [row.name for row in setting_rows()]
    return {name: settings.value(name) for name in names if settings.value(name) != base.value(name)}


def waiting_settings(new: Settings, fitted: Settings) -> str:
    """A message about settings of encoding that differ from those of a fitted model; empty if there are none."""
    names = [name for name in ENCODING_SETTINGS if new.value(name) != fitted.value(name)]
    wanted, current = (", ".join(f"`{name}={settings.value(name)!r}`" for name in names) for settings in (new, fitted))
    if not names:
        return ""
    return f"{wanted} will apply from the next fit on; until then the model encodes and compares with {current}"


class SettingRow(NamedTuple):
    """One setting for a reference table; ``paper`` is its value in the preset of the paper, "wsdm19"."""

    name: str
    default: str
    paper: str
    meaning: str


def setting_rows() -> Iterator[SettingRow]:
    """Every setting that ``make_settings`` takes, in the order of their definition."""
    default, paper = PRESETS["default"], PRESETS["wsdm19"]
    for part in default._parts:
        for field_ in fields(part):
            if meaning := field_.metadata.get("meaning"):
                name = field_.name
                yield SettingRow(name, _shown(default.value(name)), _shown(paper.value(name)), meaning)


def _shown(value: Any) -> str:
    return "no limit" if value == NO_LIMIT else repr(value)


def settings_docstring() -> str:
    """The settings in the format of a docstring, for the class that takes them as keywords."""
    lines = ["Parameters", "----------"]
    for row in setting_rows():
        paper = "" if row.paper == row.default else f"; {row.paper} in the preset wsdm19"
        lines += [f"{row.name}", f"    {row.meaning} Default: {row.default}{paper}."]
    return "\n".join(lines)
