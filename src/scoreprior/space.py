"""Hyper-parameter spaces: what a tuner may vary in a method's config, and within which range.

A method carries `space`, a dict from setting to `Range` or `Choice`. A dotted name reaches into a nested config:
`override(config, {"training.learning_rate": 1e-3})`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np

from scoreprior._suggestions import did_you_mean

Config = TypeVar("Config")


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, uniform or uniform in the logarithm; whole ones if both ends are ints."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not (self.low <= self.high and (self.low > 0 or not self.log)):
            raise ValueError(f"A range goes from low to high, and from above 0 if logarithmic, not {self}.")

    def sample(self, rng: np.random.Generator) -> float:
        """One value."""
        whole = isinstance(self.low, int) and isinstance(self.high, int)
        low, high = self.low, self.high + whole
        value = math.exp(rng.uniform(math.log(low), math.log(high))) if self.log else rng.uniform(low, high)
        return min(int(value), int(self.high)) if whole else float(value)


@dataclass(frozen=True)
class Choice:
    """One of a few options."""

    options: tuple[Any, ...]

    def sample(self, rng: np.random.Generator) -> Any:
        """One option."""
        return self.options[int(rng.integers(len(self.options)))]


Space: TypeAlias = Mapping[str, Range | Choice]


def sample(space: Space, rng: np.random.Generator) -> dict[str, Any]:
    """Random values of all settings."""
    return {name: dimension.sample(rng) for name, dimension in space.items()}


def override(config: Config, values: Mapping[str, Any]) -> Config:
    """The config with some settings replaced; "a.b" is setting b of the config held by setting a.

    Where setting a holds several configs, "a.0.b" is that of the first.
    """
    for name, value in values.items():
        head, _, rest = name.partition(".")
        if isinstance(config, tuple) and head.isdecimal() and int(head) < len(config):
            new = override(config[int(head)], {rest: value}) if rest else value
            config = (*config[: int(head)], new, *config[int(head) + 1 :])  # type: ignore[assignment]
            continue
        known = [field.name for field in fields(config) if field.init] if is_dataclass(config) else []
        if head not in known:
            listed = f"it has {', '.join(known)}." if known else "it has none."
            raise ValueError(f"{type(config).__name__} has no setting {head!r}; {did_you_mean(head, known, listed)}")
        config = replace(config, **{head: override(getattr(config, head), {rest: value}) if rest else value})  # type: ignore[type-var]
    return config
